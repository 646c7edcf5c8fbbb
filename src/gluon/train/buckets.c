/* Gradients on their way between processes.
 *
 *     backward --gradient complete--> its place in a bucket --all gradients of the bucket there--> exchange starts
 *     step: the rest is packed and starts; wait; sums --> gradients
 *
 *     bucket 0 [ g9 | g8 | g7 ]   bucket 1 [ g6 ]   bucket 2 [ g5 | ... | g0 ]       in the order in which backward
 *                                                                                      finishes them, measured once
 *
 * All processes start the same buckets in the same order.  What a process packed early may be outdated at the step: a
 * second backward ran, or the program changed the gradient.  The stamp of its storage shows that; processes then agree
 * to exchange that bucket again.  The agreement, one byte per gradient and bucket, also says which gradients are fresh
 * anywhere.  A stale gradient counts as zero.
 *
 * Exchanges work on the buckets' own memory, so the gradients can be used until the step.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "gluon/train/buckets.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/flags.h"
#include "exec/profile.h"
#include "exec/ready.h"
#include "gluon/train/sums.h"
#include "gluon/train/trainer.h"
#include "gluon/train/wire.h"

#define TOO_OFTEN 3 /* rounds with outdated buckets after which nothing is sent early any more */

typedef struct member {
    int64_t slot;   /* of the trainer */
    int64_t offset; /* elements from the start of the bucket */
    int64_t size;   /* elements */
    int bucket;
    const mx_array *gradient; /* of the first copy, by which backward names it; not retained, only compared */
    mx_dtype dtype;
    bool packed;    /* in this round, with the contents that `stamp` names */
    bool outdated;  /* completed twice in this round */
    uint64_t stamp; /* of its storage; 0: it may change unnoticed */
    int64_t finish; /* position in the order of completion; -1: not seen */
} member;

typedef struct bucket {
    mx_dtype dtype; /* of what is sent */
    int64_t count;  /* elements */
    int first, members, packed;
    bool started;
    mx_wire wire; /* its memory */
} bucket;

struct mx_buckets {
    mx_trainer *trainer; /* not retained: it owns the buckets */
    mx_comm *comm;       /* retained */
    pthread_mutex_t lock;
    member *members; /* (n_members), by bucket */
    int *by_pointer; /* (n_members) members sorted by gradient */
    int64_t n_members;
    bucket *buckets; /* (n_buckets) */
    int n_buckets, started;
    bool early;      /* gradients are sent while backward goes on */
    bool ordered;    /* the order was measured */
    int64_t seen;    /* gradients that were completed in this round */
    int bad_rounds;  /* with outdated buckets */
    bool has_agreed; /* in this round, before the exchange */
    uint8_t *agreed; /* (n_members + n_buckets) fresh, outdated; MX_MAX over processes */
    mx_work agreement;
};

/* ---- what is exchanged --------------------------------------------------------------------------------------------- */

static bool takes_part(const mx_trainer_slot *slot)
{
    return mx_slot_learns(slot) && slot->parameter->count && !slot->parameter->deferred &&
           slot->parameter->grad_stype == MX_STYPE_DEFAULT;
}

static mx_array *gradient_of(const mx_buckets *self, const member *m)
{
    return mx_gradient(self->trainer->slots[m->slot].parameter->data[0]);
}

/* ---- packing ------------------------------------------------------------------------------------------------------- */

static mx_code pack(mx_buckets *self, member *m, mx_array *gradient, bool fresh)
{
    bucket *b = &self->buckets[m->bucket];
    if (fresh ? mx_wire_pack(&b->wire, m->offset, gradient) : mx_wire_pack_zeros(&b->wire, m->offset, m->size))
        return mx_error_code();
    b->packed += !m->packed;
    m->packed = true;
    return MX_OK;
}

static mx_code start(mx_buckets *self, bucket *b)
{
    b->started = true;
    return mx_wire_start(&b->wire, self->comm);
}

