/* The elementary functions of the CPU kernels against libm in double: every 4099th float, and the special values.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#include "cpu/kernels/pointwise/vmath_f32.h"

#define STEP 4099 /* a prime, so that all kinds of bit patterns occur */

/* Distance in units of the last place of the exact result; huge if one is NaN or infinite and the other is not. */
static double distance(float y, double exact)
{
    int exponent;
    const float rounded = (float)exact;
    if (isnan(exact) || isnan(y))
        return isnan(exact) && isnan(y) ? 0 : 1e30;
    if (isinf(rounded) || isinf(y)) /* at the very edge both roundings are right */
        return rounded == y || fabs(exact) > 3.4028e38 ? 0 : 1e30;
    frexp(exact, &exponent);
    return fabs(y - exact) / ldexp(1, (exponent < -125 ? -125 : exponent) - 24);
}

static double sigmoid(double x) { return x < 0 ? exp(x) / (1 + exp(x)) : 1 / (1 + exp(-x)); }
static double sin_near(double x) { return sin(x); }
static double cos_near(double x) { return cos(x); }
static double exp_near(double x) { return exp(x); }
static double sigmoid_near(double x) { return sigmoid(x); }
static double softplus(double x) { return x > 0 ? x + log1p(exp(-x)) : log1p(exp(x)); }

static void check(const char *name, float (*ours)(float), double (*exact)(double), double limit, double bound)
{
    static const float special[] = {0.0f,      -0.0f, 1.0f,   -1.0f,   0.5f,    INFINITY,
                                    -INFINITY, NAN,   1e-45f, -1e-45f, 3.4e38f, -3.4e38f};
    for (size_t i = 0; i < sizeof special / sizeof *special; i++) {
        const float x = special[i], y = ours(x);
        if ((fabsf(x) <= limit || (!isfinite(x) && limit > (double)MX_EXP_NEAR_F32)) &&
            !(distance(y, exact(x)) <= bound && (y != 0 || !signbit(y) == !signbit(exact(x)))))
            fail_msg("%s(%.9g) is %.9g, wanted %.9g", name, (double)x, (double)y, exact(x));
    }
    for (uint64_t bits = 0; bits <= UINT32_MAX; bits += STEP) {
        const float x = mx_from_bits_f32((int32_t)(uint32_t)bits);
        if (isnan(x) || (double)fabsf(x) > limit)
            continue;
        const double far = distance(ours(x), exact(x));
        if (!(far <= bound))
            fail_msg("%s(%.9g) is %.9g, wanted %.9g: %.2f units off", name, (double)x, (double)ours(x), exact(x), far);
    }
}

#define EVERYWHERE 4e38
#define FUNCTIONS(F)                                                                                                  \
    F(exp, EVERYWHERE, 1.1) F(expm1, EVERYWHERE, 1.6) F(log, EVERYWHERE, 1.2) F(log2, EVERYWHERE, 1.6)               \
    F(log10, EVERYWHERE, 1.8) F(log1p, EVERYWHERE, 1.8) F(tanh, EVERYWHERE, 2.6) F(sigmoid, EVERYWHERE, 2.4)          \
    F(softplus, EVERYWHERE, 2.2) F(sinh, EVERYWHERE, 2.4) F(cosh, EVERYWHERE, 1.8) F(asinh, EVERYWHERE, 2.4)          \
    F(acosh, EVERYWHERE, 2.2) F(atanh, EVERYWHERE, 2.6) F(sin, 6e7, 1.8) F(cos, 6e7, 1.8) F(tan, 6e7, 3.5)            \
    F(asin, EVERYWHERE, 2.6) F(acos, EVERYWHERE, 1.6) F(atan, EVERYWHERE, 1.8) F(erf, EVERYWHERE, 2.8)                \
    F(cbrt, EVERYWHERE, 0.6) F(round, EVERYWHERE, 0) F(sin_near, MX_NEAR_F32, 2.2) F(cos_near, MX_NEAR_F32, 2.2)  \
    F(exp_near, MX_EXP_NEAR_F32, 1.2) F(sigmoid_near, MX_EXP_NEAR_F32, 2.4)

#define TEST(name, limit, bound)                                 \
    static float ours_##name(float x) { return mx_##name##_f32(x); } \
    static void test_##name(void **state)                        \
    {                                                            \
        (void)state;                                             \
        check(#name, ours_##name, name, limit, bound);           \
    }
FUNCTIONS(TEST)

/* The short logarithm where it may be used. */
static float ours_log_near(float x) { return mx_is_normal_f32(x) ? mx_log_near_f32(x) : mx_log_f32(x); }
static void test_log_near(void **state)
{
    (void)state;
    check("log_near", ours_log_near, log, EVERYWHERE, 1.4);
}

static void test_pow(void **state)
{
    static const float values[] = {0.0f, -0.0f, 1, -1, 2, -2, 0.5f, -0.5f, 3, -3, 7.25f, 0.1f, 1e-40f, 1e30f, -1e-30f,
                                   16777216.0f,
                                   8388607.0f, 126.5f, -126.5f, INFINITY, -INFINITY, NAN};
    const size_t n = sizeof values / sizeof *values;
    (void)state;
    for (size_t i = 0; i < n * n; i++) {
        const float a = values[i / n], b = values[i % n], y = mx_pow_f32(a, b);
        const double exact = pow(a, b);
        if (!(distance(y, exact) <= 0.6) || (y == 0 && !signbit(y) != !signbit(exact)))
            fail_msg("pow(%g, %g) is %.9g, wanted %.9g", (double)a, (double)b, (double)y, exact);
    }
    for (uint32_t i = 0; i < 200000; i++) {
        const float a = mx_from_bits_f32((int32_t)(i * 10737u)), b = (float)(i % 997) * 0.21f - 100.0f;
        if (!(distance(mx_pow_f32(a, b), pow(a, b)) <= 0.6))
            fail_msg("pow(%.9g, %.9g) is %.9g, wanted %.9g", (double)a, (double)b, (double)mx_pow_f32(a, b), pow(a, b));
    }
}

int main(void)
{
#define ENTRY(name, limit, bound) cmocka_unit_test(test_##name),
    const struct CMUnitTest tests[] = {FUNCTIONS(ENTRY) cmocka_unit_test(test_log_near), cmocka_unit_test(test_pow)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
