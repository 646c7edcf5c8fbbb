/* The m_* functions of two arguments for integers: overflow wraps around, division by zero gives 0.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef MX_OP_POINTWISE_INTEGER_H
#define MX_OP_POINTWISE_INTEGER_H

#include <math.h>
#include <stdint.h>

#include "base/any_device.h"

/* Selections are macros, so that narrow integers stay narrow and vectors hold as many as possible. */
#define m_div(a, b) mx_integer_divide(a, b)
#define m_mod(a, b) mx_integer_mod(a, b)
#define m_pow(a, b) mx_integer_power(a, b)
#define m_max(a, b) ((a) >= (b) ? (a) : (b))
#define m_min(a, b) ((a) <= (b) ? (a) : (b))
#define m_in_int64(x) (x)
#define m_hypot(a, b) (int64_t)(uint64_t)hypot((double)(a), (double)(b)) /* at most 2^63.5 */

MX_ANY_DEVICE static inline int64_t mx_integer_divide(int64_t a, int64_t b) /* the one overflow wraps */
{
    return b == 0 ? 0 : b == -1 ? (int64_t)(0 - (uint64_t)a) : a / b;
}

MX_ANY_DEVICE static inline int64_t mx_integer_mod(int64_t a, int64_t b)
{
    if (b == 0 || b == -1)
        return 0;
    const int64_t r = a % b;
    return r != 0 && (r < 0) != (b < 0) ? r + b : r;
}

MX_ANY_DEVICE static inline int64_t mx_integer_power(int64_t a, int64_t b)
{
    if (b < 0)
        return a == 1 ? 1 : a == -1 ? (b % 2 ? -1 : 1) : 0;
    uint64_t result = 1, base = (uint64_t)a;
    for (; b; b >>= 1, base *= base)
        if (b & 1)
            result *= base;
    return (int64_t)result;
}

#endif
