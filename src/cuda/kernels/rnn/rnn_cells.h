/* What one unit of a cell does in one step, forward and backward: LSTM, GRU, and the simple cell with tanh or relu.
 *
 *     GATES      rows of weights per unit
 *     CELL       there is a cell beside the state
 *     EXTRA      the forward pass saves a number beside the activations
 *     APART      the products with input and state are not just added, and have gradients of their own
 *     forward    from x (GATES), the products with the input, and y, those with the state: activations, new state
 *     before     what backward needs of the step before, as saved by the forward pass
 *     backward   from dh and u.c, the gradients of the state and the cell after the step: dx and dy (GATES), those of
 *                x and y; u.c moves on to the step before; returns what reaches the state before without a product
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef MX_CUDA_RNN_CELLS_H
#define MX_CUDA_RNN_CELLS_H

#include "cuda/kernels/rnn/rnn_layer.h"

#define MX_CELL_FUNCTION template <class T> __device__ inline
#define MX_CELL(name) mx_cell_##name
#include "op/formula/rnn_cells.h"

template <class T> struct mx_rnn_unit {
    T gate[4]; /* activations */
    T extra;   /* LSTM: the cell; GRU: the new gate's h2h part */
    T h, c;    /* states; backward: c is the gradient of the cell */
};

/* The functions of the gates: as exact as T, or fast with errors below 1e-6, for states that are rounded to TF32
 * anyway. */
struct mx_rnn_exact {
    template <class T> static __device__ T sigmoid(T x) { return 1 / (1 + exp(-x)); }
    template <class T> static __device__ T tanh(T x) { return ::tanh(x); }
};
struct mx_rnn_quick {
    static __device__ float sigmoid(float x) { return __fdividef(1, 1 + __expf(-x)); }
    static __device__ float tanh(float x) { return 1 - __fdividef(2, 1 + __expf(2 * x)); }
};

template <class Math> struct mx_rnn_lstm { /* i, f, g, o: c' = s(f) c + s(i) tanh(g),  h' = s(o) tanh(c') */
    static constexpr int GATES = 4;
    static constexpr bool CELL = true, EXTRA = true, APART = false;
    template <class T>
    static __device__ void forward(const mx_rnn_layer<T> &w, const T *x, const T *y, mx_rnn_unit<T> &u)
    {
        for (int k = 0; k < 4; k++)
            u.gate[k] = k == 2 ? Math::tanh(x[k] + y[k]) : Math::sigmoid(x[k] + y[k]);
        u.c = u.extra = mx_cell_lstm_cell<T>(u.gate[0], u.gate[1], u.gate[2], u.c, w.clip_min, w.clip_max, w.clip_nan);
        u.h = u.gate[3] * Math::tanh(u.c);
    }
    template <class T> static __device__ T before(const mx_rnn_layer<T> &w, int64_t t, int64_t n, int64_t j)
    {
        int64_t previous;
        return w.first(t, n, &previous) ? w.c0[n * w.s.hidden + j]
                                        : w.extra[(previous * w.s.batch + n) * w.s.hidden + j];
    }
    template <class T>
    static __device__ T backward(const mx_rnn_layer<T> &w, mx_rnn_unit<T> &u, T before, T dh, T *dx, T *dy)
    {
        const T in = u.gate[0], forget = u.gate[1], fresh = u.gate[2], open = u.gate[3], y = Math::tanh(u.extra);
        const T cell = mx_cell_lstm_cell_back<T>(u.c, dh, open, y, u.extra, w.clip_min, w.clip_max);
        dx[0] = dy[0] = mx_cell_sigmoid_back<T>(cell * fresh, in);
        dx[1] = dy[1] = mx_cell_sigmoid_back<T>(cell * before, forget);
        dx[2] = dy[2] = mx_cell_tanh_back<T>(cell * in, fresh);
        dx[3] = dy[3] = mx_cell_sigmoid_back<T>(dh * y, open);
        u.c = cell * forget;
        return 0;
    }
};

template <class Math> struct mx_rnn_gru { /* r, z, n: n = tanh(x + s(r) y),  h' = (1 - s(z)) n + s(z) h */
    static constexpr int GATES = 3;
    static constexpr bool CELL = false, EXTRA = true, APART = true;
    template <class T>
    static __device__ void forward(const mx_rnn_layer<T> &, const T *x, const T *y, mx_rnn_unit<T> &u)
    {
        for (int k = 0; k < 2; k++)
            u.gate[k] = Math::sigmoid(x[k] + y[k]);
        u.extra = y[2], u.gate[2] = Math::tanh(mx_cell_gru_new<T>(x[2], u.gate[0], y[2]));
        u.h = mx_cell_gru_state<T>(u.gate[2], u.gate[1], u.h);
    }
    template <class T> static __device__ T before(const mx_rnn_layer<T> &w, int64_t t, int64_t n, int64_t j)
    {
        return w.before[(t * w.s.batch + n) * w.s.hidden + j];
    }
    template <class T>
    static __device__ T backward(const mx_rnn_layer<T> &, mx_rnn_unit<T> &u, T before, T dh, T *dx, T *dy)
    {
        const T r = u.gate[0], z = u.gate[1], fresh = u.gate[2];
        dx[2] = mx_cell_gru_new_back<T>(dh, z, fresh), dy[2] = dx[2] * r;
        dx[0] = dy[0] = mx_cell_sigmoid_back<T>(dx[2] * u.extra, r);
        dx[1] = dy[1] = mx_cell_gru_update_back<T>(dh, before, z, fresh);
        return mx_cell_gru_state_back<T>(dh, z);
    }
};

template <class Math> struct mx_rnn_plain { /* h' = act(x + y) */
    static constexpr int GATES = 1;
    static constexpr bool CELL = false, EXTRA = false, APART = false;
    template <class T>
    static __device__ void forward(const mx_rnn_layer<T> &w, const T *x, const T *y, mx_rnn_unit<T> &u)
    {
        const T v = *x + *y;
        u.h = *u.gate = w.s.mode == MX_CELL_RELU ? mx_cell_plain_relu<T>(v) : Math::tanh(v);
    }
    template <class T> static __device__ T before(const mx_rnn_layer<T> &, int64_t, int64_t, int64_t) { return 0; }
    template <class T> static __device__ T backward(const mx_rnn_layer<T> &w, mx_rnn_unit<T> &u, T, T dh, T *dx, T *dy)
    {
        *dx = *dy =
            w.s.mode == MX_CELL_RELU ? mx_cell_plain_relu_back<T>(dh, *u.gate) : mx_cell_tanh_back<T>(dh, *u.gate);
        return 0;
    }
};

#endif
