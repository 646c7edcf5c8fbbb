/* Attributes: parsing, printing, checking; and the C functions with named arguments that are generated from them.
 *
 * schema_user.c holds user code; it is compiled with -std=c11 -pedantic -Wextra -Werror.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "base/error.h"
#include "gluon/autograd.h"
#include "gluon/op.gen.h"
#include "op/op.h"

mx_array *schema_user_calls(mx_array *a, mx_array *b);
mx_arrays schema_user_lists(mx_array *a, mx_array *b);
mx_code schema_user_training(mx_array *x, mx_array *w);

#define TEST_ATTRS(X) \
    X(BOOL, flag, "True", "", "a switch") \
    X(INT, count, "3", "1..10", "a number") \
    X(INT, axis, "None", "", "an axis") \
    X(FLOAT, rate, "0.5", "0..1", "a rate") \
    X(FLOAT, limit, "None", "", "a limit") \
    X(ENUM, act, "relu", "relu|sigmoid|tanh", "a choice") \
    X(ENUM, maybe, "None", "a|b", "a choice that can be absent") \
    X(DTYPE, dtype, "float32", "", "a type") \
    X(DIMS, kernel, "(1, 1)", "", "a tuple") \
    X(DIMS, shape, "None", "", "a tuple that can be absent") \
    X(FLOATS, scales, "()", "", "numbers") \
    X(STR, name, "None", "", "a text") \
    X(CTX, ctx, "None", "", "a device") \
    X(INT, needed, REQUIRED, "", "has no default")
MX_ATTRS(test, TEST_ATTRS)

static mx_test_attrs fresh(void)
{
    mx_test_attrs a;
    mx_schema_layout(&test_schema);
    mx_schema_defaults(&test_schema, &a);
    return a;
}

static bool set(mx_test_attrs *a, const char *name, const char *text)
{
    mx_error_clear();
    return mx_schema_set(&test_schema, a, "op", name, text) == MX_OK;
}

static const char *text_of(const mx_test_attrs *a, const char *name)
{
    static char buffer[MX_VALUE_TEXT];
    return mx_field_text(mx_schema_find(&test_schema, name), a, buffer);
}

/* ---- layout and defaults -------------------------------------------------------------------------------- */

