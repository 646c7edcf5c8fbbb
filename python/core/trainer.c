/* Trainers: parameters and the optimizer that changes them.
 *
 * An optimizer of the library runs entirely in C.  One that overrides update() or create_state() in Python is called
 * back (optimizer.c): its states are Python objects, stored in the library's slots.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "gluon/train/trainer.h"

#include "base/error.h"
#include "core.h"
#include "skin.h"

typedef struct trainer_object {
    PyObject_HEAD mx_trainer *trainer; /* retained; NULL before _begin() */
    PyObject *optimizer;               /* the Python object */
    PyObject *stale_type;              /* class of the exception for stale gradients */
} trainer_object;

static mx_trainer *ready(PyObject *self)
{
    mx_trainer *trainer = ((trainer_object *)self)->trainer;
    if (!trainer)
        PyErr_SetString(PyExc_RuntimeError, "Trainer: call __init__ of the base class first");
    return trainer;
}

/* ---- making ----------------------------------------------------------------------------------------------------- */

static mx_trainer *make_trainer(PyObject *list, mx_optimizer *optimizer)
{
    const Py_ssize_t n = PyList_GET_SIZE(list);
    mx_parameter **items = PyMem_Calloc((size_t)n + 1, sizeof *items);
    mx_trainer *made = NULL;
    bool ok = items != NULL;
    for (Py_ssize_t i = 0; ok && i < n; i++) {
        PyObject *item = PyList_GET_ITEM(list, i);
        if (!PyObject_TypeCheck(item, &parameter_type))
            PyErr_Format(PyExc_ValueError, "Trainer: expected a list or dict of Parameters, got one with a %.200s",
                         Py_TYPE(item)->tp_name);
        else
            items[i] = parameter_of(item);
        ok = items[i] != NULL;
    }
    if (ok && !(made = mx_retain(mx_trainer_over(items, n, optimizer))))
        raise_error();
    PyMem_Free(items);
    return made;
}

/* _begin(parameters, optimizer, exception type of stale gradients) */
static PyObject *begin(PyObject *object, PyObject *args)
{
    trainer_object *self = (trainer_object *)object;
    PyObject *list, *optimizer, *stale;
    if (!PyArg_ParseTuple(args, "O!O!O:_begin", &PyList_Type, &list, &optimizer_type, &optimizer, &stale))
        return NULL;
    mx_scope scope = mx_scope_open();
    mx_optimizer *found = described_ready(optimizer);
    mx_trainer *made = found ? make_trainer(list, found) : NULL;
    mx_scope_close(&scope);
    if (!made)
        return NULL;
    mx_release(self->trainer);
    self->trainer = made;
    Py_XSETREF(self->optimizer, core_new_ref(optimizer));
    Py_XSETREF(self->stale_type, core_new_ref(stale));
    Py_RETURN_NONE;
}

static void trainer_dealloc(PyObject *object)
{
    trainer_object *self = (trainer_object *)object;
    mx_release(self->trainer);
    Py_XDECREF(self->optimizer), Py_XDECREF(self->stale_type);
    Py_TYPE(object)->tp_free(object);
}

static PyObject *trainer_new(PyTypeObject *type, PyObject *args, PyObject *keywords)
{
    (void)args, (void)keywords;
    return type->tp_alloc(type, 0);
}

/* ---- stepping --------------------------------------------------------------------------------------------------- */

/* A stale gradient raises a UserWarning as an exception. */
static PyObject *fail(trainer_object *self)
{
    if (!PyErr_Occurred() && mx_error_code() == MX_ERR_STATE) {
        PyErr_SetString(self->stale_type, mx_error_message());
        mx_error_clear();
    }
    return raise_error();
}

static PyObject *run(trainer_object *self, double batch_size, bool ignore_stale, bool reduce)
{
    mx_trainer *trainer = self->trainer;
    if (batch_size == 0)
        return PyErr_Format(PyExc_ZeroDivisionError, "Trainer.step: batch_size is 0");
    const double scale = trainer->scale;
    trainer->scale = scale / batch_size; /* batch_size need not be an integer */
    PyThreadState *state = let_go(true);
    const mx_code code = !reduce        ? mx_trainer_update(trainer, 1, ignore_stale)
                         : ignore_stale ? mx_trainer_step_ignoring_stale(trainer, 1)
                                        : mx_trainer_step(trainer, 1);
    take_back(state);
    trainer->scale = scale;
    if (code)
        return fail(self);
    Py_RETURN_NONE;
}

