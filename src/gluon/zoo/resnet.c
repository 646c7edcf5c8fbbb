/* Residual networks: version 1 (He et al. 2015, "Deep Residual Learning for Image Recognition") normalises after each
 * convolution, version 2 (He et al. 2016, "Identity Mappings in Deep Residual Networks") before it.
 *
 *     stem -> stages of blocks -> pooling -> scores       block: x, or its projection, plus two or three convolutions
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <string.h>

#include "gluon/nn.gen.h"
#include "gluon/op.gen.h"
#include "gluon/zoo/zoo.h"

/* ---- blocks -------------------------------------------------------------------------------------------------- */

static mx_block *conv3x3(int64_t channels, int64_t stride, int64_t in_channels)
{
    return mx_zoo_conv_from((mx_conv_row){channels, 3, stride, 1}, in_channels);
}

static mx_block *conv1x1(int64_t channels, int64_t stride, bool bias)
{
    return mx_zoo_conv((mx_conv_row){channels, 1, stride, 0}, 1, bias);
}

/* Version 1, or its form "b", whose bottlenecks have the stride in the 3x3 convolution, and no biases. */
static mx_code add_version1(mx_block *self, bool bottleneck, bool b, int64_t channels, int64_t stride, bool downsample,
                            int64_t in_channels)
{
    const int64_t inner = bottleneck ? channels / 4 : channels;
    mx_block *body = mx_zoo_sequence(""), *shortcut = NULL;
    mx_zoo_add(body, bottleneck ? conv1x1(inner, b ? 1 : stride, !b) : conv3x3(inner, stride, in_channels));
    mx_zoo_add(body, mx_batch_norm());
    mx_zoo_add(body, mx_activation("relu"));
    mx_zoo_add(body, conv3x3(inner, bottleneck && b ? stride : 1, inner));
    mx_zoo_add(body, mx_batch_norm());
    if (bottleneck) {
        mx_zoo_add(body, mx_activation("relu"));
        mx_zoo_add(body, conv1x1(channels, 1, !b));
        mx_zoo_add(body, mx_batch_norm());
    }
    if (downsample) {
        shortcut = mx_zoo_sequence("");
        mx_zoo_add(shortcut, mx_zoo_conv_from((mx_conv_row){channels, 1, stride, 0}, in_channels));
        mx_zoo_add(shortcut, mx_batch_norm());
    }
    if (mx_has_error() || !mx_block_child(self, "body", body))
        return mx_error_code();
    return downsample && !mx_block_child(self, "downsample", shortcut) ? mx_error_code() : MX_OK;
}

static mx_code add_body(mx_block *self, bool bottleneck, int64_t channels, int64_t stride, bool downsample,
                        int64_t in_channels)
{
    return add_version1(self, bottleneck, false, channels, stride, downsample, in_channels);
}

mx_code mx_build_bottleneck_b(mx_block *self, int64_t channels, int64_t stride, bool downsample, int64_t in_channels)
{
    MX_SCOPE;
    return add_version1(self, true, true, channels, stride, downsample, in_channels);
}

static mx_code add_preactivated(mx_block *self, bool bottleneck, int64_t channels, int64_t stride, bool downsample,
                                int64_t in_channels)
{
    static const char *const norms[] = {"bn1", "bn2", "bn3"}, *const convs[] = {"conv1", "conv2", "conv3"};
    const int64_t inner = channels / 4;
    mx_block *layers[3] = {NULL};
    layers[0] = bottleneck ? conv1x1(inner, 1, false) : conv3x3(channels, stride, in_channels);
    layers[1] = bottleneck ? conv3x3(inner, stride, inner) : conv3x3(channels, 1, channels);
    layers[2] = bottleneck ? conv1x1(channels, 1, false) : NULL;
    for (int i = 0; i < (bottleneck ? 3 : 2); i++)
        if (!mx_block_child(self, norms[i], mx_batch_norm()) || !mx_block_child(self, convs[i], layers[i]))
            return mx_error_code();
    mx_block *shortcut = downsample ? mx_zoo_conv_from((mx_conv_row){channels, 1, stride, 0}, in_channels) : NULL;
    return downsample && !mx_block_child(self, "downsample", shortcut) ? mx_error_code() : MX_OK;
}

mx_code mx_build_residual(mx_block *self, int version, bool bottleneck, int64_t channels, int64_t stride,
                          bool downsample, int64_t in_channels)
{
    MX_SCOPE; /* names are those of the enclosing scope, as in the files */
    return (version == 1 ? add_body : add_preactivated)(self, bottleneck, channels, stride, downsample, in_channels);
}

/* relu(body(x) + shortcut(x)) */
mx_array *mx_residual_forward(mx_block *self, mx_arrays in)
{
    mx_block *body = mx_zoo_part(self, "body"), *shortcut = mx_zoo_part(self, "downsample");
    mx_array *y = body ? mx_call(body, in.v[0]) : in.v[0];
    return mx_op_activation(mx_elemwise_add(y, shortcut ? mx_call(shortcut, in.v[0]) : in.v[0]),
                            .act_type = MX_ACTIVATION_RELU);
}

