/* Writing the profiler's events: a Chrome trace, and tables (see profile.h).
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "base/json.h"
#include "exec/profile.h"

/* ---- the trace --------------------------------------------------------------------------------------------------- */

/* "(64, 1, 28, 28) (6, 1, 5, 5) None" */
static void write_shapes(mx_text *out, const int64_t *at)
{
    int64_t n = *at++;
    mx_text_add(out, ", \"args\": {\"shapes\": \"");
    for (int64_t i = 0; i < n; i++) {
        const int64_t ndim = *at++;
        mx_text_add(out, i ? " " : "");
        mx_text_add(out, ndim < 0 ? "None" : "(");
        for (int64_t k = 0; k < ndim; k++)
            mx_text_print(out, "%s%lld", k ? ", " : "", (long long)*at++);
        mx_text_add(out, ndim < 0 ? "" : ndim == 1 ? ",)" : ")");
    }
    mx_text_add(out, "\"}");
}

static void write_event(mx_text *out, const mx_profile *p, const mx_event *e)
{
    mx_text_add(out, "{\"name\": ");
    mx_json_write_text(out, e->name);
    mx_text_add(out, ", \"cat\": ");
    mx_json_write_text(out, e->domain);
    mx_text_print(out, ", \"ph\": \"%c\", \"ts\": %.3f, \"pid\": %d, \"tid\": %d", e->phase, e->start, (int)getpid(),
                  e->thread);
    if (e->phase == 'X')
        mx_text_print(out, ", \"dur\": %.3f", e->value);
    if (e->phase == 'i')
        mx_text_print(out, ", \"s\": \"%c\"", e->scope);
    if (e->phase == 'C') {
        mx_text_add(out, ", \"args\": {");
        mx_json_write_text(out, e->name);
        mx_text_add(out, ": ");
        mx_json_write_number(out, e->value);
        mx_text_add(out, "}");
    }
    if (e->shapes >= 0)
        write_shapes(out, p->shapes.items + e->shapes);
    mx_text_add(out, "}");
}

static void put(mx_writer *writer, mx_text *text)
{
    const char *words = mx_text_get(text);
    if (words)
        mx_writer_put(writer, words, text->length);
    else
        writer->failed = true;
    mx_text_clear(text);
}

static void write_trace(mx_writer *writer, const mx_profile *p)
{
    mx_text text = {0};
    mx_text_add(&text, "{\"traceEvents\": [\n{\"name\": \"process_name\", \"ph\": \"M\", ");
    mx_text_print(&text, "\"pid\": %d, \"args\": {\"name\": \"gluon\"}}", (int)getpid());
    for (int64_t i = 0; i < p->events.length; i++) {
        mx_text_add(&text, ",\n");
        write_event(&text, p, &p->events.items[i]);
        put(writer, &text);
    }
    mx_text_print(&text, "\n],\n\"displayTimeUnit\": \"ms\",\n\"otherData\": {\"dropped\": %lld}}\n",
                  (long long)p->dropped);
    put(writer, &text);
    mx_text_free(&text);
}

mx_code mx_profiler_dump(bool finished)
{
    mx_profile *p = &mx_the_profile;
    if (finished)
        mx_profiler_run(false);
    pthread_mutex_lock(&p->lock);
    const char *path = p->filename ? p->filename : "profile.json";
    mx_writer writer;
    bool done = mx_writer_open(&writer, path);
    if (done) {
        write_trace(&writer, p);
        done = mx_writer_commit(&writer);
    }
    p->finished |= done && finished;
    pthread_mutex_unlock(&p->lock);
    return done ? MX_OK : mx_error_code();
}

/* ---- tables ------------------------------------------------------------------------------------------------------ */

static double by_total(const mx_statistic *s) { return s->total; }
static double by_mean(const mx_statistic *s) { return s->count ? s->total / (double)s->count : 0; }
static double by_least(const mx_statistic *s) { return s->least; }
static double by_most(const mx_statistic *s) { return s->most; }
static double by_count(const mx_statistic *s) { return (double)s->count; }

static const struct {
    const char *name;
    double (*key)(const mx_statistic *);
} orders[] = {{"total", by_total}, {"avg", by_mean}, {"min", by_least}, {"max", by_most}, {"count", by_count}};

typedef struct line {
    const char *name;
    const mx_statistic *statistic;
    double key; /* smaller ones come first */
} line;

static int compare(const void *a, const void *b)
{
    const line *x = a, *y = b;
    return x->key < y->key ? -1 : x->key > y->key ? 1 : strcmp(x->name, y->name);
}

/* One kind of numbers in one unit: times in ms, memory in kB, other counters unscaled. */
typedef struct section {
    const char *title;
    bool counters;
    double scale;
    const char *columns[4]; /* total, least, most, mean; total NULL: not shown */
} section;

static section section_of(const mx_profile_domain *d, bool counters)
{
    if (!counters)
        return (section){"Time", false, 1e-3, {"Time (ms)", "Min Time (ms)", "Max Time (ms)", "Avg Time (ms)"}};
    if (!strcmp(d->name, "Device Storage"))
        return (section){"Memory", true, 1e-3, {NULL, "Min Use (kB)", "Max Use (kB)", "Avg Use (kB)"}};
    return (section){"Counter", true, 1, {NULL, "Min Value", "Max Value", "Avg Value"}};
}

