/* Recurrent cells: counters, steps, activations (see cell.h).  SPDX-License-Identifier: Apache-2.0 */
#include "gluon/rnn/cell.h"

#include <stdio.h>
#include <string.h>

#include "exec/list.h"
#include "gluon/compile/trace.h"
#include "gluon/op.gen.h"
#include "graph/names.h"
#include "graph/node.h"

/* ---- making ------------------------------------------------------------------------------------------------------ */

mx_code mx_cell_attach(mx_block *block, const mx_cell_methods *methods)
{
    if (!block->cell && !(block->cell = mx_alloc_zero(sizeof *block->cell)))
        return mx_error_code();
    *block->cell = (mx_cell){.methods = methods, .counter = -1, .init_counter = -1, .activation = {-1, -1}};
    return MX_OK;
}

void mx_cell_free(mx_cell *cell)
{
    for (int i = 0; cell && i < MX_CELL_MEMORY; i++)
        mx_release(cell->memory[i]);
    mx_free(cell, sizeof *cell);
}

mx_code mx_cell_check(const mx_block *block, const char *who)
{
    if (!mx_is_kind(block, &mx_block_kind, who, "cell"))
        return mx_error_code();
    return block->cell
               ? MX_OK
               : mx_fail(MX_ERR_ARGUMENT, "%s: %s (%s) is not a recurrent cell", who, block->name, block->class_name);
}

mx_code mx_cell_check_free(const mx_block *cell)
{
    if (!cell->cell->modified)
        return MX_OK;
    return mx_fail(MX_ERR_ARGUMENT, "%s (%s) is inside a modifier cell: call the modifier cell instead", cell->name,
                   cell->class_name);
}

mx_block *mx_cell_inside(const mx_block *self) { return mx_dict_get(&self->children, "base_cell"); }

void mx_cell_remember(mx_block *self, int slot, mx_array *x)
{
    mx_array *before = self->cell->memory[slot];
    self->cell->memory[slot] = mx_retain(x);
    mx_release(before);
}

mx_code mx_cell_add(mx_block *stack, mx_block *cell)
{
    if (mx_cell_check(stack, "mx_cell_add") || mx_cell_check(cell, "mx_cell_add"))
        return mx_error_code();
    return mx_block_child(stack, NULL, cell) ? MX_OK : mx_error_code();
}

/* ---- counters ---------------------------------------------------------------------------------------------------- */

mx_code mx_cell_reset_itself(mx_block *self)
{
    mx_cell *cell = self->cell;
    cell->counter = cell->init_counter = -1;
    for (int i = 0; i < MX_CELL_MEMORY; i++)
        mx_cell_remember(self, i, NULL);
    for (int64_t i = 0; i < self->children.length; i++) {
        mx_block *child = self->children.entries[i].pointer;
        if (child->cell && mx_cell_reset(child))
            return mx_error_code();
    }
    return MX_OK;
}

mx_code mx_cell_reset(mx_block *cell)
{
    if (mx_cell_check(cell, "mx_cell_reset"))
        return mx_error_code();
    return cell->cell->over.reset ? cell->cell->over.reset(cell) : mx_cell_reset_itself(cell);
}

void mx_cell_name(const mx_block *self, const mx_array *x, char *buffer, const char *what)
{
    if (!what || (!mx_tracing() && !(x && x != MX_NONE && mx_is_symbolic(x))))
        return;
    snprintf(buffer, 48, "t%lld_%s", (long long)self->cell->counter, what);
    mx_names_next(buffer);
}

/* ---- steps ------------------------------------------------------------------------------------------------------- */

/* x alone: states of zeros are appended. */
static mx_arrays with_states(mx_block *self, mx_array *x)
{
    mx_state_list all = {0};
    const mx_unroll u = {.layout = "NTC"};
    const mx_sequence first = {.steps = {&x, 1}};
    if (!mx_vec_push(&all, x) || mx_cell_begin_like(self, &u, &first, &all))
        return mx_vec_free(&all), mx_list_failed();
    return mx_state_list_give(&all);
}

mx_arrays mx_cell_step_itself(mx_block *self, mx_arrays in)
{
    const mx_cell_methods *methods = self->cell->methods;
    if (!methods->states || in.n == 1 + methods->states)
        return methods->step(self, in);
    mx_fail(MX_ERR_ARGUMENT, "%s (%s): got %lld states, wanted %d", self->name, self->class_name, (long long)in.n - 1,
            methods->states);
    return mx_list_failed();
}

