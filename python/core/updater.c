/* Updaters, and tables of the library by id, which are dictionaries in Python.
 *
 *     Updater ---> mx_updater                        updater(index, grad, weight)
 *     Table(optimizer, "lr_mult") ---> mx_id_table   inside the optimizer or updater, which the table keeps alive
 *
 * A Table stores nothing: it reads and writes the library's table.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "gluon/train/updater.h"

#include "base/error.h"
#include "core.h"
#include "ndarray/sparse.h"
#include "skin.h"

typedef struct updater_object {
    PyObject_HEAD mx_updater *updater; /* retained; NULL before _begin() */
    PyObject *optimizer;               /* the Python object */
} updater_object;

/* ---- values of tables ---------------------------------------------------------------------------------------------- */

typedef struct table_object {
    PyObject_HEAD PyObject *owner; /* Optimizer or Updater */
    const struct table_kind *kind;
    int64_t device; /* of counts */
} table_object;

typedef struct table_kind {
    const char *name;
    mx_id_table *(*find)(const table_object *self); /* NULL with an exception */
    PyObject *(*get)(const table_object *self, const mx_dict_entry *entry);
    int (*set)(const table_object *self, mx_id id, PyObject *value);
    bool objects; /* values are released when they are removed */
} table_kind;

#define RATES_TABLE(field) \
    static mx_id_table *find_##field(const table_object *self) \
    { \
        mx_optimizer *o = described_ready(self->owner); \
        return o ? &o->rates.field : NULL; \
    }
RATES_TABLE(lr_mult)
RATES_TABLE(wd_mult)
RATES_TABLE(noted_lr)
RATES_TABLE(noted_wd)
RATES_TABLE(names)
RATES_TABLE(parameters)

static mx_id_table *find_counts(const table_object *self)
{
    mx_optimizer *o = described_ready(self->owner);
    mx_id_table *counts = o ? mx_rates_counts(&o->rates, self->device, true) : NULL;
    if (o && !counts)
        raise_error();
    return counts;
}

static mx_id_table *find_states(const table_object *self)
{
    mx_updater *updater = updater_of(self->owner);
    return updater ? &updater->states : NULL;
}

static PyObject *get_double(const table_object *self, const mx_dict_entry *entry)
{
    (void)self;
    return PyFloat_FromDouble(mx_entry_double(entry));
}
static int put_double(const table_object *self, mx_id id, PyObject *value)
{
    double number;
    if (set_double(value, &number))
        return -1;
    return mx_id_set_double(self->kind->find(self), id, number) ? raise_error(), -1 : 0;
}

static PyObject *get_count(const table_object *self, const mx_dict_entry *entry)
{
    (void)self;
    return PyLong_FromLongLong(entry->number);
}
static int put_count(const table_object *self, mx_id id, PyObject *value)
{
    const long long count = PyLong_AsLongLong(value);
    mx_dict_entry *entry = PyErr_Occurred() ? NULL : mx_id_place(self->kind->find(self), id);
    if (!entry)
        return raise_error(), -1;
    entry->number = count;
    return 0;
}

static PyObject *get_name(const table_object *self, const mx_dict_entry *entry)
{
    (void)self;
    return PyUnicode_FromString(entry->pointer);
}
static int put_name(const table_object *self, mx_id id, PyObject *value)
{
    const char *name = PyUnicode_AsUTF8(value);
    if (!name)
        return -1;
    return mx_optimizer_set_name(described_get(self->owner), id, name) ? raise_error(), -1 : 0;
}

static PyObject *get_parameter(const table_object *self, const mx_dict_entry *entry)
{
    (void)self;
    return parameter_wrap(entry->pointer);
}
static int put_parameter(const table_object *self, mx_id id, PyObject *value)
{
    if (!PyObject_TypeCheck(value, &parameter_type)) {
        PyErr_Format(PyExc_TypeError, "param_dict: expected Parameters, got %.200s", Py_TYPE(value)->tp_name);
        return -1;
    }
    mx_parameter *p = parameter_of(value);
    return !p || mx_optimizer_set_parameter(described_get(self->owner), id, p) ? raise_error(), -1 : 0;
}

static PyObject *get_state(const table_object *self, const mx_dict_entry *entry)
{
    return state_to(updater_of(self->owner)->optimizer, entry->pointer);
}

