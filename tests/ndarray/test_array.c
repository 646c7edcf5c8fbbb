/* Arrays: creating, viewing, copying, reading, writing, filling, setting; wrong arguments; failing allocations; a
 * device whose memory the host cannot access.  SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "base/error.h"
#include "ndarray/array.h"
#include "ndarray/dtype.h"

#define SHAPE(...) ((mx_shape_t){.ndim = MX_COUNT(__VA_ARGS__), .dim = {__VA_ARGS__}})
#define FLOATS(shape, ...) mx_array_from(shape, MX_FLOAT32, (const float[]){__VA_ARGS__})

static void expect_error(mx_code code, const char *part)
{
    assert_int_equal(mx_error_code(), code);
    if (!strstr(mx_error_message(), part))
        fail_msg("\"%s\" lacks \"%s\"", mx_error_message(), part);
    mx_error_clear();
}

static void expect_floats(const mx_array *x, int64_t count, const double *expected)
{
    double values[64];
    assert_int_equal(mx_array_read_doubles(x, values, count), MX_OK);
    for (int64_t i = 0; i < count; i++)
        if (values[i] != expected[i])
            fail_msg("element %d is %g, wanted %g", (int)i, values[i], expected[i]);
}
#define EXPECT(x, ...) expect_floats(x, MX_COUNT(__VA_ARGS__), (const double[]){__VA_ARGS__})

static void making(void **state)
{
    (void)state;
    MX_SCOPE;
    mx_array *x = FLOATS(MX_DIMS(2, 3), 1, 2, 3, 4, 5, 6);
    assert_int_equal(mx_ndim(x), 2);
    assert_int_equal(mx_size(x), 6);
    assert_int_equal(mx_dim(x, -1), 3);
    assert_int_equal(mx_shape(x).d[0], 2);
    assert_int_equal(mx_dtype_of(x), MX_FLOAT32);
    assert_int_equal(mx_context_of(x).type, MX_CPU);
    assert_int_equal((uintptr_t)mx_array_data(x) % MX_ALIGN, 0);
    EXPECT(x, 1, 2, 3, 4, 5, 6);
    mx_array *scalar = mx_array_from(MX_SCALAR_DIMS, MX_INT64, &(int64_t){-7});
    assert_int_equal(mx_ndim(scalar), 0);
    assert_float_equal(mx_item(scalar), -7, 0);
    mx_array *empty = mx_empty(MX_DIMS(3, 0), MX_FLOAT64, mx_cpu(0));
    assert_int_equal(mx_size(empty), 0);
    assert_int_equal(mx_array_read(empty, NULL, 0), MX_OK);
    assert_int_equal(mx_array_fill(empty, 1), MX_OK);
    assert_float_equal(mx_item(mx_array_scalar(2.5)), 2.5, 0);
    assert_int_equal(mx_error_code(), MX_OK);
}

static void impossible_shapes(void **state)
{
    (void)state;
    int64_t calls = mx_alloc_get_stats().calls;
    assert_null(mx_empty(MX_DIMS((int64_t)1 << 62, 4), MX_FLOAT32, mx_cpu(0)));
    expect_error(MX_ERR_SHAPE, "too large");
    assert_null(mx_empty(MX_DIMS((int64_t)1 << 46), MX_FLOAT64, mx_cpu(0)));
    expect_error(MX_ERR_SHAPE, "2^47 bytes");
    assert_null(mx_empty(MX_DIMS(2, -1), MX_FLOAT32, mx_cpu(0)));
    expect_error(MX_ERR_SHAPE, "axis 1 of an array has the negative size -1");
    assert_null(mx_empty(MX_NO_DIMS, MX_FLOAT32, mx_cpu(0)));
    expect_error(MX_ERR_SHAPE, "(?)");
    assert_null(mx_empty(MX_DIMS(1, 1, 1, 1, 1, 1, 1, 1, 1), MX_FLOAT32, mx_cpu(0)));
    expect_error(MX_ERR_SHAPE, "9 axes");
    assert_null(mx_empty(MX_DIMS(2), (mx_dtype)9, mx_cpu(0)));
    expect_error(MX_ERR_DTYPE, "9");
    assert_null(mx_empty(MX_DIMS(2), MX_FLOAT32, mx_gpu(97)));
    expect_error(MX_ERR_DEVICE, "gpu(97)");
    assert_null(mx_empty(MX_DIMS(2), MX_FLOAT32, (mx_context){42, 0}));
    expect_error(MX_ERR_DEVICE, "42");
    assert_int_equal(mx_alloc_get_stats().calls, calls);
}

static void wrong_objects(void **state)
{
    (void)state;
    MX_SCOPE;
    float number = 0;
    assert_null(mx_array_copy(NULL));
    expect_error(MX_ERR_ARGUMENT, "mx_array_copy: x is NULL");
    assert_true(isnan(mx_item(MX_NONE)));
    expect_error(MX_ERR_ARGUMENT, "MX_NONE");
    assert_null(mx_detach(MX_END));
    expect_error(MX_ERR_ARGUMENT, "MX_END");
    assert_int_equal(mx_shape(NULL).n, -1);
    expect_error(MX_ERR_ARGUMENT, "mx_shape");
    assert_int_equal(mx_array_read(NULL, &number, 4), MX_ERR_ARGUMENT);
    mx_error_clear();
    mx_array *x = FLOATS(MX_DIMS(2), 1, 2);
    assert_int_equal(mx_array_read(x, &number, 4), MX_ERR_ARGUMENT);
    expect_error(MX_ERR_ARGUMENT, "8 bytes");
    assert_int_equal(mx_array_write(x, NULL, 8), MX_ERR_ARGUMENT);
    expect_error(MX_ERR_ARGUMENT, "source");
    assert_true(isnan(mx_item(x)));
    expect_error(MX_ERR_SHAPE, "(2,)");
    assert_int_equal(mx_dim(x, 1), -1);
    expect_error(MX_ERR_INDEX, "axis 1");
    assert_null(mx_array_from(MX_DIMS(2), MX_FLOAT32, NULL));
    expect_error(MX_ERR_ARGUMENT, "data is NULL");
    x->readonly = true;
    assert_int_equal(mx_array_fill(x, 0), MX_ERR_STATE);
    expect_error(MX_ERR_STATE, "read-only");
    /* The first error stays: later ones follow from it. */
    mx_fail(MX_ERR_INDEX, "the cause");
    assert_null(mx_array_copy(NULL));
    expect_error(MX_ERR_INDEX, "the cause");
    for (int i = 0; i < 3; i++)
        mx_release(mx_keep(MX_NONE));
    mx_release(NULL);
}

