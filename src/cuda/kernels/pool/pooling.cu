/* Pooling: a thread per result, or per V channels of one where channels are last.  The gradient of an element is gathered
 * from the windows that hold it, so no two threads write to one place and the order of additions is fixed.  The most
 * common windows, adjacent ones of two by two, have kernels of their own.
 *
 *     max   the largest element; of equal ones the first takes the gradient; NaN is never the largest
 *     avg   sum / window size, the window cut at the padded input (count_include_pad) or at the input itself
 *     lp    (sum of x^p)^(1/p)
 *
 * For the gradient of max the windows first store which of their elements is the largest; then elements read that of the
 * windows around them.  With relu before or after it, windows whose largest element is not positive contribute nothing.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "cuda/kernels/pool/pooling_squares.h"

namespace
{

/* ---- forward --------------------------------------------------------------------------------------------------- */

template <class S, int V> static mx_code forward(const mx_kernel_call *call)
{
    typedef mx_cuda_wide<S> T;
    const pool s = shape_of((const mx_pooling_attrs *)call->attrs, call->in[0], call->out[0]);
    const S *x = (const S *)mx_data(call->in[0]);
    S *y = (S *)mx_data(call->out[0]);
    const mx_code done = try_squares<S, V>(call, s, x, nullptr, y, false);
    return done != MX_DECLINED
               ? done
               : each_place<V>(call, s, s.out_all, [=] __device__(int64_t image, int channel, int place) {
                     T result[V];
                     mx_cuda_pack<S, V> made;
                     pooled<S, V>(s, window(s, place), plane(s, s.in_all, image, channel), x, result);
                     for (int l = 0; l < V; l++)
                         made.v[l] = (S)result[l];
                     made.store(y, plane(s, s.out_all, image, channel).at(place));
                 });
}

/* One window as large as the data, channels first: a block per image and channel. */
template <class S> static mx_code forward_whole(const mx_kernel_call *call)
{
    typedef mx_cuda_wide<S> T;
    const pool s = shape_of((const mx_pooling_attrs *)call->attrs, call->in[0], call->out[0]);
    const S *x = (const S *)mx_data(call->in[0]);
    S *y = (S *)mx_data(call->out[0]);
    const bool largest = s.type == MX_POOLING_MAX;
    const T scale = s.type == MX_POOLING_AVG ? 1 / (T)s.in_all : (T)1;
    return mx_cuda_rows(call, s.images * s.channels, s.in_all, [=] __device__(int64_t row) {
        T mine = largest ? (T)-INFINITY : (T)0;
        for (int i = threadIdx.x; i < s.in_all; i += blockDim.x) {
            const T v = (T)x[row * s.in_all + i];
            mine = !largest ? mine + v : v > mine ? v : mine;
        }
        const T all = largest ? mx_cuda_block_max(mine) : mx_cuda_block_sum(mine) * scale;
        if (!threadIdx.x)
            y[row] = (S)all;
    });
}

/* The same with channels last.  Threads (groups of V channels, parts of the places); block (x: channels, y: images). */
enum { WHOLE_GROUPS = 16, WHOLE_PARTS = 16 };

template <class S, int V, class T>
__global__ void __launch_bounds__(WHOLE_GROUPS *WHOLE_PARTS) whole_last(pool s, const S *x, S *y, T scale)
{
    __shared__ T parts[WHOLE_PARTS][WHOLE_GROUPS * V];
    const int group = threadIdx.x % WHOLE_GROUPS, part = threadIdx.x / WHOLE_GROUPS;
    const int channel = (blockIdx.x * WHOLE_GROUPS + group) * V, mine = blockIdx.x * WHOLE_GROUPS * V + threadIdx.x;
    const bool largest = s.type == MX_POOLING_MAX;
    mx_cuda_wait_for_earlier();
    for (int64_t image = blockIdx.y; image < s.images; image += gridDim.y) {
        T result[V];
        for (int l = 0; l < V; l++)
            result[l] = largest ? (T)-INFINITY : (T)0;
#pragma unroll 4
        for (int q = part; q < s.in_all && channel < s.channels; q += WHOLE_PARTS) {
            const mx_cuda_pack<S, V> k = mx_cuda_pack<S, V>::load(x, (image * s.in_all + q) * s.channels + channel);
            for (int l = 0; l < V; l++)
                result[l] = !largest ? result[l] + (T)k.v[l] : (T)k.v[l] > result[l] ? (T)k.v[l] : result[l];
        }
        __syncthreads();
        for (int l = 0; l < V; l++)
            parts[part][group * V + l] = result[l];
        __syncthreads();
        if (threadIdx.x < WHOLE_GROUPS * V && mine < s.channels) {
            T all = parts[0][threadIdx.x];
            for (int i = 1; i < WHOLE_PARTS; i++) {
                const T v = parts[i][threadIdx.x];
                all = !largest ? all + v : v > all ? v : all;
            }
            y[image * s.channels + mine] = (S)(largest ? all : all * scale);
        }
    }
}

