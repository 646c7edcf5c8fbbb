/* add_n: the sum of many arrays.  SPDX-License-Identifier: Apache-2.0 */
#include "op/emit.h"
#include "op/formula/pointwise.h"
#include "op/op.h"

#define ADD_N_ATTRS(X) X(INT, num_args, "None", "", "number of arrays; None: as many as are given")
MX_ATTRS(add_n, ADD_N_ATTRS)

static mx_code grad_add_n(mx_grad *grad)
{
    for (int i = 0; i < grad->n_in; i++)
        grad->igrad[i] = grad->wanted[i] ? grad->ograd[0] : NULL;
    return MX_OK;
}

static void ref_add_n(const mx_reference_call *call)
{
    for (int64_t i = 0; i < mx_shape_size(&call->out_shape[0]); i++) {
        call->out[0][i] = 0;
        for (int k = 0; k < call->n_in; k++)
            call->out[0][i] += call->in[k][i];
    }
}

static int count_args(const void *attrs)
{
    const int64_t n = ((const mx_add_n_attrs *)attrs)->num_args;
    return n == MX_NONE_INT ? 1 : (int)n;
}

/* ---- as C text (op/emit.h) ---------------------------------------------------------------------------------------- */

static mx_code emit_add_n(const mx_emit_call *n)
{
    if (n->n_in == 1)
        return mx_emit_copy(n);
    mx_code code = mx_emit_zip(n, MX_ROW_add, &n->in[0], &n->in[1], &n->out[0]);
    for (int i = 2; !code && i < n->n_in; i++)
        code = mx_emit_zip(n, MX_ROW_add, &n->out[0], &n->in[i], &n->out[0]);
    return code;
}

mx_op mx_family_add_n[] = {
    {.name = "add_n", MX_EMIT(emit_add_n), .look = MX_LOOK_SUM, .sparse = MX_SPARSE_SUM, .sparse_gradient = true,
     .precision = MX_PRECISION_WIDEST,
     .aliases = "_sparse_add_n _sparse_ElementWiseSum ElementWiseSum",
     .doc = "sum of any number of arrays of equal shape, in one pass", .inputs = "*args",
     .schema = &add_n_schema, .flags = MX_OP_LIST | MX_OP_INPLACE | MX_OP_ELEMENTWISE, .count_in = count_args, .gradient = grad_add_n,
     .reference = ref_add_n,
     .samples = (const mx_sample[]){{"2,3;2,3", "num_args=2", 0, 0, NULL}, {"4", "num_args=1", 0, 0, NULL},
                                    {"5;5;5;5;5;5", "num_args=6", 0, 0, NULL}, {0}}},
    {0},
};
