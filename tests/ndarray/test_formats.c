/* Safetensors and NPZ files: round trips in every type, files written by hand, every truncation, every changed byte;
 * the choice of the format by contents and by suffix.
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
#include "ndarray/array.h"
#include "ndarray/dtype.h"

static char folder[64];
static const char *path_of(const char *name)
{
    static char path[128];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    return path;
}

static int make_folder(void **state)
{
    (void)state;
    strcpy(folder, "/tmp/gluon_formats_XXXXXX");
    return mkdtemp(folder) ? 0 : -1;
}

static int remove_folder(void **state)
{
    (void)state;
    unlink(path_of("a"));
    return rmdir(folder); /* fails if a temporary file was left behind */
}

static void expect_error(mx_code code, const char *part)
{
    assert_int_equal(mx_error_code(), code);
    if (!strstr(mx_error_message(), part))
        fail_msg("\"%s\" lacks \"%s\"", mx_error_message(), part);
    mx_error_clear();
}

static const struct format {
    const char *name;
    mx_array_dict *(*load)(const char *path);
    mx_code (*save)(const char *path, mx_arrays arrays, const char *const *names);
} formats[] = {{"safetensors", mx_load_safetensors, mx_save_safetensors}, {"npz", mx_load_npz, mx_save_npz}};
enum { FORMATS = 2 };

static mx_array *counting(mx_dims shape, mx_dtype dtype)
{
    mx_array *x = mx_empty(shape, dtype, mx_cpu(0));
    unsigned char *bytes = mx_array_data(x);
    for (size_t i = 0; i < mx_bytes(x); i++)
        bytes[i] = dtype == MX_BOOL ? i % 2 : (unsigned char)(i * 7 + 1);
    return x;
}

static void save_sample(const struct format *format)
{
    mx_array *list[] = {counting(MX_DIMS(2, 3), MX_FLOAT32), counting(MX_DIMS(5), MX_INT32),
                        counting(MX_SCALAR_DIMS, MX_FLOAT64)};
    static const char *const names[] = {"arg:weight", "aux:\xc3\xa4 \"mean\"", "scalar"};
    assert_int_equal(format->save(path_of("a"), (mx_arrays){list, 3}, names), MX_OK);
}

/* ---- round trips ----------------------------------------------------------------------------------------------- */

static void test_every_type(void **state)
{
    (void)state;
    for (int f = 0; f < FORMATS; f++)
        for (int type = 0; type < MX_DTYPE_END; type++) {
            MX_SCOPE;
            static const char *const names[] = {"x", "empty", "scalar"};
            if (!mx_dtype_valid(type))
                continue;
            mx_array *list[] = {counting(MX_DIMS(3, 1, 4), (mx_dtype)type), counting(MX_DIMS(0, 2), (mx_dtype)type),
                                counting(MX_SCALAR_DIMS, (mx_dtype)type)};
            assert_int_equal(formats[f].save(path_of("a"), (mx_arrays){list, 3}, names), MX_OK);
            mx_array_dict *dict = formats[f].load(path_of("a"));
            if (!dict)
                fail_msg("%s, type %d: %s", formats[f].name, type, mx_error_message());
            for (int i = 0; i < 3; i++) {
                mx_array *x = mx_array_dict_get(dict, names[i]);
                assert_non_null(x);
                assert_int_equal(x->dtype, type);
                assert_int_equal(x->ndim, list[i]->ndim);
                assert_memory_equal(x->shape, list[i]->shape, (size_t)x->ndim * sizeof *x->shape);
                if (x->size)
                    assert_memory_equal(mx_data(x), mx_data(list[i]), mx_bytes(x));
            }
        }
}

static void test_names(void **state)
{
    (void)state;
    for (int f = 0; f < FORMATS; f++) {
        MX_SCOPE;
        save_sample(&formats[f]);
        mx_array_dict *dict = formats[f].load(path_of("a"));
        assert_int_equal(mx_array_dict_count(dict), 3);
        assert_string_equal(mx_array_dict_name(dict, 0), "arg:weight");
        assert_string_equal(mx_array_dict_name(dict, 1), "aux:\xc3\xa4 \"mean\"");
        mx_array *x = counting(MX_DIMS(1), MX_FLOAT32), *list[] = {x, x};
        static const char *const twice[] = {"a", "a"};
        assert_int_not_equal(formats[f].save(path_of("a"), (mx_arrays){list, 2}, twice), MX_OK);
        expect_error(MX_ERR_ARGUMENT, "twice");
        assert_int_not_equal(formats[f].save(path_of("a"), (mx_arrays){list, 2}, NULL), MX_OK);
        expect_error(MX_ERR_ARGUMENT, "names is NULL");
        assert_int_not_equal(formats[f].save(path_of("no/a"), (mx_arrays){list, 1}, twice), MX_OK);
        expect_error(MX_ERR_FILE, "no/a");
        assert_non_null(formats[f].load(path_of("a"))); /* the earlier file is intact */
        assert_null(formats[f].load(path_of("none")));
        expect_error(MX_ERR_FILE, "none");
        assert_null(formats[f].load(NULL));
        expect_error(MX_ERR_ARGUMENT, "path is NULL");
    }
}

