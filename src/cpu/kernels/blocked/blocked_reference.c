/* Operators over blocked channels whose blocks are not as wide as a vector: scalar loops.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <float.h>

#include "base/threads.h"
#include "cpu/kernel.h"
#include "cpu/kernels/level.h"
#include "gluon/op.gen.h"

static int64_t at(const mx_dims *dims, int i, int64_t fallback) { return dims->n > i ? dims->d[i] : fallback; }

/* Source position of a tap on an axis; -1: outside the data. */
static int64_t source(const mx_blocked_convolution_attrs *a, int axis, int64_t o, int64_t k, int64_t size)
{
    const int64_t i = o * at(&a->stride, axis, 1) - at(&a->pad, axis, 0) + k * at(&a->dilate, axis, 1);
    return i < size ? i : -1;
}

/* Winograd's weights: see blocked_winograd.c. */
static float one_winograd_sum(const mx_kernel_call *call, int64_t i)
{
    static const float before[4][4] = {{1, 0, -1, 0}, {0, 1, 1, 0}, {0, -1, 1, 0}, {0, 1, 0, -1}};
    static const float behind[2][4] = {{1, 1, 1, 0}, {0, 1, -1, -1}};
    const mx_blocked_convolution_attrs *a = call->attrs;
    const mx_array *x = call->in[0], *u = call->in[1], *y = call->out[0];
    const int64_t block = y->shape[4], lane = i % block, p = i / block % (y->shape[2] * y->shape[3]);
    const int64_t plane = i / block / (y->shape[2] * y->shape[3]), o = plane % y->shape[1], n = plane / y->shape[1];
    const int64_t oy = p / y->shape[3], ox = p % y->shape[3], blocks = x->shape[1];
    const int64_t y0 = oy / 2 * 2 - at(&a->pad, 0, 0), x0 = ox / 2 * 2 - at(&a->pad, 1, 0);
    const float *xs = mx_data(x), *us = mx_data(u);
    float sum = 0;
    for (int64_t c = 0; c < blocks * block; c++)
        for (int k = 0; k < 16; k++) {
            float v = 0;
            for (int t = 0; t < 16; t++) {
                const int64_t iy = y0 + t / 4, ix = x0 + t % 4;
                if (iy >= 0 && iy < x->shape[2] && ix >= 0 && ix < x->shape[3])
                    v += before[k / 4][t / 4] * before[k % 4][t % 4] *
                         xs[(((n * blocks + c / block) * x->shape[2] + iy) * x->shape[3] + ix) * block + c % block];
            }
            sum += behind[oy % 2][k / 4] * behind[ox % 2][k % 4] * v *
                   us[((k * y->shape[1] + o) * blocks * block + c) * block + lane];
        }
    return sum;
}

/* Element i of the result: the sum over the input blocks (one, if depthwise) and taps. */
static float one_sum(const mx_kernel_call *call, int64_t i)
{
    const mx_blocked_convolution_attrs *a = call->attrs;
    const mx_array *x = call->in[0], *w = call->in[1], *y = call->out[0];
    const bool plain = x->ndim == 4, depthwise = !plain && w->ndim == 4;
    const int64_t block = y->shape[4], lane = i % block, p = i / block % (y->shape[2] * y->shape[3]);
    const int64_t plane = i / block / (y->shape[2] * y->shape[3]), o = plane % y->shape[1], n = plane / y->shape[1];
    const int64_t kh = w->shape[depthwise ? 1 : 2], kw = w->shape[depthwise ? 2 : 3];
    const int64_t blocks = depthwise ? 1 : x->shape[1], inner = plain || depthwise ? 1 : block;
    const float *xs = mx_data(x), *ws = mx_data(w);
    float sum = 0;
    for (int64_t b = 0; b < blocks; b++)
        for (int64_t k = 0; k < kh * kw; k++) {
            const int64_t iy = source(a, 0, p / y->shape[3], k / kw, x->shape[2]);
            const int64_t ix = source(a, 1, p % y->shape[3], k % kw, x->shape[3]);
            if (iy < 0 || ix < 0)
                continue;
            const int64_t pixel = ((n * x->shape[1] + (depthwise ? o : b)) * x->shape[2] + iy) * x->shape[3] + ix;
            const float *from = xs + pixel * (plain ? 1 : block) + (depthwise ? lane : 0);
            const float *weight = ws + ((o * blocks + b) * kh * kw + k) * inner * block + lane;
            for (int64_t c = 0; c < inner; c++)
                sum += from[c] * weight[c * block];
        }
    return sum;
}

