"""How notebooks show an array: small matrices as a table, everything else as text."""
import html

_MOST = 12  # rows and columns of a table


def _cell(value):
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def _table(array):
    rows = array.tolist() if array.ndim == 2 else [array.tolist()]
    body = "".join("<tr>" + "".join(f"<td>{_cell(value)}</td>" for value in row) + "</tr>" for row in rows)
    return f"<table>{body}</table>"


def repr_html(array):
    """_repr_html_ of NDArray."""
    caption = html.escape(f"{type(array).__name__} {'x'.join(map(str, array.shape))} {array.dtype.__name__} @{array.context}")
    dense = array.stype == "default"
    if dense and array.ndim in (1, 2) and 0 < array.size and max(array.shape) <= _MOST:
        return f"{_table(array)}<div><code>{caption}</code></div>"
    return f"<pre>{html.escape(repr(array).strip())}</pre>" + (f"<div><code>{caption}</code></div>" if dense else "")
