/* Deformable convolution of one image for one element type: included with T and NAME(x) defined.
 *
 * Where a cell reads does not depend on the channel: offsets and weights of all points are computed once per group of
 * offsets and used for all channels.  Planes have a border of zeros, which points outside the image read and write.
 *
 * SPDX-License-Identifier: Apache-2.0 */

#define MX_POINT_FUNCTION static inline
#define MX_POINT(name) NAME(name)
#include "op/formula/deformable_points.h"
#undef MX_POINT_FUNCTION
#undef MX_POINT

/* Points [begin, end) of offset_groups * cells; each has `places` numbers of every kind. */
static void NAME(find_taps)(void *arg, int64_t begin, int64_t end)
{
    const deformable_job *job = arg;
    const mx_deformable *d = &job->d;
    const int64_t places = d->places, wide = d->size[1] + 2;
    for (int64_t point = begin; point < end; point++) {
        const int64_t cell = point % d->cells;
        const T *down = (const T *)job->offset + 2 * point * places, *across = down + places;
        const T *mask = job->mask ? (const T *)job->mask + point * places : NULL;
        int32_t *at = job->at + 4 * point * places;
        T *weight = (T *)job->weight + 4 * point * places, *rest = (T *)job->rest + 2 * point * places;
        for (int64_t p = 0; p < places; p++) {
            T dy, dx;
            const mx_deformable_pixels t = NAME(pixels)(d, cell, p, down[p], across[p], mask != NULL, &dy, &dx);
            const T factor = mask ? mask[p] : 1;
            for (int k = 0; k < 4; k++) {
                at[k * places + p] = t.inside ? (int32_t)((t.row[k / 2] + 1) * wide + t.column[k % 2] + 1) : 0;
                weight[k * places + p] = t.inside ? NAME(weight)(k, dy, dx, factor) : 0;
            }
            rest[p] = dy, rest[places + p] = dx;
        }
    }
}

/* Planes of the image with a border of zeros. */
static void NAME(pad_planes)(void *arg, int64_t begin, int64_t end)
{
    const deformable_job *job = arg;
    const int64_t height = job->d.size[0], width = job->d.size[1], padded = (height + 2) * (width + 2);
    for (int64_t c = begin; c < end; c++) {
        T *to = (T *)job->padded + c * padded;
        memset(to, 0, (size_t)padded * sizeof(T));
        for (int64_t y = 0; y < height; y++)
            memcpy(to + (y + 1) * (width + 2) + 1, (const T *)job->data + (c * height + y) * width,
                   (size_t)width * sizeof(T));
    }
}

static void NAME(fill_columns)(void *arg, int64_t begin, int64_t end)
{
    const deformable_job *job = arg;
    const mx_deformable *d = &job->d;
    const int64_t places = d->places, padded = (d->size[0] + 2) * (d->size[1] + 2),
                  each = d->channels / d->offset_groups;
    for (int64_t row = begin; row < end; row++) {
        const int64_t c = row / d->cells, point = c / each * d->cells + row % d->cells;
        const T *plane = (const T *)job->padded + c * padded, *w = (const T *)job->weight + 4 * point * places;
        const int32_t *at = job->at + 4 * point * places;
        T *column = (T *)job->columns + row * places;
        for (int64_t p = 0; p < places; p++)
            column[p] = w[p] * plane[at[p]] + w[places + p] * plane[at[places + p]] +
                        w[2 * places + p] * plane[at[2 * places + p]] + w[3 * places + p] * plane[at[3 * places + p]];
    }
}

/* ddata[c, at] += weight * dcolumn[c, cell]; each channel belongs to one thread. */
static void NAME(add_data)(void *arg, int64_t begin, int64_t end)
{
    const deformable_job *job = arg;
    const mx_deformable *d = &job->d;
    const int64_t places = d->places, height = d->size[0], width = d->size[1], padded = (height + 2) * (width + 2),
                  each = d->channels / d->offset_groups;
    for (int64_t c = begin; c < end; c++) {
        T *plane = (T *)job->padded + c * padded;
        memset(plane, 0, (size_t)padded * sizeof(T));
        for (int64_t cell = 0; cell < d->cells; cell++) {
            const int64_t point = c / each * d->cells + cell;
            const T *w = (const T *)job->weight + 4 * point * places,
                    *g = (const T *)job->dcolumns + (c * d->cells + cell) * places;
            const int32_t *at = job->at + 4 * point * places;
            for (int64_t p = 0; p < places; p++)
                for (int q = 0; q < 4; q++)
                    plane[at[q * places + p]] += w[q * places + p] * g[p];
        }
        for (int64_t y = 0; y < height; y++)
            memcpy((T *)job->ddata + (c * height + y) * width, plane + (y + 1) * (width + 2) + 1,
                   (size_t)width * sizeof(T));
    }
}

