/* Symbols: variables, calls, names, lists, inference, composition, indexing, deep graphs, failing allocations.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "gluon.h"
#include "graph/node.h"
#include "graph/symbol.h"
#include "op/expand.h"

static int clean(void **state)
{
    (void)state;
    mx_error_clear();
    return 0;
}

static void assert_names(mx_names names, const char *wanted)
{
    char text[2048] = "";
    for (int64_t i = 0; i < names.n; i++) {
        strcat(text, i ? " " : "");
        strcat(text, names.v[i]);
    }
    assert_string_equal(text, wanted);
}

static void assert_dims(mx_dims have, mx_dims wanted)
{
    assert_int_equal(have.n, wanted.n);
    for (int i = 0; i < wanted.n; i++)
        assert_int_equal(have.d[i], wanted.d[i]);
}

static void assert_fails(mx_code code, const char *part)
{
    if (mx_error_code() != code || !strstr(mx_error_message(), part))
        fail_msg("got %d \"%s\", wanted %d and \"%s\"", mx_error_code(), mx_error_message(), code, part);
    mx_error_clear();
}

#define APPLY(op, ...) mx_symbol_apply(op, &(struct mx_symbol_args){__VA_ARGS__})
#define ONE(x) .n_in = 1, .in = (mx_array *const[]){x}

static mx_symbol *apply1(const char *op, const char *name, mx_array *x, const char *key, const char *value)
{
    return APPLY(op, .name = name, ONE(x), .n_attrs = key ? 1 : 0, .attr_names = &key, .attr_values = &value);
}

/* ---- variables and calls --------------------------------------------------------------------------------------- */

static void test_variable(void **state)
{
    (void)state;
    MX_SCOPE;
    mx_array *x = mx_variable("x", .shape = MX_DIMS(2, 0, 3), .dtype = MX_FLOAT32, .lr_mult = 2);
    assert_true(mx_symbolic(x));
    assert_int_equal(mx_ndim(x), 3);
    mx_symbol *s = mx_symbol_of(MX_ARRAYS(x));
    assert_string_equal(mx_symbol_attr(s, "__shape__"), "(2, 0, 3)");
    assert_string_equal(mx_symbol_attr(s, "__dtype__"), "0");
    assert_string_equal(mx_symbol_attr(s, "lr_mult"), "2.0");
    assert_string_equal(mx_symbol_name(s), "x");
    assert_null(mx_symbol_attr(s, "absent"));
    assert_null(mx_symbol_children(s));
    assert_int_equal(mx_error_code(), MX_OK);
    assert_false(mx_symbolic(mx_array_scalar(1)));
    assert_null(mx_variable(NULL));
    assert_fails(MX_ERR_ARGUMENT, "name is NULL");
    assert_null(mx_variable("y", .dtype = (mx_dtype)99));
    assert_fails(MX_ERR_DTYPE, "'y'");
    assert_null(mx_variable("y", .shape = MX_DIMS(2, -3)));
    assert_fails(MX_ERR_SHAPE, "axis 1");
}

static void test_calls_make_nodes(void **state)
{
    (void)state;
    MX_SCOPE;
    mx_symbol_names_enter("");
    mx_array *x = mx_variable("x", .shape = MX_DIMS(2, 3), .dtype = MX_FLOAT32);
    mx_array *y = mx_plus_scalar(mx_mul(x, mx_relu(x)), .scalar = 1);
    assert_true(mx_symbolic(y));
    assert_dims(mx_shape(y), MX_DIMS(2, 3));
    mx_symbol *s = mx_symbol_of(MX_ARRAYS(y));
    assert_names(mx_symbol_outputs(mx_symbol_internals(s)), "x relu0_output broadcast_mul0_output _plusscalar0_output");
    assert_string_equal(mx_symbol_attr(s, "scalar"), "1.0");
    assert_string_equal(mx_symbol_text(s), "<Symbol _plusscalar0>");
    /* An array with elements becomes a constant. */
    mx_array *c = mx_add(y, mx_array_scalar(5));
    mx_symbol *t = mx_symbol_of(MX_ARRAYS(c));
    assert_names(mx_symbol_arguments(t), "x _constant0");
    assert_true(mx_item(mx_symbol_constant(t, "_constant0")) == 5);
    assert_null(mx_symbol_constant(t, "x"));
    /* Detaching and copying are operators here. */
    assert_string_equal(mx_symbol_name(mx_symbol_of(MX_ARRAYS(mx_detach(x)))), "blockgrad0");
    assert_true(mx_symbolic(mx_array_copy(x)));
    assert_ptr_equal(mx_array_to(x, mx_cpu(3)), x);
    assert_int_equal(mx_error_code(), MX_OK);
    mx_symbol_names_leave();
}

