/* Exports the networks that tests/cli.sh works with into the current folder, each with an input and its result.
 *
 *     NAME-symbol.json, NAME-0000.params, NAME.npy (the input), NAME.raw (the same as bare float32), NAME.answer (text)
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>

#include <gluon.h>

static mx_block *lenet(void)
{
    return mx_hybrid_sequential(mx_conv2d(6, MX_DIMS(5, 5), .padding = MX_DIMS(2, 2), .activation = "relu"),
                                mx_max_pool2d(MX_DIMS(2, 2)), mx_conv2d(16, MX_DIMS(5, 5), .activation = "tanh"),
                                mx_avg_pool2d(MX_DIMS(2, 2)), mx_flatten(), mx_dense(120, .activation = "sigmoid"),
                                mx_dropout(0.5), mx_dense(10));
}

static mx_block *mlp(void)
{
    return mx_hybrid_sequential(mx_dense(31, .activation = "relu"), mx_layer_norm(), mx_gelu(), mx_dense(17), mx_elu(),
                                mx_selu(), mx_swish(), mx_dense(5, .use_bias = false));
}

/* x + f(x), as residual networks have it */
static mx_array *residual_forward(mx_block *self, mx_arrays in)
{
    return mx_relu(mx_add(in.v[0], mx_block_call(mx_block_child_at(self, 0), in)));
}

static mx_block *residual_part(int64_t channels)
{
    mx_block *block = mx_block_new("Residual", residual_forward, .hybrid = true);
    mx_name_scope(block) mx_block_child(
        block, "body",
        mx_hybrid_sequential(mx_conv2d(channels, MX_DIMS(3, 3), .padding = MX_DIMS(1, 1), .use_bias = false),
                             mx_batch_norm(), mx_activation("relu"),
                             mx_conv2d(channels, MX_DIMS(3, 3), .padding = MX_DIMS(1, 1)), mx_batch_norm()));
    return block;
}

static mx_block *residual(void)
{
    return mx_hybrid_sequential(mx_conv2d(8, MX_DIMS(7, 7), .strides = MX_DIMS(2, 2), .padding = MX_DIMS(3, 3)),
                                mx_batch_norm(.scale = false), mx_activation("relu"),
                                mx_max_pool2d(MX_DIMS(3, 3), .strides = MX_DIMS(2, 2), .padding = MX_DIMS(1, 1)),
                                residual_part(8), residual_part(8), mx_global_avg_pool2d(), mx_dense(10));
}

static mx_array *relu6(mx_array *x) { return mx_clip(x, .a_min = 0, .a_max = 6); }

static mx_block *mobile(void)
{
    return mx_hybrid_sequential(
        mx_conv2d(8, MX_DIMS(3, 3), .strides = MX_DIMS(2, 2), .padding = MX_DIMS(1, 1), .use_bias = false),
        mx_batch_norm(), mx_hybrid_lambda(relu6),
        mx_conv2d(8, MX_DIMS(3, 3), .padding = MX_DIMS(2, 2), .dilation = MX_DIMS(2, 2), .groups = 8), mx_prelu(),
        mx_conv2d(12, MX_DIMS(1, 1), .groups = 2), mx_leaky_relu(0.1),
        mx_avg_pool2d(MX_DIMS(3, 3), .strides = MX_DIMS(2, 2), .padding = MX_DIMS(1, 1), .count_include_pad = false),
        mx_conv2d_transpose(3, MX_DIMS(3, 3), .strides = MX_DIMS(2, 2), .padding = MX_DIMS(1, 1)),
        mx_global_max_pool2d(), mx_dense(4));
}

static mx_block *waves(void)
{
    return mx_hybrid_sequential(mx_conv1d(6, MX_DIMS(5), .strides = MX_DIMS(2), .activation = "softrelu"),
                                mx_max_pool1d(MX_DIMS(3), .strides = MX_DIMS(2), .ceil_mode = true), mx_instance_norm(),
                                mx_group_norm(.num_groups = 2), mx_dense(3));
}

