/* Augmenters: the usual transformations of training images (see gluon/image.h).
 *
 *     resize -> crop -> mirror -> cast -> colours -> normalize                            images
 *     resize -> crop -> mirror -> pad -> resize to the size -> cast -> colours -> ...     images with boxes
 *
 * `steps` is the order; front ends that have a class per step (Python) take their names from it.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/given.h"
#include "gluon/block/core.h"
#include "gluon/data/draw.h"
#include "gluon/image.h"
#include "gluon/op.gen.h"
#include "graph/symbol.h"
#include "op/formula/image.h"

const double mx_image_mean[3] = {123.68, 116.28, 103.53}, mx_image_std[3] = {58.395, 57.12, 57.375};

typedef struct mx_augmenter_args options;

/* The example being augmented. */
typedef struct example {
    mx_array *image; /* (H, W, 3) */
    mx_array *boxes; /* (objects, 5 or more); NULL: no boxes */
} example;

typedef struct step {
    const char *name; /* of the class in MXNet */
    enum { EVERY, IMAGE, BOXES } of;
    bool (*wanted)(const options *o);                   /* NULL: always */
    mx_array *(*change)(const options *o, mx_array *x); /* the image alone */
    bool (*change_both)(const options *o, example *p);  /* or with its boxes */
} step;

static double around(double centre, double width) { return centre + width * (2 * mx_draw_one() - 1); }
static int64_t height_of(const example *p) { return p->image->shape[0]; }
static int64_t width_of(const example *p) { return p->image->shape[1]; }

/* ---- sizes and crops --------------------------------------------------------------------------------------------- */

static bool wants_resize(const options *o) { return o->resize > 0; }
static mx_array *resize(const options *o, mx_array *x) { return mx_image_resize_short(x, o->resize, o->inter_method); }

static bool wants_sized_crop(const options *o) { return o->rand_resize; }
static mx_array *sized_crop(const options *o, mx_array *x)
{
    return mx_image_random_size_crop(x, o->width, o->height, (double[]){0.08, 1}, (double[]){3.0 / 4, 4.0 / 3},
                                     o->inter_method, NULL);
}

static bool wants_random_crop(const options *o) { return !o->rand_resize && o->rand_crop > 0; }
static mx_array *random_crop(const options *o, mx_array *x)
{
    return mx_image_random_crop(x, o->width, o->height, o->inter_method, NULL);
}

static bool wants_center_crop(const options *o) { return !o->rand_resize && !(o->rand_crop > 0); }
static mx_array *center_crop(const options *o, mx_array *x)
{
    return mx_image_center_crop(x, o->width, o->height, o->inter_method, NULL);
}

static mx_array *force_resize(const options *o, mx_array *x)
{
    return mx_image_fixed_crop(x, (mx_region){0, 0, x->shape[1], x->shape[0]}, o->width, o->height, o->inter_method);
}

static bool wants_mirror(const options *o) { return o->rand_mirror; }
static mx_array *mirror(const options *o, mx_array *x)
{
    return (void)o, mx_draw_one() < 0.5 ? mx_image_flip_left_right(x) : x;
}

/* ---- with boxes -------------------------------------------------------------------------------------------------- */

static mx_parts parts_of(const options *o, double least, double most)
{
    return (mx_parts){{least, most}, {o->aspect_ratio_range[0], o->aspect_ratio_range[1]}, false, o->max_attempts};
}

static bool wants_box_crop(const options *o) { return o->rand_crop > 0; }
static bool box_crop(const options *o, example *p)
{
    const mx_box_crop how = {o->min_object_covered, o->min_eject_coverage,
                             parts_of(o, o->area_range[0], fmin(1, o->area_range[1]))};
    mx_region r;
    if (mx_draw_one() >= o->rand_crop)
        return true;
    mx_array *kept = mx_boxes_random_crop(p->boxes, width_of(p), height_of(p), &how, NULL, &r);
    if (kept)
        p->boxes = kept, p->image = mx_image_fixed_crop(p->image, r, 0, 0, 2);
    return !mx_has_error();
}

static bool box_mirror(const options *o, example *p)
{
    (void)o;
    if (mx_draw_one() < 0.5)
        p->boxes = mx_boxes_flip(p->boxes), p->image = mx_image_flip_left_right(p->image);
    return p->boxes && p->image;
}

