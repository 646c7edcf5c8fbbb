/* Sums over processes, for stores (see dist.c).  SPDX-License-Identifier: Apache-2.0 */
#ifndef MX_GLUON_DIST_H
#define MX_GLUON_DIST_H

#include "gluon/train/kvstore.h"

/* The sum of x over the processes of the store, dense or row_sparse, compressed if the store is told so: a new array,
 * owned by the scope.  NULL with an error. */
mx_array *mx_dist_sum(mx_kvstore *store, mx_id key, mx_array *x);
/* The values of rank 0, on all processes, in place. */
mx_code mx_dist_broadcast(struct mx_comm *comm, mx_array *x);

#endif
