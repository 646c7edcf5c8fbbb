/* Operators on symbols, as Python callables.
 *
 *     mx.sym.Convolution(data=x, kernel=(3, 3), num_filter=8, name="conv0", attr={"__lr_mult__": "2"})
 *
 * Arguments are the same as for arrays: inputs first, then attributes in the order of the schema, everything by keyword
 * as well.  Attributes are parsed into the operator's typed struct, so that all Python spellings work, and passed on in
 * the library's spelling, together with which of them were given.  Missing inputs become variables.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <ctype.h>
#include <string.h>

#include "base/alloc.h"
#include "base/text.h"
#include "base/vec.h"
#include "graph/names.h"
#include "symbol.h"

typedef struct call_state {
    const op_object *self;
    const mx_op *op;
    MX_VEC(mx_array *) in;         /* borrowed from the arguments or from `held` */
    MX_VEC(const char *) in_names; /* NULL: by position */
    MX_VEC(const char *) keys;     /* of attributes and notes */
    MX_VEC(char *) values;         /* owned */
    MX_VEC(char *) names;          /* owned: texts that in_names points to */
    MX_VEC(PyObject *) held;       /* outputs of symbols with several */
    void *attrs;                   /* typed; values are parsed into it before they become text */
    const char *name;              /* borrowed; NULL: automatic */
    int next_input, next_attr;     /* for arguments by position */
} call_state;

static int no_memory(void) { return PyErr_NoMemory(), -1; }

/* ---- names ------------------------------------------------------------------------------------------------------- */

static _Thread_local PyObject *manager; /* written in Python; owned; NULL: the library's own */

PyObject *sym_swap_manager(PyObject *other)
{
    PyObject *before = manager;
    manager = other;
    return before;
}

const char *sym_name(const char *name, const char *hint)
{
    if (!manager) {
        const char *made = mx_symbol_name_for(name, hint);
        if (!made)
            raise_error();
        return made;
    }
    PyObject *object = core_new_ref(manager);
    PyObject *result = PyObject_CallMethod(object, "get", "zs", name, hint);
    Py_DECREF(object);
    const char *text = result ? PyUnicode_AsUTF8(result) : NULL, *copy = NULL;
    if (text) {
        mx_text scoped = {0};
        mx_text_add(&scoped, text);
        copy = mx_text_to_scope(&scoped);
    }
    Py_XDECREF(result);
    return copy;
}

/* "box_nms" for _contrib_box_nms: automatic names omit the family. */
static void hint_of(const op_object *self, char *buffer, size_t size)
{
    static const char *const families[] = {"_contrib_", "_linalg_", "_image_", "_sparse_"};
    const char *name = PyUnicode_AsUTF8(self->name);
    for (size_t i = 0; i < sizeof families / sizeof *families; i++)
        if (!strncmp(name, families[i], strlen(families[i])))
            name += strlen(families[i]);
    size_t n = 0;
    for (; name[n] && n + 1 < size; n++)
        buffer[n] = (char)tolower((unsigned char)name[n]);
    buffer[n] = 0;
}

/* ---- inputs ------------------------------------------------------------------------------------------------------ */

static int wrong_input(const call_state *c, const char *name, PyObject *value)
{
    PyObject *type = from_package("mxnet.error", "InputError");
    PyErr_Format(type ? type : PyExc_TypeError, "%s: input '%s' must be a Symbol, got %.200s", c->op->name, name,
                 Py_TYPE(value)->tp_name);
    Py_XDECREF(type);
    return -1;
}

static int push_input(call_state *c, const char *name, mx_array *x)
{
    return !x ? -1 : mx_vec_push(&c->in, x) && mx_vec_push(&c->in_names, name) ? 0 : no_memory();
}

