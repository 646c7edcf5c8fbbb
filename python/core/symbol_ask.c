/* Queries of a symbol: lists of names, attributes, shapes and types, text and files; and the scopes that name
 * and annotate new nodes.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "base/alloc.h"
#include "exec/executor.h"
#include "gluon/block/core.h"
#include "gluon/compile/trace.h"
#include "graph/names.h"
#include "graph/symbol.h"
#include "pass/gradient.h"
#include "symbol.h"

/* ---- lists ------------------------------------------------------------------------------------------------------- */

PyObject *names_to(mx_names names)
{
    if (names.n < 0)
        return raise_error();
    PyObject *list = PyList_New((Py_ssize_t)names.n);
    for (int64_t i = 0; list && i < names.n; i++) {
        PyObject *item = PyUnicode_FromString(names.v[i]);
        if (!item)
            Py_CLEAR(list);
        else
            PyList_SET_ITEM(list, (Py_ssize_t)i, item);
    }
    return list;
}

#define NAMES(function, source) \
    static PyObject *function(PyObject *self, PyObject *unused) \
    { \
        mx_symbol *symbol = sym_symbol(self); \
        (void)unused; \
        MX_SCOPE; \
        return symbol ? names_to(source(symbol)) : NULL; \
    }
NAMES(list_arguments, mx_symbol_arguments)
NAMES(list_auxiliary, mx_symbol_auxiliary)
NAMES(list_inputs, mx_symbol_inputs)
NAMES(list_outputs, mx_symbol_outputs)
NAMES(list_attrs, mx_symbol_attrs)
NAMES(list_attrs_deep, mx_symbol_attrs_deep)

#define SYMBOL(function, source) \
    static PyObject *function(PyObject *self, PyObject *unused) \
    { \
        mx_symbol *symbol = sym_symbol(self); \
        (void)unused; \
        if (!symbol) \
            return NULL; \
        MX_SCOPE; \
        mx_symbol *made = source(symbol); \
        return !made && !mx_error_code() ? core_new_ref(Py_None) : sym_wrap(made); \
    }
SYMBOL(get_internals, mx_symbol_internals)
SYMBOL(get_children, mx_symbol_children)

#define TEXT(function, source) \
    static PyObject *function(PyObject *self, PyObject *unused) \
    { \
        mx_symbol *symbol = sym_symbol(self); \
        (void)unused; \
        if (!symbol) \
            return NULL; \
        MX_SCOPE; \
        const char *text = source(symbol); \
        return text ? PyUnicode_FromString(text) : raise_error(); \
    }
TEXT(json, mx_symbol_json)
TEXT(json_with_casts, mx_symbol_json_with_casts)
TEXT(debug, mx_symbol_debug)
TEXT(dot, mx_symbol_dot)
TEXT(svg, mx_symbol_svg)

/* ---- attributes -------------------------------------------------------------------------------------------------- */

static PyObject *attr(PyObject *self, PyObject *key)
{
    mx_symbol *symbol = sym_symbol(self);
    const char *name = symbol ? PyUnicode_AsUTF8(key) : NULL;
    if (!name)
        return NULL;
    MX_SCOPE;
    const char *text = mx_symbol_attr(symbol, name);
    return text ? PyUnicode_FromString(text) : mx_error_code() ? raise_error() : core_new_ref(Py_None);
}

static PyObject *set_attr(PyObject *self, PyObject *args, PyObject *keywords)
{
    mx_symbol *symbol = sym_symbol(self);
    PyObject *key, *value;
    Py_ssize_t at = 0;
    if (!symbol || !PyArg_ParseTuple(args, ":_set_attr"))
        return NULL;
    while (keywords && PyDict_Next(keywords, &at, &key, &value)) {
        if (!PyUnicode_Check(value))
            return PyErr_Format(PyExc_ValueError, "_set_attr: attributes of a symbol must be text, %U is %R", key,
                                value);
        if (mx_symbol_set_attr(symbol, PyUnicode_AsUTF8(key), PyUnicode_AsUTF8(value)))
            return raise_error();
    }
    Py_RETURN_NONE;
}

/* ---- shapes and types -------------------------------------------------------------------------------------------- */

