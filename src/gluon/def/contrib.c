/* Layers from gluon.contrib: pixel shuffles, batch normalisation for several devices.
 *
 *     mx_pixel_shuffle2d(MX_DIMS(2, 2))              (N, 4 C, H, W) -> (N, C, 2 H, 2 W)
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "gluon/block/layers.h"
#include "gluon/op.gen.h"

/* ---- pixel shuffles ---------------------------------------------------------------------------------------------- */

#define SHUFFLE_OPTIONS(X) X(DIMS, factor, REQUIRED, "", "upscaling factor: one number, or one per axis")
MX_ATTRS(pixel_shuffle, SHUFFLE_OPTIONS)

static int shuffled_axes(const mx_block *self) { return self->cls->name[strlen("PixelShuffle")] - '0'; }

static mx_code build_shuffle(mx_block *self)
{
    mx_dims *factor = mx_layer_prepare(self, sizeof *factor);
    if (!factor)
        return mx_error_code();
    *factor = ((const mx_pixel_shuffle_attrs *)mx_options(self))->factor;
    return mx_spread_dims(self, "factor", factor, shuffled_axes(self), 1);
}

/* (N, C f1..fk, a1..ak) -> (N, C, f1, .., fk, a1, .., ak) -> (N, C, a1, f1, .., ak, fk) -> (N, C, a1 f1, .., ak fk)
 *
 * Sizes of axes may be unknown (graphs), so shapes are written in the codes of Reshape: 0 copies an axis, -4 splits one
 * into the two numbers after it, -3 joins two. */
static mx_array *forward_shuffle(mx_block *self, mx_arrays in)
{
    const mx_dims *factor = self->prepared;
    const int axes = factor->n;
    mx_array *x = in.v[0];
    for (int i = 0; i < axes;
         i++) { /* the first split leaves the rest in the second part, each further one takes from it */
        int64_t rest = 1;
        for (int k = i; k < axes; k++)
            rest *= factor->d[k];
        mx_dims split = {.n = 0};
        for (int k = 0; k < (i ? 1 + i : 1); k++)
            split.d[split.n++] = 0;
        split.d[split.n++] = -4;
        split.d[split.n++] = i ? factor->d[i - 1] : -1;
        split.d[split.n++] = rest;
        for (int k = 0; k < axes; k++)
            split.d[split.n++] = 0;
        x = mx_reshape(x, .shape = split);
    }
    mx_dims order = {.n = 2, .d = {0, 1}}, joined = {.n = 2, .d = {0, 0}};
    for (int i = 0; i < axes; i++) {
        order.d[order.n++] = 2 + axes + i;
        order.d[order.n++] = 2 + i;
        joined.d[joined.n++] = -3;
    }
    return mx_reshape(mx_transpose(x, .axes = order), .shape = joined);
}

static void print_shuffle(mx_block *self, mx_text *text)
{
    char buffer[MX_SHAPE_TEXT];
    const mx_dims *factor = self->prepared;
    if (factor->n == 1)
        mx_text_print(text, "%s(%lld)", self->class_name, (long long)factor->d[0]);
    else
        mx_text_print(text, "%s(%s)", self->class_name, mx_dims_text(factor, buffer));
}

/* ---- the classes ------------------------------------------------------------------------------------------------- */

static const mx_layer shuffle = {.build = build_shuffle, .forward = forward_shuffle, .print = print_shuffle};

#define SHUFFLE(axes, shown) \
    {.kind = MX_LAYER, .name = "PixelShuffle" axes, .doc = "moves channels into space: (N, " shown ")", \
     .schema = &pixel_shuffle_schema, .positional = 1, .methods = &shuffle, .group = "contrib"}
mx_class mx_classes_contrib[] = {
    SHUFFLE("1D", "C f, W) -> (N, C, W f"),
    SHUFFLE("2D", "C f1 f2, H, W) -> (N, C, H f1, W f2"),
    SHUFFLE("3D", "C f1 f2 f3, D, H, W) -> (N, C, D f1, H f2, W f3"),
    {0},
};
