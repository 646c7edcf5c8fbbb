/* The trainer: steps, stale gradients, several contexts, deferred parameters, saved states.
 *
 * The network is y = sum(w * x) with parameters created by hand, so that every gradient is known.
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
#include "gluon/kvstore.h"
#include "gluon/nn.gen.h"
#include "gluon/op.gen.h"

#define ANYWHERE ((mx_context){0})

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

/* Two parameters "b" (2,) and "a" (3,), made in this order, all ones. */
static mx_params *make_params(const mx_context *contexts, int count)
{
    mx_params *params = mx_params_new("", NULL);
    mx_params_get(params, "b", .shape = MX_DIMS(2));
    mx_params_get(params, "a", .shape = MX_DIMS(3));
    mx_params_initialize(params, mx_one(), contexts, count, false);
    return params;
}

/* d loss / d p = slope for all elements of p on a context */
static void backward(mx_params *params, const char *name, double slope, mx_context context)
{
    mx_array *loss;
    mx_record()
        loss = mx_mul_scalar(mx_sum(mx_parameter_data(mx_params_find(params, name), context)), .scalar = slope);
    mx_backward(loss);
    assert_fine();
}

static void backward_all(mx_params *params, double slope)
{
    backward(params, "a", slope, ANYWHERE);
    backward(params, "b", 2 * slope, ANYWHERE);
}

static double first(mx_params *params, const char *name, mx_context context)
{
    double v[8];
    mx_array *data = mx_parameter_data(mx_params_find(params, name), context);
    mx_array_read_doubles(data, v, mx_size(data));
    assert_fine();
    return v[0];
}

/* ---- steps ------------------------------------------------------------------------------------------------------- */

static void a_step_divides_by_the_batch(void **state)
{
    (void)state;
    MX_SCOPE;
    mx_params *params = make_params(NULL, 0);
    mx_trainer *trainer = mx_trainer_new(params, "sgd", "learning_rate=0.5, rescale_grad=3");
    assert_int_equal(mx_trainer_count(trainer), 2);
    assert_string_equal(mx_parameter_name(mx_trainer_at(trainer, 0)), "a"); /* in order of names */
    assert_null(mx_trainer_at(trainer, 2));
    backward_all(params, 4);
    mx_trainer_step(trainer, 10);
    assert_close(first(params, "a", ANYWHERE), 1 - 0.5 * 3 * 4 / 10);
    assert_close(first(params, "b", ANYWHERE), 1 - 0.5 * 3 * 8 / 10);
    backward_all(params, 1);
    mx_trainer_step(trainer, 1); /* the divisor does not accumulate */
    assert_close(first(params, "a", ANYWHERE), 0.4 - 0.5 * 3);
    assert_fine();
}

static void parameters_have_multipliers(void **state)
{
    (void)state;
    MX_SCOPE;
    mx_params *params = make_params(NULL, 0);
    mx_parameter_set_mults(mx_params_find(params, "a"), 0.1, 0);
    mx_trainer *trainer = mx_trainer_with(params, mx_sgd(.learning_rate = 0.5, .wd = 0.2));
    backward_all(params, 1);
    mx_trainer_step(trainer, 1);
    assert_close(first(params, "a", ANYWHERE), 1 - 0.05);
    assert_close(first(params, "b", ANYWHERE), 1 - 0.5 * (2 + 0.2));
}

static void the_rate_can_be_changed(void **state)
{
    (void)state;
    MX_SCOPE;
    mx_params *params = make_params(NULL, 0);
    mx_trainer *trainer = mx_trainer_new(params, "sgd", NULL);
    assert_close(mx_trainer_learning_rate(trainer), 0.01);
    assert_int_equal(mx_trainer_set_learning_rate(trainer, 0.25), MX_OK);
    backward_all(params, 1);
    mx_trainer_step(trainer, 1);
    assert_close(first(params, "a", ANYWHERE), 0.75);
    mx_optimizer_set_scheduler(mx_trainer_optimizer(trainer), mx_factor_scheduler(1, .base_lr = 0.5));
    assert_close(mx_trainer_learning_rate(trainer), 0.5);
    mx_trainer_set_learning_rate(trainer, 1);
    assert_error(MX_ERR_STATE, "schedule");
}

