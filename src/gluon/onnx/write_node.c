/* Nodes, attributes and constants of an ONNX file, for the functions of rows.  SPDX-License-Identifier: Apache-2.0 */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "gluon/onnx/write.h"
#include "ndarray/array.h"

mx_code mx_onnx_refuse(const mx_onnx_out *o, const char *format, ...)
{
    char message[512];
    va_list args;
    va_start(args, format);
    vsnprintf(message, sizeof message, format, args);
    va_end(args);
    o->writer->failed = true;
    return mx_fail(MX_ERR_UNSUPPORTED, "mx_export_onnx: node '%s%s' (%s): %s",
                   o->writer->inside ? o->writer->inside : "", o->node->name, o->node->op->name, message);
}

const char *mx_onnx_new_name(mx_onnx_writer *w, const char *hint)
{
    mx_text text = {0};
    mx_text_add(&text, hint);
    while (!text.failed && mx_dict_find(&w->taken, mx_text_get(&text))) {
        mx_text_clear(&text);
        mx_text_print(&text, "%s_%lld", hint, (long long)w->made++);
    }
    mx_dict_entry *entry = text.failed ? NULL : mx_dict_place(&w->taken, mx_text_get(&text));
    mx_text_free(&text);
    if (!entry) {
        w->failed = true;
        return "";
    }
    entry->number = 1;
    return entry->key; /* lives as long as the writer */
}

/* ---- nodes ----------------------------------------------------------------------------------------------------- */

void mx_onnx_finish_node(mx_onnx_writer *w)
{
    if (!w->op)
        return;
    mx_proto_put_message(&w->nodes, 1, &w->node);
    w->op = NULL;
}

static void put_input(mx_onnx_out *o, const char *name)
{
    mx_onnx_writer *w = o->writer;
    if (name && *name && mx_dict_get_number(&w->taken, name, 0) != 2 && !w->failed)
        mx_onnx_refuse(o, "its input '%s' is an output that cannot be written", name);
    mx_proto_put_text(&w->node, 1, name ? name : "");
}

const char *mx_onnx_spare(mx_onnx_out *o) { return mx_onnx_new_name(o->writer, o->node->name); }

const char *mx_onnx_more(mx_onnx_out *o, const char *out)
{
    mx_onnx_writer *w = o->writer;
    const char *name = out ? out : mx_onnx_new_name(w, o->node->name);
    if (*name && !mx_dict_set_number(&w->taken, name, 2))
        w->failed = true;
    mx_proto_put_text(&w->node, 2, name);
    return name;
}

const char *mx_onnx_node(mx_onnx_out *o, const char *out, const char *op, int n, const char *const *in)
{
    mx_onnx_writer *w = o->writer;
    mx_onnx_finish_node(w);
    while (n && !(in[n - 1] && *in[n - 1])) /* absent inputs at the end are left out */
        n--;
    for (int i = 0; i < n; i++)
        put_input(o, in[i]);
    const char *name = mx_onnx_more(o, out);
    mx_proto_put_text(&w->node, 3, name);
    mx_proto_put_text(&w->node, 4, op);
    w->op = op;
    return name;
}

/* ---- attributes ------------------------------------------------------------------------------------------------ */

enum { KIND_FLOAT = 1, KIND_INT = 2, KIND_TEXT = 3, KIND_GRAPH = 5, KIND_INTS = 7, KIND_TEXTS = 8 };

static void put_attr(mx_onnx_out *o, const char *name, int kind, mx_text *value)
{
    mx_text attr = {0};
    mx_proto_put_text(&attr, 1, name);
    mx_text_add_bytes(&attr, value->data ? value->data : "", value->length);
    mx_proto_put_int(&attr, 20, kind);
    o->writer->failed |= attr.failed || value->failed;
    mx_proto_put_message(&o->writer->node, 5, &attr);
    mx_text_free(&attr);
    mx_text_free(value);
}

void mx_onnx_set_int(mx_onnx_out *o, const char *name, int64_t value)
{
    mx_text text = {0};
    mx_proto_put_int(&text, 3, value);
    put_attr(o, name, KIND_INT, &text);
}

void mx_onnx_set_float(mx_onnx_out *o, const char *name, double value)
{
    mx_text text = {0};
    mx_proto_put_float(&text, 2, (float)value);
    put_attr(o, name, KIND_FLOAT, &text);
}

void mx_onnx_set_text(mx_onnx_out *o, const char *name, const char *value)
{
    mx_text text = {0};
    mx_proto_put_text(&text, 4, value);
    put_attr(o, name, KIND_TEXT, &text);
}

void mx_onnx_set_texts(mx_onnx_out *o, const char *name, int n, const char *value)
{
    mx_text text = {0};
    for (int i = 0; i < n; i++)
        mx_proto_put_text(&text, 9, value);
    put_attr(o, name, KIND_TEXTS, &text);
}

void mx_onnx_set_ints(mx_onnx_out *o, const char *name, int n, const int64_t *values)
{
    mx_text text = {0};
    for (int i = 0; i < n; i++)
        mx_proto_put_int(&text, 8, values[i]);
    put_attr(o, name, KIND_INTS, &text);
}

