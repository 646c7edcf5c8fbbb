/* Random programs: a few operators that feed each other, as a network's do.
 *
 *     values 0 .. n_inputs - 1 are inputs x0, x1 ...; each step appends its results; unused ones are the outputs
 *
 * The program runs recorded and imperatively, as an executor of the symbol that was written and read again, and as a
 * hybridized block, twice: outputs and gradients have the same bits, and results that are held do not change.  Without
 * recording, the block may fold weights: then results agree to rounding.  A program whose inputs are parameters is trained
 * for a few steps: loss and parameters have the same bits in the imperative loop, hybridized and as fused steps.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TESTS_GARBAGE_PROGRAM_H
#define TESTS_GARBAGE_PROGRAM_H

#include "garbage.h"

#define PROGRAM_STEPS 8
#define PROGRAM_VALUES 128

typedef struct program_step {
    mx_op *op;
    void *attrs;        /* owned; NULL: the operator has none */
    int n_in;           /* inputs, absent ones included */
    int in[OPS_MAX_IN]; /* numbers of values; -1: absent */
    int first, n_out;   /* numbers of its results */
} program_step;

typedef struct program_value {
    bool input;   /* of the program; else a step's result */
    bool used;    /* by a later step */
    bool dropped; /* neither: nothing needs it */
    bool written; /* a step writes into it: running statistics */
    mx_shape_t shape;
    mx_dtype type;
    double *elements; /* of inputs, owned */
} program_value;

typedef struct program {
    int n_values, n_steps;
    program_value value[PROGRAM_VALUES];
    program_step step[PROGRAM_STEPS];
    char story[2048];
} program;

bool program_make(program *p, garbage_dice *dice); /* false: nothing could be made */
void program_free(program *p);
const char *program_run(program *p); /* what is wrong, or NULL; the text lives until the next call */

/* Computes all values from the inputs, real or symbolic. */
mx_code program_compute(const program *p, mx_array **value);
/* Floating-point results that no step uses, at most MX_MAX_OUTPUTS: those that a loss could be made of. */
int program_outputs(const program *p, mx_array *const *value, mx_array **out);
bool program_learns(const program_value *v); /* an input that can have a gradient */
/* Trains the program in every way that must agree; what is wrong, or NULL. */
const char *program_train(const program *p);

#endif
