"""Figures of the book as small SVG files: charts, images, matrices.  It needs nothing but Python.

    draw.chart("figures/loss.svg", lines={"train": losses}, x="epoch", y="loss")
    draw.images("figures/clothes.svg", images, titles=names)
    draw.matrix("figures/confusion.svg", counts, rows=names, columns=names)

Values may be lists, NumPy arrays or NDArrays.  Lines, axes and text use the colour of the text around the figure, so that
figures fit light and dark pages.

SPDX-License-Identifier: Apache-2.0
"""
import base64
import math
import os
import struct
import zlib
from xml.sax.saxutils import escape

COLOURS = ("#2f7ed8", "#e4572e", "#2a9d5c", "#9b5de5", "#c98a00", "#00a0a8", "#d6459b", "#7a7a7a")
WIDTH, HEIGHT = 560, 320
LEFT, RIGHT, TOP, BOTTOM = 62, 16, 16, 46


def _values(data):
    """A plain list (of lists) of numbers."""
    if hasattr(data, "asnumpy"):
        data = data.asnumpy()
    return data.tolist() if hasattr(data, "tolist") else [_values(one) if hasattr(one, "__len__") else float(one)
                                                           for one in data]


def _number(value):
    return f"{value:.1f}".rstrip("0").rstrip(".")


def _text(x, y, text, anchor="middle", size=12, turn="", weight=""):
    turn = f' transform="rotate(-90 {_number(x)} {_number(y)})"' if turn else ""
    weight = f' font-weight="{weight}"' if weight else ""
    return (f'<text x="{_number(x)}" y="{_number(y)}" text-anchor="{anchor}" font-size="{size}"{turn}{weight}>'
            f"{escape(str(text))}</text>")


def _write(path, width, height, parts, title):
    """A figure that scales with the page but does not become larger than it is drawn."""
    head = (f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_number(width)} {_number(height)}" '
            f'width="{_number(width)}" style="max-width:100%;height:auto" role="img" '
            f'font-family="system-ui, sans-serif" fill="currentColor">')
    os.makedirs(os.path.dirname(path) or ".", exist_ok=True)  # notebooks have no folder of figures yet
    with open(path, "w", encoding="utf-8") as file:
        file.write("\n".join([head, f"<title>{escape(title)}</title>", *parts, "</svg>\n"]))


# ---- scales --------------------------------------------------------------------------------------------------------

def _ticks(low, high, count=5):
    """Round numbers from low to high."""
    step = 10 ** math.floor(math.log10((high - low) / count))
    step *= next(k for k in (1, 2, 2.5, 5, 10) if (high - low) / (step * k) <= count)
    first = math.ceil(low / step - 1e-9)
    return [round((first + i) * step, 12) for i in range(int((high - first * step) / step + 1e-9) + 1)]


class _Scale:
    """Maps numbers to pixels."""

    def __init__(self, values, start, end, log=False, limits=None):
        values = [v for v in values if math.isfinite(v) and (v > 0 or not log)] or [0.0, 1.0]
        low, high = limits or (min(values), max(values))
        if low == high:
            low, high = low - 0.5, high + 0.5
        margin = 0 if limits else 0.04
        self.log, self.start, self.end = log, start, end
        low, high = (math.log10(low), math.log10(high)) if log else (low, high)
        self.low, self.high = low - margin * (high - low), high + margin * (high - low)

    def __call__(self, value):
        value = math.log10(max(value, 1e-300)) if self.log else value
        value = min(max(value, self.low - 9 * (self.high - self.low)), self.high + 9 * (self.high - self.low))
        return self.start + (value - self.low) / (self.high - self.low) * (self.end - self.start)

    def ticks(self):
        """[(pixel, label)]"""
        if self.log:
            powers = range(math.ceil(self.low), math.floor(self.high) + 1)
            if len(powers) >= 2:
                return [(self(10.0 ** p), f"1e{p}" if abs(p) > 3 else f"{10.0 ** p:g}") for p in powers]
            return [(self(10.0 ** p), f"{10.0 ** p:.3g}") for p in _ticks(self.low, self.high)]
        return [(self(t), f"{t:g}") for t in _ticks(self.low, self.high)]


def _axes(xs, ys, x, y):
    bottom, parts = HEIGHT - BOTTOM, []
    for at, label in ys.ticks():
        parts.append(f'<path d="M{LEFT} {_number(at)}H{WIDTH - RIGHT}" stroke="currentColor" stroke-opacity=".15"/>')
        parts.append(_text(LEFT - 7, at + 4, label, "end"))
    for at, label in xs.ticks():
        parts.append(f'<path d="M{_number(at)} {bottom}v5" stroke="currentColor" stroke-opacity=".6"/>')
        parts.append(_text(at, bottom + 19, label))
    parts.append(f'<path d="M{LEFT} {bottom}H{WIDTH - RIGHT}" stroke="currentColor" stroke-opacity=".6"/>')
    parts += [_text((LEFT + WIDTH - RIGHT) / 2, HEIGHT - 8, x)] if x else []
    parts += [_text(15, (TOP + bottom) / 2, y, turn="up")] if y else []
    return parts


