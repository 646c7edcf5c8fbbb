/* RecordIO files, their index, image records, and CSV files.  SPDX-License-Identifier: Apache-2.0 */
#include <unistd.h>

#include "base/file.h"
#include "base/text.h"
#include "block_check.h"

#define MAGIC "\x0a\x23\xd7\xce"

/* What the classic writer writes for these records. */
static const struct { const char *bytes; int64_t size; } records[] = {
    {"", 0}, {"a", 1}, {"abc", 3}, {"abcd", 4}, {MAGIC, 4}, {MAGIC MAGIC, 8}, {"xxxx" MAGIC "yy", 10}, {"xx" MAGIC "yy", 8}, {MAGIC "q" MAGIC, 9}};
#define RECORDS ((int)(sizeof records / sizeof *records))
static const char whole_file[] = MAGIC "\0\0\0\0" MAGIC "\1\0\0\0"
                                       "a\0\0\0" MAGIC "\3\0\0\0"
                                       "abc\0" MAGIC "\4\0\0\0"
                                       "abcd" MAGIC "\0\0\0\x20" MAGIC "\0\0\0\x60" MAGIC "\0\0\0\x20" MAGIC
                                       "\0\0\0\x40" MAGIC "\0\0\0\x60" MAGIC "\4\0\0\x20"
                                       "xxxx" MAGIC "\2\0\0\x60"
                                       "yy\0\0" MAGIC "\x8\0\0\0"
                                       "xx" MAGIC "yy" MAGIC "\0\0\0\x20" MAGIC "\5\0\0\x60"
                                       "q" MAGIC "\0\0\0";

static void write_records(const char *path, const char *index)
{
    mx_record_writer *w = mx_record_writer_open(path, index);
    for (int i = 0; i < RECORDS; i++) {
        char key[16];
        snprintf(key, sizeof key, "%d", 3 * i);
        assert_int_equal(mx_record_write(w, index ? key : NULL, records[i].bytes, records[i].size), MX_OK);
    }
    assert_int_equal(mx_record_writer_close(w), MX_OK);
    assert_int_equal(mx_record_writer_close(w), MX_OK);
    check_no_error();
}

static void check_record(mx_array *record, int i)
{
    check_no_error();
    assert_int_equal(mx_size(record), records[i].size);
    if (records[i].size)
        assert_memory_equal(mx_array_data(record), records[i].bytes, (size_t)records[i].size);
}

static const char *path_of(const char *name) /* check_file reuses its memory */
{
    static char paths[8][512];
    static int next;
    char *path = paths[next++ % 8];
    snprintf(path, sizeof *paths, "%s", check_file(name));
    return path;
}

static void test_round_trip(void **state)
{
    (void)state;
    MX_SCOPE;
    const char *path = path_of("a.rec"), *index_path = path_of("a.idx");
    write_records(path, index_path);
    int64_t size;
    char *bytes = mx_file_read(path, 10000, &size);
    assert_int_equal(size, sizeof whole_file - 1);
    assert_memory_equal(bytes, whole_file, sizeof whole_file - 1);
    mx_free(bytes, (size_t)size + 1);

    mx_record_reader *r = mx_record_reader_open(path);
    for (int round = 0; round < 2; round++) {
        for (int i = 0; i < RECORDS; i++)
            check_record(mx_record_read(r), i);
        assert_null(mx_record_read(r));
        check_no_error();
        assert_int_equal(mx_record_reader_seek(r, 0), MX_OK);
    }
    for (int i = 0; i < RECORDS; i++) /* every other one unread */
        if (i % 2)
            check_record(mx_record_read(r), i);
        else
            assert_true(mx_record_skip(r));
    assert_false(mx_record_skip(r));
    check_no_error();
    mx_record_index *index = mx_record_index_load(index_path);
    assert_int_equal(mx_record_index_count(index), RECORDS);
    for (int i = RECORDS - 1; i >= 0; i--) {
        assert_int_equal(atoi(mx_record_index_key(index, i)), 3 * i);
        check_record(mx_record_read_at(r, mx_record_index_position(
                                              index, mx_record_index_find(index, mx_record_index_key(index, i)))),
                     i);
    }
    assert_int_equal(mx_record_index_find(index, "2"), -1);
    check_no_error();
    assert_null(mx_record_index_key(index, RECORDS));
    check_error(MX_ERR_INDEX, "mx_record_index_key");
    mx_record_reader_close(r);
    assert_null(mx_record_read(r));
    check_error(MX_ERR_STATE, "closed");
}

