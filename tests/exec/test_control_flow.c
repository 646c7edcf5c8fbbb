/* Loops, conditions and users' operators: on arrays, in graphs, in executors, in plans, in files.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "gluon.h"
#include "op/op.h"

static int clean(void **state)
{
    (void)state;
    mx_error_clear();
    return 0;
}

static void assert_ok(void)
{
    if (mx_error_code())
        fail_msg("%s", mx_error_message());
}

static void assert_error(const char *part)
{
    if (!strstr(mx_error_message(), part))
        fail_msg("wanted an error with '%s', got '%s'", part, mx_error_message());
    mx_error_clear();
}

static void assert_close(mx_array *a, mx_array *b)
{
    assert_ok();
    mx_dims x = mx_shape(a), y = mx_shape(b);
    assert_int_equal(x.n, y.n);
    assert_memory_equal(x.d, y.d, (size_t)x.n * sizeof x.d[0]);
    assert_true(mx_item(mx_max(mx_abs(mx_sub(a, b)))) < 1e-5);
    assert_ok();
}

/* ---- foreach: h = tanh(x W' + h U' + c), c from outside --------------------------------------------------------- */

typedef struct cell {
    mx_array *w, *u, *c; /* (3, 4) (3, 3) (2, 3) */
} cell;

static mx_code cell_step(void *user, mx_arrays data, mx_arrays states, mx_arrays *outputs, mx_arrays *next)
{
    const cell *k = user;
    mx_array *a = mx_fully_connected(data.v[0], k->w, MX_NONE, .num_hidden = 3, .no_bias = true);
    mx_array *b = mx_fully_connected(states.v[0], k->u, MX_NONE, .num_hidden = 3, .no_bias = true);
    mx_array *h = mx_tanh(mx_add(mx_add(a, b), k->c));
    *outputs = mx_results(h, mx_square(h));
    *next = mx_results(h);
    return mx_error_code();
}

#define STEPS 5
static cell random_cell(void)
{
    return (cell){mx_random_uniform(.low = -1, .high = 1, .shape = MX_DIMS(3, 4)),
                  mx_random_uniform(.low = -1, .high = 1, .shape = MX_DIMS(3, 3)),
                  mx_random_uniform(.low = -1, .high = 1, .shape = MX_DIMS(2, 3))};
}

/* The graph of the loop on variables x, w, u, c, h. */
static mx_symbol *loop_symbol(void)
{
    cell k = {mx_variable("w"), mx_variable("u"), mx_exp(mx_variable("c"))};
    mx_loop loop = mx_foreach(cell_step, &k, MX_ARRAYS(mx_variable("x")), MX_ARRAYS(mx_variable("h")));
    assert_ok();
    assert_false(loop.failed);
    assert_int_equal(loop.outputs.n, 2);
    assert_int_equal(loop.states.n, 1);
    return mx_symbol_of(MX_ARRAYS(loop.outputs.v[0], loop.outputs.v[1], loop.states.v[0]));
}

static const char *const names[] = {"x", "w", "u", "c", "h"};
#define SHAPES \
    (mx_dims[]) { MX_DIMS(STEPS, 2, 4), MX_DIMS(3, 4), MX_DIMS(3, 3), MX_DIMS(2, 3), MX_DIMS(2, 3) }

/* Values and gradients of sum(outputs[0]) + 2 sum(outputs[1]) + 3 sum(state), imperatively; all: x, w, u, c, h. */
static void imperative(mx_array *const *all, mx_array **results)
{
    mx_array *loss = NULL;
    for (int i = 0; i < 5; i++)
        mx_attach_grad(all[i], MX_GRAD_WRITE);
    mx_record() {
        cell k = {all[1], all[2], mx_exp(all[3])};
        mx_loop loop = mx_foreach(cell_step, &k, MX_ARRAYS(all[0]), MX_ARRAYS(all[4]));
        for (int i = 0; i < 2; i++)
            results[i] = loop.outputs.v[i];
        results[2] = loop.states.v[0];
        loss = mx_add(mx_add(mx_sum(results[0]), mx_mul_scalar(mx_sum(results[1]), .scalar = 2)),
                      mx_mul_scalar(mx_sum(results[2]), .scalar = 3));
    }
    mx_backward(loss);
    assert_ok();
    for (int i = 0; i < 5; i++)
        results[3 + i] = mx_gradient(all[i]);
}

static void random_inputs(mx_array **all)
{
    cell k = random_cell();
    all[0] = mx_random_uniform(.low = -1, .high = 1, .shape = MX_DIMS(STEPS, 2, 4));
    all[1] = k.w, all[2] = k.u, all[3] = k.c;
    all[4] = mx_random_uniform(.low = -1, .high = 1, .shape = MX_DIMS(2, 3));
}

static mx_array *filled(mx_array *like, double value)
{
    mx_array *x = mx_array_copy(like);
    mx_array_fill(x, value);
    return x;
}

