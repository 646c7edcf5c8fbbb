/* Dropout between the cells of a stack, DropoutCell, and around a cell, VariationalDropoutCell, which drops the same
 * elements at every step.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "exec/list.h"
#include "gluon/op.gen.h"
#include "gluon/rnn/cell.h"
#include "graph/names.h"

#define VARIATIONAL_OPTIONS(X) \
    X(PTR, base_cell, REQUIRED, "mx_block", "the cell inside") \
    X(FLOAT, drop_inputs, "0", "0..1", "fraction of the input's elements that are dropped in training") \
    X(FLOAT, drop_states, "0", "0..1", "the same for the first state") \
    X(FLOAT, drop_outputs, "0", "0..1", "the same for the output")
MX_ATTRS(variational_dropout_cell, VARIATIONAL_OPTIONS)
#define DROPOUT_OPTIONS(X) \
    X(FLOAT, rate, REQUIRED, "", "fraction of elements that are dropped in training") \
    X(DIMS, axes, "()", "", "axes along which the same elements are dropped")
MX_ATTRS(dropout_cell, DROPOUT_OPTIONS)

/* ---- DropoutCell ------------------------------------------------------------------------------------------------- */

static mx_code no_state(mx_block *self, int64_t batch_size, mx_state_infos *list)
{
    return (void)self, (void)batch_size, (void)list, MX_OK;
}

static mx_arrays step_dropout(mx_block *self, mx_arrays in)
{
    const mx_dropout_cell_attrs *o = mx_options(self);
    mx_array *x = in.v[0];
    if (o->rate > 0) {
        mx_cell_named(self, x, "fwd");
        x = mx_op_dropout(x, .p = o->rate, .axes = o->axes);
        if (!x)
            mx_names_next(NULL);
    }
    return mx_cell_join(x, (mx_arrays){in.v + 1, in.n - 1});
}

/* A sequence that is one array needs a single dropout. */
static mx_code unroll_dropout(mx_block *self, const mx_unroll *u, mx_unrolled *out)
{
    mx_sequence_layout axes;
    mx_unroll part = *u;
    if (mx_cell_reset(self) || mx_sequence_layout_from(u->layout, &axes) ||
        mx_sequence_form(&part.inputs, u->length, &axes, u->merge))
        return mx_error_code();
    part.valid_length = NULL;
    if (!part.inputs.one)
        return mx_cell_unroll_steps(self, &part, out);
    const mx_arrays in = mx_cell_join(part.inputs.one, u->begun ? u->begin : (mx_arrays){0});
    const mx_cell *cell = self->cell;
    const mx_arrays all = !in.n ? in : cell->over.step ? cell->over.step(self, in) : cell->methods->step(self, in);
    if (!all.n)
        return mx_error_code();
    out->output = all.v[0], out->states = (mx_arrays){all.v + 1, all.n - 1};
    return MX_OK;
}

/* DropoutCell(rate=0.3, axes=()) */
static void print_dropout(mx_block *self, mx_text *text)
{
    const mx_dropout_cell_attrs *o = mx_options(self);
    char axes[MX_SHAPE_TEXT];
    mx_text_print(text, "%s(rate=", self->class_name);
    mx_text_add_number(text, o->rate);
    mx_text_print(text, ", axes=%s)", mx_dims_text(&o->axes, axes));
}

/* ---- VariationalDropoutCell -------------------------------------------------------------------------------------- */

static mx_code variational_prefix(const void *options, mx_text *text)
{
    return mx_modifier_prefix(options, "vardrop", text);
}

enum { INPUT_MASK, STATE_MASK, OUTPUT_MASK };

static mx_code build_variational(mx_block *self)
{
    const mx_variational_dropout_cell_attrs *o = mx_options(self);
    const mx_block *base = o->base_cell;
    if (o->drop_states != 0 && base && base->cell && mx_cell_only_unrolled(base))
        return mx_fail(MX_ERR_ARGUMENT, "VariationalDropoutCell: a BidirectionalCell cannot be stepped; apply the "
                                        "dropout of states inside it");
    if (o->drop_states != 0 && base && base->cell && mx_cell_is_stack(base))
        return mx_fail(MX_ERR_ARGUMENT,
                       "VariationalDropoutCell: drop_states is for one cell, not for a stack; apply the "
                       "dropout to each cell");
    return mx_modifier_build(self);
}

/* x with the dropout mask of the first step. */
static mx_array *masked(mx_block *self, int slot, double p, mx_array *x)
{
    if (p == 0 || !x)
        return x;
    mx_array *mask = self->cell->memory[slot];
    if (!mask) {
        mask = mx_op_dropout(mx_ones_like(x), .p = p);
        if (!mx_inferring())
            mx_cell_remember(self, slot, mask);
    }
    return mx_elemwise_mul(x, mask);
}

