/* Creating and destroying arrays; the public constructors and getters.
 *
 * Creating an array is on the path of every operator: no strings, no loop but over the axes.  A new array costs one
 * block for the array, one for the storage record and one for the elements; small arrays on the CPU store their elements
 * in the block of the storage record, right after it.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "ndarray/array.h"

#include "base/alloc.h"
#include "base/error.h"
#include "gluon/op.h"
#include "ndarray/dtype.h"
#include "ndarray/sparse.h"

#define MOST_BYTES ((int64_t)1 << 47)

/* ---- kinds ---------------------------------------------------------------------------------------------- */
#define RECORD_BYTES ((sizeof(mx_storage) + MX_ALIGN - 1) / MX_ALIGN * MX_ALIGN) /* offset of elements in the same block */
#ifdef __SANITIZE_ADDRESS__
#define INLINE_BYTES 0 /* separate blocks, so that writing before the first element is detected */
#else
#define INLINE_BYTES 4096 /* at most so many bytes of elements in the record's block */
#endif

static void *inline_memory(mx_storage *storage) { return (char *)storage + RECORD_BYTES; }

static void storage_destroy(mx_object *self)
{
    mx_storage *storage = (mx_storage *)self;
    if (storage->memory == inline_memory(storage)) {
        mx_free(storage, RECORD_BYTES + storage->bytes);
        return;
    }
    if (storage->release && storage->device->retire)
        storage->device->retire(storage->context, storage->release, storage->owner);
    else if (storage->release)
        storage->release(storage->owner);
    else if (storage->memory)
        storage->device->free(storage->context, storage->memory, storage->bytes);
    mx_free(storage, sizeof *storage);
}

static void array_destroy(mx_object *self)
{
    mx_array *x = (mx_array *)self;
    mx_release(x->storage);
    mx_release(x->node);
    mx_free(x, sizeof *x);
}

static void constant_destroy(mx_object *self)
{
    mx_object_init(self, self->kind); /* released too often: reset the count */
}

const mx_kind mx_storage_kind = {"storage", storage_destroy};
const mx_kind mx_array_kind = {"array", array_destroy};
static const mx_kind none_kind = {"MX_NONE (a missing input)", constant_destroy};
static const mx_kind end_kind = {"MX_END (the end of a list)", constant_destroy};

#define FOREVER (1 << 30) /* references that are never released */
static mx_array none_array = {.object = {&none_kind, FOREVER, MX_OBJECT_ALIVE}, .dtype = MX_DTYPE_NONE, .ndim = -1};
static mx_array end_array = {.object = {&end_kind, FOREVER, MX_OBJECT_ALIVE}, .dtype = MX_DTYPE_NONE, .ndim = -1};
mx_array *const MX_NONE = &none_array;
mx_array *const MX_END = &end_array;

bool mx_array_ok(const mx_array *x, const char *function, const char *argument)
{
    return mx_is_kind(x, &mx_array_kind, function, argument);
}

/* ---- new references ------------------------------------------------------------------------------------- */
/* Elements of a new array, or -1 with an error if shape or type is invalid. */
static int64_t checked_size(const mx_shape_t *shape, mx_dtype dtype)
{
    char text[MX_SHAPE_TEXT];
    if (!mx_dtype_valid((int)dtype))
        return mx_fail(MX_ERR_DTYPE, "%d is not an element type", (int)dtype), -1;
    int64_t size = mx_shape_size(shape);
    for (int i = 0; i < shape->ndim; i++)
        if (shape->dim[i] < 0)
            return mx_fail(MX_ERR_SHAPE, "axis %d of an array has the negative size %lld", i, (long long)shape->dim[i]),
                   -1;
    if (size < 0)
        mx_fail(MX_ERR_SHAPE, "shape %s is not complete: an array needs sizes from 0 up", mx_shape_text(shape, text));
    else if (size > MOST_BYTES / mx_dtype_table[dtype].size)
        mx_fail(MX_ERR_SHAPE, "shape %s of %s is too large: an array holds at most 2^47 bytes",
                mx_shape_text(shape, text), mx_dtype_table[dtype].name);
    else
        return size;
    return -1;
}