static void check_executor(mx_symbol *symbol)
{
    MX_SCOPE;
    mx_array *all[5], *want[8];
    random_inputs(all);
    imperative(all, want);
    mx_executor *e = mx_simple_bind(symbol, mx_cpu(0), &(struct mx_known){.count = 5, .names = names, .shapes = SHAPES},
                                    MX_GRAD_WRITE);
    assert_ok();
    for (int i = 0; i < 5; i++)
        mx_executor_set(e, names[i], all[i]);
    mx_arrays out = mx_executor_forward(e, true);
    assert_ok();
    for (int i = 0; i < 3; i++)
        assert_close(out.v[i], want[i]);
    mx_executor_backward(e, MX_ARRAYS(filled(out.v[0], 1), filled(out.v[1], 2), filled(out.v[2], 3)));
    assert_ok();
    for (int i = 0; i < 5; i++)
        assert_close(mx_executor_gradient(e, names[i]), want[3 + i]);
}

static void test_foreach(void **state)
{
    (void)state;
    MX_SCOPE;
    mx_symbol *symbol = loop_symbol();
    mx_names arguments = mx_symbol_arguments(symbol);
    assert_int_equal(arguments.n, 5);
    check_executor(symbol);
    /* Through a file. */
    const char *json = mx_symbol_json(symbol);
    assert_ok();
    assert_non_null(strstr(json, "\"subgraphs\""));
    assert_non_null(strstr(json, "\"in_state_locs\""));
    mx_symbol *again = mx_symbol_from_json(json, strlen(json));
    assert_ok();
    assert_string_equal(mx_symbol_json(again), json);
    check_executor(again);
    /* Shapes flow both ways through the body. */
    const mx_inferred *shapes = mx_symbol_infer(
        symbol, &(struct mx_known){.count = 3,
                                   .names = (const char *[]){"x", "h", "c"},
                                   .shapes = (mx_dims[]){MX_DIMS(7, 2, 4), MX_DIMS(2, 3), MX_DIMS(2, 3)}});
    assert_ok();
    assert_int_equal(shapes->outputs[0].d[0], 7);
    assert_int_equal(shapes->outputs[2].n, 2);
    for (int i = 0; i < 5; i++)
        if (!strcmp(arguments.v[i], "w"))
            assert_true(shapes->arguments[i].d[0] == 3 && shapes->arguments[i].d[1] == 4);
}

/* Outside of recording results have no history, whether the body is interpreted or, after some runs, compiled. */
static void test_nothing_is_recorded(void **state)
{
    (void)state;
    MX_SCOPE;
    mx_array *all[5];
    mx_symbol *symbol = loop_symbol();
    random_inputs(all);
    for (int i = 0; i < 5; i++)
        mx_attach_grad(all[i], MX_GRAD_WRITE);
    for (int run = 0; run < 4; run++) {
        mx_arrays out = mx_symbol_eval(symbol, 5, names, (mx_arrays){all, 5});
        assert_ok();
        for (int i = 0; i < 3; i++) {
            mx_backward(out.v[i]);
            assert_error("recorded");
        }
    }
}

/* ---- in a hybridized block -------------------------------------------------------------------------------------- */

static mx_arrays loop_forward(mx_block *block, mx_arrays in)
{
    (void)block;
    cell k = {in.v[1], in.v[2], mx_exp(in.v[3])};
    mx_loop loop = mx_foreach(cell_step, &k, (mx_arrays){in.v, 1}, (mx_arrays){in.v + 4, 1});
    if (loop.failed)
        return MX_NO_ARRAYS;
    return mx_results(loop.outputs.v[0], loop.outputs.v[1], loop.states.v[0]);
}

static void check_block(mx_block *block, int rounds)
{
    mx_array *all[5], *want[8];
    random_inputs(all);
    imperative(all, want);
    mx_hybridize(block);
    for (int round = 0; round < rounds; round++) {
        MX_SCOPE;
        mx_array *loss = NULL;
        mx_arrays out = {0};
        mx_array *kept[5];
        for (int i = 0; i < 5; i++)
            kept[i] = mx_array_copy(mx_gradient(all[i]));
        mx_record() {
            out = mx_block_call_many(block, (mx_arrays){all, 5});
            assert_ok();
            loss = mx_add(mx_add(mx_sum(out.v[0]), mx_mul_scalar(mx_sum(out.v[1]), .scalar = 2)),
                          mx_mul_scalar(mx_sum(out.v[2]), .scalar = 3));
        }
        mx_backward(loss, .retain_graph = round == 1);
        if (round == 1)
            mx_backward(loss);
        assert_ok();
        for (int i = 0; i < 3; i++)
            assert_close(out.v[i], want[i]);
        for (int i = 0; i < 5; i++)
            assert_close(mx_gradient(all[i]), kept[i]);
        mx_predict_mode() {
            mx_arrays again = mx_block_call_many(block, (mx_arrays){all, 5});
            assert_ok();
            assert_close(again.v[2], want[2]);
        }
    }
}

static void test_block(void **state)
{
    (void)state;
    MX_SCOPE;
    check_block(mx_block_new("Loop", NULL, .forward_many = loop_forward, .hybrid = true), 3);
    /* The graph of a file keeps the loop as one node: a region of the plan. */
    check_block(mx_symbol_block(loop_symbol(), "x w u c h"), 3);
}

/* ---- while: double s until it is 100 ---------------------------------------------------------------------------- */

static mx_array *below(void *user, mx_arrays v)
{
    return mx_lesser_scalar(mx_sum(v.v[0]), .scalar = *(const double *)user);
}

