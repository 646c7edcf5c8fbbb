/* Pointwise kernels that compute in double: float64, and functions of integers.  SPDX-License-Identifier: Apache-2.0 */
#include "op/formula/pointwise_double.h" /* before the operators' C functions, which have some of its names */

#include "cuda/kernels/pointwise/pointwise.h"

#define T double
#define TABLE mx_cuda_rows_f64
#include "cuda/kernels/pointwise/pointwise_body.h"
