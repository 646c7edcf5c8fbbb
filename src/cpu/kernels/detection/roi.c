/* Pooling of regions on the CPU (bodies in roi_body.h).  SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/threads.h"
#include "cpu/kernels/widen.h"
#include "gluon/op.gen.h"
#include "op/formula/roi.h"

typedef struct roi_job {
    mx_roi s;
    const void *data,
        *rois; /* (N, channels, H, W) or, backwards, the gradient (R, channels, rows, columns); (R, numbers) */
    void *out;
    int32_t *index; /* ROIPooling: place of the largest value in its map, -1: none */
    bool backward;
} roi_job;

/* Row r of the regions in doubles. */
static void read_region(const roi_job *job, bool single, int64_t r, double *roi)
{
    const int n = mx_roi_numbers(&job->s);
    for (int k = 0; k < n; k++)
        roi[k] = single ? (double)((const float *)job->rois)[n * r + k] : ((const double *)job->rois)[n * r + k];
}

#define T float
#define NAME(x) x##_f
#include "cpu/kernels/detection/roi_body.h"
#undef T
#undef NAME
#define T double
#define NAME(x) x##_d
#include "cpu/kernels/detection/roi_body.h"
#undef T
#undef NAME

static int64_t channel_grain(const roi_job *job)
{
    return 1 + MX_GRAIN / (4 * job->s.regions * job->s.rows * job->s.columns + 1);
}

/* ---- ROIPooling ------------------------------------------------------------------------------------------------- */

static mx_code run_pooling(const mx_kernel_call *call)
{
    const mx_roi_pooling_attrs *p = call->attrs;
    const mx_dtype compute = mx_compute_type(call);
    if (!mx_inputs_are(call, compute, 0))
        return MX_DECLINED;
    const int64_t *data = call->in[0]->shape, *out = call->out[0]->shape;
    roi_job job = {.data = mx_data(call->in[0]), .rois = mx_data(call->in[1]), .out = mx_data(call->out[0]), .index = mx_data(call->out[1]),
                   .s.batch = data[0], .s.channels = data[1], .s.height = data[2], .s.width = data[3], .s.regions = out[0], .s.rows = out[2],
                   .s.columns = out[3], .s.scale = p->spatial_scale};
    mx_parallel(job.s.channels, channel_grain(&job), compute == MX_FLOAT32 ? pool_channels_f : pool_channels_d, &job);
    return MX_OK;
}

static mx_code run_pooling_backward(const mx_kernel_call *call)
{
    const mx_dtype compute = mx_compute_type(call);
    if (!mx_inputs_are(call, compute, 4))
        return MX_DECLINED;
    const int64_t *g = call->in[0]->shape, *data = call->out[0]->shape;
    roi_job job = {.data = mx_data(call->in[0]), .rois = mx_data(call->in[1]), .out = mx_data(call->out[0]), .index = mx_data(call->in[2]),
                   .s.batch = data[0], .s.channels = data[1], .s.height = data[2], .s.width = data[3], .s.regions = g[0], .s.rows = g[2], .s.columns = g[3]};
    mx_parallel(job.s.channels, channel_grain(&job),
                compute == MX_FLOAT32 ? pool_channels_back_f : pool_channels_back_d, &job);
    return MX_OK;
}

/* ---- ROIAlign ------------------------------------------------------------------------------------------------- */

/* Fills taps bin after bin; first[b] is where bin b begins. */
static void fill_taps(const roi_job *job, const mx_roi_grid *grid, mx_roi_tap *taps, int64_t *first)
{
    int64_t count = 0;
    for (int64_t b = 0; b < job->s.rows * job->s.columns; b++) {
        first[b] = count;
        for (int64_t i = 0; i < grid->down; i++)
            for (int64_t j = 0; j < grid->across; j++)
                count += mx_roi_sample(&job->s, grid, b, i, j, &taps[count]);
    }
    first[job->s.rows * job->s.columns] = count;
}

typedef struct region_job {
    const roi_job *job;
    int64_t region;
    const mx_roi_tap *taps;
    const int64_t *first;
} region_job;
static void region_f(void *arg, int64_t begin, int64_t end)
{
    const region_job *j = arg;
    align_region_f(j->job, j->region, j->taps, j->first, begin, end);
}
static void region_d(void *arg, int64_t begin, int64_t end)
{
    const region_job *j = arg;
    align_region_d(j->job, j->region, j->taps, j->first, begin, end);
}

