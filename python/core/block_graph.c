/* Blocks and graphs: exporting a block, its symbol, blocks built from symbols, watching every node.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "block.h"
#include "exec/interpret.h"
#include "exec/list.h"
#include "exec/tape.h"
#include "gluon/deploy.h"
#include "gluon/compile/hybrid.h"
#include "graph/infer.h"
#include "graph/symbol.h"

/* ---- inputs like those of the first call ------------------------------------------------------------------------- */

void block_remember(block_object *self, mx_arrays in)
{
    seen_inputs *seen = &self->seen;
    seen->shape = core_memory((size_t)in.n + 1, sizeof *seen->shape);
    seen->type = core_memory((size_t)in.n + 1, sizeof *seen->type);
    for (int64_t i = 0; seen->shape && seen->type && i < in.n; i++) {
        seen->shape[i] = in.v[i] == MX_NONE ? MX_UNKNOWN_SHAPE : mx_array_shape(in.v[i]);
        seen->type[i] = in.v[i]->dtype;
    }
    if (seen->shape && seen->type)
        seen->n = (int)in.n;
}

/* Arrays without elements of those shapes, owned by the scope. */
static int examples_of(const block_object *self, mx_array **list)
{
    for (int i = 0; i < self->seen.n; i++) {
        const bool absent = self->seen.shape[i].ndim < 0;
        list[i] =
            absent
                ? MX_NONE
                : mx_scope_add(mx_array_abstract(&self->seen.shape[i], (mx_dtype)self->seen.type[i], (mx_context){0}));
        if (!list[i])
            return raise_error(), -1;
    }
    return 0;
}

int block_examples(block_object *self, const char *who, mx_array **list)
{
    mx_block *block = block_of((PyObject *)self);
    if (!block)
        return -1;
    if (!self->seen.n || !block->hybridized) {
        PyErr_Format(PyExc_RuntimeError,
                     "%s: %s needs a hybridized block that has run; call hybridize(), then the block once", block->name,
                     who);
        return -1;
    }
    return examples_of(self, list) ? -1 : self->seen.n;
}

/* ---- export ------------------------------------------------------------------------------------------------------ */

/* _export(path, epoch) */
PyObject *block_export(PyObject *object, PyObject *args)
{
    block_object *self = (block_object *)object;
    mx_block *block = block_of(object);
    PyObject *path;
    int epoch;
    if (!block || !PyArg_ParseTuple(args, "O&i:export", PyUnicode_FSConverter, &path, &epoch))
        return NULL;
    mx_array *examples[MOST_ARRAYS];
    mx_scope scope = mx_scope_open();
    PyObject *result = NULL;
    if (block_examples(self, "export", examples) >= 0) {
        PyThreadState *state = let_go(true);
        const mx_code code = mx_export_like(block, PyBytes_AS_STRING(path), epoch, (mx_arrays){examples, self->seen.n});
        take_back(state);
        result = raise_if(code);
    }
    mx_scope_close(&scope);
    Py_DECREF(path);
    return result;
}

/* _seen(): [(shape, type)] of the inputs of the first call. */
PyObject *block_seen(PyObject *object, PyObject *unused)
{
    const seen_inputs *seen = &((block_object *)object)->seen;
    PyObject *list = PyList_New(0);
    (void)unused;
    for (int i = 0; list && i < seen->n; i++) {
        PyObject *item = seen->shape[i].ndim < 0
                             ? NULL
                             : Py_BuildValue("(NN)", dims_to(seen->shape[i].dim, seen->shape[i].ndim),
                                             dtype_to((mx_dtype)seen->type[i]));
        if (seen->shape[i].ndim < 0)
            PyErr_SetString(PyExc_ValueError, "an optional input was missing in the first call");
        if (!item || PyList_Append(list, item))
            Py_CLEAR(list);
        Py_XDECREF(item);
    }
    return list;
}

