/* 8-bit integers: scales and zero points.  SPDX-License-Identifier: Apache-2.0 */
#include "gluon/onnx/onnx.h"
#include "ndarray/array.h"

/* A scale per channel has the shape that broadcasts along the axis. */
static mx_array *along(mx_onnx_in *n, mx_array *scale, int64_t axis)
{
    const int rank = n->in[0]->ndim;
    mx_dims wide = {.n = rank};
    if (!scale || scale == MX_NONE || scale->ndim != 1 || rank < 2 || scale->shape[0] == 1)
        return scale;
    if (axis < -rank || axis >= rank)
        return mx_onnx_fail(n, MX_ERR_FILE, "axis %lld, but its input has %d axes", (long long)axis, rank), NULL;
    for (int i = 0; i < rank; i++)
        wide.d[i] = i == (axis < 0 ? axis + rank : axis) ? -1 : 1;
    return mx_reshape(scale, .shape = wide);
}

/* One scale per block of elements along the axis. */
static mx_array *blocked(mx_onnx_in *n, mx_array *scale, int64_t axis)
{
    const int64_t block = mx_onnx_int(n, "block_size", 0);
    if (!block || !scale || scale == MX_NONE)
        return along(n, scale, axis);
    if (!mx_onnx_axis(n, &axis, n->in[0]->ndim) || scale->ndim != n->in[0]->ndim)
        return mx_has_error() ? NULL : (mx_onnx_fail(n, MX_ERR_FILE, "scales do not have the axes of its input"), NULL);
    mx_array *y = mx_repeat(scale, .repeats = block, .axis = axis);
    const int64_t size = n->in[0]->shape[axis];
    return mx_slice_axis(y, .axis = axis, .begin = 0, .end = size);
}

static mx_array *rounded(mx_array *x, const mx_onnx_type *type)
{
    double low = 0, high = 0;
    if (!mx_onnx_range(type, &low, &high))
        return mx_fail_null(MX_ERR_FILE, "the zero point of the result is missing, or is no integer");
    return mx_cast(mx_clip(x, .a_min = low, .a_max = high), .dtype = type->held);
}

static mx_code read_quantize(mx_onnx_in *n)
{
    const int64_t axis = mx_onnx_int(n, "axis", 1), wanted = mx_onnx_int(n, "output_dtype", 0);
    const mx_onnx_type *type =
        mx_onnx_given(n, 2) ? mx_onnx_in_type(n, 2) : mx_onnx_type_of(wanted ? wanted : MX_ONNX_UINT8);
    double low, high;
    const bool whole = mx_onnx_range(type, &low, &high);
    if (!whole && (!type || type->dtype == type->held))
        return mx_onnx_fail(n, MX_ERR_UNSUPPORTED, "only integers and small floats are supported");
    mx_array *y = mx_div(mx_onnx_cast(n->in[0], MX_FLOAT32), blocked(n, mx_onnx_cast(n->in[1], MX_FLOAT32), axis));
    y = whole ? mx_rint(y) : y;
    if (mx_onnx_given(n, 2))
        y = mx_add(y, blocked(n, mx_cast(n->in[2], .dtype = MX_FLOAT32), axis));
    n->out[0] = whole ? rounded(y, type) : mx_onnx_small_floats(y, type, mx_onnx_int(n, "saturate", 1));
    n->out_type[0] = type->dtype == type->held ? 0 : type->code;
    return MX_OK;
}

static mx_code read_dequantize(mx_onnx_in *n)
{
    const int64_t axis = mx_onnx_int(n, "axis", 1);
    const mx_dtype type = (mx_dtype)n->in[1]->dtype;
    mx_array *x = mx_cast(n->in[0], .dtype = MX_FLOAT32);
    if (mx_onnx_given(n, 2))
        x = mx_sub(x, blocked(n, mx_cast(n->in[2], .dtype = MX_FLOAT32), axis));
    n->out[0] = mx_onnx_cast(mx_mul(x, blocked(n, mx_onnx_cast(n->in[1], MX_FLOAT32), axis)), type);
    return MX_OK;
}

