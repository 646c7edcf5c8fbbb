/* JSON: what is accepted, what is rejected and which position the message names; damaged texts only give errors.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/json.h"
#include "base/rng.h"
#include "gluon/limits.h"

static int64_t live_blocks(void) { return mx_alloc_get_stats().live_blocks; }

/* Parses and writes again. */
static void check_round(const char *text, const char *wanted)
{
    mx_json *root = mx_json_parse(text, strlen(text));
    if (!root)
        fail_msg("%s: %s", text, mx_error_message());
    mx_text out = {0};
    mx_json_write(&out, root);
    assert_string_equal(mx_text_get(&out), wanted);
    mx_text_free(&out);
    mx_json_free(root);
}

static void test_accepts(void **state)
{
    (void)state;
    const char *const cases[][2] = {
        {"null", "null"}, {" true\n", "true"}, {"false", "false"}, {"0", "0"}, {"-0", "0"}, {"17", "17"},
        {"-9223372036854775808", "-9223372036854775808"}, {"9223372036854775807", "9223372036854775807"},
        {"18446744073709551616", "1.8446744073709552e+19"}, {"0.1", "0.1"}, {"1e3", "1000.0"}, {"-2.5E-3", "-0.0025"},
        {"1.7976931348623157e308", "1.7976931348623157e+308"}, {"5e-324", "4.94066e-324"}, {"1e-999", "0.0"},
        {"\"\"", "\"\""}, {"\"a\\\"b\\\\c\\/d\"", "\"a\\\"b\\\\c/d\""}, {"\"\\b\\f\\n\\r\\t\"", "\"\\b\\f\\n\\r\\t\""},
        {"\"\\u0041\\u00e9\\u20AC\\ud83d\\ude00\"", "\"A\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80\""},
        {"\"\\u0001\\u001f\x7f\"", "\"\\u0001\\u001f\x7f\""},
        {"[]", "[]"}, {"{}", "{}"}, {"[ 1 , [ 2 , [ ] ] , { } ]", "[1, [2, []], {}]"},
        {"{\"a\":{\"b\":[1,2,{\"c\":null}]},\"d\":[[],[3]]}",
         "{\"a\": {\"b\": [1, 2, {\"c\": null}]}, \"d\": [[], [3]]}"},
        {"[[[1,2],[3,4]],[[5,6],[7,8]]]", "[[[1, 2], [3, 4]], [[5, 6], [7, 8]]]"},
        {"{\"a,b\":\"[{,:\"}", "{\"a,b\": \"[{,:\"}"},
    };
    int64_t before = live_blocks();
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        check_round(cases[i][0], cases[i][1]);
    assert_int_equal(live_blocks(), before);
}

static void check_refused(const char *text, size_t length, const char *place)
{
    assert_null(mx_json_parse(text, length));
    assert_int_equal(mx_error_code(), MX_ERR_FILE);
    if (!strstr(mx_error_message(), place))
        fail_msg("%s: message \"%s\" does not name %s", text, mx_error_message(), place);
    mx_error_clear();
}

