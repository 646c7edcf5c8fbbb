/* Arrays in MXNet's C interface: lists from files, elements, DLPack.  SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "base/alloc.h"
#include "gluon/dlpack.h"
#include "gluon/predict/predict.h"
#include "mxnet/c_api.h"
#include "ndarray/array.h"
#include "ndarray/convert.h"
#include "ndarray/dlpack.h"
#include "ndarray/sparse.h"

/* ---- lists ----------------------------------------------------------------------------------------------------- */

typedef struct nd_list {
    mx_object object;
    mx_array_dict *file; /* retained */
    int64_t n;
    float **data;            /* (n) elements as float32; owned; NULL: not asked for yet */
    mx_predict_shape *shape; /* (n) */
} nd_list;

static void destroy_list(mx_object *self)
{
    nd_list *list = (nd_list *)self;
    for (int64_t i = 0; list->data && i < list->n; i++)
        if (list->data[i])
            mx_free(list->data[i], (size_t)mx_size(mx_array_dict_at(list->file, i)) * sizeof(float));
    mx_free(list->data, (size_t)list->n * sizeof *list->data);
    mx_free(list->shape, (size_t)list->n * sizeof *list->shape);
    mx_release(list->file);
    mx_free(list, sizeof *list);
}
static const mx_kind list_kind = {"list of arrays", destroy_list};

int MXNDListCreate(const char *nd_file_bytes, int nd_file_size, NDListHandle *out, mx_uint *out_length)
{
    MX_ENTRY;
    if (!nd_file_bytes || !out || !out_length || nd_file_size <= 0)
        return mx_entry_end(mx_fail(MX_ERR_ARGUMENT, "MXNDListCreate: %s",
                                    !nd_file_bytes      ? "nd_file_bytes is NULL"
                                    : nd_file_size <= 0 ? "nd_file_size must be the size of a .params file in bytes"
                                                        : "out or out_length is NULL"));
    mx_array_dict *file = mx_load_buffer(nd_file_bytes, (size_t)nd_file_size);
    nd_list *list = file ? mx_alloc_zero(sizeof *list) : NULL;
    if (!list)
        return mx_entry_end(mx_error_code());
    mx_object_init(&list->object, &list_kind);
    list->file = mx_keep(file);
    list->n = mx_array_dict_count(file);
    list->data = mx_alloc_zero((size_t)list->n * sizeof *list->data);
    list->shape = mx_alloc_zero((size_t)list->n * sizeof *list->shape);
    if (list->n && (!list->data || !list->shape)) {
        mx_release(list);
        return mx_entry_end(MX_ERR_MEMORY);
    }
    *out = list;
    *out_length = (mx_uint)list->n;
    return mx_entry_end(MX_OK);
}

static mx_code read_elements(nd_list *list, int64_t i, const mx_array *x)
{
    const size_t bytes = (size_t)mx_size(x) * sizeof(float);
    float *data = mx_alloc(bytes);
    if (!data)
        return MX_ERR_MEMORY;
    mx_convert(data, MX_FLOAT32, mx_data(x), mx_dtype_of(x), mx_size(x));
    list->data[i] = data;
    const mx_dims dims = mx_shape(x);
    for (int k = 0; k < dims.n; k++)
        list->shape[i][k] = (uint32_t)dims.d[k];
    return MX_OK;
}

