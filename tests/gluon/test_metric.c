/* Metrics against reference formulas over several updates and several pairs; resets, groups, users' functions, errors.
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

#define SAMPLES 11
#define MOST 8 /* pairs of a case */

static void assert_error(mx_code code, const char *part)
{
    assert_int_equal(mx_error_code(), code);
    if (!strstr(mx_error_message(), part))
        fail_msg("'%s' does not say '%s'", mx_error_message(), part);
    mx_error_clear();
}

/* Numbers without pattern in 0 .. 1. */
static double number(int i) { return fmod(0.6180339887498949 * (i + 1) * (i + 7) + 0.1 * i, 1); }

/* ---- the data of a case ------------------------------------------------------------------------------------------ */

typedef struct data {
    int classes;                                          /* 0: labels and predictions are real numbers */
    int updates, pairs;                                   /* pairs per update */
    double label[MOST][SAMPLES], pred[MOST][SAMPLES * 8]; /* pair u * pairs + j */
} data;

static data make_data(int classes, int updates, int pairs)
{
    data d = {.classes = classes, .updates = updates, .pairs = pairs};
    for (int p = 0; p < updates * pairs; p++) {
        for (int i = 0; i < SAMPLES; i++)
            d.label[p][i] = classes ? floor(classes * number(1000 * p + 3 * i)) : 2 * number(1000 * p + i) - 1;
        for (int i = 0; i < SAMPLES * (classes ? classes : 1); i++)
            d.pred[p][i] = (float)number(1000 * p + 100 + i);
    }
    return d;
}

static int best(const data *d, int p, int i)
{
    int found = 0;
    for (int c = 1; c < d->classes; c++)
        if (d->pred[p][i * d->classes + c] > d->pred[p][i * d->classes + found])
            found = c;
    return found;
}
#define PAIRS(d) for (int p = 0; p < (d)->updates * (d)->pairs; p++)
#define EACH for (int i = 0; i < SAMPLES; i++)

/* ---- the formulas ------------------------------------------------------------------------------------------------ */

static double accuracy(const data *d)
{
    double right = 0;
    PAIRS(d) EACH right += best(d, p, i) == d->label[p][i];
    return right / (d->updates * d->pairs * SAMPLES);
}
static double top_2(const data *d)
{
    double right = 0;
    PAIRS(d) EACH
    {
        int above = 0;
        for (int c = 0; c < d->classes; c++)
            above += d->pred[p][i * d->classes + c] > d->pred[p][i * d->classes + (int)d->label[p][i]];
        right += above < 2;
    }
    return right / (d->updates * d->pairs * SAMPLES);
}
static double mean_log(const data *d, double eps, int ignore)
{
    double sum = 0, count = 0;
    PAIRS(d) EACH if (d->label[p][i] != ignore)
    {
        sum -= log(d->pred[p][i * d->classes + (int)d->label[p][i]] + eps);
        count++;
    }
    return sum / count;
}
static double cross_entropy(const data *d) { return mean_log(d, 1e-12, -1); }
static double cross_entropy_softened(const data *d) { return mean_log(d, 0.1, -1); }
static double perplexity(const data *d) { return exp(mean_log(d, 0, -1)); }
static double perplexity_without_2(const data *d) { return exp(mean_log(d, 0, 2)); }
static double mean_pred(const data *d)
{
    double sum = 0;
    PAIRS(d) EACH sum += d->pred[p][i];
    return sum / (d->updates * d->pairs * SAMPLES);
}

/* Errors are means of pairs. */
static double error(const data *d, int kind)
{
    double total = 0;
    PAIRS(d)
    {
        double sum = 0;
        EACH
        {
            const double e = fabs(d->label[p][i] - d->pred[p][i]);
            sum += (kind ? e * e : e) / SAMPLES;
        }
        total += (kind == 2 ? sqrt(sum) : sum) / (d->updates * d->pairs);
    }
    return total;
}
static double mae(const data *d) { return error(d, 0); }
static double mse(const data *d) { return error(d, 1); }
static double rmse(const data *d) { return error(d, 2); }

