/* Shapes, element types and conversions between them.  SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/error.h"
#include "ndarray/convert.h"
#include "ndarray/device.h"
#include "ndarray/dtype.h"
#include "ndarray/shape.h"

#define SHAPE(...) ((mx_shape_t){.ndim = MX_COUNT(__VA_ARGS__), .dim = {__VA_ARGS__}})

static void expect_code(mx_code code)
{
    assert_int_equal(mx_error_code(), code);
    assert_true(strlen(mx_error_message()) > 0);
    mx_error_clear();
}

static void size_and_overflow(void **state)
{
    (void)state;
    const mx_shape_t scalar = {.ndim = 0}, plain = SHAPE(2, 3, 4), empty = SHAPE(2, 0), open = SHAPE(2, -1);
    const mx_shape_t huge = SHAPE(1 << 30, 1 << 30), wraps = SHAPE((int64_t)1 << 62, 4);
    const mx_shape_t hidden = SHAPE(0, (int64_t)1 << 62, 8);
    assert_int_equal(mx_shape_size(&scalar), 1);
    assert_int_equal(mx_shape_size(&plain), 24);
    assert_int_equal(mx_shape_size(&empty), 0);
    assert_int_equal(mx_shape_size(&open), -1);
    assert_int_equal(mx_shape_size(&MX_UNKNOWN_SHAPE), -1);
    assert_false(mx_has_error());
    assert_int_equal(mx_shape_size(&huge), -1);
    expect_code(MX_ERR_SHAPE);
    assert_int_equal(mx_shape_size(&wraps), -1);
    expect_code(MX_ERR_SHAPE);
    assert_int_equal(mx_shape_size(&hidden), -1);
    expect_code(MX_ERR_SHAPE);
}

static void dims_and_back(void **state)
{
    (void)state;
    mx_dims dims = MX_DIMS(3, 1, 2), none = MX_NO_DIMS, nine = MX_DIMS(1, 1, 1, 1, 1, 1, 1, 1, 1);
    mx_shape_t shape = mx_shape_of_dims(&dims);
    assert_true(mx_shape_equal(&shape, &SHAPE(3, 1, 2)));
    mx_dims back = mx_dims_of_shape(&shape);
    assert_int_equal(back.n, 3);
    assert_int_equal(back.d[2], 2);
    assert_int_equal(mx_shape_of_dims(&none).ndim, -1);
    assert_false(mx_has_error());
    assert_int_equal(mx_shape_of_dims(&nine).ndim, -1);
    expect_code(MX_ERR_SHAPE);
}

static void merging(void **state)
{
    (void)state;
    mx_shape_t a = MX_UNKNOWN_SHAPE;
    bool changed = false;
    assert_true(mx_shape_merge(&a, &MX_UNKNOWN_SHAPE, &changed));
    assert_false(changed);
    assert_true(mx_shape_merge(&a, &SHAPE(2, -1), &changed));
    assert_true(changed);
    assert_false(mx_shape_known(&a));
    changed = false;
    assert_true(mx_shape_merge(&a, &SHAPE(-1, 5), &changed));
    assert_true(changed && mx_shape_known(&a));
    changed = false;
    assert_true(mx_shape_merge(&a, &SHAPE(2, 5), &changed));
    assert_false(changed);
    assert_false(mx_shape_merge(&a, &SHAPE(2, 6), NULL));
    assert_false(mx_shape_merge(&a, &SHAPE(2), NULL));
}

static void texts(void **state)
{
    (void)state;
    char text[MX_SHAPE_TEXT];
    assert_string_equal(mx_shape_text(&SHAPE(2, -1, 3), text), "(2, ?, 3)");
    assert_string_equal(mx_shape_text(&SHAPE(7), text), "(7,)");
    assert_string_equal(mx_shape_text(&MX_UNKNOWN_SHAPE, text), "(?)");
    assert_string_equal(mx_shape_text(&(mx_shape_t){.ndim = 0}, text), "()");
    assert_string_equal(mx_dims_text(&MX_DIMS(-1, MX_NONE_INT), text), "(-1, None)");
    assert_string_equal(mx_dims_text(&MX_NO_DIMS, text), "None");
    mx_shape_t wide = {.ndim = MX_MAX_NDIM};
    mx_dims tuple = {.n = MX_MAX_TUPLE};
    for (int i = 0; i < MX_MAX_TUPLE; i++)
        tuple.d[i] = INT64_MIN + 1;
    for (int i = 0; i < MX_MAX_NDIM; i++)
        wide.dim[i] = INT64_MIN + 1;
    assert_true(strlen(mx_shape_text(&wide, text)) < MX_SHAPE_TEXT);
    assert_null(strstr(text, "..."));
    assert_true(strlen(mx_dims_text(&tuple, text)) < MX_SHAPE_TEXT);
    assert_non_null(strstr(text, "...)"));
    char context[32];
    assert_string_equal(mx_context_text(mx_gpu(3), context), "gpu(3)");
    assert_string_equal(mx_context_text((mx_context){MX_CPU_PINNED, 0}, context), "cpu_pinned(0)");
}

static void broadcasting(void **state)
{
    (void)state;
    mx_shape_t out;
    assert_true(mx_shape_broadcast(&SHAPE(2, 1, 4), &SHAPE(3, 1), &out));
    assert_true(mx_shape_equal(&out, &SHAPE(2, 3, 4)));
    assert_true(mx_shape_broadcast(&SHAPE(1), &SHAPE(0), &out));
    assert_true(mx_shape_equal(&out, &SHAPE(0)));
    assert_true(mx_shape_broadcast(&(mx_shape_t){.ndim = 0}, &SHAPE(5), &out));
    assert_true(mx_shape_equal(&out, &SHAPE(5)));
    assert_false(mx_shape_broadcast(&SHAPE(2), &SHAPE(3), &out));
    assert_int_equal(mx_axis(-1, 3), 2);
    assert_int_equal(mx_axis(3, 3), -1);
    assert_int_equal(mx_axis(-4, 3), -1);
    assert_int_equal(mx_axis(INT64_MIN, 3), -1);
}

static void dtypes(void **state)
{
    (void)state;
    for (int i = 0; i < MX_DTYPE_END; i++)
        if (mx_dtype_valid(i))
            assert_int_equal(mx_dtype_from_name(mx_dtype_name((mx_dtype)i)), i);
    assert_int_equal(mx_dtype_size(MX_BFLOAT16), 2);
    assert_int_equal(mx_dtype_size((mx_dtype)9), 0);
    assert_string_equal(mx_dtype_name(MX_DTYPE_NONE), "none");
    assert_string_equal(mx_dtype_name((mx_dtype)99), "unknown");
    assert_int_equal(mx_dtype_from_name("float33"), MX_DTYPE_NONE);
    expect_code(MX_ERR_DTYPE);
    assert_int_equal(mx_dtype_from_name(NULL), MX_DTYPE_NONE);
    expect_code(MX_ERR_ARGUMENT);
}

/* Every half is converted to float and back; floats between two halves are rounded to nearest, ties to even. */
static void halves(void **state)
{
    (void)state;
    for (uint32_t bits = 0; bits < 65536; bits++) {
        float value = mx_half_to_float((mx_half){(uint16_t)bits});
        uint16_t back = mx_half_from_float(value).bits;
        if ((bits & 0x7fff) > 0x7c00)
            assert_true(isnan(value) && (back & 0x7fff) > 0x7c00);
        else
            assert_int_equal(back, bits);
    }
    for (uint32_t bits = 0; bits < 0x7bff; bits++) {
        float a = mx_half_to_float((mx_half){(uint16_t)bits}), b = mx_half_to_float((mx_half){(uint16_t)(bits + 1)});
        float middle = (a + b) / 2;
        assert_int_equal(mx_half_from_float(middle).bits, bits + (bits & 1));
        assert_int_equal(mx_half_from_float(nextafterf(middle, 0)).bits, bits);
        assert_int_equal(mx_half_from_float(nextafterf(middle, 1e9f)).bits, bits + 1);
    }
    assert_int_equal(mx_half_from_float(65519.996f).bits, 0x7bff);
    assert_int_equal(mx_half_from_float(65520.0f).bits, 0x7c00);
    assert_int_equal(mx_half_from_float(-1e30f).bits, 0xfc00);
    assert_float_equal(mx_half_to_float((mx_half){0x0001}), 0x1p-24f, 0);
    assert_float_equal(mx_half_to_float((mx_half){0xc000}), -2.0f, 0);
}

