/* Dropout: the same masks as on the CPU for a seed.
 *
 * Every element uses 16 bits.  Blocks of 128 elements take 16 consecutive counters of Philox (base/rng.h), the lanes:
 * element e of a block is quarter e % 4 of the 64 bits of pair e / 4; pair p < 16 is words 0 and 1 of lane p, pair p + 16 words 2
 * and 3.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "cuda/cuda.h"

#define LANES 16

static mx_code make_mask(const mx_kernel_call *call, mx_array *mask, double p)
{
    const int64_t blocks = (mask->size + 127) / 128;
    const mx_rng rng = mx_rng_reserve((uint64_t)blocks * LANES);
    const uint32_t threshold = (uint32_t)(p * 65536 + 0.5);
    uint8_t *keep = (uint8_t *)mx_data(mask);
    const int64_t size = mask->size;
    return mx_cuda_each(call, blocks * LANES, [=] __device__(int64_t unit) {
        uint32_t words[4];
        mx_philox(rng.seed, rng.counter + (uint64_t)unit, words);
        for (int half = 0; half < 2; half++) {
            const uint64_t bits = (uint64_t)words[2 * half] | (uint64_t)words[2 * half + 1] << 32;
            for (int quarter = 0; quarter < 4; quarter++) {
                const int64_t at = unit / LANES * 128 + 4 * (16 * half + unit % LANES) + quarter;
                if (at < size)
                    keep[at] = (uint32_t)(bits >> 16 * quarter & 0xffff) >= threshold && threshold < 65536;
            }
        }
    });
}

struct mask_walk {
    int ndim; /* 0: the mask has the shape of the data */
    int64_t dim[MX_MAX_NDIM], step[MX_MAX_NDIM];
};

/* The mask may be broadcast along axes of size 1. */
template <class T>
static mx_code apply_mask(const mx_kernel_call *call, const mx_array *x, const mx_array *mask, double p)
{
    if (mask->size != x->size && mask->ndim != x->ndim)
        return mx_op_fail(call->op, MX_ERR_SHAPE, "mask has %d axes, data has %d", mask->ndim, x->ndim);
    const T *from = (const T *)mx_data(x), scale = (T)(p < 1 ? 1 / (1 - p) : 0);
    T *to = (T *)mx_data(call->out[0]);
    const uint8_t *keep = (const uint8_t *)mx_data(mask);
    mask_walk walk = {};
    int64_t step = 1;
    walk.ndim = mask->size == x->size ? 0 : x->ndim;
    for (int axis = walk.ndim - 1; axis >= 0; step *= mask->shape[axis], axis--)
        walk.dim[axis] = x->shape[axis], walk.step[axis] = mask->shape[axis] == 1 ? 0 : step;
    return mx_cuda_each(call, x->size, [=] __device__(int64_t i) {
        int64_t at = walk.ndim ? 0 : i, rest = i;
        for (int axis = walk.ndim - 1; axis >= 0; rest /= walk.dim[axis], axis--)
            at += rest % walk.dim[axis] * walk.step[axis];
        to[i] = keep[at] ? from[i] * scale : 0;
    });
}

static mx_code pass_through(const mx_kernel_call *call)
{
    mx_cuda_device *d = mx_cuda_of(call);
    if (!d)
        return mx_error_code();
    if (mx_data(call->out[0]) != mx_data(call->in[0]))
        cudaMemcpyAsync(mx_data(call->out[0]), mx_data(call->in[0]), mx_bytes(call->in[0]), cudaMemcpyDeviceToDevice,
                        d->stream);
    return mx_cuda_fail(cudaMemsetAsync(mx_data(call->out[1]), 1, mx_bytes(call->out[1]), d->stream), call->op->name);
}

template <class T> static mx_code dropout(const mx_kernel_call *call)
{
    const mx_dropout_attrs *a = (const mx_dropout_attrs *)call->attrs;
    const mx_code code = make_mask(call, call->out[1], a->p);
    return code ? code : apply_mask<T>(call, call->in[0], call->out[1], a->p);
}
template <class T> static mx_code dropout_backward(const mx_kernel_call *call)
{
    return apply_mask<T>(call, call->in[0], call->in[1], ((const mx_dropout_attrs *)call->attrs)->p);
}
MX_CUDA_FLOATS(run_drop, dropout)
MX_CUDA_FLOATS(run_backward, dropout_backward)

static mx_code run_dropout(const mx_kernel_call *call)
{
    const mx_dropout_attrs *a = (const mx_dropout_attrs *)call->attrs;
    if (!mx_dtype_is_float(call->in[0]->dtype))
        return MX_DECLINED;
    return (a->mode == MX_DROPOUT_TRAINING && !call->training) || a->p == 0 ? pass_through(call) : run_drop(call);
}

MX_CUDA_KERNELS(dropout) = {
    {"Dropout", run_dropout, NULL}, {"_backward_dropout", run_backward, NULL}, {NULL, NULL, NULL}};