/* x, or the projection of the first activation, plus conv(relu(norm(...))) of it */
mx_array *mx_preactivated_forward(mx_block *self, mx_arrays in)
{
    char name[16];
    mx_array *x = in.v[0], *residual = x;
    mx_block *norm, *shortcut = mx_zoo_part(self, "downsample");
    for (int i = 1; snprintf(name, sizeof name, "bn%d", i), (norm = mx_zoo_part(self, name)) != NULL; i++) {
        x = mx_op_activation(mx_call(norm, x), .act_type = MX_ACTIVATION_RELU);
        if (i == 1 && shortcut)
            residual = mx_call(shortcut, x);
        snprintf(name, sizeof name, "conv%d", i);
        x = mx_call(mx_zoo_part(self, name), x);
    }
    return mx_elemwise_add(x, residual);
}

/* ---- networks ------------------------------------------------------------------------------------------------ */

void mx_residual_maker_set(mx_residual_maker make, void *user)
{
    mx_thread.residual_maker.make = make, mx_thread.residual_maker.user = user;
}

/* block: a block class, or basic_block or bottle_neck of this version; "": the front end creates the blocks. */
static mx_block *make_block(int version, const char *block, int64_t channels, int64_t stride, int64_t in_channels)
{
    const bool basic = !strcmp(block, version == 1 ? "BasicBlockV1" : "BasicBlockV2") || !strcmp(block, "basic_block");
    if (!*block && mx_thread.residual_maker.make)
        return mx_thread.residual_maker.make(mx_thread.residual_maker.user, channels, stride, channels != in_channels,
                                             in_channels);
    if (version == 1 && (!strcmp(block, "bottle_neck_b") || !strcmp(block, "BottleneckV1b")))
        return mx_bottleneck_v1b(channels, stride, .downsample = channels != in_channels, .in_channels = in_channels,
                                 .prefix = "");
    if (!basic && strcmp(block, version == 1 ? "BottleneckV1" : "BottleneckV2") && strcmp(block, "bottle_neck"))
        return mx_fail_null(MX_ERR_ATTRIBUTE, "ResNetV%d: block='%s', wanted basic_block or bottle_neck%s", version,
                            block, version == 1 ? " or bottle_neck_b" : "");
    const bool project = channels != in_channels;
    if (version == 1)
        return basic ? mx_basic_block_v1(channels, stride, .downsample = project, .in_channels = in_channels,
                                         .prefix = "")
                     : mx_bottleneck_v1(channels, stride, .downsample = project, .in_channels = in_channels,
                                        .prefix = "");
    return basic ? mx_basic_block_v2(channels, stride, .downsample = project, .in_channels = in_channels, .prefix = "")
                 : mx_bottleneck_v2(channels, stride, .downsample = project, .in_channels = in_channels, .prefix = "");
}

static mx_block *make_stage(int version, const char *block, int at, int64_t count, int64_t channels,
                            int64_t in_channels)
{
    char prefix[32];
    snprintf(prefix, sizeof prefix, "stage%d_", at + 1);
    mx_block *stage = mx_zoo_sequence(prefix);
    mx_name_scope(stage)
    {
        for (int64_t i = 0; i < count; i++)
            mx_zoo_add(stage,
                       make_block(version, block, channels, i == 0 && at > 0 ? 2 : 1, i ? channels : in_channels));
    }
    return stage;
}

static void add_stem(mx_block *features, int64_t channels, bool thumbnail)
{
    if (thumbnail) {
        mx_zoo_add(features, conv3x3(channels, 1, 0));
        return;
    }
    mx_zoo_add_conv_norm(features, (mx_conv_row){channels, 7, 2, 3}, 1, "relu");
    mx_zoo_add(features, mx_zoo_max_pool(3, 2, 1));
}

mx_code mx_build_resnet(mx_block *self, int version, const char *block, const mx_dims *layers, const mx_dims *channels,
                        int64_t classes, bool thumbnail)
{
    MX_SCOPE;
    if (layers->n != channels->n - 1)
        return mx_fail(MX_ERR_ATTRIBUTE,
                       "ResNetV%d: channels needs one number more than layers (that of the first "
                       "convolution), got %d and %d",
                       version, channels->n, layers->n);
    mx_name_scope(self)
    {
        mx_block *features = mx_zoo_sequence("");
        if (version == 2)
            mx_zoo_add(features, mx_batch_norm(.scale = false, .center = false));
        add_stem(features, channels->d[0], thumbnail);
        for (int i = 0; i < layers->n; i++)
            mx_zoo_add(features, make_stage(version, block ? block : "None", i, layers->d[i], channels->d[i + 1],
                                            channels->d[i]));
        if (version == 2) {
            mx_zoo_add(features, mx_batch_norm());
            mx_zoo_add(features, mx_activation("relu"));
        }
        mx_zoo_add(features, mx_global_avg_pool2d());
        if (version == 2)
            mx_zoo_add(features, mx_flatten());
        return mx_zoo_classifier(self, features, mx_dense(classes, .in_units = channels->d[layers->n]));
    }
    return mx_error_code();
}
