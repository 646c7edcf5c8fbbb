/* DLPack for Python: capsules around the tensors of gluon/dlpack.h.
 *
 *     __dlpack__()  ---> capsule "dltensor" (or "dltensor_versioned") ---> the other library renames and owns it
 *     from_dlpack() <--- such a capsule, or an object that can make one
 *
 * A tensor that we export retains the array, not the Python object, so its deleter needs no Python.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "core.h"
#include "ndarray/dlpack.h"

static const char plain_name[] = "dltensor", versioned_name[] = "dltensor_versioned";

/* BufferError, as other libraries raise, with the library's message. */
static PyObject *buffer_error(void)
{
    if (mx_error_code() == MX_ERR_MEMORY)
        return raise_error();
    PyErr_SetString(PyExc_BufferError, mx_error_message());
    mx_error_clear();
    return NULL;
}

/* ---- out ------------------------------------------------------------------------------------------------------- */

/* A capsule that was not consumed still owns its tensor. */
static void drop_capsule(PyObject *capsule)
{
    if (PyCapsule_IsValid(capsule, plain_name)) {
        mx_dl_managed *tensor = PyCapsule_GetPointer(capsule, plain_name);
        tensor->deleter(tensor);
    } else if (PyCapsule_IsValid(capsule, versioned_name)) {
        mx_dl_versioned *tensor = PyCapsule_GetPointer(capsule, versioned_name);
        tensor->deleter(tensor);
    }
}

static PyObject *capsule_of(mx_array *x, bool versioned, int64_t stream)
{
    void *tensor;
    Py_BEGIN_ALLOW_THREADS tensor =
        versioned ? (void *)mx_to_dlpack_versioned(x, stream) : (void *)mx_to_dlpack(x, stream);
    Py_END_ALLOW_THREADS if (!tensor) return buffer_error();
    PyObject *capsule = PyCapsule_New(tensor, versioned ? versioned_name : plain_name, drop_capsule);
    if (!capsule && versioned)
        ((mx_dl_versioned *)tensor)->deleter(tensor);
    else if (!capsule)
        ((mx_dl_managed *)tensor)->deleter(tensor);
    return capsule;
}

static PyObject *bare_capsule(PyObject *self, PyObject *unused)
{
    (void)unused;
    return capsule_of(nd_array(self), false, 0); /* the consumer does not name its stream */
}

/* None is the default stream; 0 could be that or the thread's. */
static int stream_from(PyObject *object, int64_t *stream)
{
    *stream = MX_DL_DEFAULT_STREAM;
    if (object == Py_None)
        return 0;
    *stream = PyLong_AsLongLong(object);
    if (!PyErr_Occurred() && (*stream == 0 || *stream < -1))
        PyErr_Format(PyExc_ValueError, "__dlpack__: stream must be None, -1, 1, 2 or the handle of a stream, got %lld",
                     (long long)*stream);
    return PyErr_Occurred() ? -1 : 0;
}

/* The array to export, a new reference: self, or a copy if one is requested. */
static PyObject *source_of(PyObject *self, PyObject *device, PyObject *copy)
{
    const mx_context context = nd_array(self)->context;
    const bool gpu = context.type == MX_GPU;
    int type = gpu ? MX_DL_CUDA : MX_DL_CPU, id = gpu ? context.id : 0;
    if (device != Py_None && !PyArg_ParseTuple(device, "ii;dl_device must be a pair of numbers", &type, &id))
        return NULL;
    if (gpu && type == MX_DL_CPU && copy != Py_False) {
        MX_SCOPE;
        mx_array *here;
        Py_BEGIN_ALLOW_THREADS here = mx_array_to(nd_array(self), mx_cpu(0));
        Py_END_ALLOW_THREADS return here ? nd_wrap(here) : raise_error();
    }
    if (type != (gpu ? MX_DL_CUDA : MX_DL_CPU) || id != (gpu ? context.id : 0))
        return PyErr_Format(PyExc_BufferError, "__dlpack__: the array is not on device (%d, %d); copy it there first",
                            type, id);
    return copy == Py_True ? PyObject_CallMethod(self, "copy", NULL) : core_new_ref(self);
}

