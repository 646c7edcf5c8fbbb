/* Softmax, its gradients and cross entropy.
 *
 * Short contiguous rows are computed by one warp each, in registers; others by one block each.  Arrays are of any floating
 * type; 16-bit ones are read and written as they are, and computed in float.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <cmath>

#include "cuda/kernels/early.h"
#include "cuda/kernels/loss/softmax.h"
#include "cuda/kernels/loss/softmax_long.h"

static bool by_fours(const mx_array *x) { return mx_cuda_aligned(mx_data(x), x->dtype) && mx_dtype_is_float(x->dtype); }

/* Rows of n values that are `inner` apart, of an array and of another one like it. */
namespace /* the name is also used elsewhere */
{
struct rows {
    int64_t count, n, inner;
    bool fours;
    rows(const mx_array *x, const mx_array *y, int64_t axis)
    {
        const mx_cuda_split s(x, mx_axis(axis, x->ndim));
        count = s.outer * s.inner, n = s.n, inner = s.inner;
        fours = inner == 1 && n % MX_CUDA_LANES == 0 && by_fours(x) && by_fours(y);
    }
    __device__ mx_cuda_line at(int64_t row) const { return {row / inner * n * inner + row % inner, n, inner, fours}; }
};
} // namespace

struct lengths {
    mx_cuda_values of_rows; /* absent: all values count */
    __device__ int64_t of(int64_t row, int64_t n) const
    {
        if (!of_rows.data)
            return n;
        const int64_t k = of_rows.get<int64_t>(row);
        return k < 0 ? 0 : k > n ? n : k;
    }
};

/* ---- a warp per row ---------------------------------------------------------------------------------------------- */

#define WARPS 4      /* of a block */
#define WARP_LOAD (32 * MX_CUDA_LANES) /* values that a warp reads at once */
#define WARP_MOST 1024

template <class C, class F> __device__ inline C warp_join(C x, F join)
{
    for (int step = 16; step; step /= 2)
        x = join(x, __shfl_xor_sync(0xffffffffu, x, step));
    return x;
}

/* Loads of a row: value l of load j of this lane is value 32 L j + L lane + l. */
template <class C, int LOADS, int L = MX_CUDA_LANES> struct warp_row {
    C v[LOADS][L];
    static __device__ int place(int j) { return (j * 32 + (int)(threadIdx.x % 32)) * L; }
    __device__ void read(const mx_cuda_values &x, int64_t start, int n, bool aligned)
    {
#pragma unroll
        for (int j = 0; j < LOADS; j++) {
            const int lanes = n - place(j);
            if constexpr (L == 1)
                v[j][0] = lanes > 0 ? x.get<C>(start + place(j)) : (C)0;
            else
                mx_cuda_load_lanes(v[j], x.data, x.type, start + place(j), lanes, aligned && lanes >= L);
        }
    }
    __device__ void write(const mx_cuda_values &x, int64_t start, int n, bool aligned) const
    {
#pragma unroll
        for (int j = 0; j < LOADS; j++) {
            const int lanes = n - place(j);
            if (L > 1)
                mx_cuda_store_lanes(v[j], x.data, x.type, start + place(j), lanes, aligned && lanes >= L);
            else if (lanes > 0)
                x.set<C>(start + place(j), v[j][0]);
        }
    }
    /* f(value, whether it is one of the first `valid`) */
    template <class F> __device__ void each(int valid, F f)
    {
#pragma unroll
        for (int j = 0; j < LOADS; j++)
#pragma unroll
            for (int l = 0; l < L; l++)
                f(v[j][l], place(j) + l < valid, j, l);
    }
};

template <class C> struct job {
    mx_cuda_values x, y, out; /* forward: x to out; backward: gradient x and result y to out */
    lengths l;
    int64_t count;
    int n;
    C scale;
    bool logarithm, aligned;
};

