"""Pieces of Markdown that the pages of the reference share.

SPDX-License-Identifier: Apache-2.0
"""
import re

# In no list of the sidebar, which every page would repeat: pages with hundreds of neighbours have an index of their own.
ORPHAN = "---\norphan: true\n---\n"


def cell(text):
    """Text inside a table: no line breaks, no column separators, nothing that would be markup."""
    text = " ".join(str(text).split()).replace("|", "\\|")
    parts = re.split(r"(`[^`]*`)", text)
    return "".join(part if part.startswith("`") else prose(part) for part in parts)


def prose(text):
    """Plain words as Markdown: stars, underscores, brackets and dollars are characters."""
    return re.sub(r"([*_<\[\]$])", r"\\\1", text)


def table(head, rows):
    if not rows:
        return ""
    lines = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    return "\n".join(lines + ["| " + " | ".join(map(cell, row)) + " |" for row in rows]) + "\n"


def code(language, *lines):
    return "\n".join([f"```{language}", *lines, "```"]) + "\n"


def toctree(names, depth=1, caption=None):
    options = [f":maxdepth: {depth}"] + ([f":caption: {caption}"] if caption else [])
    return "\n".join(["", "```{toctree}", *options, *names, "```"]) + "\n"


def sentence(text):
    """A description as a sentence, escaped."""
    text = text.strip()
    if text.split(" ")[0].isalpha() and text[1:2] != " ":  # not of a formula
        text = text[:1].upper() + text[1:]
    return prose(text if text.endswith((".", "!", "?", ":")) else text + ".")


def wrapped(head, parts, tail, width=110):
    """head + parts, separated by commas, + tail, in lines that are not too long."""
    lines, line = [], head
    for i, part in enumerate(parts):
        piece = ("" if i == 0 else ", ") + part
        if len(line + piece) > width:
            lines.append(line + ",")
            line, piece = "    ", part
        line += piece
    return [*lines, line + tail]


def call(text):
    """name(a, b=(1, 2)) in lines that are not too long."""
    head, _, rest = text.partition("(")
    return wrapped(f"{head}(", re.split(r", (?![^()\[\]{}]*[)\]}])", rest[:-1]) if rest[:-1] else [], ")")
