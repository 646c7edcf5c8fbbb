/* Fourier transforms along the last axis, and count_sketch: linear maps that come with their transposes.
 *
 *     fft   real (..., d) -> (..., 2 d), real and imaginary parts in turn
 *     ifft  (..., 2 d) -> the real part (..., d), not divided by d
 *
 * fft and ifft are each other's transposes, and so each other's gradients.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <string.h>

#include "base/error.h"
#include "op/op.h"

#define FFT_ATTRS(X) X(INT, compute_size, "128", "1..", "accepted for compatibility")
MX_ATTRS(fft, FFT_ATTRS)

#define SKETCH_ATTRS(X) \
    X(INT, out_dim, REQUIRED, "1..1000000000", "columns of the result") \
    X(INT, processing_batch_size, "32", "1..", "accepted for compatibility")
MX_ATTRS(count_sketch, SKETCH_ATTRS)

static const double two_pi = 6.28318530717958647692;

/* ---- fft, ifft ------------------------------------------------------------------------------------------------------ */

static mx_code infer_fft(mx_infer *infer)
{
    mx_shape_t out = infer->in[0];
    if (out.ndim == 0)
        return mx_op_fail(infer->op, MX_ERR_SHAPE, "data has shape (), wanted at least one axis");
    if (!mx_shape_known(&out))
        return MX_OK;
    if (out.dim[out.ndim - 1] > INT32_MAX)
        return mx_op_fail(infer->op, MX_ERR_SHAPE, "the last axis is too long");
    out.dim[out.ndim - 1] *= 2;
    return mx_infer_out(infer, 0, &out);
}

static mx_code infer_ifft(mx_infer *infer)
{
    mx_shape_t out = infer->in[0];
    char text[MX_SHAPE_TEXT];
    if (out.ndim == 0 || (mx_shape_known(&out) && out.dim[out.ndim - 1] % 2))
        return mx_op_fail(infer->op, MX_ERR_SHAPE, "data has shape %s, wanted pairs along the last axis",
                          mx_shape_text(&out, text));
    if (!mx_shape_known(&out))
        return MX_OK;
    out.dim[out.ndim - 1] /= 2;
    return mx_infer_out(infer, 0, &out);
}

static mx_code grad_fft(mx_grad *grad)
{
    return mx_give(grad, 0, mx_g_call(MX_OP("_contrib_ifft"), grad->attrs, 1, &grad->ograd[0]));
}
static mx_code grad_ifft(mx_grad *grad)
{
    return mx_give(grad, 0, mx_g_call(MX_OP("_contrib_fft"), grad->attrs, 1, &grad->ograd[0]));
}

static void ref_fft(const mx_reference_call *call)
{
    const mx_shape_t *s = &call->in_shape[0];
    const int64_t d = s->dim[s->ndim - 1];
    for (int64_t e = 0; e < mx_shape_size(s); e++) {
        double *to = call->out[0] + 2 * e;
        to[0] = to[1] = 0;
        for (int64_t n = 0; n < d; n++) {
            const double angle = two_pi * (double)(e % d * n % d) / (double)d, x = call->in[0][e / d * d + n];
            to[0] += x * cos(angle), to[1] -= x * sin(angle);
        }
    }
}

static void ref_ifft(const mx_reference_call *call)
{
    const mx_shape_t *s = &call->out_shape[0];
    const int64_t d = s->dim[s->ndim - 1];
    for (int64_t e = 0; e < mx_shape_size(s); e++) {
        call->out[0][e] = 0;
        for (int64_t k = 0; k < d; k++) {
            const double angle = two_pi * (double)(e % d * k % d) / (double)d, *x = call->in[0] + 2 * (e / d * d + k);
            call->out[0][e] += x[0] * cos(angle) - x[1] * sin(angle);
        }
    }
}

/* ---- count_sketch: out[h[i]] += s[i] data[i] -------------------------------------------------------------------------- */

static mx_code infer_rows(mx_infer *infer, int64_t columns, bool transposed)
{
    const mx_shape_t *data = &infer->in[0], *h = &infer->in[1];
    char text[MX_SHAPE_TEXT];
    if (data->ndim >= 0 && data->ndim != 2)
        return mx_op_fail(infer->op, MX_ERR_SHAPE, "data has shape %s, wanted (rows, columns)",
                          mx_shape_text(data, text));
    if (h->ndim >= 0 && (h->ndim < 1 || h->ndim > 2 || (h->ndim == 2 && h->dim[0] > 1)))
        return mx_op_fail(infer->op, MX_ERR_SHAPE, "h has shape %s, wanted (1, columns)", mx_shape_text(h, text));
    if (mx_infer_in(infer, 2, h) || mx_infer_in(infer, 1, &infer->in[2]))
        return mx_error_code();
    if (!mx_shape_known(data) || !mx_shape_known(h))
        return MX_OK;
    const int64_t given = h->dim[h->ndim - 1];
    if (data->dim[1] != (transposed ? columns : given))
        return mx_op_fail(infer->op, MX_ERR_SHAPE, "data has %lld columns, wanted %lld", (long long)data->dim[1],
                          (long long)(transposed ? columns : given));
    const mx_shape_t out = {.ndim = 2, .dim = {data->dim[0], transposed ? given : columns}};
    return mx_infer_out(infer, 0, &out);
}
static mx_code infer_sketch(mx_infer *infer)
{
    return infer_rows(infer, ((const mx_count_sketch_attrs *)infer->attrs)->out_dim, false);
}
static mx_code infer_unsketch(mx_infer *infer)
{
    return infer_rows(infer, ((const mx_count_sketch_attrs *)infer->attrs)->out_dim, true);
}

