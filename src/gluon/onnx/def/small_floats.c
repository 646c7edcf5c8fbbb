/* Floats of eight and four bits, in arrays of float32.  SPDX-License-Identifier: Apache-2.0 */
#include <math.h>

#include "gluon/onnx/onnx.h"
#include "ndarray/array.h"

typedef struct small {
    int code;      /* of ONNX */
    int fraction;  /* bits of it */
    int least;     /* exponent of the smallest normal number */
    double most;   /* the largest number */
    double beyond; /* what larger ones become without saturation */
} small;

static const small smalls[] = {{17, 3, -6, 448, NAN}, {18, 3, -7, 240, NAN}, {19, 2, -14, 57344, INFINITY},
                               {20, 2, -15, 57344, NAN}, {23, 1, 0, 6, 6}};

/* Powers of two, rounded up. */
static mx_array *powers(mx_array *x)
{
    mx_array *exponent = mx_clip(mx_ceil(mx_log2(mx_abs(x))), .a_min = -127, .a_max = 127);
    return mx_rpower_scalar(exponent, .scalar = 2);
}

/* In units of the last bit of each number, halves to even. */
static mx_array *rounded(mx_array *x, const small *s)
{
    mx_array *size = mx_maximum_scalar(mx_minimum_scalar(mx_abs(x), .scalar = 1e30), .scalar = ldexp(1, s->least));
    mx_array *unit = mx_rpower_scalar(mx_minus_scalar(mx_floor(mx_log2(size)), .scalar = s->fraction), .scalar = 2);
    return mx_mul(mx_rint(mx_div(x, unit)), unit);
}

mx_array *mx_onnx_small_floats(mx_array *x, const mx_onnx_type *type, bool saturate)
{
    const small *s = NULL;
    for (size_t i = 0; i < sizeof smalls / sizeof *smalls; i++)
        s = smalls[i].code == type->code ? &smalls[i] : s;
    x = mx_onnx_cast(x, MX_FLOAT64);
    if (!s)
        return mx_onnx_cast(powers(x), MX_FLOAT32);
    mx_array *y = rounded(x, s);
    if (saturate || s->code == 23)
        y = mx_clip(y, .a_min = -s->most, .a_max = s->most);
    else { /* the sign is kept */
        mx_array *over = mx_greater_scalar(mx_abs(y), .scalar = s->most);
        y = mx_where(over, mx_mul_scalar(mx_sign(x), .scalar = s->beyond), y);
    }
    mx_array *none = s->code == 23 ? mx_zeros_like(x) : x; /* four bits have no NaN */
    return mx_onnx_cast(mx_where(mx_equal(x, x), y, none), MX_FLOAT32);
}
