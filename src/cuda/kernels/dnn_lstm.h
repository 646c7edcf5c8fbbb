/* The steps of an LSTM layer in one launch (dnn_lstm.cu).  SPDX-License-Identifier: Apache-2.0 */
#ifndef MX_CUDA_DNN_LSTM_H
#define MX_CUDA_DNN_LSTM_H

#include "cuda/cuda.h"

/* One layer and direction; everything float32.  T steps, N rows, H units; gates in the order i, f, g, o. */
struct mx_cuda_lstm {
    int steps, batch, hidden;
    int64_t width;     /* elements between rows of out and dout */
    bool reverse;      /* the last step comes first */
    const float *wh;   /* (4 H, H) */
    const float *bias; /* (2, 4 H): of the input and of the state */
    float *gates;      /* (T, N, 4 H): products with the inputs; the forward pass leaves activations */
    float *cells;      /* (T, N, H) */
    float *out;        /* (T, N, width) */
    float *h, *c;      /* (N, H): states before the first step, then behind the last */

    const float *c0, *dout; /* backward: (N, H), (T, N, width); dout NULL: zero */
    float *dgates;          /* (T, N, 4 H) */
    float *dh, *dc;         /* (N, H): gradients of the states behind the last step, then before the first */
};

/* False: too large, an old device, or full precision is asked for. */
bool mx_cuda_lstm_suits(const mx_kernel_call *call, const mx_cuda_lstm &s, bool backward);
mx_code mx_cuda_lstm_forward(const mx_kernel_call *call, const mx_cuda_lstm &s);
mx_code mx_cuda_lstm_backward(const mx_kernel_call *call, const mx_cuda_lstm &s);

#endif
