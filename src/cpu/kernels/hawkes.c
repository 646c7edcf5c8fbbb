/* Hawkes processes on the CPU: one walk over the events of a sample, which keeps the memory of every kind and its
 * slopes.
 *
 * Between two events of a kind, d apart, its memory m fades: m -> m exp(-beta d) + 1.  Everything is computed in
 * double.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <string.h>

#include "base/alloc.h"
#include "base/threads.h"
#include "cpu/kernels/widen.h"
#include "gluon/op.gen.h"
#include "ndarray/convert.h"

enum { LDA, ALPHA, BETA, STATE, LAGS, MARKS, LENGTH, MAX_TIME, INPUTS };

typedef struct hawkes_job {
    const double *in[INPUTS + 2]; /* the inputs as doubles; backwards also the two gradients */
    double *out[4];               /* backwards: of alpha and beta per sample (N, K) */
    double *memory;               /* (N, 4, K): memory, its slopes by beta and by the state, time of the last event */
    int64_t kinds, times;
    bool back;
} hawkes_job;

/* Moves the memory of a kind by d; adds what the likelihood loses meanwhile. */
static void fade(const hawkes_job *job, int64_t n, int64_t k, double d, double *likelihood)
{
    const int64_t kinds = job->kinds, i = n * kinds + k;
    double *m = job->memory + 4 * n * kinds + k, *by_beta = m + kinds, *by_state = by_beta + kinds;
    const double lda = job->in[LDA][i], alpha = job->in[ALPHA][k], beta = job->in[BETA][k],
                 g = job->back ? job->in[INPUTS][n] : 0;
    const double left = exp(-beta * d), gone = 1 - left;
    *likelihood -= lda * d + alpha * *m * gone;
    if (job->back) {
        job->out[0][i] -= g * d, job->out[1][i] -= g * *m * gone;
        job->out[2][i] -= g * alpha * (*by_beta * gone + *m * d * left), job->out[3][i] -= g * alpha * *by_state * gone;
    }
    *by_beta = (*by_beta - *m * d) * left, *by_state *= left, *m *= left;
}

/* An event of kind k: its intensity, then the memory has one more. */
static void happen(const hawkes_job *job, int64_t n, int64_t k, double *likelihood)
{
    const int64_t kinds = job->kinds, i = n * kinds + k;
    double *m = job->memory + 4 * n * kinds + k, *by_beta = m + kinds, *by_state = by_beta + kinds;
    const double alpha = job->in[ALPHA][k], beta = job->in[BETA][k], lambda = job->in[LDA][i] + alpha * beta * *m;
    *likelihood += log(lambda);
    if (job->back) {
        const double g = job->in[INPUTS][n] / lambda;
        job->out[0][i] += g, job->out[1][i] += g * beta * *m;
        job->out[2][i] += g * alpha * (*m + beta * *by_beta), job->out[3][i] += g * alpha * beta * *by_state;
    }
    *m += 1;
}

static void samples(void *arg, int64_t begin, int64_t end)
{
    const hawkes_job *job = arg;
    const int64_t kinds = job->kinds;
    for (int64_t n = begin; n < end; n++) {
        double *memory = job->memory + 4 * n * kinds, *last = memory + 3 * kinds, t = 0, likelihood = 0;
        const double length = job->in[LENGTH][n];
        const int64_t events = !(length > 0) ? 0 : length > (double)job->times ? job->times : (int64_t)length;
        memcpy(memory, job->in[STATE] + n * kinds, (size_t)kinds * sizeof *memory);
        for (int64_t k = 0; k < kinds; k++)
            memory[kinds + k] = 0, memory[2 * kinds + k] = 1, last[k] = 0;
        for (int64_t e = n * job->times; e < n * job->times + events; e++) {
            const int64_t k = (int64_t)job->in[MARKS][e];
            t += job->in[LAGS][e];
            fade(job, n, k, t - last[k], &likelihood);
            happen(job, n, k, &likelihood);
            last[k] = t;
        }
        for (int64_t k = 0; k < kinds; k++) {
            fade(job, n, k, job->in[MAX_TIME][n] - last[k], &likelihood);
            if (job->back) {
                const double h = job->in[INPUTS + 1][n * kinds + k];
                job->out[2][n * kinds + k] += h * memory[kinds + k],
                    job->out[3][n * kinds + k] += h * memory[2 * kinds + k];
            } else
                job->out[1][n * kinds + k] = memory[k];
        }
        if (!job->back)
            job->out[0][n] = likelihood;
    }
}

static mx_code check_marks(const mx_kernel_call *call, const hawkes_job *job)
{
    for (int64_t n = 0; n < call->in[LDA]->shape[0]; n++)
        for (int64_t e = 0; e < job->times && (double)e < job->in[LENGTH][n]; e++) {
            const double mark = job->in[MARKS][n * job->times + e];
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

static mx_code run_all(const mx_kernel_call *call, hawkes_job *job)
{
    const int64_t batch = call->in[LDA]->shape[0], kinds = job->kinds;
    if (check_marks(call, job))
        return mx_error_code();
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
    const int64_t *lda = call->in[LDA]->shape;
    hawkes_job job = {.kinds = lda[1], .times = call->in[LAGS]->shape[1], .back = call->n_in > INPUTS};
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
    if (!job.back && lda[1] == 0) /* without kinds there is still a likelihood per sample: it has no events */
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
