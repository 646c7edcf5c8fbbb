/* Convolution kernels (float32): forward and both gradients; 1-3 spatial axes, groups, strides, dilation, padding.
 *
 * Model.  All sizes are in one shape struct.  Shapes are normalised to three spatial axes inside, with leading 1s,
 * so a 1-d or 2-d convolution is a 3-d one whose first axes have one element.  Each direction has an ordered list of
 * implementations; the first that accepts the shape runs, the last accepts everything (conv.c shows the lists).
 *
 *     y[n, o, p] = bias[o] + sum over c, k of  x[n, c, p * stride - pad + k * dilate] * w[o, c, k]
 *
 * Invariant: the functions write every element of their result and read nothing outside the arrays named by the
 * shape; scratch memory comes from mx_alloc and is freed before they return.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef MX_CPU_CONV_H
#define MX_CPU_CONV_H

#include "cpu/kernels/level.h"
#include "gluon/base.h"

#ifndef MX_CONV_SHAPE
#define MX_CONV_SHAPE
typedef struct mx_conv_shape {
    int64_t batch;         /* N */
    int64_t in_channels;   /* C, over all groups */
    int64_t out_channels;  /* O, over all groups */
    int64_t groups;        /* divides both channel counts */
    int ndim;              /* spatial axes in use, 1..3: the first ndim entries below count */
    int64_t in[3], out[3]; /* spatial sizes of x and y */
    int64_t kernel[3], stride[3], dilate[3], pad[3];
    bool channels_last; /* x (N, *in, C), w (O, *kernel, C/groups), not (N, C, *in), (O, C/groups, *kernel) */
} mx_conv_shape;
#endif

/* bias (O) may be NULL. */
mx_code MX_LEVEL_NAME(conv_forward)(const mx_conv_shape *s, const float *x, const float *w, const float *bias,
                                    bool relu, float *y);
mx_code MX_LEVEL_NAME(conv_backward_data)(const mx_conv_shape *s, const float *dy, const float *w, float *dx);
/* dbias (O) may be NULL. */
mx_code MX_LEVEL_NAME(conv_backward_weight)(const mx_conv_shape *s, const float *x, const float *dy, float *dw,
                                            float *dbias);

/* The implementation that a direction (0 forward, 1 data gradient, 2 weight gradient) uses: for benchmarks and tests. */
const char *MX_LEVEL_NAME(conv_implementation)(const mx_conv_shape *s, int direction);

/* The reference loops, in double: for the tests, and the kernel for float64 arrays. */
mx_code MX_LEVEL_NAME(conv_reference_f64)(const mx_conv_shape *s, const double *x, const double *w, const double *bias,
                                          bool relu, double *y);
mx_code MX_LEVEL_NAME(conv_reference_backward_data_f64)(const mx_conv_shape *s, const double *dy, const double *w,
                                                        double *dx);
mx_code MX_LEVEL_NAME(conv_reference_backward_weight_f64)(const mx_conv_shape *s, const double *x, const double *dy,
                                                          double *dw, double *dbias);

#endif
