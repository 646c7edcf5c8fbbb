/* Every loss against its formula in double precision, with sample weights, weights and batch axes.
 *
 * A loss class without an entry fails the test.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "block_check.h"

enum { N = 3, K = 4, COUNT = N * K }; /* examples, numbers of each: predictions are (N, K) */

/* The loss of one element, before weights and mean; z: the label. */
typedef struct element_case {
    const char *cls, *options;
    double (*loss)(double p, double z);
    double weight; /* the option, 1 if None */
    enum { REAL, SIGNS, BITS, PROBABILITIES, COUNTS } labels;
    bool probabilities; /* predictions are in (0, 1) */
    bool scalar;        /* the result is one number: the mean of everything */
    bool sum;           /* of the elements of an example, instead of their mean */
} element_case;

static double l2(double p, double z) { return (p - z) * (p - z) / 2; }
static double l1(double p, double z) { return fabs(p - z); }
static double huber(double p, double z) { return fabs(p - z) > 1 ? fabs(p - z) - 0.5 : (p - z) * (p - z) / 2; }
static double huber_wide(double p, double z) { return fabs(p - z) > 2 ? fabs(p - z) - 1 : (p - z) * (p - z) / 4; }
static double hinge(double p, double z) { return fmax(0, 1 - p * z); }
static double squared_hinge(double p, double z) { return hinge(p, z) * hinge(p, z); }
static double signed_logistic(double p, double z) { return log1p(exp(-p * z)); }
static double bce(double p, double z) { return -z * log(1 / (1 + exp(-p))) - (1 - z) * log(1 - 1 / (1 + exp(-p))); }
static double bce_of_probabilities(double p, double z) { return -z * log(p) - (1 - z) * log(1 - p); }
static double poisson_logits(double p, double z) { return exp(p) - z * p; }
static double poisson(double p, double z) { return p - z * log(p + 1e-8); }
static double poisson_full(double p, double z)
{
    return exp(p) - z * p + (z > 1 ? z * log(z) - z + 0.5 * log(2 * acos(-1) * z) : 0);
}
static double kl(double p, double z) { return z * (log(z + 1e-12) - p); }

static const element_case elements[] = {
    {.cls = "L2Loss", .loss = l2, .weight = 1},
    {.cls = "L2Loss", .options = "weight=3", .loss = l2, .weight = 3},
    {.cls = "L1Loss", .loss = l1, .weight = 1},
    {.cls = "L1Loss", .options = "weight=0.5", .loss = l1, .weight = 0.5},
    {.cls = "HuberLoss", .loss = huber, .weight = 1},
    {.cls = "HuberLoss", .options = "rho=2, weight=2", .loss = huber_wide, .weight = 2},
    {.cls = "HingeLoss", .loss = hinge, .weight = 1, .labels = SIGNS},
    {.cls = "SquaredHingeLoss", .options = "weight=2", .loss = squared_hinge, .weight = 2, .labels = SIGNS},
    {.cls = "LogisticLoss", .loss = signed_logistic, .weight = 1, .labels = SIGNS},
    {.cls = "LogisticLoss", .options = "label_format=binary", .loss = bce, .weight = 1, .labels = BITS},
    {.cls = "SigmoidBinaryCrossEntropyLoss", .loss = bce, .weight = 1, .labels = PROBABILITIES},
    {.cls = "SigmoidBinaryCrossEntropyLoss", .options = "from_sigmoid=True, weight=2", .loss = bce_of_probabilities, .weight = 2, .labels = BITS,
     .probabilities = true},
    {.cls = "PoissonNLLLoss", .loss = poisson_logits, .weight = 1, .labels = COUNTS, .scalar = true},
    {.cls = "PoissonNLLLoss", .options = "from_logits=False, weight=2", .loss = poisson, .weight = 2, .labels = COUNTS, .probabilities = true, .scalar = true},
    {.cls = "PoissonNLLLoss", .options = "compute_full=True", .loss = poisson_full, .weight = 1, .labels = COUNTS, .scalar = true},
    {.cls = "KLDivLoss", .loss = kl, .weight = 1, .labels = PROBABILITIES, .sum = true},
};

static mx_array *between_0_and_1(int seed) { return mx_sigmoid(check_array(MX_DIMS(N, K), seed)); }

