/* Pointwise loops for float.
 *
 * exp, sigmoid, log, sin and cos have shorter forms for moderate numbers.  Blocks with other numbers, which are rare,
 * compute both forms and select per number: a result must not depend on its neighbours, which differ in a fused
 * loop or on another thread.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <stdbool.h>

#include "cpu/kernels/pointwise/math_f32.h"
#include "cpu/kernels/pointwise/pointwise_loops.h"

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

#define IS_NEAR(x) (mx_abs_f32(x) <= MX_NEAR_F32)
#define IS_EXP_NEAR(x) (mx_abs_f32(x) <= MX_EXP_NEAR_F32)

#define ALL(name, is_moderate)                                                                                      \
    static bool name(const float *x, int64_t n)                                                                     \
    {                                                                                                               \
        int32_t others = 0;                                                                                         \
        for (int64_t i = 0; i < n; i++)                                                                             \
            others |= !is_moderate(x[i]);                                                                           \
        return !others;                                                                                             \
    }
ALL(all_near, IS_NEAR)
ALL(all_exp_near, IS_EXP_NEAR)
ALL(all_normal, mx_is_normal_f32)

#define SHORTENED(name, all_moderate, is_moderate)                                                                  \
    static void unary_##name##_f32(const float *in, float *out, int64_t n)                                          \
    {                                                                                                               \
        float far[BLOCK];                                                                                           \
        for (int64_t at = 0; at < n; at += BLOCK, in += BLOCK, out += BLOCK) {                                      \
            const int64_t count = n - at < BLOCK ? n - at : BLOCK;                                                  \
            if (all_moderate(in, count)) {                                                                          \
                MX_IVDEP for (int64_t i = 0; i < count; i++) out[i] = mx_##name##_near_f32(in[i]);                  \
                continue;                                                                                           \
            }                                                                                                       \
            far_##name(in, far, count);                                                                             \
            MX_IVDEP for (int64_t i = 0; i < count; i++)                                                            \
                out[i] = is_moderate(in[i]) ? mx_##name##_near_f32(in[i]) : far[i];                                 \
        }                                                                                                           \
    }
SHORTENED(exp, all_exp_near, IS_EXP_NEAR)
SHORTENED(sigmoid, all_exp_near, IS_EXP_NEAR)
SHORTENED(log, all_normal, mx_is_normal_f32)

#define GUARDED(name, far_forward, far_derivative)                                                                  \
    static void unary_##name##_f32(const float *in, float *out, int64_t n)                                          \
    {                                                                                                               \
        float near[BLOCK];                                                                                          \
        for (int64_t at = 0; at < n; at += BLOCK, in += BLOCK, out += BLOCK) {                                      \
            const int64_t count = n - at < BLOCK ? n - at : BLOCK;                                                  \
            const bool all = all_near(in, count);                                                                   \
            near_##name(in, all ? out : near, count);                                                               \
            if (all)                                                                                                \
                continue;                                                                                           \
            MX_IVDEP for (int64_t i = 0; i < count; i++) out[i] = IS_NEAR(in[i]) ? near[i] : far_forward(in[i]);    \
        }                                                                                                           \
    }                                                                                                               \
    static void backward_##name##_f32(const float *g, const float *x, const float *unused, float *out, int64_t n)   \
    {                                                                                                               \
        float near[BLOCK];                                                                                          \
        for (int64_t at = 0; at < n; at += BLOCK, g += BLOCK, x += BLOCK, out += BLOCK) {                           \
            const int64_t count = n - at < BLOCK ? n - at : BLOCK;                                                  \
            const bool all = all_near(x, count);                                                                    \
            near_backward_##name(g, x, unused, all ? out : near, count);                                            \
            if (all)                                                                                                \
                continue;                                                                                           \
            MX_IVDEP for (int64_t i = 0; i < count; i++)                                                            \
                out[i] = IS_NEAR(x[i]) ? near[i] : g[i] * far_derivative(x[i]);                                     \
        }                                                                                                           \
    }
GUARDED(sin, mx_sin_f32, mx_cos_f32)
GUARDED(cos, mx_cos_f32, -mx_sin_f32)

const mx_pointwise_loops mx_pointwise_f32[MX_ROW_COUNT] = {
    MX_UNARY_ROWS(MX_UNARY_ENTRY) MX_LINEAR_ROWS(MX_STEP_ENTRY) MX_STEP_ROWS(MX_STEP_ENTRY)
        MX_BINARY_ROWS(MX_BINARY_ENTRY) MX_COMPARE_ROWS(MX_BINARY_ENTRY)};
const mx_number_fn mx_number_f32[MX_NUMBER_COUNT] = {MX_NUMBER_ROWS(MX_NUMBER_ENTRY)};
