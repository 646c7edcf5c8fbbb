/* Blocked layouts, residual epilogues and prepared weights: how plans transform convolutional networks, and that
 * nothing stale is ever used.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <pthread.h>

#include "ndarray/device.h"
#include "pass/passes.h"
#include "plan_check.h"

/* How often it should occur: the generic level has no blocked layouts. */
#define assert_count(block, op, wanted) \
    do { \
        if (mx_cpu_device->channel_block()) \
            assert_int_equal(count(block, op), wanted); \
    } while (0)

static mx_block *conv(int64_t channels, int64_t kernel, int64_t stride)
{
    return mx_conv2d(channels, MX_DIMS(kernel, kernel), .strides = MX_DIMS(stride, stride),
                     .padding = MX_DIMS(kernel / 2, kernel / 2), .use_bias = false);
}

/* Imperative and planned runs agree; the net stays hybridized.  Sums are added in another order: the last digits may
 * differ. */
static void agree(mx_block *net, mx_array *x)
{
    mx_hybridize_with(net, &(struct mx_hybridize_options){.active = false});
    mx_array *plain = mx_call(net, x);
    mx_hybridize(net);
    mx_array *y = mx_call(net, x);
    check_no_error();
    check_near(y, mx_shape(plain), check_values(plain), 2e-6);
    assert_int_equal(mx_program_verify(&mx_hybrid_last(net)->program, "all"), MX_OK);
    check_same(y, mx_call(net, x));
}

/* Initialises the net, changes its running statistics, and compares. */
static mx_block *compared(mx_block *net, mx_array *x)
{
    mx_initialize(net, mx_xavier(), mx_cpu(0));
    mx_record()
        mx_call(net, x);
    agree(net, x);
    return net;
}

/* ---- networks ---------------------------------------------------------------------------------------------------- */

static mx_array *residual(mx_block *self, mx_arrays in)
{
    mx_array *x = in.v[0], *y = mx_call(mx_block_child_at(self, 0), x);
    return mx_relu(mx_add(mx_block_children(self) > 1 ? mx_call(mx_block_child_at(self, 1), x) : x, y));
}

static mx_block *unit(int64_t channels, int64_t stride, bool project)
{
    mx_block *block = mx_block_new("Unit", residual, .hybrid = true);
    mx_block_child(block, "body",
                   mx_hybrid_sequential(conv(channels, 3, stride), mx_batch_norm(), mx_activation("relu"),
                                        conv(channels, 3, 1), mx_batch_norm()));
    if (project)
        mx_block_child(block, "shortcut", mx_hybrid_sequential(conv(channels, 1, stride), mx_batch_norm()));
    return block;
}

static mx_block *small_resnet(int64_t channels)
{
    return mx_hybrid_sequential(conv(channels, 7, 2), mx_batch_norm(), mx_activation("relu"),
                                mx_max_pool2d(MX_DIMS(3, 3), .strides = MX_DIMS(2, 2), .padding = MX_DIMS(1, 1)),
                                unit(channels, 1, false), unit(2 * channels, 2, true), mx_global_avg_pool2d(),
                                mx_dense(10));
}

static void residual_networks(void **state)
{
    (void)state;
    static const struct {
        int64_t channels, batch, size;
    } rows[] = {{32, 1, 64}, {32, 3, 57}, {64, 2, 40}, {48, 1, 61}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        MX_SCOPE;
        mx_array *x = check_array(MX_DIMS(rows[i].batch, 3, rows[i].size, rows[i].size), 1);
        mx_block *net = compared(small_resnet(rows[i].channels), x);
        assert_count(net, "_blocked_convolution", 6);
        assert_count(net, "_to_blocked", 0); /* the first convolution reads NCHW data */
        assert_count(net, "_from_blocked", 1);
        assert_count(net, "_blocked_pooling", 2);
        assert_count(net, "Convolution", 0);
        assert_count(net, "BatchNorm", 0);
        assert_count(net, "relu", 0); /* the additions and relus are fused into the convolutions */
        assert_count(net, "broadcast_add", 0);
        assert_count(net, "_pointwise", 0);
    }
}

/* conv, relu6, depthwise, relu6, linear 1x1, added to the input */
static mx_array *inverted(mx_block *self, mx_arrays in)
{
    mx_array *x = mx_clip(mx_call(mx_block_child_at(self, 0), in.v[0]), .a_min = 0, .a_max = 6);
    x = mx_clip(mx_call(mx_block_child_at(self, 1), x), .a_min = 0, .a_max = 6);
    return mx_add(mx_call(mx_block_child_at(self, 2), x), in.v[0]);
}

static mx_block *depthwise(int64_t channels, int64_t kernel, int64_t stride)
{
    return mx_conv2d(channels, MX_DIMS(kernel, kernel), .groups = channels, .strides = MX_DIMS(stride, stride),
                     .padding = MX_DIMS(kernel / 2, kernel / 2), .use_bias = true);
}

