/* The loader: batches of a data set, prepared by the caller or ahead of time by threads.
 *
 *     order of the epoch:  | batch 0 | batch 1 | batch 2 | ...        (batch i does not depend on the thread)
 *     slots:               [ done ] [ working ] [ free ]              slot = batch % slots
 *
 * Workers take the next batch number whose slot is free; the caller takes batches in order.
 * Invariant (under `lock`): taken <= next_to_make <= taken + slots.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <pthread.h>
#include <string.h>

#include "base/alloc.h"
#include "base/rng.h"
#include "exec/list.h"
#include "gluon/data/data.h"

#define MAX_WORKERS 64
#define MAX_SLOTS 128
#define MAX_COLUMNS 8

typedef struct slot {
    bool ready;
    int64_t n;                     /* arrays; 0: failed */
    mx_array *arrays[MAX_COLUMNS]; /* retained */
    mx_code code;
    char message[256]; /* of the failure */
} slot;

struct mx_loader {
    mx_object object;
    mx_dataset *dataset; /* retained */
    mx_sampler *sampler; /* retained */
    int64_t batch_size;
    mx_last_batch last_batch;
    bool pad; /* examples of different shapes are filled up */
    double pad_value;
    mx_context context;
    int wanted_workers; /* as requested */
    int workers, slots; /* running threads; batches that may wait */

    /* The running epoch; workers only read these. */
    int64_t epoch; /* number of the running or next epoch */
    bool running;
    int64_t *order; /* (examples) leftovers of the last epoch, then this one's */
    int64_t examples, batches;
    int64_t leftover; /* ROLLOVER: examples for the next epoch */
    int64_t *kept;    /* (leftover) */

    pthread_mutex_t lock;
    pthread_cond_t made, wanted;
    pthread_t threads[MAX_WORKERS];
    bool stop;
    int64_t next_to_make, taken; /* batch numbers */
    slot *ring;                  /* (slots) */
};

/* ---- one batch ------------------------------------------------------------------------------------------------------- */

static mx_arrays make_batch(mx_loader *l, int64_t batch)
{
    const int64_t begin = batch * l->batch_size, left = l->examples - begin;
    mx_arrays rows = mx_dataset_gather(l->dataset, l->order + begin, left < l->batch_size ? left : l->batch_size,
                                       l->pad ? &l->pad_value : NULL);
    mx_array **out = rows.n ? mx_list_new(rows.n) : NULL;
    for (int64_t i = 0; out && i < rows.n; i++)
        if (!(out[i] = mx_array_to(rows.v[i], l->context)))
            return mx_list_failed();
    return out ? (mx_arrays){out, rows.n} : mx_list_failed();
}

static void fill_slot(mx_loader *l, slot *s, int64_t batch)
{
    MX_SCOPE;
    mx_arrays made = make_batch(l, batch);
    s->n = 0, s->code = MX_OK;
    if (made.n > MAX_COLUMNS)
        mx_fail(MX_ERR_UNSUPPORTED, "data loader: examples have %lld arrays, at most %d are possible",
                (long long)made.n, MAX_COLUMNS);
    if (mx_has_error()) {
        s->code = mx_error_code();
        strncpy(s->message, mx_error_message(), sizeof s->message - 1);
        mx_error_clear();
        return;
    }
    for (; s->n < made.n; s->n++)
        s->arrays[s->n] = mx_retain(made.v[s->n]);
}

static void empty_slot(slot *s)
{
    for (int64_t i = 0; i < s->n; i++)
        mx_release(s->arrays[i]);
    memset(s, 0, sizeof *s);
}

/* ---- workers ----------------------------------------------------------------------------------------------------------- */

static void *work(void *arg)
{
    mx_loader *l = arg;
    pthread_mutex_lock(&l->lock);
    while (!l->stop) {
        if (l->next_to_make >= l->batches || l->next_to_make >= l->taken + l->slots) {
            pthread_cond_wait(&l->wanted, &l->lock);
            continue;
        }
        const int64_t batch = l->next_to_make++;
        slot *s = &l->ring[batch % l->slots];
        pthread_mutex_unlock(&l->lock);
        fill_slot(l, s, batch);
        pthread_mutex_lock(&l->lock);
        s->ready = true;
        pthread_cond_broadcast(&l->made);
    }
    pthread_mutex_unlock(&l->lock);
    return NULL;
}

static void stop_workers(mx_loader *l)
{
    pthread_mutex_lock(&l->lock);
    l->stop = true;
    pthread_cond_broadcast(&l->wanted);
    pthread_mutex_unlock(&l->lock);
    for (int i = 0; i < l->workers; i++)
        pthread_join(l->threads[i], NULL);
    l->workers = 0;
    for (int i = 0; l->ring && i < l->slots; i++)
        empty_slot(&l->ring[i]);
    l->stop = false;
}

/* If threads cannot be started, the caller prepares the batches itself. */
static void start_workers(mx_loader *l)
{
    l->next_to_make = l->taken = 0;
    for (l->workers = 0; l->workers < l->wanted_workers; l->workers++)
        if (pthread_create(&l->threads[l->workers], NULL, work, l))
            return;
}

