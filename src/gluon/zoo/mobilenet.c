/* MobileNet version 1 (Howard et al. 2017, "MobileNets: Efficient Convolutional Neural Networks for Mobile Vision
 * Applications"), 2 (Sandler et al. 2018, "MobileNetV2: Inverted Residuals and Linear Bottlenecks") and 3 (Howard et
 * al. 2019, "Searching for MobileNetV3").
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "gluon/nn.gen.h"
#include "gluon/op.gen.h"
#include "gluon/zoo/zoo.h"

static int64_t scaled(double channels, double multiplier) { return (int64_t)(channels * multiplier); }

/* The multiple of eight nearest to x, but at least nine tenths of it. */
static int64_t to_eights(double x)
{
    int64_t rounded = (int64_t)(x + 4) / 8 * 8;
    rounded = rounded < 8 ? 8 : rounded;
    return (double)rounded < 0.9 * x ? rounded + 8 : rounded;
}

/* ---- Keras' form ------------------------------------------------------------------------------------------------ */

#define KERAS_EPSILON 1e-3

/* Whether the form is Keras'; *other is whether it is the second name.  An error if it is none of the three. */
static bool read_form(const char *class, const char *form, const char *usual, const char *second, bool *other)
{
    const bool keras = form && !strcmp(form, "keras");
    *other = form && second && !strcmp(form, second);
    if (!keras && !*other && (!form || strcmp(form, usual)))
        mx_fail(MX_ERR_ATTRIBUTE, "%s: form='%s', wanted %s%s%s or keras", class, form ? form : "None", usual,
                second ? ", " : "", second ? second : "");
    return keras;
}

/* A convolution as Keras pads it for images of even sizes: a stride of 2 begins at the first pixel.  The padding is a layer,
 * so that layers have the same numbers with any stride. */
static void add_keras_conv(mx_block *sequence, mx_conv_row row, int64_t groups)
{
    const int64_t before = (row.kernel - row.stride) / 2;
    mx_zoo_add(sequence, row.stride > 1 ? mx_zero_pad(before, row.kernel - row.stride - before) : mx_identity());
    row.pad = row.stride > 1 ? 0 : row.kernel / 2;
    mx_zoo_add(sequence, mx_zoo_conv(row, groups, false));
    mx_zoo_add(sequence, mx_zoo_norm(KERAS_EPSILON));
}

/* ---- version 1: modules of a depthwise and a 1x1 convolution ---------------------------------------------------- */

static const struct {
    int channels, stride;
} separable[] = {{64, 1},  {128, 2}, {128, 1}, {256, 2}, {256, 1},  {512, 2}, {512, 1},
                 {512, 1}, {512, 1}, {512, 1}, {512, 1}, {1024, 2}, {1024, 1}};

static void add_separable(mx_block *features, double multiplier)
{
    int64_t before = scaled(32, multiplier);
    mx_zoo_add_conv_norm(features, (mx_conv_row){before, 3, 2, 1}, 1, "relu");
    for (size_t i = 0; i < sizeof separable / sizeof *separable; i++) {
        const int64_t channels = scaled(separable[i].channels, multiplier);
        mx_zoo_add_conv_norm(features, (mx_conv_row){before, 3, separable[i].stride, 1}, before, "relu");
        mx_zoo_add_conv_norm(features, (mx_conv_row){channels, 1, 1, 0}, 1, "relu");
        before = channels;
    }
}

/* 0: the first convolution; 1 to 13: modules of padding, depthwise convolution, norm, relu6, convolution, norm, relu6. */
static void add_keras_separable(mx_block *features, double multiplier)
{
    int64_t before = scaled(32, multiplier);
    mx_block *module = mx_zoo_sequence("");
    add_keras_conv(module, (mx_conv_row){before, 3, 2, 0}, 1);
    mx_zoo_add(module, mx_relu6());
    mx_zoo_add(features, module);
    for (size_t i = 0; i < sizeof separable / sizeof *separable; i++) {
        const int64_t channels = scaled(separable[i].channels, multiplier);
        module = mx_zoo_sequence("");
        add_keras_conv(module, (mx_conv_row){before, 3, separable[i].stride, 0}, before);
        mx_zoo_add(module, mx_relu6());
        mx_zoo_add(module, mx_zoo_conv((mx_conv_row){channels, 1, 1, 0}, 1, false));
        mx_zoo_add(module, mx_zoo_norm(KERAS_EPSILON));
        mx_zoo_add(module, mx_relu6());
        mx_zoo_add(features, module);
        before = channels;
    }
}

