/* The Khatri-Rao product: every row is the product of one row of each matrix.  SPDX-License-Identifier: Apache-2.0 */
#include "cuda/cuda.h"

#define MOST 32

namespace /* the name is also used elsewhere */
{
struct factors {
    int n;
    const void *data[MOST];
    int64_t rows[MOST];
};
} // namespace

static mx_code run_khatri_rao(const mx_kernel_call *call)
{
    if (call->n_in > MOST)
        return mx_op_fail(call->op, MX_ERR_ARGUMENT, "%d matrices were given, at most %d can be multiplied on a GPU",
                          call->n_in, MOST);
    if (!call->out[0]->size)
        return MX_OK;
    factors f = {call->n_in, {}, {}};
    for (int k = 0; k < f.n; k++)
        f.data[k] = mx_data(call->in[k]), f.rows[k] = call->in[k]->shape[0];
    const int64_t columns = call->out[0]->shape[1];
    void *to = mx_data(call->out[0]);
    const int type = call->out[0]->dtype;
    return mx_cuda_each(call, call->out[0]->size, [=] __device__(int64_t i) {
        double product = 1;
        int64_t rest = i / columns;
        for (int k = f.n - 1; k >= 0; rest /= f.rows[k], k--)
            product *= mx_cuda_load<double>(f.data[k], type, rest % f.rows[k] * columns + i % columns);
        mx_cuda_store<double>(to, type, i, product);
    });
}

MX_CUDA_KERNELS(khatri_rao) = {{"khatri_rao", run_khatri_rao, NULL}, {NULL, NULL, NULL}};
