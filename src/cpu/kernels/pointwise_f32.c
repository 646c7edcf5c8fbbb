/* Pointwise loops for float.  SPDX-License-Identifier: Apache-2.0 */
#include "cpu/kernels/math_f32.h"
#include "cpu/kernels/pointwise_loops.h"

#define T float
#define NAME(x) x##_f32
#include "cpu/kernels/pointwise_body.h"

const mx_pointwise_loops mx_pointwise_f32[MX_ROW_COUNT] = {
    MX_UNARY_ROWS(MX_UNARY_ENTRY) MX_LINEAR_ROWS(MX_STEP_ENTRY) MX_STEP_ROWS(MX_STEP_ENTRY)
        MX_BINARY_ROWS(MX_BINARY_ENTRY) MX_COMPARE_ROWS(MX_BINARY_ENTRY)};
