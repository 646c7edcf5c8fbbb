/* Symbol files: round trips, old versions, hostile text.  SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "gluon.h"

static int clean(void **state)
{
    (void)state;
    mx_error_clear();
    return 0;
}

static mx_symbol *read_json(const char *text) { return mx_symbol_from_json(text, strlen(text)); }

static void assert_names(mx_names names, const char *wanted)
{
    char text[2048] = "";
    for (int64_t i = 0; i < names.n; i++) {
        strcat(text, i ? " " : "");
        strcat(text, names.v[i]);
    }
    assert_string_equal(text, wanted);
}

static void refuses(const char *text, const char *part)
{
    MX_SCOPE;
    mx_symbol *s = read_json(text);
    if (s || !strstr(mx_error_message(), part))
        fail_msg("%s\n  gave \"%s\", wanted \"%s\"", text, mx_error_message(), part);
    mx_error_clear();
}

/* ---- round trips ----------------------------------------------------------------------------------------------- */

static mx_symbol *one(const char *op, const char *name, mx_array *x, const char *keys, const char *values)
{
    return mx_symbol_apply(op, &(struct mx_symbol_args){.name = name, .n_in = 1, .in = &x, .n_attrs = keys ? 1 : 0,
                                                        .attr_names = &keys, .attr_values = &values});
}

static mx_symbol *net(void)
{
    mx_array *data =
        mx_variable("data", .shape = MX_DIMS(0, 3, 8, 8), .dtype = MX_FLOAT32, .init = "[\"xavier\", {\"a\": 1}]");
    mx_symbol *bn =
        one("BatchNorm", "bn", mx_symbol_at(one("Activation", "act", data, "act_type", "tanh"), 0), "eps", "0.002");
    mx_arrays parts = mx_symbol_arrays(one("split", "split", mx_symbol_at(bn, 0), "num_outputs", "3"));
    mx_array *sum = mx_concat(MX_ARRAYS(parts.v[2], parts.v[0], mx_plus_scalar(parts.v[1], .scalar = 1)), .dim = 1);
    mx_array *cut = mx_index(sum, MX_ALL, MX_ALL, MX_RANGE(1, MX_NONE_INT), MX_STEP(MX_NONE_INT, MX_NONE_INT, 2));
    return mx_symbol_of(MX_ARRAYS(cut, mx_symbol_at(bn, 0)));
}

static void test_round_trip(void **state)
{
    (void)state;
    MX_SCOPE;
    mx_symbol *s = net();
    const char *text = mx_symbol_json(s);
    assert_non_null(text);
    mx_symbol *again = read_json(text);
    assert_int_equal(mx_error_code(), MX_OK);
    assert_string_equal(mx_symbol_json(again), text);
    assert_names(mx_symbol_auxiliary(again), "bn_moving_mean bn_moving_var");
    assert_non_null(strstr(text, "[4, 0, 1]")); /* an edge that writes */
    assert_non_null(strstr(text, "\"num_args\": \"3\""));
    assert_non_null(strstr(text, "\"begin\": \"(None, None, 1, None)\""));
    const mx_inferred *r =
        mx_symbol_infer(again, &(struct mx_known){.count = 1, .shapes = (mx_dims[]){MX_DIMS(2, 3, 8, 8)}});
    assert_non_null(r);
    assert_int_equal(r->outputs[0].d[2], 7);
    assert_int_equal(r->outputs[0].d[3], 4);
}

static void test_files(void **state)
{
    (void)state;
    MX_SCOPE;
    char path[] = "/tmp/gluon_symbol_XXXXXX";
    close(mkstemp(path));
    mx_symbol *s = net();
    assert_int_equal(mx_symbol_save(s, path), MX_OK);
    mx_symbol *again = mx_symbol_load(path);
    assert_non_null(again);
    assert_string_equal(mx_symbol_json(again), mx_symbol_json(s));
    assert_int_not_equal(mx_symbol_save(s, "/nonexistent/folder/x.json"), MX_OK);
    assert_non_null(strstr(mx_error_message(), "/nonexistent/folder"));
    mx_error_clear();
    FILE *file = fopen(path, "w");
    fputs("{\"nodes\": [{\"op\": \"Nonsense\", \"name\": \"n1\", \"inputs\": []}], \"heads\": [[0, 0, 0]]}", file);
    fclose(file);
    assert_null(mx_symbol_load(path));
    assert_non_null(strstr(mx_error_message(), path));
    assert_non_null(strstr(mx_error_message(), "n1"));
    assert_non_null(strstr(mx_error_message(), "Nonsense"));
    mx_error_clear();
    assert_null(mx_symbol_load("/nonexistent/x.json"));
    assert_non_null(strstr(mx_error_message(), "/nonexistent/x.json"));
    mx_error_clear();
    unlink(path);
}

