/* Optimizers against reference formulas in double, schedules, float32 masters, users' optimizers, bad options.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "gluon/nn.gen.h"

#define ROWS 4
#define COLUMNS 3
#define N (ROWS * COLUMNS)
#define STEPS 7

static void assert_error(mx_code code, const char *part)
{
    assert_int_equal(mx_error_code(), code);
    if (!strstr(mx_error_message(), part))
        fail_msg("'%s' does not say '%s'", mx_error_message(), part);
    mx_error_clear();
}

static void assert_close(double found, double wanted, double tolerance, const char *who)
{
    if (!(fabs(found - wanted) <= tolerance * fmax(1, fabs(wanted))))
        fail_msg("%s: found %.9g, wanted %.9g", who, found, wanted);
}

/* ---- the formulas ------------------------------------------------------------------------------------------------ */

/* One reference update: constants, weight, raw gradient, states (zero at first). */
typedef struct step {
    double lr, wd, rescale, clip; /* clip 0: none */
    double p[5];                  /* further parameters of the optimizer */
    double t;
    double *w;
    const double *grad;
    double (*s)[N];
} step;

#define EACH for (int i = 0; i < N; i++)
static double cut(double x, double c) { return c == 0 ? x : fmax(-c, fmin(c, x)); }
static double clipped(const step *k, int i) { return cut(k->rescale * k->grad[i], k->clip); }
static double decayed(const step *k, int i) { return cut(k->rescale * k->grad[i] + k->wd * k->w[i], k->clip); }
static double norm(const double *x)
{
    double sum = 0;
    EACH sum += x[i] * x[i];
    return sqrt(sum);
}

