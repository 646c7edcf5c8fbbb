/* Ranges, diagonals, shapes.  SPDX-License-Identifier: Apache-2.0 */
#include <string.h>
#include <math.h>

#include "base/threads.h"
#include "cpu/kernel.h"
#include "cpu/kernels/convert_level.h"
#include "cpu/kernels/level.h"
#include "gluon/op.gen.h"

#define TILE 512 /* elements computed as doubles at a time */

typedef struct line_job {
    mx_array *out;
    double start, step;
    int64_t repeat;
} line_job;

static void line_part(void *arg, int64_t begin, int64_t end)
{
    const line_job *j = arg;
    const mx_dtype type = (mx_dtype)j->out->dtype;
    double tile[TILE];
    for (; begin < end; begin += TILE) {
        const int64_t n = end - begin < TILE ? end - begin : TILE;
        for (int64_t i = 0; i < n; i++)
            tile[i] = j->start + j->step * (double)(j->repeat == 1 ? begin + i : (begin + i) / j->repeat);
        mx_convert_fast((char *)mx_data(j->out) + begin * mx_dtype_size(type), type, tile, MX_FLOAT64, n);
    }
}

static mx_code run_line(mx_array *out, double start, double step, int64_t repeat)
{
    line_job j = {out, start, step, repeat};
    mx_parallel(out->size, MX_GRAIN, line_part, &j);
    return MX_OK;
}

static mx_code run_arange(const mx_kernel_call *call)
{
    const mx_arange_attrs *attrs = call->attrs;
    const bool whole = isnan(attrs->stop) && !attrs->infer_range; /* a single number is the end */
    const double start = whole ? 0 : attrs->start;
    if (mx_dtype_is_float(call->out[0]->dtype))
        return run_line(call->out[0], start, attrs->step, attrs->repeat);
    return run_line(call->out[0], trunc(start), trunc(attrs->step), attrs->repeat); /* both are of the result's type */
}

static mx_code run_arange_like(const mx_kernel_call *call)
{
    const mx_arange_like_attrs *attrs = call->attrs;
    return run_line(call->out[0], attrs->start, attrs->step, attrs->repeat);
}

static mx_code run_linspace(const mx_kernel_call *call)
{
    const mx_linspace_attrs *attrs = call->attrs;
    const double gaps = (double)(attrs->endpoint ? attrs->num - 1 : attrs->num);
    run_line(call->out[0], attrs->start, gaps > 0 ? (attrs->stop - attrs->start) / gaps : 0, 1);
    if (attrs->endpoint && attrs->num > 1) { /* exactly, despite rounding */
        const mx_dtype type = (mx_dtype)call->out[0]->dtype;
        mx_convert_fast((char *)mx_data(call->out[0]) + (attrs->num - 1) * mx_dtype_size(type), type, &attrs->stop,
                        MX_FLOAT64, 1);
    }
    return MX_OK;
}

static mx_code run_eye(const mx_kernel_call *call)
{
    const mx_eye_attrs *attrs = call->attrs;
    mx_array *out = call->out[0];
    const int64_t rows = out->shape[0], columns = out->shape[1], item = mx_dtype_size((mx_dtype)out->dtype);
    const double one = 1;
    memset(mx_data(out), 0, mx_bytes(out));
    for (int64_t r = attrs->k < 0 ? -attrs->k : 0; r < rows && r + attrs->k < columns; r++)
        mx_convert_fast((char *)mx_data(out) + (r * columns + r + attrs->k) * item, (mx_dtype)out->dtype, &one,
                        MX_FLOAT64, 1);
    return MX_OK;
}

static mx_code run_shape_array(const mx_kernel_call *call)
{
    memcpy(mx_data(call->out[0]), call->in[0]->shape, (size_t)call->in[0]->ndim * sizeof(int64_t));
    return MX_OK;
}

static mx_code run_size_array(const mx_kernel_call *call)
{
    *(int64_t *)mx_data(call->out[0]) = call->in[0]->size;
    return MX_OK;
}

MX_CPU_KERNELS(range) = {{"_arange", run_arange, NULL},     {"_contrib_arange_like", run_arange_like, NULL},
                         {"_linspace", run_linspace, NULL}, {"_eye", run_eye, NULL},
                         {"shape_array", run_shape_array, NULL}, {"size_array", run_size_array, NULL},
                         {NULL, NULL, NULL}};
