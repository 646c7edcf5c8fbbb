/* Vision transforms as layers, and data sets of image files, records and CIFAR.  SPDX-License-Identifier: Apache-2.0 */
#include <sys/stat.h>

#include "base/file.h"
#include "block_check.h"

static const char *path_of(const char *name) /* check_file reuses its memory */
{
    static char paths[8][512];
    static int next;
    char *path = paths[next++ % 8];
    snprintf(path, sizeof *paths, "%s", check_file(name));
    return path;
}

static mx_array *image_of(int64_t height, int64_t width, int value)
{
    return mx_cast(mx_full(.shape = MX_DIMS(height, width, 3), .value = value), .dtype = MX_UINT8);
}

static bool have_png(void)
{
    MX_SCOPE;
    if (mx_imencode(image_of(2, 2, 1), ".png"))
        return true;
    check_error(MX_ERR_UNSUPPORTED, "PNG");
    print_message("skipped: this build has no PNG\n");
    return false;
}

/* ---- transforms ---------------------------------------------------------------------------------------------------------- */

static void check_layer(mx_block *block, mx_dims single, mx_dims batch)
{
    check_no_error();
    mx_array *x = mx_cast(check_integers(MX_DIMS(7, 9, 3), 1, 256), .dtype = MX_UINT8);
    mx_array *y = mx_call(block, x);
    check_shape(y, single);
    assert_int_equal(mx_dtype_of(y), MX_UINT8);
    if (batch.n < 0)
        return;
    y = mx_call(block, mx_cast(check_integers(MX_DIMS(4, 7, 9, 3), 2, 256), .dtype = MX_UINT8));
    check_shape(y, batch);
}

static void test_layers(void **state)
{
    (void)state;
    MX_SCOPE;
    check_layer(mx_resize(MX_DIMS(4)), MX_DIMS(4, 4, 3), MX_DIMS(4, 4, 4, 3));
    check_layer(mx_resize(MX_DIMS(4), .keep_ratio = true, .interpolation = 9), MX_DIMS(4, 5, 3), MX_DIMS(4, 4, 5, 3));
    check_layer(mx_resize(MX_DIMS(4, 3), .interpolation = 2), MX_DIMS(3, 4, 3), MX_DIMS(4, 3, 4, 3));
    check_layer(mx_center_crop(MX_DIMS(4, 3)), MX_DIMS(3, 4, 3), MX_DIMS(4, 3, 4, 3));
    check_layer(mx_center_crop(MX_DIMS(20)), MX_DIMS(20, 20, 3), MX_DIMS(4, 20, 20, 3));
    check_layer(mx_random_crop(MX_DIMS(8), .pad = 3), MX_DIMS(8, 8, 3), MX_NO_DIMS);
    check_layer(mx_crop_resize(1, 2, 3, 4), MX_DIMS(4, 3, 3), MX_DIMS(4, 4, 3, 3));
    check_layer(mx_crop_resize(1, 2, 3, 4, .size = MX_DIMS(6, 5), .interpolation = 3), MX_DIMS(5, 6, 3),
                MX_DIMS(4, 5, 6, 3));
    check_layer(mx_random_resized_crop(MX_DIMS(4, 5)), MX_DIMS(5, 4, 3), MX_NO_DIMS);
    mx_block *same[] = {mx_random_flip_left_right(), mx_random_flip_top_bottom(), mx_random_brightness(0.3), mx_random_contrast(0.3),
                        mx_random_saturation(0.3), mx_random_hue(0.3), mx_random_color_jitter(0.1, 0.2, 0.3, 0.4), mx_random_lighting(0.1), mx_random_gray(0.5)};
    for (size_t i = 0; i < sizeof same / sizeof *same; i++)
        check_layer(same[i], MX_DIMS(7, 9, 3), MX_DIMS(4, 7, 9, 3));
    mx_array *x = check_array(MX_DIMS(3, 7, 9), 1);
    check_shape(mx_call(mx_rotate(30), x), MX_DIMS(3, 7, 9));
    check_same(mx_call(mx_random_rotation(MX_FLOATS(-30, 30), .rotate_with_proba = 0), x), x);
    check_shape(mx_call(mx_random_rotation(MX_FLOATS(-30, 30), .zoom_in = true), x), MX_DIMS(3, 7, 9));
    check_no_error();
    assert_null(mx_call(mx_rotate(30), image_of(4, 4, 1)));
    check_error(MX_ERR_DTYPE, "Rotate", "ToTensor");
    assert_null(mx_random_rotation(MX_FLOATS(30, -30)));
    check_error(MX_ERR_ATTRIBUTE, "angle_limits");
    assert_null(mx_call(mx_resize(MX_DIMS(1, 2, 3)), image_of(4, 4, 1))); /* checked when used */
    check_error(MX_ERR_ATTRIBUTE, "Resize", "size");
    assert_null(mx_call(mx_center_crop(MX_DIMS(0)), image_of(4, 4, 1)));
    check_error(MX_ERR_ATTRIBUTE, "CenterCrop");
    assert_null(mx_random_resized_crop(MX_DIMS(4), .scale = MX_FLOATS(0.5)));
    check_error(MX_ERR_ATTRIBUTE, "scale");
    assert_non_null(mx_random_brightness(-1)); /* jitters draw from both sides: any sign, as in MXNet */
    assert_null(mx_call(mx_center_crop(MX_DIMS(2)), check_array(MX_DIMS(5, 5), 1)));
    check_error(MX_ERR_SHAPE, "(5, 5)");
}

