/* Image files, resizing, crops, colours.  Numbers marked "classic" were computed by MXNet 1.9.1.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <unistd.h>

#include "base/file.h"
#include "base/image.h"
#include "base/interrupt.h"
#include "block_check.h"

/* (6, 5, 3), the image of the classic numbers. */
static mx_array *small_image(void)
{
    unsigned char pixels[90];
    for (int i = 0; i < 90; i++)
        pixels[i] = (unsigned char)(i * 37 % 251);
    return mx_array_from(MX_DIMS(6, 5, 3), MX_UINT8, pixels);
}

/* An image with areas and edges, like a photograph. */
static mx_array *picture(int64_t height, int64_t width, int channels)
{
    mx_array *x = mx_empty(channels ? MX_DIMS(height, width, channels) : MX_DIMS(height, width), MX_UINT8, mx_cpu(0));
    unsigned char *p = mx_array_data(x);
    const int n = channels ? channels : 1;
    for (int64_t i = 0; i < height * width * n; i++) {
        const int64_t y = i / (width * n), c = i % n, column = i / n % width;
        p[i] = (unsigned char)(column > width / 2 ? 200 - 2 * y - 20 * c : 40 + 3 * column + 10 * c);
    }
    return x;
}

static bool have(const char *format)
{
    MX_SCOPE;
    if (mx_imencode(picture(4, 4, 3), format))
        return true;
    check_error(MX_ERR_UNSUPPORTED, "install", "apt-get");
    print_message("skipped: this build has no %s\n", format);
    return false;
}

static double mean_difference(mx_array *a, mx_array *b)
{
    const unsigned char *p = mx_array_data(a), *q = mx_array_data(b);
    double sum = 0;
    assert_int_equal(mx_size(a), mx_size(b));
    for (int64_t i = 0; i < mx_size(a); i++)
        sum += abs(p[i] - q[i]);
    return sum / (double)mx_size(a);
}

/* ---- files ------------------------------------------------------------------------------------------------------------ */

static mx_array *decode(mx_array *file, int flag, bool rgb)
{
    return mx_imdecode(mx_array_data(file), mx_size(file), .flag = flag, .to_rgb = rgb);
}

static void check_format(const char *format, double loss)
{
    MX_SCOPE;
    for (int channels = 1; channels <= 3; channels += 2) {
        mx_array *x = picture(37, 53, channels), *file = mx_imencode(x, format);
        mx_array *same = decode(file, -1, true), *colour = decode(file, 1, true), *gray = decode(file, 0, true);
        check_no_error();
        check_shape(same, MX_DIMS(37, 53, channels));
        check_shape(colour, MX_DIMS(37, 53, 3));
        check_shape(gray, MX_DIMS(37, 53, 1));
        assert_true(mean_difference(x, same) <= loss);
        if (channels == 1) {
            assert_true(mean_difference(gray, same) <= 0);
            continue;
        }
        mx_array *reversed = mx_reverse(decode(file, 1, false), .axis = MX_DIMS(2)); /* B, G, R backwards */
        check_same(reversed, colour);
        mx_array *swapped = mx_imencode(mx_reverse(x, .axis = MX_DIMS(2)), format, .rgb = false);
        check_same(decode(swapped, 1, true), colour);
        const unsigned char *c = mx_array_data(colour), *g = mx_array_data(gray);
        for (int i = 0; i < 37 * 53; i++)
            assert_true(fabs(0.299 * c[3 * i] + 0.587 * c[3 * i + 1] + 0.114 * c[3 * i + 2] - g[i]) < 2.5);
    }
    check_same(decode(mx_imencode(picture(20, 10, 0), format), 0, true),
               decode(mx_imencode(picture(20, 10, 1), format), 0, true));
}

static void test_formats(void **state)
{
    (void)state;
    check_format(".ppm", 0);
    check_format(".PGM", 0);
    if (have(".png"))
        check_format(".png", 0);
    if (have(".jpg"))
        check_format(".JPEG", 2.5);
    MX_SCOPE;
    if (!have(".png"))
        return;
    mx_array *clear = picture(9, 7, 4);
    check_same(decode(mx_imencode(clear, ".png"), -1, true), clear);
    check_shape(decode(mx_imencode(clear, ".png"), 1, true), MX_DIMS(9, 7, 3));
    assert_true(mx_size(mx_imencode(picture(90, 90, 3), ".png", .quality = 0)) >
                mx_size(mx_imencode(picture(90, 90, 3), ".png", .quality = 9)));
    if (have(".jpg"))
        assert_true(mx_size(mx_imencode(picture(90, 90, 3), ".jpg", .quality = 95)) >
                    mx_size(mx_imencode(picture(90, 90, 3), ".jpg", .quality = 20)));
}

