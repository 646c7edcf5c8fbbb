/* Pointwise kernels that compute in double: float64, and functions of integers.  SPDX-License-Identifier: Apache-2.0 */
#include "op/pointwise_double.h" /* before the operators' C functions, which have some of its names */

#include "cuda/kernels/pointwise.h"
#include "cuda/kernels/special.h"

#define T double
#define VECTOR double2
#define LANES 2
#define TABLE mx_cuda_rows_f64

#undef m_lgamma
#undef m_erfinv
#undef m_digamma
#undef m_trigamma
#undef m_tetragamma
#undef m_mod
#undef m_mish_slope
#define m_lgamma lgamma
#define m_erfinv erfinv
#define m_digamma mx_cuda_digamma
#define m_trigamma mx_cuda_trigamma
#define m_tetragamma mx_cuda_tetragamma
#define m_mod floor_mod
#define m_mish_slope mish_slope

static __device__ inline T floor_mod(T a, T b)
{
    if (b == 0)
        return 0;
    const T r = fmod(a, b);
    return r != 0 && (r < 0) != (b < 0) ? r + b : r;
}

static __device__ inline T mish_slope(T x)
{
    const T t = tanh(m_softplus(x));
    return t + x * (1 - t * t) * m_sigmoid(x);
}

#include "cuda/kernels/pointwise_body.h"