static mx_code align(const mx_kernel_call *call, const roi_job *job, mx_dtype compute)
{
    const int64_t bins = job->s.rows * job->s.columns;
    const size_t item = (size_t)mx_dtype_size(compute);
    if (mx_bytes(call->out[0]))
        memset(mx_data(call->out[0]), 0, mx_bytes(call->out[0]));
    for (int64_t r = 0; r < job->s.regions; r++) {
        double roi[6];
        read_region(job, item == 4, r, roi);
        if (!mx_roi_exists(&job->s, roi[0]))
            continue;
        const mx_roi_grid grid = mx_roi_grid_of(&job->s, roi);
        const double taps = (double)bins * (double)grid.down * (double)grid.across;
        const size_t bytes = (size_t)(bins + 1) * sizeof(int64_t) + (size_t)taps * sizeof(mx_roi_tap);
        if (taps > 1e9)
            return mx_op_fail(call->op, MX_ERR_ARGUMENT, "region %lld needs too many samples", (long long)r);
        int64_t *first = mx_alloc(bytes);
        if (!first)
            return mx_error_code();
        region_job region = {job, r, (const mx_roi_tap *)(first + bins + 1), first};
        fill_taps(job, &grid, (mx_roi_tap *)(first + bins + 1), first);
        mx_parallel(job->s.channels, 1 + MX_GRAIN / (4 * first[bins] + 1), item == 4 ? region_f : region_d, &region);
        mx_free(first, bytes);
    }
    return MX_OK;
}

static mx_code run_align(const mx_kernel_call *call)
{
    const mx_roi_align_attrs *p = call->attrs;
    const mx_dtype compute = mx_compute_type(call);
    if (!mx_inputs_are(call, compute, 0))
        return MX_DECLINED;
    const int64_t *data = call->in[0]->shape, *out = call->out[0]->shape;
    const roi_job job = {.data = mx_data(call->in[0]), .rois = mx_data(call->in[1]), .out = mx_data(call->out[0]), .s.batch = data[0],
                         .s.channels = out[1], .s.height = data[2], .s.width = data[3], .s.regions = out[0], .s.rows = out[2], .s.columns = out[3],
                         .s.scale = p->spatial_scale, .s.samples = p->sample_ratio, .s.sensitive = p->position_sensitive, .s.aligned = p->aligned};
    return align(call, &job, compute);
}

static mx_code run_align_backward(const mx_kernel_call *call)
{
    const mx_roi_align_backward_attrs *p = call->attrs;
    const mx_dtype compute = mx_compute_type(call);
    if (!mx_inputs_are(call, compute, 0))
        return MX_DECLINED;
    const int64_t *g = call->in[0]->shape, *data = call->out[0]->shape;
    const roi_job job = {.data = mx_data(call->in[0]), .rois = mx_data(call->in[1]), .out = mx_data(call->out[0]), .s.batch = data[0],
                         .s.channels = g[1], .s.height = data[2], .s.width = data[3], .s.regions = g[0], .s.rows = g[2], .s.columns = g[3],
                         .s.scale = p->spatial_scale, .s.samples = p->sample_ratio, .s.sensitive = p->position_sensitive, .s.aligned = p->aligned,
                         .backward = true};
    return align(call, &job, compute);
}

/* Both directions: `back` has the shape of the data as an attribute. */
static mx_code run_rotated(const mx_kernel_call *call)
{
    const mx_rroi_align_backward_attrs *p = call->attrs; /* the forward's attributes stand at its front */
    const bool back = !strcmp(call->op->name, "_backward__contrib_RROIAlign");
    const mx_dtype compute = mx_compute_type(call);
    if (!mx_inputs_are(call, compute, 0))
        return MX_DECLINED;
    const int64_t *data = (back ? call->out[0] : call->in[0])->shape,
                  *bins = (back ? call->in[0] : call->out[0])->shape;
    const roi_job job = {.data = mx_data(call->in[0]), .rois = mx_data(call->in[1]), .out = mx_data(call->out[0]), .s.batch = data[0],
                         .s.channels = bins[1], .s.height = data[2], .s.width = data[3], .s.regions = bins[0], .s.rows = bins[2], .s.columns = bins[3],
                         .s.scale = p->spatial_scale, .s.samples = p->sampling_ratio, .backward = back, .s.rotated = true};
    return align(call, &job, compute);
}

/* ---- mrcnn_mask_target: ROIAlign of one plane per region, the same for all classes ---------------------------- */

typedef struct mask_job {
    mx_roi roi;                /* rows, columns, height, width, samples, aligned; regions: per image */
    const void *rois;          /* (B * regions, 4) */
    const void *masks;         /* (B, planes, height, width) */
    const void *match, *label; /* (B * regions) */
    void *target, *one_hot;    /* (B * regions, classes, rows, columns) */
    int64_t planes, classes;
    bool single;
} mask_job;

