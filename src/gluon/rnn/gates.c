/* Gates of recurrent cells (see gates.h).  Nodes are created in the order of the classic interface, because their
 * numbered names depend on it.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "gluon/rnn/gates.h"

#include "exec/list.h"
#include "gluon/op.gen.h"

/* Sets the name of the next sum or product, if it has one. */
#define NAMED(x, what) mx_cell_named(self, x, g->named ? what : NULL)

static mx_array *add(mx_block *self, const mx_gates *g, mx_array *a, mx_array *b, const char *name)
{
    NAMED(a, name);
    return mx_elemwise_add(a, b);
}
static mx_array *multiply(mx_block *self, const mx_gates *g, mx_array *a, mx_array *b, const char *name)
{
    NAMED(a, name);
    return mx_elemwise_mul(a, b);
}

static mx_arrays split(mx_block *self, const mx_gates *g, mx_array *x, int n, const char *name)
{
    mx_cell_named(self, x, name);
    return mx_split(x, .num_outputs = n, .axis = g->axis);
}

mx_array *mx_gates_rnn(mx_block *self, const mx_gates *g, mx_array *i2h, mx_array *h2h)
{
    return mx_cell_activate(self, MX_CELL_ACT, add(self, g, i2h, h2h, "plus0"), "out");
}

/* ---- LSTM -------------------------------------------------------------------------------------------------------- */

static mx_array *gate(mx_block *self, const mx_gates *g, mx_array *x, const char *name)
{
    return g->chosen ? mx_cell_activate(self, MX_CELL_RECURRENT_ACT, x, name) : mx_cell_sigmoid(self, x, name);
}

static mx_array *candidate(mx_block *self, const mx_gates *g, mx_array *x)
{
    if (!g->fixed)
        return mx_cell_activate(self, MX_CELL_ACT, x, "c");
    mx_cell_named(self, x, "c");
    return mx_op_activation(x, .act_type = MX_ACTIVATION_TANH);
}

/* act(c'): an Activation node if the activation has one. */
static mx_array *activate_cell(mx_block *self, const mx_gates *g, mx_array *c)
{
    const int kind = g->fixed ? MX_ACTIVATION_TANH : self->cell->activation[MX_CELL_ACT];
    if (!g->named && !g->fixed)
        return mx_cell_activate(self, MX_CELL_ACT, c, NULL);
    if (kind < 0)
        return mx_cell_activate(self, MX_CELL_ACT, c, "activation0");
    NAMED(c, "activation0");
    return mx_op_activation(c, .act_type = kind);
}

mx_array *mx_gates_lstm(mx_block *self, const mx_gates *g, mx_array *i2h, mx_array *h2h, mx_array **c)
{
    mx_array *before = *c;
    *c = NULL;
    const mx_arrays parts = split(self, g, add(self, g, i2h, h2h, "plus0"), 4, "slice");
    if (parts.n != 4)
        return NULL;
    mx_array *i = gate(self, g, parts.v[0], "i"), *f = gate(self, g, parts.v[1], "f");
    mx_array *new = candidate(self, g, parts.v[2]), *o = gate(self, g, parts.v[3], "o");
    mx_array *kept = multiply(self, g, f, before, "mul0"), *added = multiply(self, g, i, new, "mul1");
    mx_cell_named(self, kept, "state");
    *c = mx_elemwise_add(kept, added);
    mx_array *active = activate_cell(self, g, *c);
    mx_cell_named(self, o, g->out ? g->out : "out");
    return mx_elemwise_mul(o, active);
}

/* ---- GRU --------------------------------------------------------------------------------------------------------- */

/* 1 - z */
static mx_array *complement(mx_block *self, const mx_gates *g, mx_array *z)
{
    if (!g->named)
        return mx_rminus_scalar(z, .scalar = 1);
    mx_cell_named(self, z, "ones_like0");
    mx_array *ones = mx_ones_like(z);
    mx_cell_named(self, z, "minus0");
    return mx_elemwise_sub(ones, z);
}

static mx_array *new_state(mx_block *self, const mx_gates *g, mx_array *i2h, mx_array *r, mx_array *h2h)
{
    mx_array *n = add(self, g, i2h, multiply(self, g, r, h2h, "mul0"), "plus2");
    if (!g->fixed)
        return mx_cell_activate(self, MX_CELL_ACT, n, "h_act");
    mx_cell_named(self, n, "h_act");
    return mx_op_activation(n, .act_type = MX_ACTIVATION_TANH);
}

mx_array *mx_gates_gru(mx_block *self, const mx_gates *g, mx_array *i2h, mx_array *h2h, mx_array *h)
{
    const mx_arrays x = split(self, g, i2h, 3, "i2h_slice"), s = split(self, g, h2h, 3, "h2h_slice");
    if (x.n != 3 || s.n != 3)
        return NULL;
    mx_array *r = mx_cell_sigmoid(self, add(self, g, x.v[0], s.v[0], "plus0"), "r_act");
    mx_array *z = mx_cell_sigmoid(self, add(self, g, x.v[1], s.v[1], "plus1"), "z_act");
    mx_array *n = new_state(self, g, x.v[2], r, s.v[2]);
    mx_array *keep = complement(self, g, z);
    mx_array *fresh = multiply(self, g, keep, n, "mul1"), *kept = multiply(self, g, z, h, "mul20");
    mx_cell_named(self, fresh, "out");
    return mx_elemwise_add(fresh, kept);
}

mx_arrays mx_gates_results(mx_array *output, mx_array *cell, bool has_cell)
{
    mx_array **list = output && (cell || !has_cell) ? mx_list_new(has_cell ? 3 : 2) : NULL;
    if (!list)
        return mx_list_failed();
    list[0] = list[1] = output;
    if (has_cell)
        list[2] = cell;
    return (mx_arrays){list, has_cell ? 3 : 2};
}