template <class C, int LOADS> __global__ void warp_forward(const __grid_constant__ job<C> t)
{
    for (int64_t row = (int64_t)blockIdx.x * WARPS + threadIdx.x / 32; row < t.count;
         row += (int64_t)gridDim.x * WARPS) {
        warp_row<C, LOADS> x;
        const int valid = (int)t.l.of(row, t.n);
        C most = -(C)INFINITY, sum = 0;
        x.read(t.x, row * t.n, t.n, t.aligned);
        x.each(valid, [&](C &v, bool in, int, int) { v *= t.scale, most = in ? max(most, v) : most; });
        most = warp_join(most, mx_cuda_most<C>());
        const C shift = most > -(C)INFINITY ? most : 0;
        x.each(valid, [&](C &v, bool in, int, int) {
            const C e = exp(v - shift);
            sum += in ? e : 0;
            v = t.logarithm ? v - shift : e;
        });
        sum = warp_join(sum, mx_cuda_plus<C>());
        const C whole = t.logarithm ? log(sum) : 1 / sum;
        x.each(valid, [&](C &v, bool in, int, int) { v = !in ? 0 : t.logarithm ? v - whole : v * whole; });
        x.write(t.out, row * t.n, t.n, t.aligned);
    }
}

template <class C, int LOADS> __global__ void warp_backward(const __grid_constant__ job<C> t)
{
    for (int64_t row = (int64_t)blockIdx.x * WARPS + threadIdx.x / 32; row < t.count;
         row += (int64_t)gridDim.x * WARPS) {
        warp_row<C, LOADS> g, y;
        C sum = 0;
        g.read(t.x, row * t.n, t.n, t.aligned);
        y.read(t.y, row * t.n, t.n, t.aligned);
        g.each(t.n, [&](C v, bool in, int j, int l) { sum += !in ? 0 : t.logarithm ? v : v * y.v[j][l]; });
        sum = warp_join(sum, mx_cuda_plus<C>());
        g.each(t.n, [&](C &v, bool, int j, int l) {
            v = t.scale * (t.logarithm ? v - exp(y.v[j][l]) * sum : y.v[j][l] * (v - sum));
        });
        g.write(t.out, row * t.n, t.n, t.aligned);
    }
}

static bool suits_warps(const rows &r) { return r.inner == 1 && r.n <= WARP_MOST; }

template <class C> static mx_code run_warps(const mx_kernel_call *call, const rows &r, job<C> t, bool backward)
{
    mx_cuda_device *d = mx_cuda_of(call);
    if (!d)
        return mx_error_code();
    if (!r.count || !r.n)
        return MX_OK;
    t.count = r.count, t.n = (int)r.n;
    t.aligned = r.fours && (!t.y.data || mx_cuda_aligned(t.y.data, t.y.type));
    const int loads = (int)((r.n + WARP_LOAD - 1) / WARP_LOAD);
    const auto kernel = backward     ? loads <= 1   ? warp_backward<C, 1>
                                       : loads <= 2 ? warp_backward<C, 2>
                                       : loads <= 4 ? warp_backward<C, 4>
                                                    : warp_backward<C, 8>
                            : loads <= 1 ? warp_forward<C, 1>
                        : loads <= 2 ? warp_forward<C, 2>
                        : loads <= 4 ? warp_forward<C, 4>
                                     : warp_forward<C, 8>;
    kernel<<<mx_cuda_blocks(d, (r.count + WARPS - 1) / WARPS), WARPS * 32, 0, d->stream>>>(t);
    return mx_cuda_launched(call);
}

/* ---- softmax ----------------------------------------------------------------------------------------------------- */

