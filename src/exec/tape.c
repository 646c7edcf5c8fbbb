/* Writing the tape (see tape.h).  SPDX-License-Identifier: Apache-2.0 */
#include "exec/tape.h"

#include <string.h>

#include "base/alloc.h"
#include "exec/check.h"
#include "base/error.h"
#include "ndarray/sparse.h"

static _Atomic uint64_t next_sequence = 1;

static void destroy_node(mx_object *object)
{
    mx_node *node = (mx_node *)object;
    mx_node_free_kept(node);
    for (int i = 0; i < node->n_in; i++)
        mx_release(node->edges[i].node);
    if (node->function && node->function->release)
        node->function->release(node->user);
    mx_release(node->grad);
    mx_free(node, node->bytes);
}
const mx_kind mx_node_kind = {"tape node", destroy_node};

/* An input that has no history of its own is a constant of the graph. */
void mx_node_keep_input(mx_node *node, int i, mx_array *x)
{
    node->in[i] = mx_retain(x);
    if (!node->edges[i].node)
        atomic_fetch_add_explicit(&x->kept, 1, memory_order_relaxed);
}

void mx_node_free_kept(mx_node *node)
{
    for (int i = 0; i < node->n_in; i++) {
        if (node->in[i] && !node->edges[i].node)
            atomic_fetch_sub_explicit(&node->in[i]->kept, 1, memory_order_relaxed);
        mx_release(node->in[i]);
        node->in[i] = NULL;
    }
    for (int i = 0; i < node->n_out; i++) {
        mx_release(node->out[i]);
        node->out[i] = NULL;
    }
    mx_release(node->frame);
    node->frame = NULL;
}

/* One allocation: the node, then its arrays, then the attributes. */
mx_node *mx_node_new(int n_in, int n_out, size_t attr_bytes)
{
    const size_t in = (size_t)n_in, out = (size_t)n_out;
    const size_t fixed = sizeof(mx_node) + in * (sizeof(mx_edge) + sizeof(mx_array *)) + out * sizeof(mx_array *);
    const size_t shapes = in * (sizeof(mx_shape_t) + sizeof(int));
    const size_t attrs_at = (fixed + shapes + 15) / 16 * 16;
    mx_node *node = mx_alloc(attrs_at + attr_bytes);
    if (!node)
        return NULL;
    memset(node, 0, fixed);
    mx_object_init(&node->object, &mx_node_kind);
    char *p = (char *)(node + 1);
    node->edges = (mx_edge *)p, p += in * sizeof(mx_edge);
    node->in = (mx_array **)p, p += in * sizeof(mx_array *);
    node->out = (mx_array **)p, p += out * sizeof(mx_array *);
    node->in_shape = (mx_shape_t *)p, p += in * sizeof(mx_shape_t);
    node->in_type = (int *)p;
    node->attrs = attr_bytes ? (char *)node + attrs_at : NULL;
    node->n_in = n_in, node->n_out = n_out;
    node->bytes = attrs_at + attr_bytes;
    node->sequence = atomic_fetch_add_explicit(&next_sequence, 1, memory_order_relaxed);
    return node;
}

mx_node *mx_variable_node(mx_array *x)
{
    mx_node *node = mx_is_sparse(x) ? x->node : mx_tape_node(x);
    return node && mx_node_is_variable(node) ? node : NULL;
}

static bool keeps(uint32_t mask, int i) { return mask == MX_ALL_ARGS || (i < 32 && (mask >> i & 1)); }

static void keep_inputs(mx_node *node, mx_array *const *in)
{
    for (int i = 0; i < node->n_in; i++) {
        mx_array *x = in[i];
        if (x == MX_NONE) {
            node->in_shape[i] = MX_UNKNOWN_SHAPE;
            node->in_type[i] = MX_DTYPE_NONE;
            continue;
        }
        node->edges[i] = (mx_edge){mx_retain(mx_live_node(x)), x->node_output};
        node->in_shape[i].ndim = x->ndim;
        memcpy(node->in_shape[i].dim, x->shape, (size_t)x->ndim * sizeof x->shape[0]);
        node->in_type[i] = x->dtype;
        if (keeps(node->op->grad_in, i))
            mx_node_keep_input(node, i, x);
    }
}

/* What backward relies on: a node is newer than all its inputs. */
static void check_edges(const mx_node *node)
{
    for (int i = 0; MX_CHECKED && i < node->n_in; i++) {
        const mx_edge *edge = &node->edges[i];
        MX_ASSERT(!edge->node || edge->node->sequence < node->sequence, "%s is older than its input %d", node->op->name,
                  i);
        MX_ASSERT(!edge->node || edge->output < (uint32_t)edge->node->n_out || mx_node_is_variable(edge->node),
                  "%s: input %d is output %u of a node with %d", node->op->name, i, edge->output, edge->node->n_out);
    }
}

static mx_code keep_outputs(mx_node *node, mx_array **out)
{
    for (int i = 0; i < node->n_out; i++) {
        if (!keeps(node->op->grad_out, i))
            continue;
        mx_shape_t shape = {.ndim = out[i]->ndim};
        memcpy(shape.dim, out[i]->shape, sizeof shape.dim);
        const mx_sparse *sparse = mx_is_sparse(out[i]) ? mx_sparse_of(out[i]) : NULL;
        node->out[i] = sparse ? mx_sparse_new(sparse->stype, &shape, sparse->data, sparse->indices, sparse->indptr)
                              : mx_array_view(out[i], 0, &shape, (mx_dtype)out[i]->dtype);
        if (!node->out[i])
            return mx_error_code();
    }
    return MX_OK;
}

mx_code mx_tape_append(const mx_op *op, const void *attrs, int n_in, mx_array *const *in, int n_out, mx_array **out)
{
    bool recorded = false;
    for (int i = 0; i < n_in && !recorded; i++)
        recorded = in[i] != MX_NONE && mx_has_history(in[i]);
    if (!recorded || !n_out)
        return MX_OK;
    const size_t attr_bytes = op->schema ? op->schema->size : 0;
    mx_node *node = mx_node_new(n_in, n_out, attr_bytes);
    if (!node)
        return mx_error_code();
    node->op = op;
    node->training = mx_thread.modes.training;
    node->context = out[0]->context;
    if (mx_checking())
        node->place = mx_check_place();
    if (attr_bytes)
        memcpy(node->attrs, attrs, attr_bytes);
    keep_inputs(node, in);
    check_edges(node);
    mx_code code = keep_outputs(node, out);
    for (int i = 0; !code && i < n_out; i++)
        mx_array_set_node(out[i], node, (uint32_t)i);
    mx_release(node);
    return code;
}
