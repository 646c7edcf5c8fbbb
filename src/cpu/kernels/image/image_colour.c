/* Colour changes, step by step on each image (see op/def/image/image_colour.c).
 *
 * Pixels are converted tile by tile to doubles, changed, and converted back: integers are truncated and clipped to
 * their range.  A later step reads what the earlier one wrote.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <string.h>

#include "base/rng.h"
#include "base/threads.h"
#include "cpu/kernel.h"
#include "cpu/kernels/level.h"
#include "gluon/op.gen.h"
#include "ndarray/convert.h"
#include "op/formula/image.h"

#define TILE 192 /* elements: a multiple of 1 and 3 channels */

typedef struct colour_job {
    mx_colour_step step;
    const char *from;
    char *to;
    mx_dtype type;
    int64_t channels, item;
    double mean; /* of the image's gray, for contrast */
} colour_job;

static double mean_gray(const colour_job *j, int64_t pixels)
{
    double tile[TILE], sum = 0;
    for (int64_t done = 0, all = pixels * j->channels; done < all; done += TILE) {
        const int64_t n = all - done < TILE ? all - done : TILE;
        mx_convert(tile, MX_FLOAT64, j->from + done * j->item, j->type, n);
        for (int64_t i = 0; i < n; i += j->channels)
            sum += mx_gray(tile + i, j->channels);
    }
    return sum / (double)pixels;
}

static void change(const colour_job *j, double *v, int64_t n)
{
    const double a = j->step.alpha[0];
    double shift[3];
    switch (j->step.kind) {
    case MX_BRIGHTNESS:
        for (int64_t i = 0; i < n; i++)
            v[i] *= a;
        break;
    case MX_CONTRAST:
        for (int64_t i = 0; i < n; i++)
            v[i] = mx_colour_blend(v[i], a, j->mean);
        break;
    case MX_SATURATION:
        for (int64_t i = 0; i < n && j->channels == 3; i += 3) {
            const double gray = mx_gray(v + i, 3);
            for (int64_t c = i; c < i + 3; c++)
                v[c] = mx_colour_blend(v[c], a, gray);
        }
        break;
    case MX_HUE:
        for (int64_t i = 0; i < n && j->channels == 3; i += 3) {
            double turned[3];
            mx_turn_hue(a, v + i, turned);
            memcpy(v + i, turned, sizeof turned);
        }
        break;
    case MX_LIGHTING:
        for (int64_t c = 0; c < 3; c++)
            shift[c] = mx_lighting_shift(c, j->step.alpha);
        for (int64_t i = 0; i < n && j->channels == 3; i++)
            v[i] += shift[i % 3];
        break;
    default: break;
    }
}

static void change_tiles(void *arg, int64_t begin, int64_t end)
{
    const colour_job *j = arg;
    const bool whole = !mx_dtype_is_float(j->type);
    const double low = mx_colour_min(j->type), high = mx_colour_max(j->type);
    double tile[TILE];
    for (int64_t done = begin * j->channels, all = end * j->channels; done < all; done += TILE) {
        const int64_t n = all - done < TILE ? all - done : TILE;
        mx_convert(tile, MX_FLOAT64, j->from + done * j->item, j->type, n);
        change(j, tile, n);
        for (int64_t i = 0; whole && i < n; i++)
            tile[i] = mx_colour_whole(tile[i], low, high);
        mx_convert(j->to + done * j->item, j->type, tile, MX_FLOAT64, n);
    }
}

/* All steps on image n of the call. */
static void change_image(const mx_kernel_call *call, int64_t n, const mx_colour_step *steps, int count)
{
    const mx_array *x = call->in[0];
    const mx_image_size s = mx_image_size_of(x->ndim, x->shape);
    const int64_t item = mx_dtype_size((mx_dtype)x->dtype), pixels = s.height * s.width,
                  offset = n * pixels * s.channels * item;
    colour_job j = {.from = (const char *)mx_data(x) + offset, .to = (char *)mx_data(call->out[0]) + offset,
                    .type = (mx_dtype)x->dtype, .channels = s.channels, .item = item};
    for (int i = 0; i < count; i++) {
        j.step = steps[i];
        if (j.step.kind == MX_CONTRAST)
            j.mean = mean_gray(&j, pixels);
        mx_parallel(pixels, MX_GRAIN / 8, change_tiles, &j);
        j.from = j.to;
    }
}

static int64_t images_of(const mx_kernel_call *call)
{
    return mx_image_size_of(call->in[0]->ndim, call->in[0]->shape).images;
}

/* ---- strengths ------------------------------------------------------------------------------------------------ */

static mx_code run_factor(const mx_kernel_call *call, mx_colour_kind kind)
{
    const mx_image_random_factor_attrs *a = call->attrs;
    const int64_t images = images_of(call);
    const mx_rng rng = mx_rng_reserve((uint64_t)images);
    for (int64_t n = 0; n < images; n++) {
        const double alpha = mx_colour_factor(rng, n, a->min_factor, a->max_factor);
        change_image(call, n, &(mx_colour_step){kind, {alpha}}, 1);
    }
    return MX_OK;
}
static mx_code run_brightness(const mx_kernel_call *call) { return run_factor(call, MX_BRIGHTNESS); }
static mx_code run_contrast(const mx_kernel_call *call) { return run_factor(call, MX_CONTRAST); }
static mx_code run_saturation(const mx_kernel_call *call) { return run_factor(call, MX_SATURATION); }
static mx_code run_hue(const mx_kernel_call *call) { return run_factor(call, MX_HUE); }

static mx_code run_jitter(const mx_kernel_call *call)
{
    const mx_image_random_color_jitter_attrs *a = call->attrs;
    const double width[4] = {a->brightness, a->contrast, a->saturation, a->hue};
    const int64_t images = images_of(call);
    const mx_rng rng = mx_rng_reserve((uint64_t)images * 2);
    for (int64_t n = 0; n < images; n++) {
        mx_colour_step steps[4];
        mx_colour_jitter(rng, n, width, steps);
        change_image(call, n, steps, 4);
    }
    return MX_OK;
}

static mx_code run_lighting(const mx_kernel_call *call)
{
    const double *alpha = ((const mx_image_adjust_lighting_attrs *)call->attrs)->alpha.d;
    for (int64_t n = 0; n < images_of(call); n++)
        change_image(call, n, &(mx_colour_step){MX_LIGHTING, {alpha[0], alpha[1], alpha[2]}}, 1);
    return MX_OK;
}

static mx_code run_random_lighting(const mx_kernel_call *call)
{
    const double deviation = ((const mx_image_random_lighting_attrs *)call->attrs)->alpha_std;
    const int64_t images = images_of(call);
    const mx_rng rng = mx_rng_reserve((uint64_t)images);
    for (int64_t n = 0; n < images; n++) {
        const mx_colour_step step = mx_colour_lighting(rng, n, deviation);
        change_image(call, n, &step, 1);
    }
    return MX_OK;
}

MX_CPU_KERNELS(image_colour) = {
    {"_image_random_brightness", run_brightness, NULL}, {"_image_random_contrast", run_contrast, NULL},
    {"_image_random_saturation", run_saturation, NULL}, {"_image_random_hue", run_hue, NULL},
    {"_image_random_color_jitter", run_jitter, NULL},   {"_image_adjust_lighting", run_lighting, NULL},
    {"_image_random_lighting", run_random_lighting, NULL}, {NULL, NULL, NULL},
};