static const unsigned char *bytes_of(mx_array *x) { return mx_array_data(x); }

static void test_warp(void **state)
{
    (void)state;
    MX_SCOPE;
    unsigned char pixels[4 * 6];
    for (int i = 0; i < 24; i++)
        pixels[i] = (unsigned char)(i / 6 * 40 + i % 6 * 10);
    mx_array *image = mx_array_from(MX_DIMS(4, 6, 1), MX_UINT8, pixels);
    mx_warp warp = MX_NO_WARP;
    check_same(mx_image_warp(image, &warp), image);
    warp.angle = 180; /* around (3, 2): pixel (y, x) comes from (4 - y, 6 - x), the first row and column from outside */
    mx_array *turned = mx_image_warp(image, &warp);
    check_shape(turned, MX_DIMS(4, 6, 1));
    for (int i = 0; i < 24; i++)
        assert_int_equal(bytes_of(turned)[i], i / 6 && i % 6 ? pixels[(4 - i / 6) * 6 + 6 - i % 6] : 255);
    for (int interp = 0; interp < 5; interp++) { /* a plane stays a plane under every method, away from the border */
        warp = (mx_warp){.scale = 2, .ratio = 1, .max_size = 100, .fill = 9, .interp = interp};
        mx_array *large = mx_image_warp(image, &warp);
        check_shape(large, MX_DIMS(8, 12, 1));
        assert_in_range(bytes_of(large)[4 * 12 + 5], interp ? 103 : 99, interp ? 107 : 111);
    }
    warp = (mx_warp){.scale = 2, .ratio = 1, .min_size = 5, .max_size = 7};
    check_shape(mx_image_warp(image, &warp), MX_DIMS(7, 7, 1));
    warp =
        (mx_warp){.scale = 1, .ratio = 1, .max_size = 100, .shear = 1, .fill = 3}; /* two columns right at the bottom */
    mx_array *leaning = mx_image_warp(image, &warp);
    assert_int_equal(bytes_of(leaning)[2 * 6], pixels[2 * 6]);
    assert_int_equal(bytes_of(leaning)[3 * 6 + 1], pixels[3 * 6]);
    assert_int_equal(bytes_of(leaning)[3 * 6], 3);
    check_no_error();
    assert_null(mx_image_warp(mx_cast(image, .dtype = MX_FLOAT32), &warp));
    check_error(MX_ERR_SHAPE, "mx_image_warp", "uint8");
    warp.scale = -1;
    assert_null(mx_image_warp(image, &warp));
    check_error(MX_ERR_ARGUMENT, "scale -1");
    warp = (mx_warp){.scale = 1e9, .ratio = 1, .max_size = INT64_MAX};
    assert_null(mx_image_warp(image, &warp));
    check_error(MX_ERR_ARGUMENT, "32768");
    assert_null(mx_image_warp(image, NULL));
    check_error(MX_ERR_ARGUMENT, "NULL");
}

