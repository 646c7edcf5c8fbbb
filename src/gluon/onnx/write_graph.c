/* Subgraphs in ONNX files: what loops and conditions call.  SPDX-License-Identifier: Apache-2.0
 *
 * The nodes of a subgraph are written by the same rows as all others; for that time the writer's tables are those of the
 * subgraph.  Nodes inside read values around them by name, so only what changes from step to step is an input. */
#include <stdio.h>

#include "gluon/onnx/write_graph.h"
#include "graph/infer.h"

/* ---- inputs and outputs ------------------------------------------------------------------------------------------ */

static void put_dim(mx_text *shape, const char *name, int axis, int64_t size, bool names)
{
    mx_text dim = {0};
    char open[256];
    snprintf(open, sizeof open, axis ? "%.200s_%d" : "batch", name, axis);
    if (size >= 0)
        mx_proto_put_int(&dim, 1, size);
    else if (names)
        mx_proto_put_text(&dim, 2, open);
    mx_proto_put_message(shape, 1, &dim);
    mx_text_free(&dim);
}

void mx_onnx_put_info(mx_text *to, uint32_t field, const mx_onnx_operand *x, bool names)
{
    const mx_onnx_type *type = mx_onnx_type_for((mx_dtype)x->type);
    mx_text dims = {0}, tensor = {0}, kind = {0}, info = {0};
    for (int i = 0; i < x->shape.ndim; i++)
        put_dim(&dims, x->name, i, x->shape.dim[i], names);
    mx_proto_put_int(&tensor, 1, type ? type->code : MX_ONNX_FLOAT);
    if (x->shape.ndim >= 0)
        mx_proto_put_message(&tensor, 2, &dims);
    mx_proto_put_message(&kind, 1, &tensor);
    mx_proto_put_text(&info, 1, x->name);
    mx_proto_put_message(&info, 2, &kind);
    mx_proto_put_message(to, field, &info);
    mx_text_free(&dims);
    mx_text_free(&tensor);
    mx_text_free(&kind);
    mx_text_free(&info);
}

/* ---- parts ----------------------------------------------------------------------------------------------------- */

static void use_operands(mx_onnx_writer *w, const mx_subgraph *part, const mx_onnx_operand *in)
{
    for (int j = 0; j < part->n_in; j++) {
        const int64_t entry = w->graph.row[part->variable[j]];
        const mx_onnx_operand *x = &in[part->from[j]];
        w->shape[entry] = x->shape;
        w->type[entry] = x->type;
        w->name[entry] = x->name;
        w->value[part->variable[j]] = x->value;
    }
}

static void take_results(const mx_onnx_writer *w, mx_onnx_operand *results)
{
    for (int64_t h = 0; h < w->graph.n_results; h++) {
        const int64_t e = w->graph.results[h];
        results[h] = (mx_onnx_operand){w->name[e], w->shape[e], w->type[e], NULL};
    }
}

static const char *path_to(const mx_onnx_out *o)
{
    mx_text text = {0};
    mx_text_print(&text, "%s%s/", o->writer->inside ? o->writer->inside : "", o->node->name);
    return mx_text_to_scope(&text);
}

mx_code mx_onnx_write_part(mx_onnx_out *o, const mx_subgraph *part, const mx_onnx_operand *in, mx_onnx_operand *results)
{
    mx_onnx_writer *w = o->writer;
    mx_onnx_finish_node(w);
    const mx_onnx_writer outer = *w;
    w->graph = part->graph;
    mx_code code = mx_onnx_new_tables(w);
    if (!code) {
        w->inside = path_to(o);
        use_operands(w, part, in);
        code = mx_graph_infer(&w->graph, w->shape, w->type);
    }
    code = code ? code : mx_onnx_give_names(w);
    code = code ? code : mx_onnx_write_nodes(w);
    if (!code)
        take_results(w, results);
    mx_onnx_free_tables(w);
    w->graph = outer.graph;
    w->shape = outer.shape;
    w->type = outer.type;
    w->value = outer.value;
    w->name = outer.name;
    w->inside = outer.inside;
    return code;
}

void mx_onnx_operands(const mx_onnx_out *o, mx_onnx_operand *operands)
{
    for (int i = 0; i < o->n_in; i++)
        operands[i] = (mx_onnx_operand){o->in[i], o->in_shape[i], o->in_type[i], mx_onnx_out_value(o, i)};
}

/* ---- bodies ---------------------------------------------------------------------------------------------------- */

void mx_onnx_begin_body(mx_onnx_out *o, mx_onnx_body *body)
{
    mx_onnx_finish_node(o->writer);
    *body = (mx_onnx_body){.outer = o->writer->nodes};
    o->writer->nodes = (mx_text){0};
}

const char *mx_onnx_body_input(mx_onnx_out *o, mx_onnx_body *body, const mx_shape_t *shape, int type)
{
    const char *name = mx_onnx_new_name(o->writer, o->node->name);
    if (!mx_dict_set_number(&o->writer->taken, name, 2))
        o->writer->failed = true;
    mx_onnx_put_info(&body->infos, 11, &(mx_onnx_operand){name, *shape, type, NULL}, false);
    return name;
}

void mx_onnx_body_output(mx_onnx_out *o, mx_onnx_body *body, const mx_onnx_operand *x)
{
    mx_onnx_operand y = *x; /* a result of its own: values from outside, or used twice, cannot be outputs */
    y.name = mx_onnx_put(o, NULL, "Identity", x->name);
    mx_onnx_put_info(&body->infos, 12, &y, false);
}

mx_text mx_onnx_end_body(mx_onnx_out *o, mx_onnx_body *body)
{
    mx_onnx_writer *w = o->writer;
    mx_onnx_finish_node(w);
    mx_text graph = w->nodes;
    mx_proto_put_text(&graph, 2, o->node->name);
    mx_text_add_bytes(&graph, body->infos.data ? body->infos.data : "", body->infos.length);
    graph.failed |= body->infos.failed;
    mx_text_free(&body->infos);
    w->nodes = body->outer;
    return graph;
}