/* An array without storage. */
static mx_array *bare_array(const mx_shape_t *shape, int64_t size, mx_dtype dtype, mx_context context)
{
    mx_array *x = mx_alloc(sizeof *x);
    if (!x)
        return NULL;
    mx_object_init(&x->object, &mx_array_kind);
    x->storage = NULL;
    x->offset = 0;
    x->size = size;
    x->context = context;
    x->dtype = (int8_t)dtype;
    x->ndim = (int8_t)shape->ndim;
    x->readonly = false;
    x->written = 0;
    x->node_output = 0;
    x->kept = 0;
    x->node = NULL;
    for (int i = 0; i < shape->ndim; i++)
        x->shape[i] = shape->dim[i];
    return x;
}

static mx_storage *new_storage(mx_device *device, mx_context context, size_t bytes)
{
    bool inside = device == mx_cpu_device && bytes && bytes <= INLINE_BYTES;
    mx_storage *storage = mx_alloc(inside ? RECORD_BYTES + bytes : sizeof *storage);
    if (!storage)
        return NULL;
    mx_object_init(&storage->object, &mx_storage_kind);
    storage->device = device;
    storage->context = context;
    storage->bytes = bytes;
    storage->release = NULL;
    storage->owner = NULL;
    atomic_init(&storage->stamp, 0);
    atomic_init(&storage->exposed, false);
    storage->memory = inside ? inline_memory(storage) : bytes ? device->alloc(context, bytes) : NULL;
    if (bytes && !storage->memory) {
        mx_free(storage, sizeof *storage);
        return NULL;
    }
    return storage;
}

mx_array *mx_array_new(const mx_shape_t *shape, mx_dtype dtype, mx_context context)
{
    context = mx_context_resolve(context);
    int64_t size = checked_size(shape, dtype);
    mx_device *device = size < 0 ? NULL : mx_device_of(context, "array");
    if (!device)
        return NULL;
    mx_storage *storage = new_storage(device, context, (size_t)(size * mx_dtype_table[dtype].size));
    if (!storage)
        return NULL;
    mx_array *x = bare_array(shape, size, dtype, context);
    if (!x) {
        mx_release(storage);
        return NULL;
    }
    x->storage = storage;
    return x;
}

mx_array *mx_array_abstract(const mx_shape_t *shape, mx_dtype dtype, mx_context context)
{
    int64_t size = mx_shape_known(shape) ? checked_size(shape, dtype) : 0; /* unknown parts are left to inference */
    return size < 0 ? NULL : bare_array(shape, size, dtype, mx_context_resolve(context));
}

mx_array *mx_array_view(const mx_array *x, int64_t byte_offset, const mx_shape_t *shape, mx_dtype dtype)
{
    int64_t size = checked_size(shape, dtype);
    if (size < 0)
        return NULL;
    int64_t begin = x->offset + byte_offset, bytes = size * mx_dtype_table[dtype].size;
    if (x->storage && (begin < 0 || bytes > (int64_t)x->storage->bytes - begin))
        return mx_fail_null(MX_ERR_INDEX, "view: bytes %lld to %lld are outside the storage of %zu bytes",
                            (long long)begin, (long long)(begin + bytes), x->storage->bytes);
    mx_array *view = bare_array(shape, size, dtype, x->context);
    if (!view)
        return NULL;
    view->storage = mx_retain(x->storage);
    view->offset = begin;
    view->readonly = x->readonly;
    return view;
}

static void keep_foreign(void *owner) { (void)owner; }

mx_array *mx_array_adopt_on(mx_context context, const mx_shape_t *shape, mx_dtype dtype, void *memory,
                            void (*release)(void *), void *owner)
{
    int64_t size = checked_size(shape, dtype);
    mx_device *device = size < 0 ? NULL : mx_device_of(context, "array");
    mx_array *x = device ? bare_array(shape, size, dtype, context) : NULL;
    mx_storage *storage = x ? new_storage(device, context, 0) : NULL;
    if (!storage) {
        mx_release(x);
        return NULL;
    }
    storage->memory = memory;
    storage->bytes = mx_bytes(x);
    storage->release = release ? release : keep_foreign;
    storage->owner = owner;
    x->storage = storage;
    return x;
}

mx_array *mx_array_adopt(const mx_shape_t *shape, mx_dtype dtype, void *memory, void (*release)(void *), void *owner)
{
    return mx_array_adopt_on(mx_cpu(0), shape, dtype, memory, release, owner);
}

/* ---- stamps --------------------------------------------------------------------------------------------- */

void mx_array_expose(const mx_array *x)
{
    atomic_store(&x->storage->exposed, true);
    mx_array_changed(x);
}