/* ---- damage ---------------------------------------------------------------------------------------------------- */

/* No byte string may do more than give an error. */
static void try_bytes(const struct format *format, const void *bytes, int64_t size)
{
    MX_SCOPE;
    assert_true(mx_file_write(path_of("a"), bytes, size));
    mx_array_dict *dict = format->load(path_of("a"));
    if (dict)
        for (int64_t i = 0; i < mx_array_dict_count(dict); i++)
            assert_non_null(mx_array_dict_at(dict, i));
    else
        assert_int_not_equal(mx_error_code(), MX_OK);
    mx_error_clear();
}

static void test_damage(void **state)
{
    (void)state;
    for (int f = 0; f < FORMATS; f++) {
        int64_t size;
        save_sample(&formats[f]);
        unsigned char *bytes = mx_file_read(path_of("a"), 1 << 20, &size), *changed = malloc((size_t)size);
        assert_non_null(bytes);
        for (int64_t length = 0; length < size; length++) {
            MX_SCOPE;
            assert_true(mx_file_write(path_of("a"), bytes, length));
            assert_null(formats[f].load(path_of("a"))); /* every truncation is noticed */
            expect_error(MX_ERR_FILE, "a");
        }
        for (int64_t at = 0; at < size; at++)
            for (int k = 0; k < 4; k++) {
                static const unsigned char values[] = {0x00, 0xff, 0x7f, '9'};
                memcpy(changed, bytes, (size_t)size);
                changed[at] = values[k];
                try_bytes(&formats[f], changed, size);
            }
        free(changed);
        mx_free(bytes, (size_t)size + 1);
    }
}

static void refuse_tensors(const char *header, int data, const char *part)
{
    MX_SCOPE;
    unsigned char bytes[1024] = {0};
    const size_t length = strlen(header);
    for (int i = 0; i < 8; i++)
        bytes[i] = (unsigned char)((uint64_t)length >> 8 * i);
    memcpy(bytes + 8, header, length);
    assert_true(mx_file_write(path_of("a"), bytes, 8 + (int64_t)length + data));
    assert_null(mx_load_safetensors(path_of("a")));
    expect_error(MX_ERR_FILE, part);
}

#define ROW(name, shape, range) "\"" name "\":{\"dtype\":\"F32\",\"shape\":" shape ",\"data_offsets\":" range "}"

static void test_tensor_headers(void **state)
{
    (void)state;
    refuse_tensors("{" ROW("a", "[2]", "[0,4]") "}", 8, "does not fit");
    refuse_tensors("{" ROW("a", "[2]", "[0,8]") "}", 4, "does not fit");
    refuse_tensors("{" ROW("a", "[2]", "[8,0]") "}", 8, "does not fit");
    refuse_tensors("{" ROW("a", "[-2]", "[0,8]") "}", 8, "an array");
    refuse_tensors("{" ROW("a", "[4611686018427387904,4]", "[0,8]") "}", 8, "an array");
    refuse_tensors("{" ROW("a", "[1]", "[4,8]") "}", 8, "gap");
    refuse_tensors("{" ROW("a", "[1]", "[0,4]") "," ROW("b", "[1]", "[0,4]") "}", 4, "overlap");
    refuse_tensors("{" ROW("a", "[1]", "[0,4]") "," ROW("a", "[1]", "[4,8]") "}", 8, "twice");
    refuse_tensors("{" ROW("a", "[1]", "[0,4]") "}", 8, "belong to no array");
    refuse_tensors("{" ROW("a", "[1,1,1,1,1,1,1,1,1]", "[0,4]") "}", 4, "axes");
    refuse_tensors("{" ROW("a", "[1]", "[0]") "}", 4, "");
    refuse_tensors("{\"a\":{\"dtype\":\"F99\",\"shape\":[1],\"data_offsets\":[0,4]}}", 4, "F99");
    refuse_tensors("{\"a\":{\"shape\":[1],\"data_offsets\":[0,4]}}", 4, "dtype");
    refuse_tensors("{\"a\":7}", 4, "");
    refuse_tensors("[1]", 4, "object");
    refuse_tensors("{\"a\":", 0, "");
}

