/* Metrics of real numbers: errors and correlation.
 *
 * Errors are means over the elements of one update, averaged over updates.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <math.h>

#include "base/error.h"
#include "gluon/train/learning.h"
#include "ndarray/array.h"

/* ---- MAE, MSE, RMSE ---------------------------------------------------------------------------------------------- */
#define MAE_OPTIONS(X) X(STR, name, "mae", "", "as shown")
MX_ATTRS(mae, MAE_OPTIONS)
#define MSE_OPTIONS(X) X(STR, name, "mse", "", "as shown")
MX_ATTRS(mse, MSE_OPTIONS)
#define RMSE_OPTIONS(X) X(STR, name, "rmse", "", "as shown")
MX_ATTRS(rmse, RMSE_OPTIONS)

/* An array as (rows, columns): one axis is a column. */
typedef struct matrix {
    mx_numbers numbers;
    int64_t rows, columns;
} matrix;

static matrix matrix_of(const mx_array *x)
{
    const int64_t rows = x->ndim ? x->shape[0] : 1;
    return (matrix){mx_numbers_of(x), rows, rows ? x->size / rows : 0};
}

static double at(const matrix *m, int64_t i, int64_t j)
{
    return m->numbers.v[(m->rows == 1 ? 0 : i) * m->columns + (m->columns == 1 ? 0 : j)];
}

static bool fits(int64_t a, int64_t b) { return a == b || a == 1 || b == 1; }

/* The mean of measure(label - prediction), rows and columns of size one broadcast. */
static mx_code mean_of(const mx_metric *self, mx_array *label, mx_array *pred, double (*measure)(double), double *mean)
{
    matrix a = matrix_of(label), b = matrix_of(pred);
    mx_code code = a.numbers.v && b.numbers.v ? MX_OK : mx_error_code();
    const int64_t rows = a.rows > b.rows ? a.rows : b.rows, columns = a.columns > b.columns ? a.columns : b.columns;
    if (!code && (!fits(a.rows, b.rows) || !fits(a.columns, b.columns) || !label->size || !pred->size))
        code = mx_metric_fail_sizes(self, label, pred);
    double sum = 0;
    for (int64_t i = 0; !code && i < rows; i++)
        for (int64_t j = 0; j < columns; j++)
            sum += measure(at(&a, i, j) - at(&b, i, j));
    *mean = sum / ((double)rows * (double)columns);
    mx_numbers_free(&a.numbers);
    mx_numbers_free(&b.numbers);
    return code;
}

static double square(double x) { return x * x; }

static mx_code update_mae(const mx_metric *self, mx_tally *tally, mx_array *label, mx_array *pred)
{
    double mean;
    mx_code code = mean_of(self, label, pred, fabs, &mean);
    tally->sum += code ? 0 : mean, tally->count++;
    return code;
}

static mx_code update_mse(const mx_metric *self, mx_tally *tally, mx_array *label, mx_array *pred)
{
    double mean;
    mx_code code = mean_of(self, label, pred, square, &mean);
    tally->sum += code ? 0 : mean, tally->count++;
    return code;
}

static mx_code update_rmse(const mx_metric *self, mx_tally *tally, mx_array *label, mx_array *pred)
{
    double mean;
    mx_code code = mean_of(self, label, pred, square, &mean);
    tally->sum += code ? 0 : sqrt(mean), tally->count++;
    return code;
}

/* ---- PearsonCorrelation ------------------------------------------------------------------------------------------ */
#define PEARSON_OPTIONS(X) \
    X(STR, name, "pearsonr", "", "as shown") \
    X(STR, average, "macro", "", "macro: mean over updates; micro: over all samples at once")
MX_ATTRS(pearson, PEARSON_OPTIONS)

/* state: number, means, sums of squared and mixed deviations of labels x and predictions y */
enum { N, MEAN_X, MEAN_Y, XX, YY, XY };

static mx_code start_pearson(mx_metric *self)
{
    int choice;
    return mx_option_choice("PearsonCorrelation", "average", ((const mx_pearson_attrs *)self->options)->average,
                            "macro|micro", &choice);
}

static bool is_micro(const mx_metric *self) { return ((const mx_pearson_attrs *)self->options)->average[1] == 'i'; }

/* Chan's rule: deviations of two sets around their common mean. */
static void merge_pearson(const mx_metric *self, mx_tally *into, const mx_tally *more)
{
    double *a = into->state;
    const double *b = more->state;
    const double n = a[N] + b[N], dx = b[MEAN_X] - a[MEAN_X], dy = b[MEAN_Y] - a[MEAN_Y];
    (void)self;
    if (b[N] == 0)
        return;
    const double weight = a[N] * b[N] / n;
    a[XX] += b[XX] + dx * dx * weight;
    a[YY] += b[YY] + dy * dy * weight;
    a[XY] += b[XY] + dx * dy * weight;
    a[MEAN_X] += dx * b[N] / n;
    a[MEAN_Y] += dy * b[N] / n;
    a[N] = n;
}

static double correlation(const mx_metric *self, const mx_tally *tally)
{
    (void)self;
    return tally->state[XY] / sqrt(tally->state[XX] * tally->state[YY]);
}

static mx_code update_pearson(const mx_metric *self, mx_tally *tally, mx_array *label, mx_array *pred)
{
    mx_shape_t a = mx_array_shape(label), b = mx_array_shape(pred);
    if (!mx_shape_equal(&a, &b))
        return mx_metric_fail_sizes(self, label, pred);
    mx_numbers x = mx_numbers_of(label), y = mx_numbers_of(pred);
    mx_tally pair = {0};
    mx_code code = x.v && y.v ? MX_OK : mx_error_code();
    for (int64_t i = 0; !code && i < x.n; i++)
        merge_pearson(self, &pair, &(mx_tally){.state = {[N] = 1, [MEAN_X] = x.v[i], [MEAN_Y] = y.v[i]}});
    if (!code && is_micro(self))
        merge_pearson(self, tally, &pair);
    else if (!code)
        tally->sum += correlation(self, &pair);
    tally->count++;
    mx_numbers_free(&x);
    mx_numbers_free(&y);
    return code;
}

static double value_pearson(const mx_metric *self, const mx_tally *tally)
{
    return is_micro(self) ? correlation(self, tally) : tally->sum / tally->count;
}

#define METHODS(...) &(const mx_metric_methods){__VA_ARGS__}

mx_class mx_classes_metrics_errors[] = {
    {.kind = MX_METRIC, .name = "MAE", .doc = "mean of the absolute error", .schema = &mae_schema,
     .methods = METHODS(.update = update_mae)},
    {.kind = MX_METRIC, .name = "MSE", .doc = "mean of the squared error", .schema = &mse_schema,
     .methods = METHODS(.update = update_mse)},
    {.kind = MX_METRIC, .name = "RMSE", .doc = "root of the mean squared error", .schema = &rmse_schema,
     .methods = METHODS(.update = update_rmse)},
    {.kind = MX_METRIC, .name = "PearsonCorrelation", .aliases = "pearsonr",
     .doc = "linear correlation of labels and predictions",
     .schema = &pearson_schema,
     .methods = METHODS(.update = update_pearson, .value = value_pearson, .merge = merge_pearson,
     .start = start_pearson)},
    {0},
};
