/* Cells that modify another one: ZoneoutCell, ResidualCell, and ModifierCell, the base class for users.
 *
 *     mx_block *cell = mx_zoneout_cell(mx_lstm_cell(650), .zoneout_outputs = 0.1);
 *
 * What they share is in gluon/rnn/modifier.c.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "exec/list.h"
#include "gluon/op.gen.h"
#include "gluon/rnn/cell.h"
#include "graph/names.h"

#define BASE(X) X(PTR, base_cell, REQUIRED, "mx_block", "the cell inside")
MX_ATTRS(residual_cell, BASE)
#define ZONEOUT_OPTIONS(X) \
    BASE(X) \
    X(FLOAT, zoneout_outputs, "0", "0..1", "probability that an element of the output keeps its last value in training") \
    X(FLOAT, zoneout_states, "0", "0..1", "the same for states")
MX_ATTRS(zoneout_cell, ZONEOUT_OPTIONS)

static void print(mx_block *self, mx_text *text)
{
    mx_text_print(text, "%s(%s)", self->class_name, mx_block_text(mx_cell_inside(self)));
}

/* ---- ModifierCell, the base class for users ---------------------------------------------------------------------- */

static mx_code plain_prefix(const void *options, mx_text *text)
{
    return mx_modifier_prefix(options, "modifiercell", text);
}

static mx_arrays no_step(mx_block *self, mx_arrays in)
{
    (void)in;
    mx_fail(MX_ERR_UNSUPPORTED, "%s (%s) does not override hybrid_forward", self->name, self->class_name);
    return mx_list_failed();
}

/* ---- ResidualCell ------------------------------------------------------------------------------------------------ */

static mx_code residual_prefix(const void *options, mx_text *text)
{
    return mx_modifier_prefix(options, "residualcell", text);
}

static mx_arrays step_residual(mx_block *self, mx_arrays in)
{
    const mx_arrays out = mx_cell_call(mx_cell_inside(self), in.v[0], (mx_arrays){in.v + 1, in.n - 1});
    if (!out.n)
        return mx_list_failed();
    mx_cell_named(self, out.v[0], "fwd");
    return mx_cell_join(mx_elemwise_add(out.v[0], in.v[0]), (mx_arrays){out.v + 1, out.n - 1});
}

static mx_array *add(mx_array *output, mx_array *x)
{
    mx_names_next_hint("elemwise_add");
    mx_array *sum = mx_elemwise_add(output, x);
    mx_names_next_hint(NULL);
    return sum;
}

static mx_code add_inputs(const mx_sequence *inputs, mx_unrolled *out)
{
    if (inputs->one)
        return (out->output = add(out->output, inputs->one)) ? MX_OK : mx_error_code();
    mx_array **list = mx_list_new(inputs->steps.n);
    for (int64_t i = 0; list && i < inputs->steps.n && i < out->steps.n; i++)
        if (!(list[i] = add(out->steps.v[i], inputs->steps.v[i])))
            return mx_error_code();
    out->steps.v = list;
    return list ? MX_OK : mx_error_code();
}

static mx_code unroll_residual(mx_block *self, const mx_unroll *u, mx_unrolled *out)
{
    mx_sequence_layout axes;
    mx_sequence inputs = u->inputs;
    if (mx_cell_reset(self) || mx_modifier_unroll(self, u, out) || mx_sequence_layout_from(u->layout, &axes))
        return mx_error_code();
    const bool merged = out->output != NULL;
    if (mx_sequence_form(&inputs, u->length, &axes, merged ? MX_MERGED : MX_STEPS))
        return mx_error_code();
    const int64_t length = u->length >= 0 ? u->length : mx_sequence_length(&inputs, u->layout);
    if (u->valid_length && mx_sequence_zero_past(&inputs, length, u->valid_length, &axes, merged))
        return mx_error_code();
    return add_inputs(&inputs, out);
}

/* ---- ZoneoutCell ------------------------------------------------------------------------------------------------- */

static mx_code zoneout_prefix(const void *options, mx_text *text)
{
    return mx_modifier_prefix(options, "zoneout", text);
}

