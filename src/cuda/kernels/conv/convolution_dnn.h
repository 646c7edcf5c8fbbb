/* Convolutions as cuDNN sees them: a geometry, a direction, three tensors.
 *
 *     FORWARD  y = conv(x, w)     DATA  x = gradient(y, w)     WEIGHT  w = gradient(x, y)
 *
 * FORWARD may have an ending: y = limits(conv(x, w) + bias + addend).
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef MX_CUDA_CONVOLUTION_DNN_H
#define MX_CUDA_CONVOLUTION_DNN_H

#include "cuda/kernels/dnn.h"

enum mx_cuda_direction { MX_CUDA_FORWARD, MX_CUDA_DATA, MX_CUDA_WEIGHT };

/* Everything that the choice of an algorithm depends on; compared byte by byte, so all of it is int. */
struct mx_cuda_convolution {
    int device, axes, dtype, groups, last, direction; /* last: channels are the last axis, of the weight, too */
    int exact;                                        /* float32 in full precision */
    int aligned;                                      /* bytes to which all three tensors are aligned, at most 16 */
    int batch, in_channels, out_channels;
    int in[3], out[3], kernel[3], stride[3], dilate[3], pad[3];
    int bias, addend, relu; /* the ending: whether there are a bias and an addend, whether the lower limit is 0 */
    int high;               /* bits of the upper limit; 0: none */
};

/* The tensors; the direction says which one is written. */
struct mx_cuda_convolved {
    const void *x, *w, *y, *bias, *addend; /* bias (O) and addend, like y, if the geometry says so */
};

/* What follows a convolution. */
struct mx_cuda_ending {
    const mx_array *bias = nullptr, *addend = nullptr; /* (O), and like y; NULL: none */
    float low = -INFINITY, high = INFINITY;            /* limits; infinite: none */
    bool fused = false;                                /* worth a search for the fastest kernel that does it all */
    bool steady =
        false; /* no kernel of the same graph writes weight and bias: they may be read before others have ended */

    bool relu() const { return low == 0; }
    bool empty() const { return !bias && !addend && !limited(); }
    bool limited() const { return low > -INFINITY || high < INFINITY; }
    bool simple() const { return !addend && high == INFINITY && (low == 0 || low == -INFINITY); } /* bias, relu */
};

/* s.device, s.exact and s.aligned are filled in here.  Declines an ending that cuDNN has no kernels for. */
mx_code mx_cuda_convolve(const mx_kernel_call *call, mx_cuda_convolution s, const mx_cuda_convolved &tensors);

#endif
