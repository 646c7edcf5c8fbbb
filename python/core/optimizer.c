/* Optimizers: classes of the library, and the base of classes written in Python.
 *
 *     Optimizer ---> mx_optimizer      hyperparameters, rates, counts: attributes and tables in Python (updater.c)
 *
 * A class that overrides create_state(), update() or a rate is called back: its C object has hooks that call
 * create_state_multi_precision() and update_multi_precision() of the Python object, so updaters, trainers and stores
 * run the override.  The hooks borrow the Python object; if it is freed before the C object, they fail.
 *
 * States and single steps are in optimizer_step.c.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <math.h>

#include "base/error.h"
#include "core.h"
#include "gluon/train/learning.h"

/* ---- ids ---------------------------------------------------------------------------------------------------------- */

int id_from(PyObject *key, mx_id *id, const char *who)
{
    if (PyUnicode_Check(key)) {
        *id = mx_id_name(PyUnicode_AsUTF8(key));
        return id->name ? 0 : -1;
    }
    if (!PyIndex_Check(key)) {
        PyErr_Format(PyExc_TypeError, "%s: expected ints or strings, got %.200s", who, Py_TYPE(key)->tp_name);
        return -1;
    }
    PyObject *number = PyNumber_Index(key);
    *id = mx_id_number(number ? PyLong_AsLongLong(number) : 0);
    Py_XDECREF(number);
    return PyErr_Occurred() ? -1 : 0;
}

PyObject *id_to(mx_id id) { return id.name ? PyUnicode_FromString(id.name) : PyLong_FromLongLong(id.number); }

/* ---- classes written in Python ------------------------------------------------------------------------------------ */

static mx_code make_by_python(void *user, mx_id id, mx_array *weight, void **state)
{
    PyGILState_STATE gil = PyGILState_Ensure();
    PyObject *key = user && !PyErr_Occurred() ? id_to(id) : NULL, *array = key ? nd_wrap(weight) : NULL;
    PyObject *made = array ? PyObject_CallMethod(user, "create_state_multi_precision", "OO", key, array) : NULL;
    Py_XDECREF(key), Py_XDECREF(array);
    *state = made;
    PyGILState_Release(gil);
    return made ? MX_OK : mx_error_set(MX_ERR_CALLBACK, "create_state of an optimizer written in Python failed");
}

static mx_code update_by_python(void *user, mx_id id, mx_array *weight, mx_array *grad, void *state)
{
    PyGILState_STATE gil = PyGILState_Ensure();
    PyObject *key = user && !PyErr_Occurred() ? id_to(id) : NULL, *w = key ? nd_wrap(weight) : NULL,
             *g = w ? nd_wrap(grad) : NULL;
    PyObject *done =
        g ? PyObject_CallMethod(user, "update_multi_precision", "OOOO", key, w, g, state ? (PyObject *)state : Py_None)
          : NULL;
    const bool ok = done != NULL;
    Py_XDECREF(done), Py_XDECREF(g), Py_XDECREF(w), Py_XDECREF(key);
    PyGILState_Release(gil);
    return ok ? MX_OK : mx_error_set(MX_ERR_CALLBACK, "update of an optimizer written in Python failed");
}

static void release_python(void *object)
{
    PyGILState_STATE gil = PyGILState_Ensure();
    Py_DECREF((PyObject *)object);
    PyGILState_Release(gil);
}

/* _call_back(): updates go through the Python object from now on. */
static PyObject *call_back(PyObject *self, PyObject *unused)
{
    mx_optimizer *o = described_ready(self);
    (void)unused;
    const mx_optimizer_hooks hooks = {Py_TYPE(self)->tp_name, make_by_python, update_by_python, release_python, NULL};
    return o ? raise_if(mx_optimizer_set_hooks(o, &hooks, self)) : NULL;
}

static void optimizer_dealloc(PyObject *self)
{
    mx_optimizer *o = described_get(self);
    if (o && o->user == self)
        o->user = NULL;
    described_type.tp_dealloc(self);
}

