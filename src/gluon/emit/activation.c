/* Functions of single elements in a network that is written as C which are not rows of the pointwise table.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "gluon/emit/emit.h"
#include "gluon/op.gen.h"

static mx_code write_activation(const mx_emit_node *n)
{
    static const char *const functions[] = {"relu", "sigmoid", "tanh", "_softplus", "softsign"};
    return mx_emit_unary(n, functions[((const mx_activation_attrs *)n->node->attrs)->act_type]);
}

static mx_code write_logistic(const mx_emit_node *n) { return mx_emit_unary(n, "sigmoid"); }

/* "kernel(x, y, n, a, b);" */
static mx_code with_two(const mx_emit_node *n, const char *kernel, double a, double b)
{
    mx_emit_open(n, kernel, 1);
    mx_text_print(mx_emit_body(n), "%lld", (long long)mx_shape_size(n->y));
    mx_emit_add(n, a);
    mx_emit_add(n, b);
    mx_text_add(mx_emit_body(n), ");\n");
    return MX_OK;
}

static mx_code write_prelu(const mx_emit_node *n)
{
    const int64_t channels = mx_shape_size(mx_emit_shape(n, 1)), all = mx_shape_size(n->x);
    const int axis = n->x->ndim > 1 ? 1 : 0;
    const int64_t inner = channels == 1 ? 1 : mx_split_at(n->x, axis).after;
    mx_emit_open(n, "leaky", 2);
    mx_text_print(mx_emit_body(n), "%lld, %lld, %lld);\n", (long long)mx_emit_over(all, channels * inner),
                  (long long)channels, (long long)inner);
    return MX_OK;
}

static mx_code write_leaky(const mx_emit_node *n)
{
    const mx_leaky_relu_attrs *attrs = n->node->attrs;
    const double middle = (attrs->lower_bound + attrs->upper_bound) / 2;
    char x[48], y[48];
    switch (attrs->act_type) {
    case MX_LEAKY_RELU_PRELU: return write_prelu(n);
    case MX_LEAKY_RELU_ELU: return with_two(n, "elu", 1, attrs->slope);
    case MX_LEAKY_RELU_SELU: return with_two(n, "elu", 1.0507009873554805, 1.6732632423543773);
    case MX_LEAKY_RELU_GELU:
        mx_emit_open(n, "gelu", 1);
        mx_text_print(mx_emit_body(n), "%lld);\n", (long long)mx_shape_size(n->y));
        return MX_OK;
    default: break;
    }
    mx_emit_use(n->emit, "leaky");
    mx_text_print(mx_emit_body(n), "    leaky(%s, (const float[]){", mx_emit_at(n->emit, n->in[0], x));
    mx_emit_float(mx_emit_body(n), attrs->act_type == MX_LEAKY_RELU_RRELU ? middle : attrs->slope);
    mx_text_print(mx_emit_body(n), "}, %s, %lld, 1, 1);\n", mx_emit_at(n->emit, n->out, y),
                  (long long)mx_shape_size(n->y));
    return MX_OK;
}

static mx_code write_clip(const mx_emit_node *n)
{
    const mx_clip_attrs *attrs = n->node->attrs;
    return with_two(n, "clip", attrs->a_min, attrs->a_max);
}

static mx_code write_hard_sigmoid(const mx_emit_node *n)
{
    const mx_hard_sigmoid_attrs *attrs = n->node->attrs;
    return with_two(n, "hard_sigmoid", attrs->alpha, attrs->beta);
}

/* To integers the fraction goes; all floating types are float here. */
static mx_code write_cast(const mx_emit_node *n)
{
    const mx_cast_attrs *attrs = n->node->attrs;
    char from[48], to[48];
    if (attrs->dtype == MX_BOOL)
        return mx_emit_fail(n, "bool cannot be written as C");
    if (!mx_dtype_is_float(attrs->dtype))
        return mx_emit_unary(n, "trunc");
    mx_emit_use(n->emit, "copy");
    mx_text_print(mx_emit_body(n), "    copy(%s, %s, %lld);\n", mx_emit_at(n->emit, n->in[0], from),
                  mx_emit_at(n->emit, n->out, to), (long long)mx_shape_size(n->y));
    return MX_OK;
}

static mx_code write_add_n(const mx_emit_node *n)
{
    char from[48], to[48];
    if (n->node->n_in == 1) {
        mx_emit_use(n->emit, "copy");
        mx_text_print(mx_emit_body(n), "    copy(%s, %s, %lld);\n", mx_emit_at(n->emit, n->in[0], from),
                      mx_emit_at(n->emit, n->out, to), (long long)mx_shape_size(n->y));
        return MX_OK;
    }
    mx_code code = mx_emit_zip(n, "add", n->in[0], n->in[1], n->out);
    for (int i = 2; !code && i < n->node->n_in; i++)
        code = mx_emit_zip(n, "add", n->out, n->in[i], n->out);
    return code;
}

static mx_code write_smooth_l1(const mx_emit_node *n)
{
    const double sigma = ((const mx_smooth_l1_attrs *)n->node->attrs)->scalar;
    return with_two(n, "smooth_l1", sigma * sigma, 1 / (sigma * sigma));
}

static mx_code write_where(const mx_emit_node *n)
{
    const int64_t rows = mx_shape_size(n->x), all = mx_shape_size(n->y);
    mx_emit_open(n, "choose", 3);
    mx_text_print(mx_emit_body(n), "%lld, %lld);\n", (long long)all, (long long)mx_emit_over(all, rows));
    return MX_OK;
}

const mx_emit_row mx_emit_activation_rows[] = {
    {.op = "LogisticRegressionOutput", .write = write_logistic, .reads = 1},
    {.op = "Activation", .write = write_activation},
    {.op = "LeakyReLU", .write = write_leaky},
    {.op = "Cast", .write = write_cast},
    {.op = "clip", .write = write_clip},
    {.op = "hard_sigmoid", .write = write_hard_sigmoid},
    {.op = "smooth_l1", .write = write_smooth_l1},
    {.op = "add_n", .write = write_add_n},
    {.op = "where", .write = write_where},
    {0},
};
