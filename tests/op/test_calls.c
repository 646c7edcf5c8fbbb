/* Single calls whose values are known, and what operators refuse, with the last thing before it that they take.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/error.h"
#include "gluon.h"

static void refused(const mx_array *result, mx_code code, const char *part)
{
    if (result)
        fail_msg("no error, wanted '%s'", part);
    if (mx_error_code() != code || !strstr(mx_error_message(), part))
        fail_msg("'%s' (%d), wanted '%s' (%d)", mx_error_message(), mx_error_code(), part, code);
    mx_error_clear();
}

static void accepted(mx_array *result, mx_dims shape)
{
    if (!result)
        fail_msg("%s", mx_error_message());
    const mx_dims found = mx_shape(result);
    assert_int_equal(found.n, shape.n);
    for (int i = 0; i < shape.n; i++)
        assert_int_equal(found.d[i], shape.d[i]);
}

static void test_broadcasts(void **state)
{
    (void)state;
    MX_SCOPE;
    mx_array *x = mx_ones(.shape = MX_DIMS(2, 3)), *like = mx_ones(.shape = MX_DIMS(2, 4));
    const char *wanted = "input of shape (2, 3) does not broadcast to (2, 4)";
    refused(mx_broadcast_to(x, .shape = MX_DIMS(2, 4)), MX_ERR_SHAPE, wanted);
    refused(mx_broadcast_like(x, like), MX_ERR_SHAPE, wanted);
    refused(mx_broadcast_to(x, .shape = MX_DIMS(2, -3)), MX_ERR_ATTRIBUTE, "negative");
    accepted(mx_broadcast_to(x, .shape = MX_DIMS(4, 0, 0)), MX_DIMS(4, 2, 3));
}

/* A border that repeats pixels needs one; a border of one value needs none. */
static void test_borders(void **state)
{
    (void)state;
    MX_SCOPE;
    for (int axis = 0; axis < 2; axis++) {
        const mx_dims shape = axis ? MX_DIMS(2, 0, 3) : MX_DIMS(0, 2, 3);
        mx_array *empty = mx_zeros(.shape = shape, .dtype = MX_UINT8);
        for (int type = 1; type < 5; type++)
            refused(mx_copy_make_border(empty, .top = 1, .bot = 1, .left = 1, .right = 1, .type = type), MX_ERR_SHAPE,
                    "has no pixels to repeat");
        accepted(mx_copy_make_border(empty, .top = 1, .bot = 1, .left = 1, .right = 1),
                 axis ? MX_DIMS(4, 2, 3) : MX_DIMS(2, 4, 3));
    }
    accepted(
        mx_copy_make_border(mx_zeros(.shape = MX_DIMS(1, 1, 1)), .top = 2, .bot = 0, .left = 0, .right = 3, .type = 4),
        MX_DIMS(3, 4, 1));
}

/* The number of an operator on an array and a number needs no name: 0 is not taken for a result. */
static void test_numbers(void **state)
{
    (void)state;
    MX_SCOPE;
    mx_array *x = mx_mul_scalar(mx_ones(.shape = MX_DIMS(1)), 0.5), *out = mx_zeros(.shape = MX_DIMS(1));
    assert_float_equal(mx_item(x), 0.5, 0);
    assert_float_equal(mx_item(mx_greater_scalar(x, 0)), 1, 0);
    assert_float_equal(mx_item(mx_plus_scalar(x, 0)), 0.5, 0);
    assert_float_equal(mx_item(mx_minus_scalar(x, 3, .out = out)), -2.5, 0);
    assert_float_equal(mx_item(out), -2.5, 0);
    assert_float_equal(mx_item(mx_rdiv_scalar(x, .scalar = 3)), 6, 0);
    assert_float_equal(mx_item(mx_plus_scalar(x)), 1.5, 0); /* 1 is the default */
    assert_int_equal(mx_error_code(), MX_OK);
}

/* Coordinates are one more axis. */
static void test_coordinates(void **state)
{
    (void)state;
    MX_SCOPE;
    mx_array *seven = mx_zeros(.shape = MX_DIMS(1, 1, 1, 1, 1, 1, 2)),
             *eight = mx_zeros(.shape = MX_DIMS(1, 1, 1, 1, 1, 1, 1, 2));
    accepted(mx_unravel_index(seven, .shape = MX_DIMS(2, 3)), MX_DIMS(2, 1, 1, 1, 1, 1, 1, 2));
    refused(mx_unravel_index(eight, .shape = MX_DIMS(2, 3)), MX_ERR_SHAPE, "data has 8 axes, at most 7");
}

static void test_groups(void **state)
{
    (void)state;
    MX_SCOPE;
    mx_array *x = mx_ones(.shape = MX_DIMS(2, 4, 3)), *two = mx_ones(.shape = MX_DIMS(2)),
             *number = mx_ones(.shape = MX_SCALAR_DIMS);
    accepted(mx_op_group_norm(x, two, two, .num_groups = 2), MX_DIMS(2, 4, 3));
    refused(mx_op_group_norm(x, number, two, .num_groups = 2), MX_ERR_SHAPE,
            "num_groups is 2, but gamma has shape (), wanted (2,)");
    refused(mx_op_group_norm(x, two, number, .num_groups = 2), MX_ERR_SHAPE,
            "num_groups is 2, but beta has shape (), wanted (2,)");
}

