/* .params and NPY files: round trips, files written by hand in every version, sparse records, damage of all kinds.
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
#include "ndarray/array.h"
#include "gluon/sparse.h"
#include "ndarray/dtype.h"
#include "ndarray/params.h"

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
    strcpy(folder, "/tmp/gluon_files_XXXXXX");
    return mkdtemp(folder) ? 0 : -1;
}

static int remove_folder(void **state)
{
    (void)state;
    unlink(path_of("a.params"));
    unlink(path_of("a.npy"));
    return rmdir(folder); /* fails if a temporary file was left behind */
}

static void expect_error(mx_code code, const char *part)
{
    assert_int_equal(mx_error_code(), code);
    if (!strstr(mx_error_message(), part))
        fail_msg("\"%s\" lacks \"%s\"", mx_error_message(), part);
    mx_error_clear();
}

/* ---- bytes assembled by hand --------------------------------------------------------------------------------- */
typedef struct {
    unsigned char at[4096];
    size_t count;
} bytes;

static void put(bytes *b, uint64_t value, int width)
{
    for (int i = 0; i < width; i++)
        b->at[b->count++] = (unsigned char)(value >> (8 * i));
}
#define U32(b, ...) put_all(b, 4, (const uint64_t[]){__VA_ARGS__}, MX_COUNT(__VA_ARGS__))
#define U64(b, ...) put_all(b, 8, (const uint64_t[]){__VA_ARGS__}, MX_COUNT(__VA_ARGS__))
static void put_all(bytes *b, int width, const uint64_t *values, int count)
{
    for (int i = 0; i < count; i++)
        put(b, values[i], width);
}
static void put_floats(bytes *b, int count, const float *values)
{
    memcpy(b->at + b->count, values, (size_t)count * 4);
    b->count += (size_t)count * 4;
}
#define F32(b, ...) put_floats(b, MX_COUNT(__VA_ARGS__), (const float[]){__VA_ARGS__})

static void expect_array(const mx_array *x, mx_dtype dtype, mx_dims shape, const double *values)
{
    double read[64];
    if (!x)
        fail_msg("no array: %s", mx_error_message());
    assert_int_equal(mx_dtype_of(x), dtype);
    assert_int_equal(mx_ndim(x), shape.n);
    for (int i = 0; i < shape.n; i++)
        assert_int_equal(mx_dim(x, i), shape.d[i]);
    assert_int_equal(mx_array_read_doubles(x, read, mx_size(x)), MX_OK);
    for (int64_t i = 0; i < mx_size(x); i++)
        assert_true(read[i] == values[i]);
}
#define EXPECT(x, dtype, shape, ...) expect_array(x, dtype, shape, (const double[]){__VA_ARGS__})

/* All record versions in one list of six, the last two without an array. */
static bytes all_versions(void)
{
    bytes b = {.count = 0};
    U64(&b, 0x112, 0, 6);
    U32(&b, 2, 2, 1, 1, 0, 0); /* V0: ndim 2, sizes 2 1; cpu 0; float32 */
    F32(&b, 1, 2);
    U32(&b, 0xF993FAC8, 1); /* V1: (2,) int32, once on gpu(1) */
    U64(&b, 2);
    U32(&b, 2, 1, 4, 7, (uint32_t)-8);
    U32(&b, 0xF993FAC9, 0, 2); /* V2: (1, 3) uint8 */
    U64(&b, 1, 3);
    U32(&b, 1, 0, 3);
    put(&b, 0x030201, 3);
    U32(&b, 0xF993FACA, 0, 0, 1, 0, 1); /* V3: 0-d float64 */
    U64(&b, 0x4004000000000000);
    U32(&b, 0);                /* V0: none */
    U32(&b, 0xF993FAC9, 0, 0); /* V2: none */
    U64(&b, 0);
    return b;
}

