/* The Khatri-Rao product: the Kronecker product of matrices, column by column.  SPDX-License-Identifier: Apache-2.0 */
#include "op/op.h"

#define KHATRI_RAO_ATTRS(X) X(INT, num_args, "None", "", "number of matrices; None: as many as are given")
MX_ATTRS(khatri_rao, KHATRI_RAO_ATTRS)

/* (n0, k), (n1, k), ... -> (n0 n1 ..., k) */
static mx_code infer_khatri_rao(mx_infer *infer)
{
    mx_shape_t out = {.ndim = 2, .dim = {1, -1}};
    char text[MX_SHAPE_TEXT], name[64];
    for (int i = 0; i < infer->n_in; i++) {
        const mx_shape_t *in = &infer->in[i];
        if (!mx_shape_known(in))
            return MX_OK;
        if (in->ndim != 2 || (out.dim[1] >= 0 && in->dim[1] != out.dim[1]))
            return mx_op_fail(infer->op, MX_ERR_SHAPE,
                              "input %s has shape %s, wanted a matrix with as many columns as the first",
                              mx_op_input_name(infer->op, i, name), mx_shape_text(in, text));
        out.dim[1] = in->dim[1];
        if (__builtin_mul_overflow(out.dim[0], in->dim[0], &out.dim[0]))
            return mx_op_fail(infer->op, MX_ERR_SHAPE, "the product has too many rows");
    }
    return infer->n_in ? mx_infer_out(infer, 0, &out)
                       : mx_op_fail(infer->op, MX_ERR_ARGUMENT, "needs at least one matrix");
}

static int count_args(const void *attrs)
{
    const int64_t n = ((const mx_khatri_rao_attrs *)attrs)->num_args;
    return n == MX_NONE_INT ? 1 : (int)n;
}

static void ref_khatri_rao(const mx_reference_call *call)
{
    const int64_t columns = call->out_shape[0].dim[1];
    for (int64_t i = 0; i < mx_shape_size(&call->out_shape[0]); i++) {
        int64_t row = i / columns;
        call->out[0][i] = 1;
        for (int k = call->n_in - 1; k >= 0; row /= call->in_shape[k].dim[0], k--)
            call->out[0][i] *= call->in[k][row % call->in_shape[k].dim[0] * columns + i % columns];
    }
}

mx_op mx_family_khatri_rao[] = {
    {.name = "khatri_rao", .precision = MX_PRECISION_WIDEST, .doc = "column-wise Kronecker product of matrices",
     .inputs = "*args",
     .schema = &khatri_rao_schema,
     .flags = MX_OP_LIST | MX_OP_NO_GRADIENT, .count_in = count_args, .infer_shape = infer_khatri_rao,
     .reference = ref_khatri_rao,
     .samples = (const mx_sample[]){{"2,3;4,3", "num_args=2", 0, 0, NULL}, {"2,2;1,2;3,2", "num_args=3", 0, 0, NULL},
                                    {"3,2", "num_args=1", 0, 0, NULL}, {0}}},
    {0},
};
