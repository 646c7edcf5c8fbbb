/* Small functions of one array, allclose and the Khatri-Rao product; computed in float, double or int64 by tiles.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <math.h>

#include "base/threads.h"
#include "cpu/kernel.h"
#include "cpu/kernels/convert_level.h"
#include "cpu/kernels/pointwise/vmath_f32.h"
#include "gluon/op.gen.h"

#define TILE 512 /* elements converted at a time */

/* ---- functions of x and three numbers -------------------------------------------------------------------------- */

typedef struct tile { float f[TILE]; double d[TILE]; } tile;
typedef void (*small_f32)(float *x, int64_t n, const double *number);
typedef void (*small_f64)(double *x, int64_t n, const double *number);

#define SMALL(name, T, expression)                                     \
    static void name(T *x, int64_t n, const double *number)            \
    {                                                                  \
        const T a = (T)number[0], b = (T)number[1], c = (T)number[2];  \
        (void)a, (void)b, (void)c;                                     \
        for (int64_t i = 0; i < n; i++)                                \
            x[i] = (T)(expression);                                    \
    }
SMALL(round_single, float, mx_round_f32(x[i]))
SMALL(round_double, double, round(x[i]))
SMALL(sign_single, float, (x[i] > 0) - (x[i] < 0))
SMALL(sign_double, double, (x[i] > 0) - (x[i] < 0))
SMALL(parabola_single, float, (a * x[i] + b) * x[i] + c)
SMALL(parabola_double, double, (a * x[i] + b) * x[i] + c)

typedef struct small_job {
    small_f32 f32;
    small_f64 f64;
    double number[3];
    const mx_array *in;
    mx_array *out;
} small_job;

/* Integers go through double. */
static void small_part(void *arg, int64_t begin, int64_t end)
{
    const small_job *j = arg;
    const mx_dtype type = (mx_dtype)j->out->dtype;
    const int64_t item = mx_dtype_size(type);
    const bool single = mx_dtype_is_float(type) && type != MX_FLOAT64;
    tile t;
    for (; begin < end; begin += TILE) {
        const int64_t n = end - begin < TILE ? end - begin : TILE;
        void *x = single ? (void *)t.f : (void *)t.d;
        const mx_dtype compute = single ? MX_FLOAT32 : MX_FLOAT64;
        mx_convert_fast(x, compute, (const char *)mx_data(j->in) + begin * item, type, n);
        if (single)
            j->f32(t.f, n, j->number);
        else
            j->f64(t.d, n, j->number);
        mx_convert_fast((char *)mx_data(j->out) + begin * item, type, x, compute, n);
    }
}

static mx_code run_small(const mx_kernel_call *call, small_f32 f32, small_f64 f64, double a, double b, double c)
{
    small_job j = {f32, f64, {a, b, c}, call->in[0], call->out[0]};
    mx_parallel(call->out[0]->size, MX_GRAIN, small_part, &j);
    return MX_OK;
}

static mx_code run_round(const mx_kernel_call *call) { return run_small(call, round_single, round_double, 0, 0, 0); }
static mx_code run_sign(const mx_kernel_call *call) { return run_small(call, sign_single, sign_double, 0, 0, 0); }
static mx_code run_same(const mx_kernel_call *call)
{
    return run_small(call, parabola_single, parabola_double, 0, 1, 0);
}

static mx_code run_div_sqrt(const mx_kernel_call *call)
{
    const mx_array *in = call->in[0];
    const double factor = in->ndim ? 1 / sqrt((double)in->shape[in->ndim - 1]) : 1;
    return run_small(call, parabola_single, parabola_double, 0, factor, 0);
}

static mx_code run_quadratic(const mx_kernel_call *call)
{
    const mx_quadratic_attrs *attrs = call->attrs;
    return run_small(call, parabola_single, parabola_double, attrs->a, attrs->b, attrs->c);
}

/* ---- allclose -------------------------------------------------------------------------------------------------- */

static bool close(double a, double b, const mx_allclose_attrs *attrs)
{
    return a == b || fabs(a - b) <= attrs->atol + attrs->rtol * fabs(b) || (attrs->equal_nan && a != a && b != b);
}

static mx_code run_allclose(const mx_kernel_call *call)
{
    const mx_array *in = call->in[0];
    const mx_dtype type = (mx_dtype)in->dtype;
    double a[TILE], b[TILE];
    bool all = true;
    for (int64_t at = 0; all && at < in->size; at += TILE) {
        const int64_t n = in->size - at < TILE ? in->size - at : TILE, offset = at * mx_dtype_size(type);
        mx_convert_fast(a, MX_FLOAT64, (const char *)mx_data(in) + offset, type, n);
        mx_convert_fast(b, MX_FLOAT64, (const char *)mx_data(call->in[1]) + offset, type, n);
        for (int64_t i = 0; i < n; i++)
            all &= close(a[i], b[i], call->attrs);
    }
    *(uint8_t *)mx_data(call->out[0]) = all;
    return MX_OK;
}

/* ---- Khatri-Rao ------------------------------------------------------------------------------------------------ */

/* Rows [begin, end) of the product: each is the product of one row of every matrix. */
static void khatri_rao_part(void *arg, int64_t begin, int64_t end)
{
    const mx_kernel_call *call = arg;
    const mx_array *out = call->out[0];
    const mx_dtype type = (mx_dtype)out->dtype;
    const int64_t columns = out->shape[1], item = mx_dtype_size(type);
    double product[TILE], factor[TILE];
    for (int64_t row = begin; row < end; row++)
        for (int64_t at = 0; at < columns; at += TILE) {
            const int64_t n = columns - at < TILE ? columns - at : TILE;
            for (int64_t i = 0; i < n; i++)
                product[i] = 1;
            int64_t rest = row;
            for (int k = call->n_in - 1; k >= 0; rest /= call->in[k]->shape[0], k--) {
                const int64_t from = rest % call->in[k]->shape[0] * columns + at;
                mx_convert_fast(factor, MX_FLOAT64, (const char *)mx_data(call->in[k]) + from * item, type, n);
                for (int64_t i = 0; i < n; i++)
                    product[i] *= factor[i];
            }
            mx_convert_fast((char *)mx_data(out) + (row * columns + at) * item, type, product, MX_FLOAT64, n);
        }
}

static mx_code run_khatri_rao(const mx_kernel_call *call)
{
    const int64_t columns = call->out[0]->shape[1];
    if (call->out[0]->size)
        mx_parallel(call->out[0]->shape[0], columns < MX_GRAIN ? MX_GRAIN / columns : 1, khatri_rao_part,
                    (void *)(uintptr_t)call);
    return MX_OK;
}

MX_CPU_KERNELS(straight) = {{"_contrib_round_ste", run_round, NULL},
                            {"_contrib_sign_ste", run_sign, NULL},
                            {"_contrib_gradientmultiplier", run_same, NULL},
                            {"_contrib_div_sqrt_dim", run_div_sqrt, NULL},
                            {"_contrib_quadratic", run_quadratic, NULL},
                            {"_contrib_allclose", run_allclose, NULL},
                            {"khatri_rao", run_khatri_rao, NULL},
                            {NULL, NULL, NULL}};
