/* Kernels that compute on doubles.
 *
 * Box operators and the like have many branches and few numbers: one body serves all element types.  It gets the
 * arrays of a call as doubles, and its results are converted to the types of the outputs.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef MX_CPU_DOUBLES_H
#define MX_CPU_DOUBLES_H

#include "cpu/kernel.h"
#include "cpu/kernels/level.h"

#define MX_MOST_DOUBLES 16 /* inputs or outputs of such an operator */

typedef struct mx_doubles {
    const mx_kernel_call *call;
    const double *in[MX_MOST_DOUBLES]; /* NULL: absent or unread */
    double *out[MX_MOST_DOUBLES];      /* not initialised */
} mx_doubles;

/* Runs the kernel; declines a call whose first input is not of a floating type.  Inputs in the mask `unread` are not
 * converted: only their shapes matter. */
#define mx_run_doubles MX_LEVEL_NAME(mx_run_doubles)
mx_code mx_run_doubles(const mx_kernel_call *call, uint32_t unread, mx_code (*run)(const mx_doubles *d));

#endif
