/* NDArray: the Python object around an mx_array.  SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "base/error.h"
#include "base/thread.h"
#include "core.h"
#include "ndarray/sparse.h"
#include "np_array.h"

/* ---- life ------------------------------------------------------------------------------------------------------ */

/* Programs create millions of small arrays: a few freed objects are cached for reuse (under the GIL). */
#define WAITING 64
static nd_object *waiting[WAITING];
static int n_waiting;

PyObject *nd_wrap(mx_array *array)
{
    if (!array)
        return raise_error();
    if (!array->storage && mx_is_sparse(array))
        return sparse_wrap(array);
    if (!array->storage && array->node)
        return sym_wrap_array(array);
    nd_object *self;
    PyTypeObject *type = mx_thread.np_array ? &np_type : &nd_type;
    if (n_waiting) {
        self = waiting[--n_waiting];
        PyObject_Init((PyObject *)self, type);
    } else if (!(self = PyObject_New(nd_object, type)))
        return NULL;
    self->array = mx_retain(array);
    self->weakrefs = NULL;
    return (PyObject *)self;
}

PyObject *nd_wrap_like(PyObject *self, mx_array *array)
{
    const bool before = mx_set_np_array(np_check(self));
    PyObject *result = nd_wrap(array);
    mx_set_np_array(before);
    return result;
}
PyObject *nd_run_like(PyObject *self, mx_op *op, const void *attrs, mx_array *x)
{
    const bool before = mx_set_np_array(np_check(self));
    PyObject *result = op_run(op, attrs, 1, &x, NULL);
    mx_set_np_array(before);
    return result;
}

PyObject *nd_wrap_all(mx_arrays arrays)
{
    PyObject *list = PyList_New(arrays.n);
    for (int64_t i = 0; list && i < arrays.n; i++) {
        PyObject *item = arrays.v[i] == MX_NONE ? core_new_ref(Py_None) : nd_wrap(arrays.v[i]);
        if (!item)
            Py_CLEAR(list);
        else
            PyList_SET_ITEM(list, i, item);
    }
    return list;
}

static void nd_dealloc(PyObject *object)
{
    nd_object *self = (nd_object *)object;
    if (self->weakrefs)
        PyObject_ClearWeakRefs(object);
    mx_release(self->array);
    if ((Py_IS_TYPE(object, &nd_type) || Py_IS_TYPE(object, &np_type)) && n_waiting < WAITING)
        waiting[n_waiting++] = self;
    else
        Py_TYPE(object)->tp_free(object);
}

/* The array of a pointer from MXNet's C interface (include/mxnet/c_api.h), a ctypes.c_void_p; its reference is taken over.
 * NULL without an exception: `source` is something else. */
static mx_array *array_of_pointer(PyObject *source)
{
    PyObject *ctypes = PyImport_ImportModule("ctypes"), *type = NULL, *value = NULL;
    mx_array *x = NULL;
    if (ctypes && (type = PyObject_GetAttrString(ctypes, "c_void_p")) && PyObject_IsInstance(source, type) == 1 &&
        (value = PyObject_GetAttrString(source, "value"))) {
        x = value == Py_None ? NULL : PyLong_AsVoidPtr(value);
        if (!PyErr_Occurred() && !mx_array_any_ok(x, "NDArray", "handle"))
            raise_error(), x = NULL;
    }
    Py_XDECREF(value), Py_XDECREF(type), Py_XDECREF(ctypes);
    return PyErr_Occurred() ? NULL : x;
}

