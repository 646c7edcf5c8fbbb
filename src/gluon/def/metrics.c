/* Metrics of class predictions and of losses: running means over samples.
 *
 * Labels are class numbers, predictions one number per class (or the class itself).
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "gluon/train/learning.h"
#include "ndarray/array.h"

/* ---- Accuracy ---------------------------------------------------------------------------------------------------- */
#define ACCURACY_OPTIONS(X) \
    X(INT, axis, "1", "", "axis of the classes") \
    X(STR, name, "accuracy", "", "as shown")
MX_ATTRS(accuracy, ACCURACY_OPTIONS)

/* Predictions in the shape of the labels are classes already. */
static mx_numbers classes_of(mx_array *pred, const mx_array *label, int64_t axis)
{
    mx_shape_t a = mx_array_shape(pred), b = mx_array_shape(label);
    return mx_shape_equal(&a, &b) ? mx_numbers_of(pred) : mx_numbers_of_argmax(pred, axis);
}

static mx_code update_accuracy(const mx_metric *self, mx_tally *tally, mx_array *label, mx_array *pred)
{
    const mx_accuracy_attrs *o = self->options;
    mx_numbers found = classes_of(pred, label, o->axis), wanted = mx_numbers_of(label);
    mx_code code = found.v && wanted.v ? MX_OK : mx_error_code();
    if (!code && found.n != wanted.n)
        code = mx_metric_fail_sizes(self, label, pred);
    for (int64_t i = 0; !code && i < wanted.n; i++)
        tally->sum += trunc(found.v[i]) == trunc(wanted.v[i]);
    tally->count += (double)wanted.n;
    mx_numbers_free(&found);
    mx_numbers_free(&wanted);
    return code;
}

/* ---- TopKAccuracy ------------------------------------------------------------------------------------------------ */
#define TOP_K_OPTIONS(X) \
    X(INT, top_k, "1", "2..", "a label among the k largest counts as correct; 2 or more") \
    X(STR, name, "top_k_accuracy", "", "displayed name; _k is appended")
MX_ATTRS(top_k, TOP_K_OPTIONS)

static mx_code start_top_k(mx_metric *self)
{
    char name[160];
    snprintf(name, sizeof name, "%.120s_%lld", self->name, (long long)((const mx_top_k_attrs *)self->options)->top_k);
    mx_strfree(self->name);
    return (self->name = mx_strdup(name)) ? MX_OK : mx_error_code();
}

/* The rank of class `label` among the scores; ties are ordered by class. */
static int64_t place_of(const double *row, int64_t classes, int64_t label)
{
    int64_t place = 0;
    for (int64_t j = 0; j < classes; j++)
        place += row[j] > row[label] || (row[j] == row[label] && j < label);
    return place;
}

static mx_code update_top_k(const mx_metric *self, mx_tally *tally, mx_array *label, mx_array *pred)
{
    const mx_top_k_attrs *o = self->options;
    if (pred->ndim > 2 || pred->ndim < 1 || label->size != pred->shape[0])
        return mx_metric_fail_sizes(self, label, pred);
    const int64_t classes = pred->ndim == 2 ? pred->shape[1] : 0;
    mx_numbers found = mx_numbers_of(pred), wanted = mx_numbers_of(label);
    mx_code code = found.v && wanted.v ? MX_OK : mx_error_code();
    for (int64_t i = 0; !code && i < wanted.n; i++) {
        const int64_t class = (int64_t)wanted.v[i];
        if (!classes)
            tally->sum += trunc(found.v[i]) == trunc(wanted.v[i]);
        else if (class >= 0 && class < classes)
            tally->sum += place_of(found.v + i * classes, classes, class) < o->top_k;
    }
    tally->count += (double)wanted.n;
    mx_numbers_free(&found);
    mx_numbers_free(&wanted);
    return code;
}

/* ---- CrossEntropy, NegativeLogLikelihood, Perplexity ------------------------------------------------------------- */
#define CROSS_ENTROPY_OPTIONS(X) \
    X(FLOAT, eps, "1e-12", "", "added to probabilities, so that their logarithms are finite") \
    X(STR, name, "cross-entropy", "", "as shown")
MX_ATTRS(cross_entropy, CROSS_ENTROPY_OPTIONS)
#define NLL_OPTIONS(X) \
    X(FLOAT, eps, "1e-12", "", "added to probabilities, so that their logarithms are finite") \
    X(STR, name, "nll-loss", "", "as shown")
MX_ATTRS(nll, NLL_OPTIONS)
#define PERPLEXITY_OPTIONS(X) \
    X(INT, ignore_label, "None", "", "label of samples that do not count; None: all count") \
    X(INT, axis, "-1", "", "axis of the classes") \
    X(STR, name, "perplexity", "", "as shown")
MX_ATTRS(perplexity, PERPLEXITY_OPTIONS)

/* Calls each(probability of its label) for all samples: pred is (outer, classes, inner), label (outer, inner). */
typedef struct picked {
    int64_t ignore;    /* label that does not count; MX_NONE_INT: none */
    double floor, eps; /* log(max(floor, p + eps)) */
} picked;

static mx_code add_logs(const mx_metric *self, const picked *o, mx_tally *tally, const mx_numbers *label,
                        const mx_numbers *pred, int64_t classes, int64_t inner)
{
    for (int64_t i = 0; i < label->n; i++) {
        const int64_t class = (int64_t)label->v[i];
        if (o->ignore != MX_NONE_INT && label->v[i] == (double)o->ignore)
            continue;
        if (class < 0 || class >= classes)
            return mx_fail(MX_ERR_INDEX, "%s: label %lld is %g, but there are %lld classes", self->name, (long long)i,
                           label->v[i], (long long)classes);
        const double p = pred->v[(i / inner * classes + class) * inner + i % inner] + o->eps;
        tally->sum -= log(p > o->floor ? p : o->floor);
        tally->count++;
    }
    return MX_OK;
}

