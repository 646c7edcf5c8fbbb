/* Cropping and resizing images, at fixed and at random positions (see gluon/image.h).
 *
 * The region is computed from numbers alone, then cropped:
 *
 *     sizes of image and crop, draws --> mx_region --> mx_image_fixed_crop
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <stdlib.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/given.h"
#include "gluon/block/core.h"
#include "gluon/data/draw.h"
#include "gluon/image.h"
#include "gluon/op.gen.h"

/* ---- draws: the library's generator, unless the caller provides one ----------------------------------------------- */

typedef struct pair {
    double second; /* the number that was drawn together with the last one */
    bool waits;
} pair;

#define MOST_TRIES 1000000

static double next(pair *p)
{
    double first = p->second;
    p->waits = !p->waits;
    if (p->waits)
        mx_draw_two(&first, &p->second);
    return first;
}
static double own_uniform(void *user, double low, double high) { return low + next(user) * (high - low); }
static int64_t own_integer(void *user, int64_t low, int64_t high)
{
    return low + (int64_t)(next(user) * (double)(high - low + 1));
}

/* The caller's draws, or else the library's with this state. */
static mx_draws draws_or(const mx_draws *draws, pair *state)
{
    const bool complete = draws && draws->uniform && draws->integer;
    if (draws && !complete)
        mx_fail(MX_ERR_ARGUMENT, "random crops: draws needs both of its functions");
    return complete ? *draws : (mx_draws){own_uniform, own_integer, state};
}

/* ---- sizes -------------------------------------------------------------------------------------------------------- */

static bool image_ok(mx_array *image, const char *function)
{
    char text[MX_SHAPE_TEXT];
    if (!image || !mx_array_ok(image, function, "image"))
        return false;
    if (image->ndim == 3 || image->ndim == 4)
        return true;
    mx_shape_t shape = mx_array_shape(image);
    mx_fail(MX_ERR_SHAPE, "%s: image has shape %s, wanted (H, W, C) or (N, H, W, C)", function,
            mx_shape_text(&shape, text));
    return false;
}
static int64_t height_of(const mx_array *image) { return image->shape[image->ndim - 3]; }
static int64_t width_of(const mx_array *image) { return image->shape[image->ndim - 2]; }

int mx_image_interp(int interp, int64_t height, int64_t width, int64_t new_height, int64_t new_width)
{
    if (interp >= 0 && interp <= 4)
        return interp;
    if (interp == 10)
        return (int)(mx_draw_one() * 5);
    if (interp == 9) {
        if (!height || !width || !new_height || !new_width || (new_height > height && new_width > width))
            return 2;
        return new_height < height && new_width < width ? 3 : 1;
    }
    mx_fail(MX_ERR_ARGUMENT, "image: interp is %d, wanted 0 to 4, 9 (by size) or 10 (at random)", interp);
    return -1;
}

static mx_array *resize(mx_array *image, int64_t width, int64_t height, int interp)
{
    const int method = mx_image_interp(interp, height_of(image), width_of(image), height, width);
    return method < 0 ? NULL : mx_imresize(image, .w = width, .h = height, .interp = method);
}

/* A size that no image has, rather than a number that does not fit. */
static int64_t whole(double x)
{
    return x > -0x1p62 && x < 0x1p62 ? (int64_t)x : x > 0 ? INT64_MAX / 2 : INT64_MIN / 2;
}

void mx_image_scale_down(int64_t source_width, int64_t source_height, int64_t *width, int64_t *height)
{
    if (!mx_given(width, "mx_image_scale_down", "width") || !mx_given(height, "mx_image_scale_down", "height"))
        return;
    double w = (double)*width, h = (double)*height;
    if (source_height < h)
        w = w * (double)source_height / h, h = (double)source_height;
    if (source_width < w)
        h = h * (double)source_width / w, w = (double)source_width;
    *width = whole(w), *height = whole(h);
}

mx_array *mx_image_resize_short(mx_array *image, int64_t size, int interp)
{
    if (!image_ok(image, "mx_image_resize_short"))
        return NULL;
    const int64_t height = height_of(image), width = width_of(image);
    if (size < 1 || size > INT32_MAX || height < 1 || width < 1 || height > INT32_MAX || width > INT32_MAX)
        return mx_fail_null(MX_ERR_ARGUMENT, "mx_image_resize_short: size is %lld for an image of %lld x %lld",
                            (long long)size, (long long)width, (long long)height);
    return height > width ? resize(image, size, size * height / width, interp)
                          : resize(image, size * width / height, size, interp);
}