static void test_bad_arguments(void **state)
{
    (void)state;
    MX_SCOPE;
    mx_array *x = picture(5, 5, 3);
    assert_null(mx_imencode(x, ".gif"));
    check_error(MX_ERR_ARGUMENT, ".gif", ".png");
    assert_null(mx_imencode(x, NULL));
    check_error(MX_ERR_ARGUMENT, "format");
    assert_null(mx_imencode(mx_cast(x, .dtype = MX_FLOAT32), ".ppm"));
    check_error(MX_ERR_SHAPE, "mx_imencode", "float32");
    assert_null(mx_imencode(mx_empty(MX_DIMS(4, 4, 2), MX_UINT8, mx_cpu(0)), ".ppm"));
    check_error(MX_ERR_SHAPE, "(4, 4, 2)");
    assert_null(mx_imencode(mx_empty(MX_DIMS(0, 4, 3), MX_UINT8, mx_cpu(0)), ".ppm"));
    check_error(MX_ERR_SHAPE, "(0, 4, 3)");
    if (have(".jpg")) {
        assert_null(mx_imencode(picture(4, 4, 4), ".jpg"));
        check_error(MX_ERR_ARGUMENT, "JPEG");
    }
    assert_int_equal(mx_imwrite(x, "no_suffix"), MX_ERR_ARGUMENT);
    check_error(MX_ERR_ARGUMENT, "suffix");
    assert_int_equal(mx_imwrite(x, "/nowhere/x.ppm"), MX_ERR_FILE);
    check_error(MX_ERR_FILE, "/nowhere");
    assert_null(mx_imread("/nowhere/x.jpg"));
    check_error(MX_ERR_FILE, "/nowhere/x.jpg");
    assert_null(mx_imread(NULL));
    check_error(MX_ERR_ARGUMENT, "path");
    assert_null(mx_imdecode("P5 1 1 255 x", 12, .flag = 7));
    check_error(MX_ERR_ARGUMENT, "flag");
    assert_null(mx_imdecode(NULL, 5));
    check_error(MX_ERR_ARGUMENT, "mx_imdecode");
    assert_null(mx_imdecode("", 0));
    check_error(MX_ERR_FILE, "no bytes");
    assert_null(mx_imdecode("GIF89a not for us", 17));
    check_error(MX_ERR_FILE, "JPEG");
    const char *path = check_file("x.ppm");
    assert_int_equal(mx_imwrite(x, path), MX_OK);
    check_same(mx_imread(path), x);
}

/* Every cut is an error that says so; a JPEG file is still complete without its end marker (two bytes). */
static void check_cuts(const char *format, int64_t spare)
{
    MX_SCOPE;
    mx_array *file = mx_imencode(picture(19, 23, 3), format);
    const unsigned char *bytes = mx_array_data(file);
    for (int64_t n = 0; n < mx_size(file); n++) {
        MX_SCOPE;
        unsigned char *cut = malloc((size_t)n + 1); /* so that the sanitizer sees every access past the end */
        memcpy(cut, bytes, (size_t)n);
        mx_array *image = mx_imdecode(cut, n);
        free(cut);
        if (n >= mx_size(file) - spare && image)
            continue;
        assert_null(image);
        check_error(MX_ERR_FILE, "mx_imdecode");
    }
}

/* Any bytes give an image of a bounded size or an error. */
static void check_flips(const char *format)
{
    MX_SCOPE;
    mx_array *file = mx_imencode(picture(11, 9, 3), format);
    const int64_t n = mx_size(file);
    unsigned char *bytes = malloc((size_t)n);
    for (int64_t i = 0; i < n; i++)
        for (int bit = 0; bit < 8; bit++) {
            MX_SCOPE;
            memcpy(bytes, mx_array_data(file), (size_t)n);
            bytes[i] = (unsigned char)(bytes[i] ^ 1 << bit);
            mx_array *image = mx_imdecode(bytes, n, .flag = bit % 3 - 1);
            if (image)
                assert_true(mx_size(image) <= 4 * 8256 * n);
            else
                check_error(MX_ERR_FILE, "mx_imdecode");
        }
    free(bytes);
}

static void test_damage(void **state)
{
    (void)state;
    check_cuts(".ppm", 0);
    check_flips(".ppm");
    if (have(".png")) {
        check_cuts(".png", 0);
        check_flips(".png");
    }
    if (have(".jpg")) {
        check_cuts(".jpg", 2);
        check_flips(".jpg");
    }
}

static void test_huge(void **state)
{
    (void)state;
    MX_SCOPE;
    static const char *const plain[] = {"P5 999999 999999 255 x",
                                        "P6 99999999999 1 255 x",
                                        "P5 0 5 255 x",
                                        "P5 5 5 65535 x",
                                        "P5 -1 5 255 x",
                                        "P5 5",
                                        "P5\n#"};
    for (size_t i = 0; i < sizeof plain / sizeof *plain; i++) {
        assert_null(mx_imdecode(plain[i], (int64_t)strlen(plain[i])));
        check_error(MX_ERR_FILE, "PNM");
    }
    if (have(".jpg")) { /* rows and columns of the frame set to 65500 */
        mx_array *file = mx_imencode(picture(16, 16, 3), ".jpg");
        unsigned char *p = mx_array_data(file);
        for (int64_t i = 0; i + 9 < mx_size(file); i++)
            if (p[i] == 0xff && p[i + 1] == 0xc0) {
                p[i + 5] = p[i + 7] = 0xff, p[i + 6] = p[i + 8] = 0xdc;
                break;
            }
        assert_null(decode(file, 1, true));
        check_error(MX_ERR_FILE, "JPEG", "too many");
    }
    if (have(".png")) { /* 100000 x 100000: then the checksum of the header is wrong, too */
        mx_array *file = mx_imencode(picture(16, 16, 3), ".png");
        unsigned char *p = mx_array_data(file);
        p[16 + 1] = p[20 + 1] = 1;
        assert_null(decode(file, 1, true));
        check_error(MX_ERR_FILE, "PNG");
    }
}

