/* Mean and variance: the mean by a fold, then the squared deviations.  SPDX-License-Identifier: Apache-2.0 */
#include "base/error.h"
#include "base/interrupt.h"
#include "base/scratch.h"
#include "cpu/kernel.h"
#include "cpu/kernels/convert_level.h"
#include "cpu/kernels/reduce/reduce_loops.h"
#include "gluon/op.gen.h"

#define TILE 512 /* elements converted at a time */

/* result[i]: the result of element i; indices advance like an odometer. */
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
    for (int64_t at = 0; at < in->size && !mx_stop_wanted_at(at / TILE); at += TILE) {
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

MX_CPU_KERNELS(moments) = {{"moments", run_moments, NULL}, {NULL, NULL, NULL}};
