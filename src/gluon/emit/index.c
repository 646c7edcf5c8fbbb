/* Elements found by number in a network that is written as C: tables, picks, sequences.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "gluon/emit/emit.h"
#include "gluon/op.gen.h"

static mx_code write_rows(const mx_emit_node *n, int index, int table)
{
    const mx_shape_t *rows = mx_emit_shape(n, table);
    char at_index[48], at_table[48], to[48];
    const int64_t count = rows->dim[0];
    mx_emit_use(n->emit, "rows");
    mx_text_print(mx_emit_body(n), "    rows(%s, %s, %s, %lld, %lld, %lld);\n",
                  mx_emit_at(n->emit, n->in[index], at_index), mx_emit_at(n->emit, n->in[table], at_table),
                  mx_emit_at(n->emit, n->out, to), (long long)mx_shape_size(mx_emit_shape(n, index)), (long long)count,
                  (long long)mx_emit_over(mx_shape_size(rows), count));
    return MX_OK;
}

static mx_code write_embedding(const mx_emit_node *n) { return write_rows(n, 0, 1); }

static mx_code write_take(const mx_emit_node *n)
{
    const mx_take_attrs *attrs = n->node->attrs;
    const mx_split s = mx_split_at(n->x, mx_axis(attrs->axis, n->x->ndim));
    if (s.before == 1 && attrs->mode == MX_TAKE_CLIP)
        return write_rows(n, 1, 0);
    if (attrs->mode == MX_TAKE_RAISE)
        return mx_emit_fail(n, "mode=raise cannot be written as C, only clip and wrap");
    mx_emit_open(n, "gather", 2);
    mx_emit_split(n, s);
    mx_text_print(mx_emit_body(n), ", %lld, %d);\n", (long long)mx_shape_size(mx_emit_shape(n, 1)),
                  attrs->mode == MX_TAKE_WRAP);
    return MX_OK;
}

static mx_code write_pick(const mx_emit_node *n)
{
    const mx_pick_attrs *attrs = n->node->attrs;
    const mx_split s = attrs->axis == MX_NONE_INT ? (mx_split){1, mx_shape_size(n->x), 1}
                                                  : mx_split_at(n->x, mx_axis(attrs->axis, n->x->ndim));
    mx_emit_open(n, "pick", 2);
    mx_emit_split(n, s);
    mx_text_print(mx_emit_body(n), ", %d);\n", attrs->mode == MX_PICK_WRAP);
    return MX_OK;
}

static mx_code write_one_hot(const mx_emit_node *n)
{
    const mx_one_hot_attrs *attrs = n->node->attrs;
    mx_emit_open(n, "one_hot", 1);
    mx_text_print(mx_emit_body(n), "%lld, %lld", (long long)mx_shape_size(n->x), (long long)attrs->depth);
    mx_emit_add(n, attrs->on_value);
    mx_emit_add(n, attrs->off_value);
    return mx_emit_close(n);
}

static mx_code write_argreduce(const mx_emit_node *n)
{
    const mx_argreduce_attrs *attrs = n->node->attrs;
    const mx_split s = attrs->axis == MX_NONE_INT ? (mx_split){1, mx_shape_size(n->x), 1}
                                                  : mx_split_at(n->x, mx_axis(attrs->axis, n->x->ndim));
    mx_emit_open(n, "arg", 1);
    mx_emit_split(n, s);
    mx_text_print(mx_emit_body(n), ", %d);\n", strcmp(n->node->op->name, "argmin") ? 1 : -1);
    return MX_OK;
}

/* ---- order ------------------------------------------------------------------------------------------------------ */

