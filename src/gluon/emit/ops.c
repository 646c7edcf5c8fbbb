/* Operators of a network that is written as C: one row and one short function each.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "gluon/emit/emit.h"
#include "gluon/op.gen.h"
#include "op/movement.h"
#include "op/reduce.h"
#include "op/walk.h"

/* ---- text ------------------------------------------------------------------------------------------------------ */

const char *mx_emit_at(const mx_emit *emit, int64_t entry, char *buffer)
{
    static const char *const base[] = {"NULL", "w", "in", "out", "arena"};
    const mx_spot *p = &emit->place[emit->root[entry]];
    if (p->kind == MX_SPOT_WEIGHT)
        snprintf(buffer, 48, "w%lld", (long long)p->number);
    else if (p->kind == MX_SPOT_NONE)
        snprintf(buffer, 48, "NULL");
    else
        snprintf(buffer, 48, "%s + %lld", base[p->kind], (long long)p->number);
    return buffer;
}

void mx_emit_float(mx_text *text, double value)
{
    char buffer[40];
    value = (float)value;
    if (value != value || value - value != 0) {
        mx_text_add(text, value != value ? "NAN" : value > 0 ? "INFINITY" : "-INFINITY");
        return;
    }
    snprintf(buffer, sizeof buffer, "%.9g", value);
    for (char *p = buffer; *p; p++)
        *p = *p == ',' ? '.' : *p; /* some locales */
    mx_text_print(text, "%s%sf", buffer, strpbrk(buffer, ".e") ? "" : ".0");
}

void mx_emit_longs(mx_text *text, int n, const int64_t *numbers)
{
    mx_text_add(text, "(const long[]){");
    for (int i = 0; i < n; i++)
        mx_text_print(text, "%s%lld", i ? ", " : "", (long long)numbers[i]);
    mx_text_add(text, n ? "}" : "0}");
}

void mx_emit_open(const mx_emit_node *n, const char *kernel, int count)
{
    char at[48];
    mx_emit_use(n->emit, kernel);
    mx_text_print(&n->emit->body, "    %s(", kernel);
    for (int i = 0; i < count; i++)
        mx_text_print(&n->emit->body, "%s, ", mx_emit_at(n->emit, n->in[i], at));
    mx_text_print(&n->emit->body, "%s, ", mx_emit_at(n->emit, n->out, at));
}

mx_code mx_emit_fail(const mx_emit_node *n, const char *format, ...)
{
    char text[256];
    va_list list;
    va_start(list, format);
    vsnprintf(text, sizeof text, format, list);
    va_end(list);
    return mx_fail(MX_ERR_UNSUPPORTED, "mx_compile_to_c: node '%s' (%s): %s", n->node->name, n->node->op->name, text);
}

static mx_text *body(const mx_emit_node *n) { return &n->emit->body; }
static int64_t size(const mx_shape_t *shape) { return mx_shape_size(shape); }
static int64_t over(int64_t a, int64_t b) { return b ? a / b : 0; }
/* The place of input i, "NULL" if it is absent. */
static const char *place_or_null(const mx_emit_node *n, int i, char *buffer)
{
    return i < n->node->n_in && n->in[i] >= 0 ? mx_emit_at(n->emit, n->in[i], buffer) : "NULL";
}
static const mx_shape_t *shape_of(const mx_emit_node *n, int i) { return &n->emit->shape[n->in[i]]; }
/* ", 1.5f" */
static void add_float(const mx_emit_node *n, double value)
{
    mx_text_add(body(n), ", ");
    mx_emit_float(body(n), value);
}

/* ---- products -------------------------------------------------------------------------------------------------- */

static mx_code write_dense(const mx_emit_node *n)
{
    const mx_dense_attrs *attrs = n->node->attrs;
    char bias[48];
    const int64_t k = shape_of(n, 1)->dim[1];
    mx_emit_open(n, "dense", 2);
    mx_text_print(body(n), "%s, %lld, %lld, %lld);\n", attrs->no_bias ? "NULL" : place_or_null(n, 2, bias),
                  (long long)over(size(n->x), k), (long long)attrs->num_hidden, (long long)k);
    return MX_OK;
}