static void views(void **state)
{
    (void)state;
    MX_SCOPE;
    mx_array *x = FLOATS(MX_DIMS(2, 3), 1, 2, 3, 4, 5, 6);
    mx_array *row = mx_scope_add(mx_array_view(x, 12, &SHAPE(3), MX_FLOAT32));
    EXPECT(row, 4, 5, 6);
    mx_array *part = mx_scope_add(mx_array_view(row, 4, &SHAPE(2, 1), MX_FLOAT32));
    EXPECT(part, 5, 6);
    mx_array_fill(part, 0);
    EXPECT(x, 1, 2, 3, 4, 0, 0);
    assert_true(mx_array_overlap(x, part) && mx_array_overlap(part, row));
    mx_array *first = mx_scope_add(mx_array_view(x, 0, &SHAPE(3), MX_FLOAT32));
    assert_false(mx_array_overlap(first, row));
    assert_null(mx_array_view(row, 4, &SHAPE(3), MX_FLOAT32));
    expect_error(MX_ERR_INDEX, "outside");
    assert_null(mx_array_view(row, -16, &SHAPE(1), MX_FLOAT32));
    expect_error(MX_ERR_INDEX, "outside");
    mx_array *alias = mx_detach(x), *copy = mx_array_copy(x);
    mx_array_fill(x, 7);
    EXPECT(alias, 7, 7, 7, 7, 7, 7);
    EXPECT(copy, 1, 2, 3, 4, 0, 0);
    assert_ptr_equal(mx_array_to(x, mx_cpu(0)), x);
    mx_array *other = mx_array_to(x, mx_cpu(1));
    assert_ptr_not_equal(other, x);
    assert_int_equal(mx_context_of(other).id, 1);
    EXPECT(other, 7, 7, 7, 7, 7, 7);
    mx_array *shape_only = mx_scope_add(mx_array_abstract(&SHAPE(2), MX_INT32, mx_cpu(0)));
    assert_int_equal(mx_size(shape_only), 2);
    assert_null(mx_array_data(shape_only));
    expect_error(MX_ERR_STATE, "tracing");
}

static int releases;
static void count_release(void *owner) { *(int *)owner += 1; }

static void adopting(void **state)
{
    (void)state;
    float memory[4] = {1, 2, 3, 4};
    mx_array *x = mx_array_adopt(&SHAPE(4), MX_FLOAT32, memory, count_release, &releases);
    mx_array *view = mx_array_view(x, 8, &SHAPE(2), MX_FLOAT32);
    EXPECT(view, 3, 4);
    mx_release(x);
    assert_int_equal(releases, 0);
    mx_release(view);
    assert_int_equal(releases, 1);
    mx_release(mx_array_adopt(&SHAPE(4), MX_FLOAT32, memory, NULL, NULL));
}