static mx_code build_zoneout(mx_block *self)
{
    const mx_block *base = mx_modifier_base(mx_options(self));
    if (base && !mx_is_kind(base, &mx_block_kind, "ZoneoutCell", "base_cell"))
        return mx_error_code();
    bool backwards = base && base->cell && mx_cell_only_unrolled(base);
    for (int64_t i = 0; base && base->cell && mx_cell_is_stack(base) && i < base->children.length; i++)
        backwards |= mx_cell_only_unrolled(base->children.entries[i].pointer);
    if (backwards)
        return mx_fail(MX_ERR_ARGUMENT,
                       "ZoneoutCell: a BidirectionalCell, alone or in a stack, cannot be stepped; put ZoneoutCells "
                       "inside it");
    return mx_modifier_build(self);
}

/* Dropout draws which elements are new: all of them outside training. */
static mx_array *mix(double p, mx_array *new, mx_array *old)
{
    return mx_where(mx_op_dropout(mx_ones_like(new), .p = p), new, old);
}

static mx_arrays step_zoneout(mx_block *self, mx_arrays in)
{
    const mx_zoneout_cell_attrs *o = mx_options(self);
    const mx_arrays out = mx_cell_call(mx_cell_inside(self), in.v[0], (mx_arrays){in.v + 1, in.n - 1});
    if (!out.n)
        return mx_list_failed();
    mx_array *output = out.v[0];
    if (o->zoneout_outputs != 0) {
        mx_array *before = self->cell->memory[0] ? self->cell->memory[0] : mx_zeros_like(output);
        output = mix(o->zoneout_outputs, output, before);
    }
    mx_arrays all = mx_cell_join(output, (mx_arrays){out.v + 1, out.n - 1});
    mx_array **list = o->zoneout_states != 0 && all.n ? mx_list_new(all.n) : NULL;
    for (int64_t i = 1; list && i < all.n && i < in.n; i++)
        if (!(list[i] = mix(o->zoneout_states, all.v[i], in.v[i])))
            return mx_list_failed();
    if (list)
        list[0] = output, all.v = list;
    if (!mx_inferring())
        mx_cell_remember(self, 0, output);
    return all;
}

static void print_zoneout(mx_block *self, mx_text *text)
{
    const mx_zoneout_cell_attrs *o = mx_options(self);
    mx_text_print(text, "%s(p_out=", self->class_name);
    mx_text_add_number(text, o->zoneout_outputs);
    mx_text_add(text, ", p_state=");
    mx_text_add_number(text, o->zoneout_states);
    mx_text_print(text, ", %s)", mx_block_text(mx_cell_inside(self)));
}

/* ---- the classes ------------------------------------------------------------------------------------------------- */

static const mx_cell_methods plain_steps = {.step = no_step, .state_info = mx_modifier_infos,
                                            .begin_state = mx_modifier_begin},
                             zoneout_steps = {.step = step_zoneout, .state_info = mx_modifier_infos,
                                              .begin_state = mx_modifier_begin},
                             residual_steps = {.step = step_residual, .state_info = mx_modifier_infos,
                                               .begin_state = mx_modifier_begin, .unroll = unroll_residual};
#define MOST 1000 /* inputs of a step: x and all states */
#define METHODS(steps) .forward_many = mx_cell_forward, .cell = &steps, .min_inputs = 1, .max_inputs = MOST
static const mx_layer modifier = {METHODS(plain_steps), .build = mx_modifier_build, .print = print,
                                  .prefix = plain_prefix},
                      zoneout = {METHODS(zoneout_steps), .build = build_zoneout, .print = print_zoneout,
                                 .prefix = zoneout_prefix},
                      residual = {METHODS(residual_steps), .build = mx_modifier_build, .print = print,
                                  .prefix = residual_prefix};

mx_class mx_classes_rnn_modifiers[] = {
    {.kind = MX_LAYER, .name = "ModifierCell", .doc = "the base of cells that modify another one; subclasses define the step",
     .schema = &residual_cell_schema, .positional = 1, .methods = &modifier, .group = "cells", .c_name = "modifier_cell"},
    {.kind = MX_LAYER, .name = "ZoneoutCell", .doc = "in training outputs and states keep their last value with these probabilities",
     .schema = &zoneout_cell_schema, .positional = 1, .methods = &zoneout, .group = "cells", .c_name = "zoneout_cell"},
    {.kind = MX_LAYER, .name = "ResidualCell", .doc = "adds the input to the output", .schema = &residual_cell_schema, .positional = 1,
     .methods = &residual, .group = "cells", .c_name = "residual_cell"},
    {0},
};
