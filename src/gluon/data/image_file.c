/* Image files to arrays and back (see gluon/image.h and base/image.h).  SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/file.h"
#include "base/given.h"
#include "base/image.h"
#include "gluon/image.h"
#include "ndarray/array.h"

#define LARGEST ((int64_t)1 << 31) /* bytes of a file */

static mx_array *decode(const mx_image_file *file, int flag, bool rgb)
{
    mx_image_info info;
    if (flag < -1 || flag > 1)
        return mx_fail_null(MX_ERR_ARGUMENT, "%s: flag is %d, wanted 0 (gray), 1 (colour) or -1 (as it is)", file->name,
                            flag);
    if (!mx_image_probe(file, &info))
        return NULL;
    const int channels = flag == 1 ? 3 : flag == 0 ? 1 : info.channels;
    mx_shape_t shape = {.ndim = 3, .dim = {info.height, info.width, channels}};
    mx_array *image = mx_array_new(&shape, MX_UINT8, mx_cpu(0));
    if (image && mx_image_decode(file, &(mx_image_pixels){mx_data(image), info.height, info.width, channels, rgb}))
        return mx_scope_add(image);
    mx_release(image);
    return NULL;
}

mx_array *mx_imdecode_make(const struct mx_imdecode_args *args)
{
    if (!args || !args->bytes || args->size < 0)
        return mx_fail_null(MX_ERR_ARGUMENT, "mx_imdecode: bytes is NULL or their number negative");
    return decode(&(mx_image_file){args->bytes, args->size, "mx_imdecode", args->flag >= 0}, args->flag, args->to_rgb);
}

mx_array *mx_imread_make(const struct mx_imread_args *args)
{
    int64_t size;
    if (!args || !args->path)
        return mx_fail_null(MX_ERR_ARGUMENT, "mx_imread: path is NULL, wanted a text");
    unsigned char *bytes = mx_file_read(args->path, LARGEST, &size);
    mx_array *image =
        bytes ? decode(&(mx_image_file){bytes, size, args->path, args->flag >= 0}, args->flag, args->to_rgb) : NULL;
    mx_free(bytes, (size_t)size + 1);
    return image;
}

/* ---- writing ------------------------------------------------------------------------------------------------------ */

static mx_code encode(const struct mx_imencode_args *args, const char *function, const char *format, mx_text *out)
{
    mx_array *x = args->image;
    if (!mx_array_ok(x, function, "image"))
        return mx_error_code();
    const int channels = x->ndim == 3 && x->shape[2] < 5 ? (int)x->shape[2] : x->ndim == 2 ? 1 : 0;
    char text[MX_SHAPE_TEXT];
    mx_shape_t shape = mx_array_shape(x);
    if (x->dtype != MX_UINT8 || x->size < 1 || (channels != 1 && channels != 3 && channels != 4))
        return mx_fail(MX_ERR_SHAPE,
                       "%s: image is %s of shape %s, wanted uint8 of (H, W) or (H, W, C) with 1, 3 or 4 channels",
                       function, mx_dtype_name((mx_dtype)x->dtype), mx_shape_text(&shape, text));
    unsigned char *data = mx_array_data(mx_array_to(x, mx_cpu(0)));
    if (!data)
        return mx_error_code();
    const mx_image_pixels pixels = {data, x->shape[0], x->shape[1], channels, args->rgb};
    return mx_image_encode(&pixels, format, args->quality, out) ? MX_OK : mx_error_code();
}

mx_array *mx_imencode_make(const struct mx_imencode_args *args)
{
    mx_text bytes = {0};
    mx_array *result = NULL;
    if (!args || !args->format)
        return mx_fail_null(MX_ERR_ARGUMENT, "mx_imencode: format is NULL, wanted '.jpg' or '.png'");
    if (!encode(args, "mx_imencode", args->format, &bytes)) {
        mx_shape_t shape = {.ndim = 1, .dim = {(int64_t)bytes.length}};
        result = mx_scope_add(mx_array_new(&shape, MX_UINT8, mx_cpu(0)));
        if (result && bytes.length)
            memcpy(mx_data(result), bytes.data, bytes.length);
    }
    mx_text_free(&bytes);
    return result;
}

mx_code mx_imwrite_make(const struct mx_imencode_args *args)
{
    mx_text bytes = {0};
    if (!mx_given(args, "mx_imwrite", "args"))
        return mx_error_code();
    const char *suffix = args->format ? strrchr(args->format, '.') : NULL;
    if (!suffix)
        return mx_fail(MX_ERR_ARGUMENT, "mx_imwrite: the path '%s' has no suffix, which selects the format",
                       args->format ? args->format : "NULL");
    mx_code code = encode(args, "mx_imwrite", suffix, &bytes);
    if (!code && !mx_file_write(args->format, bytes.data, (int64_t)bytes.length))
        code = mx_error_code();
    mx_text_free(&bytes);
    return code;
}
