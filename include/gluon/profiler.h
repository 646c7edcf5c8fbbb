/* The profiler: what ran, when, for how long, on which thread, on which shapes.
 *
 *     mx_profiler_config(.filename = "lenet.json");
 *     mx_profiler_run(true);
 *     train();
 *     mx_profiler_run(false);
 *     mx_profiler_dump(true);            // for chrome://tracing, Perfetto or speedscope
 *     puts(mx_profiler_table());         // per operator: count, total, minimum, maximum, mean
 *
 * Operators are timed one by one where they are called, and inside of plans.  A program can add its own events, counters
 * and markers.  While it does not run, the profiler costs one test of a variable per operator.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef GLUON_PROFILER_H
#define GLUON_PROFILER_H

#include "gluon/base.h"

struct mx_profiler_args {
    const char *filename; /* where mx_profiler_dump() writes */
    bool imperative;      /* operators that are called one by one */
    bool symbolic;        /* operators inside of plans */
    bool memory;          /* a counter of the memory in use, sampled after each operator that is called */
    char positional_;
};
/* What to profile and where to write; takes effect at once.  Without options: all operators, "profile.json". */
#define mx_profiler_config(...) \
    mx_profiler_configure(&(struct mx_profiler_args){ \
        .filename = "profile.json", .imperative = true, .symbolic = true, .positional_ = 0, __VA_ARGS__})
MX_API mx_code mx_profiler_configure(const struct mx_profiler_args *args);

MX_API void mx_profiler_run(bool on); /* starts or stops profiling */
MX_API bool mx_profiler_running(void);
MX_API void mx_profiler_pause(bool paused); /* excludes a section, until mx_profiler_run(true) at the latest */

/* Writes all events since the beginning as a Chrome trace; the file is replaced atomically.  finished: profiling stops,
 * and the next mx_profiler_run(true) starts a new trace. */
MX_API mx_code mx_profiler_dump(bool finished);

struct mx_profiler_table_args {
    bool reset; /* resets the statistics afterwards */
    bool json;  /* for programs instead of people */
    bool ascending;
    const char *sort_by; /* total, avg, min, max or count */
    char positional_;
};
/* Statistics per name; the text belongs to the scope.  NULL: an option is wrong, or out of memory. */
#define mx_profiler_table(...) \
    mx_profiler_table_make(&(struct mx_profiler_table_args){.sort_by = "total", .positional_ = 0, __VA_ARGS__})
MX_API const char *mx_profiler_table_make(const struct mx_profiler_table_args *args);

/* ---- a program's own events: ignored while the profiler does not run --------------------------------------------- */
MX_API double mx_profiler_now(void); /* microseconds of the clock that events use */
/* A piece of work that began at `start` and ends now. */
MX_API void mx_profiler_span(const char *domain, const char *name, double start);
MX_API void mx_profiler_counter(const char *domain, const char *name, double value);
/* A moment; scope "process", "thread", "global", "task" or "marker" sets how wide viewers draw it. */
MX_API mx_code mx_profiler_marker(const char *domain, const char *name, const char *scope);

#endif
