/* The elements of a data set of an HDF5 file (see hdf5.h).  SPDX-License-Identifier: Apache-2.0 */
#include <inttypes.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "ndarray/hdf5/hdf5.h"

/* The elements where they are: in the file, or in the header. */
static bool read_in_place(mx_hdf5 *file, const mx_hdf5_object *o, mx_array *x, int64_t bytes)
{
    if (o->data_size >= 0 && o->data_size < bytes)
        return mx_hdf5_fail(file, "the array needs %" PRId64 " bytes and has %" PRId64, bytes, o->data_size);
    return mx_reader_seek(file->reader, o->data, "the elements") &&
           mx_wire_read(file->reader, o->wire, o->swap, mx_data(x), x->size, "the elements");
}

static bool read_chunks(mx_hdf5 *file, const mx_hdf5_object *o, mx_array *x, unsigned char *elements, int64_t bytes)
{
    mx_reader inner;
    if (!mx_reader_open_memory(&inner, elements, bytes, file->reader->name))
        return false;
    const bool fine = mx_wire_read(&inner, o->wire, o->swap, mx_data(x), x->size, "the elements");
    mx_reader_close(&inner);
    return fine;
}

/* Whether the file holds what the shape claims; then nothing larger than the file is allocated. */
static bool check_place(mx_hdf5 *file, const mx_hdf5_object *o, int64_t bytes)
{
    if (o->data == MX_HDF5_NOWHERE)
        return mx_hdf5_fail(file, "the array has a shape and no elements: they were never written");
    if (o->data < 0 || o->data > file->reader->size || bytes > file->reader->size - o->data)
        return mx_hdf5_fail(
            file, "the elements (%" PRId64 " bytes at %" PRId64 ") are outside the file: damaged or truncated", bytes,
            o->data);
    if ((file->budget -= bytes) < 0)
        return mx_hdf5_fail(file, "arrays of the file share their elements more often than is possible");
    return true;
}

mx_array *mx_hdf5_array(mx_hdf5 *file, const mx_hdf5_object *o)
{
    const int64_t count = mx_wire_elements(file->reader, o->shape.dim, o->shape.ndim, file->path);
    if (count < 0)
        return NULL;
    const int64_t bytes = count * o->wire->size; /* at most 2^44 elements */
    const bool in_place = o->layout == MX_HDF5_CONTIGUOUS || o->layout == MX_HDF5_COMPACT;
    unsigned char *elements = NULL;
    if (bytes && in_place && (o->filters || !check_place(file, o, bytes)))
        return o->filters ? mx_hdf5_fail(file, "filters without chunks"), NULL : NULL;
    if (bytes && !in_place && !(elements = mx_hdf5_chunks(file, o, bytes)))
        return NULL;
    mx_array *x = mx_array_new(&o->shape, (mx_dtype)o->wire->dtype, mx_cpu(0));
    const bool fine =
        x && (!bytes || (in_place ? read_in_place(file, o, x, bytes) : read_chunks(file, o, x, elements, bytes)));
    mx_free(elements, (size_t)bytes);
    if (fine)
        return x;
    mx_release(x);
    return NULL;
}
