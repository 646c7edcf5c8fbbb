/* Images in a network that is written as C: convolution, pooling, in one to three axes.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "gluon/emit/emit.h"
#include "gluon/op.gen.h"

static int64_t at(const mx_dims *dims, int i, int64_t fallback) { return dims->n > i ? dims->d[i] : fallback; }

/* Axes of an image: (batch, channels, image) or, `last`, (batch, image, channels). */
typedef struct image_axes {
    int axes;  /* one to three */
    bool last; /* channels are the last axis */
    int first; /* the first axis of the image */
    int64_t channels;
} image_axes;

static mx_code take_image(const mx_emit_node *n, int layout, image_axes *i)
{
    if (n->x->ndim < 3 || n->x->ndim > 5)
        return mx_emit_fail(n, "data has %d axes, wanted 3 to 5 (batch, channels, one to three image axes)",
                            n->x->ndim);
    const bool last = layout >= 3;
    *i = (image_axes){n->x->ndim - 2, last, last ? 1 : 2, n->x->dim[last ? n->x->ndim - 1 : 1]};
    return MX_OK;
}

/* Windows as the call wants them. */
typedef struct windows {
    mx_dims kernel, stride, pad, dilate;
} windows;

/* ", (window){...}" for depth, height and width; an image with fewer axes has size 1 along the others. */
static void write_windows(const mx_emit_node *n, const image_axes *image, const windows *w)
{
    for (int i = image->axes; i < 3; i++)
        mx_text_add(mx_emit_body(n), ", (window){1, 1, 1, 1, 0, 1}");
    for (int i = 0; i < image->axes; i++) {
        const int64_t in = n->x->dim[image->first + i], out = n->y->dim[image->first + i];
        mx_text_print(mx_emit_body(n), ", (window){%lld, %lld, %lld, %lld, %lld, %lld}", (long long)in, (long long)out,
                      (long long)at(&w->kernel, i, in), (long long)at(&w->stride, i, 1), (long long)at(&w->pad, i, 0),
                      (long long)at(&w->dilate, i, 1));
    }
    mx_emit_close(n);
}

static mx_code write_convolution(const mx_emit_node *n)
{
    const mx_convolution_attrs *attrs = n->node->attrs;
    char bias[48];
    image_axes image;
    if (take_image(n, attrs->layout, &image))
        return mx_error_code();
    mx_emit_open(n, image.last ? "convolution_last" : "convolution", 2);
    mx_text_print(mx_emit_body(n), "%s, %lld, %lld, %lld, %lld", attrs->no_bias ? "NULL" : mx_emit_or_null(n, 2, bias),
                  (long long)n->x->dim[0], (long long)image.channels, (long long)attrs->num_filter,
                  (long long)attrs->num_group);
    write_windows(n, &image, &(windows){attrs->kernel, attrs->stride, attrs->pad, attrs->dilate});
    return MX_OK;
}

/* What target_shape makes of the pad. */
static mx_dims deconvolution_pad(const mx_deconvolution_attrs *attrs, const mx_emit_node *n, const image_axes *image)
{
    mx_dims pad = {.n = image->axes};
    for (int i = 0; i < image->axes; i++) {
        const int64_t span = at(&attrs->dilate, i, 1) * (attrs->kernel.d[i] - 1) + 1;
        const int64_t total =
            at(&attrs->stride, i, 1) * (n->x->dim[image->first + i] - 1) + span - at(&attrs->target_shape, i, 0);
        pad.d[i] = at(&attrs->target_shape, i, 0) > 0 ? (total + 1) / 2 : at(&attrs->pad, i, 0);
    }
    return pad;
}

static mx_code write_deconvolution(const mx_emit_node *n)
{
    const mx_deconvolution_attrs *attrs = n->node->attrs;
    char bias[48];
    image_axes image;
    if (take_image(n, attrs->layout, &image))
        return mx_error_code();
    mx_emit_open(n, image.last ? "deconvolution_last" : "deconvolution", 2);
    mx_text_print(mx_emit_body(n), "%s, %lld, %lld, %lld, %lld", attrs->no_bias ? "NULL" : mx_emit_or_null(n, 2, bias),
                  (long long)n->x->dim[0], (long long)image.channels, (long long)attrs->num_filter,
                  (long long)attrs->num_group);
    write_windows(n, &image,
                  &(windows){attrs->kernel, attrs->stride, deconvolution_pad(attrs, n, &image), attrs->dilate});
    return MX_OK;
}

