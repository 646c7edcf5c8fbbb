/* Pooling of regions on the CPU (bodies in roi_body.h).  SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/threads.h"
#include "cpu/kernels/widen.h"
#include "gluon/op.gen.h"

typedef struct roi_job {
    const void *data,
        *rois; /* (N, channels, H, W) or, backwards, the gradient (R, channels, rows, columns); (R, numbers) */
    void *out;
    int32_t *index;                         /* ROIPooling: place of the largest value in its map, -1: none */
    int64_t batch, channels, height, width; /* of the data; position-sensitive: channels of the result */
    int64_t regions, rows, columns;
    double scale;
    int64_t samples; /* ROIAlign: per bin and axis; not positive: as needed */
    bool sensitive, aligned, backward;
    bool rotated; /* regions are: image, centre, size, angle */
} roi_job;
static int numbers(const roi_job *job) { return job->rotated ? 6 : 5; } /* of a region */

typedef struct roi_window { /* in places of the map */
    int64_t top, left, height, width;
} roi_window;

typedef struct roi_tap { /* a bilinear sample: four places of a map */
    int64_t place[4];
    double weight[4];
} roi_tap;

#define FAR 1e9 /* beyond any map: keeps numbers that are not sizes inside an integer */
static double near(double x) { return x > FAR ? FAR : x > -FAR ? x : -FAR; }

static roi_window roi_window_of(const roi_job *job, double left, double top, double right, double bottom)
{
    const int64_t l = (int64_t)round(near(left * job->scale)), t = (int64_t)round(near(top * job->scale));
    const int64_t r = (int64_t)round(near(right * job->scale)), b = (int64_t)round(near(bottom * job->scale));
    return (roi_window){t, l, b - t + 1 > 1 ? b - t + 1 : 1, r - l + 1 > 1 ? r - l + 1 : 1};
}

static int64_t inside(int64_t x, int64_t limit) { return x < 0 ? 0 : x > limit ? limit : x; }

static void roi_bin(int64_t b, int64_t bins, int64_t from, int64_t size, int64_t limit, int64_t *begin, int64_t *end)
{
    const double each = (double)size / (double)bins;
    *begin = inside((int64_t)floor((double)b * each) + from, limit);
    *end = inside((int64_t)ceil((double)(b + 1) * each) + from, limit);
}

#define T float
#define NAME(x) x##_f
#include "cpu/kernels/roi_body.h"
#undef T
#undef NAME
#define T double
#define NAME(x) x##_d
#include "cpu/kernels/roi_body.h"
#undef T
#undef NAME

static int64_t channel_grain(const roi_job *job)
{
    return 1 + MX_GRAIN / (4 * job->regions * job->rows * job->columns + 1);
}

/* ---- ROIPooling ------------------------------------------------------------------------------------------------- */

static mx_code run_pooling(const mx_kernel_call *call)
{
    const mx_roi_pooling_attrs *p = call->attrs;
    const mx_dtype compute = mx_compute_type(call);
    if (!mx_all_of_type(call, compute))
        return mx_run_widened(call, compute, run_pooling);
    if (!mx_inputs_are(call, compute, 0))
        return MX_DECLINED;
    const int64_t *data = call->in[0]->shape, *out = call->out[0]->shape;
    roi_job job = {.data = mx_data(call->in[0]), .rois = mx_data(call->in[1]), .out = mx_data(call->out[0]), .index = mx_data(call->out[1]),
                   .batch = data[0], .channels = data[1], .height = data[2], .width = data[3], .regions = out[0], .rows = out[2],
                   .columns = out[3], .scale = p->spatial_scale};
    mx_parallel(job.channels, channel_grain(&job), compute == MX_FLOAT32 ? pool_channels_f : pool_channels_d, &job);
    return MX_OK;
}

static mx_code run_pooling_backward(const mx_kernel_call *call)
{
    const mx_dtype compute = mx_compute_type(call);
    if (!mx_all_of_type(call, compute))
        return mx_run_widened(call, compute, run_pooling_backward);
    if (!mx_inputs_are(call, compute, 4))
        return MX_DECLINED;
    const int64_t *g = call->in[0]->shape, *data = call->out[0]->shape;
    roi_job job = {.data = mx_data(call->in[0]), .rois = mx_data(call->in[1]), .out = mx_data(call->out[0]), .index = mx_data(call->in[2]),
                   .batch = data[0], .channels = data[1], .height = data[2], .width = data[3], .regions = g[0], .rows = g[2], .columns = g[3]};
    mx_parallel(job.channels, channel_grain(&job), compute == MX_FLOAT32 ? pool_channels_back_f : pool_channels_back_d,
                &job);
    return MX_OK;
}

