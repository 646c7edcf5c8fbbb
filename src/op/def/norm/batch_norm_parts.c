/* BatchNorm in training mode, in parts or with a limit, as plans use it (pass/norm_parts.c, pass/norm_limited.c).
 *
 *     mean, inverse = _norm_statistics(x)              the running statistics move towards those of the batch
 *     y = _norm_apply(x, mean, inverse, addend)        (x - mean) inverse gamma + beta (+ addend), optionally relu
 *     _backward_norm_apply                             through the statistics, too; of a gradient in one or two parts
 *     y, mean, inverse = _norm_limited(x)              both steps, then relu or clip (pass/norm_limited.c)
 *
 * So the addition and the relu after a normalisation need no separate pass over memory, and y can be recomputed instead
 * of saved.  A bias before the normalisation only changes the running mean and has no gradient.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <stdio.h>

#include "base/error.h"
#include "ndarray/dtype.h"
#include "op/op.h"
#include "op/walk.h"

#define NORM_STATISTICS_ATTRS(X) \
    X(FLOAT, eps, "1e-3", "", "added to the variance") \
    X(FLOAT, momentum, "0.9", "", "weight of the old values in the running statistics") \
    X(INT, axis, "1", "", "axis of the channels")
MX_ATTRS(norm_statistics, NORM_STATISTICS_ATTRS)
#define NORM_APPLY_ATTRS(X) \
    X(INT, axis, "1", "", "axis of the channels") \
    X(BOOL, fix_gamma, "False", "", "treat gamma as 1") \
    X(BOOL, relu, "False", "", "apply relu to the result") \
    X(FLOAT, high, "None", "0..", "with relu: larger results become this number, as clip does it")
MX_ATTRS(norm_apply, NORM_APPLY_ATTRS)
#define NORM_LIMITED_ATTRS(X) \
    NORM_STATISTICS_ATTRS(X) \
    X(BOOL, fix_gamma, "False", "", "treat gamma as 1") \
    X(FLOAT, high, "None", "0..", "larger results become this number; None: relu")
MX_ATTRS(norm_limited, NORM_LIMITED_ATTRS)
#define NORM_GRADIENT_ATTRS(X) \
    NORM_APPLY_ATTRS(X) \
    X(BOOL, addend, "False", "", "also compute the gradient of the addend") \
    X(BOOL, bias, "False", "", "also return the gradient of a bias before the normalisation, which is zero")
MX_ATTRS(norm_gradient, NORM_GRADIENT_ATTRS)

/* ---- inference --------------------------------------------------------------------------------------------------- */

/* The shape of numbers per channel; false with an error if data has no such axis. */
static bool channels_of(mx_infer *infer, const mx_shape_t *data, int64_t axis, mx_shape_t *channels)
{
    char text[MX_SHAPE_TEXT];
    *channels = (mx_shape_t){.ndim = 1, .dim = {-1}};
    if (data->ndim < 0)
        return true;
    const int at = mx_axis(axis, data->ndim);
    if (at < 0) {
        mx_op_fail(infer->op, MX_ERR_SHAPE, "axis %lld does not exist in data of shape %s", (long long)axis,
                   mx_shape_text(data, text));
        return false;
    }
    channels->dim[0] = data->dim[at];
    return true;
}

static mx_code merge_in(mx_infer *infer, int begin, int end, const mx_shape_t *shape)
{
    for (int i = begin; i < end; i++)
        if (mx_infer_in(infer, i, shape))
            return mx_error_code();
    return MX_OK;
}

static bool given(const mx_infer *infer, int i) { return i < infer->n_in && infer->in[i].ndim >= 0; }

static mx_code infer_statistics(mx_infer *infer)
{
    mx_shape_t channels;
    if (!channels_of(infer, &infer->in[0], ((const mx_norm_statistics_attrs *)infer->attrs)->axis, &channels) ||
        merge_in(infer, 1, given(infer, 3) ? 4 : 3, &channels) || mx_infer_out(infer, 0, &channels))
        return mx_error_code();
    return mx_infer_out(infer, 1, &channels);
}

static mx_code infer_apply(mx_infer *infer)
{
    mx_shape_t channels;
    if (mx_infer_out(infer, 0, &infer->in[0]) || mx_infer_in(infer, 0, &infer->out[0]) ||
        !channels_of(infer, &infer->in[0], ((const mx_norm_apply_attrs *)infer->attrs)->axis, &channels) ||
        merge_in(infer, 1, 5, &channels) || (given(infer, 5) && mx_infer_in(infer, 5, &infer->in[0])))
        return mx_error_code();
    return MX_OK;
}

