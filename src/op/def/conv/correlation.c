/* Correlation: similarity of patches of one map and displaced patches of another (for optical flow).
 *
 *     out[n, d, i, j] = mean over channels and the kernel's cells of a * b  (or |a - b|)
 *     a = data1 at (i * stride1 + reach, ...) of the padded map, b = data2 there, moved by displacement d
 *
 * Displacements are a square grid of (2 * (max_displacement / stride2) + 1)^2, rows first.
 *
 *     da = g b / elements, db = g a / elements          |a - b|: da = g sign, db = -g sign, with sign(0) = 1
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "op/formula/correlation.h"

#include <math.h>
#include <string.h>

#include "base/error.h"
#include "op/op.h"

#define CORRELATION_ATTRS(X) \
    X(INT, kernel_size, "1", "1..10000", "size of a patch: an odd number") \
    X(INT, max_displacement, "1", "0..100000", "largest displacement along an axis") \
    X(INT, stride1, "1", "1..100000", "distance between patches") \
    X(INT, stride2, "1", "1..100000", "distance between displacements") \
    X(INT, pad_size, "0", "0..100000", "zeros added around the maps") \
    X(BOOL, is_multiply, "True", "", "compare by products; else by absolute differences")
MX_ATTRS(correlation, CORRELATION_ATTRS)

static mx_code check(const void *attrs)
{
    const int64_t kernel = ((const mx_correlation_attrs *)attrs)->kernel_size;
    return kernel % 2
               ? MX_OK
               : mx_fail(MX_ERR_ATTRIBUTE, "Correlation: kernel_size=%lld, wanted an odd number", (long long)kernel);
}

static mx_correlation_sizes sizes(const void *attrs, const mx_shape_t *data)
{
    const mx_correlation_attrs *p = attrs;
    return mx_correlation_of(p->kernel_size, p->max_displacement, p->stride1, p->stride2, p->pad_size, data->dim);
}

static mx_code infer(mx_infer *infer)
{
    char text[MX_SHAPE_TEXT];
    if (mx_infer_in(infer, 1, &infer->in[0]) || mx_infer_in(infer, 0, &infer->in[1]))
        return mx_error_code();
    const mx_shape_t *data = &infer->in[0];
    if (data->ndim >= 0 && data->ndim != 4)
        return mx_op_fail(infer->op, MX_ERR_SHAPE, "data1 has shape %s, wanted (batch, channels, height, width)",
                          mx_shape_text(data, text));
    if (!mx_shape_known(data))
        return MX_OK;
    const mx_correlation_sizes c = sizes(infer->attrs, data);
    if (c.rows < 1 || c.columns < 1 || data->dim[2] > INT32_MAX || data->dim[3] > INT32_MAX)
        return mx_op_fail(infer->op, MX_ERR_SHAPE, "maps of shape %s are too small for a patch and its displacements",
                          mx_shape_text(data, text));
    const mx_shape_t out = {.ndim = 4, .dim = {data->dim[0], c.grid * c.grid, c.rows, c.columns}};
    return mx_infer_out(infer, 0, &out);
}

/* (ograd, data1, data2) -> gradients of data1 and data2 */
static mx_code infer_backward(mx_infer *infer_it)
{
    if (mx_infer_through(infer_it, infer, (const int[]){1, 2, -2}, (const int[]){0, -2}))
        return mx_error_code();
    return mx_infer_out(infer_it, 0, &infer_it->in[1]) ? mx_error_code() : mx_infer_out(infer_it, 1, &infer_it->in[2]);
}

static mx_code gradient(mx_grad *grad)
{
    mx_array *out[MX_MAX_OUTPUTS] = {NULL}, *in[3] = {grad->ograd[0], grad->in[0], grad->in[1]};
    if (grad->create_graph)
        return mx_fail(MX_ERR_AUTOGRAD, "Correlation has no second-order gradient");
    if (mx_invoke(MX_OP("_backward_Correlation"), grad->attrs, 3, in, MX_MAX_OUTPUTS, out))
        return mx_error_code();
    for (int i = 0; i < 2; i++)
        grad->igrad[i] = grad->wanted[i] ? out[i] : NULL;
    return MX_OK;
}

/* Offset of (y, x) of the padded map, or -1 in the padding. */
static int64_t place(const mx_correlation_sizes *c, int64_t plane, int64_t y, int64_t x)
{
    y -= c->pad, x -= c->pad;
    return y < 0 || x < 0 || y >= c->height || x >= c->width ? -1 : (plane * c->height + y) * c->width + x;
}

