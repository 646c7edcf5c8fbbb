/* Files: atomic writing, checked reading, gzip; every failure gives an error, leaves the target alone, leaks nothing.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <dirent.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/file.h"
#include "base/gzip.h"
#include "base/rng.h"

static char folder[64];
static char path[512];

static int64_t live_blocks(void) { return mx_alloc_get_stats().live_blocks; }

static const char *in_folder(const char *name)
{
    snprintf(path, sizeof path, "%s/%s", folder, name);
    return path;
}

static int files_in_folder(void)
{
    int count = 0;
    DIR *d = opendir(folder);
    for (struct dirent *e; d && (e = readdir(d));)
        count += strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0;
    closedir(d);
    return count;
}

static int make_folder(void **state)
{
    (void)state;
    strcpy(folder, "/tmp/gluon-test-XXXXXX");
    return mkdtemp(folder) ? 0 : -1;
}

static int remove_folder(void **state)
{
    (void)state;
    DIR *d = opendir(folder);
    for (struct dirent *e; d && (e = readdir(d));)
        if (strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0)
            unlink(in_folder(e->d_name));
    closedir(d);
    return rmdir(folder);
}

static void check_contents(const char *name, const char *wanted)
{
    int64_t size = -1;
    char *bytes = mx_file_read(in_folder(name), 1000000, &size);
    assert_non_null(bytes);
    assert_int_equal(size, strlen(wanted));
    assert_string_equal(bytes, wanted);
    mx_free(bytes, (size_t)size + 1);
}

static void expect_error(mx_code code, const char *part)
{
    assert_int_equal(mx_error_code(), code);
    if (!strstr(mx_error_message(), part))
        fail_msg("message \"%s\" does not contain \"%s\"", mx_error_message(), part);
    mx_error_clear();
}

static void test_write_and_replace(void **state)
{
    (void)state;
    assert_true(mx_file_write(in_folder("a"), "first", 5));
    check_contents("a", "first");
    assert_true(mx_file_write(in_folder("a"), "", 0));
    check_contents("a", "");
    assert_true(mx_file_write(in_folder("a"), "second", 6));
    check_contents("a", "second");
    assert_true(mx_file_exists(in_folder("a")));
    assert_false(mx_file_exists(in_folder("b")));
    assert_int_equal(files_in_folder(), 1);
}

static void test_target_is_untouched_until_commit(void **state)
{
    (void)state;
    assert_true(mx_file_write(in_folder("a"), "old", 3));
    mx_writer w;
    assert_true(mx_writer_open(&w, in_folder("a")));
    for (int i = 0; i < 100000; i++)
        mx_writer_u64(&w, (uint64_t)i);
    assert_int_equal(w.position, 800000);
    check_contents("a", "old");
    mx_writer_abandon(&w);
    mx_writer_abandon(&w);
    check_contents("a", "old");
    assert_int_equal(files_in_folder(), 1);
    mx_writer_put(&w, "x", 1); /* after closing: ignored */
    assert_false(mx_writer_commit(&w));
}

static void test_numbers_and_large_blocks(void **state)
{
    (void)state;
    enum { LARGE = 200000 };
    static unsigned char large[LARGE], back[LARGE];
    for (int i = 0; i < LARGE; i++)
        large[i] = (unsigned char)(i * 31 >> 3);
    mx_writer w;
    assert_true(mx_writer_open(&w, in_folder("n")));
    mx_writer_u32(&w, 0x01020304u);
    mx_writer_put(&w, large, LARGE);
    mx_writer_u64(&w, 0xfffefdfcfbfaf9f8u);
    mx_writer_put(&w, large, 1000);
    assert_true(mx_writer_commit(&w));

    mx_reader r;
    uint32_t small;
    uint64_t wide;
    assert_true(mx_reader_open(&r, in_folder("n")));
    assert_int_equal(mx_reader_left(&r), 4 + LARGE + 8 + 1000);
    assert_true(mx_reader_u32(&r, &small, "magic"));
    assert_int_equal(small, 0x01020304u);
    assert_true(mx_reader_get(&r, back, LARGE, "block"));
    assert_memory_equal(back, large, LARGE);
    assert_true(mx_reader_u64(&r, &wide, "number"));
    assert_true(wide == 0xfffefdfcfbfaf9f8u);
    for (int i = 0; i < 1000; i++)
        assert_true(mx_reader_get(&r, &back[i], 1, "byte"));
    assert_memory_equal(back, large, 1000);
    assert_int_equal(mx_reader_left(&r), 0);
    int64_t negative;
    assert_true(mx_reader_seek(&r, 4 + LARGE, "number"));
    assert_true(mx_reader_i64(&r, &negative, "number"));
    assert_true(negative == (int64_t)0xfffefdfcfbfaf9f8u);
    assert_true(mx_reader_seek(&r, 4, "block"));
    assert_true(mx_reader_get(&r, back, LARGE, "block"));
    assert_memory_equal(back, large, LARGE);
    mx_reader_close(&r);
    mx_reader_close(&r);
}

