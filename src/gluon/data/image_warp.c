/* Images turned, sheared and scaled, and shifted in hue, lightness and saturation (see gluon/image.h).
 *
 *     M = [ h cos a - s w sin a   h sin a + s w cos a ]     h = 2 scale / (1 + ratio), w = ratio h
 *         [      - w sin a              w cos a       ]     s: shear, a: angle
 *
 * maps an offset from the centre of the image to one from the centre of the result, so every pixel of the result is
 * looked up with the inverse of M.  Pixels outside of the image have the fill value, also where a pixel of the result
 * lies between inside and outside.
 *
 * Colours are changed as 8-bit numbers: hues in steps of two degrees, lightness and saturation from 0 to 255.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <string.h>

#include "base/error.h"
#include "gluon/block/core.h"
#include "gluon/image.h"

#define DEGREE (3.14159265358979323846 / 180)
#define MOST_SIDE 32768 /* pixels */

/* The image on the CPU; NULL with an error if it is not uint8 (H, W, C). */
static mx_array *bytes_of(mx_array *image, int channels, const char *function)
{
    char text[MX_SHAPE_TEXT];
    if (!image || !mx_array_ok(image, function, "image"))
        return NULL;
    mx_shape_t shape = mx_array_shape(image);
    if (image->ndim != 3 || image->dtype != MX_UINT8 || (channels && image->shape[2] != channels))
        return mx_fail_null(MX_ERR_SHAPE, "%s: image is %s of type %s, wanted (H, W, %s) of type uint8", function,
                            mx_shape_text(&shape, text), mx_dtype_name((mx_dtype)image->dtype), channels ? "3" : "C");
    return mx_array_to(image, mx_cpu(0));
}

/* ---- shapes ----------------------------------------------------------------------------------------------------- */

typedef struct source {
    const unsigned char *pixels; /* (height, width, channels) */
    int64_t height, width, channels;
    int fill; /* value of pixels outside */
} source;

static double pixel(const source *s, int64_t y, int64_t x, int64_t c)
{
    const bool inside = y >= 0 && y < s->height && x >= 0 && x < s->width;
    return inside ? s->pixels[(y * s->width + x) * s->channels + c] : s->fill;
}

/* Weights of the pixels at -1, 0, 1, 2 for a position t after the second, as OpenCV has them. */
static void cubic_weights(double t, double w[4])
{
    const double a = -0.75;
    w[0] = ((a * (t + 1) - 5 * a) * (t + 1) + 8 * a) * (t + 1) - 4 * a;
    w[1] = ((a + 2) * t - (a + 3)) * t * t + 1;
    w[2] = ((a + 2) * (1 - t) - (a + 3)) * (1 - t) * (1 - t) + 1;
    w[3] = 1 - w[0] - w[1] - w[2];
}

static double cubic(const source *s, double y, double x, int64_t c)
{
    const double top = floor(y), left = floor(x);
    double across[4], down[4], sum = 0;
    cubic_weights(x - left, across);
    cubic_weights(y - top, down);
    for (int i = 0; i < 4; i++)
        for (int j = 0; j < 4; j++)
            sum += down[i] * across[j] * pixel(s, (int64_t)top + i - 1, (int64_t)left + j - 1, c);
    return sum;
}

static double linear(const source *s, double y, double x, int64_t c)
{
    const double top = floor(y), left = floor(x), v = y - top, u = x - left;
    const int64_t i = (int64_t)top, j = (int64_t)left;
    return (1 - v) * ((1 - u) * pixel(s, i, j, c) + u * pixel(s, i, j + 1, c)) +
           v * ((1 - u) * pixel(s, i + 1, j, c) + u * pixel(s, i + 1, j + 1, c));
}

static double nearest(const source *s, double y, double x, int64_t c)
{
    return pixel(s, (int64_t)floor(y + 0.5), (int64_t)floor(x + 0.5), c);
}

static unsigned char to_byte(double v) { return (unsigned char)(v <= 0 ? 0 : v >= 255 ? 255 : v + 0.5); }

static int64_t side(const mx_warp *warp, int64_t length)
{
    double wanted = warp->scale * (double)length;
    wanted = wanted > (double)warp->max_size ? (double)warp->max_size : wanted;
    wanted = wanted < (double)warp->min_size ? (double)warp->min_size : wanted;
    return wanted > MOST_SIDE ? MOST_SIDE + 1 : (int64_t)wanted;
}

static mx_code check(const mx_warp *warp)
{
    if (!isfinite(warp->angle) || !isfinite(warp->shear) || !(warp->scale > 0) || !(warp->ratio > 0) ||
        !isfinite(warp->scale) || !isfinite(warp->ratio))
        return mx_fail(MX_ERR_ARGUMENT,
                       "mx_image_warp: angle is %g, shear %g, scale %g, ratio %g; wanted finite numbers, scale and "
                       "ratio positive",
                       warp->angle, warp->shear, warp->scale, warp->ratio);
    return MX_OK;
}

