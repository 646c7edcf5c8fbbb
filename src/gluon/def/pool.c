/* Pooling layers: Max, Avg and Global pools over one to three axes.  SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "exec/call.h"
#include "gluon/block/layers.h"
#include "gluon/op.gen.h"

#define POOL_OPTIONS(X, size, order) \
    X(DIMS, pool_size, size, "", "size of the window") \
    X(DIMS, strides, "None", "", "step of the window; None: its size") \
    X(DIMS, padding, "0", "", "cells added on both sides") \
    X(BOOL, ceil_mode, "False", "", "round the output size up") \
    X(STR, layout, order, "", "order of the axes")
#define AVG_OPTIONS(X, size, order) POOL_OPTIONS(X, size, order) X(BOOL, count_include_pad, "True", "", "padding counts as elements")
#define GLOBAL_OPTIONS(X, order) X(STR, layout, order, "", "order of the axes")
#define MAX1_OPTIONS(X) POOL_OPTIONS(X, "2", "NCW")
#define MAX2_OPTIONS(X) POOL_OPTIONS(X, "(2, 2)", "NCHW")
#define MAX3_OPTIONS(X) POOL_OPTIONS(X, "(2, 2, 2)", "NCDHW")
#define AVG1_OPTIONS(X) AVG_OPTIONS(X, "2", "NCW")
#define AVG2_OPTIONS(X) AVG_OPTIONS(X, "(2, 2)", "NCHW")
#define AVG3_OPTIONS(X) AVG_OPTIONS(X, "(2, 2, 2)", "NCDHW")
#define GLOBAL1_OPTIONS(X) GLOBAL_OPTIONS(X, "NCW")
#define GLOBAL2_OPTIONS(X) GLOBAL_OPTIONS(X, "NCHW")
#define GLOBAL3_OPTIONS(X) GLOBAL_OPTIONS(X, "NCDHW")
MX_ATTRS(max1, MAX1_OPTIONS)
MX_ATTRS(max2, MAX2_OPTIONS)
MX_ATTRS(max3, MAX3_OPTIONS)
MX_ATTRS(avg1, AVG1_OPTIONS)
MX_ATTRS(avg2, AVG2_OPTIONS)
MX_ATTRS(avg3, AVG3_OPTIONS)
MX_ATTRS(global1, GLOBAL1_OPTIONS)
MX_ATTRS(global2, GLOBAL2_OPTIONS)
MX_ATTRS(global3, GLOBAL3_OPTIONS)

static bool is_global(const mx_block *self) { return !strncmp(self->cls->name, "Global", 6); }
static bool is_average(const mx_block *self) { return strstr(self->cls->name, "Avg") != NULL; }
static int spatial_axes(const mx_block *self)
{
    return self->cls->name[strlen(self->cls->name) - 2] - '0'; /* "MaxPool2D" */
}

static mx_code windows(mx_block *self, mx_pooling_attrs *a, int axes)
{
    const mx_avg2_attrs *o = mx_options(self); /* max pools have the same fields but for the last */
    a->kernel = o->pool_size;
    a->stride = o->strides.n < 0 ? o->pool_size : o->strides;
    a->pad = o->padding;
    a->pooling_convention = o->ceil_mode ? MX_POOLING_FULL : MX_POOLING_VALID;
    a->count_include_pad = !is_average(self) || o->count_include_pad;
    if (mx_spread_dims(self, "pool_size", &a->kernel, axes, 1) ||
        mx_spread_dims(self, "strides", &a->stride, axes, 1) || mx_spread_dims(self, "padding", &a->pad, axes, 0))
        return mx_error_code();
    return MX_OK;
}

