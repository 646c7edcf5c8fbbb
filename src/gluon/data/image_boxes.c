/* Bounding boxes of objects under flips, crops and padding (see gluon/image.h).
 *
 *     (objects, width) of doubles:   class | left  top  right  bottom | ...
 *                                            coordinates are fractions of the image's width and height, in 0 .. 1
 *
 * Labels are small: they are converted to doubles, changed, and converted back to their type.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "gluon/block/core.h"
#include "gluon/data/draw.h"
#include "gluon/image.h"
#include "gluon/op.gen.h"
#include "ndarray/dtype.h"

#define TINY 1e-12

typedef struct table {
    double *v; /* (rows, width), owned */
    int64_t rows, width, room;
    mx_dtype type; /* of the array */
} table;

static void free_table(table *t) { mx_free(t->v, (size_t)t->room * sizeof *t->v); }

static bool read_table(mx_array *boxes, const char *function, table *t)
{
    char text[MX_SHAPE_TEXT];
    if (!boxes || !mx_array_ok(boxes, function, "boxes"))
        return false;
    const mx_shape_t shape = mx_array_shape(boxes);
    if (boxes->ndim != 2 || boxes->shape[1] < 5 || !mx_dtype_is_float((mx_dtype)boxes->dtype)) {
        mx_fail(MX_ERR_SHAPE, "%s: boxes are %s %s, wanted floating-point numbers (objects, 5 or more)", function,
                mx_dtype_name((mx_dtype)boxes->dtype), mx_shape_text(&shape, text));
        return false;
    }
    *t =
        (table){.rows = boxes->shape[0], .width = boxes->shape[1], .room = boxes->size, .type = (mx_dtype)boxes->dtype};
    if (!(t->v = mx_alloc((size_t)t->room * sizeof *t->v)))
        return false;
    if (!mx_array_read_doubles(boxes, t->v, t->room))
        return true;
    free_table(t);
    return false;
}

/* The table as an array of the scope; frees it. */
static mx_array *finish(table *t)
{
    mx_array *x = mx_empty(MX_DIMS(t->rows, t->width), MX_FLOAT64, mx_cpu(0));
    if (x)
        memcpy(mx_array_data(x), t->v, (size_t)(t->rows * t->width) * sizeof *t->v);
    free_table(t);
    return x && t->type != MX_FLOAT64 ? mx_cast(x, .dtype = t->type) : x;
}

mx_array *mx_boxes_flip(mx_array *boxes)
{
    table t;
    if (!read_table(boxes, "mx_boxes_flip", &t))
        return NULL;
    for (int64_t i = 0; i < t.rows; i++) {
        double *box = t.v + i * t.width, left = 1 - box[1];
        box[1] = 1 - box[3];
        box[3] = left;
    }
    return finish(&t);
}

/* ---- crops ------------------------------------------------------------------------------------------------------- */

static double area(const double *box)
{
    const double w = box[2] - box[0], h = box[3] - box[1];
    return w > 0 && h > 0 ? w * h : 0;
}

/* The intersection of a box with a part, both (left, top, right, bottom), and its fraction of the box's area. */
static double overlap(const double *box, const double *part, double *inside)
{
    for (int k = 0; k < 2; k++) {
        inside[k] = fmax(box[k], part[k]);
        inside[k + 2] = fmin(box[k + 2], part[k + 2]);
    }
    return area(inside) / fmax(area(box), TINY);
}

static double clip(double share) { return share < 0 ? 0 : share > 1 ? 1 : share; }

/* Keeps the objects that the part covers enough, in its coordinates; false if there are none. */
static bool crop_table(table *t, const double *part, const mx_box_crop *how)
{
    double best = 0, inside[4];
    int64_t kept = 0;
    for (int64_t i = 0; i < t->rows; i++)
        best = fmax(best, overlap(t->v + i * t->width + 1, part, inside));
    if (best < fmax(how->min_object_covered, TINY))
        return false;
    for (int64_t i = 0; i < t->rows; i++) {
        double *box = t->v + i * t->width;
        if (!(overlap(box + 1, part, inside) > how->min_eject_coverage))
            continue;
        for (int k = 0; k < 4; k++)
            box[k + 1] = clip((inside[k] - part[k % 2]) / (part[k % 2 + 2] - part[k % 2]));
        memmove(t->v + kept++ * t->width, box, (size_t)t->width * sizeof *box);
    }
    t->rows = kept;
    return kept > 0;
}

