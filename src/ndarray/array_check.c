/* The invariant of arrays, checked (see array.h).  SPDX-License-Identifier: Apache-2.0 */
#include "ndarray/array.h"
#include "ndarray/dtype.h"

#if MX_CHECKED
static int64_t product(const mx_array *x)
{
    int64_t size = 1;
    for (int i = 0; i < x->ndim; i++)
        size *= x->shape[i];
    return size;
}

void mx_array_check(const mx_array *x, const char *where)
{
    MX_ASSERT(x->object.guard == MX_OBJECT_ALIVE, "%s: the array was freed before", where);
    MX_ASSERT(x->ndim >= -1 && x->ndim <= MX_MAX_NDIM, "%s: an array of %d axes", where, x->ndim);
    if (!x->storage)
        return;
    const mx_storage *storage = x->storage;
    MX_ASSERT(mx_dtype_valid(x->dtype), "%s: elements of type %d", where, x->dtype);
    MX_ASSERT(x->ndim >= 0 && x->size == product(x), "%s: size %lld is not the product of the shape", where,
              (long long)x->size);
    MX_ASSERT(x->offset >= 0 && (size_t)x->offset + mx_bytes(x) <= storage->bytes,
              "%s: %zu bytes from %lld on in a storage of %zu", where, mx_bytes(x), (long long)x->offset,
              storage->bytes);
    MX_ASSERT(storage->memory || !mx_bytes(x), "%s: elements without memory", where);
    MX_ASSERT(storage->object.count > 0, "%s: the storage was freed before", where);
}
#endif