static void sgd(const step *k) /* momentum */
{
    EACH
    {
        k->s[0][i] = k->p[0] * k->s[0][i] - k->lr * (clipped(k, i) + k->wd * k->w[i]);
        k->w[i] += k->s[0][i];
    }
}
static void nag(const step *k) /* momentum */
{
    EACH
    {
        const double d = k->lr * (clipped(k, i) + k->wd * k->w[i]), m = k->p[0] * k->s[0][i];
        k->s[0][i] = m - d;
        k->w[i] += k->p[0] * (m - d) - d;
    }
}
static double sign(double x) { return (x > 0) - (x < 0); }
static void signum(const step *k) /* momentum, wd_lh */
{
    EACH
    {
        k->s[0][i] = k->p[0] * k->s[0][i] - (1 - k->p[0]) * (clipped(k, i) + k->wd * k->w[i]);
        k->w[i] = (1 - k->lr * k->p[1]) * k->w[i] + k->lr * sign(k->s[0][i]);
    }
}
static void signsgd(const step *k) { EACH k->w[i] = (1 - k->lr * k->wd) * k->w[i] - k->lr * sign(k->grad[i]); }
static void dcasgd(const step *k) /* momentum, lamda */
{
    EACH
    {
        const double g = clipped(k, i), before = k->t == 1 ? k->w[i] : k->s[1][i];
        k->s[0][i] = k->p[0] * k->s[0][i] - k->lr * (g + k->wd * k->w[i] + k->p[1] * g * g * (k->w[i] - before));
        k->s[1][i] = k->w[i];
        k->w[i] += k->s[0][i];
    }
}
static void test(const step *k) { EACH k->w[i] += k->rescale * k->grad[i]; }
static void adam(const step *k) /* beta1, beta2, epsilon */
{
    EACH
    {
        const double g = decayed(k, i);
        k->s[0][i] = k->p[0] * k->s[0][i] + (1 - k->p[0]) * g;
        k->s[1][i] = k->p[1] * k->s[1][i] + (1 - k->p[1]) * g * g;
        k->w[i] -=
            k->lr * sqrt(1 - pow(k->p[1], k->t)) / (1 - pow(k->p[0], k->t)) * k->s[0][i] / (sqrt(k->s[1][i]) + k->p[2]);
    }
}
static void adamw(const step *k) /* beta1, beta2, epsilon, correct_bias */
{
    EACH
    {
        const double g = clipped(k, i);
        k->s[0][i] = k->p[0] * k->s[0][i] + (1 - k->p[0]) * g;
        k->s[1][i] = k->p[1] * k->s[1][i] + (1 - k->p[1]) * g * g;
        const double correction = k->p[3] != 0 ? sqrt(1 - pow(k->p[1], k->t)) / (1 - pow(k->p[0], k->t)) : 1;
        k->w[i] -= k->lr * (correction * k->s[0][i] / (sqrt(k->s[1][i]) + k->p[2]) + k->wd * k->w[i]);
    }
}
static void adamax(const step *k) /* beta1, beta2 */
{
    EACH
    {
        const double g = decayed(k, i);
        k->s[0][i] = k->p[0] * k->s[0][i] + (1 - k->p[0]) * g;
        k->s[1][i] = fmax(k->p[1] * k->s[1][i], fabs(g));
        k->w[i] -= k->lr / (1 - pow(k->p[0], k->t)) * k->s[0][i] / k->s[1][i];
    }
}
static void nadam(const step *k) /* beta1, beta2, epsilon, schedule_decay */
{
    const double now = k->p[0] * (1 - 0.5 * pow(0.96, k->t * k->p[3])),
                 next = k->p[0] * (1 - 0.5 * pow(0.96, (k->t + 1) * k->p[3]));
    const double product = k->s[2][0] = (k->t == 1 ? 1 : k->s[2][0]) * now;
    EACH
    {
        const double g = decayed(k, i);
        k->s[0][i] = k->p[0] * k->s[0][i] + (1 - k->p[0]) * g;
        k->s[1][i] = k->p[1] * k->s[1][i] + (1 - k->p[1]) * g * g;
        const double bar = (1 - now) * g / (1 - product) + next * k->s[0][i] / (1 - product * next);
        k->w[i] -= k->lr * bar / (sqrt(k->s[1][i] / (1 - pow(k->p[1], k->t))) + k->p[2]);
    }
}
static void ftml(const step *k) /* beta1, beta2, epsilon */
{
    EACH
    {
        const double g = decayed(k, i);
        k->s[1][i] = k->p[1] * k->s[1][i] + (1 - k->p[1]) * g * g;
        const double d = (1 - pow(k->p[0], k->t)) / k->lr * (sqrt(k->s[1][i] / (1 - pow(k->p[1], k->t))) + k->p[2]);
        k->s[2][i] = k->p[0] * k->s[2][i] + (1 - k->p[0]) * g - (d - k->p[0] * k->s[0][i]) * k->w[i];
        k->s[0][i] = d;
        k->w[i] = -k->s[2][i] / d;
    }
}
static void ftrl(const step *k) /* lamda1, beta */
{
    EACH
    {
        const double g = clipped(k, i), n = k->s[1][i] + g * g;
        k->s[0][i] += g - (sqrt(n) - sqrt(k->s[1][i])) / k->lr * k->w[i];
        k->s[1][i] = n;
        const double z = k->s[0][i];
        k->w[i] = fabs(z) <= k->p[0] ? 0 : (sign(z) * k->p[0] - z) / ((k->p[1] + sqrt(n)) / k->lr + k->wd);
    }
}
static void adagrad(const step *k) /* eps */
{
    EACH
    {
        const double g = clipped(k, i);
        k->s[0][i] += g * g;
        k->w[i] -= k->lr * (g / sqrt(k->s[0][i] + k->p[0]) + k->wd * k->w[i]);
    }
}
static void group_adagrad(const step *k) /* eps */
{
    for (int r = 0; r < ROWS; r++) {
        for (int i = r * COLUMNS; i < (r + 1) * COLUMNS; i++)
            k->s[0][r] += clipped(k, i) * clipped(k, i) / COLUMNS;
        for (int i = r * COLUMNS; i < (r + 1) * COLUMNS; i++)
            k->w[i] -= k->lr * clipped(k, i) / sqrt(k->s[0][r] + k->p[0]);
    }
}
static void adadelta(const step *k) /* rho, epsilon */
{
    EACH
    {
        const double g = clipped(k, i);
        k->s[0][i] = k->p[0] * k->s[0][i] + (1 - k->p[0]) * g * g;
        const double d = sqrt(k->s[1][i] + k->p[1]) / sqrt(k->s[0][i] + k->p[1]) * g;
        k->s[1][i] = k->p[0] * k->s[1][i] + (1 - k->p[0]) * d * d;
        k->w[i] -= d + k->wd * k->w[i];
    }
}
static void rmsprop(const step *k) /* gamma1, epsilon, clip_weights */
{
    EACH
    {
        const double g = decayed(k, i);
        k->s[0][i] = k->p[0] * k->s[0][i] + (1 - k->p[0]) * g * g;
        k->w[i] = cut(k->w[i] - k->lr * g / sqrt(k->s[0][i] + k->p[1]), k->p[2]);
    }
}
static void rmsprop_centered(const step *k) /* gamma1, epsilon, clip_weights, gamma2 */
{
    EACH
    {
        const double g = decayed(k, i);
        k->s[0][i] = k->p[0] * k->s[0][i] + (1 - k->p[0]) * g * g;
        k->s[1][i] = k->p[0] * k->s[1][i] + (1 - k->p[0]) * g;
        k->s[2][i] = k->p[3] * k->s[2][i] - k->lr * g / sqrt(k->s[0][i] - k->s[1][i] * k->s[1][i] + k->p[1]);
        k->w[i] = cut(k->w[i] + k->s[2][i], k->p[2]);
    }
}
static void lamb(const step *k) /* beta1, beta2, epsilon, lower bound, upper bound (0: none) */
{
    double g[N];
    EACH
    {
        const double d = clipped(k, i);
        k->s[0][i] = k->p[0] * k->s[0][i] + (1 - k->p[0]) * d;
        k->s[1][i] = k->p[1] * k->s[1][i] + (1 - k->p[1]) * d * d;
        g[i] = k->s[0][i] / (1 - pow(k->p[0], k->t)) / (sqrt(k->s[1][i] / (1 - pow(k->p[1], k->t))) + k->p[2]) +
               k->wd * k->w[i];
    }
    double size = fmax(norm(k->w), k->p[3]);
    size = k->p[4] != 0 ? fmin(size, k->p[4]) : size;
    const double ratio = size / norm(g);
    EACH k->w[i] -= k->lr * ratio * g[i];
}
static void lars(const step *k) /* momentum, eta, eps */
{
    const double size = norm(k->w), factor = k->p[1] * size / (norm(k->grad) * k->rescale + k->wd * size + k->p[2]);
    EACH
    {
        k->s[0][i] = k->p[0] * k->s[0][i] - k->lr * factor * (clipped(k, i) + k->wd * k->w[i]);
        k->w[i] += k->s[0][i];
    }
}
static void lbsgd(
    const step *k) /* momentum, batch_scale, batches of the warmup, 0 linear / 1 power2 / 2 sqrt / 3 lars */
{
    const double scale = k->p[1], x = k->t / k->p[2];
    double mean[N];
    EACH
    {
        k->s[0][i] = fmod(k->t - 1, scale) == 0 ? k->grad[i] : k->s[0][i] + k->grad[i];
        mean[i] = k->s[0][i] / scale;
    }
    if (fmod(k->t, scale) != 0)
        return;
    const double w2 = norm(k->w) * norm(k->w), trust = sqrt(w2 / (norm(mean) * norm(mean) + k->wd * w2 + 1e-18));
    const double grown = k->p[3] == 0 ? x : k->p[3] == 1 ? x * x : sqrt(x);
    const double factor = k->p[3] == 3 ? fmax(0.01, fmin(100, trust)) : x >= 1 ? scale : 1 + (scale - 1) * grown;
    EACH
    {
        const double g = cut(k->rescale * mean[i], k->clip);
        k->s[1][i] = k->p[0] * k->s[1][i] - k->lr * factor * (g + k->wd * k->w[i]);
        k->w[i] += k->s[1][i];
    }
}

