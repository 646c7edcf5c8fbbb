/* Pointwise kernels of integers, in 64 bits: wrap-around, division by zero gives 0.  SPDX-License-Identifier: Apache-2.0 */
#include "cuda/kernels/pointwise/pointwise.h"
#include "op/formula/pointwise_integer.h"

#define T int64_t
#define TABLE mx_cuda_rows_i64
#define MX_INTEGER_ROWS
#include "cuda/kernels/pointwise/pointwise_body.h"
