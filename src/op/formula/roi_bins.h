/* One bin of a pooling of regions (roi.h), in both directions.
 *
 * Whoever includes this defines MX_ROI_FUNCTION, the specifiers of a function, MX_ROI(name), its name, T, the element type
 * (in C++ a template parameter), and MX_ROI_ADD(to, x), which adds to a gradient: atomically on a GPU.
 *
 * SPDX-License-Identifier: Apache-2.0 */

/* ROIPooling: the maximum of bin b and, in *where, its place in the plane; 0 and -1 if the bin is empty.
 * plane NULL: the image of the region does not exist */
MX_ROI_FUNCTION T MX_ROI(largest)(const mx_roi *s, const mx_roi_window *w, int64_t b, const T *plane, int64_t *where)
{
    int64_t top, bottom, left, right, found = -1;
    mx_roi_bin(b / s->columns, s->rows, w->top, w->height, s->height, &top, &bottom);
    mx_roi_bin(b % s->columns, s->columns, w->left, w->width, s->width, &left, &right);
    T best = 0;
    for (int64_t y = top; y < bottom && plane; y++)
        for (int64_t x = left; x < right; x++) {
            const T v = plane[y * s->width + x];
            if (found < 0 ? v > -(T)INFINITY : v > best)
                best = v, found = y * s->width + x;
        }
    *where = found;
    return best;
}

/* ROIAlign: adds a bilinear sample to a sum; adds the gradient of a sample to a plane. */
MX_ROI_FUNCTION double MX_ROI(with_sample)(double sum, const mx_roi_tap *tap, const T *plane)
{
    for (int q = 0; q < 4; q++)
        sum += tap->weight[q] * (double)plane[tap->place[q]];
    return sum;
}
MX_ROI_FUNCTION void MX_ROI(add_sample)(T *plane, const mx_roi_tap *tap, T g)
{
    for (int q = 0; q < 4; q++)
        MX_ROI_ADD(plane[tap->place[q]], (T)tap->weight[q] * g);
}