static mx_code twice(void *user, mx_arrays v, mx_arrays *outputs, mx_arrays *next)
{
    (void)user;
    *outputs = mx_results(mx_add(v.v[0], v.v[1]));
    *next = mx_results(mx_mul(v.v[0], v.v[1]), v.v[1]);
    return mx_error_code();
}

static void test_while(void **state)
{
    (void)state;
    MX_SCOPE;
    double limit = 100;
    mx_array *s = mx_array_from(MX_DIMS(2), MX_FLOAT32, (float[]){1, 3}),
             *f = mx_array_from(MX_DIMS(2), MX_FLOAT32, (float[]){2, 3}), *loss = NULL;
    mx_attach_grad(s, MX_GRAD_WRITE);
    mx_attach_grad(f, MX_GRAD_WRITE);
    mx_loop loop = {0};
    mx_record() {
        loop = mx_while_loop(below, twice, &limit, MX_ARRAYS(s, f), 6);
        assert_ok();
        loss = mx_add(mx_sum(loop.outputs.v[0]), mx_sum(loop.states.v[0]));
    }
    mx_backward(loss);
    assert_ok();
    assert_int_equal(mx_dim(loop.outputs.v[0], 0), 6);
    float rows[12];
    assert_int_equal(mx_array_read(loop.outputs.v[0], rows, sizeof rows), MX_OK);
    assert_true(rows[0] == 3 && rows[1] == 6 && rows[6] == 10 && rows[7] == 84 && rows[8] == 0 && rows[11] == 0);
    /* The same as a symbol, with its gradient. */
    mx_loop graph = mx_while_loop(below, twice, &limit, MX_ARRAYS(mx_variable("s"), mx_variable("f")), 6);
    assert_ok();
    mx_symbol *symbol = mx_symbol_of(MX_ARRAYS(graph.outputs.v[0], graph.states.v[0]));
    const char *both[] = {"s", "f"};
    for (int round = 0; round < 2; round++) {
        mx_executor *e =
            mx_simple_bind(symbol, mx_cpu(0),
                           &(struct mx_known){.count = 2, .names = both, .shapes = (mx_dims[]){MX_DIMS(2), MX_DIMS(2)}},
                           MX_GRAD_WRITE);
        mx_executor_set(e, "s", s);
        mx_executor_set(e, "f", f);
        mx_arrays out = mx_executor_forward(e, true);
        assert_ok();
        assert_close(out.v[0], loop.outputs.v[0]);
        assert_close(out.v[1], loop.states.v[0]);
        mx_executor_backward(e, MX_NO_ARRAYS);
        assert_close(mx_executor_gradient(e, "s"), mx_gradient(s));
        assert_close(mx_executor_gradient(e, "f"), mx_gradient(f));
        const char *json = mx_symbol_json(symbol);
        symbol = mx_symbol_from_json(json, strlen(json));
        assert_ok();
    }
    /* No step at all: outputs are zeros in a graph, and there are none on arrays. */
    limit = -1;
    loop = mx_while_loop(below, twice, &limit, MX_ARRAYS(s, f), 6);
    assert_int_equal(loop.outputs.n, 0);
    assert_int_equal(loop.states.n, 2);
    graph = mx_while_loop(below, twice, &limit, MX_ARRAYS(mx_variable("s"), mx_variable("f")), 6);
    mx_arrays out = mx_symbol_eval(mx_symbol_of(MX_ARRAYS(graph.outputs.v[0])), 2, both, MX_ARRAYS(s, f));
    assert_ok();
    assert_int_equal(mx_dim(out.v[0], 0), 6);
    assert_true(mx_item(mx_sum(mx_abs(out.v[0]))) == 0);
}

/* Without a step the shape of what a mask leaves stays unknown. */
static mx_code masked(void *user, mx_arrays variables, mx_arrays *outputs, mx_arrays *next)
{
    (void)user;
    *outputs = mx_results(mx_boolean_mask(variables.v[0], variables.v[0]));
    *next = mx_results(mx_mul_scalar(variables.v[0], .scalar = 2));
    return mx_error_code();
}
static mx_array *sum_below(void *user, mx_arrays variables)
{
    return mx_lesser_scalar(mx_sum(variables.v[0]), .scalar = *(double *)user);
}

static void test_no_step_of_unknown_shape(void **state)
{
    (void)state;
    MX_SCOPE;
    double limit = -1;
    const char *name = "s";
    mx_loop loop = mx_while_loop(sum_below, masked, &limit, MX_ARRAYS(mx_variable(name)), 3);
    assert_ok();
    mx_symbol *symbol = mx_symbol_of(MX_ARRAYS(loop.outputs.v[0]));
    assert_int_equal(mx_symbol_eval(symbol, 1, &name, MX_ARRAYS(mx_ones(.shape = MX_DIMS(2)))).n, 0);
    assert_error("no step ran, and the shape of output 0");
}

/* ---- nesting ---------------------------------------------------------------------------------------------------- */

