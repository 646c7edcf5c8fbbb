/* HDF5 files: the two forms, every truncation, every changed byte, parts that contain themselves, archives of Keras; a file of
 * h5py with more links than fit into a header.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/file.h"
#include "base/gzip.h"
#include "hdf5_files.h"
#include "ndarray/array.h"
#include "ndarray/params.h"

#define PATH GLUON_SOURCE_DIR "/tests/fuzz/regress/hdf5/many_links.h5"

static void expect_error(const char *part)
{
    assert_int_not_equal(mx_error_code(), MX_OK);
    if (!strstr(mx_error_message(), part))
        fail_msg("\"%s\" lacks \"%s\"", mx_error_message(), part);
    mx_error_clear();
}

static mx_array_dict *load(const hdf5_bytes *b)
{
    mx_array_dict *dict = mx_load_buffer(b->bytes, (size_t)b->size);
    if (!dict)
        fail_msg("%s", mx_error_message());
    return dict;
}

/* The array of a name has this shape, and the elements 0, 1, 2 ... */
static void expect_counting(const mx_array_dict *dict, const char *name, int rank, int64_t first, int64_t second)
{
    const mx_array *x = mx_array_dict_get(dict, name);
    if (!x)
        fail_msg("there is no %s", name);
    assert_int_equal(x->ndim, rank);
    assert_int_equal(x->shape[0], first);
    if (rank > 1)
        assert_int_equal(x->shape[1], second);
    for (int64_t i = 0; i < x->size; i++)
        assert_float_equal(((const float *)mx_data(x))[i], (float)i, 0);
}

static void test_the_old_form(void **state)
{
    (void)state;
    MX_SCOPE;
    hdf5_bytes b;
    hdf5_old(&b);
    const mx_array_dict *dict = load(&b);
    assert_int_equal(mx_array_dict_count(dict), 2);
    expect_counting(dict, "vars/0", 2, 2, 3);
    expect_counting(dict, "vars/1", 1, 3, 0);
    dict = mx_load_bytes(b.bytes, (size_t)b.size, "bytes", mx_hdf5_read_layers);
    expect_counting(dict, "first/0", 2, 2, 3);
    expect_counting(dict, "first/1", 1, 3, 0);
}

/* An array after a group: the layer's name is that of the outer group again. */
static void test_a_group_before_an_array(void **state)
{
    (void)state;
    MX_SCOPE;
    static const int three[] = {3};
    static const char *const names[] = {"0", "1"}, *const outer[] = {"vars"};
    hdf5_bytes b;
    hdf5_old(&b);
    int64_t objects[2];
    objects[1] = hdf5_contiguous(&b, 1, three, 3);
    objects[0] = hdf5_table(&b, 1, names, &objects[1], "inner");
    objects[0] = hdf5_table(&b, 2, names, objects, "outer");
    const int64_t root = hdf5_table(&b, 1, outer, objects, NULL);
    hdf5_set(&b, 40, (uint64_t)b.size, 8), hdf5_set(&b, 64, (uint64_t)root, 8);
    const mx_array_dict *dict = mx_load_bytes(b.bytes, (size_t)b.size, "bytes", mx_hdf5_read_layers);
    expect_counting(dict, "vars/0/0", 1, 3, 0);
    expect_counting(dict, "outer/1", 1, 3, 0);
}

static void test_the_new_form(void **state)
{
    (void)state;
    MX_SCOPE;
    hdf5_bytes b;
    if (!mx_gzip_available())
        skip();
    hdf5_new(&b);
    const mx_array_dict *dict = load(&b);
    assert_int_equal(mx_array_dict_count(dict), 2);
    expect_counting(dict, "a/x", 2, 2, 3);
    expect_counting(dict, "a/y", 1, 3, 0);
}

/* h5py.File(path, "w", libver="v108") with nine arrays of one element in their headers: one more than fit into the header of a group. */
static void test_many_links(void **state)
{
    (void)state;
    MX_SCOPE;
    const mx_array_dict *dict = mx_load(PATH);
    if (!dict)
        fail_msg("%s", mx_error_message());
    assert_int_equal(mx_array_dict_count(dict), 9);
    for (int i = 0; i < 9; i++) {
        char name[16];
        snprintf(name, sizeof name, "w%d", i);
        const mx_array *x = mx_array_dict_get(dict, name);
        assert_non_null(x);
        assert_int_equal(*(const int8_t *)mx_data(x), i);
    }
    assert_string_equal(mx_load_format(PATH), "hdf5");
    assert_null(mx_save_format("x.hdf5"));
}

