/* The networks of the model zoo as classes: options and forward; gluon/zoo holds their structure.
 *
 *     mx_block *net = mx_resnet_v1("basic_block", MX_DIMS(2, 2, 2, 2), MX_DIMS(64, 64, 128, 256, 512), .classes = 10);
 *     mx_block *same = mx_model("resnet18_v1", .classes = 10);
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "gluon/block/layers.h"
#include "gluon/op.gen.h"
#include "gluon/zoo/zoo.h"

#define CLASSES(X) X(INT, classes, "1000", "1..100000000", "number of scores")
#define NUMBERS(X, name, doc) X(DIMS, name, REQUIRED, "", doc)

#define ALEXNET_OPTIONS(X) CLASSES(X)
MX_ATTRS(alexnet, ALEXNET_OPTIONS)
#define VGG_OPTIONS(X) \
    NUMBERS(X, layers, "number of convolutions per stage") \
    NUMBERS(X, filters, "channels per stage") \
    CLASSES(X) X(BOOL, batch_norm, "False", "", "normalise after every convolution")
MX_ATTRS(vgg, VGG_OPTIONS)
#define SQUEEZENET_OPTIONS(X) X(STR, version, REQUIRED, "", "1.0, or 1.1, which needs less than half of the operations") CLASSES(X)
MX_ATTRS(squeezenet, SQUEEZENET_OPTIONS)
#define DENSENET_OPTIONS(X) \
    X(INT, num_init_features, REQUIRED, "1..1000000", "channels of the first convolution") \
    X(INT, growth_rate, REQUIRED, "1..1000000", "channels that a layer adds") \
    NUMBERS(X, block_config, "number of layers per block") \
    X(INT, bn_size, "4", "1..1000", "channels inside a layer, in multiples of growth_rate") \
    X(FLOAT, dropout, "0", "0..1", "fraction of a layer's outputs that are dropped in training") CLASSES(X)
MX_ATTRS(densenet, DENSENET_OPTIONS)
#define INCEPTION_OPTIONS(X) CLASSES(X)
MX_ATTRS(inception, INCEPTION_OPTIONS)
#define MULTIPLIER(X) X(FLOAT, multiplier, "1.0", "0..1000", "all channels are multiplied by it")
#define MOBILENET_OPTIONS(X) \
    MULTIPLIER(X) CLASSES(X) \
    X(STR, form, "mxnet", "", "mxnet, or keras: relu6, its padding (for even sizes) and epsilon")
MX_ATTRS(mobilenet, MOBILENET_OPTIONS)
#define MOBILENET2_OPTIONS(X) \
    MULTIPLIER(X) CLASSES(X) \
    X(STR, form, "mxnet", "", "mxnet, or torch: no first convolution in bottlenecks with t = 1, scores with a bias; or keras: torch with the padding (for even sizes) and epsilon of Keras")
MX_ATTRS(mobilenet2, MOBILENET2_OPTIONS)
#define BOTTLENECK_OPTIONS(X) \
    X(INT, in_channels, REQUIRED, "1..1000000", "input channels") \
    X(INT, channels, REQUIRED, "1..1000000", "output channels") \
    X(INT, t, REQUIRED, "1..1000", "expansion factor of the channels") \
    X(INT, stride, REQUIRED, "1..1000", "stride of the depthwise convolution") \
    X(BOOL, expand_always, "True", "", "False: no first convolution if t is 1") \
    X(BOOL, keras, "False", "", "pad as Keras does for even sizes; no first convolution if t is 1")
MX_ATTRS(linear_bottleneck, BOTTLENECK_OPTIONS)
#define MOBILENET3_OPTIONS(X) \
    X(STR, kind, "large", "", "large or small") \
    MULTIPLIER(X) CLASSES(X) \
    X(FLOAT, epsilon, "1e-05", "", "added to the variances of normalisations") \
    X(STR, form, "torch", "", "torch, or keras: its padding (for even sizes) and epsilon, 0.001")
MX_ATTRS(mobilenet3, MOBILENET3_OPTIONS)
#define EXCITE_OPTIONS(X) \
    X(INT, channels, REQUIRED, "1..1000000", "channels of the input") \
    X(INT, squeezed, REQUIRED, "1..1000000", "channels between")
MX_ATTRS(squeeze_excite, EXCITE_OPTIONS)
#define ZERO_PAD_OPTIONS(X) \
    X(INT, before, REQUIRED, "0..1000", "zeros above and to the left") \
    X(INT, after, REQUIRED, "0..1000", "zeros below and to the right")
MX_ATTRS(zero_pad, ZERO_PAD_OPTIONS)
#define RESNET_OPTIONS(X) \
    X(STR, block, REQUIRED, "", "basic_block (two 3x3 convolutions), bottle_neck (1x1, 3x3, 1x1) or, in version 1, bottle_neck_b (stride in the 3x3 convolution, no biases)") \
    NUMBERS(X, layers, "number of blocks per stage") \
    NUMBERS(X, channels, "channels of the first convolution and of the stages") \
    CLASSES(X) X(BOOL, thumbnail, "False", "", "one 3x3 convolution first, for images of about 32 x 32")
MX_ATTRS(resnet, RESNET_OPTIONS)
#define RESIDUAL_OPTIONS(X) \
    X(INT, channels, REQUIRED, "1..1000000", "output channels") \
    X(INT, stride, REQUIRED, "1..1000", "stride of the block") \
    X(BOOL, downsample, "False", "", "project the input before it is added") \
    X(INT, in_channels, "0", "0..1000000", "input channels; 0: inferred at the first forward")
MX_ATTRS(residual, RESIDUAL_OPTIONS)
#define NASNET_OPTIONS(X) \
    X(INT, repeat, "6", "1..1000", "normal cells between two reduction cells") \
    X(INT, penultimate_filters, "4032", "96..1000000", "channels before the scores") \
    X(INT, stem_filters, "96", "1..1000000", "channels of the first convolution") \
    X(INT, filters_multiplier, "2", "1..16", "growth of the channels at a reduction") \
    X(BOOL, skip_reduction, "True", "", "cells after a reduction get the result two steps before it") \
    X(FLOAT, dropout, "0.5", "0..1", "of the last layer's input") CLASSES(X)
MX_ATTRS(nasnet, NASNET_OPTIONS)
#define NASNET_FEATURES_OPTIONS(X) \
    X(BOOL, skip_reduction, REQUIRED, "", "cells after a reduction get the result two steps before it") \
    X(INT, repeat, REQUIRED, "1..1000", "normal cells between two reduction cells") \
    X(INT, filters, REQUIRED, "4..1000000", "channels of the first normal cells") \
    X(INT, stem_filters, REQUIRED, "1..1000000", "channels of the first convolution") \
    X(INT, filters_multiplier, REQUIRED, "1..16", "growth of the channels at a reduction")
MX_ATTRS(nasnet_features, NASNET_FEATURES_OPTIONS)
#define NASNET_CELL_OPTIONS(X) \
    X(BOOL, reduction, REQUIRED, "", "halve the feature map") \
    X(INT, filters, REQUIRED, "1..1000000", "channels inside") \
    X(STR, previous, "plain", "", "how the previous result is resized: plain, factor (it is twice as large) or none") \
    X(INT, previous_channels, "0", "0..1000000", "channels of the previous result, if it is not resized")
MX_ATTRS(nasnet_cell, NASNET_CELL_OPTIONS)

#define BUILD(name, attrs, ...) \
    static mx_code name(mx_block *self) \
    { \
        const mx_##attrs##_attrs *o = mx_options(self); \
        return __VA_ARGS__; \
    }
BUILD(build_alexnet, alexnet, mx_build_alexnet(self, o->classes))
BUILD(build_vgg, vgg, mx_build_vgg(self, &o->layers, &o->filters, o->classes, o->batch_norm))
BUILD(build_squeezenet, squeezenet, mx_build_squeezenet(self, o->version, o->classes))
BUILD(build_densenet, densenet,
      mx_build_densenet(self, o->num_init_features, o->growth_rate, &o->block_config, o->bn_size, o->dropout,
                        o->classes))
BUILD(build_inception, inception, mx_build_inception(self, o->classes))
BUILD(build_mobilenet, mobilenet, mx_build_mobilenet(self, o->multiplier, o->classes, o->form))
BUILD(build_mobilenet2, mobilenet2, mx_build_mobilenet2(self, o->multiplier, o->classes, o->form))
BUILD(build_linear_bottleneck, linear_bottleneck,
      mx_build_linear_bottleneck(self, o->in_channels, o->channels, o->t, o->stride, o->expand_always, o->keras))
BUILD(build_mobilenet3, mobilenet3, mx_build_mobilenet3(self, o->kind, o->multiplier, o->classes, o->epsilon, o->form))
BUILD(build_excite, squeeze_excite, mx_build_squeeze_excite(self, o->channels, o->squeezed))
BUILD(build_resnet1, resnet, mx_build_resnet(self, 1, o->block, &o->layers, &o->channels, o->classes, o->thumbnail))
BUILD(build_resnet2, resnet, mx_build_resnet(self, 2, o->block, &o->layers, &o->channels, o->classes, o->thumbnail))
BUILD(build_nasnet, nasnet,
      mx_build_nasnet(self, o->repeat, o->penultimate_filters, o->stem_filters, o->filters_multiplier,
                      o->skip_reduction, o->dropout, o->classes))
BUILD(build_nasnet_features, nasnet_features,
      mx_build_nasnet_features(self, o->repeat, o->filters, o->stem_filters, o->filters_multiplier))
BUILD(build_nasnet_cell, nasnet_cell,
      mx_build_nasnet_cell(self, o->reduction, o->filters, o->previous, o->previous_channels))
#define RESIDUAL(name, version, bottleneck) \
    BUILD(name, residual, mx_build_residual(self, version, bottleneck, o->channels, o->stride, o->downsample, o->in_channels))
RESIDUAL(build_basic1, 1, false)
RESIDUAL(build_bottleneck1, 1, true)
BUILD(build_bottleneck1b, residual, mx_build_bottleneck_b(self, o->channels, o->stride, o->downsample, o->in_channels))
RESIDUAL(build_basic2, 2, false)
RESIDUAL(build_bottleneck2, 2, true)

static mx_array *forward_relu6(mx_block *self, mx_arrays in)
{
    return (void)self, mx_clip(in.v[0], .a_min = 0, .a_max = 6);
}

/* x clip(x + 3, 0, 6) / 6 */
static mx_array *forward_hard_swish(mx_block *self, mx_arrays in)
{
    return (void)self, mx_elemwise_mul(in.v[0], mx_hard_sigmoid(in.v[0], .alpha = 1.0 / 6, .beta = 0.5));
}