uint64_t mx_array_stamp(const mx_array *x)
{
    static _Atomic(uint64_t) last;
    mx_storage *storage = x->storage;
    if (storage->release || atomic_load(&storage->exposed))
        return 0;
    uint64_t stamp = atomic_load_explicit(&storage->stamp, memory_order_acquire);
    if (stamp)
        return stamp;
    const uint64_t fresh = atomic_fetch_add(&last, 1) + 1;
    return atomic_compare_exchange_strong(&storage->stamp, &stamp, fresh) ? fresh : stamp;
}

/* ---- copying -------------------------------------------------------------------------------------------- */
/* Between devices without a direct copy: through host memory, in pieces. */
static mx_code copy_staged(mx_array *destination, const mx_array *source, size_t bytes)
{
    size_t piece = bytes < ((size_t)1 << 22) ? bytes : (size_t)1 << 22;
    char *stage = mx_alloc(piece);
    if (!stage)
        return MX_ERR_MEMORY;
    const mx_storage *to = destination->storage, *from = source->storage;
    mx_code code = MX_OK;
    for (size_t done = 0; done < bytes && !code; done += piece) {
        size_t part = bytes - done < piece ? bytes - done : piece;
        code = from->device->to_host(from->context, stage, (char *)mx_data(source) + done, part);
        if (!code)
            code = to->device->from_host(to->context, (char *)mx_data(destination) + done, stage, part);
    }
    mx_free(stage, piece);
    return code;
}

/* From host memory; fresh: the array has not been used yet. */
static mx_code copy_in(const mx_array *x, const void *from, bool fresh)
{
    const mx_storage *to = x->storage;
    mx_code (*copy)(mx_context, void *, const void *, size_t) = fresh ? to->device->upload : NULL;
    return (copy ? copy : to->device->from_host)(to->context, mx_data(x), from, mx_bytes(x));
}

static mx_code copy_bytes(mx_array *destination, const mx_array *source, size_t bytes, bool fresh)
{
    const mx_storage *to = destination->storage, *from = source->storage;
    const bool from_host = mx_context_is_host(from->context), to_host = mx_context_is_host(to->context);
    if ((from_host && to_host) || mx_context_equal(from->context, to->context))
        return to->device->copy(to->context, mx_data(destination), mx_data(source), bytes);
    if (to_host)
        return from->device->to_host(from->context, mx_data(destination), mx_data(source), bytes);
    if (from_host)
        return copy_in(destination, mx_data(source), fresh);
    if (to->device == from->device && to->device->between)
        return to->device->between(to->context, mx_data(destination), from->context, mx_data(source), bytes);
    return copy_staged(destination, source, bytes);
}

static mx_code copy_data(mx_array *destination, const mx_array *source, bool fresh)
{
    const mx_storage *to = destination->storage, *from = source->storage;
    size_t bytes = mx_bytes(source);
    if (!to || !from)
        return mx_fail(MX_ERR_STATE, "copy: an array without data cannot be copied (it was made while tracing)");
    if (mx_bytes(destination) != bytes)
        return mx_fail(MX_ERR_SHAPE, "copy: source has %zu bytes, destination %zu", bytes, mx_bytes(destination));
    if (bytes == 0)
        return MX_OK;
    mx_code code = copy_bytes(destination, source, bytes, fresh);
    mx_array_changed(destination);
    return code;
}

mx_code mx_array_copy_data(mx_array *destination, const mx_array *source)
{
    return copy_data(destination, source, false);
}

mx_array *mx_array_of_bytes(const mx_shape_t *shape, mx_dtype dtype, mx_context context, const void *data)
{
    mx_array *x = mx_array_new(shape, dtype, context);
    if (x && x->size && copy_in(x, data, true)) {
        mx_release(x);
        return NULL;
    }
    return x;
}

bool mx_array_overlap(const mx_array *a, const mx_array *b)
{
    if (!a->storage || !b->storage || a->size == 0 || b->size == 0)
        return false;
    const char *p = mx_data(a), *q = mx_data(b);
    const mx_context c = a->storage->context, d = b->storage->context; /* foreign memory may belong to two storages */
    bool comparable = mx_context_equal(c, d) || (mx_context_is_host(c) && mx_context_is_host(d));
    return comparable && p < q + mx_bytes(b) && q < p + mx_bytes(a);
}

/* ---- public constructors -------------------------------------------------------------------------------- */

mx_array *mx_empty(mx_dims dims, mx_dtype dtype, mx_context context)
{
    mx_shape_t shape = mx_shape_of_dims(&dims);
    return mx_scope_add(mx_array_new(&shape, dtype, context));
}

