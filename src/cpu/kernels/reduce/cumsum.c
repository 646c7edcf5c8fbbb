/* Running sums: (outer, n, inner) along n, in doubles or int64.  SPDX-License-Identifier: Apache-2.0 */
#include "base/interrupt.h"
#include "base/threads.h"
#include "cpu/kernel.h"
#include "cpu/kernels/convert_level.h"
#include "gluon/op.gen.h"

#define TILE 512           /* elements converted at a time */
#define ROWS_AT_ONCE 65536 /* between two questions whether to stop */

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
        for (int64_t k = 0; k < j->n && (k % ROWS_AT_ONCE || !mx_stop_wanted()); k++, offset += j->inner) {
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

MX_CPU_KERNELS(cumsum) = {{"_np_cumsum", run_cumsum, NULL}, {NULL, NULL, NULL}};
