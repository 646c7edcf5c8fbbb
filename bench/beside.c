/* A call timed against a memory copy (see beside.h).  SPDX-License-Identifier: Apache-2.0 */
#include "beside.h"

#include <stdint.h>
#include <string.h>

#include "base/threads.h"
#include "gluon/array.h"
#include "machine.h"

enum { COPY_BYTES = 128 << 20 };

typedef struct copy {
    char *to;
    const char *from;
} copy;

static void copy_range(void *arg, int64_t begin, int64_t end)
{
    const copy *c = arg;
    memcpy(c->to + begin, c->from + begin, (size_t)(end - begin));
}
static void copy_all(void *arg) { mx_parallel(COPY_BYTES, MX_GRAIN, copy_range, arg); }

static double time_once(void (*body)(void *arg), void *arg, double best)
{
    const double begin = machine_seconds();
    body(arg);
    const double took = machine_seconds() - begin;
    return took < best ? took : best;
}

bool beside_copy(void (*body)(void *arg), void *arg, double seconds, beside *result)
{
    MX_SCOPE;
    /* arrays like those of the operators, so that both see the same kind of pages */
    mx_array *to = mx_empty(MX_DIMS(COPY_BYTES), MX_UINT8, mx_cpu(0));
    mx_array *from = mx_empty(MX_DIMS(COPY_BYTES), MX_UINT8, mx_cpu(0));
    if (!to || !from || mx_array_fill(from, 1) || mx_array_fill(to, 0))
        return false;
    copy c = {mx_array_data(to), mx_array_data(from)};
    double call = 1e9, copying = 1e9;
    const double end = machine_seconds() + seconds;
    do {
        call = time_once(body, arg, call);
        copying = time_once(copy_all, &c, copying);
    } while (machine_seconds() < end);
    *result = (beside){call, 2.0 * COPY_BYTES / copying * 1e-9};
    return true;
}