static void test_values_are_absent(void **state)
{
    (void)state;
    MX_SCOPE;
    mx_array *x = mx_variable("x", .shape = MX_DIMS(1), .dtype = MX_FLOAT32), *u = mx_variable("u");
    mx_item(x);
    assert_fails(MX_ERR_STATE, "no elements");
    assert_int_equal(mx_attach_grad(x, MX_GRAD_WRITE), MX_ERR_STATE);
    assert_fails(MX_ERR_STATE, "symbolic");
    mx_record()
        u = mx_exp(u);
    mx_backward(u);
    assert_fails(MX_ERR_AUTOGRAD, "not recorded");
    assert_null(mx_gradient(x));
    assert_int_equal(mx_shape(u).n, -1);
    assert_int_equal(mx_dtype_of(u), MX_DTYPE_NONE);
    mx_array *out = mx_array_scalar(0);
    assert_null(mx_exp(x, .out = out));
    assert_fails(MX_ERR_ARGUMENT, "symbolic result");
    mx_error_clear();
    assert_non_null(mx_array_text(x));
}

static void test_missing_inputs_are_made(void **state)
{
    (void)state;
    MX_SCOPE;
    mx_array *x = mx_variable("x");
    mx_symbol *fc = apply1("FullyConnected", "fc", x, "num_hidden", "3");
    assert_names(mx_symbol_arguments(fc), "x fc_weight fc_bias");
    assert_names(mx_symbol_outputs(fc), "fc_output");
    mx_symbol *bn = APPLY("BatchNorm", .name = "bn", ONE(mx_symbol_at(fc, 0)));
    assert_names(mx_symbol_auxiliary(bn), "bn_moving_mean bn_moving_var");
    assert_names(mx_symbol_inputs(bn), "x fc_weight fc_bias bn_gamma bn_beta bn_moving_mean bn_moving_var");
    assert_names(mx_symbol_outputs(bn), "bn_output");
    assert_names(mx_symbol_arguments(apply1("LeakyReLU", "l", x, "act_type", "prelu")), "x l_gamma");
    assert_names(mx_symbol_arguments(apply1("SequenceMask", "s", x, "use_sequence_length", "True")),
                 "x s_sequence_length");
    assert_names(mx_symbol_arguments(apply1("SequenceMask", "s", x, NULL, NULL)), "x");
    assert_names(mx_symbol_arguments(APPLY("SoftmaxOutput", .name = "softmax", ONE(x))), "x softmax_label");
    /* By keyword, in any order. */
    mx_symbol *named = APPLY("FullyConnected", .name = "fc", .n_in = 2, .in = (mx_array *const[]){mx_variable("w"), x},
                             .in_names = (const char *const[]){"weight", "data"}, .n_attrs = 2,
                             .attr_names = (const char *const[]){"num_hidden", "no_bias"},
                             .attr_values = (const char *const[]){"3", "True"});
    assert_names(mx_symbol_arguments(named), "x w");
    assert_int_equal(mx_error_code(), MX_OK);
}

