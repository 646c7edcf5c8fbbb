/* Pointwise loops for integers: wrap-around, and division by zero gives 0.
 *
 * Each type computes on its own elements, so that vectors hold as many of them as they can.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <math.h>

#include "cpu/kernels/pointwise/pointwise_loops.h"

#define m_div(a, b) integer_divide(a, b)
#define m_mod(a, b) integer_mod(a, b)
#define m_pow(a, b) integer_power(a, b)
#define m_max(a, b) ((a) >= (b) ? (a) : (b))
#define m_min(a, b) ((a) <= (b) ? (a) : (b))
#define m_hypot(a, b) (int64_t)hypot((double)(a), (double)(b))

static inline int64_t integer_divide(int64_t a, int64_t b) /* by zero: 0; the one overflow wraps */
{
    return b == 0 ? 0 : b == -1 ? (int64_t)(0 - (uint64_t)a) : a / b;
}

static inline int64_t integer_mod(int64_t a, int64_t b)
{
    if (b == 0 || b == -1)
        return 0;
    int64_t r = a % b;
    return r != 0 && (r < 0) != (b < 0) ? r + b : r;
}

static int64_t integer_power(int64_t a, int64_t b)
{
    if (b < 0)
        return a == 1 ? 1 : a == -1 ? (b % 2 ? -1 : 1) : 0;
    uint64_t result = 1, base = (uint64_t)a;
    for (; b; b >>= 1, base *= base)
        if (b & 1)
            result *= base;
    return (int64_t)result;
}

#define MX_INTEGER_ROWS
#define TABLE {MX_BINARY_ROWS(MX_BINARY_ENTRY) MX_COMPARE_ROWS(MX_BINARY_ENTRY)}

#define T int64_t
#define WIDE int64_t
#define NAME(x) x##_i64
#include "cpu/kernels/pointwise/pointwise_body.h"
const mx_pointwise_loops mx_pointwise_i64[MX_ROW_COUNT] = TABLE;
#undef T
#undef NAME

#define T int32_t
#define WIDE int64_t
#define NAME(x) x##_i32
#include "cpu/kernels/pointwise/pointwise_body.h"
const mx_pointwise_loops mx_pointwise_i32[MX_ROW_COUNT] = TABLE;
#undef T
#undef NAME

#define T int8_t
#define WIDE int32_t
#define NAME(x) x##_i8
#include "cpu/kernels/pointwise/pointwise_body.h"
const mx_pointwise_loops mx_pointwise_i8[MX_ROW_COUNT] = TABLE;
#undef T
#undef NAME

#define T uint8_t
#define WIDE int32_t
#define NAME(x) x##_u8
#include "cpu/kernels/pointwise/pointwise_body.h"
const mx_pointwise_loops mx_pointwise_u8[MX_ROW_COUNT] = TABLE;
