/* Shapes: sizes of axes, with -1 for "not known yet".
 *
 * Inference fills unknown parts in both directions, so a shape can be wholly unknown (ndim -1), partly known
 * (some dim -1) or known.  Attributes of users in classic spelling use 0 for unknown; they are
 * translated on entry (deferred parameters), because zero-size arrays are valid here.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef MX_NDARRAY_SHAPE_H
#define MX_NDARRAY_SHAPE_H

#include "gluon/base.h"

typedef struct mx_shape_t {
    int32_t ndim;             /* -1: unknown rank */
    int64_t dim[MX_MAX_NDIM]; /* -1: unknown size */
} mx_shape_t;

#define MX_UNKNOWN_SHAPE ((mx_shape_t){.ndim = -1})
#define MX_SHAPE_TEXT 192 /* enough for mx_shape_text; longer tuples of mx_dims_text end in "..." */

mx_shape_t mx_shape_of_dims(const mx_dims *dims); /* ndim -1 with an error if too long */
mx_dims mx_dims_of_shape(const mx_shape_t *shape);
bool mx_shape_known(const mx_shape_t *shape);
bool mx_shape_equal(const mx_shape_t *a, const mx_shape_t *b);
/* Elements; -1 if unknown or if the product does not fit (then with an error). */
int64_t mx_shape_size(const mx_shape_t *shape);
/* Merges the known parts of `from` into `into`; false if they contradict. *changed (if not NULL): `into` gained some. */
bool mx_shape_merge(mx_shape_t *into, const mx_shape_t *from, bool *changed);
/* "(2, ?, 3)", "(?)" for unknown rank; writes into buffer of MX_SHAPE_TEXT bytes and returns it. */
const char *mx_shape_text(const mx_shape_t *shape, char *buffer);
const char *mx_dims_text(const mx_dims *dims, char *buffer);
/* NumPy broadcasting of known shapes; false if impossible. */
bool mx_shape_broadcast(const mx_shape_t *a, const mx_shape_t *b, mx_shape_t *out);
/* Axis in [0, ndim), negative ones wrapped; -1 if out of range (no error set). */
int mx_axis(int64_t axis, int ndim);

#endif
