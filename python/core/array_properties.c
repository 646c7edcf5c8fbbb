/* The properties of NDArrays.  SPDX-License-Identifier: Apache-2.0 */
#include "core.h"
#include "np_array.h"

static PyObject *get_shape(PyObject *self, void *unused)
{
    const mx_array *x = nd_array(self);
    (void)unused;
    return x->ndim < 0 ? core_new_ref(Py_None) : dims_to(x->shape, x->ndim);
}
static PyObject *get_size(PyObject *self, void *unused)
{
    return (void)unused, PyLong_FromLongLong(nd_array(self)->size);
}
static PyObject *get_ndim(PyObject *self, void *unused) { return (void)unused, PyLong_FromLong(nd_array(self)->ndim); }
static PyObject *get_dtype(PyObject *self, void *unused)
{
    return (void)unused, dtype_to((mx_dtype)nd_array(self)->dtype);
}
static PyObject *get_context(PyObject *self, void *unused) { return (void)unused, context_to(nd_array(self)->context); }
static PyObject *get_stype(PyObject *self, void *unused)
{
    return (void)unused, PyUnicode_InternFromString(mx_stype_name(mx_stype_of(nd_array(self))));
}
static PyObject *get_transposed(PyObject *self, void *unused)
{
    (void)unused;
    mx_array *x = nd_array(self);
    return x->ndim < 2 ? core_new_ref(self) : nd_run_like(self, MX_OP("transpose"), NULL, x);
}
static PyObject *get_grad(PyObject *self, void *unused)
{
    (void)unused;
    mx_array *grad = mx_gradient(nd_array(self));
    return grad ? nd_wrap_like(self, grad) : core_new_ref(Py_None);
}
static PyObject *get_handle(PyObject *self, void *unused) { return (void)unused, core_new_ref(self); }
static PyObject *get_fresh(PyObject *self, void *unused)
{
    return (void)unused, PyLong_FromLong(mx_gradient_fresh(nd_array(self)));
}
static int set_fresh(PyObject *self, PyObject *value, void *unused)
{
    (void)unused;
    const int fresh = value ? PyObject_IsTrue(value) : 0;
    if (fresh < 0)
        return -1;
    return mx_gradient_set_fresh(nd_array(self), fresh) ? (raise_error(), -1) : 0;
}
/* What ctypes passes to a function of MXNet's C interface: _LIB.MXNDArrayGetDType(x.handle, ...). */
static PyObject *get_pointer(PyObject *self, void *unused)
{
    (void)unused;
    PyObject *ctypes = PyImport_ImportModule("ctypes");
    PyObject *pointer =
        ctypes ? PyObject_CallMethod(ctypes, "c_void_p", "N", PyLong_FromVoidPtr(nd_array(self))) : NULL;
    Py_XDECREF(ctypes);
    return pointer;
}
static PyObject *get_writable(PyObject *self, void *unused)
{
    return (void)unused, PyBool_FromLong(!nd_array(self)->readonly);
}
static PyObject *get_abstract(PyObject *self, void *unused)
{
    (void)unused;
    return PyBool_FromLong(nd_array(self)->storage == NULL);
}

/* Gives NumPy and others direct access to the memory; only host arrays have it. */
static PyObject *get_interface(PyObject *self, void *unused)
{
    static const char *const kinds[MX_DTYPE_END] = {
        [MX_FLOAT32] = "f4", [MX_FLOAT64] = "f8", [MX_FLOAT16] = "f2", [MX_UINT8] = "u1", [MX_INT32] = "i4",
        [MX_INT8] = "i1",    [MX_INT64] = "i8",   [MX_BOOL] = "b1",
    };
    mx_array *x = nd_array(self);
    (void)unused;
    if (!x->storage || !mx_context_is_host(x->context) || !kinds[x->dtype])
        return PyErr_Format(PyExc_AttributeError,
                            "__array_interface__: only arrays on the CPU with a NumPy type have it");
    mx_array_wait(x);
    if (!x->readonly)
        mx_array_expose(x);
    char type[4] = {PY_LITTLE_ENDIAN ? '<' : '>', kinds[x->dtype][0], kinds[x->dtype][1], 0};
    return Py_BuildValue("{sNss s(NO) si}", "shape", dims_to(x->shape, x->ndim), "typestr", type, "data",
                         PyLong_FromVoidPtr(x->size ? mx_data(x) : NULL), x->readonly ? Py_True : Py_False, "version",
                         3);
}
static PyObject *get_priority(PyObject *self, void *unused)
{
    return (void)self, (void)unused, PyFloat_FromDouble(1000);
}

PyGetSetDef nd_getset[] = {
    {"shape", get_shape, NULL, "Sizes of the axes, a tuple.", NULL},
    {"size", get_size, NULL, "Number of elements.", NULL},
    {"ndim", get_ndim, NULL, "Number of axes.", NULL},
    {"dtype", get_dtype, NULL, "Type of the elements, as NumPy names it.", NULL},
    {"context", get_context, NULL, "The context of the array.", NULL},
    {"ctx", get_context, NULL, "The context of the array.", NULL},
    {"stype", get_stype, NULL, "Kind of storage: 'default' (dense), 'row_sparse' or 'csr'.", NULL},
    {"T", get_transposed, NULL, "The array with its axes in reverse order.", NULL},
    {"grad", get_grad, NULL, "The gradient array created by attach_grad(); None if there is none.", NULL},
    {"handle", get_handle, NULL, "The array itself.", NULL},
    {"_as_parameter_", get_pointer, NULL, "The array as a pointer for ctypes.", NULL},
    {"__array_interface__", get_interface, NULL, NULL, NULL},
    {"__array_priority__", get_priority, NULL, "High, so that NumPy number + array calls our operator.", NULL},
    {"writable", get_writable, NULL, "Whether the array is writable.", NULL},
    {"_fresh_grad", get_fresh, set_fresh, "1 if backward has written the gradient since it was attached or used.", NULL},
    {"_is_abstract", get_abstract, NULL, "Whether it has a shape but no data: shapes are being inferred.", NULL},
    {NULL, NULL, NULL, NULL, NULL},
};