static void test_wrong_calls(void **state)
{
    (void)state;
    MX_SCOPE;
    mx_array *x = mx_variable("x");
    assert_null(mx_symbol_apply(NULL, NULL));
    assert_fails(MX_ERR_ARGUMENT, "op is NULL");
    assert_null(APPLY("NoSuchOperator", ONE(x)));
    assert_fails(MX_ERR_ARGUMENT, "NoSuchOperator");
    assert_null(apply1("FullyConnected", "fc", x, "num_hiden", "3"));
    assert_fails(MX_ERR_ATTRIBUTE, "num_hiden");
    assert_null(apply1("FullyConnected", "fc", x, NULL, NULL));
    assert_fails(MX_ERR_ATTRIBUTE, "num_hidden");
    assert_null(APPLY("relu", .n_in = 2, .in = (mx_array *const[]){x, x}));
    assert_fails(MX_ERR_ARGUMENT, "at most 1");
    assert_null(APPLY("relu", ONE(x), .in_names = (const char *const[]){"nobody"}));
    assert_fails(MX_ERR_ARGUMENT, "nobody");
    assert_null(APPLY("relu", ONE((mx_array *)NULL)));
    assert_fails(MX_ERR_ARGUMENT, "NULL");
    assert_null(mx_symbol_of((mx_arrays){0}));
    assert_fails(MX_ERR_ARGUMENT, "NULL");
    assert_int_equal(mx_symbol_count(NULL), -1);
    assert_fails(MX_ERR_ARGUMENT, "symbol is NULL");
    mx_symbol *s = mx_symbol_of(MX_ARRAYS(x));
    assert_null(mx_symbol_at(s, 1));
    assert_fails(MX_ERR_INDEX, "has 1");
    assert_null(mx_symbol_find(s, "y"));
    assert_fails(MX_ERR_ARGUMENT, "'y'");
}

static void test_outputs(void **state)
{
    (void)state;
    MX_SCOPE;
    mx_array *x = mx_variable("x", .shape = MX_DIMS(2, 6), .dtype = MX_FLOAT32);
    mx_symbol *split = apply1("split", "s", x, "num_outputs", "3");
    assert_int_equal(mx_symbol_count(split), 3);
    assert_names(mx_symbol_outputs(split), "s_output0 s_output1 s_output2");
    assert_string_equal(mx_symbol_name(split), "s");
    assert_dims(mx_shape(mx_symbol_at(split, 1)), MX_DIMS(2, 2));
    assert_names(mx_symbol_outputs(mx_symbol_find(split, "s_output2")), "s_output2");
    mx_symbol *fc = apply1("FullyConnected", "fc1", mx_symbol_at(split, 0), "num_hidden", "4");
    mx_symbol *group = mx_symbol_group((mx_symbol *const[]){split, fc}, 2);
    assert_int_equal(mx_symbol_count(group), 4);
    assert_null(mx_symbol_name(group));
    assert_string_equal(mx_symbol_text(group), "<Symbol group [s, s, s, fc1]>");
    assert_names(mx_symbol_arguments(mx_symbol_find(mx_symbol_internals(group), "fc1_output")),
                 "x fc1_weight fc1_bias");
    assert_names(mx_symbol_outputs(mx_symbol_children(fc)), "s_output0 fc1_weight fc1_bias");
    assert_int_equal(mx_symbol_arrays(group).n, 4);
    assert_int_equal(mx_error_code(), MX_OK);
}

/* ---- names and attributes -------------------------------------------------------------------------------------- */

static void test_scopes(void **state)
{
    (void)state;
    MX_SCOPE;
    mx_array *x = mx_variable("x");
    mx_symbol_names_enter("net_");
    assert_string_equal(mx_symbol_name(APPLY("relu", ONE(x))), "net_relu0");
    assert_string_equal(mx_symbol_name(APPLY("relu", ONE(x))), "net_relu1");
    assert_string_equal(mx_symbol_name(APPLY("relu", .name = "e", ONE(x))), "net_e");
    assert_string_equal(mx_symbol_name(APPLY("relu", .name = "e", .verbatim = true, ONE(x))), "e");
    assert_string_equal(mx_symbol_name_for(NULL, "conv"), "net_conv0");
    assert_string_equal(mx_symbol_name(APPLY("_Plus", .n_in = 2, .in = (mx_array *const[]){x, x})), "net__plus0");
    assert_string_equal(mx_symbol_name(APPLY("elemwise_add", .n_in = 2, .in = (mx_array *const[]){x, x})),
                        "net_elemwise_add0");
    assert_string_equal(mx_symbol_name(mx_symbol_of(MX_ARRAYS(mx_elemwise_add(x, x)))), "net__plus1");
    mx_symbol_names_leave();
    mx_symbol_names_leave(); /* once too often: harmless */
    mx_symbol_attrs_enter(2, (const char *const[]){"ctx_group", "__mood__"}, (const char *const[]){"g", "calm"});
    mx_symbol_attrs_enter(1, (const char *const[]){"__mood__"}, (const char *const[]){"angry"});
    mx_symbol *s = apply1("FullyConnected", "fc", x, "num_hidden", "3");
    mx_symbol_attrs_leave();
    mx_symbol_attrs_leave();
    assert_names(mx_symbol_attrs(s), "__ctx_group__ g ctx_group g __mood__ angry num_hidden 3");
    assert_string_equal(mx_symbol_attr(mx_symbol_find(mx_symbol_internals(s), "fc_weight"), "ctx_group"), "g");
    assert_null(mx_symbol_attr(mx_symbol_of(MX_ARRAYS(mx_relu(x))), "ctx_group"));
    assert_int_equal(mx_symbol_set_attr(s, "note", "1"), MX_OK);
    assert_string_equal(mx_symbol_attr(s, "note"), "1");
    assert_int_equal(mx_symbol_set_attr(s, "num_hidden", "4"), MX_ERR_STATE);
    assert_fails(MX_ERR_STATE, "num_hidden");
    assert_true(mx_symbol_attrs_deep(s).n % 3 == 0 && mx_symbol_attrs_deep(s).n > 9);
    assert_int_equal(mx_symbol_attrs_enter(1, NULL, NULL), MX_ERR_ARGUMENT);
    mx_error_clear();
}

