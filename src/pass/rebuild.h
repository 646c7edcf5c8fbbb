/* For passes that add steps: a new list of steps, filled from the old one in order.
 *
 *     mx_rebuild r = {.program = program};
 *     for every step of the program: mx_rebuild_at(&r, i), then push it, or others in its place
 *     mx_rebuild_finish(&r)          the new list replaces the old one
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef MX_PASS_REBUILD_H
#define MX_PASS_REBUILD_H

#include "pass/program.h"

typedef struct mx_rebuild {
    mx_program *program;
    MX_VEC(mx_step) steps;
    int64_t forward;  /* of the new list */
    const char *name; /* of new steps */
} mx_rebuild;

/* Before step i of the old list: keeps track of where the backward part begins. */
static inline void mx_rebuild_at(mx_rebuild *r, int64_t i)
{
    if (i == r->program->forward)
        r->forward = r->steps.length;
}
mx_code mx_rebuild_push(mx_rebuild *r, mx_step step);
/* A new value computed by a new step; attrs are copied, inputs may be -1.  -1: out of memory. */
int32_t mx_rebuild_new(mx_rebuild *r, mx_op *op, const void *attrs, size_t bytes, int n_in, const int32_t *in,
                       mx_shape_t shape, int dtype);
/* A view of the value with this shape; -1 if v is -1. */
int32_t mx_rebuild_view(mx_rebuild *r, int32_t v, mx_shape_t shape);
/* Value `to`, of a step of the old list, is rows [begin, end) of v. */
mx_code mx_rebuild_rows(mx_rebuild *r, int32_t v, int64_t begin, int64_t end, int32_t to);
/* A copy of the step with its own attributes, n_in inputs (those that it has not are undefined) and outputs. */
mx_code mx_rebuild_copy(mx_rebuild *r, const mx_step *from, mx_step *to, int32_t n_in);
void mx_rebuild_finish(mx_rebuild *r);
void mx_rebuild_drop(mx_rebuild *r); /* after a failure */

#endif