static void filling(void **state)
{
    (void)state;
    for (int dtype = 0; dtype < MX_DTYPE_END; dtype++) {
        MX_SCOPE;
        if (!mx_dtype_valid(dtype))
            continue;
        mx_array *x = mx_empty(MX_DIMS(50001), (mx_dtype)dtype, mx_cpu(0));
        double *values = mx_alloc(50001 * sizeof *values);
        for (int value = 0; value < 2; value++) {
            mx_array_fill(x, value);
            mx_array_read_doubles(x, values, 50001);
            for (int i = 0; i < 50001; i++)
                assert_float_equal(values[i], value, 0);
        }
        mx_free(values, 50001 * sizeof *values);
    }
}

static void setting(void **state)
{
    (void)state;
    MX_SCOPE;
    mx_array *x = mx_empty(MX_DIMS(2, 3), MX_FLOAT32, mx_cpu(0));
    mx_array_set(x, FLOATS(MX_DIMS(3), 1, 2, 3));
    EXPECT(x, 1, 2, 3, 1, 2, 3);
    mx_array_set(x, FLOATS(MX_DIMS(2, 1), 4, 5));
    EXPECT(x, 4, 4, 4, 5, 5, 5);
    mx_array_set(x, mx_array_from(MX_DIMS(1, 1, 1, 3), MX_INT64, (const int64_t[]){7, 8, 9}));
    EXPECT(x, 7, 8, 9, 7, 8, 9);
    mx_array_set(x, mx_array_from(MX_SCALAR_DIMS, MX_BOOL, &(bool){true}));
    EXPECT(x, 1, 1, 1, 1, 1, 1);
    mx_array_set(x, FLOATS(MX_DIMS(2, 3), 1, 2, 3, 4, 5, 6));
    /* Moving a window by one over itself. */
    mx_array *to = mx_scope_add(mx_array_view(x, 4, &SHAPE(5), MX_FLOAT32));
    mx_array *from = mx_scope_add(mx_array_view(x, 0, &SHAPE(5), MX_FLOAT32));
    mx_array_set(to, from);
    EXPECT(x, 1, 1, 2, 3, 4, 5);
    mx_array_set(x, x);
    EXPECT(x, 1, 1, 2, 3, 4, 5);
    assert_int_equal(mx_error_code(), MX_OK);
    assert_int_equal(mx_array_set(x, FLOATS(MX_DIMS(2), 1, 2)), MX_ERR_SHAPE);
    expect_error(MX_ERR_SHAPE, "(2, 3)");
    assert_int_equal(mx_array_set(x, NULL), MX_ERR_ARGUMENT);
    expect_error(MX_ERR_ARGUMENT, "value");
}

/* ---- a device whose memory the host cannot read: it is stored with every bit flipped ------------------------- */
static mx_code flip(mx_context context, void *to, const void *from, size_t bytes)
{
    (void)context;
    for (size_t i = 0; i < bytes; i++)
        ((unsigned char *)to)[i] = (unsigned char)~((const unsigned char *)from)[i];
    return MX_OK;
}
static mx_code move(mx_context context, void *to, const void *from, size_t bytes)
{
    (void)context;
    memmove(to, from, bytes);
    return MX_OK;
}
static void no_wait(mx_context context) { (void)context; }
static void *flipped_alloc(mx_context context, size_t bytes) { return (void)context, mx_alloc(bytes); }
static void flipped_free(mx_context context, void *memory, size_t bytes) { (void)context, mx_free(memory, bytes); }
static mx_device flipped = {.name = "flipped",
                            .type = MX_GPU,
                            .alloc = flipped_alloc,
                            .free = flipped_free,
                            .copy = move,
                            .to_host = flip,
                            .from_host = flip,
                            .wait = no_wait};

static mx_array *flipped_array(mx_dims dims, int id)
{
    mx_array *x = mx_empty(dims, MX_FLOAT32, mx_cpu(0));
    x->storage->device = &flipped;
    x->storage->context = x->context = mx_gpu(id);
    return x;
}

static void other_device(void **state)
{
    (void)state;
    MX_SCOPE;
    mx_array *x = flipped_array(MX_DIMS(2, 2), 0), *y = flipped_array(MX_DIMS(2, 2), 1);
    assert_null(mx_array_data(x));
    expect_error(MX_ERR_DEVICE, "gpu(0)");
    mx_array_set(x, FLOATS(MX_DIMS(2, 2), 1, 2, 3, 4)); /* host to device */
    EXPECT(x, 1, 2, 3, 4);
    mx_array_set(y, x); /* device to device */
    EXPECT(y, 1, 2, 3, 4);
    EXPECT(mx_array_to(y, mx_cpu(0)), 1, 2, 3, 4); /* device to host */
    mx_array_set(x, FLOATS(MX_DIMS(2), 8, 9));     /* with broadcasting: staged */
    EXPECT(x, 8, 9, 8, 9);
    mx_array_fill(y, 3);
    EXPECT(y, 3, 3, 3, 3);
    mx_array *bytes = mx_empty(MX_DIMS(2, 2), MX_UINT8, mx_cpu(0));
    mx_array_set(bytes, x);
    EXPECT(bytes, 8, 9, 8, 9);
    assert_string_equal(mx_array_text(x), "[[8. 9.]\n [8. 9.]]\n<NDArray 2x2 @gpu(0)>");
    assert_int_equal(mx_error_code(), MX_OK);
}

