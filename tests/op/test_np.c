/* NumPy's rules in C: promotion, numbers whose type gives way, true division, 0-d results, masks, gradients, symbols.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/error.h"
#include "gluon.h"

static mx_array *range(int n, mx_dtype dtype) { return mx_np_arange(.start = n, .dtype = dtype); }

static void check_values(mx_array *x, mx_dtype dtype, int n, const double *wanted)
{
    double value[64];
    if (!x)
        fail_msg("%s", mx_error_message());
    assert_int_equal(mx_dtype_of(x), dtype);
    assert_int_equal(mx_size(x), n);
    assert_int_equal(mx_array_read_doubles(x, value, n), MX_OK);
    for (int i = 0; i < n; i++)
        if (value[i] < wanted[i] - 1e-6 || value[i] > wanted[i] + 1e-6)
            fail_msg("element %d is %g, wanted %g", i, value[i], wanted[i]);
}
#define CHECK(x, dtype, ...) check_values(x, dtype, MX_COUNT(__VA_ARGS__), (const double[]){__VA_ARGS__})

static void test_promotion(void **state)
{
    (void)state;
    static const mx_dtype rows[][3] = {
        {MX_INT32, MX_FLOAT32, MX_FLOAT32},   {MX_INT64, MX_FLOAT16, MX_FLOAT16}, {MX_FLOAT16, MX_FLOAT32, MX_FLOAT32},
        {MX_FLOAT32, MX_FLOAT64, MX_FLOAT64}, {MX_BOOL, MX_INT8, MX_INT8},        {MX_UINT8, MX_INT8, MX_INT32},
        {MX_UINT8, MX_INT64, MX_INT64},       {MX_BOOL, MX_BOOL, MX_BOOL},        {MX_FLOAT16, MX_BFLOAT16, MX_FLOAT32},
        {MX_INT32, MX_DTYPE_NONE, MX_INT32}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        assert_int_equal(mx_promote(rows[i][0], rows[i][1]), rows[i][2]);
        assert_int_equal(mx_promote(rows[i][1], rows[i][0]), rows[i][2]);
    }
    MX_SCOPE;
    mx_array *bytes = range(2, MX_UINT8), *two = mx_number_int(2), *half = mx_number_float(0.5);
    assert_true(mx_is_number(two) && mx_is_number(half) && !mx_is_number(bytes));
    assert_int_equal(mx_result_type(((mx_arrays){(mx_array *const[]){bytes, two}, 2})), MX_UINT8);
    assert_int_equal(mx_result_type(((mx_arrays){(mx_array *const[]){half, bytes}, 2})), MX_FLOAT32);
    mx_set_np_default_dtype(true);
    assert_int_equal(mx_result_type(((mx_arrays){(mx_array *const[]){half, bytes}, 2})), MX_FLOAT64);
    mx_set_np_default_dtype(false);
}

static void test_arithmetic(void **state)
{
    (void)state;
    MX_SCOPE;
    mx_array *i = range(3, MX_INT32), *f = range(3, MX_FLOAT32);
    CHECK(mx_np_divide(i, mx_number_int(2)), MX_FLOAT32, 0, 0.5, 1);
    CHECK(mx_np_add(i, f), MX_FLOAT32, 0, 2, 4);
    CHECK(mx_np_add(i, mx_number_float(0.5)), MX_FLOAT32, 0.5, 1.5, 2.5);
    CHECK(mx_np_subtract(mx_number_int(1), i), MX_INT32, 1, 0, -1);
    CHECK(mx_np_floor_divide(mx_np_subtract(i, mx_number_int(3)), mx_number_int(2)), MX_INT32, -2, -1, -1);
    CHECK(mx_np_less(i, mx_number_float(1.5)), MX_BOOL, 1, 1, 0);
    CHECK(mx_np_exp(range(1, MX_INT64)), MX_FLOAT32, 1);
    CHECK(mx_np_bitwise_and(i, mx_number_int(1)), MX_INT32, 0, 1, 0);
    mx_array *sum = mx_np_sum(f);
    assert_int_equal(mx_ndim(sum), 0);
    CHECK(sum, MX_FLOAT32, 3);
    assert_null(mx_np_invert(f));
    assert_int_equal(mx_error_code(), MX_ERR_DTYPE);
    CHECK(mx_np_max(mx_np_add(i, f)), MX_FLOAT32, 4); /* an error that was not cleared does not matter */
    assert_int_equal(mx_error_code(), MX_ERR_DTYPE);
    mx_error_clear();
}