mx_code mx_build_mobilenet(mx_block *self, double multiplier, int64_t classes, const char *form)
{
    MX_SCOPE;
    bool other;
    const bool keras = read_form("MobileNet", form, "mxnet", NULL, &other);
    mx_name_scope(self)
    {
        mx_block *features = mx_zoo_sequence("");
        (keras ? add_keras_separable : add_separable)(features, multiplier);
        mx_zoo_add(features, mx_global_avg_pool2d());
        mx_zoo_add(features, mx_flatten());
        return mx_zoo_classifier(self, features, mx_dense(classes));
    }
    return mx_error_code();
}

/* ---- version 2 ------------------------------------------------------------------------------------------------- */

/* Expansion factor, output channels, number of bottlenecks, stride of the first. */
static const struct {
    int expand, channels, count, stride;
} bottlenecks[] = {{1, 16, 1, 1}, {6, 24, 2, 2},  {6, 32, 3, 2}, {6, 64, 4, 2},
                   {6, 96, 3, 1}, {6, 160, 3, 2}, {6, 320, 1, 1}};

static void add_conv_relu6(mx_block *sequence, mx_conv_row row, int64_t groups)
{
    mx_zoo_add_conv_norm(sequence, row, groups, NULL);
    mx_zoo_add(sequence, mx_relu6());
}

/* Convolution, norm, relu6 if there is an expansion; padding, depthwise convolution, norm, relu6; convolution, norm. */
static void add_keras_bottleneck(mx_block *out, int64_t inner, int64_t channels, int64_t expand, int64_t stride)
{
    if (expand != 1) {
        mx_zoo_add(out, mx_zoo_conv((mx_conv_row){inner, 1, 1, 0}, 1, false));
        mx_zoo_add(out, mx_zoo_norm(KERAS_EPSILON));
        mx_zoo_add(out, mx_relu6());
    }
    add_keras_conv(out, (mx_conv_row){inner, 3, stride, 0}, inner);
    mx_zoo_add(out, mx_relu6());
    mx_zoo_add(out, mx_zoo_conv((mx_conv_row){channels, 1, 1, 0}, 1, false));
    mx_zoo_add(out, mx_zoo_norm(KERAS_EPSILON));
}

/* 1x1 to `expand` times the channels, 3x3 depthwise, 1x1 to fewer. */
mx_code mx_build_linear_bottleneck(mx_block *self, int64_t in_channels, int64_t channels, int64_t expand,
                                   int64_t stride, bool always, bool keras)
{
    MX_SCOPE;
    const int64_t inner = in_channels * expand;
    mx_name_scope(self)
    {
        mx_block *out = mx_zoo_sequence(NULL);
        if (keras) {
            add_keras_bottleneck(out, inner, channels, expand, stride);
            return !mx_has_error() && mx_block_child(self, "out", out) ? MX_OK : mx_error_code();
        }
        if (expand != 1 || always)
            add_conv_relu6(out, (mx_conv_row){inner, 1, 1, 0}, 1);
        add_conv_relu6(out, (mx_conv_row){inner, 3, stride, 1}, inner);
        mx_zoo_add_conv_norm(out, (mx_conv_row){channels, 1, 1, 0}, 1, NULL);
        return !mx_has_error() && mx_block_child(self, "out", out) ? MX_OK : mx_error_code();
    }
    return mx_error_code();
}

static int64_t channels2(int64_t channels, double multiplier, bool keras)
{
    return keras ? to_eights((double)scaled((double)channels, multiplier)) : scaled((double)channels, multiplier);
}

static void add_bottlenecks(mx_block *features, double multiplier, bool always, bool keras)
{
    int64_t before = channels2(32, multiplier, keras);
    if (keras) {
        add_keras_conv(features, (mx_conv_row){before, 3, 2, 0}, 1);
        mx_zoo_add(features, mx_relu6());
    } else
        add_conv_relu6(features, (mx_conv_row){before, 3, 2, 1}, 1);
    for (size_t i = 0; i < sizeof bottlenecks / sizeof *bottlenecks; i++) {
        const int64_t channels = channels2(bottlenecks[i].channels, multiplier, keras);
        for (int k = 0; k < bottlenecks[i].count; k++) {
            mx_zoo_add(features,
                       mx_linear_bottleneck(before, channels, bottlenecks[i].expand, k ? 1 : bottlenecks[i].stride,
                                            .expand_always = always, .keras = keras));
            before = channels;
        }
    }
    mx_zoo_add(features,
               mx_zoo_conv((mx_conv_row){channels2(1280, multiplier > 1 ? multiplier : 1, keras), 1, 1, 0}, 1, false));
    mx_zoo_add(features, keras ? mx_zoo_norm(KERAS_EPSILON) : mx_batch_norm());
    mx_zoo_add(features, mx_relu6());
    mx_zoo_add(features, mx_global_avg_pool2d());
}

