/* Blocks: parts of an HDF5 file in memory, whose numbers are read one after the other (see hdf5.h).
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "ndarray/hdf5/hdf5.h"

bool mx_hdf5_fail(mx_hdf5 *file, const char *format, ...)
{
    char text[512];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    return mx_reader_fail(file->reader, "'/%s': %s", file->path, text);
}

bool mx_hdf5_load(mx_hdf5 *file, mx_hdf5_block *block, int64_t at, int64_t size, const char *what)
{
    *block = (mx_hdf5_block){.at = at, .size = size};
    if (at < 0 || size < 0 || at > file->reader->size || size > file->reader->size - at)
        return mx_hdf5_fail(file, "%s (%" PRId64 " bytes at %" PRId64 ") is outside the file: damaged or truncated",
                            what, size, at);
    if ((file->budget -= size + 8) < 0)
        return mx_hdf5_fail(file, "%s: the parts of the file refer to one another more often than is possible", what);
    if (!(block->bytes = mx_alloc((size_t)size + 1)))
        return false;
    if (mx_reader_seek(file->reader, at, what) && mx_reader_get(file->reader, block->bytes, size, what))
        return true;
    mx_hdf5_unload(block);
    return false;
}

void mx_hdf5_unload(mx_hdf5_block *block)
{
    mx_free(block->bytes, (size_t)block->size + 1);
    block->bytes = NULL;
}

mx_hdf5_block mx_hdf5_part(mx_hdf5_block *block, int64_t size)
{
    mx_hdf5_block part = {.bytes = block->bytes, .at = block->at + block->position, .failed = true};
    if (size < 0 || size > block->size - block->position) {
        block->failed = true;
        return part;
    }
    part.failed = block->failed, part.bytes += block->position, part.size = size;
    block->position += size;
    return part;
}

void mx_hdf5_skip(mx_hdf5_block *block, int64_t bytes) { mx_hdf5_part(block, bytes); }

uint64_t mx_hdf5_number(mx_hdf5_block *block, int bytes)
{
    uint64_t value = 0;
    if (bytes > 8 || bytes > block->size - block->position)
        block->failed = true;
    if (block->failed)
        return 0;
    for (int i = 0; i < bytes; i++)
        value |= (uint64_t)block->bytes[block->position + i] << 8 * i;
    block->position += bytes;
    return value;
}

int64_t mx_hdf5_address(mx_hdf5 *file, mx_hdf5_block *block)
{
    const uint64_t value = mx_hdf5_number(block, file->offset_bytes);
    const uint64_t none = file->offset_bytes == 8 ? UINT64_MAX : ((uint64_t)1 << 8 * file->offset_bytes) - 1;
    if (block->failed || value == none)
        return MX_HDF5_NOWHERE;
    return value > MX_HDF5_BEYOND ? MX_HDF5_BEYOND : (int64_t)value + file->base;
}

int64_t mx_hdf5_length(mx_hdf5 *file, mx_hdf5_block *block)
{
    const uint64_t value = mx_hdf5_number(block, file->length_bytes);
    return value > MX_HDF5_BEYOND ? MX_HDF5_BEYOND : (int64_t)value;
}

bool mx_hdf5_signed(mx_hdf5 *file, mx_hdf5_block *block, const char *signature)
{
    const mx_hdf5_block found = mx_hdf5_part(block, 4);
    if (found.failed || memcmp(found.bytes, signature, 4))
        return mx_hdf5_fail(file, "there is no '%s' at byte %" PRId64 ": the file is damaged", signature, block->at);
    return true;
}
