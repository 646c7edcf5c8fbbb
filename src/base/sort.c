/* The heap sort of mx_sort (see sort.h).
 *
 * Model: the first `end` items are a heap with the largest on top; the top is moved after the heap, which shrinks.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "base/sort.h"

#include <stdbool.h>

typedef struct heap {
    char *items;
    size_t bytes; /* of an item */
    mx_compare_fn compare;
    const void *context;
} heap;

static char *item(const heap *h, int64_t i) { return h->items + (size_t)i * h->bytes; }

static bool before(const heap *h, int64_t i, int64_t j) { return h->compare(item(h, i), item(h, j), h->context) < 0; }

static void swap(const heap *h, int64_t i, int64_t j)
{
    char *a = item(h, i), *b = item(h, j);
    for (size_t k = 0; k < h->bytes; k++) {
        const char kept = a[k];
        a[k] = b[k], b[k] = kept;
    }
}

/* Both subtrees of `at` are heaps: sifts the item at `at` down. */
static void sink(const heap *h, int64_t at, int64_t end)
{
    for (int64_t child; (child = 2 * at + 1) < end; at = child) {
        if (child + 1 < end && before(h, child, child + 1))
            child++;
        if (!before(h, at, child))
            return;
        swap(h, at, child);
    }
}

void mx_sort(void *items, int64_t n, size_t item_bytes, mx_compare_fn compare, const void *context)
{
    const heap h = {items, item_bytes, compare, context};
    for (int64_t i = n / 2; i-- > 0;)
        sink(&h, i, n);
    for (int64_t end = n - 1; end > 0; end--) {
        swap(&h, 0, end);
        sink(&h, 0, end);
    }
}
