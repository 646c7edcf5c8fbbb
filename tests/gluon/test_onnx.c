/* ONNX files from C: a network out and in, failing allocations, files that end early.  SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "base/file.h"
#include "base/protobuf.h"
#include "gluon.h"

static char path[128], cut[128];

static int set_up(void **state)
{
    (void)state;
    snprintf(path, sizeof path, "/tmp/gluon_onnx_%d.onnx", (int)getpid());
    snprintf(cut, sizeof cut, "/tmp/gluon_onnx_%d_cut.onnx", (int)getpid());
    mx_error_clear();
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    unlink(path);
    unlink(cut);
    return 0;
}

static void assert_ok(void)
{
    if (mx_error_code())
        fail_msg("%s", mx_error_message());
}

static mx_block *network(void)
{
    mx_block *net = mx_hybrid_sequential(mx_conv2d(4, MX_DIMS(3, 3), .activation = "relu"), mx_batch_norm(),
                                         mx_max_pool2d(MX_DIMS(2, 2)), mx_dense(5));
    mx_initialize(net, mx_xavier(), mx_cpu(0));
    return net;
}

static mx_array *input(void) { return mx_random_uniform(.shape = MX_DIMS(2, 3, 8, 8)); }

static void test_round_trip(void **state)
{
    MX_SCOPE;
    (void)state;
    mx_block *net = network();
    mx_array *x = input(), *y = mx_call(net, x);
    assert_int_equal(mx_export_onnx_block(net, path, 17, MX_ARRAYS(x)), MX_OK);
    mx_block *back = mx_import_onnx(path);
    mx_array *z = mx_call(back, x);
    assert_ok();
    assert_true(mx_item(mx_max(mx_abs(mx_sub(y, z)))) < 1e-5);
    const mx_onnx_model *model = mx_describe_onnx(path);
    assert_int_equal(model->opset, 17);
    assert_int_equal(model->inputs.n, 1);
    assert_int_equal(model->input_shapes[0].d[3], 8);
    assert_null(model->symbol);
}

static void test_opsets(void **state)
{
    MX_SCOPE;
    (void)state;
    mx_block *net = network();
    mx_array *x = input();
    mx_call(net, x);
    for (int opset = 12; opset <= 24; opset++) {
        const mx_code code = mx_export_onnx_block(net, path, opset, MX_ARRAYS(x));
        assert_int_equal(code, opset < 13 || opset > 23 ? MX_ERR_ARGUMENT : MX_OK);
        mx_error_clear();
    }
}

/* Every allocation fails once: an error, and nothing is left behind. */
static void test_memory(void **state)
{
    MX_SCOPE;
    (void)state;
    mx_block *net = network();
    mx_array *x = input();
    mx_call(net, x);
    mx_symbol *symbol = mx_trace(net, x);
    assert_int_equal(mx_export_onnx(symbol, NULL, path), MX_OK);
    int failures = 0;
    int64_t blocks = 0;
    for (int64_t n = 1; n < 4000; n += 1 + n / 40) {
        mx_scoped() {
            mx_alloc_fail_at(n);
            const mx_onnx_model *model = mx_load_onnx(path, NULL);
            mx_alloc_fail_at(0);
            assert_true(model ? !mx_error_code() : mx_error_code() == MX_ERR_MEMORY);
            failures += !model;
            mx_error_clear();
            mx_alloc_fail_at(n);
            const mx_code code = mx_export_onnx(symbol, NULL, cut);
            mx_alloc_fail_at(0);
            assert_true(code == MX_OK || code == MX_ERR_MEMORY);
            mx_error_clear();
        }
        if (n == 1) /* caches of the thread are filled by now */
            blocks = mx_alloc_get_stats().live_blocks;
        assert_true(mx_alloc_get_stats().live_blocks <= blocks + 4);
    }
    assert_true(failures > 20);
}

static void test_files_that_end_early(void **state)
{
    MX_SCOPE;
    (void)state;
    mx_block *net = network();
    mx_array *x = input();
    mx_call(net, x);
    assert_int_equal(mx_export_onnx_block(net, path, 17, MX_ARRAYS(x)), MX_OK);
    int64_t size;
    char *bytes = mx_file_read(path, 1 << 24, &size);
    assert_non_null(bytes);
    for (int64_t n = 0; n < size; n += 1 + size / 200) {
        mx_scoped() {
            assert_true(mx_file_write(cut, bytes, n));
            assert_null(mx_load_onnx(cut, NULL));
            assert_int_equal(mx_error_code(), MX_ERR_FILE);
            assert_non_null(strstr(mx_error_message(), "_cut.onnx"));
            mx_error_clear();
        }
    }
    mx_free(bytes, (size_t)size + 1);
}

static void test_wire_format(void **state)
{
    (void)state;
    mx_text text = {0}, inner = {0};
    mx_proto_put_int(&text, 1, -1);
    mx_proto_put_float(&text, 2, 1.5f);
    mx_proto_put_double(&text, 3, 2.5);
    mx_proto_put_text(&inner, 1, "abc");
    mx_proto_put_message(&text, 300, &inner);
    mx_proto m = mx_proto_of(text.data, (int64_t)text.length);
    mx_proto_field f;
    assert_true(mx_proto_next(&m, &f) && f.number == 1 && (int64_t)f.value == -1);
    assert_true(mx_proto_next(&m, &f) && f.number == 2 && f.kind == MX_PROTO_FIXED32 && f.value == 0x3fc00000);
    assert_true(mx_proto_next(&m, &f) && f.number == 3 && f.kind == MX_PROTO_FIXED64);
    assert_true(mx_proto_next(&m, &f) && f.number == 300 && f.size == 5 && !memcmp(f.bytes + 2, "abc", 3));
    assert_false(mx_proto_next(&m, &f));
    assert_false(m.broken);
    for (size_t n = 1; n < text.length; n++) { /* cut anywhere: broken, or whole fields */
        m = mx_proto_of(text.data, (int64_t)n);
        while (mx_proto_next(&m, &f)) {
        }
        assert_true(m.broken || n == 11 || n == 16 || n == 25);
    }
    mx_text_free(&text);
    mx_text_free(&inner);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_round_trip, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_opsets, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_memory, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_files_that_end_early, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_wire_format, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