/* Element e of the result with all its products; g: the gradient, NULL in forward. */
static double element(const mx_correlation_sizes *c, bool multiply, const double *data1, const double *data2, int64_t e,
                      const double *g, double *d1, double *d2)
{
    const int64_t j = e % c->columns, i = e / c->columns % c->rows, d = e / c->columns / c->rows % (c->grid * c->grid),
                  n = e / c->columns / c->rows / (c->grid * c->grid);
    const double elements = (double)(c->kernel * c->kernel * c->channels);
    double sum = 0;
    for (int64_t k = 0; k < c->channels * c->kernel * c->kernel; k++) {
        const int64_t y = i * c->stride + c->reach + k / c->kernel % c->kernel,
                      x = j * c->stride + c->reach + k % c->kernel, plane = n * c->channels + k / c->kernel / c->kernel;
        const int64_t p = place(c, plane, y, x), q = place(c, plane, y + (d / c->grid - c->radius) * c->step,
                                                           x + (d % c->grid - c->radius) * c->step);
        const double a = p < 0 ? 0 : data1[p], b = q < 0 ? 0 : data2[q];
        sum += (multiply ? a * b : fabs(a - b)) / elements;
        if (g && p >= 0)
            d1[p] += g[e] * (multiply ? b : a >= b ? 1 : -1) / elements;
        if (g && q >= 0)
            d2[q] += g[e] * (multiply ? a : a >= b ? -1 : 1) / elements;
    }
    return sum;
}

static void reference(const mx_reference_call *call)
{
    const mx_correlation_sizes c = sizes(call->attrs, &call->in_shape[0]);
    for (int64_t e = 0; e < mx_shape_size(&call->out_shape[0]); e++)
        call->out[0][e] = element(&c, ((const mx_correlation_attrs *)call->attrs)->is_multiply, call->in[0],
                                  call->in[1], e, NULL, NULL, NULL);
}

static void ref_backward(const mx_reference_call *call)
{
    const mx_correlation_sizes c = sizes(call->attrs, &call->in_shape[1]);
    for (int i = 0; i < 2; i++)
        memset(call->out[i], 0, (size_t)mx_shape_size(&call->out_shape[i]) * sizeof(double));
    for (int64_t e = 0; e < mx_shape_size(&call->in_shape[0]); e++)
        element(&c, ((const mx_correlation_attrs *)call->attrs)->is_multiply, call->in[1], call->in[2], e, call->in[0],
                call->out[0], call->out[1]);
}

#define SAMPLES(...) (const mx_sample[]){__VA_ARGS__, {0}}
mx_op mx_family_correlation[] = {
    {.name = "Correlation", .precision = MX_PRECISION_FLOAT32, .inputs = "data1 data2",
     .doc = "similarity of patches of one map and displaced patches of another",
     .schema = &correlation_schema, .check = check, .infer_shape = infer, .gradient = gradient, .grad_in = 3, .reference = reference,
     .samples = SAMPLES({"2,3,5,6;2,3,5,6", "", 0, 0, "floatonly"}, {"1,2,7,8;1,2,7,8", "kernel_size=3, max_displacement=2, stride2=2, pad_size=1", 0, 0, "floatonly"},
                        {"1,2,5,6;1,2,5,6", "kernel_size=3, max_displacement=1, stride1=2, pad_size=2", 0, 0, "floatonly"},
                        {"1,2,4,4;1,2,4,4", "max_displacement=3, stride2=2, pad_size=4, is_multiply=False", 0, 0, "floatonly"},
                        {"1,1,3,20;1,1,3,20", "max_displacement=0", 0, 0, "floatonly"})},
    {.name = "_backward_Correlation", .inputs = "ograd data1 data2", .outputs = "data1 data2", .n_out = 2, .doc = "gradients of Correlation",
     .schema = &correlation_schema, .flags = MX_OP_HIDDEN | MX_OP_NO_GRADIENT, .check = check, .infer_shape = infer_backward, .reference = ref_backward,
     .samples = SAMPLES({"2,9,3,4;2,3,5,6;2,3,5,6", "", 0, 0, "f32only"},
                        {"1,9,3,3;1,2,5,6;1,2,5,6", "kernel_size=3, max_displacement=1, stride1=2, pad_size=2", 0, 0, "f32only"},
                        {"1,9,6,6;1,2,4,4;1,2,4,4", "max_displacement=3, stride2=2, pad_size=4, is_multiply=False", 0, 0, "f32only"})},
    {0},
};