static void parameters_without_gradient_stay(void **state)
{
    (void)state;
    MX_SCOPE;
    mx_params *params = make_params(NULL, 0);
    mx_parameter_set_grad_req(mx_params_find(params, "b"), MX_GRAD_NULL);
    mx_trainer *trainer = mx_trainer_new(params, "sgd", "learning_rate=0.5");
    backward(params, "a", 1, ANYWHERE);
    mx_trainer_step(trainer, 1);
    assert_fine();
    assert_close(first(params, "a", ANYWHERE), 0.5);
    assert_close(first(params, "b", ANYWHERE), 1);
}

/* ---- stale gradients --------------------------------------------------------------------------------------------- */

static void stale_gradients_are_noticed(void **state)
{
    (void)state;
    MX_SCOPE;
    mx_params *params = make_params(NULL, 0);
    mx_trainer *trainer = mx_trainer_new(params, "sgd", "learning_rate=0.5");
    mx_trainer_step(trainer, 1);
    assert_error(MX_ERR_STATE, "parameter a");
    backward(params, "a", 1, ANYWHERE);
    mx_trainer_step(trainer, 1);
    assert_error(MX_ERR_STATE, "parameter b");
    assert_close(first(params, "a", ANYWHERE), 1); /* nothing moved */
    mx_trainer_step_ignoring_stale(trainer, 1);
    assert_close(first(params, "a", ANYWHERE), 0.5);
    assert_close(first(params, "b", ANYWHERE), 1);
    backward_all(params, 1);
    mx_trainer_step(trainer, 1);
    assert_fine();
    mx_params_zero_grad(params); /* zeros are no new gradient */
    mx_trainer_step(trainer, 1);
    assert_error(MX_ERR_STATE, "since the last step");
}

static void gradients_can_be_gathered(void **state)
{
    (void)state;
    MX_SCOPE;
    mx_params *params = make_params(NULL, 0);
    mx_parameter_set_grad_req(mx_params_find(params, "a"), MX_GRAD_ADD);
    mx_parameter_set_grad_req(mx_params_find(params, "b"), MX_GRAD_ADD);
    mx_trainer *trainer = mx_trainer_new(params, "sgd", "learning_rate=1");
    for (int i = 0; i < 256; i++)
        mx_scoped()
            backward_all(params, 1.0 / 256);
    mx_trainer_step(trainer, 1);
    assert_fine();
    assert_close(first(params, "a", ANYWHERE), 0);
    assert_close(first(params, "b", ANYWHERE), -1);
}

static void unready_parameters_are_named(void **state)
{
    (void)state;
    MX_SCOPE;
    mx_params *params = mx_params_new("net_", NULL);
    mx_parameter *p = mx_params_get(params, "w", .shape = MX_DIMS(0, 2), .allow_deferred_init = true);
    mx_trainer *trainer = mx_trainer_new(params, "sgd", NULL);
    mx_trainer_step(trainer, 1);
    assert_error(MX_ERR_PARAMETER, "net_w");
    mx_params_initialize(params, mx_one(), NULL, 0, false);
    mx_trainer_step_ignoring_stale(trainer, 1);
    assert_error(MX_ERR_DEFERRED, "net_w");
    mx_parameter_set_data(p, mx_empty(MX_DIMS(3, 2), MX_FLOAT32, mx_cpu(0)));
    mx_trainer_step_ignoring_stale(trainer, 1);
    assert_fine();
    mx_trainer_step(trainer, 0);
    assert_error(MX_ERR_ARGUMENT, "batch_size");
    assert_null(mx_trainer_new(params, "sdg", NULL));
    assert_error(MX_ERR_ARGUMENT, "sdg");
    assert_null(mx_trainer_with(NULL, mx_sgd()));
    assert_int_equal(mx_error_code(), MX_ERR_ARGUMENT);
    mx_error_clear();
}

/* ---- several contexts -------------------------------------------------------------------------------------------- */

static const mx_context both[2] = {{MX_CPU, 0}, {MX_CPU, 1}};