static mx_code write_matmul(const mx_emit_node *n, bool ta, bool tb, double alpha)
{
    const mx_shape_t *a = n->x, *b = shape_of(n, 1);
    if (a->ndim < 2 || a->ndim != b->ndim)
        return mx_emit_fail(n, "inputs have %d and %d axes, wanted two matrices or batches of them", a->ndim, b->ndim);
    const int64_t m = a->dim[a->ndim - (ta ? 1 : 2)], k = a->dim[a->ndim - (ta ? 2 : 1)];
    const int64_t cols = b->dim[b->ndim - (tb ? 2 : 1)];
    mx_emit_open(n, "matmul", 2);
    mx_text_print(body(n), "%lld, %lld, %lld, %lld, %d, %d", (long long)over(size(n->y), m * cols), (long long)m,
                  (long long)cols, (long long)k, ta, tb);
    add_float(n, alpha);
    mx_text_add(body(n), ");\n");
    return MX_OK;
}

static mx_code write_dot(const mx_emit_node *n)
{
    const mx_dot_attrs *attrs = n->node->attrs;
    if (!strcmp(n->node->op->name, "dot") && (n->x->ndim != 2 || shape_of(n, 1)->ndim != 2))
        return mx_emit_fail(n, "only products of two matrices can be written as C");
    return write_matmul(n, attrs->transpose_a, attrs->transpose_b, 1);
}

static mx_code write_gemm2(const mx_emit_node *n)
{
    const mx_linalg_gemm2_attrs *attrs = n->node->attrs;
    if (attrs->axis != -2)
        return mx_emit_fail(n, "axis=%lld cannot be written as C, only -2", (long long)attrs->axis);
    return write_matmul(n, attrs->transpose_a, attrs->transpose_b, attrs->alpha);
}

/* ---- windows --------------------------------------------------------------------------------------------------- */

static int64_t at(const mx_dims *dims, int i, int64_t fallback) { return dims->n > i ? dims->d[i] : fallback; }

/* ", (window){...}" for height and width; an image with one axis has height 1. */
static void write_windows(const mx_emit_node *n, const mx_dims *kernel, const mx_dims *stride, const mx_dims *pad,
                          const mx_dims *dilate)
{
    const int axes = n->x->ndim - 2;
    if (axes == 1)
        mx_text_add(body(n), ", (window){1, 1, 1, 1, 0, 1}");
    for (int i = 0; i < axes; i++)
        mx_text_print(body(n), ", (window){%lld, %lld, %lld, %lld, %lld, %lld}", (long long)n->x->dim[2 + i],
                      (long long)n->y->dim[2 + i], (long long)at(kernel, i, n->x->dim[2 + i]),
                      (long long)at(stride, i, 1), (long long)at(pad, i, 0), (long long)at(dilate, i, 1));
    mx_text_add(body(n), ");\n");
}

static mx_code check_image(const mx_emit_node *n, int layout)
{
    if (n->x->ndim != 3 && n->x->ndim != 4)
        return mx_emit_fail(n, "data has %d axes, wanted 3 or 4 (batch, channels, one or two image axes)", n->x->ndim);
    return layout >= 3 ? mx_emit_fail(n, "channels last cannot be written as C; wanted NCHW or NCW") : MX_OK;
}

static mx_code write_convolution(const mx_emit_node *n)
{
    const mx_convolution_attrs *attrs = n->node->attrs;
    char bias[48];
    if (check_image(n, attrs->layout))
        return mx_error_code();
    mx_emit_open(n, "convolution", 2);
    mx_text_print(body(n), "%s, %lld, %lld, %lld, %lld", attrs->no_bias ? "NULL" : place_or_null(n, 2, bias),
                  (long long)n->x->dim[0], (long long)n->x->dim[1], (long long)n->y->dim[1],
                  (long long)attrs->num_group);
    write_windows(n, &attrs->kernel, &attrs->stride, &attrs->pad, &attrs->dilate);
    return MX_OK;
}

static mx_code write_deconvolution(const mx_emit_node *n)
{
    const mx_deconvolution_attrs *attrs = n->node->attrs;
    char bias[48];
    if (check_image(n, attrs->layout))
        return mx_error_code();
    if (attrs->target_shape.n > 0)
        return mx_emit_fail(n, "target_shape cannot be written as C; wanted pad and adj");
    mx_emit_open(n, "deconvolution", 2);
    mx_text_print(body(n), "%s, %lld, %lld, %lld, %lld", attrs->no_bias ? "NULL" : place_or_null(n, 2, bias),
                  (long long)n->x->dim[0], (long long)n->x->dim[1], (long long)n->y->dim[1],
                  (long long)attrs->num_group);
    write_windows(n, &attrs->kernel, &attrs->stride, &attrs->pad, &attrs->dilate);
    return MX_OK;
}

