/* Pointwise kernels that compute in float: float32, and 16-bit floats that are widened as they are read.
 * SPDX-License-Identifier: Apache-2.0 */
#include "cuda/kernels/pointwise/math_f32.h"

#include "cuda/kernels/pointwise/pointwise.h"

#define T float
#define TABLE mx_cuda_rows_f32
#include "cuda/kernels/pointwise/pointwise_body.h"
