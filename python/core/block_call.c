/* Calls of blocks from Python.
 *
 *     net(x)  --- native or hybridized ---> mx_block_call_itself --- block_override.c ---> net.hybrid_forward(F, x)
 *        \--- else, or if forward is overridden ---> hooks, net.forward(x)
 *
 * A hybridized block is one call of the library, which runs a plan; compiling the plan calls forward back with symbols.
 * Arguments and results may be nested lists of arrays: they are flattened for the library, and the block stores how they
 * were nested.  The GIL is released before the library's locks are taken, since compiling a plan acquires it again.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "base/error.h"
#include "block.h"
#include "exec/list.h"
#include "exec/tape.h"
#include "gluon/compile/hybrid.h"
#include "gluon/compile/trace.h"
#include "graph/node.h"
#include "np_array.h"

static PyObject *as_list(PyObject *tuple)
{
    PyObject *list = tuple ? PySequence_List(tuple) : NULL;
    Py_XDECREF(tuple);
    return list;
}

PyObject *block_wrap_results(block_object *self, mx_arrays out)
{
    PyObject *form = self->native ? NULL : self->out_form[mx_thread.modes.training];
    int64_t at = 0;
    if (form)
        return form_give(form, out, &at);
    if (self->block->cell)
        return self->block->hybridized ? as_list(cell_results(out)) : cell_results(out);
    if (out.n == 1)
        return out.v[0] == MX_NONE ? core_new_ref(Py_None) : nd_wrap(out.v[0]);
    return nd_wrap_all(out);
}

/* ---- in the library ---------------------------------------------------------------------------------------------- */

/* Whether the block runs entirely in C: no Python forward and no hooks, in it or in any child. */
static bool runs_in_c(block_object *self);

/* The same for the children of a container; those never accessed from Python have no wrapper. */
static bool children_run_in_c(const mx_block *block)
{
    for (int64_t i = 0; i < block->children.length; i++) {
        const mx_block *child = block->children.entries[i].pointer;
        if (child->front ? !runs_in_c(child->front) : child->sequential && !children_run_in_c(child))
            return false;
    }
    return true;
}

bool block_is_container(const mx_block *block) { return block->sequential && !block->layer; }

static bool runs_in_c(block_object *self)
{
    if (self->before_handle || self->after_handle || !self->native || self->block->around)
        return false;
    if (!block_is_container(self->block))
        return true;
    if (self->checked == structure_version)
        return self->all_native;
    self->checked = structure_version;
    return self->all_native = children_run_in_c(self->block);
}

bool block_in_c(PyObject *object) { return block_of(object) && runs_in_c((block_object *)object); }

PyObject *block_call_in_c(block_object *self, PyObject *args)
{
    block_inputs in;
    mx_block *block = self->block;
    mx_scope scope = mx_scope_open();
    PyObject *result = NULL;
    if (!block_take_arrays(self, args, &in) && !(block->hybridized && block_check_hybridized(self, &in)) &&
        ((!in.form && !self->in_form) || self->native || !block_keep_form(self, in.form))) {
        const mx_arrays list = {in.v, in.n};
        if (block->hybridized && !self->seen.n)
            block_remember(self, list);
        PyThreadState *state = let_go(block->hybridized || in.work > LONG_WORK / 16);
        mx_arrays out = self->watcher ? block_run_watched(self, list) : mx_block_call_itself(block, list);
        take_back(state);
        result = !out.n || mx_error_code() ? raise_error() : block_wrap_results(self, out);
    }
    mx_scope_close(&scope);
    if (in.form)
        Py_DECREF(in.form);
    return result;
}

/* ---- in Python --------------------------------------------------------------------------------------------------- */

