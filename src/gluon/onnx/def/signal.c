/* Fourier transforms and windows.  SPDX-License-Identifier: Apache-2.0
 *
 * A transform is a product with matrices of cosines and sines, so it runs, and has gradients, like any other. */
#include <math.h>
#include <string.h>

#include "gluon/onnx/onnx.h"
#include "ndarray/array.h"

enum { LONGEST = 1 << 14 };
#define TURN 6.283185307179586476925

/* (rows, columns) of cos or sin(2 pi i k / length) */
static mx_array *waves(int64_t rows, int64_t columns, int64_t length, bool sine, mx_dtype type)
{
    const mx_shape_t shape = {.ndim = 2, .dim = {rows, columns}};
    mx_array *x = mx_scope_add(mx_array_new(&shape, MX_FLOAT64, mx_cpu(0)));
    double *to = x ? mx_data(x) : NULL;
    for (int64_t i = 0; to && i < rows; i++)
        for (int64_t k = 0; k < columns; k++) {
            const double angle = TURN * (double)(i * k % length) / (double)length;
            *to++ = sine ? sin(angle) : cos(angle);
        }
    return mx_onnx_cast(x, type);
}

/* The transform along the last axis: real and imaginary parts along a new last one.  imaginary: NULL if it is 0. */
static mx_array *transform(mx_array *real, mx_array *imaginary, int64_t length, int64_t results, bool inverse)
{
    if (!real)
        return NULL;
    const mx_dtype type = (mx_dtype)real->dtype;
    const int64_t rows = real->shape[real->ndim - 1];
    mx_array *c = waves(rows, results, length, false, type), *s = waves(rows, results, length, true, type);
    mx_array *re = mx_dot(real, c), *im = inverse ? mx_dot(real, s) : mx_negative(mx_dot(real, s));
    if (imaginary) {
        mx_array *is = mx_dot(imaginary, s);
        re = inverse ? mx_sub(re, is) : mx_add(re, is);
        im = mx_add(im, mx_dot(imaginary, c));
    }
    mx_array *y = mx_stack(MX_ARRAYS(re, im), .axis = -1, .num_args = 2);
    return inverse ? mx_div_scalar(y, .scalar = (double)length) : y;
}

/* A part of complex numbers (..., 1 or 2), with the transformed axis last. */
static mx_array *part(mx_array *x, int which, int64_t axis, int64_t length)
{
    mx_array *y = mx_slice_axis(x, .axis = -1, .begin = which, .end = which + 1);
    y = mx_squeeze(y, .axis = MX_DIMS(-1));
    y = y && axis != y->ndim - 1 ? mx_swapaxes(y, .dim1 = axis, .dim2 = y->ndim - 1) : y;
    return y && y->shape[y->ndim - 1] > length ? mx_slice_axis(y, .axis = -1, .begin = 0, .end = length) : y;
}

static mx_code read_dft(mx_onnx_in *n)
{
    double length, axis_number;
    const int rank = mx_onnx_rank(n, 0);
    const bool inverse = mx_onnx_int(n, "inverse", 0), onesided = mx_onnx_int(n, "onesided", 0);
    if (rank < 2 || !mx_onnx_number(n, 1, -1, &length) ||
        !mx_onnx_number(n, 2, n->opset < 20 ? (double)mx_onnx_int(n, "axis", 1) : -2, &axis_number))
        return mx_has_error() ? mx_error_code() : mx_onnx_fail(n, MX_ERR_FILE, "its input has less than two axes");
    int64_t axis = (int64_t)axis_number;
    const int64_t parts = n->in[0]->shape[rank - 1];
    if (!mx_onnx_axis(n, &axis, rank) || axis == rank - 1 || n->in[0]->shape[axis] < 1)
        return mx_has_error() ? mx_error_code()
                              : mx_onnx_fail(n, MX_ERR_SHAPE, "the size of axis %d is not known", (int)axis);
    const int64_t size = length > 0 && length <= LONGEST ? (int64_t)length : n->in[0]->shape[axis];
    if (size > LONGEST || length > LONGEST || (inverse && onesided) || (parts != 1 && parts != 2))
        return mx_onnx_fail(n, MX_ERR_UNSUPPORTED,
                            "only transforms of at most %d elements are supported, inverse ones of all of them",
                            LONGEST);
    mx_array *y = transform(part(n->in[0], 0, axis, size), parts == 2 ? part(n->in[0], 1, axis, size) : NULL, size,
                            onesided ? size / 2 + 1 : size, inverse);
    n->out[0] = axis == rank - 2 ? y : mx_swapaxes(y, .dim1 = axis, .dim2 = rank - 2);
    return MX_OK;
}

/* Indices (frames, length) of the elements of every frame. */
static mx_array *frame_indices(int64_t frames, int64_t length, int64_t step)
{
    const mx_shape_t shape = {.ndim = 2, .dim = {frames, length}};
    mx_array *x = mx_scope_add(mx_array_new(&shape, MX_INT64, mx_cpu(0)));
    int64_t *to = x ? mx_data(x) : NULL;
    for (int64_t i = 0; to && i < frames * length; i++)
        to[i] = i / length * step + i % length;
    return x;
}

