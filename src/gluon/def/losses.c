/* Losses: how far predictions are from labels, one number per example.
 *
 * Inputs are (prediction, label) and an optional sample weight, which is broadcast.  The result has shape (N,): the
 * mean (KLDivLoss: the sum) over all axes but the batch axis.  `weight` multiplies it.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "gluon/train/losses.h"

/* ---- regression ------------------------------------------------------------------------------------------------------ */

#define L2_OPTIONS(X) MX_LOSS_OPTIONS(X, "1.0")
#define L1_OPTIONS(X) MX_LOSS_OPTIONS(X, "None")
#define HUBER_OPTIONS(X) X(FLOAT, rho, "1.0", "", "threshold between the quadratic and the linear part") MX_LOSS_OPTIONS(X, "None")
#define MARGIN_OPTIONS(X) X(FLOAT, margin, "1.0", "", "wanted distance") MX_LOSS_OPTIONS(X, "None")
#define LOGISTIC_OPTIONS(X) MX_LOSS_OPTIONS(X, "None") X(STR, label_format, "signed", "", "signed: labels are -1 or 1; binary: 0 or 1")
#define POISSON_OPTIONS(X) \
    X(BOOL, from_logits, "True", "", "predictions are logarithms of the rate") \
    X(BOOL, compute_full, "False", "", "add the approximation of log(label!)") \
    MX_LOSS_OPTIONS(X, "None")
MX_ATTRS(l2_loss, L2_OPTIONS)
MX_ATTRS(l1_loss, L1_OPTIONS)
MX_ATTRS(huber_loss, HUBER_OPTIONS)
MX_ATTRS(margin_loss, MARGIN_OPTIONS)
MX_ATTRS(logistic_loss, LOGISTIC_OPTIONS)
MX_ATTRS(poisson_loss, POISSON_OPTIONS)

#define PRED in.v[0]
#define LABEL mx_loss_label(in)
#define SAMPLE_WEIGHT(i) (in.n > (i) ? in.v[i] : MX_NONE)
#define FINISH(o, loss) mx_loss_finish(loss, (o)->weight, SAMPLE_WEIGHT(2), (o)->batch_axis)

/* weight / 2 * (pred - label)^2 */
static mx_array *forward_l2(mx_block *self, mx_arrays in)
{
    const mx_l2_loss_attrs *o = mx_options(self);
    return mx_loss_finish(mx_square(mx_sub(LABEL, PRED)), o->weight / 2, SAMPLE_WEIGHT(2), o->batch_axis);
}

/* |pred - label| */
static mx_array *forward_l1(mx_block *self, mx_arrays in)
{
    const mx_l1_loss_attrs *o = mx_options(self);
    return FINISH(o, mx_abs(mx_sub(LABEL, PRED)));
}

/* |d| - rho / 2 where |d| > rho, else d^2 / (2 rho) */
static mx_array *forward_huber(mx_block *self, mx_arrays in)
{
    const mx_huber_loss_attrs *o = mx_options(self);
    mx_array *d = mx_abs(mx_sub(LABEL, PRED));
    mx_array *line = mx_plus_scalar(d, .scalar = -0.5 * o->rho),
             *square = mx_mul_scalar(mx_square(d), .scalar = 0.5 / o->rho);
    return FINISH(o, mx_where(mx_greater_scalar(d, .scalar = o->rho), line, square));
}

/* max(0, margin - pred * label), labels -1 or 1 */
static mx_array *forward_hinge(mx_block *self, mx_arrays in)
{
    const mx_margin_loss_attrs *o = mx_options(self);
    return FINISH(o, mx_relu(mx_rminus_scalar(mx_mul(PRED, LABEL), .scalar = o->margin)));
}

static mx_array *forward_squared_hinge(mx_block *self, mx_arrays in)
{
    const mx_margin_loss_attrs *o = mx_options(self);
    return FINISH(o, mx_square(mx_relu(mx_rminus_scalar(mx_mul(PRED, LABEL), .scalar = o->margin))));
}

/* max(x, 0) - x z + log(1 + exp(-|x|)), z in {0, 1}: binary cross-entropy of logits without overflow */
static mx_array *logistic(mx_array *x, mx_array *z)
{
    return mx_add(mx_sub(mx_relu(x), mx_mul(x, z)),
                  mx_op_activation(mx_negative(mx_abs(x)), .act_type = MX_ACTIVATION_SOFTRELU));
}

