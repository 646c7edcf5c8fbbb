/* Correlation on the CPU: pads the maps, then loops over rows of patches.
 *
 * In forward a thread handles some displacements, in backward some planes: threads never write to the same elements.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "op/formula/correlation.h"

#include <math.h>
#include <string.h>

#include "base/alloc.h"
#include "base/interrupt.h"
#include "base/threads.h"
#include "cpu/kernels/widen.h"
#include "gluon/op.gen.h"

typedef struct correlation_job { /* of one image */
    mx_correlation_sizes c;
    int64_t high, wide;   /* of a padded plane */
    const void *from[2];  /* data1, data2 (C, H, W) */
    void *padded[2];      /* (C, high, wide) */
    void *out;            /* (grid * grid, rows, columns) */
    const void *g;        /* backward: the gradient of `out` */
    void *to[2], *sum[2]; /* gradients; with padding */
    bool multiply;
} correlation_job;

#define PRODUCTS_AT_ONCE (1 << 20) /* between two questions whether to stop */

#define T float
#define NAME(x) x##_f
#define ABSOLUTE fabsf
#include "cpu/kernels/conv/correlation_body.h"
#undef T
#undef NAME
#undef ABSOLUTE
#define T double
#define NAME(x) x##_d
#define ABSOLUTE fabs
#include "cpu/kernels/conv/correlation_body.h"
#undef T
#undef NAME
#undef ABSOLUTE

static char *image(const mx_array *x, int64_t n, size_t item)
{
    return (char *)mx_data(x) + (size_t)(n * (x->size / x->shape[0])) * item;
}

/* Runs over the images; `back`: inputs are (g, data1, data2). */
static void run_images(const mx_kernel_call *call, correlation_job *job, size_t item, bool back)
{
    const mx_correlation_sizes *c = &job->c;
    const int64_t planes = c->channels, each = c->kernel * c->kernel * c->rows * c->columns, moves = c->grid * c->grid;
    const bool single = item == 4;
    for (int64_t n = 0; n < call->in[0]->shape[0]; n++) {
        for (int k = 0; k < 2; k++) {
            job->from[k] = image(call->in[k + back], n, item);
            job->to[k] = back ? image(call->out[k], n, item) : NULL;
        }
        job->g = back ? image(call->in[0], n, item) : NULL;
        job->out = back ? NULL : image(call->out[0], n, item);
        mx_parallel(2 * planes, 1 + MX_GRAIN / (job->high * job->wide + 1), single ? pad_planes_f : pad_planes_d, job);
        if (back)
            mx_parallel(planes, 1 + MX_GRAIN / (each * moves + 1), single ? backward_f : backward_d, job);
        else
            mx_parallel(moves * c->rows, 1 + MX_GRAIN / (each / c->rows * planes + 1), single ? forward_f : forward_d,
                        job);
    }
}

static mx_code run(const mx_kernel_call *call, bool back)
{
    const mx_correlation_attrs *p = call->attrs;
    const mx_dtype compute = mx_compute_type(call);
    if (!mx_inputs_are(call, compute, 0))
        return MX_DECLINED;
    const size_t item = (size_t)mx_dtype_size(compute);
    correlation_job job = {.c = mx_correlation_of(p->kernel_size, p->max_displacement, p->stride1, p->stride2, p->pad_size, call->in[back]->shape),
                           .multiply = p->is_multiply};
    job.high = job.c.height + 2 * job.c.pad, job.wide = job.c.width + 2 * job.c.pad;
    const double bytes = (back ? 4. : 2.) * (double)job.c.channels * (double)job.high * (double)job.wide * (double)item;
    const size_t all = bytes < 1e15 ? (size_t)bytes : (size_t)1 << 50, quarter = all / (back ? 4 : 2);
    char *block = mx_alloc(all);
    if (!block)
        return mx_error_code();
    for (int k = 0; k < 2; k++)
        job.padded[k] = block + (size_t)k * quarter, job.sum[k] = back ? block + (size_t)(k + 2) * quarter : NULL;
    run_images(call, &job, item, back);
    mx_free(block, all);
    return MX_OK;
}
static mx_code run_forward(const mx_kernel_call *call) { return run(call, false); }
static mx_code run_backward(const mx_kernel_call *call) { return run(call, true); }

MX_CPU_KERNELS(correlation) = {
    {"Correlation", run_forward, NULL, MX_KERNEL_WIDEN}, {"_backward_Correlation", run_backward, NULL, MX_KERNEL_WIDEN}, {NULL, NULL, NULL}};