/* ---- the cases --------------------------------------------------------------------------------------------------- */
#define COMMON "learning_rate=0.05, wd=0.1, rescale_grad=0.5, clip_gradient=0.4"
#define KNOWN 0.05, 0.1, 0.5, 0.4
#define PLAIN(lr) lr, 0, 1, 0

static const struct {
    const char *name, *options;
    void (*update)(const step *k);
    double lr, wd, rescale, clip, p[5];
} cases[] = {
    {"SGD", NULL, sgd, PLAIN(0.01), {0}},
    {"SGD", COMMON, sgd, KNOWN, {0}},
    {"SGD", COMMON ", momentum=0.9", sgd, KNOWN, {0.9}},
    {"NAG", NULL, nag, PLAIN(0.01), {0}},
    {"NAG", COMMON ", momentum=0.9", nag, KNOWN, {0.9}},
    {"Signum", NULL, signum, PLAIN(0.01), {0.9}},
    {"Signum", COMMON ", momentum=0.5, wd_lh=0.2", signum, KNOWN, {0.5, 0.2}},
    {"Signum", COMMON ", momentum=0", signsgd, KNOWN, {0}},
    {"DCASGD", NULL, dcasgd, PLAIN(0.01), {0, 0.04}},
    {"DCASGD", COMMON ", momentum=0.9, lamda=0.5", dcasgd, KNOWN, {0.9, 0.5}},
    {"Test", "rescale_grad=0.5", test, 0.01, 0, 0.5, 0, {0}},
    {"Adam", NULL, adam, PLAIN(0.001), {0.9, 0.999, 1e-8}},
    {"Adam", COMMON ", beta1=0.5, beta2=0.9, epsilon=0.01", adam, KNOWN, {0.5, 0.9, 0.01}},
    {"AdamW", NULL, adamw, PLAIN(0.001), {0.9, 0.999, 1e-6, 1}},
    {"AdamW", COMMON ", beta1=0.5, beta2=0.9, epsilon=0.01", adamw, KNOWN, {0.5, 0.9, 0.01, 1}},
    {"AdamW", COMMON ", correct_bias=False", adamw, KNOWN, {0.9, 0.999, 1e-6, 0}},
    {"Adamax", NULL, adamax, PLAIN(0.002), {0.9, 0.999}},
    {"Adamax", COMMON ", beta1=0.5, beta2=0.9", adamax, KNOWN, {0.5, 0.9}},
    {"Nadam", NULL, nadam, PLAIN(0.001), {0.9, 0.999, 1e-8, 0.004}},
    {"Nadam", COMMON ", beta1=0.8, schedule_decay=0.1", nadam, KNOWN, {0.8, 0.999, 1e-8, 0.1}},
    {"FTML", "learning_rate=0.1", ftml, PLAIN(0.1), {0.6, 0.999, 1e-8}},
    {"FTML", COMMON ", beta1=0.3, beta2=0.9, epsilon=0.01", ftml, KNOWN, {0.3, 0.9, 0.01}},
    {"Ftrl", NULL, ftrl, PLAIN(0.1), {0.01, 1}},
    {"Ftrl", COMMON ", lamda1=0.5, beta=2", ftrl, KNOWN, {0.5, 2}},
    {"AdaGrad", NULL, adagrad, PLAIN(0.01), {1e-7}},
    {"AdaGrad", COMMON ", eps=0.1", adagrad, KNOWN, {0.1}},
    {"GroupAdaGrad", NULL, group_adagrad, PLAIN(0.01), {1e-5}},
    {"GroupAdaGrad",
     "learning_rate=0.05, rescale_grad=0.5, clip_gradient=0.4, eps=0.1",
     group_adagrad,
     0.05,
     0,
     0.5,
     0.4,
     {0.1}},
    {"AdaDelta", NULL, adadelta, PLAIN(0.01), {0.9, 1e-5}},
    {"AdaDelta", COMMON ", rho=0.5, epsilon=0.01", adadelta, KNOWN, {0.5, 0.01}},
    {"RMSProp", NULL, rmsprop, PLAIN(0.001), {0.9, 1e-8, 0}},
    {"RMSProp", COMMON ", gamma1=0.5, epsilon=0.01, clip_weights=0.6", rmsprop, KNOWN, {0.5, 0.01, 0.6}},
    {"RMSProp", COMMON ", centered=True, gamma2=0.5, epsilon=0.01", rmsprop_centered, KNOWN, {0.9, 0.01, 0, 0.5}},
    {"LAMB", NULL, lamb, PLAIN(0.001), {0.9, 0.999, 1e-6, 0, 0}},
    {"LAMB", COMMON ", lower_bound=0.5, upper_bound=1.5", lamb, KNOWN, {0.9, 0.999, 1e-6, 0.5, 1.5}},
    {"LARS", NULL, lars, PLAIN(0.01), {0, 0.001, 0}},
    {"LARS", COMMON ", momentum=0.9, eta=0.1, eps=0.001", lars, KNOWN, {0.9, 0.1, 0.001}},
    {"LBSGD", NULL, lbsgd, PLAIN(0.01), {0, 1, 160, 0}},
    {"LBSGD",
     COMMON ", momentum=0.9, batch_scale=2, warmup_epochs=1, updates_per_epoch=6",
     lbsgd,
     KNOWN,
     {0.9, 2, 6, 0}},
    {"LBSGD",
     COMMON ", batch_scale=2, warmup_epochs=1, updates_per_epoch=6, warmup_strategy=power2",
     lbsgd,
     KNOWN,
     {0, 2, 6, 1}},
    {"LBSGD",
     COMMON ", batch_scale=3, warmup_epochs=1, updates_per_epoch=4, warmup_strategy=sqrt",
     lbsgd,
     KNOWN,
     {0, 3, 4, 2}},
    {"LBSGD", COMMON ", batch_scale=2, warmup_strategy=lars", lbsgd, KNOWN, {0, 2, 160, 3}},
};
enum { CASES = sizeof cases / sizeof *cases };