static void test_layout(void **state)
{
    (void)state;
    mx_schema_layout(&test_schema);
#define HAS_OFFSET(type, field, fallback, rule, doc) \
    assert_int_equal(mx_schema_find(&test_schema, #field)->offset, offsetof(mx_test_attrs, field));
    TEST_ATTRS(HAS_OFFSET)
    assert_null(mx_schema_find(&test_schema, "absent"));
    assert_null(mx_schema_find(NULL, "flag"));
    assert_null(mx_schema_find(&test_schema, NULL));
}

/* The structs that opgen writes for C programs are the ones of the definitions. */
static void test_all_layouts(void **state)
{
    (void)state;
    for (int i = 0; mx_op_at(i); i++) {
        const mx_schema *schema = mx_op_at(i)->schema;
        size_t end = 0;
        for (int k = 0; schema && k < schema->count; k++) {
            assert_true(schema->fields[k].offset >= end);
            end = schema->fields[k].offset + 1;
            assert_true(end <= schema->size);
            assert_non_null(schema->fields[k].rule);
            assert_non_null(schema->fields[k].doc);
        }
    }
}

static void test_defaults(void **state)
{
    (void)state;
    mx_test_attrs a = fresh();
    assert_true(a.flag);
    assert_int_equal(a.count, 3);
    assert_true(a.axis == MX_NONE_INT);
    assert_true(a.rate == 0.5);
    assert_true(isnan(a.limit));
    assert_int_equal(a.act, 0);
    assert_int_equal(a.maybe, -1);
    assert_int_equal(a.dtype, MX_FLOAT32);
    assert_true(a.kernel.n == 2 && a.kernel.d[0] == 1 && a.kernel.d[1] == 1);
    assert_int_equal(a.shape.n, -1);
    assert_int_equal(a.scales.n, 0);
    assert_null(a.name);
    assert_int_equal(a.ctx.type, 0);
    assert_true(a.needed == MX_NONE_INT);
}

/* Every default of every operator is a legal value of its field. */
static void test_all_defaults_parse(void **state)
{
    (void)state;
    char *spare = malloc(1 << 14);
    for (int i = 0; mx_op_at(i); i++) {
        mx_op *op = mx_op_at(i);
        for (int k = 0; op->schema && k < op->schema->count; k++) {
            const mx_field *f = &op->schema->fields[k];
            mx_schema_defaults(op->schema, spare);
            if (f->fallback && mx_schema_set(op->schema, spare, op->name, f->name, f->fallback))
                fail_msg("%s", mx_error_message());
        }
    }
    free(spare);
}

/* ---- parsing -------------------------------------------------------------------------------------------- */

static void test_integers(void **state)
{
    (void)state;
    mx_test_attrs a = fresh();
    static const struct {
        const char *text;
        int64_t value;
    } good[] = {{"7", 7},
                {" 7 ", 7},
                {"-7", -7},
                {"+7", 7},
                {"7L", 7},
                {"True", 1},
                {"False", 0},
                {"None", MX_NONE_INT},
                {"9223372036854775807", INT64_MAX},
                {"-9223372036854775807", -INT64_MAX}};
    for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
        if (!set(&a, "axis", good[i].text))
            fail_msg("%s", mx_error_message());
        assert_true(a.axis == good[i].value);
    }
    static const char *const bad[] = {
        "",     " ",   "x",  "1.5",      "1 2", "7LL", "L", "9223372036854775808", "-9223372036854775808",
        "0x10", "(1)", "1,", "Nonesuch", "1e3"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        a.axis = 42;
        if (set(&a, "axis", bad[i]))
            fail_msg("axis='%s' was taken as %lld", bad[i], (long long)a.axis);
        assert_int_equal(mx_error_code(), MX_ERR_ATTRIBUTE);
        assert_non_null(strstr(mx_error_message(), "op: axis"));
    }
    mx_error_clear();
}

static void test_numbers(void **state)
{
    (void)state;
    mx_test_attrs a = fresh();
    static const struct {
        const char *text;
        double value;
    } good[] = {{"0.25", 0.25},      {"1e-3", 1e-3}, {"-2", -2}, {"inf", INFINITY},
                {"-inf", -INFINITY}, {" 1. ", 1},    {".5", 0.5}};
    for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
        assert_true(set(&a, "limit", good[i].text));
        assert_true(a.limit == good[i].value);
    }
    assert_true(set(&a, "limit", "None") && isnan(a.limit));
    static const char *const bad[] = {"", "x", "1..2", "1 2", "(1)", "1,", "0.5f"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        if (set(&a, "limit", bad[i]))
            fail_msg("limit='%s' was taken as %g", bad[i], a.limit);
    mx_error_clear();
}

static void test_booleans_and_choices(void **state)
{
    (void)state;
    mx_test_attrs a = fresh();
    assert_true(set(&a, "flag", "False") && !a.flag);
    assert_true(set(&a, "flag", "1") && a.flag);
    assert_true(set(&a, "flag", "0") && !a.flag);
    assert_true(set(&a, "flag", "true") && a.flag);
    assert_false(set(&a, "flag", "yes"));
    assert_false(set(&a, "flag", "2"));
    assert_false(set(&a, "flag", ""));
    assert_true(set(&a, "act", "tanh") && a.act == 2);
    assert_true(set(&a, "maybe", "b") && a.maybe == 1);
    assert_true(set(&a, "maybe", "None") && a.maybe == -1);
    assert_false(set(&a, "act", "relu6"));
    assert_non_null(strstr(mx_error_message(), "relu|sigmoid|tanh"));
    assert_false(set(&a, "act", ""));
    assert_false(set(&a, "act", "rel"));
    assert_true(set(&a, "dtype", "bfloat16") && a.dtype == MX_BFLOAT16);
    assert_true(set(&a, "dtype", "None") && a.dtype == MX_DTYPE_NONE);
    assert_false(set(&a, "dtype", "float99"));
    assert_true(set(&a, "ctx", "gpu(1)") && a.ctx.type == MX_GPU && a.ctx.id == 1);
    assert_true(set(&a, "ctx", "cpu_pinned(0)") && a.ctx.type == MX_CPU_PINNED);
    assert_false(set(&a, "ctx", "tpu(0)"));
    assert_false(set(&a, "ctx", "cpu(-1)"));
    assert_false(set(&a, "ctx", "cpu(0) x"));
    assert_true(set(&a, "name", "any text, (even this)"));
    assert_string_equal(a.name, "any text, (even this)");
    mx_error_clear();
}

static void test_tuples(void **state)
{
    (void)state;
    mx_test_attrs a = fresh();
    static const struct {
        const char *text;
        int n;
        int64_t first, last;
    } good[] = {{"(3, 4)", 2, 3, 4},
                {"[3,4]", 2, 3, 4},
                {"(3,)", 1, 3, 3},
                {"()", 0, 0, 0},
                {"[]", 0, 0, 0},
                {"5", 1, 5, 5},
                {" ( 1 , 2 , 3 ) ", 3, 1, 3},
                {"(2L, 3L)", 2, 2, 3},
                {"(None, 2)", 2, MX_NONE_INT, 2},
                {"(-1, 0)", 2, -1, 0},
                {"(1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16)", 16, 1, 16}};
    for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
        if (!set(&a, "kernel", good[i].text))
            fail_msg("%s", mx_error_message());
        assert_int_equal(a.kernel.n, good[i].n);
        if (good[i].n) {
            assert_true(a.kernel.d[0] == good[i].first);
            assert_true(a.kernel.d[good[i].n - 1] == good[i].last);
        }
    }
    assert_true(set(&a, "shape", "None") && a.shape.n == -1);
    static const char *const bad[] = {"(",
                                      ")",
                                      "(1",
                                      "1)",
                                      "(1,,2)",
                                      "(,)",
                                      "(1 2)",
                                      "[1)",
                                      "(1, x)",
                                      "((1))",
                                      "1, 2",
                                      "(1.5,)",
                                      "(1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17)",
                                      "(9223372036854775808,)"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        if (set(&a, "kernel", bad[i]))
            fail_msg("kernel='%s' was taken", bad[i]);
    assert_true(set(&a, "scales", "(0.5, 1e3, -2)") && a.scales.n == 3 && a.scales.d[1] == 1000);
    assert_false(set(&a, "scales", "(0.5 1)"));
    mx_error_clear();
}

static void test_lists_of_options(void **state)
{
    (void)state;
    mx_test_attrs a = fresh();
    assert_int_equal(mx_schema_parse(&test_schema, &a, "op", "count=4, kernel=(3, 5) ,act=tanh, flag = False,"), MX_OK);
    assert_true(a.count == 4 && a.kernel.d[1] == 5 && a.act == 2 && !a.flag);
    assert_int_equal(mx_schema_parse(&test_schema, &a, "op", ""), MX_OK);
    assert_int_equal(mx_schema_parse(&test_schema, &a, "op", NULL), MX_OK);
    static const char *const bad[] = {"count",    "count 4",      "=4",    "unknown=1", "count=4 act=relu",
                                      "count==4", "kernel=(1, 2", "count="};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        mx_error_clear();
        if (!mx_schema_parse(&test_schema, &a, "op", bad[i]))
            fail_msg("'%s' was taken", bad[i]);
        assert_int_equal(mx_error_code(), MX_ERR_ATTRIBUTE);
    }
    char *longest = malloc(4000);
    memset(longest, '1', 3999);
    memcpy(longest, "name=", 5);
    longest[3999] = 0;
    mx_error_clear();
    assert_int_not_equal(mx_schema_parse(&test_schema, &a, "op", longest), MX_OK);
    free(longest);
    mx_error_clear();
}