static mx_array *forward_linear_bottleneck(mx_block *self, mx_arrays in)
{
    const mx_linear_bottleneck_attrs *o = mx_options(self);
    mx_array *y = mx_call(mx_zoo_part(self, "out"), in.v[0]);
    return o->stride == 1 && o->in_channels == o->channels ? mx_elemwise_add(y, in.v[0]) : y;
}

/* body(x) + x */
static mx_array *forward_sum(mx_block *self, mx_arrays in)
{
    mx_block *body = mx_zoo_part(self, "body");
    return mx_elemwise_add(body ? mx_call(body, in.v[0]) : in.v[0], in.v[0]);
}

static mx_array *forward_zero_pad(mx_block *self, mx_arrays in)
{
    const mx_zero_pad_attrs *o = mx_options(self);
    return mx_pad(in.v[0], .mode = MX_PAD_CONSTANT,
                  .pad_width = MX_DIMS(0, 0, 0, 0, o->before, o->after, o->before, o->after));
}

static mx_array *forward_nasnet_cell(mx_block *self, mx_arrays in)
{
    return mx_nasnet_cell_forward(self, in, ((const mx_nasnet_cell_attrs *)mx_options(self))->reduction);
}

static mx_array *forward_nasnet_features(mx_block *self, mx_arrays in)
{
    const mx_nasnet_features_attrs *o = mx_options(self);
    return mx_nasnet_features_forward(self, in.v[0], o->repeat, o->skip_reduction);
}