/* NDArray(other): another Python object around the same array, for subclasses. */
static PyObject *nd_new(PyTypeObject *type, PyObject *args, PyObject *keywords)
{
    PyObject *source = NULL;
    static char *names[] = {"handle", "writable", NULL};
    int writable = 1;
    if (!PyArg_ParseTupleAndKeywords(args, keywords, "O|p", names, &source, &writable))
        return NULL;
    mx_array *given = nd_check(source) ? NULL : array_of_pointer(source);
    if (PyErr_Occurred())
        return NULL;
    if (!given && !nd_check(source))
        return PyErr_Format(PyExc_TypeError,
                            "NDArray(handle): expected an NDArray, got %.200s; nd.array makes arrays from data",
                            Py_TYPE(source)->tp_name);
    nd_object *self = (nd_object *)type->tp_alloc(type, 0);
    if (self)
        self->array = given ? given : mx_retain(nd_array(source));
    if (self && given)
        handle_taken(given);
    return (PyObject *)self;
}

mx_arrays nd_list(PyObject *source, const char *who, mx_array ***items)
{
    *items = NULL;
    PyObject *list =
        nd_check(source) ? PyTuple_Pack(1, source) : PySequence_Fast(source, "expected a list of NDArrays");
    const Py_ssize_t n = list ? PySequence_Fast_GET_SIZE(list) : 0;
    if (!list || !(*items = core_memory((size_t)n + 1, sizeof **items)))
        return Py_XDECREF(list), (mx_arrays){NULL, -2};
    for (Py_ssize_t i = 0; i < n; i++) {
        PyObject *item = PySequence_Fast_GET_ITEM(list, i);
        if (!nd_check(item) && item != Py_None) {
            PyErr_Format(PyExc_TypeError, "%s: element %zd must be an NDArray, got %.200s", who, i,
                         Py_TYPE(item)->tp_name);
            PyMem_Free(*items), Py_DECREF(list), *items = NULL;
            return (mx_arrays){NULL, -2};
        }
        (*items)[i] = item == Py_None ? MX_NONE : nd_array(item);
    }
    Py_DECREF(list); /* the caller's own list keeps the arrays */
    return (mx_arrays){*items, n};
}

/* ---- methods --------------------------------------------------------------------------------------------------- */

/* x.reshape(2, 3), x.reshape((2, 3)), x.reshape(shape=(2, 3), reverse=False): special codes as in nd.reshape. */
static PyObject *nd_reshape(PyObject *self, PyObject *const *args, Py_ssize_t n, PyObject *keywords)
{
    PyObject *shape = NULL, *reverse = NULL;
    const Py_ssize_t named = keywords ? PyTuple_GET_SIZE(keywords) : 0;
    for (Py_ssize_t i = 0; i < named; i++) {
        PyObject *name = PyTuple_GET_ITEM(keywords, i);
        if (!PyUnicode_CompareWithASCIIString(name, "shape"))
            shape = args[n + i];
        else if (!PyUnicode_CompareWithASCIIString(name, "reverse"))
            reverse = args[n + i];
        else
            return PyErr_Format(PyExc_TypeError, "reshape: unknown keyword %R; it takes shape and reverse", name);
    }
    if (!shape && !n)
        return PyErr_Format(PyExc_AssertionError, "reshape: the shape is missing");
    struct { /* has the layout of the operator's schema: checked below */
        mx_dims shape;
    } wanted;
    int failed = 0;
    if (shape || n == 1)
        failed = dims_from(shape ? shape : args[0], &wanted.shape, "reshape", "shape");
    else {
        PyObject *tuple = PyTuple_New(n);
        for (Py_ssize_t i = 0; tuple && i < n; i++)
            PyTuple_SET_ITEM(tuple, i, core_new_ref(args[i]));
        failed = !tuple || dims_from(tuple, &wanted.shape, "reshape", "shape");
        Py_XDECREF(tuple);
    }
    if (failed)
        return NULL;
    mx_op *op = MX_OP("Reshape");
    _Alignas(16) char attrs[512];
    if (op->schema->size > sizeof attrs)
        return PyErr_NoMemory();
    memcpy(attrs, op->defaults, op->schema->size);
    const mx_field *field = mx_schema_find(op->schema, "shape");
    memcpy(attrs + field->offset, &wanted.shape, sizeof wanted.shape);
    if (reverse && field_set(mx_schema_find(op->schema, "reverse"), op->schema, attrs, reverse, "reshape"))
        return NULL;
    mx_array *x = nd_array(self);
    return op_run_view(op, attrs, x);
}