static void test_metadata_is_skipped(void **state)
{
    (void)state;
    MX_SCOPE;
    const char *header = "{\"__metadata__\":{\"format\":\"pt\"}," ROW("a", "[1]", "[0,4]") "}";
    unsigned char bytes[256] = {(unsigned char)strlen(header)};
    memcpy(bytes + 8, header, strlen(header));
    assert_true(mx_file_write(path_of("a"), bytes, 12 + (int64_t)strlen(header)));
    assert_int_equal(mx_array_dict_count(mx_load_safetensors(path_of("a"))), 1);
}

/* What numpy.savez_compressed(a=numpy.arange(4, dtype="f4")) writes. */
static const unsigned char packed[] = {
#include "npz_packed.inc"
};

static void test_packed(void **state)
{
    (void)state;
    MX_SCOPE;
    assert_true(mx_file_write(path_of("a"), packed, sizeof packed));
    mx_array_dict *dict = mx_load_npz(path_of("a"));
    if (!mx_gzip_available()) {
        assert_null(dict);
        expect_error(MX_ERR_UNSUPPORTED, "zlib");
        return;
    }
    mx_array *x = mx_array_dict_get(dict, "a");
    const float wanted[] = {0, 1, 2, 3};
    assert_non_null(x);
    assert_memory_equal(mx_data(x), wanted, sizeof wanted);
    unsigned char changed[sizeof packed];
    for (size_t at = 0; at < sizeof packed; at++)
        for (int k = 0; k < 2; k++) {
            memcpy(changed, packed, sizeof packed);
            changed[at] = k ? 0xff : 0;
            try_bytes(&formats[1], changed, sizeof packed);
        }
}

/* ---- the choice of a format ------------------------------------------------------------------------------------- */

/* mx_save() writes the format of the suffix; mx_load() finds it again under a name that says nothing. */
static void test_by_contents(void **state)
{
    (void)state;
    static const char *const names[] = {"arg:w", "b"}, *const suffixes[] = {"params", "safetensors", "npz"};
    for (int i = 0; i < 3; i++) {
        MX_SCOPE;
        char path[160], name[32];
        mx_array *list[] = {counting(MX_DIMS(2, 3), MX_FLOAT32), counting(MX_DIMS(0, 2), MX_INT32)};
        snprintf(name, sizeof name, "x.%s", suffixes[i]);
        snprintf(path, sizeof path, "%s", path_of(name));
        assert_string_equal(mx_save_format(path), suffixes[i]);
        assert_int_equal(mx_save(path, (mx_arrays){list, 2}, names), MX_OK);
        const int first = dup(0); /* looking at a file leaves none open */
        close(first);
        for (int k = 0; k < 4; k++)
            assert_string_equal(mx_load_format(path), suffixes[i]);
        const int next = dup(0);
        close(next);
        assert_int_equal(next, first);
        for (int named = 0; named < 2; named++) {
            assert_int_equal(mx_save(path, (mx_arrays){list, 2}, named ? names : NULL), MX_OK);
            assert_string_equal(mx_load_format(path), suffixes[i]);
            assert_int_equal(rename(path, path_of("a")), 0);
            mx_array_dict *dict = mx_load(path_of("a"));
            assert_int_equal(mx_array_dict_count(dict), 2);
            if (named)
                assert_string_equal(mx_array_dict_name(dict, 0), "arg:w");
            else
                assert_null(mx_array_dict_name(dict, 0)); /* a list comes back as a list */
            assert_memory_equal(mx_data(mx_array_dict_at(dict, 0)), mx_data(list[0]), mx_bytes(list[0]));
            int64_t size;
            void *bytes = mx_file_read(path_of("a"), 1 << 20, &size);
            assert_int_equal(mx_array_dict_count(mx_load_buffer(bytes, (size_t)size)), 2);
            mx_free(bytes, (size_t)size + 1);
        }
    }
    assert_null(mx_save_format("net.v1/weights"));
    assert_string_equal(mx_save_format("W.NPZ"), "npz");
    assert_true(mx_file_write(path_of("a"), "{\"nodes\": []} and more", 22));
    assert_null(mx_load_format(path_of("a")));
    assert_int_equal(mx_error_code(), MX_OK);
    assert_null(mx_load(path_of("a")));
    expect_error(MX_ERR_FILE, ".safetensors");
}