/* Adds the data to the state, in loops around loops. */
static mx_code nested(void *user, mx_arrays data, mx_arrays states, mx_arrays *outputs, mx_arrays *next)
{
    int inner = *(int *)user - 1;
    if (!inner)
        *next = mx_results(mx_add(states.v[0], data.v[0]));
    else
        *next = mx_foreach(nested, &inner, MX_ARRAYS(mx_reshape(data.v[0], .shape = MX_DIMS(1, 2))), states).states;
    *outputs = next->n ? mx_results(next->v[0]) : MX_NO_ARRAYS;
    return mx_error_code();
}

static void test_depth(void **state)
{
    (void)state;
    MX_SCOPE;
    int depth = 5;
    const char *both[] = {"x", "h"};
    mx_loop loop = mx_foreach(nested, &depth, MX_ARRAYS(mx_variable("x")), MX_ARRAYS(mx_variable("h")));
    assert_ok();
    mx_array *x = mx_ones(.shape = MX_DIMS(3, 2)), *h = mx_zeros(.shape = MX_DIMS(2));
    mx_arrays out = mx_symbol_eval(mx_symbol_of(MX_ARRAYS(loop.states.v[0])), 2, both, MX_ARRAYS(x, h));
    assert_ok();
    assert_true(mx_item(mx_sum(out.v[0])) == 6);
    depth = 6;
    assert_true(mx_foreach(nested, &depth, MX_ARRAYS(mx_variable("x")), MX_ARRAYS(mx_variable("h"))).failed);
    assert_error("nested 6 deep, at most 5");
}

/* Adds all outside arrays to the state: more of them than a compiled body takes. */
enum { MANY = 140 };
static mx_code add_all(void *user, mx_arrays data, mx_arrays states, mx_arrays *outputs, mx_arrays *next)
{
    mx_array *const *outside = user, *sum = mx_add(states.v[0], data.v[0]);
    for (int i = 0; i < MANY; i++)
        sum = mx_add(sum, outside[i]);
    *outputs = *next = mx_results(sum);
    return mx_error_code();
}

static void test_many_outside(void **state)
{
    (void)state;
    MX_SCOPE;
    char text[MANY + 2][16];
    const char *names_of[MANY + 2];
    mx_array *outside[MANY], *values[MANY + 2];
    for (int i = 0; i < MANY + 2; i++) {
        snprintf(text[i], sizeof text[i], "v%d", i);
        names_of[i] = text[i];
        values[i] = i < MANY ? mx_full(.shape = MX_DIMS(2), .value = i)
                             : mx_ones(.shape = i == MANY ? MX_DIMS(3, 2) : MX_DIMS(2));
        if (i < MANY)
            outside[i] = mx_variable(text[i]);
    }
    mx_loop loop =
        mx_foreach(add_all, outside, MX_ARRAYS(mx_variable(text[MANY])), MX_ARRAYS(mx_variable(text[MANY + 1])));
    assert_ok();
    mx_arrays out =
        mx_symbol_eval(mx_symbol_of(MX_ARRAYS(loop.states.v[0])), MANY + 2, names_of, (mx_arrays){values, MANY + 2});
    assert_ok();
    assert_true(mx_item(mx_max(out.v[0])) == 1 + 3 * (1 + MANY * (MANY - 1) / 2));
}

/* ---- random numbers ---------------------------------------------------------------------------------------------- */

static mx_code dropping(void *user, mx_arrays data, mx_arrays states, mx_arrays *outputs, mx_arrays *next)
{
    (void)user;
    mx_array *y = mx_op_dropout(mx_add(data.v[0], states.v[0]), .p = 0.5);
    *outputs = *next = mx_results(y);
    return mx_error_code();
}

static mx_array *draw_twice(mx_block *self, mx_arrays in)
{
    (void)self;
    mx_foreach(dropping, NULL, MX_ARRAYS(in.v[0]), MX_ARRAYS(mx_sum(in.v[0], .axis = MX_DIMS(0))));
    return mx_op_dropout(in.v[0], .p = 0.5);
}

/* A loop whose results nobody wants draws its numbers all the same: what follows does not depend on hybridize. */
static void test_unused_draws(void **state)
{
    (void)state;
    MX_SCOPE;
    mx_block *block = mx_block_new("Draws", draw_twice, .hybrid = true);
    mx_array *x = mx_ones(.shape = MX_DIMS(70, 8)), *found[2]; /* too many steps to be unrolled */
    for (int i = 0; i < 2; i++) {
        if (i)
            mx_hybridize(block);
        mx_train_mode() {
            for (int round = 0; round < 2; round++) {
                mx_random_seed(7);
                found[i] = mx_call(block, x);
            }
        }
        assert_ok();
    }
    assert_close(found[0], found[1]);
}

/* ---- cond ------------------------------------------------------------------------------------------------------- */

static int branches; /* that ran */
static mx_code grow(void *user, mx_arrays *outputs)
{
    branches++;
    *outputs = mx_results(mx_square(user));
    return mx_error_code();
}
static mx_code shrink(void *user, mx_arrays *outputs)
{
    branches++;
    *outputs = mx_results(mx_mul_scalar(user, .scalar = 0.5));
    return mx_error_code();
}

