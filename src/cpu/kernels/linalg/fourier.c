/* Fourier transforms on the CPU, and count_sketch.
 *
 * A length is split by its prime factors: a transform of p q is p transforms of q and q of p.  Computed in double.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/interrupt.h"
#include "base/threads.h"
#include "cpu/kernels/widen.h"
#include "gluon/op.gen.h"
#include "ndarray/convert.h"
#include "op/formula/fourier.h"

typedef struct fft_job {
    const mx_array *in;
    mx_array *out;
    int64_t d; /* length of a transform */
    bool inverse;
    const mx_complex *roots; /* (d) */
    int failed;
} fft_job;

#define LONG 4096 /* a transform of so many numbers takes longer than looking whether to stop */

/* to[k] = sum of from[j step] root^(j k), n numbers; `turn` is d / n.  scratch: n numbers. */
static void transform(const fft_job *job, const mx_complex *from, int64_t step, mx_complex *to, mx_complex *scratch,
                      int64_t n, int64_t turn)
{
    if (n == 1) {
        to[0] = from[0];
        return;
    }
    const int64_t p = mx_smallest_factor(n), q = n / p;
    const mx_fourier_pass join = {p, q, turn, job->roots};
    if (n > LONG && mx_stop_wanted())
        return;
    for (int64_t r = 0; r < p; r++)
        transform(job, from + r * step, step * p, scratch + r * q, to + r * q, q, turn * p);
    for (int64_t k = 0; k < n && (p < LONG || !mx_stop_wanted()); k++) /* p operations each */
        to[k] = mx_fourier_join(&join, scratch, q, k);
}

static void transform_rows(void *arg, int64_t begin, int64_t end)
{
    fft_job *job = arg;
    const int64_t d = job->d, wide = 2 * d, in = job->inverse ? wide : d, out = job->inverse ? d : wide;
    const mx_dtype from = (mx_dtype)job->in->dtype, type = (mx_dtype)job->out->dtype;
    const size_t bytes = (size_t)(4 * d) * sizeof(mx_complex);
    mx_complex *room = mx_alloc(bytes);
    if (!room) { /* errors are recorded per thread: the caller's thread reports */
        mx_error_clear();
        __atomic_store_n(&job->failed, 1, __ATOMIC_RELAXED);
        return;
    }
    mx_complex *x = room, *y = room + d;
    double *plain = (double *)(room + 3 * d);
    for (int64_t row = begin; row < end && !mx_stop_wanted(); row++) {
        mx_convert(plain, MX_FLOAT64, (const char *)mx_data(job->in) + row * in * mx_dtype_size(from), from, in);
        for (int64_t k = 0; k < d; k++)
            x[k] = job->inverse ? (mx_complex){plain[2 * k], plain[2 * k + 1]} : (mx_complex){plain[k], 0};
        transform(job, x, 1, y, room + 2 * d, d, 1);
        for (int64_t k = 0; k < d && job->inverse; k++)
            plain[k] = y[k].re;
        mx_convert((char *)mx_data(job->out) + row * out * mx_dtype_size(type), type, job->inverse ? plain : &y[0].re,
                   MX_FLOAT64, out);
    }
    mx_free(room, bytes);
}

static mx_code fourier(const mx_kernel_call *call, bool inverse)
{
    const mx_array *in = call->in[0], *real = inverse ? call->out[0] : in;
    const int64_t d = real->shape[real->ndim - 1];
    if (!mx_dtype_is_float(in->dtype))
        return MX_DECLINED;
    if (!in->size)
        return MX_OK;
    const size_t bytes = (size_t)d * sizeof(mx_complex);
    mx_complex *roots = mx_alloc(bytes);
    if (!roots)
        return mx_error_code();
    for (int64_t k = 0; k < d; k++)
        roots[k] = mx_fourier_root(k, d, inverse);
    fft_job job = {in, call->out[0], d, inverse, roots, 0};
    mx_parallel(real->size / d, 1 + MX_GRAIN / (16 * d + 1), transform_rows, &job);
    mx_free(roots, bytes);
    return job.failed ? mx_fail(MX_ERR_MEMORY, "%s: out of memory", call->op->name) : MX_OK;
}

static mx_code run_fft(const mx_kernel_call *call) { return fourier(call, false); }
static mx_code run_ifft(const mx_kernel_call *call) { return fourier(call, true); }

/* ---- count_sketch: rows on several threads, columns in their order -------------------------------------------- */

typedef struct sketch_job {
    const mx_array *in;
    mx_array *out;
    const mx_array *h, *s; /* (narrow): where column i goes, and its sign; of the compute type */
    int64_t narrow, wide;  /* columns of the plain side and of the sketch */
    bool back;             /* sketch -> columns */
} sketch_job;

#define SKETCH(name, T)                                                                                      \
    static void name(void *arg, int64_t begin, int64_t end)                                                  \
    {                                                                                                        \
        const sketch_job *job = arg;                                                                         \
        const T *h = mx_data(job->h), *s = mx_data(job->s);                                                  \
        for (int64_t row = begin; row < end; row++) {                                                        \
            const T *in = (const T *)mx_data(job->in) + row * (job->back ? job->wide : job->narrow);         \
            T *out = (T *)mx_data(job->out) + row * (job->back ? job->narrow : job->wide);                   \
            if (!job->back)                                                                                  \
                memset(out, 0, (size_t)job->wide * sizeof(T));                                               \
            for (int64_t i = 0; i < job->narrow; i++) {                                                      \
                const bool inside = mx_sketch_contains((double)h[i], job->wide);                                  \
                if (job->back)                                                                               \
                    out[i] = inside ? s[i] * in[(int64_t)h[i]] : 0;                                          \
                else if (inside)                                                                             \
                    out[(int64_t)h[i]] += s[i] * in[i];                                                      \
            }                                                                                                \
        }                                                                                                    \
    }
SKETCH(sketch_rows_f, float)
SKETCH(sketch_rows_d, double)

static mx_code run_sketch(const mx_kernel_call *call)
{
    const mx_dtype compute = mx_compute_type(call);
    if (!mx_inputs_are(call, compute, 0))
        return MX_DECLINED;
    sketch_job job = {.in = call->in[0], .out = call->out[0], .h = call->in[1], .s = call->in[2], .narrow = call->in[1]->size,
                      .wide = ((const mx_count_sketch_attrs *)call->attrs)->out_dim, .back = !strcmp(call->op->name, "_backward__contrib_count_sketch")};
    mx_parallel(call->in[0]->shape[0], 1 + MX_GRAIN / (job.narrow + job.wide + 1),
                compute == MX_FLOAT32 ? sketch_rows_f : sketch_rows_d, &job);
    return MX_OK;
}

MX_CPU_KERNELS(fourier) = {{"_contrib_fft", run_fft, NULL},
                           {"_contrib_ifft", run_ifft, NULL},
                           {"_contrib_count_sketch", run_sketch, NULL, MX_KERNEL_WIDEN},
                           {"_backward__contrib_count_sketch", run_sketch, NULL, MX_KERNEL_WIDEN},
                           {NULL, NULL, NULL}};