static void test_hls(void **state)
{
    (void)state;
    MX_SCOPE;
    static const struct {
        unsigned char from[3];
        int shift[3];
        unsigned char to[3];
    } cases[] = {
        {{255, 0, 0}, {60, 0, 0}, {0, 255, 0}},      /* hue by 120 degrees */
        {{255, 0, 0}, {30, 0, 0}, {255, 255, 0}},    /* by 60 */
        {{255, 0, 0}, {0, 127, 0}, {255, 255, 255}}, /* lightness up to white */
        {{255, 0, 0}, {0, -300, 0}, {0, 0, 0}},      /* clipped at black */
        {{255, 0, 0}, {0, 0, -255}, {128, 128, 128}}, {{10, 20, 30}, {0, 0, 0}, {10, 20, 30}},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        mx_array *y = mx_image_shift_hls(mx_array_from(MX_DIMS(1, 1, 3), MX_UINT8, cases[i].from), cases[i].shift[0],
                                         cases[i].shift[1], cases[i].shift[2]);
        for (int c = 0; c < 3; c++)
            assert_in_range(bytes_of(y)[c] + 1, cases[i].to[c], cases[i].to[c] + 2); /* one step for rounding */
    }
    assert_null(mx_image_shift_hls(mx_ones(.shape = MX_DIMS(2, 2, 3)), 1, 1, 1));
    check_error(MX_ERR_SHAPE, "(H, W, 3)", "uint8");
}

static void test_random_apply(void **state)
{
    (void)state;
    MX_SCOPE;
    mx_array *x = check_array(MX_DIMS(4, 4, 3), 1);
    mx_block *sometimes = mx_random_apply(mx_resize(MX_DIMS(2)), 0.5),
             *never = mx_random_apply(mx_resize(MX_DIMS(2)), 0);
    int changed = 0, turned = 0;
    for (int i = 0; i < 200; i++) {
        changed += mx_dim(mx_call(sometimes, x), 0) == 2;
        assert_int_equal(mx_dim(mx_call(never, x), 0), 4);
        turned += check_values(mx_call(mx_random_flip_left_right(), x))[0] != check_values(x)[0];
    }
    assert_true(changed > 60 && changed < 140);
    assert_true(turned > 60 && turned < 140);
    assert_int_equal(mx_block_children(sometimes), 1);
    assert_null(mx_random_apply(mx_resize(MX_DIMS(2)), 2));
    check_error(MX_ERR_ARGUMENT, "p is 2");
    assert_null(mx_random_apply(NULL, 0.5));
    mx_error_clear();
}

/* ---- data sets --------------------------------------------------------------------------------------------------------------- */

static void write_image(const char *folder, const char *name, mx_array *image)
{
    char path[600];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    assert_int_equal(mx_imwrite(image, path), MX_OK);
}