/* Calls the children one after the other on x, as Python would; several results become several inputs. */
static PyObject *run_children(block_object *self, PyObject *args)
{
    PyObject *key, *child, *children = PyObject_GetAttrString((PyObject *)self, "_children"), *x = core_new_ref(args);
    Py_ssize_t at = 0;
    bool tuple = true;
    if (!children)
        Py_CLEAR(x);
    while (x && PyDict_Next(children, &at, &key, &child)) {
        PyObject *given = tuple ? core_new_ref(x) : PyTuple_Pack(1, x);
        PyObject *next = given ? PyObject_CallObject(child, given) : NULL;
        Py_XDECREF(given), Py_DECREF(x);
        x = next;
        tuple = false;
        if (x && (PyTuple_Check(x) || PyList_Check(x))) {
            PyObject *as_tuple = PySequence_Tuple(x);
            Py_DECREF(x);
            x = as_tuple;
            tuple = true;
        }
    }
    Py_XDECREF(children);
    if (x && tuple && PyTuple_GET_SIZE(x) == 1) {
        PyObject *only = core_new_ref(PyTuple_GET_ITEM(x, 0));
        Py_DECREF(x);
        x = only;
    }
    return x;
}

static PyObject *call_forward(PyObject *object, PyObject *args, PyObject *keywords)
{
    static PyObject *name;
    block_object *self = (block_object *)object;
    if (!name && !(name = PyUnicode_InternFromString("forward")))
        return NULL;
    if (self->native && block_is_container(self->block) && !keywords)
        return run_children(self, args);
    PyObject *forward = PyObject_GetAttr(object, name);
    if (!forward)
        return NULL;
    const char *outer = mx_error_context(self->block->name);
    PyObject *result = PyObject_Call(forward, args, keywords);
    mx_error_context(outer);
    Py_DECREF(forward);
    return result;
}

bool block_any_symbol(PyObject *value)
{
    if (sym_check(value))
        return true;
    PyObject *key, *item;
    for (Py_ssize_t at = 0; PyDict_Check(value) && PyDict_Next(value, &at, &key, &item);)
        if (block_any_symbol(item))
            return true;
    if (!PyList_Check(value) && !PyTuple_Check(value))
        return false;
    for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(value); i++)
        if (block_any_symbol(PySequence_Fast_GET_ITEM(value, i)))
            return true;
    return false;
}

/* Forward on symbols: nodes are named after the block, parameters are variables. */
static PyObject *call_traced(PyObject *object, PyObject *args, PyObject *keywords)
{
    mx_trace_scope scope;
    if (mx_trace_enter(&scope, ((block_object *)object)->block))
        return raise_error();
    PyObject *manager = sym_swap_manager(NULL);
    PyObject *result = call_forward(object, args, keywords);
    sym_swap_manager(manager);
    mx_trace_leave(&scope);
    return result;
}

/* The inputs of an overridden forward that does not call the inherited one: export() then traces it. */
static void remember_outer(block_object *self, PyObject *args)
{
    block_inputs in = {.n = PyTuple_GET_SIZE(args)};
    for (int64_t i = 0; i < in.n; i++) {
        PyObject *item = PyTuple_GET_ITEM(args, i);
        if (i == MOST_ARRAYS || (item != Py_None && !nd_check(item)))
            return;
        in.v[i] = item == Py_None ? MX_NONE : nd_array(item);
    }
    block_remember(self, (mx_arrays){in.v, in.n});
}

static PyObject *call_in_python(PyObject *object, PyObject *args, PyObject *keywords)
{
    block_object *self = (block_object *)object;
    if (mx_inferring()) /* hooks would see arrays without data */
        return call_forward(object, args, keywords);
    if (self->before_handle && block_run_hooks(self->before, object, args, NULL))
        return NULL;
    const bool hooks = self->before_handle || self->after_handle;
    block_object *outer = hooks ? block_swap_hooked(self) : NULL;
    const bool symbols = block_any_symbol(args) || (keywords && block_any_symbol(keywords));
    PyObject *result = (symbols ? call_traced : call_forward)(object, args, keywords);
    if (hooks)
        block_swap_hooked(outer);
    if (result && self->overrides_forward && self->block->hybridized && !self->seen.n)
        remember_outer(self, args);
    if (result && self->after_handle && block_run_hooks(self->after, object, args, result))
        Py_CLEAR(result);
    return result;
}

/* If forward is in Python, the block's own parameters get their shapes before the library runs it. */
static int learn_shapes(PyObject *object, PyObject *args)
{
    PyObject *arguments = PyTuple_Pack(1, args), *done = NULL;
    if (arguments && ((block_object *)object)->overrides_shapes)
        done = PyObject_CallMethod(object, "_settle_shapes", "(O)", args);
    else if (arguments)
        done = block_infer(object, arguments);
    Py_XDECREF(arguments), Py_XDECREF(done);
    return done ? 0 : -1;
}