/* Buckets start in their order. */
static mx_code start_full(mx_buckets *self)
{
    mx_code code = MX_OK;
    while (!code && self->started < self->n_buckets &&
           self->buckets[self->started].packed == self->buckets[self->started].members)
        code = start(self, &self->buckets[self->started++]);
    return code;
}

/* ---- while backward goes on ---------------------------------------------------------------------------------------- */

static member *find(const mx_buckets *self, const mx_array *gradient)
{
    int64_t low = 0, high = self->n_members;
    while (low < high) {
        const int64_t middle = (low + high) / 2;
        member *m = &self->members[self->by_pointer[middle]];
        if (m->gradient == gradient)
            return m;
        if ((uintptr_t)m->gradient < (uintptr_t)gradient)
            low = middle + 1;
        else
            high = middle;
    }
    return NULL;
}

/* Errors wait for the step: it packs what is not packed, and fails for the same reason. */
static void gradient_ready(void *user, mx_array *gradient)
{
    mx_buckets *self = user;
    pthread_mutex_lock(&self->lock);
    member *m = find(self, gradient);
    const bool usable = m && gradient->size == m->size && (mx_dtype)gradient->dtype == m->dtype && gradient->storage;
    if (usable && m->packed)
        m->outdated = true;
    else if (usable && self->trainer->slots[m->slot].parameter->req == MX_GRAD_WRITE) {
        const bool clean = !mx_has_error();
        m->finish = self->seen++;
        m->stamp = mx_array_stamp(gradient);
        if (self->early && clean && (pack(self, m, gradient, true) || start_full(self)))
            mx_error_clear();
    }
    pthread_mutex_unlock(&self->lock);
}

/* ---- layout -------------------------------------------------------------------------------------------------------- */

static void free_layout(mx_buckets *self)
{
    for (int i = 0; i < self->n_buckets; i++)
        mx_wire_close(&self->buckets[i].wire);
    mx_free(self->agreed, (size_t)(self->n_members + self->n_buckets));
    mx_free(self->by_pointer, (size_t)self->n_members * sizeof *self->by_pointer);
    mx_free(self->members, (size_t)self->n_members * sizeof *self->members);
    mx_free(self->buckets, (size_t)self->n_members * sizeof *self->buckets);
    self->agreed = NULL, self->by_pointer = NULL, self->members = NULL, self->buckets = NULL;
    self->n_members = self->n_buckets = self->started = 0;
}

static int by_finish(const void *a, const void *b)
{
    const member *x = a, *y = b;
    return x->finish != y->finish ? (x->finish > y->finish) - (x->finish < y->finish)
                                  : (x->slot < y->slot) - (x->slot > y->slot);
}

static mx_dtype wire_of(const mx_buckets *self, mx_dtype dtype)
{
    return self->trainer->store->compression.kind == MX_COMPRESS_FP16 && dtype == MX_FLOAT32 ? MX_FLOAT16 : dtype;
}

/* Fills buckets one after the other; a bucket has one type. */
static mx_code divide_members(mx_buckets *self)
{
    const int64_t limit = mx_flags_get()->bucket_kb * 1024;
    int64_t bytes = 0;
    for (int64_t i = 0; i < self->n_members; i++) {
        member *m = &self->members[i];
        const mx_dtype wire = wire_of(self, m->dtype);
        const int64_t size = m->size * mx_dtype_size(wire);
        bucket *b = self->n_buckets ? &self->buckets[self->n_buckets - 1] : NULL;
        if (!b || b->dtype != wire || (limit > 0 && bytes + size > limit)) {
            b = &self->buckets[self->n_buckets++];
            *b = (bucket){.dtype = wire, .first = (int)i};
            bytes = 0;
        }
        m->bucket = self->n_buckets - 1;
        m->offset = b->count;
        b->count += m->size;
        b->members++;
        bytes += size;
    }
    for (int i = 0; i < self->n_buckets; i++) {
        bucket *b = &self->buckets[i];
        const mx_context context = gradient_of(self, &self->members[b->first])->context;
        if (mx_wire_open(&b->wire, self->comm, context, b->dtype, b->count))
            return mx_error_code();
    }
    return MX_OK;
}