static mx_code write_pooling(const mx_emit_node *n)
{
    const mx_pooling_attrs *attrs = n->node->attrs;
    const mx_dims none = MX_NO_DIMS;
    const bool global = attrs->global_pool;
    if (check_image(n, attrs->layout))
        return mx_error_code();
    if (attrs->pool_type == MX_POOLING_LP)
        return mx_emit_fail(n, "pool_type=lp cannot be written as C");
    mx_emit_open(n, "pooling", 1);
    mx_text_print(body(n), "%lld, %d, %d", (long long)(n->x->dim[0] * n->x->dim[1]), attrs->pool_type,
                  attrs->count_include_pad);
    write_windows(n, global ? &none : &attrs->kernel, global ? &none : &attrs->stride, global ? &none : &attrs->pad,
                  &none);
    return MX_OK;
}

/* ---- normalisation --------------------------------------------------------------------------------------------- */

static mx_code write_batch_norm(const mx_emit_node *n)
{
    const mx_batch_norm_attrs *attrs = n->node->attrs;
    const mx_split s = mx_split_at(n->x, mx_axis(attrs->axis, n->x->ndim));
    char p[4][48];
    for (int i = 0; i < 4; i++)
        mx_emit_at(n->emit, n->in[1 + i], p[i]);
    mx_emit_open(n, "batch_norm", 1);
    mx_text_print(body(n), "%s, %s, %s, %s, %lld, %lld, %lld", attrs->fix_gamma ? "NULL" : p[0], p[1], p[2], p[3],
                  (long long)s.before, (long long)s.size, (long long)s.after);
    add_float(n, attrs->eps);
    mx_text_add(body(n), ");\n");
    return MX_OK;
}

static mx_code write_normalize(const mx_emit_node *n, mx_split s, int64_t repeat, int64_t period, double eps)
{
    char gamma[48], beta[48];
    mx_emit_open(n, "normalize", 1);
    mx_text_print(body(n), "%s, %s, %lld, %lld, %lld, %lld, %lld", mx_emit_at(n->emit, n->in[1], gamma),
                  mx_emit_at(n->emit, n->in[2], beta), (long long)s.before, (long long)s.size, (long long)s.after,
                  (long long)repeat, (long long)period);
    add_float(n, eps);
    mx_text_add(body(n), ");\n");
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
    const int64_t outer = n->x->dim[0] * groups, each = over(size(n->x), outer);
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
    const int64_t batch = n->x->dim[0], all = size(n->x), c = n->x->ndim > 1 ? n->x->dim[1] : 1;
    mx_split s = {batch, over(all, batch), 1};
    if (attrs->mode == MX_L2_NORMALIZATION_CHANNEL)
        s = mx_split_at(n->x, 1);
    else if (attrs->mode == MX_L2_NORMALIZATION_SPATIAL)
        s = (mx_split){batch * c, over(all, batch * c), 1};
    mx_emit_open(n, "unit_length", 1);
    mx_text_print(body(n), "%lld, %lld, %lld", (long long)s.before, (long long)s.size, (long long)s.after);
    add_float(n, attrs->eps);
    mx_text_add(body(n), ");\n");
    return MX_OK;
}

static mx_code softmax_over(const mx_emit_node *n, mx_split s, double scale, bool logs)
{
    mx_emit_open(n, "softmax", 1);
    mx_text_print(body(n), "%lld, %lld, %lld", (long long)s.before, (long long)s.size, (long long)s.after);
    add_float(n, scale);
    mx_text_print(body(n), ", %d);\n", logs);
    return MX_OK;
}

static mx_code write_softmax(const mx_emit_node *n)
{
    const mx_softmax_attrs *attrs = n->node->attrs;
    const char *op = n->node->op->name;
    const double scale = attrs->temperature == attrs->temperature ? 1 / attrs->temperature : 1;
    if (attrs->use_length)
        return mx_emit_fail(n, "use_length cannot be written as C");
    return softmax_over(n, mx_split_at(n->x, mx_axis(attrs->axis, n->x->ndim)), !strcmp(op, "softmin") ? -scale : scale,
                        !strcmp(op, "log_softmax"));
}

/* Over axis 1, the last axis, or all axes but the first. */
static mx_code write_softmax_head(const mx_emit_node *n, bool axis_one, bool last)
{
    const int64_t batch = n->x->dim[0];
    mx_split s = {batch, over(size(n->x), batch), 1};
    if (axis_one || last)
        s = mx_split_at(n->x, axis_one ? 1 : n->x->ndim - 1);
    return softmax_over(n, s, 1, false);
}

