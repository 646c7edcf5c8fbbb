/* Which gradient lies where in the buckets.
 *
 *     members, in the order in which backward finishes them:  [ g9 g8 g7 | g6 | g5 ... g0 ]   one bucket after the other
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>

#include "base/alloc.h"
#include "base/flags.h"
#include "gluon/train/buckets_parts.h"

bool mx_bucket_takes(const mx_trainer_slot *slot)
{
    return mx_slot_learns(slot) && slot->parameter->count && !slot->parameter->deferred &&
           slot->parameter->grad_stype == MX_STYPE_DEFAULT;
}

mx_array *mx_bucket_gradient(const mx_buckets *self, const mx_bucket_member *m)
{
    return mx_gradient(self->trainer->slots[m->slot].parameter->data[0]);
}

void mx_buckets_free_layout(mx_buckets *self)
{
    for (int i = 0; i < self->n_buckets; i++)
        mx_wire_close(&self->buckets[i].wire);
    mx_free(self->agreed, (size_t)(self->n_members + self->n_buckets));
    mx_free(self->before, (size_t)(self->n_buckets + 1) * sizeof *self->before);
    mx_free(self->by_pointer, (size_t)self->n_members * sizeof *self->by_pointer);
    mx_free(self->members, (size_t)self->n_members * sizeof *self->members);
    mx_free(self->buckets, (size_t)self->n_members * sizeof *self->buckets);
    self->agreed = NULL, self->before = NULL, self->by_pointer = NULL, self->members = NULL, self->buckets = NULL;
    self->n_members = self->n_buckets = self->started = 0;
}

static int by_finish(const void *a, const void *b)
{
    const mx_bucket_member *x = a, *y = b;
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
        mx_bucket_member *m = &self->members[i];
        const mx_dtype wire = wire_of(self, m->dtype);
        const int64_t size = m->size * mx_dtype_size(wire);
        mx_bucket *b = self->n_buckets ? &self->buckets[self->n_buckets - 1] : NULL;
        if (!b || b->dtype != wire || (limit > 0 && bytes + size > limit)) {
            b = &self->buckets[self->n_buckets++];
            *b = (mx_bucket){.dtype = wire, .first = (int)i};
            bytes = 0;
        }
        m->bucket = self->n_buckets - 1;
        m->offset = b->count;
        b->count += m->size;
        b->members++;
        bytes += size;
    }
    for (int i = 0; i < self->n_buckets; i++) {
        mx_bucket *b = &self->buckets[i];
        const mx_context context = mx_bucket_gradient(self, &self->members[b->first])->context;
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

mx_code mx_buckets_lay_out(mx_buckets *self, const int64_t *order)
{
    const mx_trainer *t = self->trainer;
    int64_t n = 0;
    for (int64_t i = 0; i < t->count; i++)
        n += mx_bucket_takes(&t->slots[i]);
    mx_buckets_free_layout(self);
    if (!n)
        return MX_OK;
    self->members = mx_alloc_zero((size_t)n * sizeof *self->members);
    self->buckets = mx_alloc_zero((size_t)n * sizeof *self->buckets);
    self->by_pointer = mx_alloc_zero((size_t)n * sizeof *self->by_pointer);
    self->n_members = n;
    if (!self->members || !self->buckets || !self->by_pointer)
        return mx_error_code();
    self->early = mx_flags_get()->bucket_kb > 0 && self->bad_rounds < MX_BUCKETS_TOO_OFTEN;
    n = 0;
    for (int64_t i = 0; i < t->count; i++) {
        if (!mx_bucket_takes(&t->slots[i]))
            continue;
        const mx_array *gradient = mx_gradient(t->slots[i].parameter->data[0]);
        self->members[n++] = (mx_bucket_member){.slot = i, .size = gradient->size, .dtype = (mx_dtype)gradient->dtype,
                                      .gradient = gradient, .finish = order ? order[i] : -1};
        self->early &= t->slots[i].parameter->count == 1;
    }
    if (n)
        qsort(self->members, (size_t)n, sizeof *self->members, by_finish);
    sort_pointers(self);
    if (divide_members(self))
        return mx_error_code();
    self->agreed = mx_alloc_zero((size_t)(self->n_members + self->n_buckets));
    self->before = mx_alloc_zero((size_t)(self->n_buckets + 1) * sizeof *self->before);
    return self->agreed && self->before ? MX_OK : mx_error_code();
}

bool mx_buckets_fit(mx_buckets *self)
{
    int64_t n = 0;
    bool moved = false;
    for (int64_t i = 0; i < self->trainer->count; i++)
        n += mx_bucket_takes(&self->trainer->slots[i]);
    if (n != self->n_members)
        return false;
    for (int64_t i = 0; i < n; i++) {
        mx_bucket_member *m = &self->members[i];
        if (!mx_bucket_takes(&self->trainer->slots[m->slot]))
            return false;
        const mx_array *gradient = mx_bucket_gradient(self, m);
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
