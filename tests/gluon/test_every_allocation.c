/* Small programs in which every allocation fails once, one by one: an error each time, no crash, no leak, and the next
 * run works.  Others are next to what they test (test_plan.c, test_cells.c, test_symbol.c ...); these are calls whose
 * errors come from the middle of a composition.
 *
 * ctest-levels: best (what fails is the same at every level)
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "base/error.h"
#include "block_check.h"
#include "gluon/np.gen.h"
#include "gluon/onnx.h"

enum { MOST = 5000 };

static mx_array *numbers(void) { return check_integers(MX_DIMS(3, 4), 1, 5); }

static bool unique_numbers(void)
{
    return mx_np_unique(numbers(), .return_index = true, .return_inverse = true, .return_counts = true).n == 4;
}

static bool triangles(void)
{
    mx_array *x = mx_np_tri(.N = 3, .M = 4, .k = 1),
             *y = mx_np_diagonal(numbers(), .offset = 1, .axis1 = 1, .axis2 = 0);
    return x && y;
}

static bool gradients_of_moments(void)
{
    mx_array *x = numbers(), *sum = NULL;
    if (!x || mx_attach_grad(x, MX_GRAD_WRITE))
        return false;
    mx_record() {
        mx_arrays m = mx_moments(x, .axes = MX_DIMS(1));
        sum = m.n == 2 ? mx_add(m.v[0], m.v[1]) : NULL;
    }
    return sum && !mx_backward(sum);
}

static bool second_order(void)
{
    mx_array *x = check_array(MX_DIMS(2, 3), 1), *y = NULL;
    mx_block *net = mx_dense(2, .in_units = 3, .activation = "tanh");
    if (!x || !net || mx_initialize(net, NULL, mx_cpu(0)) || mx_hybridize(net) || mx_attach_grad(x, MX_GRAD_WRITE))
        return false;
    mx_record() {
        y = mx_call(net, x);
        mx_arrays first = y ? mx_grad_of(MX_ARRAYS(y), MX_ARRAYS(x), MX_NO_ARRAYS, true, true) : (mx_arrays){0};
        y = first.n ? mx_sum(mx_square(first.v[0])) : NULL;
    }
    return y && !mx_backward(y);
}

static bool steps_of_cells(void)
{
    mx_block *cell = mx_lstm_cell(3, .input_size = 2);
    mx_array *x = check_array(MX_DIMS(2, 4, 2), 1);
    return x && cell && !mx_initialize(cell, NULL, mx_cpu(0)) && mx_cell_unroll(cell, x).output;
}

static bool drawings(void)
{
    mx_array *x = mx_variable("x"), *a = x ? mx_exp(x) : NULL, *y = a ? mx_add(a, mx_sin(x)) : NULL;
    mx_symbol *s = y ? mx_symbol_of(MX_ARRAYS(y)) : NULL;
    return s && mx_symbol_svg(s) && mx_symbol_dot(s);
}

static bool texts_of_executors(void)
{
    mx_array *x = mx_variable("x"), *y = x ? mx_add(mx_exp(x), mx_exp(x)) : NULL, *value = check_array(MX_DIMS(2), 1);
    mx_symbol *s = y && value ? mx_symbol_of(MX_ARRAYS(y)) : NULL;
    mx_executor *e = s ? mx_bind(s, mx_cpu(0), &(struct mx_bindings){.arguments = MX_ARRAYS(value)}) : NULL;
    return e && mx_executor_optimized(e) && mx_executor_debug(e);
}

static bool states_of_updaters(void)
{
    mx_array *weight = check_array(MX_DIMS(2), 1), *gradient = check_array(MX_DIMS(2), 1);
    mx_optimizer *one = mx_adam(), *other = one ? mx_adam() : NULL;
    mx_updater *from = other ? mx_updater_new(one) : NULL, *to = from ? mx_updater_new(other) : NULL;
    if (!weight || !gradient || !to)
        return false;
    return !mx_updater_update(from, mx_id_number(1), gradient, weight) &&
           !mx_updater_update(from, mx_id_name("a"), gradient, weight) &&
           !mx_updater_save(from, check_file("states")) && !mx_updater_load(to, check_file("states")) &&
           !mx_updater_update(to, mx_id_name("a"), gradient, weight);
}

static bool train(mx_block *net, mx_trainer *trainer, mx_array *x)
{
    mx_array *loss = NULL;
    mx_record() {
        mx_array *y = mx_call(net, x);
        loss = y ? mx_sum(mx_square(y)) : NULL;
    }
    return loss && !mx_backward(loss) && !mx_trainer_step(trainer, 2);
}

static bool states_of_trainers(void)
{
    mx_array *x = check_array(MX_DIMS(2, 3), 1);
    mx_block *net = mx_dense(2, .in_units = 3);
    if (!x || !net || mx_initialize(net, NULL, mx_cpu(0)))
        return false;
    mx_trainer *one = mx_trainer_new(mx_collect_params(net), "adam", NULL);
    if (!one || !train(net, one, x) || mx_trainer_save_states(one, check_file("trained")))
        return false;
    mx_trainer *other = mx_trainer_new(mx_collect_params(net), "adam", NULL);
    return other && !mx_trainer_load_states(other, check_file("trained")) && train(net, other, x);
}

static bool files_of_networks(void)
{
    mx_array *x = check_array(MX_DIMS(2, 3), 1);
    mx_block *net = mx_dense(2, .in_units = 3), *other = mx_dense(2, .in_units = 3);
    return x && net && other && !mx_initialize(net, NULL, mx_cpu(0)) &&
           !mx_save_parameters(net, check_file("net.params")) && !mx_load_parameters(other, check_file("net.params")) &&
           mx_call(other, x);
}

static bool models(void)
{
    mx_array *x = check_array(MX_DIMS(2, 3), 1);
    mx_block *net = mx_dense(2, .in_units = 3, .activation = "relu"), *again, *third;
    if (!x || !net || mx_initialize(net, NULL, mx_cpu(0)) || mx_export(net, check_file("model"), 0) ||
        mx_export_onnx_block(net, check_file("model.onnx"), 17, MX_ARRAYS(x)))
        return false;
    char symbol[512], params[512];
    snprintf(symbol, sizeof symbol, "%s-symbol.json", check_file("model"));
    snprintf(params, sizeof params, "%s-0000.params", check_file("model"));
    again = mx_import(symbol, "data", params);
    third = again && mx_call(again, x) ? mx_import_onnx(check_file("model.onnx")) : NULL;
    return third && mx_call(third, x);
}

static const struct {
    const char *name;
    bool (*run)(void);
} programs[] = {{"unique", unique_numbers},
                {"triangles", triangles},
                {"moments", gradients_of_moments},
                {"second order", second_order},
                {"cells", steps_of_cells},
                {"drawings", drawings},
                {"executors", texts_of_executors},
                {"states", states_of_updaters},
                {"trainers", states_of_trainers},
                {"files", files_of_networks},
                {"models", models}};

static void check_program(const char *name, bool (*run)(void))
{
    int64_t live = 0, n = 0;
    bool done = false;
    for (int warm = 0; warm < 3; warm++)
        mx_scoped()
            if (!run())
                fail_msg("%s: %s", name, mx_error_message());
    check_no_error();
    live = mx_alloc_get_stats().live_blocks;
    while (!done && ++n < MOST) {
        mx_scoped() {
            mx_alloc_fail_at(n);
            done = run();
            mx_alloc_fail_at(0);
            if (done == mx_has_error())
                fail_msg("%s, allocation %lld: %s", name, (long long)n,
                         done ? mx_error_message() : "failed without an error");
            mx_error_clear();
        }
        if (mx_alloc_get_stats().live_blocks > live)
            fail_msg("%s, allocation %lld: %lld blocks leaked", name, (long long)n,
                     (long long)(mx_alloc_get_stats().live_blocks - live));
    }
    assert_true(done && n > 5);
}

static void test_programs(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof programs / sizeof *programs; i++)
        check_program(programs[i].name, programs[i].run);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_programs)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