void free_known(sym_known *k) { PyMem_Free(k->names), PyMem_Free(k->shapes), PyMem_Free(k->types); }

int read_known(sym_known *k, PyObject *names, PyObject *shapes, PyObject *types)
{
    PyObject *some = shapes != Py_None ? shapes : types;
    const size_t n = (size_t)(some == Py_None ? 0 : PyList_GET_SIZE(some));
    k->n = (int)n;
    k->names = names == Py_None ? NULL : core_memory(n + 1, sizeof *k->names);
    k->shapes = core_memory(n + 1, sizeof *k->shapes), k->types = core_memory(n + 1, sizeof *k->types);
    if (!k->shapes || !k->types || (names != Py_None && !k->names))
        return PyErr_NoMemory(), -1;
    for (size_t i = 0; i < n; i++) {
        PyObject *shape = shapes == Py_None ? Py_None : PyList_GET_ITEM(shapes, (Py_ssize_t)i);
        k->shapes[i] = MX_NO_DIMS;
        if (shape != Py_None && dims_from(shape, &k->shapes[i], "infer_shape", "a shape"))
            return -1;
        if (dtype_from(types == Py_None ? Py_None : PyList_GET_ITEM(types, (Py_ssize_t)i), &k->types[i]))
            return -1;
        if (k->names && !(k->names[i] = PyUnicode_AsUTF8(PyList_GET_ITEM(names, (Py_ssize_t)i))))
            return -1;
    }
    return 0;
}

static PyObject *shapes_to(int64_t n, const mx_dims *shapes)
{
    PyObject *list = PyList_New((Py_ssize_t)n);
    for (int64_t i = 0; list && i < n; i++) {
        PyObject *item = shapes[i].n < 0 ? (mx_is_np_shape() ? core_new_ref(Py_None) : PyTuple_New(0))
                                         : dims_to(shapes[i].d, shapes[i].n);
        if (!item)
            Py_CLEAR(list);
        else
            PyList_SET_ITEM(list, (Py_ssize_t)i, item);
    }
    return list;
}

static PyObject *types_to(int64_t n, const mx_dtype *types)
{
    PyObject *list = PyList_New((Py_ssize_t)n);
    for (int64_t i = 0; list && i < n; i++) {
        PyObject *item = dtype_to(types[i]);
        if (!item)
            Py_CLEAR(list);
        else
            PyList_SET_ITEM(list, (Py_ssize_t)i, item);
    }
    return list;
}

/* _infer(names, shapes, types, partial): ((shapes), (types), all shapes known, all types known); the triples are of
 * arguments, outputs, auxiliary states. */
static PyObject *infer(PyObject *self, PyObject *args)
{
    PyObject *names, *shapes, *types;
    int partial;
    mx_symbol *symbol = sym_symbol(self);
    if (!symbol || !PyArg_ParseTuple(args, "OOOp:_infer", &names, &shapes, &types, &partial))
        return NULL;
    sym_known k = {0};
    PyObject *result = NULL;
    MX_SCOPE;
    if (!read_known(&k, names, shapes, types)) {
        struct mx_known given = {k.n, k.names, k.shapes, k.types, partial};
        const mx_inferred *found = mx_symbol_infer(symbol, &given);
        result = !found ? raise_error()
                        : Py_BuildValue("(NNN)(NNN)OO", shapes_to(found->n_arguments, found->arguments),
                                        shapes_to(found->n_outputs, found->outputs),
                                        shapes_to(found->n_auxiliary, found->auxiliary),
                                        types_to(found->n_arguments, found->argument_types),
                                        types_to(found->n_outputs, found->output_types),
                                        types_to(found->n_auxiliary, found->auxiliary_types),
                                        found->complete ? Py_True : Py_False, found->typed ? Py_True : Py_False);
    }
    free_known(&k);
    return result;
}

