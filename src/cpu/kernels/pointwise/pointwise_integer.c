/* Pointwise loops for integers: overflow wraps around, division by zero gives 0.
 *
 * Each type computes on its own elements, so that vectors hold as many as possible.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "cpu/kernels/pointwise/pointwise_loops.h"
#include "op/formula/pointwise_integer.h"

#define MX_INTEGER_ROWS
#define TABLE {MX_BINARY_ROWS(MX_BINARY_ENTRY) MX_COMPARE_ROWS(MX_BINARY_ENTRY)}

#define T int64_t
#define WIDE int64_t
#define NAME(x) x##_i64
#define MX_WIDEST_ROWS
#include "cpu/kernels/pointwise/pointwise_body.h"
#undef MX_WIDEST_ROWS
const mx_pointwise_loops mx_pointwise_i64[MX_ROW_COUNT] = TABLE;
const mx_number_fn mx_number_i64[MX_NUMBER_COUNT] = {MX_BOUND_ROWS(MX_NUMBER_ENTRY)};
#undef T
#undef NAME

#define T int32_t
#define WIDE int64_t
#define NAME(x) x##_i32
#include "cpu/kernels/pointwise/pointwise_body.h"
const mx_pointwise_loops mx_pointwise_i32[MX_ROW_COUNT] = TABLE;
#undef T
#undef NAME

#define T int8_t
#define WIDE int32_t
#define NAME(x) x##_i8
#include "cpu/kernels/pointwise/pointwise_body.h"
const mx_pointwise_loops mx_pointwise_i8[MX_ROW_COUNT] = TABLE;
#undef T
#undef NAME

#define T uint8_t
#define WIDE int32_t
#define NAME(x) x##_u8
#include "cpu/kernels/pointwise/pointwise_body.h"
const mx_pointwise_loops mx_pointwise_u8[MX_ROW_COUNT] = TABLE;
