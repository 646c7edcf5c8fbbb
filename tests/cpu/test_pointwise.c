/* Paths through the pointwise, softmax and dropout kernels that the samples of operators do not take: numbers far
 * from zero, integers that overflow, rows with infinities, masks that must not depend on level or threads.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "gluon/array.h"
#include "gluon/op.gen.h"

/* Blocks with moderate numbers only, with a large one, and with an infinity. */
static void test_far_angles(void **state)
{
    enum { N = 5000 };
    float x[N];
    (void)state;
    MX_SCOPE;
    for (int i = 0; i < N; i++)
        x[i] = (float)(i - N / 2) * (i % 1024 < 3 && i > 1024 ? 7001.25f : 37.0625f);
    x[4000] = INFINITY;
    mx_array *array = mx_array_from(MX_DIMS(N), MX_FLOAT32, x);
    const float *sine = mx_array_data(mx_sin(array)), *cosine = mx_array_data(mx_cos(array));
    for (int i = 0; i < N; i++) {
        if (i == 4000 ? !(isnan(sine[i]) && isnan(cosine[i]))
                      : fabs(sine[i] - sin(x[i])) > 2e-7 || fabs(cosine[i] - cos(x[i])) > 2e-7)
            fail_msg("sin and cos of %.9g are %.9g and %.9g", (double)x[i], (double)sine[i], (double)cosine[i]);
    }
}

static int64_t element(mx_array *y, int64_t i)
{
    assert_non_null(y);
    const void *p = mx_array_data(y);
    switch (mx_dtype_of(y)) {
    case MX_UINT8: return ((const uint8_t *)p)[i];
    case MX_INT8: return ((const int8_t *)p)[i];
    default: return ((const int32_t *)p)[i];
    }
}

/* Results wrap around; scalars that do not fit into the type are compared unconverted. */
static void test_small_integers(void **state)
{
    const uint8_t u[] = {0, 1, 200, 255};
    const int8_t s[] = {-128, -1, 100, 127};
    const int32_t w[] = {INT32_MIN, -1, 7, INT32_MAX};
    (void)state;
    MX_SCOPE;
    mx_array *a = mx_array_from(MX_DIMS(4), MX_UINT8, u), *b = mx_array_from(MX_DIMS(4), MX_INT8, s),
             *c = mx_array_from(MX_DIMS(4), MX_INT32, w);
    mx_array *a_sum = mx_add(a, a), *b_product = mx_mul(b, b), *c_less = mx_sub(c, c);
    mx_array *b_over = mx_div(b, b), *a_larger = mx_greater_scalar(a, .scalar = 300),
             *b_smaller = mx_lesser_scalar(b, .scalar = 1000), *c_next = mx_plus_scalar(c, .scalar = 1),
             *a_back = mx_rminus_scalar(a, .scalar = 256);
    for (int i = 0; i < 4; i++) {
        assert_int_equal(element(a_sum, i), (uint8_t)(u[i] + u[i]));
        assert_int_equal(element(b_product, i), (int8_t)(s[i] * s[i]));
        assert_int_equal(element(c_less, i), 0);
        assert_int_equal(element(b_over, i), 1);
        assert_int_equal(element(a_larger, i), 0);
        assert_int_equal(element(b_smaller, i), 1);
        assert_int_equal(element(c_next, i), (int32_t)(uint32_t)((int64_t)w[i] + 1));
        assert_int_equal(element(a_back, i), (uint8_t)(256 - u[i]));
    }
}

/* The hypotenuse of the largest sides does not fit into int64, and wraps around, too. */
static void test_long_sides(void **state)
{
    const int64_t sides[] = {3, -5, INT64_MAX, INT64_MIN}, others[] = {-4, 12, 0, INT64_MIN};
    const uint64_t wanted[] = {5, 13, (uint64_t)1 << 63, (uint64_t)hypot(0x1p63, 0x1p63)};
    int64_t found[4];
    (void)state;
    MX_SCOPE;
    mx_array *y = mx_hypot(mx_array_from(MX_DIMS(4), MX_INT64, sides), mx_array_from(MX_DIMS(4), MX_INT64, others));
    assert_int_equal(mx_array_read(y, found, sizeof found), MX_OK);
    for (int i = 0; i < 4; i++)
        assert_true((uint64_t)found[i] == wanted[i]);
}