static void test_errors(void **state)
{
    (void)state;
    mx_test_attrs a = fresh();
    assert_false(set(&a, "nothing", "1"));
    assert_non_null(strstr(mx_error_message(), "op: unknown attribute 'nothing'"));
    assert_non_null(strstr(mx_error_message(), "kernel"));
    assert_false(set(&a, NULL, "1"));
    assert_false(set(&a, "count", NULL));
    assert_non_null(strstr(mx_error_message(), "count"));
    mx_error_clear();
    assert_int_not_equal(mx_schema_set(NULL, &a, "op", "x", "1"), MX_OK);
    mx_error_clear();
}

/* ---- checking ------------------------------------------------------------------------------------------- */

static void test_check(void **state)
{
    (void)state;
    mx_test_attrs a = fresh();
    assert_int_not_equal(mx_schema_check(&test_schema, &a, "op"), MX_OK);
    assert_non_null(strstr(mx_error_message(), "needed is required"));
    mx_error_clear();
    a.needed = 0;
    assert_int_equal(mx_schema_check(&test_schema, &a, "op"), MX_OK);
    a.count = 11;
    assert_int_not_equal(mx_schema_check(&test_schema, &a, "op"), MX_OK);
    assert_non_null(strstr(mx_error_message(), "1..10"));
    mx_error_clear();
    a.count = 10, a.rate = 1.5;
    assert_int_not_equal(mx_schema_check(&test_schema, &a, "op"), MX_OK);
    mx_error_clear();
    a.rate = 1, a.act = 3;
    assert_int_not_equal(mx_schema_check(&test_schema, &a, "op"), MX_OK);
    mx_error_clear();
    a.act = -7;
    assert_int_not_equal(mx_schema_check(&test_schema, &a, "op"), MX_OK);
    mx_error_clear();
    a.act = 1, a.dtype = (mx_dtype)9;
    assert_int_not_equal(mx_schema_check(&test_schema, &a, "op"), MX_OK);
    mx_error_clear();
    a.dtype = MX_INT8, a.kernel.n = 17;
    assert_int_not_equal(mx_schema_check(&test_schema, &a, "op"), MX_OK);
    mx_error_clear();
    a.kernel.n = -5;
    assert_int_not_equal(mx_schema_check(&test_schema, &a, "op"), MX_OK);
    mx_error_clear();
}

