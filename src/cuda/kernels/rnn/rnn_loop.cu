/* The steps of a recurrent layer one after the other, each by a product with the state before and a launch.
 *
 * This supports everything: exact float32, float64, projections, any size.  rnn_fused.h is faster where it can be used.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "cuda/kernels/rnn/rnn_cells.h"

namespace
{

template <class T> mx_code copy(const mx_kernel_call *call, T *to, const T *from, int64_t n) /* from NULL: zeros */
{
    return to == from ? MX_OK : mx_cuda_each(call, n, [=] __device__(int64_t i) { to[i] = from ? from[i] : 0; });
}

/* ---- forward ----------------------------------------------------------------------------------------------------- */

/* Unit j of row n at step t: gates become activations, the state moves on where the sequence has not ended.  Except for
 * GRU, the gates already include the state's product. */
template <class Cell, class T> mx_code step_forward(const mx_kernel_call *call, const mx_rnn_layer<T> w, int64_t t)
{
    constexpr int G = Cell::GATES;
    const int64_t H = w.s.hidden;
    return mx_cuda_each(call, w.s.batch * H, [=] __device__(int64_t i) {
        const int64_t n = i / H, j = i % H, row = t * w.s.batch + n;
        T *gates = w.gates + row * G * H + j, *h = w.s.projection ? w.raw + row * H + j : w.h + i;
        const bool active = w.active(t, n);
        mx_rnn_unit<T> u = {{}, 0, w.s.projection ? 0 : *h, Cell::CELL ? w.c[i] : 0};
        T x[G], y[G];
        for (int k = 0; k < G; k++) {
            x[k] = gates[k * H] + w.bx[k * H + j];
            y[k] = w.bh[k * H + j] + (Cell::APART ? w.gh[n * G * H + k * H + j] : 0);
        }
        if (active) {
            Cell::forward(w, x, y, u);
            for (int k = 0; k < G; k++)
                gates[k * H] = u.gate[k];
            if (Cell::EXTRA)
                w.extra[row * H + j] = u.extra;
            if (Cell::CELL)
                w.c[i] = u.c;
        }
        if (w.s.projection)
            *h = active ? u.h : 0;
        else
            *h = u.h, w.out[row * w.width + j] = active ? u.h : 0;
    });
}

/* h = raw h2r' for the rows that took part. */
template <class T> mx_code project(const mx_kernel_call *call, const mx_rnn_layer<T> w, int64_t t)
{
    const int64_t P = w.s.handed, H = w.s.hidden, N = w.s.batch;
    const mx_code code = mx_rnn_product<T>(call, false, true, N, P, H, w.raw + t * N * H, H, w.wr, H, 0, w.projected);
    return code ? code : mx_cuda_each(call, N * P, [=] __device__(int64_t i) {
        const int64_t n = i / P, j = i % P;
        const bool active = w.active(t, n);
        if (active)
            w.h[i] = w.projected[i];
        w.out[(t * N + n) * w.width + j] = active ? w.projected[i] : 0;
    });
}

template <class Cell, class T> mx_code forward(const mx_kernel_call *call, const mx_rnn_layer<T> &w)
{
    const mx_rnn_shape &s = w.s;
    const int64_t gates = s.gates * s.hidden, N = s.batch, P = s.handed;
    mx_code code = copy<T>(call, w.h, w.h0, N * P);
    code = code || !Cell::CELL ? code : copy<T>(call, w.c, w.c0, N * s.hidden);
    for (int64_t i = 0; i < s.steps && !code; i++) {
        const int64_t t = w.reverse ? s.steps - 1 - i : i;
        T *to = Cell::APART ? w.gh : w.gates + t * N * gates;
        code = mx_rnn_product<T>(call, false, true, N, gates, P, w.h, P, w.wh, P, Cell::APART ? 0 : 1, to);
        code = code ? code : step_forward<Cell, T>(call, w, t);
        code = code || !s.projection ? code : project<T>(call, w, t);
    }
    return code;
}

/* ---- backward ---------------------------------------------------------------------------------------------------- */

/* With a projection, dh and the gradient of this step's output are added, saved, and propagated through it. */
template <class T> mx_code leave_projection(const mx_kernel_call *call, const mx_rnn_layer<T> w, int64_t t)
{
    const int64_t P = w.s.handed, N = w.s.batch;
    const mx_code code = mx_cuda_each(call, N * P, [=] __device__(int64_t i) {
        const int64_t n = i / P, row = t * N + n;
        const bool active = w.active(t, n);
        if (active && w.dout)
            w.dh[i] += w.dout[row * w.width + i % P];
        w.draw[t * N * P + i] = active ? w.dh[i] : 0;
        w.dh_next[i] = active ? 0 : w.dh[i];
    });
    return code ? code : mx_rnn_product<T>(call, false, false, N, w.s.hidden, P, w.dh, P, w.wr, w.s.hidden, 0, w.dfull);
}

