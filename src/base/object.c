/* Object lifetime: counts, the work list of dying objects, and the scopes that own temporaries.
 *
 * The thread's temporaries are one growing list; a scope is a mark in it.  Closing a scope releases everything
 * above its mark.
 *
 *     temporaries:  a b c | d e | f g h        '|' are marks of open scopes
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "base/object.h"

#include <pthread.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"

typedef struct {
    mx_object **items;
    size_t length, capacity;
} object_list;

static _Thread_local object_list temporaries; /* owned references, oldest first */
static _Thread_local object_list dying;       /* count 0, waiting for destroy */
static _Thread_local bool destroying;         /* a caller is already emptying the work list */

/* Releases the temporaries of a thread that ends. */
static pthread_key_t exit_key;
static pthread_once_t exit_once = PTHREAD_ONCE_INIT;

static void release_above(size_t mark)
{
    while (temporaries.length > mark)
        mx_release(temporaries.items[--temporaries.length]);
}

static void free_list(object_list *list)
{
    mx_free(list->items, list->capacity * sizeof *list->items);
    *list = (object_list){0};
}

static void thread_exit(void *unused)
{
    (void)unused;
    release_above(0);
    free_list(&temporaries);
    free_list(&dying);
}

static void make_exit_key(void) { pthread_key_create(&exit_key, thread_exit); }
__attribute__((destructor)) static void process_exit(void) { thread_exit(NULL); }

static bool push(object_list *list, mx_object *object)
{
    if (list->length == list->capacity) {
        size_t capacity = list->capacity ? 2 * list->capacity : 256;
        void *grown = mx_realloc(list->items, list->capacity * sizeof object, capacity * sizeof object);
        if (!grown)
            return false;
        list->items = grown;
        list->capacity = capacity;
        pthread_once(&exit_once, make_exit_key);
        pthread_setspecific(exit_key, list);
    }
    list->items[list->length++] = object;
    return true;
}

void mx_object_init(mx_object *self, const mx_kind *kind)
{
    self->kind = kind;
    atomic_init(&self->count, 1);
    self->guard = MX_OBJECT_ALIVE;
}

void *mx_keep(void *object) { return mx_retain(object); }

static void destroy_now(mx_object *object)
{
    object->guard = 0;
    object->kind->destroy(object);
}

static void bury(mx_object *object)
{
    if (destroying) {
        if (!push(&dying, object))
            destroy_now(object); /* out of memory for the list: recurse instead */
        return;
    }
    destroying = true;
    destroy_now(object);
    while (dying.length)
        destroy_now(dying.items[--dying.length]);
    destroying = false;
}

void mx_release(void *object)
{
    mx_object *self = object;
    MX_ASSERT(!self || (self->guard == MX_OBJECT_ALIVE && self->count > 0), "what is released was freed before");
    if (!self || atomic_fetch_sub_explicit(&self->count, 1, memory_order_release) != 1)
        return;
    atomic_thread_fence(memory_order_acquire);
    bury(self);
}

mx_scope mx_scope_open(void) { return (mx_scope){.mark = temporaries.length, .open = true}; }

void mx_scope_close(mx_scope *scope)
{
    if (!scope || !scope->open)
        return;
    scope->open = false;
    MX_ASSERT(scope->mark <= temporaries.length, "a scope is closed after the one around it");
    release_above(scope->mark);
}

void *mx_scope_return(mx_scope *scope, void *object)
{
    mx_retain(object);
    mx_scope_close(scope);
    return mx_scope_add(object);
}

void *mx_scope_add(void *object)
{
    if (object && !push(&temporaries, object)) {
        mx_release(object);
        return NULL;
    }
    return object;
}

bool mx_is_kind(const void *object, const mx_kind *kind, const char *function, const char *argument)
{
    const mx_object *self = object;
    if (!self)
        mx_fail(MX_ERR_ARGUMENT, "%s: %s is NULL, wanted %s", function, argument, kind->name);
    else if (self->guard != MX_OBJECT_ALIVE)
        mx_fail(MX_ERR_ARGUMENT, "%s: %s was freed or is not a Gluon object, wanted %s", function, argument,
                kind->name);
    else if (self->kind != kind)
        mx_fail(MX_ERR_ARGUMENT, "%s: %s is of kind %s, wanted %s", function, argument, self->kind->name, kind->name);
    else
        return true;
    return false;
}
