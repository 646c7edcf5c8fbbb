/* Normalisations of a network that is written as C, softmax among them.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "gluon/emit/emit.h"
#include "gluon/op.gen.h"

static mx_code normalize_batch(const mx_emit_node *n, int64_t axis, bool fix_gamma, double eps)
{
    char p[4][48];
    for (int i = 0; i < 4; i++)
        mx_emit_at(n->emit, n->in[1 + i], p[i]);
    mx_emit_open(n, "batch_norm", 1);
    mx_text_print(mx_emit_body(n), "%s, %s, %s, %s, ", fix_gamma ? "NULL" : p[0], p[1], p[2], p[3]);
    mx_emit_split(n, mx_split_at(n->x, mx_axis(axis, n->x->ndim)));
    mx_emit_add(n, eps);
    return mx_emit_close(n);
}

static mx_code write_batch_norm(const mx_emit_node *n)
{
    const mx_batch_norm_attrs *attrs = n->node->attrs;
    return normalize_batch(n, attrs->axis, attrs->fix_gamma, attrs->eps);
}

static mx_code write_sync_batch_norm(const mx_emit_node *n)
{
    const mx_sync_batch_norm_attrs *attrs = n->node->attrs;
    return normalize_batch(n, 1, attrs->fix_gamma, attrs->eps);
}

static mx_code write_batch_norm_relu(const mx_emit_node *n)
{
    char y[48];
    if (write_batch_norm(n))
        return mx_error_code();
    mx_emit_use(n->emit, "clip");
    mx_emit_at(n->emit, n->out, y);
    mx_text_print(mx_emit_body(n), "    clip(%s, %s, %lld, 0, INFINITY);\n", y, y, (long long)mx_shape_size(n->y));
    return MX_OK;
}

static mx_code write_normalize(const mx_emit_node *n, mx_split s, int64_t repeat, int64_t period, double eps)
{
    char gamma[48], beta[48];
    mx_emit_open(n, "normalize", 1);
    mx_text_print(mx_emit_body(n), "%s, %s, %lld, %lld, %lld, %lld, %lld", mx_emit_at(n->emit, n->in[1], gamma),
                  mx_emit_at(n->emit, n->in[2], beta), (long long)s.before, (long long)s.size, (long long)s.after,
                  (long long)repeat, (long long)period);
    mx_emit_add(n, eps);
    mx_text_add(mx_emit_body(n), ");\n");
    return MX_OK;
}

static mx_code write_layer_norm(const mx_emit_node *n)
{
    const mx_layer_norm_attrs *attrs = n->node->attrs;
    const mx_split s = mx_split_at(n->x, mx_axis(attrs->axis, n->x->ndim));
    return write_normalize(n, s, s.after, s.size, attrs->eps);
}

static mx_code write_groups(const mx_emit_node *n, int64_t groups, double eps)
{
    const int64_t outer = n->x->dim[0] * groups, each = mx_emit_over(mx_shape_size(n->x), outer);
    return write_normalize(n, (mx_split){outer, each, 1}, each, groups, eps);
}

static mx_code write_group_norm(const mx_emit_node *n)
{
    const mx_group_norm_attrs *attrs = n->node->attrs;
    return write_groups(n, attrs->num_groups, attrs->eps);
}

static mx_code write_instance_norm(const mx_emit_node *n)
{
    return write_groups(n, n->x->dim[1], ((const mx_instance_norm_attrs *)n->node->attrs)->eps);
}

static mx_code write_l2(const mx_emit_node *n)
{
    const mx_l2_normalization_attrs *attrs = n->node->attrs;
    const int64_t batch = n->x->dim[0], all = mx_shape_size(n->x), c = n->x->ndim > 1 ? n->x->dim[1] : 1;
    mx_split s = {batch, mx_emit_over(all, batch), 1};
    if (attrs->mode == MX_L2_NORMALIZATION_CHANNEL)
        s = mx_split_at(n->x, 1);
    else if (attrs->mode == MX_L2_NORMALIZATION_SPATIAL)
        s = (mx_split){batch * c, mx_emit_over(all, batch * c), 1};
    mx_emit_open(n, "unit_length", 1);
    mx_text_print(mx_emit_body(n), "%lld, %lld, %lld", (long long)s.before, (long long)s.size, (long long)s.after);
    mx_emit_add(n, attrs->eps);
    mx_text_add(mx_emit_body(n), ");\n");
    return MX_OK;
}

/* lengths: of the part of each row that counts; "NULL": all of it */
static mx_code softmax_over(const mx_emit_node *n, mx_split s, double scale, bool logs, const char *lengths)
{
    mx_emit_open(n, "softmax", 1);
    mx_text_print(mx_emit_body(n), "%s, ", lengths);
    mx_emit_split(n, s);
    mx_emit_add(n, scale);
    mx_text_print(mx_emit_body(n), ", %d);\n", logs);
    return MX_OK;
}

