/* CTCLoss: forward and backward sums in logarithms (op/formula/ctc.h), one sequence per task.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "op/formula/ctc.h"

#include "base/alloc.h"
#include "base/error.h"
#include "base/interrupt.h"
#include "base/threads.h"
#include "cpu/kernels/widen.h"
#include "gluon/op.gen.h"
#include "ndarray/convert.h"

typedef struct ctc_job {
    const void *data;      /* (T, N, C) */
    void *loss, *gradient; /* (N), (T, N, C) */
    mx_dtype dtype;
    int64_t steps, batch, classes, longest;
    int64_t *label;        /* (N, L) */
    int64_t *time, *count; /* (N) lengths of the sequences and of their labels */
    int64_t blank;
    double *memory; /* (N, room) */
    int64_t room;   /* doubles per sequence */
} ctc_job;

static double element(const ctc_job *job, const void *array, int64_t i)
{
    return job->dtype == MX_FLOAT32 ? (double)((const float *)array)[i] : ((const double *)array)[i];
}
static void set_element(const ctc_job *job, void *array, int64_t i, double value)
{
    if (job->dtype == MX_FLOAT32)
        ((float *)array)[i] = (float)value;
    else
        ((double *)array)[i] = value;
}

/* log softmax of sequence n into logp (time, C) */
static void log_probabilities(const ctc_job *job, int64_t n, double *logp)
{
    for (int64_t t = 0; t < job->time[n] && !mx_stop_wanted(); t++) {
        const int64_t at = (t * job->batch + n) * job->classes;
        double max = -INFINITY, sum = 0;
        for (int64_t c = 0; c < job->classes; c++) {
            const double x = element(job, job->data, at + c);
            max = x > max ? x : max; /* not fmax, at which gcc 12 fails for ARM */
        }
        for (int64_t c = 0; c < job->classes; c++)
            sum += exp(element(job, job->data, at + c) - max);
        for (int64_t c = 0; c < job->classes; c++)
            logp[t * job->classes + c] = element(job, job->data, at + c) - max - log(sum);
    }
}

static void go_forward(const mx_ctc_states *q, const double *logp, int64_t time, int64_t classes, double *alpha)
{
    for (int64_t t = 0; t < time && !mx_stop_wanted(); t++)
        for (int64_t s = 0; s < q->count; s++)
            alpha[t * q->count + s] =
                mx_ctc_arrive(q, t ? alpha + (t - 1) * q->count : NULL, s) + logp[t * classes + mx_ctc_class(q, s)];
}

/* beta of one time; after: of the next one with the probabilities of its states, NULL at the last one */
static void go_backward(const mx_ctc_states *q, const double *after, double *beta)
{
    for (int64_t s = 0; s < q->count; s++)
        beta[s] = mx_ctc_go_on(q, after, s);
}

static void one_sequence(const ctc_job *job, int64_t n)
{
    const int64_t time = job->time[n], classes = job->classes;
    const mx_ctc_states q = {job->label + n * job->longest, 2 * job->count[n] + 1, job->blank};
    double *logp = job->memory + n * job->room, *alpha = logp + job->steps * classes;
    double *beta = alpha + job->steps * (2 * job->longest + 1), *after = beta + 2 * job->longest + 1,
           *shares = after + 2 * job->longest + 1;
    log_probabilities(job, n, logp);
    go_forward(&q, logp, time, classes, alpha);
    const double total = time ? mx_ctc_total(&q, alpha + (time - 1) * q.count) : q.count > 1 ? -INFINITY : 0;
    set_element(job, job->loss, n, -total);
    for (int64_t t = job->steps - 1; t >= 0 && !mx_stop_wanted(); t--) {
        const int64_t at = (t * job->batch + n) * classes;
        for (int64_t c = 0; c < classes; c++)
            shares[c] = 0;
        if (t < time) {
            go_backward(&q, t == time - 1 ? NULL : after, beta);
            for (int64_t s = 0; s < q.count; s++) {
                const int64_t c = mx_ctc_class(&q, s);
                shares[c] += total > -INFINITY ? exp(alpha[t * q.count + s] + beta[s] - total) : 0;
                beta[s] += logp[t * classes + c];
            }
            double *spare = after;
            after = beta, beta = spare;
        }
        for (int64_t c = 0; c < classes; c++)
            set_element(job, job->gradient, at + c, t < time ? exp(logp[t * classes + c]) - shares[c] : 0);
    }
}

static void sequences(void *arg, int64_t begin, int64_t end)
{
    for (int64_t n = begin; n < end && !mx_stop_wanted(); n++)
        one_sequence(arg, n);
}

/* ---- arguments ----------------------------------------------------------------------------------------------- */

