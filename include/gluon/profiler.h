/* The profiler: what ran, when, for how long, on which thread, on which shapes.
 *
 *     mx_profiler_config(.filename = "lenet.json");
 *     mx_profiler_run(true);
 *     train();
 *     mx_profiler_run(false);
 *     mx_profiler_dump(true);            // for chrome://tracing, Perfetto or speedscope
 *     puts(mx_profiler_table());         // per operator: count, total, least, most, mean
 *
 * Operators are watched one by one where they are called, and inside of plans.  A program's own pieces of work,
 * counters and markers stand beside them.  While it does not run, the profiler costs a look at one variable per
 * operator.
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
/* What to watch and where to write; takes effect at once.  Without options: all operators, "profile.json". */
#define mx_profiler_config(...) \
    mx_profiler_configure(&(struct mx_profiler_args){ \
        .filename = "profile.json", .imperative = true, .symbolic = true, .positional_ = 0, __VA_ARGS__})
MX_API mx_code mx_profiler_configure(const struct mx_profiler_args *args);

MX_API void mx_profiler_run(bool on); /* begins or ends recording */
MX_API bool mx_profiler_running(void);
MX_API void mx_profiler_pause(bool paused); /* leaves out a stretch; survives mx_profiler_run() */

/* Writes all events since the beginning as a Chrome trace; the file is replaced as a whole.  finished: recording ends,
 * and the next mx_profiler_run(true) begins a new trace. */
MX_API mx_code mx_profiler_dump(bool finished);

struct mx_profiler_table_args {
    bool reset; /* the statistics begin anew afterwards */
    bool json;  /* for programs instead of people */
    bool ascending;
    const char *sort_by; /* total, avg, min, max or count */
    char positional_;
};
/* Statistics per name; the text belongs to the scope.  NULL: an option is wrong, or no memory. */
#define mx_profiler_table(...) \
    mx_profiler_table_make(&(struct mx_profiler_table_args){.sort_by = "total", .positional_ = 0, __VA_ARGS__})
MX_API const char *mx_profiler_table_make(const struct mx_profiler_table_args *args);

/* ---- a program's own events: ignored while the profiler does not run --------------------------------------------- */
MX_API double mx_profiler_now(void); /* microseconds of the clock that events use */
/* A piece of work that began at `start` and ends now. */
MX_API void mx_profiler_span(const char *domain, const char *name, double start);
MX_API void mx_profiler_counter(const char *domain, const char *name, double value);
/* A moment; scope "process", "thread", "global", "task" or "marker" says how wide viewers draw it. */
MX_API mx_code mx_profiler_marker(const char *domain, const char *name, const char *scope);

#endif
