/* Shared by the operators that move elements (see movement.h).  SPDX-License-Identifier: Apache-2.0 */
#include "op/formula/movement.h"

#include <string.h>

void mx_strides(const mx_array *x, int64_t *stride)
{
    int64_t step = 1;
    for (int i = x->ndim - 1; i >= 0; i--) {
        stride[i] = step;
        step *= x->shape[i];
    }
}

void mx_move_to(mx_move *move, const mx_array *x)
{
    move->ndim = x->ndim;
    memcpy(move->dim, x->shape, (size_t)x->ndim * sizeof *move->dim);
    mx_strides(x, move->to);
}

void mx_move_from(mx_move *move, const mx_array *x)
{
    move->ndim = x->ndim;
    memcpy(move->dim, x->shape, (size_t)x->ndim * sizeof *move->dim);
    mx_strides(x, move->from);
}

bool mx_move_fill(mx_move *move, const mx_array *out, double value)
{
    mx_move_to(move, out);
    move->input = MX_FROM_VALUE;
    move->value = value;
    return true;
}

static int64_t clamp(int64_t value, int64_t low, int64_t high)
{
    return value < low ? low : value > high ? high : value;
}

mx_span mx_span_of(int64_t size, int64_t begin, int64_t end, int64_t step)
{
    mx_span span = {0, step == MX_NONE_INT ? 1 : step, 0};
    const bool up = span.step > 0;
    const int64_t low = up ? 0 : -1, high = up ? size : size - 1;
    if (begin == MX_NONE_INT)
        span.begin = up ? low : high;
    else
        span.begin = clamp(begin < 0 ? begin + size : begin, low, high);
    if (end == MX_NONE_INT)
        end = up ? high : low;
    else
        end = clamp(end < 0 ? end + size : end, low, high);
    /* Unsigned arithmetic: a step may be the largest or smallest integer. */
    const uint64_t stride = up ? (uint64_t)span.step : -(uint64_t)span.step;
    const int64_t distance = up ? end - span.begin : span.begin - end;
    span.n = distance > 0 ? (int64_t)(((uint64_t)distance + stride - 1) / stride) : 0;
    if (span.n <= 1)
        span.step = 1; /* never taken: keeps offsets small */
    if (span.n == 0)
        span.begin = 0;
    return span;
}

mx_array *mx_g_fold(mx_array *x, int64_t before, int64_t n, int64_t after)
{
    if (n == 1)
        return x;
    mx_shape_t wide = {3, {before, n, after}}, narrow = {3, {before, 1, after}};
    return mx_g_sum_to(mx_g_reshape(x, &wide), &narrow);
}
