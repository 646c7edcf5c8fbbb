/* A case for every layer and loss of the library, for tests that hold for all of them.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef MX_TESTS_LAYER_CASES_H
#define MX_TESTS_LAYER_CASES_H

#include "block_check.h"

enum { MOST_INPUTS = 3 };

typedef struct layer_case {
    const char *cls, *options;
    mx_dims in;
    int below; /* integers from 0 up to below; 0: real numbers */
} layer_case;

extern const layer_case layer_cases[]; /* the last one has no class */
/* The layer and its input; NULL: the class is not in this build. */
mx_block *layer_case_make(const layer_case *c, mx_array **in);

typedef struct loss_case {
    const char *cls, *options;
    mx_dims in[MOST_INPUTS];
    int below;  /* labels are integers below this; 0: real numbers */
    bool signs; /* labels are -1 or 1 */
} loss_case;

extern const loss_case loss_cases[]; /* the last one has no class */
/* The loss, its inputs and how many; NULL: the class is not in this build. */
mx_block *loss_case_make(const loss_case *c, mx_array **in, int64_t *n);

#endif
