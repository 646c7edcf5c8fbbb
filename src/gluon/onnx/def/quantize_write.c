/* Eight-bit integers of a range of numbers.  SPDX-License-Identifier: Apache-2.0
 *
 *     uint8   round((x - low) 255 / (high - low))
 *     int8    sign(x) round(|x| 127 / max(|low|, |high|)) */
#include <math.h>

#include "gluon/onnx/onnx.h"
#include "ndarray/array.h"

typedef struct range { /* names of values of shape (1) */
    const char *low, *high, *largest;
} range;

static const char *number(mx_onnx_out *o, double x) { return mx_onnx_put_floats(o, 1, &x, MX_FLOAT32); }

static const char *with(mx_onnx_out *o, const char *op, const char *x, double y)
{
    return mx_onnx_put(o, NULL, op, x, mx_onnx_put_number(o, y, MX_FLOAT32));
}

static range range_of(mx_onnx_out *o, const char *low, const char *high)
{
    const char *a = mx_onnx_put(o, NULL, "Abs", low), *b = mx_onnx_put(o, NULL, "Abs", high);
    return (range){low, high, mx_onnx_put(o, NULL, "Max", a, b)};
}

static const char *rounded(mx_onnx_out *o, const char *x, double low, double high)
{
    const char *whole = mx_onnx_put(o, NULL, "Floor", with(o, "Add", x, 0.5));
    return mx_onnx_put(o, NULL, "Clip", whole, mx_onnx_put_number(o, low, MX_FLOAT32),
                       mx_onnx_put_number(o, high, MX_FLOAT32));
}

static mx_code write_bytes(mx_onnx_out *o, const char *x, const range *r)
{
    const char *span = mx_onnx_put(o, NULL, "Sub", r->high, r->low);
    const char *above = with(o, "Mul", mx_onnx_put(o, NULL, "Sub", x, r->low), 255);
    const char *whole = rounded(o, mx_onnx_put(o, NULL, "Div", above, span), 0, 255);
    const char *y =
        mx_onnx_put(o, NULL, "Where", with(o, "Greater", span, 0), whole, number(o, 0)); /* an empty range: 0 */
    mx_onnx_put_cast(o, o->out[0], y, MX_UINT8);
    mx_onnx_put(o, o->out[1], "Identity", r->low);
    mx_onnx_put(o, o->out[2], "Identity", r->high);
    return mx_onnx_done(o);
}

static mx_code write_signed(mx_onnx_out *o, const char *x, const range *r)
{
    const char *size = with(o, "Mul", mx_onnx_put(o, NULL, "Abs", x), 127);
    const char *whole = rounded(o, mx_onnx_put(o, NULL, "Div", size, r->largest), 0, 127);
    const char *y = mx_onnx_put(o, NULL, "Mul", mx_onnx_put(o, NULL, "Sign", x), whole);
    mx_onnx_put_cast(o, o->out[0], y, MX_INT8);
    mx_onnx_put(o, o->out[1], "Neg", r->largest);
    mx_onnx_put(o, o->out[2], "Identity", r->largest);
    return mx_onnx_done(o);
}

static mx_code write_quantized(mx_onnx_out *o, const char *x, const range *r)
{
    return o->out_type[0] == MX_UINT8 ? write_bytes(o, x, r) : write_signed(o, x, r);
}

static mx_code write_quantize(mx_onnx_out *o)
{
    const range r = range_of(o, o->in[1], o->in[2]);
    return write_quantized(o, o->in[0], &r);
}

static const char *extreme(mx_onnx_out *o, const char *op, const char *x)
{
    return mx_onnx_put_shaped(o, NULL, mx_onnx_put_reduce(o, NULL, op, x, 0, NULL, false), MX_ONNX_LIST(1));
}

/* The range is given, or that of the numbers. */
static mx_code write_calibrated(mx_onnx_out *o, const char *x, bool scaled)
{
    const mx_quantize_calibrated_attrs *a = o->attrs;
    const bool given = !isnan(a->min_calib_range) && !isnan(a->max_calib_range);
    const char *low = given ? number(o, a->min_calib_range) : extreme(o, "ReduceMin", x),
               *high = given ? number(o, a->max_calib_range) : extreme(o, "ReduceMax", x);
    if (scaled && o->out_type[0] == MX_UINT8)
        low = with(o, "Max", low, 0);
    const range r = range_of(o, low, high);
    return write_quantized(o, x, &r);
}

static mx_code write_quantize_v2(mx_onnx_out *o) { return write_calibrated(o, o->in[0], false); }

static mx_code write_requantize(mx_onnx_out *o)
{
    const range r = range_of(o, o->in[1], o->in[2]);
    const char *x = mx_onnx_put_cast(o, NULL, o->in[0], MX_FLOAT32);
    return write_calibrated(o, mx_onnx_put(o, NULL, "Mul", x, with(o, "Div", r.largest, 2147483647.0)), true);
}

static mx_code write_dequantize(mx_onnx_out *o)
{
    const range r = range_of(o, o->in[1], o->in[2]);
    const char *x = mx_onnx_put_cast(o, NULL, o->in[0], MX_FLOAT32);
    if (o->in_type[0] == MX_UINT8) {
        const char *step = with(o, "Div", mx_onnx_put(o, NULL, "Sub", r.high, r.low), 255);
        mx_onnx_put(o, o->out[0], "Add", mx_onnx_put(o, NULL, "Mul", x, step), r.low);
    } else
        mx_onnx_put(o, o->out[0], "Mul", x, with(o, "Div", r.largest, 127));
    return mx_onnx_done(o);
}

const mx_onnx_row mx_onnx_quantize_write[] = {
    WRITE(NULL, "_contrib_quantize", write_quantize),
    WRITE(NULL, "_contrib_quantize_v2", write_quantize_v2),
    WRITE(NULL, "_contrib_requantize", write_requantize),
    WRITE(NULL, "_contrib_dequantize", write_dequantize),
    {0}};
