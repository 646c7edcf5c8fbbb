/* Layers from gluon.contrib against reference loops, and loss scaling.  SPDX-License-Identifier: Apache-2.0 */
#include "block_check.h"

/* ---- pixel shuffles ---------------------------------------------------------------------------------------------- */

static void test_pixel_shuffle(void **state)
{
    (void)state;
    MX_SCOPE;
    enum { N = 2, C = 3, H = 2, W = 3, F = 2, G = 3 };
    mx_array *x = check_array(MX_DIMS(N, C * F * G, H, W), 1);
    const double *in = check_values(x);
    mx_array *y = mx_call(mx_pixel_shuffle2d(MX_DIMS(F, G)), x);
    check_shape(y, MX_DIMS(N, C, H * F, W * G));
    const double *out = check_values(y);
    for (int n = 0; n < N; n++)
        for (int c = 0; c < C; c++)
            for (int i = 0; i < H * F; i++)
                for (int j = 0; j < W * G; j++) {
                    const int channel = (c * F + i % F) * G + j % G;
                    const double wanted = in[((n * C * F * G + channel) * H + i / F) * W + j / G];
                    assert_true(out[((n * C + c) * H * F + i) * W * G + j] == wanted);
                }
    check_shape(mx_call(mx_pixel_shuffle1d(MX_DIMS(4)), check_array(MX_DIMS(1, 8, 3), 1)), MX_DIMS(1, 2, 12));
    check_shape(mx_call(mx_pixel_shuffle3d(MX_DIMS(2)), check_array(MX_DIMS(1, 16, 2, 3, 4), 1)),
                MX_DIMS(1, 2, 4, 6, 8));
    check_no_error();
    assert_null(mx_pixel_shuffle2d(MX_DIMS(1, 2, 3)));
    check_error(MX_ERR_ATTRIBUTE, "PixelShuffle2D", "factor");
    assert_null(mx_call(mx_pixel_shuffle2d(MX_DIMS(2)), check_array(MX_DIMS(1, 3, 2, 2), 1)));
    mx_error_clear();
}

/* ---- convolutional cells ----------------------------------------------------------------------------------------- */

static mx_block *started(mx_block *block, mx_array *x)
{
    mx_random_seed(1);
    mx_initialize(block, mx_uniform(.scale = 0.5), mx_cpu(0));
    mx_call(block, x);
    check_no_error();
    return block;
}

static mx_array *own(mx_block *block, const char *ending)
{
    mx_params *params = mx_block_params(block);
    for (int64_t i = 0; i < mx_params_count(params); i++)
        if (strstr(mx_parameter_name(mx_params_at(params, i)), ending))
            return mx_parameter_data(mx_params_at(params, i), mx_cpu(0));
    fail_msg("there is no parameter %s", ending);
    return NULL;
}

static void near(mx_array *a, mx_array *b)
{
    check_no_error();
    check_near(a, mx_shape(b), check_values(b), 1e-5);
}

/* A 1x1 cell at one place is the ordinary cell: its weights are matrices of the RNN operator's layers. */
static void test_cells_are_the_plain_ones_without_space(void **state)
{
    (void)state;
    MX_SCOPE;
    enum { N = 3, C = 2, H = 4 };
    mx_array *x = check_array(MX_DIMS(N, C, 1, 1), 1), *h = check_array(MX_DIMS(N, H, 1, 1), 2),
             *c = check_array(MX_DIMS(N, H, 1, 1), 3);
    mx_block *cells[] = {mx_conv2d_rnn_cell(MX_DIMS(C, 1, 1), H, MX_DIMS(1), MX_DIMS(1)),
                         mx_conv2d_gru_cell(MX_DIMS(C, 1, 1), H, MX_DIMS(1), MX_DIMS(1)),
                         mx_conv2d_lstm_cell(MX_DIMS(C, 1, 1), H, MX_DIMS(1), MX_DIMS(1))};
    mx_block *layers[] = {mx_rnn(H, .activation = "tanh"), mx_gru(H), mx_lstm(H)};
    static const char *const names[] = {"i2h_weight", "h2h_weight", "i2h_bias", "h2h_bias"};
    for (int k = 0; k < 3; k++) {
        const bool two = k == 2;
        started(cells[k], x);
        mx_array *sequence = mx_reshape(x, .shape = MX_DIMS(1, N, C)); /* (T, N, C) */
        started(layers[k], sequence);
        for (int i = 0; i < 4; i++) {
            mx_array *to = own(layers[k], names[i]), *from = own(cells[k], names[i]);
            mx_array_set(to, mx_reshape(from, .shape = mx_shape(to)));
        }
        mx_array *h1 = mx_reshape(h, .shape = MX_DIMS(1, N, H)), *c1 = mx_reshape(c, .shape = MX_DIMS(1, N, H));
        mx_arrays got =
            two ? mx_block_call_many(cells[k], MX_ARRAYS(x, h, c)) : mx_block_call_many(cells[k], MX_ARRAYS(x, h));
        mx_arrays wanted = two ? mx_block_call_many(layers[k], MX_ARRAYS(sequence, h1, c1))
                               : mx_block_call_many(layers[k], MX_ARRAYS(sequence, h1));
        check_no_error();
        assert_int_equal(got.n, two ? 3 : 2);
        for (int64_t i = 0; i < got.n; i++)
            near(mx_reshape(got.v[i], .shape = mx_shape(wanted.v[i])), wanted.v[i]);
    }
}

