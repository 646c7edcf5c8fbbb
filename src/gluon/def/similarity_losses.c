/* Losses that compare embeddings: Triplet, CosineEmbedding, SDML.  SPDX-License-Identifier: Apache-2.0 */
#include "gluon/train/losses.h"

#define TRIPLET_OPTIONS(X) X(FLOAT, margin, "1.0", "", "minimum difference of the distances") MX_LOSS_OPTIONS(X, "None")
#define COSINE_OPTIONS(X) MX_LOSS_OPTIONS(X, "None") X(FLOAT, margin, "0.0", "", "dissimilar pairs may be this similar")
#define SDML_OPTIONS(X) \
    X(FLOAT, smoothing_parameter, "0.3", "0..1", "probability given to wrong pairs") \
    MX_LOSS_OPTIONS(X, "1.0")
MX_ATTRS(triplet_loss, TRIPLET_OPTIONS)
MX_ATTRS(cosine_loss, COSINE_OPTIONS)
MX_ATTRS(sdml_loss, SDML_OPTIONS)

#define WEIGHT_INPUT(i) (in.n > (i) ? in.v[i] : MX_NONE)

static mx_array *like(mx_array *x, mx_array *other) { return x && other ? mx_reshape_like(x, other) : NULL; }

/* max(0, sum((anchor - positive)^2 - (anchor - negative)^2) + margin) */
static mx_array *forward_triplet(mx_block *self, mx_arrays in)
{
    const mx_triplet_loss_attrs *o = mx_options(self);
    mx_array *anchor = in.v[0], *positive = like(in.v[1], anchor), *negative = like(in.v[2], anchor);
    mx_array *difference = mx_sub(mx_square(mx_sub(positive, anchor)), mx_square(mx_sub(negative, anchor)));
    mx_array *distance = mx_sum(difference, .axis = MX_DIMS(o->batch_axis), .exclude = true);
    return mx_loss_weigh(mx_relu(mx_plus_scalar(distance, .scalar = o->margin)), o->weight, WEIGHT_INPUT(3));
}

static mx_array *dot_rows(mx_array *a, mx_array *b)
{
    return mx_sum(mx_mul(a, b), .axis = MX_DIMS(-1), .keepdims = true);
}

/* a b / (|a| |b|) along the last axis: (N, ..., 1) */
static mx_array *cosine(mx_array *a, mx_array *b)
{
    mx_array *norms = mx_mul(mx_sqrt(dot_rows(a, a)), mx_sqrt(dot_rows(b, b)));
    return mx_div(dot_rows(a, b), mx_maximum_scalar(norms, .scalar = 1e-12));
}

/* 1 - cos where the label is 1, max(0, cos - margin) where it is -1 */
static mx_array *forward_cosine(mx_block *self, mx_arrays in)
{
    const mx_cosine_loss_attrs *o = mx_options(self);
    mx_array *a = in.v[0], *b = like(in.v[1], a), *label = in.v[2];
    mx_array *c = cosine(a, b);
    label = c && label ? mx_reshape_like(label, c) : NULL;
    mx_array *apart = mx_relu(mx_plus_scalar(c, .scalar = -o->margin));
    mx_array *loss = mx_where(mx_equal_scalar(label, .scalar = 1), mx_rminus_scalar(c, .scalar = 1), apart);
    return mx_loss_weigh(loss, o->weight, WEIGHT_INPUT(3));
}

/* Squared distances of all pairs: |a_i|^2 - 2 a_i b_j + |b_j|^2 as differences, (N, N) */
static mx_array *pair_distances(mx_array *a, mx_array *b)
{
    mx_array *left = mx_expand_dims(a, .axis = 1), *right = mx_expand_dims(b, .axis = 0);
    return mx_sum(mx_square(mx_sub(left, right)), .axis = MX_DIMS(2));
}

/* Target probabilities: 1 - s on the diagonal, s / (N - 1) elsewhere. */
static mx_array *smoothed_identity(const mx_array *x, double s)
{
    const int64_t n = x->shape[0];
    const double off = n > 1 ? s / (double)(n - 1) : 0;
    mx_array *eye = mx_eye(.N = n, .dtype = (mx_dtype)x->dtype, .ctx = x->context);
    return mx_plus_scalar(mx_mul_scalar(eye, .scalar = 1 - s - off), .scalar = off);
}

/* KL divergence between the softmax of negative distances and the smoothed identity, per row of a batch of pairs */
static mx_array *forward_sdml(mx_block *self, mx_arrays in)
{
    const mx_sdml_loss_attrs *o = mx_options(self);
    mx_array *a = in.v[0], *b = in.v[1];
    if (a->ndim != 2 || b->ndim != 2)
        return mx_fail_null(MX_ERR_SHAPE, "SDMLLoss: inputs have %d and %d axes, wanted 2 and 2", a->ndim, b->ndim);
    mx_array *log_p = mx_log_softmax(mx_negative(pair_distances(a, b)), .axis = 1),
             *wanted = smoothed_identity(a, o->smoothing_parameter);
    mx_array *divergence = mx_mul(wanted, mx_sub(mx_log(mx_plus_scalar(wanted, .scalar = 1e-12)), log_p));
    mx_array *loss = mx_mean(divergence, .axis = MX_DIMS(0), .exclude = true);
    return mx_loss_weigh(mx_mul_scalar(loss, .scalar = (double)a->shape[0]), o->weight, WEIGHT_INPUT(2));
}

static const mx_layer triplet_methods = {.forward = forward_triplet,
                                         .print = mx_loss_print,
                                         .min_inputs = 3,
                                         .max_inputs = 4,
                                         .inputs = "pred positive negative sample_weight"},
                      cosine_methods = {.forward = forward_cosine,
                                        .print = mx_loss_print,
                                        .min_inputs = 3,
                                        .max_inputs = 4,
                                        .inputs = "input1 input2 label sample_weight"},
                      sdml_methods = {.forward = forward_sdml,
                                      .print = mx_loss_print,
                                      .min_inputs = 2,
                                      .max_inputs = 3,
                                      .inputs = "x1 x2 sample_weight"};

mx_class mx_classes_similarity_losses[] = {
    {.kind = MX_LOSS, .name = "TripletLoss", .doc = "an anchor should be nearer to the positive than to the negative example",
     .schema = &triplet_loss_schema, .methods = &triplet_methods},
    {.kind = MX_LOSS, .name = "CosineEmbeddingLoss", .doc = "pairs should point the same way (label 1) or not (label -1)", .schema = &cosine_loss_schema,
     .methods = &cosine_methods},
    {.kind = MX_LOSS, .name = "SDMLLoss", .doc = "rows of two batches should be nearest to their own partner", .schema = &sdml_loss_schema,
     .methods = &sdml_methods, .c_name = "sdml_loss"},
    {0},
};
