/* Helpers to write updates as calls of operators with an output array.
 *
 *     MX_PUT2(mean, "elemwise_add", mean, x)        mean += x
 *     MX_PUT_SCALAR(NULL, "_mul_scalar", g, 0.5)    a temporary of the scope
 *
 * All return the result, or NULL after a failure; NULL inputs give NULL.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef MX_GLUON_UPDATE_H
#define MX_GLUON_UPDATE_H

#include "base/error.h"
#include "exec/call.h"
#include "gluon/train/learning.h"
#include "gluon/op.gen.h"

#define MX_PUT1(out, name, a) mx_call_one(MX_OP(name), NULL, 1, (mx_array *const[]){a}, out)
#define MX_PUT2(out, name, a, b) mx_call_one(MX_OP(name), NULL, 2, (mx_array *const[]){a, b}, out)
#define MX_PUT_SCALAR(out, name, a, number) \
    mx_call_one(MX_OP(name), &(mx_scalar_attrs){.scalar = (number), .is_int = false}, 1, (mx_array *const[]){a}, out)

static inline mx_array *mx_put_scaled(mx_array *out, mx_array *a, double c)
{
    return MX_PUT_SCALAR(out, "_mul_scalar", a, c);
}

static inline mx_array *mx_put_sum(mx_array *out, mx_array *a, mx_array *b)
{
    return MX_PUT2(out, "elemwise_add", a, b);
}

/* sum += c * x, in place */
static inline mx_array *mx_put_added(mx_array *sum, double c, mx_array *x)
{
    return mx_put_sum(sum, sum, mx_put_scaled(NULL, x, c));
}

/* A fused update operator on (weight, grad, states..., master if there is one), the result in the weight. */
static inline mx_code mx_run_update(mx_op *op, const void *attrs, const mx_update *u, int states)
{
    mx_array *in[2 + MX_MAX_STATES + 1] = {u->weight, u->grad};
    for (int i = 0; i < states; i++)
        in[2 + i] = u->state[i];
    in[2 + states] = u->master;
    return mx_call_one(op, attrs, 2 + states + (u->master != NULL), in, u->weight) ? MX_OK : mx_error_code();
}

/* Runs the operator, or its multi-precision version. */
#define MX_RUN_UPDATE(name, mp_name, attrs, u, states) \
    mx_run_update((u)->master ? MX_OP(mp_name) : MX_OP(name), attrs, u, states)

static inline mx_code mx_put_done(const mx_array *last) { return last ? MX_OK : mx_error_code(); }

#endif
