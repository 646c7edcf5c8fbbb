/* Loss outputs: identity, sigmoid and softmax forward; gradients of their losses.  SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <string.h>

#include "base/scratch.h"
#include "base/threads.h"
#include "cpu/kernels/pointwise/pointwise_loops.h"
#include "cpu/kernels/widen.h"
#include "gluon/op.gen.h"
#include "ndarray/convert.h"

static mx_code run_identity(const mx_kernel_call *call)
{
    if (!mx_dtype_is_float(call->in[0]->dtype))
        return MX_DECLINED;
    memcpy(mx_data(call->out[0]), mx_data(call->in[0]), mx_bytes(call->in[0]));
    return MX_OK;
}

typedef struct unary_job {
    mx_unary_fn loop;
    const char *in;
    char *out;
    int64_t item;
} unary_job;

static void unary_range(void *arg, int64_t begin, int64_t end)
{
    const unary_job *job = arg;
    job->loop(job->in + begin * job->item, job->out + begin * job->item, end - begin);
}

static mx_code run_sigmoid(const mx_kernel_call *call)
{
    const mx_dtype compute = mx_compute_type(call);
    if (!mx_inputs_are(call, compute, 2))
        return MX_DECLINED;
    const mx_pointwise_loops *table = compute == MX_FLOAT32 ? mx_pointwise_f32 : mx_pointwise_f64;
    unary_job job = {table[MX_ROW_sigmoid].unary, mx_data(call->in[0]), mx_data(call->out[0]), mx_dtype_size(compute)};
    mx_parallel(call->in[0]->size, MX_GRAIN, unary_range, &job);
    return MX_OK;
}

/* ---- SoftmaxOutput ------------------------------------------------------------------------------------------- */

typedef struct output_job {
    const void *y, *ograd, *soft; /* outputs, incoming gradient (or NULL), distributions as labels (or NULL) */
    void *out;
    double *label; /* (rows) class indices */
    const mx_softmax_output_attrs *attrs;
    int64_t outer, n, inner;
    double scale;
} output_job;

static void split(output_job *job, const mx_array *data)
{
    const mx_softmax_output_attrs *attrs = job->attrs;
    const int axis = attrs->multi_output ? 1 : attrs->preserve_shape ? data->ndim - 1 : -1;
    job->outer = job->n = job->inner = 1;
    for (int i = 0; i < data->ndim; i++) {
        int64_t *part = axis < 0   ? (i ? &job->n : &job->outer)
                        : i < axis ? &job->outer
                        : i > axis ? &job->inner
                                   : &job->n;
        *part *= data->shape[i];
    }
}

/* Runs the softmax operator on the data viewed as (outer, n, inner). */
static mx_code run_softmax(const mx_kernel_call *call)
{
    output_job job = {.attrs = call->attrs};
    split(&job, call->in[0]);
    mx_op *softmax = MX_OP("softmax");
    if (!softmax)
        return mx_error_code();
    const mx_shape_t shape = {.ndim = 3, .dim = {job.outer, job.n, job.inner}};
    mx_softmax_attrs attrs = {.axis = 1, .temperature = NAN, .dtype = MX_DTYPE_NONE};
    mx_array *in = mx_array_view(call->in[0], 0, &shape, (mx_dtype)call->in[0]->dtype);
    mx_array *out = mx_array_view(call->out[0], 0, &shape, (mx_dtype)call->out[0]->dtype);
    mx_array *inputs[2] = {in, MX_NONE};
    mx_kernel_call inside = {
        .op = softmax, .attrs = &attrs, .n_in = 2, .n_out = 1, .in = inputs, .out = &out, .training = call->training};
    mx_code code = in && out ? mx_kernel_run(softmax->kernels[MX_CPU][0], &inside) : mx_error_code();
    mx_release(in);
    mx_release(out);
    return code;
}

#define ROWS(name, T)                                                                                                \
    static void name(void *arg, int64_t begin, int64_t end)                                                          \
    {                                                                                                                \
        const output_job *job = arg;                                                                                   \
        const mx_softmax_output_attrs *attrs = job->attrs;                                                           \
        const T *y = job->y, *g = job->ograd, *soft = job->soft;                                                     \
        const double rest = job->n > 1 ? attrs->smooth_alpha / (double)(job->n - 1) : 0;                             \
        for (int64_t row = begin; row < end; row++) {                                                                \
            const int64_t at = row / job->inner * job->n * job->inner + row % job->inner;                            \
            const bool ignored = !soft && attrs->use_ignore && job->label[row] == attrs->ignore_label;               \
            const T scale = ignored ? 0 : (T)job->scale;                                                             \
            for (int64_t k = 0; k < job->n; k++) {                                                                   \
                const int64_t i = at + k * job->inner;                                                               \
                ((T *)job->out)[i] = (y[i] - (soft ? soft[i] : (T)rest)) * scale;                                    \
            }                                                                                                        \
            const double label = soft ? -1 : job->label[row];                                                        \
            if (label > -1 && label < (double)job->n)                                                                \
                ((T *)job->out)[at + (int64_t)label * job->inner] -= (T)(1 - attrs->smooth_alpha - rest) * scale;    \
            for (int64_t k = 0; g && k < job->n; k++)                                                                \
                ((T *)job->out)[at + k * job->inner] *= g[at + k * job->inner];                                      \
        }                                                                                                            \
    }
