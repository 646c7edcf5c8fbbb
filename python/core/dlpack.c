/* DLPack: arrays of other libraries without a copy, and ours to them.
 *
 *     __dlpack__()  ---> capsule "dltensor" (or "dltensor_versioned") ---> the other library renames and owns it
 *     from_dlpack() <--- such a capsule: the array keeps the tensor alive and calls its deleter at the end
 *
 * A tensor that we export retains the array, not the Python object, so its deleter needs no Python.  Tensors whose
 * elements are not contiguous are copied: arrays always are.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "core.h"

/* The layout is the standard's; every field as it is there. */
typedef struct dl_device {
    int32_t type, id;
} dl_device;
typedef struct dl_type {
    uint8_t code, bits;
    uint16_t lanes;
} dl_type;
typedef struct dl_tensor {
    void *data;
    dl_device device;
    int32_t ndim;
    dl_type dtype;
    int64_t *shape, *strides; /* in elements; strides NULL: contiguous */
    uint64_t byte_offset;
} dl_tensor;
typedef struct dl_managed {
    dl_tensor tensor;
    void *owner;
    void (*deleter)(struct dl_managed *);
} dl_managed;
typedef struct dl_versioned {
    uint32_t major, minor;
    void *owner;
    void (*deleter)(struct dl_versioned *);
    uint64_t flags;
    dl_tensor tensor;
} dl_versioned;

enum { DL_CPU = 1, DL_CUDA = 2, DL_CUDA_HOST = 3, DL_READ_ONLY = 1 };
static const char plain_name[] = "dltensor", versioned_name[] = "dltensor_versioned";

/* ---- types ----------------------------------------------------------------------------------------------------- */

static const dl_type types[MX_DTYPE_END] = {
    [MX_FLOAT32] = {2, 32, 1}, [MX_FLOAT64] = {2, 64, 1}, [MX_FLOAT16] = {2, 16, 1}, [MX_BFLOAT16] = {4, 16, 1},
    [MX_UINT8] = {1, 8, 1},    [MX_INT8] = {0, 8, 1},     [MX_INT32] = {0, 32, 1},   [MX_INT64] = {0, 64, 1},
    [MX_BOOL] = {6, 8, 1},
};

static mx_dtype dtype_of(dl_type type)
{
    for (int i = 0; i < MX_DTYPE_END; i++)
        if (types[i].bits && types[i].code == type.code && types[i].bits == type.bits && type.lanes == 1)
            return (mx_dtype)i;
    return MX_DTYPE_NONE;
}

static dl_device device_of(const mx_array *x)
{
    const bool gpu = x->context.type == MX_GPU;
    return (dl_device){gpu ? DL_CUDA : DL_CPU, gpu ? x->context.id : 0};
}

/* ---- out ------------------------------------------------------------------------------------------------------- */

typedef struct exported {
    union {
        dl_managed plain;
        dl_versioned versioned;
    } head;          /* what the other library sees; its owner field points back here */
    mx_array *array; /* retained */
    int64_t strides[MX_MAX_NDIM];
} exported;

static void forget(exported *e)
{
    mx_release(e->array);
    PyMem_RawFree(e);
}
static void delete_plain(dl_managed *self) { forget(self->owner); }
static void delete_versioned(dl_versioned *self) { forget(self->owner); }

/* A capsule that nobody took still owns its tensor. */
static void drop_capsule(PyObject *capsule)
{
    if (PyCapsule_IsValid(capsule, plain_name)) {
        dl_managed *tensor = PyCapsule_GetPointer(capsule, plain_name);
        if (tensor->deleter)
            tensor->deleter(tensor);
    } else if (PyCapsule_IsValid(capsule, versioned_name)) {
        dl_versioned *tensor = PyCapsule_GetPointer(capsule, versioned_name);
        if (tensor->deleter)
            tensor->deleter(tensor);
    }
}

static dl_tensor tensor_of(exported *e)
{
    mx_array *x = e->array;
    int64_t stride = 1;
    for (int i = x->ndim - 1; i >= 0; i--) {
        e->strides[i] = stride;
        stride *= x->shape[i] ? x->shape[i] : 1;
    }
    return (dl_tensor){x->size ? mx_data(x) : NULL, device_of(x), x->ndim, types[x->dtype], x->shape, e->strides, 0};
}

