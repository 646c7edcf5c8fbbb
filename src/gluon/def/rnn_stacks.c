/* Cells composed of cells: SequentialRNNCell and HybridSequentialRNNCell, which are stacks; BidirectionalCell, two cells
 * that read the sequence forwards and backwards.
 *
 *     mx_block *stack = mx_sequential_rnn_cell();
 *     mx_name_scope(stack) {
 *         mx_cell_add(stack, mx_lstm_cell(650));
 *         mx_cell_add(stack, mx_dropout_cell(0.5));
 *         mx_cell_add(stack, mx_lstm_cell(650));
 *     }
 *
 * Their states are those of their cells, concatenated.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>

#include "exec/list.h"
#include "gluon/op.gen.h"
#include "gluon/rnn/cell.h"
#include "graph/names.h"
#include "graph/node.h"

static int64_t cells_of(const mx_block *self) { return self->children.length; }
static mx_block *cell_at(const mx_block *self, int64_t i) { return self->children.entries[i].pointer; }

static mx_code all_infos(mx_block *self, int64_t batch_size, mx_state_infos *infos)
{
    for (int64_t i = 0; i < cells_of(self); i++)
        if (mx_cell_infos(cell_at(self, i), batch_size, infos))
            return mx_error_code();
    return MX_OK;
}

static mx_code all_begin(mx_block *self, const mx_begin *how, mx_state_list *states)
{
    for (int64_t i = 0; i < cells_of(self); i++)
        if (mx_cell_begin(cell_at(self, i), how, states))
            return mx_error_code();
    return MX_OK;
}

/* The next cell's part of a list of states; n -1 with an error. */
static mx_arrays take_states(mx_block *self, mx_block *cell, mx_arrays states, int64_t *at)
{
    const int64_t n = mx_cell_state_count(cell), from = *at;
    if (n >= 0 && from + n > states.n) {
        mx_fail(MX_ERR_ARGUMENT, "%s (%s): got %lld states, wanted at least %lld", self->name, self->class_name,
                (long long)states.n, (long long)(from + n));
        return (mx_arrays){NULL, -1};
    }
    *at += n;
    return (mx_arrays){states.v + from, n};
}

static mx_code append(mx_state_list *all, mx_arrays states)
{
    for (int64_t i = 0; i < states.n; i++)
        if (!mx_vec_push(all, states.v[i]))
            return mx_error_code();
    return MX_OK;
}

/* ---- stacks ------------------------------------------------------------------------------------------------------ */

/* in: x, states; list[0] is reserved for the output. */
static mx_code step_cells(mx_block *self, mx_arrays in, mx_state_list *list)
{
    const mx_arrays states = {in.v + 1, in.n - 1};
    mx_array *x = in.v[0];
    int64_t at = 0;
    if (!mx_vec_push(list, x))
        return mx_error_code();
    for (int64_t i = 0; i < cells_of(self); i++) {
        mx_block *cell = cell_at(self, i);
        if (mx_cell_only_unrolled(cell))
            return mx_fail(MX_ERR_ARGUMENT, "%s: a BidirectionalCell cannot be stepped; use unroll", self->name);
        const mx_arrays given = take_states(self, cell, states, &at);
        const mx_arrays out = given.n < 0 ? mx_list_failed() : mx_cell_call(cell, x, given);
        if (!out.n || append(list, (mx_arrays){out.v + 1, out.n - 1}))
            return mx_error_code();
        x = out.v[0];
    }
    list->items[0] = x;
    return MX_OK;
}

static mx_arrays step(mx_block *self, mx_arrays in)
{
    mx_state_list list = {0};
    if (step_cells(self, in, &list))
        return mx_vec_free(&list), mx_list_failed();
    return mx_state_list_give(&list);
}

static mx_code unroll_cells(mx_block *self, const mx_unroll *u, mx_arrays begin, mx_unrolled *out,
                            mx_state_list *states)
{
    mx_unroll part = *u;
    int64_t at = 0;
    part.begun = true, part.merge = MX_AT_HAND;
    for (int64_t i = 0; i < cells_of(self); i++) {
        part.begin = take_states(self, cell_at(self, i), begin, &at);
        if (i + 1 == cells_of(self))
            part.merge = u->merge;
        if (part.begin.n < 0 || mx_cell_run_unroll(cell_at(self, i), &part, out) || append(states, out->states))
            return mx_error_code();
        part.inputs = (mx_sequence){out->output, out->steps};
    }
    out->output = part.inputs.one, out->steps = part.inputs.steps;
    return MX_OK;
}

