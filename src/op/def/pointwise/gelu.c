/* _gelu_gradients: what the backward part of a plan needs of gelu between two dense layers, in one pass (src/pass/gelu.c).
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "op/def/pointwise/numbers.h"

/* (ograd, data) -> the gradient of data, gelu(data), and the sums of that gradient over all axes but the last */
static mx_code infer_gelu_gradients(mx_infer *infer)
{
    for (int i = 0; i < 2; i++)
        if (mx_infer_in(infer, i, &infer->in[1 - i]) || mx_infer_out(infer, i, &infer->in[0]))
            return mx_error_code();
    const mx_shape_t *data = &infer->in[1];
    if (!mx_shape_known(data))
        return MX_OK;
    if (!data->ndim)
        return mx_op_fail(infer->op, MX_ERR_SHAPE, "data has no axes, wanted at least one");
    const mx_shape_t sums = {.ndim = 1, .dim = {data->dim[data->ndim - 1]}};
    return mx_infer_out(infer, 2, &sums);
}

static void ref_gelu_gradients(const mx_reference_call *call)
{
    const int64_t columns = mx_shape_size(&call->out_shape[2]), all = mx_shape_size(&call->out_shape[0]);
    const double none[3] = {0};
    for (int64_t c = 0; c < columns; c++)
        call->out[2][c] = 0;
    for (int64_t i = 0; i < all; i++) {
        call->out[0][i] = mx_number_gelu_gradient(call->in[1][i], call->in[0][i], none);
        call->out[1][i] = mx_number_gelu(call->in[1][i], 0, none);
        call->out[2][i % columns] += call->out[0][i];
    }
}

mx_op mx_family_gelu[] = {
    {.name = "_gelu_gradients", .doc = "gradient of gelu, its sums over all axes but the last, and gelu itself, fused by plans",
     .inputs = "ograd data", .outputs = "data_grad output sums", .n_out = 3, .flags = MX_OP_HIDDEN | MX_OP_NO_GRADIENT,
     .infer_shape = infer_gelu_gradients, .reference = ref_gelu_gradients,
     .samples = (const mx_sample[]){{"5,16;5,16", "", 0, 0, "floatonly"}, {"2,3,7;2,3,7", "", 0, 0, "floatonly"},
                                    {"3;3", "", 0, 0, "floatonly"}, {0}}},
    {0},
};