static void release_python(void *object)
{
    PyGILState_STATE gil = PyGILState_Ensure();
    Py_DECREF((PyObject *)object);
    PyGILState_Release(gil);
}

/* A state that was assigned is returned unchanged until the next update converts it. */
static int put_state(const table_object *self, mx_id id, PyObject *value)
{
    mx_array *arrays[MOST_STATE_ARRAYS];
    mx_updater *updater = updater_of(self->owner);
    const int n = updater->optimizer->hooks.update ? 0 : state_from(value, arrays);
    if (n < 0)
        return -1;
    mx_scope scope = mx_scope_open();
    mx_optimizer_state *state = mx_optimizer_state_given(id, (mx_arrays){arrays, n});
    if (state)
        state->own = core_new_ref(value), state->release_own = release_python;
    const bool ok = state && !mx_updater_set_state(updater, id, state);
    mx_scope_close(&scope);
    return ok ? 0 : (raise_error(), -1);
}

static PyObject *get_synced(const table_object *self, const mx_dict_entry *entry)
{
    (void)self;
    return PyBool_FromLong(!((const mx_optimizer_state *)entry->pointer)->loose);
}
/* A state that is not synced is moved to its weight's device at the next update. */
static int put_synced(const table_object *self, mx_id id, PyObject *value)
{
    mx_updater *updater = updater_of(self->owner);
    mx_optimizer_state *state = mx_updater_state(updater, id);
    const int synced = PyObject_IsTrue(value);
    if (!state || synced < 0)
        return synced < 0 ? -1 : 0;
    if (synced || state->loose)
        return 0;
    PyObject *shown = state_to(updater->optimizer, state);
    const int failed = shown ? put_state(self, id, shown) : -1;
    Py_XDECREF(shown);
    return failed;
}

static const table_kind kinds[] = {
    {"lr_mult", find_lr_mult, get_double, put_double, false},
    {"wd_mult", find_wd_mult, get_double, put_double, false},
    {"noted_lr", find_noted_lr, get_double, put_double, false},
    {"noted_wd", find_noted_wd, get_double, put_double, false},
    {"idx2name", find_names, get_name, put_name, false},
    {"param_dict", find_parameters, get_parameter, put_parameter, true},
    {"counts", find_counts, get_count, put_count, false},
    {"states", find_states, get_state, put_state, true},
    {"states_synced", find_states, get_synced, put_synced, true},
};

/* ---- tables -------------------------------------------------------------------------------------------------------- */

/* Table(owner, name, device=0) */
static PyObject *table_new(PyTypeObject *type, PyObject *args, PyObject *keywords)
{
    PyObject *owner;
    const char *name;
    long long device = 0;
    (void)keywords;
    if (!PyArg_ParseTuple(args, "Os|L:Table", &owner, &name, &device))
        return NULL;
    const table_kind *kind = kinds;
    while (kind < kinds + sizeof kinds / sizeof *kinds && strcmp(kind->name, name))
        kind++;
    if (kind == kinds + sizeof kinds / sizeof *kinds)
        return PyErr_Format(PyExc_ValueError, "Table: there is no table '%s'", name);
    if (!PyObject_TypeCheck(owner, kind->find == find_states ? &updater_type : &optimizer_type))
        return PyErr_Format(PyExc_TypeError, "Table: a %.100s has no '%s'", Py_TYPE(owner)->tp_name, name);
    table_object *self = (table_object *)type->tp_alloc(type, 0);
    if (self)
        self->owner = core_new_ref(owner), self->kind = kind, self->device = device;
    return (PyObject *)self;
}

static void table_dealloc(PyObject *object)
{
    Py_XDECREF(((table_object *)object)->owner);
    Py_TYPE(object)->tp_free(object);
}

static Py_ssize_t table_length(PyObject *object)
{
    const table_object *self = (table_object *)object;
    const mx_id_table *table = self->kind->find(self);
    return table ? (Py_ssize_t)mx_id_table_length(table) : -1;
}

static PyObject *table_get(PyObject *object, PyObject *key)
{
    const table_object *self = (table_object *)object;
    const mx_id_table *table = self->kind->find(self);
    const mx_dict_entry *entry = NULL;
    mx_id id;
    if (!table)
        return NULL;
    if (id_from(key, &id, self->kind->name))
        PyErr_Clear(); /* not an id: there is no entry for it */
    else
        entry = mx_id_find(table, id);
    if (!entry)
        PyErr_SetObject(PyExc_KeyError, key);
    return entry ? self->kind->get(self, entry) : NULL;
}

