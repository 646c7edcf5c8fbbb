#!/usr/bin/env python3
"""Writes src/base/unicode_ranges.h: which characters of Unicode are letters and which are numbers.

    tools/unicode.py > src/base/unicode_ranges.h

SPDX-License-Identifier: Apache-2.0
"""
import sys
import textwrap
import unicodedata


def ranges(category):
    """First and last of the characters of a category, one after another."""
    found = []
    for code in range(sys.maxunicode + 1):
        if unicodedata.category(chr(code)).startswith(category):
            if found and found[-1][1] == code - 1:
                found[-1][1] = code
            else:
                found.append([code, code])
    return found


def table(name, category):
    text = ", ".join(f"{{0x{first:x}, 0x{last:x}}}" for first, last in ranges(category))
    return f"static const uint32_t {name}[][2] = {{\n{textwrap.fill(text, 116, initial_indent='    ', subsequent_indent='    ')}}};\n"


print(f"/* Characters of Unicode {unicodedata.unidata_version}, first and last of each range, by tools/unicode.py.\n"
      " *\n * SPDX-License-Identifier: Apache-2.0 */\n"
      "#ifndef MX_BASE_UNICODE_RANGES_H\n#define MX_BASE_UNICODE_RANGES_H\n\n#include <stdint.h>\n")
print(table("letters", "L"))
print(table("numbers", "N") + "\n#endif")