/* scale = (max - min) / 255, zero point = round(-min / scale) */
static mx_code read_dynamic(mx_onnx_in *n)
{
    mx_array *x = mx_reshape(n->in[0], .shape = MX_DIMS(-1));
    mx_array *low = mx_minimum_scalar(mx_min(x), .scalar = 0), *high = mx_maximum_scalar(mx_max(x), .scalar = 0);
    mx_array *scale = mx_div_scalar(mx_sub(high, low), .scalar = 255);
    mx_array *zero = mx_clip(mx_rint(mx_div(mx_negative(low), scale)), .a_min = 0, .a_max = 255);
    n->out[0] = rounded(mx_add(mx_rint(mx_div(n->in[0], scale)), zero), mx_onnx_type_of(MX_ONNX_UINT8));
    if (n->n_out > 1)
        n->out[1] = mx_onnx_as_scalar(scale);
    if (n->n_out > 2)
        n->out[2] = mx_onnx_as_scalar(mx_cast(zero, .dtype = MX_UINT8));
    return MX_OK;
}

static mx_array *shifted(mx_onnx_in *n, int x, int zero, bool rows)
{
    mx_array *y = mx_cast(n->in[x], .dtype = MX_FLOAT64),
             *z = mx_onnx_given(n, zero) ? mx_cast(n->in[zero], .dtype = MX_FLOAT64) : NULL;
    if (z && rows && z->ndim == 1 && z->shape[0] > 1)
        z = mx_reshape(z, .shape = MX_DIMS(-1, 1));
    return z ? mx_sub(y, z) : y;
}

static bool is_bytes(const mx_array *x) { return x->dtype == MX_UINT8 || x->dtype == MX_INT8; }

/* The zero point of an input, or 0; NULL if its shape or type is not what the operator takes. */
static mx_array *zero_point(mx_onnx_in *n, int x, int zero, bool rows)
{
    if (!mx_onnx_given(n, zero))
        return mx_zeros(.shape = MX_DIMS(1), .dtype = n->in[x]->dtype);
    const mx_array *z = n->in[zero];
    return z->dtype == n->in[x]->dtype && (z->ndim == 0 || (z->ndim == 1 && (!rows || n->in[x]->ndim == 2)))
               ? n->in[zero]
               : NULL;
}

/* The sums of products of inputs a and b, whose zero points are a_zero and b_zero: of bytes in integers, else in doubles. */
static mx_array *multiply(mx_onnx_in *n, int a, int a_zero, int b, int b_zero)
{
    if (is_bytes(n->in[a]) && is_bytes(n->in[b]) && n->in[a]->ndim > 0 && n->in[b]->ndim == 2) {
        mx_array *s = zero_point(n, a, a_zero, true), *t = zero_point(n, b, b_zero, false);
        if (s && t)
            return mx_integer_dot(n->in[a], n->in[b], s, t);
    }
    return mx_onnx_matmul(n, shifted(n, a, a_zero, true), shifted(n, b, b_zero, false));
}

static mx_code read_matmul_integer(mx_onnx_in *n)
{
    n->out[0] = mx_onnx_cast(multiply(n, 0, 2, 1, 3), MX_INT32);
    return MX_OK;
}

static mx_code write_integer_dot(mx_onnx_out *o)
{
    for (int i = 0; i < 2; i++)
        if (o->in_type[i] != MX_UINT8 && o->in_type[i] != MX_INT8)
            return mx_onnx_refuse(o, "only products of int8 and uint8 can be written");
    if (mx_onnx_out_rank(o, 0) > 2 && mx_shape_size(&o->in_shape[2]) != 1)
        return mx_onnx_refuse(o, "a zero point per row of an array with more than two axes cannot be written");
    mx_onnx_put(o, o->out[0], "MatMulInteger", o->in[0], o->in[1], o->in[2], o->in[3]);
    return mx_onnx_done(o);
}

