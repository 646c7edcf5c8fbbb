/* Metrics: running averages of how good predictions are.
 *
 *     mx_metric *accuracy = mx_accuracy();
 *     mx_metric_update(accuracy, MX_ARRAYS(label), MX_ARRAYS(output));
 *     printf("%s %.3f\n", mx_metric_name(accuracy), mx_metric_get(accuracy));
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef GLUON_METRIC_H
#define GLUON_METRIC_H

#include "gluon/array.h"

typedef struct mx_metric mx_metric; /* created by mx_accuracy(), mx_f1() ... */

MX_API mx_metric *mx_metric_new(const char *name, const char *options); /* "accuracy", "top_k_accuracy" ... */
/* labels: one per prediction; metrics of losses alone (mx_loss_metric) ignore them. */
MX_API mx_code mx_metric_update(mx_metric *metric, mx_arrays labels, mx_arrays preds);
MX_API const char *mx_metric_name(const mx_metric *metric);
MX_API double mx_metric_get(const mx_metric *metric); /* NaN if there were no updates */
MX_API void mx_metric_reset(mx_metric *metric);
/* There are two counts, local and global: reset_local resets only the one of mx_metric_get. */
MX_API double mx_metric_get_global(const mx_metric *metric);
MX_API void mx_metric_reset_local(mx_metric *metric);

/* Adds what all processes counted (gluon/comm.h): after it mx_metric_get() is the same on all of them.  Reset it before
 * the next update. */
MX_API mx_code mx_metric_reduce(mx_metric *metric);

/* Composite metrics: the values are those of the children. */
MX_API mx_metric *mx_metric_group(mx_metric *const *metrics, int count);
MX_API mx_code mx_metric_add(mx_metric *group, mx_metric *metric);
MX_API int mx_metric_children(const mx_metric *metric);
MX_API mx_metric *mx_metric_child(const mx_metric *metric, int i);

/* A custom metric: returns a value per pair, averaged over pairs; NaN after mx_error_set: failed. */
typedef double (*mx_metric_fn)(void *user, mx_array *label, mx_array *pred);
MX_API mx_metric *mx_metric_custom(const char *name, mx_metric_fn fn, void *user);

#endif
