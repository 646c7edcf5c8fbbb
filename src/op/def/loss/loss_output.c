/* Loss outputs: operators whose gradient is that of a loss, whatever gradient arrives.
 *
 * Their outputs are predictions; backward replaces the incoming gradient by that of the loss.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <stdio.h>

#include "base/error.h"
#include "op/emit.h"
#include "op/formula/pointwise.h"
#include "op/op.h"

#define GRAD_SCALE(X) X(FLOAT, grad_scale, "1.0", "", "factor of the gradient")
#define NORMALIZATION(X) \
    X(ENUM, normalization, "null", "null|batch|valid", "the gradient is divided by 1, the batch size, or the number of labels that are not ignored")

#define SOFTMAX_OUTPUT_ATTRS(X) \
    GRAD_SCALE(X) \
    X(FLOAT, ignore_label, "-1.0", "", "label of samples that are ignored") \
    X(BOOL, multi_output, "False", "", "classes are on axis 1, and there is one label per position of the later axes") \
    X(BOOL, use_ignore, "False", "", "samples labelled ignore_label have no gradient") \
    X(BOOL, preserve_shape, "False", "", "classes are on the last axis") NORMALIZATION(X) \
    X(BOOL, out_grad, "False", "", "multiply by the incoming gradient") \
    X(FLOAT, smooth_alpha, "0.0", "0..1", "label smoothing: share of the target that is spread over the other classes")
MX_ATTRS(softmax_output, SOFTMAX_OUTPUT_ATTRS)

#define REGRESSION_OUTPUT_ATTRS(X) GRAD_SCALE(X)
MX_ATTRS(regression_output, REGRESSION_OUTPUT_ATTRS)

enum { PER_NOTHING, PER_BATCH, PER_VALID };

#define SVM_OUTPUT_ATTRS(X) \
    X(FLOAT, margin, "1.0", "", "margin of the hinge loss") \
    X(FLOAT, regularization_coefficient, "1.0", "", "factor of the gradient") \
    X(BOOL, use_linear, "False", "", "hinge loss; else squared hinge loss")
MX_ATTRS(svm_output, SVM_OUTPUT_ATTRS)

/* ---- SoftmaxOutput ------------------------------------------------------------------------------------------ */

/* Data as (outer, n, inner) with n the classes. */
typedef struct split {
    int64_t outer, n, inner;
} split;

static split classes_of(const mx_softmax_output_attrs *attrs, const mx_shape_t *data)
{
    split s = {1, 1, 1};
    const int axis = attrs->multi_output ? 1 : attrs->preserve_shape ? data->ndim - 1 : -1;
    for (int i = 0; i < data->ndim; i++) {
        int64_t *part = axis < 0 ? (i ? &s.n : &s.outer) : i < axis ? &s.outer : i > axis ? &s.inner : &s.n;
        *part *= data->dim[i];
    }
    return s;
}

static mx_shape_t label_shape(const mx_softmax_output_attrs *attrs, const mx_shape_t *data)
{
    mx_shape_t label = {.ndim = 0};
    const int axis = attrs->multi_output ? 1 : data->ndim - 1;
    for (int i = 0; i < data->ndim; i++)
        if (attrs->multi_output || attrs->preserve_shape ? i != axis : i == 0)
            label.dim[label.ndim++] = data->dim[i];
    if (!label.ndim)
        label.dim[label.ndim++] = 1;
    return label;
}

/* Labels are class numbers, or distributions of the shape of data. */
static mx_code infer_softmax(mx_infer *infer)
{
    const mx_softmax_output_attrs *attrs = infer->attrs;
    if (mx_infer_out(infer, 0, &infer->in[0]) || mx_infer_in(infer, 0, &infer->out[0]))
        return mx_error_code();
    const mx_shape_t *data = &infer->in[0];
    if (data->ndim < 0)
        return MX_OK;
    if (data->ndim < (attrs->multi_output ? 2 : 1)) {
        char text[MX_SHAPE_TEXT];
        return mx_op_fail(infer->op, MX_ERR_SHAPE, "data has shape %s, wanted (batch, classes, ...)",
                          mx_shape_text(data, text));
    }
    if (mx_shape_known(&infer->in[1]) && mx_shape_equal(&infer->in[1], data))
        return MX_OK;
    const mx_shape_t label = label_shape(attrs, data);
    if (mx_shape_known(&label) && mx_shape_known(&infer->in[1]) &&
        mx_shape_size(&label) == mx_shape_size(&infer->in[1]))
        return MX_OK;
    return mx_infer_in(infer, 1, &label);
}

