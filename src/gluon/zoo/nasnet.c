/* NASNet-A (Zoph et al. 2017, "Learning Transferable Architectures for Scalable Image Recognition").
 *
 *     x --stem--> cells, each with the two previous results as inputs: normal and reduction cells --> scores
 *
 * A cell is a table of five sums of two operations each; unused sums are concatenated.  Values in a cell: 0 the
 * previous result and 1 the current one, both projected to the cell's channels, then the sums from 2 on.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <string.h>

#include "gluon/nn.gen.h"
#include "gluon/op.gen.h"
#include "gluon/zoo/zoo.h"

#define EPSILON 0.001
typedef enum operation { SAME, SEPARABLE3, SEPARABLE5, SEPARABLE7, MAX, AVG } operation;
typedef struct half {
    operation what;
    int of; /* number of a value */
} half;
typedef struct cell {
    half sums[5][2];
    int joined[8]; /* values, ended by -1 */
} cell;

static const cell normal = {
    {{{SEPARABLE5, 1}, {SEPARABLE3, 0}}, {{SEPARABLE5, 0}, {SEPARABLE3, 0}}, {{AVG, 1}, {SAME, 0}}, {{AVG, 0}, {AVG, 0}},
     {{SEPARABLE3, 1}, {SAME, 1}}},
    {0, 2, 3, 4, 5, 6, -1}};
static const cell reduction = { /* operations on 0 and 1 have stride 2 */
    {{{SEPARABLE5, 1}, {SEPARABLE7, 0}}, {{MAX, 1}, {SEPARABLE7, 0}}, {{AVG, 1}, {SEPARABLE5, 0}}, {{AVG, 2}, {SAME, 3}},
     {{SEPARABLE3, 2}, {MAX, 1}}},
    {3, 4, 5, 6, -1}};

/* ---- building a cell ------------------------------------------------------------------------------------------- */

/* relu, depthwise convolution, 1x1, normalisation; twice, the second time with stride 1 */
static mx_block *separable(int64_t in_channels, int64_t channels, int64_t kernel, int64_t stride)
{
    mx_block *sequence = mx_zoo_sequence("");
    for (int i = 0; i < 2; i++) {
        const int64_t before = i ? channels : in_channels;
        mx_zoo_add(sequence, mx_activation("relu"));
        mx_zoo_add(sequence, mx_zoo_conv((mx_conv_row){before, kernel, i ? 1 : stride, kernel / 2}, before, false));
        mx_zoo_add(sequence, mx_zoo_conv((mx_conv_row){channels, 1, 1, 0}, 1, false));
        mx_zoo_add(sequence, mx_zoo_norm(EPSILON));
    }
    return sequence;
}

/* NULL for SAME. */
static mx_block *make_operation(operation what, int64_t in_channels, int64_t channels, int64_t stride)
{
    const mx_dims strides = MX_DIMS(stride, stride), one = MX_DIMS(1, 1);
    switch (what) {
    case SAME: return NULL;
    case MAX: return mx_max_pool2d(MX_DIMS(3, 3), .strides = strides, .padding = one);
    case AVG: return mx_avg_pool2d(MX_DIMS(3, 3), .strides = strides, .padding = one, .count_include_pad = false);
    default: return separable(in_channels, channels, 2 * (what - SEPARABLE3) + 3, stride);
    }
}

static mx_block *adjust(int64_t channels)
{
    mx_block *sequence = mx_zoo_sequence("");
    mx_zoo_add(sequence, mx_activation("relu"));
    mx_zoo_add(sequence, mx_zoo_conv((mx_conv_row){channels, 1, 1, 0}, 1, false));
    mx_zoo_add(sequence, mx_zoo_norm(EPSILON));
    return sequence;
}

/* Every second element of the map, to `channels` channels. */
static mx_block *path(int64_t channels)
{
    mx_block *sequence = mx_zoo_sequence("");
    mx_zoo_add(sequence, mx_zoo_avg_pool(1, 2, 0));
    mx_zoo_add(sequence, mx_zoo_conv((mx_conv_row){channels, 1, 1, 0}, 1, false));
    return sequence;
}

static const char *part_name(int sum, int side, char name[24])
{
    snprintf(name, 24, "sum%d_%s", sum, side ? "right" : "left");
    return name;
}

mx_code mx_build_nasnet_cell(mx_block *self, bool reduces, int64_t filters, const char *previous,
                             int64_t previous_channels)
{
    MX_SCOPE;
    char name[24];
    const cell *table = reduces ? &reduction : &normal;
    const bool factor = previous && !strcmp(previous, "factor"), none = previous && !strcmp(previous, "none");
    if (!factor && !none && (!previous || strcmp(previous, "plain")))
        return mx_fail(MX_ERR_ATTRIBUTE, "NASNetCell: previous='%s', wanted plain, factor or none",
                       previous ? previous : "None");
    mx_name_scope(self)
    {
        if (factor) {
            mx_block_child(self, "path_1", path(filters / 2));
            mx_block_child(self, "path_2", path(filters - filters / 2));
            mx_block_child(self, "final_path_bn", mx_zoo_norm(EPSILON));
        } else if (!none)
            mx_block_child(self, "conv_prev_1x1", adjust(filters));
        mx_block_child(self, "conv_1x1", adjust(filters));
        for (int i = 0; i < 5; i++)
            for (int side = 0; side < 2; side++) {
                const half h = table->sums[i][side];
                mx_block *made = make_operation(h.what, none && h.of == 0 ? previous_channels : filters, filters,
                                                reduces && h.of < 2 ? 2 : 1);
                if (made)
                    mx_block_child(self, part_name(i, side, name), made);
            }
    }
    return mx_error_code();
}

