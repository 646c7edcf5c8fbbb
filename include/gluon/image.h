/* Images: files, sizes, crops.  An image is an array (H, W, C) of uint8 (as in files) or of another type.
 *
 *     mx_array *image = mx_imread("cat.jpg");
 *     mx_array *input = mx_image_center_crop(mx_image_resize_short(image, 256, 2), 224, 224, 2, NULL);
 *
 * Deterministic changes of an image are operators: mx_imresize, mx_image_resize, mx_image_crop,
 * mx_copy_make_border, mx_image_flip_left_right, mx_image_rotate, mx_image_normalize ... (<gluon/op.gen.h>); the
 * transforms of data sets are layers: mx_resize, mx_center_crop, mx_random_resized_crop ... (<gluon/nn.gen.h>).
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef GLUON_IMAGE_H
#define GLUON_IMAGE_H

#include "gluon/block.h"
#include "gluon/symbol.h"

/* ---- files ---------------------------------------------------------------------------------------------- */
/* JPEG, PNG, PGM and PPM; JPEG and PNG if this build has their libraries. */
struct mx_imread_args {
    int flag;    /* 1: three channels; 0: gray; -1: as stored (1, 3 or 4 channels, EXIF orientation ignored) */
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
    bool rgb;    /* the channels are in the order R, G, B; else B, G, R */
    char positional_;
    mx_array *image;    /* uint8 (H, W, C) with 1, 3 or 4 channels, or (H, W) */
    const char *format; /* ".jpg", ".png", ".ppm"; for mx_imwrite the path */
};
/* The bytes of an image file, as an array. */
#define mx_imencode(...) mx_imencode_make(&(struct mx_imencode_args){.quality = 95, .rgb = true, .positional_ = 0, __VA_ARGS__})
MX_API mx_array *mx_imencode_make(const struct mx_imencode_args *args);
/* mx_imwrite(image, "cat.png"): the suffix selects the format; written atomically. */
#define mx_imwrite(...) mx_imwrite_make(&(struct mx_imencode_args){.quality = 95, .rgb = true, .positional_ = 0, __VA_ARGS__})
MX_API mx_code mx_imwrite_make(const struct mx_imencode_args *args);

/* ---- sizes and crops, (H, W, C) or (N, H, W, C) -------------------------------------------------------------- */
/* interp: 0 nearest, 1 linear, 2 cubic, 3 area, 4 Lanczos, 9 depends on the sizes (area to shrink, cubic to enlarge,
 * else linear), 10 at random. */
typedef struct mx_region {
    int64_t x, y, width, height;
} mx_region;
/* The method 0..4 for such a number and sizes (0: unknown, then 9 is cubic); -1 with an error for others. */
MX_API int mx_image_interp(int interp, int64_t height, int64_t width, int64_t new_height, int64_t new_width);
/* The largest size of this shape that fits into the source: used by crops if the image is too small. */
MX_API void mx_image_scale_down(int64_t source_width, int64_t source_height, int64_t *width, int64_t *height);
MX_API mx_array *mx_image_resize_short(mx_array *image, int64_t size, int interp); /* the shorter side gets this size */
/* A source of random numbers; functions that take it use the library's generator if it is NULL. */
typedef struct mx_draws {
    double (*uniform)(void *user, double low, double high);    /* between the two */
    int64_t (*integer)(void *user, int64_t low, int64_t high); /* one of low .. high */
    void *user;
} mx_draws;
/* The position of a crop of this size in an image of width x height; larger crops are scaled down. */
MX_API mx_region mx_image_center_region(int64_t width, int64_t height, int64_t crop_width, int64_t crop_height);
MX_API mx_region mx_image_random_region(int64_t width, int64_t height, int64_t crop_width, int64_t crop_height,
                                        const mx_draws *draws);
/* A part of an image with a share of its area and a ratio of width to height; false if it does not fit into it. */
MX_API bool mx_image_part_size(int64_t width, int64_t height, double share, double ratio, mx_region *size);
/* Random parts: shares of the area, ratios of width to height. */
typedef struct mx_parts {
    double area[2], ratio[2]; /* least, greatest */
    bool log_ratio;           /* the logarithm of the ratio is drawn evenly, else the ratio */
    int tries;                /* to find one that fits */
} mx_parts;
#define MX_CROP_TRIES 10 /* before falling back to the centre */
/* Such a part at a random position; false: none of the tries fits. */
MX_API bool mx_image_random_part(int64_t width, int64_t height, const mx_parts *parts, const mx_draws *draws,
                                 mx_region *region);