static void test_cond(void **state)
{
    (void)state;
    MX_SCOPE;
    mx_array *x = mx_array_from(MX_DIMS(2), MX_FLOAT32, (float[]){2, 3});
    branches = 0;
    assert_true(mx_item(mx_sum(mx_cond(mx_array_scalar(1), grow, shrink, x).v[0])) == 13);
    assert_true(mx_item(mx_sum(mx_cond(mx_array_scalar(0), grow, shrink, x).v[0])) == 2.5);
    assert_int_equal(branches, 2);
    assert_int_equal(mx_cond(x, grow, shrink, x).n, 0);
    assert_error("one element");
    mx_array *v = mx_variable("v");
    mx_arrays graph = mx_cond(mx_greater_scalar(mx_sum(v), .scalar = 4), grow, shrink, v);
    assert_ok();
    mx_symbol *symbol = mx_symbol_of(graph);
    const char *json = mx_symbol_json(symbol);
    mx_symbol *again = mx_symbol_from_json(json, strlen(json));
    assert_ok();
    for (int round = 0; round < 4; round++) {
        mx_executor *e = mx_simple_bind(
            round < 2 ? symbol : again, mx_cpu(0),
            &(struct mx_known){.count = 1, .names = (const char *[]){"v"}, .shapes = (mx_dims[]){MX_DIMS(2)}},
            MX_GRAD_WRITE);
        mx_executor_set(e, "v", round % 2 ? x : mx_mul_scalar(x, .scalar = 0.5));
        mx_arrays out = mx_executor_forward(e, true);
        assert_ok();
        assert_true(mx_item(mx_sum(out.v[0])) == (round % 2 ? 13 : 1.25));
        mx_executor_backward(e, MX_NO_ARRAYS);
        assert_true(mx_item(mx_sum(mx_executor_gradient(e, "v"))) == (round % 2 ? 10 : 1));
    }
}

/* ---- errors ----------------------------------------------------------------------------------------------------- */

static mx_code no_states(void *user, mx_arrays data, mx_arrays states, mx_arrays *outputs, mx_arrays *next)
{
    (void)user, (void)states;
    *outputs = mx_results(data.v[0]);
    *next = MX_NO_ARRAYS;
    return MX_OK;
}
static mx_code failing(void *user, mx_arrays data, mx_arrays states, mx_arrays *outputs, mx_arrays *next)
{
    (void)data, (void)states, (void)outputs, (void)next;
    return user ? *(const mx_code *)user : MX_ERR_CALLBACK;
}
static mx_code unused(void *user, mx_arrays data, mx_arrays states, mx_arrays *outputs, mx_arrays *next)
{
    (void)user, (void)data;
    *outputs = *next = mx_results(states.v[0]);
    return MX_OK;
}

static void test_errors(void **state)
{
    (void)state;
    MX_SCOPE;
    mx_array *x = mx_zeros(.shape = MX_DIMS(3, 2)), *h = mx_zeros(.shape = MX_DIMS(2)), *v = mx_variable("v");
    assert_true(mx_foreach(NULL, NULL, MX_ARRAYS(x), MX_ARRAYS(h)).failed);
    assert_error("body is NULL");
    assert_true(mx_foreach(failing, NULL, MX_ARRAYS(x), MX_ARRAYS(h)).failed);
    assert_error("foreach");
    for (int symbolic = 0; symbolic < 2; symbolic++) { /* a code without an error, on arrays and on symbols */
        mx_code codes[] = {MX_ERR_STATE, MX_ERR_MEMORY};
        for (int k = 0; k < 2; k++) {
            assert_true(mx_foreach(failing, &codes[k], MX_ARRAYS(symbolic ? v : x), MX_ARRAYS(h)).failed);
            assert_int_equal(mx_error_code(), k ? MX_ERR_MEMORY : MX_ERR_CALLBACK);
            assert_error("foreach");
        }
    }
    assert_true(mx_foreach(no_states, NULL, MX_ARRAYS(v), MX_ARRAYS(h)).failed);
    assert_error("states");
    assert_true(mx_foreach(unused, NULL, MX_ARRAYS(v), MX_ARRAYS(h)).failed);
    assert_error("have to be used");
    assert_true(mx_foreach(unused, NULL, MX_NO_ARRAYS, MX_ARRAYS(h)).failed);
    assert_error("no data");
    assert_true(mx_foreach(unused, NULL, MX_ARRAYS(x, h), MX_ARRAYS(h)).failed);
    assert_error("first axes");
    double limit = 3;
    assert_true(mx_while_loop(below, twice, &limit, MX_NO_ARRAYS, 3).failed);
    assert_error("no variables");
    assert_true(mx_while_loop(below, twice, &limit, MX_ARRAYS(v, mx_variable("u")), 0).failed);
    assert_error("max_iterations");
    /* The operators themselves, with nothing to call. */
    const char *const calls[][2] = {
        {"_foreach", "num_args=2, num_outputs=1, num_out_data=1, in_state_locs=a, in_data_locs=b, remain_locs=c"},
        {"_while_loop", "num_args=3, num_outputs=1, num_out_data=0, max_iterations=2, cond_input_locs=a, "
                        "func_input_locs=b, func_var_locs=c"},
        {"_cond", "num_args=4, num_outputs=1, cond_input_locs=a, then_input_locs=b, else_input_locs=c"},
        {"Custom", "op_type=nobody"},
        {"_backward_call", ""}};
    for (size_t i = 0; i < sizeof calls / sizeof *calls; i++)
        for (int k = 0; k < 3; k++) {
            mx_array *in[1] = {k ? v : x};
            assert_null(mx_g_text(mx_op_find(calls[i][0]), k == 2 ? "" : calls[i][1], 1, in));
            assert_true(mx_error_code() != MX_OK);
            mx_error_clear();
        }
    /* The thread's naming state is as before. */
    const char *name = mx_symbol_name(mx_symbol_of(MX_ARRAYS(mx_exp(v))));
    assert_ok();
    assert_null(strstr(name, "foreach"));
}