template <class C>
static mx_code forward(const mx_kernel_call *call, const rows &r, double factor, bool logarithm, lengths l)
{
    const mx_cuda_values x(call->in[0]), y(call->out[0]);
    const C scale = (C)factor;
    if (suits_warps(r))
        return run_warps<C>(call, r, {x, {}, y, l, 0, 0, scale, logarithm, false}, false);
    return mx_cuda_rows(call, r.count, r.n, [=] __device__(int64_t row) {
        const mx_cuda_line at = r.at(row);
        const int64_t valid = l.of(row, r.n);
        C most;
        const C sum = mx_cuda_softmax_sum<C>(x, at, valid, scale, &most), logarithm_of_sum = log(sum);
        mx_cuda_line_map<C>(x, y, at, [=](int64_t i, C v) {
            const C shifted = v * scale - most;
            return i >= valid ? (C)0 : logarithm ? shifted - logarithm_of_sum : exp(shifted) / sum;
        });
    });
}

static double factor_of(const mx_softmax_attrs *a, double sign)
{
    return sign / (std::isnan(a->temperature) ? 1 : a->temperature);
}

template <class C> static mx_code softmax_kind(const mx_kernel_call *call, bool logarithm, double sign)
{
    const mx_softmax_attrs *a = (const mx_softmax_attrs *)call->attrs;
    lengths l = {};
    if (a->use_length && mx_is_none(call->in[1]))
        return mx_op_fail(call->op, MX_ERR_ARGUMENT, "use_length is True, but the input length is absent");
    if (a->use_length)
        l.of_rows = mx_cuda_values(call->in[1]);
    return forward<C>(call, rows(call->in[0], call->out[0], a->axis), factor_of(a, sign), logarithm, l);
}
template <class C> static mx_code softmax(const mx_kernel_call *call) { return softmax_kind<C>(call, false, 1); }
template <class C> static mx_code log_softmax(const mx_kernel_call *call) { return softmax_kind<C>(call, true, 1); }
template <class C> static mx_code softmin(const mx_kernel_call *call) { return softmax_kind<C>(call, false, -1); }

/* dx = scale y (g - sum g y), of the logarithm: scale (g - exp(y) sum g) */
template <class C> static mx_code backward_kind(const mx_kernel_call *call, bool logarithm, double sign)
{
    const mx_softmax_attrs *a = (const mx_softmax_attrs *)call->attrs;
    const rows r(call->in[0], call->out[0], a->axis);
    const mx_cuda_values g(call->in[0]), y(call->in[1]), dx(call->out[0]);
    const C scale = (C)factor_of(a, sign);
    if (suits_warps(r))
        return run_warps<C>(call, r, {g, y, dx, {}, 0, 0, scale, logarithm, false}, true);
    return mx_cuda_rows(call, r.count, r.n, [=] __device__(int64_t row) {
        const mx_cuda_line at = r.at(row);
        C mine = 0;
        mx_cuda_line_each<C>(
            g, at, r.n, [&](int64_t i, C v) { mine += v * (logarithm ? (C)1 : y.get<C>(at.start + i * at.inner)); });
        const C total = mx_cuda_block_sum(mine);
        mx_cuda_line_map<C>(g, dx, at, [=](int64_t i, C v) {
            const C result = y.get<C>(at.start + i * at.inner);
            return scale * (logarithm ? v - exp(result) * total : result * (v - total));
        });
    });
}
template <class C> static mx_code backward_softmax(const mx_kernel_call *call)
{
    return backward_kind<C>(call, false, 1);
}
template <class C> static mx_code backward_log_softmax(const mx_kernel_call *call)
{
    return backward_kind<C>(call, true, 1);
}
template <class C> static mx_code backward_softmin(const mx_kernel_call *call)
{
    return backward_kind<C>(call, false, -1);
}

template <class C> static mx_code activation(const mx_kernel_call *call)
{
    rows r(call->in[0], call->out[0], 1);
    if (((const mx_softmax_activation_attrs *)call->attrs)->mode == MX_SOFTMAX_ACTIVATION_INSTANCE)
        r.n *= r.inner, r.count /= r.inner ? r.inner : 1, r.inner = 1, r.fours = false;
    return forward<C>(call, r, 1, false, {});
}

/* ---- cross entropy ---------------------------------------------------------------------------------------------- */

