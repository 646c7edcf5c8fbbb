/* One recurrent layer: its products with the inputs of all steps are one matrix product; the steps follow, of both
 * directions at once in one launch (rnn_fused.h), or one by one (rnn_loop.cu).  Backward saves the gradients of all
 * gates, so that those of inputs and weights are single products, too.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "cuda/kernels/norm/channels.h"
#include "cuda/kernels/gemm/gemm.h"
#include "cuda/kernels/rnn/rnn_layer.h"

template <class T>
mx_code mx_rnn_product(const mx_kernel_call *call, bool ta, bool tb, int64_t m, int64_t n, int64_t k, const T *a,
                       int64_t lda, const T *b, int64_t ldb, double beta, T *c)
{
    if (!m || !n || !k)
        return MX_OK;
    const int type = sizeof(T) == 8 ? MX_FLOAT64 : MX_FLOAT32;
    return mx_cuda_gemm_run(call, type, {ta, tb, m, n, k, a, lda, b, ldb, c, n, 1, beta, 1, 0, 0, 0});
}
template mx_code mx_rnn_product(const mx_kernel_call *, bool, bool, int64_t, int64_t, int64_t, const float *, int64_t,
                                const float *, int64_t, double, float *);
template mx_code mx_rnn_product(const mx_kernel_call *, bool, bool, int64_t, int64_t, int64_t, const double *, int64_t,
                                const double *, int64_t, double, double *);

namespace
{

/* The steps of all directions in one launch, if possible. */
mx_code fused(const mx_kernel_call *call, const mx_rnn_ways<float> &layer, bool backward)
{
    switch (layer.way[0].s.mode) {
    case MX_CELL_LSTM: return mx_rnn_fused_lstm(call, layer, backward);
    case MX_CELL_GRU: return mx_rnn_fused_gru(call, layer, backward);
    default: return mx_rnn_fused_plain(call, layer, backward);
    }
}
mx_code fused(const mx_kernel_call *, const mx_rnn_ways<double> &, bool) { return MX_DECLINED; }

/* before (T, N, P): the state before every step. */
template <class T> mx_code gather_before(const mx_kernel_call *call, const mx_rnn_layer<T> w)
{
    const int64_t P = w.s.handed, N = w.s.batch;
    return mx_cuda_each(call, w.s.steps * N * P, [=] __device__(int64_t i) {
        const int64_t j = i % P, n = i / P % N, t = i / P / N;
        int64_t previous;
        w.before[i] = w.first(t, n, &previous) ? w.h0[n * P + j] : w.out[(previous * N + n) * w.width + j];
    });
}

template <class T> struct column_sum {
    typedef T number;
    typedef T values;
    struct channel {
    };
    const T *from;
    __device__ channel start(int64_t, int) const { return {}; }
    __device__ T load(int64_t at) const { return from[at]; }
    __device__ void visit(const channel &, T x, int64_t, T *a, T *) const { *a += x; }
};

/* to (columns), and `again` if there is one: sums over the rows */
template <class T>
mx_code sum_columns(const mx_kernel_call *call, const T *from, int64_t rows, int64_t columns, T *to, T *again)
{
    mx_cuda_device *d = mx_cuda_of(call);
    return !d ? mx_error_code()
              : mx_cuda_channel_sums<1>(call, d, mx_cuda_channels(rows, columns), column_sum<T>{from},
                                        [=] __device__(int64_t c, double sum, double) {
                                            to[c] = (T)sum;
                                            if (again)
                                                again[c] = (T)sum;
                                        });
}

/* The products over all steps: dW = dG' X, dX = dG W, db = sums of dG. */
template <class T> mx_code finish(const mx_kernel_call *call, const mx_rnn_layer<T> &w)
{
    const mx_rnn_shape &s = w.s;
    const int64_t rows = s.steps * s.batch, gates = s.gates * s.hidden, P = s.handed, I = w.inputs;
    const bool both = w.dgh == w.dgates; /* except for GRU */
    mx_code code = sum_columns<T>(call, w.dgates, rows, gates, w.dbx, both ? w.dbh : nullptr);
    code = code || both ? code : sum_columns<T>(call, w.dgh, rows, gates, w.dbh, nullptr);
    code = code ? code : mx_rnn_product<T>(call, true, false, gates, I, rows, w.dgates, gates, w.x, I, 0, w.dwx);
    code = code ? code : mx_rnn_product<T>(call, true, false, gates, P, rows, w.dgh, gates, w.before, P, 0, w.dwh);
    if (!code && s.projection)
        code = mx_rnn_product<T>(call, true, false, P, s.hidden, rows, w.draw, P, w.raw, s.hidden, 0, w.dwr);
    return code ? code
                : mx_rnn_product<T>(call, false, false, rows, I, gates, w.dgates, gates, w.wx, I, w.add_dx, w.dx);
}

} // namespace

template <class T> mx_code mx_rnn_forward(const mx_kernel_call *call, const mx_rnn_ways<T> &layer)
{
    mx_code code = MX_OK;
    for (int d = 0; d < layer.count && !code; d++) {
        const mx_rnn_layer<T> &w = layer.way[d];
        code = mx_rnn_product<T>(call, false, true, w.s.steps * w.s.batch, w.s.gates * w.s.hidden, w.inputs, w.x,
                                 w.inputs, w.wx, w.inputs, 0, w.gates);
    }
    code = code ? code : fused(call, layer, false);
    if (code != MX_DECLINED)
        return code;
    code = MX_OK;
    for (int d = 0; d < layer.count && !code; d++)
        code = mx_rnn_loop_forward<T>(call, layer.way[d]);
    return code;
}

template <class T> mx_code mx_rnn_backward(const mx_kernel_call *call, const mx_rnn_ways<T> &layer)
{
    mx_code code = MX_OK;
    for (int d = 0; d < layer.count && !code; d++)
        code = gather_before<T>(call, layer.way[d]);
    code = code ? code : fused(call, layer, true);
    if (code == MX_DECLINED) {
        code = MX_OK;
        for (int d = 0; d < layer.count && !code; d++)
            code = mx_rnn_loop_backward<T>(call, layer.way[d]);
    }
    for (int d = 0; d < layer.count && !code; d++)
        code = finish<T>(call, layer.way[d]);
    return code;
}

template mx_code mx_rnn_forward(const mx_kernel_call *, const mx_rnn_ways<float> &);
template mx_code mx_rnn_forward(const mx_kernel_call *, const mx_rnn_ways<double> &);
template mx_code mx_rnn_backward(const mx_kernel_call *, const mx_rnn_ways<float> &);
template mx_code mx_rnn_backward(const mx_kernel_call *, const mx_rnn_ways<double> &);
