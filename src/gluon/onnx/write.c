/* Writing ONNX files: values and shapes of the variables, then one row per node.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "gluon/onnx/write.h"

#include <stdio.h>
#include <string.h>

#include "base/given.h"
#include "exec/list.h"
#include "gluon/compile/trace.h"
#include "gluon/deploy.h"
#include "graph/infer.h"
#include "graph/known.h"
#include "graph/symbol.h"

/* ---- values, shapes and names -------------------------------------------------------------------------------------- */

static mx_array *find_value(const mx_array_dict *params, const char *name)
{
    static const char *const prefixes[] = {"arg:", "aux:", ""};
    for (int i = 0; params && i < 3; i++) {
        mx_text text = {0};
        mx_text_print(&text, "%s%s", prefixes[i], name);
        mx_array *found = mx_text_get(&text) ? mx_array_dict_get(params, mx_text_get(&text)) : NULL;
        mx_text_free(&text);
        if (found)
            return mx_tostype(found, MX_STYPE_DEFAULT);
    }
    return NULL;
}

static mx_code take_values(mx_onnx_writer *w, const mx_array_dict *params, const struct mx_known *known)
{
    const mx_graph *g = &w->graph;
    for (int64_t i = 0; i < g->n; i++) {
        const mx_gnode *node = g->nodes[i];
        bool input = false;
        for (int k = 0; !node->op && known && known->names && k < known->count; k++)
            input |= !strcmp(known->names[k], node->name);
        if (node->op || input)
            continue;
        mx_array *value = find_value(params, node->name);
        if (!value && !mx_has_error() && !(value = mx_variable_value(node)))
            return mx_error_code();
        w->value[i] = value == MX_NONE ? NULL : value;
        if (w->value[i]) {
            w->shape[g->row[i]] = mx_array_shape(w->value[i]);
            w->type[g->row[i]] = w->value[i]->dtype;
        }
    }
    return mx_has_error() ? mx_error_code() : MX_OK;
}

static void use_known(mx_onnx_writer *w, int64_t i, const struct mx_known *known, int k)
{
    const int64_t e = w->graph.row[i];
    if (known->shapes && known->shapes[k].n >= 0) {
        w->shape[e] = mx_shape_of_dims(&known->shapes[k]);
        for (int axis = 0; axis < w->shape[e].ndim; axis++)
            w->shape[e].dim[axis] = w->shape[e].dim[axis] > 0 ? w->shape[e].dim[axis] : -1;
    }
    if (known->types)
        w->type[e] = known->types[k];
}

static mx_code take_known(mx_onnx_writer *w, const struct mx_known *known)
{
    const mx_graph *g = &w->graph;
    int used = 0, position = 0;
    for (int64_t i = 0; i < g->n; i++) {
        if (g->nodes[i]->op || w->value[i])
            continue;
        for (int k = 0; known && k < known->count; k++)
            if (known->names ? !strcmp(known->names[k], g->nodes[i]->name) : k == position) {
                use_known(w, i, known, k);
                used++;
            }
        position++;
        if (w->type[g->row[i]] == MX_DTYPE_NONE && g->nodes[i]->out_type[0] == MX_DTYPE_NONE)
            w->type[g->row[i]] = MX_FLOAT32;
    }
    if (known && !known->partial && used < known->count)
        return mx_fail(MX_ERR_ARGUMENT,
                       "mx_export_onnx: %d shapes of inputs, but only %d of them are inputs of the network",
                       known->count, used);
    return MX_OK;
}

/* ---- sizes that do not depend on open ones ----------------------------------------------------------------------- */

/* Inference with a number in place of every size of an input that is not known; false: the network does not accept it. */
static bool try_size(const mx_onnx_writer *w, int64_t size, mx_shape_t *shape, int *type)
{
    const mx_graph *g = &w->graph;
    mx_graph_infer_start(g, shape, type);
    for (int64_t i = 0; i < g->n; i++)
        if (!g->nodes[i]->op) {
            shape[g->row[i]] = w->shape[g->row[i]];
            type[g->row[i]] = w->type[g->row[i]];
            if (!mx_graph_put_sizes(&shape[g->row[i]], size))
                return false;
        }
    return !mx_graph_infer(g, shape, type) || (mx_error_clear(), false);
}

