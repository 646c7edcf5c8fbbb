"""A page as a notebook: Python, files and commands become code cells with the outputs of the page, the rest (text, C
statements) Markdown cells.

SPDX-License-Identifier: Apache-2.0
"""
import json
import re

import page as pages


def _clean(lines):
    """Markdown that notebooks show: without directives of the site."""
    text = "\n".join(lines)
    text = re.sub(r"^\s*:{3,}.*$|^\(\w[\w-]*\)=$", "", text, flags=re.M)
    text = re.sub(r"^:[a-z-]+:.*$", "", text, flags=re.M)
    return re.sub(r"\n{3,}", "\n\n", text).strip()


def _is_code(listing):
    """Whether a notebook can run it: Python, files of any language, commands."""
    return not {"shown", "idiom"} & listing.words and (listing.language in ("python", "console") or "file" in listing.options)


def _source(listing):
    """What the cell contains: files are written, commands begin with an exclamation mark."""
    text = pages.without_quick(listing.text)
    if "file" in listing.options:
        return f"%%writefile {listing.options['file']}\n{text}"
    if listing.language == "console":
        return "\n".join("!" + line[2:] for line in text.splitlines() if line.startswith("$ "))
    return text


def _outputs(listing):
    if listing.language == "console":
        text = "\n".join(line for line in listing.text.splitlines() if not line.startswith("$ "))
    else:
        text = listing.output.text if listing.output and "raises" not in listing.words else ""
    return [{"output_type": "stream", "name": "stdout", "text": text + "\n"}] if text else []


def _code(listing):
    may_fail = "raises" in listing.words or "needs" in listing.options  # what it needs may be missing there
    tags = {"tags": ["raises-exception"]} if may_fail else {}
    return {"cell_type": "code", "metadata": tags, "execution_count": None, "outputs": _outputs(listing), "source": _source(listing)}


def notebook(text):
    """The .ipynb file (text) of a page (text); None if it has no Python."""
    lines, cells, start = text.splitlines(), [], 0
    code = [one for one in pages.listings(lines) if _is_code(one)]
    if not any(one.language == "python" for one in code):
        return None
    for listing in code + [None]:
        words = _clean(pages.without_quick("\n".join(lines[start:listing.first - 2 if listing else None])).splitlines())
        if words:
            cells.append({"cell_type": "markdown", "metadata": {}, "source": words})
        if listing:
            cells.append(_code(listing))
            start = (listing.output or listing).last
    for i, cell in enumerate(cells):
        cell["id"] = f"cell{i}"
    kernel = {"kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"}}
    return json.dumps({"cells": cells, "metadata": kernel, "nbformat": 4, "nbformat_minor": 5}, indent=1)
