/* DenseNet (Huang et al. 2016, "Densely Connected Convolutional Networks"): blocks of layers that get the results of
 * all previous layers, with transitions that halve the channels.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>

#include "gluon/nn.gen.h"
#include "gluon/zoo/zoo.h"

static void add_norm_conv(mx_block *sequence, mx_conv_row row)
{
    mx_zoo_add(sequence, mx_batch_norm());
    mx_zoo_add(sequence, mx_activation("relu"));
    mx_zoo_add(sequence, mx_zoo_conv(row, 1, false));
}

/* Concatenates `growth` new channels to its input. */
static mx_block *dense_layer(int64_t growth, int64_t bn_size, double dropout)
{
    mx_block *layer = mx_hybrid_concatenate(.axis = 1, .prefix = ""), *fresh = mx_zoo_sequence("");
    add_norm_conv(fresh, (mx_conv_row){bn_size * growth, 1, 1, 0});
    add_norm_conv(fresh, (mx_conv_row){growth, 3, 1, 1});
    if (dropout > 0)
        mx_zoo_add(fresh, mx_dropout(dropout));
    mx_zoo_add(layer, mx_identity());
    mx_zoo_add(layer, fresh);
    return layer;
}

static mx_block *transition(int64_t channels)
{
    mx_block *sequence = mx_zoo_sequence("");
    add_norm_conv(sequence, (mx_conv_row){channels, 1, 1, 0});
    mx_zoo_add(sequence, mx_zoo_avg_pool(2, 2, 0));
    return sequence;
}

static mx_block *dense_block(int at, int64_t count, int64_t growth, int64_t bn_size, double dropout)
{
    char prefix[32];
    snprintf(prefix, sizeof prefix, "stage%d_", at + 1);
    mx_block *block = mx_zoo_sequence(prefix);
    mx_name_scope(block)
    {
        for (int64_t i = 0; i < count; i++)
            mx_zoo_add(block, dense_layer(growth, bn_size, dropout));
    }
    return block;
}

mx_code mx_build_densenet(mx_block *self, int64_t first, int64_t growth, const mx_dims *blocks, int64_t bn_size,
                          double dropout, int64_t classes)
{
    MX_SCOPE;
    mx_name_scope(self)
    {
        mx_block *features = mx_zoo_sequence("");
        mx_zoo_add_conv_norm(features, (mx_conv_row){first, 7, 2, 3}, 1, "relu");
        mx_zoo_add(features, mx_zoo_max_pool(3, 2, 1));
        int64_t channels = first;
        for (int i = 0; i < blocks->n; i++) {
            if (i > 0)
                mx_zoo_add(features, transition(channels /= 2));
            mx_zoo_add(features, dense_block(i, blocks->d[i], growth, bn_size, dropout));
            channels += blocks->d[i] * growth;
        }
        mx_zoo_add(features, mx_batch_norm());
        mx_zoo_add(features, mx_activation("relu"));
        mx_zoo_add(features, mx_zoo_avg_pool(7, 7, 0));
        mx_zoo_add(features, mx_flatten());
        return mx_zoo_classifier(self, features, mx_dense(classes));
    }
    return mx_error_code();
}
