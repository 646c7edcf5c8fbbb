/* Steps of the forward part that are repeated in the backward part, so that their results need not be saved.
 *
 *     mx_read *reads = mx_reads_new(program)     how the backward part reads each value
 *     reads[v].repeated = true                   for values to compute again; inputs of their steps must be available then:
 *                                                saved, external, or repeated as well
 *     mx_reads_repeat(program, reads)                  repeats the steps, each before the first step that needs a result of it
 *
 * A step with effects is not repeated itself: another operator computes its first result from the others (struct mx_again).
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef MX_PASS_REPEAT_H
#define MX_PASS_REPEAT_H

#include "op/op.h"
#include "pass/program.h"

typedef struct mx_read {
    int32_t first; /* step of the backward part that first reads the value; -1: none */
    int32_t last;  /* the last such step */
    int32_t again; /* the value that takes its place there; -1: not yet */
    bool repeated; /* it is computed again */
} mx_read;

mx_read *mx_reads_new(const mx_program *program); /* (values), to be freed with mx_free; NULL: out of memory */
bool mx_is_result(const mx_program *program, int32_t value);
/* The step can be repeated: as it is, or its first result by *again, whose `op` is NULL otherwise. */
bool mx_step_repeats(const mx_program *program, const mx_step *step, mx_again *again);
mx_code mx_reads_repeat(mx_program *program, mx_read *reads);

#endif