static mx_code infer_limited(mx_infer *infer)
{
    mx_shape_t channels;
    if (mx_infer_out(infer, 0, &infer->in[0]) ||
        !channels_of(infer, &infer->in[0], ((const mx_norm_limited_attrs *)infer->attrs)->axis, &channels) ||
        merge_in(infer, 1, 5, &channels) || mx_infer_out(infer, 1, &channels))
        return mx_error_code();
    return mx_infer_out(infer, 2, &channels);
}

static mx_code infer_backward(mx_infer *infer)
{
    const mx_norm_gradient_attrs *a = infer->attrs;
    const mx_shape_t *data = &infer->in[1];
    mx_shape_t channels;
    if (a->relu && a->addend && mx_shape_known(data) && !given(infer, 6))
        return mx_op_fail(infer->op, MX_ERR_ARGUMENT, "the output is missing, but relu after an addition needs it");
    if (!channels_of(infer, data, a->axis, &channels) || mx_infer_in(infer, 0, data) ||
        merge_in(infer, 2, 6, &channels) || (given(infer, 6) && mx_infer_in(infer, 6, data)) ||
        (given(infer, 7) && mx_infer_in(infer, 7, data)) || mx_infer_out(infer, 0, data) ||
        mx_infer_out(infer, 1, &channels) || mx_infer_out(infer, 2, &channels) ||
        (a->addend && mx_infer_out(infer, 3, data)) || (a->bias && mx_infer_out(infer, 3 + a->addend, &channels)))
        return mx_error_code();
    return MX_OK;
}

/* Arrays of data's shape have one type, per-channel arrays another: with 16-bit data float32. */
static void types_of(mx_infer *infer, int data, int *own, int *rows)
{
    *own = infer->in_type[data];
    *rows = mx_dtype_is_narrow(*own) ? MX_FLOAT32 : *own;
}

static mx_code type_in(mx_infer *infer, int begin, int end, int type)
{
    for (int i = begin; i < end && i < infer->n_in; i++)
        if (infer->in_type[i] != MX_DTYPE_NONE && mx_infer_in_type(infer, i, type))
            return mx_error_code();
    return MX_OK;
}

static mx_code infer_statistics_type(mx_infer *infer)
{
    int own, rows;
    types_of(infer, 0, &own, &rows);
    if (own == MX_DTYPE_NONE || type_in(infer, 1, 4, rows) || mx_infer_out_type(infer, 0, rows))
        return mx_error_code();
    return mx_infer_out_type(infer, 1, rows);
}

static mx_code infer_apply_type(mx_infer *infer)
{
    int own, rows;
    types_of(infer, 0, &own, &rows);
    if (own == MX_DTYPE_NONE || type_in(infer, 1, 5, rows) || type_in(infer, 5, 6, own))
        return mx_error_code();
    return mx_infer_out_type(infer, 0, own);
}

static mx_code infer_limited_type(mx_infer *infer)
{
    int own, rows;
    types_of(infer, 0, &own, &rows);
    if (own == MX_DTYPE_NONE || type_in(infer, 1, 5, rows) || mx_infer_out_type(infer, 0, own) ||
        mx_infer_out_type(infer, 1, rows))
        return mx_error_code();
    return mx_infer_out_type(infer, 2, rows);
}

static mx_code infer_backward_type(mx_infer *infer)
{
    const mx_norm_gradient_attrs *a = infer->attrs;
    int own, rows;
    types_of(infer, 1, &own, &rows);
    if (own == MX_DTYPE_NONE || type_in(infer, 0, 1, own) || type_in(infer, 2, 6, rows) || type_in(infer, 6, 8, own))
        return mx_error_code();
    for (int i = 0; i < infer->n_out; i++)
        if (mx_infer_out_type(infer, i, i == 0 || (i == 3 && a->addend) ? own : rows))
            return mx_error_code();
    return MX_OK;
}

static int count_gradients(const void *attrs)
{
    const mx_norm_gradient_attrs *a = attrs;
    return 3 + a->addend + a->bias;
}

static void again_limited(const void *attrs, mx_again *again)
{
    const mx_norm_limited_attrs *a = attrs;
    *again = (mx_again){.op = "_norm_apply", .attrs = again->room, .n_in = 5, .from = {0, 1, 2, -2, -3}};
    const int n =
        snprintf(again->room, sizeof again->room, "axis=%lld, fix_gamma=%d, relu=1", (long long)a->axis, a->fix_gamma);
    if (!isnan(a->high))
        snprintf(again->room + n, sizeof again->room - (size_t)n, ", high=%.17g", a->high);
}

/* ---- references -------------------------------------------------------------------------------------------------- */

static int64_t place(const mx_split *s, int64_t c, int64_t k)
{
    return (k / s->after * s->size + c) * s->after + k % s->after;
}