/* ---- ROIAlign ------------------------------------------------------------------------------------------------- */

static bool tap_at(const roi_job *job, double y, double x, double factor, roi_tap *tap)
{
    const int64_t height = job->height, width = job->width;
    if (!(y >= -1 && y <= (double)height && x >= -1 && x <= (double)width) || !height || !width)
        return false;
    y = y < 0 ? 0 : y > (double)(height - 1) ? (double)(height - 1) : y;
    x = x < 0 ? 0 : x > (double)(width - 1) ? (double)(width - 1) : x;
    const int64_t top = (int64_t)y, left = (int64_t)x, bottom = top + 1 < height ? top + 1 : top,
                  right = left + 1 < width ? left + 1 : left;
    const double dy = y - (double)top, dx = x - (double)left;
    *tap = (roi_tap){{top * width + left, top * width + right, bottom * width + left, bottom * width + right},
                     {factor * (1 - dy) * (1 - dx), factor * (1 - dy) * dx, factor * dy * (1 - dx), factor * dy * dx}};
    return true;
}

typedef struct roi_grid { /* of one region */
    double top, left, bin_height, bin_width;
    int64_t down, across;           /* samples per bin */
    double centre[2], cosine, sine; /* of a rotated region: places are relative to the centre */
} roi_grid;

static void count_samples(const roi_job *job, roi_grid *grid)
{
    const double down = ceil(grid->bin_height), across = ceil(grid->bin_width);
    if (job->samples > 0)
        return;
    grid->down = down < 0 ? 0 : down > 4096 ? 4096 : (int64_t)down; /* more samples than places say nothing new */
    grid->across = across < 0 ? 0 : across > 4096 ? 4096 : (int64_t)across;
}

static roi_grid rotated_grid_of(const roi_job *job, const double *roi)
{
    const double width = near(roi[3] * job->scale), height = near(roi[4] * job->scale),
                 angle = roi[5] * 3.14159265358979323846 / 180;
    const double w = width > 1 ? width : 1, h = height > 1 ? height : 1;
    roi_grid grid = {-h / 2, -w / 2, h / (double)job->rows, w / (double)job->columns, job->samples, job->samples,
                     {near(roi[2] * job->scale), near(roi[1] * job->scale)}, cos(angle), sin(angle)};
    count_samples(job, &grid);
    return grid;
}

static roi_grid grid_of(const roi_job *job, const double *roi)
{
    if (job->rotated)
        return rotated_grid_of(job, roi);
    const double shift = job->aligned ? 0.5 : 0;
    const double left = near(roi[1] * job->scale - shift), top = near(roi[2] * job->scale - shift);
    double width = near(roi[3] * job->scale - shift) - left, height = near(roi[4] * job->scale - shift) - top;
    if (!job->aligned)
        width = width > 1 ? width : 1, height = height > 1 ? height : 1;
    roi_grid grid = {
        top, left, height / (double)job->rows, width / (double)job->columns, job->samples, job->samples, {0, 0}, 1, 0};
    count_samples(job, &grid);
    return grid;
}

/* Fills taps bin after bin; first[b] is where bin b begins. */
static void fill_taps(const roi_job *job, const roi_grid *grid, roi_tap *taps, int64_t *first)
{
    int64_t count = 0;
    for (int64_t b = 0; b < job->rows * job->columns; b++) {
        first[b] = count;
        for (int64_t i = 0; i < grid->down; i++)
            for (int64_t j = 0; j < grid->across; j++) {
                const double y = grid->top + ((double)(b / job->columns) + ((double)i + 0.5) / (double)grid->down) *
                                                 grid->bin_height;
                const double x = grid->left + ((double)(b % job->columns) + ((double)j + 0.5) / (double)grid->across) *
                                                  grid->bin_width;
                count += tap_at(job, grid->centre[0] + y * grid->cosine - x * grid->sine,
                                grid->centre[1] + x * grid->cosine + y * grid->sine,
                                1 / (double)(grid->down * grid->across), &taps[count]);
            }
    }
    first[job->rows * job->columns] = count;
}

