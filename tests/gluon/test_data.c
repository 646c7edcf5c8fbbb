/* Data sets, samplers, idx files and the loader.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <pthread.h>
#include <unistd.h>
#ifdef HAVE_ZLIB
#include <zlib.h>
#endif

#include "base/file.h"
#include "block_check.h"

/* ---- idx files -------------------------------------------------------------------------------------------------------- */

static const char *write_idx(const char *name, const unsigned char *bytes, int64_t n)
{
    const char *path = check_file(name);
    assert_true(mx_file_write(path, bytes, n));
    return path;
}

static void test_idx(void **state)
{
    (void)state;
    MX_SCOPE;
    const unsigned char good[] = {0, 0, 8, 2, 0, 0, 0, 2, 0, 0, 0, 3, 1, 2, 3, 4, 5, 255};
    mx_array *x = mx_load_idx(write_idx("good.idx", good, sizeof good));
    assert_int_equal(mx_dtype_of(x), MX_UINT8);
    check_near(x, MX_DIMS(2, 3), (double[]){1, 2, 3, 4, 5, 255}, 0);
    const unsigned char integers[] = {0, 0, 0x0C, 1, 0, 0, 0, 2, 0, 0, 1, 2, 0xff, 0xff, 0xff, 0xff};
    x = mx_load_idx(write_idx("int.idx", integers, sizeof integers));
    assert_int_equal(mx_dtype_of(x), MX_INT32);
    check_near(x, MX_DIMS(2), (double[]){258, -1}, 0);
    const unsigned char real[] = {0, 0, 0x0D, 1, 0, 0, 0, 1, 0x40, 0x20, 0, 0},
                        wide[] = {0, 0, 0x0E, 1, 0, 0, 0, 1, 0x40, 0x04, 0, 0, 0, 0, 0, 0};
    check_near(mx_load_idx(write_idx("float.idx", real, sizeof real)), MX_DIMS(1), (double[]){2.5}, 0);
    check_near(mx_load_idx(write_idx("double.idx", wide, sizeof wide)), MX_DIMS(1), (double[]){2.5}, 0);
    const unsigned char empty[] = {0, 0, 8, 2, 0, 0, 0, 0, 0, 0, 0, 3};
    check_shape(mx_load_idx(write_idx("empty.idx", empty, sizeof empty)), MX_DIMS(0, 3));
#ifdef HAVE_ZLIB
    const char *packed = check_file("good.idx.gz");
    gzFile file = gzopen(packed, "wb");
    assert_int_equal(gzwrite(file, good, sizeof good), (int)sizeof good);
    gzclose(file);
    check_near(mx_load_idx(packed), MX_DIMS(2, 3), (double[]){1, 2, 3, 4, 5, 255}, 0);
    int64_t size;
    unsigned char *bytes = mx_file_read(packed, 1000, &size);
    for (int64_t n = 0; n < size; n++) { /* every truncation is noticed */
        assert_null(mx_load_idx(write_idx("cut.idx.gz", bytes, n)));
        check_error(MX_ERR_FILE, "cut.idx.gz");
    }
    mx_free(bytes, (size_t)size + 1);
#endif
}

static void test_bad_idx(void **state)
{
    (void)state;
    static const struct { unsigned char bytes[40]; int64_t n; } bad[] = {
        {{0}, 0}, {{0, 0, 8}, 3}, {{1, 0, 8, 1, 0, 0, 0, 1, 5}, 9}, {{0, 0, 7, 1, 0, 0, 0, 1, 5}, 9}, {{0, 0, 8, 0, 5}, 5},
        {{0, 0, 8, 9, 0, 0, 0, 1}, 40}, {{0, 0, 8, 255}, 40}, {{0, 0, 8, 2, 0, 0, 0, 1}, 8}, {{0, 0, 8, 1, 0, 0, 0, 5, 1, 2, 3, 4}, 12},
        {{0, 0, 8, 1, 0, 0, 0, 3, 1, 2, 3, 4}, 12}, {{0, 0, 8, 1, 255, 255, 255, 255, 1}, 9},
        {{0, 0, 14, 3, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 1}, 17}, {{0, 0, 13, 1, 0, 0, 0, 1, 1, 2, 3}, 11},
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        MX_SCOPE;
        assert_null(mx_load_idx(write_idx("bad.idx", bad[i].bytes, bad[i].n)));
        check_error(MX_ERR_FILE, "bad.idx");
    }
    assert_null(mx_load_idx(check_file("absent.idx")));
    check_error(MX_ERR_FILE, "absent.idx");
    assert_null(mx_load_idx(NULL));
    check_error(MX_ERR_ARGUMENT, "mx_load_idx", "path");
}