/* doffset and dmask of points [begin, end), summed over the channels of the group. */
static void NAME(add_offsets)(void *arg, int64_t begin, int64_t end)
{
    const deformable_job *job = arg;
    const mx_deformable *d = &job->d;
    const int64_t places = d->places, padded = (d->size[0] + 2) * (d->size[1] + 2),
                  each = d->channels / d->offset_groups;
    for (int64_t point = begin; point < end; point++) {
        const int64_t group = point / d->cells, cell = point % d->cells;
        const int32_t *at = job->at + 4 * point * places;
        const T *dy = (const T *)job->rest + 2 * point * places, *dx = dy + places;
        T *down = (T *)job->doffset + 2 * point * places, *across = down + places;
        T *dmask = job->mask ? (T *)job->dmask + point * places : NULL;
        const T *mask = job->mask ? (const T *)job->mask + point * places : NULL;
        memset(down, 0, (size_t)(2 * places) * sizeof(T));
        if (dmask)
            memset(dmask, 0, (size_t)places * sizeof(T));
        for (int64_t c = group * each; c < (group + 1) * each; c++) {
            const T *plane = (const T *)job->padded + c * padded,
                    *g = (const T *)job->dcolumns + (c * d->cells + cell) * places;
            for (int64_t p = 0; p < places; p++) {
                const T v0 = plane[at[p]], v1 = plane[at[places + p]], v2 = plane[at[2 * places + p]],
                        v3 = plane[at[3 * places + p]];
                down[p] += g[p] * NAME(slope_down)(v0, v1, v2, v3, dx[p]);
                across[p] += g[p] * NAME(slope_across)(v0, v1, v2, v3, dy[p]);
                if (dmask)
                    dmask[p] += g[p] * NAME(value)(v0, v1, v2, v3, dy[p], dx[p]);
            }
        }
        for (int64_t p = 0; mask && p < places; p++)
            down[p] *= mask[p], across[p] *= mask[p];
    }
}

/* y (F, places) = weight columns + bias, group by group */
static mx_code NAME(product)(const deformable_job *job, const void *weight, const void *bias, void *y)
{
    const mx_deformable *d = &job->d;
    const int64_t rows = d->filters / d->groups, depth = d->channels / d->groups * d->cells;
    for (int64_t f = 0; bias && f < d->filters; f++)
        for (int64_t p = 0; p < d->places; p++)
            ((T *)y)[f * d->places + p] = ((const T *)bias)[f];
    return NAME(run_gemm)(&(NAME(gemm)){.m = rows, .n = d->places, .k = depth, .alpha = 1, .beta = bias ? 1 : 0, .a = weight, .lda = depth,
                                    .b = job->columns, .ldb = d->places, .c = y, .ldc = d->places, .batch = d->groups,
                                    .stride_a = rows * depth, .stride_b = depth * d->places, .stride_c = rows * d->places});
}

/* dcolumns = weight' dy;  dweight += dy columns' */
static mx_code NAME(products_back)(const deformable_job *job, const void *weight, const void *dy, void *dweight)
{
    const mx_deformable *d = &job->d;
    const int64_t rows = d->filters / d->groups, depth = d->channels / d->groups * d->cells;
    const mx_code code =
        NAME(run_gemm)(&(NAME(gemm)){.trans_a = true, .m = depth, .n = d->places, .k = rows, .alpha = 1, .a = weight, .lda = depth, .b = dy,
                                 .ldb = d->places, .c = job->dcolumns, .ldc = d->places, .batch = d->groups, .stride_a = rows * depth,
                                 .stride_b = rows * d->places, .stride_c = depth * d->places});
    return code ? code
                : NAME(run_gemm)(&(NAME(gemm)){.trans_b = true, .m = rows, .n = depth, .k = d->places, .alpha = 1, .beta = 1, .a = dy,
                                           .lda = d->places, .b = job->columns, .ldb = d->places, .c = dweight, .ldc = depth,
                                           .batch = d->groups, .stride_a = rows * d->places, .stride_b = depth * d->places,
                                           .stride_c = rows * depth});
}