/* Invalid files: replaces `from` by `to` in the JSON of a good loop; an error, never a signal. */
static void lie(const char *json, const char *from, const char *to)
{
    MX_SCOPE;
    const char *at = strstr(json, from);
    if (!at)
        fail_msg("'%s' is not in the file", from);
    const size_t length = strlen(json) + strlen(to) + 1;
    char *text = malloc(length);
    snprintf(text, length, "%.*s%s%s", (int)(at - json), json, to, at + strlen(from));
    assert_null(mx_symbol_from_json(text, strlen(text)));
    assert_true(mx_error_code() != MX_OK);
    mx_error_clear();
    free(text);
}

static void test_hostile_files(void **state)
{
    (void)state;
    MX_SCOPE;
    const char *json = mx_symbol_json(loop_symbol());
    lie(json, "\"in_data_locs\": \"[0]\"", "\"in_data_locs\": \"[99]\"");
    lie(json, "\"in_data_locs\": \"[0]\"", "\"in_data_locs\": \"[-1]\"");
    lie(json, "\"in_data_locs\": \"[0]\"", "\"in_data_locs\": \"[0, 0]\"");
    lie(json, "\"in_data_locs\": \"[0]\"", "\"in_data_locs\": \"[]\"");
    lie(json, "\"in_data_locs\": \"[0]\"", "\"in_data_locs\": \"0\"");
    lie(json, "\"in_data_locs\": \"[0]\"", "\"in_data_locs\": \"[99999999999999999999]\"");
    lie(json, "\"num_outputs\": \"3\"", "\"num_outputs\": \"2\"");
    lie(json, "\"num_outputs\": \"3\"", "\"num_outputs\": \"1000000\"");
    lie(json, "\"num_out_data\": \"2\"", "\"num_out_data\": \"-7\"");
    lie(json, "\"num_args\": \"6\"", "\"num_args\": \"600\"");
    lie(json, "\"subgraphs\": [", "\"subgraphs\": [{}, ");
    lie(json, "\"subgraphs\": [", "\"nothing\": [");
    lie(json, "\"op\": \"_foreach\"", "\"op\": \"_while_loop\"");
    lie(json, "\"op\": \"_foreach\"", "\"op\": \"_cond\"");
    lie(json, "\"op\": \"_foreach\"", "\"op\": \"_backward_call\"");
    lie(json, "\"op\": \"_foreach\"", "\"op\": \"Custom\"");
    /* Nested loops, as deep as the parser allows. */
    enum { LEVELS = 60 };
    char *deep = malloc(1 << 20), *end = deep;
    for (int i = 0; i < LEVELS; i++)
        end += sprintf(end, "{\"nodes\": [{\"op\": \"null\", \"name\": \"x\", \"inputs\": []}, {\"op\": \"_foreach\", "
                            "\"name\": \"f\", \"attrs\": {\"num_args\": \"2\", \"num_outputs\": \"1\", "
                            "\"num_out_data\": \"1\", \"in_data_locs\": \"[0]\", \"in_state_locs\": \"[]\", "
                            "\"remain_locs\": \"[]\"}, \"inputs\": [[0, 0, 0]], \"subgraphs\": [");
    end += sprintf(end, "{\"nodes\": [{\"op\": \"null\", \"name\": \"x\", \"inputs\": []}, {\"op\": \"exp\", \"name\": "
                        "\"e\", \"inputs\": [[0, 0, 0]]}], \"arg_nodes\": [0], \"heads\": [[1, 0, 0]]}");
    for (int i = 0; i < LEVELS; i++)
        end += sprintf(end, "]}], \"arg_nodes\": [0], \"heads\": [[1, 0, 0]]}");
    for (const char *start = deep; *start == '{' && start < deep + 60000;) {
        const size_t level = strlen("]}], \"arg_nodes\": [0], \"heads\": [[1, 0, 0]]}");
        mx_symbol_from_json(start, (size_t)(end - start));
        mx_error_clear();
        start = strstr(start + 1, "{\"nodes\": [{\"op\": \"null\"");
        end -= level;
        if (!start || end < start)
            break;
    }
    free(deep);
    /* Every prefix of a file is rejected. */
    const size_t length = strlen(json);
    for (size_t i = 0; i < length; i += 37) {
        assert_null(mx_symbol_from_json(json, i));
        mx_error_clear();
    }
}

/* ---- without memory --------------------------------------------------------------------------------------------- */

