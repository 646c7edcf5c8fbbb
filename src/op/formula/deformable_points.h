/* One sampling point of a deformable convolution (deformable.h): its pixels, weights and gradients.
 *
 * Whoever includes this defines MX_POINT_FUNCTION, the specifiers of a function, MX_POINT(name), its name, and T, the
 * element type (in C++ a template parameter).  The order of pixels: top left, top right, bottom left, bottom right.
 *
 * SPDX-License-Identifier: Apache-2.0 */

/* The pixels around the point displaced by (down, across), which lies at (top + *dy, left + *dx). */
MX_POINT_FUNCTION mx_deformable_pixels MX_POINT(pixels)(const mx_deformable *d, int64_t cell, int64_t place, T down,
                                                        T across, bool masked, T *dy, T *dx)
{
    const int64_t height = d->size[0], width = d->size[1];
    T y = (T)(place / d->out[1] * d->stride[0] - d->pad[0] + cell / d->kernel[1] * d->dilate[0]) + down;
    T x = (T)(place % d->out[1] * d->stride[1] - d->pad[1] + cell % d->kernel[1] * d->dilate[1]) + across;
    const bool inside = (masked ? y > -1 && x > -1 : y >= 0 && x >= 0) && y < (T)height && x < (T)width;
    if (!masked)
        y = y > (T)(height - 1) ? (T)(height - 1) : y, x = x > (T)(width - 1) ? (T)(width - 1) : x;
    y = inside ? y : 0, x = inside ? x : 0;
    const int64_t top = (int64_t)y - (y < 0), left = (int64_t)x - (x < 0);
    *dy = y - (T)top, *dx = x - (T)left;
    const mx_deformable_pixels p = {
        {top, masked || top + 1 < height ? top + 1 : top}, {left, masked || left + 1 < width ? left + 1 : left}, inside};
    return p;
}

/* Bilinear weight of pixel k, times a factor. */
MX_POINT_FUNCTION T MX_POINT(weight)(int k, T dy, T dx, T factor)
{
    return factor * (k / 2 ? dy : 1 - dy) * (k % 2 ? dx : 1 - dx);
}

/* The interpolated value of pixels a, b, c, d, and its derivatives by the vertical and horizontal position. */
MX_POINT_FUNCTION T MX_POINT(value)(T a, T b, T c, T d, T dy, T dx)
{
    return (1 - dy) * ((1 - dx) * a + dx * b) + dy * ((1 - dx) * c + dx * d);
}
MX_POINT_FUNCTION T MX_POINT(slope_down)(T a, T b, T c, T d, T dx) { return (1 - dx) * (c - a) + dx * (d - b); }
MX_POINT_FUNCTION T MX_POINT(slope_across)(T a, T b, T c, T d, T dy) { return (1 - dy) * (b - a) + dy * (d - c); }