static void test_mnist_folder(void **state)
{
    (void)state;
    MX_SCOPE;
    char folder[256];
    snprintf(folder, sizeof folder, "%s", check_file("x"));
    *strrchr(folder, '/') = 0;
    const unsigned char labels[] = {0, 0, 8, 1, 0, 0, 0, 2, 7, 3},
                        images[] = {0, 0, 8, 3, 0, 0, 0, 2, 0, 0, 0, 2, 0, 0, 0, 1, 0, 51, 102, 255};
    assert_null(mx_mnist(.root = "/nowhere"));
    check_error(MX_ERR_FILE, "MNIST", "/nowhere");
    write_idx("train-labels-idx1-ubyte", labels, sizeof labels);
    write_idx("train-images-idx3-ubyte", images, sizeof images);
    mx_dataset *d = mx_mnist(.root = folder);
    assert_int_equal(mx_dataset_length(d), 2);
    mx_arrays example = mx_dataset_at(d, 1);
    check_near(example.v[0], MX_DIMS(1, 2, 1), (double[]){0.4, 1}, 1e-6);
    assert_int_equal(mx_dtype_of(example.v[1]), MX_FLOAT32);
    assert_true(mx_item(example.v[1]) == 3);
    example = mx_dataset_at(mx_mnist(.root = folder, .raw = true), 1);
    assert_int_equal(mx_dtype_of(example.v[0]), MX_UINT8);
    assert_int_equal(mx_dtype_of(example.v[1]), MX_INT32);
    check_near(example.v[0], MX_DIMS(2, 1, 1), (double[]){102, 255}, 0);
    const unsigned char more[] = {0, 0, 8, 1, 0, 0, 0, 3, 7, 3, 1};
    write_idx("train-labels-idx1-ubyte", more, sizeof more);
    assert_null(mx_mnist(.root = folder));
    check_error(MX_ERR_FILE, "belong together");
}

static void test_fashion_mnist(void **state)
{
    (void)state;
    MX_SCOPE;
    assert_string_equal(mx_fashion_mnist_class(1), "trouser");
    assert_null(mx_fashion_mnist_class(10));
    assert_null(mx_fashion_mnist_class(-1));
    mx_dataset *d = mx_fashion_mnist(.train = false);
    if (!d && mx_error_code() == MX_ERR_FILE) {
        print_message("skipped: %s\n", mx_error_message());
        mx_error_clear();
        return;
    }
    assert_int_equal(mx_dataset_length(d), 10000);
    mx_arrays example = mx_dataset_at(d, 0);
    check_shape(example.v[0], MX_DIMS(1, 28, 28));
    assert_true(mx_item(example.v[1]) == 9); /* an ankle boot */
    assert_true(mx_item(mx_max(example.v[0])) <= 1);
}

/* ---- data sets ------------------------------------------------------------------------------------------------------------ */

static mx_dataset *numbers(int64_t n) /* example i: (i, i) and -i */
{
    mx_array *i = mx_arange(.start = 0, .stop = (double)n);
    return mx_array_dataset(MX_ARRAYS(mx_stack(MX_ARRAYS(i, i), .axis = 1), mx_negative(i)));
}

static void check_example(mx_dataset *d, int64_t i, double wanted)
{
    mx_arrays example = mx_dataset_at(d, i);
    check_no_error();
    assert_true(check_values(example.v[0])[0] == wanted && check_values(example.v[1])[0] == -wanted);
}

