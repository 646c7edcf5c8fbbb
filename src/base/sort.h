/* Sorting with a context: indices by what they refer to, for example.
 *
 * qsort passes no context to its comparison, and qsort_r differs between systems.  This one allocates nothing, so
 * it cannot fail, and gives the same result on every machine if the comparison never returns "equal".
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
