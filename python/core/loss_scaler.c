/* LossScaler: loss scaling for networks in 16 bits.  SPDX-License-Identifier: Apache-2.0 */
#include "gluon/loss_scaler.h"

#include "base/error.h"
#include "core.h"
#include "skin.h"

typedef struct scaler_object {
    PyObject_HEAD mx_loss_scaler *scaler; /* retained */
} scaler_object;

static mx_loss_scaler *scaler_of(PyObject *self) { return ((scaler_object *)self)->scaler; }

static PyObject *scaler_new(PyTypeObject *type, PyObject *args, PyObject *keywords)
{
    static char *names[] = {"init_scale", "scale_factor", "scale_window", "max_scale", NULL};
    struct mx_loss_scaler_options o = {.scale = 65536, .factor = 2, .most = 16777216, .window = 2000};
    long long window = o.window;
    if (!PyArg_ParseTupleAndKeywords(args, keywords, "|ddLd:LossScaler", names, &o.scale, &o.factor, &window, &o.most))
        return NULL;
    o.window = window;
    mx_scope scope = mx_scope_open();
    mx_loss_scaler *made = mx_loss_scaler_make(&o);
    scaler_object *self = made ? (scaler_object *)type->tp_alloc(type, 0) : NULL;
    if (self)
        self->scaler = mx_retain(made);
    mx_scope_close(&scope);
    return made ? (PyObject *)self : raise_error();
}

static void scaler_dealloc(PyObject *self)
{
    mx_release(scaler_of(self));
    Py_TYPE(self)->tp_free(self);
}

/* _scale(loss): loss * scale */
static PyObject *scale(PyObject *self, PyObject *loss)
{
    if (!nd_check(loss))
        return PyErr_Format(PyExc_TypeError, "scale_loss: expected an NDArray, got %.200s", Py_TYPE(loss)->tp_name);
    mx_scope scope = mx_scope_open();
    mx_array *scaled = mx_scale_loss(scaler_of(self), nd_array(loss));
    PyObject *result = scaled ? nd_wrap(scaled) : raise_error();
    mx_scope_close(&scope);
    return result;
}

/* _overflow(list of gradients) */
static PyObject *overflow(PyObject *self, PyObject *list)
{
    const Py_ssize_t n = PyList_Check(list) ? PyList_GET_SIZE(list) : 0;
    mx_array **arrays = core_memory((size_t)n + 1, sizeof *arrays);
    if (!arrays)
        return PyErr_NoMemory();
    for (Py_ssize_t i = 0; i < n; i++) {
        if (!nd_check(PyList_GET_ITEM(list, i))) {
            PyMem_Free(arrays);
            return PyErr_Format(PyExc_TypeError, "has_overflow: expected NDArrays, got %.200s",
                                Py_TYPE(PyList_GET_ITEM(list, i))->tp_name);
        }
        arrays[i] = nd_array(PyList_GET_ITEM(list, i));
    }
    const bool found = mx_loss_scaler_overflow(scaler_of(self), (mx_arrays){arrays, n});
    PyMem_Free(arrays);
    return mx_has_error() ? raise_error() : PyBool_FromLong(found);
}

/* _attach(trainer): its steps divide by the scale and check for overflows. */
static PyObject *attach(PyObject *self, PyObject *trainer)
{
    mx_trainer *found = trainer_of(trainer);
    if (!found)
        return NULL;
    return mx_trainer_set_loss_scaler(found, scaler_of(self)) ? raise_error() : core_new_ref(Py_None);
}

/* _unscale(trainer): divides its gradients by the scale now. */
static PyObject *unscale(PyObject *self, PyObject *trainer)
{
    (void)self;
    mx_trainer *found = trainer_of(trainer);
    if (!found)
        return NULL;
    return mx_trainer_unscale(found) ? raise_error() : core_new_ref(Py_None);
}

static PyObject *get_scale(PyObject *self, void *unused)
{
    (void)unused;
    return PyFloat_FromDouble(mx_loss_scaler_scale(scaler_of(self)));
}

static PyMethodDef methods[] = {
    {"_scale", scale, METH_O, NULL},     {"_overflow", overflow, METH_O, NULL}, {"_attach", attach, METH_O, NULL},
    {"_unscale", unscale, METH_O, NULL}, {NULL, NULL, 0, NULL},
};
static PyGetSetDef getset[] = {
    {"loss_scale", get_scale, NULL, "The factor that losses are multiplied by now.", NULL},
    {NULL, NULL, NULL, NULL, NULL},
};
static PyTypeObject scaler_type = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "mxnet._core.LossScaler",
    .tp_basicsize = sizeof(scaler_object),
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE,
    .tp_new = scaler_new,
    .tp_dealloc = scaler_dealloc,
    .tp_methods = methods,
    .tp_getset = getset,
    .tp_doc = "Scales losses; trainer steps divide by the scale and are skipped after an overflow.",
};

int add_loss_scalers(PyObject *module)
{
    return PyType_Ready(&scaler_type) ? -1 : PyModule_AddObjectRef(module, "LossScaler", (PyObject *)&scaler_type);
}