/* Everything once: a graph, its file, an executor with gradients, a hybridized block. */
static void everything(mx_array *const *all)
{
    MX_SCOPE;
    cell k = {mx_variable("w"), mx_variable("u"), mx_exp(mx_variable("c"))};
    mx_loop loop = mx_foreach(cell_step, &k, MX_ARRAYS(mx_variable("x")), MX_ARRAYS(mx_variable("h")));
    if (loop.failed)
        return;
    mx_symbol *symbol = mx_symbol_of(loop.outputs);
    const char *json = symbol ? mx_symbol_json(symbol) : NULL;
    symbol = json ? mx_symbol_from_json(json, strlen(json)) : NULL;
    mx_executor *e =
        symbol ? mx_simple_bind(symbol, mx_cpu(0), &(struct mx_known){.count = 5, .names = names, .shapes = SHAPES},
                                MX_GRAD_WRITE)
               : NULL;
    if (!e || !mx_executor_forward(e, true).n || mx_executor_backward(e, MX_NO_ARRAYS))
        return;
    mx_block *block = mx_symbol_block(symbol, "x w u c h");
    if (!block)
        return;
    mx_hybridize(block);
    mx_record() {
        mx_arrays out = mx_block_call_many(block, (mx_arrays){all, 5});
        mx_array *loss = out.n ? mx_sum(out.v[0]) : NULL;
        if (loss)
            mx_backward(loss);
    }
}

static void test_no_memory(void **state)
{
    (void)state;
    MX_SCOPE;
    mx_array *all[5];
    random_inputs(all);
    for (int i = 0; i < 5; i++)
        mx_attach_grad(all[i], MX_GRAD_WRITE);
    everything(all);
    assert_ok();
    int64_t number = 1, step = 1;
    for (bool failed = true; failed; number += step) {
        mx_alloc_fail_at(number);
        everything(all);
        mx_alloc_fail_at(0);
        failed = mx_error_code() != MX_OK;
        if (failed && mx_error_code() != MX_ERR_MEMORY)
            fail_msg("allocation %lld: %s", (long long)number, mx_error_message());
        assert_false(mx_is_recording() || mx_is_training());
        mx_error_clear();
        step = number > 300 ? 7 : 1; /* later allocations are those of every executor and plan */
    }
    assert_true(number > 200);
    everything(all);
    assert_ok();
}

/* ---- users' operators ------------------------------------------------------------------------------------------- */

static double scale_alive; /* property objects that exist */

static void *scale_create(void *user, int n, const char *const *keys, const char *const *values)
{
    (void)user;
    double *factor = malloc(sizeof *factor);
    *factor = 1;
    for (int i = 0; i < n; i++)
        if (!strcmp(keys[i], "factor"))
            *factor = atof(values[i]);
    scale_alive++;
    return factor;
}
static void scale_release(void *self)
{
    scale_alive--;
    free(self);
}
static const char *const *scale_names(void *self, enum mx_custom_list which, int *n)
{
    static const char *const arguments[] = {"data", "weight"}, *const outputs[] = {"product", "sum"},
                             *const auxiliary[] = {"count"};
    (void)self;
    *n = which == MX_CUSTOM_AUXILIARY ? 1 : 2;
    return which == MX_CUSTOM_ARGUMENTS ? arguments : which == MX_CUSTOM_OUTPUTS ? outputs : auxiliary;
}
static mx_code scale_infer(void *self, const mx_custom_shapes *s)
{
    (void)self;
    s->arguments[1] = s->outputs[0] = s->outputs[1] = s->arguments[0];
    s->auxiliary[0] = MX_DIMS(1);
    s->argument_types[1] = s->output_types[0] = s->output_types[1] = s->auxiliary_types[0] = s->argument_types[0];
    return MX_OK;
}
static mx_code scale_forward(void *self, mx_custom_run *run)
{
    mx_array *const *a = run->arguments.v;
    mx_array_set(run->outputs.v[0], mx_mul_scalar(mx_mul(a[0], a[1]), .scalar = *(const double *)self));
    mx_array_set(run->outputs.v[1], mx_add(a[0], a[1]));
    if (run->training)
        mx_array_set(run->auxiliary.v[0], mx_plus_scalar(run->auxiliary.v[0], .scalar = 1));
    return mx_error_code();
}
static mx_code scale_backward(void *self, mx_custom_run *run)
{
    mx_array *const *a = run->arguments.v, *const *g = run->output_grads.v;
    for (int i = 0; i < 2; i++)
        mx_array_set(run->argument_grads.v[i],
                     mx_add(mx_mul_scalar(mx_mul(a[1 - i], g[0]), .scalar = *(const double *)self), g[1]));
    return mx_error_code();
}

/* Whichever allocation of a call fails: the error is about memory, and the next call works. */
static void without_memory(struct mx_custom_args args, bool symbolic)
{
    MX_SCOPE;
    mx_array *x = symbolic ? mx_variable("x") : mx_ones(.shape = MX_DIMS(2)), *w = symbolic ? mx_variable("w") : x,
             *count = symbolic ? mx_variable("c") : mx_zeros(.shape = MX_DIMS(1));
    args.n_in = 3, args.in = (mx_array *const[]){x, w, count};
    bool failed = true;
    for (int n = 1; failed; n++) {
        mx_alloc_fail_at(n);
        const mx_arrays out = mx_custom(&args);
        mx_alloc_fail_at(0);
        failed = mx_error_code() != MX_OK;
        assert_int_equal(out.n > 0, !failed);
        assert_true(!failed || mx_error_code() == MX_ERR_MEMORY);
        mx_error_clear();
    }
}

