/* Attention as one operator and its gradient: which kernels run.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "cuda/kernels/gemm/attention_fused.h"

using namespace attention;

/* Inputs of the operator begin at number `first` of the call's. */
static job job_of(const mx_kernel_call *call, int first)
{
    const mx_attention_attrs *a = (const mx_attention_attrs *)call->attrs;
    mx_array *const *in = call->in + first;
    job j = {};
    j.s = MX_ATTENTION_SHAPE(a, in[0]->shape, in[1]->shape);
    const auto start = [&](const mx_attention_place &p) {
        const mx_array *x = in[p.input];
        return (const void *)((const char *)mx_data(x) + p.first * (int64_t)mx_dtype_size((mx_dtype)x->dtype));
    };
    j.query = start(j.s.query), j.key = start(j.s.key), j.value = start(j.s.value);
    if (a->use_mask) {
        const mx_array *mask = in[MX_ATTENTION_MASK];
        mx_attention_use_mask(&j.s, mask->ndim, mask->shape);
        j.mask = {mx_data(mask), mask->dtype};
    }
    if (a->use_length)
        j.length = {mx_data(in[MX_ATTENTION_LENGTH]), in[MX_ATTENTION_LENGTH]->dtype};
    return j;
}

/* True if rows of heads can be copied 16 bytes at a time. */
static bool aligned(const job &j, int type)
{
    const int64_t each = 16 / (int64_t)mx_dtype_size((mx_dtype)type);
    const auto fits = [&](const void *x, const mx_attention_place &p) {
        return (uintptr_t)x % 16 == 0 && (p.batch | p.time | p.head) % each == 0;
    };
    return j.s.size % each == 0 && j.s.size <= 256 && fits(j.query, j.s.query) && fits(j.key, j.s.key) &&
           fits(j.value, j.s.value) && fits(j.out_grad, j.s.out) && fits(j.result, j.s.out) &&
           fits(j.query_grad, j.s.query) && fits(j.key_grad, j.s.key) && fits(j.value_grad, j.s.value);
}

static bool exact() { return !mx_flags_get()->cuda_tf32; }

static mx_code keep_seed(const mx_kernel_call *call, mx_rng rng)
{
    int64_t *seed = (int64_t *)mx_data(call->out[2]);
    return mx_cuda_each(call, 2, [=] __device__(int64_t i) { seed[i] = (int64_t)(i ? rng.counter : rng.seed); });
}

static mx_code run_attention(const mx_kernel_call *call)
{
    const int type = call->in[0]->dtype;
    job j = job_of(call, 0);
    if (!mx_dtype_is_float(type))
        return MX_DECLINED;
    j.result = mx_data(call->out[0]), j.lse = mx_data(call->out[1]);
    j.s.dropout = call->training ? j.s.dropout : 0;
    if (dropping(j))
        j.rng = mx_rng_reserve(mx_attention_counters(&j.s));
    mx_code code = keep_seed(call, j.rng);
    if (code || !call->out[0]->size)
        return code;
    if (!aligned(j, type))
        return mx_cuda_attention_plain(call, j, type);
    code = mx_cuda_attention_dnn(call, j, type);
    code = code == MX_DECLINED ? mx_cuda_attention_forward(call, j, type, exact()) : code;
    return code == MX_DECLINED ? mx_cuda_attention_plain(call, j, type) : code;
}

/* Where the gradient of a role is written: in the result of its input. */
static void *grad_of(const mx_kernel_call *call, const mx_attention_place &p)
{
    mx_array *to = p.input < call->n_out ? call->out[p.input] : NULL;
    if (!to || mx_is_none(to))
        return NULL;
    return (char *)mx_data(to) + p.first * (int64_t)mx_dtype_size((mx_dtype)to->dtype);
}

static mx_code run_backward(const mx_kernel_call *call)
{
    const int type = call->in[MX_ATTENTION_BACK_IN]->dtype;
    mx_cuda_device *d = mx_cuda_of(call);
    job j = job_of(call, MX_ATTENTION_BACK_IN);
    if (!d)
        return mx_error_code();
    if (!mx_dtype_is_float(type))
        return MX_DECLINED;
    j.out_grad = mx_data(call->in[MX_ATTENTION_BACK_GRAD]), j.out = mx_data(call->in[MX_ATTENTION_BACK_OUT]);
    j.lse = mx_data(call->in[MX_ATTENTION_BACK_LSE]),
    j.seed = (const int64_t *)mx_data(call->in[MX_ATTENTION_BACK_SEED]);
    j.query_grad = grad_of(call, j.s.query), j.key_grad = grad_of(call, j.s.key),
    j.value_grad = grad_of(call, j.s.value);
    const mx_cuda_scratch scratch(d, (size_t)(j.s.batch * j.s.heads * j.s.queries) *
                                         mx_dtype_size((mx_dtype)call->in[MX_ATTENTION_BACK_LSE]->dtype));
    j.delta = scratch.memory;
    if (scratch.bytes && !scratch.memory)
        return mx_error_code();
    if (!aligned(j, type))
        return mx_cuda_attention_plain_back(call, j, type);
    mx_code code = mx_cuda_attention_dnn_back(call, j, type);
    code = code == MX_DECLINED ? mx_cuda_attention_backward(call, j, type, exact()) : code;
    return code == MX_DECLINED ? mx_cuda_attention_plain_back(call, j, type) : code;
}

/* For gradients of gradients: which keys a query sees, and which weights are kept. */
static mx_code run_pattern(const mx_kernel_call *call)
{
    job j = job_of(call, 0);
    void *seen = mx_data(call->out[0]), *kept = mx_data(call->out[1]);
    const int type = call->out[0]->dtype;
    j.seed = (const int64_t *)mx_data(call->in[MX_ATTENTION_INPUTS]);
    return mx_cuda_each(call, call->out[0]->size, [=] __device__(int64_t e) {
        const int64_t k = e % j.s.keys, row = e / j.s.keys, i = row % j.s.queries, h = row / j.s.queries % j.s.heads,
                      n = row / j.s.queries / j.s.heads;
        const bool sees = k < mx_attention_seen(&j.s, j.keys_of(n), i) && j.shows(n, h, i, k);
        const bool keeps =
            !(j.s.dropout > 0) || mx_attention_keeps(j.used(), row, j.s.keys, k, mx_attention_threshold(j.s.dropout));
        mx_cuda_store<double>(seen, type, e, sees);
        mx_cuda_store<double>(kept, type, e, !keeps ? 0 : j.s.dropout > 0 ? 1 / (1 - j.s.dropout) : 1);
    });
}

MX_CUDA_KERNELS(attention_fused) = {{"_contrib_attention", run_attention, NULL},
                                    {"_backward_attention", run_backward, NULL},
                                    {"_attention_pattern", run_pattern, NULL},
                                    {NULL, NULL, NULL}};
