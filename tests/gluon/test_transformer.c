/* Transformers: attention against reference loops, masks, gradients, plans, wrong arguments; recurrent cells beside
 * layers.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "block_check.h"

enum { N = 2, T = 5, C = 6, HEADS = 2, D = C / HEADS };
#define DIMS(...) MX_DIMS(__VA_ARGS__)

static mx_parameter *named(mx_block *block, const char *name)
{
    mx_params *all = mx_collect_params(block);
    for (int64_t i = 0; i < mx_params_count(all); i++)
        if (strstr(mx_parameter_name(mx_params_at(all, i)), name))
            return mx_params_at(all, i);
    fail_msg("there is no parameter *%s*", name);
    return NULL;
}

/* y = x W' + b for rows of C numbers */
static void project(mx_block *block, const char *part, const double *x, int64_t rows, double *y)
{
    char name[32];
    snprintf(name, sizeof name, "%s_weight", part);
    const double *w = check_values(mx_parameter_data(named(block, name), mx_cpu(0)));
    snprintf(name, sizeof name, "%s_bias", part);
    const double *b = check_values(mx_parameter_data(named(block, name), mx_cpu(0)));
    for (int64_t i = 0; i < rows; i++)
        for (int o = 0; o < C; o++) {
            y[i * C + o] = b[o];
            for (int k = 0; k < C; k++)
                y[i * C + o] += x[i * C + k] * w[o * C + k];
        }
}

/* valid: number of keys of every example; causal: query t sees keys up to t. */
static void plain_attention(mx_block *block, const double *x, const int *valid, bool causal, double *y)
{
    double q[N * T * C], k[N * T * C], v[N * T * C], means[N * T * C] = {0};
    project(block, "query", x, N * T, q), project(block, "key", x, N * T, k), project(block, "value", x, N * T, v);
    for (int n = 0; n < N; n++)
        for (int h = 0; h < HEADS; h++)
            for (int t = 0; t < T; t++) {
                double weights[T], sum = 0;
                const int keys = causal && t + 1 < valid[n] ? t + 1 : valid[n];
                for (int s = 0; s < keys; s++) {
                    double score = 0;
                    for (int i = 0; i < D; i++)
                        score += q[(n * T + t) * C + h * D + i] * k[(n * T + s) * C + h * D + i];
                    sum += weights[s] = exp(score / sqrt(D));
                }
                for (int s = 0; s < keys; s++)
                    for (int i = 0; i < D; i++)
                        means[(n * T + t) * C + h * D + i] += weights[s] / sum * v[(n * T + s) * C + h * D + i];
            }
    project(block, "out", means, N * T, y);
}

static void test_attention(void **state)
{
    (void)state;
    const int all[N] = {T, T}, some[N] = {3, 5};
    for (int causal = 0; causal < 2; causal++)
        for (int masked = 0; masked < 2; masked++) {
            MX_SCOPE;
            double wanted[N * T * C];
            mx_block *block = mx_multi_head_attention(C, HEADS, .causal = causal);
            mx_initialize(block, mx_uniform(0.5), mx_cpu(0));
            mx_array *x = check_array(DIMS(N, T, C), 1), *lengths = mx_array_from(DIMS(N), MX_INT32, some);
            mx_array *y = masked ? mx_call(block, x, MX_NONE, MX_NONE, lengths) : mx_call(block, x);
            check_no_error();
            plain_attention(block, check_values(x), masked ? some : all, causal, wanted);
            check_near(y, DIMS(N, T, C), wanted, 1e-5);
            mx_hybridize(block);
            y = masked ? mx_call(block, x, MX_NONE, MX_NONE, lengths) : mx_call(block, x);
            check_near(y, DIMS(N, T, C), wanted, 1e-5);
            check_no_error();
        }
}

/* A mask equivalent to lengths gives the same result; keys that are masked for all queries have no gradient. */
static void test_masks(void **state)
{
    (void)state;
    MX_SCOPE;
    float mask[N][T][T];
    const int valid[N] = {2, 4};
    for (int n = 0; n < N; n++)
        for (int t = 0; t < T; t++)
            for (int s = 0; s < T; s++)
                mask[n][t][s] = s < valid[n];
    mx_block *block =
        mx_transformer_encoder(.num_layers = 2, .units = C, .hidden_size = 8, .num_heads = HEADS, .dropout = 0);
    mx_initialize(block, mx_xavier(), mx_cpu(0));
    mx_array *x = check_array(DIMS(N, T, C), 2), *loss;
    mx_array *one = mx_call(block, x, mx_array_from(DIMS(N), MX_INT32, valid));
    mx_array *other = mx_call(block, x, MX_NONE, mx_array_from(DIMS(N, T, T), MX_FLOAT32, mask));
    check_no_error();
    check_near(one, DIMS(N, T, C), check_values(other), 1e-5);
    mx_attach_grad(x, MX_GRAD_WRITE);
    mx_record() {
        mx_array *y = mx_call(block, x, mx_array_from(DIMS(N), MX_INT32, valid));
        loss = mx_sum(mx_square(mx_slice_axis(y, .axis = 1, .begin = 0, .end = 2)));
    }
    mx_backward(loss);
    check_no_error();
    const double *g = check_values(mx_gradient(x));
    for (int i = 0; i < C; i++) {
        assert_true(g[4 * C + i] == 0); /* key 4 of example 0 */
        assert_true(g[1 * C + i] != 0);
    }
}