/* Correlation over the pairs from .. until. */
static double correlate(const data *d, int from, int until)
{
    double mx = 0, my = 0, xx = 0, yy = 0, xy = 0;
    const double n = (until - from) * SAMPLES;
    for (int p = from; p < until; p++)
        EACH mx += d->label[p][i] / n, my += d->pred[p][i] / n;
    for (int p = from; p < until; p++)
        EACH
        {
            const double x = d->label[p][i] - mx, y = d->pred[p][i] - my;
            xx += x * x, yy += y * y, xy += x * y;
        }
    return xy / sqrt(xx * yy);
}
static double pearson(const data *d)
{
    double sum = 0;
    PAIRS(d) sum += correlate(d, p, p + 1);
    return sum / (d->updates * d->pairs);
}
static double pearson_micro(const data *d) { return correlate(d, 0, d->updates * d->pairs); }

/* Scores of two classes over the pairs from .. until. */
static double score(const data *d, int from, int until, bool matthews)
{
    double t[2][2] = {{0}};
    for (int p = from; p < until; p++)
        EACH t[best(d, p, i)][(int)d->label[p][i]]++;
    const double tp = t[1][1], fp = t[1][0], fn = t[0][1], tn = t[0][0];
    if (matthews)
        return (tp * tn - fp * fn) / sqrt((tp + fp) * (tp + fn) * (tn + fp) * (tn + fn));
    return 2 * tp / (2 * tp + fp + fn);
}
static double by_update(const data *d, bool matthews)
{
    double sum = 0;
    for (int u = 0; u < d->updates; u++)
        sum += score(d, u * d->pairs, (u + 1) * d->pairs, matthews);
    return sum / d->updates;
}
static double f1(const data *d) { return by_update(d, false); }
static double f1_micro(const data *d) { return score(d, 0, d->updates * d->pairs, false); }
static double mcc(const data *d) { return by_update(d, true); }
static double mcc_micro(const data *d) { return score(d, 0, d->updates * d->pairs, true); }

/* Matthews for k classes: the covariance of predicted and true indicators over their deviations. */
static double pcc(const data *d)
{
    const int k = d->classes;
    double found[8] = {0}, wanted[8] = {0}, both = 0, n = 0;
    PAIRS(d) EACH
    {
        found[best(d, p, i)]++, wanted[(int)d->label[p][i]]++;
        both += best(d, p, i) == d->label[p][i], n++;
    }
    double xy = both * n, xx = n * n, yy = n * n;
    for (int c = 0; c < k; c++)
        xy -= found[c] * wanted[c], xx -= found[c] * found[c], yy -= wanted[c] * wanted[c];
    return xy / sqrt(xx * yy);
}

/* ---- the cases --------------------------------------------------------------------------------------------------- */

static const struct {
    const char *name, *options, *shown;
    int classes;
    double (*value)(const data *d);
} cases[] = {
    {"Accuracy", NULL, "accuracy", 5, accuracy},
    {"acc", "axis=-1, name=hits", "hits", 3, accuracy},
    {"TopKAccuracy", "top_k=2", "top_k_accuracy_2", 5, top_2},
    {"top_k_acc", "top_k=2", "top_k_accuracy_2", 5, top_2},
    {"CrossEntropy", NULL, "cross-entropy", 5, cross_entropy},
    {"ce", "eps=0.1", "cross-entropy", 5, cross_entropy_softened},
    {"NegativeLogLikelihood", NULL, "nll-loss", 5, cross_entropy},
    {"nll_loss", NULL, "nll-loss", 5, cross_entropy},
    {"Perplexity", NULL, "perplexity", 5, perplexity},
    {"Perplexity", "ignore_label=2", "perplexity", 5, perplexity_without_2},
    {"Loss", NULL, "loss", 0, mean_pred},
    {"Torch", NULL, "torch", 0, mean_pred},
    {"Caffe", NULL, "caffe", 0, mean_pred},
    {"MAE", NULL, "mae", 0, mae},
    {"MSE", NULL, "mse", 0, mse},
    {"RMSE", NULL, "rmse", 0, rmse},
    {"PearsonCorrelation", NULL, "pearsonr", 0, pearson},
    {"pearsonr", "average=micro", "pearsonr", 0, pearson_micro},
    {"F1", NULL, "f1", 2, f1},
    {"F1", "average=micro", "f1", 2, f1_micro},
    {"MCC", NULL, "mcc", 2, mcc},
    {"MCC", "average=micro", "mcc", 2, mcc_micro},
    {"PCC", NULL, "pcc", 2, pcc},
    {"PCC", NULL, "pcc", 6, pcc},
};
enum { CASES = sizeof cases / sizeof *cases };