void mx_onnx_set_graph(mx_onnx_out *o, const char *name, mx_text *graph)
{
    mx_text text = {0};
    mx_proto_put_message(&text, 6, graph);
    put_attr(o, name, KIND_GRAPH, &text);
    mx_text_free(graph);
}

/* ---- constants ------------------------------------------------------------------------------------------------- */

static const char *put_constant(mx_onnx_out *o, mx_array *x)
{
    mx_onnx_writer *w = o->writer;
    const char *name = mx_onnx_new_name(w, "constant");
    if (!x || !mx_vec_push(&w->weights, ((mx_onnx_weight){name, mx_retain(x)})) ||
        !mx_dict_set_number(&w->taken, name, 2))
        w->failed = true;
    return name;
}

const char *mx_onnx_put_ints(mx_onnx_out *o, int n, const int64_t *values)
{
    return put_constant(o, mx_array_from(MX_DIMS(n), MX_INT64, values));
}

const char *mx_onnx_put_number(mx_onnx_out *o, double value, int dtype)
{
    return put_constant(o, mx_onnx_scalar(value, dtype == MX_DTYPE_NONE ? MX_FLOAT32 : (mx_dtype)dtype));
}

const char *mx_onnx_put_floats(mx_onnx_out *o, int n, const double *values, int dtype)
{
    return put_constant(o, mx_onnx_constant(MX_DIMS(n), dtype == MX_DTYPE_NONE ? MX_FLOAT32 : (mx_dtype)dtype, values));
}

const char *mx_onnx_put_array(mx_onnx_out *o, mx_array *x) { return put_constant(o, x); }

const char *mx_onnx_put_cast(mx_onnx_out *o, const char *out, const char *x, int dtype)
{
    const mx_onnx_type *type = mx_onnx_type_for((mx_dtype)dtype);
    const char *y = mx_onnx_put(o, out, "Cast", x);
    mx_onnx_set_int(o, "to", type ? type->code : MX_ONNX_FLOAT);
    return y;
}

/* ---- usual nodes ------------------------------------------------------------------------------------------------- */

const char *mx_onnx_put_with(mx_onnx_out *o, const char *out, const char *op, const char *x, double number)
{
    return mx_onnx_put(o, out, op, x, mx_onnx_put_number(o, number, o->in_type[0]));
}

const char *mx_onnx_put_shaped(mx_onnx_out *o, const char *out, const char *x, int n, const int64_t *shape)
{
    return mx_onnx_put(o, out, "Reshape", x, mx_onnx_put_ints(o, n, shape));
}

const char *mx_onnx_put_part(mx_onnx_out *o, const char *out, const char *x, int64_t axis, int64_t begin, int64_t end)
{
    return mx_onnx_put(o, out, "Slice", x, mx_onnx_put_ints(o, MX_ONNX_LIST(begin)),
                       mx_onnx_put_ints(o, MX_ONNX_LIST(end == MX_NONE_INT ? INT64_MAX : end)),
                       mx_onnx_put_ints(o, MX_ONNX_LIST(axis)));
}

const char *mx_onnx_put_flipped(mx_onnx_out *o, const char *out, const char *x, int64_t axis)
{
    return mx_onnx_put(o, out, "Slice", x, mx_onnx_put_ints(o, MX_ONNX_LIST(INT64_MAX)),
                       mx_onnx_put_ints(o, MX_ONNX_LIST(-INT64_MAX)), mx_onnx_put_ints(o, MX_ONNX_LIST(axis)),
                       mx_onnx_put_ints(o, MX_ONNX_LIST(-1)));
}

const char *mx_onnx_put_ordered(mx_onnx_out *o, const char *out, const char *x, int n, const int64_t *axes)
{
    const char *y = mx_onnx_put(o, out, "Transpose", x);
    mx_onnx_set_ints(o, "perm", n, axes);
    return y;
}

const char *mx_onnx_put_transposed(mx_onnx_out *o, const char *x, int rank)
{
    int64_t order[MX_MAX_NDIM];
    for (int i = 0; i < rank; i++)
        order[i] = i < rank - 2 ? i : 2 * rank - 3 - i;
    return mx_onnx_put_ordered(o, NULL, x, rank, order);
}

const char *mx_onnx_put_choice(mx_onnx_out *o, const char *out, const char *x, const char *indices, int64_t axis)
{
    const char *y = mx_onnx_put(o, out, "Gather", x, indices);
    mx_onnx_set_int(o, "axis", axis);
    return y;
}

/* ---- what is known about the node ---------------------------------------------------------------------------------- */

int mx_onnx_out_rank(const mx_onnx_out *o, int i)
{
    const int rank = i < o->n_in ? o->in_shape[i].ndim : -1;
    if (rank < 0)
        mx_onnx_refuse(o, "the number of axes of its input %d is not known; give the shapes of the inputs", i);
    return rank;
}

mx_array *mx_onnx_out_value(const mx_onnx_out *o, int i)
{
    const mx_graph *g = &o->writer->graph;
    for (int64_t k = 0; i < o->node->n_in && k < g->n; k++)
        if (g->nodes[k] == o->node->in[i].node)
            return o->writer->value[k];
    return NULL;
}

mx_code mx_onnx_done(const mx_onnx_out *o)
{
    return mx_has_error() ? mx_error_code() : o->writer->failed ? MX_ERR_MEMORY : MX_OK;
}
