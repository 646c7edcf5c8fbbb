/* Position-sensitive pooling for one element type: included with T and NAME(x) defined.  SPDX-License-Identifier:
 * Apache-2.0 */

#define MX_ROI_FUNCTION static
#define MX_ROI(name) NAME(name)
#define MX_ROI_ADD(to, x) ((to) += (x))
#include "op/formula/roi_parts_bins.h"
#undef MX_ROI_FUNCTION
#undef MX_ROI
#undef MX_ROI_ADD

/* PSROIPooling, results [begin, end). */
static void NAME(means)(void *arg, int64_t begin, int64_t end)
{
    const mx_roi_parts_job *job = arg;
    const int64_t bins = job->s.size * job->s.size;
    for (int64_t r = 0; r < job->s.regions && !mx_stop_wanted(); r++) {
        const mx_roi_part_region region = NAME(region)(&job->s, job->rois, r, 0);
        for (int64_t e = begin * bins; e < end * bins; e++)
            NAME(mean)(job, job->map, &region, r * job->s.dim * bins + e);
    }
}

/* Results of classes [begin, end) where movements have gradients, else results [begin, end). */
static void NAME(samples)(void *arg, int64_t begin, int64_t end)
{
    const mx_roi_parts_job *job = arg;
    const int64_t bins = job->s.size * job->s.size, each = bins * (job->dtrans ? job->s.dim / job->s.classes : 1);
    for (int64_t r = 0; r < job->s.regions && !mx_stop_wanted(); r++) {
        const mx_roi_part_region region = NAME(region)(&job->s, job->rois, r, 0.5);
        for (int64_t e = begin * each; e < end * each; e++)
            NAME(moving)(job, job->map, &region, r * job->s.dim * bins + e);
    }
}
