/* Which layer of the zoo is which layer of keras.applications.  torch.h explains the notation.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "gluon/zoo/keras.h"

#define ROW(mine, other, ...) {.ours = mine, .theirs = other, __VA_ARGS__}
#define NORM(mine, other) {.ours = mine, .theirs = other, .norm = true}
static const char *const none[] = {NULL};

/* 0 convolution, 1 norm, 2 relu, 3 pool, 4.. stages of blocks: body 0 convolution, 1 norm, 2 relu, 3 convolution ... */
static const mx_torch_row resnet[] = {
    ROW("features.0", "conv1_conv"),
    NORM("features.1", "conv1_bn"),
    NORM("features.#.#.body.#", "conv{a-2}_block{b+1}_{c/3+1}_bn"),
    ROW("features.#.#.body.#", "conv{a-2}_block{b+1}_{c/3+1}_conv"),
    NORM("features.#.#.downsample.1", "conv{a-2}_block{b+1}_0_bn"),
    ROW("features.#.#.downsample.0", "conv{a-2}_block{b+1}_0_conv"),
    ROW("output", "predictions"),
    {0},
};

/* Stages of 2, 2, 3 (4), 3 (4), 3 (4) convolutions, each with a relu, and a pool; then two dense layers with dropout. */
#define VGG(count) \
    {ROW("features.0", "block1_conv1"), ROW("features.2", "block1_conv2"), ROW("features.5", "block2_conv1"), \
     ROW("features.7", "block2_conv2"), ROW("features.#", "block{k/" #count "+3}_conv{k%" #count "+1}", .rank = 4), \
     ROW("features.#", "fc{k+1}", .rank = 2), ROW("output", "predictions"), {0}}
static const mx_torch_row vgg16[] = VGG(3), vgg19[] = VGG(4);

/* As for PyTorch: 4, 6, 8, 10 blocks, 5, 7, 9 transitions. */
static const mx_torch_row densenet[] = {
    ROW("features.0", "conv1_conv"),
    NORM("features.1", "conv1_bn"),
    NORM("features.#.#.1.#", "conv{a/2}_block{b+1}_{c/3}_bn"),
    ROW("features.#.#.1.#", "conv{a/2}_block{b+1}_{c/3+1}_conv"),
    NORM("features.#.0", "pool{a-1/2}_bn"),
    ROW("features.#.2", "pool{a-1/2}_conv"),
    NORM("features.#", "bn"),
    ROW("output", "predictions"),
    {0},
};

static const mx_torch_row mobilenet[] = {
    ROW("features.0.1", "conv1"),
    NORM("features.0.2", "conv1_bn"),
    ROW("features.#.1", "conv_dw_{a}"),
    NORM("features.#.2", "conv_dw_{a}_bn"),
    ROW("features.#.4", "conv_pw_{a}"),
    NORM("features.#.5", "conv_pw_{a}_bn"),
    ROW("output", "conv_preds"),
    {0},
};

/* The first bottleneck (4) has no expansion. */
static const mx_torch_row mobilenet2[] = {
    ROW("features.1", "Conv1"),
    NORM("features.2", "bn_Conv1"),
    ROW("features.4.out.1", "expanded_conv_depthwise"),
    NORM("features.4.out.2", "expanded_conv_depthwise_BN"),
    ROW("features.4.out.4", "expanded_conv_project"),
    NORM("features.4.out.5", "expanded_conv_project_BN"),
    ROW("features.#.out.0", "block_{a-4}_expand"),
    NORM("features.#.out.1", "block_{a-4}_expand_BN"),
    ROW("features.#.out.4", "block_{a-4}_depthwise"),
    NORM("features.#.out.5", "block_{a-4}_depthwise_BN"),
    ROW("features.#.out.7", "block_{a-4}_project"),
    NORM("features.#.out.8", "block_{a-4}_project_BN"),
    ROW("features.#", "Conv_1"),
    NORM("features.#", "Conv_1_bn"),
    ROW("output.0", "predictions"),
    {0},
};

/* Bottlenecks of stride 1 are sums of the input and their body: * is nothing or "body.". */
static const mx_torch_row mobilenet3[] = {
    ROW("features.1", "conv"),
    NORM("features.2", "conv_bn"),
    ROW("features.4.*1.1", "expanded_conv_depthwise"),
    NORM("features.4.*1.2", "expanded_conv_depthwise_bn"),
    ROW("features.4.*2.squeeze", "expanded_conv_squeeze_excite_conv"),
    ROW("features.4.*2.excite", "expanded_conv_squeeze_excite_conv_1"),
    ROW("features.4.*3.0", "expanded_conv_project"),
    NORM("features.4.*3.1", "expanded_conv_project_bn"),
    ROW("features.#.*0.0", "expanded_conv_{a-4}_expand"),
    NORM("features.#.*0.1", "expanded_conv_{a-4}_expand_bn"),
    ROW("features.#.*1.1", "expanded_conv_{a-4}_depthwise"),
    NORM("features.#.*1.2", "expanded_conv_{a-4}_depthwise_bn"),
    ROW("features.#.*2.squeeze", "expanded_conv_{a-4}_squeeze_excite_conv"),
    ROW("features.#.*2.excite", "expanded_conv_{a-4}_squeeze_excite_conv_1"),
    ROW("features.#.*3.0", "expanded_conv_{a-4}_project"),
    NORM("features.#.*3.1", "expanded_conv_{a-4}_project_bn"),
    NORM("features.#", "conv_1_bn"),
    ROW("features.#", "conv_1", .most = 1),
    ROW("features.#", "conv_2"),
    ROW("output.0", "logits"),
    {0},
};

#define NAMES(name, options_of, list, layer) \
    .names = {.class = name, .options = options_of, .rows = list, .prefixes = none, .unused = none, .sizes = {{"classes", layer, 0}}}
const mx_keras_table mx_keras_tables[] = {
    {NAMES("ResNetV1", "", resnet, "predictions"), .epsilon = 1e-8, .needs = "features.4.0.body.0.bias",
     .reason = "Keras has the stride of a bottleneck in its first convolution: use resnet50_v1, resnet101_v1 or resnet152_v1"},
    {NAMES("VGG", "", vgg16, "predictions"), .flat = "fc1", .needs = "features.31.weight",
     .reason = "Keras has vgg16 and vgg19, without normalisations"},
    {NAMES("VGG", "", vgg19, "predictions"), .flat = "fc1", .needs = "features.34.weight"},
    {NAMES("DenseNet", "", densenet, "predictions"), .epsilon = 1e-8},
    {NAMES("MobileNet", "form=keras", mobilenet, "conv_preds"), .needs = "features.1.1.weight",
     .reason = "Keras pads other sides and uses relu6: make the network with form=keras"},
    {NAMES("MobileNetV2", "form=keras", mobilenet2, "predictions"), .needs = "features.5.out.8.gamma",
     .reason = "Keras pads other sides: make the network with form=keras"},
    {NAMES("MobileNetV3", "form=keras", mobilenet3, "logits"), .needs = "features.5.0.0.weight",
     .reason = "Keras pads other sides: make the network with form=keras"},
    {.names = {.class = "ResNetV2"},
     .reason = "Keras' networks of version 2 have their strides in the last block of a stage and do not normalise the input; "
               "no network of the zoo has this structure"},
    {.needs = NULL},
};
