/* im2rec: which images are listed how, what is in the records, and what can go wrong.
 *
 * Images are PPM files, which every build can read; encoded ones need PNG.  SPDX-License-Identifier: Apache-2.0 */
#include <dirent.h>
#include <sys/stat.h>

#include "base/file.h"
#include "block_check.h"

static char folder[512];

static const char *path_of(const char *name)
{
    static char paths[8][640];
    static int next;
    char *path = paths[next++ % 8];
    snprintf(path, sizeof *paths, "%s/%s", folder, name);
    return path;
}

/* A gray ramp of height x width. */
static void put_image(const char *name, int height, int width, int value)
{
    char head[64];
    unsigned char bytes[64 + 64 * 64];
    const int n = snprintf(head, sizeof head, "P5\n%d %d\n255\n", width, height);
    memcpy(bytes, head, (size_t)n);
    for (int i = 0; i < height * width; i++)
        bytes[n + i] = (unsigned char)(value + i % width);
    assert_true(mx_file_write(path_of(name), bytes, n + height * width));
}

static const char *text_of(const char *name)
{
    static char text[4096];
    int64_t size = 0;
    char *bytes = mx_file_read(path_of(name), sizeof text - 1, &size);
    if (!bytes)
        fail_msg("%s", mx_error_message());
    memcpy(text, bytes, (size_t)size + 1);
    mx_free(bytes, (size_t)size + 1);
    return text;
}

static int lines_of(const char *name)
{
    int n = 0;
    for (const char *p = text_of(name); *p; p++)
        n += *p == '\n';
    return n;
}

static int make_images(void **state)
{
    (void)state;
    snprintf(folder, sizeof folder, "%s", check_file("im2rec"));
    assert_true(mx_folder_make(path_of("photos/cat")) && mx_folder_make(path_of("photos/dog/small")) &&
                mx_folder_make(path_of("photos/empty")));
    put_image("photos/top.pgm", 4, 6, 1);
    put_image("photos/cat/b.pgm", 4, 6, 10);
    put_image("photos/cat/a.PGM", 8, 4, 20);
    put_image("photos/dog/small/c.pgm", 4, 4, 30);
    put_image("photos/dog/notes.txt", 4, 4, 0);
    return 0;
}

static const char *const pgm[] = {".pgm", NULL};
static char said[4096];
static void say(void *user, const char *line)
{
    (void)user;
    snprintf(said + strlen(said), sizeof said - strlen(said), "%s\n", line);
}
#define OPTIONS .exts = pgm, .report = say

static void test_lists(void **state)
{
    (void)state;
    MX_SCOPE;
    *said = 0;
    assert_int_equal(mx_im2rec_list(path_of("all"), path_of("photos"), .recursive = true, .shuffle = false, OPTIONS),
                     MX_OK);
    assert_string_equal(text_of("all.lst"), "0\t0.000000\ttop.pgm\n1\t1.000000\tcat/a.PGM\n2\t1.000000\tcat/b.pgm\n"
                                            "3\t2.000000\tdog/small/c.pgm\n");
    assert_non_null(strstr(said, "cat 1\n"));
    assert_non_null(strstr(said, "dog/small 2\n"));
    assert_int_equal(mx_im2rec_list(path_of("flat"), path_of("photos"), OPTIONS), MX_OK);
    assert_string_equal(text_of("flat.lst"), "0\t0.000000\ttop.pgm\n");
    assert_int_equal(mx_im2rec_list(path_of("s"), path_of("photos"), .recursive = true, .train_ratio = 0.5,
                                    .test_ratio = 0.25, OPTIONS),
                     MX_OK);
    assert_int_equal(lines_of("s_train.lst"), 2);
    assert_int_equal(lines_of("s_test.lst"), 1);
    assert_int_equal(lines_of("s_val.lst"), 1);
    assert_int_equal(mx_im2rec_list(path_of("c"), path_of("photos"), .recursive = true, .chunks = 3, OPTIONS), MX_OK);
    assert_int_equal(lines_of("c_0.lst"), 2);
    assert_int_equal(lines_of("c_1.lst"), 2);
    assert_int_equal(lines_of("c_2.lst"), 0);
    check_no_error();
    assert_int_not_equal(mx_im2rec_list(path_of("x"), path_of("photos/empty"), OPTIONS), MX_OK);
    check_error(MX_ERR_FILE, "no images", "photos/empty");
    assert_int_not_equal(mx_im2rec_list(path_of("x"), path_of("nowhere"), OPTIONS), MX_OK);
    check_error(MX_ERR_FILE, "nowhere");
    assert_int_not_equal(
        mx_im2rec_list(path_of("x"), path_of("photos"), .train_ratio = 0.8, .test_ratio = 0.8, OPTIONS), MX_OK);
    check_error(MX_ERR_ARGUMENT, "0.8");
    assert_int_not_equal(mx_im2rec_list(NULL, path_of("photos")), MX_OK);
    check_error(MX_ERR_ARGUMENT, "prefix");
}

