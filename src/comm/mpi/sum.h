/* Sums of arrays over processes, made of sends and receives (see sum.c).  SPDX-License-Identifier: Apache-2.0 */
#ifndef MX_COMM_SUM_H
#define MX_COMM_SUM_H

#include <mpi.h>
#include <stdint.h>

#include "gluon/array.h"

typedef struct mx_sum mx_sum;

bool mx_sum_suits(int64_t count, mx_dtype dtype); /* float32 or float64 */
/* Sums x in place over all processes of `comm`, whose messages with this tag are its own; *status: of MPI.  NULL: failed.
 * One thread at a time, as with all of a transport. */
mx_sum *mx_sum_start(void *x, int64_t count, mx_dtype dtype, MPI_Comm comm, int tag, int *status);
bool mx_sum_test(mx_sum *sum, int *status); /* true: done or failed, and freed */

#endif
