/* Transforms of images: ToTensor, Normalize, Cast.  They work on one image and on a batch alike.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "gluon/block/layers.h"
#include "gluon/op.gen.h"

#define NORMALIZE_OPTIONS(X) \
    X(FLOATS, mean, "0.0", "", "per channel, or one for all") \
    X(FLOATS, std, "1.0", "", "per channel, or one for all")
MX_ATTRS(normalize_layer, NORMALIZE_OPTIONS)
#define CAST_OPTIONS(X) X(DTYPE, dtype, "float32", "", "element type of the result")
MX_ATTRS(cast_layer, CAST_OPTIONS)

static mx_array *forward_to_tensor(mx_block *self, mx_arrays in) { return (void)self, mx_image_to_tensor(in.v[0]); }
static mx_array *forward_normalize(mx_block *self, mx_arrays in)
{
    const mx_normalize_layer_attrs *o = mx_options(self);
    return mx_image_normalize(in.v[0], .mean = o->mean, .std = o->std);
}
static mx_array *forward_cast(mx_block *self, mx_arrays in)
{
    return mx_cast(in.v[0], .dtype = ((const mx_cast_layer_attrs *)mx_options(self))->dtype);
}

static const mx_layer to_tensor = {.forward = forward_to_tensor, .batched = true},
                      normalize = {.forward = forward_normalize, .batched = true},
                      cast = {.forward = forward_cast, .batched = true};

mx_class mx_classes_transforms[] = {
    {.kind = MX_LAYER, .group = "transforms", .name = "ToTensor", .doc = "images (H, W, C) in 0..255 to tensors (C, H, W) in 0..1", .methods = &to_tensor},
    {.kind = MX_LAYER, .group = "transforms", .name = "Normalize", .doc = "(x - mean) / std per channel", .schema = &normalize_layer_schema, .positional = 2,
     .methods = &normalize},
    {.kind = MX_LAYER, .group = "transforms", .name = "Cast", .doc = "converts the element type", .schema = &cast_layer_schema, .positional = 1, .methods = &cast,
     .c_name = "cast_layer"},
    {0},
};
