/* The arrays of a call of a block: taken from its arguments, and checked against those of earlier calls.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "block.h"
#include "gluon/compile/hybrid.h"
#include "graph/node.h"

#define MOST_INPUTS 8 /* that have names */

static int take_nested(block_object *self, PyObject *args, block_inputs *in)
{
    PyObject *who = PyUnicode_FromFormat("%s (%s)", self->block->name, self->block->class_name);
    in->n = 0;
    in->form = who ? form_take(args, in->v, &in->n, PyUnicode_AsUTF8(who)) : NULL;
    Py_XDECREF(who);
    return in->form ? 0 : -1;
}

/* cell(x, states) of a cell of the library: how states are nested does not matter. */
static int take_step(block_object *self, PyObject *args, block_inputs *in)
{
    PyObject *x = PyTuple_GET_ITEM(args, 0), *states = PyTuple_GET_ITEM(args, 1);
    const bool listed = PyList_Check(states) || PyTuple_Check(states);
    const Py_ssize_t n = listed ? PySequence_Fast_GET_SIZE(states) : 0;
    bool plain = listed && nd_check(x) && n < MOST_ARRAYS;
    for (Py_ssize_t i = 0; plain && i < n; i++)
        plain = nd_check(PySequence_Fast_GET_ITEM(states, i));
    if (!plain) {
        const int failed = take_nested(self, args, in);
        Py_CLEAR(in->form);
        return failed;
    }
    in->v[0] = nd_array(x), in->n = 1 + n, in->work = in->v[0]->size;
    for (Py_ssize_t i = 0; i < n; i++)
        in->v[1 + i] = nd_array(PySequence_Fast_GET_ITEM(states, i));
    return 0;
}

/* The first input of a layer of the library is an array. */
static int refuse_list(const block_object *self, PyObject *value)
{
    PyObject *type = from_package("mxnet.error", "ArgumentError");
    PyErr_Format(type ? type : PyExc_TypeError, "%s (%s): expected an NDArray or Symbol, got a %s", self->block->name,
                 self->block->class_name, Py_TYPE(value)->tp_name);
    Py_XDECREF(type);
    return -1;
}

int block_take_arrays(block_object *self, PyObject *args, block_inputs *in)
{
    in->n = PyTuple_GET_SIZE(args), in->work = 0, in->form = NULL;
    if (self->native && self->block->cell) {
        if (in->n == 2)
            return take_step(self, args, in);
        PyErr_Format(PyExc_TypeError, "%s (%s): takes an input and a list of states, got %lld arguments",
                     self->block->name, self->block->class_name, (long long)in->n);
        return -1;
    }
    if (in->n > MOST_ARRAYS)
        return take_nested(self, args, in);
    for (int64_t i = 0; i < in->n; i++) {
        PyObject *item = PyTuple_GET_ITEM(args, i);
        if (nd_check(item)) {
            in->v[i] = nd_array(item);
            in->work += in->v[i]->size;
        } else if (item == Py_None)
            in->v[i] = MX_NONE;
        else if (!sym_check(item))
            return !i && (PyList_Check(item) || PyTuple_Check(item)) && self->native && self->block->layer
                       ? refuse_list(self, item)
                       : take_nested(self, args, in);
        else if (!(in->v[i] = sym_array(item, self->block->name)))
            return -1;
    }
    return 0;
}

int block_keep_form(block_object *self, PyObject *form)
{
    const int same =
        !form || !self->in_form ? form == self->in_form : PyObject_RichCompareBool(form, self->in_form, Py_EQ);
    if (same)
        return same < 0 ? -1 : 0;
    Py_XSETREF(self->in_form, form ? core_new_ref(form) : NULL);
    mx_hybrid_forget(self->block);
    return 0;
}

/* A hybridized block of the user's is compiled for the inputs of its first call: which of them are absent, and how they
 * are nested. */
static int check_pattern(block_object *self, const block_inputs *in)
{
    bool same = in->n == self->seen.n;
    for (int64_t i = 0; same && i < in->n; i++)
        same = (in->v[i] == MX_NONE) == (self->seen.shape[i].ndim < 0);
    if (same) {
        PyObject *a = in->form ? in->form : Py_None, *b = self->in_form ? self->in_form : Py_None;
        const int equal = PyObject_RichCompareBool(a, b, Py_EQ);
        if (equal)
            return equal < 0 ? -1 : 0;
    }
    PyErr_Format(
        PyExc_ValueError,
        "%s (%s): it was hybridized and called with inputs of another number or structure, or others were None; "
        "call hybridize() again before it is called with these",
        self->block->name, self->block->class_name);
    return -1;
}

/* Plans are for one context. */
static int check_contexts(const block_object *self, const block_inputs *in)
{
    const mx_array *first = NULL;
    for (int64_t i = 0; i < in->n; i++) {
        const mx_array *x = in->v[i];
        if (x == MX_NONE)
            continue;
        if (first && !mx_context_equal(first->context, x->context) && !mx_is_symbolic(x) && !mx_is_symbolic(first)) {
            PyErr_Format(PyExc_ValueError, "%s (%s): inputs of a hybridized block are on one context, these on several",
                         self->block->name, self->block->class_name);
            return -1;
        }
        first = x;
    }
    if (first || !in->n)
        return 0;
    PyErr_Format(PyExc_ValueError, "%s (%s): there is no NDArray among the inputs", self->block->name,
                 self->block->class_name);
    return -1;
}

int block_check_hybridized(block_object *self, const block_inputs *in)
{
    if (check_contexts(self, in))
        return -1;
    const bool traced = !self->library || self->overrides_hybrid;
    return self->seen.n && traced ? check_pattern(self, in) : 0;
}

PyObject *block_with_keywords(block_object *self, PyObject *args, PyObject *keywords)
{
    PyObject *all[MOST_INPUTS] = {NULL}, *key, *value;
    Py_ssize_t n = PyTuple_GET_SIZE(args), at = 0;
    for (Py_ssize_t i = 0; i < n && i < MOST_INPUTS; i++)
        all[i] = PyTuple_GET_ITEM(args, i);
    while (PyDict_Next(keywords, &at, &key, &value)) {
        const char *name = PyUnicode_AsUTF8(key);
        const int place = name ? mx_block_input_number(self->block, name) : -1;
        if (place < 0 || all[place])
            return PyErr_Format(PyExc_TypeError, "%s (%s): %s '%U'; its inputs are: %s", self->block->name,
                                self->block->class_name, place < 0 ? "unexpected keyword" : "two values for", key,
                                mx_block_inputs(self->block));
        all[place] = value;
        n = place >= n ? place + 1 : n;
    }
    PyObject *tuple = PyTuple_New(n);
    for (Py_ssize_t i = 0; tuple && i < n; i++)
        PyTuple_SET_ITEM(tuple, i,
                         core_new_ref(i < MOST_INPUTS && all[i]    ? all[i]
                                      : i < PyTuple_GET_SIZE(args) ? PyTuple_GET_ITEM(args, i)
                                                                   : Py_None));
    return tuple;
}