static void test_image_folder(void **state)
{
    (void)state;
    if (!have_png())
        return;
    MX_SCOPE;
    const char *root = path_of("pets"), *dog = path_of("pets/dog"), *cat = path_of("pets/cat");
    assert_true(mx_folder_make(dog) && mx_folder_make(cat));
    write_image(dog, "b.png", image_of(4, 6, 20));
    write_image(dog, "a.PNG", image_of(5, 6, 10));
    write_image(cat, "z.png", image_of(7, 8, 30));
    assert_true(mx_file_write(path_of("pets/cat/notes.txt"), "x", 1) &&
                mx_file_write(path_of("pets/list.txt"), "x", 1));
    mx_dataset *d = mx_image_folder(root);
    check_no_error();
    assert_int_equal(mx_dataset_length(d), 3);
    assert_string_equal(mx_image_folder_class(d, 0), "cat");
    assert_string_equal(mx_image_folder_class(d, 1), "dog");
    assert_null(mx_image_folder_class(d, 2));
    assert_non_null(strstr(mx_image_path(d, 1), "dog/a.PNG"));
    assert_non_null(strstr(mx_image_folder_skipped(d, 0), "cat/notes.txt is left out: '.txt'"));
    assert_non_null(strstr(mx_image_folder_skipped(d, 1), "list.txt is not a folder"));
    assert_null(mx_image_folder_skipped(d, 2));
    int64_t labels;
    assert_true(mx_image_key(d, 2) == 2 && *mx_image_labels(d, 2, &labels) == 1 && labels == 1);
    assert_null(mx_image_labels(d, 3, &labels));
    check_error(MX_ERR_INDEX, "mx_image_labels");
    mx_arrays example = mx_dataset_at(d, 1);
    check_same(example.v[0], image_of(5, 6, 10));
    assert_true(mx_item(example.v[1]) == 1 && mx_ndim(example.v[1]) == 0);
    check_shape(mx_dataset_at(mx_image_folder(root, .flag = 0), 0).v[0], MX_DIMS(7, 8, 1));
    /* images of different sizes are resized one by one, then stacked, on several threads */
    mx_dataset *same =
        mx_dataset_transform_first(mx_dataset_take(d, 3), mx_sequential(mx_resize(MX_DIMS(3)), mx_to_tensor()));
    mx_batch batch;
    assert_true(mx_loader_next(mx_data_loader(same, 3, .num_workers = 2), &batch));
    check_shape(batch.data, MX_DIMS(3, 3, 3, 3));
    check_near(batch.label, MX_DIMS(3), (double[]){0, 1, 1}, 0);
    assert_null(mx_image_path(d, 3));
    check_error(MX_ERR_INDEX, "mx_image_path");
    assert_null(mx_image_path(mx_array_dataset(MX_ARRAYS(check_array(MX_DIMS(3), 1))), 0));
    check_error(MX_ERR_ARGUMENT, "image files");
    assert_true(mx_file_write(path_of("pets/cat/a.png"), "not an image", 12));
    assert_null(mx_dataset_at(mx_image_folder(root), 0).v[0]);
    check_error(MX_ERR_FILE, "a.png");
    assert_true(mx_file_write(path_of("pets/cat/a.png"), "", 0));
    write_image(cat, "a.png", image_of(3, 3, 1));
    assert_null(mx_image_folder("/nowhere"));
    check_error(MX_ERR_FILE, "/nowhere", "folder per class");
    assert_null(mx_image_folder(NULL));
    check_error(MX_ERR_ARGUMENT, "path");
}