/* _start_own(name): an object without a class of the library. */
static PyObject *start_own(PyObject *object, PyObject *name)
{
    described_object *self = (described_object *)object;
    const char *text = PyUnicode_AsUTF8(name);
    mx_optimizer *made = text ? mx_optimizer_named(text) : NULL;
    if (!made)
        return text ? raise_error() : NULL;
    mx_release(self->object);
    self->cls = NULL, self->object = made, self->options = NULL;
    Py_RETURN_NONE;
}

/* ---- numbers ------------------------------------------------------------------------------------------------------ */

typedef enum quantity { LR, WD, RESCALE, CLIP, NUM_UPDATE, BEGIN_UPDATE, MULTI_PRECISION, AGGREGATE } quantity;

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
    case AGGREGATE: return PyLong_FromLongLong(o->aggregate_num);
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
    case AGGREGATE: return set_count(value, &o->aggregate_num);
    default: return o->multi_precision = value && PyObject_IsTrue(value) == 1, 0;
    }
}

static PyObject *get_learning_rate(PyObject *self, void *unused)
{
    mx_optimizer *o = described_ready(self);
    (void)unused;
    if (!o)
        return NULL;
    const double rate = mx_optimizer_learning_rate(o);
    return isnan(rate) && (mx_has_error() || PyErr_Occurred()) ? raise_error() : PyFloat_FromDouble(rate);
}

static PyObject *set_learning_rate(PyObject *self, PyObject *value)
{
    double rate;
    mx_optimizer *o = described_ready(self);
    if (!o || set_double(value, &rate))
        return NULL;
    if (mx_optimizer_set_learning_rate(o, rate)) {
        PyErr_SetString(PyExc_UserWarning, mx_error_message());
        mx_error_clear();
        return NULL;
    }
    Py_RETURN_NONE;
}

static PyObject *set_scheduler(PyObject *self, PyObject *source)
{
    mx_optimizer *o = described_ready(self);
    if (!o)
        return NULL;
    mx_scope scope = mx_scope_open();
    mx_lr_scheduler *scheduler = scheduler_from(source, mx_optimizer_name(o));
    PyObject *result = PyErr_Occurred() ? NULL : raise_if(mx_optimizer_set_scheduler(o, scheduler));
    mx_scope_close(&scope);
    return result;
}

/* _settle(rate or None) */
static PyObject *settle(PyObject *self, PyObject *rate)
{
    double given = MX_NONE_FLOAT;
    mx_optimizer *o = described_ready(self);
    if (!o || (rate != Py_None && set_double(rate, &given)))
        return NULL;
    mx_optimizer_settle_rate(o, given);
    Py_RETURN_NONE;
}

static PyObject *get_memory(PyObject *self, void *unused)
{
    const mx_optimizer *o = described_ready(self);
    (void)unused;
    return o ? Py_BuildValue("dd", o->memory[0], o->memory[1]) : NULL;
}
static int set_memory(PyObject *self, PyObject *value, void *unused)
{
    mx_optimizer *o = described_ready(self);
    (void)unused;
    return o && value && PyArg_ParseTuple(value, "dd", &o->memory[0], &o->memory[1]) ? 0 : -1;
}

static const mx_optimizer_methods *methods_of(const mx_optimizer *o) { return o->cls ? o->cls->methods : NULL; }

static PyObject *get_memory_name(PyObject *self, void *unused)
{
    const mx_optimizer *o = described_ready(self);
    (void)unused;
    if (!o)
        return NULL;
    return PyUnicode_FromString(methods_of(o) && methods_of(o)->memory ? methods_of(o)->memory : "");
}

/* _own_schedule, _early_rate: facts of the class */
static PyObject *get_fact(PyObject *self, void *early)
{
    const mx_optimizer *o = described_ready(self);
    if (!o)
        return NULL;
    const mx_optimizer_methods *m = methods_of(o);
    return PyBool_FromLong(m && (early ? m->early_rate : m->own_schedule));
}

