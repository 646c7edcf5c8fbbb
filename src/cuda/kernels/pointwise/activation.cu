/* Activation, LeakyReLU and their gradients: table entries chosen by an attribute.  SPDX-License-Identifier: Apache-2.0 */
#include "cuda/kernels/pointwise/numbers.h"

#include "cuda/kernels/norm/channels_map.h"
#include "cuda/kernels/pointwise/gelu.h"
extern "C" {
#include "op/formula/activation.h"
}

namespace
{

/* ---- Activation: the functions of the entries, for float and double --------------------------------------------- */

/* The value that a gradient reads is y, as Activation saves results only. */
#define ROW(name, aliases, forward, looks, gradient, ...)                                                              \
    template <class T> __device__ T value_##name(T x) { return (T)(forward); }                                         \
    template <class T> __device__ T gradient_##name(T g, T y)                                                          \
    {                                                                                                                  \
        __attribute__((unused)) T x = y, t = 0;                                                                        \
        return (T)(gradient);                                                                                          \
    }
MX_UNARY_ROWS(ROW)

template <class S> static mx_code activation(const mx_kernel_call *call)
{
    typedef mx_cuda_wide<S> T;
    const int type = ((const mx_activation_attrs *)call->attrs)->act_type;
    const S *x = (const S *)mx_data(call->in[0]), *none = nullptr;
    return mx_cuda_map(call, call->out[0]->size, x, none, (S *)mx_data(call->out[0]), [=] __device__(T v, T) -> T {
#define VALUE(act, row) type == MX_ACTIVATION_##act ? value_##row<T>(v) :
        return MX_ACTIVATION_ROWS(VALUE)(T) 0;
    });
}

/* inputs: ograd, output */
template <class S> static mx_code activation_backward(const mx_kernel_call *call)
{
    typedef mx_cuda_wide<S> T;
    const int type = ((const mx_activation_attrs *)call->attrs)->act_type;
    if (type == MX_ACTIVATION_SOFTSIGN) {
        const double none[3] = {0, 0, 0};
        return mx_cuda_number_over(call, MX_NUMBER_softsign_gradient, none, call->in[1], call->in[0], call->out[0]);
    }
    const S *slope = (const S *)mx_data(call->in[0]), *out = (const S *)mx_data(call->in[1]);
    return mx_cuda_map(call, call->out[0]->size, slope, out, (S *)mx_data(call->out[0]), [=] __device__(T g, T y) -> T {
#define SLOPE(act, row) type == MX_ACTIVATION_##act ? gradient_##row<T>(g, y) :
        return MX_ACTIVATION_ROWS(SLOPE)(T) 0;
    });
}

/* ---- LeakyReLU ----------------------------------------------------------------------------------------------------- */

/* The index of prelu's slopes: data is (outer, channels, inner). */
struct slopes {
    int type;
    double slope;
    int64_t channels, inner;
};

static slopes slopes_of(const mx_leaky_relu_attrs *a, const mx_array *data, const mx_array *gamma)
{
    slopes s = {a->act_type, a->slope, 1, 1};
    if (a->act_type != MX_LEAKY_RELU_PRELU)
        return s;
    s.channels = gamma->size;
    s.inner = mx_prelu_inner(data->shape, data->ndim, gamma->shape, gamma->ndim);
    return s;
}

/* Slopes of rrelu: random ones while training, their mean otherwise. */
template <class S> static mx_code draw_slopes(const mx_kernel_call *call, const mx_leaky_relu_attrs *a, S *slopes)
{
    const bool training = call->training;
    const double low = training ? a->lower_bound : (a->lower_bound + a->upper_bound) / 2;
    const double width = training ? a->upper_bound - a->lower_bound : 0;
    const mx_rng rng = training ? mx_rng_reserve((uint64_t)call->in[0]->size) : mx_rng{};
    return mx_cuda_each(call, call->in[0]->size, [=] __device__(int64_t i) {
        uint32_t words[4];
        mx_philox(rng.seed, rng.counter + (uint64_t)i, words);
        slopes[i] = (S)(mx_cuda_wide<S>)(low + mx_uniform53(words[0], words[1]) * width);
    });
}

static const struct {
    int forward, gradient;
} leaky_rows[] = {
#define ROW_OF(type, row) {MX_NUMBER_##row, MX_NUMBER_##row##_gradient}, /* in the order of act_type */
    MX_LEAKY_RELU_ROWS(ROW_OF)};

/* The entries with a slope per element. */
#define SLOPE_ROW(name, expression) \
    template <class T> __device__ T name##_at(T x, T g, T p) { return (T)(expression); }
MX_SLOPE_ROWS(SLOPE_ROW)

/* 16 bits (gelu.h) */
template <class S> static mx_code gelu(const mx_kernel_call *call, const mx_array *x, const mx_array *g, mx_array *out)
{
    const S *slopes = g ? (const S *)mx_data(g) : nullptr;
    const bool back = g != nullptr;
    return mx_cuda_map(call, out->size, (const S *)mx_data(x), slopes, (S *)mx_data(out),
                       [=] __device__(float v, float up) -> float {
                           float density;
                           const float below = mx_cuda_normal_below(v, &density);
                           return back ? up * (below + v * density) : v * below;
                       });
}

template <class S> static mx_code leaky(const mx_kernel_call *call)
{
    typedef mx_cuda_wide<S> T;
    const mx_leaky_relu_attrs *a = (const mx_leaky_relu_attrs *)call->attrs;
    if (a->act_type == MX_LEAKY_RELU_PRELU && mx_is_none(call->in[1]))
        return mx_op_fail(call->op, MX_ERR_ARGUMENT, "act_type is prelu, but the input gamma is absent");
    const slopes s = slopes_of(a, call->in[0], call->in[1]);
    const S *x = (const S *)mx_data(call->in[0]);
    S *y = (S *)mx_data(call->out[0]);
    if (s.type == MX_LEAKY_RELU_RRELU) {
        S *drawn = (S *)mx_data(call->out[1]);
        const mx_code code = draw_slopes<S>(call, a, drawn);
        return code ? code
                    : mx_cuda_map(call, call->out[0]->size, x, (const S *)drawn, y,
                                  [=] __device__(T v, T k) -> T { return leaky_at<T>(v, 0, k); });
    }
    const double number[3] = {s.slope, 0, 0};
    if constexpr (sizeof(S) == 2)
        if (s.type == MX_LEAKY_RELU_GELU)
            return gelu<S>(call, call->in[0], nullptr, call->out[0]);
    if (s.type != MX_LEAKY_RELU_PRELU)
        return mx_cuda_number_over(call, leaky_rows[s.type].forward, number, call->in[0], NULL, call->out[0]);
    const S *gamma = (const S *)mx_data(call->in[1]);
    return mx_cuda_each(call, call->out[0]->size, [=] __device__(int64_t i) {
        y[i] = (S)leaky_at<T>((T)x[i], 0, (T)gamma[i / s.inner % s.channels]);
    });
}

/* dgamma[c] = sum of g x over the elements of channel c where x <= 0 */
template <class S> static mx_code prelu_sums(const mx_kernel_call *call, const slopes &s, const S *g, const S *x)
{
    typedef mx_cuda_wide<S> T;
    S *sums = (S *)mx_data(call->out[1]);
    const int64_t each = call->in[1]->size / s.channels;
    return mx_cuda_rows(call, s.channels, each, [=] __device__(int64_t c) {
        double sum = 0;
        for (int64_t i = threadIdx.x; i < each; i += blockDim.x) {
            const int64_t k = (i / s.inner * s.channels + c) * s.inner + i % s.inner;
            sum += (T)x[k] > 0 ? 0 : (double)(T)g[k] * (double)(T)x[k];
        }
        const double total = mx_cuda_block_sum(sum);
        if (!threadIdx.x)
            sums[c] = (S)(T)total;
    });
}

/* inputs: ograd, data, gamma, mask */
template <class S> static mx_code leaky_backward(const mx_kernel_call *call)
{
    typedef mx_cuda_wide<S> T;
    const mx_leaky_relu_attrs *a = (const mx_leaky_relu_attrs *)call->attrs;
    const bool prelu = a->act_type == MX_LEAKY_RELU_PRELU, rrelu = a->act_type == MX_LEAKY_RELU_RRELU;
    if ((prelu && mx_is_none(call->in[2])) || (rrelu && mx_is_none(call->in[3])))
        return mx_op_fail(call->op, MX_ERR_ARGUMENT, "the input %s is absent", prelu ? "gamma" : "mask");
    const slopes s = slopes_of(a, call->in[1], call->in[2]);
    const S *g = (const S *)mx_data(call->in[0]), *x = (const S *)mx_data(call->in[1]);
    S *dx = (S *)mx_data(call->out[0]);
    const double number[3] = {s.slope, 0, 0};
    if constexpr (sizeof(S) == 2)
        if (s.type == MX_LEAKY_RELU_GELU)
            return gelu<S>(call, call->in[1], call->in[0], call->out[0]);
    if (!prelu && !rrelu)
        return mx_cuda_number_over(call, leaky_rows[s.type].gradient, number, call->in[1], call->in[0], call->out[0]);
    const S *each = (const S *)mx_data(call->in[prelu ? 2 : 3]); /* slopes, per channel or per element */
    const mx_code code = mx_cuda_each(call, call->out[0]->size, [=] __device__(int64_t i) {
        dx[i] = (S)leaky_gradient_at<T>((T)x[i], (T)g[i], (T)each[prelu ? i / s.inner % s.channels : i]);
    });
    return code || rrelu ? code : prelu_sums<S>(call, s, g, x);
}

MX_CUDA_STORED(run_activation, activation)
MX_CUDA_STORED(run_activation_backward, activation_backward)
MX_CUDA_STORED(run_leaky, leaky)
MX_CUDA_STORED(run_leaky_backward, leaky_backward)

} // namespace

MX_CUDA_KERNELS(activation) = {{"Activation", run_activation, NULL},
                               {"_backward_Activation", run_activation_backward, NULL},
                               {"LeakyReLU", run_leaky, NULL},
                               {"_backward_LeakyReLU", run_leaky_backward, NULL},
                               {NULL, NULL, NULL}};
