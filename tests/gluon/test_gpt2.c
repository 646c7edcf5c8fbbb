/* GPT-2: against loops, continued texts against whole ones, causality, gradients, plans, wrong arguments.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "block_check.h"

enum { N = 2, T = 7, V = 11, C = 8, HEADS = 2, LAYERS = 2, M = 9 };

static mx_block *small(double dropout)
{
    mx_random_seed(3);
    mx_block *net = mx_gpt2(.num_layers = LAYERS, .units = C, .num_heads = HEADS, .vocab_size = V, .max_length = M,
                            .dropout = dropout);
    mx_initialize(net, mx_normal(0.5), mx_cpu(0));
    return net;
}

static mx_array *tokens(int seed) { return check_integers(MX_DIMS(N, T), seed, V); }

/* ---- the network in loops, for one text ------------------------------------------------------------------------ */

static const double *weights(mx_block *net, const char *name)
{
    mx_params *all = mx_collect_params(net);
    for (int64_t i = 0; i < mx_params_count(all); i++) {
        const char *full = mx_parameter_name(mx_params_at(all, i));
        if (!strcmp(full + strlen(mx_block_prefix(net)), name))
            return check_values(mx_parameter_data(mx_params_at(all, i), mx_cpu(0)));
    }
    fail_msg("there is no parameter %s", name);
    return NULL;
}

static const double *cell_weights(mx_block *net, int cell, const char *name)
{
    char full[64];
    snprintf(full, sizeof full, "cell%d_%s", cell, name);
    return weights(net, full);
}

static void normalise(const double *x, const double *gamma, const double *beta, double *y)
{
    double mean = 0, square = 0;
    for (int i = 0; i < C; i++)
        mean += x[i] / C;
    for (int i = 0; i < C; i++)
        square += (x[i] - mean) * (x[i] - mean) / C;
    for (int i = 0; i < C; i++)
        y[i] = (x[i] - mean) / sqrt(square + 1e-5) * gamma[i] + beta[i];
}

static void dense(const double *x, int in, const double *w, const double *b, int out, double *y)
{
    for (int o = 0; o < out; o++) {
        y[o] = b ? b[o] : 0;
        for (int i = 0; i < in; i++)
            y[o] += x[i] * w[o * in + i];
    }
}

static void attend(mx_block *net, int cell, double x[T][C])
{
    double q[T][C], k[T][C], v[T][C], norm[C], mean[C], y[C];
    for (int t = 0; t < T; t++) {
        normalise(x[t], cell_weights(net, cell, "norm_1_gamma"), cell_weights(net, cell, "norm_1_beta"), norm);
        dense(norm, C, cell_weights(net, cell, "attention_query_weight"),
              cell_weights(net, cell, "attention_query_bias"), C, q[t]);
        dense(norm, C, cell_weights(net, cell, "attention_key_weight"), cell_weights(net, cell, "attention_key_bias"),
              C, k[t]);
        dense(norm, C, cell_weights(net, cell, "attention_value_weight"),
              cell_weights(net, cell, "attention_value_bias"), C, v[t]);
        for (int h = 0; h < HEADS; h++) {
            double weight[T], sum = 0;
            const int d = C / HEADS, from = h * d;
            for (int s = 0; s <= t; s++) {
                double score = 0;
                for (int i = from; i < from + d; i++)
                    score += q[t][i] * k[s][i];
                sum += weight[s] = exp(score / sqrt(d));
            }
            for (int i = from; i < from + d; i++) {
                mean[i] = 0;
                for (int s = 0; s <= t; s++)
                    mean[i] += weight[s] / sum * v[s][i];
            }
        }
        dense(mean, C, cell_weights(net, cell, "attention_out_weight"), cell_weights(net, cell, "attention_out_bias"),
              C, y);
        for (int i = 0; i < C; i++)
            x[t][i] += y[i];
    }
}

static void feed_forward(mx_block *net, int cell, double x[C])
{
    double norm[C], hidden[4 * C], y[C];
    normalise(x, cell_weights(net, cell, "norm_2_gamma"), cell_weights(net, cell, "norm_2_beta"), norm);
    dense(norm, C, cell_weights(net, cell, "ffn_1_weight"), cell_weights(net, cell, "ffn_1_bias"), 4 * C, hidden);
    for (int i = 0; i < 4 * C; i++)
        hidden[i] *= 0.5 * (1 + tanh(sqrt(2 / acos(-1.0)) * (hidden[i] + 0.044715 * pow(hidden[i], 3))));
    dense(hidden, 4 * C, cell_weights(net, cell, "ffn_2_weight"), cell_weights(net, cell, "ffn_2_bias"), C, y);
    for (int i = 0; i < C; i++)
        x[i] += y[i];
}

