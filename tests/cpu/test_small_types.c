/* Bytes and 16-bit floats, for which levels have instructions of their own: products of sizes that straddle the tiles, beside
 * loops in integers and doubles; arithmetic of float16, bit by bit beside float32 that is rounded.
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

#include "cpu/kernel.h"
#include "gluon/array.h"
#include "gluon/autograd.h"
#include "gluon/op.gen.h"
#include "ndarray/convert.h"

static uint32_t seed = 1;
static uint32_t next(void) { return (seed = seed * 1664525u + 1013904223u) >> 8; }

/* The level is the one that was asked for, where this machine has it. */
static void test_level(void **state)
{
    const char *wanted = getenv("GLUON_TEST_LEVEL"); /* set where it is certain what the machine has */
    (void)state;
    if (wanted)
        assert_string_equal(mx_cpu_level(), wanted);
}

/* ---- bytes ------------------------------------------------------------------------------------------------------ */

static int number(const mx_array *x, const uint8_t *data, int64_t i)
{
    return mx_dtype_of(x) == MX_UINT8 ? data[i] : (int8_t)data[i];
}

/* All bits are equally likely, the extremes more than others. */
static mx_array *bytes(mx_dims shape, mx_dtype type, int64_t n, uint8_t *data)
{
    const uint8_t extremes[] = {0, 255, 128, 127};
    for (int64_t i = 0; i < n; i++)
        data[i] = next() % 3 ? (uint8_t)next() : extremes[next() % 4];
    return mx_array_from(shape, type, data);
}

static void check_bytes(int64_t m, int64_t n, int64_t k, int how)
{
    MX_SCOPE;
    const mx_dtype a_type = how & 1 ? MX_UINT8 : MX_INT8, b_type = how & 2 ? MX_UINT8 : MX_INT8;
    const int64_t a_zeros = how & 4 ? m : 1, b_zeros = how & 8 ? n : 1;
    uint8_t *a = test_malloc((size_t)(m * k + 1)), *b = test_malloc((size_t)(k * n + 1)),
            *s = test_malloc((size_t)a_zeros), *t = test_malloc((size_t)b_zeros);
    mx_array *x = bytes(MX_DIMS(m, k), a_type, m * k, a), *y = bytes(MX_DIMS(k, n), b_type, k * n, b);
    mx_array *z =
        mx_integer_dot(x, y, bytes(MX_DIMS(a_zeros), a_type, a_zeros, s), bytes(MX_DIMS(b_zeros), b_type, b_zeros, t));
    assert_non_null(z);
    const int32_t *found = mx_array_data(z);
    for (int64_t i = 0; i < m; i++)
        for (int64_t j = 0; j < n; j++) {
            int64_t sum = 0;
            const int za = number(x, s, a_zeros > 1 ? i : 0), zb = number(y, t, b_zeros > 1 ? j : 0);
            for (int64_t p = 0; p < k; p++)
                sum += (number(x, a, i * k + p) - za) * (number(y, b, p * n + j) - zb);
            if (found[i * n + j] != (int32_t)sum)
                fail_msg("(%d, %d) times (%d, %d), case %d: element %d, %d is %d, wanted %d", (int)m, (int)k, (int)k,
                         (int)n, how, (int)i, (int)j, found[i * n + j], (int)sum);
        }
    test_free(a), test_free(b), test_free(s), test_free(t);
}

static void test_bytes(void **state)
{
    const int sizes[][3] = {{1, 1, 1},   {1, 40, 33}, {8, 12, 4},   {6, 32, 2},   {12, 8, 8},  {13, 33, 7},
                            {24, 65, 9}, {7, 11, 0},  {3, 13, 401}, {5, 9, 4500}, {70, 3, 70}, {150, 130, 66}};
    (void)state;
    for (int i = 0; i < (int)(sizeof sizes / sizeof *sizes); i++)
        for (int how = 0; how < 16; how += i < 9 ? 1 : 5)
            check_bytes(sizes[i][0], sizes[i][1], sizes[i][2], how);
}

/* ---- products of 16-bit floats ------------------------------------------------------------------------------------ */

typedef struct matrix {
    mx_array *array;
    double *value; /* what the array holds */
} matrix;

static matrix draw(mx_dims shape, mx_dtype type, int64_t n)
{
    matrix x = {NULL, test_malloc((size_t)(n + 1) * sizeof(double))};
    uint16_t *data = test_malloc((size_t)(n + 1) * sizeof *data);
    for (int64_t i = 0; i < n; i++)
        x.value[i] = (double)next() / (1 << 23) - 1;
    mx_convert(data, type, x.value, MX_FLOAT64, n);
    mx_convert(x.value, MX_FLOAT64, data, type, n);
    x.array = mx_array_from(shape, type, data);
    test_free(data);
    return x;
}