static void copies_learn_from_the_sum(void **state)
{
    (void)state;
    static const char *const names[] = {"sgd", "adam", "sgld"};
    for (int k = 0; k < 3; k++) {
        MX_SCOPE;
        mx_params *params = make_params(both, 2);
        mx_trainer *trainer = mx_trainer_new(params, names[k], "learning_rate=0.5");
        for (int step = 0; step < 3; step++) {
            for (int c = 0; c < 2; c++) {
                backward(params, "a", 1 + c, both[c]);
                backward(params, "b", 1 + c, both[c]);
            }
            mx_trainer_step(trainer, 1);
            assert_fine();
            if (k == 0)
                assert_close(first(params, "a", both[0]), 1 - 1.5 * (step + 1));
            assert_close(first(params, "a", both[0]) - first(params, "a", both[1]), 0);
            assert_close(first(params, "b", both[0]) - first(params, "b", both[1]), 0);
        }
        backward(params, "a", 1, both[0]); /* gradients that were new once are used again */
        mx_trainer_step(trainer, 1);
        assert_fine();
        assert_close(first(params, "b", both[0]) - first(params, "b", both[1]), 0);
        if (k == 0)
            assert_close(first(params, "b", both[0]), 1 - 1.5 * 4);
        mx_trainer_allreduce_grads(trainer);
        assert_error(MX_ERR_STATE, "MX_SYNC_GRADIENTS");
        mx_trainer_update(trainer, 1, false);
        assert_error(MX_ERR_STATE, "MX_SYNC_GRADIENTS");
    }
}

/* Nothing changes in a first step with a gradient that was never computed. */
static void a_first_step_needs_all_gradients(void **state)
{
    (void)state;
    MX_SCOPE;
    mx_params *params = make_params(both, 2);
    mx_trainer *trainer = mx_trainer_new(params, "sgd", "learning_rate=0.5");
    backward(params, "a", 1, both[0]);
    mx_trainer_step(trainer, 1);
    assert_error(MX_ERR_STATE, "cpu(1)");
    assert_close(first(params, "a", both[0]), 1);
}

/* Values of all copies, trained or not, start from those of the first. */
static void the_first_step_spreads_values(void **state)
{
    (void)state;
    for (int sync = MX_SYNC_WEIGHTS; sync <= MX_SYNC_NOTHING; sync++) {
        MX_SCOPE;
        mx_params *params = make_params(both, 2);
        mx_parameter *b = mx_params_find(params, "b");
        mx_parameter_set_grad_req(b, MX_GRAD_NULL);
        mx_array_fill(mx_parameter_data(b, both[0]), 3);
        mx_array_fill(mx_parameter_data(b, both[1]), 5);
        mx_array_fill(mx_parameter_data(mx_params_find(params, "a"), both[1]), 7);
        mx_trainer *trainer = mx_trainer_new(params, "sgd", "learning_rate=1");
        mx_trainer_set_store(trainer, NULL, (mx_trainer_sync)sync);
        for (int c = 0; c < 2; c++)
            backward(params, "a", 1 + c, both[c]);
        mx_trainer_step(trainer, 1);
        assert_fine();
        const bool apart = sync == MX_SYNC_NOTHING;
        assert_close(first(params, "b", both[1]), apart ? 5 : 3);
        assert_close(first(params, "a", both[0]), apart ? 0 : 1 - 3);
        assert_close(first(params, "a", both[1]), apart ? 7 - 2 : 1 - 3);
        assert_int_equal(mx_trainer_store(trainer) != NULL, !apart);
    }
}

/* Copies that exchange nothing have states of their own. */
static void copies_can_learn_apart(void **state)
{
    (void)state;
    MX_SCOPE;
    mx_params *params = make_params(both, 2);
    mx_parameter *p = mx_params_find(params, "a");
    mx_trainer *trainer = mx_trainer_over(&p, 1, mx_sgd(.learning_rate = 1, .momentum = 0.5));
    mx_trainer_set_store(trainer, NULL, MX_SYNC_NOTHING);
    double w[2] = {1, 1}, m[2] = {0, 0};
    for (int step = 0; step < 3; step++) {
        for (int c = 0; c < 2; c++) {
            backward(params, "a", 1 + c, both[c]);
            m[c] = 0.5 * m[c] - (1 + c), w[c] += m[c];
        }
        mx_trainer_step(trainer, 1);
        assert_fine();
        assert_close(first(params, "a", both[0]), w[0]);
        assert_close(first(params, "a", both[1]), w[1]);
    }
    assert_int_equal(mx_optimizer_count(mx_trainer_optimizer(trainer), mx_id_number(0)), 3);
    mx_trainer_set_store(trainer, mx_kvstore_new("device"), MX_SYNC_NOTHING);
    assert_error(MX_ERR_ARGUMENT, "MX_SYNC_NOTHING");
}