/* Keywords become positions, in the order of the library's names or of hybrid_forward's arguments; an overridden forward
 * and that of a plain Block take them as they are. */
static PyObject *positions_of(block_object *self, PyObject *args, PyObject *keywords)
{
    if (self->native)
        return block_with_keywords(self, args, keywords);
    PyObject *bind = PyObject_GetAttrString((PyObject *)self, "_bind");
    PyObject *all = bind ? PyObject_CallFunctionObjArgs(bind, args, keywords, NULL) : NULL;
    Py_XDECREF(bind);
    if (all && !PyTuple_Check(all))
        Py_SETREF(all, PySequence_Tuple(all));
    return all;
}

/* A hybridized block that defines forward alone, on arrays of mx.np.  A forward that cannot be traced, since it needs
 * values, runs in Python from then on. */
static bool is_traced_forward(const block_object *self, PyObject *args)
{
    return self->forward_only && self->block->hybridized && mx_is_np_array() && !mx_inferring() &&
           !block_any_symbol(args) && !mx_thread.modes.tracing;
}
static PyObject *call_traced_forward(block_object *self, PyObject *args)
{
    if (self->block->own.length && mx_block_waits(self->block) && learn_shapes((PyObject *)self, args))
        PyErr_Clear();
    else {
        PyObject *result = block_call_in_c(self, args);
        if (result)
            return result;
        PyErr_Clear();
    }
    mx_error_clear();
    self->forward_only = false;
    return call_in_python((PyObject *)self, args, NULL);
}

static PyObject *call_with(PyObject *object, PyObject *args, PyObject *keywords)
{
    block_object *self = (block_object *)object;
    if (is_traced_forward(self, args) && !keywords)
        return call_traced_forward(self, args);
    const bool compiled = self->block->hybridized && !self->overrides_forward && !mx_inferring();
    if (!(compiled && (self->native || !block_any_symbol(args))) && !runs_in_c(self))
        return call_in_python(object, args, keywords);
    if (!self->native && self->block->own.length && mx_block_waits(self->block) && learn_shapes(object, args))
        return NULL;
    return block_call_in_c(self, args);
}

static PyObject *call_block(PyObject *object, PyObject *args, PyObject *keywords)
{
    block_object *self = (block_object *)object;
    if (!keywords || !PyDict_GET_SIZE(keywords))
        return call_with(object, args, NULL);
    if (self->overrides_forward || !(self->native || self->block->hybrid))
        return call_in_python(object, args, keywords);
    PyObject *all = positions_of(self, args, keywords);
    PyObject *result = all ? call_with(object, all, NULL) : NULL;
    Py_XDECREF(all);
    return result;
}

/* Whether the first array of a call is one of mx.np; -1: there is no array. */
static int class_of(PyObject *args)
{
    const Py_ssize_t n = PySequence_Fast_GET_SIZE(args);
    for (Py_ssize_t i = 0; i < n; i++) {
        PyObject *item = PySequence_Fast_GET_ITEM(args, i);
        if (nd_check(item))
            return np_check(item);
        if (sym_check(item))
            return PyObject_TypeCheck(item, &np_symbol_type);
        const int inside = PyList_Check(item) || PyTuple_Check(item) ? class_of(item) : -1;
        if (inside >= 0)
            return inside;
    }
    return -1;
}

/* Arrays of one class give arrays of that class. */
PyObject *block_call(PyObject *object, PyObject *args, PyObject *keywords)
{
    mx_block *block = block_of(object);
    const bool before = mx_is_np_array();
    const int np = class_of(args);
    if (np >= 0 && np != before)
        mx_set_np_array(np);
    PyObject *result = block ? call_block(object, args, keywords) : NULL;
    if (np >= 0 && np != before)
        mx_set_np_array(before);
    if (!result && block)
        block_blame(block);
    return result;
}

/* _run_children(*inputs): forward of a container. */
PyObject *block_run_children(PyObject *object, PyObject *args)
{
    return block_of(object) ? run_children((block_object *)object, args) : NULL;
}
