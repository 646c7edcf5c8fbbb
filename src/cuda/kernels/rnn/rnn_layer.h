/* One recurrent layer in one direction, as the kernels of RNN see it, and the files that work on it.
 *
 *     rnn.cu         all layers of a call: states, dropout between them
 *     rnn_layer.cu   a layer: the products over all steps at once, before and after its steps
 *     rnn_fused.h    its steps in one launch, with rnn_exchange.h; rnn_launch.h declines what does not suit
 *     rnn_loop.cu    its steps one after the other, by a product and a launch each
 *     rnn_cells.h    what a unit of a cell does in a step, for both
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef MX_CUDA_RNN_LAYER_H
#define MX_CUDA_RNN_LAYER_H

#include "cuda/cuda.h"
extern "C" {
#include "op/formula/rnn.h"
}

/* T steps, N rows, G gates of H units; P is H, or the size of the projection (see op/formula/rnn.h). */
template <class T> struct mx_rnn_layer {
    mx_rnn_shape s;
    const void *lengths; /* (N); NULL: all steps */
    int length_type;
    T clip_min, clip_max, clip_nan; /* of LSTM cells; infinite: none; what NaN becomes */
    int64_t inputs, width;          /* columns of x; of a row of out, both directions */
    bool reverse;                   /* the last step comes first */

    const T *x;        /* (T, N, inputs) */
    const T *wx, *wh;  /* (G H, inputs), (G H, P) */
    const T *wr;       /* (P, H): the projection */
    const T *bx, *bh;  /* (G H) */
    T *out;            /* (T, N, width) */
    T *gates;          /* (T, N, G H): products with the inputs; steps leave activations */
    T *extra;          /* (T, N, H): LSTM: cells; GRU: the new gate's h2h part */
    T *raw;            /* (T, N, H): states before the projection */
    const T *h0, *c0;  /* (N, P), (N, H): states before the first step */
    T *h, *c;          /* the same, after the last */
    T *gh, *projected; /* (N, G H), (N, P): scratch of a step */

    /* backward */
    const T *dout;      /* as out; NULL: zero */
    T *before;          /* (T, N, P): states before every step */
    T *dgates, *dgh;    /* (T, N, G H): of the products with inputs and with states; the same except for GRU */
    const T *dh1, *dc1; /* (N, P), (N, H): of the states after the last step; NULL: zero */
    T *dh, *dc;         /* the same, before the first */
    T *dh_next, *dfull; /* (N, P), (N, H): scratch of a step */
    T *draw;            /* (T, N, P): of the projected states */
    T *dx, *dwx, *dwh, *dwr, *dbx, *dbh;
    bool add_dx; /* add to dx instead of overwriting it */

    __device__ bool active(int64_t t, int64_t n) const
    {
        return !lengths || t < mx_cuda_load<int64_t>(lengths, length_type, n);
    }
    /* True if no step before t took part in row n; else *previous is the last one. */
    __device__ bool first(int64_t t, int64_t n, int64_t *previous) const
    {
        *previous = reverse ? t + 1 : t - 1;
        return *previous < 0 || *previous >= s.steps || !active(*previous, n);
    }
};

/* The directions of a layer. */
template <class T> struct mx_rnn_ways {
    mx_rnn_layer<T> way[2];
    int count;
};

/* rnn_layer.cu: for float and double */
template <class T> mx_code mx_rnn_forward(const mx_kernel_call *call, const mx_rnn_ways<T> &layer);
template <class T> mx_code mx_rnn_backward(const mx_kernel_call *call, const mx_rnn_ways<T> &layer);

/* rnn_loop.cu: likewise, but the steps alone */
template <class T> mx_code mx_rnn_loop_forward(const mx_kernel_call *call, const mx_rnn_layer<T> &w);
template <class T> mx_code mx_rnn_loop_backward(const mx_kernel_call *call, const mx_rnn_layer<T> &w);

/* The steps of both directions by rnn_fused.h; MX_DECLINED without an error: they do not suit. */
mx_code mx_rnn_fused_lstm(const mx_kernel_call *call, const mx_rnn_ways<float> &layer, bool backward);
mx_code mx_rnn_fused_gru(const mx_kernel_call *call, const mx_rnn_ways<float> &layer, bool backward);
mx_code mx_rnn_fused_plain(const mx_kernel_call *call, const mx_rnn_ways<float> &layer, bool backward);

/* C (m, n) = op(A) op(B) + beta C */
template <class T>
mx_code mx_rnn_product(const mx_kernel_call *call, bool ta, bool tb, int64_t m, int64_t n, int64_t k, const T *a,
                       int64_t lda, const T *b, int64_t ldb, double beta, T *c);

#endif
