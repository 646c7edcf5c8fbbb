/* Recording profiler events (see profile.h).
 *
 * Events of all threads go into one list under one lock: taking it costs less than what is measured.  Names are stored in
 * a dictionary per domain together with their statistics, so an event is a few numbers and two pointers.
 *
 * Out of memory loses events, never an operator: a failure here sets no error.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "exec/profile.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

#define MOST_EVENTS (4 << 20) /* about 250 MB; later ones are in the statistics only */

_Atomic unsigned mx_profiling;
mx_profile mx_the_profile = {.lock = PTHREAD_MUTEX_INITIALIZER};

double mx_profiler_now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return 1e6 * (double)t.tv_sec + 1e-3 * (double)t.tv_nsec;
}

/* ---- states ----------------------------------------------------------------------------------------------------- */

/* Under the lock: updates the flags of the hooks from the state. */
static void publish(const mx_profile *p)
{
    const unsigned watched = p->watched ? p->watched : MX_PROFILE_CALLS | MX_PROFILE_NODES | MX_PROFILE_OWN;
    atomic_store(&mx_profiling, p->running && !p->paused ? watched : 0);
}

mx_code mx_profiler_configure(const struct mx_profiler_args *args)
{
    if (!args || !args->filename || !*args->filename)
        return mx_fail(MX_ERR_ARGUMENT, "mx_profiler_config: filename is empty, wanted the path of the trace");
    char *filename = mx_strdup(args->filename);
    if (!filename)
        return MX_ERR_MEMORY;
    mx_profile *p = &mx_the_profile;
    pthread_mutex_lock(&p->lock);
    mx_strfree(p->filename);
    p->filename = filename;
    p->watched = MX_PROFILE_OWN | (args->imperative ? MX_PROFILE_CALLS : 0) | (args->symbolic ? MX_PROFILE_NODES : 0) |
                 (args->memory ? MX_PROFILE_MEMORY : 0);
    publish(p);
    pthread_mutex_unlock(&p->lock);
    return MX_OK;
}

void mx_profiler_run(bool on)
{
    mx_profile *p = &mx_the_profile;
    pthread_mutex_lock(&p->lock);
    if (on && p->finished) {
        mx_vec_free(&p->events);
        mx_vec_free(&p->shapes);
        p->dropped = 0;
        p->finished = false;
    }
    p->running = on;
    p->paused = p->paused && !on; /* a new run records, also after pause() */
    publish(p);
    pthread_mutex_unlock(&p->lock);
}

bool mx_profiler_running(void)
{
    pthread_mutex_lock(&mx_the_profile.lock);
    const bool running = mx_the_profile.running;
    pthread_mutex_unlock(&mx_the_profile.lock);
    return running;
}

void mx_profiler_pause(bool paused)
{
    mx_profile *p = &mx_the_profile;
    pthread_mutex_lock(&p->lock);
    p->paused = paused;
    publish(p);
    pthread_mutex_unlock(&p->lock);
}

/* ---- recording, under the lock ----------------------------------------------------------------------------------- */

static mx_profile_domain *find_domain(mx_profile *p, const char *name)
{
    for (mx_profile_domain *d = p->domains; d; d = d->next)
        if (!strcmp(d->name, name))
            return d;
    mx_profile_domain *d = mx_alloc_zero(sizeof *d);
    if (!d || !(d->name = mx_strdup(name))) {
        mx_free(d, sizeof *d);
        return NULL;
    }
    d->next = p->domains;
    return p->domains = d;
}

static mx_dict_entry *find_name(mx_profile_domain *d, const char *name)
{
    mx_dict_entry *entry = mx_dict_place(&d->names, name);
    if (!entry || entry->pointer)
        return entry;
    entry->pointer = mx_alloc_zero(sizeof(mx_statistic));
    return entry->pointer ? entry : NULL; /* the entry without statistics is completed next time */
}

static void count(mx_statistic *s, double value, bool is_counter)
{
    s->least = !s->count || value < s->least ? value : s->least;
    s->most = !s->count || value > s->most ? value : s->most;
    s->total += value;
    s->count++;
    s->is_counter = is_counter;
}

/* Appends the shapes to the list and returns their index; -1: no room. */
static int64_t add_shapes(mx_profile *p, int n, mx_array *const *arrays)
{
    int64_t wanted = 1;
    for (int i = 0; i < n; i++)
        wanted += 1 + (arrays[i] == MX_NONE ? 0 : arrays[i]->ndim);
    if (!mx_vec_reserve(&p->shapes, p->shapes.length + wanted))
        return -1;
    const int64_t begin = p->shapes.length;
    int64_t *to = p->shapes.items + begin;
    *to++ = n;
    for (int i = 0; i < n; i++) {
        const int ndim = arrays[i] == MX_NONE ? -1 : arrays[i]->ndim;
        *to++ = ndim;
        for (int k = 0; k < ndim; k++)
            *to++ = arrays[i]->shape[k];
    }
    p->shapes.length = to - p->shapes.items;
    return begin;
}