static void test_one_array(void **state)
{
    (void)state;
    MX_SCOPE;
    static const char *const names[] = {"w"};
    char path[160];
    snprintf(path, sizeof path, "%s", path_of("x.npy"));
    mx_array *x = counting(MX_DIMS(2, 2), MX_INT64), *list[] = {x, x};
    assert_int_equal(mx_save(path, (mx_arrays){list, 1}, NULL), MX_OK);
    assert_int_equal(rename(path, path_of("a")), 0);
    assert_string_equal(mx_load_format(path_of("a")), "npy");
    mx_array_dict *dict = mx_load(path_of("a"));
    assert_int_equal(mx_array_dict_count(dict), 1);
    assert_null(mx_array_dict_name(dict, 0));
    assert_memory_equal(mx_data(mx_array_dict_at(dict, 0)), mx_data(x), mx_bytes(x));
    assert_int_not_equal(mx_save(path, (mx_arrays){list, 2}, NULL), MX_OK);
    expect_error(MX_ERR_ARGUMENT, "got 2 arrays");
    assert_int_not_equal(mx_save(path, (mx_arrays){list, 1}, names), MX_OK);
    expect_error(MX_ERR_ARGUMENT, ".npz");
}

/* Somebody who has the empty file open sees what is saved; another file is replaced. */
static void test_empty_file_in_place(void **state)
{
    (void)state;
    MX_SCOPE;
    mx_array *x = counting(MX_DIMS(3), MX_FLOAT32);
    FILE *open_file = fopen(path_of("a"), "w+b");
    assert_int_equal(mx_save(path_of("a"), MX_ARRAYS(x), NULL), MX_OK);
    fseek(open_file, 0, SEEK_END);
    assert_int_equal(ftell(open_file), 76); /* a record of 36 bytes and 12 of elements in a list */
    assert_int_equal(mx_save(path_of("a"), MX_ARRAYS(x, x), NULL), MX_OK);
    fseek(open_file, 0, SEEK_END);
    assert_int_equal(ftell(open_file), 76);
    fclose(open_file);
    assert_int_equal(mx_array_dict_count(mx_load(path_of("a"))), 2);
}

/* Any allocation may fail: an error, nothing leaked, the earlier file intact. */
static void test_failing_allocations(void **state)
{
    (void)state;
    static const char *const names[] = {"x", "y"};
    for (int f = 0; f < FORMATS; f++) {
        MX_SCOPE;
        bool failed = true;
        mx_array *list[] = {counting(MX_DIMS(2, 3), MX_FLOAT32), counting(MX_DIMS(4), MX_INT64)};
        assert_int_equal(formats[f].save(path_of("a"), (mx_arrays){list, 2}, names), MX_OK);
        mx_scoped()
            formats[f].load(path_of("a"));
        const int64_t live = mx_alloc_get_stats().live_blocks;
        for (int n = 1; failed && n < 300; n++) {
            mx_alloc_fail_at(n);
            mx_scoped() {
                if (formats[f].load(path_of("a")))
                    formats[f].save(path_of("a"), (mx_arrays){list, 2}, names);
            }
            mx_alloc_fail_at(0);
            failed = mx_error_code() != MX_OK;
            if (failed)
                expect_error(MX_ERR_MEMORY, "");
            assert_int_equal(mx_alloc_get_stats().live_blocks, live);
        }
        assert_false(failed);
        mx_scoped()
            assert_int_equal(mx_array_dict_count(formats[f].load(path_of("a"))), 2);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_every_type, make_folder, remove_folder),
        cmocka_unit_test_setup_teardown(test_names, make_folder, remove_folder),
        cmocka_unit_test_setup_teardown(test_damage, make_folder, remove_folder),
        cmocka_unit_test_setup_teardown(test_tensor_headers, make_folder, remove_folder),
        cmocka_unit_test_setup_teardown(test_metadata_is_skipped, make_folder, remove_folder),
        cmocka_unit_test_setup_teardown(test_packed, make_folder, remove_folder),
        cmocka_unit_test_setup_teardown(test_by_contents, make_folder, remove_folder),
        cmocka_unit_test_setup_teardown(test_one_array, make_folder, remove_folder),
        cmocka_unit_test_setup_teardown(test_empty_file_in_place, make_folder, remove_folder),
        cmocka_unit_test_setup_teardown(test_failing_allocations, make_folder, remove_folder),
    };
    return cmocka_run_group_tests_name("formats", tests, NULL, NULL);
}