/* ---- regions ------------------------------------------------------------------------------------------------------ */

/* The size of a crop: limited to that of the image, and at least one pixel. */
/* Differences of sizes are numbers, too. */
static bool sizes_ok(int64_t width, int64_t height, const char *function)
{
    const bool ok = llabs(width / 2) < INT32_MAX && llabs(height / 2) < INT32_MAX;
    if (!ok)
        mx_fail(MX_ERR_ARGUMENT, "%s: %lld and %lld are no sizes or places of an image", function, (long long)width,
                (long long)height);
    return ok;
}

static mx_region region_size(int64_t width, int64_t height, int64_t crop_width, int64_t crop_height)
{
    mx_region r = {.width = crop_width, .height = crop_height};
    mx_image_scale_down(width, height, &r.width, &r.height);
    r.width = r.width < 1 ? 1 : r.width, r.height = r.height < 1 ? 1 : r.height;
    return r;
}

mx_region mx_image_center_region(int64_t width, int64_t height, int64_t crop_width, int64_t crop_height)
{
    if (!sizes_ok(width, height, "mx_image_center_region"))
        return (mx_region){0};
    mx_region r = region_size(width, height, crop_width, crop_height);
    r.x = (width - r.width) / 2, r.y = (height - r.height) / 2;
    return r;
}

mx_region mx_image_random_region(int64_t width, int64_t height, int64_t crop_width, int64_t crop_height,
                                 const mx_draws *draws)
{
    pair state = {0};
    const mx_draws d = draws_or(draws, &state);
    if (!sizes_ok(width, height, "mx_image_random_region"))
        return (mx_region){0};
    mx_region r = region_size(width, height, crop_width, crop_height);
    r.x = d.integer(d.user, 0, width - r.width);
    r.y = d.integer(d.user, 0, height - r.height);
    return r;
}

bool mx_image_part_size(int64_t width, int64_t height, double share, double ratio, mx_region *size)
{
    if (!mx_given(size, "mx_image_part_size", "size"))
        return false;
    const double area = share * (double)height * (double)width, w = rint(sqrt(area * ratio)),
                 h = rint(sqrt(area / (ratio < 1e-6 ? 1e-6 : ratio)));
    const bool numbers = w < INT32_MAX && h < INT32_MAX; /* and no NaN */
    *size = (mx_region){.width = numbers ? (int64_t)w : 0, .height = numbers ? (int64_t)h : 0};
    return size->width > 0 && size->width <= width && size->height > 0 && size->height <= height;
}

static double draw_ratio(const mx_draws *d, const mx_parts *parts)
{
    return parts->log_ratio ? exp(d->uniform(d->user, log(parts->ratio[0]), log(parts->ratio[1])))
                            : d->uniform(d->user, parts->ratio[0], parts->ratio[1]);
}

bool mx_image_parts_ok(const mx_parts *parts, const mx_region *region, const char *function)
{
    if (!mx_given(parts, function, "parts") || !mx_given(region, function, "region"))
        return false;
    if (parts->tries > MOST_TRIES)
        mx_fail(MX_ERR_ARGUMENT, "%s: %d tries, wanted at most %d", function, parts->tries, MOST_TRIES);
    return parts->tries <= MOST_TRIES;
}

bool mx_image_random_part(int64_t width, int64_t height, const mx_parts *parts, const mx_draws *draws,
                          mx_region *region)
{
    pair state = {0};
    const mx_draws d = draws_or(draws, &state);
    if (!mx_image_parts_ok(parts, region, "mx_image_random_part") || !sizes_ok(width, height, "mx_image_random_part"))
        return false;
    for (int i = 0; i < parts->tries; i++) {
        const double share = d.uniform(d.user, parts->area[0], parts->area[1]), ratio = draw_ratio(&d, parts);
        if (!mx_image_part_size(width, height, share, ratio, region))
            continue;
        region->x = d.integer(d.user, 0, width - region->width);
        region->y = d.integer(d.user, 0, height - region->height);
        return true;
    }
    return false;
}

bool mx_image_random_frame(int64_t width, int64_t height, const mx_parts *parts, const mx_draws *draws,
                           mx_region *frame)
{
    pair state = {0};
    const mx_draws d = draws_or(draws, &state);
    if (!mx_image_parts_ok(parts, frame, "mx_image_random_frame") || !sizes_ok(width, height, "mx_image_random_frame"))
        return false;
    for (int i = 0; i < parts->tries; i++) {
        const double share = d.uniform(d.user, parts->area[0], parts->area[1]), ratio = draw_ratio(&d, parts);
        mx_image_part_size(width, height, share, ratio, frame);
        if (frame->width < width + 2 || frame->height < height + 2)
            continue;
        frame->x = d.integer(d.user, 0, frame->width - width);
        frame->y = d.integer(d.user, 0, frame->height - height);
        return true;
    }
    return false;
}

