/* Reference-counted objects.
 *
 * Every public noun (array, block, parameter, ...) starts with an mx_object.  A new object has count 1, owned by
 * its creator; public constructors hand that reference to the current scope with mx_scope_add().
 * Code that stores an object retains it.  When a count drops to zero the object's `destroy` runs, which releases
 * what it holds; objects whose count drops to zero meanwhile go to a work list, so chains of any length need no stack.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef MX_BASE_OBJECT_H
#define MX_BASE_OBJECT_H

#include <stdatomic.h>

#include "base/assert.h"
#include "gluon/base.h"

typedef struct mx_kind {
    const char *name;                 /* "array", "block" ...: used in messages */
    void (*destroy)(mx_object *self); /* releases what the object holds and frees its memory */
} mx_kind;

#define MX_OBJECT_ALIVE 0x4d58304bu /* guard word: present while the object lives */

struct mx_object {
    const mx_kind *kind;
    _Atomic(int32_t) count; /* references */
    uint32_t guard;         /* MX_OBJECT_ALIVE, cleared when freed, so that most stale pointers are recognised */
};

void mx_object_init(mx_object *self, const mx_kind *kind); /* count 1 */

static inline void *mx_retain(void *object)
{
    MX_ASSERT(!object || ((mx_object *)object)->guard == MX_OBJECT_ALIVE, "what is retained was freed before");
    if (object)
        atomic_fetch_add_explicit(&((mx_object *)object)->count, 1, memory_order_relaxed);
    return object;
}

/* Hands the caller's reference to the current scope; NULL passes through.  On allocation failure the object is
 * released and NULL returned with the error set. */
void *mx_scope_add(void *object);

/* True if `object` is a live object of this kind; otherwise records an error naming `function` and `argument`. */
bool mx_is_kind(const void *object, const mx_kind *kind, const char *function, const char *argument);

#endif