static mx_code write_softmax_output(const mx_emit_node *n)
{
    const mx_softmax_output_attrs *attrs = n->node->attrs;
    return write_softmax_head(n, attrs->multi_output, attrs->preserve_shape);
}

static mx_code write_softmax_activation(const mx_emit_node *n)
{
    const mx_softmax_activation_attrs *attrs = n->node->attrs;
    return write_softmax_head(n, attrs->mode == MX_SOFTMAX_ACTIVATION_CHANNEL, false);
}

/* ---- activations ----------------------------------------------------------------------------------------------- */

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
    mx_text_print(body(n), "%lld", (long long)size(n->y));
    add_float(n, a);
    add_float(n, b);
    mx_text_add(body(n), ");\n");
    return MX_OK;
}

static mx_code write_prelu(const mx_emit_node *n)
{
    const int64_t channels = size(shape_of(n, 1)), all = size(n->x);
    const int axis = n->x->ndim > 1 ? 1 : 0;
    const int64_t inner = channels == 1 ? 1 : mx_split_at(n->x, axis).after;
    mx_emit_open(n, "leaky", 2);
    mx_text_print(body(n), "%lld, %lld, %lld);\n", (long long)over(all, channels * inner), (long long)channels,
                  (long long)inner);
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
        mx_text_print(body(n), "%lld);\n", (long long)size(n->y));
        return MX_OK;
    default: break;
    }
    mx_emit_use(n->emit, "leaky");
    mx_text_print(body(n), "    leaky(%s, (const float[]){", mx_emit_at(n->emit, n->in[0], x));
    mx_emit_float(body(n), attrs->act_type == MX_LEAKY_RELU_RRELU ? middle : attrs->slope);
    mx_text_print(body(n), "}, %s, %lld, 1, 1);\n", mx_emit_at(n->emit, n->out, y), (long long)size(n->y));
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
    mx_text_print(body(n), "    copy(%s, %s, %lld);\n", mx_emit_at(n->emit, n->in[0], from),
                  mx_emit_at(n->emit, n->out, to), (long long)size(n->y));
    return MX_OK;
}

static mx_code write_add_n(const mx_emit_node *n)
{
    char from[48], to[48];
    if (n->node->n_in == 1) {
        mx_emit_use(n->emit, "copy");
        mx_text_print(body(n), "    copy(%s, %s, %lld);\n", mx_emit_at(n->emit, n->in[0], from),
                      mx_emit_at(n->emit, n->out, to), (long long)size(n->y));
        return MX_OK;
    }
    mx_code code = mx_emit_zip(n, "add", n->in[0], n->in[1], n->out);
    for (int i = 2; !code && i < n->node->n_in; i++)
        code = mx_emit_zip(n, "add", n->out, n->in[i], n->out);
    return code;
}

/* ---- reductions ------------------------------------------------------------------------------------------------ */

static mx_code write_fold_of(const mx_emit_node *n, int kind, int mask)
{
    int64_t dim[2][MX_MAX_NDIM], step[2][MX_MAX_NDIM], count[2] = {1, 1}, stride = size(n->x);
    int axes[2] = {0, 0};
    for (int i = 0; i < n->x->ndim; i++) {
        const int to = mask >> i & 1;
        stride = n->x->dim[i] ? stride / n->x->dim[i] : 0;
        dim[to][axes[to]] = n->x->dim[i];
        step[to][axes[to]++] = stride;
        count[to] *= n->x->dim[i];
    }
    mx_emit_open(n, "fold", 1);
    mx_text_print(body(n), "%d", kind);
    for (int to = 0; to < 2; to++) {
        mx_text_print(body(n), ", %lld, %d, ", (long long)count[to], axes[to]);
        mx_emit_longs(body(n), axes[to], dim[to]);
        mx_text_add(body(n), ", ");
        mx_emit_longs(body(n), axes[to], step[to]);
    }
    mx_text_add(body(n), ");\n");
    return MX_OK;
}

static mx_code write_fold(const mx_emit_node *n)
{
    static const char *const kinds[] = {"sum", "mean", "prod", "max", "min"};
    const mx_reduce_attrs *attrs = n->node->attrs;
    const int mask = mx_fold_axes(n->node->op, &attrs->axis, attrs->exclude, n->x->ndim);
    int kind = 0;
    while (kind < 4 && strcmp(kinds[kind], n->node->op->name))
        kind++;
    return mask < 0 ? mx_error_code() : write_fold_of(n, kind, mask);
}