/* A wide row that begins with pieces of -inf and has its maximum late. */
static void test_softmax_of_masked_row(void **state)
{
    enum { N = 5000, FIRST = 2500 };
    float x[N];
    double sum = 0;
    (void)state;
    MX_SCOPE;
    for (int i = 0; i < N; i++)
        x[i] = i < FIRST ? -INFINITY : (float)(i % 97) * 0.25f - (i < 4000 ? 60.0f : 0.0f);
    for (int i = FIRST; i < N; i++)
        sum += exp(x[i]);
    mx_array *array = mx_array_from(MX_DIMS(1, N), MX_FLOAT32, x);
    const float *y = mx_array_data(mx_softmax(array)), *z = mx_array_data(mx_log_softmax(array));
    for (int i = 0; i < N; i++) {
        if (!(fabs(y[i] - exp(x[i]) / sum) <= 1e-6 * exp(x[i]) / sum + 1e-38))
            fail_msg("softmax of element %d is %.9g, wanted %.9g", i, (double)y[i], exp(x[i]) / sum);
        if (i >= FIRST ? !(fabs(z[i] - (x[i] - log(sum))) <= 1e-4) : z[i] != -INFINITY)
            fail_msg("log_softmax of element %d is %.9g", i, (double)z[i]);
    }
}

/* Which elements are dropped depends on the seed only: the expected number holds at every level. */
static void test_dropout_mask(void **state)
{
    enum { N = 100003 };
    (void)state;
    for (int threads = 1; threads <= 2; threads++) {
        MX_SCOPE;
        mx_set_num_threads(threads);
        mx_random_seed(7);
        mx_array *x = mx_empty(MX_DIMS(N), MX_FLOAT32, mx_cpu(0));
        assert_int_equal(mx_array_fill(x, 1), 0);
        const float *y = mx_array_data(mx_op_dropout(x, .p = 0.25, .mode = MX_DROPOUT_ALWAYS));
        uint32_t hash = 2166136261u;
        int kept = 0;
        for (int i = 0; i < N; i++) {
            kept += y[i] != 0;
            hash = (hash ^ (y[i] != 0)) * 16777619u;
        }
        assert_in_range(kept, 74300, 75700);
        assert_int_equal(hash, 0xafdac1cfu);
    }
}

/* Floats that no 64-bit integer can hold count as the smallest one, as MXNet's do. */
static void test_bits_of_floats(void **state)
{
    const double x[] = {INFINITY, -INFINITY, NAN, 1e30, 0x1p63, -0x1p63, 6, -1.5};
    const double itself[] = {-0x1p63, -0x1p63, -0x1p63, -0x1p63, -0x1p63, -0x1p63, 6, -1};
    const mx_dtype types[] = {MX_FLOAT32, MX_FLOAT64};
    (void)state;
    for (int t = 0; t < 2; t++) {
        MX_SCOPE;
        mx_array *a = mx_cast(mx_array_from(MX_DIMS(8), MX_FLOAT64, x), .dtype = types[t]);
        mx_array *b = mx_cast(mx_array_from(MX_DIMS(8), MX_FLOAT64, x), .dtype = types[t]);
        const double *both = mx_array_data(mx_cast(mx_bitwise_and(a, b), .dtype = MX_FLOAT64));
        const double *two = mx_array_data(mx_cast(mx_bitwise_and_scalar(a, .scalar = 2), .dtype = MX_FLOAT64));
        const double *other = mx_array_data(mx_cast(mx_bitwise_xor(a, b), .dtype = MX_FLOAT64));
        const double *any = mx_array_data(mx_cast(mx_bitwise_or(a, b), .dtype = MX_FLOAT64));
        for (int i = 0; i < 8; i++) {
            assert_true(both[i] == itself[i] && any[i] == itself[i] && other[i] == 0);
            assert_true(two[i] == (i < 6 ? 0 : 2));
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_far_angles), cmocka_unit_test(test_small_integers), cmocka_unit_test(test_long_sides),
                                       cmocka_unit_test(test_softmax_of_masked_row),
                                       cmocka_unit_test(test_dropout_mask), cmocka_unit_test(test_bits_of_floats)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
