/* Pooling operators on top of the pooling kernels of pool.h.  SPDX-License-Identifier: Apache-2.0 */
#include "base/scratch.h"
#include "base/error.h"
#include "cpu/kernel.h"
#include "cpu/kernels/level.h"
#include "cpu/kernels/pool/pool.h"
#include "cpu/kernels/widen.h"
#include "gluon/op.gen.h"
#include "ndarray/convert.h"

#define pool_forward MX_LEVEL_NAME(pool_forward)
#define pool_backward MX_LEVEL_NAME(pool_backward)
#define pool_forward_f64 MX_LEVEL_NAME(pool_forward_f64)
#define pool_backward_f64 MX_LEVEL_NAME(pool_backward_f64)
#define pool_pick MX_LEVEL_NAME(pool_pick)
#define pool_pick_f64 MX_LEVEL_NAME(pool_pick_f64)

static int64_t at(const mx_dims *dims, int i, int64_t fallback) { return dims->n > i ? dims->d[i] : fallback; }

static mx_pool_shape shape_of(const mx_pooling_attrs *a, const mx_array *x, const mx_array *y)
{
    const bool last = a->layout >= MX_POOLING_NWC;
    const int axes = x->ndim - 2, first = last ? 1 : 2;
    mx_pool_shape s = {.batch = x->shape[0], .channels = x->shape[last ? axes + 1 : 1], .ndim = axes, .type = (mx_pool_type)a->pool_type,
                       .count_include_pad = a->count_include_pad, .p = a->p_value == MX_NONE_INT ? 2 : (int)a->p_value, .channels_last = last};
    for (int i = 0; i < axes; i++) {
        s.in[i] = x->shape[first + i], s.out[i] = y->shape[first + i];
        s.kernel[i] = a->global_pool ? s.in[i] : a->kernel.d[i];
        s.stride[i] = a->global_pool ? 1 : at(&a->stride, i, 1);
        s.pad[i] = a->global_pool ? 0 : at(&a->pad, i, 0);
    }
    return s;
}

/* 16-bit floats: one or two inputs widened, the result narrowed. dy NULL: forward. */
static mx_code run_half(const mx_pool_shape *s, const mx_array *x, const mx_array *dy, mx_array *out)
{
    const size_t count = (size_t)(x->size + out->size + (dy ? dy->size : 0));
    float *wide = mx_scratch_take(count * sizeof *wide);
    if (!wide)
        return mx_error_code();
    float *wide_out = wide + x->size, *wide_dy = wide_out + out->size;
    mx_convert(wide, MX_FLOAT32, mx_data(x), (mx_dtype)x->dtype, x->size);
    if (dy)
        mx_convert(wide_dy, MX_FLOAT32, mx_data(dy), (mx_dtype)dy->dtype, dy->size);
    mx_code code = dy ? pool_backward(s, wide, wide_dy, wide_out) : pool_forward(s, wide, wide_out);
    if (!code)
        mx_convert(mx_data(out), (mx_dtype)out->dtype, wide_out, MX_FLOAT32, out->size);
    mx_scratch_give(wide, count * sizeof *wide);
    return code;
}

static mx_code run_pooling(const mx_kernel_call *call)
{
    const mx_array *x = call->in[0];
    mx_array *y = call->out[0];
    mx_pool_shape s = shape_of(call->attrs, x, y);
    switch (x->dtype) {
    case MX_FLOAT32: return pool_forward(&s, mx_data(x), mx_data(y));
    case MX_FLOAT64: return pool_forward_f64(&s, mx_data(x), mx_data(y));
    case MX_FLOAT16:
    case MX_BFLOAT16: return run_half(&s, x, NULL, y);
    default: return MX_DECLINED;
    }
}

static mx_code run_backward(const mx_kernel_call *call)
{
    const mx_array *dy = call->in[0], *x = call->in[1];
    mx_array *dx = call->out[0];
    mx_pool_shape s = shape_of(call->attrs, x, dy);
    switch (x->dtype) {
    case MX_FLOAT32: return pool_backward(&s, mx_data(x), mx_data(dy), mx_data(dx));
    case MX_FLOAT64: return pool_backward_f64(&s, mx_data(x), mx_data(dy), mx_data(dx));
    case MX_FLOAT16:
    case MX_BFLOAT16: return run_half(&s, x, dy, dx);
    default: return MX_DECLINED;
    }
}

/* Plans use it on devices where one kernel does both; here relu runs after pooling. */
static mx_code run_backward_relu(const mx_kernel_call *call)
{
    const mx_dtype compute = mx_compute_type(call);
    const mx_code code = run_backward(call);
    const void *x = mx_data(call->in[1]);
    void *dx = mx_data(call->out[0]);
    for (int64_t i = 0; !code && i < call->out[0]->size; i++)
        if (compute == MX_FLOAT32 && !(((const float *)x)[i] > 0))
            ((float *)dx)[i] = 0;
        else if (compute == MX_FLOAT64 && !(((const double *)x)[i] > 0))
            ((double *)dx)[i] = 0;
    return code;
}

static mx_code run_pick(const mx_kernel_call *call)
{
    const mx_dtype compute = mx_compute_type(call);
    if (!mx_inputs_are(call, compute, 0))
        return MX_DECLINED;
    const mx_array *values = call->in[0], *x = call->in[1];
    mx_array *y = call->out[0];
    const mx_pool_shape s = shape_of(call->attrs, x, y);
    return compute == MX_FLOAT32 ? pool_pick(&s, mx_data(x), mx_data(values), mx_data(y))
                                 : pool_pick_f64(&s, mx_data(x), mx_data(values), mx_data(y));
}

MX_CPU_KERNELS(pooling) = {{"Pooling", run_pooling, NULL},
                           {"_backward_Pooling", run_backward, NULL},
                           {"_backward_pool_relu", run_backward_relu, NULL, MX_KERNEL_WIDEN},
                           {"_pool_pick", run_pick, NULL, MX_KERNEL_WIDEN},
                           {NULL, NULL, NULL}};