/* Numbers without pattern in -2 .. 2. */
static double number(int i) { return 4 * fmod(0.6180339887498949 * (i + 1) * (i + 7) + 0.1 * i, 1) - 2; }

static mx_array *array_of(const double *v, mx_dtype dtype)
{
    mx_array *wide = mx_array_from(MX_DIMS(ROWS, COLUMNS), MX_FLOAT64, v),
             *x = mx_empty(MX_DIMS(ROWS, COLUMNS), dtype, mx_cpu(0));
    mx_array_set(x, wide);
    return x;
}

static void run_case(int c, mx_dtype dtype, double tolerance)
{
    MX_SCOPE;
    double w[N], g[N], s[4][N] = {{0}}, found[N];
    EACH w[i] = number(i);
    mx_optimizer *optimizer = mx_optimizer_new(cases[c].name, cases[c].options);
    mx_array *weight = array_of(w, dtype);
    mx_optimizer_state *state = mx_optimizer_state_new(optimizer, weight);
    for (int t = 1; t <= STEPS; t++) {
        EACH g[i] = number(100 * t + i);
        mx_optimizer_update(optimizer, state, weight, array_of(g, dtype), 1, 1);
        step k = {cases[c].lr, cases[c].wd, cases[c].rescale, cases[c].clip, {0}, t, w, g, s};
        memcpy(k.p, cases[c].p, sizeof k.p);
        cases[c].update(&k);
    }
    mx_array_read_doubles(weight, found, N);
    assert_int_equal(mx_check(cases[c].name), 0);
    char who[200];
    snprintf(who, sizeof who, "%s(%s) in %s", cases[c].name, cases[c].options ? cases[c].options : "",
             mx_dtype_name(dtype));
    EACH assert_close(found[i], w[i], tolerance, who);
    assert_int_equal(mx_optimizer_state_updates(state), STEPS);
    assert_int_equal(mx_optimizer_num_update(optimizer), STEPS);
}

