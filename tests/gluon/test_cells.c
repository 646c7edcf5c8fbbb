/* Recurrent cells: unrolled against stepped and against the layers, stacks, both directions, modifiers, names in graphs,
 * hybridized, wrong arguments.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "block_check.h"
#include "gluon/rnn/cell.h"

enum { T = 4, N = 3, C = 5, H = 4 };

static mx_block *started(mx_block *block)
{
    mx_random_seed(3);
    mx_initialize(block, mx_uniform(0.5), mx_cpu(0));
    check_no_error();
    return block;
}

static mx_array *step_of(mx_array *x, int t) /* (T, N, C) -> (N, C) */
{
    mx_dims shape = mx_shape(x);
    return mx_reshape(mx_slice_axis(x, .axis = 0, .begin = t, .end = t + 1), .shape = MX_DIMS(shape.d[1], shape.d[2]));
}

static void near(mx_array *a, mx_array *b)
{
    check_no_error();
    check_near(a, mx_shape(b), check_values(b), 1e-5);
}

static void check_steps(mx_block *cell, const mx_unrolled *wanted, mx_array *x)
{
    mx_cell_reset(cell);
    mx_arrays states = mx_cell_begin_state(cell, .batch_size = N);
    for (int t = 0; t < T; t++) {
        const mx_stepped step = mx_cell_step(cell, step_of(x, t), states);
        near(step.output, step_of(wanted->output, t));
        states = step.states;
    }
    assert_int_equal(states.n, wanted->states.n);
    for (int64_t i = 0; i < states.n; i++)
        near(states.v[i], wanted->states.v[i]);
}

/* Unrolling equals stepping, whatever the layout and form of the inputs. */
static void check_unroll(mx_block *cell, mx_array *x)
{
    const mx_unrolled whole = mx_cell_unroll(cell, x, .layout = "TNC");
    check_no_error();
    assert_non_null(whole.output);
    const mx_unrolled other = mx_cell_unroll(cell, mx_swapaxes(x, .dim1 = 0, .dim2 = 1));
    near(mx_swapaxes(other.output, .dim1 = 0, .dim2 = 1), whole.output);
    const mx_unrolled list =
        mx_cell_unroll(cell, NULL, .steps = MX_ARRAYS(step_of(x, 0), step_of(x, 1), step_of(x, 2), step_of(x, 3)),
                       .merge_outputs = MX_STEPS);
    check_no_error();
    assert_int_equal(list.steps.n, T);
    near(list.steps.v[2], step_of(whole.output, 2));
    check_steps(cell, &whole, x);
}

static mx_block *stack(void)
{
    mx_block *cells = mx_hybrid_sequential_rnn_cell();
    mx_name_scope(cells)
    {
        mx_cell_add(cells, mx_lstm_cell(H));
        mx_cell_add(cells, mx_residual_cell(mx_gru_cell(H)));
        mx_cell_add(cells, mx_dropout_cell(0.5));
        mx_cell_add(cells, mx_zoneout_cell(mx_rnn_cell(H), .zoneout_outputs = 0.2, .zoneout_states = 0.3));
        mx_cell_add(cells, mx_variational_dropout_cell(mx_lstmp_cell(H, 3), .drop_states = 0.4));
    }
    return cells;
}

static void test_unroll(void **state)
{
    (void)state;
    MX_SCOPE;
    mx_block *cells[] = {mx_rnn_cell(H, .activation = "softrelu"), mx_lstm_cell(H), mx_gru_cell(H), mx_lstmp_cell(H, 2),
                         mx_residual_cell(mx_gru_cell(C)), stack()};
    for (size_t i = 0; i < sizeof cells / sizeof *cells; i++) {
        check_unroll(started(cells[i]), check_array(MX_DIMS(T, N, C), 1));
        mx_hybridize(cells[i]);
        check_unroll(cells[i], check_array(MX_DIMS(T, N, C), 2));
    }
}

/* Two cells equal the bidirectional layer. */
/* Inputs and outputs dropped, but no states: the cell inside unrolls itself. */
static void test_variational(void **state)
{
    (void)state;
    MX_SCOPE;
    mx_block *cell = started(mx_variational_dropout_cell(mx_lstm_cell(H), .drop_inputs = 0.3, .drop_outputs = 0.2));
    mx_array *x = check_array(MX_DIMS(T, N, C), 1);
    check_unroll(cell, x);
    assert_null(mx_cell_unroll(cell, x, .layout = "NC").output);
    check_error(MX_ERR_ARGUMENT, "layout='NC'");
    assert_null(mx_cell_unroll(cell, x, .layout = "TNC", .length = T + 1).output);
    check_error(MX_ERR_ARGUMENT, "length is 5");
}