/* ---- shapes ---------------------------------------------------------------------------------------------------- */

static mx_symbol *small_net(void)
{
    mx_array *x = mx_variable("data");
    mx_symbol *c = APPLY("Convolution", .name = "conv", ONE(x), .n_attrs = 2,
                         .attr_names = (const char *const[]){"kernel", "num_filter"},
                         .attr_values = (const char *const[]){"(3, 3)", "4"});
    mx_symbol *bn = APPLY("BatchNorm", .name = "bn", ONE(mx_symbol_at(c, 0)));
    return apply1("FullyConnected", "fc", mx_relu(mx_symbol_at(bn, 0)), "num_hidden", "5");
}

static void test_inference(void **state)
{
    (void)state;
    MX_SCOPE;
    mx_symbol *net = small_net();
    const char *const data[] = {"data"};
    const mx_dims shape[] = {MX_DIMS(2, 3, 8, 8)};
    const mx_dtype type[] = {MX_FLOAT64};
    const mx_inferred *r = mx_symbol_infer(net, &(struct mx_known){.count = 1, .names = data, .shapes = shape});
    assert_non_null(r);
    assert_true(r->complete && !r->typed);
    assert_int_equal(r->n_arguments, 7);
    assert_dims(r->arguments[1], MX_DIMS(4, 3, 3, 3));
    assert_dims(r->arguments[5], MX_DIMS(5, 144));
    assert_int_equal(r->n_auxiliary, 2);
    assert_dims(r->auxiliary[0], MX_DIMS(4));
    assert_dims(r->outputs[0], MX_DIMS(2, 5));
    r = mx_symbol_infer(net, &(struct mx_known){.count = 1, .shapes = shape, .types = type});
    assert_true(r && r->complete && r->typed);
    assert_int_equal(r->output_types[0], MX_FLOAT64);
    /* Not enough. */
    assert_null(mx_symbol_infer(net, NULL));
    assert_fails(MX_ERR_SHAPE, "data (?)");
    mx_array *open[10]; /* of unknown shapes the first eight are named */
    for (int i = 0; i < 10; i++)
        open[i] = mx_variable("open");
    assert_null(mx_symbol_infer(mx_symbol_of(MX_ARRAYS(mx_add_n(((mx_arrays){open, 10})))), NULL));
    int named = 0;
    for (const char *at = mx_error_message(); (at = strstr(at, "open (?)")); at++)
        named++;
    assert_int_equal(named, 8);
    mx_error_clear();
    r = mx_symbol_infer(net, &(struct mx_known){.partial = true});
    assert_true(r && !r->complete);
    assert_int_equal(r->arguments[0].n, -1);
    /* Wrong. */
    assert_null(mx_symbol_infer(net, &(struct mx_known){.count = 2,
                                                        .names = (const char *const[]){"data", "conv_weight"},
                                                        .shapes = (mx_dims[]){shape[0], MX_DIMS(4, 2, 3, 3)}}));
    assert_true(strstr(mx_error_message(), "conv_weight (4, 2, 3, 3)") &&
                strstr(mx_error_message(), "data has 3 channels, weight expects 2"));
    mx_error_clear();
    assert_null(mx_symbol_infer(
        net, &(struct mx_known){.count = 1, .names = (const char *const[]){"nobody"}, .shapes = shape}));
    assert_fails(MX_ERR_ARGUMENT, "nobody");
}

