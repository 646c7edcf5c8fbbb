/* Byte pair encoding from C: a small vocabulary, long words, files that are damaged, failing allocations.
 * tests/python/test_tokenizer.py compares with a plain implementation.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "base/file.h"
#include "gluon.h"

/* \u0120 is the letter of the space, \u010a that of a line's end. */
static const char vocabulary[] = "{\"a\": 0, \"b\": 1, \"c\": 2, \"\xc4\xa0\": 3, \"ab\": 4, \"abc\": 5, \"\xc4\xa0"
                                 "ab\": 6, \"bc\": 7, \"\\u010a\": 8, \"<|end|>\": 10, \"aa\": 11}";
static const char merges[] = "#version: 0.2\nb c\na b\n\xc4\xa0 ab\r\nab c\na a\n";

static char folder[128];

static const char *path_of(const char *name)
{
    static char path[200];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    return path;
}

static void write_files(const char *words, const char *rules)
{
    assert_true(mx_file_write(path_of("vocab.json"), words, (int64_t)strlen(words)));
    assert_true(mx_file_write(path_of("merges.txt"), rules, (int64_t)strlen(rules)));
}

static int set_up(void **state)
{
    (void)state;
    snprintf(folder, sizeof folder, "/tmp/gluon_tokenizer_%d", (int)getpid());
    mx_folder_make(folder);
    mx_error_clear();
    write_files(vocabulary, merges);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    unlink(path_of("vocab.json")), unlink(path_of("merges.txt")), unlink(path_of("tokenizer.json"));
    return rmdir(folder);
}

static void expect_tokens(mx_tokenizer *t, const char *text, int n, const int32_t *wanted)
{
    const int64_t bytes = (int64_t)strlen(text);
    mx_array *tokens = mx_tokenizer_encode(t, text, bytes);
    assert_non_null(tokens);
    assert_int_equal(mx_size(tokens), n);
    assert_memory_equal(mx_array_data(tokens), wanted, (size_t)n * sizeof *wanted);
    mx_array *back = mx_tokenizer_decode(t, tokens);
    assert_non_null(back);
    assert_int_equal(mx_size(back), bytes);
    assert_memory_equal(mx_array_data(back), text, (size_t)bytes);
}

static void test_merges_go_by_rank(void **state)
{
    (void)state;
    MX_SCOPE;
    mx_tokenizer *t = mx_tokenizer_open(folder);
    assert_non_null(t);
    assert_int_equal(mx_tokenizer_size(t), 11 + 1);
    expect_tokens(t, "abc", 2, (int32_t[]){0, 7});   /* b c goes before a b */
    expect_tokens(t, "ab ab", 2, (int32_t[]){4, 6}); /* the space belongs to the second word */
    expect_tokens(t, "aaa", 2, (int32_t[]){11, 0});  /* the leftmost first */
    expect_tokens(t, "a  b\n\nc", 7, (int32_t[]){0, 3, 3, 1, 8, 8, 2});
    expect_tokens(t, "", 0, (int32_t[]){0});
    assert_int_equal(mx_tokenizer_find(t, "<|end|>"), 10);
    assert_int_equal(mx_tokenizer_find(t, "x"), -1);
    assert_int_equal(mx_error_code(), MX_OK);
    int64_t n = 0;
    assert_memory_equal(mx_tokenizer_bytes(t, 6, &n), " ab", 3);
    assert_int_equal(n, 3);
}

static void test_one_file(void **state)
{
    (void)state;
    MX_SCOPE;
    static const char text[] =
        "{\"model\": {\"type\": \"BPE\", \"vocab\": {\"a\": 0, \"\xc4\xa0\": 1, \"\xc4\xa0"
        "a\": 2}, \"merges\": [[\"\xc4\xa0\", \"a\"]]}, \"pre_tokenizer\": {\"type\": \"ByteLevel\", "
        "\"add_prefix_space\": true}, \"added_tokens\": [{\"id\": 3, \"content\": \"<pad>\"}]}";
    mx_file_write(path_of("tokenizer.json"), text, (int64_t)strlen(text));
    mx_tokenizer *t = mx_tokenizer_open(path_of("tokenizer.json"));
    assert_non_null(t);
    mx_array *tokens = mx_tokenizer_encode(t, "aa", 2);
    assert_int_equal(mx_size(tokens), 2);
    assert_int_equal(((const int32_t *)mx_array_data(tokens))[0], 2);
    assert_int_equal(mx_tokenizer_find(t, "<pad>"), 3);
}

