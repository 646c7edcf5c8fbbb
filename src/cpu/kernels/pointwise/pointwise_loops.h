/* The loops of the pointwise table, by compute type.  SPDX-License-Identifier: Apache-2.0 */
#ifndef MX_CPU_POINTWISE_LOOPS_H
#define MX_CPU_POINTWISE_LOOPS_H

#include <stdint.h>

#include "cpu/kernel.h"
#include "cpu/kernels/level.h"
#include "op/formula/pointwise.h"
#include "op/formula/pointwise_numbers.h"

enum { MX_COMPUTE_F32, MX_COMPUTE_F64, MX_COMPUTE_I64, MX_COMPUTE_I32, MX_COMPUTE_I8, MX_COMPUTE_U8 };

/* Pointers are to elements of the compute type; a NULL function means that there is no such loop. */
typedef void (*mx_unary_fn)(const void *x, void *out, int64_t n);
typedef void (*mx_backward_fn)(const void *g, const void *first, const void *second, void *out, int64_t n);
typedef void (*mx_binary_fn)(const void *a, int64_t step_a, const void *b, int64_t step_b, void *out, int64_t n);

typedef struct mx_pointwise_loops {
    mx_unary_fn unary;
    mx_backward_fn backward;
    mx_binary_fn binary;
} mx_pointwise_loops;

/* g is x if a function has no incoming gradient; number: p, q, r. */
typedef void (*mx_number_fn)(const void *x, const void *g, void *out, int64_t n, const double *number);

#define mx_pointwise_f32 MX_LEVEL_NAME(mx_pointwise_f32)
#define mx_pointwise_f64 MX_LEVEL_NAME(mx_pointwise_f64)
#define mx_pointwise_i64 MX_LEVEL_NAME(mx_pointwise_i64)
#define mx_pointwise_i32 MX_LEVEL_NAME(mx_pointwise_i32)
#define mx_pointwise_i8 MX_LEVEL_NAME(mx_pointwise_i8)
#define mx_pointwise_u8 MX_LEVEL_NAME(mx_pointwise_u8)
extern const mx_pointwise_loops mx_pointwise_f32[MX_ROW_COUNT], mx_pointwise_f64[MX_ROW_COUNT],
    mx_pointwise_i64[MX_ROW_COUNT], mx_pointwise_i32[MX_ROW_COUNT], mx_pointwise_i8[MX_ROW_COUNT],
    mx_pointwise_u8[MX_ROW_COUNT];

#define mx_number_f32 MX_LEVEL_NAME(mx_number_f32)
#define mx_number_f64 MX_LEVEL_NAME(mx_number_f64)
#define mx_number_i64 MX_LEVEL_NAME(mx_number_i64)
#define mx_number_over MX_LEVEL_NAME(mx_number_over)
#define mx_run_numbers MX_LEVEL_NAME(mx_run_numbers)
extern const mx_number_fn mx_number_f32[MX_NUMBER_COUNT], mx_number_f64[MX_NUMBER_COUNT],
    mx_number_i64[MX_NUMBER_COUNT];

/* out = row(x, g), on arrays of one type; g may be NULL. */
mx_code mx_number_over(int row, double *number, const mx_array *x, const mx_array *g, mx_array *out);
/* The kernel of operators whose `user` is an mx_number_use. */
mx_code mx_run_numbers(const mx_kernel_call *call);

/* For the tables at the end of pointwise_<type>.c. */
#define MX_UNARY_ENTRY(name, ...) \
    [MX_ROW_##name] = {.unary = (mx_unary_fn)NAME(unary_##name), .backward = (mx_backward_fn)NAME(backward_##name)},
#define MX_STEP_ENTRY(name, ...) [MX_ROW_##name] = {.unary = (mx_unary_fn)NAME(unary_##name)},
#define MX_NUMBER_ENTRY(name, ...) [MX_NUMBER_##name] = (mx_number_fn)NAME(number_##name),
#define MX_BINARY_ENTRY(id, ...) [MX_ROW_##id] = {.binary = (mx_binary_fn)NAME(binary_##id)},

#endif