static mx_code write_norm(const mx_emit_node *n)
{
    const mx_norm_attrs *attrs = n->node->attrs;
    const int mask = mx_fold_axes(n->node->op, &attrs->axis, false, n->x->ndim);
    return mask < 0 ? mx_error_code() : write_fold_of(n, attrs->ord == 1 ? 5 : 6, mask);
}

/* ---- moving elements ------------------------------------------------------------------------------------------- */

static void write_move(const mx_emit_node *n, const mx_move *move)
{
    char from[48], to[48];
    int64_t count = 1;
    for (int i = 0; i < move->ndim; i++)
        count *= move->dim[i];
    if (!count)
        return;
    mx_emit_use(n->emit, "move");
    mx_text_add(body(n), "    move(");
    if (move->input == MX_FROM_VALUE) {
        mx_text_add(body(n), "(const float[]){");
        mx_emit_float(body(n), move->value);
        mx_text_add(body(n), "}, ");
    } else
        mx_text_print(
            body(n), "%s + %lld, ",
            mx_emit_at(n->emit, move->input == MX_FROM_OUTPUT ? n->out + move->output : n->in[move->input], from),
            (long long)move->from_offset);
    mx_text_print(body(n), "%s + %lld, %lld, %d, ", mx_emit_at(n->emit, n->out + move->output, to),
                  (long long)move->to_offset, (long long)count, move->ndim);
    mx_emit_longs(body(n), move->ndim, move->dim);
    mx_text_add(body(n), ", ");
    mx_emit_longs(body(n), move->ndim, move->from);
    mx_text_add(body(n), ", ");
    mx_emit_longs(body(n), move->ndim, move->to);
    mx_text_add(body(n), ");\n");
}

/* The operator's own rule, asked with arrays that have shapes only. */
static mx_code write_movement(const mx_emit_node *n)
{
    MX_SCOPE;
    enum { MOST = 256 };
    mx_array *arrays[MOST];
    const int n_in = n->node->n_in, n_out = n->node->n_out;
    const mx_movement *rule = n->node->op->user;
    if (n_in + n_out > MOST)
        return mx_emit_fail(n, "%d inputs and outputs, at most %d can be written as C", n_in + n_out, MOST);
    for (int i = 0; i < n_in + n_out; i++) {
        const int64_t entry = i < n_in ? n->in[i] : n->out + i - n_in;
        arrays[i] =
            entry < 0 ? MX_NONE : mx_scope_add(mx_array_abstract(&n->emit->shape[entry], MX_FLOAT32, mx_cpu(0)));
        if (!arrays[i])
            return mx_error_code();
    }
    const mx_kernel_call call = {
        .op = n->node->op, .attrs = n->node->attrs, .n_in = n_in, .n_out = n_out, .in = arrays, .out = arrays + n_in};
    for (int i = 0;; i++) {
        mx_move move = {0};
        if (!rule->plan(&call, i, &move))
            return MX_OK;
        if (move.input == MX_FROM_VALUE)
            memset(move.from, 0, sizeof move.from);
        if (n->emit->place[n->emit->root[n->out + move.output]].kind != MX_SPOT_NONE)
            write_move(n, &move);
    }
}

static mx_code write_broadcast(const mx_emit_node *n)
{
    mx_move move = {.ndim = n->y->ndim};
    const int lead = n->y->ndim - n->x->ndim;
    int64_t from = 1, to = 1;
    for (int i = n->y->ndim - 1; i >= 0; i--) {
        const int64_t in = i < lead ? 1 : n->x->dim[i - lead];
        move.dim[i] = n->y->dim[i];
        move.from[i] = in == 1 ? 0 : from;
        move.to[i] = to;
        from *= in;
        to *= n->y->dim[i];
    }
    write_move(n, &move);
    return MX_OK;
}

/* ---- tables ---------------------------------------------------------------------------------------------------- */

static mx_code write_rows(const mx_emit_node *n, int index, int table)
{
    const mx_shape_t *rows = shape_of(n, table);
    char at_index[48], at_table[48], to[48];
    const int64_t count = rows->dim[0];
    mx_emit_use(n->emit, "rows");
    mx_text_print(body(n), "    rows(%s, %s, %s, %lld, %lld, %lld);\n", mx_emit_at(n->emit, n->in[index], at_index),
                  mx_emit_at(n->emit, n->in[table], at_table), mx_emit_at(n->emit, n->out, to),
                  (long long)size(shape_of(n, index)), (long long)count, (long long)over(size(rows), count));
    return MX_OK;
}