static void test_inference_backwards(void **state)
{
    (void)state;
    MX_SCOPE;
    mx_array *a = mx_variable("a"), *b = mx_variable("b", .shape = MX_DIMS(2, 3), .dtype = MX_INT32);
    mx_array *sum = a;
    for (int i = 0; i < 5; i++)
        sum = mx_elemwise_add(sum, a);
    mx_symbol *s = mx_symbol_of(MX_ARRAYS(mx_elemwise_mul(sum, b)));
    const mx_inferred *r = mx_symbol_infer(s, NULL);
    assert_non_null(r);
    assert_dims(r->arguments[0], MX_DIMS(2, 3));
    assert_int_equal(r->argument_types[0], MX_INT32);
}

static void test_wrong_shapes_show_at_once(void **state)
{
    (void)state;
    MX_SCOPE;
    mx_array *a = mx_variable("a", .shape = MX_DIMS(2, 3), .dtype = MX_FLOAT32);
    assert_null(mx_elemwise_add(a, mx_variable("b", .shape = MX_DIMS(2, 4), .dtype = MX_FLOAT32)));
    assert_true(strstr(mx_error_message(), "(2, 3)") && strstr(mx_error_message(), "(2, 4)"));
    mx_error_clear();
}

/* Every operator that needs no attribute accepts inputs of unknown shape and type. */
static void test_every_operator_on_unknowns(void **state)
{
    (void)state;
    for (int i = 0; mx_op_at(i); i++) {
        MX_SCOPE;
        if (mx_op_at(i)->flags & (MX_OP_LIST | MX_OP_EXPANDS)) /* what expands may need the number of axes */
            continue;
        mx_symbol *s = APPLY(mx_op_name(mx_op_at(i)), .name = "n");
        if (!s && mx_error_code() != MX_ERR_ATTRIBUTE)
            fail_msg("%s: %s", mx_op_name(mx_op_at(i)), mx_error_message());
        mx_error_clear();
    }
}

/* The samples of every operator on unknown shapes, then inferred with the sample's shapes: nothing crashes. */
static void test_samples_on_unknowns(void **state)
{
    (void)state;
    for (int i = 0; mx_op_at(i); i++) {
        mx_op *op = mx_op_at(i);
        for (const mx_sample *s = op->samples; s && s->shapes; s++) {
            MX_SCOPE;
            mx_array *in[MX_MAX_DECLARED] = {NULL};
            int n = 0;
            for (const char *p = s->shapes; *s->shapes && p && n < MX_MAX_DECLARED;
                 p = strchr(p, ';') ? strchr(p, ';') + 1 : NULL)
                in[n++] = mx_variable("v");
            mx_g_text(op, s->attrs, n, in);
            if (mx_error_code() && mx_error_code() != MX_ERR_ATTRIBUTE && mx_error_code() != MX_ERR_ARGUMENT)
                fail_msg("%s (%s): %s", op->name, s->attrs ? s->attrs : "", mx_error_message());
            mx_error_clear();
        }
    }
}

/* ---- composition ----------------------------------------------------------------------------------------------- */

