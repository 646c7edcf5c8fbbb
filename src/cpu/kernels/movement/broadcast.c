/* Broadcasting by element size: the output consists of runs that are copies, or one repeated element.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "base/threads.h"
#include "cpu/kernel.h"
#include "cpu/kernels/level.h"
#include "op/walk.h"

/* Axes that behave alike are merged; a step of 0 repeats. */
typedef struct broadcast_job {
    const char *in;
    char *out;
    int64_t item; /* bytes */
    int ndim;
    int64_t dim[MX_MAX_NDIM], step[MX_MAX_NDIM];
} broadcast_job;

#define REPEAT(type)                                    \
    {                                                   \
        type value, *p = (type *)(void *)to;            \
        memcpy(&value, from, sizeof value);             \
        for (int64_t i = 0; i < n; i++)                 \
            p[i] = value;                               \
    }

static void repeat_element(char *to, const char *from, int64_t item, int64_t n)
{
    switch (item) {
    case 1: memset(to, *from, (size_t)n); break;
    case 2: REPEAT(uint16_t) break;
    case 4: REPEAT(uint32_t) break;
    default: REPEAT(uint64_t) break;
    }
}

static void broadcast_part(void *arg, int64_t begin, int64_t end)
{
    const broadcast_job *j = arg;
    const int last = j->ndim - 1;
    int64_t position[MX_MAX_NDIM], offset = 0;
    for (int64_t axis = last, rest = begin; axis >= 0; rest /= j->dim[axis], axis--) {
        position[axis] = rest % j->dim[axis];
        offset += position[axis] * j->step[axis];
    }
    while (begin < end) {
        const int64_t left = j->dim[last] - position[last], n = left < end - begin ? left : end - begin;
        char *to = j->out + begin * j->item;
        if (j->step[last])
            memcpy(to, j->in + offset * j->item, (size_t)(n * j->item));
        else
            repeat_element(to, j->in + offset * j->item, j->item, n);
        begin += n;
        position[last] += n;
        offset += n * j->step[last];
        for (int axis = last; axis > 0 && position[axis] == j->dim[axis]; axis--) {
            offset += j->step[axis - 1] - j->dim[axis] * j->step[axis];
            position[axis] = 0;
            position[axis - 1]++;
        }
    }
}

static void add_axis(broadcast_job *j, int64_t dim, int64_t step)
{
    const int last = j->ndim - 1;
    if (j->ndim && j->step[last] == dim * step) { /* both advance together, or both repeat */
        j->dim[last] *= dim;
        j->step[last] = step;
        return;
    }
    j->dim[j->ndim] = dim;
    j->step[j->ndim++] = step;
}

static mx_code run_broadcast(const mx_kernel_call *call)
{
    const mx_array *in = call->in[0], *out = call->out[0];
    broadcast_job j = {mx_data(in), mx_data(out), mx_dtype_size((mx_dtype)out->dtype), 0, {0}, {0}};
    int64_t step[MX_MAX_NDIM];
    if (!out->size)
        return MX_OK;
    mx_broadcast_steps(in, out, step);
    for (int axis = 0; axis < out->ndim; axis++)
        if (out->shape[axis] != 1)
            add_axis(&j, out->shape[axis], step[axis]);
    if (!j.ndim)
        add_axis(&j, 1, 0);
    mx_parallel(out->size, MX_GRAIN, broadcast_part, &j);
    return MX_OK;
}

MX_CPU_KERNELS(broadcast) = {{"broadcast_to", run_broadcast, NULL},   {"broadcast_axis", run_broadcast, NULL},
                             {"broadcast_like", run_broadcast, NULL}, {"_broadcast_to", run_broadcast, NULL},
                             {NULL, NULL, NULL}};
