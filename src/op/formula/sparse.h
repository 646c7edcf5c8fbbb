/* Grouping items by the row they belong to, for sparse gradients and products.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef MX_OP_SPARSE_H
#define MX_OP_SPARSE_H

#include "ndarray/sparse.h"
#include "op/op.h"

/* n items with keys in [0, limit), sorted by key; equal ones keep their order.
 *
 *     key    7 2 7 9          order  1 0 2 3      unique  2 7 9      start  0 1 3 4 */
typedef struct mx_groups {
    int64_t n, count;
    int64_t *order;  /* (n) the items in sorted order */
    int64_t *unique; /* (count) the keys that occur, ascending */
    int64_t *start;  /* (count + 1) where in `order` each of them begins */
} mx_groups;
/* Keys out of range are clipped; limit > 0 unless n is 0.  After an error there is nothing to free. */
mx_code mx_groups_make(mx_groups *groups, const int64_t *key, int64_t n, int64_t limit);
void mx_groups_free(mx_groups *groups);

/* out[i] = sum of factor[k] * data[row[k]] over k in [start[i], start[i + 1]); factor may be MX_NONE. */
mx_array *mx_g_rows_sum(mx_array *data, mx_array *row, mx_array *start, mx_array *factor);
/* A row_sparse array of `shape`: row r is the sum of those rows of g (ids..., shape[1:]) whose id is r. */
mx_array *mx_g_row_sparse(mx_array *ids, mx_array *g, const mx_shape_t *shape);

#endif
