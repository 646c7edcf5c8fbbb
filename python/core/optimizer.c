/* Learning-rate schedules and optimizers: rows of the library, and Python schedules that the library calls back.
 *
 * An optimizer of a row holds its numbers (lr, wd, num_update ...) in the C object; Python sees them as attributes.  By
 * hand it is used as opt.update(index, weight, grad, state), where Python keeps counts and states; a Trainer does all
 * of that in C (trainer.c).
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <math.h>

#include "base/error.h"
#include "core.h"
#include "gluon/train/learning.h"

/* ---- schedules -------------------------------------------------------------------------------------------------- */

static PyObject *plain_call; /* __call__ of schedules that nobody overrode */

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

static int set_double(PyObject *value, double *slot)
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

/* What a schedule remembers: its base rate, then its numbers. */
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
    {"base_lr", get_base_lr, set_base_lr, "where the schedule stands now", NULL},
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

/* ---- optimizers: numbers ---------------------------------------------------------------------------------------- */

typedef enum quantity { LR, WD, RESCALE, CLIP, NUM_UPDATE, BEGIN_UPDATE, MULTI_PRECISION } quantity;

static PyObject *get_number(PyObject *self, void *which)
{
    const mx_optimizer *o = described_ready(self);
    if (!o)
        return NULL;
    switch ((quantity)(intptr_t)which) {
    case LR: return PyFloat_FromDouble(o->learning_rate);
    case WD: return PyFloat_FromDouble(o->wd);
    case RESCALE: return PyFloat_FromDouble(o->rescale_grad);
    case CLIP: return o->clip_gradient < 0 ? core_new_ref(Py_None) : PyFloat_FromDouble(o->clip_gradient);
    case NUM_UPDATE: return PyLong_FromLongLong(o->num_update);
    case BEGIN_UPDATE: return PyLong_FromLongLong(o->begin_num_update);
    default: return PyBool_FromLong(o->multi_precision);
    }
}

static int set_count(PyObject *value, int64_t *slot)
{
    double number;
    if (set_double(value, &number))
        return -1;
    *slot = (int64_t)number;
    return 0;
}

static int set_number(PyObject *self, PyObject *value, void *which)
{
    mx_optimizer *o = described_ready(self);
    if (!o)
        return -1;
    switch ((quantity)(intptr_t)which) {
    case LR: return set_double(value, &o->learning_rate);
    case WD: return set_double(value, &o->wd);
    case RESCALE: return set_double(value, &o->rescale_grad);
    case CLIP:
        if (value == Py_None)
            return o->clip_gradient = -1, 0;
        return set_double(value, &o->clip_gradient);
    case NUM_UPDATE: return set_count(value, &o->num_update);
    case BEGIN_UPDATE: return set_count(value, &o->begin_num_update);
    default: return o->multi_precision = value && PyObject_IsTrue(value) == 1, 0;
    }
}

static PyObject *set_scheduler(PyObject *self, PyObject *source)
{
    mx_optimizer *o = described_ready(self);
    if (!o)
        return NULL;
    mx_scope scope = mx_scope_open();
    mx_lr_scheduler *scheduler = scheduler_from(source, o->cls->name);
    PyObject *result = PyErr_Occurred() ? NULL : raise_if(mx_optimizer_set_scheduler(o, scheduler));
    mx_scope_close(&scope);
    return result;
}

static PyObject *get_memory_of_optimizer(PyObject *self, void *unused)
{
    const mx_optimizer *o = described_ready(self);
    (void)unused;
    return o ? Py_BuildValue("dd", o->memory[0], o->memory[1]) : NULL;
}
static int set_memory_of_optimizer(PyObject *self, PyObject *value, void *unused)
{
    mx_optimizer *o = described_ready(self);
    (void)unused;
    return o && value && PyArg_ParseTuple(value, "dd", &o->memory[0], &o->memory[1]) ? 0 : -1;
}

/* ---- optimizers: steps ------------------------------------------------------------------------------------------ */