template <class S, int V> static mx_code forward_whole_last(const mx_kernel_call *call)
{
    typedef mx_cuda_wide<S> T;
    mx_cuda_device *d = mx_cuda_of(call);
    const pool s = shape_of((const mx_pooling_attrs *)call->attrs, call->in[0], call->out[0]);
    if (!d)
        return mx_error_code();
    if (!s.images)
        return MX_OK;
    const T scale = s.type == MX_POOLING_AVG ? 1 / (T)s.in_all : (T)1;
    const dim3 grid((unsigned)((s.channels + WHOLE_GROUPS * V - 1) / (WHOLE_GROUPS * V)),
                    (unsigned)mx_cuda_least(s.images, 65535));
    return mx_cuda_fail(mx_cuda_launch_early(d, whole_last<S, V, T>, grid, WHOLE_GROUPS * WHOLE_PARTS, s,
                                             (const S *)mx_data(call->in[0]), (S *)mx_data(call->out[0]), scale),
                        call->op->name);
}

/* ---- backward -------------------------------------------------------------------------------------------------- */

/* The windows that hold an element. */
struct holders {
    int first[3], end[3], me[3];
    __device__ holders(const pool &s, int place)
    {
        me[0] = place / (s.in[1] * s.in[2]), me[1] = place / s.in[2] % s.in[1], me[2] = place % s.in[2];
        for (int a = 0; a < 3; a++) {
            const int low = me[a] + s.pad[a] - s.kernel[a] + 1, high = (me[a] + s.pad[a]) / s.stride[a] + 1;
            first[a] = low > 0 ? (low + s.stride[a] - 1) / s.stride[a] : 0;
            end[a] = high < s.out[a] ? high : s.out[a];
        }
    }
    /* f(z, y, x, place in y) */
    template <class F> __device__ void each(const pool &s, F f) const
    {
        for (int z = first[0]; z < end[0]; z++)
            for (int y = first[1]; y < end[1]; y++)
                for (int x = first[2]; x < end[2]; x++)
                    f(z, y, x, (z * s.out[1] + y) * s.out[2] + x);
    }
};

/* avg, sum and lp: the gradient of an element from its windows' */
template <class S, int V> static mx_code backward_sums(const mx_kernel_call *call, const pool &s)
{
    typedef mx_cuda_wide<S> T;
    const S *dy = (const S *)mx_data(call->in[0]), *x = (const S *)mx_data(call->in[1]);
    S *dx = (S *)mx_data(call->out[0]);
    return each_place<V>(call, s, s.in_all, [=] __device__(int64_t image, int channel, int place) {
        const plane in(s, s.in_all, image, channel), out(s, s.out_all, image, channel);
        T sum[V] = {};
        mx_cuda_pack<S, V> made;
        holders(s, place).each(s, [&](int z, int y, int w, int q) {
            const window win(s, z, y, w);
            const mx_cuda_pack<S, V> g = mx_cuda_pack<S, V>::load(dy, out.at(q));
            T whole[V];
            if (s.type == MX_POOLING_LP)
                pooled<S, V>(s, win, in, x, whole);
            for (int l = 0; l < V; l++) {
                const T ratio = s.type != MX_POOLING_LP ? (T)win.scale
                                : whole[l] != 0         ? (T)x[in.at(place) + l] / whole[l]
                                                        : 0;
                sum[l] += (T)g.v[l] * (s.type != MX_POOLING_LP ? ratio
                                       : s.p == 1              ? (T)1
                                       : s.p == 2              ? ratio
                                                               : ratio * ratio);
            }
        });
        for (int l = 0; l < V; l++)
            made.v[l] = (S)sum[l];
        made.store(dx, in.at(place));
    });
}

