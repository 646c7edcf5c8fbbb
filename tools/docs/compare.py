"""Whether what a run printed is what the page shows: text must be equal, numbers may differ a little.

SPDX-License-Identifier: Apache-2.0
"""
import re

NUMBER = re.compile(r"(?<![\w.])[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?(?![\w])")
TOLERANCE = 0.01  # relative; numbers differ between instruction levels after a training


def _split(text):
    """(text without numbers and alignment, the numbers)"""
    bare = re.sub(r"\s*([\[\](),])\s*", r"\1", NUMBER.sub("#", text))  # arrays align their columns
    return " ".join(bare.split()), NUMBER.findall(text)


def _unit(text):
    """One unit in the last digit: '0.512' -> 0.001; 0 for an integer."""
    mantissa, _, exponent = text.lower().partition("e")
    if "." not in mantissa:
        return 0.0
    return 10.0 ** (int(exponent or 0) - len(mantissa.partition(".")[2]))


def _close(wanted, got, tolerance):
    if wanted == got:
        return True
    is_integer = not any(c in wanted + got for c in ".e")
    allowed = 0.0 if is_integer and tolerance == TOLERANCE else tolerance
    a, b = float(wanted), float(got)
    return abs(a - b) <= allowed * max(abs(a), abs(b)) + 1.01 * max(_unit(wanted), _unit(got)) + (
        1e-5 if not is_integer else 0)


def difference(wanted, got, words=(), options=None):
    """None if they agree, else a sentence."""
    (text_wanted, numbers_wanted), (text_got, numbers_got) = _split(wanted), _split(got)
    if text_wanted != text_got:
        return "the text differs"
    if "varies" in words:
        return None
    tolerance = float((options or {}).get("tolerance", TOLERANCE))
    for a, b in zip(numbers_wanted, numbers_got):
        if not _close(a, b, tolerance):
            return f"the page says {a}, the run {b}"
    return None


def strange_line(wanted, got):
    """With quick settings: a printed line that looks like none of the page's, numbers aside; None if there is none."""
    known = {_split(line)[0] for line in wanted.splitlines()}
    return next((line for line in got.splitlines() if _split(line)[0] not in known), None)


def drawn(svg):
    """What a figure shows, whatever the numbers: its kinds of elements, its words."""
    words = {word for word in re.findall(r"<text[^>]*>([^<]*)</text>", svg) if not NUMBER.fullmatch(word)}
    return sorted(set(re.findall(r"<(\w+)", svg))), sorted(words)