static mx_array *labels_of(const element_case *c)
{
    switch (c->labels) {
    case SIGNS: return mx_sign(check_array(MX_DIMS(N, K), 5));
    case BITS: return check_integers(MX_DIMS(N, K), 5, 2);
    case PROBABILITIES: return between_0_and_1(5);
    case COUNTS: return check_integers(MX_DIMS(N, K), 5, 6);
    default: return check_array(MX_DIMS(N, K), 5);
    }
}

/* Means over all but the batch axis of loss * weight * sample weight. */
static void wanted_means(const element_case *c, const double *p, const double *z, const double *w, int batch_axis,
                         double *out)
{
    const int n = batch_axis ? K : N;
    memset(out, 0, COUNT * sizeof *out);
    for (int i = 0; i < COUNT; i++)
        out[batch_axis ? i % K : i / K] +=
            c->loss(p[i], z[i]) * c->weight * (w ? w[i / K] : 1) / (c->sum ? 1 : COUNT / n);
    if (c->scalar) {
        for (int i = 1; i < n; i++)
            out[0] += out[i];
        out[0] /= n;
    }
}

static mx_block *made(const char *cls, const char *options, const char *more)
{
    char all[256];
    snprintf(all, sizeof all, "%s%s%s", options ? options : "", options && more ? ", " : "", more ? more : "");
    mx_block *loss = mx_class_create(mx_class_find(MX_LOSS, cls), all);
    check_no_error();
    return loss;
}

static void check_element(const element_case *c)
{
    double wanted[COUNT];
    mx_array *p = c->probabilities ? between_0_and_1(4) : check_array(MX_DIMS(N, K), 4), *z = labels_of(c);
    mx_array *w = mx_abs(check_array(MX_DIMS(N, 1), 6));
    const mx_dims rows = c->scalar ? MX_DIMS(1) : MX_DIMS(N), columns = c->scalar ? MX_DIMS(1) : MX_DIMS(K);
    wanted_means(c, check_values(p), check_values(z), NULL, 0, wanted);
    check_near(mx_call(made(c->cls, c->options, NULL), p, z), rows, wanted, 1e-5);
    wanted_means(c, check_values(p), check_values(z), check_values(w), 0, wanted);
    check_near(mx_call(made(c->cls, c->options, NULL), p, z, w), rows, wanted, 1e-5);
    wanted_means(c, check_values(p), check_values(z), NULL, 1, wanted);
    check_near(mx_call(made(c->cls, c->options, "batch_axis=1"), p, z), columns, wanted, 1e-5);
    if (strcmp(c->cls, "KLDivLoss")) /* labels of another shape but as many elements */
        check_near(mx_call(made(c->cls, c->options, "batch_axis=1"), p, mx_reshape(z, .shape = MX_DIMS(N, K, 1))),
                   columns, wanted, 1e-5);
}

static void test_elements(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof elements / sizeof *elements; i++) {
        MX_SCOPE;
        print_message("%s(%s)\n", elements[i].cls, elements[i].options ? elements[i].options : "");
        check_element(&elements[i]);
    }
}

/* ---- losses of rows ------------------------------------------------------------------------------------------------------- */

static void log_softmax(const double *p, double *out)
{
    for (int i = 0; i < N; i++) {
        double sum = 0;
        for (int k = 0; k < K; k++)
            sum += exp(p[i * K + k]);
        for (int k = 0; k < K; k++)
            out[i * K + k] = p[i * K + k] - log(sum);
    }
}