mx_array *mx_boxes_crop(mx_array *boxes, int64_t width, int64_t height, mx_region r, const mx_box_crop *how)
{
    table t;
    if (!how)
        return mx_fail_null(MX_ERR_ARGUMENT, "mx_boxes_crop: how is NULL");
    if (!read_table(boxes, "mx_boxes_crop", &t))
        return NULL;
    const double w = (double)width, h = (double)height,
                 part[4] = {(double)r.x / w, (double)r.y / h, (double)(r.x + r.width) / w,
                            (double)(r.y + r.height) / h};
    if (crop_table(&t, part, how))
        return finish(&t);
    free_table(&t);
    return NULL;
}

mx_array *mx_boxes_random_crop(mx_array *boxes, int64_t width, int64_t height, const mx_box_crop *how,
                               const mx_draws *draws, mx_region *region)
{
    if (!how || !region)
        return mx_fail_null(MX_ERR_ARGUMENT, "mx_boxes_random_crop: %s is NULL", how ? "region" : "how");
    if (!mx_image_parts_ok(&how->parts, region, "mx_boxes_random_crop") ||
        !mx_array_ok(boxes, "mx_boxes_random_crop", "boxes"))
        return NULL;
    mx_parts once = how->parts;
    once.tries = 1;
    for (int i = 0; i < how->parts.tries && !mx_has_error(); i++) {
        if (!mx_image_random_part(width, height, &once, draws, region))
            continue;
        mx_array *kept = mx_boxes_crop(boxes, width, height, *region, how);
        if (kept)
            return kept;
    }
    return NULL;
}

/* ---- frames ------------------------------------------------------------------------------------------------------ */

mx_array *mx_boxes_pad(mx_array *boxes, int64_t width, int64_t height, mx_region frame)
{
    table t;
    if (!read_table(boxes, "mx_boxes_pad", &t))
        return NULL;
    const double size[2] = {(double)width, (double)height}, at[2] = {(double)frame.x, (double)frame.y},
                 extent[2] = {(double)frame.width, (double)frame.height};
    for (int64_t i = 0; i < t.rows; i++)
        for (int k = 0; k < 4; k++) {
            double *place = t.v + i * t.width + 1 + k;
            *place = (*place * size[k % 2] + at[k % 2]) / extent[k % 2];
        }
    return finish(&t);
}

mx_array *mx_boxes_random_pad(mx_array *boxes, int64_t width, int64_t height, const mx_parts *parts,
                              const mx_draws *draws, mx_region *frame)
{
    if (!parts || !frame)
        return mx_fail_null(MX_ERR_ARGUMENT, "mx_boxes_random_pad: %s is NULL", parts ? "frame" : "parts");
    if (!mx_array_ok(boxes, "mx_boxes_random_pad", "boxes") ||
        !mx_image_random_frame(width, height, parts, draws, frame))
        return NULL;
    return mx_boxes_pad(boxes, width, height, *frame);
}

/* ---- labels ------------------------------------------------------------------------------------------------------ */

static bool header_ok(const double *label, int64_t n)
{
    if (n < 7) {
        mx_fail(MX_ERR_ARGUMENT, "boxes: the label has %lld numbers, too few for a header and an object", (long long)n);
        return false;
    }
    const double header = trunc(label[0]), width = trunc(label[1]);
    if (header >= 2 && header <= (double)n && width >= 5 && width <= (double)n && !fmod((double)n - header, width))
        return true;
    mx_fail(MX_ERR_ARGUMENT,
            "boxes: the label has %lld numbers, which are not objects of %g numbers after a header of %g", (long long)n,
            width, header);
    return false;
}

/* Moves the objects with a nonzero area to the start of t, after the header. */
static void keep_objects(table *t)
{
    const int64_t header = (int64_t)t->v[0], n = t->room;
    int64_t kept = 0;
    t->width = (int64_t)t->v[1];
    for (int64_t at = header; at < n; at += t->width) {
        const double *box = t->v + at;
        if (box[3] > box[1] && box[4] > box[2])
            memmove(t->v + kept++ * t->width, box, (size_t)t->width * sizeof *box);
    }
    t->rows = kept;
}

mx_array *mx_boxes_parse(mx_array *label)
{
    if (!label || !mx_array_ok(label, "mx_boxes_parse", "label"))
        return NULL;
    table t = {.room = label->size, .type = MX_FLOAT32};
    if (!(t.v = mx_alloc((size_t)t.room * sizeof *t.v)))
        return NULL;
    if (!mx_array_read_doubles(label, t.v, t.room) && header_ok(t.v, t.room)) {
        keep_objects(&t);
        if (t.rows)
            return finish(&t);
    }
    free_table(&t);
    return NULL;
}