static int table_remove(const table_object *self, mx_id_table *table, mx_id id, PyObject *key)
{
    const mx_dict_entry *entry = mx_id_find(table, id);
    if (!entry) {
        PyErr_SetObject(PyExc_KeyError, key);
        return -1;
    }
    void *value = self->kind->objects ? entry->pointer : NULL;
    mx_id_remove(table, id);
    mx_release(value);
    return 0;
}

static int table_set(PyObject *object, PyObject *key, PyObject *value)
{
    const table_object *self = (table_object *)object;
    mx_id_table *table = self->kind->find(self);
    mx_id id;
    if (!table || id_from(key, &id, self->kind->name))
        return -1;
    return value ? self->kind->set(self, id, value) : table_remove(self, table, id, key);
}

static PyObject *table_iter(PyObject *object)
{
    const table_object *self = (table_object *)object;
    const mx_id_table *table = self->kind->find(self);
    PyObject *list = table ? PyList_New(0) : NULL;
    for (int64_t i = 0; list && i < mx_id_table_length(table); i++) {
        PyObject *key = id_to(mx_id_at(table, i));
        if (!key || PyList_Append(list, key))
            Py_CLEAR(list);
        Py_XDECREF(key);
    }
    PyObject *iterator = list ? PyObject_GetIter(list) : NULL;
    Py_XDECREF(list);
    return iterator;
}

static PyMappingMethods table_mapping = {table_length, table_get, table_set};
static PyTypeObject table_type = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "mxnet._core.Table",
    .tp_basicsize = sizeof(table_object),
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE,
    .tp_new = table_new,
    .tp_dealloc = table_dealloc,
    .tp_as_mapping = &table_mapping,
    .tp_iter = table_iter,
    .tp_doc = "Table(optimizer or updater, name, device=0): a table of the library by index or name.",
};

/* ---- updaters ------------------------------------------------------------------------------------------------------ */

mx_updater *updater_of(PyObject *object)
{
    mx_updater *updater = PyObject_TypeCheck(object, &updater_type) ? ((updater_object *)object)->updater : NULL;
    if (!updater)
        PyErr_SetString(PyExc_RuntimeError, "Updater: call __init__ of the base class first");
    return updater;
}

static mx_optimizer *optimizer_from(PyObject *optimizer)
{
    if (PyObject_TypeCheck(optimizer, &optimizer_type))
        return described_ready(optimizer);
    PyErr_Format(PyExc_TypeError, "Updater: expected an Optimizer, got %.200s", Py_TYPE(optimizer)->tp_name);
    return NULL;
}

static PyObject *get_optimizer(PyObject *self, void *unused)
{
    (void)unused;
    return updater_of(self) ? core_new_ref(((updater_object *)self)->optimizer) : NULL;
}

/* Creates the updater on first use. */
static int set_optimizer(PyObject *object, PyObject *value, void *unused)
{
    updater_object *self = (updater_object *)object;
    mx_optimizer *optimizer = value ? optimizer_from(value) : NULL;
    (void)unused;
    if (!optimizer)
        return -1;
    mx_scope scope = mx_scope_open();
    if (self->updater)
        mx_updater_set_optimizer(self->updater, optimizer);
    else
        self->updater = mx_retain(mx_updater_new(optimizer));
    mx_scope_close(&scope);
    if (!self->updater)
        return raise_error(), -1;
    Py_XSETREF(self->optimizer, core_new_ref(value));
    return 0;
}

static PyObject *updater_new(PyTypeObject *type, PyObject *args, PyObject *keywords)
{
    (void)args, (void)keywords;
    return type->tp_alloc(type, 0);
}

static void updater_dealloc(PyObject *object)
{
    updater_object *self = (updater_object *)object;
    mx_release(self->updater);
    Py_XDECREF(self->optimizer);
    Py_TYPE(object)->tp_free(object);
}

/* Moves the state of a Python optimizer to the weight's device, by sync_state_context(). */
static int sync_own(PyObject *self, mx_optimizer_state *state, const mx_array *weight)
{
    PyObject *context = context_to(weight->context);
    PyObject *moved =
        context ? PyObject_CallMethod(self, "sync_state_context", "OO", (PyObject *)state->own, context) : NULL;
    Py_XDECREF(context);
    if (!moved)
        return -1;
    PyObject *old = state->own;
    state->own = moved, state->loose = false;
    Py_DECREF(old);
    return 0;
}

