"""A page as a notebook: text and C become Markdown cells, Python becomes code cells with the outputs of the page.

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


def _outputs(listing):
    if not listing.output or "raises" in listing.words:
        return []
    return [{"output_type": "stream", "name": "stdout", "text": listing.output.text + "\n"}]


def notebook(text):
    """The .ipynb file (text) of a page (text); None if it has no Python."""
    lines, cells, start = text.splitlines(), [], 0
    programs = [one for one in pages.listings(lines) if one.language == "python" and not {"shown", "idiom"} & one.words]
    for listing in programs:
        words = _clean(pages.without_quick("\n".join(lines[start:listing.first - 2])).splitlines())
        if words:
            cells.append({"cell_type": "markdown", "metadata": {}, "source": words})
        tags = {"tags": ["raises-exception"]} if "raises" in listing.words else {}
        cells.append({"cell_type": "code", "metadata": tags, "execution_count": None, "outputs": _outputs(listing),
                      "source": pages.without_quick(listing.text)})
        start = (listing.output or listing).last
    words = _clean(pages.without_quick("\n".join(lines[start:])).splitlines())
    if words:
        cells.append({"cell_type": "markdown", "metadata": {}, "source": words})
    if not programs:
        return None
    for i, cell in enumerate(cells):
        cell["id"] = f"cell{i}"
    kernel = {"kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"}}
    return json.dumps({"cells": cells, "metadata": kernel, "nbformat": 4, "nbformat_minor": 5}, indent=1)
