/* The products of a convolution in double precision, one at a time: what the tests compare kernels with.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef MX_OP_CONVOLUTION_REFERENCE_H
#define MX_OP_CONVOLUTION_REFERENCE_H

#include "op/op.h"

/* Always three spatial axes: those in front that a convolution lacks have size 1. */
typedef struct mx_conv_sizes {
    int64_t n, c, o, g, in[3], out[3], k[3], s[3], d[3], p[3];
    bool last; /* channels are the last axis */
} mx_conv_sizes;

/* y += x w,  x += y w,  w += x y:  the result is output 0, the operands are inputs 0 and 1 in this order. */
typedef enum mx_conv_product { MX_CONV_FORWARD, MX_CONV_DATA, MX_CONV_WEIGHT } mx_conv_product;

/* Output 0 becomes the bias, input 2, of its channels, or 0. */
void mx_conv_start(const mx_reference_call *call, bool has_bias, bool last);
void mx_conv_products(const mx_reference_call *call, const mx_conv_sizes *z, mx_conv_product product);

#endif