static const mx_buckets *sorting; /* qsort has no argument for it; set under `sort_lock` */
static pthread_mutex_t sort_lock = PTHREAD_MUTEX_INITIALIZER;
static int by_address(const void *a, const void *b)
{
    const uintptr_t x = (uintptr_t)sorting->members[*(const int *)a].gradient,
                    y = (uintptr_t)sorting->members[*(const int *)b].gradient;
    return (x > y) - (x < y);
}

static void sort_pointers(mx_buckets *self)
{
    for (int64_t i = 0; i < self->n_members; i++)
        self->by_pointer[i] = (int)i;
    pthread_mutex_lock(&sort_lock);
    sorting = self;
    if (self->n_members)
        qsort(self->by_pointer, (size_t)self->n_members, sizeof *self->by_pointer, by_address);
    pthread_mutex_unlock(&sort_lock);
}

/* order: (trainer->count) positions of slots, or NULL: last parameters first. */
static mx_code make_layout(mx_buckets *self, const int64_t *order)
{
    const mx_trainer *t = self->trainer;
    int64_t n = 0;
    for (int64_t i = 0; i < t->count; i++)
        n += takes_part(&t->slots[i]);
    free_layout(self);
    if (!n)
        return MX_OK;
    self->members = mx_alloc_zero((size_t)n * sizeof *self->members);
    self->buckets = mx_alloc_zero((size_t)n * sizeof *self->buckets);
    self->by_pointer = mx_alloc_zero((size_t)n * sizeof *self->by_pointer);
    self->n_members = n;
    if (!self->members || !self->buckets || !self->by_pointer)
        return mx_error_code();
    self->early = mx_flags_get()->bucket_kb > 0 && self->bad_rounds < TOO_OFTEN;
    n = 0;
    for (int64_t i = 0; i < t->count; i++) {
        if (!takes_part(&t->slots[i]))
            continue;
        const mx_array *gradient = mx_gradient(t->slots[i].parameter->data[0]);
        self->members[n++] = (member){.slot = i, .size = gradient->size, .dtype = (mx_dtype)gradient->dtype,
                                      .gradient = gradient, .finish = order ? order[i] : -1};
        self->early &= t->slots[i].parameter->count == 1;
    }
    if (n)
        qsort(self->members, (size_t)n, sizeof *self->members, by_finish);
    sort_pointers(self);
    if (divide_members(self))
        return mx_error_code();
    self->agreed = mx_alloc_zero((size_t)(self->n_members + self->n_buckets));
    return self->agreed ? MX_OK : mx_error_code();
}

/* Parameters got other types or shapes, or others learn. */
static bool layout_fits(mx_buckets *self)
{
    int64_t n = 0;
    bool moved = false;
    for (int64_t i = 0; i < self->trainer->count; i++)
        n += takes_part(&self->trainer->slots[i]);
    if (n != self->n_members)
        return false;
    for (int64_t i = 0; i < n; i++) {
        member *m = &self->members[i];
        if (!takes_part(&self->trainer->slots[m->slot]))
            return false;
        const mx_array *gradient = gradient_of(self, m);
        if (gradient->size != m->size || (mx_dtype)gradient->dtype != m->dtype ||
            self->buckets[m->bucket].dtype != wire_of(self, m->dtype))
            return false;
        moved |= m->gradient != gradient;
        m->outdated |= m->gradient != gradient;
        m->gradient = gradient;
    }
    if (moved)
        sort_pointers(self);
    return true;
}

/* ---- the step ------------------------------------------------------------------------------------------------------ */

static bool fresh(const mx_buckets *self, const member *m)
{
    return mx_trainer_any_fresh(self->trainer->slots[m->slot].parameter);
}

static bool is_outdated(const mx_buckets *self, const member *m)
{
    const mx_array *gradient = gradient_of(self, m);
    return m->outdated || !m->stamp || mx_array_stamp(gradient) != m->stamp || !fresh(self, m);
}

