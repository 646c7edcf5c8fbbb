/* Pointwise functions with attributes (op/formula/pointwise_numbers.h): a kernel per type and entry.
 *
 * Floating types are computed in float or double, integers in double or, where only bounds are compared, as integers.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "cuda/kernels/pointwise/numbers.h"

#include "cuda/kernels/norm/channels_map.h"

template <class S, int row>
static mx_code over_row(const mx_kernel_call *call, const double *number, const mx_array *x, const mx_array *g,
                        mx_array *out)
{
    typedef mx_cuda_wide<S> T;
    const mx_cuda_number<T, row> f(number);
    return mx_cuda_map(call, out->size, (const S *)mx_data(x), g ? (const S *)mx_data(g) : nullptr, (S *)mx_data(out),
                       [=] __device__(T v, T up) -> T { return f(v, up); });
}

template <class S>
static mx_code over(const mx_kernel_call *call, int row, const double *number, const mx_array *x, const mx_array *g,
                    mx_array *out)
{
#define OVER(name, expression) \
    case MX_NUMBER_##name: return over_row<S, MX_NUMBER_##name>(call, number, x, g, out);
    switch (row) {
        MX_NUMBER_ROWS(OVER)
    default: return MX_DECLINED;
    }
}

/* Bounds that an int64 can hold. */
static int64_t as_integer(double x) { return x >= 0x1p63 ? INT64_MAX : x <= -0x1p63 ? INT64_MIN : (int64_t)x; }

static mx_code over_integers(const mx_kernel_call *call, int row, const double *number, const mx_array *in_x,
                             const mx_array *in_g, mx_array *out)
{
    const void *xs = mx_data(in_x), *gs = in_g ? mx_data(in_g) : nullptr;
    void *to = mx_data(out);
    const int type = out->dtype;
#define BOUND(name, expression)                                                                                        \
    if (row == MX_NUMBER_##name) {                                                                                     \
        const int64_t p = as_integer(number[0]), q = as_integer(number[1]);                                            \
        return mx_cuda_each(call, out->size, [=] __device__(int64_t i) {                                               \
            const int64_t x = mx_cuda_load<int64_t>(xs, type, i);                                                      \
            mx_cuda_store<int64_t>(to, type, i, expression);                                                           \
        });                                                                                                            \
    }
    MX_BOUND_ROWS(BOUND)
#define WIDE(name, expression)                                                                                         \
    if (row == MX_NUMBER_##name) {                                                                                     \
        const mx_cuda_number<double, MX_NUMBER_##name> f(number);                                                      \
        return mx_cuda_each(call, out->size, [=] __device__(int64_t i) {                                               \
            mx_cuda_store<double>(                                                                                     \
                to, type, i, f(mx_cuda_load<double>(xs, type, i), gs ? mx_cuda_load<double>(gs, type, i) : 0));        \
        });                                                                                                            \
    }
    MX_NUMBER_ROWS(WIDE)
    return MX_DECLINED;
}

mx_code mx_cuda_number_over(const mx_kernel_call *call, int row, const double *number, const mx_array *x,
                            const mx_array *g, mx_array *out)
{
    switch (out->dtype) {
    case MX_FLOAT32: return over<float>(call, row, number, x, g, out);
    case MX_FLOAT64: return over<double>(call, row, number, x, g, out);
    case MX_FLOAT16: return over<__half>(call, row, number, x, g, out);
    case MX_BFLOAT16: return over<__nv_bfloat16>(call, row, number, x, g, out);
    default: return over_integers(call, row, number, x, g, out);
    }
}

mx_code mx_cuda_run_numbers(const mx_kernel_call *call)
{
    const mx_number_use *use = (const mx_number_use *)call->op->user;
    const mx_shape_t shape = mx_array_shape(call->in[0]);
    double number[3] = {0, 0, 0};
    use->numbers(call->attrs, &shape, number);
    return mx_cuda_number_over(call, use->row, number, call->in[call->n_in - 1], call->n_in > 1 ? call->in[0] : NULL,
                               call->out[0]);
}