static void test_casts_are_left_out(void **state)
{
    (void)state;
    MX_SCOPE;
    mx_array *x = mx_variable("x");
    mx_symbol *cast = one("amp_cast", "c", x, "dtype", "float16");
    mx_symbol *s = one("relu", "r", mx_symbol_at(cast, 0), NULL, NULL);
    mx_symbol *again = read_json(mx_symbol_json(s));
    assert_names(mx_symbol_outputs(mx_symbol_internals(again)), "x r_output");
}

/* ---- old versions ---------------------------------------------------------------------------------------------- */

static void test_version_0_8(void **state)
{
    (void)state;
    MX_SCOPE;
    mx_symbol *s = read_json(
        "{\"nodes\": ["
        "{\"op\": \"null\", \"param\": {}, \"name\": \"data\", \"inputs\": [], \"backward_source_id\": -1},"
        "{\"op\": \"null\", \"param\": {}, \"name\": \"fc_weight\", \"inputs\": [], \"backward_source_id\": -1},"
        "{\"op\": \"null\", \"param\": {}, \"name\": \"fc_bias\", \"inputs\": [], \"backward_source_id\": -1},"
        "{\"op\": \"FullyConnected\", \"param\": {\"no_bias\": \"False\", \"num_hidden\": \"10\"}, \"name\": \"fc\","
        " \"inputs\": [[0, 0], [1, 0], [2, 0]], \"backward_source_id\": -1,"
        " \"attr\": {\"ctx_group\": \"dev1\", \"weight_lr_mult\": \"3\"}},"
        "{\"op\": \"null\", \"param\": {}, \"name\": \"bn_gamma\", \"inputs\": [], \"backward_source_id\": -1},"
        "{\"op\": \"null\", \"param\": {}, \"name\": \"bn_beta\", \"inputs\": [], \"backward_source_id\": -1},"
        "{\"op\": \"BatchNorm\", \"param\": {\"eps\": \"0.001\", \"momentum\": \"0.9\", \"fix_gamma\": \"True\"},"
        " \"name\": \"bn\", \"inputs\": [[3, 0], [4, 0], [5, 0]], \"backward_source_id\": -1},"
        "{\"op\": \"argmax\", \"param\": {\"axis\": \"-1\"}, \"name\": \"best\", \"inputs\": [[6, 0]]}"
        "], \"arg_nodes\": [0, 1, 2, 4, 5], \"heads\": [[6, 0], [7, 0]]}");
    assert_int_equal(mx_error_code(), MX_OK);
    assert_names(mx_symbol_arguments(s), "data fc_weight fc_bias bn_gamma bn_beta");
    assert_names(mx_symbol_auxiliary(s), "bn_moving_mean bn_moving_var");
    mx_symbol *inside = mx_symbol_internals(s);
    assert_string_equal(mx_symbol_attr(mx_symbol_find(inside, "fc_output"), "__ctx_group__"), "dev1");
    assert_string_equal(mx_symbol_attr(mx_symbol_find(inside, "fc_weight"), "__lr_mult__"), "3");
    assert_null(mx_symbol_attr(mx_symbol_find(inside, "best_output"), "axis"));
}