typedef struct region_job {
    const roi_job *job;
    int64_t region;
    const roi_tap *taps;
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
    const int64_t bins = job->rows * job->columns;
    const size_t item = (size_t)mx_dtype_size(compute);
    if (mx_bytes(call->out[0]))
        memset(mx_data(call->out[0]), 0, mx_bytes(call->out[0]));
    for (int64_t r = 0; r < job->regions; r++) {
        double roi[6];
        for (int k = 0; k < numbers(job); k++)
            roi[k] = compute == MX_FLOAT32 ? (double)((const float *)job->rois)[numbers(job) * r + k]
                                           : ((const double *)job->rois)[numbers(job) * r + k];
        if (!(roi[0] >= 0 && roi[0] < (double)job->batch))
            continue;
        const roi_grid grid = grid_of(job, roi);
        const double taps = (double)bins * (double)grid.down * (double)grid.across;
        const size_t bytes = (size_t)(bins + 1) * sizeof(int64_t) + (size_t)taps * sizeof(roi_tap);
        if (taps > 1e9)
            return mx_op_fail(call->op, MX_ERR_ARGUMENT, "region %lld needs too many samples", (long long)r);
        int64_t *first = mx_alloc(bytes);
        if (!first)
            return mx_error_code();
        region_job region = {job, r, (const roi_tap *)(first + bins + 1), first};
        fill_taps(job, &grid, (roi_tap *)(first + bins + 1), first);
        mx_parallel(job->channels, 1 + MX_GRAIN / (4 * first[bins] + 1), item == 4 ? region_f : region_d, &region);
        mx_free(first, bytes);
    }
    return MX_OK;
}

static mx_code run_align(const mx_kernel_call *call)
{
    const mx_roi_align_attrs *p = call->attrs;
    const mx_dtype compute = mx_compute_type(call);
    if (!mx_all_of_type(call, compute))
        return mx_run_widened(call, compute, run_align);
    if (!mx_inputs_are(call, compute, 0))
        return MX_DECLINED;
    const int64_t *data = call->in[0]->shape, *out = call->out[0]->shape;
    const roi_job job = {.data = mx_data(call->in[0]), .rois = mx_data(call->in[1]), .out = mx_data(call->out[0]), .batch = data[0],
                         .channels = out[1], .height = data[2], .width = data[3], .regions = out[0], .rows = out[2], .columns = out[3],
                         .scale = p->spatial_scale, .samples = p->sample_ratio, .sensitive = p->position_sensitive, .aligned = p->aligned};
    return align(call, &job, compute);
}

static mx_code run_align_backward(const mx_kernel_call *call)
{
    const mx_roi_align_backward_attrs *p = call->attrs;
    const mx_dtype compute = mx_compute_type(call);
    if (!mx_all_of_type(call, compute))
        return mx_run_widened(call, compute, run_align_backward);
    if (!mx_inputs_are(call, compute, 0))
        return MX_DECLINED;
    const int64_t *g = call->in[0]->shape, *data = call->out[0]->shape;
    const roi_job job = {.data = mx_data(call->in[0]), .rois = mx_data(call->in[1]), .out = mx_data(call->out[0]), .batch = data[0],
                         .channels = g[1], .height = data[2], .width = data[3], .regions = g[0], .rows = g[2], .columns = g[3],
                         .scale = p->spatial_scale, .samples = p->sample_ratio, .sensitive = p->position_sensitive, .aligned = p->aligned,
                         .backward = true};
    return align(call, &job, compute);
}