static void test_array_dataset(void **state)
{
    (void)state;
    MX_SCOPE;
    mx_dataset *d = numbers(10);
    assert_int_equal(mx_dataset_length(d), 10);
    check_shape(mx_dataset_at(d, 3).v[0], MX_DIMS(2));
    check_example(d, 3, 3);
    check_example(mx_array_dataset(
                      MX_ARRAYS(mx_index(mx_arange(.start = 0, .stop = 10), MX_RANGE(4, 8)), /* views have an offset */
                                mx_negative(mx_arange(.start = 4, .stop = 8)))),
                  2, 6);
    assert_null(mx_dataset_at(d, 10).v[0]);
    check_error(MX_ERR_INDEX, "mx_dataset_at", "10");
    assert_null(mx_dataset_at(d, -1).v[0]);
    check_error(MX_ERR_INDEX, "-1");
    assert_null(mx_array_dataset(MX_ARRAYS(check_array(MX_DIMS(3), 1), check_array(MX_DIMS(4), 1))));
    check_error(MX_ERR_SHAPE, "mx_array_dataset", "1");
    check_example(mx_dataset_take(d, 4), 3, 3);
    assert_int_equal(mx_dataset_length(mx_dataset_take(d, 99)), 10);
    const int64_t begins[] = {0, 4, 7};
    for (int i = 0; i < 3; i++) {
        mx_dataset *part = mx_dataset_shard(d, 3, i);
        assert_int_equal(mx_dataset_length(part), i ? 3 : 4);
        check_example(part, 1, (double)begins[i] + 1);
    }
    assert_null(mx_dataset_shard(d, 3, 3));
    check_error(MX_ERR_ARGUMENT, "mx_dataset_shard");
    assert_null(mx_dataset_take(d, -1));
    check_error(MX_ERR_ARGUMENT, "mx_dataset_take");
}

static mx_array *ten_times(mx_array *x) { return mx_mul_scalar(x, .scalar = 10); }

static void test_transforms(void **state)
{
    (void)state;
    MX_SCOPE;
    mx_array *images = check_integers(MX_DIMS(6, 4, 3, 2), 1, 256), *labels = mx_arange(.start = 0, .stop = 6);
    mx_dataset *base = mx_array_dataset(MX_ARRAYS(mx_cast(images, .dtype = MX_UINT8), labels));
    mx_block *whole = mx_sequential(mx_to_tensor(), mx_normalize(MX_FLOATS(0.5, 0.25), MX_FLOATS(2, 4)));
    mx_dataset *d = mx_dataset_transform_first(base, whole);
    mx_dataset *single =
        mx_dataset_transform_first(base, mx_sequential(whole, mx_lambda(ten_times))); /* a function of one example */
    check_shape(mx_dataset_at(d, 1).v[0], MX_DIMS(2, 4, 3));
    mx_batch batch, slow;
    assert_true(mx_loader_next(mx_data_loader(d, 4), &batch));
    check_shape(batch.data, MX_DIMS(4, 2, 4, 3));
    assert_true(mx_loader_next(mx_data_loader(single, 4), &slow));
    check_near(mx_mul_scalar(slow.data, .scalar = 0.1), MX_DIMS(4, 2, 4, 3), check_values(batch.data), 1e-6);
    check_same(mx_reshape(mx_index(batch.data, MX_AT(2)), .shape = MX_DIMS(2, 4, 3)), mx_dataset_at(d, 2).v[0]);
    check_same(batch.label, slow.label);
    assert_int_equal(mx_dtype_of(mx_dataset_at(mx_dataset_transform_first(base, mx_cast_layer(MX_FLOAT64)), 0).v[0]),
                     MX_FLOAT64);
}

static mx_arrays squares(void *user, int64_t i)
{
    if (user && i == *(int64_t *)user)
        return mx_error_set(MX_ERR_CALLBACK, "example %lld is broken", (long long)i), (mx_arrays){0};
    return mx_results(mx_array_scalar((double)i), mx_array_scalar((double)(i * i)));
}
static int released;
static void count_release(void *user) { (void)user, released++; }
static mx_arrays nothing(void *user, int64_t i) { return (void)user, (void)i, (mx_arrays){0}; }
static mx_arrays uneven(void *user, int64_t i)
{
    return (void)user, i == 1 ? mx_results(mx_array_scalar(0)) : mx_results(mx_array_scalar(0), mx_array_scalar(1));
}
static mx_arrays ragged(void *user, int64_t i) { return (void)user, mx_results(mx_ones(.shape = MX_DIMS(i + 1))); }