static void convolve(void *arg, int64_t begin, int64_t end)
{
    const mx_kernel_call *call = arg;
    const mx_blocked_convolution_attrs *a = call->attrs;
    const mx_array *y = call->out[0], *bias = call->in[2], *add = call->in[3];
    const int64_t block = y->shape[4], pixels = y->shape[2] * y->shape[3];
    for (int64_t i = begin; i < end; i++) {
        const int64_t channel = i / block / pixels % y->shape[1] * block + i % block;
        float v = call->in[0]->ndim == 5 && call->in[1]->ndim == 5 ? one_winograd_sum(call, i) : one_sum(call, i);
        if (!mx_is_none(bias) && channel < a->channels)
            v += ((const float *)mx_data(bias))[channel];
        if (!mx_is_none(add))
            v += ((const float *)mx_data(add))[i];
        v = v < a->low ? (float)a->low : v; /* None is NaN */
        ((float *)mx_data(y))[i] = v > a->high ? (float)a->high : v;
    }
}

static mx_code run_convolution(const mx_kernel_call *call)
{
    if (call->out[0]->dtype != MX_FLOAT32)
        return MX_DECLINED;
    mx_parallel(call->out[0]->size, 64, convolve, (void *)call);
    return MX_OK;
}

/* One window, clipped to the data. */
static float one_window(const mx_blocked_pooling_attrs *a, const mx_array *x, const float *plane, const int64_t *o)
{
    const bool max = a->pool_type == MX_BLOCKED_POOLING_MAX;
    int64_t from[2], to[2], count = 1;
    float v = max ? -FLT_MAX : 0;
    for (int i = 0; i < 2; i++) {
        const int64_t pad = at(&a->pad, i, 0), size = x->shape[2 + i];
        from[i] = o[i] * at(&a->stride, i, 1) - pad, to[i] = from[i] + a->kernel.d[i];
        to[i] = to[i] < size + pad ? to[i] : size + pad;
        count *= a->count_include_pad ? to[i] - from[i] : 1;
        from[i] = from[i] < 0 ? 0 : from[i], to[i] = to[i] < size ? to[i] : size;
        count *= a->count_include_pad ? 1 : to[i] - from[i];
    }
    for (int64_t h = from[0]; h < to[0]; h++)
        for (int64_t w = from[1]; w < to[1]; w++) {
            const float e = plane[(h * x->shape[3] + w) * x->shape[4]];
            v = max ? (e > v ? e : v) : v + e;
        }
    return a->pool_type == MX_BLOCKED_POOLING_AVG ? (count > 0 ? v / (float)count : 0) : v;
}

static void pool(void *arg, int64_t begin, int64_t end)
{
    const mx_kernel_call *call = arg;
    const mx_array *x = call->in[0], *y = call->out[0];
    const int64_t block = y->shape[4], pixels = y->shape[2] * y->shape[3];
    for (int64_t i = begin; i < end; i++) {
        const int64_t p = i / block % pixels, plane = i / block / pixels;
        const float *from = (const float *)mx_data(x) + plane * x->shape[2] * x->shape[3] * block + i % block;
        ((float *)mx_data(y))[i] = one_window(call->attrs, x, from, (int64_t[]){p / y->shape[3], p % y->shape[3]});
    }
}

static mx_code run_pooling(const mx_kernel_call *call)
{
    if (call->out[0]->dtype != MX_FLOAT32)
        return MX_DECLINED;
    mx_parallel(call->out[0]->size, 256, pool, (void *)call);
    return MX_OK;
}

MX_CPU_KERNELS(blocked_reference) = {
    {"_blocked_convolution", run_convolution, NULL}, {"_blocked_pooling", run_pooling, NULL}, {NULL, NULL, NULL}};