static void test_softmax_cross_entropy(void **state)
{
    (void)state;
    MX_SCOPE;
    double log_p[COUNT], sparse[N], dense[N], weighted[N];
    mx_array *p = check_array(MX_DIMS(N, K), 1), *classes = check_integers(MX_DIMS(N), 2, K),
             *spread = mx_softmax(check_array(MX_DIMS(N, K), 3));
    mx_array *w = mx_abs(check_array(MX_DIMS(N, 1), 6));
    log_softmax(check_values(p), log_p);
    const double *z = check_values(classes), *q = check_values(spread), *v = check_values(w);
    for (int i = 0; i < N; i++) {
        sparse[i] = -log_p[i * K + (int)z[i]];
        weighted[i] = sparse[i] * v[i] * 2;
        dense[i] = 0;
        for (int k = 0; k < K; k++)
            dense[i] -= q[i * K + k] * log_p[i * K + k];
    }
    check_near(mx_call(mx_softmax_cross_entropy_loss(), p, classes), MX_DIMS(N), sparse, 1e-5);
    check_near(mx_call(mx_softmax_cross_entropy_loss(), p, mx_cast(classes, .dtype = MX_INT32)), MX_DIMS(N), sparse,
               1e-5);
    check_near(mx_call(mx_softmax_cross_entropy_loss(.weight = 2), p, classes, w), MX_DIMS(N), weighted, 1e-5);
    check_near(mx_call(mx_softmax_cross_entropy_loss(.sparse_label = false), p, spread), MX_DIMS(N), dense, 1e-5);
    check_near(mx_call(mx_softmax_cross_entropy_loss(.from_logits = true), mx_log_softmax(p), classes), MX_DIMS(N),
               sparse, 1e-5);
    mx_array *transposed = mx_transpose(p); /* classes along axis 0 */
    check_near(mx_call(mx_softmax_cross_entropy_loss(.axis = 0, .batch_axis = 1), transposed, classes), MX_DIMS(N),
               sparse, 1e-5);
    /* Extreme logits stay finite. */
    mx_array *far = mx_mul_scalar(p, .scalar = 1e4);
    for (int i = 0; i < N; i++)
        assert_true(isfinite(check_values(mx_call(mx_softmax_cross_entropy_loss(), far, classes))[i]));
}

static void test_sigmoid_with_positive_weight(void **state)
{
    (void)state;
    MX_SCOPE;
    double wanted[N] = {0}, squashed[N] = {0};
    mx_array *p = check_array(MX_DIMS(N, K), 1), *bits = check_integers(MX_DIMS(N, K), 2, 2),
             *positive = mx_abs(check_array(MX_DIMS(1, K), 3));
    const double *x = check_values(p), *z = check_values(bits), *w = check_values(positive);
    for (int i = 0; i < COUNT; i++)
        wanted[i / K] -= (w[i % K] * z[i] * log(1 / (1 + exp(-x[i]))) + (1 - z[i]) * log(1 - 1 / (1 + exp(-x[i])))) / K;
    memcpy(squashed, wanted, sizeof wanted);
    check_near(mx_call(mx_sigmoid_binary_cross_entropy_loss(), p, bits, MX_NONE, positive), MX_DIMS(N), wanted, 1e-5);
    check_near(
        mx_call(mx_sigmoid_binary_cross_entropy_loss(.from_sigmoid = true), mx_sigmoid(p), bits, MX_NONE, positive),
        MX_DIMS(N), squashed, 1e-5);
    mx_array *far = mx_mul_scalar(p, .scalar = 1e4);
    for (int i = 0; i < N; i++)
        assert_true(isfinite(check_values(mx_call(mx_sigmoid_binary_cross_entropy_loss(), far, bits))[i]));
}

static void test_kl_of_logits(void **state)
{
    (void)state;
    MX_SCOPE;
    double log_p[COUNT], wanted[N] = {0};
    mx_array *p = check_array(MX_DIMS(N, K), 1), *spread = mx_softmax(check_array(MX_DIMS(N, K), 3));
    log_softmax(check_values(p), log_p);
    for (int i = 0; i < COUNT; i++)
        wanted[i / K] += check_values(spread)[i] * (log(check_values(spread)[i]) - log_p[i]);
    check_near(mx_call(mx_kl_div_loss(.from_logits = false), p, spread), MX_DIMS(N), wanted, 1e-5);
}

/* ---- embeddings ------------------------------------------------------------------------------------------------------------- */

static void test_triplet(void **state)
{
    (void)state;
    MX_SCOPE;
    double wanted[N];
    mx_array *a = check_array(MX_DIMS(N, K), 1), *p = check_array(MX_DIMS(N, K), 2), *n = check_array(MX_DIMS(N, K), 3);
    const double *x = check_values(a), *y = check_values(p), *z = check_values(n);
    for (int i = 0; i < N; i++) {
        double sum = 2;
        for (int k = i * K; k < (i + 1) * K; k++)
            sum += (y[k] - x[k]) * (y[k] - x[k]) - (z[k] - x[k]) * (z[k] - x[k]);
        wanted[i] = fmax(0, sum) * 3;
    }
    check_near(mx_call(mx_triplet_loss(.margin = 2, .weight = 3), a, p, n), MX_DIMS(N), wanted, 1e-5);
}

