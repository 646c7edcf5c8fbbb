/* The products of a convolution (see convolution_reference.h).  SPDX-License-Identifier: Apache-2.0 */
#include "op/def/conv/convolution_reference.h"

void mx_conv_start(const mx_reference_call *call, bool has_bias, bool last)
{
    const mx_shape_t *y = &call->out_shape[0];
    const int channel = last ? y->ndim - 1 : 1;
    int64_t inner = 1;
    for (int i = channel + 1; i < y->ndim; i++)
        inner *= y->dim[i];
    for (int64_t i = 0; i < mx_shape_size(y); i++)
        call->out[0][i] = has_bias ? call->in[2][i / inner % y->dim[channel]] : 0;
}

/* Indices into x, w and y. */
static void add_forward(const mx_reference_call *c, int64_t x, int64_t w, int64_t y)
{
    c->out[0][y] += c->in[0][x] * c->in[1][w];
}
static void add_data(const mx_reference_call *c, int64_t x, int64_t w, int64_t y)
{
    c->out[0][x] += c->in[0][y] * c->in[1][w];
}
static void add_weight(const mx_reference_call *c, int64_t x, int64_t w, int64_t y)
{
    c->out[0][w] += c->in[0][x] * c->in[1][y];
}
static void (*const add[])(const mx_reference_call *c, int64_t x, int64_t w, int64_t y) = {
    [MX_CONV_FORWARD] = add_forward, [MX_CONV_DATA] = add_data, [MX_CONV_WEIGHT] = add_weight};

static int64_t offset(const mx_conv_sizes *z, int64_t n, int64_t c, int64_t channels, const int64_t *at3,
                      const int64_t *size)
{
    int64_t pixel = (at3[0] * size[1] + at3[1]) * size[2] + at3[2], area = size[0] * size[1] * size[2];
    return z->last ? (n * area + pixel) * channels + c : (n * channels + c) * area + pixel;
}

void mx_conv_products(const mx_reference_call *call, const mx_conv_sizes *z, mx_conv_product product)
{
    const int64_t cg = z->c / z->g, og = z->o / z->g;
    for (int64_t n = 0; n < z->n; n++)
        for (int64_t o = 0; o < z->o; o++)
            for (int64_t c = 0; c < cg; c++)
                for (int64_t y = 0; y < z->out[0] * z->out[1] * z->out[2]; y++)
                    for (int64_t k = 0; k < z->k[0] * z->k[1] * z->k[2]; k++) {
                        int64_t oy[3] = {y / z->out[2] / z->out[1], y / z->out[2] % z->out[1], y % z->out[2]};
                        int64_t kk[3] = {k / z->k[2] / z->k[1], k / z->k[2] % z->k[1], k % z->k[2]}, ix[3];
                        bool inside = true;
                        for (int i = 0; i < 3; i++) {
                            ix[i] = oy[i] * z->s[i] - z->p[i] + kk[i] * z->d[i];
                            inside &= ix[i] >= 0 && ix[i] < z->in[i];
                        }
                        if (inside)
                            add[product](call, offset(z, n, o / og * cg + c, z->c, ix, z->in),
                                         offset(z, o, c, cg, kk, z->k), offset(z, n, o, z->o, oy, z->out));
                    }
}