/* ---- damaged files --------------------------------------------------------------------------------------------------- */

/* Read or refused with a message; never more memory than the file could fill. */
static bool try_bytes(const unsigned char *bytes, int64_t size)
{
    MX_SCOPE;
    mx_alloc_set_limit(((size_t)1 << 18) + 1032 * (size_t)size);
    const bool read = mx_load_buffer(bytes, (size_t)size) != NULL;
    mx_alloc_set_limit(0);
    assert_int_equal(read, mx_error_code() == MX_OK);
    if (!read && mx_error_code() != MX_ERR_FILE)
        fail_msg("%s", mx_error_message());
    mx_error_clear();
    return read;
}

static void damage(const unsigned char *bytes, int64_t size, int64_t step)
{
    unsigned char *changed = malloc(size > 0 ? (size_t)size : 1);
    assert_non_null(changed);
    for (int64_t at = 0; at < size; at += step)
        for (int k = 0; k < 5; k++) {
            static const unsigned char values[] = {0x00, 0xff, 0x7f, 0x01, 0x10};
            memcpy(changed, bytes, (size_t)size);
            changed[at] = values[k];
            try_bytes(changed, size);
        }
    free(changed);
}

static void test_damage(void **state)
{
    (void)state;
    hdf5_bytes b;
    for (int form = 0; form < 2; form++) {
        (form ? hdf5_new : hdf5_old)(&b);
        for (int64_t size = 0; size < b.size - 4; size++) /* the last four bytes may be a checksum */
            if (try_bytes(b.bytes, size))
                fail_msg("form %d is read when it ends after %lld bytes", form, (long long)size);
        damage(b.bytes, b.size, 1);
    }
    int64_t size = 0;
    unsigned char *bytes = mx_file_read(PATH, 1 << 20, &size);
    assert_non_null(bytes);
    for (int64_t part = 0; part < size; part += 7)
        try_bytes(bytes, part);
    damage(bytes, size, 3);
    mx_free(bytes, (size_t)size + 1);
}

static void refused(const hdf5_bytes *b, const char *part)
{
    MX_SCOPE;
    assert_null(mx_load_buffer(b->bytes, (size_t)b->size));
    expect_error(part);
}

/* A group that lists itself, a heap of names outside the file, an array larger than the file. */
static void test_hostile(void **state)
{
    (void)state;
    hdf5_bytes b;
    hdf5_old(&b);
    const uint64_t root = b.bytes[64] | (uint64_t)b.bytes[65] << 8;
    int64_t leaf = 0, header = 0;
    for (int64_t i = 0; i + 4 < b.size; i++)
        leaf = memcmp(b.bytes + i, "SNOD", 4) ? leaf : i; /* the last one is that of the root */
    for (int64_t i = 96; !header; i += 8)
        header = b.bytes[i] == 1 && b.bytes[i + 2] == 3 ? i : 0; /* the first array's: three messages */
    hdf5_set(&b, leaf + 16, root, 8);
    refused(&b, "'/vars/vars");
    hdf5_old(&b);
    hdf5_set(&b, header + 16 + 8 + 8, UINT64_C(1) << 40, 8);
    refused(&b, "'/vars/0': the elements");
    hdf5_old(&b);
    hdf5_set(&b, header + 16 + 8 + 8, UINT64_MAX / 2, 8);
    refused(&b, "too large");
    hdf5_old(&b);
    hdf5_set(&b, leaf + 8, 4000, 8);
    refused(&b, "outside its heap");
    hdf5_old(&b);
    int64_t type = 0;
    while (memcmp(b.bytes + type, "\x11\x20\x1f\0\4\0\0\0\0\0\x20", 11))
        type++;
    b.bytes[type + 8] = 1;
    refused(&b, "elements of class 1 with 4 bytes are no numbers");
    hdf5_old(&b);
    hdf5_set(&b, type + 24 + 8 + 2, UINT64_MAX, 8);
    refused(&b, "'/vars/0': the array has a shape and no elements");
    hdf5_old(&b);
    hdf5_set(&b, type + 24 + 8 + 2, UINT64_MAX - 1, 8);
    refused(&b, "are outside the file");
    hdf5_old(&b);
    b.bytes[8] = 9;
    refused(&b, "the superblock (version 9)");
    hdf5_new(&b);
    memset(b.bytes + 36, 0xff, 8);
    refused(&b, "outside the file");
}