/* An operator on a list takes all outputs of a symbol. */
static int add_list_item(call_state *c, PyObject *value)
{
    const int64_t n = sym_check(value) ? sym_count(value) : 1;
    if (n == 1)
        return push_input(c, NULL, any_array(value, c->op->name));
    for (int64_t i = 0; i < n; i++) {
        PyObject *index = PyLong_FromLongLong(i), *part = index ? PyObject_GetItem(value, index) : NULL;
        Py_XDECREF(index);
        if (!part)
            return -1;
        if (!mx_vec_push(&c->held, part))
            return Py_DECREF(part), no_memory();
        if (push_input(c, NULL, sym_array(part, c->op->name)))
            return -1;
    }
    return 0;
}

static int add_list(call_state *c, PyObject *value)
{
    if (!PyList_Check(value) && !PyTuple_Check(value))
        return any_check(value) ? add_list_item(c, value) : wrong_input(c, "data", value);
    for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(value); i++) {
        PyObject *item = PySequence_Fast_GET_ITEM(value, i);
        if (!any_check(item))
            return wrong_input(c, "data", item);
        if (add_list_item(c, item))
            return -1;
    }
    return 0;
}

static int add_input(call_state *c, int i, PyObject *value)
{
    char name[64];
    if (value == Py_None || value == null_value)
        return 0;
    mx_op_input_name(c->op, i, name);
    if (!any_check(value))
        return wrong_input(c, name, value);
    char *copy = mx_strdup(name);
    if (!copy || !mx_vec_push(&c->names, copy))
        return mx_strfree(copy), no_memory();
    return push_input(c, copy, any_array(value, c->op->name));
}

/* ---- attributes -------------------------------------------------------------------------------------------------- */

static int add_text(call_state *c, const char *key, const char *text)
{
    char *copy = mx_strdup(text);
    if (!copy || !mx_vec_push(&c->values, copy))
        return mx_strfree(copy), no_memory();
    return mx_vec_push(&c->keys, key) ? 0 : no_memory();
}

static int add_attr(call_state *c, int i, PyObject *value)
{
    char text[MX_VALUE_TEXT];
    const mx_field *field = &c->op->schema->fields[i];
    if (value == null_value)
        return 0;
    if (field_set(field, c->op->schema, c->attrs, value, c->op->name))
        return -1;
    PyObject *written = PyLong_CheckExact(value) ? PyObject_Str(value) : NULL; /* 2 stays 2 */
    const char *spelled = written ? PyUnicode_AsUTF8(written) : mx_field_text(field, c->attrs, text);
    const int failed = spelled ? add_text(c, field->name, spelled) : -1;
    Py_XDECREF(written);
    return failed;
}

/* attr={"__lr_mult__": "2"}, and such keys as keywords. */
static int add_note(call_state *c, PyObject *key, PyObject *value)
{
    const char *name = PyUnicode_Check(key) ? PyUnicode_AsUTF8(key) : NULL;
    if (!name) {
        PyErr_Format(PyExc_TypeError, "%s: names of attributes must be text, got %R", c->op->name, key);
        return -1;
    }
    PyObject *written = PyObject_Str(value);
    const char *text = written ? PyUnicode_AsUTF8(written) : NULL;
    const int failed = text ? add_text(c, name, text) : -1;
    Py_XDECREF(written);
    return failed;
}

static int add_notes(call_state *c, PyObject *dict)
{
    PyObject *key, *value;
    Py_ssize_t at = 0;
    if (dict == Py_None || dict == null_value)
        return 0;
    if (!PyDict_Check(dict)) {
        PyErr_Format(PyExc_TypeError, "%s: attr must be a dict of texts, got %.200s", c->op->name,
                     Py_TYPE(dict)->tp_name);
        return -1;
    }
    while (PyDict_Next(dict, &at, &key, &value))
        if (add_note(c, key, value))
            return -1;
    return 0;
}

/* ---- arguments --------------------------------------------------------------------------------------------------- */