/* Class numbers (clamped to [0, n)) or distributions. */
struct labels {
    mx_cuda_values values;
    bool sparse;
    __device__ int64_t of(int64_t row, int64_t n) const
    {
        const int64_t k = values.get<int64_t>(row);
        return k < 0 ? 0 : k >= n ? n - 1 : k;
    }
};

/* loss = lse - x[label], or sum of label (lse - x); dx = g (softmax - label), a distribution's softmax times its sum */
template <class C> struct losses {
    rows r;
    mx_cuda_values x, loss, lse, g, dx; /* absent: not wanted */
    labels label;
    bool known; /* lse is read, not written */
    static const int type = sizeof(C) == 8 ? MX_FLOAT64 : MX_FLOAT32;
    bool same_type() const /* all arrays are of type C */
    {
        for (const mx_cuda_values &v : {x, loss, lse, g, dx, label.values})
            if (v.data && v.type != type)
                return false;
        return true;
    }
};

template <class C> static mx_code by_blocks(const mx_kernel_call *call, const losses<C> &t)
{
    return mx_cuda_rows(call, t.r.count, t.r.n, [=] __device__(int64_t row) {
        const mx_cuda_line at = t.r.at(row);
        const int64_t n = t.r.n, hit = t.label.sparse ? t.label.of(row, n) : -1;
        C most = 0, mine = 0, mass = 0;
        const C total =
            t.known ? t.lse.template get<C>(row) : log(mx_cuda_softmax_sum<C>(t.x, at, n, (C)1, &most)) + most;
        if (!t.label.sparse)
            mx_cuda_line_each<C>(t.x, at, n, [&](int64_t i, C v) {
                const C part = t.label.values.template get<C>(at.start + i * at.inner);
                mine += part * (total - v), mass += part;
            });
        mass = t.label.sparse ? (C)1 : mx_cuda_block_sum(mass);
        if (t.loss.data) {
            const C sum =
                t.label.sparse ? total - t.x.template get<C>(at.start + hit * at.inner) : mx_cuda_block_sum(mine);
            if (!threadIdx.x)
                t.loss.template set<C>(row, sum);
        }
        if (!t.known && t.lse.data && !threadIdx.x)
            t.lse.template set<C>(row, total);
        if (!t.dx.data)
            return;
        const C factor = t.g.template get<C>(row);
        __syncthreads(); /* dx may be x, of which all have read the class that is hit */
        mx_cuda_line_map<C>(t.x, t.dx, at, [=](int64_t i, C v) {
            const C target = t.label.sparse ? (C)(i == hit) : t.label.values.template get<C>(at.start + i * at.inner);
            return factor * (mass * exp(v - total) - target);
        });
    });
}

