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
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/flags.h"
#include "exec/profile.h"
#include "exec/ready.h"
#include "gluon/train/buckets_parts.h"
#include "gluon/train/sums.h"

/* ---- packing ------------------------------------------------------------------------------------------------------- */

static mx_code pack(mx_buckets *self, mx_bucket_member *m, mx_array *gradient, bool fresh)
{
    mx_bucket *b = &self->buckets[m->bucket];
    if (fresh ? mx_wire_pack(&b->wire, m->offset, gradient) : mx_wire_pack_zeros(&b->wire, m->offset, m->size))
        return mx_error_code();
    b->packed += !m->packed;
    m->packed = true;
    return MX_OK;
}

static mx_code start(mx_buckets *self, mx_bucket *b)
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

static mx_bucket_member *find(const mx_buckets *self, const mx_array *gradient)
{
    int64_t low = 0, high = self->n_members;
    while (low < high) {
        const int64_t middle = (low + high) / 2;
        mx_bucket_member *m = &self->members[self->by_pointer[middle]];
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
    mx_bucket_member *m = find(self, gradient);
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

/* ---- the step ------------------------------------------------------------------------------------------------------ */

static bool fresh(const mx_buckets *self, const mx_bucket_member *m)
{
    return mx_trainer_any_fresh(self->trainer->slots[m->slot].parameter);
}

static bool is_outdated(const mx_buckets *self, const mx_bucket_member *m)
{
    const mx_array *gradient = mx_bucket_gradient(self, m);
    return m->outdated || !m->stamp || mx_array_stamp(gradient) != m->stamp || !fresh(self, m);
}

/* Contexts of this process first: every copy gets their sum. */
static mx_code sum_contexts(mx_buckets *self, const mx_bucket_member *m)
{
    mx_array *parts[MX_MAX_CONTEXTS];
    const mx_parameter *p = self->trainer->slots[m->slot].parameter;
    for (int i = 0; i < p->count; i++)
        parts[i] = mx_gradient(p->data[i]);
    return p->count > 1 ? mx_sum_everywhere(&self->trainer->slots[m->slot].sum, p->count, parts) : MX_OK;
}

static mx_code pack_now(mx_buckets *self, mx_bucket_member *m)
{
    if (sum_contexts(self, m) || pack(self, m, mx_bucket_gradient(self, m), fresh(self, m)))
        return mx_error_code();
    m->stamp = 0;
    return MX_OK;
}

/* What was not sent early. */
static mx_code start_rest(mx_buckets *self)
{
    mx_code code = MX_OK;
    for (int64_t i = 0; !self->has_agreed && i < self->n_members; i++) {
        const mx_bucket_member *m = &self->members[i];
        self->agreed[i] = fresh(self, m);
        if (m->packed && is_outdated(self, m))
            self->agreed[self->n_members + m->bucket] = 1;
    }
    for (int64_t i = 0; !code && i < self->n_members; i++) {
        mx_bucket_member *m = &self->members[i];
        if (!m->packed)
            code = pack_now(self, m);
        if (!code)
            code = start_full(self);
    }
    return code;
}

mx_code mx_buckets_start_agreement(mx_buckets *self)
{
    self->agreement.what = (mx_exchange){.kind = MX_EXCHANGE_ALL_REDUCE, .channel = mx_comm_channel(self->comm),
                                         .from = self->agreed, .to = self->agreed,
                                         .count = self->n_members + self->n_buckets, .dtype = MX_UINT8, .how = MX_MAX};
    return mx_engine_begin(&self->agreement);
}

/* The contents of this bucket changed after it was sent, here or elsewhere. */
static mx_code send_again(mx_buckets *self, mx_bucket *b)
{
    for (int i = b->first; i < b->first + b->members; i++)
        if (pack_now(self, &self->members[i]))
            return mx_error_code();
    return start(self, b);
}

static mx_code write_back(mx_buckets *self, int64_t i)
{
    const mx_bucket_member *m = &self->members[i];
    const mx_parameter *p = self->trainer->slots[m->slot].parameter;
    for (int k = 0; k < p->count; k++) {
        mx_array *gradient = mx_gradient(p->data[k]);
        const uint8_t written = gradient->written;
        if (mx_wire_unpack(&self->buckets[m->bucket].wire, m->offset, gradient))
            return mx_error_code();
        gradient->written = self->agreed[i] && !written ? 1 : written;
    }
    return MX_OK;
}

/* For the profiler: when buckets were under way, and how long the step waited for them. */
static void show_times(const mx_buckets *self, double waited_from)
{
    char name[64];
    for (int i = 0; i < self->n_buckets; i++) {
        const mx_bucket *b = &self->buckets[i];
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
    if (self->bad_rounds >= MX_BUCKETS_TOO_OFTEN)
        self->early = false;
    return code;
}

void mx_buckets_begin_round(mx_buckets *self)
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
        code = mx_buckets_lay_out(self, order);
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
    return code ? code : mx_buckets_lay_out(self, NULL);
}

static mx_code exchange(mx_buckets *self)
{
    if (!mx_buckets_fit(self) && renew_layout(self))
        return mx_error_code();
    if (!self->n_members)
        return MX_OK;
    mx_code code = start_rest(self);
    if (!code && !self->has_agreed)
        code = mx_buckets_start_agreement(self);
    if (!code)
        code = collect(self);
    if (!code && self->early && !self->ordered)
        code = take_order(self);
    mx_buckets_begin_round(self);
    return code;
}

mx_code mx_buckets_exchange(mx_buckets *self)
{
    pthread_mutex_lock(&self->lock);
    const mx_code code = exchange(self);
    pthread_mutex_unlock(&self->lock);
    return code;
}

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
        const mx_bucket *b = &self->buckets[i];
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
    mx_buckets_free_layout(self);
    pthread_mutex_destroy(&self->lock);
    mx_release(self->comm);
    mx_free(self, sizeof *self);
}