/* Sorted lines of a domain; the caller frees (names.length) of them.  NULL with *n 0: nothing to show. */
static line *sorted_lines(const mx_profile_domain *d, const section *s, int order, bool ascending, int64_t *n)
{
    *n = 0;
    line *lines = d->names.length ? mx_alloc((size_t)d->names.length * sizeof *lines) : NULL;
    for (int64_t i = 0; lines && i < d->names.length; i++) {
        const mx_statistic *statistic = d->names.entries[i].pointer;
        if (!statistic || !statistic->count || statistic->is_counter != s->counters)
            continue;
        const double key = orders[order].key(statistic);
        lines[(*n)++] = (line){d->names.entries[i].key, statistic, ascending ? key : -key};
    }
    if (*n)
        qsort(lines, (size_t)*n, sizeof *lines, compare);
    return lines;
}

static void print_lines(mx_text *out, const mx_profile_domain *d, const section *s, const line *lines, int64_t n)
{
    mx_text_print(out, "%s\n=================\n%-32s %12s", d->name, "Name", "Total Count");
    for (int k = 0; k < 4; k++)
        if (s->columns[k])
            mx_text_print(out, " %16s", s->columns[k]);
    mx_text_print(out, "\n%-32s %12s", "----", "-----------");
    for (int k = 0; k < 4; k++)
        if (s->columns[k])
            mx_text_print(out, " %16.*s", (int)strlen(s->columns[k]), "----------------");
    for (int64_t i = 0; i < n; i++) {
        const mx_statistic *x = lines[i].statistic;
        mx_text_print(out, "\n%-32s %12lld", lines[i].name, (long long)x->count);
        if (s->columns[0])
            mx_text_print(out, " %16.4f", s->scale * x->total);
        mx_text_print(out, " %16.4f %16.4f %16.4f", s->scale * x->least, s->scale * x->most, s->scale * by_mean(x));
    }
    mx_text_add(out, "\n\n");
}

static void print_json(mx_text *out, const mx_profile_domain *d, const section *s, const line *lines, int64_t n)
{
    mx_json_write_text(out, d->name);
    mx_text_add(out, ": {");
    for (int64_t i = 0; i < n; i++) {
        const mx_statistic *x = lines[i].statistic;
        mx_text_add(out, i ? ", " : "");
        mx_json_write_text(out, lines[i].name);
        mx_text_print(out, ": {\"Count\": %lld", (long long)x->count);
        if (!s->counters)
            mx_text_print(out, ", \"Total\": %.4f", s->scale * x->total);
        mx_text_print(out, ", \"Min\": %.4f, \"Max\": %.4f, \"Avg\": %.4f}", s->scale * x->least, s->scale * x->most,
                      s->scale * by_mean(x));
    }
    mx_text_add(out, "}");
}

/* All domains of one section; JSON gets them as members of an object. */
static void print_section(mx_text *out, const char *title, bool counters, int order,
                          const struct mx_profiler_table_args *args)
{
    bool first = true;
    if (args->json)
        mx_text_print(out, "\"%s\": {", title);
    for (const mx_profile_domain *d = mx_the_profile.domains; d; d = d->next) {
        const section s = section_of(d, counters);
        int64_t n = 0;
        line *lines = strcmp(s.title, title) ? NULL : sorted_lines(d, &s, order, args->ascending, &n);
        if (n && args->json && !first)
            mx_text_add(out, ", ");
        if (n)
            (args->json ? print_json : print_lines)(out, d, &s, lines, n);
        first = first && !n;
        if (lines)
            mx_free(lines, (size_t)d->names.length * sizeof *lines);
    }
    mx_text_add(out, args->json ? "}, " : "");
}

static void reset_statistics(void)
{
    for (mx_profile_domain *d = mx_the_profile.domains; d; d = d->next)
        for (int64_t i = 0; i < d->names.length; i++)
            if (d->names.entries[i].pointer)
                *(mx_statistic *)d->names.entries[i].pointer = (mx_statistic){0};
}

const char *mx_profiler_table_make(const struct mx_profiler_table_args *args)
{
    int order = 0, count = sizeof orders / sizeof *orders;
    while (args && args->sort_by && order < count && strcmp(orders[order].name, args->sort_by))
        order++;
    if (!args || !args->sort_by || order == count) {
        mx_fail(MX_ERR_ARGUMENT, "mx_profiler_table: sort_by is '%s', wanted total, avg, min, max or count",
                args && args->sort_by ? args->sort_by : "NULL");
        return NULL;
    }
    mx_text text = {0};
    pthread_mutex_lock(&mx_the_profile.lock);
    mx_text_add(&text, args->json ? "{" : "\nProfile Statistics:\n\n");
    print_section(&text, "Time", false, order, args);
    print_section(&text, "Memory", true, order, args);
    print_section(&text, "Counter", true, order, args);
    mx_text_add(&text, args->json ? "\"Unit\": {\"Time\": \"ms\", \"Memory\": \"kB\"}}\n" : "");
    if (args->reset)
        reset_statistics();
    pthread_mutex_unlock(&mx_the_profile.lock);
    const char *result = mx_text_to_scope(&text);
    mx_text_free(&text);
    return result;
}