static mx_code write_embedding(const mx_emit_node *n) { return write_rows(n, 0, 1); }

static mx_code write_take(const mx_emit_node *n)
{
    const mx_take_attrs *attrs = n->node->attrs;
    if (mx_axis(attrs->axis, n->x->ndim) != 0 || attrs->mode != MX_TAKE_CLIP)
        return mx_emit_fail(n, "only axis=0 and mode=clip can be written as C");
    return write_rows(n, 1, 0);
}

/* ---- the table ------------------------------------------------------------------------------------------------- */

static const mx_emit_row rows[] = {
    /* the output is the input, perhaps in another shape */
    {"Reshape", NULL, 1},
    {"_reshape_to", NULL, 1},
    {"Flatten", NULL, 1},
    {"expand_dims", NULL, 1},
    {"squeeze", NULL, 1},
    {"reshape_like", NULL, 1},
    {"_copy", NULL, 1},
    {"BlockGrad", NULL, 1},
    {"make_loss", NULL, 1},
    {"MakeLoss", NULL, 1},
    {"_identity_with_attr_like_rhs", NULL, 1},
    {"Dropout", NULL, 1},
    {"LinearRegressionOutput", NULL, 1},
    {"MAERegressionOutput", NULL, 1},
    {"SVMOutput", NULL, 1},
    {"IdentityAttachKLSparseReg", NULL, 1},
    {"_contrib_gradientmultiplier", NULL, 1},
    {"cast_storage", NULL, 1},
    {"amp_cast", NULL, 1},
    /* moves */
    {"transpose", write_movement, 0},
    {"SwapAxis", write_movement, 0},
    {"reverse", write_movement, 0},
    {"depth_to_space", write_movement, 0},
    {"space_to_depth", write_movement, 0},
    {"slice", write_movement, 0},
    {"slice_axis", write_movement, 0},
    {"slice_like", write_movement, 1},
    {"Crop", write_movement, 1},
    {"Concat", write_movement, 0},
    {"stack", write_movement, 0},
    {"SliceChannel", write_movement, 0},
    {"_split_v2", write_movement, 0},
    {"tile", write_movement, 0},
    {"repeat", write_movement, 0},
    {"Pad", write_movement, 0},
    {"broadcast_to", write_broadcast, 1},
    {"broadcast_axis", write_broadcast, 1},
    {"broadcast_like", write_broadcast, 1},
    /* arithmetic */
    {"FullyConnected", write_dense, 0},
    {"dot", write_dot, 0},
    {"batch_dot", write_dot, 0},
    {"_linalg_gemm2", write_gemm2, 0},
    {"Convolution", write_convolution, 0},
    {"Deconvolution", write_deconvolution, 0},
    {"Pooling", write_pooling, 0},
    {"BatchNorm", write_batch_norm, 5},
    {"LayerNorm", write_layer_norm, 0},
    {"GroupNorm", write_group_norm, 0},
    {"InstanceNorm", write_instance_norm, 0},
    {"L2Normalization", write_l2, 0},
    {"softmax", write_softmax, 1},
    {"log_softmax", write_softmax, 1},
    {"softmin", write_softmax, 1},
    {"SoftmaxOutput", write_softmax_output, 1},
    {"SoftmaxActivation", write_softmax_activation, 0},
    {"LogisticRegressionOutput", write_logistic, 1},
    {"Activation", write_activation, 0},
    {"LeakyReLU", write_leaky, 0},
    {"Cast", write_cast, 0},
    {"clip", write_clip, 0},
    {"hard_sigmoid", write_hard_sigmoid, 0},
    {"add_n", write_add_n, 0},
    {"sum", write_fold, 0},
    {"mean", write_fold, 0},
    {"prod", write_fold, 0},
    {"max", write_fold, 0},
    {"min", write_fold, 0},
    {"norm", write_norm, 0},
    {"Embedding", write_embedding, 0},
    {"take", write_take, 0},
};

const mx_emit_row *mx_emit_find(const mx_gnode *node)
{
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (!strcmp(rows[i].op, node->op->name))
            return &rows[i];
    return mx_emit_find_pointwise(node->op);
}

bool mx_emit_writes_all(const mx_emit_row *row) { return row->write == write_movement; }