/* winners (as y): the number of the largest element in its window; the maximum of the type: none */
template <class S, int V, class W>
static mx_code find_winners(const mx_kernel_call *call, const pool &s, W *winners, bool relu)
{
    typedef mx_cuda_wide<S> T;
    const S *x = (const S *)mx_data(call->in[1]);
    return each_place<V>(call, s, s.out_all, [=] __device__(int64_t image, int channel, int place) {
        const plane in(s, s.in_all, image, channel);
        T most[V];
        mx_cuda_pack<W, V> best;
        for (int l = 0; l < V; l++)
            most[l] = (T)-INFINITY, best.v[l] = (W)-1;
        each_element(s, window(s, place), [&](int q, int number) {
            const mx_cuda_pack<S, V> k = mx_cuda_pack<S, V>::load(x, in.at(q));
            for (int l = 0; l < V; l++) {
                const T v = (T)k.v[l];
                if (v > most[l] || (best.v[l] == (W)-1 && v == most[l]))
                    most[l] = v, best.v[l] = (W)number;
            }
        });
        for (int l = 0; l < V; l++)
            best.v[l] = relu && !(most[l] > 0) ? (W)-1 : best.v[l];
        best.store(winners, plane(s, s.out_all, image, channel).at(place));
    });
}

/* Windows that do not overlap: each writes the gradient of all elements up to the next window. */
template <class S, int V> static mx_code backward_apart(const mx_kernel_call *call, const pool &s, bool relu)
{
    const S *dy = (const S *)mx_data(call->in[0]), *x = (const S *)mx_data(call->in[1]);
    S *dx = (S *)mx_data(call->out[0]);
    return each_place<V>(call, s, s.out_all, [=] __device__(int64_t image, int channel, int place) {
        typedef mx_cuda_wide<S> T;
        const int at[3] = {place / (s.out[1] * s.out[2]), place / s.out[2] % s.out[1], place % s.out[2]};
        const plane in(s, s.in_all, image, channel), out(s, s.out_all, image, channel);
        const mx_cuda_pack<S, V> g = mx_cuda_pack<S, V>::load(dy, out.at(place));
        const window w(s, at[0], at[1], at[2]);
        T most[V];
        int winner[V];
        for (int l = 0; l < V; l++)
            most[l] = (T)-INFINITY, winner[l] = -1;
        each_element(s, w, [&](int q, int) {
            const mx_cuda_pack<S, V> k = mx_cuda_pack<S, V>::load(x, in.at(q));
            for (int l = 0; l < V; l++)
                if ((T)k.v[l] > most[l] || (winner[l] < 0 && (T)k.v[l] == most[l]))
                    most[l] = (T)k.v[l], winner[l] = q;
        });
        for (int l = 0; l < V; l++)
            winner[l] = relu && !(most[l] > 0) ? -1 : winner[l];
        int end[3];
        for (int a = 0; a < 3; a++)
            end[a] = at[a] + 1 < s.out[a] ? w.begin[a] + s.stride[a] : s.in[a];
        for (int z = w.begin[0]; z < end[0]; z++)
            for (int y = w.begin[1]; y < end[1]; y++)
                for (int c = w.begin[2]; c < end[2]; c++) {
                    const int q = (z * s.in[1] + y) * s.in[2] + c;
                    mx_cuda_pack<S, V> made;
                    for (int l = 0; l < V; l++)
                        made.v[l] = q == winner[l] ? g.v[l] : (S)0.0f;
                    made.store(dx, in.at(q));
                }
    });
}

static bool apart(const pool &s)
{
    for (int a = 0; a < 3; a++)
        if (s.pad[a] || s.stride[a] < s.kernel[a] || (s.out[a] - 1) * s.stride[a] >= s.in[a])
            return false;
    return true;
}

