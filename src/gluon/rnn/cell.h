/* Internals of recurrent cells.
 *
 *     block --cell--> mx_cell: counters, what is remembered between steps
 *                       | methods    of the class entry; NULL members: what most cells do
 *                       | over       of a front end's subclass; NULL members: not overridden
 *
 * All uses of a cell go through the functions below, which try `over`, then `methods`: a subclass's own state_info,
 * begin_state, unroll, reset, call and activation run wherever the cell is used.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef MX_GLUON_RNN_CELL_H
#define MX_GLUON_RNN_CELL_H

#include "base/vec.h"
#include "gluon/block/core.h"
#include "gluon/cell.h"
#include "gluon/rnn/sequence.h"

typedef MX_VEC(mx_state_info) mx_state_infos;
typedef MX_VEC(mx_array *) mx_state_list; /* arrays belong to the scope */

/* How initial states are created: make() is called once for each. */
typedef struct mx_begin {
    int64_t batch_size;
    mx_array *(*make)(const struct mx_begin *how, const mx_state_info *info, const char *name);
    mx_context context; /* of zeros */
    mx_dtype dtype;
    bool symbolic; /* zeros as nodes */
    bool modified; /* for the cell inside a modifier cell */
    void *user;    /* of make */
} mx_begin;

typedef struct mx_unroll {
    int64_t length; /* -1: not given */
    mx_sequence inputs;
    bool begun; /* `begin` was given */
    mx_arrays begin;
    const char *layout;
    mx_merge merge;
    mx_array *valid_length; /* NULL: none */
} mx_unroll;

/* Which activation of a cell. */
typedef enum mx_cell_act { MX_CELL_ACT, MX_CELL_RECURRENT_ACT, MX_CELL_ACTS } mx_cell_act;

typedef struct mx_cell_methods {
    mx_arrays (*step)(mx_block *self, mx_arrays in); /* x, states -> output, states */
    mx_code (*state_info)(mx_block *self, int64_t batch_size, mx_state_infos *infos);
    mx_code (*begin_state)(mx_block *self, const mx_begin *how, mx_state_list *states); /* NULL: one per state_info */
    mx_code (*unroll)(mx_block *self, const mx_unroll *u, mx_unrolled *out);            /* NULL: step by step */
    mx_code (*reset)(mx_block *self);                                                   /* NULL: nothing of its own */
    int states;         /* how many a step expects; 0: it checks itself */
    bool stack;         /* a stack of cells */
    bool only_unrolled; /* it cannot be stepped */
    /* Only overridden: */
    mx_arrays (*call)(mx_block *self, mx_arrays in);                                         /* a step from outside */
    mx_array *(*activate)(mx_block *self, mx_cell_act which, mx_array *x, const char *name); /* name NULL: automatic */
} mx_cell_methods;

#define MX_CELL_MEMORY 3
typedef struct mx_cell {
    const mx_cell_methods *methods; /* NULL: a front end's own cell */
    mx_cell_methods over;
    int64_t counter;                  /* number of the step, from 0; -1: none yet */
    int64_t init_counter;             /* number of the last state that begin_state made; -1: none */
    bool modified;                    /* it is inside a modifier cell, which must be used instead */
    int activation[MX_CELL_ACTS];     /* MX_ACTIVATION_...; -1: none */
    mx_array *memory[MX_CELL_MEMORY]; /* between steps: the last output, masks; retained; NULL: none */
} mx_cell;

mx_code mx_cell_attach(mx_block *block, const mx_cell_methods *methods); /* makes a block a cell */
void mx_cell_free(mx_cell *cell);                                        /* NULL is ignored */
/* The forward_many of all cells: counts the step and runs it.  Without states it begins with zeros. */
mx_arrays mx_cell_forward(mx_block *self, mx_arrays in);
mx_arrays mx_cell_step_itself(mx_block *self, mx_arrays in);   /* without counting it */
mx_code mx_cell_check(const mx_block *block, const char *who); /* an error if it is not a cell */