mx_code mx_build_mobilenet2(mx_block *self, double multiplier, int64_t classes, const char *form)
{
    MX_SCOPE;
    bool torch;
    const bool keras = read_form("MobileNetV2", form, "mxnet", "torch", &torch), mxnet = !keras && !torch;
    mx_name_scope(self)
    {
        mx_block *features = mx_zoo_sequence("features_");
        mx_name_scope(features) add_bottlenecks(features, multiplier, mxnet, keras);
        mx_block *output = mx_zoo_sequence("output_");
        mx_name_scope(output)
        {
            mx_zoo_add(output, mx_conv2d(classes, MX_DIMS(1, 1), .use_bias = !mxnet, .prefix = "pred_"));
            mx_zoo_add(output, mx_flatten());
        }
        return mx_zoo_classifier(self, features, output);
    }
    return mx_error_code();
}

/* ---- version 3 ------------------------------------------------------------------------------------------------- */

/* A bottleneck: kernel, expanded channels, output channels, squeeze and excitation, hard swish, stride. */
typedef struct row3 {
    int kernel, expanded, channels;
    bool squeeze, swish;
    int stride;
} row3;
static const row3 large[] = {
    {3, 16, 16, 0, 0, 1},   {3, 64, 24, 0, 0, 2},   {3, 72, 24, 0, 0, 1},   {5, 72, 40, 1, 0, 2},   {5, 120, 40, 1, 0, 1},
    {5, 120, 40, 1, 0, 1},  {3, 240, 80, 0, 1, 2},  {3, 200, 80, 0, 1, 1},  {3, 184, 80, 0, 1, 1},  {3, 184, 80, 0, 1, 1},
    {3, 480, 112, 1, 1, 1}, {3, 672, 112, 1, 1, 1}, {5, 672, 160, 1, 1, 2}, {5, 960, 160, 1, 1, 1}, {5, 960, 160, 1, 1, 1}};
static const row3 small[] = {{3, 16, 16, 1, 0, 2},  {3, 72, 24, 0, 0, 2},  {3, 88, 24, 0, 0, 1},  {5, 96, 40, 1, 1, 2},
                             {5, 240, 40, 1, 1, 1}, {5, 240, 40, 1, 1, 1}, {5, 120, 48, 1, 1, 1}, {5, 144, 48, 1, 1, 1},
                             {5, 288, 96, 1, 1, 2}, {5, 576, 96, 1, 1, 1}, {5, 576, 96, 1, 1, 1}};

mx_code mx_build_squeeze_excite(mx_block *self, int64_t channels, int64_t squeezed)
{
    MX_SCOPE;
    mx_name_scope(self)
    {
        mx_block_child(self, "pool", mx_global_avg_pool2d());
        mx_block_child(self, "squeeze", mx_conv2d(squeezed, MX_DIMS(1, 1), .activation = "relu"));
        mx_block_child(self, "excite", mx_conv2d(channels, MX_DIMS(1, 1)));
    }
    return mx_error_code();
}

/* x scaled per channel by hard_sigmoid(excite(squeeze(mean of x))) */
mx_array *mx_squeeze_excite_forward(mx_block *self, mx_arrays in)
{
    mx_array *s = in.v[0]; /* (N, C, 1, 1) */
    for (int64_t i = 0; i < self->children.length; i++)
        s = mx_call(self->children.entries[i].pointer, s);
    return mx_mul(in.v[0], mx_hard_sigmoid(s, .alpha = 1.0 / 6, .beta = 0.5));
}

static void add_activation(mx_block *sequence, const char *name)
{
    mx_zoo_add(sequence, strcmp(name, "hard_swish") ? mx_activation(name) : mx_hard_swish());
}

static void add_conv3(mx_block *sequence, mx_conv_row row, int64_t groups, double epsilon, const char *activation)
{
    mx_zoo_add(sequence, mx_zoo_conv(row, groups, false));
    mx_zoo_add(sequence, mx_zoo_norm(epsilon));
    if (activation)
        add_activation(sequence, activation);
}