/* A Python optimizer may have overridden what the library would do itself. */
static int set_device(PyObject *self, const mx_array *weight)
{
    PyObject *optimizer = ((updater_object *)self)->optimizer;
    PyObject *done = PyObject_CallMethod(optimizer, "_set_current_context", "i", (int)weight->context.id);
    Py_XDECREF(done);
    return done ? 0 : -1;
}

/* Handles the Python part of a state; the library handles the rest. */
static int prepare(PyObject *self, mx_updater *updater, mx_id id, const mx_array *weight)
{
    mx_optimizer_state *state = mx_updater_state(updater, id);
    const bool by_python = updater->optimizer->hooks.update != NULL;
    if (by_python && set_device(self, weight))
        return -1;
    if (state && state->loose && by_python)
        return sync_own(self, state, weight);
    return state || by_python ? 0 : warn_of_half(updater->optimizer, weight, 1);
}

static int update_one(PyObject *self, mx_updater *updater, PyObject *index, PyObject *grad, PyObject *weight)
{
    mx_id id;
    if (!nd_check(grad) || !nd_check(weight)) {
        PyErr_Format(PyExc_TypeError, "Updater: expected NDArrays, got %.100s and %.100s", Py_TYPE(grad)->tp_name,
                     Py_TYPE(weight)->tp_name);
        return -1;
    }
    if (id_from(index, &id, "Updater: index of a weight") || prepare(self, updater, id, nd_array(weight)))
        return -1;
    PyThreadState *thread = let_go(nd_array(weight)->size > LONG_WORK);
    const mx_code code = mx_updater_update(updater, id, nd_array(grad), nd_array(weight));
    take_back(thread);
    return code ? raise_error(), -1 : 0;
}

static PyObject *updater_call(PyObject *self, PyObject *args, PyObject *keywords)
{
    static char *names[] = {"index", "grad", "weight", NULL};
    PyObject *index, *grad, *weight;
    mx_updater *updater = updater_of(self);
    if (!updater || !PyArg_ParseTupleAndKeywords(args, keywords, "OOO:Updater", names, &index, &grad, &weight))
        return NULL;
    if (!PyList_Check(index) && !PyTuple_Check(index))
        return update_one(self, updater, index, grad, weight) ? NULL : core_new_ref(Py_None);
    PyObject *lists[3] = {PySequence_Fast(index, "Updater: expected a list of indices"),
                          PySequence_Fast(grad, "Updater: expected a list of gradients"),
                          PySequence_Fast(weight, "Updater: expected a list of weights")};
    bool ok = lists[0] && lists[1] && lists[2];
    Py_ssize_t n = ok ? PySequence_Fast_GET_SIZE(lists[0]) : 0;
    for (int k = 1; ok && k < 3; k++)
        n = PySequence_Fast_GET_SIZE(lists[k]) < n ? PySequence_Fast_GET_SIZE(lists[k]) : n;
    for (Py_ssize_t i = 0; ok && i < n; i++)
        ok = !update_one(self, updater, PySequence_Fast_GET_ITEM(lists[0], i), PySequence_Fast_GET_ITEM(lists[1], i),
                         PySequence_Fast_GET_ITEM(lists[2], i));
    for (int k = 0; k < 3; k++)
        Py_XDECREF(lists[k]);
    return ok ? core_new_ref(Py_None) : NULL;
}

static PyGetSetDef updater_getset[] = {
    {"optimizer", get_optimizer, set_optimizer, "The optimizer.", NULL},
    {NULL, NULL, NULL, NULL, NULL},
};
PyTypeObject updater_type = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "mxnet._core.Updater",
    .tp_basicsize = sizeof(updater_object),
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE,
    .tp_new = updater_new,
    .tp_dealloc = updater_dealloc,
    .tp_call = updater_call,
    .tp_getset = updater_getset,
    .tp_doc = "An optimizer with the states of weights by index.",
};

int add_updaters(PyObject *module)
{
    if (PyType_Ready(&table_type) || PyType_Ready(&updater_type))
        return -1;
    return PyModule_AddObjectRef(module, "Table", (PyObject *)&table_type) ||
                   PyModule_AddObjectRef(module, "Updater", (PyObject *)&updater_type)
               ? -1
               : 0;
}
