/* The ONNX file: a header, the nodes, the weights, the inputs and outputs.
 *
 *     model: version, producer, opset, graph( nodes, name, weights, inputs, outputs )
 *
 * A message begins with its length, so the lengths of the weights are computed first; their bytes go from the arrays to the
 * file without a copy.  Other readers accept no more than 2 GiB: the weights of larger networks are in a file beside it.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <string.h>

#include "base/file.h"
#include "gluon/onnx/write.h"
#include "ndarray/array.h"
#include "ndarray/params.h"

typedef struct output {
    mx_onnx_writer *w;
    mx_text tail;   /* inputs and outputs of the graph */
    mx_text head;   /* of the weight being written */
    bool external;  /* weights are in another file */
    char *beside;   /* its name, without the folder; owned */
    int64_t offset; /* of the next weight in it */
} output;

/* ---- weights --------------------------------------------------------------------------------------------------- */

static void put_pair(mx_text *text, const char *key, const char *value)
{
    mx_text pair = {0};
    mx_proto_put_text(&pair, 1, key);
    mx_proto_put_text(&pair, 2, value);
    mx_proto_put_message(text, 13, &pair);
    mx_text_free(&pair);
}

static void put_location(output *out, mx_text *text, int64_t bytes)
{
    char number[32];
    put_pair(text, "location", out->beside);
    snprintf(number, sizeof number, "%lld", (long long)out->offset);
    put_pair(text, "offset", number);
    snprintf(number, sizeof number, "%lld", (long long)bytes);
    put_pair(text, "length", number);
    mx_proto_put_int(text, 14, 1);
    out->offset += bytes;
}

/* All of a tensor but its bytes, which follow. */
static void describe_weight(output *out, const mx_onnx_weight *weight, mx_text *text)
{
    const mx_onnx_type *type = mx_onnx_type_for((mx_dtype)weight->x->dtype);
    for (int i = 0; i < weight->x->ndim; i++)
        mx_proto_put_int(text, 1, weight->x->shape[i]);
    mx_proto_put_int(text, 2, type->code);
    mx_proto_put_text(text, 8, weight->name);
    if (out->external) {
        put_location(out, text, (int64_t)mx_bytes(weight->x));
        return;
    }
    mx_proto_put_key(text, 9, MX_PROTO_BYTES);
    mx_proto_put_varint(text, mx_bytes(weight->x));
}

static int64_t varint_size(uint64_t value)
{
    int64_t n = 1;
    for (; value > 127; value >>= 7)
        n++;
    return n;
}

/* Bytes of all weights in the file, with their keys and lengths. */
static int64_t measure_weights(output *out)
{
    int64_t total = 0;
    out->offset = 0;
    for (int64_t i = 0; i < out->w->weights.length; i++) {
        const mx_onnx_weight *weight = &out->w->weights.items[i];
        mx_text_clear(&out->head);
        describe_weight(out, weight, &out->head);
        const int64_t size = (int64_t)out->head.length + (out->external ? 0 : (int64_t)mx_bytes(weight->x));
        total += 1 + varint_size((uint64_t)size) + size;
    }
    out->offset = 0;
    return total;
}

static void put_weights(output *out, mx_writer *file)
{
    for (int64_t i = 0; i < out->w->weights.length; i++) {
        const mx_onnx_weight *weight = &out->w->weights.items[i];
        mx_text key = {0};
        mx_text_clear(&out->head);
        describe_weight(out, weight, &out->head);
        mx_proto_put_key(&key, 5, MX_PROTO_BYTES);
        mx_proto_put_varint(&key, out->head.length + (out->external ? 0 : mx_bytes(weight->x)));
        file->failed |= key.failed || out->head.failed;
        mx_writer_put(file, key.data ? key.data : "", key.length);
        mx_writer_put(file, out->head.data, out->head.length);
        if (!out->external)
            mx_save_elements(file, weight->x);
        mx_text_free(&key);
    }
}