#define NETWORK(name, how) static const mx_layer name = {.build = how, .forward = mx_zoo_classify};
NETWORK(alexnet, build_alexnet)
NETWORK(vgg, build_vgg)
NETWORK(squeezenet, build_squeezenet)
NETWORK(densenet, build_densenet)
NETWORK(inception, build_inception)
NETWORK(mobilenet, build_mobilenet)
NETWORK(mobilenet2, build_mobilenet2)
NETWORK(mobilenet3, build_mobilenet3)
NETWORK(resnet1, build_resnet1)
NETWORK(resnet2, build_resnet2)
NETWORK(nasnet, build_nasnet)
static const mx_layer linear_bottleneck = {.build = build_linear_bottleneck, .forward = forward_linear_bottleneck},
                      relu6 = {.forward = forward_relu6}, hard_swish = {.forward = forward_hard_swish},
                      excite = {.build = build_excite, .forward = mx_squeeze_excite_forward},
                      zero_pad = {.forward = forward_zero_pad}, sum = {.forward = forward_sum},
                      basic1 = {.build = build_basic1, .forward = mx_residual_forward},
                      bottleneck1 = {.build = build_bottleneck1, .forward = mx_residual_forward},
                      bottleneck1b = {.build = build_bottleneck1b, .forward = mx_residual_forward},
                      basic2 = {.build = build_basic2, .forward = mx_preactivated_forward},
                      bottleneck2 = {.build = build_bottleneck2, .forward = mx_preactivated_forward},
                      nasnet_features = {.build = build_nasnet_features, .forward = forward_nasnet_features},
                      nasnet_cell = {
                          .build = build_nasnet_cell, .forward = forward_nasnet_cell, .min_inputs = 2, .max_inputs = 2, .inputs = "x previous"};