/* Where types are known, all loads are issued before the first value is used. */
template <class C, int LOADS, int L, bool PLAIN> __global__ void warp_losses(const __grid_constant__ losses<C> given)
{
    losses<C> t = given;
    if (PLAIN)
        t.x.type = t.loss.type = t.lse.type = t.g.type = t.dx.type = t.label.values.type = t.type;
    const int64_t row = (int64_t)blockIdx.x * WARPS + threadIdx.x / 32;
    const int n = (int)t.r.n;
    mx_cuda_wait_for_earlier();
    if (row >= t.r.count)
        return;
    warp_row<C, LOADS, L> x, part;
    const int64_t start = row * n;
    const int hit = t.label.sparse ? (int)t.label.of(row, n) : -1;
    const C factor = t.dx.data ? t.g.template get<C>(row) : (C)0;
    x.read(t.x, start, n, t.r.fours);
    if (!t.label.sparse)
        part.read(t.label.values, start, n, false);
    else
        part.each(n, [&](C &v, bool, int j, int l) { v = (C)(part.place(j) + l == hit); });
    C total = 0, most = -(C)INFINITY, sum = 0;
    if (t.known)
        total = t.lse.template get<C>(row);
    else {
        x.each(n, [&](C v, bool in, int, int) { most = in ? max(most, v) : most; });
        most = warp_join(most, mx_cuda_most<C>());
        const C shift = most > -(C)INFINITY ? most : 0;
        x.each(n, [&](C v, bool in, int, int) { sum += in ? exp(v - shift) : 0; });
        total = log(warp_join(sum, mx_cuda_plus<C>())) + shift;
    }
    if (threadIdx.x % 32 == 0 && !t.known && t.lse.data)
        t.lse.template set<C>(row, total);
    C mass = 0, loss = 0;
    x.each(n, [&](C v, bool in, int j, int l) {
        const C p = in ? part.v[j][l] : (C)0;
        mass += p, loss += !t.label.sparse ? p * (total - v) : p != 0 ? total - v : 0;
    });
    if (!t.label.sparse)
        mass = warp_join(mass, mx_cuda_plus<C>());
    if (t.loss.data) {
        loss = warp_join(loss, mx_cuda_plus<C>());
        if (threadIdx.x % 32 == 0)
            t.loss.template set<C>(row, loss);
    }
    if (!t.dx.data)
        return;
    mass = t.label.sparse ? (C)1 : mass;
    x.each(n, [&](C &v, bool, int j, int l) { v = factor * (mass * exp(v - total) - part.v[j][l]); });
    x.write(t.dx, start, n, t.r.fours);
}

template <class C> static mx_code find_losses(const mx_kernel_call *call, const losses<C> &t)
{
    mx_cuda_device *d = mx_cuda_of(call);
    if (!t.r.n)
        return mx_op_fail(call->op, MX_ERR_SHAPE, "there are no classes: the axis has size 0");
    if (!d)
        return mx_error_code();
    if (!t.r.count)
        return MX_OK;
    const int64_t blocks = (t.r.count + WARPS - 1) / WARPS;
    if (!suits_warps(t.r) || blocks > INT32_MAX) {
        const bool simple = sizeof(C) == 4 && t.r.inner == 1 && t.label.sparse && !t.known;
        const mx_code code =
            simple ? mx_cuda_long_losses(call, {t.r.count, t.r.n, t.x, t.label.values, t.loss, t.lse, t.g, t.dx})
                   : MX_DECLINED;
        return code == MX_DECLINED ? by_blocks<C>(call, t) : code;
    }
    const bool same = t.same_type();
    const auto kernel = t.r.n <= 32              ? same ? warp_losses<C, 1, 1, true> : warp_losses<C, 1, 1, false>
                                     : t.r.n <= WARP_LOAD ? warp_losses<C, 1, MX_CUDA_LANES, false>
                        : t.r.n <= 4 * WARP_LOAD ? warp_losses<C, 4, MX_CUDA_LANES, false>
                                                 : warp_losses<C, 8, MX_CUDA_LANES, false>;
    return mx_cuda_fail(mx_cuda_launch_early(d, kernel, dim3((unsigned)blocks), WARPS * 32, t), call->op->name);
}

template <class C> static mx_code cross_entropy(const mx_kernel_call *call)
{
    const mx_softmax_ce_attrs *a = (const mx_softmax_ce_attrs *)call->attrs;
    const mx_array *x = call->in[0];
    return find_losses<C>(call, {rows(x, x, a->axis),
                                 mx_cuda_values(x),
                                 mx_cuda_values(call->out[0]),
                                 mx_cuda_values(call->out[1]),
                                 {},
                                 {},
                                 {mx_cuda_values(call->in[1]), a->sparse_label},
                                 false});
}

