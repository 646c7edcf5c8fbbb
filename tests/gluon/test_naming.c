/* Names of blocks and parameters: prefixes, counters, scopes, sharing.
 *
 * Counters belong to the thread, so each scenario runs in a thread of its own, where they start at 0; it writes the names to a
 * text, which is compared here.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <pthread.h>

#include "block_check.h"

typedef struct scenario {
    const char *what;
    void (*run)(char *text);
    const char *wanted;
} scenario;

enum { TEXT = 4096 };

static void add(char *text, const char *more)
{
    const size_t used = strlen(text);
    snprintf(text + used, TEXT - used, "%s%s", used ? " " : "", more ? more : "NULL");
}

static void add_params(char *text, mx_block *block)
{
    mx_params *all = mx_collect_params(block);
    for (int64_t i = 0; i < mx_params_count(all); i++)
        add(text, mx_parameter_name(mx_params_at(all, i)));
}

/* ---- scenarios ---------------------------------------------------------------------------------------------------- */

static mx_array *pass(mx_block *self, mx_arrays in) { return (void)self, in.v[0]; }

/* A scope that was left is not left again. */
static void left_twice(char *text)
{
    mx_naming first = mx_naming_enter(mx_block_new("Outer", pass, .prefix = "outer_"));
    mx_naming_leave(&first);
    mx_naming second = mx_naming_enter(mx_block_new("Inner", pass, .prefix = "inner_"));
    mx_naming_leave(&first);
    add_params(text, mx_dense(2));
    mx_naming_leave(&second);
    mx_naming_leave(NULL);
    add_params(text, mx_dense(2));
}

static void dense(char *text)
{
    add_params(text, mx_dense(2));
    add_params(text, mx_dense(2));
}

static void scoped_sequential(char *text)
{
    mx_block *net = mx_sequential_make(false, NULL);
    mx_name_scope(net)
    {
        mx_sequential_add(net, mx_dense(2));
        mx_sequential_add(net, mx_dense(2));
    }
    add_params(text, net);
}

static void unscoped_sequential(char *text)
{
    mx_block *net = mx_sequential(mx_dense(2));
    add(text, mx_block_name(net));
    add_params(text, net);
}

static void user_block(char *text)
{
    mx_block *net = mx_block_new("Net", pass);
    mx_name_scope(net) mx_block_child(net, "fc", mx_dense(2));
    add_params(text, net);
}

static void given_prefix(char *text)
{
    mx_block *block = mx_dense(2, .prefix = "out_");
    add(text, mx_block_prefix(block));
    add(text, mx_block_name(block));
    add_params(text, block);
    add(text, mx_block_name(mx_dense(1, .prefix = "plain")));
    add(text, mx_block_name(mx_dense(1))); /* given prefixes do not count */
}

static void activation_child(char *text)
{
    mx_block *block = mx_dense(2, .activation = "relu");
    add(text, mx_block_prefix(mx_block_child_at(block, 0)));
    add(text, mx_block_child_name(block, 0));
    add(text, mx_block_prefix(mx_activation("tanh")));
    add(text, mx_block_prefix(mx_activation("tanh")));
    add(text, mx_block_prefix(mx_activation("relu")));
}

static void hints(char *text)
{
    add(text, mx_block_name(mx_conv2d(1, MX_DIMS(1, 1))));
    add(text, mx_block_name(mx_conv1d(1, MX_DIMS(1))));
    add(text, mx_block_name(mx_conv3d_transpose(1, MX_DIMS(1, 1, 1))));
    add(text, mx_block_name(mx_max_pool2d(MX_DIMS(2, 2))));
    add(text, mx_block_name(mx_global_avg_pool1d()));
    add(text, mx_block_name(mx_leaky_relu(0.1)));
    add(text, mx_block_name(mx_prelu()));
    add(text, mx_block_name(mx_batch_norm()));
    add(text, mx_block_name(mx_layer_norm()));
    add(text, mx_block_name(mx_instance_norm()));
    add(text, mx_block_name(mx_group_norm()));
    add(text, mx_block_name(mx_embedding(3, 4)));
    add(text, mx_block_name(mx_dropout(0.5)));
    add(text, mx_block_name(mx_flatten()));
    add(text, mx_block_name(mx_lambda(mx_array_copy)));
    add(text, mx_block_name(mx_hybrid_lambda(mx_array_copy)));
    add(text, mx_block_name(mx_softmax_cross_entropy_loss()));
    add(text, mx_block_name(mx_hybrid_sequential(mx_flatten())));
    add(text, mx_block_name(mx_block_new("ResNetV1", pass)));
}