static PyObject *nd_item(PyObject *self, PyObject *unused)
{
    (void)unused;
    const mx_array *x = nd_array(self);
    if (x->size != 1)
        return PyErr_Format(PyExc_ValueError, "asscalar: the array has %lld elements, expected one",
                            (long long)x->size);
    const double value = read_item(x);
    if (mx_error_code())
        return raise_error();
    const mx_dtype dtype = (mx_dtype)x->dtype;
    if (dtype == MX_BOOL)
        return PyBool_FromLong(value != 0);
    if (dtype == MX_INT64) {
        int64_t exact;
        return mx_array_read(x, &exact, sizeof exact) ? raise_error() : PyLong_FromLongLong(exact);
    }
    return dtype == MX_INT8 || dtype == MX_UINT8 || dtype == MX_INT32 ? PyLong_FromLong((long)value)
                                                                      : PyFloat_FromDouble(value);
}

/* f"{loss:.3f}": one element is formatted as a number. */
static PyObject *nd_format(PyObject *self, PyObject *spec)
{
    if (!PyUnicode_Check(spec))
        return PyErr_Format(PyExc_TypeError, "__format__ expects a str, got %s", Py_TYPE(spec)->tp_name);
    if (!PyUnicode_GET_LENGTH(spec))
        return PyObject_Str(self);
    const mx_array *x = nd_array(self);
    if (x->size != 1)
        return PyErr_Format(PyExc_TypeError, "format '%U': the array has %lld elements, expected one", spec,
                            (long long)x->size);
    PyObject *value = nd_item(self, NULL);
    PyObject *text = value ? PyObject_Format(value, spec) : NULL;
    Py_XDECREF(value);
    return text;
}

/* asscalar() returns a NumPy scalar, as in MXNet. */
static PyObject *nd_asscalar(PyObject *self, PyObject *unused)
{
    PyObject *value = nd_item(self, unused);
    PyObject *type = value ? dtype_to((mx_dtype)nd_array(self)->dtype) : NULL;
    PyObject *result = type ? PyObject_CallFunctionObjArgs(type, value, NULL) : NULL;
    Py_XDECREF(value), Py_XDECREF(type);
    return result;
}

static PyObject *nd_tolist(PyObject *self, PyObject *unused)
{
    PyObject *copy = nd_asnumpy(self, unused);
    PyObject *list = copy ? PyObject_CallMethod(copy, "tolist", NULL) : NULL;
    Py_XDECREF(copy);
    return list;
}

#define SCOPED_ARRAY(expression)                                             \
    mx_scope scope = mx_scope_open();                                        \
    PyThreadState *state = let_go_reading(nd_array(self));                   \
    mx_array *made = expression;                                             \
    take_back(state);                                                        \
    PyObject *result = made ? nd_wrap_like(self, made) : raise_error();         \
    mx_scope_close(&scope);                                                  \
    return result

static PyObject *nd_copy(PyObject *self, PyObject *unused)
{
    (void)unused;
    mx_array *x = nd_array(self);
    if (mx_is_recording() || !x->storage)
        return nd_run_like(self, MX_OP("_copy"), NULL, x);
    SCOPED_ARRAY(mx_array_copy(x));
}
static PyObject *nd_detach(PyObject *self, PyObject *unused)
{
    (void)unused;
    mx_array *x = nd_array(self);
    if (!x->storage)
        return nd_run_like(self, MX_OP("BlockGrad"), NULL, x);
    SCOPED_ARRAY(mx_detach(x));
}

/* A recorded copy to another context: the gradient flows back to the array's own context. */
typedef struct moved {
    mx_context to, back;
} moved;