static void take(int64_t *to, const mx_array *x) { mx_convert(to, MX_INT64, mx_data(x), (mx_dtype)x->dtype, x->size); }

/* Lengths from the inputs, or: all steps; labels up to the padding. */
static mx_code read_lengths(ctc_job *job, const mx_kernel_call *call, const mx_ctc_attrs *attrs)
{
    take(job->label, call->in[1]);
    for (int64_t n = 0; n < job->batch; n++) {
        int64_t count = 0;
        while (count < job->longest &&
               job->label[n * job->longest + count] >= (attrs->blank_label == MX_CTC_FIRST ? 1 : 0))
            count++;
        job->time[n] = job->steps, job->count[n] = count;
    }
    if (attrs->use_data_lengths)
        take(job->time, call->in[2]);
    if (attrs->use_label_lengths)
        take(job->count, call->in[3]);
    for (int64_t n = 0; n < job->batch; n++) {
        if (job->time[n] < 0 || job->time[n] > job->steps || job->count[n] < 0 || job->count[n] > job->longest)
            return mx_op_fail(call->op, MX_ERR_INDEX,
                              "sample %lld has %lld steps and %lld labels, wanted at most %lld and %lld", (long long)n,
                              (long long)job->time[n], (long long)job->count[n], (long long)job->steps,
                              (long long)job->longest);
        for (int64_t i = 0; i < job->count[n]; i++) {
            const int64_t label = job->label[n * job->longest + i];
            if (label < 0 || label >= job->classes)
                return mx_op_fail(call->op, MX_ERR_INDEX,
                                  "label %lld of sample %lld is %lld, wanted a class below %lld", (long long)i,
                                  (long long)n, (long long)label, (long long)job->classes);
        }
    }
    return MX_OK;
}

static mx_code run_ctc(const mx_kernel_call *call)
{
    const mx_ctc_attrs *attrs = call->attrs;
    const mx_dtype compute = mx_compute_type(call);
    const mx_array *data = call->in[0], *label = call->in[1];
    if (!mx_inputs_are(call, compute, 14))
        return MX_DECLINED;
    if ((attrs->use_data_lengths && mx_is_none(call->in[2])) || (attrs->use_label_lengths && mx_is_none(call->in[3])))
        return mx_op_fail(call->op, MX_ERR_ARGUMENT,
                          "use_data_lengths or use_label_lengths is True, but the input with the lengths is missing");
    ctc_job job = {.data = mx_data(data), .loss = mx_data(call->out[0]), .gradient = mx_data(call->out[1]), .dtype = compute,
                   .steps = data->shape[0], .batch = data->shape[1], .classes = data->shape[2], .longest = label->shape[1]};
    job.blank = attrs->blank_label == MX_CTC_FIRST ? 0 : job.classes - 1;
    const int64_t states_count = 2 * job.longest + 1;
    job.room = job.steps * (job.classes + states_count) + 2 * states_count + job.classes;
    const size_t integers = (size_t)(job.batch * (job.longest + 2)) * sizeof(int64_t),
                 doubles = (size_t)(job.batch * job.room) * sizeof(double);
    job.label = mx_alloc(integers), job.memory = mx_alloc(doubles);
    mx_code code = job.label && job.memory ? MX_OK : MX_ERR_MEMORY;
    if (!code) {
        job.time = job.label + job.batch * job.longest, job.count = job.time + job.batch;
        code = read_lengths(&job, call, attrs);
    }
    if (!code)
        mx_parallel(job.batch, 1 + 1024 / job.room, sequences, &job);
    mx_free(job.label, integers);
    mx_free(job.memory, doubles);
    return code;
}

/* inputs: ograd (N), gradient (T, N, C) */
static mx_code run_backward(const mx_kernel_call *call)
{
    const mx_dtype compute = mx_compute_type(call);
    const mx_array *ograd = call->in[0], *gradient = call->in[1];
    if (!mx_inputs_are(call, compute, 0))
        return MX_DECLINED;
    if (gradient->ndim != 3 || ograd->size != gradient->shape[1])
        return mx_op_fail(call->op, MX_ERR_SHAPE, "gradient must be (time, batch, classes) and ograd (batch)");
    const ctc_job job = {.dtype = compute};
    const int64_t batch = gradient->shape[1], classes = gradient->shape[2];
    for (int64_t i = 0; i < gradient->size; i++)
        set_element(&job, mx_data(call->out[0]), i,
                    element(&job, mx_data(gradient), i) * element(&job, mx_data(ograd), i / classes % batch));
    return MX_OK;
}

MX_CPU_KERNELS(ctc) = {{"CTCLoss", run_ctc, NULL, MX_KERNEL_WIDEN},
                       {"_backward_CTCLoss", run_backward, NULL, MX_KERNEL_WIDEN},
                       {NULL, NULL, NULL}};