ROWS(softmax_rows_f, float)
ROWS(softmax_rows_d, double)

static double divisor(const output_job *job, int64_t labels, int64_t batch)
{
    int64_t valid = 0;
    for (int64_t i = 0; i < labels; i++)
        valid += job->label[i] != job->attrs->ignore_label;
    if (job->attrs->normalization == MX_SOFTMAX_OUTPUT_VALID)
        return valid ? (double)valid : 1;
    return (job->attrs->normalization == MX_SOFTMAX_OUTPUT_BATCH ? (double)batch : 1) * (double)job->inner;
}

/* inputs: output, label, ograd? */
static mx_code run_softmax_backward(const mx_kernel_call *call)
{
    const mx_dtype compute = mx_compute_type(call);
    const mx_array *y = call->in[0], *label = call->in[1];
    if (!mx_inputs_are(call, compute, 2))
        return MX_DECLINED;
    output_job job = {.y = mx_data(y), .out = mx_data(call->out[0]), .attrs = call->attrs};
    split(&job, y);
    if (!mx_is_none(call->in[2]) && job.attrs->out_grad)
        job.ograd = mx_data(call->in[2]);
    const bool soft = label->size == y->size && job.n > 1;
    const size_t bytes = (size_t)label->size * sizeof(double);
    if (!soft && label->size != job.outer * job.inner)
        return mx_op_fail(call->op, MX_ERR_SHAPE, "there are %lld labels, wanted %lld", (long long)label->size,
                          (long long)(job.outer * job.inner));
    if (soft && label->dtype != (int)compute)
        return MX_DECLINED;
    if (!soft) {
        if (!(job.label = mx_scratch_take(bytes)))
            return MX_ERR_MEMORY;
        mx_convert(job.label, MX_FLOAT64, mx_data(label), (mx_dtype)label->dtype, label->size);
    }
    job.soft = soft ? mx_data(label) : NULL;
    job.scale = soft ? job.attrs->grad_scale : job.attrs->grad_scale / divisor(&job, label->size, y->shape[0]);
    mx_parallel(job.outer * job.inner, 1 + MX_GRAIN / (job.n + 1),
                compute == MX_FLOAT32 ? softmax_rows_f : softmax_rows_d, &job);
    mx_scratch_give(job.label, bytes);
    return MX_OK;
}

/* ---- SVMOutput ------------------------------------------------------------------------------------------------ */

static mx_code run_svm_backward(const mx_kernel_call *call)
{
    const mx_svm_output_attrs *attrs = call->attrs;
    const mx_dtype compute = mx_compute_type(call);
    const mx_array *data = call->in[0], *label = call->in[1];
    if (!mx_inputs_are(call, compute, 2))
        return MX_DECLINED;
    const int64_t n = label->size ? data->size / label->size : 1;
    for (int64_t i = 0; i < data->size; i++) {
        double x, target;
        mx_convert(&target, MX_FLOAT64, (const char *)mx_data(label) + i / n * mx_dtype_size((mx_dtype)label->dtype),
                   (mx_dtype)label->dtype, 1);
        x = compute == MX_FLOAT32 ? (double)((const float *)mx_data(data))[i] : ((const double *)mx_data(data))[i];
        const double sign = (double)(i % n) == target ? -1 : 1, violation = attrs->margin + sign * x;
        const double value =
            violation > 0 ? sign * attrs->regularization_coefficient * (attrs->use_linear ? 1 : 2 * violation) : 0;
        if (compute == MX_FLOAT32)
            ((float *)mx_data(call->out[0]))[i] = (float)value;
        else
            ((double *)mx_data(call->out[0]))[i] = value;
    }
    return MX_OK;
}

MX_CPU_KERNELS(loss_output) = {{"SoftmaxOutput", run_softmax, NULL},
                         {"_backward_SoftmaxOutput", run_softmax_backward, NULL, MX_KERNEL_WIDEN},
                         {"LinearRegressionOutput", run_identity, NULL},
                         {"MAERegressionOutput", run_identity, NULL},
                         {"LogisticRegressionOutput", run_sigmoid, NULL, MX_KERNEL_WIDEN},
                         {"SVMOutput", run_identity, NULL},
                         {"_backward_SVMOutput", run_svm_backward, NULL, MX_KERNEL_WIDEN},
                         {NULL, NULL, NULL}};