# ---- charts --------------------------------------------------------------------------------------------------------

def _series(given):
    """{name: (xs, ys)} of {name: ys} or {name: (xs, ys)}"""
    result = {}
    for name, data in (given or {}).items():
        pair = isinstance(data, tuple) and len(data) == 2
        ys = _values(data[1] if pair else data)
        xs = _values(data[0]) if pair else list(range(1, len(ys) + 1))
        result[name] = (xs, ys)
    return result


def _legend(names, drawn, ink="currentColor"):
    """Names with their colours, below each other at the top right."""
    parts, at = [f'<g fill="{ink}">'], TOP + 10
    for i, name in enumerate(names):
        if not name:
            continue
        right = WIDTH - RIGHT - 6
        parts.append(_text(right - 18, at + 4, name, "end"))
        colour = COLOURS[i % len(COLOURS)]
        parts.append(f'<path d="M{right - 14} {at}h14" stroke="{colour}" stroke-width="3"/>' if drawn[i] == "line" else
                     f'<circle cx="{right - 7}" cy="{at}" r="4" fill="{colour}"/>')
        at += 18
    return [*parts, "</g>"]


def chart(path, lines=None, points=None, bars=None, x="", y="", log=False, limits=None, x_limits=None, background=None):
    """Lines, points and bars by name: {name: ys} or {name: (xs, ys)}.

    log: a logarithmic vertical axis; limits, x_limits: (low, high) of the axes; background: an image (rows, columns, 3) in
    0..1 that fills the chart, for decision regions.
    """
    lines, points, bars = _series(lines), _series(points), _series(bars)
    every = [*lines.values(), *points.values(), *bars.values()]
    bottom = HEIGHT - BOTTOM
    width = 0.5 if bars else 0
    xs = _Scale([v + d for one in every for v in one[0] for d in (-width, width)], LEFT, WIDTH - RIGHT, limits=x_limits)
    lowest = [0.0] if bars else []
    ys = _Scale([v for one in every for v in one[1]] + lowest, bottom, TOP, log, limits)
    parts = [f'<clipPath id="area"><rect x="{LEFT}" y="{TOP}" width="{WIDTH - LEFT - RIGHT}" height="{bottom - TOP}"/></clipPath>']
    if background is not None:
        parts.append(_image(background, LEFT, TOP, WIDTH - LEFT - RIGHT, bottom - TOP))
    parts += _axes(xs, ys, x, y) + ['<g clip-path="url(#area)">']
    for i, (bx, by) in enumerate(bars.values()):
        share = abs(xs(1) - xs(0)) * 0.8 / len(bars)
        for a, b in zip(bx, by):
            top, left = ys(b), xs(a) - share * len(bars) / 2 + i * share
            parts.append(f'<rect x="{_number(left)}" y="{_number(min(top, ys(0)))}" width="{_number(share)}" '
                         f'height="{_number(abs(ys(0) - top))}" fill="{COLOURS[i]}"/>')
    for i, (px, py) in enumerate(points.values(), len(bars)):
        parts.append(f'<g fill="{COLOURS[i % len(COLOURS)]}" fill-opacity=".75">')
        parts += [f'<circle cx="{_number(xs(a))}" cy="{_number(ys(b))}" r="3"/>' for a, b in zip(px, py)] + ["</g>"]
    for i, (lx, ly) in enumerate(lines.values(), len(bars) + len(points)):
        at = " ".join(f"{_number(xs(a))},{_number(ys(b))}" for a, b in zip(lx, ly) if math.isfinite(b))
        parts.append(f'<polyline points="{at}" fill="none" stroke="{COLOURS[i % len(COLOURS)]}" stroke-width="2"/>')
    names = [*bars, *points, *lines]
    kinds = ["mark"] * (len(bars) + len(points)) + ["line"] * len(lines)
    legend = _legend(names, kinds, "#222" if background is not None else "currentColor")
    _write(path, WIDTH, HEIGHT, parts + ["</g>"] + legend, f"{y} over {x}" if x and y else x or y or "chart")


# ---- images --------------------------------------------------------------------------------------------------------

