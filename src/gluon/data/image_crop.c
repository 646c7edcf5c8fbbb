/* Crops and sizes of images, at fixed and at random places (see gluon/image.h).  SPDX-License-Identifier: Apache-2.0 */
#include <math.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/rng.h"
#include "gluon/block/core.h"
#include "gluon/image.h"
#include "gluon/op.gen.h"

/* Two numbers in [0, 1). */
static void draw(double *a, double *b)
{
    const mx_rng rng = mx_rng_reserve(1);
    uint32_t words[4];
    mx_philox(rng.seed, rng.counter, words);
    *a = mx_uniform53(words[0], words[1]);
    *b = mx_uniform53(words[2], words[3]);
}

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
    if (interp == 10) {
        double a, b;
        draw(&a, &b);
        return (int)(a * 5);
    }
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

void mx_image_scale_down(int64_t source_width, int64_t source_height, int64_t *width, int64_t *height)
{
    double w = (double)*width, h = (double)*height;
    if (source_height < h)
        w = w * (double)source_height / h, h = (double)source_height;
    if (source_width < w)
        h = h * (double)source_width / w, w = (double)source_width;
    *width = (int64_t)w, *height = (int64_t)h;
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

mx_array *mx_image_fixed_crop(mx_array *image, mx_region region, int64_t width, int64_t height, int interp)
{
    if (!image_ok(image, "mx_image_fixed_crop"))
        return NULL;
    mx_array *part = mx_image_crop(image, .x = region.x, .y = region.y, .width = region.width, .height = region.height);
    if (!part || !width || !height || (width == region.width && height == region.height))
        return part;
    return resize(part, width, height, interp);
}

/* The crop of this size (smaller if the image is), with its corner at the shares fx, fy of what is left over. */
static mx_array *crop_at(mx_array *image, int64_t width, int64_t height, int interp, mx_region *region, bool centre)
{
    mx_region r = {.width = width, .height = height};
    if (width < 1 || height < 1)
        return mx_fail_null(MX_ERR_ARGUMENT, "image: a crop of %lld x %lld pixels was asked for", (long long)width,
                            (long long)height);
    mx_image_scale_down(width_of(image), height_of(image), &r.width, &r.height);
    r.width = r.width < 1 ? 1 : r.width, r.height = r.height < 1 ? 1 : r.height;
    const int64_t spare_x = width_of(image) - r.width, spare_y = height_of(image) - r.height;
    double a, b;
    if (centre)
        r.x = spare_x / 2, r.y = spare_y / 2;
    else {
        draw(&a, &b);
        r.x = (int64_t)(a * (double)(spare_x + 1)), r.y = (int64_t)(b * (double)(spare_y + 1));
    }
    if (region)
        *region = r;
    return mx_image_fixed_crop(image, r, width, height, interp);
}

mx_array *mx_image_center_crop(mx_array *image, int64_t width, int64_t height, int interp, mx_region *region)
{
    return image_ok(image, "mx_image_center_crop") ? crop_at(image, width, height, interp, region, true) : NULL;
}

mx_array *mx_image_random_crop(mx_array *image, int64_t width, int64_t height, int interp, mx_region *region)
{
    return image_ok(image, "mx_image_random_crop") ? crop_at(image, width, height, interp, region, false) : NULL;
}

#define TRIES 10 /* to find a part that fits, before the centre is taken */

mx_array *mx_image_random_size_crop(mx_array *image, int64_t width, int64_t height, const double *area,
                                    const double *ratio, int interp, mx_region *region)
{
    if (!image_ok(image, "mx_image_random_size_crop"))
        return NULL;
    if (!area || !ratio || !(area[0] > 0 && area[1] >= area[0]) || !(ratio[0] > 0 && ratio[1] >= ratio[0]) ||
        width < 1 || height < 1)
        return mx_fail_null(
            MX_ERR_ARGUMENT,
            "mx_image_random_size_crop: area and ratio are (least, most) above 0, and the size is positive");
    const double all = (double)height_of(image) * (double)width_of(image);
    for (int i = 0; i < TRIES; i++) {
        double a, b;
        draw(&a, &b);
        const double wanted = all * (area[0] + a * (area[1] - area[0])),
                     shape = exp(log(ratio[0]) + b * (log(ratio[1]) - log(ratio[0])));
        mx_region r = {.width = (int64_t)round(sqrt(wanted * shape)), .height = (int64_t)round(sqrt(wanted / shape))};
        if (r.width < 1 || r.height < 1 || r.width > width_of(image) || r.height > height_of(image))
            continue;
        draw(&a, &b);
        r.x = (int64_t)(a * (double)(width_of(image) - r.width + 1));
        r.y = (int64_t)(b * (double)(height_of(image) - r.height + 1));
        if (region)
            *region = r;
        return mx_image_fixed_crop(image, r, width, height, interp);
    }
    return mx_image_center_crop(image, width, height, interp, region);
}

mx_array *mx_image_color_normalize(mx_array *image, mx_array *mean, mx_array *std)
{
    mx_array *shifted = mx_sub(image, mean);
    return !shifted || std == MX_NONE ? shifted : mx_div(shifted, std);
}

/* ---- with a probability ------------------------------------------------------------------------------------------- */

typedef struct chance {
    double p;
    mx_block *transform; /* a child of the block: held by it */
} chance;

static mx_array *forward_chance(mx_block *self, mx_arrays in)
{
    const chance *c = mx_block_user(self);
    double a, b;
    draw(&a, &b);
    return a < c->p ? mx_block_call(c->transform, in) : in.v[0];
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