/* ---- epochs -------------------------------------------------------------------------------------------------------------- */

static void forget_order(mx_loader *l)
{
    mx_free(l->order, (size_t)l->examples * sizeof *l->order);
    l->order = NULL;
}

static void keep_leftover(mx_loader *l, bool complete)
{
    mx_free(l->kept, (size_t)l->leftover * sizeof *l->kept);
    l->kept = NULL;
    l->leftover = complete && l->last_batch == MX_ROLLOVER ? l->examples % l->batch_size : 0;
    if (!l->leftover)
        return;
    l->kept = mx_alloc((size_t)l->leftover * sizeof *l->kept);
    if (l->kept)
        memcpy(l->kept, l->order + l->examples - l->leftover, (size_t)l->leftover * sizeof *l->kept);
    else
        l->leftover = 0; /* the error is recorded */
}

int64_t mx_batch_count(int64_t examples, int64_t batch_size, mx_last_batch last_batch)
{
    if (batch_size < 1)
        return mx_fail(MX_ERR_ARGUMENT, "mx_batch_count: batch_size is %lld", (long long)batch_size), -1;
    return examples / batch_size + (last_batch == MX_KEEP && examples % batch_size);
}

static int64_t count_batches(const mx_loader *l, int64_t examples)
{
    return mx_batch_count(examples, l->batch_size, l->last_batch);
}

static mx_code begin_epoch(mx_loader *l)
{
    MX_SCOPE;
    const int64_t fresh = mx_sampler_length(l->sampler);
    const int64_t *order = mx_sampler_order(l->sampler, l->epoch);
    if (!order)
        return mx_error_code();
    l->examples = l->leftover + fresh;
    l->order = mx_alloc((size_t)l->examples * sizeof *l->order);
    if (!l->order)
        return mx_error_code();
    if (l->leftover)
        memcpy(l->order, l->kept, (size_t)l->leftover * sizeof *l->order);
    memcpy(l->order + l->leftover, order, (size_t)fresh * sizeof *l->order);
    l->batches = count_batches(l, l->examples);
    l->running = true;
    start_workers(l);
    return MX_OK;
}

/* complete: all batches were taken; otherwise no leftovers go to the next epoch. */
static void end_epoch(mx_loader *l, bool complete)
{
    stop_workers(l);
    keep_leftover(l, complete);
    forget_order(l);
    l->running = false;
    l->epoch++;
}

/* ---- the object ------------------------------------------------------------------------------------------------------------ */

static void destroy(mx_object *object)
{
    mx_loader *l = (mx_loader *)object;
    stop_workers(l);
    forget_order(l);
    mx_free(l->kept, (size_t)l->leftover * sizeof *l->kept);
    mx_free(l->ring, (size_t)l->slots * sizeof *l->ring);
    pthread_mutex_destroy(&l->lock);
    pthread_cond_destroy(&l->made);
    pthread_cond_destroy(&l->wanted);
    mx_release(l->dataset);
    mx_release(l->sampler);
    mx_free(l, sizeof *l);
}
static const mx_kind loader_kind = {"data loader", destroy};

static bool ok(const mx_loader *l, const char *function) { return mx_is_kind(l, &loader_kind, function, "loader"); }

static mx_sampler *sampler_for(const struct mx_loader_args *a)
{
    if (a->sampler) {
        if (!mx_is_kind(a->sampler, &mx_sampler_kind, "mx_data_loader", "sampler"))
            return NULL;
        if (mx_sampler_bound(a->sampler) <= a->dataset->length)
            return a->sampler;
        return mx_fail_null(MX_ERR_ARGUMENT, "mx_data_loader: sampler is for %lld examples, the data set has %lld",
                            (long long)mx_sampler_bound(a->sampler), (long long)a->dataset->length);
    }
    if (!a->shuffle)
        return mx_sequential_sampler(a->dataset->length);
    mx_rng rng = mx_rng_reserve(1);
    return mx_random_sampler(a->dataset->length, a->seed ? a->seed : rng.seed * 0x9E3779B97F4A7C15u + rng.counter + 1);
}

static mx_code check_args(const struct mx_loader_args *a)
{
    if (!mx_is_kind(a->dataset, &mx_dataset_kind, "mx_data_loader", "dataset"))
        return mx_error_code();
    if (a->batch_size < 1)
        return mx_fail(MX_ERR_ARGUMENT, "mx_data_loader: batch_size is %lld, wanted at least 1",
                       (long long)a->batch_size);
    if (a->num_workers < 0 || a->num_workers > MAX_WORKERS || a->prefetch < 0 || a->prefetch > MAX_SLOTS)
        return mx_fail(MX_ERR_ARGUMENT, "mx_data_loader: %d workers, %d batches ahead; wanted 0..%d and 0..%d",
                       a->num_workers, a->prefetch, MAX_WORKERS, MAX_SLOTS);
    if ((int)a->last_batch < MX_KEEP || a->last_batch > MX_ROLLOVER)
        return mx_fail(MX_ERR_ARGUMENT, "mx_data_loader: last_batch is %d, wanted MX_KEEP, MX_DISCARD or MX_ROLLOVER",
                       (int)a->last_batch);
    if (a->sampler && a->shuffle)
        return mx_fail(MX_ERR_ARGUMENT, "mx_data_loader: give a sampler or shuffle, not both");
    return MX_OK;
}