/* Class numbers are in range, or the label that is ignored. */
static mx_code audit_softmax(const mx_kernel_call *call)
{
    const mx_softmax_output_attrs *attrs = call->attrs;
    const mx_shape_t data = mx_array_shape(call->in[0]), label = mx_array_shape(call->in[1]);
    if (mx_shape_equal(&data, &label))
        return MX_OK;
    return mx_audit_indices(call, 1, 0, classes_of(attrs, &data).n, attrs->use_ignore ? attrs->ignore_label : NAN);
}
static mx_code audit_svm(const mx_kernel_call *call)
{
    const mx_array *data = call->in[0];
    return data->ndim < 2 ? MX_OK : mx_audit_indices(call, 1, 0, data->size / data->shape[0], NAN);
}

static mx_code infer_head_type(mx_infer *infer)
{
    const int type = infer->in_type[0] != MX_DTYPE_NONE ? infer->in_type[0] : infer->out_type[0];
    if (mx_infer_in_type(infer, 0, type) || mx_infer_out_type(infer, 0, type))
        return mx_error_code();
    if (infer->n_in > 1 && infer->in_type[1] == MX_DTYPE_NONE)
        infer->in_type[1] = type;
    return MX_OK;
}

static mx_code grad_softmax(mx_grad *grad)
{
    const mx_softmax_output_attrs *attrs = grad->attrs;
    mx_array *const in[3] = {grad->out[0], grad->in[1], attrs->out_grad ? grad->ograd[0] : MX_NONE};
    return mx_give(grad, 0, mx_g_call(MX_OP("_backward_SoftmaxOutput"), attrs, 3, in));
}

/* _backward_SoftmaxOutput(output, label, ograd?) */
static mx_code infer_softmax_backward(mx_infer *infer)
{
    if (mx_infer_through(infer, infer_softmax, (const int[]){0, 1, -2}, (const int[]){0, -2}))
        return mx_error_code();
    if (mx_infer_through(infer, infer_softmax, (const int[]){0, 1, -2}, (const int[]){2, -2}))
        return mx_error_code();
    return mx_infer_out(infer, 0, &infer->in[0]);
}

static void ref_softmax(const mx_reference_call *call)
{
    const split s = classes_of(call->attrs, &call->in_shape[0]);
    for (int64_t row = 0; row < s.outer * s.inner; row++) {
        const int64_t at = row / s.inner * s.n * s.inner + row % s.inner;
        double max = -INFINITY, sum = 0;
        for (int64_t k = 0; k < s.n; k++)
            max = fmax(max, call->in[0][at + k * s.inner]);
        for (int64_t k = 0; k < s.n; k++)
            sum += exp(call->in[0][at + k * s.inner] - max);
        for (int64_t k = 0; k < s.n; k++)
            call->out[0][at + k * s.inner] = exp(call->in[0][at + k * s.inner] - max) / sum;
    }
}

static double softmax_divisor(const mx_softmax_output_attrs *attrs, const double *label, int64_t labels, int64_t batch,
                              int64_t inner)
{
    double valid = 0;
    for (int64_t i = 0; i < labels; i++)
        valid += label[i] != attrs->ignore_label;
    if (attrs->normalization == PER_VALID)
        return valid > 0 ? valid : 1;
    return (attrs->normalization == PER_BATCH ? (double)batch : 1) * (double)inner;
}

static void ref_softmax_backward(const mx_reference_call *call)
{
    const mx_softmax_output_attrs *attrs = call->attrs;
    const split s = classes_of(attrs, &call->in_shape[0]);
    const int64_t labels = mx_shape_size(&call->in_shape[1]);
    const bool soft = labels == s.outer * s.n * s.inner && s.n > 1;
    const double scale =
        soft ? attrs->grad_scale
             : attrs->grad_scale / softmax_divisor(attrs, call->in[1], labels, call->in_shape[0].dim[0], s.inner);
    for (int64_t row = 0; row < s.outer * s.inner; row++)
        for (int64_t k = 0; k < s.n; k++) {
            const int64_t at = row / s.inner * s.n * s.inner + row % s.inner + k * s.inner;
            const double rest = s.n > 1 ? attrs->smooth_alpha / (double)(s.n - 1) : 0;
            double target = soft ? call->in[1][at] : k == (int64_t)call->in[1][row] ? 1 - attrs->smooth_alpha : rest;
            double value = (call->in[0][at] - target) * scale;
            if (attrs->out_grad && call->n_in > 2)
                value *= call->in[2][at];
            call->out[0][at] = !soft && attrs->use_ignore && call->in[1][row] == attrs->ignore_label ? 0 : value;
        }
}

/* ---- regression --------------------------------------------------------------------------------------------- */