static void updates_follow_the_formulas(void **state)
{
    (void)state;
    for (int c = 0; c < CASES; c++) {
        run_case(c, MX_FLOAT32, 2e-5);
        run_case(c, MX_FLOAT64, 1e-6);
    }
}

static void every_optimizer_has_a_case(void **state)
{
    (void)state;
    for (int i = 0; mx_class_at(i); i++) {
        const char *name = mx_class_name(mx_class_at(i));
        if (mx_class_kind_of(mx_class_at(i)) != MX_OPTIMIZER || !strcmp(name, "SGLD"))
            continue;
        int c = 0;
        while (c < CASES && strcmp(cases[c].name, name))
            c++;
        if (c == CASES)
            fail_msg("optimizer %s has no expected values", name);
    }
}

/* w' = w - lr / 2 (g + wd w) + normal noise of variance lr */
static void sgld_adds_noise(void **state)
{
    (void)state;
    MX_SCOPE;
    enum { MANY = 20000 };
    static float ones[MANY];
    static double found[MANY];
    for (int i = 0; i < MANY; i++)
        ones[i] = 1;
    mx_array *weight = mx_array_from(MX_DIMS(MANY), MX_FLOAT32, ones),
             *grad = mx_array_from(MX_DIMS(MANY), MX_FLOAT32, ones);
    mx_optimizer *optimizer = mx_sgld(.learning_rate = 0.25, .wd = 1);
    mx_optimizer_update(optimizer, mx_optimizer_state_new(optimizer, weight), weight, grad, 1, 1);
    mx_array_read_doubles(weight, found, MANY);
    double mean = 0, variance = 0;
    for (int i = 0; i < MANY; i++)
        mean += found[i] / MANY;
    for (int i = 0; i < MANY; i++)
        variance += (found[i] - mean) * (found[i] - mean) / MANY;
    assert_close(mean, 1 - 0.125 * 2, 0.02, "mean");
    assert_close(variance, 0.25, 0.02, "variance");
    assert_int_equal(mx_check("sgld"), 0);
}

/* ---- masters, multipliers ---------------------------------------------------------------------------------------- */

