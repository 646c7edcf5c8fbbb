/* Trainers: parameters and the optimizer that changes them.
 *
 * An optimizer of the library steps in C alone.  One that overrides update() or create_state() in Python is called
 * back: its states are Python objects that the library's slots keep.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "gluon/train/trainer.h"

#include "base/error.h"
#include "core.h"
#include "skin.h"

typedef struct trainer_object {
    PyObject_HEAD mx_trainer *trainer; /* retained; NULL before _begin() */
    PyObject *optimizer;               /* the Python object */
    bool called_back;                  /* the optimizer's update() is Python's */
    PyObject *stale_type;              /* class of the exception for stale gradients */
} trainer_object;

static mx_trainer *ready(PyObject *self)
{
    mx_trainer *trainer = ((trainer_object *)self)->trainer;
    if (!trainer)
        PyErr_SetString(PyExc_RuntimeError, "Trainer: call the __init__ of the base class first");
    return trainer;
}

/* ---- optimizers written in Python ------------------------------------------------------------------------------- */

static mx_code make_state(void *user, int64_t index, mx_array *weight, void **state)
{
    PyGILState_STATE gil = PyGILState_Ensure();
    PyObject *array = PyErr_Occurred() ? NULL : nd_wrap(weight);
    PyObject *made =
        array ? PyObject_CallMethod(user, "create_state_multi_precision", "LO", (long long)index, array) : NULL;
    Py_XDECREF(array);
    *state = made;
    PyGILState_Release(gil);
    return made ? MX_OK : mx_error_set(MX_ERR_CALLBACK, "create_state of an optimizer written in Python failed");
}

static mx_code update_by_python(void *user, int64_t index, mx_array *weight, mx_array *grad, void *state)
{
    PyGILState_STATE gil = PyGILState_Ensure();
    PyObject *w = PyErr_Occurred() ? NULL : nd_wrap(weight), *g = w ? nd_wrap(grad) : NULL;
    PyObject *done =
        g ? PyObject_CallMethod(user, "update_multi_precision", "LOOO", (long long)index, w, g, (PyObject *)state)
          : NULL;
    const bool ok = done != NULL;
    Py_XDECREF(done), Py_XDECREF(g), Py_XDECREF(w);
    PyGILState_Release(gil);
    return ok ? MX_OK : mx_error_set(MX_ERR_CALLBACK, "update of an optimizer written in Python failed");
}

static void release_python(void *object)
{
    PyGILState_STATE gil = PyGILState_Ensure();
    Py_DECREF((PyObject *)object);
    PyGILState_Release(gil);
}

