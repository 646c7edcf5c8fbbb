/* Transforms of images (H, W, C): sizes, crops, flips, colours; Rotate and RandomRotation work on tensors (C, H, W).
 *
 * Those marked as batched also take (N, H, W, C) and transform every image independently.  Sizes are checked when an image
 * comes: programs construct transforms that they never call.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <math.h>

#include "gluon/data/draw.h"
#include "gluon/image.h"
#include "gluon/block/layers.h"
#include "gluon/op.gen.h"

#define RESIZE_OPTIONS(X) \
    X(DIMS, size, REQUIRED, "", "(width, height), or one number for both") \
    X(BOOL, keep_ratio, "False", "", "one number is the shorter side; the aspect ratio is kept") \
    X(INT, interpolation, "1", "0..10", "0 nearest, 1 linear, 2 cubic, 3 area, 4 Lanczos, 9 by the sizes, 10 at random")
MX_ATTRS(resize_transform, RESIZE_OPTIONS)
#define CROP_OPTIONS(X) \
    X(DIMS, size, REQUIRED, "", "(width, height), or one number for both") \
    X(INT, interpolation, "1", "0..10", "for images that are too small; as for Resize")
MX_ATTRS(crop_transform, CROP_OPTIONS)
#define RANDOM_CROP_OPTIONS(X) \
    X(DIMS, size, REQUIRED, "", "(width, height), or one number for both") \
    X(INT, pad, "0", "0..16777216", "border added on all sides first") \
    X(FLOAT, pad_value, "0.0", "", "value of the border") \
    X(INT, interpolation, "1", "0..10", "for images that are too small; as for Resize")
MX_ATTRS(random_crop_transform, RANDOM_CROP_OPTIONS)
#define CROP_RESIZE_OPTIONS(X) \
    X(INT, x, REQUIRED, "", "first column") \
    X(INT, y, REQUIRED, "", "first row") \
    X(INT, width, REQUIRED, "", "columns") \
    X(INT, height, REQUIRED, "", "rows") \
    X(DIMS, size, "None", "", "(width, height) to resize to, or one number for both") \
    X(INT, interpolation, "1", "0..10", "as for Resize")
MX_ATTRS(crop_resize, CROP_RESIZE_OPTIONS)
#define RESIZED_CROP_OPTIONS(X) \
    X(DIMS, size, REQUIRED, "", "(width, height), or one number for both") \
    X(FLOATS, scale, "(0.08, 1.0)", "", "smallest and largest fraction of the area") \
    X(FLOATS, ratio, "(0.75, 1.3333333333333333)", "", "smallest and largest ratio of width to height") \
    X(INT, interpolation, "1", "0..10", "as for Resize")
MX_ATTRS(random_resized_crop, RESIZED_CROP_OPTIONS)
#define BRIGHTNESS_OPTIONS(X) X(FLOAT, brightness, REQUIRED, "", "factors 1 - b .. 1 + b, not below 0")
MX_ATTRS(random_brightness, BRIGHTNESS_OPTIONS)
#define CONTRAST_OPTIONS(X) X(FLOAT, contrast, REQUIRED, "", "factors 1 - c .. 1 + c, not below 0")
MX_ATTRS(random_contrast, CONTRAST_OPTIONS)
#define SATURATION_OPTIONS(X) X(FLOAT, saturation, REQUIRED, "", "factors 1 - s .. 1 + s, not below 0")
MX_ATTRS(random_saturation, SATURATION_OPTIONS)
#define HUE_OPTIONS(X) X(FLOAT, hue, REQUIRED, "", "rotation by -h .. h full turns")
MX_ATTRS(random_hue, HUE_OPTIONS)
#define JITTER_OPTIONS(X) \
    X(FLOAT, brightness, "0", "", "as RandomBrightness") \
    X(FLOAT, contrast, "0", "", "as RandomContrast") \
    X(FLOAT, saturation, "0", "", "as RandomSaturation") \
    X(FLOAT, hue, "0", "", "as RandomHue")
MX_ATTRS(random_color_jitter, JITTER_OPTIONS)
#define LIGHTING_OPTIONS(X) X(FLOAT, alpha, REQUIRED, "0..", "standard deviation of the strengths")
MX_ATTRS(random_lighting, LIGHTING_OPTIONS)
#define GRAY_OPTIONS(X) X(FLOAT, p, "0.5", "0..1", "probability")
MX_ATTRS(random_gray, GRAY_OPTIONS)
#define ROTATE_OPTIONS(X) \
    X(FLOAT, rotation_degrees, REQUIRED, "", "angle") \
    X(BOOL, zoom_in, "False", "", "zoom so that no border is visible") \
    X(BOOL, zoom_out, "False", "", "zoom so that the entire image is visible")
MX_ATTRS(rotate, ROTATE_OPTIONS)
#define ROTATION_OPTIONS(X) \
    X(FLOATS, angle_limits, REQUIRED, "", "smallest and largest angle in degrees") \
    X(BOOL, zoom_in, "False", "", "zoom so that no border is visible") \
    X(BOOL, zoom_out, "False", "", "zoom so that the entire image is visible") \
    X(FLOAT, rotate_with_proba, "1.0", "0..1", "probability of rotating")
MX_ATTRS(random_rotation, ROTATION_OPTIONS)

/* ---- sizes ---------------------------------------------------------------------------------------------------- */