static void test_cosine(void **state)
{
    (void)state;
    MX_SCOPE;
    double wanted[N];
    mx_array *a = check_array(MX_DIMS(N, K), 1), *b = check_array(MX_DIMS(N, K), 2),
             *label = mx_array_from(MX_DIMS(N), MX_FLOAT32, (float[]){1, -1, -1});
    const double *x = check_values(a), *y = check_values(b);
    for (int i = 0; i < N; i++) {
        double xy = 0, xx = 0, yy = 0;
        for (int k = i * K; k < (i + 1) * K; k++)
            xy += x[k] * y[k], xx += x[k] * x[k], yy += y[k] * y[k];
        const double cosine = xy / sqrt(xx * yy);
        wanted[i] = i ? fmax(0, cosine + 0.5) : 1 - cosine;
    }
    check_near(mx_reshape(mx_call(mx_cosine_embedding_loss(.margin = -0.5), a, b, label), .shape = MX_DIMS(N)),
               MX_DIMS(N), wanted, 1e-5);
}

static void test_sdml(void **state)
{
    (void)state;
    MX_SCOPE;
    double wanted[N] = {0};
    mx_array *a = check_array(MX_DIMS(N, K), 1), *b = check_array(MX_DIMS(N, K), 2);
    const double *x = check_values(a), *y = check_values(b), s = 0.3;
    for (int i = 0; i < N; i++) {
        double distance[N] = {0}, sum = 0;
        for (int j = 0; j < N; j++) {
            for (int k = 0; k < K; k++)
                distance[j] += (x[i * K + k] - y[j * K + k]) * (x[i * K + k] - y[j * K + k]);
            sum += exp(-distance[j]);
        }
        for (int j = 0; j < N; j++) {
            const double q = i == j ? 1 - s : s / (N - 1);
            wanted[i] += q * (log(q) - (-distance[j] - log(sum)));
        }
    }
    check_near(mx_call(mx_sdml_loss(), a, b), MX_DIMS(N), wanted, 1e-4);
    assert_null(mx_call(mx_sdml_loss(), a, check_array(MX_DIMS(N), 1)));
    check_error(MX_ERR_SHAPE, "SDMLLoss");
}

/* ---- sequences --------------------------------------------------------------------------------------------------------------- */

enum { STEPS = 4, SYMBOLS = 3 }; /* the last symbol is the blank */

/* True if the path, without repetitions and blanks, is the label. */
static bool spells(const int *path, const double *label, int length)
{
    int n = 0;
    for (int t = 0; t < STEPS; t++) {
        if (path[t] == SYMBOLS - 1 || (t && path[t] == path[t - 1]))
            continue;
        if (n == length || path[t] != (int)label[n++])
            return false;
    }
    return n == length;
}

/* -log of the probability of all paths that spell the label. */
static double ctc(const double *logits, const double *label, int length)
{
    double sum = 0;
    for (int number = 0; number < SYMBOLS * SYMBOLS * SYMBOLS * SYMBOLS; number++) {
        int path[STEPS];
        double p = 1;
        for (int t = 0, rest = number; t < STEPS; t++, rest /= SYMBOLS) {
            double all = 0;
            path[t] = rest % SYMBOLS;
            for (int k = 0; k < SYMBOLS; k++)
                all += exp(logits[t * SYMBOLS + k]);
            p *= exp(logits[t * SYMBOLS + path[t]]) / all;
        }
        sum += spells(path, label, length) ? p : 0;
    }
    return -log(sum);
}

