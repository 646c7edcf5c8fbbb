/* Pointwise kernels that compute in float: float32 directly, 16-bit floats on the way.  SPDX-License-Identifier: Apache-2.0 */
#include "cuda/kernels/pointwise/math_f32.h"

#include "cuda/kernels/pointwise/pointwise.h"

#define T float
#define TABLE mx_cuda_rows_f32
#include "cuda/kernels/pointwise/pointwise_body.h"