static mx_block *bottleneck3(const row3 *row, int64_t before, double multiplier, double epsilon)
{
    const int64_t inner = to_eights(row->expanded * multiplier), channels = to_eights(row->channels * multiplier);
    const char *act = row->swish ? "hard_swish" : "relu";
    mx_block *body = mx_zoo_sequence("");
    if (inner != before)
        add_conv3(body, (mx_conv_row){inner, 1, 1, 0}, 1, epsilon, act);
    add_conv3(body, (mx_conv_row){inner, row->kernel, row->stride, row->kernel / 2}, inner, epsilon, act);
    if (row->squeeze)
        mx_zoo_add(body, mx_squeeze_excite(inner, to_eights((double)inner / 4)));
    add_conv3(body, (mx_conv_row){channels, 1, 1, 0}, 1, epsilon, NULL);
    if (row->stride != 1 || before != channels)
        return body;
    mx_block *sum = mx_residual_sum(.prefix = "");
    return mx_has_error() ? NULL : (mx_block_child(sum, "body", body), sum);
}

/* 0: expansion, 1: padding and depthwise convolution, 2: squeeze and excitation, 3: projection; identities are left out
 * parts. */
static mx_block *keras_bottleneck3(const row3 *row, int64_t before, double multiplier)
{
    const int64_t inner = to_eights(row->expanded * multiplier), channels = to_eights(row->channels * multiplier);
    const char *act = row->swish ? "hard_swish" : "relu";
    mx_block *body = mx_zoo_sequence(""), *parts[3];
    for (int i = 0; i < 3; i++)
        parts[i] = mx_zoo_sequence("");
    if (inner != before)
        add_conv3(parts[0], (mx_conv_row){inner, 1, 1, 0}, 1, KERAS_EPSILON, act);
    add_keras_conv(parts[1], (mx_conv_row){inner, row->kernel, row->stride, 0}, inner);
    add_activation(parts[1], act);
    add_conv3(parts[2], (mx_conv_row){channels, 1, 1, 0}, 1, KERAS_EPSILON, NULL);
    mx_zoo_add(body, parts[0]);
    mx_zoo_add(body, parts[1]);
    mx_zoo_add(body, row->squeeze ? mx_squeeze_excite(inner, to_eights((double)inner / 4)) : mx_identity());
    mx_zoo_add(body, parts[2]);
    if (row->stride != 1 || before != channels)
        return body;
    mx_block *sum = mx_residual_sum(.prefix = "");
    return mx_has_error() ? NULL : (mx_block_child(sum, "body", body), sum);
}

static void add_first3(mx_block *features, int64_t channels, double epsilon, bool keras)
{
    const mx_conv_row row = {channels, 3, 2, 1};
    if (!keras) {
        add_conv3(features, row, 1, epsilon, "hard_swish");
        return;
    }
    add_keras_conv(features, row, 1);
    add_activation(features, "hard_swish");
}

mx_code mx_build_mobilenet3(mx_block *self, const char *kind, double multiplier, int64_t classes, double epsilon,
                            const char *form)
{
    MX_SCOPE;
    bool other;
    const bool keras = read_form("MobileNetV3", form, "torch", NULL, &other);
    const bool is_large = kind && !strcmp(kind, "large");
    if (!is_large && (!kind || strcmp(kind, "small")))
        return mx_fail(MX_ERR_ATTRIBUTE, "MobileNetV3: kind='%s', wanted large or small", kind ? kind : "None");
    const row3 *rows = is_large ? large : small;
    const size_t count = is_large ? sizeof large / sizeof *large : sizeof small / sizeof *small;
    mx_name_scope(self)
    {
        mx_block *features = mx_zoo_sequence(""), *output = mx_zoo_sequence("");
        int64_t before = to_eights(16 * multiplier);
        add_first3(features, before, epsilon, keras);
        for (size_t i = 0; i < count; i++) {
            mx_zoo_add(features, keras ? keras_bottleneck3(&rows[i], before, multiplier)
                                       : bottleneck3(&rows[i], before, multiplier, epsilon));
            before = to_eights(rows[i].channels * multiplier);
        }
        add_conv3(features, (mx_conv_row){6 * before, 1, 1, 0}, 1, keras ? KERAS_EPSILON : epsilon, "hard_swish");
        mx_zoo_add(features, mx_global_avg_pool2d());
        const int64_t wide = is_large ? 1280 : 1024;
        mx_zoo_add(
            features,
            mx_zoo_conv((mx_conv_row){to_eights((double)wide * (multiplier > 1 ? multiplier : 1)), 1, 1, 0}, 1, true));
        mx_zoo_add(features, mx_hard_swish());
        mx_zoo_add(features, mx_dropout(0.2));
        mx_zoo_add(output, mx_zoo_conv((mx_conv_row){classes, 1, 1, 0}, 1, true));
        mx_zoo_add(output, mx_flatten());
        return mx_zoo_classifier(self, features, output);
    }
    return mx_error_code();
}