/* what: 0 values, 1 places, 2 ones where they stand */
static mx_code write_rank(const mx_emit_node *n, int64_t axis, int64_t k, bool up, int what, int output)
{
    const mx_split s =
        axis == MX_NONE_INT ? (mx_split){1, mx_shape_size(n->x), 1} : mx_split_at(n->x, mx_axis(axis, n->x->ndim));
    char from[48], to[48];
    if (n->emit->place[n->emit->root[n->out + output]].kind == MX_SPOT_NONE)
        return MX_OK;
    mx_emit_use(n->emit, "rank");
    mx_text_print(mx_emit_body(n), "    rank(%s, %s, ", mx_emit_at(n->emit, n->in[0], from),
                  mx_emit_at(n->emit, n->out + output, to));
    mx_emit_split(n, s);
    mx_text_print(mx_emit_body(n), ", %lld, %d, %d);\n", (long long)(k < 1 || k > s.size ? s.size : k), up, what);
    return MX_OK;
}

static mx_code write_sort(const mx_emit_node *n)
{
    const mx_sort_attrs *attrs = n->node->attrs;
    return write_rank(n, attrs->axis, 0, attrs->is_ascend, 0, 0);
}

static mx_code write_argsort(const mx_emit_node *n)
{
    const mx_argsort_attrs *attrs = n->node->attrs;
    return write_rank(n, attrs->axis, 0, attrs->is_ascend, 1, 0);
}

static mx_code write_topk(const mx_emit_node *n)
{
    const mx_topk_attrs *attrs = n->node->attrs;
    static const int first[] = {0, 1, 2, 0};
    mx_code code = write_rank(n, attrs->axis, attrs->k, attrs->is_ascend, first[attrs->ret_typ], 0);
    if (code || attrs->ret_typ != MX_TOPK_BOTH)
        return code;
    return write_rank(n, attrs->axis, attrs->k, attrs->is_ascend, 1, 1);
}

/* ---- sequences: (steps, batch, rest), or (batch, steps, rest) with axis=1 --------------------------------------- */

typedef struct sequences {
    int64_t steps, batch, rest, step, next; /* elements from one step, one sequence to the next */
} sequences;

static sequences sequences_of(const mx_emit_node *n, int64_t axis)
{
    sequences s = {n->x->dim[axis], n->x->dim[1 - axis], 1, 0, 0};
    for (int i = 2; i < n->x->ndim; i++)
        s.rest *= n->x->dim[i];
    s.step = axis ? s.rest : s.batch * s.rest, s.next = axis ? s.steps * s.rest : s.rest;
    return s;
}

/* "kernel(x, y, lengths, steps, batch, rest, step, next" */
static void open_sequences(const mx_emit_node *n, const char *kernel, bool lengths, int64_t axis)
{
    const sequences s = sequences_of(n, axis);
    char at[48];
    mx_emit_open(n, kernel, 1);
    mx_text_print(mx_emit_body(n), "%s, %lld, %lld, %lld, %lld, %lld", lengths ? mx_emit_or_null(n, 1, at) : "NULL",
                  (long long)s.steps, (long long)s.batch, (long long)s.rest, (long long)s.step, (long long)s.next);
}

static mx_code write_sequence_mask(const mx_emit_node *n)
{
    const mx_sequence_mask_attrs *attrs = n->node->attrs;
    open_sequences(n, "mask_steps", attrs->use_sequence_length, attrs->axis);
    mx_emit_add(n, attrs->value);
    return mx_emit_close(n);
}

static mx_code write_sequence(const mx_emit_node *n)
{
    const mx_sequence_attrs *attrs = n->node->attrs;
    const bool last = !strcmp(n->node->op->name, "SequenceLast");
    open_sequences(n, last ? "last_steps" : "turn_steps", attrs->use_sequence_length, attrs->axis);
    return mx_emit_close(n);
}

const mx_emit_row mx_emit_index_rows[] = {
    {.op = "Embedding", .write = write_embedding},
    {.op = "take", .write = write_take},
    {.op = "pick", .write = write_pick},
    {.op = "one_hot", .write = write_one_hot},
    {.op = "argmax", .write = write_argreduce},
    {.op = "argmin", .write = write_argreduce},
    {.op = "sort", .write = write_sort},
    {.op = "argsort", .write = write_argsort},
    {.op = "topk", .write = write_topk, .all = true},
    {.op = "SequenceMask", .write = write_sequence_mask},
    {.op = "SequenceLast", .write = write_sequence},
    {.op = "SequenceReverse", .write = write_sequence},
    {0},
};