/* Contexts of this process first: every copy gets their sum. */
static mx_code sum_contexts(mx_buckets *self, const member *m)
{
    mx_array *parts[MX_MAX_CONTEXTS];
    const mx_parameter *p = self->trainer->slots[m->slot].parameter;
    for (int i = 0; i < p->count; i++)
        parts[i] = mx_gradient(p->data[i]);
    return p->count > 1 ? mx_sum_everywhere(&self->trainer->slots[m->slot].sum, p->count, parts) : MX_OK;
}

static mx_code pack_now(mx_buckets *self, member *m)
{
    if (sum_contexts(self, m) || pack(self, m, gradient_of(self, m), fresh(self, m)))
        return mx_error_code();
    m->stamp = 0;
    return MX_OK;
}

/* What was not sent early. */
static mx_code start_rest(mx_buckets *self)
{
    mx_code code = MX_OK;
    for (int64_t i = 0; !self->has_agreed && i < self->n_members; i++) {
        const member *m = &self->members[i];
        self->agreed[i] = fresh(self, m);
        if (m->packed && is_outdated(self, m))
            self->agreed[self->n_members + m->bucket] = 1;
    }
    for (int64_t i = 0; !code && i < self->n_members; i++) {
        member *m = &self->members[i];
        if (!m->packed)
            code = pack_now(self, m);
        if (!code)
            code = start_full(self);
    }
    return code;
}

static mx_code agree(mx_buckets *self)
{
    self->agreement.what = (mx_exchange){.kind = MX_EXCHANGE_ALL_REDUCE, .channel = mx_comm_channel(self->comm),
                                         .from = self->agreed, .to = self->agreed,
                                         .count = self->n_members + self->n_buckets, .dtype = MX_UINT8, .how = MX_MAX};
    return mx_engine_begin(&self->agreement);
}

/* The contents of this bucket changed after it was sent, here or elsewhere. */
static mx_code send_again(mx_buckets *self, bucket *b)
{
    for (int i = b->first; i < b->first + b->members; i++)
        if (pack_now(self, &self->members[i]))
            return mx_error_code();
    return start(self, b);
}

static mx_code write_back(mx_buckets *self, int64_t i)
{
    const member *m = &self->members[i];
    const mx_parameter *p = self->trainer->slots[m->slot].parameter;
    for (int k = 0; k < p->count; k++) {
        mx_array *gradient = mx_gradient(p->data[k]);
        const uint8_t written = gradient->written;
        if (mx_wire_unpack(&self->buckets[m->bucket].wire, m->offset, gradient))
            return mx_error_code();
        gradient->written = self->agreed[i] && written == p->used[k] ? (uint8_t)(written ^ 1) : written;
    }
    return MX_OK;
}

/* For the profiler: when buckets were under way, and how long the step waited for them. */
static void show_times(const mx_buckets *self, double waited_from)
{
    char name[64];
    for (int i = 0; i < self->n_buckets; i++) {
        const bucket *b = &self->buckets[i];
        snprintf(name, sizeof name, "bucket %d: %lld bytes", i, (long long)b->count * mx_dtype_size(b->dtype));
        mx_profile_span_between("exchange", name, b->wire.work.begun, b->wire.work.ended);
    }
    mx_profile_span_between("exchange", "wait", waited_from, mx_profiler_now());
}

/* Collects the sums of all buckets, those that were sent again in a second round. */
static mx_code collect(mx_buckets *self)
{
    mx_code code = MX_OK;
    bool bad = false;
    const double start = mx_profile_start(MX_PROFILE_OWN);
    for (int i = 0; i < self->n_buckets; i++) { /* all, whatever happens: the memory is in use */
        const mx_code each = mx_wire_wait(&self->buckets[i].wire);
        code = code ? code : each;
    }
    const mx_code each = mx_engine_wait(&self->agreement);
    code = code ? code : each;
    if (start != 0)
        show_times(self, start);
    for (int i = 0; !code && i < self->n_buckets; i++)
        if (self->agreed[self->n_members + i])
            code = send_again(self, &self->buckets[i]), bad = true;
    for (int i = 0; !code && i < self->n_buckets; i++)
        if (self->agreed[self->n_members + i])
            code = mx_wire_wait(&self->buckets[i].wire);
    for (int64_t i = 0; !code && i < self->n_members; i++)
        code = write_back(self, i);
    self->bad_rounds += bad;
    if (self->bad_rounds >= TOO_OFTEN)
        self->early = false;
    return code;
}