static PyObject *capsule_of(PyObject *self, bool versioned, bool writing)
{
    mx_array *x = nd_array(self);
    if (!x->storage)
        return PyErr_Format(PyExc_BufferError, "__dlpack__: the array has no values: its shape is only being inferred");
    if (x->readonly && (writing || !versioned))
        return PyErr_Format(PyExc_BufferError,
                            "__dlpack__: the array is read-only, which this form of DLPack cannot say");
    mx_array_wait(x);
    if (!x->readonly)
        mx_array_expose(x);
    exported *e = PyMem_RawCalloc(1, sizeof *e);
    if (!e)
        return PyErr_NoMemory();
    e->array = mx_retain(x);
    const dl_tensor tensor = tensor_of(e);
    if (versioned)
        e->head.versioned = (dl_versioned){1, 0, e, delete_versioned, x->readonly ? DL_READ_ONLY : 0, tensor};
    else
        e->head.plain = (dl_managed){tensor, e, delete_plain};
    PyObject *capsule = PyCapsule_New(&e->head, versioned ? versioned_name : plain_name, drop_capsule);
    if (!capsule)
        forget(e);
    return capsule;
}

static PyObject *for_reading(PyObject *self, PyObject *unused) { return (void)unused, capsule_of(self, false, false); }
static PyObject *for_writing(PyObject *self, PyObject *unused) { return (void)unused, capsule_of(self, false, true); }

/* __dlpack__(*, stream=None, max_version=None, dl_device=None, copy=None) */
static PyObject *nd_dlpack(PyObject *self, PyObject *args, PyObject *keywords)
{
    static char *names[] = {"stream", "max_version", "dl_device", "copy", NULL};
    PyObject *stream = Py_None, *version = Py_None, *device = Py_None, *copy = Py_None, *source = self, *result = NULL;
    long major = 0;
    if (!PyArg_ParseTupleAndKeywords(args, keywords, "|$OOOO:__dlpack__", names, &stream, &version, &device, &copy))
        return NULL;
    if (PyTuple_Check(version) && PyTuple_GET_SIZE(version) == 2)
        major = PyLong_AsLong(PyTuple_GET_ITEM(version, 0));
    if (PyErr_Occurred())
        return NULL;
    const dl_device ours = device_of(nd_array(self));
    if (device != Py_None) {
        dl_device wanted;
        if (!PyArg_ParseTuple(device, "ii;dl_device must be a pair of numbers", &wanted.type, &wanted.id))
            return NULL;
        if (wanted.type != ours.type || wanted.id != ours.id)
            return PyErr_Format(PyExc_BufferError,
                                "__dlpack__: the array is not on device (%d, %d); copy it there first", wanted.type,
                                wanted.id);
    }
    if (copy == Py_True && !(source = PyObject_CallMethod(self, "copy", NULL)))
        return NULL;
    result = capsule_of(source, major >= 1, false);
    if (source != self)
        Py_DECREF(source);
    return result;
}

static PyObject *nd_dlpack_device(PyObject *self, PyObject *unused)
{
    const dl_device device = device_of(nd_array(self));
    (void)unused;
    return Py_BuildValue("(ii)", device.type, device.id);
}

/* ---- in -------------------------------------------------------------------------------------------------------- */

static void release_plain(void *owner)
{
    dl_managed *tensor = owner;
    if (tensor->deleter)
        tensor->deleter(tensor);
}
static void release_versioned(void *owner)
{
    dl_versioned *tensor = owner;
    if (tensor->deleter)
        tensor->deleter(tensor);
}

static int shape_of(const dl_tensor *t, mx_shape_t *shape)
{
    if (t->ndim < 0 || t->ndim > MX_MAX_NDIM) {
        PyErr_Format(PyExc_BufferError, "from_dlpack: the tensor has %d axes; at most %d are possible", (int)t->ndim,
                     MX_MAX_NDIM);
        return -1;
    }
    *shape = (mx_shape_t){.ndim = t->ndim};
    for (int i = 0; i < t->ndim; i++) {
        shape->dim[i] = t->shape[i];
        if (t->shape[i] < 0) {
            PyErr_Format(PyExc_BufferError, "from_dlpack: axis %d has size %lld", i, (long long)t->shape[i]);
            return -1;
        }
    }
    return 0;
}

