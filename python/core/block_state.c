/* What the library holds of a block, for copies and pickles (mxnet/_copying.py).
 *
 *     _get_state() -> {"entry": the library's class, or None, "options": ..., "prefix": ..., "params": ..., ...}
 *     _set_state(state)   builds the block of such a dict; the object has none yet
 *
 * A layer is built as its constructor does, outside of any name scope; the Python part then replaces parameters and
 * children by those of the state.  Plans are not copied: they are compiled again.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "base/error.h"
#include "block.h"
#include "gluon/compile/hybrid.h"
#include "gluon/rnn/cell.h"
#include "gluon/zoo/zoo.h"

static bool is_block_option(const mx_field *field)
{
    return field->type == MX_FIELD_PTR && !strcmp(field->rule, "mx_block");
}

/* ---- reading ------------------------------------------------------------------------------------------------------- */

/* Options, with blocks (the cell inside a modifier) as their Python objects.  Initializers are not needed any more. */
static PyObject *options_to(const mx_block *block)
{
    const mx_schema *schema = block->cls ? block->cls->schema : NULL;
    PyObject *dict = schema_values(schema, block->options);
    for (int i = 0; dict && schema && i < schema->count; i++) {
        const mx_field *field = &schema->fields[i];
        if (!is_block_option(field))
            continue;
        mx_block *inside = *(mx_block *const *)((const char *)block->options + field->offset);
        PyObject *object = inside ? block_wrap(inside) : core_new_ref(Py_None);
        if (!object || PyDict_SetItemString(dict, field->name, object))
            Py_CLEAR(dict);
        Py_XDECREF(object);
    }
    return dict;
}

static PyObject *counters_to(const mx_dict *counters)
{
    PyObject *dict = PyDict_New();
    for (int64_t i = 0; dict && i < counters->length; i++) {
        PyObject *number = PyLong_FromLongLong(counters->entries[i].number);
        if (!number || PyDict_SetItemString(dict, counters->entries[i].key, number))
            Py_CLEAR(dict);
        Py_XDECREF(number);
    }
    return dict;
}

static PyObject *cell_to(const mx_cell *cell)
{
    if (!cell)
        Py_RETURN_NONE;
    PyObject *memory = PyList_New(0);
    for (int i = 0; memory && i < MX_CELL_MEMORY; i++) {
        /* A symbol left from an unrolled graph is not a value that could be kept. */
        const bool kept = cell->memory[i] && cell->memory[i]->storage;
        PyObject *item = kept ? nd_wrap(cell->memory[i]) : core_new_ref(Py_None);
        if (!item || PyList_Append(memory, item))
            Py_CLEAR(memory);
        Py_XDECREF(item);
    }
    return memory ? Py_BuildValue("LLNN", (long long)cell->counter, (long long)cell->init_counter,
                                  PyBool_FromLong(cell->modified), memory)
                  : NULL;
}

/* (graph, "names of inputs") of a block made of a symbol, else None */
static PyObject *symbol_to(const mx_block *block)
{
    const mx_names names = mx_symbol_block_inputs(block);
    if (names.n < 0)
        Py_RETURN_NONE;
    PyObject *list = PyList_New(0);
    for (int64_t i = 0; list && i < names.n; i++) {
        PyObject *name = PyUnicode_FromString(names.v[i]);
        if (!name || PyList_Append(list, name))
            Py_CLEAR(list);
        Py_XDECREF(name);
    }
    MX_SCOPE;
    PyObject *graph = list ? sym_wrap(mx_symbol_block_outputs(block)) : NULL;
    return graph ? Py_BuildValue("NN", graph, list) : (Py_XDECREF(list), NULL);
}

