/* _rows_sum on the CPU: every result row is summed by one thread, in the order of the list.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "base/error.h"
#include "base/threads.h"
#include "cpu/kernels/index/indices.h"
#include "cpu/kernels/widen.h"
#include "ndarray/dtype.h"

typedef struct rows_job {
    const void *data, *factor; /* (m, run); (n) or NULL */
    void *out;                 /* (r, run) */
    const int64_t *row, *start;
    int64_t run;
    void (*sum)(const struct rows_job *job, int64_t begin, int64_t end);
} rows_job;

#define NAME_PASTE2(name, type) name##_##type
#define NAME_PASTE(name, type) NAME_PASTE2(name, type)
#define NAME(name) NAME_PASTE(name, T)

#define T float
#include "cpu/kernels/index/sparse_body.h"
#undef T
#define T double
#include "cpu/kernels/index/sparse_body.h"
#undef T
#define T int64_t
#include "cpu/kernels/index/sparse_body.h"
#undef T
#define T int32_t
#include "cpu/kernels/index/sparse_body.h"
#undef T
#define T int8_t
#include "cpu/kernels/index/sparse_body.h"
#undef T
#define T uint8_t
#include "cpu/kernels/index/sparse_body.h"
#undef T

static void (*const loops[MX_DTYPE_END])(const rows_job *, int64_t, int64_t) = {
    [MX_FLOAT32] = sum_rows_float,   [MX_FLOAT64] = sum_rows_double, [MX_INT64] = sum_rows_int64_t,
    [MX_INT32] = sum_rows_int32_t, [MX_INT8] = sum_rows_int8_t,    [MX_UINT8] = sum_rows_uint8_t,
};

static void run_part(void *arg, int64_t begin, int64_t end)
{
    const rows_job *job = arg;
    job->sum(job, begin, end);
}

/* int64 indices are used in place; others are converted (and then freed with mx_free_indices). */
static const int64_t *indices_of(const mx_array *x, int64_t **converted)
{
    static const int64_t nothing[1]; /* an empty array has no address */
    *converted = x->dtype == MX_INT64 || !x->size ? NULL : mx_load_indices(x);
    return !x->size ? nothing : x->dtype == MX_INT64 ? mx_data(x) : *converted;
}

static mx_code check(const mx_kernel_call *call, const rows_job *job)
{
    const int64_t n = call->in[1]->size, m = call->in[0]->shape[0];
    for (int64_t k = 0; k < n; k++)
        if (job->row[k] < 0 || job->row[k] >= m)
            return mx_op_fail(call->op, MX_ERR_INDEX, "row holds %lld, data has %lld rows", (long long)job->row[k],
                              (long long)m);
    for (int64_t i = 0; i < call->in[2]->size; i++)
        if (job->start[i] < 0 || job->start[i] > n)
            return mx_op_fail(call->op, MX_ERR_INDEX, "start holds %lld, row has %lld elements",
                              (long long)job->start[i], (long long)n);
    return MX_OK;
}

static mx_code run_job(const mx_kernel_call *call, rows_job *job)
{
    const int64_t rows = call->out[0]->shape[0], n = call->in[1]->size;
    if (!job->row || !job->start || check(call, job))
        return mx_error_code();
    const int64_t work = (n / (rows ? rows : 1) + 1) * job->run; /* of one result row, on average */
    mx_parallel(rows, MX_GRAIN / (work > 0 ? work : 1) + 1, run_part, job);
    return MX_OK;
}

static mx_code run_rows_sum(const mx_kernel_call *call)
{
    const mx_array *data = call->in[0], *factor = call->in[3];
    if (!loops[data->dtype] || (!mx_is_none(factor) && factor->dtype != data->dtype))
        return MX_DECLINED;
    int64_t *row, *start;
    rows_job job = {.data = mx_data(data), .factor = mx_is_none(factor) ? NULL : mx_data(factor)};
    job.out = mx_data(call->out[0]), job.run = data->shape[0] ? data->size / data->shape[0] : 0;
    job.row = indices_of(call->in[1], &row), job.start = indices_of(call->in[2], &start), job.sum = loops[data->dtype];
    if (!data->shape[0] && call->out[0]->size) /* no rows: every sum is empty, as the check below ensures */
        job.run = call->out[0]->size / call->out[0]->shape[0];
    mx_code code = run_job(call, &job);
    mx_free_indices(row, call->in[1]);
    mx_free_indices(start, call->in[2]);
    return code;
}

MX_CPU_KERNELS(sparse) = {{"_rows_sum", run_rows_sum, NULL, MX_KERNEL_WIDEN}, {NULL, NULL, NULL}};
