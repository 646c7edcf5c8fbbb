"""ONNX files are not supported: every function raises an error."""
from ...error import UnsupportedError

__all__ = ["export_model", "get_model_metadata", "import_model", "import_to_gluon"]


def _refusing(name, instead):
    def refuse(*args, **kwargs):
        raise UnsupportedError(f"contrib.onnx.{name}: ONNX files are not supported; {instead}")
    refuse.__name__ = refuse.__qualname__ = name
    refuse.__doc__ = "Raises an error: ONNX files are not supported."
    return refuse


export_model = _refusing("export_model",
                         "net.export() writes a model that SymbolBlock.imports() and the C library read")
get_model_metadata = _refusing("get_model_metadata", "mx.sym.load() reads graphs")
import_model = _refusing("import_model", "mx.model.load_checkpoint() reads models")
import_to_gluon = _refusing("import_to_gluon", "gluon.SymbolBlock.imports() reads models")