/* Operators that the other networks do not have: x (2, 3, 4). */
static mx_array *mixture(mx_array *x)
{
    mx_array *turned = mx_transpose(x, .axes = MX_DIMS(0, 2, 1));                  /* (2, 4, 3) */
    mx_array *part = mx_slice_axis(turned, .axis = 1, .begin = 1, .end = 3);       /* (2, 2, 3) */
    mx_array *joined = mx_concat(MX_ARRAYS(turned, part, mx_exp(part)), .dim = 1); /* (2, 8, 3) */
    mx_array *scaled = mx_mul(joined, mx_mean(joined, .axis = MX_DIMS(1), .keepdims = true));
    mx_array *shifted = mx_rminus_scalar(mx_div_scalar(scaled, .scalar = 3), .scalar = 1.5);
    mx_array *product = mx_batch_dot(shifted, shifted, .transpose_b = true);                           /* (2, 8, 8) */
    mx_array *sums = mx_sub(mx_max(product, .axis = MX_DIMS(2)), mx_sum(product, .axis = MX_DIMS(1))); /* (2, 8) */
    mx_array *powers = mx_maximum(mx_power_scalar(mx_abs(sums), .scalar = 0.5), mx_negative(sums));
    return mx_add(mx_log_softmax(powers), mx_softmax(mx_reshape(powers, .shape = MX_DIMS(-1, 8)), .temperature = 2));
}
static mx_block *mixed(void) { return mx_hybrid_lambda(mixture); }

static mx_array *sorted(mx_array *x) { return mx_sort(x); }
static mx_block *sorting(void) { return mx_hybrid_lambda(sorted); }

/* Contains an operator that cannot be written as C. */
static mx_array *summed(mx_array *x) { return mx_cumsum(x, .axis = 1); }
static mx_block *running(void) { return mx_hybrid_lambda(summed); }

/* Words, a recurrent layer, channels last. */
static mx_block *words(void) { return mx_hybrid_sequential(mx_lstm(5, .bidirectional = true), mx_gru(3), mx_dense(2)); }
static mx_block *last(void)
{
    return mx_hybrid_sequential(mx_conv2d(4, MX_DIMS(3, 3), .layout = "NHWC", .activation = "relu"),
                                mx_max_pool2d(MX_DIMS(2, 2), .layout = "NHWC"), mx_batch_norm(.axis = 3), mx_dense(3));
}

static const struct model {
    const char *name;
    mx_block *(*make)(void);
    mx_dims shape;
} models[] = {
    {"lenet", lenet, {4, {1, 1, 28, 28}}},
    {"mlp", mlp, {2, {3, 20}}},
    {"residual", residual, {4, {1, 3, 32, 32}}},
    {"mobile", mobile, {4, {2, 3, 21, 21}}},
    {"waves", waves, {3, {2, 4, 30}}},
    {"mixed", mixed, {3, {2, 3, 4}}},
    {"sorting", sorting, {2, {2, 5}}},
    {"running", running, {2, {2, 5}}},
    {"words", words, {3, {4, 2, 3}}},
    {"last", last, {4, {2, 8, 8, 3}}},
};

static mx_code write_texts(const struct model *model, mx_array *x, mx_array *y)
{
    char path[64];
    snprintf(path, sizeof path, "%s.npy", model->name);
    if (mx_save_npy(path, x))
        return mx_error_code();
    snprintf(path, sizeof path, "%s.raw", model->name);
    FILE *raw = fopen(path, "wb");
    snprintf(path, sizeof path, "%s.answer", model->name);
    FILE *answer = fopen(path, "w");
    const float *values = mx_array_data(y);
    if (raw)
        fwrite(mx_array_data(x), sizeof(float), (size_t)mx_size(x), raw);
    for (int64_t i = 0; answer && values && i < mx_size(y); i++)
        fprintf(answer, "%.9g\n", values[i]);
    const bool fine = raw && answer && !fclose(raw) && !fclose(answer);
    return fine ? MX_OK : mx_error_set(MX_ERR_FILE, "%s cannot be written", path);
}

static mx_code make(const struct model *model)
{
    MX_SCOPE;
    mx_block *net = model->make();
    mx_initialize(net, mx_xavier(), mx_cpu(0));
    mx_array *x = mx_random_normal(.shape = model->shape);
    for (int i = 0; i < 5; i++) /* running statistics other than the initial ones */
        mx_train_mode()
            mx_call(net, x);
    mx_array *y = mx_call(net, x);
    if (mx_error_code() || write_texts(model, x, y))
        return mx_error_code();
    return mx_export(net, model->name, 0);
}

int main(void)
{
    mx_random_seed(7);
    for (size_t i = 0; i < sizeof models / sizeof *models; i++)
        if (make(&models[i]))
            return mx_check(models[i].name);
    return mx_check("models");
}