static void test_image_list(void **state)
{
    (void)state;
    if (!have_png())
        return;
    MX_SCOPE;
    const char *folder = path_of("listed");
    assert_true(mx_folder_make(folder));
    write_image(folder, "a.png", image_of(2, 3, 5));
    const char text[] = "0\t7\tlisted/a.png\r\n\n12\t1.5\t -2 \tlisted/a.png ";
    assert_true(mx_file_write(path_of("x.lst"), text, sizeof text - 1));
    mx_dataset *d = mx_image_list(path_of("x.lst"));
    check_no_error();
    assert_int_equal(mx_dataset_length(d), 2);
    check_same(mx_dataset_at(d, 0).v[0], image_of(2, 3, 5));
    assert_true(mx_item(mx_dataset_at(d, 0).v[1]) == 7);
    check_near(mx_dataset_at(d, 1).v[1], MX_DIMS(2), (double[]){1.5, -2}, 0);
    int64_t labels;
    assert_true(mx_image_key(d, 1) == 12 && mx_image_labels(d, 1, &labels)[1] == -2 && labels == 2);
    assert_string_equal(mx_image_path(mx_image_list(path_of("x.lst"), .root = ""), 1), "listed/a.png");
    assert_string_equal(mx_image_path(mx_image_list(path_of("x.lst"), .root = "r/"), 1), "r/listed/a.png");
    assert_null(mx_dataset_at(mx_image_list(path_of("x.lst"), .root = "/elsewhere"), 0).v[0]);
    check_error(MX_ERR_FILE, "/elsewhere/listed/a.png");
    static const char *const bad[] = {"0\n", "0\tx\ta.png\n", "0\t1\n", "0\t1\t\n", "a.png", "x\t1\ta.png"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        assert_true(mx_file_write(path_of("bad.lst"), bad[i], (int64_t)strlen(bad[i])));
        assert_null(mx_image_list(path_of("bad.lst")));
        check_error(MX_ERR_FILE, "bad.lst", "line 1");
    }
}

static void test_records(void **state)
{
    (void)state;
    MX_SCOPE;
    mx_record_writer *w = mx_record_writer_open(path_of("r.rec"), path_of("r.idx"));
    for (int i = 0; i < 5; i++) {
        char key[16];
        snprintf(key, sizeof key, "%d", i);
        mx_array *file = mx_imencode(image_of(3 + i, 4, 10 * i), ".ppm");
        const float labels[2] = {(float)i, 0.5f};
        mx_array *record = mx_record_pack((mx_record_header){.label = (float)i, .id = (uint64_t)i}, labels,
                                          i == 4 ? 2 : 0, mx_array_data(file), mx_size(file));
        assert_int_equal(mx_record_write(w, key, mx_array_data(record), mx_size(record)), MX_OK);
    }
    assert_int_equal(mx_record_writer_close(w), MX_OK);
    mx_dataset *bytes = mx_record_dataset(path_of("r.rec")), *images = mx_image_record_dataset(path_of("r.rec"));
    check_no_error();
    assert_int_equal(mx_dataset_length(bytes), 5);
    mx_record_header header;
    assert_int_equal(mx_record_unpack(mx_dataset_at(bytes, 3).v[0], &header, NULL, NULL), MX_OK);
    assert_int_equal(header.id, 3);
    for (int i = 0; i < 4; i++) {
        check_same(mx_dataset_at(images, i).v[0], image_of(3 + i, 4, 10 * i));
        assert_true(mx_item(mx_dataset_at(images, i).v[1]) == i);
    }
    check_near(mx_dataset_at(images, 4).v[1], MX_DIMS(2), (double[]){4, 0.5}, 0);
    mx_loader *loader = mx_data_loader(mx_dataset_transform_first(mx_dataset_take(images, 4), mx_resize(MX_DIMS(2))), 1,
                                       .num_workers = 3, .shuffle = true);
    double sum = 0;
    for (int epoch = 0; epoch < 10; epoch++)
        mx_for_each_batch(batch, loader)
            sum += mx_item(batch.label);
    check_no_error();
    assert_true(sum == 60);
    assert_true(mx_file_write(path_of("lonely.rec"), "", 0));
    assert_null(mx_record_dataset(path_of("lonely.rec")));
    check_error(MX_ERR_FILE, "lonely.idx", "index");
    assert_null(mx_record_dataset("/nowhere/x.rec"));
    check_error(MX_ERR_FILE, "/nowhere/x.rec");
    assert_true(mx_file_write(path_of("far.rec"), "\x0a\x23\xd7\xce\0\0\0\0", 8) &&
                mx_file_write(path_of("far.idx"), "0\t999\n1\t8\n2\t0\n", 14));
    mx_dataset *far = mx_image_record_dataset(path_of("far.rec"));
    assert_null(mx_dataset_at(far, 0).v[0]);
    check_error(MX_ERR_INDEX, "999");
    assert_null(mx_dataset_at(far, 1).v[0]);
    check_error(MX_ERR_FILE, "ends");
    assert_null(mx_dataset_at(far, 2).v[0]);
    check_error(MX_ERR_FILE, "header");
}

