/* Arrays: n-dimensional, of one element type, on one device; always contiguous in C order.
 *
 * An array is a window (offset, shape) into a counted storage.  mx_array_reshape, mx_detach, basic slices of the first
 * axes and mx_array_at share storage; everything else copies.  0-d and zero-size arrays are valid.
 * Work on a device may still run when a call returns: mx_array_read and everything built on it wait.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef GLUON_ARRAY_H
#define GLUON_ARRAY_H

#include <stdio.h>
#include "gluon/base.h"

typedef struct mx_array mx_array;

/* ---- element types -------------------------------------------------------------------------------------- */
/* The numbers are those of the .params format. */
typedef enum mx_dtype {
    MX_DTYPE_NONE = -1, /* not given: infer it */
    MX_FLOAT32 = 0,
    MX_FLOAT64 = 1,
    MX_FLOAT16 = 2,
    MX_UINT8 = 3,
    MX_INT32 = 4,
    MX_INT8 = 5,
    MX_INT64 = 6,
    MX_BOOL = 7,
    MX_BFLOAT16 = 12,
    MX_DTYPE_END = 13
} mx_dtype;
MX_API const char *mx_dtype_name(mx_dtype dtype);     /* "float32"; "none"; "unknown" */
MX_API mx_dtype mx_dtype_from_name(const char *name); /* MX_DTYPE_NONE with an error if unknown */
MX_API int64_t mx_dtype_size(mx_dtype dtype);         /* bytes; 0 if unknown */

/* ---- devices -------------------------------------------------------------------------------------------- */
typedef enum mx_device_type { MX_CPU = 1, MX_GPU = 2, MX_CPU_PINNED = 3, MX_CPU_SHARED = 5 } mx_device_type;
typedef struct mx_context {
    int32_t type; /* mx_device_type; 0: the thread's current context */
    int32_t id;
} mx_context;
static inline mx_context mx_cpu(int id) { return (mx_context){MX_CPU, id}; }
static inline mx_context mx_gpu(int id) { return (mx_context){MX_GPU, id}; }
/* Host memory from which copies to a GPU are fastest; ordinary host memory if there is no GPU. */
static inline mx_context mx_cpu_pinned(int id) { return (mx_context){MX_CPU_PINNED, id}; }
MX_API mx_context mx_current_context(void);
MX_API mx_context mx_set_current_context(mx_context context); /* returns the previous one */
MX_API int mx_num_gpus(void);
MX_API void mx_wait_all(void); /* until all queued work is done */

/* ---- making arrays -------------------------------------------------------------------------------------- */
/* A missing optional input of an operator; never NULL, which means "an earlier call failed". */
MX_API extern mx_array *const MX_NONE;
/* Ends a list of arrays: MX_ARRAYS() and mx_call() add it. */
MX_API extern mx_array *const MX_END;

MX_API mx_array *mx_empty(mx_dims shape, mx_dtype dtype, mx_context context);    /* uninitialised */
MX_API mx_array *mx_array_from(mx_dims shape, mx_dtype dtype, const void *data); /* copies data; current context */
MX_API mx_array *mx_array_copy(mx_array *x);                                     /* a deep copy without history */
MX_API mx_array *mx_array_to(mx_array *x, mx_context context); /* x itself if it is on that context already */
MX_API mx_array *mx_detach(mx_array *x);                       /* shares the data, has no history */
MX_API mx_array *mx_array_scalar(double value);                /* shape (1,), float32 */

