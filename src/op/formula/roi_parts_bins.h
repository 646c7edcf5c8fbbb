/* One bin of a position-sensitive pooling of regions, in both directions.
 *
 * Whoever includes this defines MX_ROI_FUNCTION, the specifiers of a function, MX_ROI(name), its name, T, the element type
 * (in C++ a template parameter), and MX_ROI_ADD(to, x), which adds to a gradient: atomically on a GPU.
 *
 * SPDX-License-Identifier: Apache-2.0 */

MX_ROI_FUNCTION mx_roi_part_region MX_ROI(region)(const mx_roi_parts *s, const T *rois, int64_t r, double shift)
{
    double roi[5];
    for (int k = 0; k < 5; k++)
        roi[k] = (double)rois[5 * r + k];
    return mx_roi_part_region_of(s, roi, shift);
}

/* PSROIPooling: the mean of bin `at` of the result, or its transpose. */
MX_ROI_FUNCTION void MX_ROI(mean)(const mx_roi_parts_job *m, const T *map, const mx_roi_part_region *region, int64_t at)
{
    const mx_roi_part_place p = mx_roi_part_place_of(&m->s, at);
    int64_t top, bottom, left, right;
    mx_roi_part_bin(&m->s, p.i, region->top, region->height, m->s.height, &top, &bottom);
    mx_roi_part_bin(&m->s, p.j, region->left, region->width, m->s.width, &left, &right);
    const int64_t area = (bottom - top) * (right - left);
    const bool empty = region->image < 0 || bottom <= top || right <= left;
    const int64_t plane = empty ? 0 : mx_roi_part_plane(&m->s, region->image, &p);
    double sum = 0;
    for (int64_t y = top; !empty && y < bottom; y++)
        for (int64_t x = left; x < right; x++)
            if (m->g)
                MX_ROI_ADD(((T *)m->dmap)[plane + y * m->s.width + x], ((const T *)m->g)[at] / (T)area);
            else
                sum += (double)map[plane + y * m->s.width + x];
    if (!m->g)
        ((T *)m->out)[at] = (T)(empty ? 0 : sum / (double)area);
}

/* One bilinear sample: its value; with `into` its gradients, too: into the map, and by place in *dy and *dx. */
MX_ROI_FUNCTION double MX_ROI(sample)(const T *map, T *into, int64_t width, double y, double x, double g, double *dy,
                                      double *dx)
{
    const int64_t top = (int64_t)y, left = (int64_t)x, bottom = top + ((double)top < y),
                  right = left + ((double)left < x);
    const double fy = y - (double)top, fx = x - (double)left;
    const int64_t a = top * width + left, b = top * width + right, c = bottom * width + left,
                  d = bottom * width + right;
    const double va = (double)map[a], vb = (double)map[b], vc = (double)map[c], vd = (double)map[d];
    if (into) {
        MX_ROI_ADD(into[a], (T)(g * (1 - fy) * (1 - fx)));
        MX_ROI_ADD(into[b], (T)(g * (1 - fy) * fx));
        MX_ROI_ADD(into[c], (T)(g * fy * (1 - fx)));
        MX_ROI_ADD(into[d], (T)(g * fy * fx));
    }
    *dy += g * ((1 - fx) * (vc - va) + fx * (vd - vb));
    *dx += g * ((1 - fy) * (vb - va) + fy * (vd - vc));
    return (1 - fy) * ((1 - fx) * va + fx * vb) + fy * ((1 - fx) * vc + fx * vd);
}

/* DeformablePSROIPooling: the mean of the samples of bin `at` of the result, which moves; or its gradients. */
MX_ROI_FUNCTION void MX_ROI(moving)(const mx_roi_parts_job *m, const T *map, const mx_roi_part_region *region,
                                    int64_t at)
{
    const mx_roi_part_place p = mx_roi_part_place_of(&m->s, at);
    double sum = 0, count = 0, dy = 0, dx = 0;
    if (region->image >= 0) {
        const T *trans = (const T *)m->trans;
        const int64_t move = mx_roi_part_move(&m->s, &p), other = move + m->s.part * m->s.part;
        const double by_x = trans ? (double)trans[move] * m->s.deviation * region->width : 0,
                     by_y = trans ? (double)trans[other] * m->s.deviation * region->height : 0;
        const double x0 = mx_roi_part_begin(&m->s, p.j, region->left, region->width, by_x),
                     y0 = mx_roi_part_begin(&m->s, p.i, region->top, region->height, by_y);
        const double counted = m->g ? (double)((const T *)m->counted)[at] : 0,
                     g = counted > 0 ? (double)((const T *)m->g)[at] / counted : 0;
        const int64_t plane = mx_roi_part_plane(&m->s, region->image, &p);
        T *into = counted > 0 ? (T *)m->dmap + plane : NULL;
        for (int64_t s = 0; s < m->s.samples * m->s.samples; s++) {
            double x, y;
            if (!mx_roi_part_sample(&m->s, region, y0, x0, s, &y, &x))
                continue;
            sum += MX_ROI(sample)(map + plane, into, m->s.width, y, x, g, &dy, &dx);
            count++;
        }
        if (m->dtrans) {
            MX_ROI_ADD(((T *)m->dtrans)[move], (T)(dx * m->s.deviation * region->width));
            MX_ROI_ADD(((T *)m->dtrans)[other], (T)(dy * m->s.deviation * region->height));
        }
    }
    if (!m->g)
        ((T *)m->out)[at] = (T)(count > 0 ? sum / count : 0), ((T *)m->count)[at] = (T)count;
}
