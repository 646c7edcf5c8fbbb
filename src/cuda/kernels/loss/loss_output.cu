/* Loss outputs: identity, sigmoid and softmax forward; gradients of their losses.  SPDX-License-Identifier: Apache-2.0 */
#include "cuda/kernels/loss/softmax.h"

static mx_code run_identity(const mx_kernel_call *call)
{
    return mx_dtype_is_float(call->in[0]->dtype) ? mx_cuda_cast(call, call->in[0], call->out[0]) : MX_DECLINED;
}

template <class T> static mx_code sigmoid(const mx_kernel_call *call)
{
    const T *x = (const T *)mx_data(call->in[0]);
    T *y = (T *)mx_data(call->out[0]);
    return mx_cuda_each(call, call->out[0]->size, [=] __device__(int64_t i) { y[i] = 1 / (1 + exp(-x[i])); });
}

/* ---- SoftmaxOutput: data seen as (outer, n, inner) ------------------------------------------------------------------ */

struct extent {
    int64_t outer, n, inner;
    __device__ int64_t start(int64_t row) const { return row / inner * n * inner + row % inner; }
};

static extent split(const mx_softmax_output_attrs *a, const mx_array *x)
{
    const int axis = a->multi_output ? 1 : a->preserve_shape ? x->ndim - 1 : -1;
    extent h = {1, 1, 1};
    for (int i = 0; i < x->ndim; i++)
        *(axis < 0 ? (i ? &h.n : &h.outer) : i < axis ? &h.outer : i > axis ? &h.inner : &h.n) *= x->shape[i];
    return h;
}

template <class T> static mx_code softmax(const mx_kernel_call *call)
{
    const extent h = split((const mx_softmax_output_attrs *)call->attrs, call->in[0]);
    const mx_cuda_values x(call->in[0]), y(call->out[0]);
    return mx_cuda_rows(call, h.outer * h.inner, h.n, [=] __device__(int64_t row) {
        const mx_cuda_line at = {h.start(row), h.n, h.inner, false};
        T most;
        const T sum = mx_cuda_softmax_sum<T>(x, at, h.n, (T)1, &most);
        mx_cuda_line_map<T>(x, y, at, [=](int64_t, T v) { return exp(v - most) / sum; });
    });
}

/* How many labels count, into *count: the divisor of normalization "valid". */
static mx_code count_valid(const mx_kernel_call *call, const mx_array *label, double ignore, double *count)
{
    const void *labels = mx_data(label);
    const int type = label->dtype;
    const int64_t n = label->size;
    return mx_cuda_rows(call, 1, n, [=] __device__(int64_t) {
        double mine = 0;
        for (int64_t i = threadIdx.x; i < n; i += blockDim.x)
            mine += mx_cuda_load<double>(labels, type, i) != ignore;
        const double total = mx_cuda_block_sum(mine);
        if (!threadIdx.x)
            *count = total > 0 ? total : 1;
    });
}

/* inputs: output, label, ograd?; gradient (y - target) scale */
template <class T> static mx_code softmax_backward(const mx_kernel_call *call)
{
    const mx_softmax_output_attrs *a = (const mx_softmax_output_attrs *)call->attrs;
    const mx_array *y = call->in[0], *label = call->in[1];
    const extent h = split(a, y);
    const bool soft = label->size == y->size && h.n > 1, valid = !soft && a->normalization == MX_SOFTMAX_OUTPUT_VALID;
    mx_cuda_device *d = mx_cuda_of(call);
    if (!d)
        return mx_error_code();
    if (!soft && label->size != h.outer * h.inner)
        return mx_op_fail(call->op, MX_ERR_SHAPE, "there are %lld labels, wanted %lld", (long long)label->size,
                          (long long)(h.outer * h.inner));
    mx_cuda_scratch counted(d, valid ? sizeof(double) : 0);
    if (valid && (!counted.memory || count_valid(call, label, a->ignore_label, counted.as<double>())))
        return mx_error_code();
    const double batch = a->normalization == MX_SOFTMAX_OUTPUT_BATCH ? (double)y->shape[0] : 1;
    const double fixed = soft || valid ? a->grad_scale : a->grad_scale / (batch * (double)h.inner);
    const double alpha = a->smooth_alpha, rest = h.n > 1 ? alpha / (double)(h.n - 1) : 0, ignore = a->ignore_label;
    const bool ignoring = a->use_ignore;
    const T *out = (const T *)mx_data(y),
            *g = !mx_is_none(call->in[2]) && a->out_grad ? (const T *)mx_data(call->in[2]) : nullptr;
    const void *labels = mx_data(label);
    const int type = label->dtype;
    const double *count = counted.as<double>();
    T *dx = (T *)mx_data(call->out[0]);
    return mx_cuda_rows(call, h.outer * h.inner, h.n, [=] __device__(int64_t row) {
        const int64_t at = h.start(row);
        const double target = soft ? -1 : mx_cuda_load<double>(labels, type, row);
        const int64_t hit = target > -1 && target < (double)h.n ? (int64_t)target : -1;
        const T scale = !soft && ignoring && target == ignore ? 0 : (T)(count ? fixed / *count : fixed);
        for (int64_t k = threadIdx.x; k < h.n; k += blockDim.x) {
            const int64_t i = at + k * h.inner;
            const T wanted =
                soft ? (T)mx_cuda_load<double>(labels, type, i) : (T)rest + (k == hit ? (T)(1 - alpha - rest) : 0);
            dx[i] = (out[i] - wanted) * scale * (g ? g[i] : 1);
        }
    });
}

template <class T> static mx_code svm_backward(const mx_kernel_call *call)
{
    const mx_svm_output_attrs *a = (const mx_svm_output_attrs *)call->attrs;
    const mx_array *data = call->in[0], *label = call->in[1];
    const int64_t n = label->size ? data->size / label->size : 1;
    const T *x = (const T *)mx_data(data), margin = (T)a->margin, weight = (T)a->regularization_coefficient;
    const void *labels = mx_data(label);
    const int type = label->dtype;
    const bool linear = a->use_linear;
    T *dx = (T *)mx_data(call->out[0]);
    return mx_cuda_each(call, data->size, [=] __device__(int64_t i) {
        const T sign = (double)(i % n) == mx_cuda_load<double>(labels, type, i / n) ? -1 : 1,
                violation = margin + sign * x[i];
        dx[i] = violation > 0 ? sign * weight * (linear ? 1 : 2 * violation) : 0;
    });
}

MX_CUDA_FLOATS(run_sigmoid, sigmoid)
MX_CUDA_COMPUTES(run_softmax, softmax)
MX_CUDA_FLOATS(run_softmax_backward, softmax_backward)
MX_CUDA_FLOATS(run_svm_backward, svm_backward)

MX_CUDA_KERNELS(loss_output) = {{"SoftmaxOutput", run_softmax, NULL},
                          {"_backward_SoftmaxOutput", run_softmax_backward, NULL},
                          {"LinearRegressionOutput", run_identity, NULL},
                          {"MAERegressionOutput", run_identity, NULL},
                          {"LogisticRegressionOutput", run_sigmoid, NULL},
                          {"SVMOutput", run_identity, NULL},
                          {"_backward_SVMOutput", run_svm_backward, NULL},
                          {NULL, NULL, NULL}};