/* Whether a size is one or two positive numbers. */
static bool size_ok(mx_block *self, mx_dims size) { return !mx_spread_dims(self, "size", &size, 2, 1); }
static int64_t width_of(const mx_dims *size) { return size->d[0]; }
static int64_t height_of(const mx_dims *size) { return size->d[size->n > 1]; }

static mx_array *resized(mx_array *x, const mx_dims *size, bool keep_ratio, int64_t interpolation)
{
    if (!x || x->ndim < 3)
        return mx_image_resize(x, .size = *size);
    const int interp = mx_image_interp((int)interpolation, x->shape[x->ndim - 3], x->shape[x->ndim - 2],
                                       height_of(size), width_of(size));
    return interp < 0 ? NULL : mx_image_resize(x, .size = *size, .keep_ratio = keep_ratio, .interp = interp);
}

static mx_array *forward_resize(mx_block *self, mx_arrays in)
{
    const mx_resize_transform_attrs *o = mx_options(self);
    return size_ok(self, o->size) ? resized(in.v[0], &o->size, o->keep_ratio, o->interpolation) : NULL;
}

static mx_array *forward_center_crop(mx_block *self, mx_arrays in)
{
    const mx_crop_transform_attrs *o = mx_options(self);
    if (!size_ok(self, o->size))
        return NULL;
    return mx_image_center_crop(in.v[0], width_of(&o->size), height_of(&o->size), (int)o->interpolation, NULL);
}

static mx_array *forward_random_crop(mx_block *self, mx_arrays in)
{
    const mx_random_crop_transform_attrs *o = mx_options(self);
    mx_array *x = in.v[0];
    if (!size_ok(self, o->size))
        return NULL;
    if (o->pad)
        x = mx_copy_make_border(x, .top = o->pad, .bot = o->pad, .left = o->pad, .right = o->pad,
                                .value = o->pad_value);
    return mx_image_random_crop(x, width_of(&o->size), height_of(&o->size), (int)o->interpolation, NULL);
}

static mx_array *forward_crop_resize(mx_block *self, mx_arrays in)
{
    const mx_crop_resize_attrs *o = mx_options(self);
    if (o->x < 0 || o->y < 0 || o->width < 1 || o->height < 1)
        return mx_fail_null(
            MX_ERR_ATTRIBUTE,
            "CropResize: x=%lld, y=%lld, width=%lld, height=%lld, wanted a position of at least 0 and a "
            "size of at least 1",
            (long long)o->x, (long long)o->y, (long long)o->width, (long long)o->height);
    if (o->size.n >= 0 && !size_ok(self, o->size))
        return NULL;
    mx_array *part = mx_image_crop(in.v[0], .x = o->x, .y = o->y, .width = o->width, .height = o->height);
    return part && o->size.n > 0 ? resized(part, &o->size, false, o->interpolation) : part;
}

static mx_code build_resized_crop(mx_block *self)
{
    const mx_random_resized_crop_attrs *o = mx_options(self);
    if (o->scale.n != 2 || o->ratio.n != 2)
        return mx_fail(MX_ERR_ATTRIBUTE,
                       "RandomResizedCrop: scale and ratio must be two numbers each, (least, greatest)");
    return MX_OK;
}

static mx_array *forward_resized_crop(mx_block *self, mx_arrays in)
{
    const mx_random_resized_crop_attrs *o = mx_options(self);
    if (!size_ok(self, o->size))
        return NULL;
    return mx_image_random_size_crop(in.v[0], width_of(&o->size), height_of(&o->size), o->scale.d, o->ratio.d,
                                     (int)o->interpolation, NULL);
}