static void depthwise_networks(void **state)
{
    (void)state;
    MX_SCOPE;
    mx_block *block = mx_block_new("Inverted", inverted, .hybrid = true);
    mx_block_child(block, "expand", mx_hybrid_sequential(conv(144, 1, 1), mx_batch_norm()));
    mx_block_child(block, "depthwise", mx_hybrid_sequential(depthwise(144, 3, 1), mx_batch_norm()));
    mx_block_child(block, "project", mx_hybrid_sequential(conv(40, 1, 1), mx_batch_norm()));
    mx_block *net = mx_hybrid_sequential(conv(40, 3, 2), mx_activation("relu"), block, depthwise(40, 5, 2),
                                         conv(64, 1, 1), mx_global_avg_pool2d(), mx_dense(10));
    compared(net, check_array(MX_DIMS(2, 3, 33, 30), 2)); /* 40 channels do not fill blocks of 16 */
    assert_count(net, "_blocked_convolution", 6);
    assert_count(net, "clip", 0);
    assert_count(net, "broadcast_add", 0);
}

static mx_array *dense_unit(mx_block *self, mx_arrays in)
{
    mx_array *y = mx_call(mx_block_child_at(self, 0), in.v[0]);
    return mx_concat(MX_ARRAYS(in.v[0], y), .dim = 1);
}

static void concatenation_and_loose_normalisation(void **state)
{
    (void)state;
    MX_SCOPE;
    mx_block *block = mx_block_new("Dense", dense_unit, .hybrid = true);
    mx_block_child(block, "body",
                   mx_hybrid_sequential(mx_batch_norm(), mx_activation("relu"), conv(48, 1, 1), mx_batch_norm(),
                                        mx_activation("relu"), conv(32, 3, 1)));
    mx_block *net = mx_hybrid_sequential(conv(32, 5, 2), block, mx_batch_norm(), mx_activation("relu"), conv(32, 1, 1),
                                         mx_avg_pool2d(MX_DIMS(2, 2), .strides = MX_DIMS(2, 2)), mx_dense(7));
    compared(net, check_array(MX_DIMS(3, 3, 28, 28), 3));
    assert_count(net, "BatchNorm", 0);
    assert_count(net, "Concat", 1);
    assert_count(net, "_from_blocked", 1);
    assert_count(net, "_blocked_pooling", 1);
}

static void odd_geometry(void **state)
{
    (void)state;
    static const struct {
        int64_t in, out, kernel, stride, dilate, pad, size;
    } rows[] = {{32, 64, 3, 1, 2, 2, 19}, {64, 40, 5, 2, 1, 0, 23}, {48, 64, 1, 2, 1, 0, 15}, {64, 64, 3, 3, 1, 1, 31},
                {96, 32, 3, 1, 1, 3, 5},  {16, 80, 2, 1, 1, 1, 9},  {64, 32, 1, 1, 1, 0, 1},  {64, 33, 1, 1, 1, 0, 13}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        MX_SCOPE;
        const mx_dims k = MX_DIMS(rows[i].kernel, rows[i].kernel), s = MX_DIMS(rows[i].stride, rows[i].stride),
                      d = MX_DIMS(rows[i].dilate, rows[i].dilate), p = MX_DIMS(rows[i].pad, rows[i].pad);
        mx_block *net = mx_hybrid_sequential(
            mx_conv2d(rows[i].in, MX_DIMS(1, 1)),
            mx_conv2d(rows[i].out, k, .strides = s, .dilation = d, .padding = p, .activation = "relu"),
            mx_global_avg_pool2d());
        compared(net, check_array(MX_DIMS(2, 2, rows[i].size, rows[i].size), (int)i));
    }
}

static void what_stays_plain(void **state)
{
    (void)state;
    MX_SCOPE;
    mx_block *lenet = mx_hybrid_sequential(conv(6, 5, 1), mx_activation("relu"), mx_max_pool2d(MX_DIMS(2, 2)),
                                           conv(16, 5, 1), mx_dense(10)); /* too few channels to fill vectors */
    compared(lenet, check_array(MX_DIMS(2, 1, 28, 28), 4));
    assert_int_equal(count(lenet, "_blocked_convolution"), 0);
    mx_block *groups = mx_hybrid_sequential(mx_conv2d(64, MX_DIMS(3, 3), .groups = 4), mx_dense(10));
    compared(groups, check_array(MX_DIMS(2, 32, 9, 9), 5));
    assert_int_equal(count(groups, "_blocked_convolution"), 0);
    mx_block *net = small_resnet(32);
    mx_array *x = check_array(MX_DIMS(1, 3, 32, 32), 6);
    compared(net, x);
    mx_record()
        mx_call(net, x);
    assert_int_equal(count(net, "_blocked_convolution"), 0); /* training */
    assert_int_equal(mx_hybrid_last(net)->n_prepared, 0);
}

/* ---- prepared weights -------------------------------------------------------------------------------------------- */

static mx_array *weight_of(mx_block *net, int layer)
{
    return mx_parameter_data(mx_params_at(mx_block_params(mx_block_child_at(net, layer)), 0), mx_cpu(0));
}