static mx_code read_stft(mx_onnx_in *n)
{
    double step, length;
    mx_dims shape;
    const bool windowed = mx_onnx_given(n, 2);
    if (!mx_onnx_number(n, 1, 0, &step) || !mx_onnx_number(n, 3, -1, &length) || !mx_onnx_shape(n, 0, &shape))
        return mx_error_code();
    if (length < 0 && windowed && n->in[2]->ndim == 1)
        length = (double)n->in[2]->shape[0];
    const int64_t size = (int64_t)length,
                  frames = step >= 1 && shape.n > 1 ? (shape.d[1] - size) / (int64_t)step + 1 : 0;
    if (shape.n < 2 || (shape.n == 3 && shape.d[2] != 1) || shape.n > 3 || size < 1 || size > LONGEST || frames < 1 ||
        frames * size > 1 << 26)
        return mx_onnx_fail(n, MX_ERR_UNSUPPORTED, "only real signals with frames that fit into them are supported");
    mx_array *x = mx_reshape(n->in[0], .shape = MX_DIMS(0, -1));
    x = mx_take(x, frame_indices(frames, size, (int64_t)step), .axis = 1); /* (batch, frames, length) */
    x = windowed ? mx_mul(x, mx_onnx_cast(n->in[2], (mx_dtype)n->in[0]->dtype)) : x;
    n->out[0] = transform(x, NULL, size, mx_onnx_int(n, "onesided", 1) ? size / 2 + 1 : size, false);
    return MX_OK;
}

static mx_code read_window(mx_onnx_in *n)
{
    const double hann[] = {0.5, 0.5, 0}, hamming[] = {25.0 / 46, 21.0 / 46, 0}, blackman[] = {0.42, 0.5, 0.08};
    const double *a = n->op[0] == 'B' ? blackman : !strncmp(n->op, "Hann", 4) ? hann : hamming;
    const mx_onnx_type *type = mx_onnx_type_of(mx_onnx_int(n, "output_datatype", MX_ONNX_FLOAT));
    double size = 0;
    if (!mx_onnx_number(n, 0, 0, &size))
        return mx_error_code();
    if (!(size >= 0 && size <= 1 << 24) || !type || type->dtype == MX_DTYPE_NONE)
        return mx_onnx_fail(n, MX_ERR_UNSUPPORTED, "a window of %g elements, or of a type without arrays", size);
    const mx_shape_t shape = {.ndim = 1, .dim = {(int64_t)size}};
    mx_array *x = mx_scope_add(mx_array_new(&shape, MX_FLOAT64, mx_cpu(0)));
    const double period = mx_onnx_int(n, "periodic", 1) || size < 2 ? size : size - 1;
    for (int64_t k = 0; x && k < (int64_t)size; k++) {
        const double angle = TURN * (double)k / period;
        ((double *)mx_data(x))[k] = a[0] - a[1] * cos(angle) + a[2] * cos(2 * angle);
    }
    n->out[0] = mx_onnx_cast(x, type->dtype);
    return MX_OK;
}

/* Pairs of real and imaginary parts are an axis of ONNX, and neighbours here. */
static mx_code write_transform(mx_onnx_out *o, bool inverse)
{
    const int rank = mx_onnx_out_rank(o, 0);
    const int64_t size = rank < 1 ? -1 : inverse ? o->out_shape[0].dim[rank - 1] : o->in_shape[0].dim[rank - 1];
    int64_t shape[MX_MAX_NDIM + 2] = {0};
    if (size < 1 || rank + 2 > MX_MAX_NDIM)
        return mx_onnx_refuse(o, "the size of the last axis is not known; give the shapes of the inputs");
    shape[0] = -1;
    shape[1] = size;
    shape[2] = inverse ? 2 : 1;
    const char *x = mx_onnx_put_shaped(o, NULL, o->in[0], 3, shape);
    const char *y = mx_onnx_put(o, NULL, "DFT", x, NULL, o->opset < 20 ? NULL : mx_onnx_put_number(o, 1, MX_INT64));
    if (o->opset < 20)
        mx_onnx_set_int(o, "axis", 1);
    mx_onnx_set_int(o, "inverse", inverse);
    if (inverse) /* ours is not divided by the length */
        y = mx_onnx_put_with(o, NULL, "Mul", mx_onnx_put_part(o, NULL, y, 2, 0, 1), (double)size);
    for (int i = 0; i < rank; i++)
        shape[i] = i < rank - 1 ? 0 : inverse ? size : 2 * size;
    if (rank == 1)
        return mx_onnx_put_shaped(o, o->out[0], y, MX_ONNX_LIST(-1)), mx_onnx_done(o);
    int unknown = 0; /* sizes of leading axes come from the result */
    for (int i = 0; i < rank - 1; i++)
        unknown += (shape[i] = o->in_shape[0].dim[i]) < 0;
    if (unknown > 1)
        return mx_onnx_refuse(o, "its result has several unknown sizes; give the shapes of the inputs");
    mx_onnx_put_shaped(o, o->out[0], y, rank, shape);
    return mx_onnx_done(o);
}
static mx_code write_fft(mx_onnx_out *o) { return write_transform(o, false); }
static mx_code write_ifft(mx_onnx_out *o) { return write_transform(o, true); }

const mx_onnx_row mx_onnx_signal[] = {
    READ("DFT", read_dft, .constants = 6),
    READ("STFT", read_stft, .constants = 10),
    READ("HannWindow", read_window, .constants = 1),
    READ("HammingWindow", read_window, .constants = 1),
    READ("BlackmanWindow", read_window, .constants = 1),
    WRITE("DFT", "_contrib_fft", write_fft, .since = 17),
    WRITE("DFT", "_contrib_ifft", write_ifft, .since = 17),
    {0}};
