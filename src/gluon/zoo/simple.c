/* Sequential networks: AlexNet (Krizhevsky 2014, in the form with one tower), VGG (Simonyan and Zisserman
 * 2014), SqueezeNet (Iandola et al. 2016).
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "gluon/nn.gen.h"
#include "gluon/zoo/zoo.h"

#define POOL {0, 0, 0, 0}

/* ---- AlexNet: five convolutions and three dense layers --------------------------------------------------------- */

static const mx_conv_row alexnet[] = {{64, 11, 4, 2}, POOL, {192, 5, 1, 2}, POOL, {384, 3, 1, 1}, {256, 3, 1, 1},
                                      {256, 3, 1, 1}, POOL};

mx_code mx_build_alexnet(mx_block *self, int64_t classes)
{
    MX_SCOPE;
    mx_name_scope(self)
    {
        mx_block *features = mx_zoo_sequence("");
        for (size_t i = 0; i < sizeof alexnet / sizeof *alexnet; i++) {
            const mx_conv_row *row = &alexnet[i];
            mx_zoo_add(features, row->channels ? mx_conv2d(row->channels, MX_DIMS(row->kernel, row->kernel),
                                                           .strides = MX_DIMS(row->stride, row->stride),
                                                           .padding = MX_DIMS(row->pad, row->pad), .activation = "relu")
                                               : mx_zoo_max_pool(3, 2, 0));
        }
        mx_zoo_add(features, mx_flatten());
        for (int i = 0; i < 2; i++) {
            mx_zoo_add(features, mx_dense(4096, .activation = "relu"));
            mx_zoo_add(features, mx_dropout(0.5));
        }
        return mx_zoo_classifier(self, features, mx_dense(classes));
    }
    return mx_error_code();
}

/* ---- VGG: stages of 3x3 convolutions, each followed by pooling ------------------------------------------------- */

static void add_vgg_stage(mx_block *features, int64_t count, int64_t channels, bool norm)
{
    for (int64_t i = 0; i < count; i++) {
        mx_zoo_add(features, mx_conv2d(channels, MX_DIMS(3, 3), .padding = MX_DIMS(1, 1),
                                       .weight_initializer =
                                           mx_xavier(.rnd_type = "gaussian", .factor_type = "out", .magnitude = 2)));
        if (norm)
            mx_zoo_add(features, mx_batch_norm());
        mx_zoo_add(features, mx_activation("relu"));
    }
    mx_zoo_add(features, mx_zoo_max_pool(2, 2, 0));
}

mx_code mx_build_vgg(mx_block *self, const mx_dims *layers, const mx_dims *filters, int64_t classes, bool norm)
{
    MX_SCOPE;
    if (layers->n != filters->n)
        return mx_fail(MX_ERR_ATTRIBUTE, "VGG: layers and filters need one number per stage, got %d and %d", layers->n,
                       filters->n);
    mx_initializer *normal = mx_normal();
    mx_name_scope(self)
    {
        mx_block *features = mx_zoo_sequence("");
        for (int i = 0; i < layers->n; i++)
            add_vgg_stage(features, layers->d[i], filters->d[i], norm);
        for (int i = 0; i < 2; i++) {
            mx_zoo_add(features, mx_dense(4096, .activation = "relu", .weight_initializer = normal));
            mx_zoo_add(features, mx_dropout(0.5));
        }
        return mx_zoo_classifier(self, features, mx_dense(classes, .weight_initializer = normal));
    }
    return mx_error_code();
}

/* ---- SqueezeNet ------------------------------------------------------------------------------------------------- */

/* The first convolution, then the squeeze channels of fire modules (each outputs eight times as many); 0: pool. */
static const struct {
    const char *version;
    mx_conv_row first;
    int squeezed[12];
    int count;
} squeezenets[] = {
    {"1.0", {96, 7, 2, 0}, {0, 16, 16, 32, 0, 32, 48, 48, 64, 0, 64}, 11},
    {"1.1", {64, 3, 2, 0}, {0, 16, 16, 0, 32, 32, 0, 48, 48, 64, 64}, 11},
};

static void add_conv_relu(mx_block *sequence, mx_conv_row row)
{
    mx_zoo_add(sequence, mx_zoo_conv(row, 1, true));
    mx_zoo_add(sequence, mx_activation("relu"));
}

/* 1x1 convolution to a few channels, then parallel 1x1 and 3x3 convolutions. */
static mx_block *fire(int64_t squeezed)
{
    mx_block *module = mx_zoo_sequence(""), *squeeze = mx_zoo_sequence("");
    add_conv_relu(squeeze, (mx_conv_row){squeezed, 1, 1, 0});
    mx_block *expand = mx_hybrid_concatenate(.axis = 1, .prefix = "");
    for (int64_t side = 1; side <= 3; side += 2) {
        mx_block *branch = mx_zoo_sequence("");
        add_conv_relu(branch, (mx_conv_row){4 * squeezed, side, 1, side / 2});
        mx_zoo_add(expand, branch);
    }
    mx_zoo_add(module, squeeze);
    mx_zoo_add(module, expand);
    return module;
}

mx_code mx_build_squeezenet(mx_block *self, const char *version, int64_t classes)
{
    MX_SCOPE;
    const int which = version && !strcmp(version, "1.1");
    if (!version || strcmp(version, squeezenets[which].version))
        return mx_fail(MX_ERR_ATTRIBUTE, "SqueezeNet: version='%s', wanted 1.0 or 1.1", version ? version : "None");
    mx_name_scope(self)
    {
        mx_block *features = mx_zoo_sequence(""), *output = mx_zoo_sequence("");
        add_conv_relu(features, squeezenets[which].first);
        for (int i = 0; i < squeezenets[which].count; i++) {
            const int squeezed = squeezenets[which].squeezed[i];
            mx_zoo_add(features, squeezed ? fire(squeezed)
                                          : mx_max_pool2d(MX_DIMS(3, 3), .strides = MX_DIMS(2, 2), .ceil_mode = true));
        }
        mx_zoo_add(features, mx_dropout(0.5));
        add_conv_relu(output, (mx_conv_row){classes, 1, 1, 0});
        mx_zoo_add(output, mx_zoo_avg_pool(13, 13, 0));
        mx_zoo_add(output, mx_flatten());
        return mx_zoo_classifier(self, features, output);
    }
    return mx_error_code();
}
