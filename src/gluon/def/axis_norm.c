/* Normalisation of single examples: LayerNorm, InstanceNorm, GroupNorm.  SPDX-License-Identifier: Apache-2.0 */
#include "gluon/block/layers.h"
#include "gluon/op.gen.h"

#define AFFINE_OPTIONS(X, scale_default) \
    X(FLOAT, epsilon, "1e-05", "", "added to the variance") \
    X(BOOL, center, "True", "", "learn beta") \
    X(BOOL, scale, scale_default, "", "learn gamma") \
    X(PTR, beta_initializer, "zeros", "mx_initializer", "initial value of beta") \
    X(PTR, gamma_initializer, "ones", "mx_initializer", "initial value of gamma")

#define LAYER_NORM_OPTIONS(X) \
    X(INT, axis, "-1", "", "axis that is normalised") \
    AFFINE_OPTIONS(X, "True") \
    X(INT, in_channels, "0", "0..", "size of the axis; 0: inferred at the first forward")
MX_ATTRS(layer_norm_layer, LAYER_NORM_OPTIONS)
#define INSTANCE_NORM_OPTIONS(X) \
    X(INT, axis, "1", "", "axis of the channels") \
    AFFINE_OPTIONS(X, "False") \
    X(INT, in_channels, "0", "0..", "number of channels; 0: inferred at the first forward")
MX_ATTRS(instance_norm_layer, INSTANCE_NORM_OPTIONS)
#define GROUP_NORM_OPTIONS(X) \
    X(INT, num_groups, "1", "1..", "channels are normalised in this many groups") \
    AFFINE_OPTIONS(X, "True")
MX_ATTRS(group_norm_layer, GROUP_NORM_OPTIONS)

static mx_code build_axis_norm(mx_block *self) /* LayerNorm and InstanceNorm have the same options */
{
    MX_SCOPE;
    const mx_layer_norm_layer_attrs *o = mx_options(self);
    mx_shape_t shape = {.ndim = 1, .dim = {mx_known_size(o->in_channels)}};
    return mx_layer_affine(self, shape, o->scale, o->center, o->gamma_initializer, o->beta_initializer);
}

static mx_code build_group_norm(mx_block *self)
{
    MX_SCOPE;
    const mx_group_norm_layer_attrs *o = mx_options(self);
    mx_shape_t shape = {.ndim = 1, .dim = {o->num_groups}};
    return mx_layer_affine(self, shape, o->scale, o->center, o->gamma_initializer, o->beta_initializer);
}

static mx_array *forward_layer_norm(mx_block *self, mx_arrays in)
{
    const mx_layer_norm_layer_attrs *o = mx_options(self);
    mx_array *x = in.v[0];
    return mx_op_layer_norm(x, mx_own(self, 0, x), mx_own(self, 1, x), .axis = o->axis, .eps = o->epsilon);
}

static mx_array *forward_instance_norm(mx_block *self, mx_arrays in)
{
    const mx_instance_norm_layer_attrs *o = mx_options(self);
    mx_array *x = in.v[0], *gamma = mx_own(self, 0, x), *beta = mx_own(self, 1, x);
    if (o->axis == 1)
        return mx_op_instance_norm(x, gamma, beta, .eps = o->epsilon);
    mx_array *moved = mx_swapaxes(x, .dim1 = 1, .dim2 = o->axis);
    return mx_swapaxes(mx_op_instance_norm(moved, gamma, beta, .eps = o->epsilon), .dim1 = 1, .dim2 = o->axis);
}

static mx_array *forward_group_norm(mx_block *self, mx_arrays in)
{
    const mx_group_norm_layer_attrs *o = mx_options(self);
    mx_array *x = in.v[0];
    return mx_op_group_norm(x, mx_own(self, 0, x), mx_own(self, 1, x), .num_groups = o->num_groups, .eps = o->epsilon);
}

static void print_axis_norm(mx_block *self, mx_text *text)
{
    const mx_layer_norm_layer_attrs *o = mx_options(self);
    mx_text_print(text, "%s(eps=", self->class_name);
    mx_text_add_number(text, o->epsilon);
    mx_text_print(text, ", axis=%lld, center=%s, scale=%s, in_channels=%lld)", (long long)o->axis,
                  o->center ? "True" : "False", o->scale ? "True" : "False",
                  (long long)mx_parameter_shape(self->own.items[0]).d[0]);
}

static void print_group_norm(mx_block *self, mx_text *text)
{
    const mx_group_norm_layer_attrs *o = mx_options(self);
    mx_text_add(text, "GroupNorm(eps=");
    mx_text_add_number(text, o->epsilon);
    mx_text_print(text, ", num_groups=%lld, center=%s, scale=%s)", (long long)o->num_groups,
                  o->center ? "True" : "False", o->scale ? "True" : "False");
}

static const mx_layer layer_norm = {.single = true, .build = build_axis_norm,
                                    .forward = forward_layer_norm,
                                    .print = print_axis_norm,
                                    .inputs = "data",
                                    .kwargs = "eps=epsilon axis center scale"},
                      instance_norm = {.single = true, .build = build_axis_norm,
                                       .forward = forward_instance_norm,
                                       .print = print_axis_norm,
                                       .kwargs = "eps=epsilon axis center scale"},
                      group_norm = {
                          .build = build_group_norm, .forward = forward_group_norm, .print = print_group_norm, .inputs = "data", .kwargs = "eps=epsilon num_groups center scale"};

mx_class mx_classes_axis_norm[] = {
    {.kind = MX_LAYER, .name = "LayerNorm", .doc = "normalises each example over one axis", .schema = &layer_norm_layer_schema, .methods = &layer_norm},
    {.kind = MX_LAYER, .name = "InstanceNorm", .node = "fwd", .doc = "normalises each channel of each example", .schema = &instance_norm_layer_schema,
     .methods = &instance_norm},
    {.kind = MX_LAYER, .name = "GroupNorm", .doc = "normalises groups of channels of each example", .schema = &group_norm_layer_schema,
     .methods = &group_norm},
    {0},
};