/* Steps below half a unit in the last place of a 16-bit weight still accumulate in the float32 master. */
static void masters_remember_small_steps(void **state)
{
    (void)state;
    static const mx_dtype types[] = {MX_FLOAT16, MX_BFLOAT16};
    double one[N], found[N];
    EACH one[i] = 1;
    for (int k = 0; k < 2; k++)
        for (int precise = 0; precise < 2; precise++) {
            MX_SCOPE;
            mx_optimizer *optimizer = mx_sgd(.learning_rate = 1e-4, .multi_precision = precise);
            mx_array *weight = array_of(one, types[k]), *grad = array_of(one, types[k]);
            mx_optimizer_state *memory = mx_optimizer_state_new(optimizer, weight);
            assert_int_equal(mx_optimizer_state_count(memory), precise);
            for (int t = 0; t < 1000; t++)
                mx_optimizer_update(optimizer, memory, weight, grad, 1, 1);
            mx_array_read_doubles(weight, found, N);
            assert_close(found[0], precise ? 0.9 : 1, 4e-3, mx_dtype_name(types[k]));
            if (precise) {
                assert_int_equal(mx_dtype_of(mx_optimizer_state_at(memory, 0)), MX_FLOAT32);
                mx_array_read_doubles(mx_optimizer_state_at(memory, 0), found, N);
                assert_close(found[0], 0.9, 1e-4, "master");
            }
            assert_int_equal(mx_check("masters"), 0);
        }
}

static void multipliers_scale_rate_and_decay(void **state)
{
    (void)state;
    MX_SCOPE;
    double w[N], found[N];
    EACH w[i] = number(i);
    mx_array *weight = array_of(w, MX_FLOAT32);
    mx_optimizer *optimizer = mx_sgd(.learning_rate = 0.1, .wd = 0.2);
    mx_optimizer_update(optimizer, mx_optimizer_state_new(optimizer, weight), weight, weight, 0.5, 3);
    mx_array_read_doubles(weight, found, N);
    EACH assert_close(found[i], w[i] - 0.05 * (w[i] + 0.6 * w[i]), 1e-6, "sgd with multipliers");
}

/* ---- schedules --------------------------------------------------------------------------------------------------- */

static double factor_rule(int n)
{
    if (n < 4)
        return 0.01 + (0.1 - 0.01) * n / 4;
    double rate = 0.1;
    for (int count = 3; n > count; count += 3)
        rate = fmax(rate * 0.5, 0.002);
    return rate;
}
static double multi_rule(int n) { return 0.1 * pow(0.5, (n > 3) + (n > 5) + (n > 9)); }
static double poly_rule(int n) { return n < 3 ? 0.1 * n / 3 : 0.01 + 0.09 * pow(1 - fmin(n - 3, 17) / 17, 2); }
static double cosine_rule(int n) { return n < 3 ? 0.02 : 0.01 + 0.09 * (1 + cos(M_PI * fmin(n - 3, 17) / 17)) / 2; }

static void schedules_follow_the_formulas(void **state)
{
    (void)state;
    MX_SCOPE;
    const struct {
        const char *name;
        mx_lr_scheduler *schedule;
        double (*rule)(int n);
    } rows[] = {
        {"FactorScheduler",
         mx_factor_scheduler(3, .factor = 0.5, .stop_factor_lr = 0.002, .base_lr = 0.1, .warmup_steps = 4,
                             .warmup_begin_lr = 0.01),
         factor_rule},
        {"MultiFactorScheduler", mx_multi_factor_scheduler(MX_DIMS(3, 5, 9), .factor = 0.5, .base_lr = 0.1),
         multi_rule},
        {"PolyScheduler", mx_poly_scheduler(20, .base_lr = 0.1, .final_lr = 0.01, .warmup_steps = 3), poly_rule},
        {"CosineScheduler",
         mx_cosine_scheduler(20, .base_lr = 0.1, .final_lr = 0.01, .warmup_steps = 3, .warmup_begin_lr = 0.02,
                             .warmup_mode = "constant"),
         cosine_rule},
    };
    int known = 0;
    for (int i = 0; mx_class_at(i); i++)
        known += mx_class_kind_of(mx_class_at(i)) == MX_LR_SCHEDULER;
    assert_int_equal(known, sizeof rows / sizeof *rows);
    for (int k = 0; k < known; k++)
        for (int n = 0; n < 60; n++)
            assert_close(mx_lr_scheduler_rate(rows[k].schedule, n), rows[k].rule(n), 1e-14, rows[k].name);
    mx_lr_scheduler *longer =
        mx_multi_factor_scheduler(MX_DIMS(3), .more_steps = "5, 9", .factor = 0.5, .base_lr = 0.1);
    for (int n = 0; n < 20; n++)
        assert_close(mx_lr_scheduler_rate(longer, n), multi_rule(n), 1e-14, "steps in a string");
    assert_int_equal(mx_check("schedules"), 0);
}