static mx_code build(mx_block *self)
{
    const int axes = spatial_axes(self);
    mx_pooling_attrs *a = mx_layer_prepare(self, sizeof *a);
    if (!a)
        return mx_error_code();
    const char *layout = is_global(self) ? ((const mx_global2_attrs *)mx_options(self))->layout
                                         : ((const mx_max2_attrs *)mx_options(self))->layout;
    *a = (mx_pooling_attrs){.pool_type = is_average(self) ? MX_POOLING_AVG : MX_POOLING_MAX, .global_pool = is_global(self),
                            .pooling_convention = MX_POOLING_VALID, .p_value = MX_NONE_INT, .count_include_pad = true,
                            .layout = mx_layout_number(self, layout, axes)};
    if (a->layout < 0)
        return mx_error_code();
    a->kernel = a->stride = (mx_dims){.n = axes, .d = {1, 1, 1}};
    a->pad = (mx_dims){.n = axes};
    if (is_global(self))
        a->pooling_convention = MX_POOLING_FULL;
    return is_global(self) ? MX_OK : windows(self, a, axes);
}

static mx_array *forward(mx_block *self, mx_arrays in)
{
    return mx_call_one(MX_OP("Pooling"), self->prepared, 1, in.v, NULL);
}

static void print(mx_block *self, mx_text *text)
{
    char size[MX_SHAPE_TEXT], stride[MX_SHAPE_TEXT], pad[MX_SHAPE_TEXT];
    const mx_pooling_attrs *a = self->prepared;
    mx_dims strides = a->stride.n > 0 ? a->stride : a->kernel, padding = a->pad;
    if (padding.n <= 0)
        padding.n = a->kernel.n;
    mx_text_print(
        text, "%s(size=%s, stride=%s, padding=%s, ceil_mode=%s, global_pool=%s, pool_type=%s, layout=%s)",
        self->class_name, mx_dims_text(&a->kernel, size), mx_dims_text(&strides, stride), mx_dims_text(&padding, pad),
        a->global_pool || a->pooling_convention == MX_POOLING_FULL ? "True" : "False",
        a->global_pool ? "True" : "False", a->pool_type == MX_POOLING_AVG ? "avg" : "max", mx_layout_name(a->layout));
}

#define METHODS(more) {.single = true, .build = build, .forward = forward, .print = print, .op = "Pooling", .kwargs = "kernel stride pad global_pool pool_type layout pooling_convention" more}
static const mx_layer methods = METHODS(""), average = METHODS(" count_include_pad");

#define ROW(name_, doc_, schema_, positional_, c) ROW_OF(methods, name_, doc_, schema_, positional_, c)
#define ROW_OF(methods_, name_, doc_, schema_, positional_, c) \
    {.kind = MX_LAYER, .name = name_, .doc = doc_, .schema = &schema_, .positional = positional_, .hint = "pool", .node = "fwd", .methods = &methods_, .c_name = c}
mx_class mx_classes_pool[] = {
    ROW("MaxPool1D", "the largest element of every window over one axis", max1_schema, 1, "max_pool1d"),
    ROW("MaxPool2D", "the largest element of every window over two axes", max2_schema, 1, "max_pool2d"),
    ROW("MaxPool3D", "the largest element of every window over three axes", max3_schema, 1, "max_pool3d"),
    ROW_OF(average, "AvgPool1D", "the mean of every window over one axis", avg1_schema, 1, "avg_pool1d"),
    ROW_OF(average, "AvgPool2D", "the mean of every window over two axes", avg2_schema, 1, "avg_pool2d"),
    ROW_OF(average, "AvgPool3D", "the mean of every window over three axes", avg3_schema, 1, "avg_pool3d"),
    ROW("GlobalMaxPool1D", "the largest element of each channel", global1_schema, 0, "global_max_pool1d"),
    ROW("GlobalMaxPool2D", "the largest element of each channel", global2_schema, 0, "global_max_pool2d"),
    ROW("GlobalMaxPool3D", "the largest element of each channel", global3_schema, 0, "global_max_pool3d"),
    ROW("GlobalAvgPool1D", "the mean of each channel", global1_schema, 0, "global_avg_pool1d"),
    ROW("GlobalAvgPool2D", "the mean of each channel", global2_schema, 0, "global_avg_pool2d"),
    ROW("GlobalAvgPool3D", "the mean of each channel", global3_schema, 0, "global_avg_pool3d"),
    {0},
};
