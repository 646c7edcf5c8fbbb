/* Position-sensitive pooling for one element type: included with T and NAME(x) defined.  SPDX-License-Identifier:
 * Apache-2.0 */

static parts_region NAME(region)(const parts_job *job, int64_t r, double shift)
{
    double roi[5];
    for (int k = 0; k < 5; k++)
        roi[k] = (double)((const T *)job->rois)[5 * r + k];
    return region_of(job, roi, shift);
}

/* First element of the plane that bin (i, j) of result c looks at. */
static int64_t NAME(plane_of)(const parts_job *job, int64_t image, int64_t c, int64_t i, int64_t j)
{
    const int64_t channel = (c * job->group + i * job->group / job->size) * job->group + j * job->group / job->size;
    return (image * job->maps + channel) * job->height * job->width;
}

/* PSROIPooling, results [begin, end): the mean of a bin, or its transpose. */
static void NAME(means)(void *arg, int64_t begin, int64_t end)
{
    const parts_job *job = arg;
    for (int64_t r = 0; r < job->regions; r++) {
        const parts_region region = NAME(region)(job, r, 0);
        const double down = region.height / (double)job->size, across = region.width / (double)job->size;
        for (int64_t e = begin * job->size * job->size; e < end * job->size * job->size; e++) {
            const int64_t j = e % job->size, i = e / job->size % job->size, c = e / job->size / job->size;
            const int64_t top = within(floor((double)i * down + region.top), job->height),
                          bottom = within(ceil((double)(i + 1) * down + region.top), job->height);
            const int64_t left = within(floor((double)j * across + region.left), job->width),
                          right = within(ceil((double)(j + 1) * across + region.left), job->width);
            const int64_t at = r * job->dim * job->size * job->size + e, area = (bottom - top) * (right - left);
            const bool empty = region.image < 0 || bottom <= top || right <= left;
            const int64_t plane = empty ? 0 : NAME(plane_of)(job, region.image, c, i, j);
            double sum = 0;
            for (int64_t y = top; !empty && y < bottom; y++)
                for (int64_t x = left; x < right; x++)
                    if (job->g)
                        ((T *)job->dmap)[plane + y * job->width + x] += ((const T *)job->g)[at] / (T)area;
                    else
                        sum += (double)((const T *)job->map)[plane + y * job->width + x];
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
static void NAME(bin)(const parts_job *job, const parts_region *region, int64_t r, int64_t c, int64_t i, int64_t j)
{
    const int64_t at = ((r * job->dim + c) * job->size + i) * job->size + j, class_id = c / (job->dim / job->classes);
    const int64_t move = ((r * job->classes + class_id) * 2 * job->part + i * job->part / job->size) * job->part +
                         j * job->part / job->size,
                  other = move + job->part * job->part;
    const double by_x = job->trans ? (double)((const T *)job->trans)[move] * job->deviation * region->width : 0,
                 by_y = job->trans ? (double)((const T *)job->trans)[other] * job->deviation * region->height : 0;
    const double x0 = (double)j * region->width / (double)job->size + region->left + by_x,
                 y0 = (double)i * region->height / (double)job->size + region->top + by_y;
    const double counted = job->g ? (double)((const T *)job->count_in)[at] : 0,
                 each = (double)(job->size * job->samples);
    const int64_t plane = NAME(plane_of)(job, region->image, c, i, j);
    const double g = counted > 0 ? (double)((const T *)job->g)[at] / counted : 0;
    double sum = 0, count = 0, dy = 0, dx = 0;
    for (int64_t s = 0; s < job->samples * job->samples; s++) {
        const double x = x0 + (double)(s % job->samples) * region->width / each,
                     y = y0 + (double)(s / job->samples) * region->height / each;
        if (!(x >= -0.5 && x <= (double)job->width - 0.5 && y >= -0.5 && y <= (double)job->height - 0.5))
            continue;
        const double inner_x = x < 0                          ? 0
                               : x > (double)(job->width - 1) ? (double)(job->width - 1)
                                                              : x,
                     inner_y = y < 0                           ? 0
                               : y > (double)(job->height - 1) ? (double)(job->height - 1)
                                                               : y;
        sum += NAME(sample)((const T *)job->map + plane, counted > 0 ? (T *)job->dmap + plane : NULL, job->width,
                            inner_y, inner_x, g, &dy, &dx);
        count++;
    }
    if (!job->g)
        ((T *)job->out)[at] = (T)(count > 0 ? sum / count : 0), ((T *)job->count)[at] = (T)count;
    else if (job->dtrans) {
        ((T *)job->dtrans)[move] += (T)(dx * job->deviation * region->width);
        ((T *)job->dtrans)[other] += (T)(dy * job->deviation * region->height);
    }
}

/* Results of classes [begin, end) where movements have gradients, else results [begin, end). */
static void NAME(samples)(void *arg, int64_t begin, int64_t end)
{
    const parts_job *job = arg;
    const int64_t bins = job->size * job->size, each = bins * (job->dtrans ? job->dim / job->classes : 1);
    for (int64_t r = 0; r < job->regions; r++) {
        const parts_region region = NAME(region)(job, r, 0.5);
        for (int64_t e = begin * each; e < end * each; e++)
            if (region.image >= 0)
                NAME(bin)(job, &region, r, e / bins, e / job->size % job->size, e % job->size);
            else if (!job->g)
                ((T *)job->out)[r * job->dim * bins + e] = 0, ((T *)job->count)[r * job->dim * bins + e] = 0;
    }
}