/* A size of a result that is the same for all batches is known: (0, -1, 4) of (batch, 6, 6, 4) is (batch, 36, 4). */
static mx_code find_fixed_sizes(mx_onnx_writer *w)
{
    const size_t entries = (size_t)w->graph.row[w->graph.n], bytes = entries * (sizeof(mx_shape_t) + sizeof(int)) + 1;
    mx_shape_t *one = mx_alloc(bytes), *two = mx_alloc(bytes);
    const bool ok =
        one && two && try_size(w, 2520, one, (int *)(one + entries)) && try_size(w, 5040, two, (int *)(two + entries));
    for (size_t e = 0; ok && e < entries; e++) {
        mx_shape_t *shape = &w->shape[e];
        if (one[e].ndim != two[e].ndim || (shape->ndim >= 0 && shape->ndim != one[e].ndim))
            continue;
        for (int k = 0; k < one[e].ndim; k++)
            if (shape->ndim < 0 || shape->dim[k] < 0)
                shape->dim[k] = one[e].dim[k] == two[e].dim[k] ? one[e].dim[k] : -1;
        shape->ndim = one[e].ndim;
    }
    mx_free(one, one ? bytes : 0);
    mx_free(two, two ? bytes : 0);
    return one && two ? MX_OK : MX_ERR_MEMORY;
}

/* ---- names ----------------------------------------------------------------------------------------------------- */

mx_code mx_onnx_give_names(mx_onnx_writer *w)
{
    const mx_graph *g = &w->graph;
    for (int64_t i = 0; i < g->n; i++)
        for (int64_t e = g->row[i]; e < g->row[i + 1]; e++) {
            mx_text text = {0};
            if (w->name[e])
                continue;
            mx_gentry_name(&(mx_gentry){g->nodes[i], (uint32_t)(e - g->row[i])}, &text);
            const char *hint = mx_text_to_scope(&text);
            w->name[e] = hint ? mx_onnx_new_name(w, hint) : "";
            if (!hint || w->failed)
                return mx_error_code();
            if (!g->nodes[i]->op && !mx_dict_set_number(&w->taken, w->name[e], 2))
                return mx_error_code();
        }
    return MX_OK;
}

/* ---- nodes ----------------------------------------------------------------------------------------------------- */

static const char *since_text(const mx_onnx_row *row, int opset, char *buffer)
{
    snprintf(buffer, 128, "ONNX has this operator since opset %d, this file has %d", row->since, opset);
    return buffer;
}

static mx_code write_row(mx_onnx_out *o)
{
    char buffer[128];
    const mx_onnx_row *row = mx_dict_get(&o->writer->rows, o->node->op->name);
    if (!row)
        return mx_onnx_refuse(o, "ONNX has no such operator");
    if (row->since > o->opset)
        return mx_onnx_refuse(o, "%s", since_text(row, o->opset, buffer));
    o->row = row;
    if (row->write)
        return row->write(o);
    mx_onnx_node(o, o->out[0], row->onnx, o->n_in, o->in);
    return mx_onnx_done(o);
}

static mx_code write_node(mx_onnx_writer *w, int64_t i)
{
    MX_SCOPE;
    const mx_graph *g = &w->graph;
    const mx_gnode *node = g->nodes[i];
    const char **in = (const char **)(void *)mx_list_new(node->n_in);
    mx_shape_t *shapes = (mx_shape_t *)(void *)mx_list_new((int64_t)((size_t)node->n_in * sizeof *shapes / 8 + 1));
    int *types = (int *)(void *)mx_list_new(node->n_in);
    if (!in || !shapes || !types)
        return mx_error_code();
    for (int k = 0; k < node->n_in; k++) {
        const int64_t e = g->in_entry[g->in_row[i] + k];
        in[k] = e < 0 ? "" : w->name[e];
        shapes[k] = e < 0 ? MX_UNKNOWN_SHAPE : w->shape[e];
        types[k] = e < 0 ? MX_DTYPE_NONE : w->type[e];
    }
    mx_onnx_out o = {.writer = w, .node = node, .attrs = node->attrs, .opset = w->opset, .n_in = node->n_in,
                     .n_out = node->n_out, .in = in, .out = &w->name[g->row[i]], .in_shape = shapes,
                     .out_shape = &w->shape[g->row[i]], .in_type = types, .out_type = &w->type[g->row[i]]};
    return write_row(&o);
}