/* ---- flips and colours --------------------------------------------------------------------------------------------- */

static mx_array *forward_left_right(mx_block *self, mx_arrays in)
{
    return (void)self, mx_image_random_flip_left_right(in.v[0]);
}
static mx_array *forward_top_bottom(mx_block *self, mx_arrays in)
{
    return (void)self, mx_image_random_flip_top_bottom(in.v[0]);
}

/* The only option of these classes: how far factors may be from 1, in either direction, so its sign says nothing. */
static double least(mx_block *self) { return fmax(0, 1 - fabs(*(const double *)mx_options(self))); }
static double most(mx_block *self) { return 1 + fabs(*(const double *)mx_options(self)); }

static mx_array *forward_brightness(mx_block *self, mx_arrays in)
{
    return mx_image_random_brightness(in.v[0], .min_factor = least(self), .max_factor = most(self));
}
static mx_array *forward_contrast(mx_block *self, mx_arrays in)
{
    return mx_image_random_contrast(in.v[0], .min_factor = least(self), .max_factor = most(self));
}
static mx_array *forward_saturation(mx_block *self, mx_arrays in)
{
    return mx_image_random_saturation(in.v[0], .min_factor = least(self), .max_factor = most(self));
}
static mx_array *forward_hue(mx_block *self, mx_arrays in)
{
    return mx_image_random_hue(in.v[0], .min_factor = least(self), .max_factor = most(self));
}
static mx_array *forward_jitter(mx_block *self, mx_arrays in)
{
    const mx_random_color_jitter_attrs *o = mx_options(self);
    return mx_image_random_color_jitter(in.v[0], .brightness = fabs(o->brightness), .contrast = fabs(o->contrast),
                                        .saturation = fabs(o->saturation), .hue = fabs(o->hue));
}
static mx_array *forward_lighting(mx_block *self, mx_arrays in)
{
    return mx_image_random_lighting(in.v[0], .alpha_std = ((const mx_random_lighting_attrs *)mx_options(self))->alpha);
}

static mx_array *forward_gray(mx_block *self, mx_arrays in)
{
    const mx_random_gray_attrs *o = mx_options(self);
    return mx_draw_one() < o->p ? mx_image_random_saturation(in.v[0], .min_factor = 0, .max_factor = 0) : in.v[0];
}

/* ---- rotations ------------------------------------------------------------------------------------------------------- */

static mx_array *rotated(const char *class_name, mx_array *x, double degrees, bool zoom_in, bool zoom_out)
{
    if (x && x->dtype != MX_FLOAT32)
        return mx_fail_null(MX_ERR_DTYPE, "%s: the image is %s, wanted float32 (C, H, W): apply ToTensor first",
                            class_name, mx_dtype_name((mx_dtype)x->dtype));
    return mx_image_rotate(x, mx_array_scalar(degrees), .zoom_in = zoom_in, .zoom_out = zoom_out);
}

static mx_array *forward_rotate(mx_block *self, mx_arrays in)
{
    const mx_rotate_attrs *o = mx_options(self);
    return rotated("Rotate", in.v[0], o->rotation_degrees, o->zoom_in, o->zoom_out);
}

static mx_code build_rotation(mx_block *self)
{
    const mx_random_rotation_attrs *o = mx_options(self);
    if (o->angle_limits.n != 2 || !(o->angle_limits.d[0] < o->angle_limits.d[1]))
        return mx_fail(MX_ERR_ATTRIBUTE, "RandomRotation: angle_limits must be two numbers, the lower one first");
    return o->zoom_in && o->zoom_out
               ? mx_fail(MX_ERR_ATTRIBUTE, "RandomRotation: zoom_in and zoom_out exclude each other")
               : MX_OK;
}

static mx_array *forward_rotation(mx_block *self, mx_arrays in)
{
    const mx_random_rotation_attrs *o = mx_options(self);
    if (mx_draw_one() >= o->rotate_with_proba)
        return in.v[0];
    const double degrees = o->angle_limits.d[0] + mx_draw_one() * (o->angle_limits.d[1] - o->angle_limits.d[0]);
    return rotated("RandomRotation", in.v[0], degrees, o->zoom_in, o->zoom_out);
}

/* ---- the classes ------------------------------------------------------------------------------------------------------- */

