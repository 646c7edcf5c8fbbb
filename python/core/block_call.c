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

#define MOST_INPUTS 8 /* that have names */

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

static bool is_container(const mx_block *block) { return block->sequential && !block->layer; }

static bool runs_in_c(block_object *self)
{
    if (self->before_handle || self->after_handle || !self->native || self->block->around)
        return false;
    if (!is_container(self->block))
        return true;
    if (self->checked == structure_version)
        return self->all_native;
    self->checked = structure_version;
    return self->all_native = children_run_in_c(self->block);
}

bool block_in_c(PyObject *object) { return block_of(object) && runs_in_c((block_object *)object); }

/* The arrays of a call. */
typedef struct inputs {
    mx_array *v[MOST_ARRAYS];
    int64_t n, work;
    PyObject *form; /* owned; NULL: no nested lists */
} inputs;

static int take_nested(block_object *self, PyObject *args, inputs *in)
{
    PyObject *who = PyUnicode_FromFormat("%s (%s)", self->block->name, self->block->class_name);
    in->n = 0;
    in->form = who ? form_take(args, in->v, &in->n, PyUnicode_AsUTF8(who)) : NULL;
    Py_XDECREF(who);
    return in->form ? 0 : -1;
}

/* cell(x, states) of a cell of the library: how states are nested does not matter. */
static int take_step(block_object *self, PyObject *args, inputs *in)
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

static bool is_list(PyObject *value) { return PyList_Check(value) || PyTuple_Check(value); }

/* The first input of a layer of the library is an array. */
static int refuse_list(const block_object *self, PyObject *value)
{
    PyObject *type = from_package("mxnet.error", "ArgumentError");
    PyErr_Format(type ? type : PyExc_TypeError, "%s (%s): expected an NDArray or Symbol, got a %s", self->block->name,
                 self->block->class_name, Py_TYPE(value)->tp_name);
    Py_XDECREF(type);
    return -1;
}

/* 0, or -1 with an exception; a scope is open. */
static int take_arrays(block_object *self, PyObject *args, inputs *in)
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
            return !i && is_list(item) && self->native && self->block->layer ? refuse_list(self, item)
                                                                             : take_nested(self, args, in);
        else if (!(in->v[i] = sym_array(item, self->block->name)))
            return -1;
    }
    return 0;
}

/* Arguments that are nested differently than before need new plans. */
static int keep_form(block_object *self, PyObject *form)
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
static int check_pattern(block_object *self, const inputs *in)
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
static int check_contexts(const block_object *self, const inputs *in)
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

static int check_hybridized(block_object *self, const inputs *in)
{
    if (check_contexts(self, in))
        return -1;
    const bool traced = !self->library || self->overrides_hybrid;
    return self->seen.n && traced ? check_pattern(self, in) : 0;
}