static void every_version(void **state)
{
    (void)state;
    MX_SCOPE;
    bytes b = all_versions();
    mx_array_dict *dict = mx_load_buffer(b.at, b.count);
    assert_int_equal(mx_array_dict_count(dict), 6);
    assert_null(mx_array_dict_name(dict, 0));
    EXPECT(mx_array_dict_at(dict, 0), MX_FLOAT32, MX_DIMS(2, 1), 1, 2);
    EXPECT(mx_array_dict_at(dict, 1), MX_INT32, MX_DIMS(2), 7, -8);
    EXPECT(mx_array_dict_at(dict, 2), MX_UINT8, MX_DIMS(1, 3), 1, 2, 3);
    EXPECT(mx_array_dict_at(dict, 3), MX_FLOAT64, MX_SCALAR_DIMS, 2.5);
    assert_int_equal(mx_size(mx_array_dict_at(dict, 4)), 0);
    assert_int_equal(mx_size(mx_array_dict_at(dict, 5)), 0);
    assert_null(mx_array_dict_get(dict, "absent"));
    assert_int_equal(mx_error_code(), MX_OK);
    assert_null(mx_array_dict_at(dict, 6));
    expect_error(MX_ERR_INDEX, "6");
}

static void wide_integers(void **state)
{
    (void)state;
    MX_SCOPE;
    static const struct { int code, width; mx_dtype dtype; uint64_t in; double out; } cases[] = {
        {8, 2, MX_INT32, 0xfffe, -2}, {9, 2, MX_INT32, 0xfffe, 65534}, {10, 4, MX_INT64, 0xfffffffe, 4294967294.0},
        {11, 8, MX_INT64, (uint64_t)1 << 62, 0x1p62},
    };
    for (size_t i = 0; i < 4; i++) {
        bytes b = {.count = 0};
        U64(&b, 0x112, 0, 1);
        U32(&b, 0xF993FAC9, 0, 1);
        U64(&b, 1);
        U32(&b, 1, 0, (uint64_t)cases[i].code);
        put(&b, cases[i].in, cases[i].width);
        U64(&b, 0);
        EXPECT(mx_array_dict_at(mx_load_buffer(b.at, b.count), 0), cases[i].dtype, MX_DIMS(1), cases[i].out);
        if (cases[i].width == 8) {
            b.at[b.count - 9] = 0xff;
            assert_null(mx_load_buffer(b.at, b.count));
            expect_error(MX_ERR_FILE, "uint64");
        }
    }
}

/* (4, 2) row_sparse with rows 1 and 3; (2, 3) csr with [[0 5 0] [6 0 7]] */
static bytes sparse_records(void)
{
    bytes b = {.count = 0};
    U64(&b, 0x112, 0, 2);
    U32(&b, 0xF993FAC9, 1, 2);
    U64(&b, 2, 2);
    U32(&b, 2);
    U64(&b, 4, 2);
    U32(&b, 1, 0, 0, 6, 1);
    U64(&b, 2);
    F32(&b, 1, 2, 3, 4);
    U64(&b, 1, 3);
    U32(&b, 0xF993FAC9, 2, 1);
    U64(&b, 3);
    U32(&b, 2);
    U64(&b, 2, 3);
    U32(&b, 1, 0, 0, 6, 1);
    U64(&b, 3);
    U32(&b, 4, 1); /* indices as int32 */
    U64(&b, 3);
    F32(&b, 5, 6, 7);
    U64(&b, 0, 1, 3);
    U32(&b, 1, 0, 2);
    U64(&b, 0);
    return b;
}

