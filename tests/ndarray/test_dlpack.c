/* DLPack from C: the same memory on both sides, lifetimes, copies of arrays that are not contiguous, wrong tensors,
 * failing allocations.  SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "base/error.h"
#include "ndarray/array.h"
#include "ndarray/dlpack.h"

static void expect_error(mx_code code, const char *part)
{
    assert_int_equal(mx_error_code(), code);
    if (!strstr(mx_error_message(), part))
        fail_msg("\"%s\" lacks \"%s\"", mx_error_message(), part);
    mx_error_clear();
}

static void give(void)
{
    mx_dl_managed *plain;
    mx_dl_versioned *versioned;
    mx_scoped() {
        mx_array *x = mx_array_from(MX_DIMS(2, 3), MX_FLOAT32, (const float[]){1, 2, 3, 4, 5, 6});
        mx_array *row = mx_index(x, MX_AT(1));
        plain = mx_to_dlpack(x, 0);
        versioned = mx_to_dlpack_versioned(row, -1);
        assert_ptr_equal(plain->tensor.data, mx_data(x));
        assert_int_equal(mx_array_stamp(x), 0); /* others may write */
        row->readonly = true;
        assert_null(mx_to_dlpack(row, 0));
        expect_error(MX_ERR_STATE, "read-only");
        mx_dl_versioned *frozen = mx_to_dlpack_versioned(row, 0);
        assert_int_equal(frozen->flags, MX_DL_READ_ONLY);
        frozen->deleter(frozen);
    }
    assert_int_equal(plain->tensor.ndim, 2); /* the arrays are freed, the elements are not */
    assert_int_equal(plain->tensor.shape[1], 3);
    assert_int_equal(plain->tensor.strides[0], 3);
    assert_int_equal(plain->tensor.device.type, MX_DL_CPU);
    assert_int_equal(plain->tensor.dtype.bits, 32);
    assert_int_equal(versioned->major, 1);
    assert_true(((float *)versioned->tensor.data)[2] == 6);
    plain->deleter(plain);
    assert_true(((float *)versioned->tensor.data)[0] == 4);
    versioned->deleter(versioned);
}

static void out(void **state)
{
    (void)state;
    give(); /* fills the caches */
    const int64_t live = mx_alloc_get_stats().live_blocks;
    give();
    assert_int_equal(mx_alloc_get_stats().live_blocks, live);
}

/* ---- a tensor of another library --------------------------------------------------------------------------- */
static int deleted;
static void count_deleted(mx_dl_managed *self) { (void)self, deleted++; }
static float elements[6] = {1, 2, 3, 4, 5, 6};
static int64_t sizes[2] = {2, 3}, steps[2] = {3, 1};

static mx_dl_managed tensor(void)
{
    return (mx_dl_managed){.tensor = {elements, {MX_DL_CPU, 0}, 2, {2, 32, 1}, sizes, steps, 0},
                           .deleter = count_deleted};
}

static void in(void **state)
{
    (void)state;
    mx_dl_managed t = tensor();
    deleted = 0;
    mx_scoped() {
        mx_array *x = mx_from_dlpack(&t);
        assert_ptr_equal(mx_data(x), elements);
        mx_array *view = mx_index(x, MX_AT(1));
        assert_true(mx_item(mx_index(view, MX_AT(0))) == 4);
        assert_int_equal(deleted, 0);
    }
    assert_int_equal(deleted, 1);
    int64_t turned[2] = {3, 2}, apart[2] = {1, 3};
    t.tensor.shape = turned, t.tensor.strides = apart;
    mx_scoped() {
        mx_array *x = mx_from_dlpack(&t);
        assert_int_equal(deleted, 2); /* it was copied */
        float copy[6];
        assert_int_equal(mx_array_read(x, copy, sizeof copy), MX_OK);
        assert_memory_equal(copy, ((const float[]){1, 4, 2, 5, 3, 6}), sizeof copy);
    }
    turned[0] = 0;
    mx_scoped()
        assert_int_equal(mx_size(mx_from_dlpack(&t)), 0);
    assert_int_equal(deleted, 3);
}

static void wrong(void **state)
{
    (void)state;
    mx_dl_managed t = tensor();
    mx_dl_versioned future = {.major = 2, .tensor = t.tensor};
    deleted = 0;
    assert_null(mx_from_dlpack(NULL));
    expect_error(MX_ERR_ARGUMENT, "NULL");
    assert_null(mx_from_dlpack_versioned(&future));
    expect_error(MX_ERR_UNSUPPORTED, "2.0");
    assert_null(mx_to_dlpack(NULL, 0));
    expect_error(MX_ERR_ARGUMENT, "mx_to_dlpack");
    void *data = t.tensor.data;
    t.tensor.data = NULL;
    assert_null(mx_from_dlpack(&t));
    expect_error(MX_ERR_ARGUMENT, "6 elements");
    t.tensor.data = data;
    t.tensor.dtype = (mx_dl_type){5, 64, 1}; /* complex */
    assert_null(mx_from_dlpack(&t));
    expect_error(MX_ERR_DTYPE, "code 5");
    t = tensor(), t.tensor.device.type = 10;
    assert_null(mx_from_dlpack(&t));
    expect_error(MX_ERR_DEVICE, "type 10");
    t = tensor(), t.tensor.device = (mx_dl_device){MX_DL_CUDA, 1000};
    assert_null(mx_from_dlpack(&t));
    expect_error(MX_ERR_DEVICE, "gpu(1000)");
    t = tensor(), t.tensor.ndim = 99;
    assert_null(mx_from_dlpack(&t));
    expect_error(MX_ERR_SHAPE, "99 axes");
    assert_int_equal(mx_dlpack_stream(mx_cpu(0)), -1);
    assert_int_equal(mx_dlpack_stream(mx_gpu(1000)), 0);
    expect_error(MX_ERR_DEVICE, "gpu(1000)");
    assert_int_equal(deleted, 0); /* all of them are still the caller's */
}

static void failing_allocations(void **state)
{
    (void)state;
    int64_t turned[2] = {3, 2}, apart[2] = {1, 3};
    const int64_t live = mx_alloc_get_stats().live_blocks;
    for (int copied = 0; copied < 2; copied++) {
        bool failed = true;
        for (int n = 1; failed && n < 100; n++) {
            mx_dl_managed t = tensor();
            if (copied)
                t.tensor.shape = turned, t.tensor.strides = apart;
            deleted = 0;
            mx_alloc_fail_at(n);
            mx_scoped() {
                mx_array *x = mx_from_dlpack(&t);
                mx_dl_managed *back = x ? mx_to_dlpack(x, 0) : NULL;
                if (!x)
                    assert_int_equal(deleted, 0);
                if (back)
                    back->deleter(back);
                failed = !back;
            }
            mx_alloc_fail_at(0);
            if (failed)
                expect_error(MX_ERR_MEMORY, "");
        }
        assert_false(failed);
        assert_int_equal(deleted, 1);
        assert_int_equal(mx_alloc_get_stats().live_blocks, live);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(out),
        cmocka_unit_test(in),
        cmocka_unit_test(wrong),
        cmocka_unit_test(failing_allocations),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