static mx_code update_logs(const mx_metric *self, const picked *o, int64_t axis, mx_tally *tally, mx_array *label,
                           mx_array *pred)
{
    axis = axis < 0 ? axis + pred->ndim : axis;
    if (axis < 0 || axis >= pred->ndim || !pred->shape[axis] || label->size != pred->size / pred->shape[axis])
        return mx_metric_fail_sizes(self, label, pred);
    int64_t inner = 1;
    for (int i = (int)axis + 1; i < pred->ndim; i++)
        inner *= pred->shape[i];
    mx_numbers found = mx_numbers_of(pred), wanted = mx_numbers_of(label);
    mx_code code =
        found.v && wanted.v ? add_logs(self, o, tally, &wanted, &found, pred->shape[axis], inner) : mx_error_code();
    mx_numbers_free(&found);
    mx_numbers_free(&wanted);
    return code;
}

static mx_code update_cross_entropy(const mx_metric *self, mx_tally *tally, mx_array *label, mx_array *pred)
{
    const picked o = {MX_NONE_INT, 0, ((const mx_cross_entropy_attrs *)self->options)->eps};
    return update_logs(self, &o, -1, tally, label, pred);
}

static mx_code update_perplexity(const mx_metric *self, mx_tally *tally, mx_array *label, mx_array *pred)
{
    const mx_perplexity_attrs *attrs = self->options;
    const picked o = {attrs->ignore_label, 1e-10, 0};
    return update_logs(self, &o, attrs->axis, tally, label, pred);
}

static double perplexity(const mx_metric *self, const mx_tally *tally)
{
    (void)self;
    return exp(tally->sum / tally->count);
}

/* ---- Loss, Torch, Caffe ------------------------------------------------------------------------------------------ */
#define LOSS_OPTIONS(X) X(STR, name, "loss", "", "as shown")
MX_ATTRS(loss, LOSS_OPTIONS)
#define TORCH_OPTIONS(X) X(STR, name, "torch", "", "as shown")
MX_ATTRS(torch, TORCH_OPTIONS)
#define CAFFE_OPTIONS(X) X(STR, name, "caffe", "", "as shown")
MX_ATTRS(caffe, CAFFE_OPTIONS)

static mx_code update_loss(const mx_metric *self, mx_tally *tally, mx_array *label, mx_array *pred)
{
    mx_numbers found = mx_numbers_of(pred);
    (void)self, (void)label;
    if (!found.v)
        return mx_error_code();
    for (int64_t i = 0; i < found.n; i++)
        tally->sum += found.v[i];
    tally->count += (double)found.n;
    mx_numbers_free(&found);
    return MX_OK;
}

/* ---- CompositeEvalMetric ----------------------------------------------------------------------------------------- */
#define COMPOSITE_OPTIONS(X) X(STR, name, "composite", "", "as shown")
MX_ATTRS(composite, COMPOSITE_OPTIONS)

#define METHODS(...) &(const mx_metric_methods){__VA_ARGS__}

mx_class mx_classes_metrics[] = {
    {.kind = MX_METRIC, .name = "Accuracy", .aliases = "acc",
     .doc = "fraction of samples whose highest-scoring class is the label",
     .schema = &accuracy_schema, .methods = METHODS(.update = update_accuracy)},
    {.kind = MX_METRIC, .name = "TopKAccuracy", .aliases = "top_k_accuracy top_k_acc",
     .doc = "fraction of samples whose label is among the k highest-scoring classes",
     .schema = &top_k_schema, .positional = 1, .methods = METHODS(.update = update_top_k, .start = start_top_k)},
    {.kind = MX_METRIC, .name = "CrossEntropy", .aliases = "ce cross-entropy",
     .doc = "mean of -log(probability of the label)",
     .schema = &cross_entropy_schema, .methods = METHODS(.update = update_cross_entropy)},
    {.kind = MX_METRIC, .name = "NegativeLogLikelihood", .aliases = "nll_loss nll-loss",
     .doc = "mean of -log(probability of the label)",
     .schema = &nll_schema, .methods = METHODS(.update = update_cross_entropy)},
    {.kind = MX_METRIC, .name = "Perplexity", .doc = "exp of the mean of -log(probability of the label)",
     .schema = &perplexity_schema,
     .methods = METHODS(.update = update_perplexity, .value = perplexity)},
    {.kind = MX_METRIC, .name = "Loss", .c_name = "loss_metric", .doc = "mean of the predictions, which are losses",
     .schema = &loss_schema,
     .methods = METHODS(.update = update_loss, .ignores_labels = true)},
    {.kind = MX_METRIC, .name = "Torch", .c_name = "torch_metric", .doc = "Loss under another name",
     .schema = &torch_schema,
     .methods = METHODS(.update = update_loss, .ignores_labels = true)},
    {.kind = MX_METRIC, .name = "Caffe", .c_name = "caffe_metric", .doc = "Loss under another name",
     .schema = &caffe_schema,
     .methods = METHODS(.update = update_loss, .ignores_labels = true)},
    {.kind = MX_METRIC, .name = "CompositeEvalMetric", .aliases = "composite",
     .doc = "several metrics updated together",
     .schema = &composite_schema, .methods = METHODS(0)},
    {0},
};
