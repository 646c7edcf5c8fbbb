/* Attention for any type and size of a head, a warp per query (or per key, for the gradients of keys and values).  Slow: it serves
 * what the kernels on tiles do not.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "cuda/kernels/gemm/attention_fused.h"

namespace attention
{
template <class T> static __device__ T warp_sum(T x)
{
    for (int step = 16; step; step /= 2)
        x += __shfl_xor_sync(0xffffffffu, x, step);
    return x;
}

template <class C> struct rows {
    const job &j;
    int type;
    int lane;
    __device__ rows(const job &given, int element, int64_t i) : j(given), type(element), lane((int)(i % 32)) {}

    /* sum of a row of one role times one of another */
    __device__ C dot(const void *x, const mx_attention_place &p, int64_t xh, int64_t xt, const void *y,
                     const mx_attention_place &q, int64_t yh, int64_t yt, int64_t n) const
    {
        const int64_t a = n * p.batch + xh * p.head + xt * p.time, b = n * q.batch + yh * q.head + yt * q.time;
        C sum = 0;
        for (int64_t d = lane; d < j.s.size; d += 32)
            sum += mx_cuda_load<C>(x, type, a + d) * mx_cuda_load<C>(y, type, b + d);
        return warp_sum(sum);
    }
    __device__ C score(int64_t n, int64_t h, int64_t i, int64_t k) const
    {
        return (C)j.s.scale * dot(j.query, j.s.query, h, i, j.key, j.s.key, shared(h), k, n);
    }
    __device__ int64_t shared(int64_t h) const { return h / (j.s.heads / j.s.kv_heads); }
    __device__ C keep(int64_t n, int64_t h, int64_t i, int64_t k) const
    {
        if (!(j.s.dropout > 0))
            return 1;
        return mx_attention_keeps(j.used(), j.row(n, h, i), j.s.keys, k, mx_attention_threshold(j.s.dropout))
                   ? (C)(1 / (1 - j.s.dropout))
                   : 0;
    }
    /* The row of a result, element by element: the sum over keys or queries t in [0, end) of weight(t) times rows of a role. */
    template <class W>
    __device__ void mean(void *to, const mx_attention_place &p, int64_t h, int64_t t, const void *from,
                         const mx_attention_place &q, int64_t from_head, int64_t n, int64_t end, W weight,
                         bool add) const
    {
        for (int64_t d0 = 0; d0 < j.s.size; d0 += 32 * 8) { /* eight elements per lane at a time */
            C sum[8] = {};
            for (int64_t k = 0; k < end; k++) {
                const C w = weight(k);
                const int64_t b = n * q.batch + from_head * q.head + k * q.time + d0;
                for (int e = 0; e < 8; e++)
                    if (d0 + lane + 32 * e < j.s.size)
                        sum[e] += w * mx_cuda_load<C>(from, type, b + lane + 32 * e);
            }
            const int64_t a = n * p.batch + h * p.head + t * p.time + d0;
            for (int e = 0; e < 8; e++)
                if (d0 + lane + 32 * e < j.s.size) {
                    const C before = add ? mx_cuda_load<C>(to, type, a + lane + 32 * e) : (C)0;
                    mx_cuda_store<C>(to, type, a + lane + 32 * e, before + sum[e]);
                }
        }
    }
};

struct place {
    int64_t n, h, t;
    __device__ place(int64_t i, int64_t heads, int64_t times)
        : n(i / 32 / times / heads), h(i / 32 / times % heads), t(i / 32 % times)
    {
    }
};

template <class C> static mx_code forward(const mx_kernel_call *call, const job &given, int type)
{
    const job j = given;
    return mx_cuda_each(call, j.s.batch * j.s.heads * j.s.queries * 32, [=] __device__(int64_t i) {
        const rows<C> r(j, type, i);
        const place at(i, j.s.heads, j.s.queries);
        const int64_t n = at.n, h = at.h, end = mx_attention_seen(&j.s, j.keys_of(n), at.t);
        C most = -(C)INFINITY, total = 0;
        for (int64_t k = 0; k < end; k++)
            if (j.shows(n, h, at.t, k)) {
                const C s = r.score(n, h, at.t, k), top = s > most ? s : most;
                total = total * exp(most - top) + exp(s - top), most = top;
            }
        const C lse = total > 0 ? most + log(total) : 0;
        if (r.lane == 0)
            ((C *)j.lse)[j.row(n, h, at.t)] = lse;
        r.mean(
            j.result, j.s.out, h, at.t, j.value, j.s.value, r.shared(h), n, end,
            [&](int64_t k) {
                const C s = r.score(n, h, at.t, k);
                return j.shows(n, h, at.t, k) ? exp(s - lse) * r.keep(n, h, at.t, k) : (C)0;
            },
            false);
    });
}

