/* How often the values of the outermost graph are still needed: a value is dropped after its last use, so that a file of many
 * nodes needs the memory of its graph only.
 *
 * Names are counted in buckets by their hash, without being stored.  Names that share a bucket keep each other alive, nothing is
 * dropped too early.  What graphs inside nodes use, and what is an output, stays until the end: `ALWAYS`.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "base/alloc.h"
#include "gluon/onnx/read.h"

#define ALWAYS UINT32_MAX
#define DEEPEST 32 /* graphs inside graphs; below, the reader refuses the file */

static uint32_t *bucket(const mx_onnx_uses *u, const unsigned char *name, int64_t size)
{
    uint64_t hash = 0xcbf29ce484222325u;
    for (int64_t i = 0; i < size && name[i]; i++) /* as text: up to a zero */
        hash = (hash ^ name[i]) * 0x100000001b3u;
    return &u->left[(hash ^ hash >> 32) & (uint64_t)(u->size - 1)];
}

static void count_name(const mx_onnx_uses *u, const mx_proto_field *f, bool always)
{
    if (f->kind != MX_PROTO_BYTES)
        return;
    uint32_t *left = bucket(u, f->bytes, f->size);
    *left = always || *left == ALWAYS ? ALWAYS : *left + 1;
}

/* The name of a value that a graph has as its output. */
static void count_output(const mx_onnx_uses *u, const mx_proto_field *output)
{
    mx_proto m = mx_proto_inside(output);
    for (mx_proto_field f; mx_proto_next(&m, &f);)
        if (f.number == 1)
            count_name(u, &f, true);
}

static bool count_graph(const mx_onnx_uses *u, mx_proto graph, int depth);

/* false: too deep */
static bool count_node(const mx_onnx_uses *u, const mx_proto_field *node, int depth)
{
    bool fine = true;
    mx_proto m = mx_proto_inside(node);
    for (mx_proto_field f; fine && mx_proto_next(&m, &f);) {
        if (f.number == 1)
            count_name(u, &f, depth > 0);
        mx_proto attribute = f.number == 5 ? mx_proto_inside(&f) : (mx_proto){0};
        for (mx_proto_field a; fine && mx_proto_next(&attribute, &a);)
            if ((a.number == 6 || a.number == 11) && a.kind == MX_PROTO_BYTES)
                fine = count_graph(u, mx_proto_inside(&a), depth + 1);
    }
    return fine;
}

static bool count_graph(const mx_onnx_uses *u, mx_proto graph, int depth)
{
    bool fine = depth < DEEPEST;
    for (mx_proto_field f; fine && mx_proto_next(&graph, &f);) {
        if (f.number == 1)
            fine = count_node(u, &f, depth);
        else if (f.number == 12)
            count_output(u, &f);
    }
    return fine;
}

mx_code mx_onnx_count_uses(mx_onnx_uses *u, mx_onnx_part graph)
{
    int64_t nodes = 0;
    mx_proto m = mx_proto_of(graph.bytes, graph.size);
    for (mx_proto_field f; mx_proto_next(&m, &f);)
        nodes += f.number == 1;
    for (u->size = 256; u->size < 2 * nodes;)
        u->size *= 2;
    u->left = mx_alloc_zero((size_t)u->size * sizeof *u->left);
    if (!u->left)
        return MX_ERR_MEMORY;
    if (!count_graph(u, mx_proto_of(graph.bytes, graph.size), 0))
        mx_onnx_free_uses(u);
    return MX_OK;
}

void mx_onnx_free_uses(mx_onnx_uses *u)
{
    mx_free(u->left, (size_t)u->size * sizeof *u->left);
    *u = (mx_onnx_uses){0};
}

static uint32_t *bucket_of(const mx_onnx_uses *u, const char *name)
{
    return bucket(u, (const unsigned char *)name, INT64_MAX);
}

bool mx_onnx_is_used(const mx_onnx_uses *u, const char *name) { return !u->left || *bucket_of(u, name); }

bool mx_onnx_use_ends(mx_onnx_uses *u, const char *name)
{
    uint32_t *left = u->left ? bucket_of(u, name) : NULL;
    return left && *left && *left != ALWAYS && !--*left;
}