/* A larger frame, areas relative to that of the image, which is at a random position (x, y) in it; false: none of the
 * tries leaves room for a border. */
MX_API bool mx_image_random_frame(int64_t width, int64_t height, const mx_parts *parts, const mx_draws *draws,
                                  mx_region *frame);
/* The region, clipped to the image, then resized to width x height unless they are 0. */
MX_API mx_array *mx_image_fixed_crop(mx_array *image, mx_region region, int64_t width, int64_t height, int interp);
/* These return the cropped region in `region` if it is not NULL. */
MX_API mx_array *mx_image_center_crop(mx_array *image, int64_t width, int64_t height, int interp, mx_region *region);
MX_API mx_array *mx_image_random_crop(mx_array *image, int64_t width, int64_t height, int interp, mx_region *region);
/* A random part of the area, area[0]..area[1], with a random ratio of width to height, ratio[0]..ratio[1]. */
MX_API mx_array *mx_image_random_size_crop(mx_array *image, int64_t width, int64_t height, const double *area,
                                           const double *ratio, int interp, mx_region *region);

/* ---- colours at given strengths, (..., 3) --------------------------------------------------------------------- */
MX_API mx_array *mx_image_brightness(mx_array *image, double alpha); /* alpha * image */
MX_API mx_array *mx_image_contrast(mx_array *image, double alpha);   /* from the mean brightness (0) to image (1) */
MX_API mx_array *mx_image_saturation(mx_array *image, double alpha); /* from gray (0) to image (1) */
MX_API mx_array *mx_image_hue(mx_array *image, double alpha);        /* hues rotated by alpha * 180 degrees (YIQ) */
/* image + vectors (values * alpha): strengths (3) along the principal components of colours, their eigenvalues (3) and
 * eigenvectors (3, 3) in columns; NULL: those of ImageNet. */
MX_API mx_array *mx_image_lighting(mx_array *image, const double *alpha, const double *eigval, const double *eigvec);
MX_API extern const double mx_image_eigval[3], mx_image_eigvec[9];
MX_API mx_array *mx_image_gray(mx_array *image); /* in three channels */
/* (image - mean) / std; either may be MX_NONE. */
MX_API mx_array *mx_image_color_normalize(mx_array *image, mx_array *mean, mx_array *std);

/* Hue (steps of two degrees, 0 to 180), lightness and saturation (0 to 255) of a uint8 image shifted by whole steps. */
MX_API mx_array *mx_image_shift_hls(mx_array *image, int hue, int lightness, int saturation);

/* ---- turning and scaling, uint8 (H, W, C) --------------------------------------------------------------------- */
typedef struct mx_warp {
    double angle;               /* degrees, counter-clockwise */
    double shear;               /* horizontal offset per row */
    double scale;               /* of both sides */
    double ratio;               /* contents get wider (> 1) or higher (< 1) */
    int64_t min_size, max_size; /* of a side of the result, before which the scale gives way */
    int fill;                   /* value of pixels outside of the image */
    int interp;                 /* as for sizes; cubic and Lanczos are both cubic, area is linear */
} mx_warp;
#define MX_NO_WARP {.scale = 1, .ratio = 1, .max_size = 1 << 15, .fill = 255, .interp = 1}
/* The image around its centre; its size is changed by the scale alone. */
MX_API mx_array *mx_image_warp(mx_array *image, const mx_warp *warp);

/* ---- boxes ---------------------------------------------------------------------------------------------------- */
/* The objects in an image, an array (objects, 5 or more) of float32 or float64: class, left, top, right, bottom, ...;
 * coordinates are fractions of width and height.  They change together with the image:
 *
 *     mx_region r;
 *     mx_array *inside = mx_boxes_random_crop(boxes, width, height, &how, NULL, &r);
 *     if (inside)
 *         boxes = inside, image = mx_image_fixed_crop(image, r, 0, 0, 2);
 *
 * Results are on the CPU. */