static mx_array *forward_logistic(mx_block *self, mx_arrays in)
{
    const mx_logistic_loss_attrs *o = mx_options(self);
    mx_array *label = LABEL;
    if (o->label_format[0] == 's')
        label = mx_mul_scalar(mx_plus_scalar(label, .scalar = 1), .scalar = 0.5);
    return FINISH(o, logistic(PRED, label));
}

static mx_code build_logistic(mx_block *self)
{
    const char *format = ((const mx_logistic_loss_attrs *)mx_options(self))->label_format;
    if (format && (!strcmp(format, "signed") || !strcmp(format, "binary")))
        return MX_OK;
    return mx_fail(MX_ERR_ATTRIBUTE, "LogisticLoss: label_format='%s', wanted signed or binary",
                   format ? format : "None");
}

/* exp(p) - label p, or p - label log(p); the mean over everything, as one number */
static mx_array *forward_poisson(mx_block *self, mx_arrays in)
{
    const mx_poisson_loss_attrs *o = mx_options(self);
    mx_array *label = LABEL, *p = PRED, *loss;
    if (o->from_logits)
        loss = mx_sub(mx_exp(p), mx_mul(label, p));
    else
        loss = mx_sub(p, mx_mul(label, mx_log(mx_plus_scalar(p, .scalar = 1e-8))));
    if (o->compute_full) { /* Stirling: n log n - n + log(2 pi n) / 2 for labels above 1 */
        mx_array *n = mx_maximum_scalar(label, .scalar = 1);
        mx_array *factor = mx_add(mx_sub(mx_mul(n, mx_log(n)), n),
                                  mx_mul_scalar(mx_log(mx_mul_scalar(n, .scalar = 6.283185307179586)), .scalar = 0.5));
        loss = mx_add(loss, mx_mul(factor, mx_greater_scalar(label, .scalar = 1)));
    }
    loss = mx_loss_weigh(loss, o->weight, SAMPLE_WEIGHT(2));
    return mx_mean(loss);
}

/* ---- classification -------------------------------------------------------------------------------------------------- */

#define BCE_OPTIONS(X) X(BOOL, from_sigmoid, "False", "", "predictions are probabilities already") MX_LOSS_OPTIONS(X, "None")
#define SOFTMAX_OPTIONS(X) \
    X(INT, axis, "-1", "", "axis of the classes") \
    X(BOOL, sparse_label, "True", "", "labels are class numbers; else distributions over the classes") \
    X(BOOL, from_logits, "False", "", "predictions are log-probabilities already") \
    MX_LOSS_OPTIONS(X, "None")
#define SOFTMAX_CE_OPTIONS(X) \
    SOFTMAX_OPTIONS(X) \
    X(FLOAT, label_smoothing, "0.0", "0..1", "part of the label that is spread evenly over all classes")
#define KL_OPTIONS(X) \
    X(BOOL, from_logits, "True", "", "predictions are log-probabilities already") \
    X(INT, axis, "-1", "", "axis of the classes, for the softmax") \
    MX_LOSS_OPTIONS(X, "None")
MX_ATTRS(bce_loss, BCE_OPTIONS)
MX_ATTRS(softmax_ce_loss, SOFTMAX_CE_OPTIONS)
MX_ATTRS(kl_loss, KL_OPTIONS)

/* Inputs: prediction, label, sample weight, weight of the positive class. */
static mx_array *forward_bce(mx_block *self, mx_arrays in)
{
    const mx_bce_loss_attrs *o = mx_options(self);
    mx_array *p = PRED, *z = LABEL, *positive = SAMPLE_WEIGHT(3), *loss;
    if (o->from_sigmoid) {
        mx_array *yes = mx_mul(mx_log(mx_plus_scalar(p, .scalar = 1e-12)), z);
        mx_array *no = mx_mul(mx_log(mx_plus_scalar(mx_rminus_scalar(p, .scalar = 1), .scalar = 1e-12)),
                              mx_rminus_scalar(z, .scalar = 1));
        loss = mx_negative(mx_add(positive == MX_NONE ? yes : mx_mul(yes, positive), no));
    } else if (positive == MX_NONE) {
        loss = logistic(p, z);
    } else { /* x - x z + (1 + (w - 1) z) (log(1 + exp(-|x|)) + max(-x, 0)) */
        mx_array *scale = mx_plus_scalar(mx_mul(mx_plus_scalar(positive, .scalar = -1), z), .scalar = 1);
        mx_array *soft = mx_add(mx_op_activation(mx_negative(mx_abs(p)), .act_type = MX_ACTIVATION_SOFTRELU),
                                mx_relu(mx_negative(p)));
        loss = mx_add(mx_sub(p, mx_mul(p, z)), mx_mul(scale, soft));
    }
    return FINISH(o, loss);
}