/* text (T) -> scores (T, V) */
static void plain_gpt2(mx_block *net, const double *text, double *scores)
{
    double x[T][C], norm[C];
    for (int t = 0; t < T; t++)
        for (int i = 0; i < C; i++)
            x[t][i] = weights(net, "word_weight")[(int)text[t] * C + i] + weights(net, "position_weight")[t * C + i];
    for (int cell = 0; cell < LAYERS; cell++) {
        attend(net, cell, x);
        for (int t = 0; t < T; t++)
            feed_forward(net, cell, x[t]);
    }
    for (int t = 0; t < T; t++) {
        normalise(x[t], weights(net, "norm_gamma"), weights(net, "norm_beta"), norm);
        dense(norm, C, weights(net, "word_weight"), NULL, V, scores + t * V);
    }
}

static void test_against_loops(void **state)
{
    (void)state;
    MX_SCOPE;
    double wanted[N * T * V], texts[N * T];
    mx_block *net = small(0);
    mx_array *x = tokens(1), *y = mx_call(net, x);
    check_no_error();
    memcpy(texts, check_values(x), sizeof texts);
    for (int n = 0; n < N; n++)
        plain_gpt2(net, texts + n * T, wanted + n * T * V);
    check_near(y, MX_DIMS(N, T, V), wanted, 1e-5);
    mx_hybridize(net);
    check_near(mx_call(net, x), MX_DIMS(N, T, V), wanted, 1e-5);
}

/* ---- continuing ------------------------------------------------------------------------------------------------- */

/* The scores after every token when the first `chunk` tokens come at once, the others one by one. */
static void check_continued(mx_block *net, mx_array *x, mx_array *whole, int chunk)
{
    mx_arrays cache = mx_text_cache(net, N, M);
    check_no_error();
    assert_int_equal(cache.n, 2 * LAYERS);
    for (int t = 0, next; t < T; t = next) {
        const float start[N] = {(float)t, (float)t};
        next = t ? t + 1 : chunk;
        mx_arrays out = mx_text_step(net, mx_slice_axis(x, .axis = 1, .begin = t, .end = next),
                                     mx_array_from(MX_DIMS(N), MX_FLOAT32, start), cache);
        check_no_error();
        assert_int_equal(out.n, 1 + 2 * LAYERS);
        mx_array *wanted = mx_slice_axis(whole, .axis = 1, .begin = next - 1, .end = next);
        check_near(out.v[0], MX_DIMS(N, V), check_values(wanted), 1e-5);
        cache = (mx_arrays){out.v + 1, out.n - 1};
    }
}

static void test_continued(void **state)
{
    (void)state;
    MX_SCOPE;
    mx_block *net = small(0.3); /* dropout does nothing here */
    mx_array *x = tokens(2), *whole = mx_call(net, x);
    for (int hybrid = 0; hybrid < 2; hybrid++) {
        for (int chunk = 1; chunk <= T; chunk += 3)
            check_continued(net, x, whole, chunk);
        mx_hybridize(net);
    }
}

/* Texts of different lengths in one batch: each has its own start. */
static void test_different_starts(void **state)
{
    (void)state;
    MX_SCOPE;
    const float none[N] = {0, 0}, starts[N] = {3, 5}, next[N] = {4, 9};
    mx_block *net = small(0);
    mx_array *x = tokens(4);
    mx_arrays out = mx_text_step(net, mx_slice_axis(x, .axis = 1, .begin = 0, .end = 5),
                                 mx_array_from(MX_DIMS(N), MX_FLOAT32, none), mx_text_cache(net, N, M));
    check_no_error();
    out = mx_text_step(net, mx_array_from(MX_DIMS(N, 1), MX_FLOAT32, next),
                       mx_array_from(MX_DIMS(N), MX_FLOAT32, starts), (mx_arrays){out.v + 1, out.n - 1});
    check_no_error();
    for (int n = 0; n < N; n++) { /* the first `starts` tokens of its text, then `next` */
        mx_array *text = mx_slice(x, .begin = MX_DIMS(n, 0), .end = MX_DIMS(n + 1, (int64_t)starts[n]));
        text = mx_concat(MX_ARRAYS(text, mx_array_from(MX_DIMS(1, 1), MX_FLOAT32, &next[n])), .dim = 1);
        mx_array *wanted = mx_slice_axis(mx_call(net, text), .axis = 1, .begin = -1, .end = MX_NONE_INT);
        check_near(mx_slice_axis(out.v[0], .axis = 0, .begin = n, .end = n + 1), MX_DIMS(1, V), check_values(wanted),
                   1e-5);
    }
}

/* A list that ends where its terminator is, as users write lists, and one that lacks arrays. */
static void test_cache_as_a_list(void **state)
{
    (void)state;
    MX_SCOPE;
    const float none[N] = {0, 0};
    mx_block *net = small(0);
    mx_array *x = tokens(4), *start = mx_array_from(MX_DIMS(N), MX_FLOAT32, none);
    mx_arrays cache = mx_text_cache(net, N, M);
    mx_arrays wanted = mx_text_step(net, x, start, cache);
    check_no_error();
    assert_int_equal(cache.n, 4);
    mx_arrays got = mx_text_step(net, x, start, MX_ARRAYS(cache.v[0], cache.v[1], cache.v[2], cache.v[3]));
    check_no_error();
    check_near(got.v[0], MX_DIMS(N, V), check_values(wanted.v[0]), 0);
    assert_int_equal(mx_text_step(net, x, start, MX_ARRAYS(cache.v[0], cache.v[1])).n, 0);
    check_error(MX_ERR_ARGUMENT, "got 4 inputs");
}

