/* Small layers: Dropout, Flatten, Identity, ReflectionPad2D; Lambda is mx_lambda().  SPDX-License-Identifier: Apache-2.0 */
#include "gluon/block/layers.h"
#include "gluon/op.gen.h"

#define DROPOUT_OPTIONS(X) \
    X(FLOAT, rate, REQUIRED, "0..1", "fraction of the elements that are set to 0 in training") \
    X(DIMS, axes, "()", "", "axes along which the mask is shared")
MX_ATTRS(dropout_layer, DROPOUT_OPTIONS)
#define REFLECTION_OPTIONS(X) X(DIMS, padding, "0", "", "cells reflected on all sides: one number, or eight as for the Pad operator")
MX_ATTRS(reflection, REFLECTION_OPTIONS)

static mx_array *forward_dropout(mx_block *self, mx_arrays in)
{
    const mx_dropout_layer_attrs *o = mx_options(self);
    return o->rate > 0 ? mx_op_dropout(in.v[0], .p = o->rate, .axes = o->axes) : mx_copy(in.v[0]);
}

static void print_dropout(mx_block *self, mx_text *text)
{
    char axes[MX_SHAPE_TEXT];
    const mx_dropout_layer_attrs *o = mx_options(self);
    mx_text_add(text, "Dropout(p = ");
    mx_print_option(self, text, "rate");
    mx_text_print(text, ", axes=%s)", mx_dims_text(&o->axes, axes));
}

static void print_flatten(mx_block *self, mx_text *text) { mx_text_add(text, self->class_name); }
static mx_array *forward_flatten(mx_block *self, mx_arrays in) { return (void)self, mx_op_flatten(in.v[0]); }
static mx_array *forward_identity(mx_block *self, mx_arrays in) { return (void)self, in.v[0]; }

static mx_array *forward_reflection(mx_block *self, mx_arrays in)
{
    mx_dims p = ((const mx_reflection_attrs *)mx_options(self))->padding;
    if (p.n == 1)
        p = MX_DIMS(0, 0, 0, 0, p.d[0], p.d[0], p.d[0], p.d[0]);
    return mx_pad(in.v[0], .mode = MX_PAD_REFLECT, .pad_width = p);
}

static const mx_layer dropout = {.forward = forward_dropout, .print = print_dropout},
                      flatten = {.forward = forward_flatten, .print = print_flatten},
                      identity = {.forward = forward_identity}, reflection = {.forward = forward_reflection};

mx_class mx_classes_basic[] = {
    {.kind = MX_LAYER, .name = "Dropout", .node = "fwd", .doc = "sets random elements to 0 in training and scales the others up", .schema = &dropout_layer_schema,
     .positional = 1, .methods = &dropout},
    {.kind = MX_LAYER, .name = "Flatten", .doc = "joins all axes but the first", .methods = &flatten},
    {.kind = MX_LAYER, .name = "Identity", .doc = "returns its input", .methods = &identity},
    {.kind = MX_LAYER, .name = "ReflectionPad2D", .doc = "pads images with their own reflection", .schema = &reflection_schema, .positional = 1,
     .methods = &reflection, .c_name = "reflection_pad2d"},
    {0},
};