static mx_code move_forward(void *user, int n_in, mx_array *const *in, int n_out, mx_array **out)
{
    (void)n_in, (void)n_out;
    out[0] = mx_array_to(in[0], ((moved *)user)->to);
    return out[0] ? MX_OK : mx_error_code();
}
static mx_code move_backward(void *user, int n_out, mx_array *const *out_grads, int n_in, mx_array **in_grads)
{
    (void)n_in, (void)n_out;
    in_grads[0] = mx_array_to(out_grads[0], ((moved *)user)->back);
    return in_grads[0] ? MX_OK : mx_error_code();
}

static mx_array *move_recorded(mx_array *x, mx_context to)
{
    static const mx_function function = {"as_in_context", move_forward, move_backward, PyMem_RawFree, 1};
    moved *user = PyMem_RawMalloc(sizeof *user);
    if (!user)
        return mx_error_set(MX_ERR_MEMORY, "as_in_context: out of memory"), NULL;
    *user = (moved){to, x->context};
    return mx_function_call(&function, user, (mx_arrays){&x, 1}).v[0];
}

static mx_array *move(mx_array *x, mx_context to)
{
    return mx_is_recording() && x->storage ? move_recorded(x, to) : mx_array_to(x, to);
}

static PyObject *nd_as_in_context(PyObject *self, PyObject *where)
{
    mx_context context;
    if (where == Py_None)
        return PyErr_Format(PyExc_TypeError, "as_in_context: expected a context such as mx.cpu(), got None");
    if (context_from(where, &context))
        return NULL;
    if (mx_context_equal(context, nd_array(self)->context))
        return core_new_ref(self);
    SCOPED_ARRAY(move(nd_array(self), context));
}

/* Copies the elements of one array to another of the same shape; while recording, the copy is on the tape. */
static mx_code copy_over(mx_array *to, mx_array *from)
{
    const mx_key whole = MX_ELLIPSIS;
    char a[MX_SHAPE_TEXT], b[MX_SHAPE_TEXT];
    const mx_shape_t from_shape = mx_array_shape(from), to_shape = mx_array_shape(to);
    if (!mx_shape_equal(&from_shape, &to_shape))
        return mx_error_set(MX_ERR_SHAPE, "copyto: the shapes differ: %s to %s", mx_shape_text(&from_shape, a),
                            mx_shape_text(&to_shape, b));
    if (!mx_is_recording())
        return mx_array_set(to, from);
    MX_SCOPE;
    mx_array *here = mx_context_equal(from->context, to->context) ? from : move(from, to->context);
    return here ? mx_assign_keys(to, &whole, 1, here) : mx_error_code();
}

static PyObject *copy_to_array(PyObject *self, PyObject *other)
{
    if (nd_array(other) == nd_array(self)) {
        const int raised = PyErr_WarnEx(PyExc_RuntimeWarning, "copyto: the array is copied to itself", 1);
        return raised ? NULL : core_new_ref(Py_False);
    }
    PyThreadState *state = let_go_reading(nd_array(self));
    const mx_code code = copy_over(nd_array(other), nd_array(self));
    take_back(state);
    return code ? raise_error() : core_new_ref(other);
}

static PyObject *nd_copyto(PyObject *self, PyObject *other)
{
    mx_context context;
    if (nd_check(other))
        return copy_to_array(self, other);
    if (other == Py_None)
        return PyErr_Format(PyExc_TypeError, "copyto: expected an NDArray or a context such as mx.cpu(), got None");
    if (context_from(other, &context))
        return NULL;
    if (mx_context_equal(context, nd_array(self)->context))
        return nd_copy(self, NULL);
    SCOPED_ARRAY(move(nd_array(self), context));
}

static PyObject *nd_wait(PyObject *self, PyObject *unused)
{
    (void)unused;
    Py_BEGIN_ALLOW_THREADS mx_array_wait(nd_array(self));
    Py_END_ALLOW_THREADS return mx_error_code() ? raise_error() : core_new_ref(Py_None);
}

