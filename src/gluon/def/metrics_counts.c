/* Metrics computed from confusion matrices: F1, MCC, PCC.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <math.h>

#include "base/error.h"
#include "gluon/train/learning.h"
#include "ndarray/array.h"

/* Calls the class of each sample: predictions are (samples, classes). */
typedef struct sample_classes {
    mx_numbers found, wanted;
} sample_classes;

static mx_code read_classes(const mx_metric *self, mx_array *label, mx_array *pred, sample_classes *out)
{
    *out = (sample_classes){0};
    if (pred->ndim != 2 || label->size != pred->shape[0])
        return mx_metric_fail_sizes(self, label, pred);
    out->found = mx_numbers_of_argmax(pred, 1);
    out->wanted = mx_numbers_of(label);
    return out->found.v && out->wanted.v ? MX_OK : mx_error_code();
}

static void free_classes(sample_classes *classes)
{
    mx_numbers_free(&classes->found);
    mx_numbers_free(&classes->wanted);
}

/* ---- F1, MCC ----------------------------------------------------------------------------------------------------- */
#define F1_OPTIONS(X) \
    X(STR, name, "f1", "", "as shown") \
    X(STR, average, "macro", "", "macro: mean over updates; micro: over all samples at once")
MX_ATTRS(f1, F1_OPTIONS)
#define MCC_OPTIONS(X) \
    X(STR, name, "mcc", "", "as shown") \
    X(STR, average, "macro", "", "macro: mean over updates; micro: over all samples at once")
MX_ATTRS(mcc, MCC_OPTIONS)

/* state: true and false positives and negatives; class 1 is positive */
enum { TP, FP, FN, TN };

static mx_code start_binary(mx_metric *self)
{
    int choice;
    return mx_option_choice(self->cls->name, "average", ((const mx_f1_attrs *)self->options)->average, "macro|micro",
                            &choice);
}

static bool is_macro(const mx_metric *self) { return ((const mx_f1_attrs *)self->options)->average[1] == 'a'; }

static mx_code update_binary(const mx_metric *self, mx_tally *tally, mx_array *label, mx_array *pred)
{
    sample_classes classes;
    mx_code code = read_classes(self, label, pred, &classes);
    for (int64_t i = 0; !code && i < classes.wanted.n; i++) {
        const double wanted = trunc(classes.wanted.v[i]);
        if (wanted != 0 && wanted != 1)
            code = mx_fail(MX_ERR_ARGUMENT, "%s: label %lld is %g, wanted 0 or 1: the metric is for two classes",
                           self->name, (long long)i, wanted);
        else
            tally->state[classes.found.v[i] == 1 ? wanted == 1 ? TP : FP : wanted == 1 ? FN : TN]++;
    }
    tally->count = tally->state[TP] + tally->state[FP] + tally->state[FN] + tally->state[TN];
    free_classes(&classes);
    return code;
}

static double ratio(double a, double b) { return b > 0 ? a / b : 0; }

static double f1_of(const mx_tally *t)
{
    const double precision = ratio(t->state[TP], t->state[TP] + t->state[FP]),
                 recall = ratio(t->state[TP], t->state[TP] + t->state[FN]);
    return ratio(2 * precision * recall, precision + recall);
}

/* Matthews' correlation; empty rows and columns of the confusion matrix are left out of the denominator. */
static double mcc_of(const mx_tally *t)
{
    const double tp = t->state[TP], fp = t->state[FP], fn = t->state[FN], tn = t->state[TN];
    const double sums[4] = {tp + fp, tp + fn, tn + fp, tn + fn};
    double product = 1;
    for (int i = 0; i < 4; i++)
        product *= sums[i] > 0 ? sums[i] : 1;
    return tp + fp + fn + tn > 0 ? (tp * tn - fp * fn) / sqrt(product) : 0;
}

/* The score of one update becomes one number of the mean. */
static void finish_macro(const mx_metric *self, mx_tally *tally, double score)
{
    if (is_macro(self))
        *tally = (mx_tally){.sum = score, .count = 1};
}
static void finish_f1(const mx_metric *self, mx_tally *tally) { finish_macro(self, tally, f1_of(tally)); }
static void finish_mcc(const mx_metric *self, mx_tally *tally) { finish_macro(self, tally, mcc_of(tally)); }

