/* Internals of the profiler: hooks for code that runs operators, and the events for code that writes them.
 *
 *     const double start = mx_profile_start(MX_PROFILE_CALLS);      // 0: off
 *     ... run ...
 *     mx_profile_end(start, op->name, n_in, in);
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef MX_EXEC_PROFILE_H
#define MX_EXEC_PROFILE_H

#include <pthread.h>
#include <stdatomic.h>

#include "base/dict.h"
#include "base/vec.h"
#include "gluon/profiler.h"
#include "ndarray/array.h"

enum {
    MX_PROFILE_CALLS = 1,  /* operators called one by one */
    MX_PROFILE_NODES = 2,  /* operators of plans */
    MX_PROFILE_MEMORY = 4, /* memory in use */
    MX_PROFILE_OWN = 8,    /* events of the program */
};
extern _Atomic unsigned mx_profiling; /* which of them are active now; 0: the profiler is off or paused */

static inline bool mx_profile_watches(unsigned what)
{
    return __builtin_expect(atomic_load_explicit(&mx_profiling, memory_order_relaxed) & what, 0) != 0;
}
static inline double mx_profile_start(unsigned what) { return mx_profile_watches(what) ? mx_profiler_now() : 0; }

void mx_profile_call(double start, const char *name, int n_in, mx_array *const *in);
static inline void mx_profile_end(double start, const char *name, int n_in, mx_array *const *in)
{
    if (__builtin_expect(start != 0, 0))
        mx_profile_call(start, name, n_in, in);
}

/* Work that someone else has done, in microseconds of mx_profiler_now(); an event of the program. */
void mx_profile_span_between(const char *domain, const char *name, double start, double end);

/* While a user's operator runs, what it calls counts in the group "Custom Operator" as NAME::operator, and the rest of its
 * time as NAME::pure_python.
 *
 *     mx_profile_custom custom;
 *     mx_profile_custom_enter(&custom, "_backward_", op_type);
 *     ... the user's code ...
 *     mx_profile_custom_leave(&custom); */
typedef struct mx_profile_custom {
    struct mx_profile_custom *outer; /* of the same thread; NULL: none */
    double start;                    /* 0: the profiler is off */
    double inside;                   /* microseconds of the operators that it called */
    char name[128];
} mx_profile_custom;
void mx_profile_custom_enter(mx_profile_custom *custom, const char *prefix, const char *name);
void mx_profile_custom_leave(mx_profile_custom *custom);

/* ---- what was recorded ------------------------------------------------------------------------------------------- */
typedef struct mx_statistic {
    int64_t count;
    double total, least, most; /* microseconds, or the counter's unit */
    bool is_counter;
} mx_statistic;

typedef struct mx_profile_domain {
    struct mx_profile_domain *next;
    char *name;    /* owned; "operator" for operators */
    mx_dict names; /* -> mx_statistic, owned; the keys are never freed */
} mx_profile_domain;

typedef struct mx_event {
    const char *name;    /* a key of the domain's dictionary */
    const char *domain;  /* its name */
    double start, value; /* microseconds; duration, or value of a counter */
    int64_t shapes;      /* index in `shapes`: number of arrays, then rank and dims of each; -1: none */
    int32_t thread;      /* numbered from 1 in the order of their first event */
    char phase;          /* as in the trace: X work, C counter, i marker */
    char scope;          /* of a marker: g p t */
} mx_event;

typedef struct mx_profile {
    pthread_mutex_t lock;       /* guards everything below */
    mx_profile_domain *domains; /* the newest first */
    MX_VEC(mx_event) events;    /* in the order of their ends */
    MX_VEC(int64_t) shapes;
    int64_t dropped;  /* events without room; the statistics include them */
    char *filename;   /* owned; NULL: "profile.json" */
    unsigned watched; /* MX_PROFILE_... as configured; 0: never configured */
    bool running, paused, finished;
} mx_profile;
extern mx_profile mx_the_profile;

#endif
