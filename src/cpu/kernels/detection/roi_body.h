/* Pooling of regions for one element type: included with T and NAME(x) defined.
 *
 * Work is split by channels, so that backwards no two threads write to one place.  Where samples lie does not depend on
 * the channel: the places and weights of a region are computed once and then run over all channels of a thread.
 *
 * SPDX-License-Identifier: Apache-2.0 */

#define MX_ROI_FUNCTION static inline
#define MX_ROI(name) NAME(name)
#define MX_ROI_ADD(to, x) ((to) += (x))
#include "op/formula/roi_bins.h"
#undef MX_ROI_FUNCTION
#undef MX_ROI
#undef MX_ROI_ADD

static void NAME(pool_channels)(void *arg, int64_t begin, int64_t end)
{
    const roi_job *job = arg;
    const int64_t map = job->s.height * job->s.width, bins = job->s.rows * job->s.columns;
    for (int64_t r = 0; r < job->s.regions; r++) {
        double roi[6];
        read_region(job, sizeof(T) == 4, r, roi);
        const bool exists = mx_roi_exists(&job->s, roi[0]);
        const mx_roi_window w = mx_roi_window_of(&job->s, roi);
        for (int64_t c = begin; c < end; c++) {
            const T *plane = exists ? (const T *)job->data + ((int64_t)roi[0] * job->s.channels + c) * map : NULL;
            T *out = (T *)job->out + (r * job->s.channels + c) * bins;
            int32_t *index = job->index + (r * job->s.channels + c) * bins;
            for (int64_t b = 0; b < bins; b++) {
                int64_t where;
                out[b] = NAME(largest)(&job->s, &w, b, plane, &where);
                index[b] = (int32_t)where;
            }
        }
    }
}

static void NAME(pool_channels_back)(void *arg, int64_t begin, int64_t end)
{
    const roi_job *job = arg;
    const int64_t map = job->s.height * job->s.width, bins = job->s.rows * job->s.columns;
    for (int64_t n = 0; n < job->s.batch; n++)
        memset((T *)job->out + (n * job->s.channels + begin) * map, 0, (size_t)((end - begin) * map) * sizeof(T));
    for (int64_t r = 0; r < job->s.regions; r++) {
        const T image = ((const T *)job->rois)[5 * r];
        if (!mx_roi_exists(&job->s, (double)image))
            continue;
        for (int64_t e = begin * bins; e < end * bins; e++) {
            const int32_t where = job->index[r * job->s.channels * bins + e];
            if (where >= 0 && where < map)
                ((T *)job->out)[((int64_t)image * job->s.channels + e / bins) * map + where] +=
                    ((const T *)job->data)[r * job->s.channels * bins + e];
        }
    }
}

/* Samples of one region: out[c][b] from the map, or the map from out[c][b]. */
static void NAME(align_region)(const roi_job *job, int64_t r, const mx_roi_tap *taps, const int64_t *first,
                               int64_t begin, int64_t end)
{
    const int64_t map = job->s.height * job->s.width, bins = job->s.rows * job->s.columns;
    const int64_t image = (int64_t)((const T *)job->rois)[mx_roi_numbers(&job->s) * r],
                  maps = job->s.sensitive ? job->s.channels * bins : job->s.channels;
    for (int64_t c = begin; c < end; c++)
        for (int64_t b = 0; b < bins; b++) {
            const int64_t from = job->s.sensitive ? c * bins + b : c, at = (r * job->s.channels + c) * bins + b;
            if (job->backward) {
                T *plane = (T *)job->out + (image * maps + from) * map;
                const T g = ((const T *)job->data)[at];
                for (int64_t k = first[b]; k < first[b + 1]; k++)
                    NAME(add_sample)(plane, &taps[k], g);
            } else {
                const T *plane = (const T *)job->data + (image * maps + from) * map;
                double sum = 0;
                for (int64_t k = first[b]; k < first[b + 1]; k++)
                    sum = NAME(with_sample)(sum, &taps[k], plane);
                ((T *)job->out)[at] = (T)sum;
            }
        }
}