static void test_both_directions(void **state)
{
    (void)state;
    MX_SCOPE;
    mx_block *layer = started(mx_lstm(H, .bidirectional = true, .input_size = C));
    mx_block *cells[] = {mx_lstm_cell(H, .input_size = C), mx_lstm_cell(H, .input_size = C)};
    mx_block *both = started(mx_bidirectional_cell(cells[0], cells[1]));
    mx_params *from = mx_collect_params(layer), *to = mx_collect_params(both);
    for (int64_t i = 0; i < mx_params_count(from); i++)
        mx_parameter_set_data(mx_params_at(to, i), mx_parameter_data(mx_params_at(from, i), mx_cpu(0)));
    mx_array *x = check_array(MX_DIMS(T, N, C), 1);
    const mx_unrolled got = mx_cell_unroll(both, x, .layout = "TNC");
    near(got.output, mx_call(layer, x));
    assert_int_equal(got.states.n, 4);
    const mx_unrolled steps = mx_cell_unroll(both, x, .layout = "TNC", .merge_outputs = MX_STEPS);
    near(steps.steps.v[3], step_of(got.output, 3));
    assert_int_equal(mx_block_call_many(both, MX_ARRAYS(step_of(x, 0))).n, 0);
    check_error(MX_ERR_UNSUPPORTED, "unroll");
}

/* Each sequence has its own length: outputs past its end are zero, states are those at its end. */
static void test_valid_length(void **state)
{
    (void)state;
    MX_SCOPE;
    const float lengths[N] = {2, 4, 1};
    mx_block *both = started(mx_bidirectional_cell(mx_lstm_cell(3), mx_gru_cell(2)));
    mx_array *x = check_array(MX_DIMS(N, T, C), 1), *valid = mx_array_from(MX_DIMS(N), MX_FLOAT32, lengths);
    const mx_unrolled all = mx_cell_unroll(both, x, .valid_length = valid);
    check_no_error();
    for (int n = 0; n < N; n++) {
        MX_SCOPE;
        const int length = (int)lengths[n];
        mx_array *one = mx_slice(x, .begin = MX_DIMS(n, 0, 0), .end = MX_DIMS(n + 1, length, C));
        const mx_unrolled alone = mx_cell_unroll(both, one);
        near(mx_slice(all.output, .begin = MX_DIMS(n, 0, 0), .end = MX_DIMS(n + 1, length, C)), alone.output);
        for (int64_t i = 0; i < all.states.n; i++)
            near(mx_slice_axis(all.states.v[i], .axis = 0, .begin = n, .end = n + 1), alone.states.v[i]);
        if (length == T)
            continue;
        const double *rest =
            check_values(mx_slice(all.output, .begin = MX_DIMS(n, length, 0), .end = MX_DIMS(n + 1, T, C)));
        for (int i = 0; i < (T - length) * 5; i++)
            assert_true(rest[i] == 0);
    }
}

/* reset clears what is stored between steps. */
static void test_training(void **state)
{
    (void)state;
    MX_SCOPE;
    mx_block *cell = started(mx_variational_dropout_cell(mx_rnn_cell(50), .drop_inputs = 0.5));
    mx_arrays states = mx_cell_begin_state(cell, .batch_size = 1);
    mx_array *x = mx_ones(.shape = MX_DIMS(1, 50));
    const mx_stepped plain = mx_cell_step(cell, x, states);
    check_no_error();
    mx_cell_reset(cell);
    mx_train_mode() {
        const mx_stepped a = mx_cell_step(cell, x, states), b = mx_cell_step(cell, x, states);
        check_same(a.output, b.output); /* one mask */
        assert_memory_not_equal(check_values(a.output), check_values(plain.output), 50 * sizeof(double));
    }
    mx_cell_reset(cell);
    check_same(mx_cell_step(cell, x, states).output, plain.output);
}

/* ---- names ------------------------------------------------------------------------------------------------------- */