static void test_refuses(void **state)
{
    (void)state;
    const char *const cases[][2] = {
        {"", "line 1, column 1: wanted a value, but the text ends"}, {"  \n ", "line 2, column 2"},
        {"nul", "line 1, column 1"}, {"nulll", "column 5"}, {"True", "column 1"}, {"NaN", "column 1"},
        {"Infinity", "column 1"}, {"-Infinity", "column 2"}, {"01", "column 2"}, {"+1", "column 1"}, {".5", "column 1"},
        {"1.", "column 3"}, {"1.e3", "column 3"}, {"1e", "column 3"}, {"1e+", "column 4"}, {"-", "column 2"},
        {"1e999", "too large"}, {"0x10", "column 2"}, {"1 2", "column 3"}, {"[1,]", "column 4"}, {"[,1]", "column 2"},
        {"[1 2]", "column 4: wanted ',' or ']', found '2'"}, {"[1", "column 3"}, {"[", "column 2"}, {"]", "column 1"},
        {"{\"a\":1,}", "column 8"}, {"{a:1}", "column 2"}, {"{\"a\" 1}", "column 6: wanted ':'"},
        {"{\"a\":}", "column 6"},
        {"{1:2}", "column 2"}, {"{\"a\":1", "column 7: wanted ',' or '}', but the text ends"}, {"[1}", "column 3"},
        {"'a'", "column 1"}, {"\"a", "column 3"}, {"\"a\nb\"", "control characters"}, {"\"\\x\"", "column 3"},
        {"\"\\u12g4\"", "column 6"}, {"\"\\u0000\"", "zero character"}, {"\"\\ud800\"", "surrogate"},
        {"\"\\udc00\"", "surrogate"}, {"\"\\ud800\\u0041\"", "surrogate"}, {"\"\\", "column 3"},
        {"\"\xff\"", "column 2: wanted UTF-8, found byte 0xff"}, {"\"\xc0\x80\"", "UTF-8"},
        {"\"\xed\xa0\x80\"", "UTF-8"},
        {"\"\xf4\x90\x80\x80\"", "UTF-8"}, {"\"\xe2\x82", "UTF-8"}, {"// x\n1", "column 1"},
        {"[\n1,\n  x]", "line 3, column 3"},
        {"\xef\xbb\xbf{}", "found byte 0xef"},
    };
    int64_t before = live_blocks();
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        check_refused(cases[i][0], strlen(cases[i][0]), cases[i][1]);
    check_refused("[1,\0002]", 6, "byte 0x00");
    check_refused("\"a\0b\"", 5, "byte 0x00");
    check_refused("\"\\\0\"", 4, "byte 0x00");
    check_refused("\"\\u00\0 \"", 8, "byte 0x00");
    assert_null(mx_json_parse(NULL, 3));
    assert_int_equal(mx_error_code(), MX_ERR_ARGUMENT);
    mx_error_clear();
    assert_int_equal(live_blocks(), before);
}

static void test_depth_and_memory(void **state)
{
    (void)state;
    enum { LENGTH = 1 << 20 };
    char *text = mx_alloc(LENGTH);
    memset(text, '[', LENGTH);
    check_refused(text, LENGTH, "more than 200 levels");
    const mx_limits usual = mx_limits_get();
    memset(text + usual.depth, ']', (size_t)usual.depth);
    mx_json *root = mx_json_parse(text, 2 * usual.depth);
    assert_non_null(root);
    mx_json_free(root);
    assert_int_equal(mx_limits_set((mx_limits){usual.depth - 1, usual.nodes, usual.pixels, usual.memory}), 0);
    check_refused(text, 2 * usual.depth, "GLUON_LIMIT_DEPTH");
    assert_int_equal(mx_limits_set(usual), 0);
    /* Memory stays within the promised factor. */
    memset(text, ',', LENGTH);
    for (int i = 0; i < LENGTH; i += 2)
        text[i] = '0';
    text[0] = '[', text[1] = '0', text[2] = ',', text[3] = '0', text[LENGTH - 1] = ']', text[LENGTH - 2] = '0';
    text[4] = ' ';
    int64_t before = mx_alloc_get_stats().live_bytes;
    root = mx_json_parse(text, LENGTH);
    assert_non_null(root);
    assert_true(mx_alloc_get_stats().live_bytes - before <= (int64_t)LENGTH * MX_JSON_FACTOR);
    assert_true(mx_json_count(root) > LENGTH / 2 - 4);
    mx_json_free(root);
    mx_free(text, LENGTH);
}

static const char sample[] =
    "{\n  \"nodes\": [\n    {\"op\": \"null\", \"name\": \"data\", \"inputs\": []},\n"
    "    {\"op\": \"FullyConnected\", \"name\": \"fc1\", \"attrs\": {\"num_hidden\": \"10\"}, "
    "\"inputs\": [[0, 0, 0], [1, 0, 0]]}\n  ],\n"
    "  \"arg_nodes\": [0, 1, 2], \"x\": 1.5, \"ok\": true, \"none\": null, \"x\": 2.5, \"h\": \"\\u00e9\\n\"\n}\n";