/* A decoder's output at a place does not depend on what comes later. */
static void test_decoder(void **state)
{
    (void)state;
    MX_SCOPE;
    mx_block *block = mx_transformer_decoder(.num_layers = 2, .units = C, .hidden_size = 8, .num_heads = HEADS,
                                             .pre_norm = true, .activation = "gelu");
    mx_initialize(block, mx_xavier(), mx_cpu(0));
    mx_array *memory = check_array(DIMS(N, 3, C), 3), *x = check_array(DIMS(N, T, C), 4);
    mx_array *whole = mx_call(block, x, memory);
    mx_array *part = mx_call(block, mx_slice_axis(x, .axis = 1, .begin = 0, .end = 3), memory);
    check_no_error();
    check_near(part, DIMS(N, 3, C), check_values(mx_slice_axis(whole, .axis = 1, .begin = 0, .end = 3)), 1e-5);
}

static void test_positions(void **state)
{
    (void)state;
    MX_SCOPE;
    double wanted[T * C];
    mx_block *block = mx_sinusoidal_positional_embedding(C);
    for (int t = 0; t < T; t++)
        for (int i = 0; i < C; i++) {
            const double angle = t * pow(10000, -(double)(i / 2 * 2) / C);
            wanted[t * C + i] = i % 2 ? cos(angle) : sin(angle);
        }
    check_near(mx_call(block, mx_zeros(.shape = DIMS(1, T, C))), DIMS(1, T, C), wanted, 1e-6);
    check_no_error();
}

static void test_wrong_arguments(void **state)
{
    (void)state;
    MX_SCOPE;
    assert_null(mx_multi_head_attention(7, 2));
    check_error(MX_ERR_ATTRIBUTE, "units", "num_heads");
    assert_null(mx_transformer_encoder(.units = 10, .num_heads = 3));
    check_error(MX_ERR_ATTRIBUTE, "units", "num_heads");
    assert_null(mx_positionwise_ffn(.units = 4, .activation = "strange"));
    mx_error_clear();
    mx_block *block = mx_transformer_encoder_cell(.units = C, .hidden_size = 8, .num_heads = HEADS);
    mx_initialize(block, mx_xavier(), mx_cpu(0));
    assert_null(mx_call(block, check_array(DIMS(N, T), 1)));
    mx_error_clear();
    assert_null(mx_call(block, check_array(DIMS(N, T, C), 1), check_array(DIMS(N + 1), 1)));
    mx_error_clear();
    assert_null(mx_call(mx_transformer_decoder_cell(.units = C, .num_heads = HEADS), check_array(DIMS(N, T, C), 1)));
    mx_error_clear();
}

/* Steps of a cell equal the layer with the same parameters. */
static void compare_cell(mx_block *cell, mx_block *layer, int states)
{
    static const char *const names[] = {"i2h_weight", "h2h_weight", "i2h_bias", "h2h_bias"};
    mx_initialize(cell, mx_uniform(0.5), mx_cpu(0));
    mx_initialize(layer, mx_uniform(0.5), mx_cpu(0));
    mx_array *x = check_array(DIMS(T, N, C), 5), *given[3] = {NULL};
    for (int i = 0; i < 4; i++)
        mx_parameter_set_data(named(layer, names[i]), mx_parameter_data(named(cell, names[i]), mx_cpu(0)));
    mx_array *wanted = mx_call(layer, x);
    check_no_error();
    mx_hybridize(cell);
    for (int t = 0; t < T; t++) {
        given[0] = mx_reshape(mx_slice_axis(x, .axis = 0, .begin = t, .end = t + 1), .shape = DIMS(N, C));
        mx_arrays out = mx_block_call_many(cell, (mx_arrays){given, t ? 1 + states : 1});
        check_no_error();
        assert_int_equal(out.n, 1 + states);
        for (int i = 0; i < states; i++)
            given[1 + i] = out.v[1 + i];
        mx_array *row = mx_reshape(mx_slice_axis(wanted, .axis = 0, .begin = t, .end = t + 1), .shape = DIMS(N, 4));
        check_near(out.v[0], DIMS(N, 4), check_values(row), 1e-5);
    }
}

static void test_cells(void **state)
{
    (void)state;
    MX_SCOPE;
    compare_cell(mx_rnn_cell(4, .input_size = C), mx_rnn(4, .activation = "tanh", .input_size = C), 1);
    compare_cell(mx_lstm_cell(4, .input_size = C), mx_lstm(4, .input_size = C), 2);
    compare_cell(mx_gru_cell(4, .input_size = C), mx_gru(4, .input_size = C), 1);
    assert_string_equal(mx_block_text(mx_lstm_cell(4)), "LSTMCell(None -> 16)");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_attention), cmocka_unit_test(test_masks), cmocka_unit_test(test_decoder),
        cmocka_unit_test(test_positions), cmocka_unit_test(test_wrong_arguments), cmocka_unit_test(test_cells),
    };
    return cmocka_run_group_tests_name("transformer", tests, NULL, NULL);
}