static PyObject *step_or_update(PyObject *object, PyObject *const *args, Py_ssize_t n, PyObject *names, bool reduce)
{
    PyObject *given[2] = {NULL, NULL};
    static const char *const known[2] = {"batch_size", "ignore_stale_grad"};
    const Py_ssize_t named = names ? PyTuple_GET_SIZE(names) : 0;
    for (Py_ssize_t i = 0; i < n + named; i++) {
        Py_ssize_t at = i;
        for (at = i < n ? i : 0; i >= n && at < 2; at++)
            if (!PyUnicode_CompareWithASCIIString(PyTuple_GET_ITEM(names, i - n), known[at]))
                break;
        if (at >= 2 || given[at])
            return PyErr_Format(PyExc_TypeError, "Trainer: step and update take batch_size and ignore_stale_grad");
        given[at] = args[i];
    }
    if (!given[0])
        return PyErr_Format(PyExc_TypeError, "Trainer: batch_size is missing");
    const double batch_size = PyFloat_AsDouble(given[0]);
    if ((batch_size == -1 && PyErr_Occurred()) || !ready(object))
        return NULL;
    return run((trainer_object *)object, batch_size, given[1] && PyObject_IsTrue(given[1]) == 1, reduce);
}
static PyObject *step(PyObject *self, PyObject *const *args, Py_ssize_t n, PyObject *names)
{
    return step_or_update(self, args, n, names, true);
}
static PyObject *update(PyObject *self, PyObject *const *args, Py_ssize_t n, PyObject *names)
{
    return step_or_update(self, args, n, names, false);
}

static PyObject *allreduce_grads(PyObject *self, PyObject *unused)
{
    (void)unused;
    return ready(self) ? raise_if(mx_trainer_allreduce_grads(((trainer_object *)self)->trainer)) : NULL;
}

/* _set_compression(type, threshold) */
static PyObject *set_compression(PyObject *self, PyObject *args)
{
    const char *type;
    double threshold;
    if (!ready(self) || !PyArg_ParseTuple(args, "sd:compression_params", &type, &threshold))
        return NULL;
    return raise_if(mx_trainer_set_compression(((trainer_object *)self)->trainer, type, threshold));
}

/* ---- states ----------------------------------------------------------------------------------------------------- */

static PyObject *with_path(PyObject *self, PyObject *path, mx_code (*function)(mx_trainer *, const char *))
{
    PyObject *bytes;
    if (!ready(self) || !PyUnicode_FSConverter(path, &bytes))
        return NULL;
    const mx_code code = function(((trainer_object *)self)->trainer, PyBytes_AS_STRING(bytes));
    Py_DECREF(bytes);
    return raise_if(code);
}
static PyObject *save(PyObject *self, PyObject *path) { return with_path(self, path, mx_trainer_save_states); }
static PyObject *load(PyObject *self, PyObject *path) { return with_path(self, path, mx_trainer_load_states); }

/* The Python optimizer's states are its own objects. */
static bool called_back(const mx_trainer *trainer) { return trainer->optimizer->hooks.update != NULL; }

/* _state(i): as create_state_multi_precision returns it, or None */
static PyObject *get_state(PyObject *object, PyObject *number)
{
    mx_trainer *trainer = ready(object);
    const Py_ssize_t i = trainer ? PyLong_AsSsize_t(number) : -1;
    if (!trainer || i < 0 || i >= trainer->count)
        return PyErr_Occurred() ? NULL : PyErr_Format(PyExc_IndexError, "Trainer: there is no parameter %zd", i);
    const mx_optimizer_state *state = trainer->slots[i].state;
    return state ? state_to(trainer->optimizer, state) : core_new_ref(Py_None);
}

/* Converts the given state to the layout of the current one, which takes over its values. */
static mx_code copy_arrays(const mx_trainer *trainer, mx_optimizer_state *state, mx_arrays list, mx_array *weight)
{
    mx_optimizer_state *given = mx_optimizer_state_given(state->id, list);
    if (!given || mx_optimizer_state_settle(trainer->optimizer, given, weight))
        return mx_error_code();
    const int n = mx_optimizer_state_count(state), came = mx_optimizer_state_count(given);
    if (came != n)
        return mx_fail(MX_ERR_ARGUMENT, "Trainer: got a state of %d arrays, the optimizer has %d", came, n);
    for (int k = 0; k < n; k++)
        if (mx_array_set(mx_optimizer_state_at(state, k), mx_optimizer_state_at(given, k)))
            return mx_error_code();
    return MX_OK;
}

static bool fill_state(const mx_trainer *trainer, mx_optimizer_state *state, PyObject *source, mx_array *weight)
{
    mx_array *arrays[MOST_STATE_ARRAYS];
    if (called_back(trainer)) {
        PyObject *old = state->own;
        state->own = core_new_ref(source);
        Py_XDECREF(old);
        return true;
    }
    const int n = state_from(source, arrays);
    return n >= 0 && !copy_arrays(trainer, state, (mx_arrays){arrays, n}, weight);
}

