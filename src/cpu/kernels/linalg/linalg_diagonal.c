/* Diagonals and triangles of matrices on the CPU: elements are copied by size, for any type.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "base/threads.h"
#include "cpu/kernel.h"
#include "cpu/kernels/level.h"
#include "cpu/kernels/widen.h"
#include "gluon/op.gen.h"

typedef struct part_job {
    const char *from;
    char *to;
    size_t item;      /* bytes of an element */
    int64_t n, count; /* rows of the matrix; packed elements or elements of the diagonal */
    int64_t offset;
    bool lower, triangle, make; /* make: packed -> matrix */
} part_job;

static void move(const part_job *job, int64_t which, int64_t packed, int64_t place)
{
    const size_t p = (size_t)(which * job->count + packed) * job->item;
    const size_t m = (size_t)(which * job->n * job->n + place) * job->item;
    memcpy(job->to + (job->make ? m : p), job->from + (job->make ? p : m), job->item);
}

static void part_range(void *arg, int64_t begin, int64_t end)
{
    const part_job *job = arg;
    const int64_t n = job->n, away = job->offset < 0 ? -job->offset : job->offset;
    for (int64_t which = begin; which < end; which++) {
        if (job->make)
            memset(job->to + (size_t)(which * n * n) * job->item, 0, (size_t)(n * n) * job->item);
        for (int64_t line = 0, packed = 0; line < n - away; line++)
            for (int64_t within = job->triangle ? 0 : line; within <= line; within++, packed++)
                move(job, which, packed, job->lower ? (line + away) * n + within : within * n + line + away);
    }
}

static mx_code run_part(const mx_kernel_call *call, int64_t offset, bool lower, bool triangle, bool make)
{
    const mx_array *matrix = make ? call->out[0] : call->in[0], *packed = make ? call->in[0] : call->out[0];
    part_job job = {.from = mx_data(call->in[0]), .to = mx_data(call->out[0]), .item = (size_t)mx_dtype_size((mx_dtype)matrix->dtype),
                    .n = matrix->shape[matrix->ndim - 1], .count = packed->shape[packed->ndim - 1], .offset = offset,
                    .lower = offset < 0 || (offset == 0 && lower), .triangle = triangle, .make = make};
    if (matrix->size)
        mx_parallel(matrix->size / (job.n * job.n), 1 + MX_GRAIN / (job.n * job.n), part_range, &job);
    return MX_OK;
}

static mx_code run_extractdiag(const mx_kernel_call *call)
{
    return run_part(call, ((const mx_linalg_diagonal_attrs *)call->attrs)->offset, true, false, false);
}
static mx_code run_makediag(const mx_kernel_call *call)
{
    return run_part(call, ((const mx_linalg_diagonal_attrs *)call->attrs)->offset, true, false, true);
}
static mx_code run_extracttrian(const mx_kernel_call *call)
{
    const mx_linalg_trian_attrs *attrs = call->attrs;
    return run_part(call, attrs->offset, attrs->lower, true, false);
}
static mx_code run_maketrian(const mx_kernel_call *call)
{
    const mx_linalg_trian_attrs *attrs = call->attrs;
    return run_part(call, attrs->offset, attrs->lower, true, true);
}

/* ---- one triangle ------------------------------------------------------------------------------------------------ */

#define TRIANGLE(T)                                                                                     \
    for (int64_t row = 0; row < rows; row++) {                                                          \
        const T *from = (const T *)mx_data(call->in[0]) + row * n;                                      \
        T *to = (T *)mx_data(call->out[0]) + row * n;                                                   \
        const int64_t i = row % n;                                                                      \
        for (int64_t j = 0; j < n; j++)                                                                 \
            to[j] = (attrs->lower ? j < i : j > i) ? from[j] : 0;                                       \
        to[i] = attrs->diagonal == 0 ? 0 : (T)attrs->diagonal * from[i];                                \
    }

static mx_code run_triangle(const mx_kernel_call *call)
{
    const mx_linalg_fold_attrs *attrs = call->attrs;
    const mx_dtype compute = mx_compute_type(call);
    if (!mx_inputs_are(call, compute, 0))
        return MX_DECLINED;
    const int64_t n = call->in[0]->shape[call->in[0]->ndim - 1], rows = n ? call->in[0]->size / n : 0;
    if (compute == MX_FLOAT32)
        TRIANGLE(float)
    else
        TRIANGLE(double)
    return MX_OK;
}

MX_CPU_KERNELS(linalg_diagonal) = {{"_linalg_extractdiag", run_extractdiag, NULL}, {"_linalg_makediag", run_makediag, NULL},
                                   {"_linalg_extracttrian", run_extracttrian, NULL}, {"_linalg_maketrian", run_maketrian, NULL},
                                   {"_linalg_triangle", run_triangle, NULL, MX_KERNEL_WIDEN}, {NULL, NULL, NULL}};