static void bad_schedules_are_refused(void **state)
{
    (void)state;
    MX_SCOPE;
    assert_null(mx_factor_scheduler(0));
    assert_error(MX_ERR_ATTRIBUTE, "step");
    assert_null(mx_factor_scheduler(1, .factor = 1.5));
    assert_error(MX_ERR_ATTRIBUTE, "factor");
    assert_null(mx_multi_factor_scheduler(MX_DIMS(3, 2)));
    assert_error(MX_ERR_ATTRIBUTE, "ascending");
    assert_null(mx_poly_scheduler(0));
    assert_error(MX_ERR_ATTRIBUTE, "max_update");
    assert_null(mx_cosine_scheduler(5, .warmup_steps = 6));
    assert_error(MX_ERR_ATTRIBUTE, "warmup_steps");
    assert_null(mx_factor_scheduler(1, .warmup_mode = "x"));
    assert_error(MX_ERR_ATTRIBUTE, "warmup_mode");
    assert_null(mx_factor_scheduler(1, .warmup_steps = 2, .warmup_begin_lr = 1));
    assert_error(MX_ERR_ATTRIBUTE, "warmup_begin_lr");
}

static double halves(void *user, double base_lr, int64_t n) { return base_lr * pow(*(double *)user, (double)n); }

static void schedules_drive_optimizers(void **state)
{
    (void)state;
    MX_SCOPE;
    double half = 0.5, w[N] = {0}, one[N], found[N];
    EACH one[i] = 1;
    mx_lr_scheduler *schedule = mx_lr_scheduler_custom(halves, 0.8, &half, NULL);
    mx_optimizer *optimizer = mx_sgd(.lr_scheduler = schedule);
    assert_close(mx_optimizer_learning_rate(optimizer), 0.8, 1e-15, "rate before the first update");
    mx_array *weight = array_of(w, MX_FLOAT64), *grad = array_of(one, MX_FLOAT64);
    mx_optimizer_state *memory = mx_optimizer_state_new(optimizer, weight);
    for (int t = 0; t < 3; t++)
        mx_optimizer_update(optimizer, memory, weight, grad, 1, 1);
    mx_array_read_doubles(weight, found, N);
    assert_close(found[0], -(0.4 + 0.2 + 0.1), 1e-6, "three steps");
    assert_close(mx_optimizer_learning_rate(optimizer), 0.1, 1e-15, "rate after them");
    mx_optimizer_set_learning_rate(optimizer, 1);
    assert_error(MX_ERR_STATE, "schedule");
    mx_optimizer_set_scheduler(optimizer, NULL);
    assert_int_equal(mx_optimizer_set_learning_rate(optimizer, 1), MX_OK);
    assert_close(mx_optimizer_learning_rate(optimizer), 1, 0, "constant rate");
    mx_lr_scheduler *factor = mx_factor_scheduler(5, .base_lr = 0.3);
    mx_adam(.lr_scheduler = factor, .learning_rate = 0.7);
    assert_close(mx_lr_scheduler_base(factor), 0.7, 0, "the optimizer's rate replaces the schedule's");
}

/* ---- users, errors, memory --------------------------------------------------------------------------------------- */

static mx_code by_user(void *user, mx_array *weight, mx_array *grad, mx_array **states, double lr, double wd, int64_t t)
{
    double g[N], s[N], w[N];
    (void)wd;
    if (t == 3)
        return MX_ERR_STATE;
    mx_array_read_doubles(grad, g, N);
    mx_array_read_doubles(weight, w, N);
    mx_array_read_doubles(states[0], s, N);
    EACH s[i] += g[i], w[i] -= lr * s[i];
    ++*(int *)user;
    return mx_array_set(states[0], array_of(s, MX_FLOAT64)) || mx_array_set(weight, array_of(w, MX_FLOAT64));
}

