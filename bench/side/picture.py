"""The chart of the comparison: one panel per row, one bar per peer, as SVG text without any library.

Bars of a panel share a linear scale; a bar that would dwarf the others is cut and marked.

    python3 picture.py side.json > side.svg

SPDX-License-Identifier: Apache-2.0
"""
import html
import json
import sys

from workloads import NAMES, ROWS

COLOURS = {"gluon": "#d1495b", "mxnet": "#5b8e7d", "torch": "#edae49", "jax": "#30638e", "numpy": "#8d99ae",
           "onnxruntime": "#7b5ea7", "openvino": "#66a1c9"}
COLUMNS, WIDTH, GAP = 3, 390, 16          # panels side by side, their width, the space between
NAME, BAR, STEP, HEAD = 108, 150, 22, 34  # inside a panel: names, the longest bar, height of a line, of the title
CUT = 12                                  # a bar is at most so many times the shortest one


def text(x, y, words, size=12, colour="#333", anchor="start", weight="normal"):
    return (f'<text x="{x:.1f}" y="{y:.1f}" font-size="{size}" fill="{colour}" text-anchor="{anchor}" '
            f'font-weight="{weight}">{html.escape(words)}</text>')


def bar(x, y, peer, value, shortest, longest, label):
    """A line of a panel: name, bar, number."""
    longest = min(longest, CUT * shortest)
    width = max(2.0, BAR * min(value, longest) / longest)
    parts = [text(x + NAME - 6, y + 12, NAMES[peer], anchor="end", weight="bold" if peer == "gluon" else "normal"),
             f'<rect x="{x + NAME}" y="{y}" width="{width:.1f}" height="{STEP - 6}" rx="2" fill="{COLOURS[peer]}"/>']
    if value > longest:  # two white strokes mark a cut bar
        for shift in (18, 24):
            at = x + NAME + width - shift
            parts.append(f'<path d="M{at:.1f} {y + STEP - 6} l6 -{STEP - 6}" stroke="white" stroke-width="2.5"/>')
    parts.append(text(x + NAME + width + 6, y + 12, label, size=11.5, weight="bold" if peer == "gluon" else "normal"))
    return parts


def panel(x, y, width, height, row, entries):
    """The frame, the title and the bars of one row."""
    from report import amount
    parts = [f'<rect x="{x}" y="{y}" width="{width}" height="{height}" rx="8" fill="#fafafa" stroke="#ddd"/>',
             text(x + 12, y + 22, row.title, size=12.5, weight="bold", colour="#222")]
    values = [entry["median"] for entry in entries]
    ours = next((entry["median"] for entry in entries if entry["peer"] == "gluon"), None)
    for i, entry in enumerate(entries):
        label = amount(row.name, entry["median"])
        if ours and entry["peer"] != "gluon":
            ratio = entry["median"] / ours
            label += f"  ({ratio:.1f}x)" if ratio < 99.5 else f"  ({ratio:.0f}x)"
        parts += bar(x + 4, y + HEAD + i * STEP, entry["peer"], entry["median"], min(values), max(values), label)
    return parts


def chosen(results):
    """Rows that we ran, with the best result of every peer, fastest first."""
    from report import best
    for row in ROWS:
        entries = [best(results, row.name, peer) for peer in NAMES]
        entries = sorted((entry for entry in entries if entry), key=lambda entry: entry["median"])
        if any(entry["peer"] == "gluon" for entry in entries):
            yield row, entries


def draw(facts, results):
    """The complete chart: each panel is added to the shortest column so far."""
    parts, bottoms = [], [70] * COLUMNS
    for row, entries in chosen(results):
        column = bottoms.index(min(bottoms))
        height = HEAD + STEP * len(entries) + 6
        parts += panel(GAP + column * (WIDTH + GAP), bottoms[column], WIDTH, height, row, entries)
        bottoms[column] += height + GAP
    width, bottom = GAP + COLUMNS * (WIDTH + GAP), max(bottoms)
    versions = ", ".join(f"{NAMES[name]} {version.split('-')[0]}" for name, version in facts["versions"].items())
    head = [text(GAP, 32, "Gluon and its peers: time and memory, shorter is better", size=20, weight="bold",
                 colour="#222"),
            text(GAP, 54, f"{facts['cpu']}, {facts['cores']} cores{', without AVX-512' if facts.get('instructions') == 'AVX2' else ''}; medians, best mode and number of threads of each; "
                 f"in brackets: how many times ours", colour="#666")]
    foot = [text(GAP, bottom + 6, versions, size=11, colour="#666")]
    height = bottom + 22
    opening = (f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" '
               f'viewBox="0 0 {width} {height}" font-family="Helvetica, Arial, sans-serif">')
    ground = f'<rect width="{width}" height="{height}" fill="white"/>'
    return "\n".join([opening, ground, *head, *parts, *foot, "</svg>", ""])


if __name__ == "__main__":
    with open(sys.argv[1]) as file:
        data = json.load(file)
    sys.stdout.write(draw(data["machine"], data["results"]))