static void test_accessors(void **state)
{
    (void)state;
    mx_json *root = mx_json_parse(sample, sizeof sample - 1);
    assert_non_null(root);
    const mx_json *nodes = mx_json_member(root, "nodes", MX_JSON_ARRAY);
    assert_int_equal(mx_json_count(nodes), 2);
    const mx_json *fc = mx_json_at(nodes, 1);
    assert_string_equal(mx_json_text(mx_json_member(fc, "name", MX_JSON_TEXT)), "fc1");
    int64_t whole = -1;
    double number;
    bool truth = false;
    assert_true(mx_json_int(mx_json_at(mx_json_at(mx_json_get(fc, "inputs"), 1), 0), &whole));
    assert_int_equal(whole, 1);
    assert_true(mx_json_number(mx_json_get(root, "x"), &number));
    assert_true(number == 2.5); /* the last of two */
    assert_true(mx_json_bool(mx_json_get(root, "ok"), &truth) && truth);
    assert_int_equal(mx_json_kind_of(mx_json_get(root, "none")), MX_JSON_NULL);
    assert_string_equal(mx_json_key(mx_json_at(root, 0)), "nodes");
    assert_null(mx_json_key(root));
    assert_null(mx_json_at(nodes, 2));
    assert_null(mx_json_at(nodes, -1));
    assert_null(mx_json_get(root, "absent"));
    assert_int_equal(mx_error_code(), MX_OK);

    assert_false(mx_json_int(mx_json_get(root, "x"), &whole));
    assert_non_null(strstr(mx_error_message(), "whole number"));
    mx_error_clear();
    assert_null(mx_json_member(mx_json_at(nodes, 0), "attrs", MX_JSON_OBJECT));
    assert_string_equal(mx_error_message(), "JSON: line 3, column 5: the object has no \"attrs\"");
    mx_error_clear();
    assert_null(mx_json_member(fc, "op", MX_JSON_ARRAY));
    assert_string_equal(mx_error_message(), "JSON: line 4, column 12: \"op\" is a text, wanted an array");
    mx_error_clear();
    assert_null(mx_json_text(nodes));
    assert_string_equal(mx_error_message(), "JSON: line 2, column 12: wanted a text, found an array");
    mx_error_clear();
    assert_null(mx_json_text(mx_json_member(NULL, "x", MX_JSON_TEXT))); /* NULL passes through */
    assert_int_equal(mx_error_code(), MX_OK);
    mx_json_free(root);
    mx_json_free(NULL);
}

static void test_writer_escapes(void **state)
{
    (void)state;
    mx_text out = {0};
    mx_json_write_text(&out, "q\" b\\ t\t \x01 \xc3\xa9 \xff\xc3");
    assert_string_equal(mx_text_get(&out), "\"q\\\" b\\\\ t\\t \\u0001 \xc3\xa9 \\ufffd\\ufffd\"");
    mx_text_clear(&out);
    mx_json_write_number(&out, 1e-5);
    mx_json_write_number(&out, -1.0 / 0.0);
    mx_json_write_text(&out, NULL);
    assert_string_equal(mx_text_get(&out), "1e-05null\"\"");
    mx_text_free(&out);
}

/* Every prefix of a good text is rejected with a position, and leaks nothing. */
static void test_truncations(void **state)
{
    (void)state;
    int64_t before = live_blocks();
    for (size_t length = 0; length < sizeof sample - 2; length++)
        check_refused(sample, length, "line ");
    assert_int_equal(live_blocks(), before);
}