static void test_function_dataset(void **state)
{
    (void)state;
    MX_SCOPE;
    released = 0;
    mx_scoped() {
        mx_dataset *d = mx_function_dataset(5, squares, NULL, count_release);
        assert_true(mx_item(mx_dataset_at(d, 3).v[1]) == 9);
        mx_batch batch;
        assert_true(mx_loader_next(mx_data_loader(d, 3), &batch));
        check_near(batch.label, MX_DIMS(3, 1), (double[]){0, 1, 4}, 0);
    }
    assert_int_equal(released, 1);
    mx_batch batch;
    assert_false(mx_loader_next(mx_data_loader(mx_function_dataset(5, nothing, NULL, NULL), 3), &batch));
    check_error(MX_ERR_CALLBACK, "example 0");
    assert_false(mx_loader_next(mx_data_loader(mx_function_dataset(5, uneven, NULL, NULL), 3), &batch));
    check_error(MX_ERR_SHAPE, "example 1");
    assert_false(mx_loader_next(mx_data_loader(mx_function_dataset(5, ragged, NULL, NULL), 3), &batch));
    check_error(MX_ERR_SHAPE, "stack");
}

/* ---- samplers -------------------------------------------------------------------------------------------------------------- */

static void test_samplers(void **state)
{
    (void)state;
    MX_SCOPE;
    const int64_t *order = mx_sampler_order(mx_sequential_sampler(4), 7);
    for (int i = 0; i < 4; i++)
        assert_int_equal(order[i], i);
    mx_sampler *random = mx_random_sampler(100, 5);
    const int64_t *a = mx_sampler_order(random, 0), *b = mx_sampler_order(random, 1),
                  *c = mx_sampler_order(mx_random_sampler(100, 5), 0);
    bool seen[100] = {0}, moved = false, other = false;
    for (int i = 0; i < 100; i++) {
        assert_true(a[i] >= 0 && a[i] < 100 && !seen[a[i]]);
        seen[a[i]] = true;
        moved |= a[i] != i, other |= a[i] != b[i];
        assert_int_equal(a[i], c[i]);
    }
    assert_true(moved && other);
    const int64_t wanted[] = {0, 3, 6, 1, 4, 2, 5};
    order = mx_sampler_order(mx_interval_sampler(7, 3, true), 0);
    assert_memory_equal(order, wanted, sizeof wanted);
    assert_int_equal(mx_sampler_length(mx_interval_sampler(7, 3, false)), 3);
    assert_memory_equal(mx_sampler_order(mx_interval_sampler(7, 3, false), 0), wanted, 3 * sizeof *wanted);
    assert_null(mx_interval_sampler(7, 0, true));
    check_error(MX_ERR_ARGUMENT, "mx_interval_sampler", "0");
    assert_null(mx_random_sampler(-1, 0));
    check_error(MX_ERR_ARGUMENT, "-1");
}

static void test_counts(void **state)
{
    (void)state;
    assert_int_equal(mx_batch_count(7, 3, MX_KEEP), 3);
    assert_int_equal(mx_batch_count(6, 3, MX_KEEP), 2);
    assert_int_equal(mx_batch_count(7, 3, MX_DISCARD), 2);
    assert_int_equal(mx_batch_count(8, 3, MX_ROLLOVER), 2);
    assert_int_equal(mx_batch_count(7, 0, MX_KEEP), -1);
    check_error(MX_ERR_ARGUMENT, "batch_size");
    int64_t count, next = 0;
    for (int64_t i = 0; i < 3; i++, next += count) { /* the parts of 8 are 3, 3 and 2 */
        assert_int_equal(mx_shard_start(8, 3, i, &count), next);
        assert_int_equal(count, i < 2 ? 3 : 2);
    }
    assert_int_equal(next, 8);
    assert_int_equal(mx_shard_start(8, 3, 3, &count), -1);
    check_error(MX_ERR_ARGUMENT, "part 3 of 3");
}

/* ---- the loader -------------------------------------------------------------------------------------------------------------- */

