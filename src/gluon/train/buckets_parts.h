/* The parts of buckets.c that its files share: members, buckets, their layout.  SPDX-License-Identifier: Apache-2.0 */
#ifndef MX_GLUON_BUCKETS_PARTS_H
#define MX_GLUON_BUCKETS_PARTS_H

#include <pthread.h>

#include "gluon/train/buckets.h"
#include "gluon/train/trainer.h"
#include "gluon/train/wire.h"

#define MX_BUCKETS_TOO_OFTEN 3 /* rounds with outdated buckets after which nothing is sent early any more */

typedef struct mx_bucket_member {
    int64_t slot;   /* of the trainer */
    int64_t offset; /* elements from the start of the mx_bucket */
    int64_t size;   /* elements */
    int bucket;
    const mx_array *gradient; /* of the first copy, by which backward names it; not retained, only compared */
    mx_dtype dtype;
    bool packed;    /* in this round, with the contents that `stamp` names */
    bool outdated;  /* completed twice in this round */
    uint64_t stamp; /* of its storage; 0: it may change unnoticed */
    int64_t finish; /* position in the order of completion; -1: not seen */
} mx_bucket_member;

typedef struct mx_bucket {
    mx_dtype dtype; /* of what is sent */
    int64_t count;  /* elements */
    int first, members, packed;
    bool started;
    mx_wire wire; /* its memory */
} mx_bucket;

struct mx_buckets {
    mx_trainer *trainer; /* not retained: it owns the buckets */
    mx_comm *comm;       /* retained */
    pthread_mutex_t lock;
    mx_bucket_member *members; /* (n_members), by mx_bucket */
    int *by_pointer;           /* (n_members) members sorted by gradient */
    int64_t n_members;
    mx_bucket *buckets; /* (n_buckets) */
    int n_buckets, started;
    bool early;      /* gradients are sent while backward goes on */
    bool ordered;    /* the order was measured */
    int64_t seen;    /* gradients that were completed in this round */
    int bad_rounds;  /* with outdated buckets */
    bool has_agreed; /* in this round, before the exchange */
    uint8_t *agreed; /* (n_members + n_buckets) fresh, outdated; MX_MAX over processes */
    mx_work agreement;
    int32_t *before; /* (n_buckets + 1) of a fused step: the calls before which exchanges come */
};

/* Whether the slot's gradient is exchanged in a bucket. */
bool mx_bucket_takes(const mx_trainer_slot *slot);
mx_array *mx_bucket_gradient(const mx_buckets *self, const mx_bucket_member *m);

/* ---- layout (buckets_layout.c) ------------------------------------------------------------------------------------- */
/* order: (trainer->count) positions of slots, or NULL: last parameters first. */
mx_code mx_buckets_lay_out(mx_buckets *self, const int64_t *order);
bool mx_buckets_fit(mx_buckets *self); /* false: parameters got other types or shapes, or others learn */
void mx_buckets_free_layout(mx_buckets *self);

mx_code mx_buckets_start_agreement(mx_buckets *self); /* with what self->agreed has */

#endif