/* ---- printing ------------------------------------------------------------------------------------------- */

static void test_texts(void **state)
{
    (void)state;
    mx_test_attrs a = fresh();
    static const struct {
        const char *name, *given, *printed;
    } rows[] = {{"flag", "1", "True"},
                {"flag", "false", "False"},
                {"count", "7L", "7"},
                {"axis", "None", "None"},
                {"axis", "-2", "-2"},
                {"rate", "0.1", "0.1"},
                {"rate", "1", "1.0"},
                {"rate", "1e-05", "1e-05"},
                {"limit", "None", "None"},
                {"limit", "inf", "inf"},
                {"act", "sigmoid", "sigmoid"},
                {"maybe", "None", "None"},
                {"dtype", "float16", "float16"},
                {"dtype", "None", "None"},
                {"kernel", "[3,4]", "(3, 4)"},
                {"kernel", "5", "(5,)"},
                {"kernel", "()", "()"},
                {"kernel", "(None, 1)", "(None, 1)"},
                {"shape", "None", "None"},
                {"scales", "(0.5, 2)", "(0.5, 2.0)"},
                {"name", "abc", "abc"},
                {"ctx", "gpu(2)", "gpu(2)"},
                {"ctx", "None", "None"}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        assert_true(set(&a, rows[i].name, rows[i].given));
        assert_string_equal(text_of(&a, rows[i].name), rows[i].printed);
    }
}

/* What is printed is parsed back unchanged, also the longest tuples and odd numbers. */
static void test_round_trip(void **state)
{
    (void)state;
    mx_test_attrs a = fresh(), b = fresh();
    a.needed = b.needed = -INT64_MAX;
    a.kernel.n = a.shape.n = a.scales.n = MX_MAX_TUPLE;
    for (int i = 0; i < MX_MAX_TUPLE; i++) {
        a.kernel.d[i] = INT64_MAX - i;
        a.shape.d[i] = -INT64_MAX + i;
        a.scales.d[i] = -0x1.fffffffffffffp-1022 * (i + 1);
    }
    a.rate = 1. / 3, a.limit = -1e300, a.count = 9;
    for (int i = 0; i < test_schema.count; i++) {
        const char *name = test_schema.fields[i].name;
        char text[MX_VALUE_TEXT];
        snprintf(text, sizeof text, "%s", text_of(&a, name));
        if (test_schema.fields[i].type != MX_FIELD_STR && !set(&b, name, text))
            fail_msg("%s", mx_error_message());
    }
    assert_true(mx_schema_equal(&test_schema, &a, &b));
    b.kernel.d[15]--;
    assert_false(mx_schema_equal(&test_schema, &a, &b));
}