static void sums_can_be_changed_before_the_update(void **state)
{
    (void)state;
    MX_SCOPE;
    mx_params *params = make_params(both, 2);
    mx_trainer *trainer = mx_trainer_new(params, "sgd", "learning_rate=0.5");
    mx_trainer_set_store(trainer, NULL, MX_SYNC_GRADIENTS);
    for (int c = 0; c < 2; c++) {
        backward(params, "a", 1 + c, both[c]);
        backward(params, "b", 1 + c, both[c]);
    }
    mx_trainer_allreduce_grads(trainer);
    for (int c = 0; c < 2; c++) {
        double g[3];
        mx_array *grad = mx_parameter_grad(mx_params_find(params, "a"), both[c]);
        mx_array_read_doubles(grad, g, 3);
        assert_close(g[0], 3);
        mx_array_fill(grad, 10);
    }
    mx_trainer_update(trainer, 1, false);
    assert_fine();
    assert_close(first(params, "a", both[0]), -4);
    assert_close(first(params, "a", both[1]), -4);
    assert_close(first(params, "b", both[1]), 1 - 1.5);
}

/* ---- saving ------------------------------------------------------------------------------------------------------ */

static void train(mx_params *params, mx_trainer *trainer, int steps)
{
    for (int i = 0; i < steps; i++) {
        MX_SCOPE;
        backward_all(params, 1 + 0.5 * i);
        mx_trainer_step(trainer, 2);
    }
    assert_fine();
}

static const char *const savers[] = {"sgd|momentum=0.9", "adam|learning_rate=0.1", "nadam|learning_rate=0.1",
                                     "rmsprop|centered=True", "adam|multi_precision=True", "sgd|"};

/* Six steps in a row, or three, save, load into a fresh trainer, three: the same weights. */
static void saved_states_continue(void **state)
{
    (void)state;
    char path[] = "/tmp/gluon_trainer_XXXXXX";
    close(mkstemp(path));
    for (size_t k = 0; k < sizeof savers / sizeof *savers; k++) {
        MX_SCOPE;
        char name[64];
        snprintf(name, sizeof name, "%s", savers[k]);
        char *options = strchr(name, '|');
        *options++ = 0;
        mx_params *straight = make_params(NULL, 0), *broken = make_params(NULL, 0);
        if (strstr(options, "multi"))
            for (int i = 0; i < 2; i++) {
                mx_parameter_cast(mx_params_at(straight, i), MX_FLOAT16);
                mx_parameter_cast(mx_params_at(broken, i), MX_FLOAT16);
            }
        mx_trainer *one = mx_trainer_new(straight, name, options), *before = mx_trainer_new(broken, name, options);
        train(straight, one, 3);
        train(straight, one, 3);
        train(broken, before, 3);
        assert_int_equal(mx_trainer_save_states(before, path), MX_OK);
        mx_trainer *after = mx_trainer_new(broken, name, options);
        assert_int_equal(mx_trainer_load_states(after, path), MX_OK);
        train(broken, after, 3);
        assert_close(first(broken, "a", ANYWHERE), first(straight, "a", ANYWHERE));
        assert_close(first(broken, "b", ANYWHERE), first(straight, "b", ANYWHERE));
        assert_int_equal(mx_optimizer_num_update(mx_trainer_optimizer(after)), 6);
    }
    unlink(path);
}

/* Copies that exchange nothing go on from the same state, the one that was saved; "b" learns nothing and has none. */
static void copies_continue_from_one_state(void **state)
{
    (void)state;
    MX_SCOPE;
    char path[] = "/tmp/gluon_trainer_XXXXXX";
    close(mkstemp(path));
    for (int loaded = 0; loaded < 2; loaded++) {
        mx_params *params = make_params(both, 2);
        mx_parameter_set_grad_req(mx_params_find(params, "b"), MX_GRAD_NULL);
        mx_trainer *trainer = mx_trainer_new(params, "sgd", "learning_rate=1, momentum=0.5");
        mx_trainer_set_store(trainer, NULL, MX_SYNC_NOTHING);
        if (loaded)
            assert_int_equal(mx_trainer_load_states(trainer, path), MX_OK);
        for (int c = 0; c < 2; c++)
            backward(params, "a", loaded ? 1 : 4, both[c]);
        assert_int_equal(mx_trainer_step(trainer, 1), MX_OK);
        for (int c = 0; c < 2; c++) /* 1 - 4, and 1 - (1 + 0.5 * 4) */
            assert_close(first(params, "a", both[c]), loaded ? -2 : -3);
        if (!loaded)
            assert_int_equal(mx_trainer_save_states(trainer, path), MX_OK);
    }
    unlink(path);
}