static void sparse(void **state)
{
    (void)state;
    MX_SCOPE;
    bytes b = sparse_records();
    mx_array_dict *dict = mx_load_buffer(b.at, b.count);
    assert_int_equal(mx_stype_of(mx_array_dict_at(dict, 0)), MX_ROW_SPARSE);
    assert_int_equal(mx_stype_of(mx_array_dict_at(dict, 1)), MX_CSR);
    EXPECT(mx_tostype(mx_array_dict_at(dict, 0), MX_STYPE_DEFAULT), MX_FLOAT32, MX_DIMS(4, 2), 0, 0, 1, 2, 0, 0, 3, 4);
    EXPECT(mx_tostype(mx_array_dict_at(dict, 1), MX_STYPE_DEFAULT), MX_FLOAT32, MX_DIMS(2, 3), 0, 5, 0, 6, 0, 7);
    bytes wrong = b;
    wrong.at[wrong.count - 12] = 3; /* a column of 3 */
    assert_null(mx_load_buffer(wrong.at, wrong.count));
    expect_error(MX_ERR_FILE, "column 3");
    wrong = b;
    wrong.at[wrong.count - 20 - 16] = 4; /* row starts 0 4 3 */
    assert_null(mx_load_buffer(wrong.at, wrong.count));
    expect_error(MX_ERR_FILE, "row");
    wrong = b;
    wrong.at[24 + 4 + 4 + 20 + 4 + 4] = 1; /* 2^32 + 4 rows, two of them stored */
    mx_array *large = mx_array_dict_at(mx_load_buffer(wrong.at, wrong.count), 0);
    assert_int_equal(mx_dim(large, 0), ((int64_t)1 << 32) + 4);
    assert_int_equal(mx_sparse_count(large), 2);
}

/* A (2, 3) csr without elements: MXNet writes no row starts. */
static void empty_csr(void **state)
{
    (void)state;
    MX_SCOPE;
    bytes b = {.count = 0};
    U64(&b, 0x112, 0, 1);
    U32(&b, 0xF993FAC9, 2, 1);
    U64(&b, 0);
    U32(&b, 2);
    U64(&b, 2, 3);
    U32(&b, 1, 0, 0, 6, 1);
    U64(&b, 0);
    U32(&b, 6, 1);
    U64(&b, 0);
    U64(&b, 0);
    mx_array_dict *dict = mx_load_buffer(b.at, b.count);
    assert_non_null(dict);
    assert_int_equal(mx_stype_of(mx_array_dict_at(dict, 0)), MX_CSR);
    EXPECT(mx_tostype(mx_array_dict_at(dict, 0), MX_STYPE_DEFAULT), MX_FLOAT32, MX_DIMS(2, 3), 0, 0, 0, 0, 0, 0);
    EXPECT(mx_sparse_indptr(mx_array_dict_at(dict, 0)), MX_INT64, MX_DIMS(3), 0, 0, 0);
}

