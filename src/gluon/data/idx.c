/* idx files: the format of MNIST.
 *
 *     0 0 type rank | rank x u32 big-endian sizes | elements, big-endian
 *
 * Files may be gzip-compressed.  Everything is checked against the actual size before an array is allocated.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "base/alloc.h"
#include "base/file.h"
#include "base/gzip.h"
#include "gluon/data/data.h"

#define LARGEST ((int64_t)4 << 30)

static const struct { unsigned char code; mx_dtype dtype; } types[] = {
    {0x08, MX_UINT8}, {0x09, MX_INT8}, {0x0C, MX_INT32}, {0x0D, MX_FLOAT32}, {0x0E, MX_FLOAT64},
};

static mx_dtype type_of(unsigned char code)
{
    for (size_t i = 0; i < sizeof types / sizeof *types; i++)
        if (types[i].code == code)
            return types[i].dtype;
    return MX_DTYPE_NONE;
}

static uint32_t big_endian(const unsigned char *p)
{
    return (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 | (uint32_t)p[2] << 8 | p[3];
}

static void swap_bytes(unsigned char *data, int64_t count, int64_t item)
{
    for (int64_t i = 0; i < count; i++)
        for (int64_t a = i * item, b = a + item - 1; a < b; a++, b--) {
            unsigned char kept = data[a];
            data[a] = data[b];
            data[b] = kept;
        }
}

static mx_array *parse(const char *path, const unsigned char *bytes, int64_t size)
{
    if (size < 4 || bytes[0] || bytes[1] || type_of(bytes[2]) == MX_DTYPE_NONE)
        return mx_fail_null(MX_ERR_FILE, "%s: the file is not an idx file: the magic number is missing", path);
    const mx_dtype dtype = type_of(bytes[2]);
    const int rank = bytes[3];
    mx_shape_t shape = {.ndim = rank};
    if (rank < 1 || rank > MX_MAX_NDIM || size < 4 + 4 * rank)
        return mx_fail_null(MX_ERR_FILE, "%s: the header has %d axes, which is not possible in a file of %lld bytes",
                            path, rank, (long long)size);
    int64_t count = 1, room = (size - 4 - 4 * rank) / mx_dtype_size(dtype);
    for (int i = 0; i < rank; i++) {
        shape.dim[i] = big_endian(bytes + 4 + 4 * i);
        if (shape.dim[i] && count > room / shape.dim[i])
            return mx_fail_null(MX_ERR_FILE,
                                "%s: the file is truncated: its header announces more than the %lld elements it holds",
                                path, (long long)room);
        count *= shape.dim[i];
    }
    if (count * mx_dtype_size(dtype) != size - 4 - 4 * rank)
        return mx_fail_null(MX_ERR_FILE, "%s: the file holds more than the %lld elements that its header announces",
                            path, (long long)count);
    mx_array *x = mx_scope_add(mx_array_new(&shape, dtype, mx_cpu(0)));
    if (!x || !count)
        return x;
    memcpy(mx_array_data(x), bytes + 4 + 4 * rank, mx_bytes(x));
    if (mx_dtype_size(dtype) > 1)
        swap_bytes(mx_array_data(x), count, mx_dtype_size(dtype));
    return x;
}

mx_array *mx_load_idx(const char *path)
{
    if (!path)
        return mx_fail_null(MX_ERR_ARGUMENT, "mx_load_idx: path is NULL, wanted a text");
    int64_t size;
    const size_t length = strlen(path);
    const bool packed = length > 3 && !strcmp(path + length - 3, ".gz");
    void *bytes = packed ? mx_gzip_read(path, LARGEST, &size) : mx_file_read(path, LARGEST, &size);
    if (!bytes)
        return NULL;
    mx_array *x = parse(path, bytes, size);
    mx_free(bytes, (size_t)size + 1);
    return x;
}