/* astype(dtype, copy=True) */
static PyObject *nd_astype(PyObject *self, PyObject *args, PyObject *keywords)
{
    static char *names[] = {"dtype", "copy", NULL};
    PyObject *type;
    int copy = 1;
    mx_dtype dtype;
    if (!PyArg_ParseTupleAndKeywords(args, keywords, "O|p:astype", names, &type, &copy))
        return NULL;
    if (nd_check(type)) /* the type of another array */
        dtype = (mx_dtype)nd_array(type)->dtype;
    else if (dtype_from(type, &dtype))
        return NULL;
    mx_array *x = nd_array(self);
    if (dtype == MX_DTYPE_NONE)
        dtype = MX_FLOAT32;
    if (dtype == (mx_dtype)x->dtype)
        return copy ? nd_copy(self, NULL) : core_new_ref(self);
    struct {
        mx_dtype dtype;
    } attrs = {dtype};
    return nd_run_like(self, MX_OP("Cast"), &attrs, x);
}

static PyObject *nd_pickle(PyObject *self, PyObject *unused)
{
    PyObject *rebuild = from_package("mxnet.ndarray.ndarray", "_rebuild");
    mx_array *x = nd_array(self);
    PyObject *bytes = PyBytes_FromStringAndSize(NULL, (Py_ssize_t)mx_bytes(x));
    (void)unused;
    if (!rebuild || !bytes || mx_array_read(x, PyBytes_AS_STRING(bytes), mx_bytes(x))) {
        Py_XDECREF(rebuild), Py_XDECREF(bytes);
        return raise_error();
    }
    PyObject *shape = x->ndim < 0 ? core_new_ref(Py_None) : dims_to(x->shape, x->ndim);
    PyObject *context = context_to(x->context), *type = core_new_ref(Py_TYPE(self));
    return Py_BuildValue("N(NNNsN)", rebuild, type, bytes, shape, mx_dtype_name((mx_dtype)x->dtype), context);
}

static PyObject *nd_repr(PyObject *self)
{
    MX_SCOPE;
    const char *text = mx_array_text(nd_array(self));
    return text ? PyUnicode_FromFormat("\n%s", text) : raise_error();
}

static PyObject *nd_deepcopy(PyObject *self, PyObject *memo) { return (void)memo, nd_copy(self, NULL); }

static PyObject *nd_itself(PyObject *self, PyObject *unused) { return (void)unused, core_new_ref(self); }

static PyMethodDef nd_methods[] = {
    {"reshape", (PyCFunction)(void (*)(void))nd_reshape, METH_FASTCALL | METH_KEYWORDS,
     "reshape(*shape, reverse=False): the same elements in another shape; 0, -1, -2, -3, -4 as in nd.reshape."},
    {"item", nd_item, METH_NOARGS, "The only element as a Python number."},
    {"asscalar", nd_asscalar, METH_NOARGS, "The only element as a NumPy scalar."},
    {"__format__", nd_format, METH_O, "format(array, '.3f') of an array with one element."},
    {"tolist", nd_tolist, METH_NOARGS, "The elements as nested lists."},
    {"copy", nd_copy, METH_NOARGS, "A copy on the same context."},
    {"__copy__", nd_copy, METH_NOARGS, NULL},
    {"__deepcopy__", nd_deepcopy, METH_O, NULL},
    {"detach", nd_detach, METH_NOARGS, "The same data without history: gradients do not flow through it."},
    {"as_in_context", nd_as_in_context, METH_O, "The array on a context; the array itself if it is already there."},
    {"as_in_ctx", nd_as_in_context, METH_O, "The array on a context; the array itself if it is already there."},
    {"as_nd_ndarray", nd_itself, METH_NOARGS, "The array itself."},
    {"as_np_ndarray", np_as_np, METH_NOARGS, "The same array in the interface mx.np."},
    {"copyto", nd_copyto, METH_O, "Copies to another array, or to a context as a new array."},
    {"wait_to_read", nd_wait, METH_NOARGS, "Waits until the array is computed."},
    {"wait_to_write", nd_wait, METH_NOARGS, "Waits until the array may be written."},
    {"astype", (PyCFunction)(void (*)(void))nd_astype, METH_VARARGS | METH_KEYWORDS,
     "astype(dtype, copy=True): the array with another element type."},
    {"__reduce__", nd_pickle, METH_NOARGS, NULL},
    {NULL, NULL, 0, NULL},
};

