/* Data in and out: lists, the buffer protocol, NumPy, DLPack.
 *
 * NumPy's C API is not used: its arrays are exchanged through the buffer protocol, so one build works with every version
 * of NumPy.  A buffer whose element type we do not have is first converted by its own astype().
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "base/threads.h"
#include "core.h"
#include "ndarray/convert.h"

/* ---- formats of buffers ---------------------------------------------------------------------------------------- */

static const char *const formats[MX_DTYPE_END] = {
    [MX_FLOAT32] = "f", [MX_FLOAT64] = "d", [MX_FLOAT16] = "e", [MX_UINT8] = "B",
    [MX_INT32] = "i",   [MX_INT8] = "b",    [MX_INT64] = "l",   [MX_BOOL] = "?",
};

static mx_dtype dtype_of_format(const char *format, Py_ssize_t itemsize)
{
    if (!format)
        return MX_UINT8;
    if (*format == '@' || *format == '=' || *format == '<')
        format++;
    if (!format[0] || format[1])
        return MX_DTYPE_NONE;
    if (strchr("ilqn", *format)) /* C's integers differ in width between machines */
        return itemsize == 8 ? MX_INT64 : itemsize == 4 ? MX_INT32 : MX_DTYPE_NONE;
    for (int i = 0; i < MX_DTYPE_END; i++)
        if (formats[i] && *formats[i] == *format)
            return (mx_dtype)i;
    return MX_DTYPE_NONE;
}

/* ---- in -------------------------------------------------------------------------------------------------------- */

static mx_array *new_array(const mx_shape_t *shape, mx_dtype dtype, mx_context context)
{
    return mx_array_new(shape, dtype, mx_context_resolve(context));
}

static PyObject *wrap_new(mx_array *x) /* steals the reference */
{
    PyObject *result = x ? nd_wrap(x) : raise_error();
    mx_release(x);
    return result;
}

typedef struct conversion {
    char *to;
    const char *from;
    mx_dtype to_type, from_type;
} conversion;

static void convert_part(void *arg, int64_t begin, int64_t end)
{
    const conversion *c = arg;
    mx_convert(c->to + begin * mx_dtype_size(c->to_type), c->to_type, c->from + begin * mx_dtype_size(c->from_type),
               c->from_type, end - begin);
}

/* A new array from contiguous host memory of another type. */
static mx_array *made_from(const mx_shape_t *shape, mx_dtype dtype, mx_context context, const void *data, mx_dtype from)
{
    context = mx_context_resolve(context);
    if (!mx_context_is_host(context) && dtype == from)
        return mx_array_of_bytes(shape, dtype, context, data);
    mx_array *x = new_array(shape, dtype, mx_context_is_host(context) ? context : mx_cpu(0));
    if (x && x->size) {
        conversion c = {mx_data(x), data, dtype, from};
        mx_parallel(x->size, 1 << 18, convert_part, &c);
    }
    if (!x || mx_context_is_host(context))
        return x;
    mx_array *there = mx_array_of_bytes(shape, dtype, context, x->size ? mx_data(x) : data);
    mx_release(x);
    return there;
}

static mx_array *array_of(const mx_shape_t *shape, mx_dtype dtype, mx_context context, const void *data, mx_dtype from)
{
    PyThreadState *state = let_go(mx_shape_size(shape) > LONG_WORK);
    mx_array *x = made_from(shape, dtype, context, data, from);
    take_back(state);
    return x;
}

static PyObject *from_view(Py_buffer *view, mx_dtype from, mx_context context, mx_dtype dtype)
{
    if (view->ndim > MX_MAX_NDIM)
        return PyErr_Format(PyExc_ValueError, "nd.array: the source has %d axes, at most %d are supported", view->ndim,
                            MX_MAX_NDIM);
    mx_shape_t shape = {.ndim = view->ndim};
    for (int i = 0; i < view->ndim; i++)
        shape.dim[i] = view->shape ? view->shape[i] : view->len / view->itemsize;
    if (PyBuffer_IsContiguous(view, 'C'))
        return wrap_new(array_of(&shape, dtype, context, view->buf, from));
    void *packed = PyMem_RawMalloc((size_t)view->len + 1);
    PyObject *result = NULL;
    if (!packed)
        PyErr_NoMemory();
    else if (!PyBuffer_ToContiguous(packed, view, view->len, 'C'))
        result = wrap_new(array_of(&shape, dtype, context, packed, from));
    PyMem_RawFree(packed);
    return result;
}