static mx_code write_softmax(const mx_emit_node *n)
{
    const mx_softmax_attrs *attrs = n->node->attrs;
    const char *op = n->node->op->name;
    const double scale = attrs->temperature == attrs->temperature ? 1 / attrs->temperature : 1;
    char lengths[48];
    return softmax_over(n, mx_split_at(n->x, mx_axis(attrs->axis, n->x->ndim)), !strcmp(op, "softmin") ? -scale : scale,
                        !strcmp(op, "log_softmax"), attrs->use_length ? mx_emit_or_null(n, 1, lengths) : "NULL");
}

/* Over axis 1, the last axis, or all axes but the first. */
static mx_code write_softmax_rows(const mx_emit_node *n, bool axis_one, bool last)
{
    const int64_t batch = n->x->dim[0];
    mx_split s = {batch, mx_emit_over(mx_shape_size(n->x), batch), 1};
    if (axis_one || last)
        s = mx_split_at(n->x, axis_one ? 1 : n->x->ndim - 1);
    return softmax_over(n, s, 1, false, "NULL");
}

static mx_code write_softmax_output(const mx_emit_node *n)
{
    const mx_softmax_output_attrs *attrs = n->node->attrs;
    return write_softmax_rows(n, attrs->multi_output, attrs->preserve_shape);
}

static mx_code write_softmax_activation(const mx_emit_node *n)
{
    const mx_softmax_activation_attrs *attrs = n->node->attrs;
    return write_softmax_rows(n, attrs->mode == MX_SOFTMAX_ACTIVATION_CHANNEL, false);
}

/* loss (..., 1) = -log softmax(data)[label], or -sum label * log softmax(data) */
static mx_code write_softmax_ce(const mx_emit_node *n)
{
    const mx_softmax_ce_attrs *attrs = n->node->attrs;
    const mx_split s = mx_split_at(n->x, mx_axis(attrs->axis, n->x->ndim));
    mx_emit_open(n, "cross_entropy", 2);
    mx_emit_split(n, s);
    mx_text_print(mx_emit_body(n), ", %d);\n", attrs->sparse_label);
    return MX_OK;
}

const mx_emit_row mx_emit_norm_rows[] = {
    {.op = "BatchNorm", .write = write_batch_norm, .reads = 5},
    {.op = "_contrib_SyncBatchNorm", .write = write_sync_batch_norm, .reads = 5},
    {.op = "_contrib_BatchNormWithReLU", .write = write_batch_norm_relu, .reads = 5},
    {.op = "LayerNorm", .write = write_layer_norm},
    {.op = "GroupNorm", .write = write_group_norm},
    {.op = "InstanceNorm", .write = write_instance_norm},
    {.op = "L2Normalization", .write = write_l2},
    {.op = "softmax", .write = write_softmax},
    {.op = "log_softmax", .write = write_softmax, .reads = 1},
    {.op = "softmin", .write = write_softmax, .reads = 1},
    {.op = "SoftmaxOutput", .write = write_softmax_output, .reads = 1},
    {.op = "SoftmaxActivation", .write = write_softmax_activation},
    {.op = "_softmax_ce", .write = write_softmax_ce},
    {0},
};
