/* Moving and folding elements in a network that is written as C, by the operators' own rules.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "gluon/emit/emit.h"
#include "gluon/op.gen.h"
#include "op/formula/movement.h"
#include "op/formula/reduce.h"

static mx_code write_fold_of(const mx_emit_node *n, int kind, int mask)
{
    int64_t dim[2][MX_MAX_NDIM], step[2][MX_MAX_NDIM], count[2] = {1, 1}, stride = mx_shape_size(n->x);
    int axes[2] = {0, 0};
    for (int i = 0; i < n->x->ndim; i++) {
        const int to = mask >> i & 1;
        stride = n->x->dim[i] ? stride / n->x->dim[i] : 0;
        dim[to][axes[to]] = n->x->dim[i];
        step[to][axes[to]++] = stride;
        count[to] *= n->x->dim[i];
    }
    mx_emit_open(n, "fold", 1);
    mx_text_print(mx_emit_body(n), "%d", kind);
    for (int to = 0; to < 2; to++) {
        mx_text_print(mx_emit_body(n), ", %lld, %d, ", (long long)count[to], axes[to]);
        mx_emit_longs(mx_emit_body(n), axes[to], dim[to]);
        mx_text_add(mx_emit_body(n), ", ");
        mx_emit_longs(mx_emit_body(n), axes[to], step[to]);
    }
    mx_text_add(mx_emit_body(n), ");\n");
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
    mx_text_add(mx_emit_body(n), "    move(");
    if (move->input == MX_FROM_VALUE) {
        mx_text_add(mx_emit_body(n), "(const float[]){");
        mx_emit_float(mx_emit_body(n), move->value);
        mx_text_add(mx_emit_body(n), "}, ");
    } else
        mx_text_print(
            mx_emit_body(n), "%s + %lld, ",
            mx_emit_at(n->emit, move->input == MX_FROM_OUTPUT ? n->out + move->output : n->in[move->input], from),
            (long long)move->from_offset);
    mx_text_print(mx_emit_body(n), "%s + %lld, %lld, %d, ", mx_emit_at(n->emit, n->out + move->output, to),
                  (long long)move->to_offset, (long long)count, move->ndim);
    mx_emit_longs(mx_emit_body(n), move->ndim, move->dim);
    mx_text_add(mx_emit_body(n), ", ");
    mx_emit_longs(mx_emit_body(n), move->ndim, move->from);
    mx_text_add(mx_emit_body(n), ", ");
    mx_emit_longs(mx_emit_body(n), move->ndim, move->to);
    mx_text_add(mx_emit_body(n), ");\n");
}

/* The operator's own rule, asked with arrays that have shapes only. */
mx_code mx_emit_movement(const mx_emit_node *n)
{
    MX_SCOPE;
    enum { MOST = 256 };
    mx_array *arrays[MOST];
    const int n_in = n->node->n_in, n_out = n->node->n_out;
    const mx_movement *rule = n->node->op->movement ? n->node->op->movement : n->node->op->user;
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
    if (!strcmp(n->node->op->name, "UpSampling") && n_in > 1 &&
        ((const mx_upsampling_attrs *)n->node->attrs)->multi_input_mode == MX_UPSAMPLING_SUM)
        return mx_emit_fail(n, "multi_input_mode=sum cannot be written as C, only concat");
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

/* ---- values that follow from shapes alone ---------------------------------------------------------------------- */

static mx_code write_fill(const mx_emit_node *n, double value)
{
    mx_move move = {.input = MX_FROM_VALUE, .value = value, .ndim = 1, .dim = {mx_shape_size(n->y)}, .to = {1}};
    write_move(n, &move);
    return MX_OK;
}
static mx_code write_zeros(const mx_emit_node *n) { return write_fill(n, 0); }
static mx_code write_ones(const mx_emit_node *n) { return write_fill(n, 1); }
static mx_code write_full(const mx_emit_node *n)
{
    return write_fill(n, ((const mx_full_attrs *)n->node->attrs)->value);
}

/* Ones on diagonal k: above the main one if k is positive. */
static mx_code write_eye(const mx_emit_node *n)
{
    const mx_eye_attrs *attrs = n->node->attrs;
    const int64_t rows = n->y->dim[0], columns = n->y->dim[1], k = attrs->k;
    const int64_t down = rows - (k < 0 ? -k : 0), right = columns - (k > 0 ? k : 0);
    mx_move ones = {.input = MX_FROM_VALUE, .value = 1, .ndim = 1, .to = {columns + 1}};
    ones.dim[0] = down < right ? down : right;
    ones.to_offset = k > 0 ? k : -k * columns;
    write_fill(n, 0);
    if (ones.dim[0] > 0)
        write_move(n, &ones);
    return MX_OK;
}

static mx_code write_ramp(const mx_emit_node *n, double start, double step, int64_t repeat)
{
    char to[48];
    mx_emit_use(n->emit, "ramp");
    mx_text_print(mx_emit_body(n), "    ramp(%s, %lld, %lld", mx_emit_at(n->emit, n->out, to),
                  (long long)mx_shape_size(n->y), (long long)repeat);
    mx_emit_add(n, start);
    mx_emit_add(n, step);
    return mx_emit_close(n);
}

static mx_code write_arange(const mx_emit_node *n)
{
    const mx_arange_attrs *attrs = n->node->attrs;
    return write_ramp(n, attrs->stop == attrs->stop || attrs->infer_range ? attrs->start : 0, attrs->step,
                      attrs->repeat);
}

static mx_code write_arange_like(const mx_emit_node *n)
{
    const mx_arange_like_attrs *attrs = n->node->attrs;
    return write_ramp(n, attrs->start, attrs->step, attrs->repeat);
}

/* ---- rows ------------------------------------------------------------------------------------------------------ */

const mx_emit_row mx_emit_move_rows[] = {
    {.op = "transpose", .write = mx_emit_movement, .all = true},
    {.op = "SwapAxis", .write = mx_emit_movement, .all = true},
    {.op = "reverse", .write = mx_emit_movement, .all = true},
    {.op = "depth_to_space", .write = mx_emit_movement, .all = true},
    {.op = "space_to_depth", .write = mx_emit_movement, .all = true},
    {.op = "slice", .write = mx_emit_movement, .all = true},
    {.op = "slice_axis", .write = mx_emit_movement, .all = true},
    {.op = "slice_like", .write = mx_emit_movement, .reads = 1, .all = true},
    {.op = "Crop", .write = mx_emit_movement, .reads = 1, .all = true},
    {.op = "Concat", .write = mx_emit_movement, .all = true},
    {.op = "_rnn_param_concat", .write = mx_emit_movement, .all = true},
    {.op = "stack", .write = mx_emit_movement, .all = true},
    {.op = "SliceChannel", .write = mx_emit_movement, .all = true},
    {.op = "_split_v2", .write = mx_emit_movement, .all = true},
    {.op = "tile", .write = mx_emit_movement, .all = true},
    {.op = "repeat", .write = mx_emit_movement, .all = true},
    {.op = "Pad", .write = mx_emit_movement, .all = true},
    {.op = "diag", .write = mx_emit_movement, .all = true},
    {.op = "broadcast_to", .write = write_broadcast, .reads = 1},
    {.op = "broadcast_axis", .write = write_broadcast, .reads = 1},
    {.op = "broadcast_like", .write = write_broadcast, .reads = 1},
    {.op = "sum", .write = write_fold},
    {.op = "mean", .write = write_fold},
    {.op = "prod", .write = write_fold},
    {.op = "max", .write = write_fold},
    {.op = "min", .write = write_fold},
    {.op = "norm", .write = write_norm},
    {.op = "_zeros", .write = write_zeros},
    {.op = "_ones", .write = write_ones},
    {.op = "_full", .write = write_full},
    {.op = "_eye", .write = write_eye},
    {.op = "zeros_like", .write = write_zeros, .reads = -1},
    {.op = "ones_like", .write = write_ones, .reads = -1},
    {.op = "_arange", .write = write_arange},
    {.op = "_contrib_arange_like", .write = write_arange_like, .reads = -1},
    {0},
};