/* The index of a group with many links has at most 16 levels: with 16 the root is read, and found to be a leaf. */
static void test_deep_indices(void **state)
{
    (void)state;
    static const char *const why[] = {"BTIN", "depth 17) is damaged"};
    int64_t size = 0, index = 0;
    unsigned char *bytes = mx_file_read(PATH, 1 << 20, &size);
    assert_non_null(bytes);
    while (index + 14 < size && memcmp(bytes + index, "BTHD", 4))
        index++;
    for (int i = 0; i < 2; i++) {
        MX_SCOPE;
        bytes[index + 12] = (unsigned char)(16 + i);
        assert_null(mx_load_buffer(bytes, (size_t)size));
        expect_error(why[i]);
    }
    mx_free(bytes, (size_t)size + 1);
}

/* An archive with any entry of this name; weights are found in it. */
static void test_keras_archive(void **state)
{
    (void)state;
    MX_SCOPE;
    hdf5_bytes b, zip = {0};
    uint32_t crc = 0xffffffff;
    const char *name = "model.weights.h5";
    hdf5_old(&b);
    for (int64_t i = 0; i < b.size; i++)
        for (int k = 0; k < 8; k++)
            crc = (crc >> 1) ^ (((crc ^ (uint32_t)(b.bytes[i] >> k)) & 1) ? 0xedb88320u : 0);
    for (int directory = 0; directory < 2; directory++) {
        hdf5_put(&zip, directory ? 0x02014b50 : 0x04034b50, 4), hdf5_put(&zip, 20, directory ? 4 : 2);
        hdf5_put(&zip, 0, 8), hdf5_put(&zip, ~crc, 4), hdf5_put(&zip, (uint64_t)b.size, 4),
            hdf5_put(&zip, (uint64_t)b.size, 4);
        hdf5_put(&zip, 16, directory ? 18 : 4), hdf5_text(&zip, name, 16);
        if (!directory)
            memcpy(zip.bytes + zip.size, b.bytes, (size_t)b.size), zip.size += b.size;
    }
    hdf5_put(&zip, 0x06054b50, 8), hdf5_put(&zip, 1, 2), hdf5_put(&zip, 1, 2), hdf5_put(&zip, 62, 4);
    hdf5_put(&zip, 46 + (uint64_t)b.size, 6);
    const mx_array_dict *dict = load(&zip);
    expect_counting(dict, "vars/0", 2, 2, 3);
    dict = mx_load_bytes(zip.bytes, (size_t)zip.size, "bytes", mx_keras_read_layers);
    expect_counting(dict, "first/1", 1, 3, 0);
}

/* Every allocation fails once: an error, and nothing is left behind. */
static void test_failing_allocations(void **state)
{
    (void)state;
    hdf5_bytes b;
    for (int form = 0; form < (mx_gzip_available() ? 2 : 1); form++) {
        bool failed = true;
        (form ? hdf5_new : hdf5_old)(&b);
        mx_scoped()
            load(&b);
        const int64_t live = mx_alloc_get_stats().live_blocks;
        for (int n = 1; failed && n < 500; n++) {
            mx_alloc_fail_at(n);
            mx_scoped()
                mx_load_bytes(b.bytes, (size_t)b.size, "bytes", mx_hdf5_read_layers);
            mx_alloc_fail_at(0);
            failed = mx_error_code() != MX_OK;
            if (failed)
                assert_int_equal(mx_error_code(), MX_ERR_MEMORY);
            mx_error_clear();
            assert_int_equal(mx_alloc_get_stats().live_blocks, live);
        }
        assert_false(failed);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_old_form), cmocka_unit_test(test_the_new_form), cmocka_unit_test(test_many_links),
        cmocka_unit_test(test_damage),       cmocka_unit_test(test_hostile),      cmocka_unit_test(test_keras_archive),
        cmocka_unit_test(test_deep_indices), cmocka_unit_test(test_a_group_before_an_array),
        cmocka_unit_test(test_failing_allocations),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