static mx_arrays step_variational(mx_block *self, mx_arrays in)
{
    const mx_variational_dropout_cell_attrs *o = mx_options(self);
    mx_array *first = in.n > 1 ? masked(self, STATE_MASK, o->drop_states, in.v[1]) : NULL;
    mx_array *x = masked(self, INPUT_MASK, o->drop_inputs, in.v[0]);
    mx_array **states = mx_list_new(in.n);
    for (int64_t i = 1; states && i < in.n; i++)
        states[i - 1] = i == 1 ? first : in.v[i];
    if (!states || !x || (in.n > 1 && !first))
        return mx_list_failed();
    const mx_arrays out = mx_cell_call(mx_cell_inside(self), x, (mx_arrays){states, in.n - 1});
    if (!out.n)
        return mx_list_failed();
    return mx_cell_join(masked(self, OUTPUT_MASK, o->drop_outputs, out.v[0]), (mx_arrays){out.v + 1, out.n - 1});
}

/* If no state is dropped, the cell inside unrolls itself. */
static mx_code unroll_variational(mx_block *self, const mx_unroll *u, mx_unrolled *out)
{
    const mx_variational_dropout_cell_attrs *o = mx_options(self);
    mx_sequence_layout axes;
    mx_unroll merged = *u;
    mx_state_list states = {0};
    if (o->drop_states != 0)
        return mx_cell_unroll_steps(self, u, out);
    if (mx_cell_reset(self) || mx_sequence_layout_from(u->layout, &axes) ||
        mx_sequence_form(&merged.inputs, u->length, &axes, MX_MERGED))
        return mx_error_code();
    if (mx_cell_begin_like(self, u, &merged.inputs, &states))
        return mx_vec_free(&states), mx_error_code();
    merged.begun = true, merged.begin = mx_state_list_give(&states), merged.merge = MX_MERGED;
    const mx_dims time = MX_DIMS(axes.time);
    if (o->drop_inputs != 0)
        merged.inputs.one = mx_op_dropout(merged.inputs.one, .p = o->drop_inputs, .axes = time);
    if (!merged.inputs.one || mx_modifier_unroll(self, &merged, out))
        return mx_error_code();
    mx_sequence all = {out->output, out->steps};
    if (o->drop_outputs != 0 && !(all.one = mx_op_dropout(all.one, .p = o->drop_outputs, .axes = time)))
        return mx_error_code();
    const bool merge = u->merge != MX_STEPS;
    if (mx_sequence_form(&all, u->length, &axes, merge ? MX_MERGED : MX_STEPS))
        return mx_error_code();
    const int64_t length = u->length >= 0 ? u->length : mx_sequence_length(&all, u->layout);
    if (u->valid_length && mx_sequence_zero_past(&all, length, u->valid_length, &axes, merge))
        return mx_error_code();
    out->output = all.one, out->steps = all.steps;
    return MX_OK;
}

static void print_variational(mx_block *self, mx_text *text)
{
    const mx_variational_dropout_cell_attrs *o = mx_options(self);
    mx_text_print(text, "%s(p_out = ", self->class_name);
    mx_text_add_number(text, o->drop_outputs);
    mx_text_add(text, ", p_state = ");
    mx_text_add_number(text, o->drop_states);
    mx_text_add(text, ")");
}

/* ---- the classes ------------------------------------------------------------------------------------------------- */

static const mx_cell_methods dropout_steps = {.step = step_dropout, .state_info = no_state, .unroll = unroll_dropout},
                             variational_steps = {.step = step_variational, .state_info = mx_modifier_infos,
                                                  .begin_state = mx_modifier_begin, .unroll = unroll_variational};
#define MOST 1000 /* inputs of a step: x and all states */
#define METHODS(steps) .forward_many = mx_cell_forward, .cell = &steps, .min_inputs = 1, .max_inputs = MOST
static const mx_layer dropout = {METHODS(dropout_steps), .print = print_dropout},
                      variational = {METHODS(variational_steps), .build = build_variational,
                                     .print = print_variational, .prefix = variational_prefix};

mx_class mx_classes_rnn_dropouts[] = {
    {.kind = MX_LAYER, .name = "DropoutCell", .doc = "drops elements of the input in training; has no state", .schema = &dropout_cell_schema,
     .positional = 1, .methods = &dropout, .group = "cells", .c_name = "dropout_cell", .hint = "dropout"},
    {.kind = MX_LAYER, .name = "VariationalDropoutCell",
     .doc = "drops the same elements of inputs, of the first state and of outputs at every step of a sequence",
     .schema = &variational_dropout_cell_schema, .positional = 1, .methods = &variational, .group = "cells",
     .c_name = "variational_dropout_cell"},
    {0},
};