/* _set_state(i, result of _state, number of updates) */
static PyObject *set_state(PyObject *object, PyObject *args)
{
    Py_ssize_t i;
    PyObject *source;
    long long updates;
    mx_trainer *trainer = ready(object);
    if (!trainer || !PyArg_ParseTuple(args, "nOL:_set_state", &i, &source, &updates))
        return NULL;
    if (i < 0 || i >= trainer->count || !mx_parameter_ready(trainer->slots[i].parameter))
        return PyErr_Format(PyExc_ValueError, "Trainer: there is no initialized parameter %zd for this state", i);
    mx_trainer_slot *slot = &trainer->slots[i];
    mx_scope scope = mx_scope_open();
    mx_array *weight = slot->parameter->data[0];
    mx_optimizer_state *state = mx_optimizer_state_of(trainer->optimizer, mx_id_number(i), weight);
    const bool ok = state && fill_state(trainer, state, source, weight);
    if (ok) {
        state->updates = updates;
        mx_retain(state);
        mx_release(slot->state);
        slot->state = state;
    }
    mx_scope_close(&scope);
    return ok ? core_new_ref(Py_None) : raise_error();
}

static PyObject *get_updates(PyObject *self, void *unused)
{
    mx_trainer *trainer = ready(self);
    (void)unused;
    PyObject *dict = trainer ? PyDict_New() : NULL;
    for (int64_t i = 0; dict && i < trainer->count; i++)
        if (trainer->slots[i].state) {
            PyObject *key = PyLong_FromLongLong(i), *value = PyLong_FromLongLong(trainer->slots[i].state->updates);
            if (!key || !value || PyDict_SetItem(dict, key, value))
                Py_CLEAR(dict);
            Py_XDECREF(key), Py_XDECREF(value);
        }
    return dict;
}

static PyObject *get_scale(PyObject *self, void *unused)
{
    const mx_trainer *trainer = ready(self);
    (void)unused;
    return trainer ? PyFloat_FromDouble(trainer->scale) : NULL;
}
static int set_scale(PyObject *self, PyObject *value, void *unused)
{
    mx_trainer *trainer = ready(self);
    (void)unused;
    const double scale = trainer && value ? PyFloat_AsDouble(value) : -1;
    if (!trainer || PyErr_Occurred())
        return -1;
    trainer->scale = scale;
    return 0;
}

/* ---- the type --------------------------------------------------------------------------------------------------- */

#define FAST(function) (PyCFunction)(void (*)(void)) function, METH_FASTCALL | METH_KEYWORDS
static PyMethodDef methods[] = {
    {"_begin", begin, METH_VARARGS, NULL},
    {"step", FAST(step),
     "step($self, batch_size, ignore_stale_grad=False)\n--\n\nSums the gradients over contexts, divides them "
     "by batch_size and updates the parameters."},
    {"update", FAST(update),
     "update($self, batch_size, ignore_stale_grad=False)\n--\n\nUpdates the parameters; call allreduce_grads() "
     "before it."},
    {"allreduce_grads", allreduce_grads, METH_NOARGS,
     "allreduce_grads($self)\n--\n\nSums the gradients over contexts, so that they can be inspected or changed before update()."},
    {"_set_compression", set_compression, METH_VARARGS, NULL},
    {"_save", save, METH_O, NULL},
    {"_load", load, METH_O, NULL},
    {"_state", get_state, METH_O, NULL},
    {"_set_state", set_state, METH_VARARGS, NULL},
    {NULL, NULL, 0, NULL},
};
static PyGetSetDef getset[] = {
    {"_scale", get_scale, set_scale, "rescale_grad of the optimizer when the trainer was created", NULL},
    {"_updates", get_updates, NULL, "how often each parameter was updated", NULL},
    {NULL, NULL, NULL, NULL, NULL},
};
static PyTypeObject trainer_type = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "mxnet._core.Trainer",
    .tp_basicsize = sizeof(trainer_object),
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE,
    .tp_new = trainer_new,
    .tp_dealloc = trainer_dealloc,
    .tp_methods = methods,
    .tp_getset = getset,
    .tp_doc = "Applies an optimizer to parameters.",
};

mx_trainer *trainer_of(PyObject *object)
{
    if (PyObject_TypeCheck(object, &trainer_type))
        return ready(object);
    PyErr_Format(PyExc_TypeError, "expected a Trainer, got %.200s", Py_TYPE(object)->tp_name);
    return NULL;
}

int add_trainers(PyObject *module)
{
    return PyType_Ready(&trainer_type) ? -1 : PyModule_AddObjectRef(module, "Trainer", (PyObject *)&trainer_type);
}