/* _make_states(weight) -> list of arrays, without a float32 master */
static PyObject *make_states(PyObject *self, PyObject *weight)
{
    mx_optimizer *o = described_ready(self);
    if (!o)
        return NULL;
    if (!nd_check(weight))
        return PyErr_Format(PyExc_TypeError, "%s: the weight must be an NDArray, got %.200s", o->cls->name,
                            Py_TYPE(weight)->tp_name);
    const bool masters = o->multi_precision;
    mx_scope scope = mx_scope_open();
    o->multi_precision = false;
    mx_optimizer_state *state = mx_optimizer_state_new(o, nd_array(weight));
    o->multi_precision = masters;
    PyObject *result = state ? nd_wrap_all((mx_arrays){state->array, mx_optimizer_state_count(state)}) : raise_error();
    mx_scope_close(&scope);
    return result;
}

/* _apply(weight, grad, states, lr, wd, t, base_lr, name): one step with everything given. */
static PyObject *apply(PyObject *self, PyObject *args)
{
    PyObject *weight, *grad, *states;
    mx_array **items = NULL, *array[MX_MAX_STATES] = {NULL};
    long long t;
    mx_update u = {0};
    mx_optimizer *o = described_ready(self);
    if (!o || !PyArg_ParseTuple(args, "O!O!OddLds:_apply", &nd_type, &weight, &nd_type, &grad, &states, &u.lr, &u.wd,
                                &t, &u.base_lr, &u.name))
        return NULL;
    mx_arrays list = nd_list(states, o->cls->name, &items);
    if (list.n < 0)
        return NULL;
    for (int64_t i = 0; i < list.n && i < MX_MAX_STATES; i++)
        array[i] = list.v[i];
    u.weight = nd_array(weight), u.grad = nd_array(grad), u.state = array, u.t = t;
    PyThreadState *state = let_go(u.weight->size > LONG_WORK);
    const mx_code code = mx_optimizer_apply(o, &u);
    take_back(state);
    PyMem_Free(items);
    return raise_if(code);
}

static PyMethodDef optimizer_methods[] = {
    {"_set_scheduler", set_scheduler, METH_O, "_set_scheduler(schedule or None)"},
    {"_make_states", make_states, METH_O, "_make_states(weight): new arrays of state."},
    {"_apply", apply, METH_VARARGS, "_apply(weight, grad, states, lr, wd, t, base_lr, name): one step."},
    {NULL, NULL, 0, NULL},
};
#define NUMBER(name, which, doc) \
    { \
        name, get_number, set_number, doc, (void *)(intptr_t)which \
    }
static PyGetSetDef optimizer_getset[] = {
    NUMBER("lr", LR, "the learning rate, before the schedule"),
    NUMBER("wd", WD, "weight decay"),
    NUMBER("rescale_grad", RESCALE, "what gradients are multiplied by"),
    NUMBER("clip_gradient", CLIP, "gradients are cut to [-c, c]; None: not at all"),
    NUMBER("num_update", NUM_UPDATE, "the most updates that any weight has had"),
    NUMBER("begin_num_update", BEGIN_UPDATE, "updates done before"),
    NUMBER("multi_precision", MULTI_PRECISION, "whether 16-bit weights have float32 masters"),
    {"_memory", get_memory_of_optimizer, set_memory_of_optimizer, NULL, NULL},
    {NULL, NULL, NULL, NULL, NULL},
};
static PyTypeObject optimizer_type = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "mxnet._core.OptimizerRow",
    .tp_methods = optimizer_methods,
    .tp_getset = optimizer_getset,
    .tp_doc = "An optimizer of the library.",
};

static PyMethodDef functions[] = {
    {"set_scheduler_method", set_scheduler_method, METH_O, "The __call__ whose override matters."},
    {NULL, NULL, 0, NULL},
};

int add_optimizers(PyObject *module)
{
    return add_described_type(module, &schedule_type, "SchedulerRow") ||
                   add_described_type(module, &optimizer_type, "OptimizerRow") ||
                   PyModule_AddFunctions(module, functions)
               ? -1
               : 0;
}
