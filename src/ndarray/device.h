/* What a device must offer to arrays: memory and copies.  cpu/ and cuda/ each give one table.
 *
 * All calls are ordered per device; only `wait` waits.  SPDX-License-Identifier: Apache-2.0 */
#ifndef MX_NDARRAY_DEVICE_H
#define MX_NDARRAY_DEVICE_H

#include "gluon/array.h"

typedef struct mx_device mx_device;
struct mx_device {
    const char *name;
    mx_device_type type;
    int (*count)(void);                               /* how many of them there are */
    void *(*alloc)(mx_context context, size_t bytes); /* NULL with an error if impossible */
    void (*free)(mx_context context, void *memory, size_t bytes);
    mx_code (*copy)(mx_context context, void *to, const void *from, size_t bytes);    /* within the device */
    mx_code (*to_host)(mx_context context, void *to, const void *from, size_t bytes); /* waits */
    mx_code (*from_host)(mx_context context, void *to, const void *from, size_t bytes);
    void (*wait)(mx_context context);
    void (*empty_cache)(mx_context context); /* gives memory that nobody uses back to the system; NULL: nothing to do */
    mx_code (*memory_info)(mx_context context, size_t *unused, size_t *all); /* in bytes; NULL: not known */
    void (*attach_kernels)(
        void); /* gives operators their kernels (mx_op_attach); called at first use, may be called again */
};

/* The device of a context (0 type: current); NULL with an error naming `who` if there is none. */
mx_device *mx_device_of(mx_context context, const char *who);
mx_context mx_context_resolve(mx_context context);                /* 0 type -> the thread's current context */
const char *mx_context_text(mx_context context, char buffer[32]); /* "cpu(0)" */
static inline bool mx_context_equal(mx_context a, mx_context b) { return a.type == b.type && a.id == b.id; }
/* Host-visible memory (cpu, cpu_pinned, cpu_shared). */
static inline bool mx_context_is_host(mx_context c) { return c.type != MX_GPU; }

extern mx_device *const mx_cpu_device;      /* defined in cpu/ */
mx_device *mx_gpu_device(const char **why); /* cuda/load.c: opened at the first call; NULL: none, and why */

#endif