static void check_short_reads(mx_reader *r, int64_t size)
{
    unsigned char byte;
    uint32_t small = 9;
    assert_true(mx_reader_skip(r, size - 2, "header"));
    assert_true(mx_reader_need(r, 2, "x"));
    assert_false(mx_reader_u32(r, &small, "the count"));
    assert_int_equal(small, 0);
    expect_error(MX_ERR_FILE, "the count needs 4 bytes, 2 are left");
    assert_false(mx_reader_get(r, &byte, 1, "later")); /* everything fails from here on, silently */
    assert_int_equal(mx_error_code(), MX_OK);
}

static void test_reader_checks_sizes(void **state)
{
    (void)state;
    assert_true(mx_file_write(in_folder("s"), "0123456789", 10));
    const struct { int64_t bytes; const char *wanted; } cases[] = {
        {11, "at byte 0: list needs 11 bytes, 10 are left"}, {-1, "negative"}, {INT64_MAX, "10 are left"},
        {INT64_MIN, "negative"},
    };
    mx_reader r;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        assert_true(mx_reader_open(&r, in_folder("s")));
        assert_false(mx_reader_need(&r, cases[i].bytes, "list"));
        expect_error(MX_ERR_FILE, cases[i].wanted);
        mx_reader_close(&r);
    }
    assert_true(mx_reader_open(&r, in_folder("s")));
    assert_true(mx_reader_need_items(&r, 2, 5, "items"));
    assert_true(mx_reader_need_items(&r, UINT64_MAX, 0, "items"));
    assert_false(mx_reader_need_items(&r, UINT64_MAX / 2, 4, "items"));
    expect_error(MX_ERR_FILE, "items");
    mx_reader_close(&r);
    assert_true(mx_reader_open(&r, in_folder("s")));
    assert_false(mx_reader_seek(&r, 11, "table"));
    expect_error(MX_ERR_FILE, "outside the 10 bytes");
    mx_reader_close(&r);
    assert_true(mx_reader_open(&r, in_folder("s")));
    check_short_reads(&r, 10);
    mx_reader_close(&r);
    assert_true(mx_reader_open_memory(&r, "0123456789", 10, "buffer"));
    check_short_reads(&r, 10);
    mx_reader_close(&r);
    assert_true(mx_reader_open_memory(&r, NULL, 0, "buffer"));
    assert_false(mx_reader_skip(&r, 1, "x"));
    expect_error(MX_ERR_FILE, "buffer");
    mx_reader_close(&r);
    assert_false(mx_reader_open_memory(&r, NULL, 5, "buffer"));
    expect_error(MX_ERR_ARGUMENT, "buffer");
}

static void test_file_that_shrinks(void **state)
{
    (void)state;
    char bytes[10];
    mx_reader r;
    assert_true(mx_file_write(in_folder("s"), "0123456789", 10));
    assert_true(mx_reader_open(&r, in_folder("s")));
    assert_int_equal(truncate(in_folder("s"), 3), 0);
    assert_false(mx_reader_get(&r, bytes, 10, "all"));
    expect_error(MX_ERR_FILE, "became shorter");
    mx_reader_close(&r);
}

static void test_bad_paths(void **state)
{
    (void)state;
    int64_t size, before = live_blocks();
    mx_reader r;
    mx_writer w;
    assert_false(mx_reader_open(&r, NULL));
    expect_error(MX_ERR_ARGUMENT, "NULL");
    assert_false(mx_writer_open(&w, ""));
    expect_error(MX_ERR_ARGUMENT, "empty");
    assert_null(mx_file_read(in_folder("absent"), 10, &size));
    expect_error(MX_ERR_FILE, "absent");
    assert_null(mx_file_read(folder, 10, &size));
    expect_error(MX_ERR_FILE, "folder");
    assert_null(mx_file_read("/dev/zero", 10, &size));
    expect_error(MX_ERR_FILE, "regular");
    assert_false(mx_file_write(folder, "x", 1));
    expect_error(MX_ERR_FILE, folder);
    assert_false(mx_file_write(in_folder("no/such/folder"), "x", 1));
    expect_error(MX_ERR_FILE, "no/such/folder");
    assert_true(mx_file_write(in_folder("s"), "0123456789", 10));
    assert_null(mx_file_read(in_folder("s"), 9, &size));
    expect_error(MX_ERR_FILE, "at most 9");
    assert_int_equal(live_blocks(), before);
}

