/* Pointwise kernels of integers, in 64 bits: wrap-around, division by zero gives 0.  SPDX-License-Identifier: Apache-2.0 */
#include "cuda/kernels/pointwise/pointwise.h"

#define T int64_t
#define TABLE mx_cuda_rows_i64
#define MX_INTEGER_ROWS

#define m_div(a, b) integer_divide(a, b)
#define m_mod(a, b) integer_mod(a, b)
#define m_pow(a, b) integer_power(a, b)
#define m_max(a, b) ((a) >= (b) ? (a) : (b))
#define m_min(a, b) ((a) <= (b) ? (a) : (b))
#define m_hypot(a, b) (int64_t)hypot((double)(a), (double)(b))

static __device__ inline int64_t integer_divide(int64_t a, int64_t b) /* the one overflow wraps */
{
    return b == 0 ? 0 : b == -1 ? (int64_t)(0 - (uint64_t)a) : a / b;
}

static __device__ inline int64_t integer_mod(int64_t a, int64_t b)
{
    if (b == 0 || b == -1)
        return 0;
    const int64_t r = a % b;
    return r != 0 && (r < 0) != (b < 0) ? r + b : r;
}

static __device__ inline int64_t integer_power(int64_t a, int64_t b)
{
    if (b < 0)
        return a == 1 ? 1 : a == -1 ? (b % 2 ? -1 : 1) : 0;
    uint64_t result = 1, base = (uint64_t)a;
    for (; b; b >>= 1, base *= base)
        if (b & 1)
            result *= base;
    return (int64_t)result;
}

#include "cuda/kernels/pointwise/pointwise_body.h"
