/* Updaters and the rates of single weights: multipliers by id, name, parameter and symbol, counts, states, files.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "gluon/nn.gen.h"
#include "gluon/op.gen.h"
#include "gluon/train/learning.h"

static void assert_error(mx_code code, const char *part)
{
    assert_int_equal(mx_error_code(), code);
    if (!strstr(mx_error_message(), part))
        fail_msg("'%s' does not say '%s'", mx_error_message(), part);
    mx_error_clear();
}

static void assert_close(double found, double wanted)
{
    if (!(fabs(found - wanted) <= 1e-5 * fmax(1, fabs(wanted))))
        fail_msg("found %.9g, wanted %.9g", found, wanted);
}

static void assert_fine(void)
{
    if (mx_error_code())
        fail_msg("%s", mx_error_message());
}

static mx_array *filled(double value, mx_dtype dtype)
{
    mx_array *x = mx_empty(MX_DIMS(2), dtype, mx_cpu(0));
    mx_array_fill(x, value);
    return x;
}

/* The first element of a weight of ones after an update with a gradient of ones. */
static double stepped(mx_updater *updater, mx_id id)
{
    mx_array *weight = filled(1, MX_FLOAT32);
    mx_updater_update(updater, id, filled(1, MX_FLOAT32), weight);
    assert_fine();
    return mx_item(mx_index(weight, MX_AT(0)));
}

static void multipliers_have_an_order(void **state)
{
    (void)state;
    MX_SCOPE;
    mx_optimizer *o = mx_sgd(.learning_rate = 0.5, .wd = 0.1);
    mx_updater *updater = mx_updater_new(o);
    assert_close(stepped(updater, mx_id_number(0)), 1 - 0.5 * 1.1);
    mx_optimizer_set_name(o, mx_id_number(0), "a_weight");
    mx_optimizer_set_name(o, mx_id_number(1), "a_bias");
    mx_optimizer_reset_wd_mult(o);
    assert_close(mx_optimizer_decay(o, mx_id_number(0)), 0.1);
    assert_close(mx_optimizer_decay(o, mx_id_number(1)), 0); /* it is neither a weight nor a gamma */
    assert_close(stepped(updater, mx_id_number(1)), 0.5);
    /* by name, then by number, then by parameter */
    mx_optimizer_set_lr_mult(o, mx_id_name("a_weight"), 2);
    assert_close(mx_optimizer_rate(o, mx_id_number(0)), 1);
    assert_close(stepped(updater, mx_id_number(0)), 1 - 1.1);
    mx_optimizer_set_lr_mult(o, mx_id_number(0), 3);
    assert_close(mx_optimizer_rate(o, mx_id_number(0)), 1.5);
    mx_parameter *p = mx_parameter_new("p", .shape = MX_DIMS(2), .lr_mult = 4, .wd_mult = 0.5);
    mx_optimizer_set_parameter(o, mx_id_number(0), p);
    assert_close(mx_optimizer_rate(o, mx_id_number(0)), 2);
    assert_close(mx_optimizer_decay(o, mx_id_number(0)), 0.05);
    /* the number 0 and the name "0" are two weights */
    assert_close(mx_optimizer_rate(o, mx_id_name("0")), 0.5);
    mx_optimizer_set_wd_mult(o, mx_id_name("a_bias"), 7);
    assert_close(mx_optimizer_decay(o, mx_id_number(1)), 0.7);
    mx_optimizer_reset_lr_mult(o);
    mx_optimizer_reset_wd_mult(o);
    assert_close(mx_optimizer_decay(o, mx_id_number(1)), 0);
    assert_fine();
}

static void symbols_bring_multipliers(void **state)
{
    (void)state;
    MX_SCOPE;
    mx_array *w = mx_variable("fc_w", .lr_mult = 3, .wd_mult = 0.5), *y = mx_add(w, mx_variable("other"));
    mx_optimizer *o = mx_sgd(.learning_rate = 1, .wd = 1);
    mx_optimizer_set_name(o, mx_id_number(4), "fc_w");
    mx_optimizer_set_symbol(o, mx_symbol_of(MX_ARRAYS(y)));
    assert_fine();
    assert_close(mx_optimizer_rate(o, mx_id_number(4)), 3);
    assert_close(mx_optimizer_decay(o, mx_id_number(4)), 0.5);
    assert_close(mx_optimizer_rate(o, mx_id_name("other")), 1);
    mx_optimizer_set_symbol(o, NULL);
    assert_int_equal(mx_error_code(), MX_ERR_ARGUMENT);
    mx_error_clear();
}