/* The first numbers of all examples of `epochs` epochs, "0 1 2 | 3 4 |" ...: '|' after a batch, '.' after an epoch. */
static const char *written(mx_loader *loader, int epochs)
{
    static char text[4096];
    text[0] = 0;
    for (int epoch = 0; epoch < epochs; epoch++) {
        int64_t index = 0;
        mx_for_each_batch(batch, loader) {
            assert_int_equal(batch.index, index++);
            assert_int_equal(batch.size, mx_dim(batch.data, 0));
            assert_int_equal(batch.arrays.n, 2);
            for (int64_t i = 0; i < batch.size; i++)
                sprintf(text + strlen(text), "%g ", check_values(batch.data)[2 * i]);
            strcat(text, "| ");
        }
        strcat(text, ". ");
    }
    check_no_error();
    return text;
}

static void test_last_batch(void **state)
{
    (void)state;
    MX_SCOPE;
    mx_dataset *d = numbers(7);
    mx_loader *keep = mx_data_loader(d, 3), *discard = mx_data_loader(d, 3, .last_batch = MX_DISCARD),
              *roll = mx_data_loader(d, 3, .last_batch = MX_ROLLOVER);
    assert_int_equal(mx_loader_batches(keep), 3);
    assert_int_equal(mx_loader_batches(discard), 2);
    assert_int_equal(mx_loader_examples(keep), 7);
    assert_string_equal(written(keep, 2), "0 1 2 | 3 4 5 | 6 | . 0 1 2 | 3 4 5 | 6 | . ");
    assert_string_equal(written(discard, 1), "0 1 2 | 3 4 5 | . ");
    assert_string_equal(written(roll, 4),
                        "0 1 2 | 3 4 5 | . 6 0 1 | 2 3 4 | . 5 6 0 | 1 2 3 | 4 5 6 | . 0 1 2 | 3 4 5 | . ");
    assert_int_equal(mx_loader_batches(roll), 2); /* 6 is left over: 6 0 1 | 2 3 4 */
    assert_string_equal(written(mx_data_loader(d, 100), 1), "0 1 2 3 4 5 6 | . ");
    assert_string_equal(written(mx_data_loader(numbers(3), 2, .sampler = mx_interval_sampler(3, 2, false)), 1),
                        "0 2 | . ");
    assert_string_equal(written(mx_data_loader(mx_dataset_take(d, 0), 2), 2), ". . ");
    assert_string_equal(written(mx_data_loader(mx_dataset_shard(d, 2, 1), 2), 1), "4 5 | 6 | . ");
}

static mx_arrays growing(void *user, int64_t i)
{
    (void)user;
    return mx_results(mx_arange(.start = 0, .stop = (double)(i + 1)),
                      mx_array_from(MX_SCALAR_DIMS, MX_FLOAT32, (float[]){(float)i}));
}

