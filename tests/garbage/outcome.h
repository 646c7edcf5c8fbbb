/* What one way of running a call or a program gave, and whether two ways agree.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TESTS_GARBAGE_OUTCOME_H
#define TESTS_GARBAGE_OUTCOME_H

#include "ops_case.h"

#define OUTCOME_GRADIENTS 128

typedef struct outcome {
    mx_code code;      /* not MX_OK: refused */
    char message[300]; /* why */
    int n_out, n_in;
    mx_array *out[MX_MAX_OUTPUTS];     /* of the scope */
    mx_array *grad[OUTCOME_GRADIENTS]; /* of inputs; NULL: none */
    bool backward;                     /* gradients were computed */
} outcome;

void outcome_error(outcome *o, mx_code code); /* takes the thread's error */
/* Both refused, or equal outputs and gradients, bit by bit (NaN equals NaN).  Else a text that starts with `way`. */
const char *outcome_compare(const char *way, const outcome *a, const outcome *b);
/* The same to a relative error of float32; larger ones for smaller types. */
const char *outcome_close(const char *way, const outcome *a, const outcome *b, double tolerance);
const char *outcome_wrong(const char *format, ...) MX_PRINTF(1, 2); /* lives until the next call */

#endif