static void test_masks(void **state)
{
    (void)state;
    MX_SCOPE;
    mx_array *x = mx_np_reshape(range(6, MX_FLOAT32), .newshape = MX_DIMS(2, 3));
    mx_array *mask = mx_np_greater(x, mx_number_int(3)), *rows = mx_np_equal(range(2, MX_FLOAT32), mx_number_int(1));
    CHECK(mx_index(x, MX_PICK(mask)), MX_FLOAT32, 4, 5);
    CHECK(mx_index(x, MX_PICK(rows), MX_AT(0)), MX_FLOAT32, 3);
    assert_int_equal(mx_assign(x, mx_number_int(9), MX_PICK(mask)), MX_OK);
    CHECK(x, MX_FLOAT32, 0, 1, 2, 3, 9, 9);
    assert_null(mx_index(x, MX_ALL, MX_PICK(rows)));
    assert_int_equal(mx_error_code(), MX_ERR_INDEX);
    mx_error_clear();
}

static void test_gradient_and_symbol(void **state)
{
    (void)state;
    MX_SCOPE;
    mx_array *x = range(3, MX_FLOAT32);
    assert_int_equal(mx_attach_grad(x, MX_GRAD_WRITE), MX_OK);
    mx_array *loss = NULL;
    mx_record()
        loss = mx_np_mean(mx_np_multiply(x, x));
    assert_int_equal(mx_backward(loss), MX_OK);
    CHECK(mx_gradient(x), MX_FLOAT32, 0, 2. / 3, 4. / 3);
    mx_array *a = mx_variable("a", .shape = MX_DIMS(2, 3), .dtype = MX_INT32);
    mx_array *y = mx_np_divide(mx_np_sum(a, .axis = MX_DIMS(1)), mx_number_int(2));
    assert_int_equal(mx_dtype_of(y), MX_FLOAT32);
    assert_int_equal(mx_ndim(y), 1);
}

static void test_linear_algebra(void **state)
{
    (void)state;
    MX_SCOPE;
    const double matrix[] = {2, 1, 1, 3}, right[] = {3, 4};
    mx_array *a = mx_array_from((mx_dims){2, {2, 2}}, MX_FLOAT64, matrix),
             *b = mx_array_from((mx_dims){1, {2}}, MX_FLOAT64, right);
    CHECK(mx_np_linalg_solve(a, b), MX_FLOAT64, 1, 1);
    CHECK(mx_np_linalg_eigvals(a), MX_FLOAT64, 1.381966011250105, 3.618033988749895);
    CHECK(mx_np_linalg_norm(a, .ord = "nuc"), MX_FLOAT64, 5);
    CHECK(mx_np_median(a), MX_FLOAT64, 1.5);
    CHECK(mx_np_percentile(a, mx_number_int(100), .axis = MX_DIMS(0)), MX_FLOAT64, 2, 3);
    CHECK(mx_np_delete(b, mx_number_int(-1)), MX_FLOAT64, 3);
    CHECK(mx_np_sum(a, .where = mx_np_greater(a, mx_number_int(1))), MX_FLOAT64, 5);
    assert_null(mx_np_linalg_inv(mx_np_ones(.shape = MX_DIMS(2, 2))));
    assert_non_null(strstr(mx_error_message(), "singular"));
    mx_error_clear();
}

static void refused(const mx_array *result, mx_code code, const char *part)
{
    if (result)
        fail_msg("no error, wanted '%s'", part);
    if (mx_error_code() != code || !strstr(mx_error_message(), part))
        fail_msg("'%s' (%d), wanted '%s' (%d)", mx_error_message(), mx_error_code(), part, code);
    mx_error_clear();
}

static void test_codes_of_reshape(void **state)
{
    (void)state;
    MX_SCOPE;
    mx_array *x = mx_np_reshape(range(6, MX_FLOAT32), .newshape = MX_DIMS(1, 2, 3));
    mx_dims found = mx_shape(mx_npx_reshape(x, .newshape = MX_DIMS(-3, -6, 1, -1, -4)));
    assert_int_equal(found.n, 3);
    assert_true(found.d[0] == 1 && found.d[1] == 2 && found.d[2] == 3);
    refused(mx_npx_reshape(x, .newshape = MX_DIMS(-2, -2, -2, -2)), MX_ERR_SHAPE, "does not fit");
    refused(mx_npx_reshape(x, .newshape = MX_DIMS(-4, -5)), MX_ERR_SHAPE, "does not fit");
    refused(mx_npx_reshape(x, .newshape = MX_DIMS(-7, 6)), MX_ERR_SHAPE, "does not fit");
    mx_array *deep =
        mx_np_reshape(x, .newshape = MX_DIMS(1, 1, 2, 1, 1, 1, 1, 3)); /* there are no more than eight axes */
    found = mx_shape(mx_npx_reshape(deep, .newshape = MX_DIMS(-5, -6, 1, 2, -4)));
    assert_true(found.n == 8 && found.d[2] == 2 && found.d[7] == 3);
    refused(mx_npx_reshape(deep, .newshape = MX_DIMS(-6, 1, 1, -4)), MX_ERR_SHAPE, "does not fit");
}

