/* The border between the library and its CUDA part.
 *
 * The CUDA part is a separate shared object, libgluon_cuda.so, which the library opens when a GPU is first used; so one
 * library serves machines with and without a GPU.  Symbols of the library may be hidden (it can be linked into a
 * program or a Python module), so the CUDA part gets the functions that it calls in a table; src/cuda/bridge.cu defines
 * them under their usual names.  Files without state (types, shapes, conversion) are compiled into both.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef MX_CUDA_PLUGIN_H
#define MX_CUDA_PLUGIN_H

#include "base/alloc.h"
#include "base/flags.h"
#include "base/interrupt.h"
#include "base/rng.h"
#include "base/threads.h"
#include "op/op.h"

struct mx_update_constants; /* of op/formula/optimizer.h */

/* Changes with this struct and the device and kernel tables: both sides must have been built from the same source. */
#define MX_CUDA_BORDER 6

typedef struct mx_cuda_library {
    int border;
    mx_array *none; /* MX_NONE */
    mx_code (*error_set)(mx_code code, const char *format, ...);
    mx_code (*op_fail)(const mx_op *op, mx_code code, const char *format, ...);
    mx_code (*error_code)(void);
    void (*error_clear)(void);
    mx_op *(*op_at)(int i);
    void (*attach)(mx_device_type device, const mx_kernel *kernel);
    void (*attach_many)(mx_device_type device, const char *op, mx_many_fn many);
    void (*multi_constants)(const mx_op *op, const void *attrs, int i, struct mx_update_constants *k);
    mx_rng (*rng_reserve)(uint64_t blocks);
    const mx_flags *(*flags)(void);
    mx_array *(*array_new)(const mx_shape_t *shape, mx_dtype dtype, mx_context context);
    bool (*array_overlap)(const mx_array *a, const mx_array *b);
    void (*release)(void *object);
    void (*parallel)(int64_t n, int64_t grain, mx_range_fn body, void *arg);
    bool (*alloc_fails)(void);
    bool (*stop_possible)(void);
    mx_code (*interrupt_check)(void);
} mx_cuda_library;

/* What libgluon_cuda.so exports: the device, or NULL with an error; after that its lanes (ndarray/lane.h). */
#define MX_CUDA_OPEN "mx_cuda_open"
typedef mx_device *(*mx_cuda_open_fn)(const mx_cuda_library *library);
#define MX_CUDA_FIND_LANES "mx_cuda_lanes"
typedef const struct mx_lanes *(*mx_cuda_lanes_fn)(void);

#endif