static void test_full_disk(void **state)
{
    (void)state;
    static char block[300000];
    if (access("/dev/full", W_OK) != 0)
        skip();
    assert_false(mx_file_write("/dev/full", "x", 1));
    expect_error(MX_ERR_FILE, "/dev/full");
    assert_false(mx_file_write("/dev/full", block, sizeof block));
    expect_error(MX_ERR_FILE, "No space");
    assert_true(mx_file_write("/dev/null", "x", 1)); /* not replaced by a file */
    struct stat info;
    assert_true(stat("/dev/null", &info) == 0 && S_ISCHR(info.st_mode));
}

static void test_links_and_permissions(void **state)
{
    (void)state;
    char target[128];
    struct stat info;
    snprintf(target, sizeof target, "%s/target", folder);
    assert_true(mx_file_write(target, "old", 3));
    assert_int_equal(chmod(target, 0640), 0);
    assert_int_equal(symlink("target", in_folder("link")), 0);
    assert_true(mx_file_write(in_folder("link"), "new", 3));
    assert_true(lstat(in_folder("link"), &info) == 0 && S_ISLNK(info.st_mode));
    check_contents("target", "new");
    assert_true(stat(target, &info) == 0);
    assert_int_equal(info.st_mode & 0777, 0640);
    char name[256];
    memset(name, 'n', 255);
    name[255] = 0;
    char longest[400];
    snprintf(longest, sizeof longest, "%s/%s", folder, name);
    assert_true(mx_file_write(longest, "x", 1)); /* the longest legal name */
    assert_int_equal(unlink(longest), 0);
}

static void test_make_folders(void **state)
{
    (void)state;
    char deep[128];
    snprintf(deep, sizeof deep, "%s/x/y//z/", folder);
    assert_true(mx_folder_make(deep));
    assert_true(mx_folder_make(deep));
    assert_true(mx_file_exists(deep));
    for (const char *const *part = (const char *const[]){"x/y/z", "x/y", "x", NULL}; *part; part++)
        assert_int_equal(rmdir(in_folder(*part)), 0);
    assert_true(mx_file_write(in_folder("a"), "x", 1));
    snprintf(deep, sizeof deep, "%s/a/b", folder);
    assert_false(mx_folder_make(deep));
    expect_error(MX_ERR_FILE, "cannot create the folder");
    assert_false(mx_folder_make(NULL));
    expect_error(MX_ERR_ARGUMENT, "NULL");
}

static void test_no_memory(void **state)
{
    (void)state;
    assert_true(mx_file_write(in_folder("a"), "old", 3));
    int64_t before = live_blocks(), size;
    int files = files_in_folder();
    bool failing = true;
    for (int64_t n = 1; failing; n++) {
        mx_alloc_fail_at(n);
        bool written = mx_file_write(in_folder("a"), "new", 3);
        char *bytes = written ? mx_file_read(in_folder("a"), 100, &size) : NULL;
        mx_alloc_fail_at(0);
        failing = !bytes;
        if (failing)
            expect_error(MX_ERR_MEMORY, "");
        else
            mx_free(bytes, (size_t)size + 1);
        assert_int_equal(live_blocks(), before);
        assert_int_equal(files_in_folder(), files);
        assert_true(n < 30);
    }
}

/* ---- gzip ----------------------------------------------------------------------------------------------- */

/* "gluon " 2000 times. */
static const unsigned char packed[] = {
    0x1f, 0x8b, 0x08, 0x00, 0x00, 0x00, 0x00, 0x00, 0x02, 0x03, 0xed, 0xc4, 0x21, 0x0d, 0x00, 0x00,
    0x08, 0x00, 0xb0, 0x2a, 0xb4, 0xc3, 0x30, 0x50, 0xf4, 0x27, 0x06, 0xe6, 0x17, 0xcf, 0xda, 0xe9,
    0x48, 0xdb, 0xb6, 0x6d, 0xdb, 0xb6, 0x6d, 0xdb, 0xb6, 0x6d, 0xdb, 0xb6, 0x6d, 0xdb, 0xb6, 0x6d,
    0xdb, 0xb6, 0x5f, 0x3f, 0xc1, 0x0e, 0x64, 0x33, 0xe0, 0x2e, 0x00, 0x00,
};

