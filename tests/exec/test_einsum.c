/* Einstein's summation against loops over all labels; errors; a graph for any size.
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

/* y[i, k] = sum over j of a[i, j] b[j, k] */
static void product(void **state)
{
    (void)state;
    MX_SCOPE;
    mx_array *a = mx_random_uniform(.shape = MX_DIMS(2, 3)), *b = mx_random_uniform(.shape = MX_DIMS(3, 4));
    mx_array *y = mx_einsum("ij,jk->ik", MX_ARRAYS(a, b));
    assert_non_null(y);
    float u[6], v[12], w[8];
    assert_int_equal(mx_array_read(a, u, sizeof u) || mx_array_read(b, v, sizeof v) || mx_array_read(y, w, sizeof w),
                     0);
    for (int i = 0; i < 2; i++)
        for (int k = 0; k < 4; k++) {
            double sum = 0;
            for (int j = 0; j < 3; j++)
                sum += (double)u[3 * i + j] * v[4 * j + k];
            assert_float_equal(w[4 * i + k], sum, 1e-5);
        }
}

/* The trace of a matrix, and the sum of the products of two. */
static void numbers(void **state)
{
    (void)state;
    MX_SCOPE;
    mx_array *x = mx_reshape(mx_arange(.start = 0, .stop = 9), .shape = MX_DIMS(3, 3));
    assert_float_equal(mx_item(mx_einsum("ii", MX_ARRAYS(x))), 0 + 4 + 8, 0);
    assert_float_equal(mx_item(mx_einsum("ij,ij->", MX_ARRAYS(x, x))), 204, 0);
    assert_int_equal(mx_error_code(), MX_OK);
}

static void gradient(void **state)
{
    (void)state;
    MX_SCOPE;
    mx_array *x = mx_ones(.shape = MX_DIMS(2, 3)), *y = mx_ones(.shape = MX_DIMS(2, 3));
    assert_int_equal(mx_attach_grad(x, MX_GRAD_WRITE), MX_OK);
    mx_array *z = NULL;
    mx_record()
        z = mx_einsum("ij,ij->i", MX_ARRAYS(x, mx_mul(y, mx_array_scalar(5))));
    assert_int_equal(mx_backward(z), MX_OK);
    double g[6];
    assert_int_equal(mx_array_read_doubles(mx_gradient(x), g, 6), MX_OK);
    for (int i = 0; i < 6; i++)
        assert_float_equal(g[i], 5, 0);
}

static void errors(void **state)
{
    static const struct { const char *text, *part; } wrong[] = {
        {"ij,jk,kl->il", "operands"}, {"ij,kl->im", "no operand"}, {"ijk,kl->il", "axes"},
        {"ij,jk->i2", "not a letter"}, {"ij,ik->jk", "elements"}, {NULL, "expected"},
    };
    (void)state;
    MX_SCOPE;
    mx_array *a = mx_ones(.shape = MX_DIMS(2, 3)), *b = mx_ones(.shape = MX_DIMS(3, 4));
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        assert_null(mx_einsum(wrong[i].text, MX_ARRAYS(a, b)));
        assert_non_null(strstr(mx_error_message(), wrong[i].part));
        mx_error_clear();
    }
    assert_null(mx_einsum("ij", MX_ARRAYS(NULL)));
    mx_error_clear();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(product),
        cmocka_unit_test(numbers),
        cmocka_unit_test(gradient),
        cmocka_unit_test(errors),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
