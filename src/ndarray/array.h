/* The representation of an array.
 *
 *     array ---> storage ---> device memory
 *       | offset, shape           ^
 *     view ---> (same storage) ---+
 *
 * Invariant: offset + size * itemsize <= storage->bytes; `size` is the product of `shape`.
 * An abstract array (storage NULL) has shape and type but no data: what tracing and inference work on.
 *
 * Stamps let code that derived something from a storage's contents (a plan: packed weights) see whether they are still
 * the same: a stamp is unique in the process, assigned on demand, and removed by every write.  Writers call
 * mx_array_changed when they are done.  Code that exposes an address that can be written through at any time calls
 * mx_array_expose: such a storage never has a stamp again; foreign memory never has one.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef MX_NDARRAY_ARRAY_H
#define MX_NDARRAY_ARRAY_H

#include <stdatomic.h>

#include "base/object.h"
#include "gluon/array.h"
#include "ndarray/device.h"
#include "ndarray/shape.h"

typedef struct mx_storage {
    mx_object object;
    mx_device *device; /* the owner of the memory */
    mx_context context;
    void *memory; /* device address; NULL when bytes is 0 */
    size_t bytes;
    void (*release)(void *owner); /* for foreign memory: called instead of freeing; else NULL */
    void *owner;
    _Atomic(uint64_t) stamp; /* of the contents; 0: none requested since the last write */
    _Atomic(bool) exposed;   /* code outside of the library may write at any time */
} mx_storage;

struct mx_array {
    mx_object object;
    mx_storage *storage; /* retained; NULL: abstract */
    int64_t offset;      /* bytes into the storage */
    int64_t size;        /* elements */
    mx_context context;
    int8_t dtype; /* mx_dtype */
    int8_t ndim;
    bool readonly;
    uint8_t written;       /* of a gradient: counted by backward, which lets the trainer detect a new one */
    uint32_t node_output;  /* which output of `node` this is */
    _Atomic(int32_t) kept; /* nodes of the tape that saved it as a constant: it must not be written while recording */
    struct mx_node *node;  /* history: the tape node that produced it, or its variable node; without storage: its graph
                             node (graph/node.h); retained; NULL: none */
    int64_t shape[MX_MAX_NDIM];
};

extern const mx_kind mx_array_kind, mx_storage_kind;

/* In checked builds: the invariant above holds; `where` is for the message. */
#if MX_CHECKED
void mx_array_check(const mx_array *x, const char *where);
#else
static inline void mx_array_check(const mx_array *x, const char *where) { (void)x, (void)where; }
#endif

/* New reference (not in a scope). All return NULL with an error set. */
mx_array *mx_array_new(const mx_shape_t *shape, mx_dtype dtype, mx_context context);
mx_array *mx_array_abstract(const mx_shape_t *shape, mx_dtype dtype, mx_context context);
/* With elements from host memory, which may be changed after the call. */
mx_array *mx_array_of_bytes(const mx_shape_t *shape, mx_dtype dtype, mx_context context, const void *data);
/* A window into x's storage that starts byte_offset bytes after x does, without history. */
mx_array *mx_array_view(const mx_array *x, int64_t byte_offset, const mx_shape_t *shape, mx_dtype dtype);
/* Takes over foreign memory (mx_array_adopt: of the host); release(owner) runs when the last array is destroyed and no
 * queued work uses it (NULL: the memory outlives all arrays).  On failure the caller still owns the memory. */
mx_array *mx_array_adopt(const mx_shape_t *shape, mx_dtype dtype, void *memory, void (*release)(void *), void *owner);
mx_array *mx_array_adopt_on(mx_context context, const mx_shape_t *shape, mx_dtype dtype, void *memory,
                            void (*release)(void *), void *owner);

static inline void *mx_data(const mx_array *x) { return (char *)x->storage->memory + x->offset; }
static inline bool mx_is_none(const mx_array *x) { return x == MX_NONE; }
static inline size_t mx_bytes(const mx_array *x) { return (size_t)x->size * (size_t)mx_dtype_size((mx_dtype)x->dtype); }
static inline mx_shape_t mx_array_shape(const mx_array *x)
{
    mx_shape_t shape = {.ndim = x->ndim};
    for (int i = 0; i < x->ndim; i++)
        shape.dim[i] = x->shape[i];
    return shape;
}
/* True if x is a live array (not NULL, MX_NONE, MX_END); else records an error naming function and argument. */
bool mx_array_ok(const mx_array *x, const char *function, const char *argument);
/* Device copy between arrays of equal size and type, on any devices. */
mx_code mx_array_copy_data(mx_array *destination, const mx_array *source);
/* True if the two arrays share bytes. */
bool mx_array_overlap(const mx_array *a, const mx_array *b);

/* The elements of x were written; called after the write. */
static inline void mx_array_changed(const mx_array *x)
{
    if (x->storage && atomic_load_explicit(&x->storage->stamp, memory_order_relaxed))
        atomic_store_explicit(&x->storage->stamp, 0, memory_order_release);
}
void mx_array_expose(const mx_array *x);
uint64_t mx_array_stamp(const mx_array *x); /* of its storage's contents; 0: they may change undetected */

/* History belongs to exec/; arrays only release it. Set by exec before the first node is created. */
static inline void mx_array_set_node(mx_array *x, struct mx_node *node, uint32_t output)
{
    struct mx_node *old = x->node;
    x->node = (struct mx_node *)mx_retain(node);
    x->node_output = output;
    mx_release(old);
}

#endif