/* Auxiliary states may be missing in files of versions before 0.9, and only there. */
static void test_missing_states(void **state)
{
    (void)state;
    MX_SCOPE;
    char text[1024];
    for (int version = 899; version <= 900; version++) {
        snprintf(
            text, sizeof text,
            "{\"nodes\": [{\"op\": \"null\", \"name\": \"x\", \"inputs\": []}, {\"op\": \"null\", \"name\": \"g\", \"inputs\": []}, "
            "{\"op\": \"null\", \"name\": \"b\", \"inputs\": []}, {\"op\": \"BatchNorm\", \"name\": \"bn\", "
            "\"inputs\": [[0, 0, 0], [1, 0, 0], [2, 0, 0]]}], \"heads\": [[3, 0, 0]], "
            "\"attrs\": {\"mxnet_version\": [\"int\", %d]}}",
            version);
        if (version < 900)
            assert_names(mx_symbol_auxiliary(read_json(text)), "bn_moving_mean bn_moving_var");
        else
            refuses(text, "input moving_mean is missing (only 3 of 5");
    }
}

/* ---- hostile text ---------------------------------------------------------------------------------------------- */

#define VAR "{\"op\": \"null\", \"name\": \"x\", \"inputs\": []}"
#define NODE(op, inputs) "{\"op\": \"" op "\", \"name\": \"n\", \"inputs\": " inputs "}"
#define ATTR(op, inputs, attrs) "{\"op\": \"" op "\", \"name\": \"n\", \"attrs\": " attrs ", \"inputs\": " inputs "}"
#define GRAPH(nodes, heads) "{\"nodes\": [" nodes "], \"heads\": " heads "}"

static void test_hostile(void **state)
{
    (void)state;
    refuses("", "JSON");
    refuses("[]", "object");
    refuses("{}", "nodes");
    refuses("{\"nodes\": 3}", "array");
    refuses("{\"nodes\": [3]}", "object");
    refuses(GRAPH(VAR, "[]"), "heads");
    refuses("{\"nodes\": [" VAR "]}", "heads");
    refuses(GRAPH(VAR, "[[1, 0, 0]]"), "heads");
    refuses(GRAPH(VAR, "[[-1, 0, 0]]"), "heads");
    refuses(GRAPH(VAR, "[[0, 1, 0]]"), "has 1 outputs");
    refuses(GRAPH(VAR, "[[0, 4294967296, 0]]"), "outputs");
    refuses(GRAPH(VAR, "[[0]]"), "heads");
    refuses(GRAPH(VAR, "[[0, 0, 0, 0]]"), "heads");
    refuses(GRAPH(VAR, "[[0.5, 0, 0]]"), "");
    refuses(GRAPH(VAR ", " NODE("relu", "[[1, 0, 0]]"), "[[1, 0, 0]]"), "cycle");
    refuses(GRAPH(NODE("relu", "[[1, 0, 0]]") ", " VAR, "[[0, 0, 0]]"), "cycle");
    refuses(GRAPH(VAR ", " NODE("relu", "[[99999999999999999999, 0, 0]]"), "[[1, 0, 0]]"), "");
    refuses(GRAPH(VAR ", " NODE("relu", "[]"), "[[1, 0, 0]]"), "missing");
    refuses(GRAPH(VAR ", " NODE("relu", "[[0, 0, 0], [0, 0, 0]]"), "[[1, 0, 0]]"), "at most 1");
    refuses(GRAPH(VAR ", " NODE("relu", "3"), "[[1, 0, 0]]"), "inputs");
    refuses(GRAPH(VAR ", " NODE("nonsense", "[]"), "[[1, 0, 0]]"), "nonsense");
    refuses(GRAPH(VAR ", " NODE("FullyConnected", "[[0, 0, 0]]"), "[[1, 0, 0]]"), "num_hidden");
    refuses(GRAPH(VAR ", " ATTR("relu", "[[0, 0, 0]]", "{\"what\": \"1\"}"), "[[1, 0, 0]]"), "what");
    refuses(GRAPH(VAR ", " ATTR("relu", "[[0, 0, 0]]", "[]"), "[[1, 0, 0]]"), "object");
    refuses(GRAPH(VAR ", " ATTR("softmax", "[[0, 0, 0]]", "{\"axis\": 1}"), "[[1, 0, 0]]"), "");
    refuses(GRAPH(VAR ", " ATTR("softmax", "[[0, 0, 0]]", "{\"axis\": \"ten\"}"), "[[1, 0, 0]]"), "axis");
    refuses(GRAPH(VAR ", " ATTR("split", "[[0, 0, 0]]", "{\"num_outputs\": \"1000000\"}"), "[[1, 0, 0]]"), "");
    refuses(GRAPH(ATTR("null", "[]", "{\"__shape__\": \"(1,2,3,4,5,6,7,8,9,10)\"}"), "[[0, 0, 0]]"), "");
    refuses(GRAPH(ATTR("null", "[]", "{\"__shape__\": \"(1,2\"}"), "[[0, 0, 0]]"), "__shape__");
    refuses(GRAPH(ATTR("null", "[]", "{\"__dtype__\": \"77\"}"), "[[0, 0, 0]]"), "__dtype__");
    refuses(GRAPH("{\"op\": \"null\", \"inputs\": []}", "[[0, 0, 0]]"), "name");
    refuses(GRAPH("{\"name\": \"x\", \"inputs\": []}", "[[0, 0, 0]]"), "op");
    refuses(GRAPH("{\"op\": \"null\", \"name\": \"x\"}", "[[0, 0, 0]]"), "inputs");
    refuses(GRAPH("{\"op\": \"null\", \"name\": \"x\", \"inputs\": [[0, 0, 0]]}", "[[0, 0, 0]]"), "");
}