/* Both directions: `back` has the shape of the data as an attribute. */
static mx_code run_rotated(const mx_kernel_call *call)
{
    const mx_rroi_align_backward_attrs *p = call->attrs; /* the forward's attributes stand at its front */
    const bool back = !strcmp(call->op->name, "_backward__contrib_RROIAlign");
    const mx_dtype compute = mx_compute_type(call);
    if (!mx_all_of_type(call, compute))
        return mx_run_widened(call, compute, run_rotated);
    if (!mx_inputs_are(call, compute, 0))
        return MX_DECLINED;
    const int64_t *data = (back ? call->out[0] : call->in[0])->shape,
                  *bins = (back ? call->in[0] : call->out[0])->shape;
    const roi_job job = {.data = mx_data(call->in[0]), .rois = mx_data(call->in[1]), .out = mx_data(call->out[0]), .batch = data[0],
                         .channels = bins[1], .height = data[2], .width = data[3], .regions = bins[0], .rows = bins[2], .columns = bins[3],
                         .scale = p->spatial_scale, .samples = p->sampling_ratio, .backward = back, .rotated = true};
    return align(call, &job, compute);
}

/* ---- mrcnn_mask_target: ROIAlign of one plane per region, the same for all classes ---------------------------- */

typedef struct mask_job {
    roi_job roi;               /* rows, columns, height, width, samples, aligned; regions: per image */
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

static roi_grid mask_grid(const mask_job *job, int64_t r)
{
    double roi[5] = {0};
    for (int k = 0; k < 4; k++)
        roi[k + 1] = element(job, job->rois, 4 * r + k);
    return grid_of(&job->roi, roi);
}

static double mask_bin(const mask_job *job, const roi_grid *grid, int64_t plane, int64_t b)
{
    double sum = 0;
    for (int64_t s = 0; s < grid->down * grid->across; s++) {
        const double y =
            grid->top + ((double)(b / job->roi.columns) + ((double)(s / grid->across) + 0.5) / (double)grid->down) *
                            grid->bin_height;
        const double x =
            grid->left + ((double)(b % job->roi.columns) + ((double)(s % grid->across) + 0.5) / (double)grid->across) *
                             grid->bin_width;
        roi_tap tap;
        if (tap_at(&job->roi, y, x, 1 / (double)(grid->down * grid->across), &tap))
            for (int q = 0; q < 4; q++)
                sum += tap.weight[q] * element(job, job->masks, plane + tap.place[q]);
    }
    return sum;
}

static void mask_regions(void *arg, int64_t begin, int64_t end)
{
    const mask_job *job = arg;
    const int64_t bins = job->roi.rows * job->roi.columns, map = job->roi.height * job->roi.width;
    for (int64_t r = begin; r < end; r++) {
        const roi_grid grid = mask_grid(job, r);
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
    if (!mx_all_of_type(call, compute))
        return mx_run_widened(call, compute, run_mask_target);
    if (!mx_inputs_are(call, compute, 0))
        return MX_DECLINED;
    const int64_t *masks = call->in[1]->shape, *out = call->out[0]->shape, all = call->in[2]->size;
    mask_job job = {.roi = {.height = masks[2], .width = masks[3], .regions = p->num_rois, .rows = out[3], .columns = out[4], .scale = 1,
                            .samples = p->sample_ratio, .aligned = p->aligned},
                    .rois = mx_data(call->in[0]), .masks = mx_data(call->in[1]), .match = mx_data(call->in[2]), .label = mx_data(call->in[3]),
                    .target = mx_data(call->out[0]), .one_hot = mx_data(call->out[1]), .planes = masks[1], .classes = p->num_classes,
                    .single = compute == MX_FLOAT32};
    for (int64_t r = 0; r < all; r++) {
        const roi_grid grid = mask_grid(&job, r);
        if ((double)grid.down * (double)grid.across * (double)(out[3] * out[4]) > 1e9)
            return mx_op_fail(call->op, MX_ERR_ARGUMENT, "region %lld needs too many samples", (long long)r);
    }
    mx_parallel(all, 1 + MX_GRAIN / (16 * job.classes * out[3] * out[4]), mask_regions, &job);
    return MX_OK;
}

MX_CPU_KERNELS(roi) = {{"ROIPooling", run_pooling, NULL},
                       {"_backward_ROIPooling", run_pooling_backward, NULL},
                       {"_contrib_ROIAlign", run_align, NULL},
                       {"_backward__contrib_ROIAlign", run_align_backward, NULL},
                       {"_contrib_RROIAlign", run_rotated, NULL},
                       {"_backward__contrib_RROIAlign", run_rotated, NULL},
                       {"_contrib_mrcnn_mask_target", run_mask_target, NULL},
                       {NULL, NULL, NULL}};
