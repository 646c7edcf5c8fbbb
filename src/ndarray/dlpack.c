/* DLPack (see gluon/dlpack.h).
 *
 * An exported tensor retains its array and its consumer's stream: before the memory is reused for other arrays, the
 * device waits for what the other library has queued there.  An imported tensor is the owner of a storage's foreign
 * memory.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "ndarray/dlpack.h"

#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "ndarray/array.h"
#include "ndarray/dtype.h"

static const mx_dl_type types[MX_DTYPE_END] = {
    [MX_FLOAT32] = {2, 32, 1}, [MX_FLOAT64] = {2, 64, 1}, [MX_FLOAT16] = {2, 16, 1}, [MX_BFLOAT16] = {4, 16, 1},
    [MX_UINT8] = {1, 8, 1},    [MX_INT8] = {0, 8, 1},     [MX_INT32] = {0, 32, 1},   [MX_INT64] = {0, 64, 1},
    [MX_BOOL] = {6, 8, 1},
};

static mx_dtype dtype_of(mx_dl_type type)
{
    for (int i = 0; i < MX_DTYPE_END; i++)
        if (types[i].bits && types[i].code == type.code && types[i].bits == type.bits && type.lanes == 1)
            return (mx_dtype)i;
    return MX_DTYPE_NONE;
}

int64_t mx_dlpack_stream(mx_context context)
{
    int64_t number = -1;
    mx_device *device = mx_device_of(context, "mx_dlpack_stream");
    return device && (!device->stream || !device->stream(mx_context_resolve(context), &number)) ? number : 0;
}

/* ---- export --------------------------------------------------------------------------------------------- */
typedef struct exported {
    union {
        mx_dl_managed unversioned;
        mx_dl_versioned versioned;
    } head;          /* what the other library sees; its owner field points back here */
    mx_array *array; /* retained */
    int64_t stream, strides[MX_MAX_NDIM];
} exported;

/* Runs on any thread, in the middle of another library: it must leave no error set. */
static void forget(exported *e)
{
    const mx_storage *storage = e->array->storage;
    const bool clean = !mx_has_error();
    if (storage->device->follow)
        storage->device->follow(storage->context, e->stream < 0 ? 0 : e->stream);
    if (clean)
        mx_error_clear();
    mx_release(e->array);
    mx_free(e, sizeof *e);
}
static void delete_unversioned(mx_dl_managed *self) { forget(self->owner); }
static void delete_versioned(mx_dl_versioned *self) { forget(self->owner); }

static mx_dl_tensor tensor_of(exported *e)
{
    mx_array *x = e->array;
    const bool gpu = x->context.type == MX_GPU;
    int64_t stride = 1;
    for (int i = x->ndim - 1; i >= 0; i--) {
        e->strides[i] = stride;
        stride *= x->shape[i] ? x->shape[i] : 1;
    }
    return (mx_dl_tensor){.data = x->size ? mx_data(x) : NULL,
                       .device = {gpu ? MX_DL_CUDA : MX_DL_CPU, gpu ? x->context.id : 0},
                       .ndim = x->ndim,
                       .dtype = types[x->dtype],
                       .shape = x->shape,
                       .strides = e->strides};
}

static mx_code make_ready(const mx_array *x, int64_t stream)
{
    const mx_storage *storage = x->storage;
    if (storage->device->lead && stream)
        return stream < 0 ? MX_OK : storage->device->lead(storage->context, stream);
    const bool clean = !mx_has_error();
    storage->device->wait(storage->context);
    return clean ? mx_error_code() : MX_OK;
}

static exported *give(mx_array *x, int64_t stream, bool versioned)
{
    if (!mx_array_ok(x, "mx_to_dlpack", "x"))
        return NULL;
    if (!x->storage)
        return mx_fail_null(MX_ERR_STATE, "mx_to_dlpack: x has a shape but no elements: it was made while tracing");
    if (x->readonly && !versioned)
        return mx_fail_null(MX_ERR_STATE,
                            "mx_to_dlpack: x is read-only, which an unversioned DLPack tensor cannot express");
    exported *e = mx_alloc_zero(sizeof *e);
    if (!e)
        return NULL;
    if (make_ready(x, stream)) {
        mx_free(e, sizeof *e);
        return NULL;
    }
    if (!x->readonly)
        mx_array_expose(x);
    e->array = mx_retain(x);
    e->stream = stream;
    return e;
}

struct DLManagedTensor *mx_to_dlpack(mx_array *x, int64_t stream)
{
    exported *e = give(x, stream, false);
    if (!e)
        return NULL;
    e->head.unversioned = (mx_dl_managed){tensor_of(e), e, delete_unversioned};
    return &e->head.unversioned;
}

struct DLManagedTensorVersioned *mx_to_dlpack_versioned(mx_array *x, int64_t stream)
{
    exported *e = give(x, stream, true);
    if (!e)
        return NULL;
    e->head.versioned = (mx_dl_versioned){1, 0, e, delete_versioned, x->readonly ? MX_DL_READ_ONLY : 0, tensor_of(e)};
    return &e->head.versioned;
}

/* ---- import ---------------------------------------------------------------------------------------------- */
static void release_unversioned(void *owner)
{
    mx_dl_managed *tensor = owner;
    if (tensor->deleter)
        tensor->deleter(tensor);
}
static void release_versioned(void *owner)
{
    mx_dl_versioned *tensor = owner;
    if (tensor->deleter)
        tensor->deleter(tensor);
}