static void wrong_files_change_nothing(void **state)
{
    (void)state;
    MX_SCOPE;
    char path[] = "/tmp/gluon_trainer_XXXXXX";
    close(mkstemp(path));
    mx_params *params = make_params(NULL, 0), *others = mx_params_new("", NULL);
    mx_trainer *trainer = mx_trainer_new(params, "adam", NULL);
    train(params, trainer, 2);
    mx_trainer_save_states(trainer, path);
    mx_trainer_load_states(mx_trainer_new(params, "sgd", NULL), path);
    assert_error(MX_ERR_FILE, "optimizer:SGD");
    mx_params_get(others, "a", .shape = MX_DIMS(3));
    mx_params_get(others, "c", .shape = MX_DIMS(7));
    mx_trainer_load_states(mx_trainer_new(others, "adam", NULL), path);
    assert_error(MX_ERR_PARAMETER, "initialised");
    mx_params_initialize(others, mx_one(), NULL, 0, false);
    mx_trainer *wrong = mx_trainer_new(others, "adam", NULL);
    mx_trainer_load_states(wrong, path);
    assert_error(MX_ERR_FILE, "(7,)");
    assert_int_equal(mx_optimizer_num_update(mx_trainer_optimizer(wrong)), 0);
    mx_params_get(others, "d", .shape = MX_DIMS(7));
    mx_trainer_load_states(mx_trainer_new(others, "adam", NULL), path);
    assert_error(MX_ERR_FILE, "updates");
    FILE *f = fopen(path, "wb");
    fputs("nonsense", f);
    fclose(f);
    mx_trainer_load_states(trainer, path);
    assert_int_equal(mx_error_code(), MX_ERR_FILE);
    mx_error_clear();
    unlink(path);
    mx_trainer_load_states(trainer, path);
    assert_int_equal(mx_error_code(), MX_ERR_FILE);
    mx_error_clear();
    mx_trainer_save_states(trainer, "/nonexistent/folder/file");
    assert_int_equal(mx_error_code(), MX_ERR_FILE);
    mx_error_clear();
    train(params, trainer, 1);
}

/* ---- memory ------------------------------------------------------------------------------------------------------ */

static void nothing_leaks_when_memory_runs_out(void **state)
{
    (void)state;
    for (int n = 1; n < 80; n++) {
        const int64_t before = mx_alloc_get_stats().live_blocks;
        mx_scoped() {
            mx_params *params = make_params(both, 2);
            for (int c = 0; c < 2; c++) {
                backward(params, "a", 1, both[c]);
                backward(params, "b", 1, both[c]);
            }
            mx_alloc_fail_at(n);
            mx_trainer *trainer = mx_trainer_new(params, "adam", "learning_rate=0.1");
            if (trainer)
                mx_trainer_step(trainer, 1);
            mx_alloc_fail_at(0);
            mx_error_clear();
        }
        assert_true(mx_alloc_get_stats().live_blocks <= before + 2); /* caches may grow once */
    }
}

static void steps_allocate_nothing_that_stays(void **state)
{
    (void)state;
    MX_SCOPE;
    mx_params *params = make_params(NULL, 0);
    mx_trainer *trainer = mx_trainer_new(params, "adam", NULL);
    train(params, trainer, 2);
    const int64_t before = mx_alloc_get_stats().live_blocks;
    train(params, trainer, 20);
    assert_int_equal(mx_alloc_get_stats().live_blocks, before);
}

/* ---- optimizers with states of their own ----------------------------------------------------------------------- */

typedef struct own_states {
    int made, released, updates, last_index;
    bool gone, refuse;
} own_states;

static mx_code make_own(void *user, mx_id id, mx_array *weight, void **state)
{
    own_states *own = user;
    (void)weight;
    if (own->refuse)
        return MX_ERR_STATE;
    own->made++, own->last_index = (int)id.number;
    *state = own;
    return MX_OK;
}
static mx_code update_own(void *user, mx_id id, mx_array *weight, mx_array *grad, void *state)
{
    own_states *own = state;
    assert_ptr_equal(user, state);
    own->updates++, own->last_index = (int)id.number;
    mx_array_set(weight, mx_sub(weight, grad)); /* mx_optimizer_rescale_grad is left to the user */
    return MX_OK;
}
static void release_own(void *state) { ((own_states *)state)->released++; }
static void forget_own(void *user) { ((own_states *)user)->gone = true; }

