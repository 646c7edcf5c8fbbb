/* Descriptions of operators are JSON that agrees with the registry; calls with attributes as text.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/error.h"
#include "base/json.h"
#include "gluon.h"
#include "op/op.h"

static const char *text_of(const mx_json *object, const char *key)
{
    const char *text = mx_json_text(mx_json_member(object, key, MX_JSON_TEXT));
    if (!text)
        fail_msg("%s", mx_error_message());
    return text;
}

static bool truth_of(const mx_json *object, const char *key)
{
    bool truth = false;
    assert_true(mx_json_bool(mx_json_member(object, key, MX_JSON_BOOL), &truth));
    return truth;
}

static void check_attributes(const mx_op *op, const mx_json *list)
{
    assert_int_equal(mx_json_count(list), op->schema ? op->schema->count : 0);
    for (int64_t i = 0; i < mx_json_count(list); i++) {
        const mx_json *item = mx_json_at(list, i);
        const mx_field *field = &op->schema->fields[i];
        assert_string_equal(text_of(item, "name"), field->name);
        assert_string_equal(text_of(item, "doc"), field->doc);
        assert_true(*text_of(item, "type"));
        assert_int_equal(truth_of(item, "required"), field->fallback == NULL);
        if (field->fallback)
            assert_string_equal(text_of(item, "default"), field->fallback);
        if (field->type == MX_FIELD_ENUM)
            assert_true(mx_json_count(mx_json_member(item, "choices", MX_JSON_ARRAY)) > 0);
    }
}

static void check_operator(const mx_op *op)
{
    MX_SCOPE;
    const char *text = mx_op_describe(op);
    assert_non_null(text);
    mx_json *root = mx_json_parse(text, strlen(text));
    if (!root)
        fail_msg("%s: %s in %s", op->name, mx_error_message(), text);
    assert_string_equal(text_of(root, "name"), op->name);
    assert_string_equal(text_of(root, "doc"), op->doc);
    const mx_json *inputs = mx_json_member(root, "inputs", MX_JSON_ARRAY);
    assert_int_equal(mx_json_count(inputs), op->declared_inputs);
    for (int64_t i = 0; i < mx_json_count(inputs); i++) {
        assert_true(*text_of(mx_json_at(inputs, i), "name"));
        assert_int_equal(truth_of(mx_json_at(inputs, i), "optional"), mx_op_input_optional(op, (int)i));
    }
    check_attributes(op, mx_json_member(root, "attributes", MX_JSON_ARRAY));
    const char *kind = text_of(root, "differentiable");
    assert_true(!strcmp(kind, "yes") || !strcmp(kind, "zero") || !strcmp(kind, "no"));
    assert_false(mx_has_error());
    mx_json_free(root);
}

static void test_all_operators(void **state)
{
    (void)state;
    for (int i = 0; mx_op_at(i); i++)
        check_operator(mx_op_at(i));
}

static void test_known_operator(void **state)
{
    (void)state;
    MX_SCOPE;
    const char *text = mx_op_describe(mx_op_find("topk"));
    mx_json *root = mx_json_parse(text, strlen(text));
    const mx_json *attributes = mx_json_member(root, "attributes", MX_JSON_ARRAY), *what = mx_json_at(attributes, 2);
    assert_string_equal(text_of(root, "c_name"), "topk");
    assert_string_equal(text_of(mx_json_at(attributes, 1), "default"), "1");
    assert_string_equal(mx_json_text(mx_json_at(mx_json_get(what, "choices"), 3)), "both");
    assert_int_equal(mx_json_kind_of(mx_json_get(root, "visible_outputs")), MX_JSON_NULL);
    mx_json_free(root);
    text = mx_op_describe(mx_op_find("_plus_scalar"));
    root = mx_json_parse(text, strlen(text));
    assert_string_equal(text_of(root, "c_name"), "plus_scalar");
    mx_json_free(root);
    assert_null(mx_op_describe(NULL));
    assert_int_equal(mx_error_code(), MX_ERR_ARGUMENT);
    mx_error_clear();
}

static void test_text_call(void **state)
{
    (void)state;
    MX_SCOPE;
    mx_array *x = mx_array_from(MX_DIMS(2, 3), MX_FLOAT32, (float[]){3, 1, 2, 6, 5, 4});
    mx_arrays y =
        mx_invoke_text(mx_op_find("topk"), MX_ARRAYS(x), 3, (const char *const[]){"k", "ret_typ", "__lr_mult__"},
                       (const char *const[]){"2", "both", "1.0"}, (mx_arrays){0});
    assert_int_equal(y.n, 2);
    double got[4];
    assert_int_equal(mx_array_read_doubles(y.v[0], got, 4), MX_OK);
    assert_true(got[0] == 3 && got[1] == 2 && got[2] == 6 && got[3] == 5);
    assert_int_equal(mx_array_read_doubles(y.v[1], got, 4), MX_OK);
    assert_true(got[0] == 0 && got[1] == 2 && got[2] == 0 && got[3] == 1);
    /* Into an array of the caller's. */
    mx_array *out = mx_empty(MX_DIMS(3, 2), MX_FLOAT32, mx_cpu(0));
    y = mx_invoke_text(mx_op_find("transpose"), MX_ARRAYS(x), 0, NULL, NULL, MX_ARRAYS(out));
    assert_ptr_equal(y.v[0], out);
    y = mx_invoke_text(mx_op_find("concat"), MX_ARRAYS(x, x), 1, (const char *const[]){"dim"},
                       (const char *const[]){"0"}, (mx_arrays){0});
    assert_int_equal(mx_dim(y.v[0], 0), 4);
    assert_false(mx_has_error());
}