static void test_padding(void **state)
{
    (void)state;
    MX_SCOPE;
    mx_array *a = mx_array_from(MX_DIMS(2, 1), MX_FLOAT32, (float[]){1, 2}),
             *b = mx_array_from(MX_DIMS(1, 3), MX_INT32, (int32_t[]){3, 4, 5}), *lengths = NULL;
    check_near(mx_pad_batch(MX_ARRAYS(a, b), .value = -1), MX_DIMS(2, 2, 3),
               (double[]){1, -1, -1, 2, -1, -1, 3, 4, 5, -1, -1, -1}, 0);
    mx_array *c = mx_pad_batch(MX_ARRAYS(b, a), .axis = 1, .round_to = 2, .lengths = &lengths);
    check_near(c, MX_DIMS(2, 2, 4), (double[]){3, 4, 5, 0, 0, 0, 0, 0, 1, 0, 0, 0, 2, 0, 0, 0}, 0);
    assert_int_equal(mx_dtype_of(c), MX_INT32);
    check_near(lengths, MX_DIMS(2), (double[]){3, 1}, 0);
    assert_int_equal(mx_dtype_of(mx_pad_batch(MX_ARRAYS(b, a), .dtype = MX_FLOAT16)), MX_FLOAT16);
    mx_array *zero_d = mx_array_from(MX_SCALAR_DIMS, MX_FLOAT32, (float[]){3});
    check_near(mx_pad_batch(MX_ARRAYS(zero_d, zero_d)), MX_DIMS(2), (double[]){3, 3}, 0);
    assert_null(mx_pad_batch(MX_ARRAYS(a, mx_array_scalar(3))));
    check_error(MX_ERR_SHAPE, "example 1", "2 axes");
    check_near(mx_pad_batch(MX_ARRAYS(a, b), .axis = -1, .lengths = &lengths, .round_to = 5), MX_DIMS(2, 2, 5),
               (double[]){1, 0, 0, 0, 0, 2, 0, 0, 0, 0, 3, 4, 5, 0, 0, 0, 0, 0, 0, 0}, 0);
    check_near(lengths, MX_DIMS(2), (double[]){1, 3}, 0);
    assert_null(mx_pad_batch(MX_ARRAYS(a, b), .axis = 2, .lengths = &lengths));
    check_error(MX_ERR_ARGUMENT, "axis 2", "2 axes");
    assert_null(mx_pad_batch(MX_ARRAYS(a, MX_NONE)));
    check_error(MX_ERR_ARGUMENT, "example");
    /* in the loader, on threads as well */
    mx_dataset *d = mx_function_dataset(4, growing, NULL, NULL);
    for (int workers = 0; workers < 3; workers += 2) {
        mx_loader *loader = mx_data_loader(d, 3, .pad = true, .pad_value = 9, .num_workers = workers);
        mx_batch batch;
        assert_true(mx_loader_next(loader, &batch));
        check_near(batch.data, MX_DIMS(3, 3), (double[]){0, 9, 9, 0, 1, 9, 0, 1, 2}, 0);
        check_near(batch.label, MX_DIMS(3), (double[]){0, 1, 2}, 0);
        assert_true(mx_loader_next(loader, &batch));
        check_near(batch.data, MX_DIMS(1, 4), (double[]){0, 1, 2, 3}, 0);
    }
    mx_batch batch;
    assert_false(mx_loader_next(mx_data_loader(d, 3), &batch)); /* without it they must have the same shape */
    mx_error_clear();
}

static void test_shuffle_and_workers(void **state)
{
    (void)state;
    MX_SCOPE;
    char wanted[4096];
    for (int mode = MX_KEEP; mode <= MX_ROLLOVER; mode++) {
        strcpy(wanted, written(mx_data_loader(numbers(50), 8, .shuffle = true, .seed = 3, .last_batch = mode), 3));
        for (int workers = 1; workers <= 3; workers += 2)
            for (int prefetch = 0; prefetch <= 5; prefetch += 5)
                assert_string_equal(
                    written(mx_data_loader(numbers(50), 8, .shuffle = true, .seed = 3, .last_batch = mode,
                                           .num_workers = workers, .prefetch = prefetch),
                            3),
                    wanted);
    }
    assert_string_not_equal(
        written(mx_data_loader(numbers(50), 8, .shuffle = true, .seed = 4, .last_batch = MX_ROLLOVER), 3), wanted);
    /* Without a seed the order depends on the global random number generator. */
    mx_random_seed(11);
    strcpy(wanted, written(mx_data_loader(numbers(20), 5, .shuffle = true), 2));
    assert_string_not_equal(written(mx_data_loader(numbers(20), 5, .shuffle = true), 2), wanted);
    mx_random_seed(11);
    assert_string_equal(written(mx_data_loader(numbers(20), 5, .shuffle = true), 2), wanted);
}

static void test_early_break(void **state)
{
    (void)state;
    for (int workers = 0; workers <= 3; workers += 3) {
        MX_SCOPE;
        mx_loader *loader = mx_data_loader(numbers(20), 3, .num_workers = workers, .last_batch = MX_ROLLOVER);
        for (int round = 0; round < 5; round++) {
            int64_t n = 0;
            mx_for_each_batch(batch, loader) {
                assert_true(check_values(batch.data)[0] == (double)(3 * n)); /* every loop starts from the beginning */
                if (++n == 2)
                    break;
            }
            assert_int_equal(n, 2);
        }
        mx_batch batch;
        assert_true(mx_loader_next(loader, &batch)); /* destroyed in the middle of an epoch, with workers running */
    }
    check_no_error();
}