static void updates_are_counted_by_weight(void **state)
{
    (void)state;
    MX_SCOPE;
    mx_optimizer *o = mx_adam(.begin_num_update = 10);
    mx_updater *updater = mx_updater_new(o);
    for (int i = 0; i < 3; i++)
        stepped(updater, mx_id_name("a"));
    stepped(updater, mx_id_number(1));
    assert_int_equal(mx_optimizer_count(o, mx_id_name("a")), 13);
    assert_int_equal(mx_optimizer_count(o, mx_id_number(1)), 11);
    assert_int_equal(mx_optimizer_count(o, mx_id_number(2)), 10);
    assert_int_equal(mx_optimizer_num_update(o), 13);
    assert_int_equal(mx_optimizer_state_count(mx_updater_state(updater, mx_id_name("a"))), 2);
    assert_null(mx_updater_state(updater, mx_id_number(2)));
    assert_ptr_equal(mx_updater_optimizer(updater), o);
    /* counts of one device are not those of another */
    mx_array *weight = mx_array_to(filled(1, MX_FLOAT32), mx_cpu(1));
    mx_updater_update(updater, mx_id_number(7), weight, weight);
    assert_int_equal(mx_optimizer_count(o, mx_id_number(7)), 11);
    assert_int_equal(mx_optimizer_count(o, mx_id_name("a")), 10);
    assert_fine();
}

/* An updater that continues from a file does what the first would have done. */
static void check_file(mx_optimizer *first, mx_optimizer *second, mx_dtype dtype)
{
    char path[] = "/tmp/gluon-updater-XXXXXX";
    close(mkstemp(path));
    mx_updater *a = mx_updater_new(first), *b = mx_updater_new(second);
    mx_array *wa = filled(1, dtype), *wb = filled(1, dtype);
    for (int i = 0; i < 6; i++) {
        mx_array *grad = filled(0.1 * (i + 1), dtype);
        mx_updater_update(a, mx_id_number(3), grad, wa);
        mx_updater_update(a, mx_id_name("w:x"), grad, mx_array_copy(wa));
        if (i == 2) {
            mx_updater_save(a, path);
            mx_updater_load(b, path);
            mx_array_set(wb, wa);
        } else if (i > 2) {
            mx_updater_update(b, mx_id_number(3), grad, wb);
            mx_updater_update(b, mx_id_name("w:x"), grad, mx_array_copy(wb));
        }
        assert_fine();
    }
    assert_int_equal(mx_optimizer_num_update(second), 6);
    assert_int_equal(mx_optimizer_count(second, mx_id_name("w:x")), 6);
    assert_true(mx_item(mx_index(wa, MX_AT(0))) == mx_item(mx_index(wb, MX_AT(0))));
    mx_updater *c = mx_updater_new(mx_ftml());
    mx_updater_load(c, path);
    assert_error(MX_ERR_FILE, "optimizer:FTML");
    unlink(path);
}

static void files_continue(void **state)
{
    (void)state;
    MX_SCOPE;
    check_file(mx_sgd(.momentum = 0.9), mx_sgd(.momentum = 0.9), MX_FLOAT32);
    check_file(mx_sgd(.momentum = 0.9, .multi_precision = true), mx_sgd(.momentum = 0.9, .multi_precision = true),
               MX_FLOAT16);
    check_file(mx_adam(.multi_precision = true), mx_adam(.multi_precision = true), MX_BFLOAT16);
    check_file(mx_nadam(), mx_nadam(), MX_FLOAT64);
    check_file(mx_lamb(.multi_precision = true), mx_lamb(.multi_precision = true), MX_FLOAT16);
}