int MXNDListGet(NDListHandle handle, mx_uint index, const char **out_key, const mx_float **out_data,
                const mx_uint **out_shape, mx_uint *out_ndim)
{
    MX_ENTRY;
    nd_list *list = mx_is_kind(handle, &list_kind, "MXNDListGet", "handle") ? handle : NULL;
    if (!list)
        return mx_entry_end(mx_error_code());
    if (index >= (uint64_t)list->n)
        return mx_entry_end(
            mx_fail(MX_ERR_INDEX, "MXNDListGet: there is no array %u; the list has %lld", index, (long long)list->n));
    if (!out_key || !out_data || !out_shape || !out_ndim)
        return mx_entry_end(mx_fail(MX_ERR_ARGUMENT, "MXNDListGet: a pointer for the results is NULL"));
    mx_array *x = mx_array_dict_at(list->file, index);
    if (!mx_array_ok(x, "MXNDListGet", "the array") || (!list->data[index] && read_elements(list, index, x)))
        return mx_entry_end(mx_error_code());
    const char *name = mx_array_dict_name(list->file, index);
    *out_key = name ? name : "";
    *out_data = list->data[index];
    *out_shape = list->shape[index];
    *out_ndim = (mx_uint)mx_ndim(x);
    return mx_entry_end(MX_OK);
}

int MXNDListFree(NDListHandle handle)
{
    MX_ENTRY;
    if (!mx_is_kind(handle, &list_kind, "MXNDListFree", "handle"))
        return mx_entry_end(mx_error_code());
    mx_release(handle);
    return mx_entry_end(MX_OK);
}

/* ---- arrays ---------------------------------------------------------------------------------------------------- */

/* The array of a handle with room for what is asked of it; NULL with an error. */
static mx_array *array_of(NDArrayHandle handle, const char *who, bool room)
{
    if (!mx_array_ok(handle, who, "handle"))
        return NULL;
    mx_array *x = handle;
    if (!x->storage)
        return mx_fail_null(MX_ERR_ARGUMENT, "%s: the array is symbolic or has no elements yet", who);
    return room ? x : mx_fail_null(MX_ERR_ARGUMENT, "%s: a pointer for the result is NULL", who);
}

static mx_code check_size(const mx_array *x, const void *data, size_t size, const char *who)
{
    char shape[MX_SHAPE_TEXT];
    const mx_dims dims = mx_shape(x);
    if (size != (size_t)mx_size(x))
        return mx_fail(MX_ERR_SHAPE, "%s: size is %zu elements, the array has shape %s", who, size,
                       mx_dims_text(&dims, shape));
    return size && !data ? mx_fail(MX_ERR_ARGUMENT, "%s: data is NULL", who) : MX_OK;
}

int MXGetVersion(int *out)
{
    MX_ENTRY;
    if (!out)
        return mx_entry_end(mx_fail(MX_ERR_ARGUMENT, "MXGetVersion: out is NULL"));
    *out = 10901;
    return mx_entry_end(MX_OK);
}

int MXNDArrayWaitAll(void)
{
    MX_ENTRY;
    mx_wait_all();
    return mx_entry_end(MX_OK);
}

int MXNDArrayWaitToRead(NDArrayHandle handle)
{
    MX_ENTRY;
    mx_array *x = array_of(handle, "MXNDArrayWaitToRead", true);
    if (x)
        mx_array_wait(x);
    return mx_entry_end(x ? MX_OK : mx_error_code());
}
int MXNDArrayWaitToWrite(NDArrayHandle handle) { return MXNDArrayWaitToRead(handle); }

int MXNDArrayFree(NDArrayHandle handle)
{
    MX_ENTRY;
    if (!mx_array_any_ok(handle, "MXNDArrayFree", "handle"))
        return mx_entry_end(mx_error_code());
    mx_release(handle);
    return mx_entry_end(MX_OK);
}

int MXNDArrayCreateEx(const mx_uint *shape, mx_uint ndim, int dev_type, int dev_id, int delay_alloc, int dtype,
                      NDArrayHandle *out)
{
    MX_ENTRY;
    (void)delay_alloc;
    mx_dims dims = {.n = (int32_t)ndim};
    if (ndim > MX_MAX_NDIM || (ndim && !shape) || !out)
        return mx_entry_end(mx_fail(MX_ERR_ARGUMENT, "MXNDArrayCreateEx: %s",
                                    ndim > MX_MAX_NDIM ? "ndim must be 0 to 8" : "shape or out is NULL"));
    for (mx_uint i = 0; i < ndim; i++)
        dims.d[i] = shape[i];
    mx_array *x = mx_empty(dims, (mx_dtype)dtype, (mx_context){dev_type, dev_id});
    *out = x && !mx_array_fill(x, 0) ? mx_keep(x) : NULL;
    return mx_entry_end(*out ? MX_OK : mx_error_code());
}

