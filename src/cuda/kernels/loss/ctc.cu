/* CTCLoss (op/formula/ctc.h): one block walks forward over a sequence, another one backward; then all gradients at once.
 *
 * Nothing waits for the device: a sequence with invalid lengths or labels sets the device error flag, and its loss and
 * gradient are NaN.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "cuda/kernels/numbers.h"
extern "C" {
#include "op/formula/ctc.h"
}

#define MOST_SHARED 3072 /* states; two rows of them fit into 48 KB */

template <class T> struct ctc {
    const T *data;                                /* (T, N, C) */
    T *loss, *gradient;                           /* (N), (T, N, C) */
    int64_t steps, batch, classes, longest, most; /* most: states of the longest label */
    int64_t blank;
    int64_t *label, *time, *count; /* (N, L), (N) steps, (N) labels; count -1: invalid */
    double *sum, *total;           /* (T, N) log of the softmax's sum; (N) log of all paths */
    double *alpha, *beta;          /* (N, T, most) */
    double *rows;                  /* (2 N, 2, most), NULL: in shared memory */

    __device__ double logp(int64_t t, int64_t n, int64_t c) const
    {
        return (double)data[(t * batch + n) * classes + c] - sum[t * batch + n];
    }
    __device__ mx_ctc_states states(int64_t n) const { return {label + n * longest, 2 * count[n] + 1, blank}; }
};

/* ---- reading the inputs --------------------------------------------------------------------------------------- */

/* Labels end before the first padding, unless lengths are given. */
template <class T> static mx_code read_lengths(const mx_kernel_call *call, const ctc<T> &c, const mx_ctc_attrs *a)
{
    const void *labels = mx_data(call->in[1]), *times = a->use_data_lengths ? mx_data(call->in[2]) : nullptr,
               *counts = a->use_label_lengths ? mx_data(call->in[3]) : nullptr;
    const int label_type = call->in[1]->dtype, time_type = times ? call->in[2]->dtype : 0,
              count_type = counts ? call->in[3]->dtype : 0;
    const mx_cuda_error_flag too_long(call, MX_ERR_INDEX,
                                      "one of the samples has %lld steps and %lld labels, more than there are"),
        bad_label(call, MX_ERR_INDEX, "one of the labels is %lld, wanted a class below %lld");
    const int64_t least = a->blank_label == MX_CTC_FIRST ? 1 : 0;
    return mx_cuda_rows(call, c.batch, c.longest, [=] __device__(int64_t n) {
        int64_t padding = c.longest;
        for (int64_t i = threadIdx.x; i < c.longest; i += blockDim.x) {
            const int64_t label = mx_cuda_load<int64_t>(labels, label_type, n * c.longest + i);
            c.label[n * c.longest + i] = label;
            padding = label < least && i < padding ? i : padding;
        }
        padding = -mx_cuda_block_max(-padding);
        const int64_t count = counts ? mx_cuda_load<int64_t>(counts, count_type, n) : padding,
                      time = times ? mx_cuda_load<int64_t>(times, time_type, n) : c.steps;
        int bad = count < 0 || count > c.longest || time < 0 || time > c.steps;
        if (bad && !threadIdx.x)
            too_long.set(time, count);
        for (int64_t i = threadIdx.x; !bad && i < count; i += blockDim.x)
            if (c.label[n * c.longest + i] < 0 || c.label[n * c.longest + i] >= c.classes)
                bad = 1, bad_label.set(c.label[n * c.longest + i], c.classes);
        bad = mx_cuda_block_max(bad);
        if (!threadIdx.x)
            c.time[n] = bad ? 0 : time, c.count[n] = bad ? -1 : count;
    });
}

