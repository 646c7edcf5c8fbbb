/* The index of the largest or smallest element: (outer, n, inner) is searched along n.
 *
 * Types other than float, double and int64 are converted a strip of columns at a time.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "base/scratch.h"
#include "base/error.h"
#include "base/threads.h"
#include "cpu/kernel.h"
#include "cpu/kernels/convert_level.h"
#include "cpu/kernels/level.h"
#include "gluon/op.gen.h"
#include "op/formula/reduce.h"

#define COLUMNS 64 /* neighbouring results that are searched together */

#define IS_NAN(v) ((v) != (v))
#define T float
#define NAME(x) x##_f32
#include "cpu/kernels/reduce/argreduce_body.h"
#undef T
#undef NAME
#define T double
#define NAME(x) x##_f64
#include "cpu/kernels/reduce/argreduce_body.h"
#undef T
#undef NAME
#undef IS_NAN
#define IS_NAN(v) false
#define T int64_t
#define NAME(x) x##_i64
#include "cpu/kernels/reduce/argreduce_body.h"

typedef struct search_job {
    const char *in; /* of the compute type */
    char *out;
    mx_dtype compute, out_type;
    int64_t n, inner, out_item;
    bool least;
} search_job;

static void search(const search_job *j, int64_t offset, int64_t width, int64_t *index)
{
    if (j->compute == MX_FLOAT32) {
        const float *x = (const float *)(const void *)j->in + offset;
        if (j->inner == 1)
            *index = search_run_f32(x, j->n, j->least);
        else
            search_columns_f32(x, j->n, j->inner, width, j->least, index);
    } else if (j->compute == MX_FLOAT64) {
        const double *x = (const double *)(const void *)j->in + offset;
        if (j->inner == 1)
            *index = search_run_f64(x, j->n, j->least);
        else
            search_columns_f64(x, j->n, j->inner, width, j->least, index);
    } else {
        const int64_t *x = (const int64_t *)(const void *)j->in + offset;
        if (j->inner == 1)
            *index = search_run_i64(x, j->n, j->least);
        else
            search_columns_i64(x, j->n, j->inner, width, j->least, index);
    }
}

/* unit = outer position * strips + strip */
static void search_part(void *arg, int64_t begin, int64_t end)
{
    const search_job *j = arg;
    const int64_t strips = (j->inner + COLUMNS - 1) / COLUMNS;
    int64_t index[COLUMNS];
    for (int64_t unit = begin; unit < end; unit++) {
        const int64_t outer = unit / strips, at = unit % strips * COLUMNS;
        const int64_t width = j->inner - at < COLUMNS ? j->inner - at : COLUMNS;
        search(j, outer * j->n * j->inner + at, width, index);
        mx_convert_fast(j->out + (outer * j->inner + at) * j->out_item, j->out_type, index, MX_INT64, width);
    }
}

static mx_code run_search(const mx_kernel_call *call, int64_t axis)
{
    const mx_array *in = call->in[0], *out = call->out[0];
    search_job j = {mx_data(in), mx_data(out), (mx_dtype)in->dtype, (mx_dtype)out->dtype, in->size, 1, 0, false};
    j.out_item = mx_dtype_size(j.out_type);
    j.least = *(const int *)call->op->user == MX_FOLD_MIN;
    int64_t outer = 1;
    if (axis != MX_NONE_INT) {
        const int a = mx_axis(axis, in->ndim);
        j.n = in->shape[a];
        for (int i = 0; i < in->ndim; i++)
            *(i < a ? &outer : &j.inner) *= i == a ? 1 : in->shape[i];
    }
    if (!out->size)
        return MX_OK;
    if (!j.n)
        return mx_op_fail(call->op, MX_ERR_SHAPE, "an axis of size 0 has no largest or smallest element");
    const bool direct = j.compute == MX_FLOAT32 || j.compute == MX_FLOAT64 || j.compute == MX_INT64;
    void *converted = NULL;
    if (!direct) {
        j.compute = mx_dtype_is_float(in->dtype) ? MX_FLOAT32 : MX_INT64;
        if (!(converted = mx_scratch_take((size_t)in->size * 8)))
            return mx_error_code();
        mx_convert_fast(converted, j.compute, j.in, (mx_dtype)in->dtype, in->size);
        j.in = converted;
    }
    const int64_t strips = (j.inner + COLUMNS - 1) / COLUMNS, work = j.n * (j.inner < COLUMNS ? j.inner : COLUMNS);
    mx_parallel(outer * strips, work < MX_GRAIN ? MX_GRAIN / work : 1, search_part, &j);
    mx_scratch_give(converted, (size_t)in->size * 8);
    return MX_OK;
}

static mx_code run_argreduce(const mx_kernel_call *call)
{
    return run_search(call, ((const mx_argreduce_attrs *)call->attrs)->axis);
}
static mx_code run_channel(const mx_kernel_call *call) { return run_search(call, 1); }

MX_CPU_KERNELS(argreduce) = {{"argmax", run_argreduce, NULL}, {"argmin", run_argreduce, NULL},
                             {"argmax_channel", run_channel, NULL}, {NULL, NULL, NULL}};