static void test_composition(void **state)
{
    (void)state;
    MX_SCOPE;
    mx_symbol *fc = apply1("FullyConnected", "fc", mx_variable("x"), "num_hidden", "3");
    mx_symbol *inner = apply1("FullyConnected", "in", mx_variable("data"), "num_hidden", "2");
    mx_symbol *both = mx_symbol_compose(fc, "composed", 1, (const char *const[]){"x"}, &inner);
    assert_names(mx_symbol_arguments(both), "data in_weight in_bias fc_weight fc_bias");
    assert_string_equal(mx_symbol_name(both), "composed");
    assert_names(mx_symbol_arguments(fc), "x fc_weight fc_bias");
    assert_names(mx_symbol_arguments(mx_symbol_compose(fc, NULL, 1, NULL, &inner)),
                 "data in_weight in_bias fc_weight fc_bias");
    assert_null(mx_symbol_compose(fc, NULL, 1, (const char *const[]){"nobody"}, &inner));
    assert_fails(MX_ERR_ARGUMENT, "nobody");
    mx_symbol *many[4] = {inner, inner, inner, inner};
    assert_null(mx_symbol_compose(fc, NULL, 4, NULL, many));
    assert_fails(MX_ERR_ARGUMENT, "3 arguments");
    mx_symbol *split = apply1("split", "s", mx_variable("y"), "num_outputs", "2");
    assert_null(mx_symbol_compose(fc, NULL, 1, NULL, &split));
    assert_fails(MX_ERR_ARGUMENT, "2 outputs");
}

/* ---- indexing -------------------------------------------------------------------------------------------------- */

static void test_indexing(void **state)
{
    (void)state;
    MX_SCOPE;
    mx_array *u = mx_variable("u"), *x = mx_variable("x", .shape = MX_DIMS(2, 3, 8, 9), .dtype = MX_FLOAT32);
    assert_dims(mx_shape(mx_index(x, MX_ALL, MX_ALL, MX_RANGE(1, MX_NONE_INT), MX_RANGE(1, MX_NONE_INT))),
                MX_DIMS(2, 3, 7, 8));
    assert_dims(mx_shape(mx_index(x, MX_AT(1), MX_ALL, MX_STEP(0, 8, 3))), MX_DIMS(3, 3, 9));
    assert_dims(mx_shape(mx_index(x, MX_ELLIPSIS, MX_AT(-1))), MX_DIMS(2, 3, 8));
    mx_array *open = mx_variable("open"); /* of unknown rank: nothing can follow the ellipsis */
    assert_non_null(mx_index(open, MX_AT(0), MX_ELLIPSIS));
    assert_null(mx_index(open, MX_ELLIPSIS, MX_AT(0)));
    assert_non_null(strstr(mx_error_message(), "after an ellipsis"));
    mx_error_clear();
    assert_dims(mx_shape(mx_index(x, MX_ALL, MX_NEWAXIS, MX_AT(0))), MX_DIMS(2, 1, 8, 9));
    assert_dims(mx_shape(mx_index(x, MX_AT(0), MX_AT(0), MX_AT(0), MX_AT(0))), MX_DIMS(1));
    assert_dims(
        mx_shape(mx_index(x, MX_ALL, MX_PICK(mx_variable("i", .shape = MX_DIMS(5, 4), .dtype = MX_INT32)), MX_AT(2))),
        MX_DIMS(2, 5, 4, 9));
    assert_ptr_equal(mx_index(x, MX_ALL), x);
    assert_true(mx_symbolic(mx_index(mx_array_scalar(1), MX_PICK(u)))); /* a symbolic index of an array with elements */
    assert_int_equal(mx_error_code(), MX_OK);
    /* Works without any known shape. */
    mx_symbol *s = mx_symbol_of(MX_ARRAYS(mx_index(u, MX_ALL, MX_ALL, MX_RANGE(1, MX_NONE_INT), MX_RANGE(1, -1))));
    const mx_inferred *r =
        mx_symbol_infer(s, &(struct mx_known){.count = 1, .shapes = (mx_dims[]){MX_DIMS(1, 2, 5, 6)}});
    assert_non_null(r);
    assert_dims(r->outputs[0], MX_DIMS(1, 2, 4, 4));
    assert_null(mx_index(x, MX_AT(2)));
    assert_fails(MX_ERR_INDEX, "out of bounds");
    assert_null(mx_index(x, MX_ALL, MX_ALL, MX_ALL, MX_ALL, MX_ALL));
    assert_fails(MX_ERR_INDEX, "too many");
    assert_null(mx_index(u, MX_ELLIPSIS, MX_AT(0)));
    assert_fails(MX_ERR_INDEX, "rank");
}

/* ---- large and failing ----------------------------------------------------------------------------------------- */