static int questions;
static bool third_time(void) { return ++questions == 3; }

/* In the middle of the image; a file of 100 KB may need minutes. */
static void test_stopped(void **state)
{
    static const char *const formats[] = {".png", ".jpg"};
    (void)state;
    mx_interrupt_set_pause(0);
    for (int i = 0; i < 2; i++) {
        MX_SCOPE;
        if (!have(formats[i]))
            continue;
        mx_array *file = mx_imencode(picture(90, 90, 3), formats[i]), *before = decode(file, 1, true);
        questions = 0;
        mx_set_interrupt(third_time);
        assert_null(decode(file, 1, true));
        mx_set_interrupt(NULL);
        assert_int_equal(questions, 3);
        check_error(MX_ERR_STATE, "interrupted");
        check_same(decode(file, 1, true), before);
    }
}

/* How the camera was held: an EXIF segment after the first marker holds orientation o. */
static void test_orientation(void **state)
{
    (void)state;
    if (!have(".jpg"))
        return;
    MX_SCOPE;
    mx_array *file = mx_imencode(picture(16, 24, 3), ".jpg"), *plain = decode(file, 1, true);
    for (int o = 1; o <= 8; o++) {
        const unsigned char segment[] = {0xff, 0xe1, 0, 34, 'E', 'x', 'i', 'f', 0, 0, 'I', 'I', 42, 0, 8, 0, 0, 0, 1, 0,
                                         0x12, 1, 3, 0, 1, 0, 0, 0, (unsigned char)o, 0, 0, 0, 0, 0, 0, 0};
        unsigned char *bytes = malloc((size_t)mx_size(file) + sizeof segment);
        memcpy(bytes, mx_array_data(file), 2);
        memcpy(bytes + 2, segment, sizeof segment);
        memcpy(bytes + 2 + sizeof segment, (char *)mx_array_data(file) + 2, (size_t)mx_size(file) - 2);
        const int64_t n = mx_size(file) + (int64_t)sizeof segment;
        mx_array *x = mx_imdecode(bytes, n), *wanted = plain;
        if (o >= 5)
            wanted = mx_transpose(plain, .axes = MX_DIMS(1, 0, 2));
        if (o == 2 || o == 3 || o == 6 || o == 7)
            wanted = mx_image_flip_left_right(wanted);
        if (o == 3 || o == 4 || o == 7 || o == 8)
            wanted = mx_image_flip_top_bottom(wanted);
        check_same(x, wanted);
        check_same(mx_imdecode(bytes, n, .flag = -1), plain);
        free(bytes);
    }
}

/* ---- sizes -------------------------------------------------------------------------------------------------------------- */

/* Row 1 of the classic results. */
static void test_resize_values(void **state)
{
    (void)state;
    MX_SCOPE;
    static const struct { int64_t w, h; int interp; unsigned char row[9]; } classic[] = {
        {3, 4, 0, {53, 90, 127, 164, 201, 238, 135, 172, 209}}, {3, 4, 1, {130, 104, 141, 64, 101, 138, 123, 118, 92}},
        {3, 4, 2, {143, 98, 135, 52, 98, 135, 122, 123, 85}},   {3, 4, 3, {133, 103, 140, 110, 113, 117, 137, 123, 93}},
        {3, 4, 4, {159, 107, 127, 48, 105, 128, 131, 122, 86}}, {7, 8, 1, {33, 70, 107, 97, 133, 171, 131, 141, 178}},
        {7, 8, 2, {19, 54, 91, 98, 163, 200, 137, 170, 206}},   {7, 8, 3, {35, 72, 109, 102, 139, 176, 135, 155, 192}},
        {7, 5, 3, {71, 107, 145, 137, 124, 161, 154, 124, 160}},
    };
    for (size_t i = 0; i < sizeof classic / sizeof *classic; i++) {
        mx_array *y = mx_imresize(small_image(), .w = classic[i].w, .h = classic[i].h, .interp = classic[i].interp);
        check_shape(y, MX_DIMS(classic[i].h, classic[i].w, 3));
        const unsigned char *row = (unsigned char *)mx_array_data(y) + classic[i].w * 3;
        for (int k = 0; k < 9; k++)
            assert_true(abs(row[k] - classic[i].row[k]) <= 1);
    }
    for (int interp = 0; interp <= 4; interp++) {
        mx_array *x = picture(40, 30, 3);
        check_same(mx_imresize(x, .w = 30, .h = 40, .interp = interp), x);
    }
    assert_null(mx_imresize(small_image(), .w = 3, .h = 4, .interp = 7));
    check_error(MX_ERR_ATTRIBUTE, "interp");
    assert_null(mx_imresize(small_image(), .w = 0, .h = 4));
    check_error(MX_ERR_ATTRIBUTE, "w");
    assert_null(mx_image_resize(small_image()));
    check_error(MX_ERR_ATTRIBUTE, "size");
    assert_null(mx_image_resize(mx_empty(MX_DIMS(0, 4, 3), MX_UINT8, mx_cpu(0)), .size = MX_DIMS(3)));
    check_error(MX_ERR_SHAPE, "_image_resize");
    assert_null(mx_image_resize(mx_empty(MX_DIMS(4, 4), MX_UINT8, mx_cpu(0)), .size = MX_DIMS(3)));
    check_error(MX_ERR_SHAPE, "(4, 4)");
}