static mx_array *array_of(const double *v, mx_dims shape, mx_dtype dtype)
{
    mx_array *x = mx_empty(shape, dtype, mx_cpu(0));
    mx_array_set(x, mx_array_from(shape, MX_FLOAT64, v));
    return x;
}

static void update(mx_metric *metric, const data *d, int u)
{
    mx_array *labels[MOST], *preds[MOST];
    for (int j = 0; j < d->pairs; j++) {
        const int p = u * d->pairs + j;
        labels[j] = array_of(d->label[p], MX_DIMS(SAMPLES), d->classes ? MX_INT32 : MX_FLOAT64);
        preds[j] = array_of(d->pred[p], d->classes ? MX_DIMS(SAMPLES, d->classes) : MX_DIMS(SAMPLES), MX_FLOAT32);
    }
    mx_metric_update(metric, (mx_arrays){labels, d->pairs}, (mx_arrays){preds, d->pairs});
    if (mx_error_code())
        fail_msg("%s: %s", mx_metric_name(metric), mx_error_message());
}

static void assert_value(const char *who, double found, double wanted)
{
    if (!(fabs(found - wanted) <= 1e-6 * fmax(1, fabs(wanted))))
        fail_msg("%s: found %.9g, wanted %.9g", who, found, wanted);
}

static void run_case(int c, int updates, int pairs)
{
    MX_SCOPE;
    const data d = make_data(cases[c].classes, updates, pairs);
    mx_metric *metric = mx_metric_new(cases[c].name, cases[c].options);
    assert_int_equal(mx_check(cases[c].name), 0);
    assert_string_equal(mx_metric_name(metric), cases[c].shown);
    assert_true(isnan(mx_metric_get(metric)));
    for (int round = 0; round < 2; round++) { /* a reset starts over */
        for (int u = 0; u < updates; u++)
            update(metric, &d, u);
        assert_value(cases[c].name, mx_metric_get(metric), cases[c].value(&d));
        assert_value(cases[c].name, mx_metric_get_global(metric), cases[c].value(&d));
        mx_metric_reset(metric);
        assert_true(isnan(mx_metric_get(metric)) && isnan(mx_metric_get_global(metric)));
    }
}

static void values_follow_the_formulas(void **state)
{
    (void)state;
    for (int c = 0; c < CASES; c++) {
        run_case(c, 1, 1);
        run_case(c, 4, 1);
        run_case(c, 2, 3);
    }
}

/* The last update alone, and all of them. */
static void local_and_global_counts_run_apart(void **state)
{
    (void)state;
    for (int c = 0; c < CASES; c++) {
        MX_SCOPE;
        const data all = make_data(cases[c].classes, 3, 1);
        data last = {.classes = all.classes, .updates = 1, .pairs = 1};
        memcpy(last.label[0], all.label[2], sizeof last.label[0]);
        memcpy(last.pred[0], all.pred[2], sizeof last.pred[0]);
        mx_metric *metric = mx_metric_new(cases[c].name, cases[c].options);
        update(metric, &all, 0);
        update(metric, &all, 1);
        mx_metric_reset_local(metric);
        assert_true(isnan(mx_metric_get(metric)));
        update(metric, &all, 2);
        assert_value(cases[c].name, mx_metric_get(metric), cases[c].value(&last));
        assert_value(cases[c].name, mx_metric_get_global(metric), cases[c].value(&all));
    }
}

static void every_metric_has_a_case(void **state)
{
    (void)state;
    for (int i = 0; mx_class_at(i); i++) {
        const char *name = mx_class_name(mx_class_at(i));
        if (mx_class_kind_of(mx_class_at(i)) != MX_METRIC || !strcmp(name, "CompositeEvalMetric"))
            continue;
        int c = 0;
        while (c < CASES && strcmp(cases[c].name, name))
            c++;
        if (c == CASES)
            fail_msg("metric %s has no expected values", name);
    }
}

/* ---- shapes ------------------------------------------------------------------------------------------------------ */

static double value_of(mx_metric *metric, mx_array *label, mx_array *pred)
{
    mx_metric_update(metric, MX_ARRAYS(label), MX_ARRAYS(pred));
    return mx_metric_get(metric);
}

