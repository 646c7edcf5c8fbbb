/* Integers as bits.  SPDX-License-Identifier: Apache-2.0
 *
 * Results have as many bits as the type in the file, also where arrays of that type do not exist. */
#include <math.h>
#include <string.h>

#include "gluon/onnx/onnx.h"
#include "ndarray/array.h"

static mx_code read_bitwise(mx_onnx_in *n)
{
    mx_array *a = mx_onnx_input(n, 0), *b = mx_onnx_input(n, 1);
    const char *which = n->op + strlen("Bitwise");
    n->out[0] = !strcmp(which, "And")  ? mx_bitwise_and(a, b)
                : !strcmp(which, "Or") ? mx_bitwise_or(a, b)
                                       : mx_bitwise_xor(a, b);
    return MX_OK;
}

static mx_code read_not(mx_onnx_in *n)
{
    mx_array *x = mx_onnx_cast(n->in[0], MX_INT64);
    n->out[0] = mx_onnx_wrapped(mx_rminus_scalar(x, .scalar = -1), mx_onnx_in_type(n, 0));
    return MX_OK;
}

static mx_code read_shift(mx_onnx_in *n)
{
    char direction[64];
    mx_array *x = mx_onnx_cast(n->in[0], MX_INT64), *by = mx_onnx_cast(mx_onnx_input(n, 1), MX_INT64);
    if (!mx_onnx_given(n, 1) || !by)
        return mx_onnx_fail(n, MX_ERR_FILE, "its input 1 is missing");
    /* Shifts by less than nothing, or by more than all bits, leave the sign alone. */
    by = mx_where(mx_lesser_scalar(by, .scalar = 0), mx_plus_scalar(mx_zeros_like(by), .scalar = 62), by);
    by = mx_minimum_scalar(by, .scalar = 62);
    mx_array *factor = mx_onnx_cast(mx_rpower_scalar(mx_onnx_cast(by, MX_FLOAT64), .scalar = 2), MX_INT64);
    mx_onnx_text(n, "direction", direction, "");
    if (!strcmp(direction, "LEFT"))
        x = mx_mul(x, factor);
    else if (!strcmp(direction, "RIGHT"))
        x = mx_div(mx_sub(x, mx_mod(x, factor)), factor);
    else
        return mx_onnx_fail(n, MX_ERR_FILE, "direction is '%s', wanted LEFT or RIGHT", direction);
    n->out[0] = mx_onnx_wrapped(x, mx_onnx_in_type(n, 0));
    return MX_OK;
}

/* Ours take the bits of floats, too, as integers; the second array may be a number. */
static mx_code write_bitwise(mx_onnx_out *o)
{
    const int type = o->in_type[0], own = mx_dtype_is_float((mx_dtype)type) || type == MX_BOOL ? MX_INT64 : type;
    const char *x[2] = {NULL};
    for (int i = 0; i < o->n_in; i++)
        x[i] = own == o->in_type[i] ? o->in[i] : mx_onnx_put_cast(o, NULL, o->in[i], own);
    if (o->n_in < 2)
        x[1] = mx_onnx_put_number(o, trunc(((const mx_scalar_attrs *)o->attrs)->scalar), own);
    const char *y = mx_onnx_put(o, own == type ? o->out[0] : NULL, o->row->onnx, x[0], x[1]);
    if (own != type)
        mx_onnx_put_cast(o, o->out[0], y, type);
    return mx_onnx_done(o);
}

const mx_onnx_row mx_onnx_bits[] = {
    BOTH("BitwiseAnd", "broadcast_bitwise_and", read_bitwise, write_bitwise, .since = 18),
    BOTH("BitwiseOr", "broadcast_bitwise_or", read_bitwise, write_bitwise, .since = 18),
    BOTH("BitwiseXor", "broadcast_bitwise_xor", read_bitwise, write_bitwise, .since = 18),
    WRITE("BitwiseAnd", "_bitwise_and", write_bitwise, .since = 18),
    WRITE("BitwiseAnd", "_bitwise_and_scalar", write_bitwise, .since = 18),
    WRITE("BitwiseOr", "_bitwise_or", write_bitwise, .since = 18),
    WRITE("BitwiseOr", "_bitwise_or_scalar", write_bitwise, .since = 18),
    WRITE("BitwiseXor", "_bitwise_xor", write_bitwise, .since = 18),
    WRITE("BitwiseXor", "_bitwise_xor_scalar", write_bitwise, .since = 18),
    READ("BitwiseNot", read_not),
    READ("BitShift", read_shift),
    {0}};