/* ---- training --------------------------------------------------------------------------------------------------- */

/* The tied weight learns from both of its uses: its gradient against differences. */
static void test_gradient(void **state)
{
    (void)state;
    MX_SCOPE;
    mx_block *net = small(0);
    mx_array *x = tokens(5), *loss, *weight = mx_parameter_data(mx_params_at(mx_collect_params(net), 0), mx_cpu(0));
    mx_record()
        loss = mx_sum(mx_log_softmax(mx_call(net, x)));
    mx_backward(loss);
    check_no_error();
    double gradient[V * C];
    memcpy(gradient, check_values(mx_gradient(weight)), sizeof gradient);
    for (int i = 0; i < V * C; i += 5) {
        float bump[V * C] = {0};
        double side[2];
        for (int s = 0; s < 2; s++) {
            MX_SCOPE;
            bump[i] = s ? -1e-2f : 1e-2f;
            mx_block *moved = small(0);
            mx_parameter *p = mx_params_at(mx_collect_params(moved), 0);
            mx_parameter_set_data(
                p, mx_add(mx_parameter_data(p, mx_cpu(0)), mx_array_from(MX_DIMS(V, C), MX_FLOAT32, bump)));
            side[s] = mx_item(mx_sum(mx_log_softmax(mx_call(moved, x))));
        }
        const double slope = (side[0] - side[1]) / 2e-2;
        if (fabs(slope - gradient[i]) > 0.02 * (1 + fabs(slope)))
            fail_msg("gradient %d is %g, differences give %g", i, gradient[i], slope);
    }
}

static void test_learns(void **state)
{
    (void)state;
    MX_SCOPE;
    mx_block *net = small(0.1);
    mx_trainer *trainer = mx_trainer_with(mx_collect_params(net), mx_adam(.learning_rate = 0.02));
    mx_train_step *step = mx_train_step_new(net, mx_softmax_cross_entropy_loss(), trainer);
    mx_array *x = mx_slice_axis(tokens(6), .axis = 1, .begin = 0, .end = T - 1);
    mx_array *next = mx_slice_axis(tokens(6), .axis = 1, .begin = 1, .end = T);
    double first = 0, last = 0;
    for (int i = 0; i < 60; i++) {
        MX_SCOPE;
        last = mx_item(mx_mean(mx_train_step_run(step, x, next)));
        first = i ? first : last;
    }
    check_no_error();
    assert_true(last < 0.5 * first);
}

/* ---- names, arguments ------------------------------------------------------------------------------------------- */

static void test_sizes(void **state)
{
    (void)state;
    MX_SCOPE;
    mx_params *all = mx_collect_params(mx_model("gpt2_124m", .prefix = "gpt2_"));
    int64_t total = 0;
    for (int64_t i = 0; i < mx_params_count(all); i++) {
        const mx_dims shape = mx_parameter_shape(mx_params_at(all, i));
        total += shape.n == 2 ? shape.d[0] * shape.d[1] : shape.d[0];
    }
    check_no_error();
    assert_int_equal(total, 124439808);
    assert_string_equal(mx_parameter_name(mx_params_at(all, 2)), "gpt2_cell0_norm_1_gamma");
}

static void test_wrong_arguments(void **state)
{
    (void)state;
    MX_SCOPE;
    assert_null(mx_gpt2(.units = 10, .num_heads = 3));
    check_error(MX_ERR_ATTRIBUTE, "units", "num_heads");
    mx_block *net = small(0);
    assert_null(mx_call(net, check_integers(MX_DIMS(1, M + 1), 1, V)));
    check_error(MX_ERR_SHAPE, "10 tokens", "max_length=9");
    assert_null(mx_call(net, check_integers(MX_DIMS(3), 1, V)));
    check_error(MX_ERR_SHAPE, "tokens have shape (3,)", "(N, T)");
    assert_null(mx_call(net, tokens(1), mx_zeros(.shape = MX_DIMS(N))));
    check_error(MX_ERR_ARGUMENT, "got 2 inputs", "the 4 arrays of a cache");
    assert_int_equal(mx_text_cache(net, 1, M + 1).n, 0);
    check_error(MX_ERR_ARGUMENT, "1 texts of 10 tokens", "1 to 9");
    assert_int_equal(mx_text_cache(mx_dense(3), 1, 1).n, 0);
    check_error(MX_ERR_ARGUMENT, "Dense", "wanted a GPT2");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_against_loops), cmocka_unit_test(test_continued), cmocka_unit_test(test_different_starts), cmocka_unit_test(test_cache_as_a_list),
        cmocka_unit_test(test_gradient),      cmocka_unit_test(test_learns),    cmocka_unit_test(test_sizes),
        cmocka_unit_test(test_wrong_arguments),
    };
    return cmocka_run_group_tests_name("gpt2", tests, NULL, NULL);
}