template <class S, int V, class W> static mx_code backward_max(const mx_kernel_call *call, const pool &s, bool relu)
{
    typedef mx_cuda_wide<S> T;
    mx_cuda_device *d = mx_cuda_of(call);
    const S *dy = (const S *)mx_data(call->in[0]);
    S *dx = (S *)mx_data(call->out[0]);
    mx_cuda_scratch room(d, (size_t)(s.images * s.out_all * s.channels) * sizeof(W));
    if (!room.memory)
        return mx_error_code();
    W *winners = room.as<W>();
    const mx_code code = find_winners<S, V, W>(call, s, winners, relu);
    return code ? code : each_place<V>(call, s, s.in_all, [=] __device__(int64_t image, int channel, int place) {
        const holders h(s, place);
        const plane out(s, s.out_all, image, channel);
        T sum[V] = {};
        mx_cuda_pack<S, V> made;
        h.each(s, [&](int z, int y, int x, int q) {
            const W me = (W)window(s, z, y, x).number(s, h.me[0], h.me[1], h.me[2]);
            const mx_cuda_pack<W, V> won = mx_cuda_pack<W, V>::load(winners, out.at(q));
            const mx_cuda_pack<S, V> g = mx_cuda_pack<S, V>::load(dy, out.at(q));
            for (int l = 0; l < V; l++)
                sum[l] += won.v[l] == me ? (T)g.v[l] : (T)0;
        });
        for (int l = 0; l < V; l++)
            made.v[l] = (S)sum[l];
        made.store(dx, plane(s, s.in_all, image, channel).at(place));
    });
}

template <class S, int V> static mx_code backward(const mx_kernel_call *call, bool relu)
{
    const pool s = shape_of((const mx_pooling_attrs *)call->attrs, call->in[1], call->in[0]);
    if (!mx_cuda_of(call))
        return mx_error_code();
    if (!call->out[0]->size || !call->in[0]->size)
        return mx_cuda_each(call, call->out[0]->size,
                            [dx = (S *)mx_data(call->out[0])] __device__(int64_t i) { dx[i] = (S)(mx_cuda_wide<S>)0; });
    if (s.type != MX_POOLING_MAX)
        return backward_sums<S, V>(call, s);
    const mx_code done = try_squares<S, V>(call, s, (const S *)mx_data(call->in[1]), (const S *)mx_data(call->in[0]),
                                           (S *)mx_data(call->out[0]), relu);
    if (done != MX_DECLINED)
        return done;
    if (apart(s))
        return backward_apart<S, V>(call, s, relu);
    return (int64_t)s.kernel[0] * s.kernel[1] * s.kernel[2] < 255 ? backward_max<S, V, uint8_t>(call, s, relu)
                                                                  : backward_max<S, V, uint32_t>(call, s, relu);
}

/* ---- element types --------------------------------------------------------------------------------------------- */

/* 16 bytes of neighbouring channels can be moved at once in all arrays of the call. */
static bool packed(const mx_kernel_call *call)
{
    const mx_pooling_attrs *a = (const mx_pooling_attrs *)call->attrs;
    const mx_array *x = call->out[0];
    return a->layout >= MX_POOLING_NWC && x->shape[x->ndim - 1] % (16 / mx_dtype_size((mx_dtype)x->dtype)) == 0 &&
           mx_cuda_all_aligned({x, call->in[0], call->n_in > 1 ? call->in[1] : nullptr});
}

static bool whole(const mx_kernel_call *call)
{
    const mx_pooling_attrs *a = (const mx_pooling_attrs *)call->attrs;
    return a->global_pool && a->pool_type != MX_POOLING_LP && call->in[0]->size > 16 * call->out[0]->size;
}

static mx_code run_pooling(const mx_kernel_call *call)
{
    return mx_cuda_by_storage(call->in[0]->dtype, packed(call), [=](auto *type, auto lanes) {
        typedef MX_CUDA_STORAGE(type) S;
        constexpr int V = decltype(lanes)::value;
        const bool last = ((const mx_pooling_attrs *)call->attrs)->layout >= MX_POOLING_NWC;
        return !whole(call) || (last && V == 1) ? forward<S, V>(call)
               : last                           ? forward_whole_last<S, V>(call)
                                                : forward_whole<S>(call);
    });
}

static mx_code run_gradient(const mx_kernel_call *call, bool relu)
{
    return mx_cuda_by_storage(call->in[0]->dtype, packed(call), [=](auto *type, auto lanes) {
        return backward<MX_CUDA_STORAGE(type), decltype(lanes)::value>(call, relu);
    });
}
static mx_code run_backward(const mx_kernel_call *call) { return run_gradient(call, false); }
static mx_code run_backward_relu(const mx_kernel_call *call) { return run_gradient(call, true); }

} // namespace

MX_CUDA_KERNELS(pooling) = {{"Pooling", run_pooling, NULL},
                            {"_backward_Pooling", run_backward, NULL},
                            {"_backward_pool_relu", run_backward_relu, NULL},
                            {NULL, NULL, NULL}};