/* _trace(*inputs): the block's graph for arrays like these; without arguments for those of its first call. */
PyObject *block_trace(PyObject *object, PyObject *args)
{
    block_object *self = (block_object *)object;
    mx_array *list[MOST_ARRAYS];
    int64_t n = 0;
    PyObject *result = NULL, *form = NULL;
    if (!block_of(object))
        return NULL;
    mx_scope scope = mx_scope_open();
    bool ok;
    if (PyTuple_GET_SIZE(args))
        ok = (form = form_take(args, list, &n, self->block->name)) != NULL;
    else
        ok = !examples_of(self, list), n = self->seen.n;
    if (ok)
        result = sym_wrap(mx_trace_arrays(self->block, (mx_arrays){list, n}));
    mx_scope_close(&scope);
    Py_XDECREF(form);
    return result;
}

/* ---- shapes of parameters ---------------------------------------------------------------------------------------- */

/* Shapes of parameters inferred from the graph are used as if an abstract run had found them. */
static mx_code learn(const mx_graph *graph, const mx_shape_t *shape)
{
    for (int64_t i = 0; i < graph->n; i++) {
        mx_parameter *p = graph->nodes[i]->owner;
        if (p && p->deferred && mx_shape_known(&shape[graph->row[i]]) &&
            !mx_shape_merge(&p->shape, &shape[graph->row[i]], NULL))
            return mx_fail(MX_ERR_SHAPE, "parameter %s: its shape contradicts the inputs", p->name);
    }
    return MX_OK;
}

int block_infer_by_graph(block_object *self, PyObject *args)
{
    PyObject *symbol = block_trace((PyObject *)self, args);
    mx_graph graph = {0};
    if (!symbol)
        return -1;
    mx_symbol *outputs = sym_symbol(symbol);
    mx_code code = outputs ? mx_graph_of(&graph, outputs->n, outputs->outputs) : MX_ERR_STATE;
    const size_t entries = code ? 0 : (size_t)graph.row[graph.n];
    mx_shape_t *shape = mx_alloc(entries * sizeof *shape);
    int *type = mx_alloc(entries * sizeof *type);
    if (!code && shape && type) {
        mx_graph_infer_start(&graph, shape, type);
        code = mx_graph_infer(&graph, shape, type);
        code = code ? code : learn(&graph, shape);
    }
    mx_free(shape, entries * sizeof *shape);
    mx_free(type, entries * sizeof *type);
    mx_graph_free(&graph);
    Py_DECREF(symbol);
    return code ? raise_error(), -1 : 0;
}

/* ---- blocks made from symbols ------------------------------------------------------------------------------------ */

/* _start_symbol(outputs, "names of inputs", prefix): makes the object a SymbolBlock. */
PyObject *block_start_symbol(PyObject *object, PyObject *args)
{
    block_object *self = (block_object *)object;
    PyObject *outputs, *base, *shared;
    const char *inputs;
    if (!PyArg_ParseTuple(args, "OO!sO:SymbolBlock", &base, &sym_type, &outputs, &inputs, &shared) ||
        block_prepare(self))
        return NULL;
    mx_symbol *symbol = sym_symbol(outputs);
    if (!symbol)
        return NULL;
    mx_scope scope = mx_scope_open();
    mx_params *params = shared == Py_None ? NULL : params_of(shared);
    mx_block *block = mx_symbol_block_with(symbol, inputs, params, true);
    if (block) {
        block_attach(self, mx_retain(block));
        block_start_overrides(self, base, true);
    }
    mx_scope_close(&scope);
    return block ? core_new_ref(Py_None) : raise_error();
}

/* ---- watching nodes ---------------------------------------------------------------------------------------------- */

typedef struct watching {
    block_object *self;
    const mx_graph *graph;
} watching;

static const char *operator_of(const mx_graph *graph, const char *output)
{
    const mx_gnode *best = NULL;
    for (int64_t i = 0; i < graph->n; i++) {
        const size_t length = strlen(graph->nodes[i]->name);
        if (!strncmp(graph->nodes[i]->name, output, length) && (!best || strlen(best->name) < length))
            best = graph->nodes[i];
    }
    return best && best->op ? best->op->name : "null";
}