/* The image and labels of record i. */
static mx_array *image_at(const char *name, int64_t i, mx_record_header *header, mx_array **labels)
{
    char record[64], index[64];
    mx_array *payload;
    snprintf(record, sizeof record, "%s.rec", name);
    snprintf(index, sizeof index, "%s.idx", name);
    mx_record_index *where = mx_record_index_load(path_of(index));
    mx_array *bytes = mx_record_read_at(mx_record_reader_open(path_of(record)), mx_record_index_position(where, i));
    assert_int_equal(mx_record_unpack(bytes, header, labels, &payload), MX_OK);
    return mx_imdecode(mx_array_data(payload), mx_size(payload), .flag = -1);
}

static void test_records(void **state)
{
    (void)state;
    MX_SCOPE;
    mx_record_header header;
    mx_array *labels;
    assert_true(mx_file_write(path_of("r.lst"), "7\t2.5\t3\tcat/b.pgm\n9\t1\t4\tgone.pgm\n8\t1\t4\tcat/a.PGM\n", 49));
    *said = 0;
    assert_int_equal(mx_im2rec(path_of("r"), path_of("photos"), .pass_through = true, .num_thread = 3, OPTIONS), MX_OK);
    assert_non_null(strstr(said, "left out: "));
    assert_non_null(strstr(said, "gone.pgm"));
    assert_non_null(strstr(said, "r.rec: 2 images"));
    mx_array *image = image_at("r", 0, &header, &labels);
    check_shape(image, MX_DIMS(4, 6, 1));
    assert_int_equal(header.id, 7);
    assert_int_equal(header.flag, 0);
    assert_float_equal(header.label, 2.5, 0);
    image_at("r", 1, &header, &labels);
    assert_int_equal(header.id, 8); /* the order of the list, whatever thread was first */
    assert_int_equal(mx_im2rec(path_of("r"), path_of("photos"), .pass_through = true, .pack_label = true), MX_OK);
    image_at("r", 0, &header, &labels);
    assert_int_equal(header.flag, 2);
    check_shape(labels, MX_DIMS(2));
    check_no_error();
    if (mx_imencode(image, ".png")) {
        assert_int_equal(mx_im2rec(path_of("r"), path_of("photos"), .encoding = ".png", .resize = 2, .quality = 3),
                         MX_OK);
        check_shape(image_at("r", 0, &header, &labels), MX_DIMS(2, 3, 3));
        check_shape(image_at("r", 1, &header, &labels), MX_DIMS(4, 2, 3));
        assert_int_equal(mx_im2rec(path_of("r"), path_of("photos"), .encoding = ".png", .center_crop = true, .color = 0,
                                   .quality = 3),
                         MX_OK);
        mx_array *cut = image_at("r", 0, &header, &labels);
        check_shape(cut, MX_DIMS(4, 4, 1));
        assert_int_equal(((const unsigned char *)mx_array_data(cut))[0], 11); /* one column is cut off on the left */
    } else
        check_error(MX_ERR_UNSUPPORTED, "PNG");
}

static void test_wrong_records(void **state)
{
    (void)state;
    MX_SCOPE;
    assert_int_not_equal(mx_im2rec(path_of("unknown"), path_of("photos")), MX_OK);
    check_error(MX_ERR_FILE, "unknown*.lst", "--list");
    assert_int_not_equal(mx_im2rec(path_of("all"), path_of("photos"), .encoding = ".gif"), MX_OK);
    check_error(MX_ERR_ARGUMENT, ".gif");
    assert_int_not_equal(mx_im2rec(path_of("all"), path_of("photos"), .color = 3), MX_OK);
    check_error(MX_ERR_ARGUMENT, "color is 3");
    assert_true(mx_file_write(path_of("bad.lst"), "1\t1\tgone.pgm\n", 13) &&
                mx_file_write(path_of("bad.rec"), "old", 3));
    assert_int_not_equal(mx_im2rec(path_of("bad"), path_of("photos")), MX_OK);
    check_error(MX_ERR_FILE, "none of the 1 images");
    assert_string_equal(text_of("bad.rec"), "old");
    assert_true(mx_file_write(path_of("bad.lst"), "one line\n", 9));
    assert_int_not_equal(mx_im2rec(path_of("bad"), path_of("photos")), MX_OK);
    check_error(MX_ERR_FILE, "line 1");
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_lists), cmocka_unit_test(test_records),
                                       cmocka_unit_test(test_wrong_records)};
    return cmocka_run_group_tests_name("im2rec", tests, make_images, NULL);
}