/* ---- round trips ------------------------------------------------------------------------------------------- */
static void round_trips(void **state)
{
    (void)state;
    MX_SCOPE;
    static const mx_dims shapes[] = {{2, {3, 2}}, {0, {0}}, {1, {0}}, {3, {2, 0, 3}}, {8, {1, 2, 1, 1, 3, 1, 1, 1}}};
    mx_array *arrays[64];
    char names[64][16];
    const char *name_list[64];
    int count = 0;
    for (int dtype = 0; dtype < MX_DTYPE_END; dtype++)
        for (int s = 0; mx_dtype_valid(dtype) && s < 5; s++, count++) {
            arrays[count] = mx_empty(shapes[s], (mx_dtype)dtype, mx_cpu(0));
            unsigned char *data = mx_array_data(arrays[count]);
            for (size_t i = 0; i < mx_bytes(arrays[count]); i++)
                data[i] = dtype == MX_BOOL ? i & 1 : (unsigned char)(37 * i + 11);
            snprintf(names[count], 16, "a%d \xc3\xa9", count);
            name_list[count] = names[count];
        }
    assert_int_equal(mx_save(path_of("a.params"), (mx_arrays){arrays, count}, name_list), MX_OK);
    mx_array_dict *dict = mx_load(path_of("a.params"));
    assert_int_equal(mx_array_dict_count(dict), count);
    for (int i = 0; i < count; i++) {
        mx_array *x = mx_array_dict_get(dict, names[i]);
        assert_non_null(x);
        assert_string_equal(mx_array_dict_name(dict, i), names[i]);
        assert_int_equal(x->dtype, arrays[i]->dtype);
        assert_int_equal(x->ndim, arrays[i]->ndim);
        assert_memory_equal(x->shape, arrays[i]->shape, (size_t)x->ndim * 8);
        if (x->size)
            assert_memory_equal(mx_data(x), mx_data(arrays[i]), mx_bytes(x));
        assert_int_equal(mx_save_npy(path_of("a.npy"), x), MX_OK);
        mx_array *y = mx_load_npy(path_of("a.npy"));
        assert_non_null(y);
        assert_int_equal(y->dtype, x->dtype);
        assert_int_equal(y->ndim, x->ndim);
        assert_memory_equal(y->shape, x->shape, (size_t)x->ndim * 8);
        if (x->size)
            assert_memory_equal(mx_data(x), mx_data(y), mx_bytes(x));
    }
    assert_int_equal(mx_save(path_of("a.params"), MX_ARRAYS(arrays[0], arrays[1]), NULL), MX_OK);
    dict = mx_load(path_of("a.params"));
    assert_int_equal(mx_array_dict_count(dict), 2);
    assert_null(mx_array_dict_name(dict, 0));
    assert_int_equal(mx_save(path_of("a.params"), (mx_arrays){NULL, 0}, NULL), MX_OK);
    assert_int_equal(mx_array_dict_count(mx_load(path_of("a.params"))), 0);
    assert_int_equal(mx_error_code(), MX_OK);
}

/* An ordinary array is written exactly as MXNet 1.9 writes it. */
static void bytes_as_mxnet(void **state)
{
    (void)state;
    MX_SCOPE;
    bytes b = {.count = 0}, file = {.count = 0};
    U64(&b, 0x112, 0, 1);
    U32(&b, 0xF993FAC9, 0, 1);
    U64(&b, 2);
    U32(&b, 1, 0, 0);
    F32(&b, 1, -2);
    U64(&b, 1, 1);
    put(&b, 'w', 1);
    mx_array *x = mx_array_from(MX_DIMS(2), MX_FLOAT32, (const float[]){1, -2});
    assert_int_equal(mx_save(path_of("a.params"), MX_ARRAYS(x), (const char *const[]){"w"}), MX_OK);
    FILE *stream = fopen(path_of("a.params"), "rb");
    file.count = fread(file.at, 1, sizeof file.at, stream);
    fclose(stream);
    assert_int_equal(file.count, b.count);
    assert_memory_equal(file.at, b.at, b.count);
}

static void wrong_calls(void **state)
{
    (void)state;
    MX_SCOPE;
    mx_array *x = mx_array_scalar(1);
    assert_null(mx_load(NULL));
    expect_error(MX_ERR_ARGUMENT, "mx_load");
    assert_null(mx_load(path_of("absent")));
    expect_error(MX_ERR_FILE, "absent");
    assert_null(mx_load_npy(path_of("absent")));
    expect_error(MX_ERR_FILE, "absent");
    assert_int_not_equal(mx_save(path_of("no/such/a.params"), MX_ARRAYS(x), NULL), MX_OK);
    expect_error(MX_ERR_FILE, "no/such");
    assert_int_equal(mx_save(path_of("a.params"), MX_ARRAYS(x, NULL), NULL), MX_ERR_ARGUMENT);
    expect_error(MX_ERR_ARGUMENT, "array 1");
    assert_int_equal(mx_save(path_of("a.params"), MX_ARRAYS(x, MX_NONE), NULL), MX_ERR_ARGUMENT);
    expect_error(MX_ERR_ARGUMENT, "MX_NONE");
    assert_int_equal(mx_save(path_of("a.params"), MX_ARRAYS(x), (const char *const[]){NULL}), MX_ERR_ARGUMENT);
    expect_error(MX_ERR_ARGUMENT, "name");
    assert_int_equal(mx_save_npy(NULL, x), MX_ERR_ARGUMENT);
    expect_error(MX_ERR_ARGUMENT, "path");
    assert_int_equal(mx_array_dict_count(NULL), 0);
    expect_error(MX_ERR_ARGUMENT, "dict");
    assert_null(mx_load_buffer("not a list of arrays", 20));
    expect_error(MX_ERR_FILE, "Invalid NDArray file format");
    static const uint64_t unknown[] = {0x123456789abcdef, 0};
    assert_null(mx_load_buffer(unknown, sizeof unknown));
    expect_error(MX_ERR_FILE, "starts with 0x123456789abcdef");
}