/* The sum of all losses. */
template <class C> static mx_code total_cross_entropy(const mx_kernel_call *call)
{
    const mx_array *x = call->in[0];
    const int64_t count = call->out[1]->size;
    mx_cuda_device *d = mx_cuda_of(call);
    if (!d)
        return mx_error_code();
    mx_cuda_scratch room(d, (size_t)count * sizeof(C));
    mx_cuda_values loss;
    loss.data = room.memory, loss.type = sizeof(C) == 8 ? MX_FLOAT64 : MX_FLOAT32;
    if (count && !room.memory)
        return mx_error_code();
    const mx_code code = !count ? MX_OK
                                : find_losses<C>(call, {rows(x, x, 1),
                                                        mx_cuda_values(x),
                                                        loss,
                                                        mx_cuda_values(call->out[1]),
                                                        {},
                                                        {},
                                                        {mx_cuda_values(call->in[1]), true},
                                                        false});
    const mx_cuda_values sum(call->out[0]);
    return code ? code : mx_cuda_rows(call, 1, count, [=] __device__(int64_t) {
        double mine = 0;
        for (int64_t i = threadIdx.x; i < count; i += blockDim.x)
            mine += loss.get<double>(i);
        const double total = mx_cuda_block_sum(mine);
        if (!threadIdx.x)
            sum.set<double>(0, total);
    });
}

/* inputs: ograd, pred, label, lse */
template <class C> static mx_code backward_cross_entropy(const mx_kernel_call *call)
{
    const mx_softmax_ce_attrs *a = (const mx_softmax_ce_attrs *)call->attrs;
    const mx_array *x = call->in[1];
    return find_losses<C>(call, {rows(x, call->out[0], a->axis),
                                 mx_cuda_values(x),
                                 {},
                                 mx_cuda_values(call->in[3]),
                                 mx_cuda_values(call->in[0]),
                                 mx_cuda_values(call->out[0]),
                                 {mx_cuda_values(call->in[2]), a->sparse_label},
                                 true});
}

/* inputs: pred, label, ograd; outputs: loss, gradient */
template <class C> static mx_code cross_entropy_gradient(const mx_kernel_call *call)
{
    const mx_softmax_ce_attrs *a = (const mx_softmax_ce_attrs *)call->attrs;
    const mx_array *x = call->in[0];
    return find_losses<C>(call, {rows(x, call->out[1], a->axis),
                                 mx_cuda_values(x),
                                 mx_cuda_values(call->out[0]),
                                 {},
                                 mx_cuda_values(call->in[2]),
                                 mx_cuda_values(call->out[1]),
                                 {mx_cuda_values(call->in[1]), a->sparse_label},
                                 false});
}

MX_CUDA_COMPUTES(run_softmax, softmax)
MX_CUDA_COMPUTES(run_log_softmax, log_softmax)
MX_CUDA_COMPUTES(run_softmin, softmin)
MX_CUDA_COMPUTES(run_backward_softmax, backward_softmax)
MX_CUDA_COMPUTES(run_backward_log_softmax, backward_log_softmax)
MX_CUDA_COMPUTES(run_backward_softmin, backward_softmin)
MX_CUDA_COMPUTES(run_activation, activation)
MX_CUDA_COMPUTES(run_ce, cross_entropy)
MX_CUDA_COMPUTES(run_total_ce, total_cross_entropy)
MX_CUDA_COMPUTES(run_backward_ce, backward_cross_entropy)
MX_CUDA_COMPUTES(run_ce_gradient, cross_entropy_gradient)

MX_CUDA_KERNELS(softmax) = {{"softmax", run_softmax, NULL},
                            {"log_softmax", run_log_softmax, NULL},
                            {"softmin", run_softmin, NULL},
                            {"_backward_softmax", run_backward_softmax, NULL},
                            {"_backward_log_softmax", run_backward_log_softmax, NULL},
                            {"_backward_softmin", run_backward_softmin, NULL},
                            {"SoftmaxActivation", run_activation, NULL},
                            {"_softmax_ce", run_ce, NULL},
                            {"_backward_softmax_ce", run_backward_ce, NULL},
                            {"_softmax_ce_gradient", run_ce_gradient, NULL},
                            {"softmax_cross_entropy", run_total_ce, NULL},
                            {NULL, NULL, NULL}};