/* _draw(title, boxes, hidden, names or None, shapes, types): text for the program dot; hidden: names left out. */
static PyObject *draw(PyObject *self, PyObject *args)
{
    PyObject *hidden, *names, *shapes, *types;
    const char *title, *boxes;
    mx_symbol *symbol = sym_symbol(self);
    if (!symbol ||
        !PyArg_ParseTuple(args, "ssO!OOO:_draw", &title, &boxes, &PyList_Type, &hidden, &names, &shapes, &types))
        return NULL;
    const Py_ssize_t n = PyList_GET_SIZE(hidden);
    const char **left_out = core_memory((size_t)n + 1, sizeof *left_out), *text = NULL;
    sym_known k = {0};
    MX_SCOPE;
    bool ok = left_out ? read_known(&k, names, shapes, types) == 0 : (PyErr_NoMemory(), false);
    for (Py_ssize_t i = 0; ok && i < n; i++)
        ok = (left_out[i] = PyUnicode_AsUTF8(PyList_GET_ITEM(hidden, i))) != NULL;
    if (ok) {
        const struct mx_known given = {k.n, k.names, k.shapes, k.types, true};
        text = mx_symbol_draw(symbol, &(struct mx_symbol_drawing){title, boxes, names == Py_None ? NULL : &given, (int)n,
                                                                 left_out});
    }
    PyObject *result = text ? PyUnicode_FromString(text) : ok ? raise_error() : NULL;
    free_known(&k);
    PyMem_Free(left_out);
    return result;
}

/* ---- files ------------------------------------------------------------------------------------------------------- */

static PyObject *save(PyObject *self, PyObject *path)
{
    PyObject *bytes;
    mx_symbol *symbol = sym_symbol(self);
    if (!symbol || !PyUnicode_FSConverter(path, &bytes))
        return NULL;
    const mx_code code = mx_symbol_save(symbol, PyBytes_AS_STRING(bytes));
    Py_DECREF(bytes);
    return raise_if(code);
}

static PyObject *load(PyObject *self, PyObject *path)
{
    PyObject *bytes;
    (void)self;
    if (!PyUnicode_FSConverter(path, &bytes))
        return NULL;
    MX_SCOPE;
    mx_symbol *symbol = mx_symbol_load(PyBytes_AS_STRING(bytes));
    Py_DECREF(bytes);
    return sym_wrap(symbol);
}

static PyObject *load_json(PyObject *self, PyObject *text)
{
    Py_ssize_t length;
    (void)self;
    const char *bytes = PyUnicode_AsUTF8AndSize(text, &length);
    if (!bytes)
        return NULL;
    MX_SCOPE;
    return sym_wrap(mx_symbol_from_json(bytes, (size_t)length));
}

/* rebind_symbol(symbol, other): the object wraps other's graph from now on; for __setstate__. */
static PyObject *rebind(PyObject *self, PyObject *args)
{
    PyObject *target, *source;
    (void)self;
    if (!PyArg_ParseTuple(args, "O!O!:rebind_symbol", &sym_type, &target, &sym_type, &source))
        return NULL;
    sym_object *to = (sym_object *)target, *from = (sym_object *)source;
    mx_symbol *symbol = mx_retain(from->symbol);
    mx_array *array = mx_retain(from->array);
    mx_release(to->symbol), mx_release(to->array);
    to->symbol = symbol, to->array = array;
    Py_RETURN_NONE;
}

/* ---- making ------------------------------------------------------------------------------------------------------ */

/* variable(name, shape or None, dtype or None, init text or None, lr_mult or None, wd_mult or None) */
static PyObject *variable(PyObject *self, PyObject *args)
{
    const char *name, *init;
    PyObject *shape, *type, *lr, *wd;
    mx_dims dims = MX_NO_DIMS;
    mx_dtype dtype;
    (void)self;
    if (!PyArg_ParseTuple(args, "sOOzOO:variable", &name, &shape, &type, &init, &lr, &wd) || dtype_from(type, &dtype) ||
        (shape != Py_None && dims_from(shape, &dims, "var", "shape")))
        return NULL;
    const double lr_mult = lr == Py_None ? MX_NONE_FLOAT : PyFloat_AsDouble(lr);
    const double wd_mult = wd == Py_None ? MX_NONE_FLOAT : PyFloat_AsDouble(wd);
    if (PyErr_Occurred())
        return NULL;
    for (int i = 0; i < dims.n; i++)
        dims.d[i] = dims.d[i] == -1 ? 0 : dims.d[i]; /* both mean an unknown size */
    MX_SCOPE;
    return sym_wrap_array(
        mx_variable(name, .shape = dims, .dtype = dtype, .init = init, .lr_mult = lr_mult, .wd_mult = wd_mult));
}