mx_array *mx_array_from(mx_dims dims, mx_dtype dtype, const void *data)
{
    mx_shape_t shape = mx_shape_of_dims(&dims);
    if (!data && mx_shape_size(&shape) > 0)
        return mx_fail_null(MX_ERR_ARGUMENT, "mx_array_from: data is NULL, wanted the elements of the array");
    return mx_scope_add(mx_array_of_bytes(&shape, dtype, (mx_context){0}, data));
}

/* A deep copy on `context`; the caller has checked x. */
static mx_array *copy_on(const mx_array *x, mx_context context)
{
    mx_shape_t shape = mx_array_shape(x);
    mx_array *copy = mx_array_new(&shape, (mx_dtype)x->dtype, context);
    if (copy && copy_data(copy, x, true)) {
        mx_release(copy);
        return NULL;
    }
    return mx_scope_add(copy);
}

/* Applies an operator with one input to a symbolic array. */
static mx_array *through(const char *op, mx_array *x)
{
    mx_array *out[1] = {NULL};
    return mx_invoke(mx_op_find(op), NULL, 1, &x, 1, out) ? NULL : out[0];
}
static bool is_symbolic(const mx_array *x) { return !x->storage && x->node; }

static mx_array *sparse_to(mx_array *x, mx_context context)
{
    return mx_context_equal(x->context, mx_context_resolve(context)) ? x : mx_sparse_copy(x, context);
}
static mx_array *sparse_detached(mx_array *x)
{
    const mx_sparse *s = mx_sparse_of(x);
    mx_shape_t shape = mx_array_shape(x);
    return mx_sparse_made(s->stype, &shape, s->data, s->indices, s->indptr);
}

mx_array *mx_array_copy(mx_array *x)
{
    if (!mx_array_any_ok(x, "mx_array_copy", "x"))
        return NULL;
    if (mx_is_sparse(x))
        return mx_sparse_copy(x, x->context);
    return is_symbolic(x) ? through("_copy", x) : copy_on(x, x->context);
}

mx_array *mx_array_to(mx_array *x, mx_context context)
{
    if (!mx_array_any_ok(x, "mx_array_to", "x"))
        return NULL;
    if (mx_is_sparse(x))
        return sparse_to(x, context);
    context = mx_context_resolve(context);
    return mx_context_equal(x->context, context) || is_symbolic(x) ? x : copy_on(x, context);
}

mx_array *mx_detach(mx_array *x)
{
    if (!mx_array_any_ok(x, "mx_detach", "x"))
        return NULL;
    if (mx_is_sparse(x))
        return sparse_detached(x);
    if (is_symbolic(x))
        return through("BlockGrad", x);
    mx_shape_t shape = mx_array_shape(x);
    return mx_scope_add(mx_array_view(x, 0, &shape, (mx_dtype)x->dtype));
}

mx_array *mx_array_scalar(double value)
{
    float element = (float)value;
    return mx_array_from(MX_DIMS(1), MX_FLOAT32, &element);
}

/* ---- public getters ------------------------------------------------------------------------------------- */
mx_dims mx_shape(const mx_array *x)
{
    if (!mx_array_any_ok(x, "mx_shape", "x"))
        return MX_NO_DIMS;
    mx_shape_t shape = mx_array_shape(x);
    return mx_dims_of_shape(&shape);
}

int mx_ndim(const mx_array *x) { return mx_array_any_ok(x, "mx_ndim", "x") ? x->ndim : -1; }
int64_t mx_size(const mx_array *x) { return mx_array_any_ok(x, "mx_size", "x") ? x->size : -1; }

int64_t mx_dim(const mx_array *x, int axis)
{
    if (!mx_array_any_ok(x, "mx_dim", "x"))
        return -1;
    int i = mx_axis(axis, x->ndim);
    if (i < 0)
        return mx_fail(MX_ERR_INDEX, "mx_dim: axis %d is outside an array of %d axes", axis, x->ndim), -1;
    return x->shape[i];
}

mx_dtype mx_dtype_of(const mx_array *x)
{
    return mx_array_any_ok(x, "mx_dtype_of", "x") ? (mx_dtype)x->dtype : MX_DTYPE_NONE;
}

mx_context mx_context_of(const mx_array *x)
{
    return mx_array_any_ok(x, "mx_context_of", "x") ? x->context : (mx_context){0};
}
