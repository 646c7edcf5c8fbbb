/* Filling arrays with one value.  SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "base/threads.h"
#include "cpu/kernel.h"
#include "cpu/kernels/level.h"
#include "gluon/op.gen.h"
#include "ndarray/convert.h"

typedef struct fill_job {
    char *data;
    size_t item;            /* bytes of one element */
    unsigned char value[8]; /* the element */
} fill_job;

/* Writes the first element, then copies the written part, which doubles each time. */
static void fill_range(void *arg, int64_t begin, int64_t end)
{
    const fill_job *job = arg;
    char *to = job->data + (size_t)begin * job->item;
    const size_t bytes = (size_t)(end - begin) * job->item;
    if (!bytes)
        return;
    memcpy(to, job->value, job->item);
    for (size_t done = job->item; done < bytes;) {
        size_t more = done < bytes - done ? done : bytes - done;
        more = more < 4096 ? more : 4096;
        memcpy(to + done, to, more);
        done += more;
    }
}

static mx_code run_fill(const mx_kernel_call *call)
{
    mx_array *out = call->out[0];
    const double value = call->op->user ? *(const double *)call->op->user : ((const mx_full_attrs *)call->attrs)->value;
    fill_job job = {mx_data(out), (size_t)mx_dtype_size((mx_dtype)out->dtype), {0}};
    mx_convert(job.value, (mx_dtype)out->dtype, &value, MX_FLOAT64, 1);
    if (value == 0 && out->size < MX_GRAIN)
        memset(job.data, 0, mx_bytes(out));
    else
        mx_parallel(out->size, MX_GRAIN, fill_range, &job);
    return MX_OK;
}

MX_CPU_KERNELS(fill) = {{"_zeros", run_fill, NULL},     {"_ones", run_fill, NULL},     {"_full", run_fill, NULL},
                        {"zeros_like", run_fill, NULL}, {"ones_like", run_fill, NULL}, {NULL, NULL, NULL}};