static void test_mutations(void **state)
{
    (void)state;
    static const char spice[] = "{}[],:\"\\u0e-+.123nft \n\t\xc3\xa9\xff";
    int64_t before = live_blocks();
    int accepted = 0;
    for (uint32_t round = 0; round < 20000; round++) {
        char text[sizeof sample];
        memcpy(text, sample, sizeof sample);
        uint32_t random[4];
        mx_philox(7, round, random);
        for (uint32_t k = 0; k <= round % 4; k++)
            text[(random[k] >> 8) % (sizeof sample - 1)] =
                round % 2 ? spice[(random[k] & 255) % (sizeof spice - 1)] : (char)(random[k] & 255);
        mx_json *root = mx_json_parse(text, sizeof sample - 1);
        if (root) {
            mx_text out = {0};
            mx_json_write(&out, root);
            mx_json *again = mx_json_parse(mx_text_get(&out), out.length);
            assert_non_null(again); /* what is written can be read */
            mx_json_free(again);
            mx_text_free(&out);
            mx_json_free(root);
            accepted++;
        } else {
            assert_non_null(strstr(mx_error_message(), "column "));
            mx_error_clear();
        }
    }
    assert_true(accepted > 0 && accepted < 20000);
    assert_int_equal(live_blocks(), before);
}

static void test_random_tokens(void **state)
{
    (void)state;
    static const char *const tokens[] = {"[", "]", "{", "}", ",", ":", "\"a\"", "\"\\u00e9\"", "1", "-2.5e3", "true",
                                         "null", " ", "\n", "[]", "{}"};
    for (uint32_t round = 0; round < 20000; round++) {
        char text[256] = "";
        size_t length = 0;
        uint32_t random[4];
        for (uint32_t k = 0; k < 24; k++) {
            mx_philox(11, round * 8 + k / 4, random);
            const char *token = tokens[random[k % 4] % 16];
            length += (size_t)snprintf(text + length, sizeof text - length, "%s", token);
        }
        mx_json *root = mx_json_parse(text, length);
        mx_json_free(root);
        mx_error_clear();
    }
}

static void test_no_memory(void **state)
{
    (void)state;
    int64_t before = live_blocks();
    mx_alloc_fail_at(1);
    assert_null(mx_json_parse(sample, sizeof sample - 1));
    assert_int_equal(mx_error_code(), MX_ERR_MEMORY);
    mx_error_clear();
    for (int64_t n = 1; n < 4; n++) {
        mx_text text = {0};
        mx_alloc_fail_at(n);
        for (int i = 0; i < 1000; i++)
            mx_text_print(&text, "%d ", i);
        mx_alloc_fail_at(0);
        assert_true(text.failed);
        assert_null(mx_text_get(&text));
        assert_null(mx_text_take(&text));
        assert_int_equal(mx_error_code(), MX_ERR_MEMORY);
        mx_error_clear();
    }
    assert_int_equal(live_blocks(), before);
}

static void test_text(void **state)
{
    (void)state;
    mx_text text = {0};
    assert_string_equal(mx_text_get(&text), "");
    mx_text_add(&text, NULL);
    mx_text_print(&text, "%s", "");
    for (int i = 0; i < 300; i++)
        mx_text_add_char(&text, (char)('a' + i % 26));
    assert_int_equal(text.length, 300);
    assert_int_equal(strlen(mx_text_get(&text)), 300);
    char *taken = mx_text_take(&text);
    assert_int_equal(strlen(taken), 300);
    assert_int_equal(text.length, 0);
    mx_strfree(taken);
    const struct { double value; const char *wanted; } numbers[] = {
        {0.1, "0.1"}, {1, "1.0"}, {-0.0, "-0.0"}, {1e-5, "1e-05"}, {1e22, "1e+22"}, {1.0 / 3, "0.3333333333333333"},
        {123456789, "123456789.0"}, {0.001, "0.001"},
    };
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
        mx_text_add_number(&text, numbers[i].value);
        assert_string_equal(mx_text_get(&text), numbers[i].wanted);
        mx_text_clear(&text);
    }
    mx_text_free(&text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_accepts),        cmocka_unit_test(test_refuses),
        cmocka_unit_test(test_depth_and_memory), cmocka_unit_test(test_accessors),
        cmocka_unit_test(test_writer_escapes), cmocka_unit_test(test_truncations),
        cmocka_unit_test(test_mutations),      cmocka_unit_test(test_random_tokens),
        cmocka_unit_test(test_no_memory),      cmocka_unit_test(test_text),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