static void ref_statistics(const mx_reference_call *call)
{
    const mx_norm_statistics_attrs *a = call->attrs;
    const mx_split s = mx_split_at(&call->in_shape[0], mx_axis(a->axis, call->in_shape[0].ndim));
    const double count = (double)(s.before * s.after);
    for (int64_t c = 0; c < s.size; c++) {
        double sum = 0, squares = 0;
        for (int64_t k = 0; k < s.before * s.after; k++)
            sum += call->in[0][place(&s, c, k)];
        for (int64_t k = 0; k < s.before * s.after; k++)
            squares += pow(call->in[0][place(&s, c, k)] - sum / count, 2);
        const double seen = sum / count + (call->n_in > 3 && call->in[3] ? call->in[3][c] : 0);
        call->out[0][c] = sum / count, call->out[1][c] = 1 / sqrt(squares / count + a->eps);
        call->out[2][c] = call->in[1][c] * a->momentum + seen * (1 - a->momentum); /* the running ones */
        call->out[3][c] = call->in[2][c] * a->momentum + squares / count * (1 - a->momentum);
    }
}

static double applied(const mx_reference_call *call, int first, bool fix_gamma, double x, int64_t c)
{
    const double *const *rows = call->in + first;
    return (x - rows[2][c]) * rows[3][c] * (fix_gamma ? 1 : rows[0][c]) + rows[1][c];
}

static void ref_apply(const mx_reference_call *call)
{
    const mx_norm_apply_attrs *a = call->attrs;
    const mx_split s = mx_split_at(&call->in_shape[0], mx_axis(a->axis, call->in_shape[0].ndim));
    const double *addend = call->n_in > 5 ? call->in[5] : NULL;
    for (int64_t c = 0; c < s.size; c++)
        for (int64_t k = 0; k < s.before * s.after; k++) {
            const int64_t at = place(&s, c, k);
            const double v = applied(call, 1, a->fix_gamma, call->in[0][at], c) + (addend ? addend[at] : 0);
            call->out[0][at] = a->relu && v < 0 ? 0 : a->relu && v > a->high ? a->high : v;
        }
}

static void ref_limited(const mx_reference_call *call)
{
    const mx_norm_limited_attrs *a = call->attrs;
    const mx_split s = mx_split_at(&call->in_shape[0], mx_axis(a->axis, call->in_shape[0].ndim));
    const double count = (double)(s.before * s.after);
    for (int64_t c = 0; c < s.size; c++) {
        double sum = 0, squares = 0;
        for (int64_t k = 0; k < s.before * s.after; k++)
            sum += call->in[0][place(&s, c, k)];
        for (int64_t k = 0; k < s.before * s.after; k++)
            squares += pow(call->in[0][place(&s, c, k)] - sum / count, 2);
        const double mean = sum / count, var = squares / count, inverse = 1 / sqrt(var + a->eps);
        for (int64_t k = 0; k < s.before * s.after; k++) {
            const double y =
                (call->in[0][place(&s, c, k)] - mean) * inverse * (a->fix_gamma ? 1 : call->in[1][c]) + call->in[2][c];
            call->out[0][place(&s, c, k)] = y < 0 ? 0 : y > a->high ? a->high : y;
        }
        call->out[1][c] = mean, call->out[2][c] = inverse;
        call->out[3][c] = call->in[3][c] * a->momentum + mean * (1 - a->momentum); /* the running ones */
        call->out[4][c] = call->in[4][c] * a->momentum + var * (1 - a->momentum);
    }
}

/* Whether a gradient flows through the limits of a result v: relu's, or clip's. */
static bool flows_through(const mx_norm_gradient_attrs *a, double v)
{
    return !a->relu || (isnan(a->high) ? v > 0 : !(v < 0 || v > a->high));
}

/* h = g (of both parts) where the result is not limited, z = (x - mean) inverse:
 *     dbeta = sum h, dgamma = sum h z, dx = gamma inverse (h - mean(h) - z mean(h z)), daddend = h */
static void ref_backward(const mx_reference_call *call)
{
    const mx_norm_gradient_attrs *a = call->attrs;
    const mx_split s = mx_split_at(&call->in_shape[1], mx_axis(a->axis, call->in_shape[1].ndim));
    const double *y = call->n_in > 6 ? call->in[6] : NULL, *more = call->n_in > 7 ? call->in[7] : NULL,
                 count = (double)(s.before * s.after);
    for (int64_t c = 0; c < s.size; c++) {
        const double mean = call->in[4][c], inverse = call->in[5][c], gamma = a->fix_gamma ? 1 : call->in[2][c];
        double sum = 0, products = 0;
        for (int pass = 0; pass < 2; pass++)
            for (int64_t k = 0; k < s.before * s.after; k++) {
                const int64_t at = place(&s, c, k);
                const double x = call->in[1][at], z = (x - mean) * inverse;
                const bool flows = flows_through(a, y ? y[at] : applied(call, 2, a->fix_gamma, x, c));
                const double h = flows ? call->in[0][at] + (more ? more[at] : 0) : 0;
                if (pass) {
                    call->out[0][at] = gamma * inverse * (h - sum / count - z * products / count);
                    if (a->addend)
                        call->out[3][at] = h;
                } else
                    sum += h, products += h * z;
            }
        call->out[1][c] = a->fix_gamma ? 0 : products, call->out[2][c] = sum;
        if (a->bias)
            call->out[3 + a->addend][c] = 0;
    }
}