static void check_outputs(mx_arrays arrays, const char *const *wanted)
{
    const mx_names names = mx_symbol_outputs(mx_symbol_internals(mx_symbol_of(arrays)));
    check_no_error();
    int64_t at = 0;
    for (int64_t i = 0; i < names.n; i++)
        if (strstr(names.v[i], "_output"))
            assert_string_equal(names.v[i], wanted[at++]);
    assert_null(wanted[at]);
}

/* Nodes have the names of the classic interface. */
static void test_names(void **state)
{
    static const char *const lstm[] = {
        "split0_output0",      "split0_output1",       "c_t0_i2h_output",          "c_begin_state_0_output",
        "c_t0_h2h_output",     "c_t0_plus0_output",    "c_t0_slice_output0",       "c_t0_slice_output1",
        "c_t0_slice_output2",  "c_t0_slice_output3",   "c_t0_o_output",            "c_t0_f_output",
        "c_begin_state_1_output", "c_t0_mul0_output",  "c_t0_i_output",            "c_t0_c_output",
        "c_t0_mul1_output",    "c_t0_state_output",    "c_t0_activation0_output",  "c_t0_out_output", NULL};
    static const char *const gru[] = {
        "g_t0_i2h_output",        "g_t0_i2h_slice_output0", "g_t0_i2h_slice_output1", "g_t0_i2h_slice_output2",
        "g_begin_state_0_output", "g_t0_h2h_output",        "g_t0_h2h_slice_output0", "g_t0_h2h_slice_output1",
        "g_t0_h2h_slice_output2", "g_t0_plus1_output",      "g_t0_z_act_output",      "g_t0_ones_like0_output",
        "g_t0_minus0_output",     "g_t0_plus0_output",      "g_t0_r_act_output",      "g_t0_mul0_output",
        "g_t0_plus2_output",      "g_t0_h_act_output",      "g_t0_mul1_output",       "g_t0_mul20_output",
        "g_t0_out_output",        "g_residualcellt0_fwd_output", NULL};
    (void)state;
    MX_SCOPE;
    mx_symbol_names_enter("");
    const mx_unrolled seq =
        mx_cell_unroll(mx_lstm_cell(H, .prefix = "c_"), mx_variable("data"), .length = 2, .merge_outputs = MX_STEPS);
    check_no_error();
    check_outputs((mx_arrays){seq.steps.v, 1}, lstm);
    mx_block *cell = mx_residual_cell(mx_gru_cell(H, .prefix = "g_"));
    assert_string_equal(mx_block_prefix(cell), "g_residualcell");
    const mx_stepped step =
        mx_cell_step(cell, mx_variable("data"), mx_cell_begin_state(cell, .batch_size = N, .symbolic = true));
    check_outputs((mx_arrays){&step.output, 1}, gru);
    mx_symbol_names_leave();
}

static void test_text(void **state)
{
    (void)state;
    MX_SCOPE;
    mx_block *cells = mx_sequential_rnn_cell();
    mx_cell_add(cells, mx_zoneout_cell(mx_rnn_cell(3), .zoneout_outputs = 0.1));
    mx_cell_add(cells, mx_dropout_cell(0.3));
    assert_string_equal(mx_block_text(cells),
                        "SequentialRNNCell(\n(0): ZoneoutCell(p_out=0.1, p_state=0.0, RNNCell(None -> "
                        "3, tanh))\n(1): DropoutCell(rate=0.3, axes=())\n)");
    assert_string_equal(mx_block_text(mx_bidirectional_cell(mx_gru_cell(2), mx_lstmp_cell(2, 1))),
                        "BidirectionalCell(forward=GRUCell(None -> 6), backward=LSTMPCell(None -> 8 -> 1))");
    assert_string_equal(
        mx_block_text(mx_variational_dropout_cell(mx_lstm_cell(3), .drop_outputs = 0.3, .drop_states = 0.2)),
        "VariationalDropoutCell(p_out = 0.3, p_state = 0.2)");
    assert_int_equal(mx_cell_state_count(cells), 1);
    mx_state_info info;
    assert_int_equal(mx_cell_state_info(cells, 0, 7, &info), MX_OK);
    assert_int_equal(info.shape.n, 2);
    assert_int_equal(info.shape.d[0], 7);
    assert_string_equal(info.layout, "NC");
}

