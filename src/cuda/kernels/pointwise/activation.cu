/* Activation, LeakyReLU, clip and other functions with attributes, and their gradients.  SPDX-License-Identifier: Apache-2.0 */
#include "cuda/kernels/norm/channels_map.h"

namespace
{

#define SELU_SCALE 1.0507009873554804934193349852946
#define SELU_ALPHA 1.6732632423543772848170429916717

template <class S> static mx_code activation(const mx_kernel_call *call)
{
    typedef mx_cuda_wide<S> T;
    const int type = ((const mx_activation_attrs *)call->attrs)->act_type;
    const S *x = (const S *)mx_data(call->in[0]), *none = nullptr;
    return mx_cuda_map(call, call->out[0]->size, x, none, (S *)mx_data(call->out[0]), [=] __device__(T v, T) -> T {
        return type == MX_ACTIVATION_RELU       ? (v < 0 ? 0 : v)
               : type == MX_ACTIVATION_SIGMOID  ? 1 / (1 + exp(-v))
               : type == MX_ACTIVATION_TANH     ? tanh(v)
               : type == MX_ACTIVATION_SOFTRELU ? (v > 0 ? v + log1p(exp(-v)) : log1p(exp(v)))
                                                : v / (1 + fabs(v));
    });
}

/* inputs: ograd, output */
template <class S> static mx_code activation_backward(const mx_kernel_call *call)
{
    typedef mx_cuda_wide<S> T;
    const int type = ((const mx_activation_attrs *)call->attrs)->act_type;
    const S *slope = (const S *)mx_data(call->in[0]), *out = (const S *)mx_data(call->in[1]);
    return mx_cuda_map(call, call->out[0]->size, slope, out, (S *)mx_data(call->out[0]), [=] __device__(T g, T y) -> T {
        return type == MX_ACTIVATION_RELU       ? (y > 0 ? g : 0)
               : type == MX_ACTIVATION_SIGMOID  ? g * (y * (1 - y))
               : type == MX_ACTIVATION_TANH     ? g * (1 - y * y)
               : type == MX_ACTIVATION_SOFTRELU ? g * (1 - exp(-y))
                                                : g * ((1 - fabs(y)) * (1 - fabs(y)));
    });
}

/* ---- LeakyReLU ----------------------------------------------------------------------------------------------------- */

/* Where the slopes of prelu stand: data is (outer, channels, inner). */
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
    for (int axis = data->ndim > 1 ? 2 : 1; axis < data->ndim; axis++)
        s.inner *= data->shape[axis];
    if (gamma->size == 1)
        s.inner = data->size ? data->size : 1;
    return s;
}

template <class T> __device__ T gauss(T x) { return (T)0.5 * (1 + erf(x * (T)0.70710678118654752440)); }

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

/* The functions that look at nothing but the element. */
template <class T> __device__ T leaky_at(int type, T slope, T v)
{
    return type == MX_LEAKY_RELU_GELU   ? v * gauss(v)
           : type == MX_LEAKY_RELU_SELU ? (T)SELU_SCALE * (v > 0 ? v : (T)SELU_ALPHA * expm1(v))
           : v > 0                      ? v
           : type == MX_LEAKY_RELU_ELU  ? slope * expm1(v)
                                        : slope * v;
}
template <class T> __device__ T leaky_slope(int type, T slope, T v)
{
    return type == MX_LEAKY_RELU_GELU   ? gauss(v) + v * exp(v * v * (T)-0.5) * (T)0.39894228040143267794
           : type == MX_LEAKY_RELU_SELU ? (T)SELU_SCALE * (v > 0 ? (T)1 : (T)SELU_ALPHA * exp(v))
           : v > 0                      ? (T)1
           : type == MX_LEAKY_RELU_ELU  ? slope * exp(v)
                                        : slope;
}

