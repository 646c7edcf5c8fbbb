/* Moments, sums of squares, checks for infinities, running sums.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <stdatomic.h>

#include "base/scratch.h"
#include "base/error.h"
#include "base/threads.h"
#include "cpu/kernel.h"
#include "cpu/kernels/convert_level.h"
#include "cpu/kernels/reduce/reduce_loops.h"
#include "gluon/op.gen.h"

#define TILE 512 /* elements converted at a time */

/* ---- moments: the mean by a fold, then the squares of what is left --------------------------------------------- */

/* result[i]: where element i goes; walked with an odometer. */
typedef struct walk {
    int ndim;
    int64_t dim[MX_MAX_NDIM], step[MX_MAX_NDIM], position[MX_MAX_NDIM], result;
} walk;

static walk start_walk(const mx_array *in, int mask)
{
    walk w = {.ndim = in->ndim};
    int64_t step = 1;
    for (int axis = in->ndim - 1; axis >= 0; axis--) {
        w.dim[axis] = in->shape[axis];
        w.step[axis] = mask >> axis & 1 ? 0 : step;
        step *= mask >> axis & 1 ? 1 : in->shape[axis];
    }
    return w;
}

static void advance(walk *w)
{
    for (int axis = w->ndim - 1; axis >= 0; axis--) {
        w->result += w->step[axis];
        if (++w->position[axis] < w->dim[axis])
            return;
        w->result -= w->dim[axis] * w->step[axis];
        w->position[axis] = 0;
    }
}

static void add_elements(const mx_array *in, int mask, const double *mean, double *sum)
{
    const mx_dtype type = (mx_dtype)in->dtype;
    double tile[TILE];
    walk w = start_walk(in, mask);
    for (int64_t at = 0; at < in->size; at += TILE) {
        const int64_t n = in->size - at < TILE ? in->size - at : TILE;
        mx_convert_fast(tile, MX_FLOAT64, (const char *)mx_data(in) + at * mx_dtype_size(type), type, n);
        for (int64_t i = 0; i < n; i++, advance(&w)) {
            const double d = mean ? tile[i] - mean[w.result] : tile[i];
            sum[w.result] += mean ? d * d : d;
        }
    }
}

static mx_code run_moments(const mx_kernel_call *call)
{
    const mx_array *in = call->in[0];
    mx_array *mean = call->out[0], *var = call->out[1];
    const int mask = mx_fold_axes(call->op, &((const mx_moments_attrs *)call->attrs)->axes, false, in->ndim);
    const size_t bytes = 2 * (size_t)mean->size * sizeof(double);
    double *sums = mask < 0 ? NULL : mx_scratch_take_zero(bytes);
    if (!sums)
        return mx_error_code();
    const double count = (double)(in->size / mean->size);
    for (int pass = 0; pass < 2; pass++) {
        double *sum = sums + pass * mean->size;
        add_elements(in, mask, pass ? sums : NULL, sum);
        for (int64_t i = 0; i < mean->size; i++)
            sum[i] /= count;
    }
    mx_convert_fast(mx_data(mean), (mx_dtype)mean->dtype, sums, MX_FLOAT64, mean->size);
    mx_convert_fast(mx_data(var), (mx_dtype)var->dtype, sums + mean->size, MX_FLOAT64, var->size);
    mx_scratch_give(sums, bytes);
    return MX_OK;
}

/* ---- many arrays ----------------------------------------------------------------------------------------------- */

static mx_code run_multi_sum_sq(const mx_kernel_call *call)
{
    for (int k = 0; k < call->n_in; k++) {
        const mx_array *in = call->in[k];
        mx_array one = *call->out[0]; /* a window on element k */
        one.offset += k * (int64_t)sizeof(float);
        one.size = 1;
        mx_code code = mx_fold_array(call->op, MX_FOLD_SQUARES, in, (1 << in->ndim) - 1, &one);
        if (code)
            return code;
    }
    return MX_OK;
}

typedef struct finite_job {
    const mx_array *in;
    atomic_bool found; /* an element that is not finite */
} finite_job;

