/* The parts of BatchNorm on the CPU: simple loops in double, with which other devices are compared.  Plans for the CPU use
 * the kernels of cpu/kernels/norm/batch_norm.c.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <math.h>

#include "base/interrupt.h"
#include "cpu/kernels/linalg/doubles.h"
#include "gluon/op.gen.h"
#include "ndarray/convert.h"

typedef struct split {
    int64_t outer, channels, inner;
} split;

static split split_at(const mx_array *x, int64_t axis)
{
    const int at = mx_axis(axis, x->ndim);
    split s = {1, x->shape[at], 1};
    for (int i = 0; i < at; i++)
        s.outer *= x->shape[i];
    for (int i = at + 1; i < x->ndim; i++)
        s.inner *= x->shape[i];
    return s;
}
static int64_t place(const split *s, int64_t c, int64_t k)
{
    return (k / s->inner * s->channels + c) * s->inner + k % s->inner;
}

/* ---- statistics -------------------------------------------------------------------------------------------------- */

/* x[c] = x[c] momentum + seen (1 - momentum), in the type of x */
static void move(mx_array *x, int64_t c, double momentum, double seen)
{
    double old;
    char *at = (char *)mx_data(x) + c * mx_dtype_size((mx_dtype)x->dtype);
    mx_convert(&old, MX_FLOAT64, at, (mx_dtype)x->dtype, 1);
    old = old * momentum + seen * (1 - momentum);
    mx_convert(at, (mx_dtype)x->dtype, &old, MX_FLOAT64, 1);
}

static mx_code statistics(const mx_doubles *d)
{
    const mx_norm_statistics_attrs *a = d->call->attrs;
    const split s = split_at(d->call->in[0], a->axis);
    const int64_t each = s.outer * s.inner;
    for (int64_t c = 0; c < s.channels && !mx_stop_wanted(); c++) {
        double sum = 0, squares = 0;
        for (int64_t k = 0; k < each; k++)
            sum += d->in[0][place(&s, c, k)];
        const double mean = each ? sum / (double)each : d->in[1][c];
        for (int64_t k = 0; k < each; k++)
            squares += (d->in[0][place(&s, c, k)] - mean) * (d->in[0][place(&s, c, k)] - mean);
        const double var = each ? squares / (double)each : d->in[2][c];
        d->out[0][c] = mean, d->out[1][c] = 1 / sqrt(var + a->eps);
        if (each) {
            move(d->call->in[1], c, a->momentum, mean + (d->in[3] ? d->in[3][c] : 0));
            move(d->call->in[2], c, a->momentum, var);
        }
    }
    return MX_OK;
}

/* ---- applying ---------------------------------------------------------------------------------------------------- */

static double applied(const double *const *rows, bool fix_gamma, double x, int64_t c) /* gamma, beta, mean, inverse */
{
    return (x - rows[2][c]) * rows[3][c] * (fix_gamma ? 1 : rows[0][c]) + rows[1][c];
}

static mx_code apply(const mx_doubles *d)
{
    const mx_norm_apply_attrs *a = d->call->attrs;
    const split s = split_at(d->call->in[0], a->axis);
    for (int64_t i = 0; i < d->call->in[0]->size && !mx_stop_wanted_at(i); i++) {
        const double v =
            applied(d->in + 1, a->fix_gamma, d->in[0][i], i / s.inner % s.channels) + (d->in[5] ? d->in[5][i] : 0);
        d->out[0][i] = a->relu && v < 0 ? 0 : a->relu && v > a->high ? a->high : v;
    }
    return MX_OK;
}

/* dbeta = sum h, dgamma = sum h z, dx = gamma inverse (h - mean(h) - z mean(h z)), with h = g where the result is not limited */
static mx_code apply_backward(const mx_doubles *d)
{
    const mx_norm_gradient_attrs *a = d->call->attrs;
    const split s = split_at(d->call->in[1], a->axis);
    const int64_t each = s.outer * s.inner;
    for (int64_t c = 0; c < s.channels && !mx_stop_wanted(); c++) {
        const double mean = d->in[4][c], inverse = d->in[5][c], scale = inverse * (a->fix_gamma ? 1 : d->in[2][c]);
        double sum = 0, products = 0;
        for (int pass = 0; pass < 2; pass++)
            for (int64_t k = 0; k < each && !mx_stop_wanted_at(k); k++) {
                const int64_t at = place(&s, c, k);
                const double x = d->in[1][at], z = (x - mean) * inverse;
                const double y = !a->relu ? 1 : d->in[6] ? d->in[6][at] : applied(d->in + 2, a->fix_gamma, x, c);
                const bool flows = !a->relu || (isnan(a->high) ? y > 0 : !(y < 0 || y > a->high));
                const double h = flows ? d->in[0][at] + (d->in[7] ? d->in[7][at] : 0) : 0;
                if (!pass)
                    sum += h, products += h * z;
                else
                    d->out[0][at] = scale * (h - sum / (double)each - z * products / (double)each);
                if (pass && a->addend)
                    d->out[3][at] = h;
            }
        d->out[1][c] = a->fix_gamma ? 0 : products, d->out[2][c] = sum;
        if (a->bias)
            d->out[3 + a->addend][c] = 0;
    }
    return MX_OK;
}

static mx_code run_statistics(const mx_kernel_call *call) { return mx_run_doubles(call, 0, statistics); }
static mx_code run_apply(const mx_kernel_call *call) { return mx_run_doubles(call, 0, apply); }
static mx_code run_apply_backward(const mx_kernel_call *call) { return mx_run_doubles(call, 0, apply_backward); }

MX_CPU_KERNELS(batch_norm_parts) = {{"_norm_statistics", run_statistics, NULL},
                              {"_norm_apply", run_apply, NULL},
                              {"_backward_norm_apply", run_apply_backward, NULL},
                              {NULL, NULL, NULL}};