/* [(shape or None, type), ...] of the first call's inputs, for export */
static PyObject *seen_to(const seen_inputs *seen)
{
    PyObject *list = PyList_New(0);
    for (int i = 0; list && i < seen->n; i++) {
        const mx_shape_t *shape = &seen->shape[i];
        PyObject *dims = shape->ndim < 0 ? core_new_ref(Py_None) : dims_to(shape->dim, shape->ndim);
        PyObject *item = dims ? Py_BuildValue("Ni", dims, seen->type[i]) : NULL;
        if (!item || PyList_Append(list, item))
            Py_CLEAR(list);
        Py_XDECREF(item);
    }
    return list;
}

static PyObject *list_or_none(PyObject *dict) { return dict ? PyDict_Values(dict) : core_new_ref(Py_None); }
static PyObject *or_none(PyObject *object) { return core_new_ref(object ? object : Py_None); }

PyObject *block_get_state(PyObject *object, PyObject *unused)
{
    const block_object *self = (block_object *)object;
    mx_block *block = block_of(object);
    (void)unused;
    if (!block)
        return NULL;
    PyObject *entry = block->cls ? Py_BuildValue("is", (int)block->cls->kind, block->cls->name) : core_new_ref(Py_None);
    return Py_BuildValue("{sNsKsNsNsNsNsssssNsNsNsNsNsNsNsNsNsNs(NNN)s(NN)}", "entry", entry, "whole",
                         (unsigned long long)block->whole, "options", options_to(block), "symbol", symbol_to(block),
                         "base", or_none(self->base), "library", PyBool_FromLong(self->library), "class_name",
                         block->class_name, "prefix", block->prefix, "plain_scope", PyBool_FromLong(block->plain_scope),
                         "counters", counters_to(&block->counters), "params", params_wrap(block->params), "hybrid",
                         PyBool_FromLong(block->hybrid), "sequential", PyBool_FromLong(block->sequential), "active",
                         PyBool_FromLong(block->hybridized), "static_alloc", PyBool_FromLong(block->static_alloc),
                         "recompute", PyBool_FromLong(block->recompute), "cell", cell_to(block->cell), "seen",
                         seen_to(&self->seen), "forms", or_none(self->in_form), or_none(self->out_form[0]),
                         or_none(self->out_form[1]), "hooks", list_or_none(self->before), list_or_none(self->after));
}

/* ---- building ------------------------------------------------------------------------------------------------------ */

static PyObject *item_of(PyObject *state, const char *key)
{
    PyObject *name = PyUnicode_FromString(key);
    PyObject *value = name ? PyDict_GetItemWithError(state, name) : NULL; /* borrowed */
    Py_XDECREF(name);
    if (!value && !PyErr_Occurred())
        PyErr_Format(PyExc_ValueError, "the state of a block has no '%s'", key);
    return value;
}
static bool flag_of(PyObject *state, const char *key)
{
    PyObject *value = item_of(state, key);
    return value && PyObject_IsTrue(value) == 1;
}
static const char *text_of(PyObject *state, const char *key)
{
    PyObject *value = item_of(state, key);
    return value ? PyUnicode_AsUTF8(value) : NULL;
}

/* Stands for a residual block that Python created: it is replaced by the state's child. */
static mx_block *make_placeholder(void *user, int64_t channels, int64_t stride, bool downsample, int64_t in_channels)
{
    (void)user, (void)channels, (void)stride, (void)downsample, (void)in_channels;
    return mx_sequential_make(true, NULL);
}

/* A modifier takes a cell that is free; the one of the state says that it is inside this modifier. */
static void free_cells(const mx_class *cls, void *options)
{
    for (int i = 0; cls->schema && i < cls->schema->count; i++) {
        const mx_field *field = &cls->schema->fields[i];
        mx_block *inside = is_block_option(field) ? *(mx_block **)((char *)options + field->offset) : NULL;
        if (inside && inside->cell)
            inside->cell->modified = false;
    }
}