/* ---- damage ------------------------------------------------------------------------------------------------ */
typedef void (*try_fn)(const bytes *b);

static void try_params(const bytes *b)
{
    mx_scoped() {
        mx_array_dict *dict = mx_load_buffer(b->at, b->count);
        assert_int_equal(mx_error_code(), dict ? MX_OK : MX_ERR_FILE);
    }
    mx_error_clear();
}

static void write_file(const char *path, const bytes *b)
{
    FILE *stream = fopen(path, "wb");
    assert_non_null(stream);
    assert_int_equal(fwrite(b->at, 1, b->count, stream), b->count);
    fclose(stream);
}

static void try_npy(const bytes *b)
{
    write_file(path_of("a.npy"), b);
    mx_scoped() {
        mx_array *x = mx_load_npy(path_of("a.npy"));
        assert_int_equal(mx_error_code(), x ? MX_OK : MX_ERR_FILE);
    }
    mx_error_clear();
}

/* Cut at every byte: always an error.  Then changed at random: an error or an array, never harm or a leak. */
static void damage(const bytes *b, try_fn try, int rounds)
{
    uint64_t seed = 12345;
    mx_alloc_stats before = mx_alloc_get_stats();
    for (size_t cut = 0; cut < b->count; cut++) {
        bytes part = *b;
        part.count = cut;
        try(&part);
    }
    for (int i = 0; i < rounds; i++) {
        bytes changed = *b;
        for (uint64_t n = 0; n <= seed >> 62; n++) {
            seed = seed * 6364136223846793005u + 1442695040888963407u;
            static const unsigned char likely[] = {0, 1, 2, 0x7f, 0x80, 0xff, '0', '9'};
            uint64_t choice = seed >> 40 & 15;
            changed.at[(seed >> 20) % b->count] = choice < 8 ? likely[choice] : (unsigned char)(seed >> 48);
        }
        try(&changed);
    }
    mx_alloc_stats after = mx_alloc_get_stats();
    assert_int_equal(after.live_blocks, before.live_blocks);
    /* An empty csr may get as many row starts as 32 MiB hold; nothing else grows beyond the file. */
    assert_in_range(after.peak_bytes, 0, before.peak_bytes + ((int64_t)40 << 20));
}

static void damaged_params(void **state)
{
    (void)state;
    bytes versions = all_versions(), sparse_file = sparse_records();
    for (size_t cut = 0; cut < versions.count; cut++) {
        assert_null(mx_load_buffer(versions.at, cut));
        expect_error(MX_ERR_FILE, "at byte");
    }
    damage(&versions, try_params, 20000);
    damage(&sparse_file, try_params, 20000);
    bytes longer = versions;
    longer.count++;
    assert_null(mx_load_buffer(longer.at, longer.count));
    expect_error(MX_ERR_FILE, "follow");
}

static bytes npy_file(const char *header, int version)
{
    bytes b = {.count = 8};
    memcpy(b.at, "\x93NUMPY\x01\x00", 8);
    b.at[6] = (unsigned char)version;
    put(&b, strlen(header), version == 1 ? 2 : 4);
    memcpy(b.at + b.count, header, strlen(header));
    b.count += strlen(header);
    return b;
}