/* a, its scale and zero; b, its scale and zero; those of the result */
static mx_code read_qlinear_matmul(mx_onnx_in *n)
{
    if (n->n_in != 8)
        return mx_onnx_fail(n, MX_ERR_FILE, "it has %d inputs, wanted 8", n->n_in);
    mx_array *y = mx_onnx_cast(multiply(n, 0, 2, 3, 5), MX_FLOAT64);
    mx_array *scale = mx_div(mx_mul(mx_cast(n->in[1], .dtype = MX_FLOAT64), mx_cast(n->in[4], .dtype = MX_FLOAT64)),
                             mx_cast(n->in[6], .dtype = MX_FLOAT64));
    y = mx_add(mx_rint(mx_mul(y, scale)), mx_cast(n->in[7], .dtype = MX_FLOAT64));
    n->out[0] = rounded(y, mx_onnx_in_type(n, 7));
    return MX_OK;
}

/* A convolution of numbers without their zero points; zeros per filter are in rows. */
static mx_array *convolved(mx_onnx_in *n, mx_array *x, mx_array *w, mx_array *bias)
{
    mx_array *in[3] = {x, w, bias ? mx_onnx_cast(bias, MX_FLOAT64) : MX_NONE}, *out[1] = {NULL};
    mx_onnx_in call = *n;
    call.in = in;
    call.n_in = 3;
    call.out = out;
    return x && w && !mx_onnx_read_conv(&call) ? out[0] : NULL;
}

/* Weights minus their zero points, which may be one per filter. */
static mx_array *filters(mx_onnx_in *n, int w, int zero)
{
    mx_array *y = mx_cast(n->in[w], .dtype = MX_FLOAT64);
    if (!mx_onnx_given(n, zero))
        return y;
    mx_dims shape = {.n = n->in[w]->ndim, .d = {-1}};
    for (int i = 1; i < shape.n; i++)
        shape.d[i] = 1;
    return mx_sub(y, mx_reshape(mx_cast(n->in[zero], .dtype = MX_FLOAT64), .shape = shape));
}

static mx_code read_conv_integer(mx_onnx_in *n)
{
    n->out[0] = mx_onnx_cast(convolved(n, shifted(n, 0, 2, false), filters(n, 1, 3), NULL), MX_INT32);
    return MX_OK;
}

/* x, its scale and zero; w, its scale and zero; those of the result; a bias */
static mx_code read_qlinear_conv(mx_onnx_in *n)
{
    if (n->n_in < 8 || mx_onnx_rank(n, 0) < 3)
        return mx_has_error() ? mx_error_code()
                              : mx_onnx_fail(n, MX_ERR_FILE, "it has %d inputs, wanted 8 or 9", n->n_in);
    mx_array *y = convolved(n, shifted(n, 0, 2, false), filters(n, 3, 5), mx_onnx_given(n, 8) ? n->in[8] : NULL);
    mx_array *scale = mx_div(mx_mul(mx_cast(n->in[1], .dtype = MX_FLOAT64), mx_cast(n->in[4], .dtype = MX_FLOAT64)),
                             mx_cast(n->in[6], .dtype = MX_FLOAT64));
    mx_dims shape = {.n = n->in[0]->ndim - 1, .d = {-1}};
    for (int i = 1; i < shape.n; i++)
        shape.d[i] = 1;
    y = mx_add(mx_rint(mx_mul(y, mx_reshape(scale, .shape = shape))), mx_cast(n->in[7], .dtype = MX_FLOAT64));
    n->out[0] = rounded(y, mx_onnx_in_type(n, 7));
    return MX_OK;
}

const mx_onnx_row mx_onnx_quantize[] = {READ("QuantizeLinear", read_quantize),
                                        READ("DequantizeLinear", read_dequantize),
                                        READ("DynamicQuantizeLinear", read_dynamic),
                                        BOTH("MatMulInteger", "_integer_dot", read_matmul_integer, write_integer_dot),
                                        READ("QLinearMatMul", read_qlinear_matmul),
 READ("ConvInteger", read_conv_integer),
 READ("QLinearConv", read_qlinear_conv),
                                        {0}};