static void test_nested_loops(void **state)
{
    (void)state;
    MX_SCOPE;
    mx_loader *outer = mx_data_loader(numbers(4), 2), *inner = mx_data_loader(numbers(6), 2, .num_workers = 1);
    int n = 0;
    mx_for_each_batch(a, outer)
        mx_for_each_batch(b, inner)
            n += (int)(a.size + b.size);
    assert_int_equal(n, 2 * 3 * 4);
}

static void test_failing_examples(void **state)
{
    (void)state;
    for (int workers = 0; workers <= 3; workers++) {
        MX_SCOPE;
        int64_t broken = 7;
        mx_loader *loader = mx_data_loader(mx_function_dataset(20, squares, &broken, NULL), 3, .num_workers = workers);
        int64_t n = 0;
        mx_for_each_batch(batch, loader)
            n += batch.size;
        assert_int_equal(n, 6); /* the batches before it */
        check_error(MX_ERR_CALLBACK, "example 7 is broken");
        broken = -1; /* it can be used again */
        n = 0;
        mx_for_each_batch(batch, loader)
            n += batch.size;
        assert_int_equal(n, 20);
        check_no_error();
    }
}

static void test_loader_arguments(void **state)
{
    (void)state;
    MX_SCOPE;
    mx_dataset *d = numbers(5);
    assert_null(mx_data_loader(NULL, 3));
    check_error(MX_ERR_ARGUMENT, "mx_data_loader", "dataset");
    assert_null(mx_data_loader(d, 0));
    check_error(MX_ERR_ARGUMENT, "mx_data_loader", "batch_size");
    assert_null(mx_data_loader(d, 1, .num_workers = -1));
    check_error(MX_ERR_ARGUMENT, "mx_data_loader", "-1 workers");
    assert_null(mx_data_loader(d, 1, .num_workers = 10000));
    check_error(MX_ERR_ARGUMENT, "mx_data_loader", "10000 workers");
    assert_null(mx_data_loader(d, 1, .shuffle = true, .sampler = mx_sequential_sampler(5)));
    check_error(MX_ERR_ARGUMENT, "mx_data_loader", "sampler");
    assert_null(mx_data_loader(d, 1, .sampler = mx_sequential_sampler(6)));
    check_error(MX_ERR_ARGUMENT, "mx_data_loader", "6", "5");
    assert_null(mx_data_loader(d, 1, .last_batch = 17));
    check_error(MX_ERR_ARGUMENT, "mx_data_loader", "last_batch");
    mx_for_each_batch(batch, (mx_loader *)d) /* not a loader */
        fail_msg("a batch of %lld came from nowhere", (long long)batch.size);
    check_error(MX_ERR_ARGUMENT, "mx_for_each_batch", "data set", "data loader");
    assert_false(mx_loader_next(mx_data_loader(d, 1), NULL));
    check_error(MX_ERR_ARGUMENT, "mx_loader_next", "batch");
}

static void test_nothing_is_left(void **state)
{
    (void)state;
    int64_t before = 0;
    for (int round = 0; round < 3; round++) {
        before = check_live();
        mx_scoped() {
            mx_loader *loader = mx_data_loader(numbers(30), 4, .num_workers = 2, .shuffle = true);
            mx_for_each_batch(batch, loader)
                if (batch.index == 4)
                    break;
            written(loader, 2);
        }
    }
    assert_int_equal(check_live(), before);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_idx), cmocka_unit_test(test_bad_idx), cmocka_unit_test(test_mnist_folder), cmocka_unit_test(test_fashion_mnist),
        cmocka_unit_test(test_array_dataset), cmocka_unit_test(test_transforms), cmocka_unit_test(test_function_dataset),
        cmocka_unit_test(test_samplers), cmocka_unit_test(test_counts), cmocka_unit_test(test_padding), cmocka_unit_test(test_last_batch), cmocka_unit_test(test_shuffle_and_workers),
        cmocka_unit_test(test_early_break), cmocka_unit_test(test_nested_loops), cmocka_unit_test(test_failing_examples),
        cmocka_unit_test(test_loader_arguments), cmocka_unit_test(test_nothing_is_left),
    };
    return cmocka_run_group_tests_name("data", tests, NULL, NULL);
}