template <class S> static mx_code leaky(const mx_kernel_call *call)
{
    typedef mx_cuda_wide<S> T;
    const mx_leaky_relu_attrs *a = (const mx_leaky_relu_attrs *)call->attrs;
    if (a->act_type == MX_LEAKY_RELU_PRELU && mx_is_none(call->in[1]))
        return mx_op_fail(call->op, MX_ERR_ARGUMENT, "act_type is prelu, but the input gamma is absent");
    const slopes s = slopes_of(a, call->in[0], call->in[1]);
    const S *x = (const S *)mx_data(call->in[0]), *none = nullptr;
    S *y = (S *)mx_data(call->out[0]);
    const T slope = (T)s.slope;
    if (s.type == MX_LEAKY_RELU_RRELU) {
        S *drawn = (S *)mx_data(call->out[1]);
        const mx_code code = draw_slopes<S>(call, a, drawn);
        return code ? code
                    : mx_cuda_map(call, call->out[0]->size, x, (const S *)drawn, y,
                                  [=] __device__(T v, T k) -> T { return v > 0 ? v : k * v; });
    }
    if (s.type != MX_LEAKY_RELU_PRELU)
        return mx_cuda_map(call, call->out[0]->size, x, none, y,
                           [=] __device__(T v, T) -> T { return leaky_at(s.type, slope, v); });
    const S *gamma = (const S *)mx_data(call->in[1]);
    return mx_cuda_each(call, call->out[0]->size, [=] __device__(int64_t i) {
        const T v = (T)x[i];
        y[i] = (S)(v > 0 ? v : (T)gamma[i / s.inner % s.channels] * v);
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
    const T slope = (T)s.slope;
    if (!prelu && !rrelu)
        return mx_cuda_map(call, call->out[0]->size, g, x, dx,
                           [=] __device__(T up, T v) -> T { return up * leaky_slope(s.type, slope, v); });
    const S *each = (const S *)mx_data(call->in[prelu ? 2 : 3]); /* slopes, per channel or per element */
    const mx_code code = mx_cuda_each(call, call->out[0]->size, [=] __device__(int64_t i) {
        dx[i] = (S)((T)g[i] * ((T)x[i] > 0 ? (T)1 : (T)each[prelu ? i / s.inner % s.channels : i]));
    });
    return code || rrelu ? code : prelu_sums<S>(call, s, g, x);
}

/* ---- functions of one array and two numbers ---------------------------------------------------------------------- */

static mx_code run_clip(const mx_kernel_call *call)
{
    const mx_clip_attrs *a = (const mx_clip_attrs *)call->attrs;
    const void *x = mx_data(call->in[0]);
    void *y = mx_data(call->out[0]);
    const int type = call->out[0]->dtype;
    const double low = a->a_min, high = a->a_max;
    return mx_cuda_each(call, call->out[0]->size, [=] __device__(int64_t i) {
        const double v = mx_cuda_load<double>(x, type, i);
        mx_cuda_store<double>(y, type, i, v < low ? low : v > high ? high : v);
    });
}

/* inputs: ograd, data */
template <class T> static mx_code clip_backward(const mx_kernel_call *call)
{
    const mx_clip_attrs *a = (const mx_clip_attrs *)call->attrs;
    const T *g = (const T *)mx_data(call->in[0]), *x = (const T *)mx_data(call->in[1]), low = (T)a->a_min,
            high = (T)a->a_max;
    T *dx = (T *)mx_data(call->out[0]);
    return mx_cuda_each(call, call->out[0]->size,
                        [=] __device__(int64_t i) { dx[i] = x[i] >= low && x[i] <= high ? g[i] : 0; });
}

template <class T> static mx_code smooth_l1(const mx_kernel_call *call)
{
    const double sigma = ((const mx_smooth_l1_attrs *)call->attrs)->scalar;
    const T *x = (const T *)mx_data(call->in[0]), curve = (T)(sigma * sigma), end = (T)(1 / (sigma * sigma));
    T *y = (T *)mx_data(call->out[0]);
    return mx_cuda_each(call, call->out[0]->size, [=] __device__(int64_t i) {
        const T size = fabs(x[i]);
        y[i] = size > end ? size - end / 2 : curve * x[i] * x[i] / 2;
    });
}

template <class T> static mx_code hard_sigmoid(const mx_kernel_call *call)
{
    const mx_hard_sigmoid_attrs *a = (const mx_hard_sigmoid_attrs *)call->attrs;
    const T *x = (const T *)mx_data(call->in[0]), slope = (T)a->alpha, base = (T)a->beta;
    T *y = (T *)mx_data(call->out[0]);
    return mx_cuda_each(call, call->out[0]->size, [=] __device__(int64_t i) {
        const T v = slope * x[i] + base;
        y[i] = v < 0 ? 0 : v > 1 ? 1 : v;
    });
}

MX_CUDA_STORED(run_activation, activation)
MX_CUDA_STORED(run_activation_backward, activation_backward)
MX_CUDA_STORED(run_leaky, leaky)
MX_CUDA_STORED(run_leaky_backward, leaky_backward)
MX_CUDA_FLOATS(run_clip_backward, clip_backward)
MX_CUDA_FLOATS(run_smooth_l1, smooth_l1)
MX_CUDA_FLOATS(run_hard_sigmoid, hard_sigmoid)

} // namespace

MX_CUDA_KERNELS(activation) = {{"Activation", run_activation, NULL},
                               {"_backward_Activation", run_activation_backward, NULL},
                               {"LeakyReLU", run_leaky, NULL},
                               {"_backward_LeakyReLU", run_leaky_backward, NULL},
                               {"clip", run_clip, NULL},
                               {"_backward_clip", run_clip_backward, NULL},
                               {"smooth_l1", run_smooth_l1, NULL},
                               {"hard_sigmoid", run_hard_sigmoid, NULL},
                               {NULL, NULL, NULL}};
