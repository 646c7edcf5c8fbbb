/* What the launcher of this process says about it: mpirun, srun and the like set environment variables.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef MX_BASE_LAUNCHED_H
#define MX_BASE_LAUNCHED_H

#include "gluon/base.h"

typedef struct mx_launched {
    int rank, size;             /* of all processes that were started together; size 0: there is no launcher */
    int local_rank, local_size; /* of those on this machine; local_size 0: not known */
} mx_launched;

const mx_launched *mx_launched_get(void); /* read once, at the first call */

#endif