static mx_code shape_of(const mx_dl_tensor *t, mx_dims *shape)
{
    if (t->ndim < 0 || t->ndim > MX_MAX_NDIM)
        return mx_fail(MX_ERR_SHAPE, "mx_from_dlpack: the tensor has %d axes; at most %d are possible", (int)t->ndim,
                       MX_MAX_NDIM);
    *shape = (mx_dims){.n = t->ndim};
    for (int i = 0; i < t->ndim; i++) {
        shape->d[i] = t->shape[i];
        if (t->shape[i] < 0)
            return mx_fail(MX_ERR_SHAPE, "mx_from_dlpack: axis %d has size %lld", i, (long long)t->shape[i]);
    }
    return MX_OK;
}

static bool is_contiguous(const mx_dl_tensor *t)
{
    int64_t stride = 1;
    for (int i = t->ndim - 1; t->strides && i >= 0; i--) {
        if (t->shape[i] != 1 && t->strides[i] != stride)
            return false;
        stride *= t->shape[i];
    }
    return true;
}

static char *copy_strided(char *to, const char *from, const mx_dl_tensor *t, int axis, int64_t item)
{
    if (axis == t->ndim) {
        memcpy(to, from, (size_t)item);
        return to + item;
    }
    for (int64_t i = 0; i < t->shape[axis]; i++)
        to = copy_strided(to, from + i * t->strides[axis] * item, t, axis + 1, item);
    return to;
}

/* Copies the tensor's elements to a new array. */
static mx_array *copied(mx_context context, const mx_shape_t *shape, const mx_dims *dims, mx_dtype dtype,
                        const char *data, const mx_dl_tensor *t)
{
    mx_array *x = mx_array_new(shape, dtype, context);
    const mx_device *device = x ? x->storage->device : NULL;
    const int64_t item = mx_dtype_size(dtype);
    if (!x || !x->size)
        return x;
    if (!device->gather) {
        copy_strided(mx_data(x), data, t, 0, item);
    } else if (device->gather(context, mx_data(x), data, dims, t->strides, (size_t)item)) {
        mx_release(x);
        x = NULL;
    }
    return x;
}

static mx_array *array_of(const mx_dl_tensor *t, mx_context context, void (*release)(void *), void *owner)
{
    mx_dims dims;
    const mx_dtype dtype = dtype_of(t->dtype);
    mx_device *device = mx_device_of(context, "mx_from_dlpack");
    if (!device || shape_of(t, &dims))
        return NULL;
    if (dtype == MX_DTYPE_NONE)
        return mx_fail_null(MX_ERR_DTYPE,
                            "mx_from_dlpack: there is no element type for DLPack type (code %d, %d bits, %d lanes)",
                            t->dtype.code, t->dtype.bits, t->dtype.lanes);
    const mx_shape_t shape = mx_shape_of_dims(&dims);
    const int64_t size = mx_shape_size(&shape);
    if (size > 0 && !t->data)
        return mx_fail_null(MX_ERR_ARGUMENT,
                            "mx_from_dlpack: the tensor has %lld elements, but its data pointer is NULL",
                            (long long)size);
    if (device->follow && device->follow(context, MX_DL_DEFAULT_STREAM))
        return NULL;
    char *data = (char *)t->data + t->byte_offset;
    if (size > 0 && is_contiguous(t))
        return mx_array_adopt_on(context, &shape, dtype, data, release, owner);
    return copied(context, &shape, &dims, dtype, data, t);
}

/* The caller owns x; x owns the tensor or has released it; on failure the tensor stays the caller's. */
static mx_array *hand_over(mx_array *x, void (*release)(void *), void *owner)
{
    mx_storage *storage = mx_retain(x->storage);
    const bool adopted = storage->release != NULL;
    x = mx_scope_add(x);
    if (!x && adopted)
        storage->release = NULL, storage->memory = NULL;
    else if (x && !adopted && storage->device->retire)
        storage->device->retire(storage->context, release, owner);
    else if (x && !adopted)
        release(owner);
    mx_release(storage);
    return x;
}

static mx_array *take(const mx_dl_tensor *t, bool readonly, void (*release)(void *), void *owner)
{
    const bool gpu = t->device.type == MX_DL_CUDA;
    if (!gpu && t->device.type != MX_DL_CPU && t->device.type != MX_DL_CUDA_HOST)
        return mx_fail_null(MX_ERR_DEVICE,
                            "mx_from_dlpack: the tensor is on a device of DLPack type %d; it must be in the memory of "
                            "the CPU or of a CUDA GPU",
                            (int)t->device.type);
    mx_array *x = array_of(t, gpu ? mx_gpu(t->device.id) : mx_cpu(0), release, owner);
    if (x)
        x->readonly = readonly && x->storage->release;
    return x ? hand_over(x, release, owner) : NULL;
}

mx_array *mx_from_dlpack(struct DLManagedTensor *tensor)
{
    if (!tensor)
        return mx_fail_null(MX_ERR_ARGUMENT, "mx_from_dlpack: tensor is NULL");
    return take(&tensor->tensor, false, release_unversioned, tensor);
}

mx_array *mx_from_dlpack_versioned(struct DLManagedTensorVersioned *tensor)
{
    if (!tensor)
        return mx_fail_null(MX_ERR_ARGUMENT, "mx_from_dlpack_versioned: tensor is NULL");
    if (tensor->major > 1)
        return mx_fail_null(MX_ERR_UNSUPPORTED, "mx_from_dlpack_versioned: version %u.%u of DLPack is not supported",
                            tensor->major, tensor->minor);
    return take(&tensor->tensor, tensor->flags & MX_DL_READ_ONLY, release_versioned, tensor);
}