/* Four arrays are as many as a state can have. */
static mx_code count_up(void *user, mx_array *weight, mx_array *grad, mx_array **states, double lr, double wd,
                        int64_t t)
{
    (void)grad, (void)wd, (void)t, (void)user;
    for (int i = 0; i < 4; i++)
        if (mx_array_set(states[i], mx_plus_scalar(states[i], .scalar = i + 1)))
            return mx_error_code();
    return mx_array_set(weight, mx_mul_scalar(mx_add(states[0], states[3]), .scalar = lr));
}

static void files_hold_four_states(void **state)
{
    (void)state;
    MX_SCOPE;
    check_file(mx_optimizer_custom("count", count_up, 4, 0.5, NULL),
               mx_optimizer_custom("count", count_up, 4, 0.5, NULL), MX_FLOAT32);
    assert_null(mx_optimizer_custom("count", count_up, 5, 0.5, NULL));
    assert_error(MX_ERR_ARGUMENT, "0 to 4");
}

/* A file whose entry has another length, rank or type is refused with the name of the entry. */
static void wrong_entries_are_refused(void **state)
{
    (void)state;
    MX_SCOPE;
    char path[64], other[64];
    snprintf(path, sizeof path, "/tmp/updater-%d.states", (int)getpid());
    snprintf(other, sizeof other, "/tmp/updater-%d.wrong", (int)getpid());
    mx_updater *updater = mx_updater_new(mx_sgd(.momentum = 0.9));
    mx_updater_update(updater, mx_id_number(5), filled(1, MX_FLOAT32), filled(1, MX_FLOAT32));
    assert_int_equal(mx_updater_save(updater, path), MX_OK);
    mx_array_dict *dict = mx_load(path);
    const mx_dims shapes[] = {MX_DIMS(2, 1), MX_DIMS(3), MX_DIMS(2), MX_DIMS(2)};
    const mx_dtype types[] = {MX_FLOAT64, MX_FLOAT64, MX_INT64, MX_FLOAT64};
    for (int wrong = 0; wrong < 4; wrong++) {
        mx_array *arrays[16];
        const char *names[16];
        const int64_t n = mx_array_dict_count(dict);
        for (int64_t i = 0; i < n; i++) {
            names[i] = mx_array_dict_name(dict, i);
            arrays[i] = strcmp(names[i], "memory") ? mx_array_dict_at(dict, i)
                                                   : mx_zeros(.shape = shapes[wrong], .dtype = types[wrong]);
        }
        assert_int_equal(mx_save(other, (mx_arrays){arrays, n}, names), MX_OK);
        if (mx_updater_load(updater, other))
            assert_error(MX_ERR_FILE, "memory");
        else
            assert_int_equal(wrong, 3);
    }
    unlink(path), unlink(other);
}

static mx_code make_own(void *user, mx_id id, mx_array *weight, void **state)
{
    (void)weight;
    assert_string_equal(id.name, "own");
    *state = user;
    return MX_OK;
}
static mx_code update_own(void *user, mx_id id, mx_array *weight, mx_array *grad, void *state)
{
    assert_ptr_equal(user, state);
    assert_string_equal(id.name, "own");
    return mx_array_set(weight, mx_add(weight, grad));
}

static void hooks_are_called(void **state)
{
    (void)state;
    MX_SCOPE;
    int user;
    const mx_optimizer_hooks hooks = {"mine", make_own, update_own, NULL, NULL};
    mx_updater *updater = mx_updater_new(mx_optimizer_hooked(&hooks, &user));
    assert_close(stepped(updater, mx_id_name("own")), 2);
    mx_updater_save(updater, "/nowhere/x");
    assert_error(MX_ERR_UNSUPPORTED, "mine");
}

static void lars_goes_by_the_optimizers_names(void **state)
{
    (void)state;
    MX_SCOPE;
    mx_optimizer *o = mx_lars(.learning_rate = 0.5, .eta = 0.01);
    mx_updater *updater = mx_updater_new(o);
    assert_close(stepped(updater, mx_id_name("x_bias")), 1 - 0.5 * 0.01); /* an id is not a name */
    mx_optimizer_set_name(o, mx_id_number(1), "x_bias");
    assert_close(stepped(updater, mx_id_number(1)), 0.5);
}