static void test_crops(void **state)
{
    (void)state;
    MX_SCOPE;
    mx_array *x = picture(7, 9, 3);
    mx_region r;
    check_shape(mx_image_center_crop(x, 4, 3, 2, &r), MX_DIMS(3, 4, 3));
    assert_true(r.x == 2 && r.y == 2 && r.width == 4 && r.height == 3);
    check_shape(mx_image_center_crop(x, 20, 4, 2, &r),
                MX_DIMS(4, 20, 3)); /* too large: a smaller part, enlarged (classic) */
    assert_true(r.x == 0 && r.y == 3 && r.width == 9 && r.height == 1);
    int64_t w = 720, h = 120;
    mx_image_scale_down(640, 480, &w, &h);
    assert_true(w == 640 && h == 106);
    check_shape(mx_image_resize_short(x, 4, 1), MX_DIMS(4, 5, 3));
    check_shape(mx_image_resize_short(picture(9, 7, 1), 4, 9), MX_DIMS(5, 4, 1));
    check_shape(mx_image_fixed_crop(x, (mx_region){1, 2, 3, 4}, 0, 0, 2), MX_DIMS(4, 3, 3));
    check_shape(mx_image_fixed_crop(x, (mx_region){1, 2, 3, 4}, 6, 5, 9), MX_DIMS(5, 6, 3));
    bool corners[3][4] = {{0}};
    for (int i = 0; i < 200; i++) {
        check_shape(mx_image_random_crop(x, 7, 4, 1, &r), MX_DIMS(4, 7, 3));
        assert_true(r.x >= 0 && r.x <= 2 && r.y >= 0 && r.y <= 3);
        corners[r.x][r.y] = true;
        check_shape(mx_image_random_size_crop(x, 5, 6, (double[]){0.2, 0.9}, (double[]){0.75, 1.3}, 10, &r),
                    MX_DIMS(6, 5, 3));
        assert_true(r.x >= 0 && r.y >= 0 && r.x + r.width <= 9 && r.y + r.height <= 7 && r.width * r.height < 63);
    }
    for (int i = 0; i < 12; i++)
        assert_true(corners[i / 4][i % 4]);
    assert_int_equal(mx_image_interp(9, 10, 10, 20, 20), 2);
    assert_int_equal(mx_image_interp(9, 10, 10, 5, 5), 3);
    assert_int_equal(mx_image_interp(9, 10, 10, 5, 20), 1);
    assert_int_equal(mx_image_interp(9, 0, 0, 0, 0), 2);
    assert_int_equal(mx_image_interp(6, 0, 0, 0, 0), -1);
    check_error(MX_ERR_ARGUMENT, "interp");
    check_shape(mx_image_fixed_crop(x, (mx_region){8, 0, 3, 4}, 0, 0, 2), MX_DIMS(4, 1, 3)); /* cut at the edge */
    assert_null(mx_image_fixed_crop(x, (mx_region){9, 0, 3, 4}, 0, 0, 2));
    check_error(MX_ERR_ATTRIBUTE, "_image_crop");
    assert_null(mx_image_center_crop(x, 0, 3, 2, NULL));
    check_error(MX_ERR_ARGUMENT, "crop");
    assert_null(mx_image_random_size_crop(x, 5, 6, (double[]){0.9, 0.2}, (double[]){0.75, 1.3}, 1, NULL));
    check_error(MX_ERR_ARGUMENT, "area");
    assert_null(mx_image_center_crop(check_array(MX_DIMS(4, 4), 1), 2, 2, 1, NULL));
    check_error(MX_ERR_SHAPE, "(4, 4)");
    mx_array *mean = mx_array_from(MX_DIMS(3), MX_FLOAT32, (float[]){1, 2, 3}),
             *std = mx_array_from(MX_DIMS(3), MX_FLOAT32, (float[]){4, 5, 6});
    mx_array *pixel = mx_array_from(MX_DIMS(1, 1, 3), MX_FLOAT32, (float[]){9, 12, 6});
    check_near(mx_image_color_normalize(pixel, mean, std), MX_DIMS(1, 1, 3), (double[]){2, 2, 0.5}, 1e-6);
    check_near(mx_image_color_normalize(pixel, mean, MX_NONE), MX_DIMS(1, 1, 3), (double[]){8, 10, 3}, 1e-6);
}

/* ---- colours and rotation: pixel (1, 1), classic ---------------------------------------------------------------------------- */

static void check_pixel(mx_array *y, double a, double b, double c)
{
    check_no_error();
    const double *v = check_values(y) + 18, wanted[3] = {a, b, c};
    for (int i = 0; i < 3; i++)
        assert_true(fabs(v[i] - wanted[i]) < 1e-3);
}