static mx_code infer_regression(mx_infer *infer)
{
    if (mx_infer_out(infer, 0, &infer->in[0]) || mx_infer_in(infer, 0, &infer->out[0]))
        return mx_error_code();
    const mx_shape_t *data = &infer->in[0], *label = &infer->in[1];
    if (mx_shape_known(data) && mx_shape_known(label) && mx_shape_size(data) == mx_shape_size(label))
        return MX_OK; /* (N, 1) and (N) */
    return mx_infer_in(infer, 1, data);
}

/* dx = grad_scale / values per sample times y - label (linear, logistic) or its sign (absolute error) */
static mx_code regression_gradient(mx_grad *grad, bool sign)
{
    const mx_regression_output_attrs *attrs = grad->attrs;
    const mx_shape_t *shape = &grad->in_shape[0];
    const int64_t batch = shape->ndim ? shape->dim[0] : 1, size = mx_shape_size(shape);
    mx_array *difference = mx_g_sub(grad->out[0], mx_g_reshape(grad->in[1], shape));
    return mx_give(grad, 0,
                   mx_g_scale(sign ? mx_g1("sign", difference) : difference,
                              size ? attrs->grad_scale * (double)batch / (double)size : 1));
}
static mx_code grad_difference(mx_grad *grad) { return regression_gradient(grad, false); }
static mx_code grad_sign(mx_grad *grad) { return regression_gradient(grad, true); }

static void ref_identity(const mx_reference_call *call)
{
    for (int64_t i = 0; i < mx_shape_size(&call->out_shape[0]); i++)
        call->out[0][i] = call->in[0][i];
}
static void ref_sigmoid(const mx_reference_call *call)
{
    for (int64_t i = 0; i < mx_shape_size(&call->out_shape[0]); i++)
        call->out[0][i] = 1 / (1 + exp(-call->in[0][i]));
}

/* ---- SVMOutput -------------------------------------------------------------------------------------- */

static mx_code grad_svm(mx_grad *grad)
{
    return mx_give(
        grad, 0,
        mx_g_call(MX_OP("_backward_SVMOutput"), grad->attrs, 2, (mx_array *const[]){grad->in[0], grad->in[1]}));
}

static mx_code infer_svm(mx_infer *infer)
{
    if (mx_infer_out(infer, 0, &infer->in[0]) || mx_infer_in(infer, 0, &infer->out[0]))
        return mx_error_code();
    if (infer->in[0].ndim < 0)
        return MX_OK;
    if (infer->in[0].ndim < 1)
        return mx_op_fail(infer->op, MX_ERR_SHAPE, "data is 0-d, wanted (batch, classes)");
    const mx_shape_t label = {.ndim = 1, .dim = {infer->in[0].dim[0]}};
    return mx_infer_in(infer, 1, &label);
}

/* Hinge: -c for the target while x < margin, c for the others while x > -margin; squared: times twice the violation. */
static mx_code infer_svm_backward(mx_infer *infer)
{
    if (mx_infer_through(infer, infer_svm, (const int[]){0, 1, -2}, (const int[]){0, -2}))
        return mx_error_code();
    return mx_infer_out(infer, 0, &infer->in[0]);
}

static void ref_svm_backward(const mx_reference_call *call)
{
    const mx_svm_output_attrs *attrs = call->attrs;
    const int64_t rows = call->in_shape[0].dim[0], n = rows ? mx_shape_size(&call->in_shape[0]) / rows : 0;
    for (int64_t i = 0; i < rows * n; i++) {
        const double sign = i % n == (int64_t)call->in[1][i / n] ? -1 : 1,
                     violation = attrs->margin + sign * call->in[0][i];
        const double size = violation > 0 ? (attrs->use_linear ? 1 : 2 * violation) : 0;
        call->out[0][i] = sign * attrs->regularization_coefficient * size;
    }
}

/* ---- as C text (op/emit.h) ---------------------------------------------------------------------------------------- */

static mx_code emit_softmax_output(const mx_emit_call *n)
{
    const mx_softmax_output_attrs *attrs = n->attrs;
    const mx_split s = attrs->multi_output     ? mx_split_at(n->x, 1)
                       : attrs->preserve_shape ? mx_split_at(n->x, n->x->ndim - 1)
                                               : mx_emit_rows(n);
    return mx_emit_softmax(n, s, 1, false, "NULL");
}

static mx_code emit_logistic(const mx_emit_call *n) { return mx_emit_unary(n, MX_ROW_sigmoid); }

static bool softmax_reads_head(const void *attrs, int output)
{
    (void)output;
    return ((const mx_softmax_output_attrs *)attrs)->out_grad;
}

/* ---- the table -------------------------------------------------------------------------------------------- */