/* __dlpack__(*, stream=None, max_version=None, dl_device=None, copy=None) */
static PyObject *nd_dlpack(PyObject *self, PyObject *args, PyObject *keywords)
{
    static char *names[] = {"stream", "max_version", "dl_device", "copy", NULL};
    PyObject *stream = Py_None, *version = Py_None, *device = Py_None, *copy = Py_None;
    int64_t number;
    long major = 0;
    if (!PyArg_ParseTupleAndKeywords(args, keywords, "|$OOOO:__dlpack__", names, &stream, &version, &device, &copy))
        return NULL;
    if (PyTuple_Check(version) && PyTuple_GET_SIZE(version) == 2)
        major = PyLong_AsLong(PyTuple_GET_ITEM(version, 0));
    if (PyErr_Occurred() || stream_from(stream, &number))
        return NULL;
    PyObject *source = source_of(self, device, copy);
    PyObject *result = source ? capsule_of(nd_array(source), major >= 1, number) : NULL;
    Py_XDECREF(source);
    return result;
}

static PyObject *nd_dlpack_device(PyObject *self, PyObject *unused)
{
    const mx_context context = nd_array(self)->context;
    const bool gpu = context.type == MX_GPU;
    (void)unused;
    return Py_BuildValue("(ii)", gpu ? MX_DL_CUDA : MX_DL_CPU, gpu ? context.id : 0);
}

/* ---- in -------------------------------------------------------------------------------------------------------- */

/* Takes the tensor out of its capsule. */
static PyObject *from_capsule(PyObject *capsule)
{
    MX_SCOPE;
    mx_array *x;
    const bool versioned = PyCapsule_IsValid(capsule, versioned_name);
    if (!versioned && !PyCapsule_IsValid(capsule, plain_name))
        return PyErr_Format(PyExc_TypeError, "from_dlpack: expected an unused DLPack capsule, got %.200s",
                            Py_TYPE(capsule)->tp_name);
    void *tensor = PyCapsule_GetPointer(capsule, versioned ? versioned_name : plain_name);
    x = versioned ? mx_from_dlpack_versioned(tensor) : mx_from_dlpack(tensor);
    if (!x)
        return buffer_error();
    PyCapsule_SetName(capsule, versioned ? "used_dltensor_versioned" : "used_dltensor");
    return nd_wrap(x);
}

/* source.__dlpack__(), for work on our stream if it is on a GPU. */
static PyObject *ask_for_capsule(PyObject *source)
{
    int type = MX_DL_CPU, id = 0;
    PyObject *device = PyObject_CallMethod(source, "__dlpack_device__", NULL), *result = NULL;
    if (!device && !PyErr_ExceptionMatches(PyExc_AttributeError))
        return NULL;
    PyErr_Clear(); /* older libraries have CPU tensors only */
    const bool known =
        !device || PyArg_ParseTuple(device, "ii;__dlpack_device__ must be a pair of numbers", &type, &id);
    Py_XDECREF(device);
    if (!known)
        return NULL;
    if (type != MX_DL_CUDA)
        return PyObject_CallMethod(source, "__dlpack__", NULL);
    const int64_t stream = mx_dlpack_stream(mx_gpu(id));
    if (!stream)
        return buffer_error();
    PyObject *method = PyObject_GetAttrString(source, "__dlpack__"), *none = PyTuple_New(0);
    PyObject *keywords = Py_BuildValue("{sL}", "stream", (long long)stream);
    if (method && none && keywords)
        result = PyObject_Call(method, none, keywords);
    Py_XDECREF(method), Py_XDECREF(none), Py_XDECREF(keywords);
    return result;
}

static PyObject *from_dlpack(PyObject *self, PyObject *source)
{
    (void)self;
    if (PyCapsule_CheckExact(source) || !PyObject_HasAttrString(source, "__dlpack__"))
        return from_capsule(source);
    PyObject *capsule = ask_for_capsule(source), *result = capsule ? from_capsule(capsule) : NULL;
    Py_XDECREF(capsule);
    return result;
}

/* ---- the module's part ----------------------------------------------------------------------------------------- */

PyMethodDef nd_dlpack_methods[] = {
    {"to_dlpack_for_read", bare_capsule, METH_NOARGS, "A DLPack capsule of the array, for reading."},
    {"to_dlpack_for_write", bare_capsule, METH_NOARGS, "A DLPack capsule of the array, for reading and writing."},
    {"__dlpack__", (PyCFunction)(void (*)(void))nd_dlpack, METH_VARARGS | METH_KEYWORDS, NULL},
    {"__dlpack_device__", nd_dlpack_device, METH_NOARGS, NULL},
    {NULL, NULL, 0, NULL},
};

static PyMethodDef functions[] = {
    {"from_dlpack", from_dlpack, METH_O, "An array over the memory of a DLPack capsule or of an object that exports one."},
    {NULL, NULL, 0, NULL},
};

int add_dlpack(PyObject *module) { return PyModule_AddFunctions(module, functions); }