/* Without a close nothing is written. */
static void test_unclosed(void **state)
{
    (void)state;
    const char *path = path_of("unclosed.rec");
    mx_scoped() {
        mx_record_writer *w = mx_record_writer_open(path, NULL);
        assert_int_equal(mx_record_write(w, NULL, "abc", 3), MX_OK);
        assert_int_equal(mx_record_writer_position(w), 12);
        assert_int_equal(mx_record_write(w, "key", "abc", 3), MX_ERR_ARGUMENT);
        check_error(MX_ERR_ARGUMENT, "key");
        assert_int_equal(mx_record_write(w, NULL, NULL, 3), MX_ERR_ARGUMENT);
        check_error(MX_ERR_ARGUMENT, "NULL");
    }
    assert_int_equal(access(path, F_OK), -1);
    MX_SCOPE;
    assert_null(mx_record_reader_open(path));
    check_error(MX_ERR_FILE, "unclosed.rec");
    assert_null(mx_record_writer_open("/nowhere/x.rec", NULL));
    check_error(MX_ERR_FILE, "/nowhere");
    assert_null(mx_record_reader_open(NULL));
    check_error(MX_ERR_ARGUMENT, "NULL");
}

/* From damaged bytes a reader returns complete records, then an error. */
static bool read_all(const char *bytes, int64_t size)
{
    MX_SCOPE;
    const char *path = path_of("bad.rec");
    assert_true(mx_file_write(path, bytes, size));
    mx_record_reader *r = mx_record_reader_open(path);
    int n = 0;
    for (mx_array *record; (record = mx_record_read(r)); n++)
        assert_true(mx_size(record) <= size);
    const bool whole = mx_error_code() == MX_OK;
    if (!whole)
        check_error(MX_ERR_FILE, "bad.rec");
    assert_true(n <= size / 8);
    int skipped = 0;
    for (mx_record_reader_seek(r, 0); mx_record_skip(r);)
        skipped++;
    assert_int_equal(skipped, n);
    if (!whole)
        check_error(MX_ERR_FILE, "bad.rec");
    return whole;
}

static void test_damage(void **state)
{
    (void)state;
    const int64_t size = sizeof whole_file - 1;
    char bytes[sizeof whole_file];
    int readable = 0;
    for (int64_t n = 0; n < size; n++)
        readable += read_all(whole_file, n);
    assert_true(readable < RECORDS + 1); /* only cuts between records can pass */
    for (int64_t i = 0; i < size; i++)
        for (int bit = 0; bit < 8; bit++) {
            memcpy(bytes, whole_file, sizeof bytes);
            bytes[i] = (char)(bytes[i] ^ 1 << bit);
            read_all(bytes, size);
        }
    assert_false(read_all(MAGIC "\xff\xff\xff\x1f", 8)); /* half a gigabyte is missing */
    assert_false(read_all(MAGIC "\0\0\0\x40", 8));       /* a middle without a beginning */
    assert_false(read_all(MAGIC "\0\0\0\x80"
                                "    ",
                          12));
}

static void test_bad_index(void **state)
{
    (void)state;
    MX_SCOPE;
    static const char *const bad[] = {"1\n",   "1\tx\n", "\t5\n", "1\t2\n2\t-5\n", "1\t99999999999999999999\n",
                                      "1 5\n", "a\t1\nb"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        const char *path = path_of("bad.idx");
        assert_true(mx_file_write(path, bad[i], (int64_t)strlen(bad[i])));
        assert_null(mx_record_index_load(path));
        check_error(MX_ERR_FILE, "bad.idx", "line");
    }
    assert_true(mx_file_write(path_of("zero.idx"), "1\t\0\n", 4));
    assert_null(mx_record_index_load(path_of("zero.idx")));
    check_error(MX_ERR_FILE, "zero");
    assert_true(mx_file_write(path_of("good.idx"), "a b\t5\r\n\nc\t7", 11));
    mx_record_index *index = mx_record_index_load(path_of("good.idx"));
    assert_int_equal(mx_record_index_count(index), 2);
    assert_int_equal(mx_record_index_position(index, 1), 7);
    assert_string_equal(mx_record_index_key(index, 0), "a b");
    assert_true(mx_file_write(path_of("empty.idx"), "", 0));
    assert_int_equal(mx_record_index_count(mx_record_index_load(path_of("empty.idx"))), 0);
    check_no_error();
}