/* Draws that return the test's numbers, in order. */
static double given_uniform(void *user, double low, double high)
{
    (void)low, (void)high;
    return *(*(const double **)user)++;
}
static int64_t given_integer(void *user, int64_t low, int64_t high)
{
    const double number = *(*(const double **)user)++;
    assert_true(number >= (double)low && number <= (double)high);
    return (int64_t)number;
}
static mx_draws given(const double **numbers) { return (mx_draws){given_uniform, given_integer, (void *)numbers}; }

static void test_regions(void **state)
{
    (void)state;
    MX_SCOPE;
    mx_region r = mx_image_center_region(9, 7, 4, 3);
    assert_true(r.x == 2 && r.y == 2 && r.width == 4 && r.height == 3);
    const double *next = (const double[]){5, 1};
    mx_draws draws = given(&next);
    r = mx_image_random_region(9, 7, 4, 3, &draws);
    assert_true(r.x == 5 && r.y == 1 && r.width == 4 && r.height == 3);
    assert_true(mx_image_part_size(10, 10, 0.25, 1, &r) && r.width == 5 && r.height == 5);
    assert_true(mx_image_part_size(10, 10, 0.0625, 1, &r) && r.width == 2); /* 2.5 becomes the even one */
    assert_false(mx_image_part_size(10, 10, 0.5, 4, &r));                   /* 14 x 4 does not fit */
    assert_false(mx_image_part_size(10, 10, 0, 1, &r));
    assert_false(mx_image_part_size(10, 10, NAN, 1, &r) || mx_image_part_size(10, 10, 1, NAN, &r));
    assert_false(mx_image_part_size(10, 10, 1e300, 1, &r) || mx_image_part_size(10, 10, -1, 1, &r));
    /* the first try does not fit, the second does */
    const mx_parts parts = {.area = {0.1, 0.9}, .ratio = {0.5, 4}, .tries = 2};
    next = (const double[]){0.5, 4, 0.25, 1, 3, 4};
    assert_true(mx_image_random_part(10, 10, &parts, &draws, &r));
    assert_true(r.x == 3 && r.y == 4 && r.width == 5 && r.height == 5);
    next = (const double[]){0.5, 4, 0.5, 4};
    assert_false(mx_image_random_part(10, 10, &parts, &draws, &r));
    next = (const double[]){1, 1, 4, 1, 7, 10};
    assert_true(mx_image_random_frame(10, 10, &parts, &draws, &r));
    assert_true(r.x == 7 && r.y == 10 && r.width == 20 && r.height == 20);
    for (int i = 0; i < 100; i++) { /* the library's own numbers */
        assert_true(mx_image_random_part(10, 10, &(mx_parts){{0.2, 0.5}, {0.5, 2}, true, 50}, NULL, &r));
        assert_true(r.x >= 0 && r.y >= 0 && r.x + r.width <= 10 && r.y + r.height <= 10);
    }
}

static mx_array *boxes(int64_t n, const float *values) { return mx_array_from(MX_DIMS(n, 6), MX_FLOAT32, values); }

static void test_boxes(void **state)
{
    (void)state;
    MX_SCOPE;
    /* class, left, top, right, bottom, a number that is passed through */
    mx_array *x = boxes(2, (float[]){0, 0.1f, 0.2f, 0.5f, 0.6f, 7, 1, 0.5f, 0.5f, 1, 1, 8});
    check_near(mx_boxes_flip(x), MX_DIMS(2, 6), (double[]){0, 0.5, 0.2, 0.9, 0.6, 7, 1, 0, 0.5, 0.5, 1, 8}, 1e-6);
    assert_int_equal(mx_dtype_of(mx_boxes_flip(x)), MX_FLOAT32);
    assert_int_equal(mx_dtype_of(mx_boxes_flip(mx_cast(x, .dtype = MX_FLOAT64))), MX_FLOAT64);
    /* the left upper quarter of 10 x 20: all of the first box but a part of its height, none of the second */
    mx_box_crop how = {.min_object_covered = 0.5, .min_eject_coverage = 0.3, .parts = {{0, 1}, {1, 1}, false, 3}};
    const mx_region quarter = {0, 0, 5, 10};
    check_near(mx_boxes_crop(x, 10, 20, quarter, &how), MX_DIMS(1, 6), (double[]){0, 0.2, 0.4, 1, 1, 7}, 1e-6);
    how.min_object_covered = 0.8; /* 0.75 of it is covered */
    assert_null(mx_boxes_crop(x, 10, 20, quarter, &how));
    check_no_error();
    how.min_object_covered = 0.1, how.min_eject_coverage = 0.75001;
    assert_null(mx_boxes_crop(x, 10, 20, quarter, &how));
    check_no_error();
    how.min_eject_coverage = 0.3;
    /* two tries: too large; the right lower quarter of 10 x 10 */
    mx_region r;
    const double *next = (const double[]){4, 1, 0.25, 1, 5, 5};
    mx_draws draws = given(&next);
    check_near(mx_boxes_random_crop(x, 10, 10, &how, &draws, &r), MX_DIMS(1, 6), (double[]){1, 0, 0, 1, 1, 8}, 1e-6);
    assert_true(r.x == 5 && r.y == 5 && r.width == 5 && r.height == 5);
    next = (const double[]){4, 1, 4, 1, 4, 1};
    assert_null(mx_boxes_random_crop(x, 10, 10, &how, &draws, &r));
    check_no_error();
    check_near(mx_boxes_pad(x, 10, 10, (mx_region){10, 0, 20, 40}), MX_DIMS(2, 6),
               (double[]){0, 0.55, 0.05, 0.75, 0.15, 7, 1, 0.75, 0.125, 1, 0.25, 8}, 1e-6);
    next = (const double[]){4, 1, 0, 10};
    check_near(mx_boxes_random_pad(x, 10, 10, &how.parts, &draws, &r), MX_DIMS(2, 6),
               (double[]){0, 0.05, 0.6, 0.25, 0.8, 7, 1, 0.25, 0.75, 0.5, 1, 8}, 1e-6);
    assert_null(mx_boxes_flip(check_array(MX_DIMS(3, 4), 1)));
    check_error(MX_ERR_SHAPE, "(3, 4)");
}