static void test_deep_and_large(void **state)
{
    (void)state;
    MX_SCOPE;
    enum { depth = 100000 };
    char *text = malloc(2 * depth + 64);
    strcpy(text, "{\"nodes\": ");
    memset(text + strlen(text), '[', depth);
    text[10 + depth] = 0;
    refuses(text, "JSON");
    memset(text, 'a', 2 * depth);
    /* One huge attribute is only text. */
    mx_array *x = mx_variable("x");
    mx_symbol *s = mx_symbol_of(MX_ARRAYS(x));
    text[2 * depth - 1] = 0;
    assert_int_equal(mx_symbol_set_attr(s, "__note__", text), MX_OK);
    assert_string_equal(mx_symbol_attr(read_json(mx_symbol_json(s)), "__note__"), text);
    free(text);
}

/* Every prefix of a good file, and the file with each byte changed, gives a symbol or an error, never a crash. */
static void test_truncated_and_bent(void **state)
{
    (void)state;
    MX_SCOPE;
    const char *good = mx_symbol_json(net());
    const size_t length = strlen(good);
    char *bent = malloc(length + 1);
    for (size_t n = 0; n < length; n++) {
        MX_SCOPE;
        if (mx_symbol_from_json(good, n))
            fail_msg("%zu bytes of %zu were taken", n, length);
        mx_error_clear();
    }
    for (size_t n = 0; n < length; n++) {
        MX_SCOPE;
        memcpy(bent, good, length + 1);
        bent[n] = (char)("0]9-,\"x"[n % 7]);
        mx_symbol *s = mx_symbol_from_json(bent, length);
        if (s)
            mx_symbol_infer(s, &(struct mx_known){.partial = true});
        mx_error_clear();
    }
    free(bent);
}

static void test_failing_allocations(void **state)
{
    (void)state;
    MX_SCOPE;
    const char *good = mx_symbol_json(net());
    for (int64_t n = 1;; n++) {
        MX_SCOPE;
        mx_alloc_fail_at(n);
        mx_symbol *s = mx_symbol_from_json(good, strlen(good));
        mx_alloc_fail_at(0);
        mx_error_clear();
        if (s)
            break;
        assert_true(n < 5000);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(test_round_trip, clean),
        cmocka_unit_test_teardown(test_files, clean),
        cmocka_unit_test_teardown(test_casts_are_left_out, clean),
        cmocka_unit_test_teardown(test_version_0_8, clean),
        cmocka_unit_test_teardown(test_missing_states, clean),
        cmocka_unit_test_teardown(test_hostile, clean),
        cmocka_unit_test_teardown(test_deep_and_large, clean),
        cmocka_unit_test_teardown(test_truncated_and_bent, clean),
        cmocka_unit_test_teardown(test_failing_allocations, clean),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
