"""Quantized networks are not supported: every function raises an error."""
from ..error import UnsupportedError

__all__ = ["calib_graph", "combine_histogram", "quantize_graph", "quantize_model", "quantize_model_mkldnn",
           "quantize_net", "quantize_net_v2"]


def _refusing(name):
    def refuse(*args, **kwargs):
        raise UnsupportedError(f"contrib.quantization.{name}: quantizing networks to 8-bit integers is not supported; "
                               "net.cast('bfloat16') halves the memory of weights")
    refuse.__name__ = refuse.__qualname__ = name
    refuse.__doc__ = "Raises an error: quantizing networks to 8-bit integers is not supported."
    return refuse


calib_graph = _refusing("calib_graph")
combine_histogram = _refusing("combine_histogram")
quantize_graph = _refusing("quantize_graph")
quantize_model = _refusing("quantize_model")
quantize_model_mkldnn = _refusing("quantize_model_mkldnn")
quantize_net = _refusing("quantize_net")
quantize_net_v2 = _refusing("quantize_net_v2")
