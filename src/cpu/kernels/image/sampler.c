/* GridGenerator, BilinearSampler and SpatialTransformer on the CPU (bodies in sampler_body.h).
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "base/interrupt.h"
#include "base/threads.h"
#include "cpu/kernels/widen.h"
#include "gluon/op.gen.h"
#include "op/formula/sampler.h"

typedef struct sampler_job {
    const void *data, *grid, *ograd; /* (N, C, H, W), (N, 2, places), (N, C, places) */
    void *out, *ddata, *dgrid;
    int64_t batch, channels, height, width, places;
} sampler_job;

typedef struct grid_job {
    const void *in;
    void *out;
    int64_t height, width;
    bool warp;
    double pixel[2]; /* one pixel across and down */
} grid_job;

#define T float
#define NAME(x) x##_f
#include "cpu/kernels/image/sampler_body.h"
#undef T
#undef NAME
#define T double
#define NAME(x) x##_d
#include "cpu/kernels/image/sampler_body.h"
#undef T
#undef NAME

#define ACCEPT()                                \
    const mx_dtype compute = mx_compute_type(call); \
    if (!mx_inputs_are(call, compute, 0))           \
        return MX_DECLINED

static grid_job grid_of(const mx_array *in, mx_array *out, const mx_array *grid, bool warp)
{
    grid_job job = {mx_data(in), mx_data(out), grid->shape[2], grid->shape[3], warp, {0, 0}};
    job.pixel[0] = mx_grid_pixel(job.width), job.pixel[1] = mx_grid_pixel(job.height);
    return job;
}

static void make_grid(mx_dtype compute, const mx_array *in, mx_array *out, bool warp)
{
    grid_job job = grid_of(in, out, out, warp);
    mx_parallel(out->shape[0] * 2 * job.height, 1 + MX_GRAIN / (4 * job.width + 1),
                compute == MX_FLOAT32 ? grid_rows_f : grid_rows_d, &job);
}

static mx_code run_grid(const mx_kernel_call *call)
{
    const mx_grid_generator_attrs *p = call->attrs;
    ACCEPT();
    make_grid(compute, call->in[0], call->out[0], p->transform_type == MX_GRID_GENERATOR_WARP);
    return MX_OK;
}

static mx_code run_grid_backward(const mx_kernel_call *call)
{
    const mx_grid_generator_attrs *p = call->attrs;
    ACCEPT();
    grid_job job = grid_of(call->in[0], call->out[0], call->in[0], p->transform_type == MX_GRID_GENERATOR_WARP);
    mx_parallel(call->in[0]->shape[0] * 2, 1 + MX_GRAIN / (4 * job.width * job.height + 1),
                compute == MX_FLOAT32 ? grid_back_f : grid_back_d, &job);
    return MX_OK;
}

static sampler_job job_of(const mx_array *data, const mx_array *grid)
{
    return (sampler_job){.data = mx_data(data), .grid = mx_data(grid), .batch = data->shape[0], .channels = data->shape[1],
                         .height = data->shape[2], .width = data->shape[3], .places = grid->shape[2] * grid->shape[3]};
}

static mx_code sample(mx_dtype compute, const mx_array *data, const mx_array *grid, mx_array *out)
{
    sampler_job job = job_of(data, grid);
    job.out = mx_data(out);
    if (!data->size)
        memset(job.out, 0, mx_bytes(out));
    else
        mx_parallel(job.batch * job.places, 1 + MX_GRAIN / (8 * job.channels + 32),
                    compute == MX_FLOAT32 ? sample_places_f : sample_places_d, &job);
    return MX_OK;
}

static mx_code run_sampler(const mx_kernel_call *call)
{
    ACCEPT();
    return sample(compute, call->in[0], call->in[1], call->out[0]);
}

static mx_code run_sampler_backward(const mx_kernel_call *call)
{
    ACCEPT();
    sampler_job job = job_of(call->in[1], call->in[2]);
    job.ograd = mx_data(call->in[0]), job.ddata = mx_data(call->out[0]), job.dgrid = mx_data(call->out[1]);
    if (!call->in[1]->size)
        memset(job.dgrid, 0, mx_bytes(call->out[1]));
    else
        mx_parallel(job.batch, 1 + MX_GRAIN / (8 * job.channels * job.places + 1),
                    compute == MX_FLOAT32 ? sample_images_back_f : sample_images_back_d, &job);
    return MX_OK;
}

static mx_code run_transformer(const mx_kernel_call *call)
{
    ACCEPT();
    make_grid(compute, call->in[1], call->out[1], false);
    return sample(compute, call->in[0], call->out[1], call->out[0]);
}

MX_CPU_KERNELS(sampler) = {{"GridGenerator", run_grid, NULL, MX_KERNEL_WIDEN},
                           {"_backward_GridGenerator", run_grid_backward, NULL, MX_KERNEL_WIDEN},
                           {"BilinearSampler", run_sampler, NULL, MX_KERNEL_WIDEN},
                           {"_backward_BilinearSampler", run_sampler_backward, NULL, MX_KERNEL_WIDEN},
                           {"SpatialTransformer", run_transformer, NULL, MX_KERNEL_WIDEN},
                           {NULL, NULL, NULL}};
