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
    bool direct;                       /* step() runs in C; false: the object's _step() does it */
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
    mx_parameter **items = core_memory((size_t)n + 1, sizeof *items);
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
        PyObject *text = error_text();
        if (text)
            PyErr_SetObject(self->stale_type, text);
        Py_XDECREF(text);
        mx_error_clear();
    }
    return raise_error();
}

typedef mx_code (*part_fn)(mx_trainer *trainer, bool ignore_stale);

static PyObject *run_part(PyObject *object, part_fn part, bool ignore_stale)
{
    mx_trainer *trainer = ready(object);
    if (!trainer)
        return NULL;
    PyThreadState *state = let_go(true);
    const mx_code code = part(trainer, ignore_stale);
    take_back(state);
    if (code)
        return part == mx_trainer_check ? fail((trainer_object *)object) : raise_error();
    Py_RETURN_NONE;
}

/* A step with the optimizer's rescale_grad as it is, after the check. */
static mx_code run_step(mx_trainer *trainer, bool ignore_stale)
{
    return mx_trainer_exchange(trainer) || mx_trainer_apply(trainer, ignore_stale) ? mx_error_code() : MX_OK;
}
static mx_code run_exchange(mx_trainer *trainer, bool unused) { return (void)unused, mx_trainer_exchange(trainer); }

static PyObject *check_and_run(PyObject *self, bool ignore_stale)
{
    PyObject *checked = run_part(self, mx_trainer_check, ignore_stale);
    Py_XDECREF(checked);
    return checked ? run_part(self, run_step, ignore_stale) : NULL;
}

static PyObject *run(PyObject *self, PyObject *ignore) { return check_and_run(self, PyObject_IsTrue(ignore) == 1); }
static PyObject *check(PyObject *self, PyObject *ignore)
{
    return run_part(self, mx_trainer_check, PyObject_IsTrue(ignore) == 1);
}
static PyObject *apply(PyObject *self, PyObject *ignore)
{
    return run_part(self, mx_trainer_apply, PyObject_IsTrue(ignore) == 1);
}
static PyObject *exchange(PyObject *self, PyObject *unused)
{
    return (void)unused, run_part(self, run_exchange, false);
}

static PyObject *run_direct(trainer_object *self, double batch_size, bool ignore_stale)
{
    mx_trainer *trainer = self->trainer;
    if (batch_size == 0)
        return PyErr_Format(PyExc_ZeroDivisionError, "Trainer.step: batch_size is 0");
    trainer->optimizer->rescale_grad = trainer->scale / batch_size; /* batch_size need not be an integer */
    return check_and_run((PyObject *)self, ignore_stale);
}

static PyObject *step(PyObject *object, PyObject *const *args, Py_ssize_t n, PyObject *names)
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
            return PyErr_Format(PyExc_TypeError, "Trainer.step: takes batch_size and ignore_stale_grad");
        given[at] = args[i];
    }
    if (!given[0])
        return PyErr_Format(PyExc_TypeError, "Trainer.step: batch_size is missing");
    if (!ready(object))
        return NULL;
    if (!((trainer_object *)object)->direct)
        return PyObject_CallMethod(object, "_step", "OO", given[0], given[1] ? given[1] : Py_False);
    const double batch_size = PyFloat_AsDouble(given[0]);
    if (batch_size == -1 && PyErr_Occurred())
        return NULL;
    return run_direct((trainer_object *)object, batch_size, given[1] && PyObject_IsTrue(given[1]) == 1);
}

static PyObject *get_direct(PyObject *self, void *unused)
{
    (void)unused;
    return PyBool_FromLong(((trainer_object *)self)->direct);
}
static int set_direct(PyObject *self, PyObject *value, void *unused)
{
    (void)unused;
    ((trainer_object *)self)->direct = value && PyObject_IsTrue(value) == 1;
    return 0;
}

/* ---- the store -------------------------------------------------------------------------------------------------- */

/* _set_store(KVStore or None, number of an mx_trainer_sync) */
static PyObject *set_store(PyObject *self, PyObject *args)
{
    PyObject *store;
    int sync;
    mx_trainer *trainer = ready(self);
    if (!trainer || !PyArg_ParseTuple(args, "Oi:_set_store", &store, &sync))
        return NULL;
    mx_kvstore *found = store == Py_None ? NULL : store_of(store);
    if (store != Py_None && !found)
        return NULL;
    return raise_if(mx_trainer_set_store(trainer, found, (mx_trainer_sync)sync));
}

/* _set_sharding(on): states are divided among processes */
static PyObject *set_sharding(PyObject *self, PyObject *on)
{
    mx_trainer *trainer = ready(self);
    return trainer ? raise_if(mx_trainer_set_sharding(trainer, PyObject_IsTrue(on) == 1)) : NULL;
}