static PyObject *from_buffer(PyObject *source, mx_context context, mx_dtype dtype);

/* Types that we do not have (int16, uint32, big-endian, complex ...): the owner converts. */
static PyObject *from_foreign_type(PyObject *source, mx_context context, mx_dtype dtype)
{
    PyObject *converted =
        PyObject_HasAttrString(source, "astype")
            ? PyObject_CallMethod(source, "astype", "s", dtype == MX_BFLOAT16 ? "float32" : mx_dtype_name(dtype))
            : NULL;
    if (!converted) {
        if (!PyErr_Occurred())
            PyErr_Format(PyExc_TypeError, "nd.array: %.200s has an unsupported element type", Py_TYPE(source)->tp_name);
        return NULL;
    }
    PyObject *result = from_buffer(converted, context, dtype);
    Py_DECREF(converted);
    return result;
}

static PyObject *from_buffer(PyObject *source, mx_context context, mx_dtype dtype)
{
    Py_buffer view;
    if (PyObject_GetBuffer(source, &view, PyBUF_FULL_RO))
        return PyErr_Clear(), from_foreign_type(source, context, dtype);
    const mx_dtype from = dtype_of_format(view.format, view.itemsize);
    PyObject *result = from == MX_DTYPE_NONE ? NULL : from_view(&view, from, context, dtype);
    PyBuffer_Release(&view);
    return from == MX_DTYPE_NONE ? from_foreign_type(source, context, dtype) : result;
}

/* Nested lists of numbers, without NumPy: shape first, then the elements as doubles. */
static int list_shape(PyObject *source, mx_shape_t *shape)
{
    shape->ndim = 0;
    PyObject *at = source;
    while (PyList_Check(at) || PyTuple_Check(at)) {
        if (shape->ndim == MX_MAX_NDIM)
            return -1;
        shape->dim[shape->ndim++] = PySequence_Fast_GET_SIZE(at);
        if (!PySequence_Fast_GET_SIZE(at))
            break;
        at = PySequence_Fast_GET_ITEM(at, 0);
    }
    return 0;
}

static int list_elements(PyObject *source, const mx_shape_t *shape, int axis, double **at)
{
    if (axis == shape->ndim) {
        if (!PyFloat_Check(source) && !PyLong_Check(source))
            return -1;
        *(*at)++ = PyFloat_AsDouble(source);
        return PyErr_Occurred() ? -1 : 0;
    }
    if ((!PyList_Check(source) && !PyTuple_Check(source)) || PySequence_Fast_GET_SIZE(source) != shape->dim[axis])
        return -1;
    for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(source); i++)
        if (list_elements(PySequence_Fast_GET_ITEM(source, i), shape, axis + 1, at))
            return -1;
    return 0;
}

/* NULL without an exception: not nested lists of numbers (or integers too large for a double). */
static PyObject *from_list(PyObject *source, mx_context context, mx_dtype dtype)
{
    mx_shape_t shape;
    if (list_shape(source, &shape) || dtype == MX_INT64)
        return NULL;
    const int64_t size = mx_shape_size(&shape);
    if (size < 0)
        return mx_error_clear(), NULL;
    double few[64], *elements = size <= 64 ? few : PyMem_Malloc((size_t)size * sizeof *elements), *at = elements;
    PyObject *result = NULL;
    if (elements && !list_elements(source, &shape, 0, &at))
        result = wrap_new(array_of(&shape, dtype, context, elements, MX_FLOAT64));
    else
        PyErr_Clear();
    if (elements != few)
        PyMem_Free(elements);
    return result;
}

/* Anything else: NumPy decides what it is. */
static PyObject *through_numpy(PyObject *source, mx_context context, mx_dtype dtype)
{
    PyObject *numpy = PyImport_ImportModule("numpy");
    PyObject *array = numpy ? PyObject_CallMethod(numpy, "array", "O", source) : NULL;
    PyObject *kind = array ? PyObject_GetAttrString(array, "dtype") : NULL;
    PyObject *letter = kind ? PyObject_GetAttrString(kind, "kind") : NULL;
    PyObject *result = NULL;
    if (letter && strchr("biuf", *PyUnicode_AsUTF8(letter)))
        result = from_buffer(array, context, dtype);
    else if (!PyErr_Occurred() || PyErr_ExceptionMatches(PyExc_ValueError)) {
        PyErr_Clear();
        PyErr_Format(PyExc_TypeError,
                     "nd.array: the source must be array-like (numbers in nested lists of equal lengths), got %.200s",
                     Py_TYPE(source)->tp_name);
    }
    Py_XDECREF(letter), Py_XDECREF(kind), Py_XDECREF(array), Py_XDECREF(numpy);
    return result;
}