static mx_code unroll(mx_block *self, const mx_unroll *u, mx_unrolled *out)
{
    mx_sequence_layout axes;
    mx_unroll whole = *u;
    mx_state_list begin = {0}, states = {0};
    if (mx_cell_reset(self) || mx_sequence_layout_from(u->layout, &axes) ||
        mx_sequence_form(&whole.inputs, u->length, &axes, MX_AT_HAND))
        return mx_error_code();
    if (mx_cell_begin_like(self, u, &whole.inputs, &begin))
        return mx_vec_free(&begin), mx_error_code();
    if (unroll_cells(self, &whole, mx_state_list_give(&begin), out, &states))
        return mx_vec_free(&states), mx_error_code();
    out->states = mx_state_list_give(&states);
    return MX_OK;
}

static void print_stack(mx_block *self, mx_text *text)
{
    mx_text_print(text, "%s(\n", self->class_name);
    for (int64_t i = 0; i < cells_of(self); i++)
        mx_text_print(text, "(%s): %s\n", self->children.entries[i].key, mx_block_text(cell_at(self, i)));
    mx_text_add(text, ")");
}

/* ---- both directions --------------------------------------------------------------------------------------------- */

#define BIDIRECTIONAL_OPTIONS(X) \
    X(PTR, l_cell, REQUIRED, "mx_block", "cell that reads forwards") \
    X(PTR, r_cell, REQUIRED, "mx_block", "cell that reads backwards") \
    X(STR, output_prefix, "bi_", "", "prefix of the names of concatenated outputs")
MX_ATTRS(bidirectional_cell, BIDIRECTIONAL_OPTIONS)

static mx_code no_prefix(const void *options, mx_text *prefix) { return (void)options, mx_text_add(prefix, ""), MX_OK; }

static mx_code build_both(mx_block *self)
{
    const mx_bidirectional_cell_attrs *o = mx_options(self);
    if (mx_cell_check(o->l_cell, "BidirectionalCell") || mx_cell_check(o->r_cell, "BidirectionalCell"))
        return mx_error_code();
    return mx_block_child(self, "l_cell", o->l_cell) && mx_block_child(self, "r_cell", o->r_cell) ? MX_OK
                                                                                                  : mx_error_code();
}

static mx_arrays no_step(mx_block *self, mx_arrays in)
{
    (void)in;
    mx_fail(MX_ERR_UNSUPPORTED, "%s cannot be stepped; use unroll", self->class_name);
    return mx_list_failed();
}

static mx_array *join(const mx_block *self, mx_array *left, mx_array *right, int axis, int64_t step)
{
    const mx_bidirectional_cell_attrs *o = mx_options(self);
    char name[128];
    if (left && mx_is_symbolic(left)) {
        if (step < 0)
            snprintf(name, sizeof name, "%sout", o->output_prefix ? o->output_prefix : "");
        else
            snprintf(name, sizeof name, "%st%lld", o->output_prefix ? o->output_prefix : "", (long long)step);
        mx_names_next(name);
    }
    mx_array *both = mx_concat(MX_ARRAYS(left, right), .num_args = 2, .dim = axis);
    if (left && mx_is_symbolic(left))
        mx_names_next(NULL);
    return both;
}

static mx_code join_outputs(const mx_block *self, const mx_sequence *l, const mx_sequence *r, mx_unrolled *out)
{
    if (l->one)
        return (out->output = join(self, l->one, r->one, 2, -1)) ? MX_OK : mx_error_code();
    const int64_t n = l->steps.n < r->steps.n ? l->steps.n : r->steps.n;
    mx_array **list = mx_list_new(n);
    for (int64_t i = 0; list && i < n; i++)
        if (!(list[i] = join(self, l->steps.v[i], r->steps.v[i], 1, i)))
            return mx_error_code();
    out->steps = (mx_arrays){list, n};
    return list ? MX_OK : mx_error_code();
}

/* Graphs of the classic interface mask the concatenated outputs again; these values are zeros already. */
static mx_code mask_again(const mx_unroll *u, const mx_sequence_layout *axes, mx_unrolled *out)
{
    mx_sequence all = {out->output, out->steps};
    if (!u->valid_length || !mx_sequence_symbolic(&all))
        return MX_OK;
    const mx_code code = mx_sequence_zero_past(&all, u->inputs.steps.n, u->valid_length, axes, all.one != NULL);
    out->output = all.one, out->steps = all.steps;
    return code;
}