static void test_cells_keep_the_size_of_their_state(void **state)
{
    (void)state;
    MX_SCOPE;
    mx_block *cell =
        mx_conv1d_lstm_cell(MX_DIMS(2, 9), 3, MX_DIMS(3), MX_DIMS(5), .i2h_pad = MX_DIMS(1), .h2h_dilate = MX_DIMS(2));
    mx_array *x = check_array(MX_DIMS(4, 2, 9), 1);
    started(cell, x);
    mx_array *zeros = mx_zeros(.shape = MX_DIMS(4, 3, 9));
    mx_arrays out = mx_block_call_many(cell, MX_ARRAYS(x, zeros, zeros));
    check_no_error();
    for (int i = 0; i < 3; i++)
        check_shape(out.v[i], MX_DIMS(4, 3, 9));
    near(mx_call(cell, x), out.v[0]); /* without states they are zeros */
    assert_string_equal(mx_block_text(cell), "Conv1DLSTMCell(2 -> 12, tanh, NCW)");
    mx_block *other = mx_conv2d_gru_cell(MX_DIMS(4, 4, 2), 3, MX_DIMS(3), MX_DIMS(3), .conv_layout = "NHWC");
    check_shape(mx_call(started(other, check_array(MX_DIMS(1, 4, 4, 2), 1)), check_array(MX_DIMS(1, 4, 4, 2), 1)),
                MX_DIMS(1, 2, 2, 3));
    check_no_error();
    assert_null(mx_conv1d_rnn_cell(MX_DIMS(2, 9), 3, MX_DIMS(3), MX_DIMS(4)));
    check_error(MX_ERR_ATTRIBUTE, "Conv1DRNNCell", "h2h_kernel", "odd");
    assert_null(mx_conv2d_rnn_cell(MX_DIMS(2, 9), 3, MX_DIMS(3), MX_DIMS(3)));
    check_error(MX_ERR_ATTRIBUTE, "input_shape");
    assert_int_equal(mx_block_call_many(cell, MX_ARRAYS(x, zeros)).n, 0);
    check_error(MX_ERR_ARGUMENT, "states");
}

/* ---- batch normalisation and deformable convolution ---------------------------------------------------------------- */

static void test_sync_batch_norm_is_batch_norm_on_one_device(void **state)
{
    (void)state;
    MX_SCOPE;
    mx_array *x = check_array(MX_DIMS(4, 3, 2, 2), 1), *a, *b;
    mx_block *sync = started(mx_sync_batch_norm(.momentum = 0.5), x),
             *plain = started(mx_batch_norm(.momentum = 0.5), x);
    mx_train_mode()
        a = mx_call(sync, x), b = mx_call(plain, x);
    near(a, b);
    near(own(sync, "running_var"), own(plain, "running_var"));
    assert_null(mx_sync_batch_norm(.num_devices = 5000));
    check_error(MX_ERR_ARGUMENT, "SyncBatchNorm", "num_devices=5000");
}

static void test_deformable_layers_begin_as_convolutions(void **state)
{
    (void)state;
    MX_SCOPE;
    mx_array *x = check_array(MX_DIMS(2, 2, 5, 4), 1);
    mx_block *blocks[] = {mx_deformable_conv(3, .kernel_size = MX_DIMS(3, 3), .padding = MX_DIMS(1), .activation = "relu"),
                          mx_modulated_deformable_conv(3, .kernel_size = MX_DIMS(3, 3), .padding = MX_DIMS(1),
                                                       .activation = "relu")};
    for (int i = 0; i < 2; i++) {
        mx_block *plain = started(mx_conv2d(3, MX_DIMS(3, 3), .padding = MX_DIMS(1), .activation = "relu"), x);
        started(blocks[i], x);
        mx_array_set(own(plain, "weight"), own(blocks[i], "deformable_conv_weight"));
        near(mx_call(blocks[i], x), mx_call(plain, x)); /* offsets are zeros, the mask is one */
    }
    assert_null(mx_deformable_conv(3, .groups = 2));
    check_error(MX_ERR_ATTRIBUTE, "groups=2");
}

