/* Samplers: the order of the examples in an epoch, a function of (seed, epoch).  SPDX-License-Identifier: Apache-2.0 */
#include "base/alloc.h"
#include "base/rng.h"
#include "gluon/data/data.h"

struct mx_sampler {
    mx_object object;
    enum { SEQUENTIAL, RANDOM, INTERVAL, SPLIT } kind;
    int64_t length;
    uint64_t seed;    /* RANDOM */
    int64_t interval; /* INTERVAL: 0, i, 2i ..., then 1, i + 1 ... if rollover */
    bool rollover;
    mx_sampler *whole; /* SPLIT: what is split; retained; NULL: another kind */
    int64_t parts, part;
    mx_split_rest rest;
};

static void destroy(mx_object *object)
{
    mx_release(((mx_sampler *)object)->whole);
    mx_free(object, sizeof(mx_sampler));
}
const mx_kind mx_sampler_kind = {"sampler", destroy};

static mx_sampler *make(int kind, int64_t length)
{
    if (length < 0)
        return mx_fail_null(MX_ERR_ARGUMENT, "sampler: the length is %lld", (long long)length);
    mx_sampler *s = mx_alloc_zero(sizeof *s);
    if (!s)
        return NULL;
    mx_object_init(&s->object, &mx_sampler_kind);
    s->kind = kind;
    s->length = length;
    return mx_scope_add(s);
}

mx_sampler *mx_sequential_sampler(int64_t length) { return make(SEQUENTIAL, length); }

mx_sampler *mx_random_sampler(int64_t length, uint64_t seed)
{
    mx_sampler *s = make(RANDOM, length);
    if (s)
        s->seed = seed;
    return s;
}

mx_sampler *mx_interval_sampler(int64_t length, int64_t interval, bool rollover)
{
    if (interval < 1 || interval > length)
        return mx_fail_null(MX_ERR_ARGUMENT, "mx_interval_sampler: the interval %lld is not in 1..%lld",
                            (long long)interval, (long long)length);
    mx_sampler *s = make(INTERVAL, length);
    if (s)
        s->interval = interval, s->rollover = rollover;
    return s;
}

mx_sampler *mx_split_sampler(mx_sampler *whole, int64_t parts, int64_t part, mx_split_rest rest)
{
    if (!mx_is_kind(whole, &mx_sampler_kind, "mx_split_sampler", "sampler"))
        return NULL;
    if (parts < 1 || part < 0 || part >= parts)
        return mx_fail_null(MX_ERR_ARGUMENT, "mx_split_sampler: there is no part %lld of %lld", (long long)part,
                            (long long)parts);
    mx_sampler *s = make(SPLIT, whole->length);
    if (s)
        s->whole = mx_retain(whole), s->parts = parts, s->part = part, s->rest = rest;
    return s;
}

static int64_t order_length(const mx_sampler *s)
{
    if (s->kind == SPLIT) {
        const int64_t all = order_length(s->whole);
        return s->rest == MX_SPLIT_DISCARD ? all / s->parts
               : s->rest == MX_SPLIT_PAD   ? (all + s->parts - 1) / s->parts
                                           : all / s->parts + (s->part < all % s->parts);
    }
    return s->kind == INTERVAL && !s->rollover ? (s->length + s->interval - 1) / s->interval : s->length;
}

int64_t mx_sampler_bound(const mx_sampler *sampler) { return sampler->length; }

int64_t mx_sampler_length(const mx_sampler *sampler)
{
    return mx_is_kind(sampler, &mx_sampler_kind, "mx_sampler_length", "sampler") ? order_length(sampler) : 0;
}

/* Fisher-Yates with counter-based numbers: the order depends on seed and epoch only. */
static void shuffle(int64_t *order, int64_t n, uint64_t seed, uint64_t epoch)
{
    for (int64_t i = n - 1; i > 0; i--) {
        uint32_t words[4];
        mx_philox(seed, (epoch << 40) + (uint64_t)i, words);
        const uint64_t random = (uint64_t)words[0] << 32 | words[1];
        const int64_t j = (int64_t)(random % (uint64_t)(i + 1)), kept = order[i];
        order[i] = order[j];
        order[j] = kept;
    }
}

static void fill(const mx_sampler *s, int64_t *order, int64_t n, int64_t epoch)
{
    int64_t at = 0;
    for (int64_t start = 0; s->kind == INTERVAL && start < s->interval && at < n; start++)
        for (int64_t i = start; i < s->length && at < n; i += s->interval)
            order[at++] = i;
    for (int64_t i = 0; s->kind != INTERVAL && i < n; i++)
        order[i] = i;
    if (s->kind == RANDOM)
        shuffle(order, n, s->seed, (uint64_t)epoch);
}

/* All processes compute the same whole order. */
static mx_code fill_part(const mx_sampler *s, int64_t *order, int64_t n, int64_t epoch)
{
    MX_SCOPE;
    const int64_t all = order_length(s->whole);
    const int64_t *whole = mx_sampler_order(s->whole, epoch);
    for (int64_t i = 0; whole && i < n; i++)
        order[i] = whole[(i * s->parts + s->part) % all];
    return whole ? MX_OK : mx_error_code();
}

typedef struct order_object {
    mx_object object;
    int64_t n;
    int64_t order[];
} order_object;

static void destroy_order(mx_object *object)
{
    mx_free(object, sizeof(order_object) + (size_t)((order_object *)object)->n * sizeof(int64_t));
}
static const mx_kind order_kind = {"order", destroy_order};

const int64_t *mx_sampler_order(mx_sampler *sampler, int64_t epoch)
{
    if (!mx_is_kind(sampler, &mx_sampler_kind, "mx_sampler_order", "sampler"))
        return NULL;
    const int64_t n = order_length(sampler);
    order_object *o = mx_alloc(sizeof *o + (size_t)n * sizeof(int64_t));
    if (!o)
        return NULL;
    mx_object_init(&o->object, &order_kind);
    o->n = n;
    if (sampler->kind != SPLIT)
        fill(sampler, o->order, n, epoch);
    else if (fill_part(sampler, o->order, n, epoch))
        return mx_release(o), NULL;
    o = mx_scope_add(o);
    return o ? o->order : NULL;
}
