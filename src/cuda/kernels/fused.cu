/* Kernels of the operators that only plans use: chains of pointwise functions, folded normalisation.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "cuda/kernels/pointwise.h"
extern "C" {
#include "op/fused.h"
}
#define T float
#include "cuda/kernels/math_f32.h"

namespace {
#include "cuda/kernels/pointwise_rows.h"
}

#define UNARY_CASE(name, ...) \
    case MX_ROW_##name: return form == MX_FORM_BACKWARD ? backward_##name::apply(a, b, c) : forward_##name::apply(a, b, c);
#define STEP_CASE(name, ...) \
    case MX_ROW_##name: return forward_##name::apply(a, b, c);
#define BINARY_CASE(id, ...) \
    case MX_ROW_##id: return binary_##id::apply(a, b, c);

static __device__ float apply_row(int row, int form, float a, float b, float c)
{
    switch (row) {
        MX_UNARY_ROWS(UNARY_CASE) MX_LINEAR_ROWS(STEP_CASE) MX_STEP_ROWS(STEP_CASE)
        MX_BINARY_ROWS(BINARY_CASE) MX_COMPARE_ROWS(BINARY_CASE)
    default: return 0;
    }
}

struct chain {
    mx_fused program;
    const float *in[MX_FUSED_INPUTS];
};

static __device__ float operand(const chain &c, const mx_fused_row &row, int k, const float *made, int64_t i)
{
    const int from = row.in[k];
    return from < 0 ? 0 : from < MX_FUSED_INPUTS ? c.in[from][i] : made[from - MX_FUSED_INPUTS];
}

static mx_code run_chain(const mx_kernel_call *call)
{
    const mx_fused *program = (const mx_fused *)call->attrs;
    float *out = (float *)mx_data(call->out[0]);
    mx_cuda_device *d = mx_cuda_of(call);
    if (!d)
        return mx_error_code();
    if (!program)
        return mx_cuda_fail(cudaMemcpyAsync(out, mx_data(call->in[0]), mx_bytes(call->out[0]), cudaMemcpyDeviceToDevice, d->stream),
                            call->op->name);
    chain c = {*program, {}};
    for (int k = 0; k < call->n_in; k++)
        c.in[k] = (const float *)mx_data(call->in[k]);
    return mx_cuda_each(call, call->out[0]->size, [=] __device__(int64_t i) {
        float made[MX_FUSED_ROWS];
        for (int r = 0; r < c.program.n_rows; r++) {
            const mx_fused_row &row = c.program.rows[r];
            const float first = operand(c, row, 0, made, i), number = (float)row.scalar;
            const float a = row.form == MX_FORM_REVERSED ? number : first;
            const float b = row.form == MX_FORM_REVERSED ? first
                            : row.form == MX_FORM_SCALAR ? number
                                                         : operand(c, row, 1, made, i);
            made[r] = apply_row(row.row, row.form, a, b, operand(c, row, 2, made, i));
        }
        out[i] = made[c.program.n_rows - 1];
    });
}

/* ---- _fold_norm: batch normalisation into the weights before it --------------------------------------------------------- */

template <class F> static mx_code fold(const mx_kernel_call *call)
{
    const mx_fold_norm_attrs *attrs = (const mx_fold_norm_attrs *)call->attrs;
    const mx_array *weight = call->in[0];
    if (!weight->size)
        return MX_DECLINED;
    const int64_t each = weight->size / weight->shape[0];
    const F *w = (const F *)mx_data(weight), *beta = (const F *)mx_data(call->in[2]), *mean = (const F *)mx_data(call->in[3]);
    const F *var = (const F *)mx_data(call->in[4]), *gamma = attrs->fix_gamma ? nullptr : (const F *)mx_data(call->in[1]);
    const F *bias = mx_is_none(call->in[5]) ? nullptr : (const F *)mx_data(call->in[5]);
    F *new_weight = (F *)mx_data(call->out[0]), *new_bias = (F *)mx_data(call->out[1]);
    const double eps = attrs->eps;
    return mx_cuda_each(call, weight->size, [=] __device__(int64_t i) {
        const int64_t c = i / each;
        const F s = (F)((gamma ? (double)gamma[c] : 1) / sqrt((double)var[c] + eps));
        new_weight[i] = w[i] * s;
        if (i % each == 0)
            new_bias[c] = ((bias ? bias[c] : 0) - mean[c]) * s + beta[c];
    });
}
MX_CUDA_FLOATS(run_fold, fold)

MX_CUDA_KERNELS(fused) = {{"_pointwise", run_chain, NULL}, {"_fold_norm", run_fold, NULL}, {NULL, NULL, NULL}};
