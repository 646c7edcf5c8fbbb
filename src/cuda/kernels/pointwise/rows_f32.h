/* Any entry of the pointwise table by its number, computed in float.  SPDX-License-Identifier: Apache-2.0 */
#ifndef MX_CUDA_ROWS_F32_H
#define MX_CUDA_ROWS_F32_H

#include "cuda/kernels/pointwise/math_f32.h"

#include "cuda/kernels/pointwise/pointwise.h"
#define T float

namespace
{
#include "cuda/kernels/pointwise/pointwise_rows.h"

#define UNARY_CASE(name, ...) \
    case MX_ROW_##name: return form == MX_FORM_BACKWARD ? backward_##name::apply(a, b, c) : forward_##name::apply(a, b, c);
#define STEP_CASE(name, ...) \
    case MX_ROW_##name: return forward_##name::apply(a, b, c);
#define BINARY_CASE(id, ...) \
    case MX_ROW_##id: return binary_##id::apply(a, b, c);

// clang-format off
__device__ float apply_row(int row, int form, float a, float b, float c)
{
    switch (row) {
    MX_UNARY_ROWS(UNARY_CASE)
    MX_LINEAR_ROWS(STEP_CASE)
    MX_STEP_ROWS(STEP_CASE)
    MX_BINARY_ROWS(BINARY_CASE)
    MX_COMPARE_ROWS(BINARY_CASE)
    default: return 0;
    }
}
// clang-format on
} // namespace

#endif