static double element(const mask_job *job, const void *from, int64_t i)
{
    return job->single ? (double)((const float *)from)[i] : ((const double *)from)[i];
}
static void set_element(const mask_job *job, void *to, int64_t i, double value)
{
    if (job->single)
        ((float *)to)[i] = (float)value;
    else
        ((double *)to)[i] = value;
}

static mx_roi_grid mask_grid(const mask_job *job, int64_t r)
{
    double roi[6] = {0};
    for (int k = 0; k < 4; k++)
        roi[k + 1] = element(job, job->rois, 4 * r + k);
    return mx_roi_grid_of(&job->roi, roi);
}

static double mask_bin(const mask_job *job, const mx_roi_grid *grid, int64_t plane, int64_t b)
{
    double sum = 0;
    mx_roi_tap tap;
    for (int64_t s = 0; s < grid->down * grid->across; s++)
        if (mx_roi_sample(&job->roi, grid, b, s / grid->across, s % grid->across, &tap))
            for (int q = 0; q < 4; q++)
                sum += tap.weight[q] * element(job, job->masks, plane + tap.place[q]);
    return sum;
}

static void mask_regions(void *arg, int64_t begin, int64_t end)
{
    const mask_job *job = arg;
    const int64_t bins = job->roi.rows * job->roi.columns, map = job->roi.height * job->roi.width;
    for (int64_t r = begin; r < end; r++) {
        const mx_roi_grid grid = mask_grid(job, r);
        const double match = element(job, job->match, r), label = element(job, job->label, r);
        const bool exists = match >= 0 && match < (double)job->planes;
        const int64_t plane = exists ? (r / job->roi.regions * job->planes + (int64_t)match) * map : 0;
        for (int64_t b = 0; b < bins; b++) {
            const double value = exists ? mask_bin(job, &grid, plane, b) : 0;
            for (int64_t c = 0; c < job->classes; c++) {
                set_element(job, job->target, (r * job->classes + c) * bins + b, value);
                set_element(job, job->one_hot, (r * job->classes + c) * bins + b, label == (double)c);
            }
        }
    }
}

static mx_code run_mask_target(const mx_kernel_call *call)
{
    const mx_mask_target_attrs *p = call->attrs;
    const mx_dtype compute = mx_compute_type(call);
    if (!mx_inputs_are(call, compute, 0))
        return MX_DECLINED;
    const int64_t *masks = call->in[1]->shape, *out = call->out[0]->shape, all = call->in[2]->size;
    mask_job job = {.roi = {.height = masks[2], .width = masks[3], .regions = p->num_rois, .rows = out[3], .columns = out[4], .scale = 1,
                            .samples = p->sample_ratio, .aligned = p->aligned},
                    .rois = mx_data(call->in[0]), .masks = mx_data(call->in[1]), .match = mx_data(call->in[2]), .label = mx_data(call->in[3]),
                    .target = mx_data(call->out[0]), .one_hot = mx_data(call->out[1]), .planes = masks[1], .classes = p->num_classes,
                    .single = compute == MX_FLOAT32};
    for (int64_t r = 0; r < all; r++) {
        const mx_roi_grid grid = mask_grid(&job, r);
        if ((double)grid.down * (double)grid.across * (double)(out[3] * out[4]) > 1e9)
            return mx_op_fail(call->op, MX_ERR_ARGUMENT, "region %lld needs too many samples", (long long)r);
    }
    mx_parallel(all, 1 + MX_GRAIN / (16 * job.classes * out[3] * out[4]), mask_regions, &job);
    return MX_OK;
}

MX_CPU_KERNELS(roi) = {{"ROIPooling", run_pooling, NULL, MX_KERNEL_WIDEN},
                       {"_backward_ROIPooling", run_pooling_backward, NULL, MX_KERNEL_WIDEN},
                       {"_contrib_ROIAlign", run_align, NULL, MX_KERNEL_WIDEN},
                       {"_backward__contrib_ROIAlign", run_align_backward, NULL, MX_KERNEL_WIDEN},
                       {"_contrib_RROIAlign", run_rotated, NULL, MX_KERNEL_WIDEN},
                       {"_backward__contrib_RROIAlign", run_rotated, NULL, MX_KERNEL_WIDEN},
                       {"_contrib_mrcnn_mask_target", run_mask_target, NULL, MX_KERNEL_WIDEN},
                       {NULL, NULL, NULL}};
