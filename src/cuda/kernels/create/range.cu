/* Ranges, the identity matrix, and what does not depend on elements: shape_array, size_array.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <cmath>

#include "cuda/cuda.h"

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
    const double start = only_stop ? 0 : a->start;
    if (mx_dtype_is_float(call->out[0]->dtype))
        return progression(call, start, a->step, a->repeat, NAN);
    return progression(call, std::trunc(start), std::trunc(a->step), a->repeat,
                       NAN); /* both are of the result's type */
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

/* ---- values known on the host: passed with the launch ------------------------------------------------------------ */

namespace /* the name is also used elsewhere */
{
struct numbers {
    int n;
    int64_t d[MX_MAX_NDIM];
};
} // namespace

static mx_code write_numbers(const mx_kernel_call *call, const numbers &given)
{
    int64_t *to = (int64_t *)mx_data(call->out[0]);
    return mx_cuda_each(call, given.n, [=] __device__(int64_t i) { to[i] = given.d[i]; });
}

static mx_code run_shape_array(const mx_kernel_call *call)
{
    const mx_array *in = call->in[0];
    numbers shape = {in->ndim, {}};
    for (int i = 0; i < in->ndim; i++)
        shape.d[i] = in->shape[i];
    return write_numbers(call, shape);
}

static mx_code run_size_array(const mx_kernel_call *call) { return write_numbers(call, {1, {call->in[0]->size}}); }

MX_CUDA_KERNELS(range) = {{"_arange", run_arange, NULL},
                          {"_contrib_arange_like", run_arange_like, NULL},
                          {"_linspace", run_linspace, NULL},
                          {"_eye", run_eye, NULL},
                          {"shape_array", run_shape_array, NULL},
                          {"size_array", run_size_array, NULL},
                          {NULL, NULL, NULL}};
