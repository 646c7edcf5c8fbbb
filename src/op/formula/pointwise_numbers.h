/* Pointwise functions with numbers: formulas of an element x and numbers p, q, r from attributes.
 *
 * Gradients are functions of two elements: x, the value they need, and g, the incoming gradient.  The operators
 * (clip, LeakyReLU ...) have their own files; their references, kernels on every device and C text are generated
 * from these entries, which are written like those of op/formula/pointwise.h.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef MX_OP_POINTWISE_NUMBERS_H
#define MX_OP_POINTWISE_NUMBERS_H

#include "ndarray/shape.h"

/* Of the self-normalising networks: the slope above zero, and the limit below it relative to that slope. */
#define MX_SELU_SCALE 1.0507009873554804934193349852946
#define MX_SELU_ALPHA 1.6732632423543772848170429916717

// clang-format off

/* P(name, expression): for integers, too. */
#define MX_BOUND_ROWS(P) \
    P(clip, x < p ? p : x > q ? q : x)

/* For floating types, with p that may differ from element to element. */
#define MX_SLOPE_ROWS(P) \
    P(leaky, x > 0 ? x : p * x) \
    P(leaky_gradient, x > 0 ? g : p * g)

/* All, for floating types. */
#define MX_NUMBER_ROWS(P) \
    MX_BOUND_ROWS(P) \
    P(clip_gradient, x < p || x > q ? 0 : g) \
    P(smooth_l1, (t = m_fabs(x)) > q ? t - q / 2 : p * x * x / 2) \
    P(hard_sigmoid, (t = p * x + q) < 0 ? 0 : t > 1 ? 1 : t) \
    P(quadratic, (p * x + q) * x + r) \
    P(softsign_gradient, g * ((1 - m_fabs(x)) * (1 - m_fabs(x)))) /* x is softsign's result */ \
    MX_SLOPE_ROWS(P) \
    P(elu, x > 0 ? x : p * m_expm1(x)) \
    P(elu_gradient, x > 0 ? g : p * m_exp(x) * g) \
    P(selu, (T)MX_SELU_SCALE * (x > 0 ? x : (T)MX_SELU_ALPHA * m_expm1(x))) \
    P(selu_gradient, (T)MX_SELU_SCALE * (x > 0 ? g : (T)MX_SELU_ALPHA * m_exp(x) * g)) \
    P(gelu, x * (T)0.5 * (1 + m_erf(x * (T)0.70710678118654752440))) \
    P(gelu_gradient, g * ((T)0.5 * (1 + m_erf(x * (T)0.70710678118654752440)) + x * m_exp(x * x * (T)-0.5) * (T)0.39894228040143267794))

// clang-format on

enum mx_number_row {
#define MX_NUMBER_ENUM(name, ...) MX_NUMBER_##name,
    MX_NUMBER_ROWS(MX_NUMBER_ENUM)
    MX_NUMBER_COUNT
};

/* How an operator uses an entry: its `user`.  Two inputs are g and x. */
typedef struct mx_number_use {
    int row;
    void (*numbers)(const void *attrs, const mx_shape_t *in, double *number); /* fills p, q, r, which are zeros */
} mx_number_use;

#endif