static mx_code put_beside(output *out)
{
    const char *slash = strrchr(out->w->path, '/');
    mx_text path = {0};
    mx_text_print(&path, "%.*s%s", slash ? (int)(slash + 1 - out->w->path) : 0, out->w->path, out->beside);
    mx_writer file;
    if (!mx_text_get(&path) || !mx_writer_open(&file, mx_text_get(&path)))
        return mx_text_free(&path), mx_error_code();
    for (int64_t i = 0; i < out->w->weights.length; i++)
        mx_save_elements(&file, out->w->weights.items[i].x);
    mx_text_free(&path);
    return mx_writer_commit(&file) ? MX_OK : mx_error_code();
}

/* ---- inputs and outputs ------------------------------------------------------------------------------------------ */

static void put_info(output *out, uint32_t field, const char *name, int64_t entry)
{
    mx_onnx_put_info(&out->tail, field, &(mx_onnx_operand){name, out->w->shape[entry], out->w->type[entry], NULL},
                     true);
}

/* Variables that nodes read: inputs, or weights. */
static mx_code put_variables(output *out, const bool *used)
{
    mx_onnx_writer *w = out->w;
    for (int64_t i = 0; i < w->graph.n; i++) {
        const int64_t e = w->graph.row[i];
        if (w->graph.nodes[i]->op || !used[i])
            continue;
        if (!w->value[i])
            put_info(out, 11, w->name[e], e);
        else if (!mx_onnx_type_for((mx_dtype)w->value[i]->dtype))
            return mx_fail(MX_ERR_UNSUPPORTED, "mx_export_onnx: '%s' has a type that ONNX does not have", w->name[e]);
        else if (!mx_vec_push(&w->weights, ((mx_onnx_weight){w->name[e], mx_retain(w->value[i])})))
            return mx_error_code();
    }
    return MX_OK;
}

/* A result that is a variable, or a result already, gets a node of its own. */
static mx_code put_results(output *out)
{
    mx_onnx_writer *w = out->w;
    for (int64_t h = 0; h < w->graph.n_results; h++) {
        const int64_t e = w->graph.results[h], node = mx_graph_node_of(&w->graph, e);
        bool again = !w->graph.nodes[node]->op;
        for (int64_t k = 0; k < h; k++)
            again |= w->graph.results[k] == e;
        const char *name = w->name[e];
        mx_onnx_out o = {.writer = w, .node = w->graph.nodes[node]};
        if (again)
            name = mx_onnx_put(&o, mx_onnx_new_name(w, name), "Identity", w->name[e]);
        else if (mx_dict_get_number(&w->taken, name, 0) != 2)
            return mx_fail(MX_ERR_UNSUPPORTED, "mx_export_onnx: node '%s' (%s): its output %d cannot be written",
                           w->graph.nodes[node]->name, w->graph.nodes[node]->op->name, (int)(e - w->graph.row[node]));
        if (w->shape[e].ndim < 0)
            return mx_fail(MX_ERR_SHAPE,
                           "mx_export_onnx: node '%s': the number of axes of its result is not known; give the "
                           "shapes of the inputs",
                           w->graph.nodes[node]->name);
        put_info(out, 12, name, e);
    }
    mx_onnx_finish_node(w);
    return MX_OK;
}

static void find_used(mx_proto nodes, mx_dict *names);

/* Subgraphs read values around them. */
static void find_used_inside(const mx_proto_field *attribute, mx_dict *names)
{
    mx_proto m = mx_proto_inside(attribute);
    for (mx_proto_field f; mx_proto_next(&m, &f);)
        if (f.number == 6)
            find_used(mx_proto_inside(&f), names);
}

/* Which variables the nodes of the file read; rows may ignore inputs of ours (labels, a fixed gamma). */
static void find_used(mx_proto nodes, mx_dict *names)
{
    for (mx_proto_field node; mx_proto_next(&nodes, &node);) {
        mx_proto m = node.number == 1 ? mx_proto_inside(&node) : (mx_proto){0};
        for (mx_proto_field f; mx_proto_next(&m, &f);) {
            mx_text text = {0};
            if (f.number == 5)
                find_used_inside(&f, names);
            if (f.number == 1 && f.size && (mx_text_add_bytes(&text, f.bytes, (size_t)f.size), mx_text_get(&text)))
                mx_dict_set_number(names, mx_text_get(&text), 1);
            mx_text_free(&text);
        }
    }
}

