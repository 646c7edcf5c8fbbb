/* Images: files, sizes, crops.  An image is an array (H, W, C) of uint8 (as files hold it) or of numbers.
 *
 *     mx_array *image = mx_imread("cat.jpg");
 *     mx_array *input = mx_image_center_crop(mx_image_resize_short(image, 256, 2), 224, 224, 2, NULL);
 *
 * What changes an image without random numbers of its own is an operator: mx_imresize, mx_image_resize, mx_image_crop,
 * mx_copy_make_border, mx_image_flip_left_right, mx_image_rotate, mx_image_normalize ... (<gluon/op.gen.h>); the
 * transforms of data sets are layers: mx_resize, mx_center_crop, mx_random_resized_crop ... (<gluon/nn.gen.h>).
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef GLUON_IMAGE_H
#define GLUON_IMAGE_H

#include "gluon/block.h"

/* ---- files ---------------------------------------------------------------------------------------------- */
/* JPEG, PNG, PGM and PPM; JPEG and PNG if this build has their libraries. */
struct mx_imread_args {
    int flag;    /* 1: three channels; 0: gray; -1: as stored (1, 3 or 4 channels, not turned upright) */
    bool to_rgb; /* channels in the order R, G, B; else B, G, R */
    char positional_;
    const char *path;
};
#define mx_imread(...) mx_imread_make(&(struct mx_imread_args){.flag = 1, .to_rgb = true, .positional_ = 0, __VA_ARGS__})
MX_API mx_array *mx_imread_make(const struct mx_imread_args *args);

struct mx_imdecode_args {
    int flag;
    bool to_rgb;
    char positional_;
    const void *bytes; /* of an image file */
    int64_t size;
};
#define mx_imdecode(...) \
    mx_imdecode_make(&(struct mx_imdecode_args){.flag = 1, .to_rgb = true, .positional_ = 0, __VA_ARGS__})
MX_API mx_array *mx_imdecode_make(const struct mx_imdecode_args *args);

struct mx_imencode_args {
    int quality; /* JPEG: 1..100; PNG: compression 0..9, others: the default */
    bool rgb;    /* the channels stand in the order R, G, B; else B, G, R */
    char positional_;
    mx_array *image;    /* uint8 (H, W, C) with 1, 3 or 4 channels, or (H, W) */
    const char *format; /* ".jpg", ".png", ".ppm"; for mx_imwrite the path */
};
/* The bytes of an image file, as an array. */
#define mx_imencode(...) mx_imencode_make(&(struct mx_imencode_args){.quality = 95, .rgb = true, .positional_ = 0, __VA_ARGS__})
MX_API mx_array *mx_imencode_make(const struct mx_imencode_args *args);
/* mx_imwrite(image, "cat.png"): the suffix tells the format; written atomically. */
#define mx_imwrite(...) mx_imwrite_make(&(struct mx_imencode_args){.quality = 95, .rgb = true, .positional_ = 0, __VA_ARGS__})
MX_API mx_code mx_imwrite_make(const struct mx_imencode_args *args);

/* ---- sizes and crops, (H, W, C) or (N, H, W, C) -------------------------------------------------------------- */
/* interp: 0 nearest, 1 linear, 2 cubic, 3 area, 4 Lanczos, 9 chosen by the sizes (area to shrink, cubic to enlarge,
 * else linear), 10 at random. */
typedef struct mx_region {
    int64_t x, y, width, height;
} mx_region;
/* One of 0..4 for such a number and sizes (0: not known, then 9 is cubic); -1 with an error for others. */
MX_API int mx_image_interp(int interp, int64_t height, int64_t width, int64_t new_height, int64_t new_width);
/* The largest size of this shape that fits into the source: how crops treat images that are too small. */
MX_API void mx_image_scale_down(int64_t source_width, int64_t source_height, int64_t *width, int64_t *height);
MX_API mx_array *mx_image_resize_short(mx_array *image, int64_t size, int interp); /* the shorter side gets this size */
/* The region, then resized to width x height unless they are 0. */
MX_API mx_array *mx_image_fixed_crop(mx_array *image, mx_region region, int64_t width, int64_t height, int interp);
/* These say where they cropped if `region` is not NULL. */
MX_API mx_array *mx_image_center_crop(mx_array *image, int64_t width, int64_t height, int interp, mx_region *region);
MX_API mx_array *mx_image_random_crop(mx_array *image, int64_t width, int64_t height, int interp, mx_region *region);
/* A random part of the area, area[0]..area[1], with a random ratio of width to height, ratio[0]..ratio[1]. */
MX_API mx_array *mx_image_random_size_crop(mx_array *image, int64_t width, int64_t height, const double *area,
                                           const double *ratio, int interp, mx_region *region);
/* (image - mean) / std; std may be MX_NONE. */
MX_API mx_array *mx_image_color_normalize(mx_array *image, mx_array *mean, mx_array *std);

/* A transform that is applied with probability p. */
MX_API mx_block *mx_random_apply(mx_block *transform, double p);

#endif
