/* Gradients on their way between processes: packed into buckets, sent while backward goes on (see buckets.c).
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef MX_GLUON_BUCKETS_H
#define MX_GLUON_BUCKETS_H

#include "gluon/array.h"
#include "ndarray/device.h"

struct mx_trainer;
typedef struct mx_buckets mx_buckets;

mx_buckets *mx_buckets_new(
    struct mx_trainer *trainer); /* of a trainer whose store spans processes; NULL with an error */
void mx_buckets_free(mx_buckets *self);
/* Every gradient becomes the sum over all contexts and processes.  One that is fresh on any process is fresh on all. */
mx_code mx_buckets_exchange(mx_buckets *self);

/* ---- inside the plan of a fused step: devices exchange by themselves, and nothing waits for them ------------------- */
/* The number of exchanges; 0: they cannot be part of a plan now. */
int32_t mx_buckets_in_plan(mx_buckets *self);
/* Before the plan runs: all gradients will be fresh.  *clean: no other process has to send a bucket again; otherwise the
 * plan must run without them, and mx_buckets_exchange() in it. */
mx_code mx_buckets_agree(mx_buckets *self, bool *clean);
/* The calls before which the exchanges come, and last the copies back: (n + 1).  finished: (slots of the trainer) the call
 * that completes its gradient; updates: the first call that reads sums.  Memory of the buckets, until the next call. */
const int32_t *mx_buckets_place(mx_buckets *self, const int32_t *finished, int32_t updates);
mx_code mx_buckets_stop(void *self, int32_t i); /* for mx_stops */
int64_t mx_buckets_touches(void *self, int32_t i, mx_touch *spans);
void mx_buckets_begin_round(mx_buckets *self); /* after the plan */

#endif