static void test_places(void **state)
{
    (void)state;
    MX_SCOPE;
    mx_array *x = mx_np_add(range(4, MX_FLOAT32), mx_number_int(1)),
             *two = mx_np_add(range(2, MX_FLOAT32), mx_number_int(8));
    mx_array *places = mx_np_add(mx_np_multiply(range(2, MX_INT64), mx_number_int(2)), mx_number_int(1)); /* 1, 3 */
    CHECK(mx_np_insert(x, places, two), MX_FLOAT32, 1, 8, 2, 3, 9, 4);
    CHECK(mx_np_insert(x, mx_number_int(-1), mx_number_int(7)), MX_FLOAT32, 1, 2, 3, 7, 4);
    CHECK(mx_np_take(x, mx_number_int(2)), MX_FLOAT32, 3);
    CHECK(mx_np_take(x, places), MX_FLOAT32, 2, 4);
    mx_array *rows = mx_np_reshape(x, .newshape = MX_DIMS(2, 2));
    CHECK(mx_np_take(rows, mx_number_int(1), .axis = 0), MX_FLOAT32, 3, 4);
    refused(mx_np_diagonal(mx_variable("x")), MX_ERR_SHAPE, "axes must be known");
}

static void test_nan(void **state)
{
    (void)state;
    MX_SCOPE;
    mx_array *x = mx_array_from(MX_DIMS(4), MX_FLOAT32, (float[]){1, NAN, 3, 8});
    CHECK(mx_np_nanmean(x), MX_FLOAT32, 4);
    CHECK(mx_np_nanvar(x), MX_FLOAT32, 26. / 3);
    CHECK(mx_np_nanvar(x, .ddof = 1), MX_FLOAT32, 13);
}

/* Codes of a shape that is not known before the values are. */
static void test_codes_of_open_shapes(void **state)
{
    (void)state;
    MX_SCOPE;
    mx_array *x = mx_np_reshape(range(12, MX_FLOAT32), .newshape = MX_DIMS(2, 3, 2)), *v = mx_variable("x");
    const struct { mx_dims codes, wanted; } cases[] = {
        {MX_DIMS(-2, -1), MX_DIMS(2, 6)}, {MX_DIMS(-5, -4), MX_DIMS(6, 2)}, {MX_DIMS(-6, 1, 2, -5), MX_DIMS(1, 2, 6)}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        mx_symbol *s = mx_symbol_of(MX_ARRAYS(mx_npx_reshape(v, .newshape = cases[i].codes)));
        mx_arrays out = mx_symbol_eval(s, 1, (const char *[]){"x"}, MX_ARRAYS(x));
        if (!out.n)
            fail_msg("%s", mx_error_message());
        const mx_dims found = mx_shape(out.v[0]);
        assert_int_equal(found.n, cases[i].wanted.n);
        for (int k = 0; k < found.n; k++)
            assert_int_equal(found.d[k], cases[i].wanted.d[k]);
    }
    refused(mx_npx_reshape(v, .newshape = MX_DIMS(-3, -1)), MX_ERR_SHAPE, "must be known for code -3");
}

static void test_many_arrays(void **state)
{
    (void)state;
    enum { MOST = 4096 };
    MX_SCOPE;
    mx_array *numbers[MOST + 1], *one = mx_np_ones(.shape = MX_DIMS(1));
    for (int i = 0; i <= MOST; i++)
        numbers[i] = one;
    mx_array *all = mx_np_concatenate(((mx_arrays){numbers, MOST}));
    assert_int_equal(mx_size(all), MOST);
    refused(mx_np_concatenate(((mx_arrays){numbers, MOST + 1})), MX_ERR_ARGUMENT, "1 to 4096 arrays, got 4097");
}

static void test_numbers_of_arrays_and_axes(void **state)
{
    (void)state;
    MX_SCOPE;
    mx_array *x = range(4, MX_FLOAT32), *deep = mx_np_reshape(x, .newshape = MX_DIMS(1, 1, 2, 1, 2));
    refused(mx_np_linalg_multi_dot(MX_ARRAYS(x)), MX_ERR_ARGUMENT, "2 to 64 arrays, got 1");
    refused(mx_np_kron(deep, x), MX_ERR_SHAPE, "at most 4 axes");
    CHECK(mx_np_kron(mx_np_reshape(x, .newshape = MX_DIMS(1, 2, 1, 2)), range(2, MX_FLOAT32)), MX_FLOAT32, 0, 0, 0, 1,
          0, 2, 0, 3);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_promotion),
        cmocka_unit_test(test_linear_algebra),
        cmocka_unit_test(test_arithmetic),
        cmocka_unit_test(test_masks),
        cmocka_unit_test(test_gradient_and_symbol),
        cmocka_unit_test(test_codes_of_reshape),
        cmocka_unit_test(test_places),
        cmocka_unit_test(test_nan),
        cmocka_unit_test(test_codes_of_open_shapes),
        cmocka_unit_test(test_many_arrays),
        cmocka_unit_test(test_numbers_of_arrays_and_axes),
    };
    return cmocka_run_group_tests_name("NumPy's rules", tests, NULL, NULL);
}