static mx_code put_infos(output *out)
{
    mx_onnx_writer *w = out->w;
    mx_text results = {0};
    mx_dict names = {0};
    bool *used = mx_alloc_zero((size_t)w->graph.n);
    mx_code code = used ? put_results(out) : MX_ERR_MEMORY;
    find_used(mx_proto_of(w->nodes.data, (int64_t)w->nodes.length), &names);
    mx_text_add_bytes(&results, out->tail.data ? out->tail.data : "", out->tail.length);
    mx_text_clear(&out->tail);
    for (int64_t i = 0; !code && i < w->graph.n; i++)
        used[i] = !w->graph.nodes[i]->op && mx_dict_find(&names, w->name[w->graph.row[i]]);
    code = code ? code : put_variables(out, used);
    mx_text_add_bytes(&out->tail, results.data ? results.data : "", results.length);
    out->tail.failed |= results.failed;
    mx_text_free(&results);
    mx_dict_free(&names);
    mx_free(used, (size_t)w->graph.n);
    return code;
}

/* ---- the file -------------------------------------------------------------------------------------------------- */

static void put_opening(output *out, mx_text *head, int64_t graph)
{
    mx_text opset = {0};
    const int version = out->w->opset < 15   ? 7
                        : out->w->opset < 19 ? 8
                        : out->w->opset < 21 ? 9
                        : out->w->opset < 23 ? 10
                                             : 11;
    mx_proto_put_int(head, 1, version);
    mx_proto_put_text(head, 2, "gluon");
    mx_proto_put_text(head, 3, mx_version());
    mx_proto_put_text(&opset, 1, "");
    mx_proto_put_int(&opset, 2, out->w->opset);
    mx_proto_put_message(head, 8, &opset);
    mx_proto_put_key(head, 7, MX_PROTO_BYTES);
    mx_proto_put_varint(head, (uint64_t)graph);
    mx_text_free(&opset);
}

static mx_code put_all(output *out)
{
    mx_onnx_writer *w = out->w;
    mx_text name = {0}, head = {0};
    mx_writer file;
    mx_proto_put_text(&name, 2, "network");
    const int64_t rest = (int64_t)(w->nodes.length + name.length + out->tail.length);
    int64_t weights = measure_weights(out);
    if (rest + weights > INT32_MAX - 1024) {
        out->external = true;
        weights = measure_weights(out);
    }
    put_opening(out, &head, rest + weights);
    if (head.failed || name.failed || w->nodes.failed || out->tail.failed || (out->external && put_beside(out)) ||
        !mx_writer_open(&file, w->path))
        return mx_text_free(&head), mx_text_free(&name), mx_error_code();
    mx_writer_put(&file, head.data, head.length);
    mx_writer_put(&file, w->nodes.data ? w->nodes.data : "", w->nodes.length);
    mx_writer_put(&file, name.data, name.length);
    put_weights(out, &file);
    mx_writer_put(&file, out->tail.data ? out->tail.data : "", out->tail.length);
    mx_text_free(&head);
    mx_text_free(&name);
    return mx_writer_commit(&file) ? MX_OK : mx_error_code();
}

mx_code mx_onnx_write_file(mx_onnx_writer *w)
{
    output out = {.w = w};
    const char *slash = strrchr(w->path, '/');
    mx_text beside = {0};
    mx_text_print(&beside, "%s.data", slash ? slash + 1 : w->path);
    out.beside = mx_text_take(&beside);
    mx_code code = out.beside ? put_infos(&out) : mx_error_code();
    code = code ? code : put_all(&out);
    mx_text_free(&out.tail);
    mx_text_free(&out.head);
    mx_strfree(out.beside);
    return code;
}