static bool is_contiguous(const dl_tensor *t)
{
    int64_t stride = 1;
    for (int i = t->ndim - 1; t->strides && i >= 0; i--) {
        if (t->shape[i] != 1 && t->strides[i] != stride)
            return false;
        stride *= t->shape[i];
    }
    return true;
}

static char *copy_strided(char *to, const char *from, const dl_tensor *t, int axis, int64_t item)
{
    if (axis == t->ndim) {
        memcpy(to, from, (size_t)item);
        return to + item;
    }
    for (int64_t i = 0; i < t->shape[axis]; i++)
        to = copy_strided(to, from + i * t->strides[axis] * item, t, axis + 1, item);
    return to;
}

/* An array over the tensor's memory; *taken says whether it now owns the tensor. */
static mx_array *array_of(const dl_tensor *t, bool readonly, void (*release)(void *), void *owner, bool *taken)
{
    mx_shape_t shape;
    const mx_dtype dtype = dtype_of(t->dtype);
    if (t->device.type != DL_CPU && t->device.type != DL_CUDA_HOST)
        return PyErr_Format(PyExc_BufferError, "from_dlpack: the tensor is not in the memory of the CPU"), NULL;
    if (dtype == MX_DTYPE_NONE)
        return PyErr_Format(PyExc_BufferError,
                            "from_dlpack: arrays have no elements of DLPack type (code %d, %d bits, %d lanes)",
                            t->dtype.code, t->dtype.bits, t->dtype.lanes),
               NULL;
    if (shape_of(t, &shape))
        return NULL;
    const int64_t size = mx_shape_size(&shape);
    char *data = (char *)t->data + t->byte_offset;
    mx_array *x;
    if (size > 0 && is_contiguous(t)) {
        x = mx_array_adopt(&shape, dtype, data, release, owner);
        *taken = x != NULL;
        if (x)
            x->readonly = readonly;
    } else {
        x = size < 0 ? NULL : mx_array_new(&shape, dtype, mx_cpu(0));
        if (x && size)
            copy_strided(mx_data(x), data, t, 0, mx_dtype_size(dtype));
    }
    return x ? x : (raise_error(), NULL);
}

static PyObject *from_dlpack(PyObject *self, PyObject *capsule)
{
    bool taken = false;
    mx_array *x = NULL;
    (void)self;
    if (PyCapsule_IsValid(capsule, plain_name)) {
        dl_managed *m = PyCapsule_GetPointer(capsule, plain_name);
        x = array_of(&m->tensor, false, release_plain, m, &taken);
        if (taken)
            PyCapsule_SetName(capsule, "used_dltensor");
    } else if (PyCapsule_IsValid(capsule, versioned_name)) {
        dl_versioned *m = PyCapsule_GetPointer(capsule, versioned_name);
        if (m->major > 1)
            return PyErr_Format(PyExc_BufferError, "from_dlpack: version %u.%u of DLPack is not known here", m->major,
                                m->minor);
        x = array_of(&m->tensor, m->flags & DL_READ_ONLY, release_versioned, m, &taken);
        if (taken)
            PyCapsule_SetName(capsule, "used_dltensor_versioned");
    } else
        return PyErr_Format(PyExc_TypeError,
                            "from_dlpack: a DLPack capsule that was not used yet is wanted, got %.200s",
                            Py_TYPE(capsule)->tp_name);
    PyObject *result = x ? nd_wrap(x) : NULL;
    mx_release(x);
    return result;
}

/* ---- the module's part ----------------------------------------------------------------------------------------- */

PyMethodDef nd_dlpack_methods[] = {
    {"to_dlpack_for_read", for_reading, METH_NOARGS, "A DLPack capsule of the array, for reading."},
    {"to_dlpack_for_write", for_writing, METH_NOARGS, "A DLPack capsule of the array, for reading and writing."},
    {"__dlpack__", (PyCFunction)(void (*)(void))nd_dlpack, METH_VARARGS | METH_KEYWORDS, NULL},
    {"__dlpack_device__", nd_dlpack_device, METH_NOARGS, NULL},
    {NULL, NULL, 0, NULL},
};

static PyMethodDef functions[] = {
    {"from_dlpack", from_dlpack, METH_O, "An array over the memory of a DLPack capsule."},
    {NULL, NULL, 0, NULL},
};

int add_dlpack(PyObject *module) { return PyModule_AddFunctions(module, functions); }