/* ---- loss scaling ---------------------------------------------------------------------------------------------------- */

typedef struct learner {
    mx_block *net;
    mx_trainer *trainer;
    mx_loss_scaler *scaler; /* NULL: none */
} learner;

static learner make_learner(mx_loss_scaler *scaler)
{
    mx_block *net = started(mx_dense(2), check_array(MX_DIMS(3, 4), 1));
    mx_trainer *trainer = mx_trainer_new(mx_collect_params(net), "sgd", "learning_rate=0.1, momentum=0.9");
    if (scaler)
        mx_trainer_set_loss_scaler(trainer, scaler);
    check_no_error();
    return (learner){net, trainer, scaler};
}

static void learn(learner l, mx_array *x, bool unscale)
{
    mx_array *loss;
    mx_record() {
        loss = mx_sum(mx_square(mx_call(l.net, x)));
        loss = l.scaler ? mx_scale_loss(l.scaler, loss) : loss;
    }
    mx_backward(loss);
    if (unscale)
        mx_trainer_unscale(l.trainer);
    mx_trainer_step(l.trainer, 3);
    check_no_error();
}

static void test_scaled_steps_are_the_plain_ones(void **state)
{
    (void)state;
    MX_SCOPE;
    learner plain = make_learner(NULL), scaled = make_learner(mx_loss_scaler_new(.scale = 1024, .window = 2)),
            looked = make_learner(mx_loss_scaler_new());
    for (int i = 0; i < 5; i++) {
        mx_array *x = check_array(MX_DIMS(3, 4), i);
        learn(plain, x, false), learn(scaled, x, false), learn(looked, x, true);
    }
    near(own(scaled.net, "weight"), own(plain.net, "weight"));
    near(own(looked.net, "weight"), own(plain.net, "weight"));
    assert_true(mx_loss_scaler_scale(scaled.scaler) == 4096); /* twice two steps without an overflow */
    assert_true(mx_loss_scaler_scale(looked.scaler) == 65536);
}

static void test_overflows_leave_steps_out(void **state)
{
    (void)state;
    MX_SCOPE;
    learner l = make_learner(mx_loss_scaler_new(.scale = 8));
    mx_array *before = mx_copy(own(l.net, "weight")), *x = mx_full(.shape = MX_DIMS(3, 4), .value = 1e30);
    learn(l, x, false);
    check_same(own(l.net, "weight"), before);
    assert_true(mx_loss_scaler_scale(l.scaler) == 4);
    learn(l, check_array(MX_DIMS(3, 4), 1), false); /* gradients were marked as used: the next step continues */
    assert_true(fabs(check_values(own(l.net, "weight"))[0] - check_values(before)[0]) > 0);
    for (int i = 0; i < 5; i++)
        learn(l, x, false);
    assert_true(mx_loss_scaler_scale(l.scaler) == 1); /* it does not shrink below one */
}

static void test_scaler_arguments(void **state)
{
    (void)state;
    MX_SCOPE;
    assert_null(mx_loss_scaler_new(.scale = 0));
    check_error(MX_ERR_ARGUMENT, "scale=0");
    assert_null(mx_loss_scaler_new(.factor = 1));
    check_error(MX_ERR_ARGUMENT, "factor");
    assert_null(mx_scale_loss(NULL, mx_ones(.shape = MX_DIMS(1))));
    check_error(MX_ERR_ARGUMENT, "mx_scale_loss", "scaler");
    learner l = make_learner(NULL);
    assert_true(mx_trainer_unscale(l.trainer) == MX_ERR_STATE);
    check_error(MX_ERR_STATE, "mx_trainer_unscale");
    assert_true(
        mx_loss_scaler_overflow(mx_loss_scaler_new(), MX_ARRAYS(mx_full(.shape = MX_DIMS(2), .value = INFINITY))));
    check_no_error();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_pixel_shuffle),
        cmocka_unit_test(test_cells_are_the_plain_ones_without_space),
        cmocka_unit_test(test_cells_keep_the_size_of_their_state),
        cmocka_unit_test(test_sync_batch_norm_is_batch_norm_on_one_device),
        cmocka_unit_test(test_deformable_layers_begin_as_convolutions),
        cmocka_unit_test(test_scaled_steps_are_the_plain_ones),
        cmocka_unit_test(test_overflows_leave_steps_out),
        cmocka_unit_test(test_scaler_arguments),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