#define BACKWARD(rule) .flags = MX_OP_HIDDEN | MX_OP_NO_GRADIENT, .infer_shape = rule, .infer_type = infer_head_type
#define REGRESSION(name_, doc_, gradient_, reference_) \
    .name = name_, .aliases = "_sparse_" name_, .doc = doc_, .inputs = "data label", .schema = &regression_output_schema, \
    .infer_shape = infer_regression, .infer_type = infer_head_type, .gradient = gradient_, .reads_head = mx_reads_no_head, .grad_in = 2, .grad_out = 1, \
    .no_grad_inputs = 2, .reference = reference_, .precision = MX_PRECISION_FLOAT32, \
    .samples = (const mx_sample[]){{"2,3;2,3", "", 0, 0, "nograd floatonly"}, {"4,1;4", "grad_scale=2", 0, 0, "nograd floatonly"}, {0}}

mx_op mx_family_loss_output[] = {
    {.name = "SoftmaxOutput", MX_EMIT(emit_softmax_output, .reads = 1), .look = MX_LOOK_SOFTMAX,
     .flags = MX_OP_LOSS, .precision = MX_PRECISION_FLOAT32,
     .aliases = "Softmax",
     .inputs = "data label", .schema = &softmax_output_schema,
     .doc = "softmax whose gradient is that of cross entropy with the label", .infer_shape = infer_softmax,
     .infer_type = infer_head_type, .audit = audit_softmax, .gradient = grad_softmax, .reads_head = softmax_reads_head, .grad_in = 2, .grad_out = 1, .no_grad_inputs = 2,
     .reference = ref_softmax,
     .samples = (const mx_sample[]){{"3,4;3", "", 0, 4, "int:1 nograd"}, {"2,3,4;2,4", "multi_output=True", 0, 3, "int:1 nograd"},
                                    {"2,3,4;2,3", "preserve_shape=True", 0, 4, "int:1 nograd"}, {"2,3,4;2", "", 0, 4, "int:1 nograd"}, {0}}},
    {.name = "_backward_SoftmaxOutput", .inputs = "output label ograd?", .schema = &softmax_output_schema, BACKWARD(infer_softmax_backward),
     .doc = "gradient of SoftmaxOutput", .reference = ref_softmax_backward,
     .samples = (const mx_sample[]){{"3,4;3", "grad_scale=2", -1, 4, "int:1"}, {"3,4;3", "use_ignore=True, normalization=valid", -1, 4, "int:1"},
                                    {"3,4;3", "normalization=batch, smooth_alpha=0.1", -1, 4, "int:1"},
                                    {"2,3,4;2,4", "multi_output=True, normalization=batch", -1, 3, "int:1"},
                                    {"3,4;3,4", "", 0, 1, NULL}, {"3,4;3;3,4", "out_grad=True", 0, 4, "int:1"},
                                    {"3,4;3", "normalization=valid, ignore_label=0", 0, 1, "int:1"}, {"3,1;3", "", 0, 1, "int:1"}, {0}}},
    {REGRESSION("LinearRegressionOutput", "identity whose gradient is that of the squared error", grad_difference, ref_identity),
     .flags = MX_OP_LOSS | MX_OP_IDENTITY, .look = MX_LOOK_SOFTMAX},
    {REGRESSION("MAERegressionOutput", "identity whose gradient is that of the absolute error", grad_sign, ref_identity),
     .flags = MX_OP_LOSS | MX_OP_IDENTITY},
    {REGRESSION("LogisticRegressionOutput", "sigmoid whose gradient is that of the logistic loss", grad_difference, ref_sigmoid),
     .flags = MX_OP_LOSS, .look = MX_LOOK_SOFTMAX, MX_EMIT(emit_logistic, .reads = 1)},
    {.name = "SVMOutput", .flags = MX_OP_IDENTITY | MX_OP_LOSS, .precision = MX_PRECISION_FLOAT32,
     .inputs = "data label",
     .schema = &svm_output_schema, .doc = "identity whose gradient is that of the hinge loss",
     .infer_shape = infer_svm, .infer_type = infer_head_type, .audit = audit_svm, .gradient = grad_svm, .reads_head = mx_reads_no_head, .grad_in = 3, .no_grad_inputs = 2,
     .reference = ref_identity, .samples = (const mx_sample[]){{"3,4;3", "", 0, 4, "int:1 nograd"}, {0}}},
    {.name = "_backward_SVMOutput", .inputs = "data label", .schema = &svm_output_schema, BACKWARD(infer_svm_backward), .doc = "gradient of SVMOutput",
     .reference = ref_svm_backward,
     .samples = (const mx_sample[]){{"3,4;3", "margin=1.5", 0, 4, "int:1"}, {"3,4;3", "use_linear=True, regularization_coefficient=0.5", 0, 4, "int:1"}, {0}}},
    {0},
};