static mx_block *build_layer(PyObject *entry, PyObject *values, const mx_block_naming *naming)
{
    int kind;
    const char *name;
    if (!PyArg_ParseTuple(entry, "is:entry", &kind, &name))
        return NULL;
    mx_class *cls = kind == MX_LAYER || kind == MX_LOSS ? mx_class_find((mx_class_kind)kind, name) : NULL;
    if (!cls)
        return PyErr_Format(PyExc_ValueError, "there is no layer or loss '%s'", name), NULL;
    PyObject *keys = PyDict_Keys(values), *names = keys ? PyList_AsTuple(keys) : NULL, *all = PyDict_Values(values);
    const size_t bytes = cls->schema ? cls->schema->size : 0;
    void *options = core_memory(1, bytes + 1);
    mx_block *block = NULL;
    if (names && all && options) {
        memcpy(options, cls->defaults ? cls->defaults : "", bytes);
        mx_residual_maker_set(make_placeholder, NULL);
        if (!options_from(cls, options, PySequence_Fast_ITEMS(all), 0, names, NULL, NULL)) {
            free_cells(cls, options);
            block = mx_layer_make(cls, options, naming);
        }
        mx_residual_maker_set(NULL, NULL);
    }
    PyMem_Free(options);
    Py_XDECREF(keys), Py_XDECREF(names), Py_XDECREF(all);
    return block;
}

/* A block of a symbol uses the state's parameters from the beginning. */
static mx_block *build_of_symbol(PyObject *source, PyObject *params)
{
    PyObject *graph, *names;
    if (!PyArg_ParseTuple(source, "O!O!:symbol", &sym_type, &graph, &PyList_Type, &names) || !sym_symbol(graph) ||
        !params || !PyObject_TypeCheck(params, &params_type)) {
        if (!PyErr_Occurred())
            PyErr_SetString(PyExc_ValueError, "the state of a block has no parameters");
        return NULL;
    }
    PyObject *blank = PyUnicode_FromString(" "), *joined = blank ? PyUnicode_Join(blank, names) : NULL;
    const char *inputs = joined ? PyUnicode_AsUTF8(joined) : NULL;
    mx_block *block = inputs ? mx_symbol_block_with(sym_symbol(graph), inputs, params_of(params), true) : NULL;
    Py_XDECREF(blank), Py_XDECREF(joined);
    return block;
}

static mx_block *build(PyObject *state, const mx_block_naming *naming)
{
    PyObject *entry = item_of(state, "entry"), *values = item_of(state, "options"), *symbol = item_of(state, "symbol");
    if (values && !PyDict_Check(values))
        PyErr_SetString(PyExc_ValueError, "the options in the state of a block are not a dict");
    if (!entry || !values || !symbol || PyErr_Occurred())
        return NULL;
    mx_block *block = symbol != Py_None  ? build_of_symbol(symbol, item_of(state, "params"))
                      : entry == Py_None ? mx_scope_add(mx_block_named(naming))
                                         : build_layer(entry, values, naming);
    if (!block)
        return NULL;
    block->hybrid = flag_of(state, "hybrid"), block->sequential = flag_of(state, "sequential");
    if (entry == Py_None && symbol == Py_None)
        block->forward_many = block->sequential ? mx_run_sequential : NULL;
    return PyErr_Occurred() ? NULL : block;
}

/* The dictionary of the state takes the place of the one that was built; `own` holds the parameters until theirs are
 * filled. */
static int replace_params(mx_block *block, PyObject *params)
{
    if (!params || !PyObject_TypeCheck(params, &params_type) || !params_of(params)) {
        if (!PyErr_Occurred())
            PyErr_SetString(PyExc_ValueError, "the state of a block has no parameters");
        return -1;
    }
    mx_params *old = block->params;
    block->params = mx_retain(params_of(params));
    mx_release(old);
    return 0;
}

static int restore_counters(mx_block *block, PyObject *counters)
{
    PyObject *key, *value;
    Py_ssize_t at = 0;
    mx_dict_free(&block->counters);
    while (counters && PyDict_Check(counters) && PyDict_Next(counters, &at, &key, &value)) {
        const char *name = PyUnicode_AsUTF8(key);
        if (!name || !mx_dict_set_number(&block->counters, name, PyLong_AsLongLong(value)))
            return -1;
    }
    return PyErr_Occurred() ? -1 : 0;
}

