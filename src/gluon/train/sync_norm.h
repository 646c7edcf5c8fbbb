/* Batch normalisation with the statistics of all processes and contexts (see sync_norm.c).  SPDX-License-Identifier: Apache-2.0 */
#ifndef MX_GLUON_SYNC_NORM_H
#define MX_GLUON_SYNC_NORM_H

#include "gluon/array.h"

typedef struct mx_sync_norm_options {
    double eps, momentum;
    bool fix_gamma;
    int contexts;    /* of this process that share the statistics, each in a thread of its own */
    const char *key; /* at which they meet */
} mx_sync_norm_options;

/* in: data (N, C, ...), gamma, beta, running mean and variance (C), which are updated.  Arrays or symbols; NULL with an
 * error. */
mx_array *mx_sync_norm(mx_array *const in[5], const mx_sync_norm_options *options);

#endif