static void test_ctc(void **state)
{
    (void)state;
    MX_SCOPE;
    mx_array *p = check_array(MX_DIMS(2, STEPS, SYMBOLS), 1),
             *label = mx_array_from(MX_DIMS(2, 2), MX_FLOAT32, (float[]){0, 1, 1, -1});
    const double *x = check_values(p), *z = check_values(label);
    const double wanted[] = {ctc(x, z, 2), ctc(x + STEPS * SYMBOLS, z + 2, 1)};
    check_near(mx_call(mx_ctc_loss(), p, label), MX_DIMS(2), wanted, 1e-5);
    mx_array *transposed = mx_swapaxes(p, .dim1 = 0, .dim2 = 1);
    check_near(mx_call(mx_ctc_loss(.layout = "TNC", .label_layout = "TN"), transposed, mx_transpose(label)), MX_DIMS(2),
               wanted, 1e-5);
    mx_array *lengths = mx_array_from(MX_DIMS(2), MX_FLOAT32, (float[]){2, 1}),
             *steps = mx_array_from(MX_DIMS(2), MX_FLOAT32, (float[]){STEPS, STEPS});
    check_near(mx_call(mx_ctc_loss(), p, label, steps, lengths), MX_DIMS(2), wanted, 1e-5);
    assert_null(mx_ctc_loss(.layout = "CNT"));
    check_error(MX_ERR_ATTRIBUTE, "CTCLoss", "layout", "CNT");
}

/* ---- all of them -------------------------------------------------------------------------------------------------------------- */

static const char *const others[] = {"SoftmaxCrossEntropyLoss", "TripletLoss", "CosineEmbeddingLoss", "SDMLLoss",
                                     "CTCLoss"};

static void test_every_class_has_a_case(void **state)
{
    (void)state;
    for (int i = 0; mx_class_at(i); i++) {
        const char *name = mx_class_name(mx_class_at(i));
        bool found = mx_class_kind_of(mx_class_at(i)) != MX_LOSS;
        for (size_t k = 0; k < sizeof elements / sizeof *elements; k++)
            found |= !strcmp(name, elements[k].cls);
        for (size_t k = 0; k < sizeof others / sizeof *others; k++)
            found |= !strcmp(name, others[k]);
        if (!found)
            fail_msg("the loss %s has no case here", name);
    }
}

/* Losses can be differentiated: the gradient with respect to the prediction is the difference quotient. */
static void test_gradients(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof elements / sizeof *elements; i++) {
        MX_SCOPE;
        const element_case *c = &elements[i];
        mx_block *loss = made(c->cls, c->options, NULL);
        mx_array *p = c->probabilities ? between_0_and_1(4) : check_array(MX_DIMS(N, K), 4), *z = labels_of(c),
                 *sum = NULL;
        p = mx_array_copy(p);
        mx_attach_grad(p, MX_GRAD_WRITE);
        mx_record()
            sum = mx_sum(mx_call(loss, p, z));
        assert_int_equal(mx_backward(sum), MX_OK);
        const double *x = check_values(p), *y = check_values(z), *grad = check_values(mx_gradient(p)),
                     share = c->scalar ? COUNT
                             : c->sum  ? 1
                                       : K;
        for (int k = 0; k < COUNT; k++) {
            const double wanted = c->weight / share * (c->loss(x[k] + 1e-5, y[k]) - c->loss(x[k] - 1e-5, y[k])) / 2e-5;
            if (!(fabs(grad[k] - wanted) < 1e-3 * (1 + fabs(wanted))))
                fail_msg("%s(%s): gradient %d is %g, wanted %g", c->cls, c->options ? c->options : "", k, grad[k],
                         wanted);
        }
    }
}

static void test_bad_labels(void **state)
{
    (void)state;
    MX_SCOPE;
    assert_null(mx_call(mx_l2_loss(), check_array(MX_DIMS(2, 3), 1), check_array(MX_DIMS(2, 4), 1)));
    check_error(MX_ERR_SHAPE, "l2loss");
    assert_null(mx_logistic_loss(.label_format = "other"));
    check_error(MX_ERR_ATTRIBUTE, "LogisticLoss", "label_format", "other");
    assert_null(mx_class_create(mx_class_find(MX_LOSS, "L2Loss"), "batch_axis=-1"));
    check_error(MX_ERR_ATTRIBUTE, "batch_axis");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_class_has_a_case), cmocka_unit_test(test_elements), cmocka_unit_test(test_softmax_cross_entropy),
        cmocka_unit_test(test_sigmoid_with_positive_weight), cmocka_unit_test(test_kl_of_logits), cmocka_unit_test(test_triplet),
        cmocka_unit_test(test_cosine), cmocka_unit_test(test_sdml), cmocka_unit_test(test_ctc), cmocka_unit_test(test_gradients), cmocka_unit_test(test_bad_labels),
    };
    return cmocka_run_group_tests_name("losses", tests, NULL, NULL);
}
