/* Images of event files.  SPDX-License-Identifier: Apache-2.0 */
#include "base/image.h"

#include "base/alloc.h"
#include "base/error.h"
#include "gluon/summary/events.h"
#include "ndarray/array.h"

/* Bytes (H, W, C) of an array; floats are scaled and clipped. */
static mx_code take_pixels(mx_array *x, bool first, int64_t h, int64_t w, int64_t c, unsigned char *pixels)
{
    double *numbers = mx_alloc((size_t)x->size * sizeof *numbers + 1);
    const double scale = x->dtype == MX_UINT8 ? 1 : 255;
    mx_code code = numbers ? mx_array_read_doubles(x, numbers, x->size) : MX_ERR_MEMORY;
    for (int64_t i = 0; !code && i < h * w; i++)
        for (int64_t k = 0; k < c; k++) {
            const double v = numbers[first ? k * h * w + i : i * c + k] * scale;
            pixels[i * c + k] = (unsigned char)(v > 255 ? 255 : v > 0 ? v + 0.5 : 0);
        }
    mx_free(numbers, (size_t)x->size * sizeof *numbers + 1);
    return code;
}

mx_code mx_summary_image(mx_summary_writer *writer, const char *tag, mx_array *image, int64_t step)
{
    mx_text value = {0}, encoded = {0}, png = {0};
    if (!mx_summary_ok(writer, tag, "mx_summary_image") || !mx_array_ok(image, "mx_summary_image", "image"))
        return mx_error_code();
    const bool last = image->ndim == 3 && (image->shape[2] == 1 || image->shape[2] == 3);
    const bool first = !last && image->ndim == 3 && (image->shape[0] == 1 || image->shape[0] == 3);
    if ((!first && !last) || !image->size)
        return mx_fail(MX_ERR_SHAPE, "mx_summary_image: wanted (H, W, C) or (C, H, W) with one or three channels");
    const int64_t h = image->shape[first ? 1 : 0], w = image->shape[first ? 2 : 1], c = image->shape[first ? 0 : 2];
    unsigned char *pixels = mx_alloc((size_t)(h * w * c));
    mx_code code = pixels ? take_pixels(image, first, h, w, c, pixels) : MX_ERR_MEMORY;
    if (!code && !mx_image_encode(&(mx_image_pixels){pixels, h, w, (int)c, true}, ".png", 3, &png))
        code = mx_error_code();
    if (!code) {
        mx_proto_put_int(&encoded, 1, h);
        mx_proto_put_int(&encoded, 2, w);
        mx_proto_put_int(&encoded, 3, c);
        mx_proto_put_bytes(&encoded, 4, png.data, png.length);
        mx_proto_put_message(&value, 4, &encoded);
        code = mx_event_put_value(writer, tag, &value, step);
    }
    mx_free(pixels, (size_t)(h * w * c));
    mx_text_free(&encoded);
    mx_text_free(&png);
    return code;
}
