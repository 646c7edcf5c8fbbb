/* Position-sensitive pooling for one element type: included with T and NAME(x) defined.  SPDX-License-Identifier:
 * Apache-2.0 */

static mx_roi_part_region NAME(region)(const parts_job *job, int64_t r, double shift)
{
    double roi[5];
    for (int k = 0; k < 5; k++)
        roi[k] = (double)((const T *)job->rois)[5 * r + k];
    return mx_roi_part_region_of(&job->s, roi, shift);
}

/* PSROIPooling, results [begin, end): the mean of a bin, or its transpose. */
static void NAME(means)(void *arg, int64_t begin, int64_t end)
{
    const parts_job *job = arg;
    for (int64_t r = 0; r < job->s.regions; r++) {
        const mx_roi_part_region region = NAME(region)(job, r, 0);
        for (int64_t e = begin * job->s.size * job->s.size; e < end * job->s.size * job->s.size; e++) {
            const int64_t j = e % job->s.size, i = e / job->s.size % job->s.size, c = e / job->s.size / job->s.size;
            int64_t top, bottom, left, right;
            mx_roi_part_bin(&job->s, i, region.top, region.height, job->s.height, &top, &bottom);
            mx_roi_part_bin(&job->s, j, region.left, region.width, job->s.width, &left, &right);
            const int64_t at = r * job->s.dim * job->s.size * job->s.size + e, area = (bottom - top) * (right - left);
            const bool empty = region.image < 0 || bottom <= top || right <= left;
            const int64_t plane = empty ? 0 : mx_roi_part_plane(&job->s, region.image, c, i, j);
            double sum = 0;
            for (int64_t y = top; !empty && y < bottom; y++)
                for (int64_t x = left; x < right; x++)
                    if (job->g)
                        ((T *)job->dmap)[plane + y * job->s.width + x] += ((const T *)job->g)[at] / (T)area;
                    else
                        sum += (double)((const T *)job->map)[plane + y * job->s.width + x];
            if (!job->g)
                ((T *)job->out)[at] = (T)(empty ? 0 : sum / (double)area);
        }
    }
}

/* One bilinear sample: its value, or with `into` its gradients: into the map, and by place in *dy and *dx. */
static double NAME(sample)(const T *map, T *into, int64_t width, double y, double x, double g, double *dy, double *dx)
{
    const int64_t top = (int64_t)y, left = (int64_t)x, bottom = top + ((double)top < y),
                  right = left + ((double)left < x);
    const double fy = y - (double)top, fx = x - (double)left;
    const int64_t a = top * width + left, b = top * width + right, c = bottom * width + left,
                  d = bottom * width + right;
    const double va = (double)map[a], vb = (double)map[b], vc = (double)map[c], vd = (double)map[d];
    if (into) {
        into[a] += (T)(g * (1 - fy) * (1 - fx)), into[b] += (T)(g * (1 - fy) * fx);
        into[c] += (T)(g * fy * (1 - fx)), into[d] += (T)(g * fy * fx);
    }
    *dy += g * ((1 - fx) * (vc - va) + fx * (vd - vb));
    *dx += g * ((1 - fy) * (vb - va) + fy * (vd - vc));
    return (1 - fy) * ((1 - fx) * va + fx * vb) + fy * ((1 - fx) * vc + fx * vd);
}

/* One bin of one region. */
static void NAME(bin)(const parts_job *job, const mx_roi_part_region *region, int64_t r, int64_t c, int64_t i,
                      int64_t j)
{
    const int64_t at = ((r * job->s.dim + c) * job->s.size + i) * job->s.size + j;
    const int64_t move = mx_roi_part_move(&job->s, r, c, i, j), other = move + job->s.part * job->s.part;
    const double by_x = job->trans ? (double)((const T *)job->trans)[move] * job->s.deviation * region->width : 0,
                 by_y = job->trans ? (double)((const T *)job->trans)[other] * job->s.deviation * region->height : 0;
    const double x0 = (double)j * region->width / (double)job->s.size + region->left + by_x,
                 y0 = (double)i * region->height / (double)job->s.size + region->top + by_y;
    const double counted = job->g ? (double)((const T *)job->count_in)[at] : 0;
    const int64_t plane = mx_roi_part_plane(&job->s, region->image, c, i, j);
    const double g = counted > 0 ? (double)((const T *)job->g)[at] / counted : 0;
    double sum = 0, count = 0, dy = 0, dx = 0;
    for (int64_t s = 0; s < job->s.samples * job->s.samples; s++) {
        double x, y;
        if (!mx_roi_part_sample(&job->s, region, y0, x0, s, &y, &x))
            continue;
        sum += NAME(sample)((const T *)job->map + plane, counted > 0 ? (T *)job->dmap + plane : NULL, job->s.width, y,
                            x, g, &dy, &dx);
        count++;
    }
    if (!job->g)
        ((T *)job->out)[at] = (T)(count > 0 ? sum / count : 0), ((T *)job->count)[at] = (T)count;
    else if (job->dtrans) {
        ((T *)job->dtrans)[move] += (T)(dx * job->s.deviation * region->width);
        ((T *)job->dtrans)[other] += (T)(dy * job->s.deviation * region->height);
    }
}

/* Results of classes [begin, end) where movements have gradients, else results [begin, end). */
static void NAME(samples)(void *arg, int64_t begin, int64_t end)
{
    const parts_job *job = arg;
    const int64_t bins = job->s.size * job->s.size, each = bins * (job->dtrans ? job->s.dim / job->s.classes : 1);
    for (int64_t r = 0; r < job->s.regions; r++) {
        const mx_roi_part_region region = NAME(region)(job, r, 0.5);
        for (int64_t e = begin * each; e < end * each; e++)
            if (region.image >= 0)
                NAME(bin)(job, &region, r, e / bins, e / job->s.size % job->s.size, e % job->s.size);
            else if (!job->g)
                ((T *)job->out)[r * job->s.dim * bins + e] = 0, ((T *)job->count)[r * job->s.dim * bins + e] = 0;
    }
}
