"""Types of MXNet's C interface for ctypes, and helpers around them: names of mxnet.base that need ctypes."""
import ctypes

mx_uint, mx_int, mx_int64, mx_float = ctypes.c_uint, ctypes.c_int, ctypes.c_int64, ctypes.c_float
mx_float_p = ctypes.POINTER(mx_float)

# Every handle is a pointer; they have names of their own so that programs can say what they mean.
NDArrayHandle = SymbolHandle = ExecutorHandle = CachedOpHandle = KVStoreHandle = FunctionHandle = OpHandle = \
    DataIterHandle = DataIterCreatorHandle = RecordIOHandle = RtcHandle = CudaModuleHandle = CudaKernelHandle = \
    ProfileHandle = DLPackHandle = ctypes.c_void_p


class MXCallbackList(ctypes.Structure):
    """A list of C functions, as custom operators of MXNet's C interface are given."""

    _fields_ = [("num_callbacks", ctypes.c_int), ("callbacks", ctypes.POINTER(ctypes.CFUNCTYPE(ctypes.c_int))),
                ("contexts", ctypes.POINTER(ctypes.c_void_p))]


def c_handle_array(objs):
    """A ctypes array of the handles of objects."""
    values = [getattr(handle, "_as_parameter_", handle) for handle in (obj.handle for obj in objs)]
    return (ctypes.c_void_p * len(values))(*[getattr(value, "value", value) for value in values])


def ctypes2buffer(cptr, length):
    """A copy of `length` characters at a char pointer."""
    if not isinstance(cptr, ctypes.POINTER(ctypes.c_char)):
        raise RuntimeError(f"ctypes2buffer: expected a char pointer, got {type(cptr).__name__}")
    return bytearray(ctypes.string_at(cptr, length))


def ctypes2numpy_shared(cptr, shape):
    """A NumPy array over the floats at a pointer; nothing is copied."""
    import numpy
    if not isinstance(cptr, ctypes.POINTER(mx_float)):
        raise RuntimeError(f"ctypes2numpy_shared: expected a float pointer, got {type(cptr).__name__}")
    size = int(numpy.prod(shape))
    return numpy.frombuffer((mx_float * size).from_address(ctypes.addressof(cptr.contents)),
                            dtype=numpy.float32).reshape(shape)