/* Attributes are compared field by field: padding, and elements past the end of a tuple, are ignored. */
static void test_equality_without_padding(void **state)
{
    (void)state;
    mx_test_attrs a, b;
    memset(&a, 0x00, sizeof a);
    memset(&b, 0xff, sizeof b);
    mx_schema_layout(&test_schema);
    for (int i = 0; i < test_schema.count; i++)
        if (test_schema.fields[i].fallback &&
            (mx_schema_set(&test_schema, &a, "op", test_schema.fields[i].name, test_schema.fields[i].fallback) ||
             mx_schema_set(&test_schema, &b, "op", test_schema.fields[i].name, test_schema.fields[i].fallback)))
            fail_msg("%s", mx_error_message());
    a.needed = b.needed = 1;
    assert_true(memcmp(&a, &b, sizeof a));
    assert_true(mx_schema_equal(&test_schema, &a, &b));
    b.ctx = (mx_context){MX_GPU, 1}, a.ctx = (mx_context){MX_GPU, 0};
    assert_false(mx_schema_equal(&test_schema, &a, &b));
}

/* The same for the samples of all operators. */
static void test_round_trip_of_all_samples(void **state)
{
    (void)state;
    for (int i = 0; mx_op_at(i); i++) {
        mx_op *op = mx_op_at(i);
        for (const mx_sample *s = op->samples; op->schema && s && s->shapes; s++) {
            char *a = malloc(op->schema->size), *b = malloc(op->schema->size), text[MX_VALUE_TEXT];
            mx_schema_defaults(op->schema, a);
            mx_schema_defaults(op->schema, b);
            if (mx_schema_parse(op->schema, a, op->name, s->attrs))
                fail_msg("%s", mx_error_message());
            for (int k = 0; k < op->schema->count; k++) {
                const mx_field *f = &op->schema->fields[k];
                mx_field_text(f, a, text);
                if (f->type != MX_FIELD_STR && f->type != MX_FIELD_PTR &&
                    mx_schema_set(op->schema, b, op->name, f->name, text))
                    fail_msg("%s", mx_error_message());
                if (f->type == MX_FIELD_STR)
                    memcpy(b + f->offset, a + f->offset, sizeof(mx_c_STR));
            }
            if (!mx_schema_equal(op->schema, a, b))
                fail_msg("%s: %s is not read back as it was printed", op->name, s->attrs);
            free(a), free(b);
        }
    }
}

static void test_rules(void **state)
{
    (void)state;
    double low, high;
    char choice[64];
    assert_true(mx_rule_range("1..10", &low, &high) && low == 1 && high == 10);
    assert_true(mx_rule_range("0..", &low, &high) && low == 0 && isinf(high));
    assert_true(mx_rule_range("..5", &low, &high) && isinf(low) && high == 5);
    assert_false(mx_rule_range("", &low, &high));
    assert_false(mx_rule_range("a|b", &low, &high));
    assert_string_equal(mx_rule_choice("a|bc|d", 1, choice), "bc");
    assert_string_equal(mx_rule_choice("a|bc|d", 2, choice), "d");
    assert_null(mx_rule_choice("a|bc|d", 3, choice));
    assert_null(mx_rule_choice("", 0, choice));
}

/* ---- C calls -------------------------------------------------------------------------------------------- */

static mx_array *matrix(double first)
{
    double values[6];
    for (int i = 0; i < 6; i++)
        values[i] = first + i;
    return mx_array_from(MX_DIMS(2, 3), MX_FLOAT64, values);
}

