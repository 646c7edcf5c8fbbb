/* index_array, ravel_multi_index, unravel_index.  SPDX-License-Identifier: Apache-2.0 */
#include "cuda/cuda.h"

/* Axes of a shape: what a kernel gets by value. */
namespace /* the name is also used elsewhere */
{
struct axes {
    int n;
    int64_t d[MX_MAX_NDIM];
};
} // namespace

static mx_code run_index_array(const mx_kernel_call *call)
{
    const mx_dims *wanted = &((const mx_index_array_attrs *)call->attrs)->axes;
    const mx_array *in = call->in[0];
    int64_t *to = (int64_t *)mx_data(call->out[0]);
    axes step = {wanted->n < 0 ? in->ndim : wanted->n, {}}, size = step; /* of the axes that are given */
    int64_t steps[MX_MAX_NDIM], all = 1;
    for (int axis = in->ndim - 1; axis >= 0; all *= in->shape[axis], axis--)
        steps[axis] = all;
    for (int k = 0; k < step.n; k++) {
        const int axis = wanted->n < 0 ? k : mx_axis(wanted->d[k], in->ndim);
        step.d[k] = steps[axis], size.d[k] = in->shape[axis];
    }
    return mx_cuda_each(call, in->size, [=] __device__(int64_t i) {
        for (int k = 0; k < step.n; k++)
            to[i * step.n + k] = i / step.d[k] % size.d[k];
    });
}

static axes shape_of(const mx_dims *shape)
{
    axes a = {shape->n, {}};
    for (int i = 0; i < shape->n; i++)
        a.d[i] = shape->d[i];
    return a;
}

/* Horner's rule; wraps as unsigned numbers do. */
static mx_code run_ravel(const mx_kernel_call *call)
{
    const axes shape = shape_of(&((const mx_unravel_attrs *)call->attrs)->shape);
    const void *from = mx_data(call->in[0]);
    void *to = mx_data(call->out[0]);
    const int type = call->in[0]->dtype, out_type = call->out[0]->dtype;
    const int64_t n = call->out[0]->size;
    return mx_cuda_each(call, n, [=] __device__(int64_t k) {
        uint64_t number = (uint64_t)mx_cuda_load<int64_t>(from, type, k);
        for (int i = 1; i < shape.n; i++)
            number = number * (uint64_t)shape.d[i] + (uint64_t)mx_cuda_load<int64_t>(from, type, i * n + k);
        mx_cuda_store<int64_t>(to, out_type, k, (int64_t)number);
    });
}

static mx_code run_unravel(const mx_kernel_call *call)
{
    const axes shape = shape_of(&((const mx_unravel_attrs *)call->attrs)->shape);
    const void *from = mx_data(call->in[0]);
    void *to = mx_data(call->out[0]);
    const int type = call->in[0]->dtype, out_type = call->out[0]->dtype;
    const int64_t n = call->in[0]->size;
    return mx_cuda_each(call, n, [=] __device__(int64_t k) {
        int64_t rest = mx_cuda_load<int64_t>(from, type, k);
        for (int i = shape.n - 1; i >= 0; i--) {
            mx_cuda_store<int64_t>(to, out_type, i * n + k, i ? rest % shape.d[i] : rest);
            rest = i ? rest / shape.d[i] : 0;
        }
    });
}

MX_CUDA_KERNELS(numbering) = {{"_contrib_index_array", run_index_array, NULL},
                              {"_ravel_multi_index", run_ravel, NULL},
                              {"_unravel_index", run_unravel, NULL},
                              {NULL, NULL, NULL}};