static PyObject *from_ndarray(mx_array *source, mx_context context, mx_dtype dtype)
{
    MX_SCOPE;
    mx_mode mode = mx_mode_enter(0, -1);
    mx_array *x = mx_array_copy(source);
    if (x && dtype != MX_DTYPE_NONE && dtype != (mx_dtype)x->dtype) {
        mx_array *out = NULL;
        x = mx_invoke(MX_OP("Cast"), &dtype, 1, &x, 1, &out) ? NULL : out;
    }
    if (x && context.type)
        x = mx_array_to(x, context);
    mx_mode_leave(&mode);
    return x ? nd_wrap(x) : raise_error();
}

/* A SciPy matrix as a csr array. */
static PyObject *from_scipy(PyObject *source, mx_context context, mx_dtype dtype)
{
    PyObject *make = from_package("mxnet.ndarray.sparse", "array");
    PyObject *where = context.type ? context_to(context) : core_new_ref(Py_None);
    PyObject *type = dtype == MX_DTYPE_NONE ? core_new_ref(Py_None) : dtype_to(dtype);
    PyObject *made = make && where && type ? PyObject_CallFunctionObjArgs(make, source, where, type, NULL) : NULL;
    Py_XDECREF(make), Py_XDECREF(where), Py_XDECREF(type);
    return made;
}

PyObject *nd_from_any(PyObject *source, mx_context context, mx_dtype dtype)
{
    const mx_dtype given = dtype;
    if (nd_check(source))
        return from_ndarray(nd_array(source), context, dtype);
    if (dtype == MX_DTYPE_NONE)
        dtype = MX_FLOAT32;
    if (PyList_Check(source) || PyTuple_Check(source) || PyFloat_Check(source) || PyLong_Check(source)) {
        PyObject *made = from_list(source, context, dtype);
        return made || PyErr_Occurred() ? made : through_numpy(source, context, dtype);
    }
    if (PyObject_CheckBuffer(source) && !PyUnicode_Check(source) && !PyBytes_Check(source))
        return from_buffer(source, context, dtype);
    if (PyObject_HasAttrString(source, "tocsr")) /* a SciPy matrix */
        return from_scipy(source, context, given);
    return through_numpy(source, context, dtype);
}

/* array(source, ctx=None, dtype=None) */
static PyObject *array(PyObject *self, PyObject *args, PyObject *keywords)
{
    static char *names[] = {"source_array", "ctx", "dtype", NULL};
    PyObject *source, *where = Py_None, *type = Py_None;
    mx_context context;
    mx_dtype dtype;
    (void)self;
    if (!PyArg_ParseTupleAndKeywords(args, keywords, "O|OO:array", names, &source, &where, &type) ||
        context_from(where, &context) || dtype_from(type, &dtype))
        return NULL;
    return nd_from_any(source, context, dtype);
}

/* empty(shape, ctx=None, dtype=None) */
static PyObject *empty(PyObject *self, PyObject *args, PyObject *keywords)
{
    static char *names[] = {"shape", "ctx", "dtype", NULL};
    PyObject *shape, *where = Py_None, *type = Py_None;
    mx_context context;
    mx_dtype dtype;
    mx_dims dims;
    (void)self;
    if (!PyArg_ParseTupleAndKeywords(args, keywords, "O|OO:empty", names, &shape, &where, &type) ||
        context_from(where, &context) || dtype_from(type, &dtype) || dims_from(shape, &dims, "empty", "shape"))
        return NULL;
    MX_SCOPE;
    return nd_wrap(mx_empty(dims, dtype == MX_DTYPE_NONE ? MX_FLOAT32 : dtype, context));
}

/* ---- zero copy ------------------------------------------------------------------------------------------------- */

static void release_view(void *owner)
{
    PyGILState_STATE state = PyGILState_Ensure();
    PyBuffer_Release(owner);
    PyMem_Free(owner);
    PyGILState_Release(state);
}