static int take_positional(call_state *c, PyObject *value)
{
    const bool list = c->op->flags & MX_OP_LIST, plain = !any_check(value) && value != Py_None && value != null_value;
    if (list && any_check(value))
        return add_list_item(c, value);
    if (list && (PyList_Check(value) || PyTuple_Check(value)) && !c->next_attr && !c->in.length)
        return add_list(c, value);
    const bool wants_input = !list && !c->next_attr && c->next_input < c->op->declared_inputs;
    if (wants_input && !(plain && mx_op_input_optional(c->op, c->next_input)))
        return add_input(c, c->next_input++, value);
    if (c->next_attr < c->self->n_attrs && !any_check(value))
        return add_attr(c, c->next_attr++, value);
    if (any_check(value)) {
        PyErr_Format(PyExc_TypeError, "%s: takes at most %d inputs", c->op->name, c->op->declared_inputs);
        return -1;
    }
    return wrong_input(c, "data", value);
}

static int find_name(PyObject *const *names, int count, PyObject *name)
{
    for (int i = 0; i < count; i++)
        if (names[i] == name || PyUnicode_Compare(names[i], name) == 0)
            return i;
    return -1;
}

/* data0=, data1= ... of an operator on a list; -1: no such input. */
static int list_place(const call_state *c, const char *name)
{
    char buffer[64];
    for (int i = 0; c->op->flags & MX_OP_LIST && i < 256; i++)
        if (!strcmp(mx_op_input_name(c->op, i, buffer), name))
            return i;
    return -1;
}

static int take_name(call_state *c, PyObject *value)
{
    if (value == Py_None || value == null_value)
        return 0;
    c->name = PyUnicode_Check(value) ? PyUnicode_AsUTF8(value) : NULL;
    if (!c->name && !PyErr_Occurred())
        PyErr_Format(PyExc_TypeError, "%s: name must be text, got %.200s", c->op->name, Py_TYPE(value)->tp_name);
    return c->name ? 0 : -1;
}

static int unknown_keyword(const call_state *c, PyObject *name)
{
    PyObject *fail = from_package("mxnet._describe", "unknown_keyword");
    PyObject *result = fail ? PyObject_CallFunctionObjArgs(fail, (PyObject *)c->self, name, NULL) : NULL;
    const int failed = result ? 0 : -1; /* ignored with a warning, or an exception */
    Py_XDECREF(fail), Py_XDECREF(result);
    return failed;
}

static int take_keyword(call_state *c, PyObject *name, PyObject *value)
{
    const char *text = PyUnicode_AsUTF8(name);
    if (!text)
        return -1;
    int i = find_name(c->self->attr_names, c->self->n_attrs, name);
    if (i >= 0)
        return !strcmp(text, "num_args") ? 0 : add_attr(c, i, value);
    i = find_name(c->self->input_names, c->op->declared_inputs, name);
    if (i >= 0)
        return c->op->flags & MX_OP_LIST && i == c->op->declared_inputs - 1 ? add_list(c, value)
                                                                            : add_input(c, i, value);
    if (!strcmp(text, "name"))
        return take_name(c, value);
    if (!strcmp(text, "attr"))
        return add_notes(c, value);
    if (!strcmp(text, "num_args") || (!strcmp(text, "out") && value == Py_None))
        return 0;
    if (!strcmp(text, "out")) {
        PyErr_Format(PyExc_TypeError, "%s: out cannot be used with symbols", c->op->name);
        return -1;
    }
    if (!strncmp(mx_notes_key(text), "__", 2)) /* lr_mult, wd_mult, ctx_group ... */
        return add_note(c, name, value);
    if (any_check(value) && (i = list_place(c, text)) >= 0)
        return add_input(c, i, value);
    return unknown_keyword(c, name);
}

