/* Fourier transforms, and count_sketch.
 *
 * A length d is split by its prime factors.  Before a pass the numbers are s interleaved transforms of length
 * m = d / s, transform j at [j m, (j + 1) m); a pass with the factor p joins those at j, j + s / p, j + 2 s / p, ...
 * into one of length p m (op/formula/fourier.h).  At the start s = d, which is the data as it is; at the end s = 1.
 * Computed in double.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <cstring>

#include "cuda/cuda.h"
extern "C" {
#include "op/formula/fourier.h"
}

static __device__ mx_complex joined(const mx_fourier_pass &f, const mx_complex *old, int64_t i)
{
    const int64_t wide = f.p * f.m;
    return mx_fourier_join(&f, old + i / wide * f.m, f.apart * f.m, i % wide);
}

static mx_code make_roots(const mx_kernel_call *call, mx_complex *roots, int64_t d, bool inverse)
{
    return mx_cuda_each(call, d, [=] __device__(int64_t k) { roots[k] = mx_fourier_root(k, d, inverse); });
}

/* All passes on `rows` rows of d numbers, from one buffer to the other; the result is in *from. */
static mx_code transform(const mx_kernel_call *call, int64_t rows, int64_t d, const mx_complex *roots,
                         mx_complex **from, mx_complex *to)
{
    for (int64_t m = 1; m < d;) {
        const int64_t p = mx_smallest_factor(d / m);
        const mx_fourier_pass f = {p, m, d / (p * m), roots};
        const mx_complex *old = *from;
        const mx_code code =
            mx_cuda_each(call, rows * d, [=] __device__(int64_t i) { to[i] = joined(f, old + i / d * d, i % d); });
        if (code)
            return code;
        mx_complex *const swap = *from;
        *from = to, to = swap, m *= f.p;
    }
    return MX_OK;
}

static mx_code fourier(const mx_kernel_call *call, bool inverse)
{
    const mx_array *in = call->in[0], *real = inverse ? call->out[0] : in;
    if (!mx_dtype_is_float(in->dtype))
        return MX_DECLINED;
    mx_cuda_device *device = mx_cuda_of(call);
    if (!device || !in->size)
        return device ? MX_OK : mx_error_code();
    const int64_t d = real->shape[real->ndim - 1], n = real->size;
    mx_cuda_scratch room(device, (size_t)(2 * n + d) * sizeof(mx_complex));
    mx_complex *x = room.as<mx_complex>();
    if (!x)
        return mx_error_code();
    const void *source = mx_data(in);
    void *target = mx_data(call->out[0]);
    const int type = in->dtype, out_type = call->out[0]->dtype;
    mx_complex *now = x;
    mx_code code = mx_cuda_each(call, n, [=] __device__(int64_t i) {
        x[i] = inverse ? mx_complex{mx_cuda_load<double>(source, type, 2 * i),
                                    mx_cuda_load<double>(source, type, 2 * i + 1)}
                       : mx_complex{mx_cuda_load<double>(source, type, i), 0};
    });
    code = code ? code : make_roots(call, x + 2 * n, d, inverse);
    code = code ? code : transform(call, n / d, d, x + 2 * n, &now, x + n);
    const mx_complex *y = now;
    return code ? code : mx_cuda_each(call, n, [=] __device__(int64_t i) {
        mx_cuda_store<double>(target, out_type, inverse ? i : 2 * i, y[i].re);
        if (!inverse)
            mx_cuda_store<double>(target, out_type, 2 * i + 1, y[i].im);
    });
}

static mx_code run_fft(const mx_kernel_call *call) { return fourier(call, false); }
static mx_code run_ifft(const mx_kernel_call *call) { return fourier(call, true); }

/* ---- count_sketch: column i goes to column h[i] with the sign s[i] ----------------------------------------------- */

template <class T> static mx_code sketch(const mx_kernel_call *call)
{
    const T *in = (const T *)mx_data(call->in[0]), *h = (const T *)mx_data(call->in[1]),
            *s = (const T *)mx_data(call->in[2]);
    T *out = (T *)mx_data(call->out[0]);
    const int64_t rows = call->in[0]->shape[0], narrow = call->in[1]->size;
    const int64_t wide = ((const mx_count_sketch_attrs *)call->attrs)->out_dim;
    if (!strcmp(call->op->name, "_backward__contrib_count_sketch"))
        return mx_cuda_each(call, rows * narrow, [=] __device__(int64_t i) {
            const T place = h[i % narrow];
            out[i] =
                mx_sketch_contains((double)place, wide) ? s[i % narrow] * in[i / narrow * wide + (int64_t)place] : 0;
        });
    mx_cuda_device *d = mx_cuda_of(call);
    if (!d || mx_cuda_fail(cudaMemsetAsync(out, 0, mx_bytes(call->out[0]), d->stream), call->op->name))
        return mx_error_code();
    return mx_cuda_each(call, rows * narrow, [=] __device__(int64_t i) {
        const T place = h[i % narrow];
        if (mx_sketch_contains((double)place, wide))
            atomicAdd(&out[i / narrow * wide + (int64_t)place], s[i % narrow] * in[i]);
    });
}
MX_CUDA_FLOATS(run_sketch, sketch)

MX_CUDA_KERNELS(fourier) = {{"_contrib_fft", run_fft, NULL},
                            {"_contrib_ifft", run_ifft, NULL},
                            {"_contrib_count_sketch", run_sketch, NULL},
                            {"_backward__contrib_count_sketch", run_sketch, NULL},
                            {NULL, NULL, NULL}};