/* ---- rates and counts of weights ---------------------------------------------------------------------------------- */

/* The results of `each` for every id of a list. */
static PyObject *for_all(PyObject *self, PyObject *indices, double factor, double (*each)(const mx_optimizer *, mx_id))
{
    const mx_optimizer *o = described_ready(self);
    PyObject *items = o ? PySequence_Fast(indices, "expected a list of indices") : NULL;
    PyObject *list = items ? PyList_New(PySequence_Fast_GET_SIZE(items)) : NULL;
    for (Py_ssize_t i = 0; list && i < PyList_GET_SIZE(list); i++) {
        mx_id id;
        PyObject *number = id_from(PySequence_Fast_GET_ITEM(items, i), &id, "optimizer: index of a weight")
                               ? NULL
                               : PyFloat_FromDouble(factor * each(o, id));
        if (number)
            PyList_SET_ITEM(list, i, number);
        else
            Py_CLEAR(list);
    }
    Py_XDECREF(items);
    return list;
}

/* _rates(indices, learning rate) */
static PyObject *rates(PyObject *self, PyObject *args)
{
    PyObject *indices;
    double rate;
    return PyArg_ParseTuple(args, "Od:_rates", &indices, &rate) ? for_all(self, indices, rate, mx_optimizer_lr_mult)
                                                                : NULL;
}

static PyObject *decays(PyObject *self, PyObject *indices) { return for_all(self, indices, 1, mx_optimizer_decay); }

static int count_one(mx_optimizer *o, PyObject *index)
{
    mx_id id;
    if (id_from(index, &id, "optimizer: index of a weight"))
        return -1;
    if (mx_optimizer_count_up(o, id) < 0)
        return raise_error(), -1;
    return 0;
}

static PyObject *update_count(PyObject *self, PyObject *index)
{
    mx_optimizer *o = described_ready(self);
    const bool several = PyList_Check(index) || PyTuple_Check(index);
    if (!o || (!several && count_one(o, index)))
        return NULL;
    for (Py_ssize_t i = 0; several && i < PySequence_Fast_GET_SIZE(index); i++)
        if (count_one(o, PySequence_Fast_GET_ITEM(index, i)))
            return NULL;
    Py_RETURN_NONE;
}

static PyObject *set_current_context(PyObject *self, PyObject *device)
{
    mx_optimizer *o = described_ready(self);
    const long long number = o ? PyLong_AsLongLong(device) : -1;
    if (!o || PyErr_Occurred())
        return NULL;
    if (!mx_rates_counts(&o->rates, number, true))
        return raise_error();
    o->rates.device = number;
    Py_RETURN_NONE;
}

static PyObject *reset_lr_mult(PyObject *self, PyObject *unused)
{
    (void)unused;
    return described_ready(self) ? raise_if(mx_optimizer_reset_lr_mult(described_get(self))) : NULL;
}
static PyObject *reset_wd_mult(PyObject *self, PyObject *unused)
{
    (void)unused;
    return described_ready(self) ? raise_if(mx_optimizer_reset_wd_mult(described_get(self))) : NULL;
}

/* _devices: those with update counts */
static PyObject *get_devices(PyObject *self, void *unused)
{
    const mx_optimizer *o = described_ready(self);
    (void)unused;
    PyObject *list = o ? PyList_New(0) : NULL;
    for (int64_t i = 0; list && i < mx_id_table_length(&o->rates.counts); i++) {
        PyObject *number = PyLong_FromLongLong(mx_id_at(&o->rates.counts, i).number);
        if (!number || PyList_Append(list, number))
            Py_CLEAR(list);
        Py_XDECREF(number);
    }
    return list;
}
static PyObject *get_device(PyObject *self, void *unused)
{
    const mx_optimizer *o = described_ready(self);
    (void)unused;
    return o ? PyLong_FromLongLong(o->rates.device) : NULL;
}

