/* Pointwise loops for float.
 *
 * exp, sigmoid, log, sin and cos have shorter loops for moderate numbers.  Blocks that hold another one, which is rare,
 * go through the loops for all numbers.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <stdbool.h>

#include "cpu/kernels/pointwise/math_f32.h"
#include "cpu/kernels/pointwise/pointwise_loops.h"

#undef m_sin
#undef m_cos
#define m_sin mx_sin_near_f32
#define m_cos mx_cos_near_f32
#define unary_sin_f32 near_sin
#define unary_cos_f32 near_cos
#define backward_sin_f32 near_backward_sin
#define backward_cos_f32 near_backward_cos
#define unary_exp_f32 far_exp
#define unary_sigmoid_f32 far_sigmoid
#define unary_log_f32 far_log

#define T float
#define NAME(x) x##_f32
#include "cpu/kernels/pointwise/pointwise_body.h"

#undef unary_sin_f32
#undef unary_cos_f32
#undef backward_sin_f32
#undef backward_cos_f32
#undef unary_exp_f32
#undef unary_sigmoid_f32
#undef unary_log_f32

#define BLOCK 1024

static bool is_near(const float *x, int64_t n, float limit)
{
    int32_t far = 0;
    for (int64_t i = 0; i < n; i++)
        far |= !(mx_abs_f32(x[i]) <= limit);
    return !far;
}

static bool is_normal(const float *x, int64_t n)
{
    int32_t others = 0;
    for (int64_t i = 0; i < n; i++)
        others |= !mx_is_normal_f32(x[i]);
    return !others;
}

#define SHORTENED(name, is_moderate)                                                                                \
    static void unary_##name##_f32(const float *in, float *out, int64_t n)                                          \
    {                                                                                                               \
        for (int64_t at = 0; at < n; at += BLOCK) {                                                                 \
            const int64_t count = n - at < BLOCK ? n - at : BLOCK, end = at + count;                                \
            if (is_moderate)                                                                                        \
                MX_IVDEP for (int64_t i = at; i < end; i++) out[i] = mx_##name##_near_f32(in[i]);                   \
            else                                                                                                    \
                far_##name(in + at, out + at, count);                                                               \
        }                                                                                                           \
    }
SHORTENED(exp, is_near(in + at, count, MX_EXP_NEAR_F32))
SHORTENED(sigmoid, is_near(in + at, count, MX_EXP_NEAR_F32))
SHORTENED(log, is_normal(in + at, count))

#define GUARDED(name, far_forward, far_derivative)                                                                  \
    static void unary_##name##_f32(const float *in, float *out, int64_t n)                                          \
    {                                                                                                               \
        for (int64_t at = 0; at < n; at += BLOCK) {                                                                 \
            const int64_t count = n - at < BLOCK ? n - at : BLOCK, end = at + count;                                \
            if (is_near(in + at, count, MX_NEAR_F32))                                                               \
                near_##name(in + at, out + at, count);                                                              \
            else                                                                                                    \
                MX_IVDEP for (int64_t i = at; i < end; i++) out[i] = far_forward(in[i]);                            \
        }                                                                                                           \
    }                                                                                                               \
    static void backward_##name##_f32(const float *g, const float *x, const float *unused, float *out, int64_t n)   \
    {                                                                                                               \
        for (int64_t at = 0; at < n; at += BLOCK) {                                                                 \
            const int64_t count = n - at < BLOCK ? n - at : BLOCK, end = at + count;                                \
            if (is_near(x + at, count, MX_NEAR_F32))                                                                \
                near_backward_##name(g + at, x + at, unused, out + at, count);                                      \
            else                                                                                                    \
                MX_IVDEP for (int64_t i = at; i < end; i++) out[i] = g[i] * far_derivative(x[i]);                   \
        }                                                                                                           \
    }
GUARDED(sin, mx_sin_f32, mx_cos_f32)
GUARDED(cos, mx_cos_f32, -mx_sin_f32)

const mx_pointwise_loops mx_pointwise_f32[MX_ROW_COUNT] = {
    MX_UNARY_ROWS(MX_UNARY_ENTRY) MX_LINEAR_ROWS(MX_STEP_ENTRY) MX_STEP_ROWS(MX_STEP_ENTRY)
        MX_BINARY_ROWS(MX_BINARY_ENTRY) MX_COMPARE_ROWS(MX_BINARY_ENTRY)};