static void parameters_of_layers(char *text)
{
    add_params(text, mx_conv2d(4, MX_DIMS(3, 3)));
    add_params(text, mx_conv2d(4, MX_DIMS(3, 3), .use_bias = false));
    add_params(text, mx_batch_norm());
    add_params(text, mx_layer_norm());
    add_params(text, mx_prelu());
    add_params(text, mx_embedding(2, 3));
    add_params(text, mx_max_pool2d(MX_DIMS(2, 2)));
}

static void nested_scopes(char *text)
{
    mx_block *net = mx_block_new("Net", pass), *part = NULL;
    mx_name_scope(net)
    {
        part = mx_block_child(net, "features", mx_sequential_make(false, NULL));
        mx_name_scope(part)
        {
            mx_sequential_add(part, mx_dense(1));
            mx_sequential_add(part, mx_dense(1, .prefix = "last_"));
        }
        mx_block_child(net, "output", mx_dense(1));
    }
    mx_name_scope(part) mx_sequential_add(part, mx_dense(1)); /* counters continue when a scope is entered again */
    mx_name_scope(net) mx_block_child(net, "more", mx_dense(1));
    add_params(text, net);
    add(text, mx_block_name(mx_dense(1))); /* outside: the thread's counter is untouched */
}

static void empty_prefix(char *text)
{
    mx_block *net = mx_block_new("Net", pass), *inner = NULL;
    mx_name_scope(net)
    {
        inner = mx_block_child(net, "inner", mx_block_new("Inner", pass, .prefix = ""));
        mx_name_scope(inner) mx_block_child(inner, "fc", mx_dense(1));
        mx_block_child(net, "fc", mx_dense(1));
    }
    add(text, mx_block_prefix(inner));
    add_params(text, net);
    mx_block *outer = mx_block_new("Outer", pass, .prefix = "");
    mx_name_scope(outer) mx_block_child(outer, "fc", mx_dense(1));
    add_params(text, outer);
}

static void shared_parameters(char *text)
{
    mx_block *a = mx_dense(2, .in_units = 3, .prefix = "first_"),
             *b = mx_dense(2, .in_units = 3, .params = mx_block_params(a));
    add(text, mx_block_prefix(b));
    add_params(text, b);
    add(text, mx_params_at(mx_block_params(a), 0) == mx_params_at(mx_block_params(b), 0) ? "same" : "other");
    mx_block *both = mx_sequential(a, b);
    add_params(text, both); /* once */
}

/* A block inside the scope of one that shares: looked up in the shared dictionary by the scope's parameter prefix. */
static void shared_scopes(char *text)
{
    mx_block *nets[2] = {0};
    for (int i = 0; i < 2; i++) {
        nets[i] = mx_block_new("Net", pass, .params = i ? mx_collect_params(nets[0]) : NULL);
        mx_name_scope(nets[i])
        {
            mx_block_child(nets[i], "a", mx_dense(2, .in_units = 3));
            mx_block_child(nets[i], "b", mx_dense(2, .in_units = 2));
        }
    }
    add(text, mx_block_prefix(nets[1]));
    add(text, mx_block_prefix(mx_block_child_at(nets[1], 0)));
    add_params(text, nets[1]);
    add(text,
        mx_params_at(mx_collect_params(nets[0]), 3) == mx_params_at(mx_collect_params(nets[1]), 3) ? "same" : "other");
}

static void left_by_break(char *text)
{
    mx_block *net = mx_block_new("Net", pass);
    mx_name_scope(net)
    {
        mx_dense(1);
        break; /* the scope closes on every exit */
    }
    add(text, mx_block_name(mx_dense(1)));
}

static void own_parameter(char *text)
{
    mx_block *net = mx_block_new("Net", pass);
    mx_parameter *p = mx_block_parameter(net, "scale", .shape = MX_DIMS(1)),
                 *q = mx_block_parameter(net, "scale", .shape = MX_DIMS(1));
    mx_name_scope(net) mx_block_child(net, "fc", mx_dense(1));
    add(text, p == q ? "same" : "other");
    add_params(text, net);
}