/* ---- the type ----------------------------------------------------------------------------------------------------- */

static PyMethodDef methods[] = {
    {"set_learning_rate", set_learning_rate, METH_O,
     "set_learning_rate($self, lr)\n--\n\nSets the rate; an error if a schedule determines it."},
    {"_start_own", start_own, METH_O, "_start_own(name): creates the object of a class written in Python."},
    {"_call_back", call_back, METH_NOARGS, "_call_back(): the library calls this object's methods."},
    {"_set_scheduler", set_scheduler, METH_O, "_set_scheduler(schedule or None)"},
    {"_settle", settle, METH_O, "_settle(rate or None): sets the given rate, or the schedule's."},
    {"_rates", rates, METH_VARARGS, "_rates(indices, learning rate): rates of weights."},
    {"_decays", decays, METH_O, "_decays(indices): weight decays of weights."},
    {"_update_count", update_count, METH_O,
     "_update_count($self, index)\n--\n\nCounts an update of a weight, or of each of a list."},
    {"_set_current_context", set_current_context, METH_O,
     "_set_current_context($self, device_id)\n--\n\nThe device whose updates are counted from now on."},
    {"_reset_lr_mult", reset_lr_mult, METH_NOARGS, "_reset_lr_mult(): back to the multipliers of the symbol."},
    {"_reset_wd_mult", reset_wd_mult, METH_NOARGS, "_reset_wd_mult(): back to the multipliers of names and the symbol."},
    {NULL, NULL, 0, NULL},
};
#define NUMBER(name, which, doc) \
    { \
        name, get_number, set_number, doc, (void *)(intptr_t)which \
    }
static PyGetSetDef getset[] = {
    NUMBER("lr", LR, "the learning rate, before the schedule"),
    NUMBER("wd", WD, "weight decay"),
    NUMBER("rescale_grad", RESCALE, "the factor that gradients are multiplied by"),
    NUMBER("clip_gradient", CLIP, "gradients are clipped to [-c, c]; None: not clipped"),
    NUMBER("num_update", NUM_UPDATE, "the largest number of updates of any weight"),
    NUMBER("begin_num_update", BEGIN_UPDATE, "the number of updates to start from"),
    NUMBER("multi_precision", MULTI_PRECISION, "whether 16-bit weights have float32 masters"),
    NUMBER("aggregate_num", AGGREGATE, "the number of weights that may be updated in one call"),
    {"learning_rate", get_learning_rate, NULL, "The rate now: the schedule's, or lr.", NULL},
    {"_memory", get_memory, set_memory, NULL, NULL},
    {"_memory_name", get_memory_name, NULL, "MXNet's name of the first number of _memory; '': none", NULL},
    {"_own_schedule", get_fact, NULL, "a schedule keeps its own base rate", NULL},
    {"_early_rate", get_fact, NULL, "rates are taken before an update is counted", (void *)1},
    {"_devices", get_devices, NULL, "the devices whose updates were counted", NULL},
    {"_device", get_device, NULL, "the device whose updates are counted", NULL},
    {NULL, NULL, NULL, NULL, NULL},
};
PyTypeObject optimizer_type = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "mxnet._core.Optimizer",
    .tp_dealloc = optimizer_dealloc,
    .tp_methods = methods,
    .tp_getset = getset,
    .tp_doc = "An optimizer: of the library, or the base of one written in Python.",
};

int add_optimizers(PyObject *module)
{
    if (add_described_type(module, &optimizer_type, "Optimizer"))
        return -1;
    for (PyMethodDef *method = optimizer_steps; method->ml_name; method++) {
        PyObject *made = PyDescr_NewMethod(&optimizer_type, method);
        const int failed = !made || PyDict_SetItemString(optimizer_type.tp_dict, method->ml_name, made);
        Py_XDECREF(made);
        if (failed)
            return -1;
    }
    return 0;
}