static void test_labels(void **state)
{
    (void)state;
    MX_SCOPE;
    const float raw[] = {3, 5, 99, 0, 0.1f, 0.1f, 0.5f, 0.5f, 1, 0.4f, 0.1f, 0.4f, 0.5f, 2, 0, 0, 1, 1};
    check_near(mx_boxes_parse(mx_array_from(MX_DIMS(18), MX_FLOAT32, raw)), MX_DIMS(2, 5),
               (double[]){0, 0.1, 0.1, 0.5, 0.5, 2, 0, 0, 1, 1}, 1e-6); /* the second has no width */
    assert_null(mx_boxes_parse(mx_array_from(MX_DIMS(7), MX_FLOAT32, (float[]){2, 5, 0, 0.5f, 0, 0.5f, 1})));
    check_no_error();
    assert_null(mx_boxes_parse(mx_array_from(MX_DIMS(17), MX_FLOAT32, raw)));
    check_error(MX_ERR_ARGUMENT, "17 numbers", "header of 3");
    assert_null(mx_boxes_parse(mx_array_from(MX_DIMS(6), MX_FLOAT32, raw)));
    check_error(MX_ERR_ARGUMENT, "6 numbers");
    assert_null(mx_boxes_parse(mx_array_from(MX_DIMS(7), MX_FLOAT32, (float[]){2, NAN, 0, 1, 2, 3, 4})));
    check_error(MX_ERR_ARGUMENT, "header");
}

static void check_close(mx_array *a, mx_array *b, double most)
{
    const double error = mx_item(mx_max(mx_abs(mx_sub(a, b))));
    if (!(error <= most))
        fail_msg("they differ by %g", error);
}

/* Colours at given strengths agree with the operators that draw them. */
static void test_given_colours(void **state)
{
    (void)state;
    MX_SCOPE;
    mx_array *x = mx_cast(picture(5, 4, 3), .dtype = MX_FLOAT32);
    const double same = 1e-3;
    check_close(mx_image_brightness(x, 0.7), mx_image_random_brightness(x, .min_factor = 0.7, .max_factor = 0.7), same);
    check_close(mx_image_contrast(x, 0.7), mx_image_random_contrast(x, .min_factor = 0.7, .max_factor = 0.7), same);
    check_close(mx_image_saturation(x, 0.7), mx_image_random_saturation(x, .min_factor = 0.7, .max_factor = 0.7), same);
    check_close(mx_image_lighting(x, (double[]){0.1, 0.2, 0.3}, NULL, NULL),
                mx_image_adjust_lighting(x, .alpha = MX_FLOATS(0.1, 0.2, 0.3)), same);
    const double turned[9] = {0, 1, 0, 1, 0, 0, 0, 0, 1};
    mx_array *pixel = mx_array_from(MX_DIMS(1, 1, 3), MX_FLOAT32, (float[]){10, 20, 30});
    check_near(mx_image_lighting(pixel, (double[]){1, 2, 3}, (double[]){4, 5, 6}, turned), MX_DIMS(1, 1, 3),
               (double[]){20, 24, 48}, 1e-4);
    check_near(mx_image_gray(pixel), MX_DIMS(1, 1, 3), (double[]){18.6, 18.6, 18.6}, 1e-4);
    assert_int_equal(mx_dtype_of(mx_image_gray(picture(2, 2, 3))), MX_UINT8);
    check_near(mx_image_hue(pixel, 0), MX_DIMS(1, 1, 3), (double[]){10, 20, 30}, 0.2);
    /* rotated by half a turn: the brightness stays, the differences change sign */
    check_near(mx_image_hue(pixel, 1), MX_DIMS(1, 1, 3), (double[]){26.3, 16.3, 6.2}, 0.4);
    check_near(mx_image_color_normalize(pixel, MX_NONE, mx_array_scalar(2)), MX_DIMS(1, 1, 3), (double[]){5, 10, 15},
               1e-5);
    assert_null(mx_image_hue(picture(2, 2, 1), 0.5));
    check_error(MX_ERR_SHAPE, "(2, 2, 1)");
    assert_null(mx_image_lighting(pixel, NULL, NULL, NULL));
    check_error(MX_ERR_ARGUMENT, "alpha");
}

