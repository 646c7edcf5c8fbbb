/* Sorting by what the elements alone do not say: indices by what they stand for, for example.
 *
 * qsort gives its comparison no context, and qsort_r is not the same function everywhere.  This one takes no memory, so
 * it cannot fail, and gives one result on every machine if the comparison never says "equal".
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef MX_BASE_SORT_H
#define MX_BASE_SORT_H

#include <stddef.h>
#include <stdint.h>

/* < 0: a comes before b.  Equal elements come in any order. */
typedef int (*mx_compare_fn)(const void *a, const void *b, const void *context);

void mx_sort(void *items, int64_t n, size_t item_bytes, mx_compare_fn compare, const void *context);

#endif
