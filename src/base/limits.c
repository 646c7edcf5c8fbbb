/* Limits on what files may need (see gluon/limits.h).  SPDX-License-Identifier: Apache-2.0 */
#include "gluon/limits.h"

#include <pthread.h>
#include <stdatomic.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/flags.h"

#define DEEPEST 1000 /* the parser of JSON is recursive */

static _Atomic int64_t depth, nodes, pixels, memory;
static pthread_once_t once = PTHREAD_ONCE_INIT;

static mx_code store(mx_limits l)
{
    if (l.depth < 1 || l.depth > DEEPEST || l.nodes < 1 || l.pixels < 1 || l.memory < 0)
        return mx_fail(MX_ERR_ARGUMENT,
                       "limits: depth is %lld, nodes %lld, pixels %lld, memory %lld; wanted a depth of 1 to %d, "
                       "at least one node and one pixel, and memory of 0 (no limit) or more bytes",
                       (long long)l.depth, (long long)l.nodes, (long long)l.pixels, (long long)l.memory, DEEPEST);
    atomic_store(&depth, l.depth);
    atomic_store(&nodes, l.nodes);
    atomic_store(&pixels, l.pixels);
    atomic_store(&memory, l.memory);
    mx_alloc_set_total((size_t)l.memory);
    return MX_OK;
}

static int64_t between(int64_t low, int64_t value, int64_t high)
{
    return value < low ? low : value > high ? high : value;
}

/* Variables out of range give the nearest limit: a wrong setting must not switch a limit off. */
static void read_flags(void)
{
    const mx_flags *f = mx_flags_get();
    store((mx_limits){.depth = between(1, f->limit_depth, DEEPEST),
                      .nodes = between(1, f->limit_nodes, INT64_MAX),
                      .pixels = between(1, f->limit_pixels, INT64_MAX),
                      .memory = between(0, f->limit_memory_mb, INT64_MAX >> 20) << 20});
}

mx_limits mx_limits_get(void)
{
    pthread_once(&once, read_flags);
    return (mx_limits){atomic_load(&depth), atomic_load(&nodes), atomic_load(&pixels), atomic_load(&memory)};
}

mx_code mx_limits_set(mx_limits limits)
{
    pthread_once(&once, read_flags);
    return store(limits);
}
