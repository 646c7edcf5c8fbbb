/* Reading elements from files: byte order, widths without an element type, bools that are not 0 or 1.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "ndarray/wire.h"

#include <inttypes.h>
#include <string.h>

#include "ndarray/dtype.h"

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "the file formats store elements as they are in memory");

static const mx_wire wires[MX_WIRE_END] = {
    [MX_FLOAT32] = {"float32", 4, MX_FLOAT32, 'f', false},   [MX_FLOAT64] = {"float64", 8, MX_FLOAT64, 'f', false},
    [MX_FLOAT16] = {"float16", 2, MX_FLOAT16, 'f', false},   [MX_UINT8] = {"uint8", 1, MX_UINT8, 'u', true},
    [MX_INT32] = {"int32", 4, MX_INT32, 'i', true},          [MX_INT8] = {"int8", 1, MX_INT8, 'i', true},
    [MX_INT64] = {"int64", 8, MX_INT64, 'i', true},          [MX_BOOL] = {"bool", 1, MX_BOOL, 'b', false},
    [MX_WIRE_INT16] = {"int16", 2, MX_INT32, 'i', true},     [MX_WIRE_UINT16] = {"uint16", 2, MX_INT32, 'u', true},
    [MX_WIRE_UINT32] = {"uint32", 4, MX_INT64, 'u', true},   [MX_WIRE_UINT64] = {"uint64", 8, MX_INT64, 'u', true},
    [MX_BFLOAT16] = {"bfloat16", 2, MX_BFLOAT16, 'V', false},
};

const mx_wire *mx_wire_of(int64_t code)
{
    return code >= 0 && code < MX_WIRE_END && wires[code].size ? &wires[code] : NULL;
}

const mx_wire *mx_wire_find(char class, int size)
{
    for (int i = 0; i < MX_WIRE_END; i++)
        if (wires[i].size == size && wires[i].class == class)
            return &wires[i];
    return NULL;
}

static void swap_bytes(unsigned char *bytes, int64_t n, int size)
{
    for (int64_t i = 0; i < n; i++, bytes += size)
        for (int j = 0; j < size / 2; j++) {
            unsigned char keep = bytes[j];
            bytes[j] = bytes[size - 1 - j];
            bytes[size - 1 - j] = keep;
        }
}

/* `check`: the source is unsigned, so a negative result did not fit. */
#define WIDEN(name, from, type, check) \
    static bool name(void *to, const void *elements, int64_t n) \
    { \
        const from *p = elements; \
        type *q = to; \
        bool fits = true; \
        for (int64_t i = 0; i < n; i++) { \
            q[i] = (type)p[i]; \
            fits &= !check || q[i] >= 0; \
        } \
        return fits; \
    }
WIDEN(widen_int16, int16_t, int32_t, false)
WIDEN(widen_uint16, uint16_t, int32_t, true)
WIDEN(widen_uint32, uint32_t, int64_t, true)
WIDEN(widen_uint64, uint64_t, int64_t, true)
static bool (*const wideners[MX_WIRE_END])(void *, const void *, int64_t) = {
    [MX_WIRE_INT16] = widen_int16, [MX_WIRE_UINT16] = widen_uint16,
    [MX_WIRE_UINT32] = widen_uint32, [MX_WIRE_UINT64] = widen_uint64,
};

/* Piece by piece through a buffer. */
static bool read_widened(mx_reader *reader, const mx_wire *wire, bool swap, char *to, int64_t n, const char *what)
{
    uint64_t piece[512];
    const int64_t room = (int64_t)sizeof piece / wire->size;
    const int64_t width = mx_dtype_size((mx_dtype)wire->dtype);
    for (int64_t done = 0, part; done < n; done += part) {
        part = n - done < room ? n - done : room;
        if (!mx_reader_get(reader, piece, part * wire->size, what))
            return false;
        if (swap)
            swap_bytes((unsigned char *)piece, part, wire->size);
        if (!wideners[wire - wires](to + done * width, piece, part))
            return mx_reader_fail(reader, "%s: a %s does not fit into int64", what, wire->name);
    }
    return true;
}

bool mx_wire_read(mx_reader *reader, const mx_wire *wire, bool swap, void *to, int64_t n, const char *what)
{
    if (n == 0)
        return !reader->failed;
    if (wideners[wire - wires])
        return read_widened(reader, wire, swap, to, n, what);
    if (!mx_reader_get(reader, to, n * wire->size, what))
        return false;
    if (swap)
        swap_bytes(to, n, wire->size);
    unsigned char *bytes = to;
    for (int64_t i = 0; wire->dtype == MX_BOOL && i < n; i++)
        bytes[i] = bytes[i] != 0; /* other values would not be C bools */
    return true;
}

int64_t mx_wire_elements(mx_reader *reader, const int64_t *dims, int ndim, const char *what)
{
    int64_t product = 1; /* zero-size axes count as 1 here, so that strides fit too */
    bool empty = false;
    for (int i = 0; i < ndim; i++) {
        if (dims[i] < 0)
            return mx_reader_fail(reader, "axis %d of %s has the negative size %" PRId64, i, what, dims[i]), -1;
        empty |= dims[i] == 0;
        if (__builtin_mul_overflow(product, dims[i] ? dims[i] : 1, &product) || product > (int64_t)1 << 44)
            return mx_reader_fail(reader, "%s is too large: its axis %d has size %" PRId64, what, i, dims[i]), -1;
    }
    return empty ? 0 : product;
}