static void narrowing_rounds_once(void **state)
{
    (void)state;
    double above_tie = 1.0 + 0x1p-11 + 0x1p-40; /* rounded to a float first, this would be a tie and be rounded down */
    uint16_t bits;
    mx_convert(&bits, MX_FLOAT16, &above_tie, MX_FLOAT64, 1);
    assert_int_equal(bits, 0x3c01);
    double big = 1e300, tiny = -1e-300;
    mx_convert(&bits, MX_FLOAT16, &big, MX_FLOAT64, 1);
    assert_int_equal(bits, 0x7c00);
    mx_convert(&bits, MX_FLOAT16, &tiny, MX_FLOAT64, 1);
    assert_int_equal(bits, 0x8000);
    int64_t long_above = ((int64_t)1 << 62) + ((int64_t)1 << 54) + 1, long_tie = long_above - 1; /* steps are 2^55 */
    mx_convert(&bits, MX_BFLOAT16, &long_above, MX_INT64, 1);
    assert_int_equal(bits, 0x5e81);
    mx_convert(&bits, MX_BFLOAT16, &long_tie, MX_INT64, 1);
    assert_int_equal(bits, 0x5e80);
}

static void numbers_that_do_not_fit(void **state)
{
    (void)state;
    const double in[] = {NAN, INFINITY, -INFINITY, 1e20, -1e20, 300.7, -300.7, -0.5, 127.9, 0x1p31, -0x1p63};
    enum { N = sizeof in / sizeof *in };
    const int8_t bytes[N] = {0, 0, 0, 0, 0, 44, -44, 0, 127, 0, 0};
    const uint8_t unsigned_bytes[N] = {0, 0, 0, 0, 0, 44, 212, 0, 127, 0, 0};
    const int32_t ints[N] = {INT32_MIN, INT32_MIN, INT32_MIN, INT32_MIN, INT32_MIN, 300,
                             -300,      0,         127,       INT32_MIN, INT32_MIN};
    const int64_t longs[N] = {INT64_MIN, INT64_MIN, INT64_MIN, INT64_MIN,        INT64_MIN, 300,
                              -300,      0,         127,       (int64_t)1 << 31, INT64_MIN};
    const uint8_t bools[N] = {1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1};
    const struct { mx_dtype dtype; const void *expected; } cases[] = {
        {MX_INT8, bytes}, {MX_UINT8, unsigned_bytes}, {MX_INT32, ints}, {MX_INT64, longs}, {MX_BOOL, bools},
    };
    float floats[N];
    mx_convert(floats, MX_FLOAT32, in, MX_FLOAT64, N);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        int64_t out[N];
        mx_convert(out, cases[i].dtype, in, MX_FLOAT64, N);
        assert_memory_equal(out, cases[i].expected, N * (size_t)mx_dtype_size(cases[i].dtype));
        mx_convert(out, cases[i].dtype, floats, MX_FLOAT32, N);
        assert_memory_equal(out, cases[i].expected, N * (size_t)mx_dtype_size(cases[i].dtype));
    }
}