/* n rows with labels first, first + 1 ... and pixels that encode their position. */
static void write_cifar(const char *name, int n, int labels, int first)
{
    const int row = labels + 3072;
    unsigned char *bytes = malloc((size_t)(n * row));
    for (int i = 0; i < n * row; i++) {
        const int at = i % row - labels;
        bytes[i] = (unsigned char)(at < 0 ? (first + i / row) * (at + 1 ? 1 : labels) : at / 1024 * 80 + at % 32);
    }
    assert_true(mx_file_write(path_of(name), bytes, n * row));
    free(bytes);
}

static void test_cifar(void **state)
{
    (void)state;
    MX_SCOPE;
    char root[512];
    snprintf(root, sizeof root, "%s", path_of("x"));
    *strrchr(root, '/') = 0;
    assert_null(mx_cifar10(.root = root));
    check_error(MX_ERR_FILE, "CIFAR10", "data_batch_1.bin", "cs.toronto.edu");
    for (int i = 1; i <= 5; i++) {
        char name[32];
        snprintf(name, sizeof name, "data_batch_%d.bin", i);
        write_cifar(name, 2, 1, i);
    }
    mx_dataset *d = mx_cifar10(.root = root, .raw = true);
    check_no_error();
    assert_int_equal(mx_dataset_length(d), 10);
    mx_arrays example = mx_dataset_at(d, 9);
    check_shape(example.v[0], MX_DIMS(32, 32, 3));
    assert_int_equal(mx_dtype_of(example.v[1]), MX_INT32);
    assert_true(mx_item(example.v[1]) == 6);
    const unsigned char *p = mx_array_data(example.v[0]);
    assert_true(p[0] == 0 && p[1] == 80 && p[2] == 160 && p[3 * 31] == 31 && p[3 * 32] == 0);
    example = mx_dataset_at(mx_cifar10(.root = root), 0);
    check_shape(example.v[0], MX_DIMS(3, 32, 32));
    assert_true(fabs(mx_item(mx_max(example.v[0])) - 191.0 / 255) < 1e-6);
    write_cifar("train.bin", 3, 2, 2);
    assert_true(mx_item(mx_dataset_at(mx_cifar100(.root = root, .raw = true), 1).v[1]) == 3);
    assert_true(mx_item(mx_dataset_at(mx_cifar100(.root = root, .raw = true, .fine_label = true), 1).v[1]) == 6);
    write_cifar("test_batch.bin", 2, 1, 9); /* labels 9 and 10 */
    assert_null(mx_cifar10(.root = root, .train = false));
    check_error(MX_ERR_FILE, "label is 10");
    assert_true(mx_file_write(path_of("test_batch.bin"), "short", 5));
    assert_null(mx_cifar10(.root = root, .train = false));
    check_error(MX_ERR_FILE, "test_batch.bin", "a multiple of 3073");
}

/* ---- every allocation fails once: an error, nothing leaked --------------------------------------------------------------- */

