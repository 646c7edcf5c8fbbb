/* Gradients on their way between processes: packed into buckets, sent while backward goes on (see buckets.c).
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef MX_GLUON_BUCKETS_H
#define MX_GLUON_BUCKETS_H

#include "gluon/array.h"

struct mx_trainer;
typedef struct mx_buckets mx_buckets;

mx_buckets *mx_buckets_new(
    struct mx_trainer *trainer); /* of a trainer whose store spans processes; NULL with an error */
void mx_buckets_free(mx_buckets *self);
/* Every gradient becomes the sum over all contexts and processes.  One that is fresh on any process is fresh on all. */
mx_code mx_buckets_exchange(mx_buckets *self);

#endif
