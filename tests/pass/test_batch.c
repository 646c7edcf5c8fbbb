/* Large batches in groups: what is divided, what is not, and that the results are those of single entries.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "ndarray/device.h"
#include "pass/passes.h"
#include "plan_check.h"

enum { CHANNELS = 32, SIZE = 96 }; /* of intermediate values: 1.2 MB an image */

static mx_block *conv(int64_t channels, int64_t kernel, int64_t stride)
{
    return mx_conv2d(channels, MX_DIMS(kernel, kernel), .strides = MX_DIMS(stride, stride),
                     .padding = MX_DIMS(kernel / 2, kernel / 2));
}

/* The addend is older than the step that reads it. */
static mx_array *residual(mx_block *self, mx_arrays in)
{
    mx_array *y = mx_call(mx_block_child_at(self, 0), in.v[0]);
    return mx_relu(mx_add(mx_call(mx_block_child_at(self, 1), y), in.v[0]));
}

static mx_block *unit(void)
{
    mx_block *block = mx_block_new("Unit", residual, .hybrid = true);
    mx_block_child(block, "a", conv(CHANNELS, 3, 1));
    mx_block_child(block, "b", conv(CHANNELS, 1, 1));
    return block;
}

static mx_block *network(void)
{
    mx_block *net = mx_hybrid_sequential(conv(CHANNELS, 3, 1), mx_activation("relu"), unit(),
                                         mx_max_pool2d(MX_DIMS(2, 2)), conv(CHANNELS, 3, 2), mx_global_avg_pool2d());
    mx_initialize(net, mx_xavier(), mx_cpu(0));
    return net;
}

/* Rows of the result for a batch are the results of its images, bit by bit. */
static void check_images(mx_block *net, mx_array *x, mx_array *y)
{
    for (int64_t i = 0; i < mx_shape(x).d[0]; i++) {
        mx_array *image = mx_slice_axis(x, .axis = 0, .begin = i, .end = i + 1);
        check_same(mx_call(net, image), mx_slice_axis(y, .axis = 0, .begin = i, .end = i + 1));
    }
}

static void groups_of_images(void **state)
{
    (void)state;
    static const int64_t batches[] = {14, 16, 31};
    const int threads = mx_num_threads();
    mx_set_num_threads(2);
    for (size_t i = 0; i < sizeof batches / sizeof *batches; i++) {
        MX_SCOPE;
        mx_array *x = check_array(MX_DIMS(batches[i], 3, SIZE, SIZE), 1);
        mx_block *net = network();
        mx_array *plain = mx_call(net, x);
        mx_hybridize(net);
        mx_array *y = mx_call(net, x);
        check_no_error();
        check_near(y, mx_shape(plain), check_values(plain), 2e-6);
        assert_int_equal(mx_program_verify(&mx_hybrid_last(net)->program, "batch"), MX_OK);
        /* A convolution reads and writes 2.4 MB, with an addend 3.5 MB, of the 4 MB of a group: one image. */
        const int64_t groups =
            mx_cpu_device->channel_block() && batches[i] * CHANNELS * SIZE * SIZE * 4 >= 16 << 20 ? batches[i] : 1;
        if (mx_cpu_device->channel_block())
            assert_int_equal(count(net, "_blocked_convolution"), 3 * groups + 1);
        assert_int_equal(count(net, "Concat"), groups > 1);
        assert_int_equal(count(net, "slice_axis"), groups > 1 ? groups : 0);
        check_images(net, x, y);
    }
    mx_set_num_threads(threads);
}

static int64_t arena_bytes(mx_block *net) { return mx_hybrid_last(net)->memory.arena; }

/* Groups share memory, so that more images need hardly more of it. */
static void memory_of_groups(void **state)
{
    (void)state;
    MX_SCOPE;
    if (!mx_cpu_device->channel_block())
        skip();
    const int threads = mx_num_threads();
    mx_set_num_threads(2);
    mx_block *net = network();
    mx_hybridize(net);
    mx_call(net, check_array(MX_DIMS(8, 3, SIZE, SIZE), 2));
    const int64_t few = arena_bytes(net);
    mx_call(net, check_array(MX_DIMS(32, 3, SIZE, SIZE), 2));
    check_no_error();
    assert_true(arena_bytes(net) < few);
    mx_set_num_threads(threads);
}

/* Nothing is divided while training, or where images depend on each other. */
static mx_array *across(mx_block *self, mx_arrays in)
{
    mx_array *y = mx_call(mx_block_child_at(self, 0), in.v[0]);
    return mx_call(mx_block_child_at(self, 1), mx_concat(MX_ARRAYS(y, mx_reverse(y, .axis = MX_DIMS(0))), .dim = 1));
}

static void what_stays_whole(void **state)
{
    (void)state;
    MX_SCOPE;
    const int threads = mx_num_threads();
    mx_set_num_threads(2);
    mx_array *x = check_array(MX_DIMS(16, 3, SIZE, SIZE), 3);
    mx_block *net = network();
    mx_hybridize(net);
    mx_record()
        mx_call(net, x);
    assert_int_equal(count(net, "Concat"), 0);
    mx_block *mixed = mx_block_new("Across", across, .hybrid = true);
    mx_block_child(mixed, "a", conv(CHANNELS, 3, 1));
    mx_block_child(mixed, "b", mx_hybrid_sequential(conv(CHANNELS, 1, 1), mx_global_avg_pool2d()));
    mx_initialize(mixed, mx_xavier(), mx_cpu(0));
    mx_array *plain = mx_call(mixed, x);
    mx_hybridize(mixed);
    mx_array *y = mx_call(mixed, x);
    check_no_error();
    check_near(y, mx_shape(plain), check_values(plain), 2e-6);
    mx_set_num_threads(threads);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(groups_of_images), cmocka_unit_test(memory_of_groups),
                                       cmocka_unit_test(what_stays_whole)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
