/* Softmax, its gradients and cross entropy: rows on threads, each row in cache.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <math.h>

#include "base/error.h"
#include "base/interrupt.h"
#include "base/scratch.h"
#include "base/threads.h"
#include "cpu/kernels/pointwise/math_f32.h"
#include "cpu/kernels/loss/exponentials.h"
#include "cpu/kernels/widen.h"
#include "gluon/op.gen.h"
#include "ndarray/convert.h"

#define PIECE 1024 /* elements that are exponentiated, then summed */
#define PIECES 64  /* per row, with separate maxima; longer rows have longer pieces */
#define COLUMNS 64 /* rows processed side by side if the axis is not the last one */

typedef struct softmax_job {
    const void *in[3]; /* data; gradients: ograd, output; cross entropy: see the loops */
    void *out;
    void *lse;      /* (rows) cross entropy: log of the sum of exponentials */
    void *loss;     /* (rows) cross entropy with its gradient, which is `out` */
    int64_t *valid; /* (rows) number of valid values, or the class; NULL: all, or labels are distributions */
    int64_t outer, n, inner;
    double scale; /* of the data */
    bool logarithm;
} softmax_job;

#define T float
#define NAME(x) x##_f
#define EXP m_exp
#define EXP_NEGATIVE exp_of_negative
#define LOG m_log
#include "cpu/kernels/loss/softmax_body.h"
#undef T
#undef NAME
#undef EXP
#undef EXP_NEGATIVE
#undef LOG
#define T double
#define NAME(x) x##_d
#define EXP exp
#define EXP_NEGATIVE exp
#define LOG log
#include "cpu/kernels/loss/softmax_body.h"
#undef T
#undef NAME
#undef EXP
#undef EXP_NEGATIVE
#undef LOG

static void split(softmax_job *job, const mx_array *x, int64_t axis)
{
    const int at = mx_axis(axis, x->ndim);
    job->outer = 1, job->n = x->shape[at], job->inner = 1;
    for (int i = 0; i < at; i++)
        job->outer *= x->shape[i];
    for (int i = at + 1; i < x->ndim; i++)
        job->inner *= x->shape[i];
}

/* Lengths or class indices of any type as integers in [0, limit]; NULL with an error if out of memory. */
static int64_t *integers(const mx_array *x, int64_t limit)
{
    int64_t *values = mx_scratch_take((size_t)x->size * sizeof *values);
    if (!values)
        return NULL;
    mx_convert(values, MX_INT64, mx_data(x), (mx_dtype)x->dtype, x->size);
    for (int64_t i = 0; i < x->size; i++)
        values[i] = values[i] < 0 ? 0 : values[i] > limit ? limit : values[i];
    return values;
}

/* Distributes rows or blocks of columns over threads if there is enough work. */
static void over_blocks(softmax_job *job, mx_range_fn body)
{
    const int64_t blocks = job->outer * ((job->inner + COLUMNS - 1) / COLUMNS);
    const int64_t work = job->n * (job->inner < COLUMNS ? job->inner : COLUMNS);
    mx_parallel(blocks, 1 + MX_GRAIN / 4 / (work + 1), body, job);
}

static mx_code run_kind(const mx_kernel_call *call, bool logarithm, double sign)
{
    const mx_softmax_attrs *attrs = call->attrs;
    const mx_dtype compute = mx_compute_type(call);
    if (!mx_inputs_are(call, compute, 2))
        return MX_DECLINED;
    softmax_job job = {.in = {mx_data(call->in[0])}, .out = mx_data(call->out[0]), .logarithm = logarithm};
    split(&job, call->in[0], attrs->axis);
    job.scale = sign / (isnan(attrs->temperature) ? 1 : attrs->temperature);
    const bool lengths = attrs->use_length;
    if (lengths && mx_is_none(call->in[1]))
        return mx_op_fail(call->op, MX_ERR_ARGUMENT, "use_length is True, but the input length is absent");
    if (lengths && !(job.valid = integers(call->in[1], job.n)))
        return MX_ERR_MEMORY;
    over_blocks(&job, compute == MX_FLOAT32 ? softmax_range_f : softmax_range_d);
    if (lengths)
        mx_scratch_give(job.valid, (size_t)call->in[1]->size * sizeof *job.valid);
    return MX_OK;
}
static mx_code run_softmax(const mx_kernel_call *call) { return run_kind(call, false, 1); }
static mx_code run_log_softmax(const mx_kernel_call *call) { return run_kind(call, true, 1); }
static mx_code run_softmin(const mx_kernel_call *call) { return run_kind(call, false, -1); }

