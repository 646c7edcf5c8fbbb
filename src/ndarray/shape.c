/* Shapes: size, equality, merging of partial knowledge, broadcasting, text.
 *
 * An array holds at most 2^47 elements and bytes (what an address space of 48 bits can hold), so that sums and
 * products of sizes and item sizes never overflow an int64_t.  The bound counts zero-size axes as ones: strides of
 * (0, n, m) fit too.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "ndarray/shape.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"

#define MOST_ELEMENTS ((int64_t)1 << 47)

mx_shape_t mx_shape_of_dims(const mx_dims *dims)
{
    mx_shape_t shape = MX_UNKNOWN_SHAPE;
    if (dims->n > MX_MAX_NDIM) {
        mx_fail(MX_ERR_SHAPE, "a shape has %d axes, at most %d are possible", (int)dims->n, MX_MAX_NDIM);
        return shape;
    }
    shape.ndim = dims->n < 0 ? -1 : dims->n;
    for (int i = 0; i < shape.ndim; i++)
        shape.dim[i] = dims->d[i];
    return shape;
}

mx_dims mx_dims_of_shape(const mx_shape_t *shape)
{
    mx_dims dims = {.n = shape->ndim};
    for (int i = 0; i < shape->ndim; i++)
        dims.d[i] = shape->dim[i];
    return dims;
}

bool mx_shape_known(const mx_shape_t *shape)
{
    for (int i = 0; i < shape->ndim; i++)
        if (shape->dim[i] < 0)
            return false;
    return shape->ndim >= 0;
}

bool mx_shape_equal(const mx_shape_t *a, const mx_shape_t *b)
{
    if (a->ndim != b->ndim)
        return false;
    for (int i = 0; i < a->ndim; i++)
        if (a->dim[i] != b->dim[i])
            return false;
    return true;
}

static int64_t too_large(const mx_shape_t *shape)
{
    char text[MX_SHAPE_TEXT];
    mx_fail(MX_ERR_SHAPE, "shape %s is too large: an array holds at most 2^47 elements", mx_shape_text(shape, text));
    return -1;
}

int64_t mx_shape_size(const mx_shape_t *shape)
{
    int64_t size = 1;
    bool empty = false;
    for (int i = 0; i < shape->ndim; i++) {
        int64_t dim = shape->dim[i];
        if (dim < 0)
            return -1;
        empty |= dim == 0;
        if (__builtin_mul_overflow(size, dim ? dim : 1, &size) || size > MOST_ELEMENTS)
            return too_large(shape);
    }
    return shape->ndim < 0 ? -1 : empty ? 0 : size;
}

bool mx_shape_merge(mx_shape_t *into, const mx_shape_t *from, bool *changed)
{
    bool grew = false;
    if (from->ndim < 0)
        return true;
    if (into->ndim < 0) {
        *into = *from;
        grew = true;
    }
    if (into->ndim != from->ndim)
        return false;
    for (int i = 0; i < into->ndim; i++) {
        if (from->dim[i] < 0 || into->dim[i] == from->dim[i])
            continue;
        if (into->dim[i] >= 0)
            return false;
        into->dim[i] = from->dim[i];
        grew = true;
    }
    if (changed && grew)
        *changed = true;
    return true;
}

/* Writes "(1, ?, 3)" of `count` numbers; a tuple that does not fit ends in "...)". */
static const char *tuple_text(const int64_t *numbers, int count, bool minus_is_unknown, char *buffer)
{
    size_t used = 0;
    buffer[used++] = '(';
    for (int i = 0; i < count; i++) {
        char number[32];
        if (numbers[i] == MX_NONE_INT)
            strcpy(number, "None");
        else if (numbers[i] == -1 && minus_is_unknown)
            strcpy(number, "?");
        else
            snprintf(number, sizeof number, "%" PRId64, numbers[i]);
        if (used + strlen(number) + 8 > MX_SHAPE_TEXT) {
            strcpy(buffer + used, "...)");
            return buffer;
        }
        used += (size_t)sprintf(buffer + used, "%s%s", number, i + 1 < count ? ", " : count == 1 ? "," : "");
    }
    strcpy(buffer + used, ")");
    return buffer;
}

const char *mx_shape_text(const mx_shape_t *shape, char *buffer)
{
    if (shape->ndim < 0)
        return strcpy(buffer, "(?)");
    return tuple_text(shape->dim, shape->ndim, true, buffer);
}

const char *mx_dims_text(const mx_dims *dims, char *buffer)
{
    if (dims->n < 0)
        return strcpy(buffer, "None");
    return tuple_text(dims->d, dims->n < MX_MAX_TUPLE ? dims->n : MX_MAX_TUPLE, false, buffer);
}

bool mx_shape_broadcast(const mx_shape_t *a, const mx_shape_t *b, mx_shape_t *out)
{
    const mx_shape_t *longer = a->ndim >= b->ndim ? a : b, *shorter = longer == a ? b : a;
    if (shorter->ndim < 0)
        return false;
    mx_shape_t result = *longer;
    int shift = longer->ndim - shorter->ndim;
    for (int i = 0; i < shorter->ndim; i++) {
        int64_t p = longer->dim[shift + i], q = shorter->dim[i];
        if (p != q && p != 1 && q != 1 && p >= 0 && q >= 0)
            return false;
        result.dim[shift + i] = p < 0 || q < 0 ? -1 : p == 1 ? q : p;
    }
    *out = result;
    return true;
}

int mx_axis(int64_t axis, int ndim)
{
    if (axis < 0)
        axis += ndim;
    return axis >= 0 && axis < ndim ? (int)axis : -1;
}