static mx_code turn(mx_grad *grad, mx_op *op)
{
    return grad->wanted[0]
               ? mx_give(grad, 0,
                         mx_g_call(op, grad->attrs, 3, (mx_array *const[]){grad->ograd[0], grad->in[1], grad->in[2]}))
               : MX_OK;
}
static mx_code grad_sketch(mx_grad *grad) { return turn(grad, MX_OP("_backward__contrib_count_sketch")); }
static mx_code grad_unsketch(mx_grad *grad) { return turn(grad, MX_OP("_contrib_count_sketch")); }

static void ref_sketch(const mx_reference_call *call)
{
    const int64_t rows = call->in_shape[0].dim[0], columns = call->in_shape[0].dim[1], wide = call->out_shape[0].dim[1];
    memset(call->out[0], 0, (size_t)(rows * wide) * sizeof(double));
    for (int64_t e = 0; e < rows * columns; e++) {
        const double to = call->in[1][e % columns];
        if (to >= 0 && to < (double)wide)
            call->out[0][e / columns * wide + (int64_t)to] += call->in[2][e % columns] * call->in[0][e];
    }
}

static void ref_unsketch(const mx_reference_call *call)
{
    const int64_t rows = call->in_shape[0].dim[0], wide = call->in_shape[0].dim[1], columns = call->out_shape[0].dim[1];
    for (int64_t e = 0; e < rows * columns; e++) {
        const double from = call->in[1][e % columns];
        call->out[0][e] = from >= 0 && from < (double)wide
                              ? call->in[2][e % columns] * call->in[0][e / columns * wide + (int64_t)from]
                              : 0;
    }
}

#define SAMPLES(...) (const mx_sample[]){__VA_ARGS__, {0}}
mx_op mx_family_fourier[] = {
    {.name = "_contrib_fft", .input_named = true, .c_name = "fft", .inputs = "data", .doc = "Fourier transform of real rows", .schema = &fft_schema, .infer_shape = infer_fft,
     .gradient = grad_fft, .reference = ref_fft,
     .samples = SAMPLES({"2,8", "", 0, 0, "floatonly"}, {"2,3,6", "", 0, 0, "floatonly"}, {"7", "", 0, 0, "floatonly"}, {"1,1", "", 0, 0, "floatonly"}, {"2,45", "", 0, 0, "floatonly"})},
    {.name = "_contrib_ifft", .input_named = true, .c_name = "ifft", .inputs = "data", .doc = "real part of the inverse Fourier transform, not divided by the length",
     .schema = &fft_schema, .infer_shape = infer_ifft, .gradient = grad_ifft, .reference = ref_ifft,
     .samples = SAMPLES({"2,8", "", 0, 0, "floatonly"}, {"2,3,12", "", 0, 0, "floatonly"}, {"14", "", 0, 0, "floatonly"}, {"2,90", "", 0, 0, "floatonly"})},
    {.name = "_contrib_count_sketch", .c_name = "count_sketch", .inputs = "data h s", .doc = "columns h[i] of the result collect s[i] times column i",
     .schema = &count_sketch_schema, .infer_shape = infer_sketch, .gradient = grad_sketch, .grad_in = 6, .no_grad_inputs = 6, .reference = ref_sketch,
     .samples = SAMPLES({"3,5;1,5;1,5", "out_dim=4", 0, 4, "floatonly int:1"}, {"2,7;7;7", "out_dim=3", 0, 3, "floatonly int:1"})},
    {.name = "_backward__contrib_count_sketch", .inputs = "ograd h s", .doc = "gradient of count_sketch", .schema = &count_sketch_schema, .flags = MX_OP_HIDDEN,
     .infer_shape = infer_unsketch, .gradient = grad_unsketch, .grad_in = 6, .no_grad_inputs = 6, .reference = ref_unsketch,
     .samples = SAMPLES({"3,4;1,5;1,5", "out_dim=4", 0, 4, "floatonly int:1"})},
    {0},
};
