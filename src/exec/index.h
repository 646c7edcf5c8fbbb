/* Normalised keys of x[...], shared by reading and writing by index.  SPDX-License-Identifier: Apache-2.0 */
#ifndef MX_EXEC_INDEX_H
#define MX_EXEC_INDEX_H

#include "op/formula/movement.h"

typedef struct mx_source_axis {
    mx_span span;    /* of basic keys; an integer is a span of one */
    bool integer;    /* the axis does not appear in the result */
    bool full;       /* all of the axis, in order */
    mx_array *index; /* of an advanced key; else NULL */
} mx_source_axis;

/* One axis of the result: a span of a source axis, a new axis, or an axis of the broadcast index arrays. */
typedef struct mx_result_axis {
    enum { MX_AXIS_SPAN, MX_AXIS_NEW, MX_AXIS_INDEX } kind;
    int number; /* of the source axis, or of the axis of the index arrays */
    int64_t size;
} mx_result_axis;

typedef struct mx_selection {
    int ndim; /* of the source */
    mx_source_axis axis[MX_MAX_NDIM];
    int arrays, integers; /* how many keys of these kinds */
    mx_shape_t broadcast; /* of the index arrays together */
    int n_result;
    mx_result_axis result[2 * MX_MAX_NDIM];
    mx_shape_t shape; /* of the result; (1,) if no axis is left */
} mx_selection;

/* Errors name `who`. */
mx_code mx_select(const mx_array *x, const mx_key *keys, int count, const char *who, mx_selection *selection);
/* True if a basic selection is a contiguous piece of memory; *offset: its first element. */
bool mx_selection_is_window(const mx_array *x, const mx_selection *selection, int64_t *offset);
/* True if everything is selected and the shape is unchanged. */
bool mx_selection_is_all(const mx_array *x, const mx_selection *selection);
/* Indices for gather_nd and _scatter_set_nd, (m, places) int64 on x's device: every position of the result without the
 * last axes of x that are fully selected. */
mx_array *mx_selection_places(const mx_array *x, const mx_selection *selection);

/* ---- masks (index_mask.c) ------------------------------------------------------------------------------------ */
#define MX_MOST_KEYS (2 * MX_MAX_NDIM + 2)
bool mx_keys_have_mask(const mx_key *keys, int count);
/* The keys with index arrays in place of boolean masks, into `wide` (MX_MOST_KEYS); how many, -1 with an error. */
int mx_keys_without_masks(const mx_array *x, const mx_key *keys, int count, const char *who, mx_key *wide);

#endif
