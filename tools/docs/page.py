"""The listings of a page: what docs/writing.md describes, read from Markdown.

A page is a list of lines; a listing is a fenced block in one of the languages that are run, with the output block that
follows it, if there is one.

SPDX-License-Identifier: Apache-2.0
"""
import re
from dataclasses import dataclass, field

RUN = ("python", "c", "console")
FENCE = re.compile(r"^(\s*)```(\S.*)?$")
FIGURE = re.compile(r"!\[[^\]]*\]\((figures/[^)\s]+\.svg)\)|\{figure\}\s+(figures/\S+\.svg)")
QUICK_PYTHON = re.compile(r"^(?P<head>[^#\n]*?=\s*)(?P<full>[^=\n]+?)\s*# quick: (?P<quick>.+)$", re.M)
QUICK_C = re.compile(r"^(?P<head>.*?=\s*)(?P<full>[^=;}\n]+?)(?P<tail>\s*[;}].*?)\s*/\* quick: (?P<quick>.+?) \*/", re.M)
QUICK_CONSOLE = re.compile(r"^\$ (?P<full>.*?)\s*# quick: (?P<quick>.+)$", re.M)


@dataclass
class Block:
    """The lines between two fences."""
    language: str
    words: set  # of the first line, after the language: "raises", "top" ...
    options: dict  # of the first line: file=name.c
    text: str
    first: int  # number of the first line of the text, from 1
    last: int  # number of the line after the text
    indent: str = ""


@dataclass
class Listing(Block):
    output: Block = None  # what the page shows as its output
    before: str = ""  # everything between the previous listing and this one
    printed: str = field(default=None, compare=False)  # what the run printed


def blocks(lines):
    """All fenced blocks, in order."""
    i = 0
    while i < len(lines):
        opening = FENCE.match(lines[i])
        i += 1
        if not opening or not opening[2]:
            continue
        start, indent = i, opening[1]
        while i < len(lines) and lines[i].strip() != "```":
            i += 1
        language, *words = opening[2].split()
        options = dict(word.split("=", 1) for word in words if "=" in word)
        text = "\n".join(line[len(indent):] for line in lines[start:i])
        yield Block(language, {word for word in words if "=" not in word}, options, text, start + 1, i + 1, indent)
        i += 1


def idioms(lines):
    """Listings in tables: the code in the last column of a table whose heading there is Gluon.  Their output is not shown."""
    inside = fenced = False
    for number, line in enumerate(lines, 1):
        fenced ^= line.lstrip().startswith("```")
        cells = [cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]] if line.startswith("|") and not fenced else []
        if not cells:
            inside = False
        elif cells[-1] == "Gluon":
            inside = True
        elif inside and cells[-1].startswith("`"):
            code = "\n".join(re.findall(r"`([^`]+)`", cells[-1])).replace("\\|", "|")
            yield Listing("python", {"idiom"}, {}, code, number, number)


def listings(lines):
    """The blocks that are run, each with the output block that follows it, and the idioms of tables."""
    return sorted([*_fenced_listings(lines), *idioms(lines)], key=lambda one: one.first)


def _fenced_listings(lines):
    found = []
    for block in blocks(lines):
        if block.language in RUN or "file" in block.options:
            found.append(Listing(**vars(block)))
        elif block.language == "output" and found:
            if found[-1].output is None:
                found[-1].output = block
            else:
                raise ValueError(f"line {block.first}: this output block follows no listing")
    return found


def figures(text):
    """Paths of the figures that a page shows."""
    return [a or b for a, b in FIGURE.findall(text)]


def quick(listing):
    """(text with the quick settings, whether there are any)"""
    if listing.language == "python":
        text, count = QUICK_PYTHON.subn(lambda m: m["head"] + m["quick"], listing.text)
    elif listing.language == "c":
        text, count = QUICK_C.subn(lambda m: m["head"] + m["quick"] + m["tail"], listing.text)
    else:
        text, count = QUICK_CONSOLE.subn(lambda m: "$ " + m["quick"], listing.text)
    return text, count > 0


def without_quick(text):
    """A page as readers see it: without the quick settings, and without the words that only the runner reads."""
    text = re.sub(r"^(\s*```(?:python|c|console|output|\w+(?= file=))) [^\n{]*$", r"\1", text, flags=re.M)
    text = re.sub(r"[ \t]*# quick: .+$", "", text, flags=re.M)
    return re.sub(r"[ \t]*/\* quick: .+? \*/", "", text)


# ---- tabs ----------------------------------------------------------------------------------------------------------

def _spans(lines):
    """[(language, first line, end)] of listings with their outputs, counted from 0, fences included."""
    return [(one.language, one.first - 2, (one.output or one).last) for one in _fenced_listings(lines) if not one.indent]


def _tab(title, lines):
    return [f":::{{tab-item}} {title}", f":sync: {title.lower()}", *lines, ":::"]


def with_tabs(text):
    """A Python listing and the C listings right after it become two tabs."""
    lines = text.splitlines()
    spans = _spans(lines)
    for i in reversed([i for i, (language, _, _) in enumerate(spans) if language == "python"]):
        _, start, middle = spans[i]
        end = middle
        for language, begin, stop in spans[i + 1:]:
            if language != "c" or "".join(lines[end:begin]).strip():
                break
            end = stop
        if end > middle:
            tabs = _tab("Python", lines[start:middle]) + _tab("C", lines[middle:end])
            lines[start:end] = ["::::{tab-set}", ":sync-group: language", *tabs, "::::"]
    return "\n".join(lines) + "\n"