static int32_t thread_number(void)
{
    static _Atomic int32_t threads;
    static _Thread_local int32_t own;
    return own ? own : (own = atomic_fetch_add(&threads, 1) + 1);
}

static bool add(mx_profile *p, mx_event event, const char *domain, const char *name, int n, mx_array *const *arrays)
{
    mx_profile_domain *d = find_domain(p, domain);
    mx_dict_entry *entry = d ? find_name(d, name) : NULL;
    if (!entry)
        return false;
    count(entry->pointer, event.value, event.phase == 'C');
    if (p->events.length >= MOST_EVENTS)
        return false;
    event.name = entry->key;
    event.domain = d->name;
    event.thread = thread_number();
    event.shapes = arrays ? add_shapes(p, n, arrays) : -1;
    return mx_vec_push(&p->events, event);
}

static void record(mx_event event, const char *domain, const char *name, int n, mx_array *const *arrays)
{
    mx_profile *p = &mx_the_profile;
    const bool clean = !mx_has_error();
    pthread_mutex_lock(&p->lock);
    if (p->running && !add(p, event, domain, name, n, arrays))
        p->dropped++;
    pthread_mutex_unlock(&p->lock);
    if (clean)
        mx_error_clear();
}

/* ---- events ----------------------------------------------------------------------------------------------------- */

static _Thread_local mx_profile_custom *innermost; /* the user's operator that is running */

/* Part of the time of a user's operator. */
static void record_custom(const mx_profile_custom *custom, double start, double length, const char *what)
{
    char name[256];
    snprintf(name, sizeof name, "%s::%s", custom->name, what);
    record((mx_event){.start = start, .value = length, .phase = 'X'}, "Custom Operator", name, 0, NULL);
}

void mx_profile_custom_enter(mx_profile_custom *custom, const char *prefix, const char *name)
{
    *custom = (mx_profile_custom){innermost, mx_profile_start(MX_PROFILE_CALLS | MX_PROFILE_NODES), 0, {0}};
    snprintf(custom->name, sizeof custom->name, "%s%s", prefix, name);
    innermost = custom;
}

void mx_profile_custom_leave(mx_profile_custom *custom)
{
    innermost = custom->outer;
    if (custom->start == 0)
        return;
    const double length = mx_profiler_now() - custom->start;
    record_custom(custom, custom->start, length > custom->inside ? length - custom->inside : 0, "pure_python");
    if (innermost)
        innermost->inside += length;
}

void mx_profile_call(double start, const char *name, int n_in, mx_array *const *in)
{
    while (n_in && in[n_in - 1] == MX_NONE) /* omitted optional inputs */
        n_in--;
    const double length = mx_profiler_now() - start;
    if (innermost) {
        innermost->inside += length;
        record_custom(innermost, start, length, name);
    } else {
        record((mx_event){.start = start, .value = length, .phase = 'X'}, "operator", name, n_in, in);
    }
    if (mx_profile_watches(MX_PROFILE_MEMORY)) {
        const mx_event sample = {
            .start = mx_profiler_now(), .value = (double)mx_alloc_get_stats().live_bytes, .phase = 'C'};
        record(sample, "Device Storage", "Memory: cpu/0", 0, NULL);
    }
}

static bool wanted(const char *domain, const char *name)
{
    return mx_profile_watches(MX_PROFILE_OWN) && domain && name;
}

void mx_profiler_span(const char *domain, const char *name, double start)
{
    if (wanted(domain, name))
        record((mx_event){.start = start, .value = mx_profiler_now() - start, .phase = 'X'}, domain, name, 0, NULL);
}

void mx_profile_span_between(const char *domain, const char *name, double start, double end)
{
    if (wanted(domain, name))
        record((mx_event){.start = start, .value = end - start, .phase = 'X'}, domain, name, 0, NULL);
}

void mx_profiler_counter(const char *domain, const char *name, double value)
{
    if (wanted(domain, name))
        record((mx_event){.start = mx_profiler_now(), .value = value, .phase = 'C'}, domain, name, 0, NULL);
}

mx_code mx_profiler_marker(const char *domain, const char *name, const char *scope)
{
    static const struct {
        const char *name;
        char letter;
    } scopes[] = {{"process", 'p'}, {"thread", 't'}, {"global", 'g'}, {"task", 't'}, {"marker", 't'}};
    for (size_t i = 0; scope && i < sizeof scopes / sizeof *scopes; i++)
        if (!strcmp(scope, scopes[i].name)) {
            const mx_event event = {.start = mx_profiler_now(), .phase = 'i', .scope = scopes[i].letter};
            if (wanted(domain, name))
                record(event, domain, name, 0, NULL);
            return MX_OK;
        }
    return mx_fail(MX_ERR_ARGUMENT, "marker %s: scope is '%s', wanted process, thread, global, task or marker",
                   name ? name : "", scope ? scope : "NULL");
}