static void put_packed(const void *bytes, size_t size, int copies)
{
    mx_writer w;
    assert_true(mx_writer_open(&w, in_folder("p.gz")));
    for (int i = 0; i < copies; i++)
        mx_writer_put(&w, bytes, size);
    assert_true(mx_writer_commit(&w));
}

static void check_unpacked(int copies, int64_t limit)
{
    int64_t size;
    put_packed(packed, sizeof packed, copies);
    char *bytes = mx_gzip_read(in_folder("p.gz"), limit, &size);
    assert_non_null(bytes);
    assert_int_equal(size, 12000 * copies);
    assert_int_equal(bytes[size], 0);
    for (int64_t i = 0; i < size; i++)
        assert_int_equal(bytes[i], "gluon "[i % 6]);
    mx_free(bytes, (size_t)size + 1);
}

static void test_gzip(void **state)
{
    (void)state;
    int64_t size, before = live_blocks();
    if (!mx_gzip_available()) {
        assert_null(mx_gzip_read(in_folder("p.gz"), 10, &size));
        expect_error(MX_ERR_UNSUPPORTED, "zlib");
        return;
    }
    check_unpacked(1, 12000);
    check_unpacked(1, INT64_MAX);
    check_unpacked(20, 1000000);
    put_packed(packed, sizeof packed, 1);
    for (int64_t limit = 11999; limit >= -1; limit -= 4000) {
        assert_null(mx_gzip_read(in_folder("p.gz"), limit, &size));
        expect_error(MX_ERR_FILE, "unpacks to more than");
    }
    assert_null(mx_gzip_read(in_folder("absent.gz"), 10, &size));
    expect_error(MX_ERR_FILE, "absent.gz");
    put_packed("plain text, no gzip", 19, 1);
    assert_null(mx_gzip_read(in_folder("p.gz"), 100000, &size));
    expect_error(MX_ERR_FILE, "not gzip");
    assert_int_equal(live_blocks(), before);
}

static void test_damaged_gzip(void **state)
{
    (void)state;
    if (!mx_gzip_available())
        skip();
    int64_t size, before = live_blocks();
    for (size_t length = 0; length < sizeof packed; length++) {
        put_packed(packed, length, 1);
        assert_null(mx_gzip_read(in_folder("p.gz"), 100000, &size));
        expect_error(MX_ERR_FILE, "p.gz");
    }
    for (uint32_t round = 0; round < 500; round++) {
        unsigned char damaged[sizeof packed];
        uint32_t random[4];
        memcpy(damaged, packed, sizeof packed);
        mx_philox(1, round, random);
        damaged[random[0] % sizeof packed] = (unsigned char)random[1];
        put_packed(damaged, sizeof packed, 1);
        char *bytes = mx_gzip_read(in_folder("p.gz"), 100000, &size);
        if (bytes)
            mx_free(bytes, (size_t)size + 1);
        else
            expect_error(MX_ERR_FILE, "p.gz");
    }
    assert_int_equal(live_blocks(), before);
}

static void test_gzip_without_memory(void **state)
{
    (void)state;
    if (!mx_gzip_available())
        skip();
    put_packed(packed, sizeof packed, 20);
    int64_t before = live_blocks(), size;
    char *bytes = NULL;
    for (int64_t n = 1; !bytes; n++) {
        mx_alloc_fail_at(n);
        bytes = mx_gzip_read(in_folder("p.gz"), 1000000, &size);
        mx_alloc_fail_at(0);
        if (!bytes) {
            expect_error(MX_ERR_MEMORY, "");
            assert_int_equal(live_blocks(), before);
        }
        assert_true(n < 30);
    }
    mx_free(bytes, (size_t)size + 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_write_and_replace),        cmocka_unit_test(test_target_is_untouched_until_commit),
        cmocka_unit_test(test_numbers_and_large_blocks), cmocka_unit_test(test_reader_checks_sizes),
        cmocka_unit_test(test_file_that_shrinks),        cmocka_unit_test(test_bad_paths),
        cmocka_unit_test(test_full_disk),                cmocka_unit_test(test_links_and_permissions),
        cmocka_unit_test(test_make_folders),             cmocka_unit_test(test_no_memory),
        cmocka_unit_test(test_gzip),                     cmocka_unit_test(test_damaged_gzip),
        cmocka_unit_test(test_gzip_without_memory),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