/* Scope-owned. */
static mx_optimizer *optimizer_for(PyObject *source, bool called_back)
{
    if (!called_back)
        return mx_scope_add(mx_retain(described_ready(source)));
    const mx_optimizer_hooks hooks = {Py_TYPE(source)->tp_name, make_state, update_by_python, release_python,
                                      release_python};
    mx_optimizer *made = mx_optimizer_hooked(&hooks, source);
    PyObject *scale = made ? PyObject_GetAttrString(source, "rescale_grad") : NULL;
    if (!made)
        return raise_error(), NULL;
    Py_INCREF(source);
    made->rescale_grad = scale ? PyFloat_AsDouble(scale) : 1;
    Py_XDECREF(scale);
    return PyErr_Occurred() ? NULL : made;
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
            PyErr_Format(PyExc_ValueError, "Trainer: a list or dict of Parameters is wanted, it has a %.200s",
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

/* _begin(parameters, optimizer, called back, exception type of stale gradients) */
static PyObject *begin(PyObject *object, PyObject *args)
{
    trainer_object *self = (trainer_object *)object;
    PyObject *list, *optimizer, *stale;
    int called_back;
    if (!PyArg_ParseTuple(args, "O!OpO:_begin", &PyList_Type, &list, &optimizer, &called_back, &stale))
        return NULL;
    mx_scope scope = mx_scope_open();
    mx_optimizer *found = optimizer_for(optimizer, called_back);
    mx_trainer *made = found ? make_trainer(list, found) : NULL;
    mx_scope_close(&scope);
    if (!made)
        return NULL;
    mx_release(self->trainer);
    self->trainer = made, self->called_back = called_back;
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

/* A gradient that no backward computed is a UserWarning, as an exception. */
static PyObject *fail(trainer_object *self)
{
    if (!PyErr_Occurred() && mx_error_code() == MX_ERR_STATE) {
        PyErr_SetString(self->stale_type, mx_error_message());
        mx_error_clear();
    }
    return raise_error();
}

/* The Python optimizer's rescale_grad is that of this step. */
static int tell_scale(trainer_object *self, double scale)
{
    PyObject *number = self->called_back ? PyFloat_FromDouble(scale) : NULL;
    const int failed =
        self->called_back && (!number || PyObject_SetAttrString(self->optimizer, "rescale_grad", number));
    Py_XDECREF(number);
    return failed;
}

static PyObject *run(trainer_object *self, double batch_size, bool ignore_stale, bool reduce)
{
    mx_trainer *trainer = self->trainer;
    if (batch_size == 0)
        return PyErr_Format(PyExc_ZeroDivisionError, "Trainer.step: batch_size is 0");
    const double scale = trainer->scale;
    if (tell_scale(self, scale / batch_size))
        return NULL;
    trainer->scale = scale / batch_size; /* batch_size may be no whole number */
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

/* _state(i): what the optimizer made (called back), a list of arrays with a float32 master last, or None */
static PyObject *get_state(PyObject *object, PyObject *number)
{
    mx_trainer *trainer = ready(object);
    const Py_ssize_t i = trainer ? PyLong_AsSsize_t(number) : -1;
    if (!trainer || i < 0 || i >= trainer->count)
        return PyErr_Occurred() ? NULL : PyErr_Format(PyExc_IndexError, "Trainer: there is no parameter %zd", i);
    const mx_optimizer_state *state = trainer->slots[i].state;
    if (!state)
        Py_RETURN_NONE;
    if (((trainer_object *)object)->called_back)
        return core_new_ref(state->own ? (PyObject *)state->own : Py_None);
    const int n = mx_optimizer_state_count(state);
    PyObject *list = PyList_New(n);
    for (int k = 0; list && k < n; k++) {
        PyObject *item = nd_wrap(mx_optimizer_state_at(state, k));
        if (!item)
            Py_CLEAR(list);
        else
            PyList_SET_ITEM(list, k, item);
    }
    return list;
}

static mx_code copy_arrays(mx_optimizer_state *state, mx_arrays list)
{
    const int n = mx_optimizer_state_count(state);
    if (list.n != n)
        return mx_fail(MX_ERR_ARGUMENT, "Trainer: a state of %lld arrays came, the optimizer has %d", (long long)list.n,
                       n);
    for (int k = 0; k < n; k++)
        if (mx_array_set(mx_optimizer_state_at(state, k), list.v[k]))
            return mx_error_code();
    return MX_OK;
}

/* _set_state(i, what _state gave, number of updates) */
static PyObject *set_state(PyObject *object, PyObject *args)
{
    Py_ssize_t i;
    PyObject *source;
    long long updates;
    mx_array **items = NULL;
    trainer_object *self = (trainer_object *)object;
    if (!ready(object) || !PyArg_ParseTuple(args, "nOL:_set_state", &i, &source, &updates))
        return NULL;
    if (i < 0 || i >= self->trainer->count || !mx_parameter_ready(self->trainer->slots[i].parameter))
        return PyErr_Format(PyExc_ValueError, "Trainer: there is no initialized parameter %zd for this state", i);
    mx_trainer_slot *slot = &self->trainer->slots[i];
    mx_scope scope = mx_scope_open();
    mx_optimizer_state *state = mx_optimizer_state_of(self->trainer->optimizer, i, slot->parameter->data[0]);
    mx_arrays list = {NULL, 0};
    if (state && self->called_back) {
        PyObject *old = state->own;
        state->own = core_new_ref(source);
        Py_XDECREF(old);
    } else if (state)
        list = nd_list(source, "Trainer", &items);
    const bool ok = state && list.n >= 0 && (self->called_back || !copy_arrays(state, list));
    if (ok) {
        state->updates = updates;
        mx_retain(state);
        mx_release(slot->state);
        slot->state = state;
    }
    PyMem_Free(items);
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
     "update($self, batch_size, ignore_stale_grad=False)\n--\n\nUpdates the parameters; allreduce_grads() "
     "comes before it."},
    {"allreduce_grads", allreduce_grads, METH_NOARGS,
     "allreduce_grads($self)\n--\n\nSums the gradients over contexts: for a look at them between backward and update."},
    {"_save", save, METH_O, NULL},
    {"_load", load, METH_O, NULL},
    {"_state", get_state, METH_O, NULL},
    {"_set_state", set_state, METH_VARARGS, NULL},
    {NULL, NULL, 0, NULL},
};
static PyGetSetDef getset[] = {
    {"_scale", get_scale, set_scale, "rescale_grad of the optimizer when the trainer was made", NULL},
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
    PyErr_Format(PyExc_TypeError, "a Trainer is wanted, got %.200s", Py_TYPE(object)->tp_name);
    return NULL;
}

int add_trainers(PyObject *module)
{
    return PyType_Ready(&trainer_type) ? -1 : PyModule_AddObjectRef(module, "Trainer", (PyObject *)&trainer_type);
}
