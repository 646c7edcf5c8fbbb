/* Pointwise loops for double.  SPDX-License-Identifier: Apache-2.0 */
#include "cpu/kernels/pointwise/pointwise_loops.h"
#include "op/formula/pointwise_double.h"

#define T double
#define NAME(x) x##_f64
#include "cpu/kernels/pointwise/pointwise_body.h"

const mx_pointwise_loops mx_pointwise_f64[MX_ROW_COUNT] = {
    MX_UNARY_ROWS(MX_UNARY_ENTRY) MX_LINEAR_ROWS(MX_STEP_ENTRY) MX_STEP_ROWS(MX_STEP_ENTRY)
        MX_BINARY_ROWS(MX_BINARY_ENTRY) MX_COMPARE_ROWS(MX_BINARY_ENTRY)};
const mx_number_fn mx_number_f64[MX_NUMBER_COUNT] = {MX_NUMBER_ROWS(MX_NUMBER_ENTRY)};