static const char *joined(mx_names names)
{
    static char text[512];
    *text = 0;
    for (int64_t i = 0; i < names.n; i++)
        strcat(strcat(text, i ? " " : ""), names.v[i]);
    return text;
}

static void test_augmenters(void **state)
{
    (void)state;
    MX_SCOPE;
    mx_array *x = picture(20, 30, 3);
    mx_array *y = mx_call(mx_augmenter(8, 9, .mean = MX_FLOATS(10), .std = MX_FLOATS(2, 2, 4)), x);
    mx_array *crop = mx_cast(mx_image_center_crop(x, 9, 8, 2, NULL), .dtype = MX_FLOAT32);
    mx_array *half = mx_array_from(MX_DIMS(3), MX_FLOAT32, (float[]){0.5f, 0.5f, 0.25f});
    check_shape(y, MX_DIMS(8, 9, 3));
    check_close(y, mx_mul(mx_sub(crop, mx_array_scalar(10)), half), 1e-5);
    mx_block *all =
        mx_augmenter(8, 9, .resize = 12, .rand_crop = 1, .rand_resize = true, .rand_mirror = true, .brightness = 0.2,
                     .contrast = 0.2, .saturation = 0.2, .hue = 0.1, .pca_noise = 0.1, .rand_gray = 0.5);
    double least = 1e9, most = -1e9;
    for (int i = 0; i < 30; i++) {
        MX_SCOPE;
        check_shape(mx_call(all, x), MX_DIMS(8, 9, 3));
        const double mean = mx_item(mx_mean(mx_call(all, x)));
        least = fmin(least, mean), most = fmax(most, mean);
    }
    assert_true(least < most);
    check_no_error();
    assert_string_equal(joined(mx_augmenter_names(MX_AUGMENTER_ARGS(8, 9), false)), "CenterCropAug CastAug");
    assert_string_equal(
        joined(mx_augmenter_names(
            MX_AUGMENTER_ARGS(8, 9, .resize = 9, .rand_crop = 1, .rand_mirror = true, .hue = 1, .mean = MX_FLOATS(1)),
            false)),
        "ResizeAug RandomCropAug HorizontalFlipAug CastAug HueJitterAug ColorNormalizeAug");
    assert_string_equal(joined(mx_augmenter_names(
                            MX_AUGMENTER_ARGS(8, 9, .rand_crop = 0.5, .rand_pad = 0.5, .rand_mirror = true), true)),
                        "DetRandomCropAug DetHorizontalFlipAug DetRandomPadAug ForceResizeAug CastAug");
    assert_null(mx_augmenter(8, 9, .rand_resize = true));
    check_error(MX_ERR_ARGUMENT, "rand_crop");
    assert_null(mx_augmenter(0, 9));
    check_error(MX_ERR_ARGUMENT, "height");
    assert_null(mx_call(mx_augmenter(8, 9), picture(5, 5, 1)));
    check_error(MX_ERR_SHAPE, "(5, 5, 1)");
}

/* A white box in a black image stays where its label says, whatever transforms are applied to both. */
static void test_augmented_boxes(void **state)
{
    (void)state;
    MX_SCOPE;
    float pixels[40 * 60 * 3] = {0};
    for (int i = 0; i < 40 * 60; i++)
        for (int c = 0; c < 3; c++)
            pixels[i * 3 + c] = i / 60 >= 10 && i / 60 < 30 && i % 60 >= 15 && i % 60 < 45 ? 255 : 0;
    mx_array *x = mx_array_from(MX_DIMS(40, 60, 3), MX_FLOAT32, pixels);
    mx_array *label = mx_array_from(MX_DIMS(1, 5), MX_FLOAT32, (float[]){3, 0.25f, 0.25f, 0.75f, 0.75f});
    const struct mx_augmenter_args *args =
        MX_AUGMENTER_ARGS(64, 64, .rand_crop = 0.7, .rand_pad = 0.7, .rand_mirror = true, .pad_value = 0,
                          .area_range = {0.3, 2}, .min_object_covered = 0.5, .inter_method = 0);
    for (int i = 0; i < 40; i++) {
        MX_SCOPE;
        mx_array *image = x, *boxes = label;
        assert_int_equal(mx_augment_boxes(args, &image, &boxes), MX_OK);
        check_shape(image, MX_DIMS(64, 64, 3));
        check_shape(boxes, MX_DIMS(1, 5));
        const double *box = check_values(boxes), area = (box[3] - box[1]) * (box[4] - box[2]);
        assert_true(box[0] == 3 && box[1] >= 0 && box[2] >= 0 && box[3] <= 1 && box[4] <= 1);
        /* as much is white as the box covers, and its middle is */
        const double white = mx_item(mx_mean(image)) / 255;
        if (fabs(white - area) > 0.06)
            fail_msg("%g of the image is white, the box covers %g", white, area);
        const mx_region middle = {(int64_t)(32 * (box[1] + box[3])), (int64_t)(32 * (box[2] + box[4])), 1, 1};
        assert_true(mx_item(mx_mean(mx_image_fixed_crop(image, middle, 0, 0, 0))) == 255);
    }
    assert_int_not_equal(mx_augment_boxes(args, &x, NULL), MX_OK);
    check_error(MX_ERR_ARGUMENT, "boxes");
}

