/* A correlation: what forward and the data gradient have in common.
 *
 * Both compute   result[n, t, r] = sum over f, taps of  source[n, f, position(r, tap)] * w[t, f, tap]
 * and differ only in tables.  Along one axis:
 *
 *   forward        r = j,                 position = j * stride - pad + k * dilate
 *   data gradient  r = c + stride * j,    position = (r + pad - k * dilate) / stride,  taps k where this divides
 *
 * A packed line stores the source split by phase, zero where it is padding, so that for every tap the positions of
 * neighbouring results (of one class c) are neighbours in memory:  packed[phase(tap)][offset(tap) + j].
 *
 * Invariant: after conv_job_open, offset + j is in [0, length) for every tap and every j of its class.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef MX_CPU_CONV_JOB_H
#define MX_CPU_CONV_JOB_H

#include "cpu/kernels/conv/conv.h"

/* Exported names carry the level. */
#define conv_normalise MX_LEVEL_NAME(conv_normalise)
#define conv_job_open MX_LEVEL_NAME(conv_job_open)
#define conv_job_close MX_LEVEL_NAME(conv_job_close)
#define conv_copy_strided MX_LEVEL_NAME(conv_copy_strided)
#define conv_pack_line MX_LEVEL_NAME(conv_pack_line)
#define conv_scratch_failed MX_LEVEL_NAME(conv_scratch_failed)
#define conv_blocked_run MX_LEVEL_NAME(conv_blocked_run)
#define conv_blocked_weight MX_LEVEL_NAME(conv_blocked_weight)
#define conv_columns_run MX_LEVEL_NAME(conv_columns_run)
#define conv_can_gather MX_LEVEL_NAME(conv_can_gather)
#define conv_gather MX_LEVEL_NAME(conv_gather)
#define conv_is_depthwise MX_LEVEL_NAME(conv_is_depthwise)
#define conv_depthwise_run MX_LEVEL_NAME(conv_depthwise_run)
#define conv_depthwise_weight MX_LEVEL_NAME(conv_depthwise_weight)
#define conv_is_pointwise MX_LEVEL_NAME(conv_is_pointwise)
#define conv_pointwise_run MX_LEVEL_NAME(conv_pointwise_run)
#define conv_pointwise_weight MX_LEVEL_NAME(conv_pointwise_weight)
#define conv_winograd_run MX_LEVEL_NAME(conv_winograd_run)
#define conv_winograd_weight MX_LEVEL_NAME(conv_winograd_weight)
#define conv_pixels_run MX_LEVEL_NAME(conv_pixels_run)
#define conv_pixels_weight MX_LEVEL_NAME(conv_pixels_weight)

typedef struct conv_axis {
    int64_t source, result; /* sizes of the two arrays along the axis */
    int64_t kernel;         /* taps in all classes together */
    int64_t phases, length; /* of a packed line */
    int64_t step, shift;    /* packed[f][m] is source[m * step + f - shift], or 0 outside */
    int64_t classes;        /* results of class c are c, c + classes, c + 2 classes ... */
    int64_t *first;         /* (classes + 1) where the taps of a class begin in the lists below */
    int64_t *tap;           /* (kernel) index along the kernel's axis */
    int64_t *phase;         /* (kernel) */
    int64_t *offset;        /* (kernel) */
    int64_t *begin, *end;   /* (phases) the part of a packed line that comes from the source; the rest is zero */
} conv_axis;

typedef struct conv_job {
    mx_conv_shape shape; /* of the convolution, with three axes */
    bool gradient;       /* this is the data gradient */
    int64_t batch, groups;
    int64_t from, to; /* channels of source and result, per group */
    int64_t taps;     /* kernel elements of all axes */
    conv_axis axis[3];
    int64_t source_image, source_channel, source_at[3]; /* strides in elements */
    int64_t result_image, result_channel, result_at[3];
    int64_t w_group, w_to, w_from, w_tap; /* strides of the weight; taps are flattened */
    int64_t *memory;                      /* owns the axes' lists */
    size_t memory_bytes;
} conv_job;