static void users_have_their_own(void **state)
{
    (void)state;
    MX_SCOPE;
    int calls = 0;
    double w[N] = {0}, one[N], found[N];
    EACH one[i] = 1;
    mx_optimizer *optimizer = mx_optimizer_custom("mine", by_user, 1, 0.5, &calls);
    assert_string_equal(mx_optimizer_name(optimizer), "mine");
    mx_array *weight = array_of(w, MX_FLOAT32), *grad = array_of(one, MX_FLOAT32);
    mx_optimizer_state *memory = mx_optimizer_state_new(optimizer, weight);
    mx_optimizer_set_rescale_grad(optimizer, 2);
    mx_optimizer_update(optimizer, memory, weight, grad, 1, 1);
    mx_optimizer_update(optimizer, memory, weight, grad, 1, 1);
    mx_array_read_doubles(weight, found, N);
    assert_close(found[0], -0.5 * (2 + 4), 1e-6, "two steps");
    assert_int_equal(calls, 2);
    mx_optimizer_update(optimizer, memory, weight, grad, 1, 1);
    assert_error(MX_ERR_CALLBACK, "mine");
    assert_null(mx_optimizer_custom("mine", NULL, 1, 0.5, NULL));
    assert_error(MX_ERR_ARGUMENT, "update");
    assert_null(mx_optimizer_custom("mine", by_user, 9, 0.5, NULL));
    assert_error(MX_ERR_ARGUMENT, "9 states");
}

static void bad_requests_are_refused(void **state)
{
    (void)state;
    MX_SCOPE;
    double w[N] = {0};
    assert_null(mx_optimizer_new("sdg", NULL));
    assert_error(MX_ERR_ARGUMENT, "sdg");
    assert_null(mx_optimizer_new("sgd", "momentun=0.9"));
    assert_error(MX_ERR_ATTRIBUTE, "momentun");
    assert_null(mx_optimizer_new("sgd", "momentum=lots"));
    assert_error(MX_ERR_ATTRIBUTE, "lots");
    assert_null(mx_lbsgd(.warmup_strategy = "x"));
    assert_error(MX_ERR_ATTRIBUTE, "warmup_strategy");
    assert_null(mx_group_adagrad(.wd = 1));
    assert_error(MX_ERR_ATTRIBUTE, "wd");
    mx_optimizer *optimizer = mx_sgd(.momentum = 0.9);
    assert_null(mx_optimizer_state_new(optimizer, mx_empty(MX_DIMS(2), MX_INT32, mx_cpu(0))));
    assert_error(MX_ERR_DTYPE, "int32");
    mx_array *weight = array_of(w, MX_FLOAT32);
    mx_optimizer_state *memory = mx_optimizer_state_new(optimizer, weight);
    mx_optimizer_update(optimizer, memory, weight, mx_empty(MX_DIMS(2), MX_FLOAT32, mx_cpu(0)), 1, 1);
    assert_error(MX_ERR_SHAPE, "(2,)");
    mx_optimizer_update(optimizer, memory, weight, array_of(w, MX_FLOAT64), 1, 1);
    assert_error(MX_ERR_DTYPE, "float64");
    mx_optimizer_update(NULL, memory, weight, weight, 1, 1);
    assert_int_equal(mx_error_code(), MX_ERR_ARGUMENT);
    mx_error_clear();
}

static void nothing_leaks_when_memory_runs_out(void **state)
{
    (void)state;
    for (int n = 1; n < 60; n++) {
        const int64_t before = mx_alloc_get_stats().live_blocks;
        mx_scoped() {
            double w[N] = {0};
            mx_array *weight = array_of(w, MX_FLOAT16);
            mx_alloc_fail_at(n);
            mx_optimizer *optimizer = mx_adam(.multi_precision = true, .lr_scheduler = mx_factor_scheduler(2));
            mx_optimizer_state *memory = optimizer ? mx_optimizer_state_new(optimizer, weight) : NULL;
            if (memory)
                mx_optimizer_update(optimizer, memory, weight, weight, 1, 1);
            mx_alloc_fail_at(0);
            mx_error_clear();
        }
        assert_true(mx_alloc_get_stats().live_blocks <= before + 2); /* caches may grow once */
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(updates_follow_the_formulas),
        cmocka_unit_test(every_optimizer_has_a_case),
        cmocka_unit_test(sgld_adds_noise),
        cmocka_unit_test(masters_remember_small_steps),
        cmocka_unit_test(multipliers_scale_rate_and_decay),
        cmocka_unit_test(schedules_follow_the_formulas),
        cmocka_unit_test(bad_schedules_are_refused),
        cmocka_unit_test(schedules_drive_optimizers),
        cmocka_unit_test(users_have_their_own),
        cmocka_unit_test(bad_requests_are_refused),
        cmocka_unit_test(nothing_leaks_when_memory_runs_out),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
