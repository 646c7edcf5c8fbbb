/* Sums of large arrays around a ring of processes (see ring.c).  SPDX-License-Identifier: Apache-2.0 */
#ifndef MX_COMM_RING_H
#define MX_COMM_RING_H

#include <mpi.h>
#include <stdint.h>

#include "gluon/array.h"

typedef struct mx_ring mx_ring;

bool mx_ring_suits(int64_t count, mx_dtype dtype); /* large enough, float32 or float64 */
/* Sums x in place over all processes of `comm`, whose messages with this tag are its own; *status: of MPI.  NULL: failed. */
mx_ring *mx_ring_start(void *x, int64_t count, mx_dtype dtype, MPI_Comm comm, int tag, int *status);
bool mx_ring_test(mx_ring *ring, int *status); /* true: done or failed, and freed */

#endif