template <class T> static mx_code sum_classes(const mx_kernel_call *call, const ctc<T> &c)
{
    return mx_cuda_rows(call, c.steps * c.batch, c.classes, [=] __device__(int64_t row) {
        const T *x = c.data + row * c.classes;
        double most = -INFINITY, sum = 0;
        for (int64_t i = threadIdx.x; i < c.classes; i += blockDim.x)
            most = fmax(most, (double)x[i]);
        most = mx_cuda_block_max(most);
        for (int64_t i = threadIdx.x; i < c.classes; i += blockDim.x)
            sum += exp((double)x[i] - most);
        sum = mx_cuda_block_sum(sum);
        if (!threadIdx.x)
            c.sum[row] = most + log(sum);
    });
}

/* ---- the walks ------------------------------------------------------------------------------------------------ */

/* alpha or, backwards, beta of sequence n.  room (2, most): the last row and the current one; backward with the
 * probabilities of the states.  The next probability is fetched while this step is computed. */
template <class T> __device__ void walk(const ctc<T> &c, int64_t n, bool back, double *room)
{
    const int64_t time = c.time[n], mine = threadIdx.x;
    const mx_ctc_states q = c.states(n);
    double *own = (back ? c.beta : c.alpha) + n * c.steps * c.most, ahead = 0;
    if (time && mine < q.count)
        ahead = c.logp(back ? time - 1 : 0, n, mx_ctc_class(&q, mine));
    for (int64_t step = 0; step < time; step++) {
        const int64_t t = back ? time - 1 - step : step;
        const double *before = step ? room + (step - 1) % 2 * c.most : nullptr;
        for (int64_t s = mine; s < q.count; s += blockDim.x) {
            const int64_t state = mx_ctc_class(&q, s);
            const double p = s == mine ? ahead : c.logp(t, n, state);
            if (s == mine && step + 1 < time)
                ahead = c.logp(back ? t - 1 : t + 1, n, state);
            const double sum = back ? mx_ctc_go_on(&q, before, s) : mx_ctc_arrive(&q, before, s);
            own[t * c.most + s] = back ? sum : sum + p;
            room[step % 2 * c.most + s] = sum + p;
        }
        __syncthreads();
    }
    if (!back && !mine) {
        const double total = time ? mx_ctc_total(&q, room + (time - 1) % 2 * c.most) : q.count > 1 ? -INFINITY : 0;
        c.total[n] = total, c.loss[n] = (T)-total;
    }
}

template <class T> __global__ void walk_kernel(ctc<T> c)
{
    extern __shared__ double shared[];
    for (int64_t job = blockIdx.x; job < 2 * c.batch; job += gridDim.x) {
        const int64_t n = job / 2;
        if (c.count[n] >= 0)
            walk(c, n, job % 2, c.rows ? c.rows + job * 2 * c.most : shared);
        else if (!threadIdx.x)
            c.loss[n] = (T)NAN;
        __syncthreads();
    }
}

template <class T> static mx_code walk_all(const mx_kernel_call *call, mx_cuda_device *d, const ctc<T> &c)
{
    const int threads = c.most >= 1024 ? 1024 : (int)(c.most + 31) / 32 * 32;
    const size_t shared = c.rows ? 0 : (size_t)c.most * 2 * sizeof(double);
    walk_kernel<<<mx_cuda_blocks(d, 2 * c.batch), threads, shared, d->stream>>>(c);
    return mx_cuda_launched(call);
}

/* ---- gradients ------------------------------------------------------------------------------------------------ */

template <class T> static mx_code write_gradients(const mx_kernel_call *call, const ctc<T> &c)
{
    return mx_cuda_rows(call, c.steps * c.batch, c.classes, [=] __device__(int64_t row) {
        const int64_t t = row / c.batch, n = row % c.batch;
        const bool bad = c.count[n] < 0, inside = t < c.time[n];
        T *g = c.gradient + row * c.classes;
        for (int64_t i = threadIdx.x; i < c.classes; i += blockDim.x)
            g[i] = bad ? (T)NAN : inside ? (T)exp(c.logp(t, n, i)) : 0;
        if (bad || !inside || !(c.total[n] > -INFINITY))
            return;
        const mx_ctc_states q = c.states(n);
        const int64_t at = (n * c.steps + t) * c.most;
        double blanks = 0;
        for (int64_t s = 2 * (int64_t)threadIdx.x; s < q.count; s += 2 * blockDim.x)
            blanks += exp(c.alpha[at + s] + c.beta[at + s] - c.total[n]);
        blanks = mx_cuda_block_sum(blanks); /* synchronizes: g is complete */
        if (!threadIdx.x)
            atomicAdd(&g[c.blank], (T)-blanks);
        for (int64_t s = 2 * (int64_t)threadIdx.x + 1; s < q.count; s += 2 * blockDim.x)
            atomicAdd(&g[q.label[s / 2]], (T)-exp(c.alpha[at + s] + c.beta[at + s] - c.total[n]));
    });
}

