/* Small functions of one array, allclose and the Khatri-Rao product.  SPDX-License-Identifier: Apache-2.0 */
#include <cmath>

#include "cuda/cuda.h"

/* ---- functions of x: float for the small floating types, integers go through double ------------------------------ */

template <class C, class F> static mx_code map_as(const mx_kernel_call *call, F f)
{
    const void *from = mx_data(call->in[0]);
    void *to = mx_data(call->out[0]);
    const int type = call->out[0]->dtype;
    return mx_cuda_each(call, call->out[0]->size, [=] __device__(int64_t i) {
        mx_cuda_store<C>(to, type, i, f(mx_cuda_load<C>(from, type, i)));
    });
}

template <class F> static mx_code map(const mx_kernel_call *call, F f)
{
    const int type = call->out[0]->dtype;
    const bool single = mx_dtype_is_float(type) && type != MX_FLOAT64;
    return single ? map_as<float>(call, f) : map_as<double>(call, f);
}

struct rounded {
    template <class C> __device__ C operator()(C x) const { return round(x); }
};
struct signum {
    template <class C> __device__ C operator()(C x) const { return (C)((x > 0) - (x < 0)); }
};
struct parabola {
    double a, b, c;
    template <class C> __device__ C operator()(C x) const { return ((C)a * x + (C)b) * x + (C)c; }
};

static mx_code run_round(const mx_kernel_call *call) { return map(call, rounded{}); }
static mx_code run_sign(const mx_kernel_call *call) { return map(call, signum{}); }
static mx_code run_same(const mx_kernel_call *call) { return map(call, parabola{0, 1, 0}); }

static mx_code run_div_sqrt(const mx_kernel_call *call)
{
    const mx_array *in = call->in[0];
    return map(call, parabola{0, in->ndim ? 1 / sqrt((double)in->shape[in->ndim - 1]) : 1, 0});
}

static mx_code run_quadratic(const mx_kernel_call *call)
{
    const mx_quadratic_attrs *a = (const mx_quadratic_attrs *)call->attrs;
    return map(call, parabola{a->a, a->b, a->c});
}

/* ---- allclose: true until a thread finds otherwise --------------------------------------------------------------- */

static mx_code run_allclose(const mx_kernel_call *call)
{
    const mx_allclose_attrs attrs = *(const mx_allclose_attrs *)call->attrs;
    mx_cuda_device *d = mx_cuda_of(call);
    uint8_t *all = (uint8_t *)mx_data(call->out[0]);
    if (!d || mx_cuda_fail(cudaMemsetAsync(all, 1, 1, d->stream), call->op->name))
        return mx_error_code();
    const void *first = mx_data(call->in[0]), *second = mx_data(call->in[1]);
    const int type = call->in[0]->dtype;
    return mx_cuda_each(call, call->in[0]->size, [=] __device__(int64_t i) {
        const double a = mx_cuda_load<double>(first, type, i), b = mx_cuda_load<double>(second, type, i);
        const bool close =
            a == b || fabs(a - b) <= attrs.atol + attrs.rtol * fabs(b) || (attrs.equal_nan && a != a && b != b);
        if (!close)
            *all = 0;
    });
}

/* ---- Khatri-Rao: every row is the product of one row of each matrix ---------------------------------------------- */

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

MX_CUDA_KERNELS(straight) = {{"_contrib_round_ste", run_round, NULL},
                             {"_contrib_sign_ste", run_sign, NULL},
                             {"_contrib_gradientmultiplier", run_same, NULL},
                             {"_contrib_div_sqrt_dim", run_div_sqrt, NULL},
                             {"_contrib_quadratic", run_quadratic, NULL},
                             {"_contrib_allclose", run_allclose, NULL},
                             {"khatri_rao", run_khatri_rao, NULL},
                             {NULL, NULL, NULL}};
