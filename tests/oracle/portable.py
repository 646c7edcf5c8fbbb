"""Arrays in pickles that every version of NumPy can read."""
import numpy as np


def plain(x):
    """x with its NumPy arrays replaced by their parts."""
    if isinstance(x, (np.ndarray, np.generic)):
        x = np.ascontiguousarray(x).reshape(np.shape(x))
        return {"__array__": (x.dtype.str, x.shape, x.tobytes())}
    if isinstance(x, dict):
        return {key: plain(value) for key, value in x.items()}
    if isinstance(x, (list, tuple)):
        return type(x)(plain(item) for item in x)
    return x


def whole(x):
    """The inverse of plain()."""
    if isinstance(x, dict):
        if "__array__" in x:
            dtype, shape, data = x["__array__"]
            return np.frombuffer(data, dtype=dtype).reshape(shape).copy()
        return {key: whole(value) for key, value in x.items()}
    if isinstance(x, (list, tuple)):
        return type(x)(whole(item) for item in x)
    return x
