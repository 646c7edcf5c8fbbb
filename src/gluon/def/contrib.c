/* Layers from gluon.contrib: pixel shuffles, batch normalisation for several devices.
 *
 *     mx_pixel_shuffle2d(MX_DIMS(2, 2))              (N, 4 C, H, W) -> (N, C, 2 H, 2 W)
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "gluon/layers.h"
#include "gluon/op.gen.h"

/* ---- pixel shuffles ---------------------------------------------------------------------------------------------- */

#define SHUFFLE_OPTIONS(X) X(DIMS, factor, REQUIRED, "", "how much larger each axis becomes: one number, or one per axis")
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

/* ---- batch normalisation for several devices --------------------------------------------------------------------- */

#define SYNC_OPTIONS(X) \
    X(INT, in_channels, "0", "0..", "number of channels; 0: known at the first forward") \
    X(INT, num_devices, "None", "1..", "devices that share the statistics; None: one") \
    X(FLOAT, momentum, "0.9", "0..1", "of the running mean and variance") \
    X(FLOAT, epsilon, "1e-05", "", "added to the variance") \
    X(BOOL, center, "True", "", "learn beta") \
    X(BOOL, scale, "True", "", "learn gamma") \
    X(BOOL, use_global_stats, "False", "", "use the running statistics in training too") \
    X(PTR, beta_initializer, "zeros", "mx_initializer", "start of beta") \
    X(PTR, gamma_initializer, "ones", "mx_initializer", "start of gamma") \
    X(PTR, running_mean_initializer, "zeros", "mx_initializer", "start of the running mean") \
    X(PTR, running_variance_initializer, "ones", "mx_initializer", "start of the running variance")
MX_ATTRS(sync_batch_norm_layer, SYNC_OPTIONS)

static mx_code build_sync(mx_block *self)
{
    MX_SCOPE;
    const mx_sync_batch_norm_layer_attrs *o = mx_options(self);
    mx_shape_t shape = {.ndim = 1, .dim = {mx_known_size(o->in_channels)}};
    if (o->num_devices != MX_NONE_INT && o->num_devices != 1)
        return mx_fail(MX_ERR_UNSUPPORTED,
                       "%s: num_devices=%lld, but statistics are shared inside one device only; use one device, or "
                       "BatchNorm on each",
                       self->class_name, (long long)o->num_devices);
    if (mx_layer_affine(self, shape, o->scale, o->center, o->gamma_initializer, o->beta_initializer) ||
        mx_layer_parameter(self, "running_mean", shape, mx_initializer_or(o->running_mean_initializer, "zeros"),
                           MX_FLOAT32, MX_GRAD_NULL, false) < 0 ||
        mx_layer_parameter(self, "running_var", shape, mx_initializer_or(o->running_variance_initializer, "ones"),
                           MX_FLOAT32, MX_GRAD_NULL, false) < 0)
        return mx_error_code();
    return MX_OK;
}

static mx_array *forward_sync(mx_block *self, mx_arrays in)
{
    const mx_sync_batch_norm_layer_attrs *o = mx_options(self);
    mx_array *x = in.v[0];
    return mx_op_sync_batch_norm(x, mx_own(self, 0, x), mx_own(self, 1, x), mx_own(self, 2, x), mx_own(self, 3, x),
                                 .eps = o->epsilon, .momentum = o->momentum, .fix_gamma = !o->scale,
                                 .use_global_stats = o->use_global_stats, .ndev = 1, .key = self->prefix);
}

static void print_sync(mx_block *self, mx_text *text)
{
    const mx_sync_batch_norm_layer_attrs *o = mx_options(self);
    mx_text_print(text, "%s(eps=", self->class_name);
    mx_text_add_number(text, o->epsilon);
    mx_text_add(text, ", momentum=");
    mx_text_add_number(text, o->momentum);
    mx_text_print(text,
                  ", fix_gamma=%s, use_global_stats=%s, ndev=1, key='%s', in_channels=", o->scale ? "False" : "True",
                  o->use_global_stats ? "True" : "False", self->prefix);
    mx_print_size(text, mx_parameter_shape(self->own.items[0]).d[0]);
    mx_text_add(text, ")");
}

/* ---- the rows ---------------------------------------------------------------------------------------------------- */

static const mx_layer shuffle = {.build = build_shuffle, .forward = forward_shuffle, .print = print_shuffle},
                      sync = {.build = build_sync, .forward = forward_sync, .print = print_sync, .wide = true};

#define SHUFFLE(axes, shown) \
    {.kind = MX_LAYER, .name = "PixelShuffle" axes, .doc = "moves channels into space: (N, " shown ")", \
     .schema = &pixel_shuffle_schema, .positional = 1, .methods = &shuffle, .group = "contrib"}
mx_class mx_classes_contrib[] = {
    SHUFFLE("1D", "C f, W) -> (N, C, W f"),
    SHUFFLE("2D", "C f1 f2, H, W) -> (N, C, H f1, W f2"),
    SHUFFLE("3D", "C f1 f2 f3, D, H, W) -> (N, C, D f1, H f2, W f3"),
    {.kind = MX_LAYER, .name = "SyncBatchNorm", .doc = "normalises each channel over the batches of all devices", .schema = &sync_batch_norm_layer_schema,
     .methods = &sync, .group = "contrib"},
    {0},
};