static mx_block *two_layers(mx_array *x)
{
    mx_block *net = mx_hybrid_sequential(conv(32, 3, 1), mx_batch_norm(), mx_activation("relu"), conv(48, 3, 1),
                                         mx_global_avg_pool2d());
    return compared(net, x);
}

static void weights_are_prepared_once(void **state)
{
    (void)state;
    MX_SCOPE;
    mx_array *x = check_array(MX_DIMS(1, 3, 20, 20), 7);
    mx_block *net = two_layers(x);
    mx_array *before = mx_array_copy(mx_call(net, x)), *w = weight_of(net, 3);
    assert_true(mx_hybrid_last(net)->n_prepared > 0);
    if (!mx_cpu_device->channel_block())
        return;
    /* Writes without taking the stamp away, as no caller can: the plan does not read the weights again. */
    const float old = *(float *)mx_data(w);
    *(float *)mx_data(w) = 1000;
    check_same(before, mx_call(net, x));
    *(float *)mx_data(w) = old;
}

static void stale_weights_are_never_used(void **state)
{
    (void)state;
    MX_SCOPE;
    mx_array *x = check_array(MX_DIMS(2, 3, 18, 18), 8);
    mx_block *net = two_layers(x);
    mx_array *w = weight_of(net, 3), *ones = mx_ones(.shape = mx_shape(w));
    mx_array *noise = check_array(mx_shape(w), 9);
    mx_array *last = mx_array_copy(mx_call(net, x));
#define CHANGED(how) \
    do { \
        how; \
        check_no_error(); \
        mx_array *now = mx_array_copy(mx_call(net, x)); \
        assert_true(fabs(check_values(now)[0] - check_values(last)[0]) > 0); \
        last = now; \
        agree(net, x); \
    } while (0)
    CHANGED(mx_add(w, ones, .out = w));
    CHANGED(mx_parameter_set_data(mx_params_at(mx_block_params(mx_block_child_at(net, 3)), 0), noise));
    w = weight_of(net, 3);
    CHANGED(mx_array_fill(w, 0.25));
    CHANGED(mx_array_set(w, noise));
    float some[8] = {1, 2, 3, 4, 5, 6, 7, 8};
    mx_shape_t eight = {.ndim = 1, .dim = {8}};
    mx_array *view = mx_scope_add(mx_array_view(w, 32, &eight, MX_FLOAT32));
    CHANGED(mx_array_write(view, some, sizeof some));
    CHANGED(mx_mul_scalar(view, .scalar = 2, .out = view));
    CHANGED(mx_array_copy_data(w, ones));
    /* A training step changes weights and running statistics. */
    mx_trainer *trainer = mx_trainer_new(mx_collect_params(net), "sgd", "learning_rate=0.5");
    mx_array *loss;
    CHANGED(mx_record() loss = mx_mean(mx_square(mx_call(net, x))); mx_backward(loss); mx_trainer_step(trainer, 1));
    /* Files. */
    assert_int_equal(mx_save_parameters(net, check_file("layout.params")), MX_OK);
    CHANGED(mx_array_fill(weight_of(net, 0), 0.125));
    CHANGED(mx_load_parameters(net, check_file("layout.params")));
    /* The caller has the address: elements may change without notice from now on. */
    float *address = mx_array_data(weight_of(net, 3));
    CHANGED(address[0] += 10);
    CHANGED(address[1] -= 10);
#undef CHANGED
}

typedef struct worker {
    mx_block *net;
    mx_array *x, *wanted;
    bool fine;
} worker;

static void *work(void *arg)
{
    worker *w = arg;
    w->fine = true;
    for (int i = 0; i < 20; i++) {
        MX_SCOPE;
        mx_array *y = mx_call(w->net, w->x);
        w->fine &= y && !memcmp(mx_data(y), mx_data(w->wanted), mx_bytes(y));
    }
    return NULL;
}

static void several_threads(void **state)
{
    (void)state;
    MX_SCOPE;
    mx_array *x = check_array(MX_DIMS(1, 3, 20, 20), 10);
    mx_block *net = two_layers(x);
    mx_array *wanted = mx_array_copy(mx_call(net, x));
    for (int exposed = 0; exposed < 2; exposed++) {
        pthread_t thread[3];
        worker workers[3];
        for (int i = 0; i < 3; i++) {
            workers[i] = (worker){net, x, wanted, false};
            assert_int_equal(pthread_create(&thread[i], NULL, work, &workers[i]), 0);
        }
        for (int i = 0; i < 3; i++) {
            pthread_join(thread[i], NULL);
            assert_true(workers[i].fine);
        }
        mx_array_data(weight_of(net, 3)); /* from now on every run prepares the weights again */
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(residual_networks),
        cmocka_unit_test(depthwise_networks),
        cmocka_unit_test(concatenation_and_loose_normalisation),
        cmocka_unit_test(odd_geometry),
        cmocka_unit_test(what_stays_plain),
        cmocka_unit_test(weights_are_prepared_once),
        cmocka_unit_test(stale_weights_are_never_used),
        cmocka_unit_test(several_threads),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