static void contexts(void **state)
{
    (void)state;
    assert_int_equal(mx_current_context().type, MX_CPU);
    mx_context before = mx_set_current_context(mx_cpu(2));
    mx_scoped() {
        assert_int_equal(mx_context_of(mx_array_scalar(1)).id, 2);
    }
    assert_int_equal(mx_set_current_context(before).id, 2);
    mx_set_current_context((mx_context){9, 0});
    expect_error(MX_ERR_DEVICE, "type 9");
    assert_int_equal(mx_current_context().id, 0);
    mx_wait_all();
}

/* Pinned memory is host memory like any other; copies to and from a GPU are faster. */
static void pinned_memory(void **state)
{
    (void)state;
    MX_SCOPE;
    const mx_context pinned = mx_cpu_pinned(0);
    for (int64_t n = 1; n <= 1 << 20; n *= 32) {
        mx_array *x = mx_empty(MX_DIMS(n), MX_INT32, pinned);
        assert_non_null(x);
        mx_array_fill(x, 7);
        int32_t *elements = mx_array_data(x);
        assert_int_equal(elements[0] + elements[n - 1], 14);
        mx_array *copy = mx_array_to(x, mx_cpu(0));
        assert_int_equal(mx_context_of(copy).type, MX_CPU);
        assert_int_equal(((int32_t *)mx_array_data(copy))[n - 1], 7);
    }
    assert_int_equal(mx_error_code(), MX_OK);
}

/* With a GPU: to the device and back, in all sizes of copies; the source may change as soon as the call returns. */
static void gpu(void **state)
{
    (void)state;
    if (!mx_num_gpus())
        skip();
    MX_SCOPE;
    for (int64_t n = 1; n <= 1 << 22; n *= 16) {
        mx_array *here = mx_empty(MX_DIMS(n), MX_FLOAT32, mx_cpu(0));
        mx_array_fill(here, 3);
        mx_array *there = mx_array_to(here, mx_gpu(0)), *other = mx_empty(MX_DIMS(n), MX_FLOAT32, mx_gpu(0));
        mx_array_fill(here, 4);
        mx_array_set(other, here);
        mx_array_fill(here, 5);
        mx_array_set(here, there);
        assert_true(((float *)mx_array_data(here))[n - 1] == 3);
        mx_array_set(here, other);
        assert_true(((float *)mx_array_data(here))[n - 1] == 4);
        mx_array_fill(other, 0.5);
        mx_array_set(there, other);
        assert_true(((float *)mx_array_data(mx_array_to(there, mx_cpu(0))))[n / 2] == 0.5f);
    }
    assert_null(mx_array_data(mx_array_to(mx_array_scalar(1), mx_gpu(0))));
    expect_error(MX_ERR_DEVICE, "gpu(0)");
    mx_wait_all();
    assert_int_equal(mx_error_code(), MX_OK);
}

/* Whichever allocation fails, nothing leaks and there is an error. */
static void failing_allocations(void **state)
{
    (void)state;
    mx_scoped() {
        mx_array_text(mx_array_scalar(1));
    } /* lists that grow once have grown */
    int64_t live = mx_alloc_get_stats().live_blocks;
    bool failed = true;
    for (int n = 1; failed && n < 100; n++) {
        mx_alloc_fail_at(n);
        mx_scoped() {
            mx_array *x = mx_empty(MX_DIMS(4, 3), MX_FLOAT32, mx_cpu(0));
            if (x) {
                mx_array_fill(x, 2);
                mx_array *copy = mx_array_copy(x);
                if (copy && !mx_array_set(x, mx_array_scalar(3)))
                    mx_array_text(x);
            }
        }
        mx_alloc_fail_at(0);
        failed = mx_error_code() != MX_OK;
        if (failed)
            expect_error(MX_ERR_MEMORY, "");
        assert_int_equal(mx_alloc_get_stats().live_blocks, live);
    }
    assert_false(failed);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(making),        cmocka_unit_test(impossible_shapes),
        cmocka_unit_test(wrong_objects), cmocka_unit_test(views),
        cmocka_unit_test(adopting),      cmocka_unit_test(filling),
        cmocka_unit_test(setting),       cmocka_unit_test(other_device),
        cmocka_unit_test(contexts),      cmocka_unit_test(failing_allocations),
        cmocka_unit_test(pinned_memory), cmocka_unit_test(gpu),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