static void test_deep_graph(void **state)
{
    (void)state;
    MX_SCOPE;
    enum { depth = 100000 };
    mx_array *x = mx_keep(mx_variable("x", .shape = MX_DIMS(2), .dtype = MX_FLOAT32));
    for (int i = 0; i < depth; i++) {
        MX_SCOPE;
        mx_array *y = mx_keep(mx_relu(x));
        mx_release(x);
        x = y;
    }
    mx_symbol *s = mx_symbol_of(MX_ARRAYS(x));
    assert_int_equal(mx_symbol_count(mx_symbol_internals(s)), depth + 1);
    const mx_inferred *r = mx_symbol_infer(s, NULL);
    assert_non_null(r);
    assert_dims(r->outputs[0], MX_DIMS(2));
    const char *json = mx_symbol_json(s);
    mx_symbol *again = mx_symbol_from_json(json, strlen(json));
    assert_non_null(again);
    assert_int_equal(mx_symbol_count(mx_symbol_internals(again)), depth + 1);
    mx_release(x);
}

static void everything(void)
{
    MX_SCOPE;
    mx_symbol_attrs_enter(1, (const char *const[]){"__mood__"}, (const char *const[]){"calm"});
    mx_symbol_names_enter("p_");
    mx_symbol *net = small_net();
    mx_symbol_names_leave();
    mx_symbol_attrs_leave();
    mx_symbol *other = apply1("FullyConnected", "in", mx_variable("d"), "num_hidden", "2");
    mx_symbol *both = mx_symbol_compose(net, "c", 1, (const char *const[]){"data"}, &other);
    mx_symbol_infer(net, &(struct mx_known){.count = 1, .shapes = (mx_dims[]){MX_DIMS(1, 1, 5, 5)}});
    const char *json = mx_symbol_json(net);
    if (json)
        mx_symbol_from_json(json, strlen(json));
    mx_symbol_outputs(both ? mx_symbol_internals(both) : NULL);
    mx_symbol_attrs_deep(net);
    mx_symbol_debug(net);
    mx_symbol_dot(net);
    mx_symbol_draw(net, &(struct mx_symbol_drawing){
                            .title = "net", .known = &(struct mx_known){1, NULL, (mx_dims[]){MX_DIMS(1, 1, 5, 5)}, NULL, true}});
    mx_symbol_text(mx_symbol_group((mx_symbol *const[]){net, other}, 2));
    mx_symbol_arrays(net);
    mx_symbol_set_attr(net, "k", "v");
    mx_array *x = mx_variable("x", .shape = MX_DIMS(2, 3), .init = "zeros");
    mx_symbol_of(MX_ARRAYS(mx_add(mx_index(x, MX_AT(0)), mx_array_scalar(1))));
}

static void test_failing_allocations(void **state)
{
    (void)state;
    everything();
    assert_int_equal(mx_error_code(), MX_OK);
    int failed = 0;
    for (int64_t n = 1; n < 4000; n++) {
        mx_alloc_fail_at(n);
        everything();
        mx_alloc_fail_at(0);
        const mx_code code = mx_error_code();
        mx_error_clear();
        if (!code)
            break;
        assert_int_equal(code, MX_ERR_MEMORY);
        failed++;
    }
    assert_true(failed > 100 && failed < 3998);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(test_variable, clean),
        cmocka_unit_test_teardown(test_calls_make_nodes, clean),
        cmocka_unit_test_teardown(test_values_are_absent, clean),
        cmocka_unit_test_teardown(test_missing_inputs_are_made, clean),
        cmocka_unit_test_teardown(test_wrong_calls, clean),
        cmocka_unit_test_teardown(test_outputs, clean),
        cmocka_unit_test_teardown(test_scopes, clean),
        cmocka_unit_test_teardown(test_inference, clean),
        cmocka_unit_test_teardown(test_inference_backwards, clean),
        cmocka_unit_test_teardown(test_wrong_shapes_show_at_once, clean),
        cmocka_unit_test_teardown(test_every_operator_on_unknowns, clean),
        cmocka_unit_test_teardown(test_samples_on_unknowns, clean),
        cmocka_unit_test_teardown(test_composition, clean),
        cmocka_unit_test_teardown(test_indexing, clean),
        cmocka_unit_test_teardown(test_deep_graph, clean),
        cmocka_unit_test_teardown(test_failing_allocations, clean),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