static int restore_seen(block_object *self, PyObject *list)
{
    mx_array *arrays[MOST_ARRAYS];
    const Py_ssize_t n = list && PyList_Check(list) ? PyList_GET_SIZE(list) : 0;
    MX_SCOPE;
    for (Py_ssize_t i = 0; i < n && i < MOST_ARRAYS; i++) {
        PyObject *dims;
        int type;
        mx_dims read;
        if (!PyArg_ParseTuple(PyList_GET_ITEM(list, i), "Oi", &dims, &type) ||
            (dims != Py_None && dims_from(dims, &read, self->block->name, "shape")))
            return -1;
        const mx_shape_t shape = dims == Py_None ? MX_UNKNOWN_SHAPE : mx_shape_of_dims(&read);
        arrays[i] =
            dims == Py_None ? MX_NONE : mx_scope_add(mx_array_abstract(&shape, (mx_dtype)type, (mx_context){0}));
        if (!arrays[i])
            return raise_error(), -1;
    }
    if (n && n <= MOST_ARRAYS)
        block_remember(self, (mx_arrays){arrays, n});
    return 0;
}

static int restore_forms(block_object *self, PyObject *forms)
{
    PyObject *form[3];
    PyObject **slots[3] = {&self->in_form, &self->out_form[0], &self->out_form[1]};
    if (!forms || !PyArg_ParseTuple(forms, "OOO:forms", &form[0], &form[1], &form[2]))
        return -1;
    for (int i = 0; i < 3; i++)
        if (form[i] != Py_None)
            Py_XSETREF(*slots[i], core_new_ref(form[i]));
    return 0;
}

/* _find_overrides(): after attributes were set below the surface. */
PyObject *block_note_overrides(PyObject *object, PyObject *unused)
{
    (void)unused;
    if (!block_of(object))
        return NULL;
    block_find_overrides((block_object *)object);
    Py_RETURN_NONE;
}

/* _set_state(state) */
PyObject *block_set_state(PyObject *object, PyObject *state)
{
    block_object *self = (block_object *)object;
    if (!PyDict_Check(state))
        return PyErr_Format(PyExc_TypeError, "the state of a block must be a dict, got %.200s",
                            Py_TYPE(state)->tp_name);
    if (block_prepare(self))
        return NULL;
    const mx_block_naming naming = {text_of(state, "class_name"), NULL, text_of(state, "prefix"), NULL};
    PyObject *base = item_of(state, "base");
    if (base && !(PyType_Check(base) && PyType_IsSubtype((PyTypeObject *)base, &block_type)))
        PyErr_SetString(PyExc_ValueError, "the base class in the state of a block is not a Block");
    if (PyErr_Occurred())
        return NULL;
    MX_SCOPE;
    mx_block *outer = mx_thread.name_scope;
    mx_thread.name_scope = NULL; /* names stay as they are, wherever the copy is made */
    mx_block *block = build(state, &naming);
    mx_thread.name_scope = outer;
    if (!block)
        return raise_error();
    block_attach(self, mx_retain(block));
    block->plain_scope = flag_of(state, "plain_scope");
    block->hybridized = flag_of(state, "active"), block->static_alloc = flag_of(state, "static_alloc");
    block->recompute = flag_of(state, "recompute");
    block_start_overrides(self, base, flag_of(state, "library"));
    PyObject *whole = item_of(state, "whole");
    block->whole = whole ? PyLong_AsUnsignedLongLongMask(whole) : 0;
    if (replace_params(block, item_of(state, "params")) || restore_counters(block, item_of(state, "counters")) ||
        restore_seen(self, item_of(state, "seen")) || restore_forms(self, item_of(state, "forms")) || PyErr_Occurred())
        return raise_error();
    Py_RETURN_NONE;
}
