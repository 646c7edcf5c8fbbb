/* Hawkes processes (op/formula/hawkes.h): a thread per sample.
 *
 * An invalid mark makes the likelihood of its sample NaN and sets the device error flag; the host does not wait.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "cuda/kernels/items.h"
extern "C" {
#include "op/formula/hawkes.h"
}

/* Where the mark of an event (batch, times) is not in [0, kinds), it becomes 0, and the time since the event before NaN. */
static mx_code settle_marks(const mx_kernel_call *call, const mx_hawkes &job, int64_t batch)
{
    double *marks = (double *)job.in[MX_HAWKES_MARKS], *lags = (double *)job.in[MX_HAWKES_LAGS];
    const double *length = job.in[MX_HAWKES_LENGTH];
    const int64_t times = job.times, kinds = job.kinds;
    const mx_cuda_error_flag flag(call, MX_ERR_INDEX, "one of the marks is %lld, wanted 0..%lld");
    return mx_cuda_each(call, batch * times, [=] __device__(int64_t i) {
        if ((marks[i] > -1 && marks[i] < (double)kinds) || !((double)(i % times) < length[i / times]))
            return;
        flag.set(mx_cuda_int64(marks[i]), kinds - 1);
        marks[i] = 0;
        lags[i] = nan("");
    });
}

/* Results as they are, or summed over the samples: (N, K) -> (K). */
static mx_code write(const mx_kernel_call *call, mx_array *out, const double *from, int64_t repeats)
{
    void *to = mx_data(out);
    const int type = out->dtype;
    const int64_t n = out->size;
    return mx_cuda_each(call, n, [=] __device__(int64_t i) {
        double sum = 0;
        for (int64_t r = 0; r < repeats; r++)
            sum += from[r * n + i];
        mx_cuda_store<double>(to, type, i, sum);
    });
}

static mx_code walk(const mx_kernel_call *call, mx_cuda_device *d, const mx_hawkes &job, int64_t batch)
{
    mx_code code = settle_marks(call, job, batch);
    for (int i = 0; !code && job.back && i < 4; i++)
        code = mx_cuda_fail(cudaMemsetAsync(job.out[i], 0, (size_t)(batch * job.kinds) * sizeof(double), d->stream),
                            call->op->name);
    code = code ? code : mx_cuda_each(call, batch, [=] __device__(int64_t n) { mx_hawkes_sample(&job, n); });
    for (int i = 0; !code && i < call->n_out; i++)
        code = write(call, call->out[i], job.out[i], job.back && (i == 1 || i == 2) ? batch : 1);
    return code;
}

static mx_code run(const mx_kernel_call *call)
{
    const int64_t batch = call->in[MX_HAWKES_LDA]->shape[0], kinds = call->in[MX_HAWKES_LDA]->shape[1];
    mx_hawkes job = {{}, {}, nullptr, kinds, call->in[MX_HAWKES_LAGS]->shape[1], call->n_in > MX_HAWKES_INPUTS};
    mx_cuda_device *d = mx_cuda_of(call);
    if (!d)
        return mx_error_code();
    mx_code code = MX_OK;
    if (!batch || !kinds) { /* without kinds or samples nothing happens */
        for (int i = 0; !code && i < call->n_out; i++)
            if (call->out[i]->size)
                code = mx_cuda_fail(cudaMemsetAsync(mx_data(call->out[i]), 0, mx_bytes(call->out[i]), d->stream),
                                    call->op->name);
        return code;
    }
    int64_t all = 8 * batch * kinds;
    for (int i = 0; i < call->n_in; i++)
        all += call->in[i]->size;
    mx_cuda_scratch room(d, (size_t)all * sizeof(double));
    double *next = room.as<double>();
    if (!next)
        return mx_error_code();
    for (int i = 0; !code && i < call->n_in; next += call->in[i]->size, i++)
        job.in[i] = next, code = mx_cuda_to_doubles(call, call->in[i], next);
    job.memory = next, next += 4 * batch * kinds;
    for (int i = 0; i < 4; i++, next += batch * kinds)
        job.out[i] = next;
    return code ? code : walk(call, d, job, batch);
}

MX_CUDA_KERNELS(hawkes) = {
    {"_contrib_hawkesll", run, NULL}, {"_backward__contrib_hawkesll", run, NULL}, {NULL, NULL, NULL}};