/* mask and weight: their numbers among the inputs; the bias follows the weight. */
static mx_code write_deformable_of(const mx_emit_node *n, int mask, int weight)
{
    const mx_deformable_attrs *attrs = n->node->attrs; /* both operators begin with the same attributes */
    char place[5][48];
    mx_emit_use(n->emit, "deformable");
    mx_text_print(mx_emit_body(n), "    deformable(%s, %s, %s, %s, %s, %s, %lld, %lld, %lld, %lld, %lld",
                  mx_emit_at(n->emit, n->in[0], place[0]), mx_emit_at(n->emit, n->in[1], place[1]),
                  mask ? mx_emit_at(n->emit, n->in[mask], place[2]) : "NULL",
                  mx_emit_at(n->emit, n->in[weight], place[3]),
                  attrs->no_bias ? "NULL" : mx_emit_or_null(n, weight + 1, place[4]),
                  mx_emit_at(n->emit, n->out, (char[48]){0}), (long long)n->x->dim[0], (long long)n->x->dim[1],
                  (long long)attrs->num_filter, (long long)attrs->num_group, (long long)attrs->num_deformable_group);
    for (int i = 0; i < 2; i++)
        mx_text_print(mx_emit_body(n), ", (window){%lld, %lld, %lld, %lld, %lld, %lld}", (long long)n->x->dim[2 + i],
                      (long long)n->y->dim[2 + i], (long long)attrs->kernel.d[i], (long long)at(&attrs->stride, i, 1),
                      (long long)at(&attrs->pad, i, 0), (long long)at(&attrs->dilate, i, 1));
    return mx_emit_close(n);
}
static mx_code write_deformable(const mx_emit_node *n) { return write_deformable_of(n, 0, 2); }
static mx_code write_modulated(const mx_emit_node *n) { return write_deformable_of(n, 2, 3); }

/* UpSampling with sample_type=bilinear: every channel's own transposed convolution; else pixels are moved. */
static mx_code write_upsampling(const mx_emit_node *n)
{
    const mx_upsampling_attrs *attrs = n->node->attrs;
    if (attrs->sample_type == MX_UPSAMPLING_NEAREST)
        return mx_emit_movement(n);
    const int64_t scale = attrs->scale, kernel = 2 * scale - scale % 2, channels = n->x->dim[1];
    const image_axes image = {2, false, 2, channels};
    mx_emit_open(n, "deconvolution", 2);
    mx_text_print(mx_emit_body(n), "NULL, %lld, %lld, %lld, %lld", (long long)n->x->dim[0], (long long)channels,
                  (long long)channels, (long long)channels);
    write_windows(n, &image,
                  &(windows){.kernel = MX_DIMS(kernel, kernel), .stride = MX_DIMS(scale, scale),
                             .pad = MX_DIMS(scale / 2, scale / 2), .dilate = MX_NO_DIMS});
    return MX_OK;
}

static mx_code write_pooling(const mx_emit_node *n)
{
    const mx_pooling_attrs *attrs = n->node->attrs;
    const bool lp = attrs->pool_type == MX_POOLING_LP;
    windows all = {MX_NO_DIMS, MX_NO_DIMS, MX_NO_DIMS, MX_NO_DIMS};
    image_axes image;
    if (take_image(n, attrs->layout, &image))
        return mx_error_code();
    if (!attrs->global_pool)
        all.kernel = attrs->kernel, all.stride = attrs->stride, all.pad = attrs->pad;
    mx_emit_open(n, "pooling", 1);
    mx_text_print(mx_emit_body(n), "%lld, %lld, %d, %d", (long long)(n->x->dim[0] * (image.last ? 1 : image.channels)),
                  (long long)(image.last ? image.channels : 1), attrs->pool_type, attrs->count_include_pad);
    mx_emit_add(n, lp ? (double)attrs->p_value : 1);
    write_windows(n, &image, &all);
    return MX_OK;
}

static mx_code write_adaptive(const mx_emit_node *n)
{
    mx_emit_open(n, "adaptive", 1);
    mx_text_print(mx_emit_body(n), "%lld, %lld, %lld, %lld, %lld);\n", (long long)(n->x->dim[0] * n->x->dim[1]),
                  (long long)n->x->dim[2], (long long)n->x->dim[3], (long long)n->y->dim[2], (long long)n->y->dim[3]);
    return MX_OK;
}

static mx_code write_lrn(const mx_emit_node *n)
{
    const mx_lrn_attrs *attrs = n->node->attrs;
    if (n->x->ndim < 2)
        return mx_emit_fail(n, "data has %d axes, wanted a batch and channels", n->x->ndim);
    mx_emit_open(n, "local_norm", 1);
    mx_emit_split(n, mx_split_at(n->x, 1));
    mx_text_print(mx_emit_body(n), ", %lld", (long long)(attrs->nsize / 2));
    mx_emit_add(n, attrs->alpha / (double)attrs->nsize);
    mx_emit_add(n, attrs->beta);
    mx_emit_add(n, attrs->knorm);
    return mx_emit_close(n);
}

const mx_emit_row mx_emit_image_rows[] = {
    {.op = "Convolution", .write = write_convolution},
    {.op = "Deconvolution", .write = write_deconvolution},
    {.op = "_contrib_DeformableConvolution", .write = write_deformable},
    {.op = "_contrib_ModulatedDeformableConvolution", .write = write_modulated},
    {.op = "UpSampling", .write = write_upsampling, .all = true},
    {.op = "Pooling", .write = write_pooling},
    {.op = "_contrib_AdaptiveAvgPooling2D", .write = write_adaptive},
    {.op = "LRN", .write = write_lrn},
    {0},
};
