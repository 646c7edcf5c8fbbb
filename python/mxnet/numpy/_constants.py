"""Constants and types, those of NumPy."""
import numpy as _np

pi, e, inf, nan, newaxis = _np.pi, _np.e, _np.inf, _np.nan, None
PINF, NINF, NAN, NaN, PZERO, NZERO = inf, -inf, nan, nan, 0.0, -0.0
float16, float32, float64 = _np.float16, _np.float32, _np.float64
int8, int32, int64, uint8, bool_ = _np.int8, _np.int32, _np.int64, _np.uint8, _np.bool_
bool = bool
dtype, finfo, iinfo = _np.dtype, _np.finfo, _np.iinfo

__all__ = ["pi", "e", "inf", "nan", "newaxis", "PINF", "NINF", "NAN", "NaN", "PZERO", "NZERO", "float16", "float32",
           "float64", "int8", "int32", "int64", "uint8", "bool_", "bool", "dtype", "finfo", "iinfo"]