static void test_colours(void **state)
{
    (void)state;
    MX_SCOPE;
    mx_array *x = mx_cast(small_image(), .dtype = MX_FLOAT32);
    check_pixel(x, 164, 201, 238);
    check_pixel(mx_image_random_brightness(x, .min_factor = 0.7, .max_factor = 0.7), 114.8, 140.7, 166.6);
    check_pixel(mx_image_random_contrast(x, .min_factor = 0.7, .max_factor = 0.7), 152.1982, 178.0983, 203.9982);
    check_pixel(mx_image_random_hue(x, .min_factor = 0.7, .max_factor = 0.7), 186.2, 238, 164);
    check_pixel(mx_image_adjust_lighting(x, .alpha = MX_FLOATS(0.1, 0.2, 0.3)), 161.68028, 197.49423, 234.24193);
    const double gray = 0.299 * 164 + 0.587 * 201 + 0.114 * 238;
    check_pixel(mx_image_random_saturation(x, .min_factor = 0, .max_factor = 0), gray, gray, gray);
    check_same(mx_image_random_hue(small_image(), .min_factor = 1, .max_factor = 1), small_image());
    mx_array *batch = mx_broadcast_to(mx_reshape(x, .shape = MX_DIMS(1, 6, 5, 3)), .shape = MX_DIMS(16, 6, 5, 3));
    batch = mx_image_random_brightness(batch, .min_factor = 0.5, .max_factor = 1.5);
    const float *v = mx_array_data(batch); /* every image has a factor of its own */
    int differing = 0;
    for (int i = 1; i < 16; i++)
        differing += v[i * 90 + 18] != v[18];
    assert_int_equal(differing, 15);
    assert_null(mx_image_random_contrast(check_array(MX_DIMS(4, 4, 2), 1), .min_factor = 1, .max_factor = 1));
    check_error(MX_ERR_SHAPE, "channels");
    assert_null(mx_image_adjust_lighting(x, .alpha = MX_FLOATS(1, 2)));
    check_error(MX_ERR_ATTRIBUTE, "alpha");
}

static void test_rotation(void **state)
{
    (void)state;
    MX_SCOPE;
    mx_array *x =
        mx_reshape(mx_mul_scalar(mx_arange(.start = 0, .stop = 40), .scalar = 0.05), .shape = MX_DIMS(2, 4, 5));
    static const double classic[3][5] = {{1.04264426, 1.21094549, 1.37924671, 1.54754806, 1.71584940},
                                         {1.18502784, 1.29790413, 1.41078031, 1.52365649, 1.63653266},
                                         {0.28712142, 1.08128810, 1.33222961, 1.58317113, 0.07987132}};
    for (int i = 0; i < 3; i++) {
        mx_array *y = mx_image_rotate(x, mx_array_scalar(30), .zoom_in = i == 1, .zoom_out = i == 2);
        for (int k = 0; k < 5; k++)
            assert_true(fabs(check_values(y)[25 + k] - classic[i][k]) < 1e-5);
    }
    assert_null(mx_image_rotate(x, mx_array_scalar(30), .zoom_in = true, .zoom_out = true));
    check_error(MX_ERR_ATTRIBUTE, "zoom_in");
    assert_null(mx_image_rotate(x, check_array(MX_DIMS(3), 1)));
    check_error(MX_ERR_SHAPE, "degrees");
}

static void test_borders(void **state)
{
    (void)state;
    MX_SCOPE;
    mx_array *x = mx_array_from(MX_DIMS(1, 3, 1), MX_UINT8, (unsigned char[]){1, 2, 3});
    static const double wanted[5][7] = {{9, 9, 1, 2, 3, 9, 9},
                                        {1, 1, 1, 2, 3, 3, 3},
                                        {2, 1, 1, 2, 3, 3, 2},
                                        {2, 3, 1, 2, 3, 1, 2},
                                        {3, 2, 1, 2, 3, 2, 1}};
    for (int type = 0; type < 5; type++)
        check_near(mx_copy_make_border(x, .top = 0, .bot = 0, .left = 2, .right = 2, .type = type, .value = 9),
                   MX_DIMS(1, 7, 1), wanted[type], 0);
    assert_null(mx_copy_make_border(x, .top = -1, .bot = 0, .left = 2, .right = 2));
    check_error(MX_ERR_ATTRIBUTE, "top");
    assert_null(
        mx_copy_make_border(small_image(), .top = 1, .bot = 0, .left = 2, .right = 2, .values = MX_FLOATS(1, 2)));
    check_error(MX_ERR_ATTRIBUTE, "values");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_formats),     cmocka_unit_test(test_bad_arguments), cmocka_unit_test(test_damage),
        cmocka_unit_test(test_huge), cmocka_unit_test(test_stopped),        cmocka_unit_test(test_orientation),   cmocka_unit_test(test_resize_values),
        cmocka_unit_test(test_crops), cmocka_unit_test(test_regions), cmocka_unit_test(test_boxes), cmocka_unit_test(test_labels), cmocka_unit_test(test_given_colours), cmocka_unit_test(test_augmenters), cmocka_unit_test(test_augmented_boxes),       cmocka_unit_test(test_colours),       cmocka_unit_test(test_rotation),
        cmocka_unit_test(test_borders),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