PyTypeObject nd_type = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "mxnet.ndarray.NDArray",
    .tp_basicsize = sizeof(nd_object),
    .tp_doc = "An array of numbers of one type on one device.  Created by mx.nd.array, zeros, ones ... and by operators.",
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE,
    .tp_new = nd_new,
    .tp_dealloc = nd_dealloc,
    .tp_weaklistoffset = offsetof(nd_object, weakrefs),
    .tp_repr = nd_repr,
    .tp_hash = hash_of_identity,
    .tp_richcompare = nd_richcompare,
    .tp_iter = PySeqIter_New,
    .tp_as_number = &nd_number,
    .tp_as_mapping = &nd_mapping,
    .tp_as_sequence = &nd_sequence,
    .tp_as_buffer = &nd_buffer,
    .tp_methods = nd_methods,
    .tp_getset = nd_getset,
};

static int add_methods(PyMethodDef *methods)
{
    for (; methods->ml_name; methods++) {
        PyObject *method = PyDescr_NewMethod(&nd_type, methods);
        const int failed = !method || PyDict_SetItemString(nd_type.tp_dict, methods->ml_name, method);
        Py_XDECREF(method);
        if (failed)
            return -1;
    }
    return 0;
}

/* Operators become methods: add_method("softmax", op).  The package's list of them is in ndarray/methods.py. */
static PyObject *add_method(PyObject *self, PyObject *args)
{
    const char *name;
    PyObject *value;
    (void)self;
    if (!PyArg_ParseTuple(args, "sO:add_method", &name, &value))
        return NULL;
    if (PyDict_SetItemString(nd_type.tp_dict, name, value))
        return NULL;
    PyType_Modified(&nd_type);
    Py_RETURN_NONE;
}

/* rebind(array, other): the Python object wraps other's array from now on; for __setstate__. */
static PyObject *rebind(PyObject *self, PyObject *args)
{
    PyObject *target, *source;
    (void)self;
    if (!PyArg_ParseTuple(args, "O!O!:rebind", &nd_type, &target, &nd_type, &source))
        return NULL;
    mx_array *old = nd_array(target);
    ((nd_object *)target)->array = mx_retain(nd_array(source));
    mx_release(old);
    Py_RETURN_NONE;
}

static PyObject *set_np_shape(PyObject *self, PyObject *on)
{
    (void)self;
    const int value = PyObject_IsTrue(on);
    return value < 0 ? NULL : PyBool_FromLong(mx_set_np_shape(value));
}
static PyObject *is_np_shape(PyObject *self, PyObject *unused)
{
    return (void)self, (void)unused, PyBool_FromLong(mx_is_np_shape());
}

static PyMethodDef functions[] = {
    {"rebind", rebind, METH_VARARGS, "rebind(array, other): the object wraps other's data from now on."},
    {"set_np_shape", set_np_shape, METH_O, "Sets NumPy's meaning of shapes for this thread; returns the previous state."},
    {"is_np_shape", is_np_shape, METH_NOARGS, "Whether shapes have NumPy's meaning."},
    {"add_method", add_method, METH_VARARGS, "Adds a method or property to NDArray."},
    {NULL, NULL, 0, NULL},
};

int add_arrays(PyObject *module)
{
    if (PyType_Ready(&nd_type) || add_methods(nd_exchange_methods) || add_methods(nd_dlpack_methods))
        return -1;
    open_type(&nd_type);
    if (PyModule_AddObjectRef(module, "NDArray", (PyObject *)&nd_type))
        return -1;
    return PyModule_AddFunctions(module, functions);
}