static void begin_round(mx_buckets *self)
{
    for (int64_t i = 0; i < self->n_members; i++)
        self->members[i].packed = self->members[i].outdated = false, self->members[i].stamp = 0;
    for (int i = 0; i < self->n_buckets; i++)
        self->buckets[i].packed = 0, self->buckets[i].started = false;
    memset(self->agreed, 0, (size_t)(self->n_members + self->n_buckets));
    self->started = 0;
    self->seen = 0;
    self->has_agreed = false;
}

/* From the second round on the order of completion is known: that of rank 0 is used by all. */
static mx_code take_order(mx_buckets *self)
{
    const int64_t n = self->trainer->count;
    int64_t *order = mx_alloc((size_t)n * sizeof *order), last = -1;
    if (!order)
        return mx_error_code();
    for (int64_t i = 0; i < n; i++)
        order[i] = INT64_MAX;
    for (int64_t i = 0; i < self->n_members; i++) {
        order[self->members[i].slot] = self->members[i].finish < 0 ? INT64_MAX : self->members[i].finish;
        last = self->members[i].finish > last ? self->members[i].finish : last;
    }
    order[0] = n && last < 0 ? -1 : order[0]; /* nothing was seen: keep what there is */
    mx_code code = n ? mx_comm_broadcast_memory(self->comm, order, n, MX_INT64, 0) : MX_OK;
    if (!code && n && order[0] != -1) {
        code = make_layout(self, order);
        self->ordered = true;
    }
    mx_free(order, (size_t)n * sizeof *order);
    return code;
}

/* Every process finishes the round that began with the old layout, with whatever contents. */
static mx_code renew_layout(mx_buckets *self)
{
    mx_code code = MX_OK;
    for (; self->early && !code && self->started < self->n_buckets; self->started++)
        code = start(self, &self->buckets[self->started]);
    for (int i = 0; i < self->started; i++) {
        const mx_code each = mx_wire_wait(&self->buckets[i].wire);
        code = code ? code : each;
    }
    self->ordered = false;
    return code ? code : make_layout(self, NULL);
}

static mx_code exchange(mx_buckets *self)
{
    if (!layout_fits(self) && renew_layout(self))
        return mx_error_code();
    if (!self->n_members)
        return MX_OK;
    mx_code code = start_rest(self);
    if (!code && !self->has_agreed)
        code = agree(self);
    if (!code)
        code = collect(self);
    if (!code && self->early && !self->ordered)
        code = take_order(self);
    begin_round(self);
    return code;
}

mx_code mx_buckets_exchange(mx_buckets *self)
{
    pthread_mutex_lock(&self->lock);
    const mx_code code = exchange(self);
    pthread_mutex_unlock(&self->lock);
    return code;
}

/* ---- inside a plan ------------------------------------------------------------------------------------------------- */

int32_t mx_buckets_in_plan(mx_buckets *self)
{
    if (!self || !self->n_members || mx_flags_get()->comm_check || !layout_fits(self))
        return 0;
    for (int i = 0; i < self->n_buckets; i++)
        if (!mx_wire_grouped(&self->buckets[i].wire) || self->buckets[i].started)
            return 0;
    for (int64_t i = 0; i < self->trainer->count; i++) {
        const mx_trainer_slot *slot = &self->trainer->slots[i];
        if (mx_slot_learns(slot) && (!takes_part(slot) || slot->parameter->count > 1))
            return 0;
    }
    return self->n_buckets;
}

mx_code mx_buckets_agree(mx_buckets *self, bool *clean)
{
    memset(self->agreed, 1, (size_t)self->n_members);
    memset(self->agreed + self->n_members, 0, (size_t)self->n_buckets);
    mx_code code = agree(self);
    code = code ? code : mx_engine_wait(&self->agreement);
    self->has_agreed = *clean = !code;
    for (int i = 0; !code && i < self->n_buckets; i++)
        *clean &= !self->agreed[self->n_members + i];
    for (int i = 0; !code && *clean && i < self->n_buckets; i++)
        code = mx_wire_announce(&self->buckets[i].wire, self->comm);
    return code;
}