static void optimizers_keep_states_of_their_own(void **state)
{
    (void)state;
    own_states own = {0};
    const mx_optimizer_hooks hooks = {"own", make_own, update_own, release_own, forget_own};
    {
        MX_SCOPE;
        mx_params *params = make_params(NULL, 0);
        /* A list keeps its order: "b" is number 0. */
        mx_parameter *const list[] = {mx_params_find(params, "b"), mx_params_find(params, "a")};
        mx_trainer *trainer = mx_trainer_over(list, 2, mx_optimizer_hooked(&hooks, &own));
        assert_fine();
        assert_string_equal(mx_parameter_name(mx_trainer_at(trainer, 0)), "b");
        own.refuse = true;
        backward(params, "a", 2, ANYWHERE);
        backward(params, "b", 2, ANYWHERE);
        assert_int_not_equal(mx_trainer_step(trainer, 4), MX_OK);
        assert_error(MX_ERR_CALLBACK, "own");
        own.refuse = false;
        for (int i = 0; i < 2; i++) {
            backward(params, "a", 2, ANYWHERE);
            backward(params, "b", 3, ANYWHERE);
            mx_trainer_step(trainer, 4);
            assert_fine();
        }
        assert_int_equal(own.made, 2);
        assert_int_equal(own.updates, 4);
        assert_int_equal(own.last_index, 1);
        assert_close(mx_optimizer_rescale_grad(mx_trainer_optimizer(trainer)), 0.25);
        assert_close(mx_item(mx_sum(mx_parameter_data(list[0], ANYWHERE))), 2 * (1 - 2 * 3));
        mx_trainer_save_states(trainer, "/nowhere");
        assert_error(MX_ERR_UNSUPPORTED, "own");
    }
    assert_int_equal(own.released, 2);
    assert_true(own.gone);
    MX_SCOPE;
    assert_null(mx_optimizer_hooked(&(mx_optimizer_hooks){"x", NULL, NULL, NULL, NULL}, NULL));
    assert_error(MX_ERR_ARGUMENT, "update");
    assert_null(mx_trainer_over(NULL, 2, mx_sgd()));
    assert_error(MX_ERR_ARGUMENT, "2 parameters");
}

/* Gradients of 0.3 on two contexts in units of 0.5: about every second step sends one. */
static void gradients_can_be_compressed(void **state)
{
    (void)state;
    MX_SCOPE;
    mx_params *params = make_params(both, 2);
    mx_parameter *p = mx_params_find(params, "a");
    mx_trainer *trainer = mx_trainer_over(&p, 1, mx_sgd(.learning_rate = 1));
    mx_trainer_set_compression(trainer, "2bit", 0.5);
    assert_fine();
    const double start = mx_item(mx_index(mx_parameter_data(p, both[0]), MX_AT(0)));
    double moved = 0;
    for (int i = 0; i < 20; i++) {
        backward(params, "a", 0.3, both[0]);
        backward(params, "a", 0.3, both[1]);
        mx_trainer_step(trainer, 1);
        assert_fine();
        moved = start - mx_item(mx_index(mx_parameter_data(p, both[i % 2]), MX_AT(0)));
        assert_close(moved * 2, round(moved * 2)); /* whole units */
    }
    assert_true(fabs(moved - 20 * 0.6) <= 1);
    mx_trainer_set_compression(trainer, "4bit", 0.5);
    assert_error(MX_ERR_ATTRIBUTE, "4bit");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_step_divides_by_the_batch),
        cmocka_unit_test(parameters_have_multipliers),
        cmocka_unit_test(the_rate_can_be_changed),
        cmocka_unit_test(parameters_without_gradient_stay),
        cmocka_unit_test(stale_gradients_are_noticed),
        cmocka_unit_test(gradients_can_be_gathered),
        cmocka_unit_test(unready_parameters_are_named),
        cmocka_unit_test(copies_learn_from_the_sum),
        cmocka_unit_test(a_first_step_needs_all_gradients),
        cmocka_unit_test(the_first_step_spreads_values),
        cmocka_unit_test(copies_can_learn_apart),
        cmocka_unit_test(sums_can_be_changed_before_the_update),
        cmocka_unit_test(saved_states_continue),
        cmocka_unit_test(copies_continue_from_one_state),
        cmocka_unit_test(wrong_files_change_nothing),
        cmocka_unit_test(nothing_leaks_when_memory_runs_out),
        cmocka_unit_test(steps_allocate_nothing_that_stays),
        cmocka_unit_test(optimizers_keep_states_of_their_own),
        cmocka_unit_test(gradients_can_be_compressed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
