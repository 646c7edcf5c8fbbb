/* Recurrent cells: blocks that compute one step of a sequence, and their unrolling over a whole one.
 *
 *     mx_block *cell = mx_lstm_cell(650);
 *     mx_initialize(cell, NULL, mx_cpu(0));
 *     mx_unrolled seq = mx_cell_unroll(cell, x, .layout = "TNC");      x (T, N, C)
 *     seq.output (T, N, 650), seq.states.v[0] and .v[1] (N, 650)
 *
 * or step by step:
 *
 *     mx_arrays states = mx_cell_begin_state(cell, .batch_size = 20);
 *     mx_stepped step = mx_cell_step(cell, x0, states);                step.output, step.states
 *
 * Cells are combined by mx_sequential_rnn_cell() and mx_cell_add(), mx_bidirectional_cell(left, right) and the
 * modifiers mx_zoneout_cell(cell), mx_residual_cell(cell), mx_variational_dropout_cell(cell).  All functions work on
 * symbolic arrays as well; nodes are then named as in the classic interface: lstm0_t0_i2h, lstm0_begin_state_0.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef GLUON_CELL_H
#define GLUON_CELL_H

#include "gluon/block.h"

/* One state of a cell.  Sizes of 0 are not known. */
typedef struct mx_state_info {
    mx_dims shape;      /* the batch first */
    const char *layout; /* "NC", "NCHW" ... */
} mx_state_info;
MX_API int64_t mx_cell_state_count(mx_block *cell); /* -1 with an error */
MX_API mx_code mx_cell_state_info(mx_block *cell, int64_t i, int64_t batch_size, mx_state_info *info);

/* States of zeros.  n is 0 for cells without states, and on failure. */
struct mx_begin_options {
    int64_t batch_size;
    mx_dtype dtype;     /* default float32 */
    mx_context context; /* default: the current one */
    bool symbolic;      /* as nodes of a graph */
    char positional_;
    mx_block *cell;
};
#define mx_cell_begin_state(...) \
    mx_cell_begin_state_with(&(struct mx_begin_options){.positional_ = 0, __VA_ARGS__})
MX_API mx_arrays mx_cell_begin_state_with(const struct mx_begin_options *options);

typedef struct mx_stepped {
    mx_array *output; /* NULL: failed */
    mx_arrays states;
} mx_stepped;
MX_API mx_stepped mx_cell_step(mx_block *cell, mx_array *x, mx_arrays states);
/* Resets the step number and everything stored between steps, before another sequence starts. */
MX_API mx_code mx_cell_reset(mx_block *cell);

typedef enum mx_merge {
    MX_MERGED,  /* one array */
    MX_STEPS,   /* a list of one array per step */
    MX_AT_HAND, /* whichever needs no conversion */
} mx_merge;
typedef struct mx_unrolled {
    mx_array *output; /* of all steps; NULL: they are in `steps` */
    mx_arrays steps;
    mx_arrays states; /* after the last step; with valid_length after each sequence's own last step */
} mx_unrolled;
struct mx_unroll_options {
    mx_arrays steps;       /* instead of the array of all steps: one (N, C) per step */
    int64_t length;        /* number of steps; 0: that of the inputs */
    mx_arrays begin_state; /* v NULL: zeros */
    const char *layout;    /* "NTC" or "TNC": of the inputs and the output; NULL: "NTC" */
    mx_merge merge_outputs;
    mx_array *valid_length; /* (N) outputs past the end of a sequence are zeros; NULL: all are full */
    char positional_;
    mx_block *cell;
    mx_array *x; /* (N, T, C) or (T, N, C) */
};
#define mx_cell_unroll(...) \
    mx_cell_unroll_with(&(struct mx_unroll_options){.positional_ = 0, __VA_ARGS__})
MX_API mx_unrolled mx_cell_unroll_with(const struct mx_unroll_options *options);

MX_API mx_code mx_cell_add(mx_block *stack, mx_block *cell); /* on top of a SequentialRNNCell */

#endif