static void shapes_may_differ(void **state)
{
    (void)state;
    MX_SCOPE;
    const double classes[4] = {1, 0, 1, 1}, one_zero[8] = {0, 1, 1, 0, 0, 1, 0.6, 0.4};
    mx_array *flat = array_of(classes, MX_DIMS(4), MX_FLOAT32), *column = array_of(classes, MX_DIMS(4, 1), MX_FLOAT32);
    mx_array *scores = array_of(one_zero, MX_DIMS(4, 2), MX_FLOAT32);
    assert_value("labels in a column", value_of(mx_accuracy(), column, scores), 0.75);
    assert_value("classes as predictions", value_of(mx_accuracy(), flat, flat), 1);
    /* (2, 2 classes, 2): classes on axis 1, the default */
    const double grid[8] = {1, 0, 0, 1, 0, 1, 1, 0}, wanted[4] = {0, 1, 1, 1};
    mx_array *square = array_of(wanted, MX_DIMS(2, 2), MX_FLOAT32),
             *cube = array_of(grid, MX_DIMS(2, 2, 2), MX_FLOAT32);
    assert_value("axis 1", value_of(mx_accuracy(), square, cube), 0.75);
    /* (2, 2, 2 classes) */
    assert_value("axis -1", value_of(mx_accuracy(.axis = -1), square, cube), 0.75);
    assert_value("perplexity of three axes",
                 value_of(mx_perplexity(.axis = 1), square,
                          array_of((double[]){.5, .5, .5, .5, .5, .5, .5, .5}, MX_DIMS(2, 2, 2), MX_FLOAT32)),
                 2);
    /* a column of labels against several columns of predictions */
    assert_value("broadcast", value_of(mx_mae(), flat, scores), (1 + 0 + 1 + 0 + 1 + 0 + 0.4 + 0.6) / 8);
    assert_int_equal(mx_check("shapes"), 0);
}

/* ---- groups, users, errors --------------------------------------------------------------------------------------- */

static void groups_update_all(void **state)
{
    (void)state;
    MX_SCOPE;
    const data d = make_data(2, 2, 1);
    mx_metric *const members[] = {mx_accuracy(), mx_f1()};
    mx_metric *group = mx_metric_group(members, 2);
    mx_metric_add(group, mx_cross_entropy());
    assert_int_equal(mx_metric_children(group), 3);
    update(group, &d, 0);
    update(group, &d, 1);
    assert_value("accuracy", mx_metric_get(mx_metric_child(group, 0)), accuracy(&d));
    assert_value("f1", mx_metric_get(mx_metric_child(group, 1)), f1(&d));
    assert_value("cross entropy", mx_metric_get(mx_metric_child(group, 2)), cross_entropy(&d));
    mx_metric_reset_local(group);
    assert_true(isnan(mx_metric_get(members[0])) && !isnan(mx_metric_get_global(members[0])));
    mx_metric_reset(group);
    assert_true(isnan(mx_metric_get_global(members[0])));
    assert_null(mx_metric_child(group, 3));
    assert_error(MX_ERR_INDEX, "3");
    mx_metric_add(members[0], members[1]);
    assert_error(MX_ERR_ARGUMENT, "accuracy");
    mx_metric_add(group, group);
    assert_error(MX_ERR_ARGUMENT, "composite");
    mx_metric_add(NULL, members[0]);
    assert_error(MX_ERR_ARGUMENT, "mx_metric_add");
    mx_metric_add(group, NULL);
    assert_error(MX_ERR_ARGUMENT, "mx_metric_add");
}

static double by_user(void *user, mx_array *label, mx_array *pred)
{
    (void)label, (void)pred;
    const double value = (*(double *)user)++;
    return value < 3 ? value : (mx_error_set(MX_ERR_STATE, "enough"), NAN);
}

static void users_have_their_own(void **state)
{
    (void)state;
    MX_SCOPE;
    double next = 1;
    mx_metric *metric = mx_metric_custom("mine", by_user, &next);
    mx_array *x = array_of((double[]){1}, MX_DIMS(1), MX_FLOAT32);
    assert_value("mine", value_of(metric, x, x), 1);
    assert_value("mine", value_of(metric, x, x), 1.5);
    mx_metric_update(metric, MX_ARRAYS(x), MX_ARRAYS(x));
    assert_error(MX_ERR_STATE, "enough");
    assert_value("a failed update does not count", mx_metric_get(metric), 1.5);
    assert_null(mx_metric_custom("mine", NULL, NULL));
    assert_error(MX_ERR_ARGUMENT, "fn");
}

/* Metrics are computed from values alone, also in the middle of a recorded step. */
static double recording(void *user, mx_array *label, mx_array *pred)
{
    (void)user, (void)label, (void)pred;
    return mx_is_recording();
}