mx_array *mx_image_warp(mx_array *image, const mx_warp *warp)
{
    image = bytes_of(image, 0, "mx_image_warp");
    if (!image || !warp || check(warp))
        return image && !warp ? mx_fail_null(MX_ERR_ARGUMENT, "mx_image_warp: warp is NULL") : NULL;
    const source s = {mx_data(image), image->shape[0], image->shape[1], image->shape[2], warp->fill};
    const int64_t height = side(warp, s.height), width = side(warp, s.width);
    const int method = mx_image_interp(warp->interp, s.height, s.width, height, width);
    if (height < 1 || width < 1 || height > MOST_SIDE || width > MOST_SIDE)
        return mx_fail_null(MX_ERR_ARGUMENT, "mx_image_warp: the result would be %lld x %lld pixels, wanted 1 to %d",
                            (long long)width, (long long)height, MOST_SIDE);
    mx_array *result = method < 0 ? NULL : mx_empty(MX_DIMS(height, width, s.channels), MX_UINT8, mx_cpu(0));
    if (!result)
        return NULL;
    const double a = cos(warp->angle * DEGREE), b = sin(warp->angle * DEGREE), h = 2 * warp->scale / (1 + warp->ratio),
                 w = warp->ratio * h, m00 = h * a - warp->shear * b * w, m01 = h * b + warp->shear * a * w,
                 m10 = -b * w, m11 = a * w, area = m00 * m11 - m01 * m10;
    double (*look)(const source *, double, double, int64_t) = method == 0                  ? nearest
                                                              : method == 2 || method == 4 ? cubic
                                                                                           : linear;
    unsigned char *to = mx_data(result);
    for (int64_t y = 0; y < height; y++)
        for (int64_t x = 0; x < width; x++) {
            const double dx = (double)x - (double)width / 2, dy = (double)y - (double)height / 2,
                         from_x = (m11 * dx - m01 * dy) / area + (double)s.width / 2,
                         from_y = (m00 * dy - m10 * dx) / area + (double)s.height / 2;
            const bool near =
                from_x > -4 && from_y > -4 && from_x < (double)s.width + 4 && from_y < (double)s.height + 4;
            for (int64_t c = 0; c < s.channels; c++)
                *to++ = to_byte(near ? look(&s, from_y, from_x, c) : s.fill);
        }
    return result;
}

/* ---- colours ---------------------------------------------------------------------------------------------------- */

/* 8-bit hue (0..180), lightness and saturation (0..255) of a colour. */
static void to_hls(const unsigned char rgb[3], int hls[3])
{
    const double r = rgb[0] / 255.0, g = rgb[1] / 255.0, b = rgb[2] / 255.0, most = fmax(r, fmax(g, b)),
                 least = fmin(r, fmin(g, b)), range = most - least, sum = most + least;
    double hue = 0, saturation = 0;
    if (range > 1e-7) {
        saturation = sum < 1 ? range / sum : range / (2 - sum);
        hue = most == r ? (g - b) * 60 / range : most == g ? (b - r) * 60 / range + 120 : (r - g) * 60 / range + 240;
        hue += hue < 0 ? 360 : 0;
    }
    hls[0] = (int)(hue / 2 + 0.5), hls[1] = to_byte(sum / 2 * 255), hls[2] = to_byte(saturation * 255);
}

/* A channel: up from p1 to p2 over 60 degrees, p2 for 120, down again, p1 for 120. */
static double channel(double hue, double p1, double p2)
{
    hue = fmod(hue + 360, 360);
    if (hue < 60)
        return p1 + (p2 - p1) * hue / 60;
    return hue < 180 ? p2 : hue < 240 ? p1 + (p2 - p1) * (240 - hue) / 60 : p1;
}

static void from_hls(const int hls[3], unsigned char rgb[3])
{
    const double hue = hls[0] * 2.0, l = hls[1] / 255.0, s = hls[2] / 255.0,
                 p2 = l <= 0.5 ? l * (1 + s) : l + s - l * s, p1 = 2 * l - p2;
    for (int i = 0; i < 3; i++)
        rgb[i] = to_byte(255 * channel(hue + 120 - 120 * i, p1, p2));
}

mx_array *mx_image_shift_hls(mx_array *image, int hue, int lightness, int saturation)
{
    static const int limits[3] = {180, 255, 255};
    const int shifts[3] = {hue, lightness, saturation};
    image = bytes_of(image, 3, "mx_image_shift_hls");
    mx_array *result = image ? mx_empty(MX_DIMS(image->shape[0], image->shape[1], 3), MX_UINT8, mx_cpu(0)) : NULL;
    if (!result)
        return NULL;
    const unsigned char *from = mx_data(image);
    unsigned char *to = mx_data(result);
    for (int64_t n = image->size / 3; n > 0; n--, from += 3, to += 3) {
        int hls[3];
        to_hls(from, hls);
        for (int i = 0; i < 3; i++) {
            const int64_t v = (int64_t)hls[i] + shifts[i];
            hls[i] = (int)(v < 0 ? 0 : v > limits[i] ? limits[i] : v);
        }
        from_hls(hls, to);
    }
    return result;
}