static void expect_failure(mx_arrays result, mx_code code)
{
    assert_int_equal(result.n, 0);
    assert_null(result.v[0]);
    assert_int_equal(mx_error_code(), code);
    mx_error_clear();
}

static void test_text_errors(void **state)
{
    (void)state;
    MX_SCOPE;
    mx_array *x = mx_array_from(MX_DIMS(2), MX_FLOAT32, (float[]){3, 1});
    const char *const k[] = {"k"}, *const none[] = {NULL}, *const wrong[] = {"two"}, *const unknown[] = {"kay"};
    expect_failure(mx_invoke_text(NULL, MX_ARRAYS(x), 0, NULL, NULL, (mx_arrays){0}), MX_ERR_ARGUMENT);
    expect_failure(mx_invoke_text(mx_op_find("topk"), MX_ARRAYS(x), 1, k, wrong, (mx_arrays){0}), MX_ERR_ATTRIBUTE);
    expect_failure(mx_invoke_text(mx_op_find("topk"), MX_ARRAYS(x), 1, unknown, wrong, (mx_arrays){0}),
                   MX_ERR_ATTRIBUTE);
    expect_failure(mx_invoke_text(mx_op_find("topk"), MX_ARRAYS(x), 1, k, none, (mx_arrays){0}), MX_ERR_ARGUMENT);
    expect_failure(mx_invoke_text(mx_op_find("topk"), MX_ARRAYS(x), 1, k, NULL, (mx_arrays){0}), MX_ERR_ARGUMENT);
    expect_failure(mx_invoke_text(mx_op_find("topk"), MX_ARRAYS(NULL), 0, NULL, NULL, (mx_arrays){0}), MX_ERR_ARGUMENT);
    expect_failure(mx_invoke_text(mx_op_find("Flatten"), MX_ARRAYS(x), 1, k, wrong, (mx_arrays){0}), MX_ERR_ATTRIBUTE);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_all_operators),
        cmocka_unit_test(test_known_operator),
        cmocka_unit_test(test_text_call),
        cmocka_unit_test(test_text_errors),
    };
    return cmocka_run_group_tests_name("descriptions", tests, NULL, NULL);
}