static mx_code run_backward_kind(const mx_kernel_call *call, bool logarithm, double sign)
{
    const mx_softmax_attrs *attrs = call->attrs;
    const mx_dtype compute = mx_compute_type(call);
    if (!mx_inputs_are(call, compute, 0))
        return MX_DECLINED;
    softmax_job job = {
        .in = {mx_data(call->in[0]), mx_data(call->in[1])}, .out = mx_data(call->out[0]), .logarithm = logarithm};
    split(&job, call->in[0], attrs->axis);
    job.scale = sign / (isnan(attrs->temperature) ? 1 : attrs->temperature);
    over_blocks(&job, compute == MX_FLOAT32 ? backward_range_f : backward_range_d);
    return MX_OK;
}
static mx_code run_backward_softmax(const mx_kernel_call *call) { return run_backward_kind(call, false, 1); }
static mx_code run_backward_log_softmax(const mx_kernel_call *call) { return run_backward_kind(call, true, 1); }
static mx_code run_backward_softmin(const mx_kernel_call *call) { return run_backward_kind(call, false, -1); }

static mx_code run_activation(const mx_kernel_call *call)
{
    const mx_softmax_activation_attrs *attrs = call->attrs;
    const mx_dtype compute = mx_compute_type(call);
    if (!mx_inputs_are(call, compute, 0))
        return MX_DECLINED;
    softmax_job job = {.in = {mx_data(call->in[0])}, .out = mx_data(call->out[0]), .scale = 1};
    split(&job, call->in[0], 1);
    if (attrs->mode == MX_SOFTMAX_ACTIVATION_INSTANCE)
        job.n *= job.inner, job.inner = 1;
    over_blocks(&job, compute == MX_FLOAT32 ? softmax_range_f : softmax_range_d);
    return MX_OK;
}

/* ---- cross entropy ---------------------------------------------------------------------------------------- */

static mx_code no_classes(const mx_kernel_call *call)
{
    return mx_op_fail(call->op, MX_ERR_SHAPE, "there are no classes: the axis has size 0");
}

static void over_rows(softmax_job *job, mx_range_fn body)
{
    mx_parallel(job->outer * job->inner, 1 + MX_GRAIN / 4 / (job->n + 1), body, job);
}

/* Fills job->valid with the classes, or job->in[slot] with the distributions. */
static mx_code take_labels(softmax_job *job, const mx_array *label, bool sparse, int slot)
{
    if (!sparse) {
        job->in[slot] = mx_data(label);
        return MX_OK;
    }
    return (job->valid = integers(label, job->n - 1)) ? MX_OK : MX_ERR_MEMORY;
}

static void drop_labels(softmax_job *job, const mx_array *label)
{
    if (job->valid)
        mx_scratch_give(job->valid, (size_t)label->size * sizeof *job->valid);
}

static mx_code cross_entropy(const mx_kernel_call *call, int64_t axis, bool sparse, void *loss)
{
    softmax_job job = {.in = {mx_data(call->in[0])}, .out = loss, .lse = mx_data(call->out[1])};
    split(&job, call->in[0], axis);
    if (!job.n)
        return no_classes(call);
    if (take_labels(&job, call->in[1], sparse, 1))
        return MX_ERR_MEMORY;
    const bool is_float = call->in[0]->dtype == MX_FLOAT32;
    if (sparse)
        over_blocks(&job, is_float ? ce_class_range_f : ce_class_range_d);
    else
        over_rows(&job, is_float ? ce_range_f : ce_range_d);
    drop_labels(&job, call->in[1]);
    return MX_OK;
}

static mx_code run_ce(const mx_kernel_call *call)
{
    const mx_softmax_ce_attrs *attrs = call->attrs;
    const mx_dtype compute = mx_compute_type(call);
    if (!mx_inputs_are(call, compute, attrs->sparse_label ? 2 : 0))
        return MX_DECLINED;
    return cross_entropy(call, attrs->axis, attrs->sparse_label, mx_data(call->out[0]));
}