void mx_buckets_place(const mx_buckets *self, const int32_t *finished, int32_t updates, int32_t *before)
{
    int32_t last = 0;
    for (int i = 0; i < self->n_buckets; before[i++] = last)
        for (int k = self->buckets[i].first; k < self->buckets[i].first + self->buckets[i].members; k++)
            last = finished[self->members[k].slot] + 1 > last ? finished[self->members[k].slot] + 1 : last;
    before[self->n_buckets] = updates;
}

static mx_code copy_back(mx_buckets *self)
{
    const mx_route *route = self->buckets[0].wire.route;
    mx_code code = route->lanes->end(route->lane);
    for (int64_t i = 0; !code && i < self->n_members; i++)
        code = mx_wire_unpack(&self->buckets[self->members[i].bucket].wire, self->members[i].offset,
                              gradient_of(self, &self->members[i]));
    return code;
}

mx_code mx_buckets_stop(void *user, int32_t i)
{
    mx_buckets *self = user;
    bucket *b = i < self->n_buckets ? &self->buckets[i] : NULL;
    mx_mode mode = mx_mode_enter(0, -1);
    mx_code code = b ? MX_OK : copy_back(self);
    for (int k = b ? b->first : 0; b && !code && k < b->first + b->members; k++)
        code = mx_wire_pack(&b->wire, self->members[k].offset, gradient_of(self, &self->members[k]));
    if (b && !code)
        code = mx_wire_launch(&b->wire);
    mx_mode_leave(&mode);
    return code;
}

static mx_touch touch(const mx_array *x, bool written) { return (mx_touch){mx_data(x), mx_bytes(x), written}; }

/* The lane counts as memory: what is in it stays in order. */
int64_t mx_buckets_touches(void *user, int32_t i, mx_touch *spans)
{
    const mx_buckets *self = user;
    const bool back = i == self->n_buckets;
    const int first = back ? 0 : self->buckets[i].first;
    const int members = back ? (int)self->n_members : self->buckets[i].members;
    int64_t n = 0;
    if (!spans)
        return 1 + members + self->n_buckets;
    spans[n++] = (mx_touch){self->buckets[0].wire.route->lane, 1, true};
    for (int k = first; k < first + members; k++)
        spans[n++] = touch(gradient_of(self, &self->members[k]), back);
    for (int b = back ? 0 : i; b < (back ? self->n_buckets : i + 1); b++)
        spans[n++] = touch(self->buckets[b].wire.array, !back);
    return n;
}

void mx_buckets_end_round(mx_buckets *self) { begin_round(self); }

/* ---- making -------------------------------------------------------------------------------------------------------- */

mx_buckets *mx_buckets_new(mx_trainer *trainer)
{
    mx_buckets *self = mx_alloc_zero(sizeof *self);
    if (!self)
        return NULL;
    self->trainer = trainer;
    self->comm = mx_retain(trainer->store->comm);
    pthread_mutex_init(&self->lock, NULL);
    if (mx_ready_listen(gradient_ready, self)) {
        mx_buckets_free(self);
        return NULL;
    }
    return self;
}

static bool in_flight(const mx_buckets *self)
{
    for (int i = 0; i < self->n_buckets; i++) {
        const bucket *b = &self->buckets[i];
        if (b->started && (mx_wire_grouped(&b->wire) || !mx_engine_done(&b->wire.work)))
            return true;
    }
    return false;
}

/* Buckets that another process has not started yet cannot be waited for: their memory stays with the engine. */
void mx_buckets_free(mx_buckets *self)
{
    if (!self)
        return;
    mx_ready_leave(self);
    if (in_flight(self))
        return;
    free_layout(self);
    pthread_mutex_destroy(&self->lock);
    mx_release(self->comm);
    mx_free(self, sizeof *self);
}