MX_API mx_array *mx_boxes_flip(mx_array *boxes); /* left and right exchanged */
/* How crops and frames are drawn, and which objects are left after a crop. */
typedef struct mx_box_crop {
    double min_object_covered; /* at least one object is covered by this fraction */
    double min_eject_coverage; /* objects covered by no more than this fraction are dropped */
    mx_parts parts;            /* tries: how many are drawn before the image is left unchanged */
} mx_box_crop;
/* The objects in a region, in its coordinates; NULL without error: it covers too little. */
MX_API mx_array *mx_boxes_crop(mx_array *boxes, int64_t width, int64_t height, mx_region region,
                               const mx_box_crop *how);
/* A random region that covers enough; NULL without error: none was found. */
MX_API mx_array *mx_boxes_random_crop(mx_array *boxes, int64_t width, int64_t height, const mx_box_crop *how,
                                      const mx_draws *draws, mx_region *region);
/* The objects of an image that is put at (x, y) of a frame of frame.width x frame.height. */
MX_API mx_array *mx_boxes_pad(mx_array *boxes, int64_t width, int64_t height, mx_region frame);
/* A random frame, areas relative to that of the image; NULL without error: none had room on all sides. */
MX_API mx_array *mx_boxes_random_pad(mx_array *boxes, int64_t width, int64_t height, const mx_parts *parts,
                                     const mx_draws *draws, mx_region *frame);
/* The objects of a label as in record files: length of its header, numbers per object, the rest of the header, then the
 * objects.  Those without an area are dropped; NULL without error: all of them. */
MX_API mx_array *mx_boxes_parse(mx_array *label);

/* ---- augmenters ----------------------------------------------------------------------------------------------- */
/* The usual changes of images (H, W, 3) before training, in the usual order; float32 results of height x width:
 *
 *     mx_block *augmenter = mx_augmenter(224, 224, .resize = 256, .rand_crop = 1, .rand_mirror = true);
 *     mx_dataset *changed = mx_dataset_transform_first(images, augmenter);
 */
struct mx_augmenter_args {
    int64_t resize;                                /* first resizes the shorter side to this; 0: does not */
    double rand_crop;                              /* probability of a random crop; without boxes > 0 or not */
    bool rand_resize;                              /* a random part of random shape is cropped; needs rand_crop */
    bool rand_mirror;                              /* horizontal flip with probability 0.5 */
    mx_floats mean, std;                           /* (x - mean) / std: one number, three, or n = -1 */
    double brightness, contrast, saturation;       /* factors 1 - b .. 1 + b, in random order */
    double hue;                                    /* rotation by -h .. h times 180 degrees */
    double pca_noise;                              /* standard deviation of the strengths of mx_image_lighting */
    double rand_gray;                              /* probability */
    int inter_method;                              /* of resizing: interp above */
    double rand_pad, pad_value;                    /* probability of a frame, and its value; these and the */
    double min_object_covered, min_eject_coverage; /* following apply to images with boxes, as in mx_box_crop */
    double aspect_ratio_range[2], area_range[2];
    int max_attempts;
    char positional_;
    int64_t height, width;
};
#define MX_AUGMENTER_ARGS(...)                                                                                  \
    (&(struct mx_augmenter_args){.mean = {.n = -1}, .std = {.n = -1}, .inter_method = 2, .pad_value = 127,      \
                                 .min_object_covered = 0.1, .min_eject_coverage = 0.3,                          \
                                 .aspect_ratio_range = {0.75, 1.33}, .area_range = {0.05, 3}, .max_attempts = 50, \
                                 .positional_ = 0, __VA_ARGS__})
#define mx_augmenter(...) mx_augmenter_make(MX_AUGMENTER_ARGS(__VA_ARGS__))
MX_API mx_block *mx_augmenter_make(const struct mx_augmenter_args *args);
/* The same for an image with boxes, MX_AUGMENTER_ARGS(300, 300, .rand_crop = 0.5): both are replaced. */
MX_API mx_code mx_augment_boxes(const struct mx_augmenter_args *args, mx_array **image, mx_array **boxes);
/* The steps of these as names of MXNet's classes, in order: "ResizeAug", "CenterCropAug", "CastAug" ... */
MX_API mx_names mx_augmenter_names(const struct mx_augmenter_args *args, bool boxes);
MX_API extern const double mx_image_mean[3], mx_image_std[3]; /* of photographs, to normalize with */

/* A transform that is applied with probability p. */
MX_API mx_block *mx_random_apply(mx_block *transform, double p);

#endif