/* _prepare(): what _spread does, for all parameters that have values; processes compare theirs first */
static mx_code run_prepare(mx_trainer *trainer, bool unused) { return (void)unused, mx_trainer_prepare(trainer); }
static PyObject *prepare(PyObject *self, PyObject *unused) { return (void)unused, run_part(self, run_prepare, false); }

/* _spread(i): all copies of parameter i get the values of the first */
static PyObject *spread(PyObject *self, PyObject *number)
{
    mx_trainer *trainer = ready(self);
    const Py_ssize_t i = trainer ? PyLong_AsSsize_t(number) : -1;
    if (!trainer || i < 0 || i >= trainer->count)
        return PyErr_Occurred() ? NULL : PyErr_Format(PyExc_IndexError, "Trainer: there is no parameter %zd", i);
    mx_mode mode = mx_mode_enter(0, -1);
    const mx_code code = mx_trainer_spread(trainer, i);
    mx_mode_leave(&mode);
    return raise_if(code);
}

/* _forget_states(): the next step creates new ones */
static PyObject *forget_states(PyObject *self, PyObject *unused)
{
    mx_trainer *trainer = ready(self);
    (void)unused;
    for (int64_t i = 0; trainer && i < trainer->count; i++)
        mx_trainer_drop_states(&trainer->slots[i]);
    return trainer ? core_new_ref(Py_None) : NULL;
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

/* _state(i, copy): as create_state_multi_precision returns it, or None */
static PyObject *get_state(PyObject *object, PyObject *args)
{
    mx_trainer *trainer = ready(object);
    Py_ssize_t i;
    int copy = 0;
    if (!trainer || !PyArg_ParseTuple(args, "n|i:_state", &i, &copy))
        return NULL;
    if (i < 0 || i >= trainer->count || copy < 0 || copy >= MX_MAX_CONTEXTS)
        return PyErr_Format(PyExc_IndexError, "Trainer: there is no parameter %zd, or no copy %d", i, copy);
    const mx_trainer_slot *slot = &trainer->slots[i];
    const mx_optimizer_state *state = !copy ? slot->state : slot->more ? slot->more[copy] : NULL;
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

/* _set_state(i, result of _state, number of updates, which copy of the parameter = 0) */
static PyObject *set_state(PyObject *object, PyObject *args)
{
    Py_ssize_t i;
    PyObject *source;
    long long updates;
    int copy = 0;
    mx_trainer *trainer = ready(object);
    if (!trainer || !PyArg_ParseTuple(args, "nOL|i:_set_state", &i, &source, &updates, &copy))
        return NULL;
    if (i < 0 || i >= trainer->count || !mx_parameter_ready(trainer->slots[i].parameter) || copy < 0 ||
        copy >= trainer->slots[i].parameter->count)
        return PyErr_Format(PyExc_ValueError,
                            "Trainer: there is no initialized parameter %zd, or no copy %d of it, for this state", i,
                            copy);
    mx_trainer_slot *slot = &trainer->slots[i];
    mx_scope scope = mx_scope_open();
    mx_array *weight = slot->parameter->data[copy];
    mx_optimizer_state *state =
        copy ? mx_trainer_state(trainer, i, copy) : mx_optimizer_state_of(trainer->optimizer, mx_id_number(i), weight);
    bool ok = state && fill_state(trainer, state, source, weight);
    if (ok) {
        state->updates = updates;
        ok = copy || !mx_trainer_put_state(trainer, i, state);
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
    {"_run", run, METH_O, "_run(ignore_stale_grad): a step with the optimizer's rescale_grad."},
    {"_check", check, METH_O, "_check(ignore_stale_grad): raises an error if a gradient is missing or not new."},
    {"_exchange", exchange, METH_NOARGS, "_exchange(): what passes through the store."},
    {"_apply", apply, METH_O, "_apply(ignore_stale_grad): the updates that the store does not make."},
    {"_set_store", set_store, METH_VARARGS, "_set_store(KVStore or None, 0: weights, 1: gradients, 2: nothing)"},
    {"_set_sharding", set_sharding, METH_O, "_set_sharding(on): states are divided among processes."},
    {"_prepare", prepare, METH_NOARGS, "_prepare(): all copies on all processes get the values of the first."},
    {"_spread", spread, METH_O, "_spread(i): all copies of parameter i get the values of the first."},
    {"_forget_states", forget_states, METH_NOARGS, "_forget_states(): the next step creates new ones."},
    {"_save", save, METH_O, NULL},
    {"_load", load, METH_O, NULL},
    {"_state", get_state, METH_VARARGS, "_state(i, copy=0): the optimizer's state of a parameter."},
    {"_set_state", set_state, METH_VARARGS, NULL},
    {NULL, NULL, 0, NULL},
};
static PyGetSetDef getset[] = {
    {"_scale", get_scale, set_scale, "rescale_grad of the optimizer when the trainer was created", NULL},
    {"_updates", get_updates, NULL, "how often each parameter was updated", NULL},
    {"_direct", get_direct, set_direct, "whether step() runs in C, without calling _step()", NULL},
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
