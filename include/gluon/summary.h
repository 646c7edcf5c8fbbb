/* Logs for TensorBoard: event files with scalars, histograms, texts, images, graphs and hyperparameters.
 *
 *     mx_summary_writer *log = mx_summary_writer_new("runs/first");
 *     mx_summary_scalar(log, "loss", value, step);
 *
 * Every event is in the file when the call returns, so a log can be watched while it grows.  After an error (a full disk) the
 * file ends with the last complete event, and later calls go on there.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef GLUON_SUMMARY_H
#define GLUON_SUMMARY_H

#include "gluon/array.h"
#include "gluon/symbol.h"

typedef struct mx_summary_writer mx_summary_writer;

/* A new event file in the folder, which is created; belongs to the scope, as everything else: mx_keep() it. */
MX_API mx_summary_writer *mx_summary_writer_new(const char *folder);
MX_API const char *mx_summary_path(const mx_summary_writer *writer);
MX_API mx_code mx_summary_scalar(mx_summary_writer *writer, const char *tag, double value, int64_t step);
MX_API mx_code mx_summary_text(mx_summary_writer *writer, const char *tag, const char *text, int64_t step);
/* The elements in `bins` intervals of equal width; elements that are not finite are left out. */
MX_API mx_code mx_summary_histogram(mx_summary_writer *writer, const char *tag, mx_array *values, int bins,
                                    int64_t step);
/* (H, W, C) or (C, H, W) with one or three channels: uint8, or floats from 0 to 1. */
MX_API mx_code mx_summary_image(mx_summary_writer *writer, const char *tag, mx_array *image, int64_t step);
/* The graph of a network, symbol = mx_trace(net, x); inputs: shapes to be shown, as far as the symbol does not have them;
 * NULL: none. */
MX_API mx_code mx_summary_graph(mx_summary_writer *writer, const mx_symbol *symbol, const struct mx_known *inputs);

struct mx_hparams {
    int count;
    const char *const *names, *const *values; /* (count) "0.1" is a number, "True" a truth value, others are texts */
    int n_metrics;
    const char *const *metrics; /* (n_metrics) tags of scalars of this file, which are compared between runs */
};
/* The hyperparameters of the run that this file is the log of. */
MX_API mx_code mx_summary_hparams(mx_summary_writer *writer, const struct mx_hparams *hparams);

#endif