#define ROW(text, constructor, what, options, first, table) \
    {.kind = MX_LAYER, .group = "zoo", .name = text, .c_name = constructor, .doc = what, .schema = options, .positional = first, .methods = table}
mx_class mx_classes_zoo[] = {
    ROW("AlexNet", "alexnet", "AlexNet in the form with one tower", &alexnet_schema, 0, &alexnet),
    ROW("VGG", "vgg", "VGG: stages of 3x3 convolutions, each followed by pooling", &vgg_schema, 2, &vgg),
    ROW("SqueezeNet", "squeezenet", "SqueezeNet: fire modules", &squeezenet_schema, 1, &squeezenet),
    ROW("DenseNet", "densenet", "DenseNet: layers that get the results of all previous layers", &densenet_schema, 3, &densenet),
    ROW("Inception3", "inception3", "Inception version 3, for images of 299 x 299", &inception_schema, 0, &inception),
    ROW("MobileNet", "mobilenet", "MobileNet version 1: separable convolutions", &mobilenet_schema, 1, &mobilenet),
    ROW("MobileNetV2", "mobilenet_v2", "MobileNet version 2: linear bottlenecks", &mobilenet2_schema, 1, &mobilenet2),
    ROW("MobileNetV3", "mobilenet_v3", "MobileNet version 3: bottlenecks with squeeze and excitation", &mobilenet3_schema, 1, &mobilenet3),
    ROW("LinearBottleneck", "linear_bottleneck", "1x1 convolution to t times the channels, 3x3 depthwise, 1x1 to fewer; the input is added if shapes match",
        &linear_bottleneck_schema, 4, &linear_bottleneck),
    ROW("RELU6", "relu6", "min(max(x, 0), 6)", NULL, 0, &relu6),
    ROW("HardSwish", "hard_swish", "x min(max(x + 3, 0), 6) / 6", NULL, 0, &hard_swish),
    ROW("SqueezeExcite", "squeeze_excite", "scales channels by the output of a small network on their means", &squeeze_excite_schema, 2, &excite),
    ROW("ZeroPad", "zero_pad", "zeros around images (N, C, H, W), as many before as after or not", &zero_pad_schema, 2, &zero_pad),
    ROW("ResidualSum", "residual_sum", "the input plus its child `body` applied to it", NULL, 0, &sum),
    ROW("ResNetV1", "resnet_v1", "residual network, version 1", &resnet_schema, 3, &resnet1),
    ROW("ResNetV2", "resnet_v2", "residual network, version 2: normalised before every convolution", &resnet_schema, 3, &resnet2),
    ROW("BasicBlockV1", "basic_block_v1", "two 3x3 convolutions and a shortcut", &residual_schema, 2, &basic1),
    ROW("BottleneckV1", "bottleneck_v1", "a 3x3 convolution on a quarter of the channels between two 1x1 convolutions, and a shortcut",
        &residual_schema, 2, &bottleneck1),
    ROW("BottleneckV1b", "bottleneck_v1b", "BottleneckV1 with the stride in its 3x3 convolution and without biases", &residual_schema, 2, &bottleneck1b),
    ROW("BasicBlockV2", "basic_block_v2", "two preactivated 3x3 convolutions and a shortcut", &residual_schema, 2, &basic2),
    ROW("BottleneckV2", "bottleneck_v2", "preactivated 1x1, 3x3 and 1x1 convolutions and a shortcut", &residual_schema, 2, &bottleneck2),
    ROW("NASNet", "nasnet", "NASNet-A: cells found by search", &nasnet_schema, 0, &nasnet),
    ROW("NASNetFeatures", "nasnet_features", "stem, cells and pooling of NASNet", &nasnet_features_schema, 5, &nasnet_features),
    ROW("NASNetCell", "nasnet_cell", "a cell of NASNet: sums of pairs of operations on the last two results", &nasnet_cell_schema, 2, &nasnet_cell),
    {0},
};