static mx_code run_total_ce(const mx_kernel_call *call)
{
    const mx_dtype compute = mx_compute_type(call);
    if (!mx_inputs_are(call, compute, 2))
        return MX_DECLINED;
    const int64_t rows = call->out[1]->size;
    const size_t bytes = mx_bytes(call->out[1]);
    void *loss = mx_scratch_take(bytes);
    mx_code code = !loss ? MX_ERR_MEMORY : rows ? cross_entropy(call, 1, true, loss) : MX_OK;
    if (!code && compute == MX_FLOAT32)
        *(float *)mx_data(call->out[0]) = row_sum_f(loss, rows);
    else if (!code)
        *(double *)mx_data(call->out[0]) = row_sum_d(loss, rows);
    mx_scratch_give(loss, bytes);
    return code;
}

/* inputs: ograd, pred, label, lse */
static mx_code run_backward_ce(const mx_kernel_call *call)
{
    const mx_softmax_ce_attrs *attrs = call->attrs;
    const mx_dtype compute = mx_compute_type(call);
    softmax_job job = {
        .in = {mx_data(call->in[1]), mx_data(call->in[0])}, .out = mx_data(call->out[0]), .lse = mx_data(call->in[3])};
    split(&job, call->in[1], attrs->axis);
    if (!mx_inputs_are(call, compute, attrs->sparse_label ? 4 : 0))
        return MX_DECLINED;
    if (!job.n)
        return no_classes(call);
    if (take_labels(&job, call->in[2], attrs->sparse_label, 2))
        return MX_ERR_MEMORY;
    over_rows(&job, compute == MX_FLOAT32 ? ce_backward_range_f : ce_backward_range_d);
    drop_labels(&job, call->in[2]);
    return MX_OK;
}

/* Distributions as labels: the two kernels, one after the other. */
static mx_code run_ce_both(const mx_kernel_call *call)
{
    const mx_array *loss = call->out[0];
    const size_t bytes = mx_bytes(loss);
    mx_storage room = {.memory = mx_scratch_take(bytes)};
    mx_array lse = *loss;
    lse.storage = &room, lse.offset = 0;
    mx_kernel_call forward = *call, backward = *call;
    forward.n_in = 2, forward.out = (mx_array *[]){call->out[0], &lse};
    backward.n_in = 4, backward.in = (mx_array *[]){call->in[2], call->in[0], call->in[1], &lse};
    backward.n_out = 1, backward.out = call->out + 1;
    mx_code code = room.memory ? run_ce(&forward) : MX_ERR_MEMORY;
    code = code ? code : run_backward_ce(&backward);
    mx_scratch_give(room.memory, bytes);
    return code;
}

/* inputs: pred, label, ograd */
static mx_code run_ce_gradient(const mx_kernel_call *call)
{
    const mx_softmax_ce_attrs *attrs = call->attrs;
    const mx_dtype compute = mx_compute_type(call);
    if (!attrs->sparse_label)
        return run_ce_both(call);
    softmax_job job = {.in = {mx_data(call->in[0]), mx_data(call->in[2])},
                       .out = mx_data(call->out[1]),
                       .loss = mx_data(call->out[0])};
    split(&job, call->in[0], attrs->axis);
    if (!mx_inputs_are(call, compute, 2))
        return MX_DECLINED;
    if (!job.n)
        return no_classes(call);
    if (take_labels(&job, call->in[1], true, 2))
        return MX_ERR_MEMORY;
    over_blocks(&job, compute == MX_FLOAT32 ? ce_class_gradient_range_f : ce_class_gradient_range_d);
    drop_labels(&job, call->in[1]);
    return MX_OK;
}

MX_CPU_KERNELS(softmax) = {{"softmax", run_softmax, NULL, MX_KERNEL_WIDEN},
                           {"log_softmax", run_log_softmax, NULL, MX_KERNEL_WIDEN},
                           {"softmin", run_softmin, NULL, MX_KERNEL_WIDEN},
                           {"_backward_softmax", run_backward_softmax, NULL, MX_KERNEL_WIDEN},
                           {"_backward_log_softmax", run_backward_log_softmax, NULL, MX_KERNEL_WIDEN},
                           {"_backward_softmin", run_backward_softmin, NULL, MX_KERNEL_WIDEN},
                           {"SoftmaxActivation", run_activation, NULL, MX_KERNEL_WIDEN},
                           {"_softmax_ce", run_ce, NULL, MX_KERNEL_WIDEN},
                           {"_backward_softmax_ce", run_backward_ce, NULL, MX_KERNEL_WIDEN},
                           {"_softmax_ce_gradient", run_ce_gradient, NULL, MX_KERNEL_WIDEN},
                           {"softmax_cross_entropy", run_total_ce, NULL, MX_KERNEL_WIDEN},
                           {NULL, NULL, NULL}};