/* adopt(buffer): an array over the memory of a contiguous buffer, which the array keeps alive. */
static PyObject *adopt(PyObject *self, PyObject *source)
{
    (void)self;
    Py_buffer *view = PyMem_Malloc(sizeof *view);
    if (!view)
        return PyErr_NoMemory();
    if (PyObject_GetBuffer(source, view, PyBUF_FORMAT | PyBUF_STRIDES)) {
        PyMem_Free(view);
        return NULL;
    }
    const mx_dtype dtype = dtype_of_format(view->format, view->itemsize);
    mx_shape_t shape = {.ndim = view->ndim};
    for (int i = 0; i < view->ndim && i < MX_MAX_NDIM; i++)
        shape.dim[i] = view->shape[i];
    const char *wrong = dtype == MX_DTYPE_NONE              ? "its element type is not supported"
                        : view->ndim > MX_MAX_NDIM          ? "it has too many axes"
                        : !PyBuffer_IsContiguous(view, 'C') ? "it is not contiguous in C order"
                                                            : NULL;
    if (wrong)
        PyErr_Format(PyExc_ValueError, "from_numpy: the memory cannot be shared: %s", wrong);
    mx_array *x = wrong ? NULL : mx_array_adopt(&shape, dtype, view->buf, release_view, view);
    if (!x) {
        PyBuffer_Release(view);
        PyMem_Free(view);
        return wrong ? NULL : raise_error();
    }
    x->readonly = view->readonly;
    return wrap_new(x);
}

/* ---- out ------------------------------------------------------------------------------------------------------- */

typedef struct exported {
    Py_ssize_t shape[MX_MAX_NDIM], strides[MX_MAX_NDIM];
} exported;

static int get_buffer(PyObject *self, Py_buffer *view, int flags)
{
    mx_array *x = nd_array(self);
    view->obj = NULL;
    if (x->dtype == MX_BFLOAT16 || ((flags & PyBUF_WRITABLE) && x->readonly)) {
        PyErr_SetString(PyExc_BufferError, x->readonly ? "the array is read-only" : "bfloat16 has no buffer format");
        return -1;
    }
    void *memory = mx_array_data(x);
    if (!memory && (x->size || mx_error_code())) {
        mx_error_clear();
        PyErr_SetString(PyExc_BufferError, "the array is not in the memory of the CPU");
        return -1;
    }
    exported *out = PyMem_Malloc(sizeof *out);
    if (!out)
        return PyErr_NoMemory(), -1;
    const Py_ssize_t itemsize = (Py_ssize_t)mx_dtype_size((mx_dtype)x->dtype);
    Py_ssize_t stride = itemsize;
    for (int i = x->ndim - 1; i >= 0; i--) {
        out->shape[i] = (Py_ssize_t)x->shape[i];
        out->strides[i] = stride;
        stride *= out->shape[i];
    }
    *view = (Py_buffer){.buf = memory ? memory : "",
                        .obj = core_new_ref(self),
                        .len = (Py_ssize_t)mx_bytes(x),
                        .itemsize = itemsize,
                        .readonly = x->readonly,
                        .ndim = x->ndim,
                        .internal = out};
    view->format = flags & PyBUF_FORMAT ? (char *)formats[x->dtype] : NULL;
    view->shape = flags & PyBUF_ND ? out->shape : NULL;
    view->strides = (flags & PyBUF_STRIDES) == PyBUF_STRIDES ? out->strides : NULL;
    return 0;
}
static void release_buffer(PyObject *self, Py_buffer *view) { (void)self, PyMem_Free(view->internal); }
PyBufferProcs nd_buffer = {get_buffer, release_buffer};

static PyObject *numpy_empty(mx_array *x)
{
    static PyObject *numpy_function; /* numpy.empty, cached */
    if (!numpy_function && !(numpy_function = from_package("numpy", "empty")))
        return NULL;
    PyObject *shape = dims_to(x->shape, x->ndim), *type = dtype_to((mx_dtype)x->dtype);
    PyObject *result = shape && type ? PyObject_CallFunctionObjArgs(numpy_function, shape, type, NULL) : NULL;
    Py_XDECREF(shape), Py_XDECREF(type);
    return result;
}