static double value_f1(const mx_metric *self, const mx_tally *tally)
{
    return is_macro(self) ? tally->sum / tally->count : f1_of(tally);
}
static double value_mcc(const mx_metric *self, const mx_tally *tally)
{
    return is_macro(self) ? tally->sum / tally->count : mcc_of(tally);
}

/* ---- PCC --------------------------------------------------------------------------------------------------------- */
#define PCC_OPTIONS(X) X(STR, name, "pcc", "", "as shown")
MX_ATTRS(pcc, PCC_OPTIONS)

/* Predictions are scores (samples, classes), or classes in the shape of the labels. */
static mx_code read_any_classes(const mx_metric *self, mx_array *label, mx_array *pred, sample_classes *out)
{
    const mx_shape_t a = mx_array_shape(label), b = mx_array_shape(pred);
    if (!mx_shape_equal(&a, &b))
        return read_classes(self, label, pred, out);
    *out = (sample_classes){mx_numbers_of(pred), mx_numbers_of(label)};
    for (int64_t i = 0; out->found.v && i < out->found.n; i++)
        if (!(out->found.v[i] >= 0 && out->found.v[i] < 65536))
            return mx_fail(MX_ERR_ARGUMENT, "%s: prediction %lld is %g, wanted a class from 0 to 65535", self->name,
                           (long long)i, out->found.v[i]);
    return out->found.v && out->wanted.v ? MX_OK : mx_error_code();
}

static mx_code update_pcc(const mx_metric *self, mx_tally *tally, mx_array *label, mx_array *pred)
{
    sample_classes classes;
    mx_code code = read_any_classes(self, label, pred, &classes);
    for (int64_t i = 0; !code && i < classes.wanted.n; i++) {
        const double most = classes.found.v[i] > classes.wanted.v[i] ? classes.found.v[i] : classes.wanted.v[i];
        if (!(classes.wanted.v[i] >= 0 && most < 65536))
            code = mx_fail(MX_ERR_ARGUMENT, "%s: label %lld is %g, wanted a class from 0 to 65535", self->name,
                           (long long)i, classes.wanted.v[i]);
        else
            code = mx_tally_grow(tally, (int64_t)most + 1);
        if (!code)
            tally->table[(int64_t)classes.found.v[i] * tally->side + (int64_t)classes.wanted.v[i]]++;
    }
    tally->count++;
    free_classes(&classes);
    return code;
}

/* With x the sums of rows, y of columns, n of all: sum(n table[i][i] - x y) / sqrt(sum(x (n - x)) sum(y (n - y))) */
static double value_pcc(const mx_metric *self, const mx_tally *tally)
{
    const int64_t side = tally->side;
    double n = 0, xy = 0, xx = 0, yy = 0;
    (void)self;
    for (int64_t i = 0; i < side * side; i++)
        n += tally->table[i];
    for (int64_t i = 0; i < side; i++) {
        double x = 0, y = 0;
        for (int64_t j = 0; j < side; j++) {
            x += tally->table[i * side + j];
            y += tally->table[j * side + i];
        }
        xy += n * tally->table[i * side + i] - x * y;
        xx += x * (n - x), yy += y * (n - y);
    }
    return xx == 0 || yy == 0 ? MX_NONE_FLOAT : xy / sqrt(xx * yy);
}

#define METHODS(...) &(const mx_metric_methods){__VA_ARGS__}

mx_class mx_classes_metrics_counts[] = {
    {.kind = MX_METRIC, .name = "F1", .doc = "harmonic mean of precision and recall, two classes", .schema = &f1_schema,
     .methods = METHODS(.update = update_binary, .finish = finish_f1, .value = value_f1, .start = start_binary)},
    {.kind = MX_METRIC, .name = "MCC", .doc = "Matthews' correlation, two classes", .schema = &mcc_schema,
     .methods = METHODS(.update = update_binary, .finish = finish_mcc, .value = value_mcc, .start = start_binary)},
    {.kind = MX_METRIC, .name = "PCC", .doc = "Matthews' correlation for any number of classes", .schema = &pcc_schema,
     .methods = METHODS(.update = update_pcc, .value = value_pcc)},
    {0},
};