static PyObject *group(PyObject *self, PyObject *list)
{
    (void)self;
    PyObject *items = PySequence_Tuple(list);
    const Py_ssize_t n = items ? PyTuple_GET_SIZE(items) : 0;
    mx_symbol **symbols = items ? core_memory((size_t)n + 1, sizeof *symbols) : NULL;
    PyObject *result = NULL;
    bool ok = symbols != NULL;
    for (Py_ssize_t i = 0; ok && i < n; i++) {
        PyObject *item = PyTuple_GET_ITEM(items, i);
        if (!sym_check(item))
            PyErr_Format(PyExc_TypeError, "Group: element %zd must be a Symbol, got %.200s", i, Py_TYPE(item)->tp_name);
        ok = sym_check(item) && (symbols[i] = sym_symbol(item)) != NULL;
    }
    if (ok) {
        MX_SCOPE;
        result = sym_wrap(mx_symbol_group(symbols, (int)n));
    }
    PyMem_Free(symbols);
    Py_XDECREF(items);
    return result;
}

static PyObject *constant(PyObject *self, PyObject *name)
{
    mx_symbol *symbol = sym_symbol(self);
    const char *text = symbol ? PyUnicode_AsUTF8(name) : NULL;
    if (!text)
        return NULL;
    mx_array *value = mx_symbol_constant(symbol, text);
    return value ? nd_wrap(value) : mx_error_code() ? raise_error() : core_new_ref(Py_None);
}

static PyObject *gives_rows(PyObject *self, PyObject *name)
{
    mx_symbol *symbol = sym_symbol(self);
    const char *text = symbol ? PyUnicode_AsUTF8(name) : NULL;
    return text ? PyBool_FromLong(mx_gradient_stype(symbol, text) == MX_ROW_SPARSE) : NULL;
}

/* ---- gradients --------------------------------------------------------------------------------------------------- */

static mx_gnode *find_variable(const mx_graph *graph, const char *name)
{
    for (int64_t i = 0; i < graph->n; i++)
        if (!graph->nodes[i]->op && !strcmp(graph->nodes[i]->name, name))
            return graph->nodes[i];
    mx_error_set(MX_ERR_ARGUMENT, "gradient: the symbol has no argument named '%s'", name);
    return NULL;
}

/* The symbol of gradients of the sum of all outputs with respect to the variables; zeros where there is none. */
static mx_symbol *gradient_of(const mx_symbol *symbol, int64_t n, const char *const *names)
{
    mx_graph graph = {0};
    mx_gnode **wanted = mx_alloc_zero((size_t)n * sizeof *wanted);
    mx_gentry *found = mx_alloc_zero((size_t)n * sizeof *found);
    mx_array **heads = mx_alloc_zero((size_t)symbol->n * sizeof *heads);
    mx_symbol *made = NULL;
    bool ok = wanted && found && heads && !mx_graph_of(&graph, symbol->n, symbol->outputs);
    for (int64_t i = 0; ok && i < n; i++)
        ok = (wanted[i] = find_variable(&graph, names[i])) != NULL;
    for (int64_t i = 0; ok && i < symbol->n; i++) {
        mx_array *head = mx_symbol_at(symbol, i);
        mx_shape_t shape = head ? mx_array_shape(head) : MX_UNKNOWN_SHAPE;
        if (head && !mx_shape_known(&shape))
            mx_error_set(MX_ERR_UNSUPPORTED,
                         "gradient: the shape of output %lld is not known, and gradients depend on shapes; "
                         "give the variables shapes (sym.var(name, shape=...)), or bind the symbol",
                         (long long)i);
        ok = head && mx_shape_known(&shape) && !mx_invoke(mx_op_find("ones_like"), NULL, 1, &head, 1, &heads[i]);
    }
    struct mx_gradient_request request = {symbol->n, symbol->outputs, heads, n, wanted, true};
    ok = ok && !mx_gradient_graph(&request, found);
    for (int64_t i = 0; ok && i < n; i++)
        if (!found[i].node) {
            mx_array *x = mx_scope_add(mx_array_symbolic(wanted[i], 0)), *zero = NULL;
            ok = x && !mx_invoke(mx_op_find("zeros_like"), NULL, 1, &x, 1, &zero);
            found[i] = ok ? mx_entry_of(zero) : found[i];
            mx_retain(found[i].node);
        }
    if (ok)
        made = mx_scope_add(mx_symbol_new(n, found));
    for (int64_t i = 0; found && i < n; i++)
        mx_release(found[i].node);
    mx_free(wanted, (size_t)n * sizeof *wanted), mx_free(found, (size_t)n * sizeof *found);
    mx_free(heads, (size_t)symbol->n * sizeof *heads);
    mx_graph_free(&graph);
    return made;
}

