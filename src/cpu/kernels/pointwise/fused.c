/* Kernels of the operators that only plans use: chains of pointwise functions, folded normalisation.
 *
 * A chain runs over tiles that stay in the first-level cache: all functions on one tile, then the next tile.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "op/formula/fused.h"

#include <math.h>
#include <string.h>

#include "base/threads.h"
#include "cpu/kernel.h"
#include "cpu/kernels/pointwise/pointwise_loops.h"
#include "cpu/kernels/widen.h"
#include "gluon/op.gen.h"

/* ---- _pointwise ------------------------------------------------------------------------------------------------------ */

#define TILE 512

typedef struct chain {
    const mx_fused *program;
    const float *in[MX_FUSED_INPUTS];
    float *out;
} chain;

static void run_row(const mx_fused_row *row, const float *const *in, float *out, int64_t n)
{
    const mx_pointwise_loops *loops = &mx_pointwise_f32[row->row];
    const float constant = (float)row->scalar;
    switch (row->form) {
    case MX_FORM_UNARY: loops->unary(in[0], out, n); break;
    case MX_FORM_BACKWARD: loops->backward(in[0], in[1], in[2], out, n); break;
    case MX_FORM_BINARY: loops->binary(in[0], 1, in[1], 1, out, n); break;
    case MX_FORM_SCALAR: loops->binary(in[0], 1, &constant, 0, out, n); break;
    default: loops->binary(&constant, 0, in[0], 1, out, n); break;
    }
}

static void run_tile(const chain *c, int64_t at, int64_t n, float (*tiles)[TILE])
{
    for (int r = 0; r < c->program->n_rows; r++) {
        const mx_fused_row *row = &c->program->rows[r];
        const float *in[3];
        for (int k = 0; k < 3; k++)
            in[k] = row->in[k] < 0                 ? NULL
                    : row->in[k] < MX_FUSED_INPUTS ? c->in[row->in[k]] + at
                                                   : tiles[row->in[k] - MX_FUSED_INPUTS];
        run_row(row, in, r == c->program->n_rows - 1 ? c->out + at : tiles[r], n);
    }
}

static void run_range(void *arg, int64_t begin, int64_t end)
{
    _Alignas(64) float tiles[MX_FUSED_ROWS][TILE];
    for (; begin < end; begin += TILE)
        run_tile(arg, begin, end - begin < TILE ? end - begin : TILE, tiles);
}

static mx_code run_pointwise_chain(const mx_kernel_call *call)
{
    mx_array *out = call->out[0];
    chain c = {.program = call->attrs, .out = mx_data(out)};
    if (!c.program) {
        if (mx_data(out) != mx_data(call->in[0]))
            memcpy(mx_data(out), mx_data(call->in[0]), mx_bytes(out));
        return MX_OK;
    }
    for (int k = 0; k < call->n_in; k++)
        c.in[k] = mx_data(call->in[k]);
    mx_parallel(out->size, MX_GRAIN / 2, run_range, &c);
    return MX_OK;
}

/* ---- _fold_norm ------------------------------------------------------------------------------------------------------ */

typedef struct folding {
    const void *weight, *gamma, *beta, *mean, *var, *bias; /* gamma, bias NULL: ones, zeros */
    void *new_weight, *new_bias;
    int64_t each; /* weights per output channel */
    double eps;
} folding;

#define FOLD(T, name) \
    static void name(void *arg, int64_t begin, int64_t end) \
    { \
        const folding *f = arg; \
        const T *gamma = f->gamma, *bias = f->bias, *mean = f->mean, *var = f->var, *beta = f->beta; \
        for (int64_t c = begin; c < end; c++) { \
            const T s = (T)((gamma ? (double)gamma[c] : 1) / sqrt((double)var[c] + f->eps)); \
            const T *from = (const T *)f->weight + c * f->each; \
            T *to = (T *)f->new_weight + c * f->each; \
            for (int64_t i = 0; i < f->each; i++) \
                to[i] = from[i] * s; \
            ((T *)f->new_bias)[c] = ((bias ? bias[c] : 0) - mean[c]) * s + beta[c]; \
        } \
    }
FOLD(float, fold_f)
FOLD(double, fold_d)

static mx_code run_fold(const mx_kernel_call *call)
{
    const mx_fold_norm_attrs *a = call->attrs;
    const mx_dtype compute = mx_compute_type(call);
    if (!mx_inputs_are(call, compute, 0))
        return MX_DECLINED;
    const mx_array *weight = call->in[0];
    folding f = {.weight = mx_data(weight),
                 .gamma = a->fix_gamma ? NULL : mx_data(call->in[1]),
                 .beta = mx_data(call->in[2]),
                 .mean = mx_data(call->in[3]),
                 .var = mx_data(call->in[4]),
                 .bias = mx_is_none(call->in[5]) ? NULL : mx_data(call->in[5]),
                 .new_weight = mx_data(call->out[0]),
                 .new_bias = mx_data(call->out[1]),
                 .each = weight->size / weight->shape[0],
                 .eps = a->eps};
    const int64_t channels = weight->shape[0], grain = 1 + MX_GRAIN / (f.each + 1);
    mx_parallel(channels, grain, compute == MX_FLOAT64 ? fold_d : fold_f, &f);
    return MX_OK;
}

MX_CPU_KERNELS(fused) = {
    {"_pointwise", run_pointwise_chain, NULL}, {"_fold_norm", run_fold, NULL, MX_KERNEL_WIDEN}, {NULL, NULL, NULL}};