static bool wants_pad(const options *o) { return o->rand_pad > 0; }
static bool box_pad(const options *o, example *p)
{
    const mx_parts parts = parts_of(o, 1, o->area_range[1]);
    mx_region f;
    if (mx_draw_one() >= o->rand_pad || o->area_range[1] <= 1)
        return true;
    const int64_t h = height_of(p), w = width_of(p);
    mx_array *moved = mx_boxes_random_pad(p->boxes, w, h, &parts, NULL, &f);
    if (moved) {
        p->boxes = moved;
        p->image = mx_copy_make_border(p->image, .top = f.y, .bot = f.height - h - f.y, .left = f.x,
                                       .right = f.width - w - f.x, .value = o->pad_value);
    }
    return p->image && !mx_has_error();
}

/* ---- colours ----------------------------------------------------------------------------------------------------- */

static mx_array *cast(const options *o, mx_array *x) { return (void)o, mx_cast(x, .dtype = MX_FLOAT32); }

static bool wants_jitter(const options *o) { return o->brightness || o->contrast || o->saturation; }
static mx_array *jitter(const options *o, mx_array *x)
{
    static mx_array *(*const changes[3])(mx_array *, double) = {mx_image_brightness, mx_image_contrast,
                                                                mx_image_saturation};
    const double amounts[3] = {o->brightness, o->contrast, o->saturation};
    int order[3] = {0, 1, 2};
    for (int i = 2; i > 0; i--) {
        const int k = (int)(mx_draw_one() * (i + 1)), kept = order[i];
        order[i] = order[k], order[k] = kept;
    }
    for (int i = 0; x && i < 3; i++)
        if (amounts[order[i]] > 0)
            x = changes[order[i]](x, around(1, amounts[order[i]]));
    return x;
}

static bool wants_hue(const options *o) { return o->hue; }
static mx_array *hue(const options *o, mx_array *x) { return mx_image_hue(x, around(0, o->hue)); }

static bool wants_lighting(const options *o) { return o->pca_noise > 0; }
static mx_array *lighting(const options *o, mx_array *x)
{
    const mx_colour_step drawn = mx_colour_lighting(mx_rng_reserve(1), 0, o->pca_noise);
    return mx_image_lighting(x, drawn.alpha, NULL, NULL);
}

static bool wants_gray(const options *o) { return o->rand_gray > 0; }
static mx_array *gray(const options *o, mx_array *x) { return mx_draw_one() < o->rand_gray ? mx_image_gray(x) : x; }

/* One number or three as an array on the image's context; MX_NONE for none. */
static mx_array *numbers(const mx_floats *f, const mx_array *x)
{
    float values[3] = {0};
    if (f->n < 0)
        return MX_NONE;
    for (int i = 0; i < f->n; i++)
        values[i] = (float)f->d[i];
    mx_array *made = mx_array_from(MX_DIMS(f->n), MX_FLOAT32, values);
    return made ? mx_array_to(made, x->context) : NULL;
}

static bool wants_normalize(const options *o) { return o->mean.n >= 0 || o->std.n >= 0; }
static mx_array *normalize(const options *o, mx_array *x)
{
    return mx_image_color_normalize(x, numbers(&o->mean, x), numbers(&o->std, x));
}

/* ---- the order --------------------------------------------------------------------------------------------------- */

static const step steps[] = {
    {"ResizeAug", EVERY, wants_resize, resize, NULL},
    {"RandomSizedCropAug", IMAGE, wants_sized_crop, sized_crop, NULL},
    {"RandomCropAug", IMAGE, wants_random_crop, random_crop, NULL},
    {"CenterCropAug", IMAGE, wants_center_crop, center_crop, NULL},
    {"HorizontalFlipAug", IMAGE, wants_mirror, mirror, NULL},
    {"DetRandomCropAug", BOXES, wants_box_crop, NULL, box_crop},
    {"DetHorizontalFlipAug", BOXES, wants_mirror, NULL, box_mirror},
    {"DetRandomPadAug", BOXES, wants_pad, NULL, box_pad},
    {"ForceResizeAug", BOXES, NULL, force_resize, NULL},
    {"CastAug", EVERY, NULL, cast, NULL},
    {"ColorJitterAug", EVERY, wants_jitter, jitter, NULL},
    {"HueJitterAug", EVERY, wants_hue, hue, NULL},
    {"LightingAug", EVERY, wants_lighting, lighting, NULL},
    {"RandomGrayAug", EVERY, wants_gray, gray, NULL},
    {"ColorNormalizeAug", EVERY, wants_normalize, normalize, NULL},
};
#define STEPS ((int)(sizeof steps / sizeof *steps))

