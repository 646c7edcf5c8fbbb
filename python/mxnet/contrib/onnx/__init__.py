"""Files in ONNX format: not here; every function says so."""
from ...error import UnsupportedError

__all__ = ["export_model", "get_model_metadata", "import_model", "import_to_gluon"]


def _refusing(name, instead):
    def refuse(*args, **kwargs):
        raise UnsupportedError(f"contrib.onnx.{name}: files in ONNX format are neither written nor read; {instead}")
    refuse.__name__ = refuse.__qualname__ = name
    refuse.__doc__ = "Refuses: files in ONNX format are neither written nor read."
    return refuse


export_model = _refusing("export_model",
                         "net.export() writes a model that SymbolBlock.imports() and the C library read")
get_model_metadata = _refusing("get_model_metadata", "mx.sym.load() reads graphs")
import_model = _refusing("import_model", "mx.model.load_checkpoint() reads models")
import_to_gluon = _refusing("import_to_gluon", "gluon.SymbolBlock.imports() reads models")
