/* Hawkes processes on the CPU (op/formula/hawkes.h): samples on several threads.  SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <string.h>

#include "base/alloc.h"
#include "base/interrupt.h"
#include "base/threads.h"
#include "cpu/kernels/widen.h"
#include "gluon/op.gen.h"
#include "ndarray/convert.h"

#define MX_HAWKES_STOP(event) mx_stop_wanted_at(event)
#include "op/formula/hawkes.h"

static void samples(void *arg, int64_t begin, int64_t end)
{
    for (int64_t n = begin; n < end; n++)
        mx_hawkes_sample(arg, n);
}

static mx_code check_marks(const mx_kernel_call *call, const mx_hawkes *job)
{
    for (int64_t n = 0; n < call->in[MX_HAWKES_LDA]->shape[0] && !mx_stop_wanted(); n++)
        for (int64_t e = 0; e < job->times && (double)e < job->in[MX_HAWKES_LENGTH][n] && !mx_stop_wanted_at(e); e++) {
            const double mark = job->in[MX_HAWKES_MARKS][n * job->times + e];
            if (!(mark > -1 && mark < (double)job->kinds))
                return mx_op_fail(call->op, MX_ERR_INDEX, "marks[%lld, %lld] is %g, wanted 0..%lld", (long long)n,
                                  (long long)e, mark, (long long)job->kinds - 1);
        }
    return MX_OK;
}

/* Sums of (N, K) over N, into the first row. */
static void sum_rows(double *x, int64_t rows, int64_t columns)
{
    for (int64_t i = columns; i < rows * columns; i++)
        x[i % columns] += x[i];
}

static mx_code run_all(const mx_kernel_call *call, mx_hawkes *job)
{
    const int64_t batch = call->in[MX_HAWKES_LDA]->shape[0], kinds = job->kinds;
    if (check_marks(call, job))
        return mx_error_code();
    if (mx_stop_wanted()) /* marks that were not checked are no indices */
        return MX_OK;
    if (job->back)
        for (int i = 0; i < 4; i++)
            memset(job->out[i], 0, (size_t)(batch * kinds) * sizeof(double));
    mx_parallel(batch, 1 + MX_GRAIN / (32 * (job->times + kinds) + 1), samples, job);
    for (int i = 0; i < call->n_out; i++) {
        if (job->back && (i == 1 || i == 2))
            sum_rows(job->out[i], batch, kinds);
        if (!batch && mx_bytes(call->out[i]))
            memset(mx_data(call->out[i]), 0, mx_bytes(call->out[i]));
        else if (batch)
            mx_convert(mx_data(call->out[i]), (mx_dtype)call->out[i]->dtype, job->out[i], MX_FLOAT64,
                       call->out[i]->size);
    }
    return MX_OK;
}

static mx_code run(const mx_kernel_call *call)
{
    const int64_t *lda = call->in[MX_HAWKES_LDA]->shape;
    mx_hawkes job = {
        .kinds = lda[1], .times = call->in[MX_HAWKES_LAGS]->shape[1], .back = call->n_in > MX_HAWKES_INPUTS};
    int64_t all = lda[0] * lda[1] * 8;
    for (int i = 0; i < call->n_in; i++)
        all += call->in[i]->size;
    const size_t bytes = (size_t)all * sizeof(double) + 64;
    double *block = mx_alloc(bytes), *next = block;
    if (!block)
        return mx_error_code();
    for (int i = 0; i < call->n_in; i++) {
        mx_convert(next, MX_FLOAT64, mx_data(call->in[i]), (mx_dtype)call->in[i]->dtype, call->in[i]->size);
        job.in[i] = next, next += call->in[i]->size;
    }
    job.memory = next, next += 4 * lda[0] * lda[1];
    for (int i = 0; i < 4; i++)
        job.out[i] = next, next += lda[0] * lda[1];
    if (!job.back && lda[1] == 0) /* without kinds there is still a likelihood per sample, without events */
        job.out[0] = NULL;
    mx_code code = MX_OK;
    if (job.out[0])
        code = run_all(call, &job);
    else if (mx_bytes(call->out[0]))
        memset(mx_data(call->out[0]), 0, mx_bytes(call->out[0]));
    mx_free(block, bytes);
    return code;
}

MX_CPU_KERNELS(hawkes) = {
    {"_contrib_hawkesll", run, NULL}, {"_backward__contrib_hawkesll", run, NULL}, {NULL, NULL, NULL}};