static void test_named_arguments(void **state)
{
    (void)state;
    MX_SCOPE;
    double got[6];
    mx_array *x = matrix(1);
    mx_array *rows = mx_sum(x, .axis = MX_DIMS(1)), *columns = mx_sum(x, .axis = MX_DIMS(0));
    assert_int_equal(mx_array_read_doubles(rows, got, 2), MX_OK);
    assert_true(got[0] == 6 && got[1] == 15);
    assert_int_equal(mx_array_read_doubles(columns, got, 3), MX_OK);
    assert_true(got[0] == 5 && got[2] == 9);
    mx_array *p = mx_softmax(x, .axis = 0); /* zero overrides the default of -1 */
    assert_int_equal(mx_array_read_doubles(p, got, 6), MX_OK);
    assert_true(fabs(got[0] + got[3] - 1) < 1e-12);
    mx_array *given = mx_array_copy(x);
    assert_ptr_equal(mx_add(x, x, .out = given), given);
    assert_int_equal(mx_array_read_doubles(given, got, 6), MX_OK);
    assert_true(got[5] == 12);
    assert_null(mx_add(x, NULL));
    assert_non_null(strstr(mx_error_message(), "rhs"));
    mx_error_clear();
    assert_null(mx_add(x, mx_square(mx_add(NULL, x)))); /* NULL is passed on; the first error stays */
    assert_non_null(strstr(mx_error_message(), "lhs"));
    mx_error_clear();
}

static void test_user_code(void **state)
{
    (void)state;
    MX_SCOPE;
    mx_array *a = matrix(1), *b = matrix(2);
    assert_non_null(schema_user_calls(a, b));
    mx_arrays parts = schema_user_lists(a, b);
    assert_int_equal(parts.n, 2);
    double got[6];
    assert_int_equal(mx_array_read_doubles(parts.v[1], got, 6), MX_OK);
    assert_true(got[0] == 2 && got[5] == 7);
    assert_int_equal(schema_user_training(a, b), MX_OK);
    assert_int_equal(mx_array_read_doubles(mx_gradient(b), got, 6), MX_OK);
    assert_true(got[0] == 2 * 1 * 1 * 2); /* 2 x^2 w */
    assert_int_equal(mx_error_code(), MX_OK);
}

static void test_describe(void **state)
{
    (void)state;
    assert_ptr_equal(mx_op_find("broadcast_plus"), mx_op_find("broadcast_add"));
    assert_null(mx_op_find("no_such_operator"));
    assert_non_null(strstr(mx_error_message(), "no_such_operator"));
    mx_error_clear();
    assert_null(mx_op_find(NULL));
    mx_error_clear();
    assert_null(mx_op_at(-1));
    assert_null(mx_op_at(1 << 20));
    assert_string_equal(mx_op_name(NULL), "NULL");
}

/* No name or alias belongs to two operators. */
static void test_names_are_unique(void **state)
{
    (void)state;
    for (int i = 0; mx_op_at(i); i++) {
        mx_op *op = mx_op_at(i);
        if (mx_op_find(op->name) != op)
            fail_msg("the name %s leads to %s", op->name, mx_op_find(op->name)->name);
        char alias[128];
        for (const char *p = op->aliases ? op->aliases : ""; *(p += strspn(p, " ")); p += strcspn(p, " ")) {
            snprintf(alias, sizeof alias, "%.*s", (int)strcspn(p, " "), p);
            if (mx_op_find(alias) != op)
                fail_msg("the alias %s of %s leads to %s", alias, op->name, mx_op_find(alias)->name);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_layout),
        cmocka_unit_test(test_all_layouts),
        cmocka_unit_test(test_defaults),
        cmocka_unit_test(test_all_defaults_parse),
        cmocka_unit_test(test_integers),
        cmocka_unit_test(test_numbers),
        cmocka_unit_test(test_booleans_and_choices),
        cmocka_unit_test(test_tuples),
        cmocka_unit_test(test_lists_of_options),
        cmocka_unit_test(test_errors),
        cmocka_unit_test(test_check),
        cmocka_unit_test(test_texts),
        cmocka_unit_test(test_round_trip),
        cmocka_unit_test(test_equality_without_padding),
        cmocka_unit_test(test_round_trip_of_all_samples),
        cmocka_unit_test(test_rules),
        cmocka_unit_test(test_named_arguments),
        cmocka_unit_test(test_user_code),
        cmocka_unit_test(test_describe),
        cmocka_unit_test(test_names_are_unique),
    };
    return cmocka_run_group_tests_name("schemas", tests, NULL, NULL);
}