/* delta, then the gradient of a query */
template <class C> static mx_code query_grad(const mx_kernel_call *call, const job &given, int type)
{
    const job j = given;
    return mx_cuda_each(call, j.s.batch * j.s.heads * j.s.queries * 32, [=] __device__(int64_t i) {
        const rows<C> r(j, type, i);
        const place at(i, j.s.heads, j.s.queries);
        const int64_t n = at.n, h = at.h, row = j.row(n, h, at.t), end = mx_attention_seen(&j.s, j.keys_of(n), at.t);
        const C delta = r.dot(j.out, j.s.out, h, at.t, j.out_grad, j.s.out, h, at.t, n), lse = ((const C *)j.lse)[row];
        if (r.lane == 0)
            ((C *)j.delta)[row] = delta;
        if (!j.query_grad)
            return;
        r.mean(
            j.query_grad, j.s.query, h, at.t, j.key, j.s.key, r.shared(h), n, end,
            [&](int64_t k) {
                const C s = r.score(n, h, at.t, k),
                        g = r.dot(j.out_grad, j.s.out, h, at.t, j.value, j.s.value, r.shared(h), k, n);
                return j.shows(n, h, at.t, k) ? (C)j.s.scale * exp(s - lse) * (g * r.keep(n, h, at.t, k) - delta)
                                              : (C)0;
            },
            false);
    });
}

/* The gradients of a key and of its value, summed over the heads that share them. */
template <class C> static mx_code key_grad(const mx_kernel_call *call, const job &given, int type)
{
    const job j = given;
    return mx_cuda_each(call, j.s.batch * j.s.kv_heads * j.s.keys * 32, [=] __device__(int64_t i) {
        const rows<C> r(j, type, i);
        const place at(i, j.s.kv_heads, j.s.keys);
        const int64_t n = at.n, length = j.keys_of(n), per = j.s.heads / j.s.kv_heads;
        for (int64_t h = at.h * per; h < (at.h + 1) * per; h++) {
            const auto seen = [&](int64_t q) {
                return at.t < mx_attention_seen(&j.s, length, q) && j.shows(n, h, q, at.t);
            };
            const auto weight = [&](int64_t q) {
                return exp(r.score(n, h, q, at.t) - ((const C *)j.lse)[j.row(n, h, q)]);
            };
            if (j.value_grad)
                r.mean(
                    j.value_grad, j.s.value, at.h, at.t, j.out_grad, j.s.out, h, n, j.s.queries,
                    [&](int64_t q) { return seen(q) ? weight(q) * r.keep(n, h, q, at.t) : (C)0; }, h > at.h * per);
            if (j.key_grad)
                r.mean(
                    j.key_grad, j.s.key, at.h, at.t, j.query, j.s.query, h, n, j.s.queries,
                    [&](int64_t q) {
                        if (!seen(q))
                            return (C)0;
                        const C g = r.dot(j.out_grad, j.s.out, h, q, j.value, j.s.value, at.h, at.t, n);
                        return (C)j.s.scale * weight(q) *
                               (g * r.keep(n, h, q, at.t) - ((const C *)j.delta)[j.row(n, h, q)]);
                    },
                    h > at.h * per);
        }
    });
}
} // namespace attention

mx_code mx_cuda_attention_plain(const mx_kernel_call *call, const attention::job &job, int type)
{
    return type == MX_FLOAT64 ? attention::forward<double>(call, job, type)
                              : attention::forward<float>(call, job, type);
}

mx_code mx_cuda_attention_plain_back(const mx_kernel_call *call, const attention::job &job, int type)
{
    using namespace attention;
    const mx_code code = type == MX_FLOAT64 ? query_grad<double>(call, job, type) : query_grad<float>(call, job, type);
    if (code || !(job.key_grad || job.value_grad))
        return code;
    return type == MX_FLOAT64 ? key_grad<double>(call, job, type) : key_grad<float>(call, job, type);
}