static void test_custom(void **state)
{
    (void)state;
    const char *key = "factor", *value = "3";
    for (int missing = 0; missing < 6; missing++) { /* a class lacks one of its parts */
        const mx_custom_class lacking = {.op_type = missing == 0 ? NULL : "test_lacking",
                                         .create = missing == 1 ? NULL : scale_create,
                                         .names = missing == 2 ? NULL : scale_names,
                                         .infer = missing == 3 ? NULL : scale_infer,
                                         .forward = missing == 4 ? NULL : scale_forward};
        assert_int_equal(mx_custom_register(missing == 5 ? NULL : &lacking), MX_ERR_ARGUMENT);
        mx_error_clear();
    }
    assert_int_equal(mx_custom_register(&(mx_custom_class){.op_type = "test_scale",
                                                           .create = scale_create,
                                                           .release = scale_release,
                                                           .names = scale_names,
                                                           .infer = scale_infer,
                                                           .forward = scale_forward,
                                                           .backward = scale_backward}),
                     MX_OK);
    mx_scoped() {
        mx_array *x = mx_array_from(MX_DIMS(2), MX_FLOAT32, (float[]){2, 3}),
                 *w = mx_array_from(MX_DIMS(2), MX_FLOAT32, (float[]){5, 7}), *count = mx_zeros(.shape = MX_DIMS(1));
        struct mx_custom_args args = {.op_type = "test_scale", .n_options = 1, .keys = &key, .values = &value};
        args.n_in = 3, args.in = (mx_array *const[]){x, w, count};
        for (int symbolic = 0; symbolic < 2; symbolic++)
            without_memory(args, symbolic);
        mx_attach_grad(x, MX_GRAD_WRITE);
        mx_arrays out = {0};
        mx_record()
            out = mx_custom(&args);
        assert_ok();
        mx_backward(out.v[0]);
        assert_ok();
        assert_true(mx_item(mx_sum(out.v[0])) == 93 && mx_item(mx_sum(mx_gradient(x))) == 36);
        assert_true(mx_item(count) == 1);
        /* As a node: missing inputs become variables, the file keeps the options. */
        args.n_in = 1, args.in = (mx_array *const[]){mx_variable("x")}, args.name = "op";
        mx_symbol *symbol = mx_symbol_of(mx_custom(&args));
        assert_ok();
        const char *json = mx_symbol_json(symbol);
        symbol = mx_symbol_from_json(json, strlen(json));
        assert_ok();
        assert_string_equal(mx_symbol_json(symbol), json);
        assert_string_equal(mx_symbol_arguments(symbol).v[1], "op_weight");
        assert_string_equal(mx_symbol_auxiliary(symbol).v[0], "op_count");
        assert_string_equal(mx_symbol_outputs(symbol).v[1], "op_sum");
        assert_string_equal(mx_symbol_attr(mx_symbol_output(symbol, 0), "op_type"), "test_scale");
        mx_executor *e = mx_simple_bind(
            symbol, mx_cpu(0),
            &(struct mx_known){.count = 1, .names = (const char *[]){"x"}, .shapes = (mx_dims[]){MX_DIMS(2)}},
            MX_GRAD_WRITE);
        assert_ok();
        mx_executor_set(e, "x", x);
        mx_executor_set(e, "op_weight", w);
        out = mx_executor_forward(e, true);
        mx_executor_backward(e, MX_NO_ARRAYS);
        assert_ok();
        assert_true(mx_item(mx_sum(out.v[0])) == 93);
        assert_true(mx_item(mx_sum(mx_executor_gradient(e, "op_weight"))) == 17);
        assert_true(mx_item(mx_executor_array(e, "op_count")) == 1);
        /* In a plan. */
        mx_block *block = mx_symbol_block(symbol, "x op_weight op_count");
        mx_hybridize(block);
        for (int round = 0; round < 3; round++) {
            mx_record()
                out = mx_block_call_many(block, MX_ARRAYS(x, w, count));
            assert_ok();
            mx_backward(out.v[0]);
            assert_ok();
            assert_true(mx_item(mx_sum(mx_gradient(x))) == 36);
        }
        assert_true(mx_item(count) == 4);
        args.op_type = "nobody";
        assert_int_equal(mx_custom(&args).n, 0);
        assert_error("no operator is registered");
    }
    assert_true(scale_alive == 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(test_foreach, clean), cmocka_unit_test_setup(test_block, clean),
        cmocka_unit_test_setup(test_nothing_is_recorded, clean),
        cmocka_unit_test_setup(test_while, clean), cmocka_unit_test_setup(test_no_step_of_unknown_shape, clean),
        cmocka_unit_test_setup(test_depth, clean), cmocka_unit_test_setup(test_many_outside, clean), cmocka_unit_test_setup(test_unused_draws, clean),   cmocka_unit_test_setup(test_cond, clean),
        cmocka_unit_test_setup(test_errors, clean),  cmocka_unit_test_setup(test_hostile_files, clean),
        cmocka_unit_test_setup(test_custom, clean),  cmocka_unit_test_setup(test_no_memory, clean),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