static void bad_requests_are_refused(void **state)
{
    (void)state;
    MX_SCOPE;
    mx_updater *updater = mx_updater_new(mx_sgd());
    mx_updater_update(updater, mx_id_number(5), filled(1, MX_FLOAT64), filled(1, MX_FLOAT32));
    assert_error(MX_ERR_DTYPE, "weight 5 is float32");
    mx_updater_update(updater, mx_id_number(5), NULL, filled(1, MX_FLOAT32));
    assert_int_equal(mx_error_code(), MX_ERR_ARGUMENT);
    mx_error_clear();
    assert_null(mx_updater_new(NULL));
    assert_error(MX_ERR_ARGUMENT, "optimizer");
    mx_optimizer_set_name(mx_sgd(), mx_id_number(1), NULL);
    assert_error(MX_ERR_ARGUMENT, "name");
    mx_updater_load(updater, "/nowhere/x");
    assert_int_equal(mx_error_code(), MX_ERR_FILE);
    mx_error_clear();
}

static void nothing_leaks_when_memory_runs_out(void **state)
{
    (void)state;
    for (int n = 1; n < 80; n++) {
        const int64_t before = mx_alloc_get_stats().live_blocks;
        mx_scoped() {
            mx_array *weight = filled(1, MX_FLOAT16);
            mx_alloc_fail_at(n);
            mx_optimizer *o = mx_adam(.multi_precision = true);
            mx_updater *updater = o ? mx_updater_new(o) : NULL;
            if (updater) {
                mx_optimizer_set_name(o, mx_id_number(1), "b_bias");
                mx_optimizer_reset_wd_mult(o);
                mx_updater_update(updater, mx_id_number(1), weight, weight);
                mx_updater_update(updater, mx_id_name("a"), weight, weight);
            }
            mx_alloc_fail_at(0);
            mx_error_clear();
        }
        assert_true(mx_alloc_get_stats().live_blocks <= before + 2); /* caches may grow once */
    }
}

static void too_many_states_are_refused(void **state)
{
    (void)state;
    MX_SCOPE;
    mx_array *x = filled(1, MX_FLOAT32), *six[] = {x, x, x, x, x, x}; /* a master and four states are possible */
    assert_null(mx_optimizer_state_given(mx_id_number(1), (mx_arrays){six, 6}));
    assert_error(MX_ERR_ARGUMENT, "6 arrays, at most 5");
    assert_non_null(mx_optimizer_state_given(mx_id_number(1), (mx_arrays){six, 5}));
    assert_fine();
}

/* What saving needs is given back. */
static void saving_leaks_nothing(void **state)
{
    (void)state;
    MX_SCOPE;
    char path[64];
    snprintf(path, sizeof path, "/tmp/updater-%d.states", (int)getpid());
    mx_updater *updater = mx_updater_new(mx_sgd(.momentum = 0.9));
    mx_updater_update(updater, mx_id_number(5), filled(1, MX_FLOAT32), filled(1, MX_FLOAT32));
    int64_t live = 0;
    for (int i = 0; i < 4; i++) {
        if (i == 2)
            live = mx_alloc_get_stats().live_blocks;
        assert_int_equal(mx_updater_save(updater, path), MX_OK);
    }
    assert_int_equal(mx_alloc_get_stats().live_blocks, live);
    unlink(path);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(multipliers_have_an_order),
        cmocka_unit_test(symbols_bring_multipliers),
        cmocka_unit_test(updates_are_counted_by_weight),
        cmocka_unit_test(files_continue),
        cmocka_unit_test(files_hold_four_states),
        cmocka_unit_test(wrong_entries_are_refused),
        cmocka_unit_test(hooks_are_called),
        cmocka_unit_test(lars_goes_by_the_optimizers_names),
        cmocka_unit_test(bad_requests_are_refused),
        cmocka_unit_test(nothing_leaks_when_memory_runs_out),
        cmocka_unit_test(saving_leaks_nothing),
        cmocka_unit_test(too_many_states_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