mx_loader *mx_data_loader_make(const struct mx_loader_args *a)
{
    if (!a || check_args(a))
        return NULL;
    mx_sampler *sampler = sampler_for(a);
    mx_loader *l = sampler ? mx_alloc_zero(sizeof *l) : NULL;
    if (!l)
        return NULL;
    mx_object_init(&l->object, &loader_kind);
    pthread_mutex_init(&l->lock, NULL);
    pthread_cond_init(&l->made, NULL);
    pthread_cond_init(&l->wanted, NULL);
    l->dataset = mx_retain(a->dataset), l->sampler = mx_retain(sampler);
    l->batch_size = a->batch_size, l->last_batch = a->last_batch;
    l->pad = a->pad, l->pad_value = a->pad_value;
    l->context = mx_context_resolve(a->context);
    l->wanted_workers = a->num_workers;
    int slots = !a->num_workers ? 0 : a->prefetch ? a->prefetch : 2 * a->num_workers;
    l->slots = slots < a->num_workers ? a->num_workers : slots;
    if (l->slots && !(l->ring = mx_alloc_zero((size_t)l->slots * sizeof *l->ring))) {
        mx_release(l);
        return NULL;
    }
    return mx_scope_add(l);
}

int64_t mx_loader_examples(const mx_loader *loader)
{
    return ok(loader, "mx_loader_examples") ? mx_sampler_length(loader->sampler) : 0;
}
int64_t mx_loader_batches(const mx_loader *loader)
{
    if (!ok(loader, "mx_loader_batches"))
        return 0;
    return loader->running ? loader->batches
                           : count_batches(loader, loader->leftover + mx_sampler_length(loader->sampler));
}

/* ---- taking batches ------------------------------------------------------------------------------------------------------------ */

static mx_arrays take_ready(mx_loader *l)
{
    slot *s = &l->ring[l->taken % l->slots];
    pthread_mutex_lock(&l->lock);
    while (!s->ready)
        pthread_cond_wait(&l->made, &l->lock);
    slot got = *s;
    memset(s, 0, sizeof *s);
    l->taken++;
    pthread_cond_broadcast(&l->wanted);
    pthread_mutex_unlock(&l->lock);
    if (got.code)
        mx_fail(got.code, "%s", got.message);
    mx_array **list = got.n ? mx_list_new(got.n) : NULL;
    for (int64_t i = 0; i < got.n; i++) {
        mx_array *x = mx_scope_add(got.arrays[i]);
        if (list)
            list[i] = x;
    }
    return list ? (mx_arrays){list, got.n} : mx_list_failed();
}

static mx_arrays next_arrays(mx_loader *l)
{
    if (l->workers)
        return take_ready(l);
    return make_batch(l, l->taken++);
}

bool mx_loader_next(mx_loader *loader, mx_batch *batch)
{
    if (!ok(loader, "mx_loader_next") || mx_has_error())
        return false;
    if (!batch)
        return mx_fail(MX_ERR_ARGUMENT, "mx_loader_next: batch is NULL, wanted a pointer"), false;
    if (!loader->running && begin_epoch(loader))
        return false;
    if (loader->taken >= loader->batches)
        return end_epoch(loader, true), false;
    const int64_t index = loader->taken;
    mx_arrays arrays = next_arrays(loader);
    if (!arrays.n || mx_has_error())
        return end_epoch(loader, false), false;
    const int64_t left = loader->examples - index * loader->batch_size;
    *batch = (mx_batch){.data = arrays.v[0], .label = arrays.n > 1 ? arrays.v[1] : NULL, .arrays = arrays, .index = index,
                        .size = left < loader->batch_size ? left : loader->batch_size};
    return true;
}

void mx_loader_restart(mx_loader *loader)
{
    if (ok(loader, "mx_loader_restart") && loader->running)
        end_epoch(loader, false);
}

mx_epoch mx_epoch_begin(mx_loader *loader)
{
    return (mx_epoch){.loader = ok(loader, "mx_for_each_batch") ? mx_keep(loader) : NULL, .scope = mx_scope_open()};
}

bool mx_epoch_next(mx_epoch *epoch, mx_batch *batch)
{
    mx_scope_close(&epoch->scope);
    epoch->scope = mx_scope_open();
    return epoch->loader && mx_loader_next(epoch->loader, batch);
}

void mx_epoch_end(mx_epoch *epoch)
{
    mx_scope_close(&epoch->scope);
    if (epoch->loader && epoch->loader->running)
        mx_loader_restart(epoch->loader); /* the body left the loop early */
    mx_release(epoch->loader);
    epoch->loader = NULL;
}