/* ---- the table --------------------------------------------------------------------------------------------------- */

#define PARTS "2,3,4;3;3;3;3"
#define BACK "2,3,4;2,3,4;3;3;3;3;2,3,4"
#define INSIDE (MX_OP_HIDDEN | MX_OP_NO_GRADIENT)
mx_op mx_family_batch_norm_parts[] = {
    {.name = "_norm_statistics", .inputs = "data moving_mean moving_var bias?", .outputs = "mean inverse",
     .doc = "mean and inverse standard deviation of every channel", .schema = &norm_statistics_schema, .flags = INSIDE, .n_out = 2,
     .infer_shape = infer_statistics, .infer_type = infer_statistics_type, .mutates = 3 << 1, .reference = ref_statistics,
     .samples = (const mx_sample[]){{"2,3,4;3;3;3", "", 0.2, 2, "floatonly"}, {"5,2,3;3;3", "axis=2, eps=0.1", 0.2, 2, "floatonly absent:3"},
                                    {"70,40;40;40;40", "axis=-1", 0.2, 2, "floatonly"}, {0}}},
    {.name = "_norm_apply", .inputs = "data gamma beta mean inverse addend?",
     .doc = "normalises with given statistics, then adds and applies relu", .schema = &norm_apply_schema, .flags = INSIDE | MX_OP_INPLACE,
     .infer_shape = infer_apply, .infer_type = infer_apply_type, .reference = ref_apply,
     .samples = (const mx_sample[]){{PARTS ";2,3,4", "relu=True", -1.5, 2, "floatonly"}, {PARTS, "fix_gamma=True", 0.2, 2, "floatonly absent:5"},
                                    {PARTS, "relu=True, high=1.5", -1.5, 2, "floatonly absent:5"},
                                    {"5,8;8;8;8;8;5,8", "axis=-1", -2, 2, "floatonly"}, {0}}},
    {.name = "_norm_limited", .inputs = "data gamma beta moving_mean moving_var", .outputs = "output mean inverse",
     .doc = "BatchNorm by the statistics of the batch, then relu or clip", .schema = &norm_limited_schema, .flags = INSIDE, .n_out = 3,
     .infer_shape = infer_limited, .infer_type = infer_limited_type, .mutates = 3 << 3, .again = again_limited, .reference = ref_limited,
     .samples = (const mx_sample[]){{PARTS, "", -1.5, 2, "floatonly"}, {PARTS, "high=1.5, fix_gamma=True", -1.5, 2, "floatonly"},
                                    {"70,40;40;40;40;40", "axis=-1, high=0.5", -1.5, 2, "floatonly"},
                                    {"2,2,1100;2;2;2;2", "eps=0.1", -1.5, 2, "floatonly"}, {0}}},
    {.name = "_backward_norm_apply", .inputs = "ograd data gamma beta mean inverse output? more?",
     .outputs = "data_grad gamma_grad beta_grad addend_grad bias_grad", .doc = "gradient of _norm_apply and the statistics",
     .schema = &norm_gradient_schema, .flags = INSIDE | MX_OP_INPLACE, .n_out = 5, .count_out = count_gradients, .infer_shape = infer_backward,
     .infer_type = infer_backward_type, .reference = ref_backward,
     .samples = (const mx_sample[]){{BACK, "relu=True, addend=True", -1.5, 2, "floatonly absent:7"}, {BACK ";2,3,4", "bias=True, relu=True, addend=True", -2, 2, "floatonly"},
                                    {"2,3,4;2,3,4;3;3;3;3", "relu=True, bias=True", 0.2, 2, "floatonly absent:6 absent:7"},
                                    {"2,3,4;2,3,4;3;3;3;3", "relu=True, high=1.5", 0.2, 2, "floatonly absent:6 absent:7"},
                                    {"2,2,1100;2,2,1100;2;2;2;2", "relu=True", 0.2, 2, "floatonly absent:6 absent:7"},
                                    {"300,40;300,40;40;40;40;40", "relu=True, high=2.5", 0.2, 2, "floatonly absent:6 absent:7"},
                                    {"6,8;6,8;8;8;8;8", "axis=1, fix_gamma=True", 0.2, 2, "floatonly absent:6 absent:7"}, {0}}},
    {0},
};