/* (1 - e) loss - e mean(log p): the label is (1 - e) label + e / classes */
static mx_array *smooth(const mx_softmax_ce_loss_attrs *o, mx_array *loss, mx_array *log_p)
{
    mx_array *even = mx_mean(log_p, .axis = MX_DIMS(o->axis), .keepdims = true);
    return mx_sub(mx_mul_scalar(loss, .scalar = 1 - o->label_smoothing),
                  mx_mul_scalar(even, .scalar = o->label_smoothing));
}

/* -log softmax(pred)[label], or -sum(label * log softmax(pred)) */
static mx_array *forward_softmax_ce(mx_block *self, mx_arrays in)
{
    const mx_softmax_ce_loss_attrs *o = mx_options(self);
    mx_array *log_p = o->from_logits ? PRED : mx_log_softmax(PRED, .axis = o->axis), *loss;
    if (o->sparse_label)
        loss = mx_negative(mx_pick(log_p, in.v[1], .axis = o->axis, .keepdims = true));
    else
        loss = mx_negative(mx_sum(mx_mul(log_p, LABEL), .axis = MX_DIMS(o->axis), .keepdims = true));
    return FINISH(o, o->label_smoothing != 0 ? smooth(o, loss, log_p) : loss);
}

/* label * (log(label) - log p), the sum over all axes but the batch axis */
static mx_array *forward_kl(mx_block *self, mx_arrays in)
{
    const mx_kl_loss_attrs *o = mx_options(self);
    mx_array *log_p = o->from_logits ? PRED : mx_log_softmax(PRED, .axis = o->axis), *label = in.v[1];
    mx_array *loss = mx_mul(label, mx_sub(mx_log(mx_plus_scalar(label, .scalar = 1e-12)), log_p));
    return mx_sum(mx_loss_weigh(loss, o->weight, SAMPLE_WEIGHT(2)), .axis = MX_DIMS(o->batch_axis), .exclude = true);
}

/* ---- the classes ------------------------------------------------------------------------------------------------------- */

#define METHODS(name, build_fn, names) static const mx_layer name##_methods = {.build = build_fn, .forward = forward_##name, .print = mx_loss_print, .min_inputs = 2, .max_inputs = 3, .inputs = names};
#define USUAL "pred label sample_weight"
METHODS(l2, NULL, USUAL)
METHODS(l1, NULL, USUAL)
METHODS(huber, NULL, USUAL)
METHODS(hinge, NULL, USUAL)
METHODS(squared_hinge, NULL, USUAL)
METHODS(logistic, build_logistic, USUAL)
METHODS(poisson, NULL, "pred target sample_weight")
METHODS(softmax_ce, NULL, USUAL)
METHODS(kl, NULL, USUAL)
static const mx_layer bce_methods = {
    .forward = forward_bce, .print = mx_loss_print, .min_inputs = 2, .max_inputs = 4, .inputs = USUAL " pos_weight"};

#define ROW(name_, aliases_, doc_, schema_, methods_, c) \
    {.kind = MX_LOSS, .name = name_, .aliases = aliases_, .doc = doc_, .schema = &schema_##_schema, .methods = &methods_##_methods, .c_name = c}
mx_class mx_classes_losses[] = {
    ROW("L2Loss", NULL, "half the squared difference", l2_loss, l2, "l2_loss"),
    ROW("L1Loss", NULL, "the absolute difference", l1_loss, l1, "l1_loss"),
    ROW("HuberLoss", NULL, "squared near 0, linear beyond rho", huber_loss, huber, NULL),
    ROW("HingeLoss", NULL, "how far prediction times label falls below the margin", margin_loss, hinge, NULL),
    ROW("SquaredHingeLoss", NULL, "the square of the hinge loss", margin_loss, squared_hinge, NULL),
    ROW("LogisticLoss", NULL, "binary cross-entropy of logits", logistic_loss, logistic, NULL),
    ROW("PoissonNLLLoss", NULL, "negative log-likelihood of Poisson counts", poisson_loss, poisson, "poisson_nll_loss"),
    ROW("SigmoidBinaryCrossEntropyLoss", "sigmoidbceloss", "cross-entropy of independent yes/no labels", bce_loss, bce, NULL),
    ROW("SoftmaxCrossEntropyLoss", "softmaxceloss", "cross-entropy of one class out of many", softmax_ce_loss, softmax_ce, NULL),
    ROW("KLDivLoss", NULL, "Kullback-Leibler divergence from the labels", kl_loss, kl, "kl_div_loss"),
    {0},
};
