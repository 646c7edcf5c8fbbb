/* LayerNorm, InstanceNorm, GroupNorm: rows that are read once and stay in cache while they are normalised.
 *
 * Rows are split into chunks of fixed size; sums over rows are taken per chunk and added in order, so results do
 * not depend on the number of threads.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <string.h>

#include "base/scratch.h"
#include "base/threads.h"
#include "cpu/kernels/loss/rows.h"
#include "cpu/kernels/movement/stream.h"
#include "cpu/kernels/widen.h"
#include "gluon/op.gen.h"

#define PIECE 4096 /* elements that are summed in the element type before the sum is added in double */
#define CHUNK 8192 /* elements in a chunk, at least */
#define CHUNKS 64  /* chunks, at most */
#define STREAM_ROW 4096 /* elements of a row, at most, whose result is computed in the first-level cache and streamed out */

typedef struct row_job {
    const void *data, *ograd, *gamma, *beta;
    void *out, *mean, *std; /* mean, std: (rows) */
    void *gamma_grad, *beta_grad;
    void *buffers;                 /* (chunks, buffer) elements */
    double *sums;                  /* (rows, 2) of groups */
    int64_t rows, n, step;         /* values of a row are `step` apart */
    int64_t groups;                /* parameters belong to row % groups; 0: to the values */
    int64_t chunk, chunks, buffer; /* rows per chunk, chunks, elements per chunk's buffer */
    double eps;
    bool stream; /* results are too large for the caches: written past them */
} row_job;

#define T float
#define NAME(x) x##_f
#include "cpu/kernels/norm/layer_norm_body.h"
#undef T
#undef NAME
#define T double
#define NAME(x) x##_d
#include "cpu/kernels/norm/layer_norm_body.h"
#undef T
#undef NAME

static void cut(row_job *job)
{
    job->chunk = 1 + CHUNK / (job->n + 1);
    if (job->rows / job->chunk >= CHUNKS)
        job->chunk = job->rows / CHUNKS + 1;
    job->chunks = (job->rows + job->chunk - 1) / job->chunk;
}

static void as_axis(row_job *job, const mx_array *data, int64_t axis)
{
    const int at = mx_axis(axis, data->ndim);
    job->n = data->shape[at], job->rows = job->step = 1;
    for (int i = 0; i < data->ndim; i++)
        job->rows *= i == at ? 1 : data->shape[i];
    for (int i = at + 1; i < data->ndim; i++)
        job->step *= data->shape[i];
    cut(job);
}

static void as_groups(row_job *job, const mx_array *data, int64_t groups)
{
    job->rows = data->shape[0] * groups, job->groups = groups, job->step = 1;
    job->n = job->rows ? data->size / job->rows : 0;
    cut(job);
}

static mx_code forward(row_job *job, const mx_kernel_call *call)
{
    const mx_dtype dtype = (mx_dtype)call->in[0]->dtype;
    job->data = mx_data(call->in[0]), job->gamma = mx_data(call->in[1]), job->beta = mx_data(call->in[2]);
    job->out = mx_data(call->out[0]), job->mean = mx_data(call->out[1]), job->std = mx_data(call->out[2]);
    job->buffer = job->step == 1 ? 0 : job->n;
    job->stream = job->step == 1 && job->n <= STREAM_ROW && job->data != job->out &&
                  (int64_t)mx_bytes(call->out[0]) >= MX_STREAM_BYTES;
    const size_t bytes = (size_t)(job->chunks * job->buffer * mx_dtype_size(dtype));
    if (bytes && !(job->buffers = mx_scratch_take(bytes)))
        return MX_ERR_MEMORY;
    mx_parallel(job->chunks, 1 + MX_GRAIN / 2 / (job->chunk * job->n + 1), dtype == MX_FLOAT32 ? forward_f : forward_d,
                job);
    mx_scratch_give(job->buffers, bytes);
    return MX_OK;
}