#define METHODS(name, ...) static const mx_layer name = {__VA_ARGS__}
METHODS(resize, .forward = forward_resize, .batched = true);
METHODS(center_crop, .forward = forward_center_crop, .batched = true);
METHODS(random_crop, .forward = forward_random_crop, .plain = true);
METHODS(crop_resize_methods, .forward = forward_crop_resize, .batched = true);
METHODS(resized_crop, .build = build_resized_crop, .forward = forward_resized_crop, .plain = true);
METHODS(left_right, .forward = forward_left_right, .batched = true);
METHODS(top_bottom, .forward = forward_top_bottom, .batched = true);
METHODS(brightness, .forward = forward_brightness, .batched = true);
METHODS(contrast, .forward = forward_contrast, .batched = true);
METHODS(saturation, .forward = forward_saturation, .batched = true);
METHODS(hue, .forward = forward_hue, .batched = true);
METHODS(jitter, .forward = forward_jitter, .batched = true);
METHODS(lighting, .forward = forward_lighting, .batched = true);
METHODS(gray, .forward = forward_gray, .plain = true);
METHODS(rotate_methods, .forward = forward_rotate, .batched = true);
METHODS(rotation, .build = build_rotation, .forward = forward_rotation, .plain = true);

mx_class mx_classes_vision[] = {
    {.kind = MX_LAYER, .group = "transforms", .name = "Resize", .doc = "resizes images", .schema = &resize_transform_schema, .positional = 1, .methods = &resize},
    {.kind = MX_LAYER, .group = "transforms", .name = "CenterCrop", .doc = "crops the centre of images", .schema = &crop_transform_schema, .positional = 1, .methods = &center_crop},
    {.kind = MX_LAYER, .group = "transforms", .name = "RandomCrop", .doc = "crops a random part of an image", .schema = &random_crop_transform_schema, .positional = 1,
     .methods = &random_crop},
    {.kind = MX_LAYER, .group = "transforms", .name = "CropResize", .doc = "crops a rectangle of images and resizes it if a size is given", .schema = &crop_resize_schema,
     .positional = 4, .methods = &crop_resize_methods},
    {.kind = MX_LAYER, .group = "transforms", .name = "RandomResizedCrop", .doc = "crops a random part of random shape and resizes it", .schema = &random_resized_crop_schema,
     .positional = 1, .methods = &resized_crop},
    {.kind = MX_LAYER, .group = "transforms", .name = "RandomFlipLeftRight", .doc = "flips left and right with probability 1/2", .methods = &left_right},
    {.kind = MX_LAYER, .group = "transforms", .name = "RandomFlipTopBottom", .doc = "flips top and bottom with probability 1/2", .methods = &top_bottom},
    {.kind = MX_LAYER, .group = "transforms", .name = "RandomBrightness", .doc = "random brightness", .schema = &random_brightness_schema, .positional = 1, .methods = &brightness},
    {.kind = MX_LAYER, .group = "transforms", .name = "RandomContrast", .doc = "random contrast", .schema = &random_contrast_schema, .positional = 1,
     .methods = &contrast},
    {.kind = MX_LAYER, .group = "transforms", .name = "RandomSaturation", .doc = "random saturation", .schema = &random_saturation_schema, .positional = 1,
     .methods = &saturation},
    {.kind = MX_LAYER, .group = "transforms", .name = "RandomHue", .doc = "random rotation of the hues on the colour wheel", .schema = &random_hue_schema, .positional = 1, .methods = &hue},
    {.kind = MX_LAYER, .group = "transforms", .name = "RandomColorJitter", .doc = "brightness, contrast, saturation and hue in random order",
     .schema = &random_color_jitter_schema, .positional = 4, .methods = &jitter},
    {.kind = MX_LAYER, .group = "transforms", .name = "RandomLighting", .doc = "random PCA-based lighting noise, as in AlexNet", .schema = &random_lighting_schema,
     .positional = 1, .methods = &lighting},
    {.kind = MX_LAYER, .group = "transforms", .name = "RandomGray", .doc = "converts to gray, in three channels, with a probability", .schema = &random_gray_schema, .positional = 1,
     .methods = &gray},
    {.kind = MX_LAYER, .group = "transforms", .name = "Rotate", .doc = "rotates float32 tensors (C, H, W) by an angle", .schema = &rotate_schema, .positional = 1,
     .methods = &rotate_methods},
    {.kind = MX_LAYER, .group = "transforms", .name = "RandomRotation", .doc = "rotates float32 tensors (C, H, W) by a random angle", .schema = &random_rotation_schema,
     .positional = 1, .methods = &rotation},
    {0},
};
