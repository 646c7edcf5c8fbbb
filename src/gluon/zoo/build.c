/* What the families of the zoo share (see zoo.h).  SPDX-License-Identifier: Apache-2.0 */
#include "gluon/nn.gen.h"
#include "gluon/zoo/zoo.h"

mx_block *mx_zoo_sequence(const char *prefix)
{
    mx_block *block = mx_block_named(&(mx_block_naming){.class_name = "HybridSequential", .prefix = prefix});
    if (!block)
        return NULL;
    block->hybrid = block->sequential = true;
    block->forward_many = mx_run_sequential;
    return mx_scope_add(block);
}

void mx_zoo_add(mx_block *sequence, mx_block *layer)
{
    if (sequence && layer)
        mx_sequential_add(sequence, layer);
}

mx_block *mx_zoo_conv(mx_conv_row row, int64_t groups, bool bias)
{
    return mx_conv2d(row.channels, MX_DIMS(row.kernel, row.kernel), .strides = MX_DIMS(row.stride, row.stride),
                     .padding = MX_DIMS(row.pad, row.pad), .groups = groups, .use_bias = bias);
}

mx_block *mx_zoo_conv_from(mx_conv_row row, int64_t in_channels)
{
    return mx_conv2d(row.channels, MX_DIMS(row.kernel, row.kernel), .strides = MX_DIMS(row.stride, row.stride),
                     .padding = MX_DIMS(row.pad, row.pad), .use_bias = false, .in_channels = in_channels);
}

mx_block *mx_zoo_max_pool(int64_t size, int64_t stride, int64_t pad)
{
    return mx_max_pool2d(MX_DIMS(size, size), .strides = MX_DIMS(stride, stride), .padding = MX_DIMS(pad, pad));
}

mx_block *mx_zoo_avg_pool(int64_t size, int64_t stride, int64_t pad)
{
    return mx_avg_pool2d(MX_DIMS(size, size), .strides = MX_DIMS(stride, stride), .padding = MX_DIMS(pad, pad));
}

mx_block *mx_zoo_norm(double epsilon) { return mx_batch_norm(.epsilon = epsilon); }

void mx_zoo_add_conv_norm(mx_block *sequence, mx_conv_row row, int64_t groups, const char *activation)
{
    mx_zoo_add(sequence, mx_zoo_conv(row, groups, false));
    mx_zoo_add(sequence, mx_batch_norm());
    if (activation)
        mx_zoo_add(sequence, mx_activation(activation));
}

mx_block *mx_zoo_part(const mx_block *block, const char *name) { return mx_dict_get(&block->children, name); }

mx_code mx_zoo_classifier(mx_block *self, mx_block *features, mx_block *output)
{
    if (mx_has_error())
        return mx_error_code();
    return mx_block_child(self, "features", features) && mx_block_child(self, "output", output) ? MX_OK
                                                                                                : mx_error_code();
}

mx_array *mx_zoo_classify(mx_block *self, mx_arrays in)
{
    mx_block *features = mx_zoo_part(self, "features"), *output = mx_zoo_part(self, "output");
    mx_array *x = features ? mx_call(features, in.v[0]) : in.v[0];
    return output ? mx_call(output, x) : x;
}