static mx_code show(void *user, const char *name, mx_array *value)
{
    const watching *w = user;
    PyGILState_STATE state = PyGILState_Ensure();
    PyObject *handle = PyErr_Occurred() ? NULL : handle_give(value, &w->self->given);
    PyObject *done =
        handle ? PyObject_CallFunction(w->self->watcher, "yyO", name, operator_of(w->graph, name), handle) : NULL;
    const bool ok = done != NULL;
    Py_XDECREF(handle), Py_XDECREF(done);
    PyGILState_Release(state);
    return ok ? MX_OK : mx_error_set(MX_ERR_CALLBACK, "%s: an operator hook failed", w->self->block->name);
}

/* The values of the graph's variables: parameters, and inputs by their names data, data0, data1 ... */
static mx_code give_values(const mx_graph *graph, mx_arrays in, mx_array **values)
{
    const mx_context context = in.n ? in.v[0]->context : mx_current_context();
    for (int64_t i = 0; i < graph->n; i++) {
        const mx_gnode *node = graph->nodes[i];
        int number = 0;
        if (node->op || node->value)
            continue;
        if (node->owner)
            values[i] = mx_parameter_use(node->owner, context);
        else if (!strcmp(node->name, "data") || sscanf(node->name, "data%d", &number) == 1)
            values[i] = number < in.n ? in.v[number] : NULL;
        if (!values[i])
            return mx_has_error() ? mx_error_code() : mx_fail(MX_ERR_ARGUMENT, "variable %s has no value", node->name);
    }
    return MX_OK;
}

/* Handles of the pass before that nobody wrapped. */
static void forget_handles(block_object *self)
{
    PyGILState_STATE state = PyGILState_Ensure();
    handle_drop(&self->given);
    PyGILState_Release(state);
}

mx_arrays block_run_watched(block_object *self, mx_arrays in)
{
    mx_plan_key key;
    forget_handles(self);
    if (self->block->hybrid && mx_plan_key_make(&key, in) &&
        mx_learn_shapes(&(struct mx_compile_request){.block = self->block, .key = &key}))
        return mx_list_failed();
    if (self->block->hybrid && mx_tree_waits(self->block))
        return mx_block_call_itself(self->block, in); /* keeps the order of random numbers and initialisations */
    mx_symbol *symbol = mx_trace_arrays(self->block, in);
    mx_graph graph = {0};
    if (!symbol || mx_graph_of(&graph, symbol->n, symbol->outputs))
        return mx_list_failed();
    mx_array **values = mx_alloc_zero((size_t)graph.n * sizeof *values), **results = mx_list_new(graph.n_results);
    watching w = {self, &graph};
    const mx_interpretation what = {
        .graph = &graph, .values = values, .watch = show, .user = &w, .watch_all = self->watch_all};
    mx_code code = values && results ? give_values(&graph, in, values) : mx_error_code();
    code = code ? code : mx_interpret(&what, results);
    for (int64_t i = 0; !code && i < graph.n_results; i++)
        if (!mx_scope_add(results[i]))
            code = mx_error_code();
    const int64_t n = graph.n_results;
    mx_free(values, (size_t)graph.n * sizeof *values);
    mx_graph_free(&graph);
    return code ? mx_list_failed() : (mx_arrays){results, n};
}

/* _watch(callback or None, inputs too) */
PyObject *block_watch(PyObject *object, PyObject *args)
{
    block_object *self = (block_object *)object;
    PyObject *callback;
    int all;
    if (!block_of(object) || !PyArg_ParseTuple(args, "Op:register_op_hook", &callback, &all))
        return NULL;
    Py_XSETREF(self->watcher, callback == Py_None ? NULL : core_new_ref(callback));
    self->watch_all = all;
    Py_RETURN_NONE;
}
