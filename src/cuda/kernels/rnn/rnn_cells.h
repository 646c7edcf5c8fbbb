/* What one unit of a cell does in one step, forward and backward: LSTM, GRU, and the plain cell with tanh or relu.
 *
 *     GATES      rows of weights per unit
 *     CELL       there is a cell beside the state
 *     EXTRA      the forward pass keeps a number beside the activations
 *     APART      the products with input and state are not just added, and have gradients of their own
 *     forward    from x (GATES), the products with the input, and y, those with the state: activations, new state
 *     before     what backward needs of the step before, as kept by the forward pass
 *     backward   from dh and u.c, the gradients of the state and the cell behind the step: dx and dy (GATES), those of
 *                x and y; u.c moves on to the step before; returns what reaches the state before without a product
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef MX_CUDA_RNN_CELLS_H
#define MX_CUDA_RNN_CELLS_H

#include "cuda/kernels/rnn/rnn_layer.h"

template <class T> struct mx_rnn_unit {
    T gate[4]; /* activations */
    T extra;   /* LSTM: the cell; GRU: the new gate's h2h part */
    T h, c;    /* states; backward: c is the gradient of the cell */
};

/* The functions of the gates: as exact as T, or quick with errors below 1e-6, for states that are rounded to TF32
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
        T cell = u.gate[1] * u.c + u.gate[0] * u.gate[2];
        cell = cell < w.clip_min ? w.clip_min : cell > w.clip_max ? w.clip_max : cell;
        u.c = u.extra = cell != cell ? w.clip_nan : cell;
        u.h = u.gate[3] * Math::tanh(u.c);
    }
    template <class T> static __device__ T before(const mx_rnn_layer<T> &w, int64_t t, int64_t n, int64_t j)
    {
        int64_t previous;
        return w.first(t, n, &previous) ? w.c0[n * w.s.hidden + j]
                                        : w.extra[(previous * w.s.batch + n) * w.s.hidden + j];
    }
    /* dc += dh o (1 - tanh(c)^2), cut where the cell was clipped; then the gates' own slopes */
    template <class T>
    static __device__ T backward(const mx_rnn_layer<T> &w, mx_rnn_unit<T> &u, T before, T dh, T *dx, T *dy)
    {
        const T in = u.gate[0], forget = u.gate[1], fresh = u.gate[2], open = u.gate[3], y = Math::tanh(u.extra);
        T cell = u.c + dh * open * (1 - y * y);
        cell = w.clip_min > -(T)INFINITY && (u.extra <= w.clip_min || u.extra >= w.clip_max) ? 0 : cell;
        dx[0] = dy[0] = cell * fresh * in * (1 - in);
        dx[1] = dy[1] = cell * before * forget * (1 - forget);
        dx[2] = dy[2] = cell * in * (1 - fresh * fresh);
        dx[3] = dy[3] = dh * y * open * (1 - open);
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
        u.extra = y[2], u.gate[2] = Math::tanh(x[2] + u.gate[0] * y[2]);
        u.h = u.gate[2] + u.gate[1] * (u.h - u.gate[2]);
    }
    template <class T> static __device__ T before(const mx_rnn_layer<T> &w, int64_t t, int64_t n, int64_t j)
    {
        return w.before[(t * w.s.batch + n) * w.s.hidden + j];
    }
    template <class T>
    static __device__ T backward(const mx_rnn_layer<T> &, mx_rnn_unit<T> &u, T before, T dh, T *dx, T *dy)
    {
        const T r = u.gate[0], z = u.gate[1], fresh = u.gate[2];
        dx[2] = dh * (1 - z) * (1 - fresh * fresh), dy[2] = dx[2] * r;
        dx[0] = dy[0] = dx[2] * u.extra * r * (1 - r);
        dx[1] = dy[1] = dh * (before - fresh) * z * (1 - z);
        return dh * z;
    }
};

template <class Math> struct mx_rnn_plain { /* h' = act(x + y) */
    static constexpr int GATES = 1;
    static constexpr bool CELL = false, EXTRA = false, APART = false;
    template <class T>
    static __device__ void forward(const mx_rnn_layer<T> &w, const T *x, const T *y, mx_rnn_unit<T> &u)
    {
        const T v = *x + *y;
        u.h = *u.gate = w.s.mode == MX_CELL_RELU ? (v < 0 ? 0 : v) : Math::tanh(v);
    }
    template <class T> static __device__ T before(const mx_rnn_layer<T> &, int64_t, int64_t, int64_t) { return 0; }
    template <class T> static __device__ T backward(const mx_rnn_layer<T> &w, mx_rnn_unit<T> &u, T, T dh, T *dx, T *dy)
    {
        *dx = *dy = w.s.mode == MX_CELL_RELU ? (*u.gate > 0 ? dh : 0) : dh * (1 - *u.gate * *u.gate);
        return 0;
    }
};

#endif
