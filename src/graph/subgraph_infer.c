/* Shapes and types through subgraphs (see subgraph.h).
 *
 * The known shapes of the node's inputs are passed to the subgraph's variables, inference runs there, and its results
 * are passed back to inputs and outputs: so parameters that only a loop's body uses get their shapes, too.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "graph/infer.h"
#include "graph/subgraph.h"

typedef struct part_inference {
    const mx_control *control;
    const mx_subgraph *part;
    mx_infer *infer;
    int64_t length;    /* of the data's first axis; -1: unknown */
    mx_shape_t *shape; /* per entry of the subgraph */
    int *type;
} part_inference;

/* ---- rows -------------------------------------------------------------------------------------------------------- */

/* One row of an array along its first axis; a row of numbers has shape (1,). */
static mx_shape_t row_of(const mx_shape_t *whole)
{
    mx_shape_t row = {.ndim = whole->ndim < 0 ? -1 : whole->ndim - 1};
    if (whole->ndim <= 1) {
        row.ndim = whole->ndim < 0 ? -1 : 1;
        row.dim[0] = 1;
        return row;
    }
    memcpy(row.dim, whole->dim + 1, (size_t)row.ndim * sizeof row.dim[0]);
    return row;
}

/* Rows of this shape, `length` of them.  numbers: rows of shape (1,) are known to be single numbers. */
static mx_code rows_of(const part_inference *v, const mx_shape_t *row, int64_t length, bool numbers, mx_shape_t *whole)
{
    *whole = MX_UNKNOWN_SHAPE;
    if (row->ndim < 0)
        return MX_OK;
    if (row->ndim + 1 > MX_MAX_NDIM)
        return mx_op_fail(v->infer->op, MX_ERR_SHAPE,
                          "a step gives %d axes; with the axis of the steps that is more than %d", row->ndim,
                          MX_MAX_NDIM);
    whole->ndim = numbers ? 1 : row->ndim + 1;
    whole->dim[0] = length;
    for (int k = 0; k < row->ndim && !numbers; k++)
        whole->dim[k + 1] = row->dim[k];
    return MX_OK;
}

/* ---- into the subgraph and back ---------------------------------------------------------------------------------- */

static bool is_data(const part_inference *v, int i) { return v->control->kind == MX_FOREACH && i < v->control->n_data; }

static void go_in(part_inference *v)
{
    const mx_subgraph *p = v->part;
    for (int j = 0; j < p->n_in; j++) {
        const int64_t entry = p->graph.row[p->variable[j]];
        const int i = p->from[j];
        v->shape[entry] = is_data(v, i) ? row_of(&v->infer->in[i]) : v->infer->in[i];
        v->type[entry] = v->infer->in_type[i];
    }
}

static mx_code come_back(part_inference *v)
{
    const mx_subgraph *p = v->part;
    for (int j = 0; j < p->n_in; j++) {
        const int64_t entry = p->graph.row[p->variable[j]];
        const int i = p->from[j];
        mx_shape_t shape = v->shape[entry];
        if (is_data(v, i) && rows_of(v, &v->shape[entry], v->length, v->infer->in[i].ndim == 1, &shape))
            return mx_error_code();
        if (mx_infer_in(v->infer, i, &shape) || mx_infer_in_type(v->infer, i, v->type[entry]))
            return mx_error_code();
    }
    return MX_OK;
}

/* Result h of the part is output k of the node; steps >= -1: stacked, that many of them (-1: not known). */
static mx_code give_output(part_inference *v, int64_t h, int k, bool stacked, int64_t steps)
{
    const int64_t entry = v->part->graph.results[h];
    mx_shape_t shape = v->shape[entry];
    if (stacked && rows_of(v, &v->shape[entry], steps, false, &shape))
        return mx_error_code();
    if (mx_infer_out(v->infer, k, &shape))
        return mx_error_code();
    return mx_infer_out_type(v->infer, k, v->type[entry]);
}