static const scenario scenarios[] = {
    {"left twice", left_twice, "inner_dense0_weight inner_dense0_bias dense0_weight dense0_bias"},
    {"Dense", dense, "dense0_weight dense0_bias dense1_weight dense1_bias"},
    {"Sequential with its scope", scoped_sequential,
     "sequential0_dense0_weight sequential0_dense0_bias sequential0_dense1_weight sequential0_dense1_bias"},
    {"Sequential without", unscoped_sequential, "sequential0 dense0_weight dense0_bias"},
    {"a user's block", user_block, "net0_dense0_weight net0_dense0_bias"},
    {"prefix given", given_prefix, "out_ out out_weight out_bias plain dense0"},
    {"activations", activation_child, "dense0_relu_ act tanh0_ tanh1_ relu0_"},
    {"hints", hints,
     "conv0 conv1 conv2 pool0 pool1 leakyrelu0 prelu0 batchnorm0 layernorm0 instancenorm0 groupnorm0 embedding0 dropout0 flatten0 lambda0 "
     "hybridlambda0 softmaxcrossentropyloss0 hybridsequential0 resnetv10"},
    {"parameters of layers", parameters_of_layers,
     "conv0_weight conv0_bias conv1_weight batchnorm0_gamma batchnorm0_beta batchnorm0_running_mean batchnorm0_running_var "
     "layernorm0_gamma layernorm0_beta prelu0_alpha embedding0_weight"},
    {"nested scopes", nested_scopes,
     "net0_sequential0_dense0_weight net0_sequential0_dense0_bias net0_sequential0_last_weight net0_sequential0_last_bias "
     "net0_sequential0_dense1_weight net0_sequential0_dense1_bias net0_dense0_weight net0_dense0_bias net0_dense1_weight net0_dense1_bias "
     "dense0"},
    {"prefix ''", empty_prefix, "net0_ net0_dense0_weight net0_dense0_bias net0_dense1_weight net0_dense1_bias dense0_weight dense0_bias"},
    {"shared parameters", shared_parameters, "dense0_ first_weight first_bias same first_weight first_bias"},
    {"shared through scopes", shared_scopes,
     "net1_ net1_dense0_ net0_dense0_weight net0_dense0_bias net0_dense1_weight net0_dense1_bias same"},
    {"a scope left by break", left_by_break, "dense0"},
    {"a parameter of the block itself", own_parameter, "same net0_scale net0_dense0_weight net0_dense0_bias"},
};

/* ---- running them -------------------------------------------------------------------------------------------------- */

typedef struct job {
    const scenario *scenario;
    char text[TEXT], error[512];
} job;

static void *work(void *arg)
{
    job *j = arg;
    MX_SCOPE;
    j->scenario->run(j->text);
    snprintf(j->error, sizeof j->error, "%s", mx_error_message());
    mx_error_clear();
    return NULL;
}

static void test_names(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof scenarios / sizeof *scenarios; i++) {
        job j = {.scenario = &scenarios[i]};
        pthread_t thread;
        assert_int_equal(pthread_create(&thread, NULL, work, &j), 0);
        pthread_join(thread, NULL);
        if (*j.error)
            fail_msg("%s: error %s", j.scenario->what, j.error);
        if (strcmp(j.text, j.scenario->wanted))
            fail_msg("%s:\n  is     %s\n  wanted %s", j.scenario->what, j.text, j.scenario->wanted);
    }
}

static void test_conflicts(void **state)
{
    (void)state;
    MX_SCOPE;
    mx_block *a = mx_dense(2, .in_units = 3, .prefix = "one_"), *b = mx_dense(2, .in_units = 3, .prefix = "one_");
    assert_null(mx_collect_params(mx_sequential(a, b)));
    check_error(MX_ERR_PARAMETER, "one_weight", "prefix");
    assert_null(mx_dense(2, .in_units = 4, .params = mx_block_params(a)));
    check_error(MX_ERR_SHAPE, "one_weight", "(2, 3)", "(2, 4)");
    assert_null(mx_dense(2, .dtype = MX_FLOAT64, .params = mx_block_params(a)));
    check_error(MX_ERR_PARAMETER, "one_weight", "float32", "float64");
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_names), cmocka_unit_test(test_conflicts)};
    return cmocka_run_group_tests_name("names", tests, NULL, NULL);
}