mx_code mx_onnx_write_nodes(mx_onnx_writer *w)
{
    mx_code code = MX_OK;
    for (int64_t i = 0; !code && i < w->graph.n; i++)
        if (w->graph.nodes[i]->op)
            code = write_node(w, i);
    mx_onnx_finish_node(w);
    return code;
}

/* ---- the whole ------------------------------------------------------------------------------------------------- */

mx_code mx_onnx_new_tables(mx_onnx_writer *w)
{
    const size_t entries = (size_t)w->graph.row[w->graph.n];
    w->shape = mx_alloc_zero(entries * sizeof *w->shape);
    w->type = mx_alloc_zero(entries * sizeof *w->type);
    w->value = mx_alloc_zero((size_t)w->graph.n * sizeof *w->value);
    w->name = mx_alloc_zero(entries * sizeof *w->name);
    if (!w->shape || !w->type || !w->value || !w->name)
        return MX_ERR_MEMORY;
    mx_graph_infer_start(&w->graph, w->shape, w->type);
    return MX_OK;
}

void mx_onnx_free_tables(mx_onnx_writer *w)
{
    const size_t entries = w->graph.n ? (size_t)w->graph.row[w->graph.n] : 0;
    mx_free(w->shape, entries * sizeof *w->shape);
    mx_free(w->type, entries * sizeof *w->type);
    mx_free(w->value, (size_t)w->graph.n * sizeof *w->value);
    mx_free(w->name, entries * sizeof *w->name);
}

static mx_code prepare(mx_onnx_writer *w, const struct mx_onnx_options *options)
{
    const mx_symbol *symbol = options->symbol;
    if (mx_graph_of(&w->graph, symbol->n, symbol->outputs) || mx_onnx_new_tables(w))
        return mx_error_code();
    mx_code code = mx_onnx_index(&w->rows, true);
    code = code ? code : take_values(w, options->params, options->inputs);
    code = code ? code : take_known(w, options->inputs);
    code = code ? code : mx_graph_infer(&w->graph, w->shape, w->type);
    code = code ? code : find_fixed_sizes(w);
    return code ? code : mx_onnx_give_names(w);
}

static void release(mx_onnx_writer *w)
{
    mx_onnx_free_tables(w);
    for (int64_t i = 0; i < w->weights.length; i++)
        mx_release(w->weights.items[i].x);
    mx_vec_free(&w->weights);
    mx_dict_free(&w->taken);
    mx_dict_free(&w->rows);
    mx_text_free(&w->nodes);
    mx_text_free(&w->node);
    mx_graph_free(&w->graph);
}

mx_code mx_export_onnx_with(const struct mx_onnx_options *options)
{
    MX_SCOPE;
    if (!mx_given(options, "mx_export_onnx", "options") || !mx_symbol_ok(options->symbol, "mx_export_onnx"))
        return mx_error_code();
    if (mx_known_check(options->inputs, "mx_export_onnx"))
        return mx_error_code();
    if (!options->path || options->opset < MX_ONNX_LEAST || options->opset > MX_ONNX_MOST)
        return options->path ? mx_fail(MX_ERR_ARGUMENT, "mx_export_onnx: opset %d; those from %d to %d are supported",
                                       options->opset, MX_ONNX_LEAST, MX_ONNX_MOST)
                             : mx_fail(MX_ERR_ARGUMENT, "mx_export_onnx: path is NULL");
    mx_onnx_writer w = {.path = options->path, .opset = options->opset};
    mx_code code = prepare(&w, options);
    code = code ? code : mx_onnx_write_nodes(&w);
    code = code ? code : mx_onnx_write_file(&w);
    release(&w);
    return code;
}

mx_code mx_export_onnx_block(mx_block *block, const char *path, int opset, mx_arrays examples)
{
    MX_SCOPE;
    mx_symbol *symbol = mx_trace_arrays(block, examples);
    return symbol ? mx_export_onnx(symbol, NULL, path, .opset = opset) : mx_error_code();
}
