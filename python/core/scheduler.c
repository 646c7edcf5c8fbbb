/* Learning-rate schedules: those of the library, and Python schedules that the library calls back.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <math.h>

#include "base/error.h"
#include "core.h"
#include "gluon/train/learning.h"

static PyObject *plain_call; /* __call__ of the library's schedules, not overridden */

static double rate_by_python(void *user, double base_lr, int64_t num_update)
{
    PyGILState_STATE state = PyGILState_Ensure();
    (void)base_lr; /* the Python object has its own */
    PyObject *result = PyErr_Occurred() ? NULL : PyObject_CallFunction(user, "L", (long long)num_update);
    double rate = result ? PyFloat_AsDouble(result) : MX_NONE_FLOAT;
    Py_XDECREF(result);
    if (PyErr_Occurred()) {
        rate = MX_NONE_FLOAT;
        mx_error_set(MX_ERR_CALLBACK, "a learning-rate schedule written in Python failed");
    }
    PyGILState_Release(state);
    return rate;
}

static void release_python(void *user)
{
    PyGILState_STATE state = PyGILState_Ensure();
    Py_DECREF((PyObject *)user);
    PyGILState_Release(state);
}

static double base_of(PyObject *source)
{
    PyObject *base = PyObject_GetAttrString(source, "base_lr");
    const double value = base ? PyFloat_AsDouble(base) : 0.01;
    Py_XDECREF(base);
    PyErr_Clear();
    return value;
}

static PyTypeObject schedule_type;

static bool is_plain(PyObject *source)
{
    if (!PyObject_TypeCheck(source, &schedule_type) || !described_get(source))
        return false;
    PyObject *call = PyObject_GetAttrString((PyObject *)Py_TYPE(source), "__call__");
    Py_XDECREF(call); /* the type keeps it */
    PyErr_Clear();
    return call && call == plain_call;
}

mx_lr_scheduler *scheduler_from(PyObject *source, const char *who)
{
    if (source == Py_None)
        return NULL;
    if (is_plain(source))
        return mx_scope_add(mx_retain(described_get(source)));
    if (!PyCallable_Check(source) || PyType_Check(source)) {
        PyErr_Format(PyExc_TypeError, "%s: lr_scheduler must be an LRScheduler or a callable(num_update), got %.200s",
                     who, Py_TYPE(source)->tp_name);
        return NULL;
    }
    mx_lr_scheduler *made = mx_lr_scheduler_custom(rate_by_python, base_of(source), source, release_python);
    if (!made)
        raise_error();
    else
        Py_INCREF(source);
    return made;
}

static PyObject *schedule_rate(PyObject *self, PyObject *number)
{
    mx_lr_scheduler *scheduler = described_ready(self);
    const double exact = scheduler ? PyFloat_AsDouble(number) : 0;
    if (!scheduler || (exact == -1 && PyErr_Occurred()))
        return NULL;
    const double rate = mx_lr_scheduler_rate(scheduler, (int64_t)exact);
    return isnan(rate) && mx_has_error() ? raise_error() : PyFloat_FromDouble(rate);
}

static PyObject *get_base_lr(PyObject *self, void *unused)
{
    const mx_lr_scheduler *scheduler = described_ready(self);
    (void)unused;
    return scheduler ? PyFloat_FromDouble(scheduler->base_lr) : NULL;
}

int set_double(PyObject *value, double *slot)
{
    const double number = value ? PyFloat_AsDouble(value) : -1;
    if (!value)
        PyErr_SetString(PyExc_AttributeError, "it cannot be deleted");
    if (PyErr_Occurred())
        return -1;
    *slot = number;
    return 0;
}

static int set_base_lr(PyObject *self, PyObject *value, void *unused)
{
    mx_lr_scheduler *scheduler = described_ready(self);
    (void)unused;
    return scheduler ? set_double(value, &scheduler->base_lr) : -1;
}

/* The state of a schedule: its base rate, then its numbers. */
static PyObject *get_memory(PyObject *self, void *unused)
{
    const mx_lr_scheduler *s = described_ready(self);
    (void)unused;
    return s ? Py_BuildValue("ddddd", s->base_lr, s->state[0], s->state[1], s->state[2], s->state[3]) : NULL;
}
static int set_memory(PyObject *self, PyObject *value, void *unused)
{
    mx_lr_scheduler *s = described_ready(self);
    (void)unused;
    return s && value &&
                   PyArg_ParseTuple(value, "ddddd", &s->base_lr, &s->state[0], &s->state[1], &s->state[2], &s->state[3])
               ? 0
               : -1;
}

static PyMethodDef schedule_methods[] = {
    {"_rate", schedule_rate, METH_O, "_rate(num_update): the learning rate."},
    {NULL, NULL, 0, NULL},
};
static PyGetSetDef schedule_getset[] = {
    {"base_lr", get_base_lr, set_base_lr, "the current state of the schedule", NULL},
    {"_memory", get_memory, set_memory, NULL, NULL},
    {NULL, NULL, NULL, NULL, NULL},
};
static PyTypeObject schedule_type = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "mxnet._core.SchedulerRow",
    .tp_methods = schedule_methods,
    .tp_getset = schedule_getset,
    .tp_doc = "A learning-rate schedule of the library.",
};

static PyObject *set_scheduler_method(PyObject *module, PyObject *call)
{
    (void)module;
    Py_XSETREF(plain_call, core_new_ref(call));
    Py_RETURN_NONE;
}

static PyMethodDef functions[] = {
    {"set_scheduler_method", set_scheduler_method, METH_O, "Registers the __call__ whose overrides the library must call."},
    {NULL, NULL, 0, NULL},
};

int add_schedulers(PyObject *module)
{
    return add_described_type(module, &schedule_type, "SchedulerRow") || PyModule_AddFunctions(module, functions) ? -1
                                                                                                                  : 0;
}