/* Gradients of the gates from dh; dh_next gets what reaches the state before without the product. */
template <class Cell, class T> mx_code step_backward(const mx_kernel_call *call, const mx_rnn_layer<T> w, int64_t t)
{
    constexpr int G = Cell::GATES;
    const int64_t H = w.s.hidden;
    return mx_cuda_each(call, w.s.batch * H, [=] __device__(int64_t i) {
        const int64_t n = i / H, j = i % H, row = t * w.s.batch + n;
        const bool active = w.active(t, n);
        T dx[G] = {}, dy[G] = {}, past = w.s.projection ? 0 : w.dh[i];
        if (active) {
            mx_rnn_unit<T> u = {{}, Cell::EXTRA ? w.extra[row * H + j] : 0, 0, Cell::CELL ? w.dc[i] : 0};
            for (int k = 0; k < G; k++)
                u.gate[k] = w.gates[row * G * H + k * H + j];
            const T dh = w.s.projection ? w.dfull[i] : past + (w.dout ? w.dout[row * w.width + j] : 0);
            past = Cell::backward(w, u, Cell::before(w, t, n, j), dh, dx, dy);
            if (Cell::CELL)
                w.dc[i] = u.c;
        }
        if (!w.s.projection)
            w.dh_next[i] = past;
        for (int k = 0; k < G; k++) {
            w.dgates[row * G * H + k * H + j] = dx[k];
            if (Cell::APART)
                w.dgh[row * G * H + k * H + j] = dy[k];
        }
    });
}

template <class Cell, class T> mx_code backward(const mx_kernel_call *call, const mx_rnn_layer<T> &layer)
{
    mx_rnn_layer<T> w = layer; /* its dh and dh_next are swapped */
    const mx_rnn_shape &s = w.s;
    const int64_t gates = s.gates * s.hidden, N = s.batch, P = s.handed;
    mx_code code = copy<T>(call, w.dh, w.dh1, N * P);
    code = code || !Cell::CELL ? code : copy<T>(call, w.dc, w.dc1, N * s.hidden);
    for (int64_t i = s.steps - 1; i >= 0 && !code; i--) {
        const int64_t t = w.reverse ? s.steps - 1 - i : i;
        code = s.projection ? leave_projection<T>(call, w, t) : MX_OK;
        code = code ? code : step_backward<Cell, T>(call, w, t);
        const T *from = w.dgh + t * N * gates;
        code = code ? code : mx_rnn_product<T>(call, false, false, N, P, gates, from, gates, w.wh, P, 1, w.dh_next);
        T *swap = w.dh;
        w.dh = w.dh_next, w.dh_next = swap;
    }
    return code ? code : copy<T>(call, layer.dh, w.dh, N * P);
}

} // namespace

template <class T> mx_code mx_rnn_loop_forward(const mx_kernel_call *call, const mx_rnn_layer<T> &w)
{
    return w.s.mode == MX_CELL_LSTM  ? forward<mx_rnn_lstm<mx_rnn_exact>, T>(call, w)
           : w.s.mode == MX_CELL_GRU ? forward<mx_rnn_gru<mx_rnn_exact>, T>(call, w)
                                     : forward<mx_rnn_plain<mx_rnn_exact>, T>(call, w);
}

template <class T> mx_code mx_rnn_loop_backward(const mx_kernel_call *call, const mx_rnn_layer<T> &w)
{
    return w.s.mode == MX_CELL_LSTM  ? backward<mx_rnn_lstm<mx_rnn_exact>, T>(call, w)
           : w.s.mode == MX_CELL_GRU ? backward<mx_rnn_gru<mx_rnn_exact>, T>(call, w)
                                     : backward<mx_rnn_plain<mx_rnn_exact>, T>(call, w);
}

template mx_code mx_rnn_loop_forward(const mx_kernel_call *, const mx_rnn_layer<float> &);
template mx_code mx_rnn_loop_forward(const mx_kernel_call *, const mx_rnn_layer<double> &);
template mx_code mx_rnn_loop_backward(const mx_kernel_call *, const mx_rnn_layer<float> &);
template mx_code mx_rnn_loop_backward(const mx_kernel_call *, const mx_rnn_layer<double> &);
