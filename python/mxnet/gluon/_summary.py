"""The table that Block.summary() prints."""
from .. import _core
from .._core import NDArray

_ROW = "{:>20}  {:>42} {:>15}"


def _shapes(value):
    if isinstance(value, NDArray):
        return str(value.shape)
    if isinstance(value, (list, tuple)):
        return ", ".join(_shapes(item) for item in value)
    return "-"


def summarize(block, inputs):
    """Runs the block once with hooks on every child and counts parameters."""
    rows, handles, seen = [], [], set()
    totals = {"all": 0, "trainable": 0, "once": 0}

    def count(part):
        own = 0
        for parameter in part.params.values():
            size = 1
            for dim in parameter.shape:
                size *= dim
            own += size
            totals["trainable"] += size if parameter.grad_req != "null" else 0
            totals["once"] += size if parameter.name not in seen else 0
            seen.add(parameter.name)
        totals["all"] += own
        return own

    def watch(part):
        if part._children and hasattr(part, "add"):
            return

        def hook(hooked, _, outputs):
            rows.append((f"{type(hooked).__name__}-{len(rows) + 1}", _shapes(outputs), count(hooked)))
        handles.append(part.register_forward_hook(hook))

    try:
        block.apply(watch)
        _core.pause_hybrid(True)  # a plan would not call the hooks
        block(*inputs)
    finally:
        _core.pause_hybrid(False)
        for handle in handles:
            handle.detach()
    lines = ["-" * 80, _ROW.format("Layer (type)", "Output Shape", "Param #"), "=" * 80,
             _ROW.format("Input", _shapes(inputs), 0)]
    lines += [_ROW.format(*row) for row in rows]
    # programs read these lines
    lines += ["=" * 80, "Parameters in forward computation graph, duplicate included",
              f"   Total params: {totals['all']}", f"   Trainable params: {totals['trainable']}",
              f"   Non-trainable params: {totals['all'] - totals['trainable']}",
              f"Shared params in forward computation graph: {totals['all'] - totals['once']}",
              f"Unique parameters in model: {totals['once']}", "-" * 80]
    return "\n".join(lines)