mx_arrays mx_cell_forward(mx_block *self, mx_arrays in)
{
    if (!mx_inferring()) /* inference repeats the same step */
        mx_cell_count(self);
    if (in.n == 1)
        in = with_states(self, in.v[0]);
    return in.n ? mx_cell_step_itself(self, in) : mx_list_failed();
}

mx_arrays mx_cell_call(mx_block *cell, mx_array *x, mx_arrays states)
{
    const mx_arrays all = mx_cell_join(x, states);
    if (!all.n)
        return all;
    return cell->cell->over.call ? cell->cell->over.call(cell, all) : mx_block_call_many(cell, all);
}

mx_arrays mx_cell_join(mx_array *output, mx_arrays states)
{
    mx_array **list = output ? mx_list_new(1 + states.n) : NULL;
    if (!list)
        return mx_list_failed();
    list[0] = output;
    for (int64_t i = 0; i < states.n; i++)
        if (!(list[1 + i] = states.v[i]))
            return mx_list_failed();
    return (mx_arrays){list, 1 + states.n};
}

mx_stepped mx_cell_step(mx_block *cell, mx_array *x, mx_arrays states)
{
    if (mx_cell_check(cell, "mx_cell_step") || !x || mx_list_check(&states, cell->name, "states"))
        return (mx_stepped){0};
    mx_arrays out = mx_cell_call(cell, x, states);
    return out.n ? (mx_stepped){out.v[0], {out.v + 1, out.n - 1}} : (mx_stepped){0};
}

/* ---- activations ------------------------------------------------------------------------------------------------- */

mx_code mx_cell_set_activation(mx_block *self, mx_cell_act which, const char *name)
{
    if (!name)
        return MX_OK;
    return mx_option_choice(self->class_name, which == MX_CELL_ACT ? "activation" : "recurrent_activation", name,
                            "relu|sigmoid|tanh|softrelu|softsign", &self->cell->activation[which]);
}

mx_array *mx_cell_activate(mx_block *self, mx_cell_act which, mx_array *x, const char *name)
{
    if (self->cell->over.activate)
        return x ? self->cell->over.activate(self, which, x, name) : NULL;
    mx_cell_named(self, x, self->cell->activation[which] < 0 ? NULL : name);
    switch (self->cell->activation[which]) {
    case -1: return x;
    case MX_ACTIVATION_RELU: return mx_relu(x);
    case MX_ACTIVATION_SIGMOID: return mx_sigmoid(x);
    case MX_ACTIVATION_TANH: return mx_tanh(x);
    case MX_ACTIVATION_SOFTSIGN: return mx_softsign(x);
    default: return mx_op_activation(x, .act_type = self->cell->activation[which]);
    }
}

mx_array *mx_cell_sigmoid(mx_block *self, mx_array *x, const char *name)
{
    mx_cell_named(self, x, name);
    return mx_op_activation(x, .act_type = MX_ACTIVATION_SIGMOID);
}

/* ---- traces ------------------------------------------------------------------------------------------------------ */

mx_code mx_cells_trace_enter(mx_block *network, mx_cells_before *before)
{
    mx_cell *cell = network->cell;
    if (cell) {
        mx_cell_before kept = {network, cell->counter, cell->init_counter, {NULL}};
        memcpy(kept.memory, cell->memory, sizeof kept.memory);
        if (!mx_vec_push(before, kept))
            return mx_error_code();
        mx_retain(network);
        memset(cell->memory, 0, sizeof cell->memory);
        cell->counter = cell->init_counter = -1;
    }
    for (int64_t i = 0; i < network->children.length; i++)
        if (mx_cells_trace_enter(network->children.entries[i].pointer, before))
            return mx_error_code();
    return MX_OK;
}

void mx_cells_trace_leave(mx_cells_before *before)
{
    for (int64_t i = before->length - 1; i >= 0; i--) { /* a cell may be used twice */
        const mx_cell_before *kept = &before->items[i];
        mx_cell *cell = kept->block->cell;
        cell->counter = kept->counter, cell->init_counter = kept->init_counter;
        for (int k = 0; k < MX_CELL_MEMORY; k++) {
            mx_release(cell->memory[k]);
            cell->memory[k] = kept->memory[k];
        }
        mx_release(kept->block);
    }
    mx_vec_free(before);
}
