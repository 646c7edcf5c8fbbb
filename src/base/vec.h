/* A growing vector of any type.
 *
 *     MX_VEC(int64_t) sizes = {0};
 *     if (!mx_vec_push(&sizes, 3)) ...       // false: out of memory, an error is set, the vector is unchanged
 *     for (int64_t i = 0; i < sizes.length; i++) use(sizes.items[i]);
 *     mx_vec_free(&sizes);
 *
 * Invariant: items holds `capacity` slots, of which the first `length` are set.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef MX_BASE_VEC_H
#define MX_BASE_VEC_H

#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/error.h"

#define MX_VEC(type) \
    struct { \
        type *items; /* owned */ \
        int64_t length, capacity; \
    }
typedef MX_VEC(void *) mx_pointers;

/* `items` points to the vector's pointer; memcpy avoids aliasing violations for any element type. */
static inline bool mx_vec_grow(void *items, int64_t *capacity, int64_t wanted, size_t item_bytes)
{
    MX_ASSERT(*capacity >= 0 && wanted >= 0, "a vector with room for %lld items", (long long)*capacity);
    if (wanted <= *capacity)
        return true;
    int64_t grown = *capacity < 8 ? 8 : *capacity + *capacity / 2;
    grown = grown < wanted ? wanted : grown;
    void *memory;
    memcpy(&memory, items, sizeof memory);
    if ((uint64_t)grown > (uint64_t)INT64_MAX / item_bytes) {
        mx_fail(MX_ERR_MEMORY, "vector: %lld items of %zu bytes are too many", (long long)wanted, item_bytes);
        return false;
    }
    memory = mx_realloc(memory, (size_t)*capacity * item_bytes, (size_t)grown * item_bytes);
    if (!memory)
        return false;
    memcpy(items, &memory, sizeof memory);
    *capacity = grown;
    return true;
}

#define mx_vec_reserve(vec, wanted) \
    mx_vec_grow(&(vec)->items, &(vec)->capacity, (wanted), sizeof *(vec)->items)
#define mx_vec_push(vec, value) \
    (mx_vec_reserve((vec), (vec)->length + 1) ? ((vec)->items[(vec)->length++] = (value), true) : false)
#define mx_vec_free(vec) \
    (mx_free((vec)->items, (size_t)(vec)->capacity * sizeof *(vec)->items), \
     (vec)->items = NULL, (vec)->length = (vec)->capacity = 0)

#endif
