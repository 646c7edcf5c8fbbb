/* Arrays that are large enough for chunks, threads and streamed results, unlike the samples of operators.
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
#include "gluon/autograd.h"
#include "gluon/op.gen.h"

/* Numbers in -1..1 that look random and are the same each time. */
static mx_array *numbers(mx_dims shape)
{
    int64_t n = 1;
    for (int i = 0; i < shape.n; i++)
        n *= shape.d[i];
    mx_array *x = mx_empty(shape, MX_FLOAT32, mx_cpu(0));
    assert_non_null(x);
    float *p = mx_array_data(x);
    uint32_t state = 12345;
    for (int64_t i = 0; i < n; i++) {
        state = state * 1664525u + 1013904223u;
        p[i] = (float)(state >> 8) / 8388608.0f - 1.0f;
    }
    return x;
}

static void expect(const mx_array *y, int64_t i, double want, double tolerance)
{
    assert_non_null(y);
    const double have = ((const float *)mx_array_data((mx_array *)(uintptr_t)y))[i];
    if (!(fabs(have - want) <= tolerance * (1 + fabs(want))))
        fail_msg("element %lld is %.9g, wanted %.9g", (long long)i, have, want);
}

/* (outer, n, inner) summed over n, for shapes that take every path. */
static void test_sums(void **state)
{
    static const int64_t shapes[][3] = {{1, 300001, 1}, {2, 400003, 1}, {1, 50001, 7}, {1, 3001, 130}, {1, 700, 3000},
                                        {3, 999, 33},   {70001, 5, 1},  {5000, 40, 1}, {300, 7, 300},  {1, 131, 1001}};
    (void)state;
    for (size_t s = 0; s < sizeof shapes / sizeof *shapes; s++) {
        MX_SCOPE;
        const int64_t outer = shapes[s][0], n = shapes[s][1], inner = shapes[s][2];
        mx_array *x = numbers(MX_DIMS(outer, n, inner)), *sum = mx_sum(x, .axis = MX_DIMS(1));
        mx_array *largest = mx_max(x, .axis = MX_DIMS(1)), *where = mx_argmax(x, .axis = 1);
        const float *p = mx_array_data(x);
        for (int64_t i = 0; i < outer * inner; i++) {
            const float *column = p + i / inner * n * inner + i % inner;
            double total = 0;
            int64_t best = 0;
            for (int64_t k = 0; k < n; k++) {
                total += column[k * inner];
                best = column[k * inner] > column[best * inner] ? k : best;
            }
            expect(sum, i, total, 1e-5);
            expect(largest, i, column[best * inner], 0);
            expect(where, i, (double)best, 0);
        }
    }
}

/* More than what is streamed, and not a multiple of anything. */
static void test_streamed(void **state)
{
    const int64_t n = ((int64_t)5 << 20) + 13;
    (void)state;
    MX_SCOPE;
    mx_array *a = numbers(MX_DIMS(n)), *b = mx_exp(a), *c = mx_add(a, b), *copy = mx_copyto(a);
    mx_array *wide = mx_cast(mx_cast(a, .dtype = MX_BFLOAT16), .dtype = MX_FLOAT32);
    const float *p = mx_array_data(a);
    for (int64_t i = 0; i < n; i += i % 4096 == 4095 || i > n - 64 ? 1 : 63) {
        expect(b, i, exp(p[i]), 1e-6);
        expect(c, i, p[i] + exp(p[i]), 1e-6);
        expect(copy, i, p[i], 0);
        expect(wide, i, p[i], 1.0 / 256);
    }
}

/* Runs of a broadcast that begin in the middle, when several threads take parts of them. */
static void test_long_rows(void **state)
{
    const int64_t blocks = 7, rows = 13, columns = 3001;
    (void)state;
    MX_SCOPE;
    mx_array *x = numbers(MX_DIMS(blocks, rows, columns)), *y = numbers(MX_DIMS(blocks, 1, columns));
    mx_array *sum = mx_add(x, y), *difference = mx_sub(y, x);
    const float *p = mx_array_data(x), *q = mx_array_data(y);
    for (int64_t i = 0; i < blocks * rows * columns; i++) {
        const double other = q[i / (rows * columns) * columns + i % columns];
        expect(sum, i, p[i] + other, 1e-6);
        expect(difference, i, other - p[i], 1e-6);
    }
}

/* Short rows: one operand per column, one per row. */
static void test_short_rows(void **state)
{
    const int64_t rows = 20011, columns = 10;
    (void)state;
    MX_SCOPE;
    mx_array *x = numbers(MX_DIMS(rows, columns)), *bias = numbers(MX_DIMS(columns)),
             *scale = numbers(MX_DIMS(rows, 1));
    mx_array *sum = mx_add(x, bias), *product = mx_mul(scale, x);
    const float *p = mx_array_data(x), *q = mx_array_data(bias), *r = mx_array_data(scale);
    for (int64_t i = 0; i < rows * columns; i++) {
        expect(sum, i, (double)p[i] + q[i % columns], 1e-6);
        expect(product, i, (double)p[i] * r[i / columns], 1e-6);
    }
}

/* The gradient of one element per row, in parts of several rows. */
static void test_picked(void **state)
{
    const int64_t rows = 4001, size = 301;
    (void)state;
    MX_SCOPE;
    mx_array *x = numbers(MX_DIMS(rows, size)), *slope = numbers(MX_DIMS(rows)), *y = NULL;
    mx_array *at = mx_empty(MX_DIMS(rows), MX_INT64, mx_cpu(0));
    int64_t *index = mx_array_data(at);
    for (int64_t i = 0; i < rows; i++)
        index[i] = i * i % size;
    mx_attach_grad(x, MX_GRAD_WRITE);
    mx_record()
        y = mx_mul(mx_pick(x, at, .axis = 1), slope);
    assert_non_null(y);
    assert_int_equal(mx_backward(y), MX_OK);
    const float *s = mx_array_data(slope);
    mx_array *gradient = mx_gradient(x);
    for (int64_t i = 0; i < rows * size; i++)
        expect(gradient, i, i % size == index[i / size] ? s[i / size] : 0, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_sums), cmocka_unit_test(test_streamed), cmocka_unit_test(test_long_rows), cmocka_unit_test(test_picked),
                                       cmocka_unit_test(test_short_rows)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