def _png(rows):
    """The bytes of a PNG file of rows of gray values or of (red, green, blue), in 0..1."""
    colour = isinstance(rows[0][0], (list, tuple))
    height, width = len(rows), len(rows[0])
    pixels = b"".join(b"\0" + bytes(max(0, min(255, round(255 * v))) for p in row for v in (p if colour else (p,))) for row in rows)

    def chunk(kind, data):
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    head = struct.pack(">IIBBBBB", width, height, 8, 2 if colour else 0, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", zlib.compress(pixels, 9)) + chunk(b"IEND", b"")


def png(path, pixels):
    """Writes an image as a PNG file; shapes as in images()."""
    with open(path, "wb") as file:
        file.write(_png(_pixels(pixels)))


def _image(rows, x, y, width, height):
    return (f'<image x="{_number(x)}" y="{_number(y)}" width="{_number(width)}" height="{_number(height)}" '
            f'preserveAspectRatio="none" style="image-rendering:pixelated" '
            f'href="data:image/png;base64,{base64.b64encode(_png(_values(rows))).decode()}"/>')


def _pixels(image):
    """Rows of an image of shape (H, W), (1, H, W), (3, H, W) or (H, W, 3); values above 1 are out of 255."""
    rows = _values(image)
    if isinstance(rows[0][0], list) and len(rows) in (1, 3):
        planes = rows
        rows = planes[0] if len(planes) == 1 else [[list(p) for p in zip(*row)] for row in zip(*planes)]
    flat = [v for row in rows for p in row for v in (p if isinstance(p, list) else (p,))]
    if max(flat) > 1.5:
        rows = [[[v / 255 for v in p] if isinstance(p, list) else p / 255 for p in row] for row in rows]
    return rows


def _box(box, x, y, width, height):
    """A frame around the part (kind, left, top, right, bottom) of an image, in 0..1; the kind chooses the colour."""
    kind, left, top, right, bottom = box
    return (f'<rect x="{_number(x + left * width)}" y="{_number(y + top * height)}" width="{_number((right - left) * width)}" '
            f'height="{_number((bottom - top) * height)}" fill="none" stroke="{COLOURS[int(kind) % len(COLOURS)]}" stroke-width="2"/>')


def images(path, arrays, titles=None, columns=8, size=64, boxes=None):
    """Images in a grid, each with its title below; boxes: for each image a list of (kind, left, top, right, bottom), in 0..1."""
    arrays = [_pixels(one) for one in arrays]
    tallest = max(size * len(rows) / len(rows[0]) for rows in arrays)
    step_x, step_y = size + 10, tallest + (24 if titles else 10)
    columns = min(columns, len(arrays))
    parts = []
    for i, rows in enumerate(arrays):
        x, y = 5 + i % columns * step_x, 5 + i // columns * step_y
        height = size * len(rows) / len(rows[0])
        parts.append(_image(rows, x, y, size, height))
        parts += [_box(box, x, y, size, height) for box in boxes[i]] if boxes else []
        parts += [_text(x + size / 2, y + tallest + 14, titles[i], size=10)] if titles else []
    _write(path, columns * step_x, -(-len(arrays) // columns) * step_y + 5, parts, "images")


def matrix(path, values, rows=None, columns=None, x="", y="", cell=30, numbers=True):
    """A matrix as coloured cells, with its numbers."""
    values = _values(values)
    left, top = 8 + (78 if rows else 0) + (20 if y else 0), 8 + (70 if columns else 0) + (20 if x else 0)
    low, high = min(map(min, values)), max(map(max, values))
    parts = [_text(left + cell * len(values[0]) / 2, 16, x)] if x else []
    parts += [_text(16, top + cell * len(values) / 2, y, turn="up")] if y else []
    for i, row in enumerate(values):
        parts += [_text(left - 6, top + cell * (i + 0.5) + 4, rows[i], "end", 11)] if rows else []
        for j, value in enumerate(row):
            strength = (value - low) / (high - low) if high > low else 0
            if not numbers and strength < 0.01:
                continue
            parts.append(f'<rect x="{left + j * cell}" y="{top + i * cell}" width="{cell}" height="{cell}" fill="{COLOURS[0]}" '
                         f'fill-opacity="{strength:.2f}" stroke="currentColor" stroke-opacity=".1"/>')
            if numbers:
                parts.append(_text(left + (j + 0.5) * cell, top + (i + 0.5) * cell + 4, f"{value:.3g}", size=10))
    parts.append(f'<rect x="{left}" y="{top}" width="{cell * len(values[0])}" height="{cell * len(values)}" fill="none" '
                 'stroke="currentColor" stroke-opacity=".4"/>')
    for j, name in enumerate(columns or []):
        at = left + (j + 0.5) * cell + 4
        parts.append(f'<text x="{at}" y="{top - 6}" font-size="11" transform="rotate(-60 {at} {top - 6})">{escape(str(name))}</text>')
    _write(path, left + cell * len(values[0]) + (40 if columns else 8), top + cell * len(values) + 8, parts, "matrix")
