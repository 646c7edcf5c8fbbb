"""ONNX files: networks for other runtimes, and networks of other frameworks.

    mx.onnx.export_model("net-symbol.json", "net-0000.params", [(1, 3, 224, 224)], onnx_file_path="net.onnx")
    symbol, arg_params, aux_params = mx.onnx.import_model("net.onnx")

The reader and the writer are part of the C library (include/gluon/onnx.h); docs/onnx.md lists the operators.
"""
from ... import _core

__all__ = ["export_model", "get_model_metadata", "get_operator_support", "import_model", "import_to_gluon"]

USUAL_OPSET = 17


def _symbol_and_params(sym, params):
    from ... import ndarray, symbol
    if not isinstance(sym, symbol.Symbol):
        sym = symbol.load(sym)
    if params is None:
        return sym, None
    if isinstance(params, (list, tuple)):  # (arg_params, aux_params)
        params = {name: value for part in params for name, value in part.items()}
    elif not hasattr(params, "items"):
        params = ndarray.load(params)
    return sym, dict(params)


def _inputs(sym, params, shapes, types):
    """Names of the inputs with their shapes and types: variables without a value, in the order of the graph."""
    known = {name.split(":", 1)[-1] for name in params or ()}
    names = [name for name in sym.list_inputs() if name not in known and sym._constant(name) is None]
    if shapes is None:
        return [], [], []
    shapes = [tuple(shape) if shape is not None else None for shape in shapes]
    if len(shapes) < len(names):  # labels of losses have no shape
        names = [name for name in names if not name.endswith("label")]
    if len(shapes) != len(names):
        raise ValueError(f"export_model: {len(shapes)} shapes for {len(names)} inputs: {', '.join(names)}")
    if not isinstance(types, (list, tuple)):
        types = [types] * len(names)
    return names, [tuple(0 if size is None or size == -1 else size for size in shape) for shape in shapes], list(types)


def export_model(sym, params, in_shapes=None, in_types=None, onnx_file_path="model.onnx", verbose=False, dynamic=False,
                 dynamic_input_shapes=None, run_shape_inference=False, input_type=None, input_shape=None,
                 opset_version=None):
    """Writes a network as an ONNX file and returns the path.

    sym and params are a Symbol and a dict, or files.  in_shapes and in_types describe the inputs; with dynamic=True the sizes
    that dynamic_input_shapes gives as None stay open (without it, the first axis of every input).
    """
    sym, params = _symbol_and_params(sym, params)
    shapes = in_shapes if in_shapes is not None else input_shape
    types = in_types if in_types is not None else input_type if input_type is not None else "float32"
    if dynamic and dynamic_input_shapes is not None:
        shapes = dynamic_input_shapes
    elif dynamic and shapes is not None:
        shapes = [(None, *tuple(shape)[1:]) for shape in shapes]
    names, shapes, types = _inputs(sym, params, shapes, types)
    _core.onnx_write(sym, params, onnx_file_path, USUAL_OPSET if opset_version is None else opset_version, names, shapes,
                     types or None)
    return onnx_file_path


def import_model(model_file, input_shapes=None):
    """(symbol, arg_params, aux_params) of an ONNX file.  input_shapes, a dict, gives sizes that the file leaves open."""
    shapes = input_shapes or {}
    symbol, _, _, _ = _core.onnx_read(model_file, True, list(shapes), [tuple(shape) for shape in shapes.values()])
    values = {name: symbol._constant(name) for name in symbol.list_inputs()}
    states = set(symbol.list_auxiliary_states())
    values = {name: value for name, value in values.items() if value is not None}
    return (symbol, {name: value for name, value in values.items() if name not in states},
            {name: value for name, value in values.items() if name in states})


def import_to_gluon(model_file, ctx=None):
    """The network of an ONNX file as a SymbolBlock."""
    from ...gluon import SymbolBlock
    return SymbolBlock.imports(model_file, None, ctx=ctx)


def get_model_metadata(model_file):
    """{"input_tensor_data": [(name, shape)], "output_tensor_data": [(name, shape)]} of an ONNX file."""
    _, _, inputs, outputs = _core.onnx_read(model_file, False, [], [])
    return {"input_tensor_data": [(name, shape) for name, shape, _ in inputs],
            "output_tensor_data": [(name, shape) for name, shape, _ in outputs]}


def get_operator_support(opset_version=None):
    """Names of the operators of this package that can be written."""
    return _core.onnx_operators(True)