static int take_arguments(call_state *c, PyObject *const *args, Py_ssize_t n, PyObject *keywords)
{
    for (Py_ssize_t i = 0; i < n; i++)
        if (take_positional(c, args[i]))
            return -1;
    for (Py_ssize_t i = 0; keywords && i < PyTuple_GET_SIZE(keywords); i++)
        if (take_keyword(c, PyTuple_GET_ITEM(keywords, i), args[n + i]))
            return -1;
    return 0;
}

/* ---- the call ---------------------------------------------------------------------------------------------------- */

static PyObject *apply(call_state *c)
{
    char hint[128];
    MX_SCOPE;
    hint_of(c->self, hint, sizeof hint);
    const char *name = sym_name(c->name, hint);
    if (!name)
        return NULL;
    struct mx_symbol_args args = {.name = name,
                                  .verbatim = true,
                                  .n_in = (int)c->in.length,
                                  .in_names = c->in_names.items,
                                  .in = c->in.items,
                                  .n_attrs = (int)c->keys.length,
                                  .attr_names = c->keys.items,
                                  .attr_values = (const char *const *)(void *)c->values.items};
    return sym_wrap(mx_symbol_apply(c->op->name, &args));
}

static void end(call_state *c)
{
    for (int64_t i = 0; i < c->values.length; i++)
        mx_strfree(c->values.items[i]);
    for (int64_t i = 0; i < c->names.length; i++)
        mx_strfree(c->names.items[i]);
    for (int64_t i = 0; i < c->held.length; i++)
        Py_DECREF(c->held.items[i]);
    mx_vec_free(&c->in), mx_vec_free(&c->in_names), mx_vec_free(&c->keys);
    mx_vec_free(&c->values), mx_vec_free(&c->names), mx_vec_free(&c->held);
    PyMem_Free(c->attrs);
}

PyObject *sym_call(const op_object *self, PyObject *const *args, Py_ssize_t n, PyObject *keywords)
{
    const size_t bytes = self->op->schema ? self->op->schema->size : 0;
    call_state c = {.self = self, .op = self->op, .attrs = core_memory(1, bytes + 1)};
    if (!c.attrs)
        return PyErr_NoMemory();
    if (bytes)
        memcpy(c.attrs, self->op->defaults, bytes);
    PyObject *result = take_arguments(&c, args, n, keywords) ? NULL : apply(&c);
    end(&c);
    return result;
}

static PyObject *symbol_op_call(PyObject *callable, PyObject *const *args, size_t nargsf, PyObject *keywords)
{
    return sym_call((op_object *)callable, args, PyVectorcall_NARGS(nargsf), keywords);
}

/* ---- the module's part ------------------------------------------------------------------------------------------- */

/* symbol_operator(op): the operator of mx.nd as one of mx.sym. */
static PyObject *symbol_operator(PyObject *self, PyObject *op)
{
    (void)self;
    if (!PyObject_TypeCheck(op, &op_type))
        return PyErr_Format(PyExc_TypeError, "symbol_operator: expected an operator, got %.200s", Py_TYPE(op)->tp_name);
    op_object *made = (op_object *)op_new(((op_object *)op)->op, PyUnicode_AsUTF8(((op_object *)op)->name));
    if (made) {
        made->vectorcall = symbol_op_call;
        made->symbolic = true;
    }
    return (PyObject *)made;
}

/* swap_name_manager(manager or None): returns the previous one. */
static PyObject *swap_manager(PyObject *self, PyObject *other)
{
    (void)self;
    PyObject *before = sym_swap_manager(other == Py_None ? NULL : core_new_ref(other));
    return before ? before : core_new_ref(Py_None);
}

static PyMethodDef functions[] = {
    {"symbol_operator", symbol_operator, METH_O, "The version of an operator for symbols."},
    {"swap_name_manager", swap_manager, METH_O,
     "Sets the object whose get(name, hint) names nodes; returns the previous one."},
    {NULL, NULL, 0, NULL},
};

int add_symbol_operators(PyObject *module) { return PyModule_AddFunctions(module, functions); }