/* A state keeps its shape and type from step to step. */
static mx_code join_state(part_inference *v, int s, bool *learned)
{
    const mx_control *c = v->control;
    const int64_t entry = v->part->graph.results[c->n_out_data + s];
    const int i = c->state[s], k = c->n_out_data + s;
    const mx_shape_t before = v->infer->in[i];
    const int type = v->infer->in_type[i];
    if (mx_infer_in(v->infer, i, &v->shape[entry]) || mx_infer_in_type(v->infer, i, v->type[entry]) ||
        mx_infer_in(v->infer, i, &v->infer->out[k]) || mx_infer_in_type(v->infer, i, v->infer->out_type[k]))
        return mx_error_code();
    *learned |= !mx_shape_equal(&before, &v->infer->in[i]) || type != v->infer->in_type[i];
    if (mx_infer_out(v->infer, k, &v->infer->in[i]))
        return mx_error_code();
    return mx_infer_out_type(v->infer, k, v->infer->in_type[i]);
}

static mx_code run_part(part_inference *v)
{
    const mx_graph *g = &v->part->graph;
    mx_graph_infer_start(g, v->shape, v->type);
    go_in(v);
    mx_code code = mx_graph_infer(g, v->shape, v->type);
    return code ? code : come_back(v);
}

static mx_code with_part(mx_infer *infer, const mx_control *c, int part, mx_code (*use)(part_inference *v))
{
    const mx_subgraph *p = &c->parts[part];
    const size_t entries = (size_t)p->graph.row[p->graph.n];
    const size_t bytes = entries * (sizeof(mx_shape_t) + sizeof(int)) + 1;
    part_inference v = {.control = c, .part = p, .infer = infer, .length = -1};
    v.shape = mx_alloc(bytes);
    if (!v.shape)
        return MX_ERR_MEMORY;
    v.type = (int *)(v.shape + entries);
    for (int i = 0; c->kind == MX_FOREACH && i < c->n_data; i++)
        if (infer->in[i].ndim > 0 && infer->in[i].dim[0] >= 0)
            v.length = infer->in[i].dim[0];
    mx_code code = use(&v);
    mx_free(v.shape, bytes);
    return code;
}

/* ---- the three kinds --------------------------------------------------------------------------------------------- */

/* Loops: the states of a step are the input of the next one, so inference runs again when they changed. */
static mx_code infer_steps(part_inference *v)
{
    const mx_control *c = v->control;
    const int64_t steps = c->kind == MX_FOREACH ? v->length : c->max_iterations;
    bool learned = true;
    for (int round = 0; learned && round < 3; round++) {
        learned = false;
        mx_code code = run_part(v);
        for (int s = 0; !code && s < c->n_states; s++)
            code = join_state(v, s, &learned);
        if (code)
            return code;
    }
    for (int k = 0; k < c->n_out_data; k++)
        if (give_output(v, k, k, true, steps))
            return mx_error_code();
    return MX_OK;
}

static mx_code infer_branch(part_inference *v)
{
    mx_code code = run_part(v);
    for (int k = 0; !code && k < v->control->n_out; k++)
        code = give_output(v, k, k, false, 0);
    return code;
}

mx_code mx_control_infer(const mx_callee *callee, mx_infer *infer)
{
    const mx_control *c = (const mx_control *)(const void *)callee;
    if (infer->n_in != c->n_in || infer->n_out != c->n_out + 1)
        return mx_op_fail(infer->op, MX_ERR_ARGUMENT, "has %d inputs and %d outputs, its subgraphs need %d and %d",
                          infer->n_in, infer->n_out - 1, c->n_in, c->n_out);
    for (int i = 0; i < c->n_data; i++)
        if (!infer->in[i].ndim)
            return mx_op_fail(infer->op, MX_ERR_SHAPE, "data %d is a single number: there is no axis to run over", i);
    if (c->kind == MX_FOREACH)
        return with_part(infer, c, 0, infer_steps);
    mx_code code = with_part(infer, c, 0, run_part);
    code = code ? code : with_part(infer, c, 1, c->kind == MX_COND ? infer_branch : infer_steps);
    return code || c->kind != MX_COND ? code : with_part(infer, c, 2, infer_branch);
}
