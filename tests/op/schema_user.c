/* What a user's program looks like: compiled with -std=c11 -pedantic -Wextra -Werror, without the library's own headers.
 * test_schema.c calls it.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <gluon.h>

/* Positional inputs, named attributes, defaults overridden with zero, nested calls. */
mx_array *schema_user_calls(mx_array *a, mx_array *b);
mx_array *schema_user_calls(mx_array *a, mx_array *b)
{
    mx_array *sum = mx_add(a, b);
    mx_array *rows = mx_sum(sum, .axis = MX_DIMS(0), .keepdims = true);
    mx_array *first = mx_softmax(sum, .axis = 0);
    return mx_add(mx_mul(first, mx_add(sum, rows)), mx_mul_scalar(sum, .scalar = 0));
}

mx_arrays schema_user_lists(mx_array *a, mx_array *b);
mx_arrays schema_user_lists(mx_array *a, mx_array *b)
{
    static const mx_dims shape = {.n = 2, .d = {2, 3}};
    mx_array *joined = mx_concat(MX_ARRAYS(a, b), .dim = 0);
    mx_arrays parts = mx_split(joined, .num_outputs = 2, .axis = 0);
    mx_array *zeros = mx_zeros(.shape = shape, .dtype = MX_FLOAT64);
    return zeros && parts.n == 2 ? parts : (mx_arrays){NULL, 0};
}

mx_code schema_user_training(mx_array *x, mx_array *w);
mx_code schema_user_training(mx_array *x, mx_array *w)
{
    mx_array *loss;
    MX_SCOPE;
    if (mx_attach_grad(w, MX_GRAD_WRITE))
        return mx_error_code();
    mx_record()
        loss = mx_sum(mx_square(mx_mul(x, w)));
    mx_backward(loss, .retain_graph = true);
    mx_backward(loss);
    return mx_error_code();
}