static bool takes_part(const step *s, const options *o, bool boxes)
{
    return s->of != (boxes ? IMAGE : BOXES) && (!s->wanted || s->wanted(o));
}

mx_names mx_augmenter_names(const struct mx_augmenter_args *args, bool boxes)
{
    const char *texts[STEPS];
    int64_t n = 0;
    for (int i = 0; args && i < STEPS; i++)
        if (takes_part(&steps[i], args, boxes))
            texts[n++] = steps[i].name;
    return mx_names_of(n, texts);
}

static bool change(const options *o, example *p)
{
    for (int i = 0; i < STEPS; i++) {
        const step *s = &steps[i];
        if (!takes_part(s, o, p->boxes))
            continue;
        if (s->change_both ? !s->change_both(o, p) : !(p->image = s->change(o, p->image)))
            return false;
    }
    return true;
}

/* ---- checks ------------------------------------------------------------------------------------------------------ */

static bool image_ok(mx_array *image, const char *function)
{
    char text[MX_SHAPE_TEXT];
    if (!image || !mx_array_ok(image, function, "image"))
        return false;
    if (image->ndim == 3 && image->shape[2] == 3)
        return true;
    mx_shape_t shape = mx_array_shape(image);
    mx_fail(MX_ERR_SHAPE, "%s: image has shape %s, wanted (H, W, 3)", function, mx_shape_text(&shape, text));
    return false;
}

static mx_code check(const options *o, const char *function)
{
    if (!mx_given(o, function, "args"))
        return mx_error_code();
    if (o->height < 1 || o->width < 1)
        return mx_fail(MX_ERR_ARGUMENT, "%s: height and width are %lld and %lld, wanted the size of the results",
                       function, (long long)o->height, (long long)o->width);
    if ((o->mean.n >= 0 && o->mean.n != 1 && o->mean.n != 3) || (o->std.n >= 0 && o->std.n != 1 && o->std.n != 3))
        return mx_fail(MX_ERR_ARGUMENT, "%s: mean has %d numbers and std %d, wanted one or three", function,
                       (int)o->mean.n, (int)o->std.n);
    if (o->rand_resize && !(o->rand_crop > 0))
        return mx_fail(MX_ERR_ARGUMENT, "%s: rand_resize needs rand_crop", function);
    return MX_OK;
}

/* ---- what users call --------------------------------------------------------------------------------------------- */

static mx_array *forward(mx_block *self, mx_arrays in)
{
    example p = {in.v[0], NULL};
    return image_ok(p.image, "Augmenter") && change(mx_block_user(self), &p) ? p.image : NULL;
}
static void release(void *user) { mx_free(user, sizeof(options)); }

mx_block *mx_augmenter_make(const struct mx_augmenter_args *args)
{
    options *copy = check(args, "mx_augmenter") ? NULL : mx_alloc(sizeof *copy);
    mx_block *block = copy ? mx_block_new("Augmenter", forward) : NULL;
    if (!block)
        return mx_free(copy, sizeof *copy), NULL;
    *copy = *args;
    block->user = copy, block->release = release;
    return block;
}

mx_code mx_augment_boxes(const struct mx_augmenter_args *args, mx_array **image, mx_array **boxes)
{
    if (!args || !image || !boxes)
        return mx_fail(MX_ERR_ARGUMENT, "mx_augment_boxes: %s is NULL", args ? image ? "boxes" : "image" : "args");
    if (check(args, "mx_augment_boxes") || !image_ok(*image, "mx_augment_boxes") ||
        !mx_array_ok(*boxes, "mx_augment_boxes", "boxes"))
        return mx_error_code();
    example p = {*image, *boxes};
    if (!change(args, &p))
        return mx_error_code();
    *image = p.image, *boxes = p.boxes;
    return MX_OK;
}