static void test_mistakes(void **state)
{
    (void)state;
    MX_SCOPE;
    mx_block *cell = started(mx_lstm_cell(H)), *dense = mx_dense(3);
    mx_array *x = check_array(MX_DIMS(N, T, C), 1);
    assert_null(mx_cell_unroll(cell, x, .layout = "NC").output);
    check_error(MX_ERR_ARGUMENT, "layout='NC'");
    assert_null(mx_cell_unroll(cell, x, .length = 3).output);
    check_error(MX_ERR_ARGUMENT, "4 steps", "length is 3");
    assert_null(mx_cell_unroll(cell, NULL).output);
    check_error(MX_ERR_ARGUMENT, ".steps");
    assert_null(mx_cell_unroll(dense, x).output);
    check_error(MX_ERR_ARGUMENT, "not a recurrent cell");
    assert_int_equal(mx_cell_state_count(dense), -1);
    check_error(MX_ERR_ARGUMENT, "not a recurrent cell");
    assert_int_not_equal(mx_cell_state_info(cell, 2, 1, &(mx_state_info){0}), MX_OK);
    check_error(MX_ERR_INDEX, "no state 2");
    assert_null(mx_cell_step(cell, step_of(x, 0), MX_ARRAYS(x)).output);
    check_error(MX_ERR_ARGUMENT, "got 1 states, wanted 2");
    mx_block *gru = started(mx_gru_cell(H)), *rnn = started(mx_rnn_cell(H));
    for (int i = 0; i < 2; i++) { /* a state of another width */
        const mx_stepped failed =
            mx_cell_step(i ? gru : rnn, step_of(x, 0), MX_ARRAYS(mx_ones(.shape = MX_DIMS(N, H + 1))));
        assert_null(failed.output);
        assert_int_equal(failed.states.n, 0);
        check_error(MX_ERR_SHAPE, "");
    }
    assert_null(mx_lstm_cell(H, .activation = "nonsense"));
    check_error(MX_ERR_ATTRIBUTE, "activation");
    assert_null(mx_zoneout_cell(mx_bidirectional_cell(mx_gru_cell(2), mx_gru_cell(2))));
    check_error(MX_ERR_ARGUMENT, "BidirectionalCell");
    assert_int_not_equal(mx_cell_add(mx_sequential_rnn_cell(), dense), MX_OK);
    check_error(MX_ERR_ARGUMENT, "mx_cell_add", "not a recurrent cell");
    assert_int_not_equal(mx_cell_add(dense, mx_gru_cell(2)), MX_OK);
    check_error(MX_ERR_ARGUMENT, "mx_cell_add", "not a recurrent cell");
    assert_null(mx_residual_cell(dense));
    check_error(MX_ERR_ARGUMENT, "not a recurrent cell");
    assert_non_null(mx_residual_cell(cell));
    assert_null(mx_residual_cell(cell));
    check_error(MX_ERR_ARGUMENT, "inside a modifier cell");
    assert_int_equal(mx_cell_begin_state(cell, .batch_size = 1).n, 0);
    check_error(MX_ERR_ARGUMENT, "inside a modifier cell");
}

/* Whichever allocation fails: an error, and nothing is leaked. */
static void test_no_memory(void **state)
{
    (void)state;
    MX_SCOPE;
    mx_block *cells = started(stack());
    mx_array *x = check_array(MX_DIMS(T, N, C), 1);
    for (int warm = 0; warm < 3; warm++) {
        MX_SCOPE;
        assert_non_null(mx_cell_unroll(cells, x, .layout = "TNC").output);
        mx_cell_reset(cells);
    }
    bool complete = false;
    for (int n = 1; !complete; n++) {
        const int64_t live = check_live();
        {
            MX_SCOPE;
            mx_alloc_fail_at(n);
            complete = mx_cell_unroll(cells, x, .layout = "TNC").output != NULL;
            mx_alloc_fail_at(0);
            mx_cell_reset(cells);
            assert_true(complete || mx_error_code() == MX_ERR_MEMORY);
            mx_error_clear();
        }
        assert_int_equal(check_live(), live);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_unroll), cmocka_unit_test(test_variational),        cmocka_unit_test(test_both_directions),
        cmocka_unit_test(test_valid_length),  cmocka_unit_test(test_training),
        cmocka_unit_test(test_names),         cmocka_unit_test(test_text),
        cmocka_unit_test(test_mistakes),      cmocka_unit_test(test_no_memory),
    };
    return cmocka_run_group_tests_name("cells", tests, NULL, NULL);
}
