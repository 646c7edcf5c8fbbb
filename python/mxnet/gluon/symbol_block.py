"""SymbolBlock: a block that computes a Symbol."""
import warnings

from .. import _core
from .._core import NDArray, Symbol
from .block import HybridBlock
from .parameter import ParameterDict, load_into

__all__ = ["SymbolBlock"]


def _common_prefix(names):
    """The common prefix of all names."""
    names = list(names)
    if not names:
        return ""
    first, last = min(names), max(names)
    length = 0
    while length < len(first) and length < len(last) and first[length] == last[length]:
        length += 1
    return first[:length]


class SymbolBlock(HybridBlock):
    """A block that computes a Symbol; SymbolBlock.imports() creates one from an exported model.

    inputs are the variables (or their names) that are passed in calls, in order; the other variables are parameters, those of
    `params` if it has them.
    """

    def __init__(self, outputs, inputs, params=None):
        outputs = _grouped(outputs, "outputs")
        names = [_variable_name(x) for x in (inputs if isinstance(inputs, (list, tuple)) else [inputs])]
        known = outputs.list_inputs()
        if names and not any(name in known for name in names):  # then every variable is a parameter
            warnings.warn(f"SymbolBlock: no input ({', '.join(names)}) is a variable of the outputs, which have "
                          f"{', '.join(known)}", stacklevel=2)
        arrays = {}
        if params is not None and not isinstance(params, ParameterDict):
            arrays = {name: value for name, value in params.items() if isinstance(value, NDArray)}
            shared = ParameterDict()
            for name, value in params.items():
                if name not in arrays:
                    shared._add(value)
            params = shared
        self._start_symbol(SymbolBlock, outputs, " ".join(names), params)
        self._outputs = outputs
        for name, value in arrays.items():
            if name in self.params:
                load_into(self.params[name], value, cast_dtype=True, dtype_source="saved")

    forward = _core.Block.forward

    def hybrid_forward(self, F, x, *args, **kwargs):
        """There is none: the symbol defines what the block computes."""
        raise NotImplementedError(f"{self.name} ({type(self).__name__}): a SymbolBlock has no hybrid_forward")

    @staticmethod
    def imports(symbol_file, input_names=None, param_file=None, ctx=None, allow_missing=False, ignore_extra=False):
        """The block of an exported model: imports("net-symbol.json", ["data"], "net-0000.params"), imports("net.onnx")."""
        from .. import symbol
        if str(symbol_file).endswith(".onnx"):
            return SymbolBlock._imports_onnx(symbol_file, ctx)
        names = [input_names] if isinstance(input_names, str) else list(input_names)
        block = SymbolBlock(symbol.load(symbol_file), [symbol.var(name) for name in names])
        if param_file is not None:
            block.collect_params().load(param_file, ctx=ctx, allow_missing=allow_missing, ignore_extra=ignore_extra,
                                        cast_dtype=True, dtype_source="saved")
        return block

    @staticmethod
    def _imports_onnx(path, ctx):
        graph, _, inputs, _ = _core.onnx_read(path, True, [], [])
        names = set(graph.list_inputs())
        block = SymbolBlock(graph, [name for name, _, _ in inputs if name in names])
        if ctx is not None:
            block.reset_ctx(ctx)
        return block

    def reset_ctx(self, ctx):
        """Moves the parameters to other contexts."""
        self.collect_params().reset_ctx(ctx)

    def _collect_params_with_prefix(self, prefix=""):
        """Structural names: those of the parameters without their common prefix."""
        prefix = prefix + "." if prefix else ""
        cut = len(_common_prefix(self.params.keys()))
        return {prefix + name[cut:]: parameter for name, parameter in self.params.items()}

    def __repr__(self):
        return f"{type(self).__name__}(\n{self._outputs!r} : {' '.join(self._outputs.list_outputs())}\n)"


def _grouped(outputs, who):
    if isinstance(outputs, Symbol):
        return outputs
    if isinstance(outputs, (list, tuple)) and outputs and all(isinstance(x, Symbol) for x in outputs):
        return outputs[0] if len(outputs) == 1 else _core.group(outputs)
    raise TypeError(f"SymbolBlock: {who} must be a Symbol or a list of them, got {type(outputs).__name__}")


def _variable_name(x):
    if isinstance(x, str):
        return x
    if not isinstance(x, Symbol):
        raise TypeError(f"SymbolBlock: inputs must be variables, got {type(x).__name__}")
    if x.list_inputs() != [x.name]:
        raise ValueError(f"SymbolBlock: inputs must be variables, '{x.name}' is the result of an operator")
    return x.name
