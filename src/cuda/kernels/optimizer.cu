/* Fused optimizer updates: the rows of op/optimizer.h, one launch per parameter.
 *
 * A row's `prepare` runs on the host.  Rows whose constants depend on arrays of one element (the scale of adamw, the norms
 * of lamb) read them back first, so they wait for the device.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <cmath>

#include "cuda/cuda.h"
extern "C" {
#include "op/optimizer.h"
}
using std::isfinite;

struct update_arrays {
    const void *from, *grad;
    void *to, *state[3];
    int64_t size;
};

template <class T> __device__ inline T limited(T v, T limit) /* NaN passes through */
{
    v = v < -limit ? -limit : v;
    return v > limit ? limit : v;
}

#define K(x) ((T)k.x)
#define CLIP(v) limited<T>(v, clip)
#define CLIP_WEIGHT(v) limited<T>(v, clip_weight)
#define SIGN(x) ((T)(((x) > 0) - ((x) < 0)))
#define SQRT sqrt
#define FABS fabs
#define LOAD_0
#define LOAD_1 T a = pa[i];
#define LOAD_2 T a = pa[i], b = pb[i];
#define LOAD_3 T a = pa[i], b = pb[i], c = pc[i];
#define STORE_0
#define STORE_1 pa[i] = a;
#define STORE_2 pa[i] = a, pb[i] = b;
#define STORE_3 pa[i] = a, pb[i] = b, pc[i] = c;

#define LOOP(id, name, aliases, inputs, states, scalars, ATTRS, prepare, body, doc)                              \
    template <class T> mx_code update_##id(const mx_kernel_call *call, const mx_update k, const update_arrays x) \
    {                                                                                                            \
        const T clip = k.clip_gradient < 0 ? (T)INFINITY : (T)k.clip_gradient;                                   \
        const T clip_weight = k.clip_weights < 0 ? (T)INFINITY : (T)k.clip_weights;                              \
        const T *from = (const T *)x.from, *grad = (const T *)x.grad;                                            \
        T *to = (T *)x.to, *pa = (T *)x.state[0], *pb = (T *)x.state[1], *pc = (T *)x.state[2];                  \
        return mx_cuda_each(call, x.size, [=] __device__(int64_t i) {                                            \
            (void)clip, (void)clip_weight, (void)pa, (void)pb, (void)pc, (void)k;                                \
            T w = from[i];                                                                                       \
            const T g = grad[i];                                                                                 \
            LOAD_##states body;                                                                                  \
            to[i] = w;                                                                                           \
            STORE_##states                                                                                       \
        });                                                                                                      \
    }
MX_UPDATE_ROWS(LOOP)

typedef mx_code (*update_fn)(const mx_kernel_call *call, const mx_update k, const update_arrays x);
#define ENTRY_F(id, ...) update_##id<float>,
#define ENTRY_D(id, ...) update_##id<double>,
static const update_fn updates_f[] = {MX_UPDATE_ROWS(ENTRY_F)}, updates_d[] = {MX_UPDATE_ROWS(ENTRY_D)};

#define PREPARE(id, name, aliases, inputs, states, scalars, ATTRS, prepare, body, doc) \
    static void prepare_##id(const void *given, const double *s, mx_update *k)         \
    {                                                                                  \
        const mx_##id##_attrs *attrs = (const mx_##id##_attrs *)given;                 \
        (void)s;                                                                       \
        ATTRS(MX_UPDATE_FIELD)                                                         \
        prepare;                                                                       \
    }
MX_UPDATE_ROWS(PREPARE)

typedef void (*prepare_fn)(const void *attrs, const double *s, mx_update *k);
#define PREPARE_ENTRY(id, ...) prepare_##id,
static const prepare_fn preparations[] = {MX_UPDATE_ROWS(PREPARE_ENTRY)};

static mx_code read_number(mx_cuda_device *d, const mx_array *x, double *number)
{
    uint64_t bits = 0;
    cudaMemcpyAsync(&bits, mx_data(x), (size_t)mx_dtype_size((mx_dtype)x->dtype), cudaMemcpyDeviceToHost, d->stream);
    const mx_code code = mx_cuda_fail(cudaStreamSynchronize(d->stream), "optimizer");
    mx_convert(number, MX_FLOAT64, &bits, (mx_dtype)x->dtype, 1);
    return code;
}

/* With a 32-bit weight that is updated, the result is its copy. */
static mx_code run_update(const mx_kernel_call *call)
{
    const mx_update_use *use = (const mx_update_use *)call->op->user;
    const mx_dtype compute = mx_cuda_compute_type(call);
    if (!mx_cuda_all_of_type(call, compute))
        return mx_cuda_widened(call, compute, run_update);
    mx_cuda_device *d = mx_cuda_of(call);
    mx_update k = {};
    double scalars[2] = {0, 0};
    if (!d)
        return mx_error_code();
    for (int i = 0; i < use->scalars; i++)
        if (read_number(d, call->in[use->scalars_at + i], &scalars[i]))
            return mx_error_code();
    preparations[use->row](call->attrs, scalars, &k);
    mx_array *out = call->out[0], *weight = call->in[use->master_at];
    const bool keeps_master = use->master_at && (call->op->mutates >> use->master_at & 1);
    update_arrays x = {mx_data(weight), mx_data(call->in[1]), keeps_master ? mx_data(weight) : mx_data(out), {}, out->size};
    for (int i = 0; i < use->states; i++)
        x.state[i] = mx_data(call->in[2 + i]);
    const mx_code code = k.skip ? MX_OK : (compute == MX_FLOAT64 ? updates_d : updates_f)[use->row](call, k, x);
    return !code && (keeps_master || k.skip) ? mx_cuda_cast(call, weight, out) : code;
}

#define KERNEL(id, name, ...) {name, run_update, NULL},
MX_CUDA_KERNELS(optimizer) = {MX_UPDATE_ROWS(KERNEL) MX_PRECISION_ROWS(KERNEL){NULL, NULL, NULL}};
