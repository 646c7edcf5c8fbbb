/* Pointwise kernels that compute in double: float64, and functions of integers.  SPDX-License-Identifier: Apache-2.0 */
#include "op/formula/pointwise_double.h" /* before the operators' C functions, which have some of its names */

#include "cuda/kernels/pointwise/pointwise.h"
#include "cuda/kernels/pointwise/special.h"

#define T double
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
#define m_mod mx_cuda_floor_mod<T>
#define m_mish_slope mx_cuda_mish_slope<T>

#include "cuda/kernels/pointwise/pointwise_body.h"