static PyObject *gradient(PyObject *self, PyObject *wrt)
{
    mx_symbol *symbol = sym_symbol(self);
    PyObject *list = symbol ? (PyUnicode_Check(wrt) ? PyTuple_Pack(1, wrt) : PySequence_Tuple(wrt)) : NULL;
    const Py_ssize_t n = list ? PyTuple_GET_SIZE(list) : 0;
    const char **names = list ? core_memory((size_t)n + 1, sizeof *names) : NULL;
    PyObject *result = NULL;
    bool ok = names != NULL;
    for (Py_ssize_t i = 0; ok && i < n; i++)
        ok = (names[i] = PyUnicode_AsUTF8(PyTuple_GET_ITEM(list, i))) != NULL;
    if (ok) {
        MX_SCOPE;
        result = sym_wrap(gradient_of(symbol, n, names));
    }
    PyMem_Free(names);
    Py_XDECREF(list);
    return result;
}

/* ---- scopes ------------------------------------------------------------------------------------------------------ */

static PyObject *names_enter(PyObject *self, PyObject *prefix)
{
    (void)self;
    const char *text = PyUnicode_AsUTF8(prefix);
    return !text ? NULL : raise_if(mx_symbol_names_enter(text));
}
static PyObject *names_leave(PyObject *self, PyObject *unused)
{
    (void)self, (void)unused;
    mx_symbol_names_leave();
    Py_RETURN_NONE;
}
static PyObject *name_for(PyObject *self, PyObject *args)
{
    const char *name, *hint;
    (void)self;
    if (!PyArg_ParseTuple(args, "zz:get", &name, &hint))
        return NULL;
    MX_SCOPE;
    const char *made = mx_symbol_name_for(name, hint);
    return made ? PyUnicode_FromString(made) : raise_error();
}

/* name_counters(): how many nodes the outermost manager has numbered, by hint. */
static PyObject *name_counters(PyObject *self, PyObject *unused)
{
    const mx_dict *counters = mx_names_counters();
    PyObject *dict = PyDict_New();
    (void)self, (void)unused;
    for (int64_t i = 0; dict && i < counters->length; i++) {
        PyObject *number = PyLong_FromLongLong(counters->entries[i].number);
        if (!number || PyDict_SetItemString(dict, counters->entries[i].key, number))
            Py_CLEAR(dict);
        Py_XDECREF(number);
    }
    return dict;
}
static PyObject *set_name_counters(PyObject *self, PyObject *source)
{
    PyObject *key, *value, *dict = PyDict_New();
    Py_ssize_t at = 0;
    (void)self;
    bool ok = dict && !PyDict_Update(dict, source);
    while (ok && PyDict_Next(dict, &at, &key, &value))
        ok = PyUnicode_AsUTF8(key) && !(PyLong_AsLongLong(value) == -1 && PyErr_Occurred());
    mx_dict *counters = mx_names_counters();
    if (ok)
        mx_dict_free(counters);
    for (at = 0; ok && PyDict_Next(dict, &at, &key, &value);)
        ok = mx_dict_set_number(counters, PyUnicode_AsUTF8(key), PyLong_AsLongLong(value));
    Py_XDECREF(dict);
    return ok ? core_new_ref(Py_None) : raise_error();
}