/* A list of arrays: operator inputs and results. `v` of a failed result points to NULLs, so v[0] is safe. */
typedef struct mx_arrays {
    mx_array *const *v;
    int64_t n; /* -1: count up to MX_END */
} mx_arrays;
#define MX_ARRAYS(...) \
    MX_ARRAYS_(MX_NOT_EMPTY(#__VA_ARGS__, "MX_ARRAYS() has no arrays: (mx_arrays){0} is an empty list"), __VA_ARGS__)
#define MX_ARRAYS_(zero, ...) ((mx_arrays){.n = -1 + (zero), .v = (mx_array *const[]){__VA_ARGS__, MX_END}})

/* ---- looking at arrays ---------------------------------------------------------------------------------- */
MX_API mx_dims mx_shape(const mx_array *x); /* n == -1 for NULL */
MX_API int mx_ndim(const mx_array *x);
MX_API int64_t mx_dim(const mx_array *x, int axis); /* negative axes count from the end */
MX_API int64_t mx_size(const mx_array *x);          /* number of elements */
MX_API mx_dtype mx_dtype_of(const mx_array *x);
MX_API mx_context mx_context_of(const mx_array *x);
/* Copies all elements to / from host memory of `bytes` bytes (must be exact). Waits. */
MX_API mx_code mx_array_read(const mx_array *x, void *destination, size_t bytes);
MX_API mx_code mx_array_write(mx_array *x, const void *source, size_t bytes);
/* The same with conversion to or from double; `count` elements. */
MX_API mx_code mx_array_read_doubles(const mx_array *x, double *destination, int64_t count);
MX_API double mx_item(const mx_array *x); /* the only element of x as a double; NaN with an error otherwise */
/* Address of the elements in host memory, after waiting; NULL with an error if the array is not on the CPU. */
MX_API void *mx_array_data(mx_array *x);
MX_API void mx_array_wait(const mx_array *x);
/* NumPy-like text, "[[1. 2.]\n [3. 4.]]\n<NDArray 2x2 @cpu(0)>". The text belongs to the scope. */
MX_API const char *mx_array_text(const mx_array *x);
MX_API void mx_array_print(const mx_array *x, FILE *stream);

/* NumPy's meaning of shapes, per thread: () is a scalar and 0 an empty axis everywhere; unknown sizes are -1 in what the
 * user interface shows (else 0).  Off by default: x[i] of a vector then has the shape (1,).  Returns the previous value. */
MX_API bool mx_set_np_shape(bool on);
MX_API bool mx_is_np_shape(void);

/* The same elements in another shape, sharing x's memory: writing into one changes the other.  The codes are those of
 * mx_reshape, which copies.  Differentiable. */
MX_API mx_array *mx_array_reshape(mx_array *x, mx_dims shape);

/* ---- indexing ------------------------------------------------------------------------------------------- */
/* One key of x[key, key, ...]. */
typedef struct mx_key {
    enum { MX_KEY_INT, MX_KEY_SLICE, MX_KEY_ELLIPSIS, MX_KEY_NEWAXIS, MX_KEY_ARRAY } kind;
    int64_t start, stop, step; /* INT: start; SLICE: each may be MX_NONE_INT */
    mx_array *index;           /* ARRAY: integers (floats are truncated) */
} mx_key;
#define MX_AT(i) ((mx_key){.kind = MX_KEY_INT, .start = (i)})
#define MX_RANGE(begin, end) ((mx_key){.kind = MX_KEY_SLICE, .start = (begin), .stop = (end), .step = MX_NONE_INT})
#define MX_STEP(begin, end, by) ((mx_key){.kind = MX_KEY_SLICE, .start = (begin), .stop = (end), .step = (by)})
#define MX_ALL MX_RANGE(MX_NONE_INT, MX_NONE_INT)
#define MX_ELLIPSIS ((mx_key){.kind = MX_KEY_ELLIPSIS})
#define MX_NEWAXIS ((mx_key){.kind = MX_KEY_NEWAXIS})
#define MX_PICK(array) ((mx_key){.kind = MX_KEY_ARRAY, .index = (array)})
/* x[keys]: a view if the region is contiguous and nothing is recorded, else a copy; differentiable. */
MX_API mx_array *mx_index_keys(mx_array *x, const mx_key *keys, int count);
/* x[keys] = value (broadcast, cast to x's type). */
MX_API mx_code mx_assign_keys(mx_array *x, const mx_key *keys, int count, mx_array *value);
#define mx_index(x, ...)                                      \
    mx_index_keys(x, (mx_key[]){__VA_ARGS__},                 \
                  MX_COUNT(__VA_ARGS__) + MX_NOT_EMPTY(#__VA_ARGS__, "mx_index(x, keys): there are no keys"))
#define mx_assign(x, value, ...)                              \
    mx_assign_keys(x, (mx_key[]){__VA_ARGS__},                \
                   MX_COUNT(__VA_ARGS__) + MX_NOT_EMPTY(#__VA_ARGS__, "mx_assign(x, value, keys): there are no keys"), value)
/* Writes value (broadcast, cast, copied between devices) over all of x. */
MX_API mx_code mx_array_set(mx_array *x, mx_array *value);
MX_API mx_code mx_array_fill(mx_array *x, double value);

/* ---- files ---------------------------------------------------------------------------------------------- */
typedef struct mx_array_dict mx_array_dict; /* names and arrays of a file, in file order */
/* The arrays of a .params, safetensors, NPZ, NPY, HDF5 or .keras file: the contents say which it is, not the name. */
MX_API mx_array_dict *mx_load(const char *path);
MX_API mx_array_dict *mx_load_buffer(const void *bytes, size_t count);
/* The suffix chooses the format: .safetensors, .npz, .npy (one array without a name), anything else: .params.
 * names may be NULL (a list).  Written atomically. */
MX_API mx_code mx_save(const char *path, mx_arrays arrays, const char *const *names);
/* "params", "safetensors", "npz", "npy" or "hdf5" (only read); NULL: none of them, by the contents of a file (without an error if it can be
 * read) or by the suffix of a name. */
MX_API const char *mx_load_format(const char *path);
MX_API const char *mx_save_format(const char *path);
/* One array in the form in which a .params file holds it.  The first `room` bytes are written; *size is how many there
 * are, so a call with room 0 measures. */
MX_API mx_code mx_array_pack(mx_array *x, void *bytes, size_t room, size_t *size);
MX_API mx_array *mx_array_unpack(const void *bytes, size_t count); /* on cpu(0) */
MX_API int64_t mx_array_dict_count(const mx_array_dict *dict);
MX_API const char *mx_array_dict_name(const mx_array_dict *dict, int64_t i); /* NULL for a list */
MX_API mx_array *mx_array_dict_at(const mx_array_dict *dict, int64_t i);
MX_API mx_array *mx_array_dict_get(const mx_array_dict *dict, const char *name); /* NULL without an error if missing */
MX_API mx_array *mx_load_npy(const char *path);
MX_API mx_code mx_save_npy(const char *path, mx_array *x);
/* One format whatever the name; every array needs a distinct name.  Written atomically. */
MX_API mx_array_dict *mx_load_safetensors(const char *path);
MX_API mx_code mx_save_safetensors(const char *path, mx_arrays arrays, const char *const *names);
MX_API mx_array_dict *mx_load_npz(const char *path); /* compressed entries need zlib */
MX_API mx_code mx_save_npz(const char *path, mx_arrays arrays, const char *const *names);

#endif