static void test_image_records(void **state)
{
    (void)state;
    MX_SCOPE;
    /* as the classic pack() writes them */
    const char one[] = "\0\0\0\0"
                       "\0\0\x90\x40"
                       "\7\0\0\0\0\0\0\0"
                       "\0\0\0\0\0\0\0\0"
                       "payload";
    const char three[] = "\3\0\0\0"
                         "\0\0\0\0"
                         "\0\0\0\0\0\1\0\0"
                         "\x9\0\0\0\0\0\0\0"
                         "\0\0\x80\x3f"
                         "\0\0\0\x40"
                         "\0\0\x40\x40"
                         "payload";
    mx_array *x = mx_record_pack((mx_record_header){.label = 4.5f, .id = 7}, NULL, 0, "payload", 7);
    assert_int_equal(mx_size(x), sizeof one - 1);
    assert_memory_equal(mx_array_data(x), one, sizeof one - 1);
    mx_array *y = mx_record_pack((mx_record_header){.label = 99, .id = (uint64_t)1 << 40, .id2 = 9}, (float[]){1, 2, 3},
                                 3, "payload", 7);
    assert_int_equal(mx_size(y), sizeof three - 1);
    assert_memory_equal(mx_array_data(y), three, sizeof three - 1);
    mx_record_header h;
    mx_array *labels, *payload;
    assert_int_equal(mx_record_unpack(y, &h, &labels, &payload), MX_OK);
    assert_true(h.flag == 3 && h.id == (uint64_t)1 << 40 && h.id2 == 9);
    check_near(labels, MX_DIMS(3), (double[]){1, 2, 3}, 0);
    assert_int_equal(mx_size(payload), 7);
    assert_memory_equal(mx_array_data(payload), "payload", 7);
    assert_int_equal(mx_record_unpack(x, NULL, &labels, NULL), MX_OK);
    check_near(labels, MX_DIMS(1), (double[]){4.5}, 0);
    for (int64_t n = 0; n < 36; n++) { /* header and labels cut off at every length */
        mx_array *cut = mx_array_from(MX_DIMS(n), MX_UINT8, three);
        assert_int_equal(mx_record_unpack(cut, &h, &labels, &payload), MX_ERR_FILE);
        check_error(MX_ERR_FILE, "mx_record_unpack");
    }
    assert_int_equal(mx_record_unpack(check_array(MX_DIMS(30), 1), &h, &labels, &payload), MX_ERR_FILE);
    check_error(MX_ERR_FILE, "mx_record_unpack");
}

/* ---- CSV ------------------------------------------------------------------------------------------------------------ */

static const char *write_text(const char *text)
{
    const char *path = path_of("numbers.csv");
    assert_true(mx_file_write(path, text, (int64_t)strlen(text)));
    return path;
}

static void test_csv(void **state)
{
    (void)state;
    MX_SCOPE;
    mx_array *x = mx_load_csv(write_text("1,2,3\n\n -4.5 , +5e1,.25\r\n7,1e-3,123456789012345678"), MX_FLOAT64);
    check_near(x, MX_DIMS(3, 3), (double[]){1, 2, 3, -4.5, 50, 0.25, 7, 0.001, 123456789012345678.0}, 0);
    check_near(mx_load_csv(write_text("1,2,\n3,4,\n"), MX_INT32), MX_DIMS(2, 2), (double[]){1, 2, 3, 4}, 0);
    assert_int_equal(mx_dtype_of(mx_load_csv(write_text("5\n"), MX_UINT8)), MX_UINT8);
    assert_true(isnan(mx_item(mx_load_csv(write_text("nan"), MX_FLOAT32))));
    static const struct { const char *text, *part; } bad[] = {
        {"", "no numbers"}, {"\n \n", "no numbers"}, {"1,2\n3\n", "line 2"}, {"1,2\n3,4,5\n", "line 2"}, {"1,2\n3,x\n", "line 2"},
        {"1,2\n\n3,,4\n", "line 3"}, {"0x10\n", "line 1"}, {"1 2\n", "line 1"}, {"1;2\n", "line 1"}, {",1\n", "line 1"}, {"1,2,3,4,5,6,7,8\n1\n1\n1\n", ""}};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        assert_null(mx_load_csv(write_text(bad[i].text), MX_FLOAT32));
        check_error(MX_ERR_FILE, "numbers.csv", bad[i].part);
    }
    assert_true(mx_file_write(path_of("zero.csv"), "1,\0,2", 5));
    assert_null(mx_load_csv(path_of("zero.csv"), MX_FLOAT32));
    check_error(MX_ERR_FILE, "zero bytes");
    assert_null(mx_load_csv(NULL, MX_FLOAT32));
    check_error(MX_ERR_ARGUMENT, "path");
    assert_null(mx_load_csv("x", MX_DTYPE_NONE));
    check_error(MX_ERR_ARGUMENT, "dtype");
    mx_text text = {0}; /* more columns than are converted at once */
    for (int row = 0; row < 3; row++)
        for (int i = 0; i < 1000; i++)
            mx_text_print(&text, "%d.5%s", row * 1000 + i, i < 999 ? "," : "\n");
    x = mx_load_csv(write_text(mx_text_get(&text)), MX_FLOAT32);
    check_shape(x, MX_DIMS(3, 1000));
    for (int i = 0; i < 3000; i++)
        assert_true(((float *)mx_array_data(x))[i] == (float)i + 0.5f);
    mx_text_free(&text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_round_trip), cmocka_unit_test(test_unclosed),      cmocka_unit_test(test_damage),
        cmocka_unit_test(test_bad_index),  cmocka_unit_test(test_image_records), cmocka_unit_test(test_csv),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