static void test_damaged_rules_of_one_file(void **state)
{
    (void)state;
    MX_SCOPE;
    static const char *const rules[] = {"[\"a\"]", "[]",  "[\"a\", \"a\", \"a\"]", "[\"a\", 1]", "[1, \"a\"]",
                                        "1",       "null"};
    for (size_t i = 0; i < sizeof rules / sizeof *rules; i++) {
        char text[256];
        const int n = snprintf(text, sizeof text,
                               "{\"model\": {\"type\": \"BPE\", \"vocab\": {\"a\": 0}, \"merges\": [%s]}, "
                               "\"pre_tokenizer\": {\"type\": \"ByteLevel\"}}",
                               rules[i]);
        mx_file_write(path_of("tokenizer.json"), text, n);
        assert_null(mx_tokenizer_open(path_of("tokenizer.json")));
        if (!strstr(mx_error_message(), "wanted"))
            fail_msg("%s: %s", rules[i], mx_error_message());
        mx_error_clear();
    }
}

/* n log n: with n * n steps this would take hours. */
static void test_a_long_word(void **state)
{
    (void)state;
    MX_SCOPE;
    enum { LENGTH = 400000 };
    mx_tokenizer *t = mx_tokenizer_open(folder);
    char *text = malloc(LENGTH);
    memset(text, 'a', LENGTH);
    mx_array *tokens = mx_tokenizer_encode(t, text, LENGTH);
    free(text);
    assert_int_equal(mx_size(tokens), LENGTH / 2);
    assert_int_equal(((const int32_t *)mx_array_data(tokens))[LENGTH / 2 - 1], 11);
}

static void expect_error(const char *words, const char *rules, const char *part)
{
    MX_SCOPE;
    write_files(words, rules);
    assert_null(mx_tokenizer_open(folder));
    if (!strstr(mx_error_message(), part))
        fail_msg("'%s' is not in: %s", part, mx_error_message());
    mx_error_clear();
}

static void test_damaged_files(void **state)
{
    (void)state;
    expect_error("[1]", "", "vocab.json");
    expect_error("{\"a\": 0, \"b\": 0}", "", "have the number 0");
    expect_error("{\"a\": -1}", "", "number -1");
    expect_error("{\"a\": 1.5}", "", "vocab.json");
    expect_error("{\"a\": 99999999}", "", "the largest token is 99999999, but there are 1");
    expect_error("{\"a\": 0, \"b\": 1}", "a b\n", "merge 0 of 'a' and 'b': the token of both");
    expect_error("{\"a\": 0, \"ab\": 1}", "a b\n", "the second");
    expect_error("{\"a\": 0}", "aa\n", "wanted two tokens");
    expect_error("{\"a\": 0}", "a a a\n", "wanted two tokens");
    for (size_t n = 0; n < sizeof vocabulary - 1; n++) { /* every beginning of the file */
        char part[sizeof vocabulary] = "";
        memcpy(part, vocabulary, n);
        expect_error(part, merges, "vocab.json");
    }
    write_files(vocabulary, merges);
    unlink(path_of("merges.txt"));
    assert_null(mx_tokenizer_open(folder));
    assert_non_null(strstr(mx_error_message(), "merges.txt"));
    mx_error_clear();
}

static void test_wrong_calls(void **state)
{
    (void)state;
    MX_SCOPE;
    mx_tokenizer *t = mx_tokenizer_open(folder);
    int64_t n;
    const float none[] = {0, 9}, half[] = {0.5f};
    assert_null(mx_tokenizer_open(NULL));
    assert_null(mx_tokenizer_encode(t, NULL, 3));
    assert_null(mx_tokenizer_encode(t, "a", -1));
    assert_null(mx_tokenizer_encode(NULL, "a", 1));
    mx_error_clear();
    assert_null(mx_tokenizer_encode(t, "axa", 3));
    assert_non_null(strstr(mx_error_message(), "0x78"));
    mx_error_clear();
    assert_null(mx_tokenizer_decode(t, mx_array_from(MX_DIMS(2), MX_FLOAT32, none)));
    assert_non_null(strstr(mx_error_message(), "there is no token 9"));
    assert_null(mx_tokenizer_decode(t, mx_array_from(MX_DIMS(1), MX_FLOAT32, half)));
    assert_null(mx_tokenizer_bytes(t, -1, &n));
    assert_null(mx_tokenizer_bytes(t, INT64_MAX, &n));
    mx_error_clear();
}

/* Each allocation fails once: an error, nothing leaks (LeakSanitizer looks), the next call works. */
static void test_failing_allocations(void **state)
{
    (void)state;
    bool done = false;
    for (int64_t n = 1; n < 1000 && !done; n++) {
        MX_SCOPE;
        mx_alloc_fail_at(n);
        mx_tokenizer *t = mx_tokenizer_open(folder);
        mx_array *tokens = t ? mx_tokenizer_encode(t, "ab abc", 6) : NULL;
        mx_array *text = tokens ? mx_tokenizer_decode(t, tokens) : NULL;
        mx_alloc_fail_at(0);
        done = text;
        assert_true(done || mx_error_code() == MX_ERR_MEMORY);
        mx_error_clear();
    }
    assert_true(done);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_merges_go_by_rank, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_one_file, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_damaged_rules_of_one_file, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_a_long_word, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_damaged_files, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_wrong_calls, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_failing_allocations, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