static bool use_folder(void)
{
    mx_dataset *d = mx_image_folder(path_of("pets"));
    return d && mx_dataset_at(mx_dataset_transform_first(d, mx_center_crop(MX_DIMS(3))), 2).v[0];
}
static bool use_list(void) { return mx_dataset_at(mx_image_list(path_of("x.lst")), 1).v[0]; }
static bool use_records(void) { return mx_dataset_at(mx_image_record_dataset(path_of("r.rec")), 4).v[0]; }
static bool write_record(void)
{
    mx_record_writer *w = mx_record_writer_open(path_of("w.rec"), path_of("w.idx"));
    return w && !mx_record_write(w, "a", "abc", 3) && !mx_record_writer_close(w);
}
static bool use_cifar(void)
{
    char root[512];
    snprintf(root, sizeof root, "%s", path_of("x"));
    *strrchr(root, '/') = 0;
    return mx_dataset_at(mx_cifar100(.root = root), 1).v[0];
}
static bool encode_and_decode(void)
{
    mx_array *file = mx_imencode(image_of(5, 4, 3), ".png");
    return file && mx_imdecode(mx_array_data(file), mx_size(file)) &&
           !mx_imwrite(image_of(2, 2, 2), path_of("w.ppm")) && mx_imread(path_of("w.ppm"));
}
static bool resize_and_turn(void)
{
    mx_array *x = mx_imresize(image_of(9, 8, 3), .w = 4, .h = 5, .interp = 2);
    return x && mx_call(mx_rotate(30), mx_image_to_tensor(x)) && mx_call(mx_random_apply(mx_random_hue(0.5), 1), x);
}
static bool read_csv(void)
{
    return mx_file_write(path_of("n.csv"), "1,2\n3,4\n", 8) && mx_load_csv(path_of("n.csv"), MX_FLOAT16);
}

static bool augment(void)
{
    mx_array *image = image_of(20, 30, 3);
    mx_array *label = mx_array_from(MX_DIMS(12), MX_FLOAT32, (float[]){2, 5, 0, 0.1f, 0.1f, 0.5f, 0.6f, 1, 0, 0, 1, 1});
    mx_array *boxes = label ? mx_boxes_parse(label) : NULL;
    const struct mx_augmenter_args *args =
        MX_AUGMENTER_ARGS(8, 8, .resize = 12, .rand_crop = 1, .rand_pad = 1, .rand_mirror = true, .contrast = 0.1,
                          .saturation = 0.1, .hue = 0.1, .pca_noise = 0.1, .rand_gray = 1, .mean = MX_FLOATS(1, 2, 3));
    return image && boxes && !mx_augment_boxes(args, &image, &boxes) && mx_call(mx_augmenter_make(args), image) &&
           mx_augmenter_names(args, true).n > 0;
}

static void test_allocation(void **state)
{
    (void)state;
    if (!have_png())
        return;
    bool (*const bodies[])(void) = {use_folder, use_list,          use_records,     write_record,
                                    use_cifar,  encode_and_decode, resize_and_turn, read_csv, augment};
    for (size_t i = 0; i < sizeof bodies / sizeof *bodies; i++) {
        bool good = false;
        mx_scoped()
            assert_true(bodies[i]()); /* creates names of automatic prefixes and the like */
        for (int64_t number = 1; !good; number++) {
            const int64_t before = check_live();
            mx_scoped() {
                mx_alloc_fail_at(number);
                good = bodies[i]();
                mx_alloc_fail_at(0);
            }
            if (!good)
                check_error(MX_ERR_MEMORY, "");
            if (check_live() > before)
                fail_msg("body %zu, allocation %lld: %lld blocks before, %lld after", i, (long long)number,
                         (long long)before, (long long)check_live());
        }
    }
}

/* Removes the folders; the other files are removed with the process's own folder. */
static int remove_folders(void **state)
{
    (void)state;
    static const char *const names[] = {"pets/dog/a.PNG", "pets/dog/b.png", "pets/cat/a.png", "pets/cat/z.png", "pets/cat/notes.txt",
                                        "pets/list.txt", "pets/dog", "pets/cat", "pets", "listed/a.png", "listed"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        remove(path_of(names[i]));
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_layers),     cmocka_unit_test(test_random_apply), cmocka_unit_test(test_image_folder),
        cmocka_unit_test(test_image_list), cmocka_unit_test(test_records),      cmocka_unit_test(test_cifar),
        cmocka_unit_test(test_allocation), cmocka_unit_test(test_warp), cmocka_unit_test(test_hls),
    };
    return cmocka_run_group_tests(tests, NULL, remove_folders);
}