static void finite_part(void *arg, int64_t begin, int64_t end)
{
    finite_job *j = arg;
    const mx_dtype type = (mx_dtype)j->in->dtype;
    double tile[TILE];
    for (; begin < end; begin += TILE) {
        const int64_t n = end - begin < TILE ? end - begin : TILE;
        int bad = 0;
        const char *x = (const char *)mx_data(j->in) + begin * mx_dtype_size(type);
        if (type == MX_FLOAT32) { /* x - x is NaN for infinities and NaN */
            const float *v = (const float *)(const void *)x;
            for (int64_t i = 0; i < n; i++)
                bad |= !(v[i] - v[i] == 0);
        } else {
            mx_convert_fast(tile, MX_FLOAT64, x, type, n);
            for (int64_t i = 0; i < n; i++)
                bad |= !(tile[i] - tile[i] == 0);
        }
        if (bad) {
            atomic_store(&j->found, true);
            return;
        }
    }
}

static mx_code run_finite(const mx_kernel_call *call, bool init_output)
{
    float *out = mx_data(call->out[0]);
    bool finite = init_output || *out != 0;
    for (int k = 0; finite && k < call->n_in; k++) {
        finite_job j = {call->in[k], false};
        if (mx_dtype_is_float(call->in[k]->dtype))
            mx_parallel(call->in[k]->size, MX_GRAIN, finite_part, &j);
        finite = !atomic_load(&j.found);
    }
    *out = finite;
    return MX_OK;
}

static mx_code run_all_finite(const mx_kernel_call *call)
{
    return run_finite(call, ((const mx_all_finite_attrs *)call->attrs)->init_output);
}

static mx_code run_multi_all_finite(const mx_kernel_call *call)
{
    return run_finite(call, ((const mx_multi_all_finite_attrs *)call->attrs)->init_output);
}

/* ---- running sums: (outer, n, inner) along n, in doubles or int64 ---------------------------------------------- */

typedef struct running_job {
    const mx_array *in;
    mx_array *out;
    int64_t n, inner;
    bool integer;
} running_job;

/* unit = outer position * strips + strip of TILE columns */
static void running_part(void *arg, int64_t begin, int64_t end)
{
    const running_job *j = arg;
    const int64_t strips = (j->inner + TILE - 1) / TILE, in_item = mx_dtype_size((mx_dtype)j->in->dtype),
                  out_item = mx_dtype_size((mx_dtype)j->out->dtype);
    const mx_dtype compute = j->integer ? MX_INT64 : MX_FLOAT64;
    union { double d[TILE]; uint64_t i[TILE]; } sum, row;
    for (int64_t unit = begin; unit < end; unit++) {
        const int64_t at = unit % strips * TILE, width = j->inner - at < TILE ? j->inner - at : TILE;
        int64_t offset = unit / strips * j->n * j->inner + at;
        for (int64_t c = 0; c < width; c++)
            sum.i[c] = 0; /* which is 0.0 too */
        for (int64_t k = 0; k < j->n; k++, offset += j->inner) {
            mx_convert_fast(&row, compute, (const char *)mx_data(j->in) + offset * in_item, (mx_dtype)j->in->dtype,
                            width);
            for (int64_t c = 0; c < width && j->integer; c++)
                sum.i[c] += row.i[c];
            for (int64_t c = 0; c < width && !j->integer; c++)
                sum.d[c] += row.d[c];
            mx_convert_fast((char *)mx_data(j->out) + offset * out_item, (mx_dtype)j->out->dtype, &sum, compute, width);
        }
    }
}

static mx_code run_cumsum(const mx_kernel_call *call)
{
    const mx_array *in = call->in[0];
    running_job j = {in, call->out[0], in->size, 1,
                     !mx_dtype_is_float(in->dtype) && !mx_dtype_is_float(call->out[0]->dtype)};
    const int64_t axis = ((const mx_cumsum_attrs *)call->attrs)->axis;
    int64_t outer = 1;
    if (axis != MX_NONE_INT) {
        const int a = mx_axis(axis, in->ndim);
        j.n = in->shape[a];
        for (int i = 0; i < in->ndim; i++)
            *(i < a ? &outer : &j.inner) *= i == a ? 1 : in->shape[i];
    }
    const int64_t strips = (j.inner + TILE - 1) / TILE, work = j.n * (j.inner < TILE ? j.inner : TILE);
    mx_parallel(outer * strips, work > 0 && work < MX_GRAIN ? MX_GRAIN / work : 1, running_part, &j);
    return MX_OK;
}

MX_CPU_KERNELS(stats) = {{"moments", run_moments, NULL},       {"multi_sum_sq", run_multi_sum_sq, NULL},
                         {"all_finite", run_all_finite, NULL}, {"multi_all_finite", run_multi_all_finite, NULL},
                         {"_np_cumsum", run_cumsum, NULL},     {NULL, NULL, NULL}};