int MXNDArraySyncCopyToCPU(NDArrayHandle handle, void *data, size_t size)
{
    MX_ENTRY;
    mx_array *x = array_of(handle, "MXNDArraySyncCopyToCPU", true);
    mx_code code = x ? check_size(x, data, size, "MXNDArraySyncCopyToCPU") : mx_error_code();
    return mx_entry_end(code ? code : mx_array_read(x, data, mx_bytes(x)));
}

int MXNDArraySyncCopyFromCPU(NDArrayHandle handle, const void *data, size_t size)
{
    MX_ENTRY;
    mx_array *x = array_of(handle, "MXNDArraySyncCopyFromCPU", true);
    mx_code code = x ? check_size(x, data, size, "MXNDArraySyncCopyFromCPU") : mx_error_code();
    return mx_entry_end(code ? code : mx_array_write(x, data, mx_bytes(x)));
}

int MXNDArrayGetShape(NDArrayHandle handle, mx_uint *out_dim, const mx_uint **out_pdata)
{
    static _Thread_local mx_predict_shape shape;
    MX_ENTRY;
    const mx_array *x = array_of(handle, "MXNDArrayGetShape", out_dim && out_pdata);
    if (!x)
        return mx_entry_end(mx_error_code());
    for (int i = 0; i < x->ndim; i++)
        shape[i] = (uint32_t)x->shape[i];
    *out_dim = (mx_uint)x->ndim;
    *out_pdata = shape;
    return mx_entry_end(MX_OK);
}

int MXNDArrayGetDType(NDArrayHandle handle, int *out_dtype)
{
    MX_ENTRY;
    const mx_array *x = array_of(handle, "MXNDArrayGetDType", out_dtype != NULL);
    if (x)
        *out_dtype = x->dtype;
    return mx_entry_end(x ? MX_OK : mx_error_code());
}

int MXNDArrayGetContext(NDArrayHandle handle, int *out_dev_type, int *out_dev_id)
{
    MX_ENTRY;
    const mx_array *x = array_of(handle, "MXNDArrayGetContext", out_dev_type && out_dev_id);
    if (x)
        *out_dev_type = x->context.type, *out_dev_id = x->context.id;
    return mx_entry_end(x ? MX_OK : mx_error_code());
}

/* ---- DLPack ---------------------------------------------------------------------------------------------------- */

int MXNDArrayToDLPack(NDArrayHandle handle, DLManagedTensorHandle *out_dlpack)
{
    MX_ENTRY;
    mx_array *x = array_of(handle, "MXNDArrayToDLPack", out_dlpack != NULL);
    if (x)
        *out_dlpack = mx_to_dlpack(x, MX_DL_DEFAULT_STREAM);
    return mx_entry_end(x && *out_dlpack ? MX_OK : mx_error_code());
}

int MXNDArrayFromDLPack(DLManagedTensorHandle dlpack, NDArrayHandle *out_handle)
{
    MX_ENTRY;
    if (!dlpack || !out_handle)
        return mx_entry_end(
            mx_fail(MX_ERR_ARGUMENT, "MXNDArrayFromDLPack: %s is NULL", dlpack ? "out_handle" : "dlpack"));
    mx_array *x = mx_from_dlpack(dlpack);
    *out_handle = mx_keep(x);
    return mx_entry_end(x ? MX_OK : mx_error_code());
}

int MXNDArrayCallDLPackDeleter(DLManagedTensorHandle dlpack)
{
    MX_ENTRY;
    struct DLManagedTensor *tensor = dlpack;
    if (tensor && tensor->deleter)
        tensor->deleter(tensor);
    return mx_entry_end(MX_OK);
}
