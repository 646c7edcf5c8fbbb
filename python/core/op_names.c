/* The operators by name: dictionaries from which the modules nd, sym, np and npx are filled.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <string.h>

#include "core.h"
#include "np_array.h"
#include "op/expand.h"

/* Adds op under `name` to the dictionary. */
static int add_name(PyObject *dict, mx_op *op, const char *name)
{
    PyObject *made = op_new(op, name);
    const int failed = !made || PyDict_SetItemString(dict, name, made);
    Py_XDECREF(made);
    return failed;
}

static int add_aliases(PyObject *dict, mx_op *op)
{
    char name[128];
    for (const char *at = op->aliases; at && *at;) {
        const size_t length = strcspn(at, " ");
        if (length && length < sizeof name) {
            memcpy(name, at, length);
            name[length] = 0;
            if (add_name(dict, op, name))
                return -1;
        }
        at += length + (at[length] == ' ');
    }
    return 0;
}

/* operators(hidden=False): all operators by name and alias; hidden=True includes hidden ones (backward operators). */
static PyObject *operators(PyObject *self, PyObject *args)
{
    int hidden = 0;
    (void)self;
    if (!PyArg_ParseTuple(args, "|p:operators", &hidden))
        return NULL;
    PyObject *dict = PyDict_New();
    mx_op *op;
    for (int i = 0; dict && (op = mx_op_at(i)) != NULL; i++)
        if (!mx_op_expands(op) && (hidden || !(op->flags & MX_OP_HIDDEN)) &&
            (add_aliases(dict, op) || add_name(dict, op, op->name)))
            Py_CLEAR(dict);
    return dict;
}

/* The public name of a function of mx.npx from that in files, "_npx_relu"; NULL: it is none. */
static const char *npx_name(const char *name)
{
    return strncmp(name, "_npx_", 5) ? NULL : !strncmp(name, "_npx__image_", 12) ? name + 6 : name + 5;
}

static int add_np(PyObject *dict, mx_op *op, const char *name, const char *key)
{
    PyObject *made = op_new(op, name);
    if (made)
        ((op_object *)made)->np = true, ((op_object *)made)->np_row = np_row_of(op->name);
    const int failed = !made || PyDict_SetItemString(dict, key, made);
    Py_XDECREF(made);
    return failed;
}

/* "npx.relu" for every alias "_npx_relu". */
static int add_npx(PyObject *dict, mx_op *op)
{
    char name[128], key[160];
    for (const char *p = op->aliases ? op->aliases : ""; *(p += strspn(p, " ")); p += strcspn(p, " ")) {
        snprintf(name, sizeof name, "%.*s", (int)strcspn(p, " "), p);
        const char *short_name = npx_name(name);
        snprintf(key, sizeof key, "npx.%s", short_name ? short_name : "");
        if (short_name && add_np(dict, op, short_name, key))
            return -1;
    }
    return 0;
}

/* np_operators(): the functions of mx.np and mx.npx by their full names, "np.linalg.norm". */
static PyObject *np_operators(PyObject *self, PyObject *unused)
{
    PyObject *dict = PyDict_New();
    mx_op *op;
    (void)self, (void)unused;
    for (int i = 0; dict && (op = mx_op_at(i)) != NULL; i++)
        if (mx_op_expands(op) ? add_np(dict, op, strrchr(op->name, '.') + 1, op->name) : add_npx(dict, op))
            Py_CLEAR(dict);
    return dict;
}

/* The words of a text, appended to a list. */
static int append_words(PyObject *list, const char *text)
{
    PyObject *whole = PyUnicode_FromString(text), *words = whole ? PyUnicode_Split(whole, NULL, -1) : NULL;
    PyObject *longer = words ? PySequence_InPlaceConcat(list, words) : NULL;
    const int failed = !longer;
    Py_XDECREF(longer);
    Py_XDECREF(words);
    Py_XDECREF(whole);
    return failed;
}

/* operator_methods(): names under which operators are methods of arrays and symbols, from their descriptions. */
static PyObject *operator_methods(PyObject *self, PyObject *unused)
{
    PyObject *list = PyList_New(0);
    const mx_op *op;
    (void)self, (void)unused;
    for (int i = 0; list && (op = mx_op_at(i)) != NULL; i++)
        if (op->methods && append_words(list, op->methods))
            Py_CLEAR(list);
    return list;
}

static PyObject *find_operator(PyObject *self, PyObject *name)
{
    (void)self;
    const char *text = PyUnicode_AsUTF8(name);
    mx_op *op = text ? mx_op_find(text) : NULL;
    return op ? op_new(op, text) : raise_error();
}

static PyObject *set_null(PyObject *self, PyObject *value)
{
    (void)self;
    Py_XSETREF(null_value, core_new_ref(value));
    Py_RETURN_NONE;
}

static PyMethodDef functions[] = {
    {"set_null", set_null, METH_O, "The object that means 'argument not given'."},
    {"operators", operators, METH_VARARGS, "operators(hidden=False): all operators by name."},
    {"np_operators", np_operators, METH_NOARGS, "The functions of mx.np and mx.npx by their full names."},
    {"operator", find_operator, METH_O, "The operator of a name or alias."},
    {"operator_methods", operator_methods, METH_NOARGS, "Names of the operators that are methods of arrays and symbols."},
    {NULL, NULL, 0, NULL},
};

int add_operators(PyObject *module)
{
    if (PyType_Ready(&op_type) || PyModule_AddObjectRef(module, "Op", (PyObject *)&op_type))
        return -1;
    return PyModule_AddFunctions(module, functions);
}