static PyObject *call_in_c(block_object *self, PyObject *args)
{
    inputs in;
    mx_block *block = self->block;
    mx_scope scope = mx_scope_open();
    PyObject *result = NULL;
    if (!take_arrays(self, args, &in) && !(block->hybridized && check_hybridized(self, &in)) &&
        ((!in.form && !self->in_form) || self->native || !keep_form(self, in.form))) {
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

/* Inputs of a block of the library by their names: loss(pred, label=y, sample_weight=w), cell(inputs=x, states=s). */
static PyObject *with_keywords(block_object *self, PyObject *args, PyObject *keywords)
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
    if (self->native && is_container(self->block) && !keywords)
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

static bool any_symbol(PyObject *value)
{
    if (sym_check(value))
        return true;
    PyObject *key, *item;
    for (Py_ssize_t at = 0; PyDict_Check(value) && PyDict_Next(value, &at, &key, &item);)
        if (any_symbol(item))
            return true;
    if (!PyList_Check(value) && !PyTuple_Check(value))
        return false;
    for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(value); i++)
        if (any_symbol(PySequence_Fast_GET_ITEM(value, i)))
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
    inputs in = {.n = PyTuple_GET_SIZE(args)};
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
    const bool symbols = any_symbol(args) || (keywords && any_symbol(keywords));
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
        return with_keywords(self, args, keywords);
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
    return self->forward_only && self->block->hybridized && mx_is_np_array() && !mx_inferring() && !any_symbol(args) &&
           !mx_thread.modes.tracing;
}
static PyObject *call_traced_forward(block_object *self, PyObject *args)
{
    if (self->block->own.length && mx_block_waits(self->block) && learn_shapes((PyObject *)self, args))
        PyErr_Clear();
    else {
        PyObject *result = call_in_c(self, args);
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
    if (!(compiled && (self->native || !any_symbol(args))) && !runs_in_c(self))
        return call_in_python(object, args, keywords);
    if (!self->native && self->block->own.length && mx_block_waits(self->block) && learn_shapes(object, args))
        return NULL;
    return call_in_c(self, args);
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
        const int inside = is_list(item) ? class_of(item) : -1;
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

/* ---- layers of the library --------------------------------------------------------------------------------------- */

static mx_code infer_layer(mx_block *block, mx_arrays in)
{
    mx_array *abstract[MOST_ARRAYS];
    for (int64_t i = 0; i < in.n; i++) {
        mx_shape_t shape = mx_array_shape(in.v[i]);
        abstract[i] = in.v[i] == MX_NONE
                          ? MX_NONE
                          : mx_scope_add(mx_array_abstract(&shape, (mx_dtype)in.v[i]->dtype, in.v[i]->context));
        if (!abstract[i])
            return mx_error_code();
    }
    const bool previous = mx_set_inferring(true);
    mx_mode mode = mx_mode_enter(0, -1);
    const bool learned = mx_layer_run(block, (mx_arrays){abstract, in.n}).n > 0;
    mx_mode_leave(&mode);
    mx_set_inferring(previous);
    mx_block_finish_shapes(block, learned);
    return learned ? MX_OK : mx_error_code();
}

static PyObject *wrap_layer(const block_object *self, mx_arrays out)
{
    if (self->block->cell)
        return cell_results(out);
    return !out.n ? raise_error() : out.n == 1 ? nd_wrap(out.v[0]) : nd_wrap_all(out);
}

/* super().forward(x) in a subclass of a layer: runs the layer itself. */
static PyObject *layer_itself(block_object *self, PyObject *args)
{
    inputs in;
    mx_block *block = self->block;
    mx_scope scope = mx_scope_open();
    PyObject *result = NULL;
    if (!take_arrays(self, args, &in)) {
        const mx_arrays list = {in.v, in.n};
        const bool waits = !mx_inferring() && !mx_thread.modes.tracing && mx_block_waits(block);
        mx_arrays out = waits && infer_layer(block, list) ? mx_list_failed() : mx_layer_run(block, list);
        result = wrap_layer(self, out);
    }
    mx_scope_close(&scope);
    if (in.form)
        Py_DECREF(in.form);
    return result;
}

/* _run_children(*inputs): forward of a container. */
PyObject *block_run_children(PyObject *object, PyObject *args)
{
    return block_of(object) ? run_children((block_object *)object, args) : NULL;
}

/* The block's own forward can run as a plan: it is hybridized, the inputs are arrays, and it does not run already. */
static bool can_compile(const block_object *self, PyObject *args)
{
    return self->block->hybridized && !block_inside(self) && !mx_inferring() && !mx_thread.modes.tracing &&
           !any_symbol(args);
}

static PyObject *forward_by_hybrid(PyObject *object, PyObject *args)
{
    PyObject *forward = PyObject_GetAttrString(object, "_forward_by_hybrid");
    PyObject *result = forward ? PyObject_CallObject(forward, args) : NULL;
    Py_XDECREF(forward);
    return result;
}

/* forward() of the library, for subclasses and direct calls. */
PyObject *block_forward(PyObject *object, PyObject *args)
{
    block_object *self = (block_object *)object;
    const mx_block *block = block_of(object);
    if (!block)
        return NULL;
    if (can_compile(self, args))
        return call_in_c(self, args);
    if (self->overrides_hybrid)
        return forward_by_hybrid(object, args);
    if (is_container(block))
        return run_children(self, args);
    if (self->native || (self->library && !block->layer)) /* the latter: super().forward of a SymbolBlock */
        return call_in_c(self, args);
    if (!block->layer)
        return PyErr_Format(PyExc_NotImplementedError, "%s (%s): forward is not overridden", block->name,
                            block->class_name);
    return layer_itself(self, args);
}

/* _layer_forward(inputs, parameters): hybrid_forward of a layer of the library, with the parameters passed. */
PyObject *block_layer_forward(PyObject *object, PyObject *args)
{
    block_object *self = (block_object *)object;
    PyObject *tuple, *given, *result = NULL;
    mx_array *own[MOST_ARRAYS];
    inputs in;
    if (!block_of(object) ||
        !PyArg_ParseTuple(args, "O!O!:hybrid_forward", &PyTuple_Type, &tuple, &PyDict_Type, &given))
        return NULL;
    mx_scope scope = mx_scope_open();
    const mx_dict *attributes = &self->block->attributes;
    bool ok = !take_arrays(self, tuple, &in);
    for (int64_t i = 0; ok && i < attributes->length && i < MOST_ARRAYS; i++) {
        PyObject *value = PyDict_GetItemString(given, attributes->entries[i].key);
        own[i] = value && any_check(value) ? any_array(value, "hybrid_forward") : MX_NONE;
        ok = own[i] != NULL;
    }
    if (ok) {
        mx_arrays out =
            mx_layer_forward_with(self->block, (mx_arrays){in.v, in.n}, (mx_arrays){own, attributes->length});
        result = wrap_layer(self, out);
    }
    mx_scope_close(&scope);
    if (in.form)
        Py_DECREF(in.form);
    return result;
}