static PyObject *attrs_enter(PyObject *self, PyObject *dict)
{
    const char *keys[64], *values[64];
    PyObject *key, *value;
    Py_ssize_t at = 0;
    int n = 0;
    (void)self;
    while (PyDict_Next(dict, &at, &key, &value)) {
        if (n == 64)
            return PyErr_Format(PyExc_ValueError, "AttrScope: at most 64 attributes are supported");
        if (!(keys[n] = PyUnicode_AsUTF8(key)) || !(values[n] = PyUnicode_AsUTF8(value)))
            return NULL;
        n++;
    }
    return raise_if(mx_symbol_attrs_enter(n, keys, values));
}
static PyObject *attrs_leave(PyObject *self, PyObject *unused)
{
    (void)self, (void)unused;
    mx_symbol_attrs_leave();
    Py_RETURN_NONE;
}

PyMethodDef sym_ask_methods[] = {
    {"list_arguments", list_arguments, METH_NOARGS,
     "Names of the variables, in order; those that operators write are not among them."},
    {"list_auxiliary_states", list_auxiliary, METH_NOARGS,
     "Names of the variables that operators write: running statistics."},
    {"list_inputs", list_inputs, METH_NOARGS, "Names of all variables."},
    {"list_outputs", list_outputs, METH_NOARGS, "Names of the outputs."},
    {"_list_attrs", list_attrs, METH_NOARGS, NULL},
    {"_list_attrs_deep", list_attrs_deep, METH_NOARGS, NULL},
    {"get_internals", get_internals, METH_NOARGS, "All outputs of all nodes, as a group."},
    {"get_children", get_children, METH_NOARGS, "The inputs of the symbol's node; None if it has none."},
    {"_json", json, METH_NOARGS, NULL},
    {"_json_with_casts", json_with_casts, METH_NOARGS, NULL},
    {"_dot", dot, METH_NOARGS, NULL},
    {"_repr_svg_", svg, METH_NOARGS, "The graph as an SVG image, for notebooks."},
    {"debug_str", debug, METH_NOARGS, "Every node with its inputs and attributes, as text."},
    {"attr", attr, METH_O, "An attribute of the symbol's node as text; None if it has none."},
    {"_set_attr", (PyCFunction)(void (*)(void))set_attr, METH_VARARGS | METH_KEYWORDS,
     "Sets attributes: _set_attr(key='text')."},
    {"_infer", infer, METH_VARARGS, NULL},
    {"_draw", draw, METH_VARARGS, NULL},
    {"_save", save, METH_O, NULL},
    {"_gives_rows", gives_rows, METH_O, "Whether the gradient of a variable is row_sparse."},
    {"_constant", constant, METH_O, "The value of a constant of the graph; None for other names."},
    {"gradient", gradient, METH_O,
     "gradient(wrt): gradients of the outputs' sum with respect to variables, as a symbol."},
    {NULL, NULL, 0, NULL},
};

/* symbol_recorded(array): the recorded computation of it. */
static PyObject *recorded(PyObject *self, PyObject *array)
{
    (void)self;
    if (!nd_check(array))
        return PyErr_Format(PyExc_TypeError, "get_symbol: expected an NDArray, got %.200s", Py_TYPE(array)->tp_name);
    MX_SCOPE;
    mx_symbol *symbol = mx_symbol_recorded(nd_array(array));
    return symbol ? sym_wrap(symbol) : raise_error();
}

static PyMethodDef functions[] = {
    {"symbol_recorded", recorded, METH_O, "A recorded computation as a symbol."},
    {"symbol_load", load, METH_O, "A symbol from a file."},
    {"symbol_load_json", load_json, METH_O, "A symbol from JSON text."},
    {"rebind_symbol", rebind, METH_VARARGS, "The object wraps another graph from now on."},
    {"variable", variable, METH_VARARGS, "A variable."},
    {"group", group, METH_O, "Several symbols as one."},
    {"names_enter", names_enter, METH_O, "Opens a scope of names with a prefix."},
    {"names_leave", names_leave, METH_NOARGS, "Closes it."},
    {"name_for", name_for, METH_VARARGS, "The name that a new node would get."},
    {"name_counters", name_counters, METH_NOARGS, "Numbers of the outermost name manager by hint."},
    {"set_name_counters", set_name_counters, METH_O, "Replaces them."},
    {"attrs_enter", attrs_enter, METH_O, "Opens a scope of attributes."},
    {"attrs_leave", attrs_leave, METH_NOARGS, "Closes it."},
    {NULL, NULL, 0, NULL},
};

int add_symbol_questions(PyObject *module) { return PyModule_AddFunctions(module, functions); }
