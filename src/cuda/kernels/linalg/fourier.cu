/* Fourier transforms, and count_sketch.
 *
 * A length d is split by its prime factors.  Before a pass the numbers are s interleaved transforms of length
 * m = d / s, transform j at [j m, (j + 1) m); a pass with the factor p joins p of them into one of length p m:
 *
 *     new[j p m + k] = sum over r < p of w^(r k) old[(j + r s / p) m + k mod m],   w = e^(-2 pi i / (p m))
 *
 * At the start s = d, which is the data as it is; at the end s = 1.  Computed in double.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <cstring>

#include "cuda/cuda.h"

struct pass {
    int64_t d, p, m;      /* length, factor, length of the transforms that are joined */
    const double2 *roots; /* (d): e^(-2 pi i k / d), or its conjugate for the inverse */
};

static __device__ double2 joined(const pass &f, const double2 *old, int64_t i)
{
    const int64_t wide = f.p * f.m, j = i / wide, k = i % wide, apart = f.d / wide; /* apart: s / p */
    double2 sum = old[j * f.m + k % f.m];
    for (int64_t r = 1, turn = k; r < f.p; r++) { /* turn: r k modulo wide */
        const double2 w = f.roots[turn * apart], x = old[(j + r * apart) * f.m + k % f.m];
        sum.x += w.x * x.x - w.y * x.y;
        sum.y += w.x * x.y + w.y * x.x;
        turn += k - (turn + k >= wide ? wide : 0);
    }
    return sum;
}

static mx_code make_roots(const mx_kernel_call *call, double2 *roots, int64_t d, bool inverse)
{
    return mx_cuda_each(call, d, [=] __device__(int64_t k) {
        double sine, cosine;
        sincospi(2 * (double)k / (double)d, &sine, &cosine);
        roots[k] = {cosine, inverse ? sine : -sine};
    });
}

static int64_t smallest_factor(int64_t n)
{
    for (int64_t p = 2; p * p <= n; p++)
        if (n % p == 0)
            return p;
    return n;
}

/* All passes on `rows` rows of d numbers, from one buffer to the other; the result is in *from. */
static mx_code transform(const mx_kernel_call *call, int64_t rows, int64_t d, const double2 *roots, double2 **from,
                         double2 *to)
{
    for (int64_t m = 1; m < d;) {
        const pass f = {d, smallest_factor(d / m), m, roots};
        const double2 *old = *from;
        const mx_code code =
            mx_cuda_each(call, rows * d, [=] __device__(int64_t i) { to[i] = joined(f, old + i / d * d, i % d); });
        if (code)
            return code;
        double2 *const swap = *from;
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
    mx_cuda_scratch room(device, (size_t)(2 * n + d) * sizeof(double2));
    double2 *x = room.as<double2>();
    if (!x)
        return mx_error_code();
    const void *source = mx_data(in);
    void *target = mx_data(call->out[0]);
    const int type = in->dtype, out_type = call->out[0]->dtype;
    double2 *now = x;
    mx_code code = mx_cuda_each(call, n, [=] __device__(int64_t i) {
        x[i] = inverse
                   ? double2{mx_cuda_load<double>(source, type, 2 * i), mx_cuda_load<double>(source, type, 2 * i + 1)}
                   : double2{mx_cuda_load<double>(source, type, i), 0};
    });
    code = code ? code : make_roots(call, x + 2 * n, d, inverse);
    code = code ? code : transform(call, n / d, d, x + 2 * n, &now, x + n);
    const double2 *y = now;
    return code ? code : mx_cuda_each(call, n, [=] __device__(int64_t i) {
        mx_cuda_store<double>(target, out_type, inverse ? i : 2 * i, y[i].x);
        if (!inverse)
            mx_cuda_store<double>(target, out_type, 2 * i + 1, y[i].y);
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
            out[i] = place >= 0 && place < (T)wide ? s[i % narrow] * in[i / narrow * wide + (int64_t)place] : 0;
        });
    mx_cuda_device *d = mx_cuda_of(call);
    if (!d || mx_cuda_fail(cudaMemsetAsync(out, 0, mx_bytes(call->out[0]), d->stream), call->op->name))
        return mx_error_code();
    return mx_cuda_each(call, rows * narrow, [=] __device__(int64_t i) {
        const T place = h[i % narrow];
        if (place >= 0 && place < (T)wide)
            atomicAdd(&out[i / narrow * wide + (int64_t)place], s[i % narrow] * in[i]);
    });
}
MX_CUDA_FLOATS(run_sketch, sketch)

MX_CUDA_KERNELS(fourier) = {{"_contrib_fft", run_fft, NULL},
                            {"_contrib_ifft", run_ifft, NULL},
                            {"_contrib_count_sketch", run_sketch, NULL},
                            {"_backward__contrib_count_sketch", run_sketch, NULL},
                            {NULL, NULL, NULL}};
