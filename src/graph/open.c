/* Open sizes (see open.h).  SPDX-License-Identifier: Apache-2.0 */
#include "graph/open.h"

#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "graph/infer.h"
#include "graph/rewrite.h"

const mx_field *mx_open_shape(const mx_op *op, const void *attrs)
{
    const mx_field *field = op->flags & MX_OP_CREATE && op->schema ? mx_schema_find(op->schema, "shape") : NULL;
    if (!field || field->type != MX_FIELD_DIMS)
        return NULL;
    const mx_dims *dims = (const mx_dims *)(const void *)((const char *)attrs + field->offset);
    for (int i = 0; i < dims->n; i++)
        if (dims->d[i] <= 0)
            return field;
    return NULL;
}

bool mx_graph_open(const mx_graph *graph)
{
    for (int64_t i = 0; i < graph->n; i++)
        if (graph->nodes[i]->op && mx_open_shape(graph->nodes[i]->op, graph->nodes[i]->attrs))
            return true;
    return false;
}

void *mx_sized_attrs(const mx_gnode *node, const mx_field *field, const mx_shape_t *shape)
{
    const size_t bytes = node->op->schema->size;
    char *attrs = mx_alloc(bytes);
    if (!attrs)
        return NULL;
    memcpy(attrs, node->attrs, bytes);
    *(mx_dims *)(void *)(attrs + field->offset) = mx_dims_of_shape(shape);
    return attrs;
}

static mx_gnode *sized(const mx_gnode *node, const mx_field *field, const mx_shape_t *shape)
{
    void *attrs = mx_sized_attrs(node, field, shape);
    if (!attrs)
        return NULL;
    struct mx_gnode_args args = {node->op, attrs, &node->given, node->name, 0, NULL};
    mx_gnode *made = mx_gnode_make(&args);
    if (made)
        made->context = node->context;
    mx_free(attrs, node->op->schema->size);
    return made;
}

static bool replace(const mx_graph *graph, int64_t i, void *user, mx_gentry *other)
{
    mx_gnode **made = user;
    (void)graph;
    *other = (mx_gentry){made[i], 0};
    return made[i] != NULL;
}

mx_code mx_graph_fill_open(const mx_graph *graph, mx_gentry *results)
{
    const size_t entries = (size_t)graph->row[graph->n], shapes = entries * sizeof(mx_shape_t);
    const size_t bytes = shapes + (size_t)graph->n * sizeof(mx_gnode *) + entries * sizeof(int);
    mx_shape_t *shape = mx_alloc_zero(bytes);
    if (!shape)
        return MX_ERR_MEMORY;
    mx_gnode **made = (mx_gnode **)(void *)((char *)shape + shapes);
    int *type = (int *)(made + graph->n);
    mx_graph_infer_start(graph, shape, type);
    mx_code code = mx_graph_infer(graph, shape, type);
    for (int64_t i = 0; !code && i < graph->n; i++) {
        const mx_gnode *node = graph->nodes[i];
        const mx_field *field = node->op ? mx_open_shape(node->op, node->attrs) : NULL;
        if (field && mx_shape_known(&shape[graph->row[i]]) && !(made[i] = sized(node, field, &shape[graph->row[i]])))
            code = mx_error_code();
    }
    code = code ? code : mx_graph_rebuild(graph, replace, made, results);
    for (int64_t i = 0; i < graph->n; i++)
        mx_release(made[i]);
    mx_free(shape, bytes);
    return code;
}