PyObject *nd_asnumpy(PyObject *self, PyObject *unused)
{
    (void)unused;
    mx_array *x = nd_array(self);
    if (!x->storage)
        return PyErr_Format(PyExc_ValueError,
                            "asnumpy: the array has no values: its shape is only being inferred (a hybrid "
                            "forward must not depend on values)");
    PyObject *result = numpy_empty(x);
    Py_buffer view;
    if (!result || PyObject_GetBuffer(result, &view, PyBUF_WRITABLE | PyBUF_C_CONTIGUOUS)) {
        Py_XDECREF(result);
        return NULL;
    }
    PyThreadState *state = let_go_reading(x);
    const mx_code code = mx_array_read(x, view.buf, (size_t)view.len);
    take_back(state);
    PyBuffer_Release(&view);
    if (code) {
        Py_DECREF(result);
        return raise_error();
    }
    return result;
}

/* __array__(dtype=None, copy=None): what NumPy calls. */
static PyObject *nd_as_array(PyObject *self, PyObject *args, PyObject *keywords)
{
    static char *names[] = {"dtype", "copy", NULL};
    PyObject *type = Py_None, *copy = Py_None;
    if (!PyArg_ParseTupleAndKeywords(args, keywords, "|OO:__array__", names, &type, &copy))
        return NULL;
    PyObject *result = nd_asnumpy(self, NULL);
    if (!result || type == Py_None)
        return result;
    PyObject *converted = PyObject_CallMethod(result, "astype", "O", type);
    Py_DECREF(result);
    return converted;
}

PyMethodDef nd_exchange_methods[] = {
    {"asnumpy", nd_asnumpy, METH_NOARGS, "A NumPy array with a copy of the elements."},
    {"__array__", (PyCFunction)(void (*)(void))nd_as_array, METH_VARARGS | METH_KEYWORDS, NULL},
    {NULL, NULL, 0, NULL},
};

/* from_bytes(data, shape, dtype): a new array with the given elements, for pickle. */
static PyObject *from_bytes(PyObject *self, PyObject *args)
{
    Py_buffer view;
    PyObject *size, *type;
    mx_dims dims;
    mx_dtype dtype;
    (void)self;
    if (!PyArg_ParseTuple(args, "y*OO:from_bytes", &view, &size, &type))
        return NULL;
    MX_SCOPE;
    PyObject *result = NULL;
    if (!dtype_from(type, &dtype) && !dims_from(size, &dims, "from_bytes", "shape")) {
        mx_array *x = mx_empty(dims, dtype == MX_DTYPE_NONE ? MX_FLOAT32 : dtype, mx_cpu(0));
        if (x && mx_bytes(x) != (size_t)view.len)
            PyErr_Format(PyExc_ValueError, "from_bytes: got %zd bytes, the shape needs %zu", view.len, mx_bytes(x));
        else if (!x || (view.len && mx_array_write(x, view.buf, (size_t)view.len)))
            raise_error();
        else
            result = nd_wrap(x);
    }
    PyBuffer_Release(&view);
    return result;
}

/* Address of the elements, for __array_interface__ and the like. */
static PyObject *data_address(PyObject *self, PyObject *source)
{
    (void)self;
    if (!nd_check(source))
        return PyErr_Format(PyExc_TypeError, "data_address: expected an NDArray");
    void *memory = mx_array_data(nd_array(source));
    return !memory && mx_error_code() ? raise_error() : PyLong_FromVoidPtr(memory);
}

static PyMethodDef functions[] = {
    {"array", (PyCFunction)(void (*)(void))array, METH_VARARGS | METH_KEYWORDS,
     "array(source_array, ctx=None, dtype=None)\n--\n\n"
     "An array with the elements of source: nested lists, NumPy arrays, other arrays."},
    {"empty", (PyCFunction)(void (*)(void))empty, METH_VARARGS | METH_KEYWORDS,
     "empty(shape, ctx=None, dtype=None)\n--\n\nAn array whose elements are not set."},
    {"from_bytes", from_bytes, METH_VARARGS, "from_bytes(data, shape, dtype): an array with these elements."},
    {"adopt", adopt, METH_O, "An array over the memory of a buffer."},
    {"data_address", data_address, METH_O, "Address of an array's elements."},
    {NULL, NULL, 0, NULL},
};

int add_exchange(PyObject *module) { return PyModule_AddFunctions(module, functions); }