/* Checks a shape and gives it three axes. */
mx_code conv_normalise(mx_conv_shape *full, const mx_conv_shape *s);

/* `s` has three axes and at least one product.  close may be called after a failed open. */
mx_code conv_job_open(conv_job *job, const mx_conv_shape *s, bool data_gradient);
void conv_job_close(conv_job *job);

/* How many results class c of an axis has. */
static inline int64_t conv_axis_count(const conv_axis *a, int64_t c)
{
    return a->classes == 1 ? a->result : (a->result - c + a->classes - 1) / a->classes; /* a division is slow */
}

#define CONV_SLICES 16           /* at most */
#define CONV_SLICE_SHORT 512     /* positions of a slice, if the sums stay in the cache ... */
#define CONV_SLICE_BYTES (1 << 20)
#define CONV_SLICE_LONG 4096     /* ... or not */

/* A weight gradient sums over slices of its tasks, then adds up the slices in their order: enough for all threads, but so
 * few that the `floats` sums of each cost little.  They follow from the shape alone, not from the number of threads. */
static inline int64_t conv_weight_slices(const conv_job *job, int64_t tasks, int64_t floats)
{
    const int64_t positions = job->batch * job->axis[0].result * job->axis[1].result * job->axis[2].result;
    int64_t slices = 1;
    while (
        2 * slices <= CONV_SLICES && 2 * slices <= tasks && 2 * slices <= positions / CONV_SLICE_SHORT &&
        (2 * slices * floats * (int64_t)sizeof(float) <= CONV_SLICE_BYTES || 2 * slices <= positions / CONV_SLICE_LONG))
        slices *= 2;
    return slices;
}

/* Copies one source line of `channels` channels into `packed` (channels, phases, length).  `line` points at element 0
 * of the line in its first channel.  Up to LANES floats past `packed` may be overwritten. */
void conv_pack_line(const conv_axis *axis, const float *line, int64_t at, int64_t channel, int64_t channels,
                    float *packed);

/* count floats that are `stride` apart. */
void conv_copy_strided(float *to, const float *from, int64_t count, int64_t stride);

/* Sets the error that `who` is out of memory. */
mx_code conv_scratch_failed(const char *who, size_t bytes);

/* The data gradient of one image and group from its columns (to, taps, row); for the shapes that can. */
bool conv_can_gather(const conv_job *job);
void conv_gather(const conv_job *job, const float *rows, int64_t row, float *result);

/* The implementations in the lists of conv.c. */
mx_code conv_blocked_run(const conv_job *job, const float *source, const float *w, const float *bias, bool relu,
                         float *result);
mx_code conv_blocked_weight(const conv_job *job, const float *x, const float *dy, float *dw);
mx_code conv_pixels_run(const conv_job *job, const float *source, const float *w, const float *bias, bool relu,
                        float *result);
mx_code conv_columns_run(const conv_job *job, const float *source, const float *w, const float *bias, bool relu,
                         float *result);
bool conv_is_depthwise(const conv_job *job);
mx_code conv_depthwise_run(const conv_job *job, const float *source, const float *w, const float *bias, bool relu,
                           float *result);
mx_code conv_depthwise_weight(const conv_job *job, const float *x, const float *dy, float *dw);
mx_code conv_winograd_run(const conv_job *job, const float *source, const float *w, const float *bias, bool relu,
                          float *result);
mx_code conv_winograd_weight(const conv_job *job, const float *x, const float *dy, float *dw);
bool conv_is_pointwise(const conv_job *job);
mx_code conv_pointwise_run(const conv_job *job, const float *source, const float *w, const float *bias, bool relu,
                           float *result);
mx_code conv_pointwise_weight(const conv_job *job, const float *x, const float *dy, float *dw);
mx_code conv_pixels_weight(const conv_job *job, const float *x, const float *dy, float *dw);

#endif