static mx_code backward(row_job *job, const mx_kernel_call *call)
{
    const mx_dtype dtype = (mx_dtype)call->in[1]->dtype;
    job->ograd = mx_data(call->in[0]), job->data = mx_data(call->in[1]), job->gamma = mx_data(call->in[2]);
    job->mean = mx_data(call->in[3]), job->std = mx_data(call->in[4]);
    job->out = mx_data(call->out[0]), job->gamma_grad = mx_data(call->out[1]), job->beta_grad = mx_data(call->out[2]);
    job->buffer = job->groups ? 0 : job->step == 1 ? 2 * job->n : 5 * job->n;
    const size_t bytes = (size_t)(job->chunks * job->buffer * mx_dtype_size(dtype));
    const size_t sum_bytes = job->groups ? (size_t)job->rows * 2 * sizeof *job->sums : 0;
    if (bytes)
        job->buffers = mx_scratch_take(bytes);
    if (sum_bytes)
        job->sums = mx_scratch_take(sum_bytes);
    const bool ok = (!bytes || job->buffers) && (!sum_bytes || job->sums);
    if (ok) {
        mx_parallel(job->chunks, 1 + MX_GRAIN / 2 / (job->chunk * job->n + 1),
                    dtype == MX_FLOAT32 ? backward_f : backward_d, job);
        (dtype == MX_FLOAT32 ? finish_f : finish_d)(job);
    }
    mx_scratch_give(job->buffers, bytes);
    mx_scratch_give(job->sums, sum_bytes);
    return ok ? MX_OK : MX_ERR_MEMORY;
}

static mx_code run_layer(const mx_kernel_call *call)
{
    const mx_layer_norm_attrs *attrs = call->attrs;
    const mx_dtype compute = mx_compute_type(call);
    if (!mx_inputs_are(call, compute, 0))
        return MX_DECLINED;
    row_job job = {.eps = attrs->eps};
    as_axis(&job, call->in[0], attrs->axis);
    return forward(&job, call);
}

static mx_code run_instance(const mx_kernel_call *call)
{
    const mx_instance_norm_attrs *attrs = call->attrs;
    const mx_dtype compute = mx_compute_type(call);
    if (!mx_inputs_are(call, compute, 0))
        return MX_DECLINED;
    row_job job = {.eps = attrs->eps};
    as_groups(&job, call->in[0], call->in[0]->shape[1]);
    return forward(&job, call);
}

static mx_code run_group(const mx_kernel_call *call)
{
    const mx_group_norm_attrs *attrs = call->attrs;
    const mx_dtype compute = mx_compute_type(call);
    if (!mx_inputs_are(call, compute, 0))
        return MX_DECLINED;
    row_job job = {.eps = attrs->eps};
    as_groups(&job, call->in[0], attrs->num_groups);
    return forward(&job, call);
}

static mx_code run_layer_backward(const mx_kernel_call *call)
{
    const mx_dtype compute = mx_compute_type(call);
    if (!mx_inputs_are(call, compute, 0))
        return MX_DECLINED;
    row_job job = {0};
    as_axis(&job, call->in[1], ((const mx_layer_norm_attrs *)call->attrs)->axis);
    return backward(&job, call);
}

/* For programs made for other devices: the addition follows. */
static mx_code run_layer_backward_add(const mx_kernel_call *call)
{
    const mx_code code = run_layer_backward(call);
    const void *addend = mx_data(call->in[5]);
    void *sum = mx_data(call->out[0]);
    for (int64_t i = 0; !code && i < call->out[0]->size; i++)
        if (call->out[0]->dtype == MX_FLOAT32)
            ((float *)sum)[i] += ((const float *)addend)[i];
        else
            ((double *)sum)[i] += ((const double *)addend)[i];
    return code;
}

static mx_code run_group_backward(const mx_kernel_call *call)
{
    const mx_dtype compute = mx_compute_type(call);
    if (!mx_inputs_are(call, compute, 0))
        return MX_DECLINED;
    row_job job = {0};
    as_groups(&job, call->in[1], ((const mx_group_norm_attrs *)call->attrs)->num_groups);
    return backward(&job, call);
}

MX_CPU_KERNELS(layer_norm) = {{"LayerNorm", run_layer, NULL, MX_KERNEL_WIDEN},
                              {"InstanceNorm", run_instance, NULL, MX_KERNEL_WIDEN},
                              {"GroupNorm", run_group, NULL, MX_KERNEL_WIDEN},
                              {"_backward_LayerNorm", run_layer_backward, NULL, MX_KERNEL_WIDEN},
                              {"_backward_layer_norm_add", run_layer_backward_add, NULL, MX_KERNEL_WIDEN},
                              {"_backward_GroupNorm", run_group_backward, NULL, MX_KERNEL_WIDEN},
                              {NULL, NULL, NULL}};