/* ---- for cell classes ----------------------------------------------------------------------------------------- */
/* The next node created from x is named t<step>_<what>; NULL: it is numbered.  `buffer` must live until then. */
void mx_cell_name(const mx_block *self, const mx_array *x, char *buffer, const char *what);
#define mx_cell_named(self, x, what) mx_cell_name(self, x, (char[48]){0}, what)
/* Reads "tanh" ...; NULL: no activation. */
mx_code mx_cell_set_activation(mx_block *self, mx_cell_act which, const char *name);
mx_array *mx_cell_activate(mx_block *self, mx_cell_act which, mx_array *x, const char *name); /* name NULL: automatic */
mx_array *mx_cell_sigmoid(mx_block *self, mx_array *x, const char *name); /* as an Activation node */
void mx_cell_remember(mx_block *self, int slot, mx_array *x);             /* NULL: forgets */
mx_block *mx_cell_inside(const mx_block *self);                           /* child base_cell of a modifier */
/* Appends a state of this shape. */
mx_code mx_cell_add_state(mx_state_infos *infos, mx_dims shape, const char *layout);
/* (output, states...); n 0 if one of them is NULL. */
mx_arrays mx_cell_join(mx_array *output, mx_arrays states);
static inline bool mx_cell_only_unrolled(const mx_block *cell)
{
    return cell->cell && cell->cell->methods && cell->cell->methods->only_unrolled;
}
static inline bool mx_cell_is_stack(const mx_block *cell)
{
    return cell->cell && cell->cell->methods && cell->cell->methods->stack;
}

/* ---- what modifier cells share; their first option is base_cell (modifier.c) ----------------------------------- */
mx_code mx_modifier_build(mx_block *self);
/* The prefix of the cell inside, then `alias`. */
mx_code mx_modifier_prefix(const void *options, const char *alias, mx_text *text);
mx_code mx_modifier_infos(mx_block *self, int64_t batch_size, mx_state_infos *infos);
mx_code mx_modifier_begin(mx_block *self, const mx_begin *how, mx_state_list *states);
mx_code mx_modifier_unroll(mx_block *self, const mx_unroll *u, mx_unrolled *out); /* the cell inside */
mx_block *mx_modifier_base(const void *options);

/* ---- using cells, overridden methods first -------------------------------------------------------------------- */
mx_code mx_cell_infos(mx_block *cell, int64_t batch_size, mx_state_infos *infos); /* appends */
mx_code mx_cell_begin(mx_block *cell, const mx_begin *how, mx_state_list *states);
mx_code mx_cell_run_unroll(mx_block *cell, const mx_unroll *u, mx_unrolled *out);
mx_arrays mx_cell_call(mx_block *cell, mx_array *x, mx_arrays states); /* output, then states; n 0: failed */
/* The library's own methods, ignoring overrides: super() of front ends. */
mx_code mx_cell_begin_itself(mx_block *cell, const mx_begin *how, mx_state_list *states);
mx_code mx_cell_unroll_itself(mx_block *cell, const mx_unroll *u, mx_unrolled *out);
mx_code mx_cell_unroll_steps(mx_block *cell, const mx_unroll *u,
                             mx_unrolled *out); /* even if the class has its own unroll */
mx_code mx_cell_reset_itself(mx_block *cell);
mx_code mx_cell_infos_itself(mx_block *cell, int64_t batch_size, mx_state_infos *infos);
mx_code mx_cell_check_free(const mx_block *cell); /* an error if it is inside a modifier cell */
/* The name of the next initial state. */
void mx_cell_next_state(mx_block *cell, mx_text *name);
/* If no states were given: zeros with the type and context of the inputs. */
mx_code mx_cell_begin_like(mx_block *cell, const mx_unroll *u, const mx_sequence *inputs, mx_state_list *states);
mx_arrays mx_state_list_give(mx_state_list *states); /* moves the list to the scope */

/* ---- traces ---------------------------------------------------------------------------------------------------- */
/* A trace is like the first step: the cells in a network count from 0 and remember nothing.  Their previous counters
 * and memory are restored when it ends. */
typedef struct mx_cell_before {
    mx_block *block; /* retained */
    int64_t counter, init_counter;
    mx_array *memory[MX_CELL_MEMORY]; /* retained */
} mx_cell_before;
typedef MX_VEC(mx_cell_before) mx_cells_before;
mx_code mx_cells_trace_enter(mx_block *network, mx_cells_before *before);
void mx_cells_trace_leave(mx_cells_before *before);
static inline void mx_cell_count(mx_block *self) { __atomic_fetch_add(&self->cell->counter, 1, __ATOMIC_RELAXED); }

#endif
