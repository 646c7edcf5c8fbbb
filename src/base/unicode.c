/* Kinds of characters.  SPDX-License-Identifier: Apache-2.0 */
#include "base/unicode.h"

#include <stdbool.h>

#include "base/json_value.h"
#include "base/unicode_ranges.h"

uint32_t mx_utf8_read(const unsigned char *bytes, size_t left, int *length)
{
    static const unsigned char first_bits[] = {0, 0x7f, 0x1f, 0x0f, 0x07};
    const int n = mx_utf8_length(bytes, left);
    *length = n ? n : 1;
    if (!n)
        return 0x110000u + bytes[0];
    uint32_t code = bytes[0] & first_bits[n];
    for (int i = 1; i < n; i++)
        code = code << 6 | (bytes[i] & 0x3f);
    return code;
}

static bool is_within(uint32_t code, const uint32_t (*ranges)[2], size_t n)
{
    size_t low = 0, high = n; /* the range is not before low, and before high */
    while (low < high) {
        const size_t middle = (low + high) / 2;
        if (ranges[middle][1] < code)
            low = middle + 1;
        else
            high = middle;
    }
    return low < n && ranges[low][0] <= code;
}

static bool is_space(uint32_t code)
{
    return (code >= 9 && code <= 13) || code == ' ' || code == 0x85 || code == 0xa0 || code == 0x1680 ||
           (code >= 0x2000 && code <= 0x200a) || code == 0x2028 || code == 0x2029 || code == 0x202f || code == 0x205f ||
           code == 0x3000;
}

mx_character_kind mx_character_kind_of(uint32_t code)
{
    if (code < 128 && (code | 32) >= 'a' && (code | 32) <= 'z')
        return MX_CHARACTER_LETTER;
    if (is_space(code))
        return MX_CHARACTER_SPACE;
    if (is_within(code, letters, sizeof letters / sizeof *letters))
        return MX_CHARACTER_LETTER;
    return is_within(code, numbers, sizeof numbers / sizeof *numbers) ? MX_CHARACTER_NUMBER : MX_CHARACTER_OTHER;
}