/* ---- crops -------------------------------------------------------------------------------------------------------- */

static int64_t at_most(int64_t n, int64_t most) { return n < most ? n : most < 0 ? 0 : most; }

mx_array *mx_image_fixed_crop(mx_array *image, mx_region r, int64_t width, int64_t height, int interp)
{
    if (!image_ok(image, "mx_image_fixed_crop") || !sizes_ok(r.x, r.y, "mx_image_fixed_crop"))
        return NULL;
    r.width = at_most(r.width, width_of(image) - r.x);
    r.height = at_most(r.height, height_of(image) - r.y);
    mx_array *part = mx_image_crop(image, .x = r.x, .y = r.y, .width = r.width, .height = r.height);
    if (!part || !width || !height || (width == r.width && height == r.height))
        return part;
    return resize(part, width, height, interp);
}

static bool size_ok(int64_t width, int64_t height)
{
    if (width > 0 && height > 0)
        return true;
    mx_fail(MX_ERR_ARGUMENT, "image: a crop of %lld x %lld pixels was requested, wanted positive sizes",
            (long long)width, (long long)height);
    return false;
}

static mx_array *crop_to(mx_array *image, int64_t width, int64_t height, int interp, mx_region r, mx_region *region)
{
    if (region)
        *region = r;
    return mx_image_fixed_crop(image, r, width, height, interp);
}

mx_array *mx_image_center_crop(mx_array *image, int64_t width, int64_t height, int interp, mx_region *region)
{
    if (!image_ok(image, "mx_image_center_crop") || !size_ok(width, height))
        return NULL;
    const mx_region r = mx_image_center_region(width_of(image), height_of(image), width, height);
    return crop_to(image, width, height, interp, r, region);
}

mx_array *mx_image_random_crop(mx_array *image, int64_t width, int64_t height, int interp, mx_region *region)
{
    if (!image_ok(image, "mx_image_random_crop") || !size_ok(width, height))
        return NULL;
    const mx_region r = mx_image_random_region(width_of(image), height_of(image), width, height, NULL);
    return crop_to(image, width, height, interp, r, region);
}

mx_array *mx_image_random_size_crop(mx_array *image, int64_t width, int64_t height, const double *area,
                                    const double *ratio, int interp, mx_region *region)
{
    if (!image_ok(image, "mx_image_random_size_crop"))
        return NULL;
    if (!area || !ratio || !(area[0] > 0 && area[1] >= area[0]) || !(ratio[0] > 0 && ratio[1] >= ratio[0]) ||
        width < 1 || height < 1)
        return mx_fail_null(
            MX_ERR_ARGUMENT,
            "mx_image_random_size_crop: wanted area and ratio as (least, most) above 0, and a positive size");
    const mx_parts parts = {{area[0], area[1]}, {ratio[0], ratio[1]}, true, MX_CROP_TRIES};
    mx_region r;
    if (!mx_image_random_part(width_of(image), height_of(image), &parts, NULL, &r))
        return mx_image_center_crop(image, width, height, interp, region);
    return crop_to(image, width, height, interp, r, region);
}

/* ---- with a probability ------------------------------------------------------------------------------------------- */

typedef struct chance {
    double p;
    mx_block *transform; /* a child of the block: held by it */
} chance;

static mx_array *forward_chance(mx_block *self, mx_arrays in)
{
    const chance *c = mx_block_user(self);
    return mx_draw_one() < c->p ? mx_block_call(c->transform, in) : in.v[0];
}
static void release_chance(void *user) { mx_free(user, sizeof(chance)); }

mx_block *mx_random_apply(mx_block *transform, double p)
{
    if (!mx_is_kind(transform, &mx_block_kind, "mx_random_apply", "transform"))
        return NULL;
    if (!(p >= 0 && p <= 1))
        return mx_fail_null(MX_ERR_ARGUMENT, "mx_random_apply: p is %g, wanted a probability", p);
    chance *c = mx_alloc(sizeof *c);
    if (!c)
        return NULL;
    *c = (chance){p, transform};
    mx_block *block = mx_block_new("RandomApply", forward_chance);
    if (!block) {
        mx_free(c, sizeof *c);
        return NULL;
    }
    block->user = c, block->release = release_chance; /* now the block owns it */
    return mx_block_child(block, NULL, transform) ? block : NULL;
}