/* ---- running it ------------------------------------------------------------------------------------------------ */

/* A feature map of half the size: concatenates the elements at even and at odd positions. */
static mx_array *factorized(mx_block *self, mx_array *x)
{
    x = mx_op_activation(x, .act_type = MX_ACTIVATION_RELU);
    mx_array *shifted = mx_pad(x, .mode = MX_PAD_CONSTANT, .pad_width = MX_DIMS(0, 0, 0, 0, 0, 1, 0, 1));
    shifted = mx_slice_axis(mx_slice_axis(shifted, .axis = 2, .begin = 1), .axis = 3, .begin = 1);
    mx_array *both =
        mx_concat(MX_ARRAYS(mx_call(mx_zoo_part(self, "path_1"), x), mx_call(mx_zoo_part(self, "path_2"), shifted)),
                  .num_args = 2, .dim = 1);
    return mx_call(mx_zoo_part(self, "final_path_bn"), both);
}

static mx_array *run_half(mx_block *self, int sum, int side, mx_array *x)
{
    char name[24];
    mx_block *block = mx_zoo_part(self, part_name(sum, side, name));
    return block ? mx_call(block, x) : x;
}

/* in: the current result and the previous one */
mx_array *mx_nasnet_cell_forward(mx_block *self, mx_arrays in, bool reduces)
{
    mx_block *previous = mx_zoo_part(self, "conv_prev_1x1");
    const cell *table = reduces ? &reduction : &normal;
    mx_array *values[7], *joined[7];
    int n = 0;
    values[0] = mx_zoo_part(self, "path_1") ? factorized(self, in.v[1])
                : previous                  ? mx_call(previous, in.v[1])
                                            : in.v[1];
    values[1] = mx_call(mx_zoo_part(self, "conv_1x1"), in.v[0]);
    for (int i = 0; i < 5; i++)
        values[2 + i] = mx_elemwise_add(run_half(self, i, 0, values[table->sums[i][0].of]),
                                        run_half(self, i, 1, values[table->sums[i][1].of]));
    for (; table->joined[n] >= 0; n++)
        joined[n] = values[table->joined[n]];
    return mx_concat((mx_arrays){joined, n}, .num_args = n, .dim = 1);
}

/* ---- the network ----------------------------------------------------------------------------------------------- */

static void add_cell(mx_block *self, int number, bool reduces, int64_t filters, const char *previous, int64_t channels)
{
    char name[32], prefix[40];
    snprintf(name, sizeof name, "cell_%d", number);
    snprintf(prefix, sizeof prefix, "%s_", name);
    mx_block_child(
        self, name,
        mx_nasnet_cell(reduces, filters, .previous = previous, .previous_channels = channels, .prefix = prefix));
}

mx_code mx_build_nasnet_features(mx_block *self, int64_t repeat, int64_t filters, int64_t stem, int64_t widening)
{
    MX_SCOPE;
    mx_name_scope(self)
    {
        mx_block *first = mx_zoo_sequence(""), *last = mx_zoo_sequence("");
        mx_zoo_add(first, mx_zoo_conv((mx_conv_row){stem, 3, 2, 0}, 1, false));
        mx_zoo_add(first, mx_zoo_norm(EPSILON));
        mx_block_child(self, "stem", first);
        int number = 0;
        add_cell(self, number++, true, filters / (widening * widening), "none", stem);
        add_cell(self, number++, true, filters / widening, "factor", 0);
        for (int stage = 0; stage < 3; stage++, filters *= widening) {
            if (stage)
                add_cell(self, number++, true, filters, "plain", 0);
            for (int64_t i = 0; i < repeat; i++)
                add_cell(self, number++, false, filters, i ? "plain" : "factor", 0);
        }
        mx_zoo_add(last, mx_activation("relu"));
        mx_zoo_add(last, mx_global_avg_pool2d());
        mx_zoo_add(last, mx_flatten());
        mx_block_child(self, "tail", last);
    }
    return mx_error_code();
}

/* Children: stem, cells, tail.  For a cell after a reduction, `previous` is the result before that reduction; with `skip`
 * the one before that. */
mx_array *mx_nasnet_features_forward(mx_block *self, mx_array *x, int64_t repeat, bool skip)
{
    const int64_t cells = self->children.length - 2;
    mx_array *now = mx_call(mx_zoo_part(self, "stem"), x), *before = now, *earlier = now;
    for (int64_t i = 0; i < cells; i++) {
        const bool behind = skip && i > 2 && (i - 2) % (repeat + 1) == 0;
        mx_array *next = mx_call(self->children.entries[1 + i].pointer, now, behind ? earlier : before);
        earlier = before, before = now, now = next;
    }
    return mx_call(mx_zoo_part(self, "tail"), now);
}

mx_code mx_build_nasnet(mx_block *self, int64_t repeat, int64_t penultimate, int64_t stem, int64_t widening,
                        bool skip_reduction, double dropout, int64_t classes)
{
    MX_SCOPE;
    mx_name_scope(self)
    {
        mx_block *features = mx_nasnet_features(skip_reduction, repeat, penultimate / 24, stem, widening, .prefix = "");
        mx_block *output = mx_zoo_sequence("");
        mx_zoo_add(output, mx_dropout(dropout));
        mx_zoo_add(output, mx_dense(classes));
        return mx_zoo_classifier(self, features, output);
    }
    return mx_error_code();
}