template <class T> static mx_code run_ctc(const mx_kernel_call *call)
{
    const mx_ctc_attrs *a = (const mx_ctc_attrs *)call->attrs;
    if (!mx_cuda_inputs_are<T>(call, 14))
        return MX_DECLINED;
    if ((a->use_data_lengths && mx_is_none(call->in[2])) || (a->use_label_lengths && mx_is_none(call->in[3])))
        return mx_op_fail(call->op, MX_ERR_ARGUMENT, "lengths are to be used, but the input is absent");
    const int64_t *data = call->in[0]->shape, longest = call->in[1]->shape[1], most = 2 * longest + 1;
    mx_cuda_device *d = mx_cuda_of(call);
    if (!d || !data[1])
        return d ? MX_OK : mx_error_code();
    ctc<T> c = {(const T *)mx_data(call->in[0]), (T *)mx_data(call->out[0]), (T *)mx_data(call->out[1]),
                data[0], data[1], data[2], longest, most, a->blank_label == MX_CTC_FIRST ? 0 : data[2] - 1};
    const int64_t rows = most > MOST_SHARED ? 4 * c.batch * most : 0, cells = c.batch * c.steps * most;
    mx_cuda_scratch integers(d, (size_t)(c.batch * (longest + 2)) * sizeof(int64_t)),
        doubles(d, (size_t)(c.steps * c.batch + c.batch + 2 * cells + rows) * sizeof(double));
    if (!integers.memory || !doubles.memory)
        return mx_error_code();
    c.label = integers.as<int64_t>(), c.time = c.label + c.batch * longest, c.count = c.time + c.batch;
    c.sum = doubles.as<double>(), c.total = c.sum + c.steps * c.batch;
    c.alpha = c.total + c.batch, c.beta = c.alpha + cells, c.rows = rows ? c.beta + cells : nullptr;
    mx_code code = read_lengths(call, c, a);
    code = code ? code : sum_classes(call, c);
    code = code ? code : walk_all(call, d, c);
    return code ? code : write_gradients(call, c);
}

/* inputs: ograd (N), gradient (T, N, C) */
template <class T> static mx_code run_backward(const mx_kernel_call *call)
{
    const mx_array *ograd = call->in[0], *gradient = call->in[1];
    if (!mx_cuda_inputs_are<T>(call, 0))
        return MX_DECLINED;
    if (gradient->ndim != 3 || ograd->size != gradient->shape[1])
        return mx_op_fail(call->op, MX_ERR_SHAPE, "gradient must be (time, batch, classes) and ograd (batch)");
    const int64_t batch = gradient->shape[1], classes = gradient->shape[2];
    const T *g = (const T *)mx_data(ograd), *from = (const T *)mx_data(gradient);
    T *to = (T *)mx_data(call->out[0]);
    return mx_cuda_each(call, gradient->size, [=] __device__(int64_t i) { to[i] = from[i] * g[i / classes % batch]; });
}

MX_CUDA_FLOATS(run_loss, run_ctc)
MX_CUDA_FLOATS(run_loss_backward, run_backward)

MX_CUDA_KERNELS(ctc) = {
    {"CTCLoss", run_loss, NULL}, {"_backward_CTCLoss", run_loss_backward, NULL}, {NULL, NULL, NULL}};