/* A gradient has the type of its array, whatever the result's. */
static void test_types_of_gradients(void **state)
{
    (void)state;
    MX_SCOPE;
    for (int log = 0; log < 2; log++) {
        mx_array *x = mx_cast(mx_arange(.start = 0, .stop = 3), .dtype = MX_FLOAT16), *y = NULL, *first = NULL;
        mx_attach_grad(x, MX_GRAD_WRITE);
        mx_record() {
            y = log ? mx_log_softmax(x, .dtype = MX_FLOAT32) : mx_softmax(x, .dtype = MX_FLOAT32);
            assert_int_equal(mx_dtype_of(y), MX_FLOAT32);
            mx_arrays g = mx_grad_of(MX_ARRAYS(y), MX_ARRAYS(x), MX_NO_ARRAYS, true, true);
            first = g.n ? g.v[0] : NULL;
        }
        assert_non_null(first);
        assert_int_equal(mx_dtype_of(first), MX_FLOAT16);
        assert_int_equal(mx_backward(y), MX_OK);
        assert_int_equal(mx_dtype_of(mx_gradient(x)), MX_FLOAT16);
    }
}

static void values(mx_array *result, int n, const double *wanted)
{
    double found[16];
    if (!result)
        fail_msg("%s", mx_error_message());
    assert_int_equal(mx_size(result), n);
    assert_int_equal(mx_array_read_doubles(result, found, n), MX_OK);
    for (int i = 0; i < n; i++)
        if (!(found[i] == wanted[i] || (found[i] > wanted[i] - 1e-6 && found[i] < wanted[i] + 1e-6)))
            fail_msg("element %d is %g, wanted %g", i, found[i], wanted[i]);
}
#define VALUES(x, ...) values(x, MX_COUNT(__VA_ARGS__), (const double[]){__VA_ARGS__})

/* Regions and images of 16 bits give what those of 32 bits give. */
static void test_regions(void **state)
{
    (void)state;
    MX_SCOPE;
    mx_array *image = mx_reshape(mx_arange(.start = 0, .stop = 16), .shape = MX_DIMS(1, 1, 4, 4)),
             *region = mx_array_from(MX_DIMS(1, 5), MX_FLOAT32, (float[]){0, 0, 0, 3, 3});
    for (int type = 0; type < 2; type++) {
        const mx_dtype dtype = type ? MX_FLOAT16 : MX_FLOAT32;
        VALUES(mx_roi_pooling(mx_cast(image, .dtype = dtype), mx_cast(region, .dtype = dtype),
                              .pooled_size = MX_DIMS(2, 2), .spatial_scale = 1),
               5, 7, 13, 15);
    }
    refused(
        mx_roi_pooling(image, mx_cast(region, .dtype = MX_FLOAT16), .pooled_size = MX_DIMS(2, 2), .spatial_scale = 1),
        MX_ERR_DTYPE, "rois");
}

/* Every tensor has its own rate and decay. */
static void test_several_updates(void **state)
{
    (void)state;
    MX_SCOPE;
    mx_array *one = mx_ones(.shape = MX_DIMS(2)), *three = mx_full(.shape = MX_DIMS(2), .value = 3);
    const mx_floats rates = {2, {0.5, 0.25}}, decays = {2, {0, 0.5}};
    mx_arrays moved = mx_multi_sgd_update(MX_ARRAYS(one, three, three, one), .lrs = rates, .wds = decays,
                                          .num_weights = 2, .rescale_grad = 2, .clip_gradient = 5);
    assert_int_equal(moved.n, 2);
    VALUES(moved.v[0], 1 - 0.5 * 5, 1 - 0.5 * 5);
    VALUES(moved.v[1], 3 - 0.25 * (2 + 0.5 * 3), 3 - 0.25 * (2 + 0.5 * 3));
    one = mx_ones(.shape = MX_DIMS(2));
    moved = mx_multi_sgd_mom_update(MX_ARRAYS(one, three, mx_full(.shape = MX_DIMS(2), .value = 4)),
                                    .lrs = (mx_floats){1, {0.5}}, .wds = (mx_floats){1, {0}}, .momentum = 0.5);
    VALUES(moved.v[0], 1 + 0.5 * 4 - 0.5 * 3, 1 + 0.5 * 4 - 0.5 * 3);
}

/* A histogram with so few values that smoothing would take all of them has no divergence. */
static void test_calibration(void **state)
{
    (void)state;
    MX_SCOPE;
    const int64_t bins = 10001;
    for (int others = 0; others < 2; others++) {
        mx_array *counts = mx_zeros(.shape = MX_DIMS(bins)), *edges = mx_arange(.start = 0, .stop = (double)bins + 1);
        float *count = mx_array_data(counts);
        count[5000] = 5;
        for (int i = 0; i < 10 * others; i++)
            count[4000 + i] = 5;
        mx_arrays found = mx_calibrate_entropy(counts, edges, .num_quantized_bins = bins);
        assert_int_equal(found.n, 2);
        double divergence;
        assert_int_equal(mx_array_read_doubles(found.v[1], &divergence, 1), MX_OK);
        assert_true(others ? divergence < 1 : divergence > 1e30);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_broadcasts), cmocka_unit_test(test_borders), cmocka_unit_test(test_several_updates), cmocka_unit_test(test_regions),
                                       cmocka_unit_test(test_numbers), cmocka_unit_test(test_coordinates), cmocka_unit_test(test_groups), cmocka_unit_test(test_types_of_gradients),
                                       cmocka_unit_test(test_calibration)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
