/* Generated calls: every operator with random shapes, types, values and attributes, half of them sensible.
 *
 *     sample of the operator -> changed in 0..3 places -> run in every way that must agree
 *
 *         imperatively, twice          the same bits, inputs unchanged
 *         recorded, with backward      the same bits
 *         as a symbol: written, read again, bound, forward and backward      the same bits
 *
 * A call may be refused, with a message that names the operator; then every way must refuse it.  Decisions come from a
 * stream of bytes: random ones here, those of libFuzzer in tests/fuzz/fuzz_call.c.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TESTS_GARBAGE_H
#define TESTS_GARBAGE_H

#include "ops_case.h"

/* A stream of decisions: given bytes first, then pseudo-random ones (or zeros, if state is 0). */
typedef struct garbage_dice {
    const uint8_t *bytes; /* (size), not owned */
    size_t size, at;
    uint64_t state;
} garbage_dice;
uint64_t garbage_roll(garbage_dice *dice, uint64_t below); /* 0 .. below - 1 */

/* One call and where it came from. */
typedef struct garbage_call {
    ops_case c;            /* the sample */
    ops_values values;     /* its inputs as doubles */
    int types[OPS_MAX_IN]; /* element types of the inputs */
    char story[512];       /* the changes, for reports */
} garbage_call;

/* A sample as it is; with changes. */
bool garbage_make_plain(garbage_call *call, mx_op *op, garbage_dice *dice);
bool garbage_make(garbage_call *call, mx_op *op, garbage_dice *dice); /* both false: there is no usable sample */
void garbage_free(garbage_call *call);
/* Runs the call in every way; returns what is wrong, or NULL.  The text lives until the next call. */
const char *garbage_run(garbage_call *call);

#endif