static mx_array *load_bytes(const bytes *b)
{
    write_file(path_of("a.npy"), b);
    return mx_load_npy(path_of("a.npy"));
}

static void npy_variants(void **state)
{
    (void)state;
    MX_SCOPE;
    bytes b = npy_file("{'descr': '<f4', 'fortran_order': True, 'shape': (2, 3), }\n", 1);
    F32(&b, 1, 4, 2, 5, 3, 6);
    EXPECT(load_bytes(&b), MX_FLOAT32, MX_DIMS(2, 3), 1, 2, 3, 4, 5, 6);
    b = npy_file("{\"shape\":(2L,),\"descr\":\">i2\",\"fortran_order\":False}", 2);
    put(&b, 0xfeff0100, 4);
    EXPECT(load_bytes(&b), MX_INT32, MX_DIMS(2), 1, -2);
    b = npy_file("{'descr': '|b1', 'fortran_order': False, 'shape': (), }", 3);
    put(&b, 9, 1);
    EXPECT(load_bytes(&b), MX_BOOL, MX_SCALAR_DIMS, 1);
    static const struct { const char *header, *message; } wrong[] = {
        {"{'descr': '<c8', 'fortran_order': False, 'shape': (2,), }", "<c8"},
        {"{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (2,), }", "structured arrays"},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (99999999999999999999,), }", "smaller"},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (4294967296, 4294967296), }", "too large"},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (1000000,), }", "truncated"},
        {"{'descr': '<f4', 'fortran_order': 1, 'shape': (2,), }", "True or False"},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (-2,), }", "a size"},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (1,1,1,1,1,1,1,1,1), }", "more than 8"},
        {"{'descr': '<f4', 'shape': (2,), }", "lacks"},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (2,), 'x': 1}", "'x'"},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (2,)} more", "the end"},
        {"", "'{'"},
    };
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        b = npy_file(wrong[i].header, 1);
        F32(&b, 1, 2);
        assert_null(load_bytes(&b));
        expect_error(MX_ERR_FILE, wrong[i].message);
    }
}

static void damaged_npy(void **state)
{
    (void)state;
    bytes b = npy_file("{'descr': '<f4', 'fortran_order': True, 'shape': (2, 3), }\n", 1);
    F32(&b, 1, 4, 2, 5, 3, 6);
    damage(&b, try_npy, 3000);
}

/* Whichever allocation fails while reading or writing, nothing leaks and the error is about memory. */
static void failing_allocations(void **state)
{
    (void)state;
    bytes b = sparse_records();
    bool failed = true;
    mx_scoped() {
        mx_load_buffer(b.at, b.count);
    }
    int64_t live = mx_alloc_get_stats().live_blocks;
    for (int n = 1; failed && n < 200; n++) {
        mx_alloc_fail_at(n);
        mx_scoped() {
            mx_array_dict *dict = mx_load_buffer(b.at, b.count);
            mx_array *dense = dict ? mx_tostype(mx_array_dict_at(dict, 0), MX_STYPE_DEFAULT) : NULL;
            if (dense && !mx_save_npy(path_of("a.npy"), dense) && mx_load_npy(path_of("a.npy")))
                mx_save(path_of("a.params"), MX_ARRAYS(mx_array_dict_at(dict, 1)), (const char *const[]){"name"});
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
        cmocka_unit_test(every_version), cmocka_unit_test(wide_integers), cmocka_unit_test(sparse),
        cmocka_unit_test(empty_csr), cmocka_unit_test(round_trips), cmocka_unit_test(bytes_as_mxnet), cmocka_unit_test(wrong_calls),
        cmocka_unit_test(damaged_params), cmocka_unit_test(npy_variants), cmocka_unit_test(damaged_npy),
        cmocka_unit_test(failing_allocations),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
