/* A new list of steps for a program.  SPDX-License-Identifier: Apache-2.0 */
#include "pass/rebuild.h"

#include <string.h>

#include "gluon/op.gen.h"

mx_code mx_rebuild_push(mx_rebuild *r, mx_step step) { return mx_vec_push(&r->steps, step) ? MX_OK : MX_ERR_MEMORY; }

int32_t mx_rebuild_new(mx_rebuild *r, mx_op *op, const void *attrs, size_t bytes, int n_in, const int32_t *in,
                       mx_shape_t shape, int dtype)
{
    const int32_t to = mx_program_value(r->program, &shape, dtype);
    int32_t *lists = mx_program_alloc(r->program, (size_t)(n_in + 1) * sizeof *lists);
    mx_step step = {.op = op, .n_in = n_in, .n_out = 1, .training = true, .name = r->name};
    step.attrs = mx_program_alloc(r->program, bytes);
    if (to < 0 || !lists || !step.attrs)
        return -1;
    memcpy(step.attrs, attrs, bytes);
    if (n_in)
        memcpy(lists, in, (size_t)n_in * sizeof *lists);
    lists[n_in] = to;
    step.in = lists, step.out = lists + n_in;
    return mx_rebuild_push(r, step) ? -1 : to;
}

int32_t mx_rebuild_view(mx_rebuild *r, int32_t v, mx_shape_t shape)
{
    const mx_reshape_to_attrs attrs = {.shape = mx_dims_of_shape(&shape)};
    if (v < 0)
        return -1;
    return mx_rebuild_new(r, MX_OP("_reshape_to"), &attrs, sizeof attrs, 1, &v, shape,
                          r->program->values.items[v].dtype);
}

mx_code mx_rebuild_rows(mx_rebuild *r, int32_t v, int64_t begin, int64_t end, int32_t to)
{
    const mx_slice_axis_attrs attrs = {.axis = 0, .begin = begin, .end = end};
    const mx_value old = r->program->values.items[to];
    if (mx_rebuild_new(r, MX_OP("slice_axis"), &attrs, sizeof attrs, 1, &v, old.shape, old.dtype) < 0)
        return MX_ERR_MEMORY;
    r->steps.items[r->steps.length - 1].out[0] = to;
    return MX_OK;
}

mx_code mx_rebuild_copy(mx_rebuild *r, const mx_step *from, mx_step *to, int32_t n_in)
{
    int32_t *lists = mx_program_alloc(r->program, (size_t)(n_in + from->n_out) * sizeof *lists);
    const size_t bytes = from->op->schema ? from->op->schema->size : 0;
    *to = *from;
    if (!lists || (bytes && !(to->attrs = mx_program_alloc(r->program, bytes))))
        return MX_ERR_MEMORY;
    if (bytes)
        memcpy(to->attrs, from->attrs, bytes);
    memcpy(lists, from->in, (size_t)(n_in < from->n_in ? n_in : from->n_in) * sizeof *lists);
    memcpy(lists + n_in, from->out, (size_t)from->n_out * sizeof *lists);
    to->in = lists, to->out = lists + n_in, to->n_in = n_in;
    return MX_OK;
}

void mx_rebuild_finish(mx_rebuild *r)
{
    mx_program *program = r->program;
    program->forward = program->forward == program->steps.length ? r->steps.length : r->forward;
    mx_vec_free(&program->steps);
    program->steps.items = r->steps.items, program->steps.length = r->steps.length;
    program->steps.capacity = r->steps.capacity;
    mx_program_count(program);
}

void mx_rebuild_drop(mx_rebuild *r) { mx_vec_free(&r->steps); }