/* u: inputs are steps, begin has the states of both. */
static mx_code unroll_both(mx_block *self, const mx_unroll *u, const mx_sequence_layout *axes, mx_unrolled *out)
{
    mx_block *left = cell_at(self, 0), *right = cell_at(self, 1);
    mx_unroll l = *u, r = *u;
    mx_unrolled l_out, r_out;
    mx_state_list states = {0};
    int64_t at = 0;
    r.inputs.steps = mx_sequence_backwards(u->inputs.steps, u->valid_length);
    l.begin = take_states(self, left, u->begin, &at);
    if (!r.inputs.steps.n || l.begin.n < 0 || mx_cell_run_unroll(left, &l, &l_out))
        return mx_error_code();
    r.begin = (mx_arrays){u->begin.v + at, u->begin.n - at};
    r.merge = MX_STEPS;
    if (mx_cell_run_unroll(right, &r, &r_out))
        return mx_error_code();
    mx_sequence l_seq = {l_out.output, l_out.steps},
                r_seq = {.steps = mx_sequence_backwards(r_out.steps, u->valid_length)};
    const mx_merge merge = u->merge == MX_AT_HAND ? l_seq.one ? MX_MERGED : MX_STEPS : u->merge;
    if (!r_seq.steps.n || mx_sequence_form(&l_seq, -1, axes, merge) || mx_sequence_form(&r_seq, -1, axes, merge) ||
        join_outputs(self, &l_seq, &r_seq, out) || mask_again(u, axes, out))
        return mx_error_code();
    if (append(&states, l_out.states) || append(&states, r_out.states))
        return mx_vec_free(&states), mx_error_code();
    out->states = mx_state_list_give(&states);
    return MX_OK;
}

static mx_code unroll_bidirectional(mx_block *self, const mx_unroll *u, mx_unrolled *out)
{
    mx_sequence_layout axes;
    mx_unroll both = *u;
    mx_state_list begin = {0};
    if (mx_cell_reset(self) || mx_sequence_layout_from(u->layout, &axes) ||
        mx_sequence_form(&both.inputs, u->length, &axes, MX_STEPS))
        return mx_error_code();
    if (mx_cell_begin_like(self, u, &both.inputs, &begin))
        return mx_vec_free(&begin), mx_error_code();
    both.begun = true, both.begin = mx_state_list_give(&begin);
    return unroll_both(self, &both, &axes, out);
}

static void print_both(mx_block *self, mx_text *text)
{
    mx_text_print(text, "%s(forward=%s, backward=%s)", self->class_name, mx_block_text(cell_at(self, 0)),
                  mx_block_text(cell_at(self, 1)));
}

/* ---- the classes ------------------------------------------------------------------------------------------------- */

#define MOST 1000 /* inputs of a step: x and all states */
static const mx_cell_methods stack_steps = {.step = step, .state_info = all_infos, .begin_state = all_begin,
                                            .unroll = unroll, .stack = true},
                             both_steps = {.step = no_step, .state_info = all_infos, .begin_state = all_begin,
                                           .unroll = unroll_bidirectional, .only_unrolled = true};
#define METHODS(steps) .forward_many = mx_cell_forward, .cell = &steps, .min_inputs = 1, .max_inputs = MOST
static const mx_layer sequential = {METHODS(stack_steps), .print = print_stack, .plain = true},
                      hybrid_sequential = {METHODS(stack_steps), .print = print_stack},
                      bidirectional = {METHODS(both_steps), .print = print_both, .build = build_both,
                                       .prefix = no_prefix};

mx_class mx_classes_rnn_stacks[] = {
    {.kind = MX_LAYER, .name = "SequentialRNNCell", .doc = "a stack of cells", .methods = &sequential, .group = "cells",
     .c_name = "sequential_rnn_cell"},
    {.kind = MX_LAYER, .name = "HybridSequentialRNNCell", .doc = "a stack of hybrid cells", .methods = &hybrid_sequential,
     .group = "cells", .c_name = "hybrid_sequential_rnn_cell"},
    {.kind = MX_LAYER, .name = "BidirectionalCell", .doc = "two cells that read the sequence forwards and backwards; can only be unrolled",
     .schema = &bidirectional_cell_schema, .positional = 2, .methods = &bidirectional, .group = "cells", .c_name = "bidirectional_cell"},
    {0},
};
