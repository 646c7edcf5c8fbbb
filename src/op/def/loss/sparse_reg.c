/* IdentityAttachKLSparseReg: passes data on, and pulls the mean activation of every channel towards a small target.
 *
 * Every forward pass in training mode updates the running mean a of each channel (axis 1).  The gradient of
 * penalty * KL(target || a) is added to the incoming one, per element:
 *
 *     ddata = g + penalty * (-target / a + (1 - target) / (1 - a))
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "op/op.h"

#define SPARSE_REG_ATTRS(X) \
    X(FLOAT, sparseness_target, "0.1", "0..1", "target mean of the activations, which are between 0 and 1") \
    X(FLOAT, penalty, "0.001", "", "weight of the penalty") \
    X(FLOAT, momentum, "0.9", "0..1", "weight of the old value in the running mean")
MX_ATTRS(sparse_reg, SPARSE_REG_ATTRS)

static mx_code infer(mx_infer *infer)
{
    const mx_shape_t *data = &infer->in[0];
    char text[MX_SHAPE_TEXT];
    if (mx_infer_out(infer, 0, data) || mx_infer_in(infer, 0, &infer->out[0]))
        return mx_error_code();
    if (data->ndim < 0)
        return MX_OK;
    if (data->ndim < 2)
        return mx_op_fail(infer->op, MX_ERR_SHAPE, "data has shape %s, wanted (batch, channels, ...)",
                          mx_shape_text(data, text));
    const mx_shape_t channels = {.ndim = 1, .dim = {data->dim[1]}};
    return mx_infer_in(infer, 1, &channels);
}

static mx_code gradient(mx_grad *grad)
{
    const mx_sparse_reg_attrs *p = grad->attrs;
    mx_shape_t open = grad->in_shape[0];
    if (!grad->wanted[0])
        return MX_OK;
    for (int i = 0; i < open.ndim; i++)
        open.dim[i] = i == 1 ? open.dim[i] : 1;
    mx_array *mean = mx_g_reshape(grad->in[1], &open);
    mx_array *pull =
        mx_g_sub(mx_g_rdiv(1 - p->sparseness_target, mx_g_rsub(1, mean)), mx_g_rdiv(p->sparseness_target, mean));
    return mx_give(grad, 0, mx_g_add(grad->ograd[0], mx_g_scale(pull, p->penalty)));
}

static void reference(const mx_reference_call *call)
{
    const mx_sparse_reg_attrs *p = call->attrs;
    const mx_shape_t *s = &call->in_shape[0];
    const int64_t size = mx_shape_size(s), channels = s->dim[1], inner = size / (s->dim[0] * channels);
    memcpy(call->out[0], call->in[0], (size_t)size * sizeof(double));
    for (int64_t c = 0; c < channels; c++) {
        double sum = 0;
        for (int64_t e = 0; e < size; e++)
            sum += e / inner % channels == c ? call->in[0][e] : 0;
        call->out[1][c] = call->in[1][c];
        if (call->training)
            call->out[1][c] = p->momentum * call->in[1][c] + (1 - p->momentum) * sum * (double)channels / (double)size;
    }
}

mx_op mx_family_sparse_reg[] = {
    {.name = "IdentityAttachKLSparseReg", .precision = MX_PRECISION_FLOAT32, .c_name = "identity_attach_kl_sparse_reg",
     .inputs = "data moving_avg",
     .doc = "identity whose gradient includes a penalty that makes activations sparse", .schema = &sparse_reg_schema, .flags = MX_OP_IDENTITY | MX_OP_LOSS | MX_OP_TRAINING,
     .infer_shape = infer, .gradient = gradient, .grad_in = 2, .mutates = 2, .no_grad_inputs = 2, .reference = reference,
     .samples = (const mx_sample[]){{"4,3;3", "", 0.1, 0.9, "train nograd floatonly"}, {"2,3,4,5;3", "momentum=0.5, penalty=0.1", 0.1, 0.9, "train nograd floatonly"},
                                    {"4,3;3", "sparseness_target=0.3", 0.1, 0.9, "nograd floatonly"}, {0}}},
    {0},
};