static void nothing_is_recorded(void **state)
{
    (void)state;
    MX_SCOPE;
    mx_metric *metric = mx_metric_custom("recording", recording, NULL);
    mx_array *x = array_of((double[]){1}, MX_DIMS(1), MX_FLOAT32);
    mx_attach_grad(x, MX_GRAD_WRITE);
    assert_value("outside", value_of(metric, x, x), 0);
    mx_record()
        assert_value("inside", value_of(metric, x, x), 0);
}

static void bad_requests_are_refused(void **state)
{
    (void)state;
    MX_SCOPE;
    const data d = make_data(5, 1, 1);
    mx_array *label = array_of(d.label[0], MX_DIMS(SAMPLES), MX_FLOAT32),
             *pred = array_of(d.pred[0], MX_DIMS(SAMPLES, 5), MX_FLOAT32);
    mx_array *few = array_of(d.label[0], MX_DIMS(3), MX_FLOAT32),
             *big = array_of((double[]){0, 9, 1}, MX_DIMS(3), MX_FLOAT32);
    mx_array *three = array_of(d.pred[0], MX_DIMS(3, 5), MX_FLOAT32);
    static const char *const names[] = {"acc", "ce", "perplexity", "f1", "mcc", "pcc", "mse", "pearsonr"};
    for (int i = 0; i < 8; i++) {
        mx_metric *metric = mx_metric_new(names[i], NULL);
        mx_metric_update(metric, MX_ARRAYS(few), MX_ARRAYS(pred));
        assert_error(MX_ERR_SHAPE, "(3,)");
        mx_metric_update(metric, MX_ARRAYS(label, label), MX_ARRAYS(pred));
        assert_error(MX_ERR_ARGUMENT, "2 labels but 1 predictions");
        assert_true(isnan(mx_metric_get(metric)));
    }
    mx_metric_update(mx_top_k_accuracy(2), MX_ARRAYS(few), MX_ARRAYS(pred));
    assert_error(MX_ERR_SHAPE, "(3,)");
    mx_metric_update(mx_cross_entropy(), MX_ARRAYS(big), MX_ARRAYS(three));
    assert_error(MX_ERR_INDEX, "5 classes");
    mx_metric_update(mx_f1(), MX_ARRAYS(big), MX_ARRAYS(three));
    assert_error(MX_ERR_ARGUMENT, "two classes");
    assert_null(mx_top_k_accuracy(1));
    assert_error(MX_ERR_ATTRIBUTE, "top_k");
    assert_null(mx_f1(.average = "weighted"));
    assert_error(MX_ERR_ATTRIBUTE, "weighted");
    assert_null(mx_pearson_correlation(.average = "x"));
    assert_error(MX_ERR_ATTRIBUTE, "average");
    assert_null(mx_metric_new("acuracy", NULL));
    assert_error(MX_ERR_ARGUMENT, "acuracy");
    mx_metric_update(NULL, MX_ARRAYS(label), MX_ARRAYS(pred));
    assert_int_equal(mx_error_code(), MX_ERR_ARGUMENT);
    mx_error_clear();
}

static void nothing_leaks_when_memory_runs_out(void **state)
{
    (void)state;
    const data d = make_data(5, 1, 1);
    for (int n = 1; n < 40; n++) {
        const int64_t before = mx_alloc_get_stats().live_blocks;
        mx_scoped() {
            mx_array *label = array_of(d.label[0], MX_DIMS(SAMPLES), MX_FLOAT32),
                     *pred = array_of(d.pred[0], MX_DIMS(SAMPLES, 5), MX_FLOAT32);
            mx_alloc_fail_at(n);
            mx_metric *metric = mx_pcc();
            if (metric)
                mx_metric_update(metric, MX_ARRAYS(label), MX_ARRAYS(pred));
            mx_alloc_fail_at(0);
            mx_error_clear();
        }
        assert_true(mx_alloc_get_stats().live_blocks <= before + 2); /* caches may grow once */
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(values_follow_the_formulas),
        cmocka_unit_test(local_and_global_counts_run_apart),
        cmocka_unit_test(every_metric_has_a_case),
        cmocka_unit_test(shapes_may_differ),
        cmocka_unit_test(groups_update_all),
        cmocka_unit_test(users_have_their_own),
        cmocka_unit_test(nothing_is_recorded),
        cmocka_unit_test(bad_requests_are_refused),
        cmocka_unit_test(nothing_leaks_when_memory_runs_out),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
