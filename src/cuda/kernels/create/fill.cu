/* Arrays made of numbers: constants, ranges, the identity matrix.  SPDX-License-Identifier: Apache-2.0 */
#include <cmath>

#include "cuda/cuda.h"

static mx_code fill(const mx_kernel_call *call, mx_array *out, double value)
{
    mx_cuda_device *d = mx_cuda_of(call);
    if (!d)
        return mx_error_code();
    if (value == 0)
        return mx_cuda_fail(cudaMemsetAsync(mx_data(out), 0, mx_bytes(out), d->stream), call->op->name);
    void *target = mx_data(out);
    const int type = out->dtype;
    return mx_cuda_each(call, out->size, [=] __device__(int64_t i) { mx_cuda_store<double>(target, type, i, value); });
}

static mx_code run_fill(const mx_kernel_call *call)
{
    return fill(call, call->out[0],
                call->op->user ? *(const double *)call->op->user : ((const mx_full_attrs *)call->attrs)->value);
}

static mx_code run_reset(const mx_kernel_call *call)
{
    mx_code code = MX_OK;
    for (int i = 0; !code && i < call->n_in; i++)
        code = fill(call, call->in[i], 0);
    return code;
}

/* start + step (i / repeat); `end`, if it is a number, is the last one exactly. */
static mx_code progression(const mx_kernel_call *call, double start, double step, int64_t repeat, double end)
{
    void *target = mx_data(call->out[0]);
    const int type = call->out[0]->dtype;
    const bool whole = !mx_dtype_is_float(type);
    const int64_t first = (int64_t)start, pace = (int64_t)step, last = end == end ? call->out[0]->size - 1 : -1;
    return mx_cuda_each(call, call->out[0]->size, [=] __device__(int64_t i) {
        if (i == last)
            mx_cuda_store<double>(target, type, i, end);
        else if (whole && (double)first == start && (double)pace == step)
            mx_cuda_store<int64_t>(target, type, i, first + pace * (i / repeat));
        else
            mx_cuda_store<double>(target, type, i, start + step * (double)(i / repeat));
    });
}

static mx_code run_arange(const mx_kernel_call *call)
{
    const mx_arange_attrs *a = (const mx_arange_attrs *)call->attrs;
    const bool only_stop = a->stop != a->stop && !a->infer_range;
    return progression(call, only_stop ? 0 : a->start, a->step, a->repeat, NAN);
}

static mx_code run_arange_like(const mx_kernel_call *call)
{
    const mx_arange_like_attrs *a = (const mx_arange_like_attrs *)call->attrs;
    return progression(call, a->start, a->step, a->repeat, NAN);
}

static mx_code run_linspace(const mx_kernel_call *call)
{
    const mx_linspace_attrs *a = (const mx_linspace_attrs *)call->attrs;
    const int64_t intervals = a->endpoint ? a->num - 1 : a->num;
    return progression(call, a->start, intervals > 0 ? (a->stop - a->start) / (double)intervals : 0, 1,
                       a->endpoint && a->num > 1 ? a->stop : NAN);
}

static mx_code run_eye(const mx_kernel_call *call)
{
    const mx_array *out = call->out[0];
    void *target = mx_data(out);
    const int type = out->dtype;
    const int64_t columns = out->shape[1], k = ((const mx_eye_attrs *)call->attrs)->k;
    return mx_cuda_each(call, out->size, [=] __device__(int64_t i) {
        mx_cuda_store<double>(target, type, i, i % columns == i / columns + k);
    });
}

MX_CUDA_KERNELS(fill) = {{"_zeros", run_fill, NULL},       {"_ones", run_fill, NULL},
                         {"_full", run_fill, NULL},        {"zeros_like", run_fill, NULL},
                         {"ones_like", run_fill, NULL},    {"reset_arrays", run_reset, NULL},
                         {"_arange", run_arange, NULL},    {"_contrib_arange_like", run_arange_like, NULL},
                         {"_linspace", run_linspace, NULL}, {"_eye", run_eye, NULL}, {NULL, NULL, NULL}};