/* Small integers survive every pair of types. */
static void every_pair(void **state)
{
    (void)state;
    enum { N = 100 };
    double numbers[N], back[N];
    for (int i = 0; i < N; i++)
        numbers[i] = i;
    for (int a = 0; a < MX_DTYPE_END; a++)
        for (int b = 0; b < MX_DTYPE_END; b++) {
            int64_t first[N], second[N];
            if (!mx_dtype_valid(a) || !mx_dtype_valid(b))
                continue;
            mx_convert(first, (mx_dtype)a, numbers, MX_FLOAT64, N);
            mx_convert(second, (mx_dtype)b, first, (mx_dtype)a, N);
            mx_convert(back, MX_FLOAT64, second, (mx_dtype)b, N);
            for (int i = 0; i < N; i++)
                assert_float_equal(back[i], a == MX_BOOL || b == MX_BOOL ? i != 0 : i, 0);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(size_and_overflow), cmocka_unit_test(dims_and_back), cmocka_unit_test(merging),
        cmocka_unit_test(texts), cmocka_unit_test(broadcasting), cmocka_unit_test(dtypes), cmocka_unit_test(halves),
        cmocka_unit_test(narrowing_rounds_once), cmocka_unit_test(numbers_that_do_not_fit), cmocka_unit_test(every_pair),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
