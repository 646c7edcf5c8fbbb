/* Batch normalisation with the statistics of all processes (see sync_norm.c).  SPDX-License-Identifier: Apache-2.0 */
#ifndef MX_GLUON_SYNC_NORM_H
#define MX_GLUON_SYNC_NORM_H

#include "gluon/array.h"

/* in: data (N, C, ...), gamma, beta, running mean and variance (C), which are updated.  Arrays or symbols; NULL with an
 * error. */
mx_array *mx_sync_norm(mx_array *const in[5], double eps, double momentum, bool fix_gamma);

#endif