/* Sums in 16 bits would be wrong by far more than one rounding of the result. */
static void near(mx_dtype type, double found, double wanted, double size, const char *what, int64_t i)
{
    const double unit = type == MX_FLOAT16 ? 0x1p-11 : 0x1p-8;
    if (!(fabs(found - wanted) <= unit * fabs(wanted) * 1.001 + 1e-6 * size))
        fail_msg("%s: element %d is %.9g, wanted %.9g", what, (int)i, found, wanted);
}

static void check_halves(mx_dtype type, int64_t batch, int64_t m, int64_t n, int64_t k, bool ta, bool tb)
{
    MX_SCOPE;
    const matrix a = draw(ta ? MX_DIMS(batch, k, m) : MX_DIMS(batch, m, k), type, batch * m * k),
                 b = draw(tb ? MX_DIMS(batch, n, k) : MX_DIMS(batch, k, n), type, batch * k * n);
    mx_array *c = mx_batch_dot(a.array, b.array, .transpose_a = ta, .transpose_b = tb);
    assert_non_null(c);
    double *found = test_malloc((size_t)(batch * m * n) * sizeof *found);
    mx_convert(found, MX_FLOAT64, mx_array_data(c), type, batch * m * n);
    for (int64_t i = 0; i < batch * m * n; i++) {
        const int64_t item = i / (m * n), row = i / n % m, column = i % n;
        const double *x = a.value + item * m * k, *y = b.value + item * k * n;
        double sum = 0;
        for (int64_t p = 0; p < k; p++)
            sum += x[ta ? p * m + row : row * k + p] * y[tb ? column * k + p : p * n + column];
        near(type, found[i], sum, sqrt((double)k), "batch_dot", i);
    }
    test_free(found), test_free(a.value), test_free(b.value);
}

static void test_products(void **state)
{
    const int sizes[][4] = {{1, 1, 1, 1},    {3, 8, 8, 5},    {2, 9, 17, 40},
                            {1, 23, 150, 7}, {2, 5, 3, 2500}, {1, 64, 70, 200}};
    (void)state;
    for (int i = 0; i < (int)(sizeof sizes / sizeof *sizes); i++)
        for (int how = 0; how < 8; how++)
            check_halves(how & 4 ? MX_FLOAT16 : MX_BFLOAT16, sizes[i][0], sizes[i][1], sizes[i][2], sizes[i][3],
                         how & 1, how & 2);
}

static void check_dense(mx_dtype type, bool with_bias)
{
    enum { M = 11, N = 300, K = 37 };
    MX_SCOPE;
    const matrix x = draw(MX_DIMS(M, K), type, M * K), w = draw(MX_DIMS(N, K), type, N * K),
                 bias = draw(MX_DIMS(N), type, N);
    mx_array *y = mx_fully_connected(x.array, w.array, .bias = with_bias ? bias.array : MX_NONE, .num_hidden = N,
                                     .no_bias = !with_bias);
    assert_non_null(y);
    double found[M * N];
    mx_convert(found, MX_FLOAT64, mx_array_data(y), type, M * N);
    for (int i = 0; i < M * N; i++) {
        double sum = with_bias ? bias.value[i % N] : 0;
        for (int p = 0; p < K; p++)
            sum += x.value[i / N * K + p] * w.value[i % N * K + p];
        near(type, found[i], sum, sqrt(K), "FullyConnected", i);
    }
    test_free(x.value), test_free(w.value), test_free(bias.value);
}

static void test_dense(void **state)
{
    (void)state;
    for (int how = 0; how < 4; how++)
        check_dense(how & 1 ? MX_FLOAT16 : MX_BFLOAT16, how & 2);
}

/* ---- arithmetic of float16 ---------------------------------------------------------------------------------------- */

enum { ALL = 1 << 16 };

static float value_of(uint16_t half)
{
    float x;
    mx_convert(&x, MX_FLOAT32, &half, MX_FLOAT16, 1);
    return x;
}
static uint16_t half_of(float x)
{
    uint16_t half;
    mx_convert(&half, MX_FLOAT16, &x, MX_FLOAT32, 1);
    return half;
}

enum { ADD, SUB, MUL, DIV, MAX, MIN, RELU, NEGATIVE, SQUARE, RELU_GRADIENT, FUNCTIONS };
static const char *const names[] = {"add",  "sub",      "mul",    "div",          "maximum", "minimum",
                                    "relu", "negative", "square", "relu's gradient"};

static float expected(int function, float a, float b)
{
    switch (function) {
    case ADD: return a + b;
    case SUB: return a - b;
    case MUL: return a * b;
    case DIV: return a / b;
    case MAX: return a >= b || a != a ? a : b;
    case MIN: return a <= b || a != a ? a : b;
    case RELU: return a < 0 ? 0 : a;
    case NEGATIVE: return -a;
    case SQUARE: return a * a;
    default: return b > 0 ? a : 0;
    }
}

static mx_array *apply(int function, mx_array *a, mx_array *b)
{
    switch (function) {
    case ADD: return mx_add(a, b);
    case SUB: return mx_sub(a, b);
    case MUL: return mx_mul(a, b);
    case DIV: return mx_div(a, b);
    case MAX: return mx_maximum(a, b);
    case MIN: return mx_minimum(a, b);
    case RELU: return mx_relu(a);
    case NEGATIVE: return mx_negative(a);
    default: return mx_square(a);
    }
}

static void compare(int function, const uint16_t *a, const uint16_t *b, int b_step, mx_array *y, int64_t n)
{
    assert_non_null(y);
    const uint16_t *found = mx_array_data(y);
    for (int64_t i = 0; i < n; i++) {
        const uint16_t other = b[i * b_step];
        const uint16_t wanted = half_of(expected(function, value_of(a[i]), value_of(other)));
        const bool nan = (wanted & 0x7fff) > 0x7c00 && (found[i] & 0x7fff) > 0x7c00;
        if (found[i] != wanted && !nan)
            fail_msg("%s of %.9g (%04x) and %.9g (%04x) is %04x, wanted %04x", names[function], value_of(a[i]), a[i],
                     value_of(other), other, found[i], wanted);
    }
}

/* Every float16 with some others, as arrays of equal shape and as one number; an odd size leaves a rest. */
static void test_arithmetic(void **state)
{
    const uint16_t others[] = {0x0000, 0x8000, 0x0001, 0x83ff, 0x0400, 0x3c00, 0x3555,
                               0xb9a3, 0x4248, 0x6bff, 0x7bff, 0x7c00, 0x7e01};
    uint16_t *a = test_malloc(ALL * sizeof *a), *b = test_malloc(ALL * sizeof *b);
    (void)state;
    for (int i = 0; i < ALL; i++)
        a[i] = (uint16_t)i;
    for (int round = 0; round < (int)(sizeof others / sizeof *others) + 3; round++) {
        MX_SCOPE;
        const bool one = round < (int)(sizeof others / sizeof *others);
        const int64_t n = one ? ALL - 3 : ALL;
        for (int64_t i = 0; i < n; i++)
            b[i] = one ? others[round] : (uint16_t)next();
        mx_array *x = mx_array_from(MX_DIMS(n), MX_FLOAT16, a), *y = mx_array_from(MX_DIMS(one ? 1 : n), MX_FLOAT16, b);
        for (int function = ADD; function <= MIN; function++)
            compare(function, a, b, !one, apply(function, x, y), n);
        for (int function = RELU; !round && function < RELU_GRADIENT; function++)
            compare(function, a, b, 1, apply(function, x, NULL), n);
    }
    test_free(a), test_free(b);
}

static void test_relu_gradient(void **state)
{
    uint16_t *a = test_malloc(ALL * sizeof *a), *g = test_malloc(ALL * sizeof *g);
    (void)state;
    MX_SCOPE;
    for (int i = 0; i < ALL; i++)
        a[i] = (uint16_t)i, g[i] = (uint16_t)next();
    mx_array *x = mx_array_from(MX_DIMS(ALL), MX_FLOAT16, a), *y = NULL;
    assert_int_equal(mx_attach_grad(x, MX_GRAD_WRITE), MX_OK);
    mx_record()
        y = mx_relu(x);
    assert_int_equal(mx_backward(y, .head_grad = mx_array_from(MX_DIMS(ALL), MX_FLOAT16, g)), MX_OK);
    compare(RELU_GRADIENT, g, a, 1, mx_gradient(x), ALL);
    test_free(a), test_free(g);
}

/* Numbers that float16 holds, and one that it does not: the result is rounded, the number is not. */
static void test_scalars(void **state)
{
    const float numbers[] = {2, -0.5f, 0.1f, 3000};
    enum { N = 4099 };
    uint16_t a[N];
    (void)state;
    MX_SCOPE;
    for (int i = 0; i < N; i++)
        a[i] = (uint16_t)(i * 13);
    mx_array *x = mx_array_from(MX_DIMS(N), MX_FLOAT16, a);
    for (int k = 0; k < 4; k++) {
        mx_array *sum = mx_plus_scalar(x, .scalar = numbers[k]), *over = mx_rdiv_scalar(x, .scalar = numbers[k]);
        const uint16_t *s = mx_array_data(sum), *o = mx_array_data(over);
        for (int i = 0; i < N; i++) {
            const float v = value_of(a[i]);
            const uint16_t wanted_sum = half_of(v + numbers[k]), wanted_over = half_of(numbers[k] / v);
            if (v == v && (s[i] != wanted_sum || o[i] != wanted_over))
                fail_msg("%g and %04x: %04x and %04x, wanted %04x and %04x", (double)numbers[k], a[i], s[i], o[i],
                         wanted_sum, wanted_over);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_level),    cmocka_unit_test(test_bytes),
                                       cmocka_unit_test(test_products), cmocka_unit_test(test_dense),
                                       cmocka_unit_test(test_arithmetic), cmocka_unit_test(test_scalars),
                                       cmocka_unit_test(test_relu_gradient)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
