/* CTCLoss: connectionist temporal classification.
 *
 * The loss is -log of the probability that the sequence of softmax(data) gives the labels after repeated labels are
 * merged and blanks removed.  The gradient of data is a hidden output, computed together with the loss.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <stdlib.h>

#include "base/error.h"
#include "op/emit.h"
#include "op/op.h"

#define CTC_ATTRS(X) \
    X(BOOL, use_data_lengths, "False", "", "the input data_lengths holds the length of each sequence") \
    X(BOOL, use_label_lengths, "False", "", "the input label_lengths holds the number of labels of each sequence") \
    X(ENUM, blank_label, "first", "first|last", "class of the blank: 0 (labels padded with 0) or the last one (padded with -1)")
MX_ATTRS(ctc, CTC_ATTRS)
enum { FIRST, LAST };

/* data (T, N, C), label (N, L), data_lengths (N), label_lengths (N) -> loss (N), gradient (T, N, C) */
static mx_code infer_shape(mx_infer *infer)
{
    const mx_ctc_attrs *attrs = infer->attrs;
    const mx_shape_t *data = &infer->in[0], *label = &infer->in[1];
    char text[MX_SHAPE_TEXT];
    if (data->ndim >= 0 && data->ndim != 3)
        return mx_op_fail(infer->op, MX_ERR_SHAPE, "data has shape %s, wanted (time, batch, classes)",
                          mx_shape_text(data, text));
    if (label->ndim >= 0 && label->ndim != 2)
        return mx_op_fail(infer->op, MX_ERR_SHAPE, "label has shape %s, wanted (batch, labels)",
                          mx_shape_text(label, text));
    if (data->ndim < 0)
        return MX_OK;
    if (data->dim[2] == 0)
        return mx_op_fail(infer->op, MX_ERR_SHAPE, "data has shape %s: there are no classes",
                          mx_shape_text(data, text));
    const mx_shape_t batch = {.ndim = 1, .dim = {data->dim[1]}}, labels = {.ndim = 2, .dim = {data->dim[1], -1}};
    if (mx_infer_in(infer, 1, &labels) || (attrs->use_data_lengths && mx_infer_in(infer, 2, &batch)) ||
        (attrs->use_label_lengths && mx_infer_in(infer, 3, &batch)))
        return mx_error_code();
    return mx_infer_out(infer, 0, &batch) || mx_infer_out(infer, 1, data) ? mx_error_code() : MX_OK;
}

static mx_code infer_type(mx_infer *infer)
{
    const int type = infer->in_type[0];
    for (int i = 1; i < infer->n_in; i++)
        if (infer->in_type[i] == MX_DTYPE_NONE)
            infer->in_type[i] = type;
    return mx_infer_out_type(infer, 0, type) || mx_infer_out_type(infer, 1, type) ? mx_error_code() : MX_OK;
}

/* Labels are classes; those past the end of a sequence are padded with -1 or 0. */
static mx_code audit(const mx_kernel_call *call) { return mx_audit_indices(call, 1, 0, call->in[0]->shape[2], -1); }

static int count_in(const void *a)
{
    const mx_ctc_attrs *attrs = a;
    return attrs->use_label_lengths ? 4 : attrs->use_data_lengths ? 3 : 2;
}

/* ddata = g of the sample times the hidden output */
static mx_code gradient(mx_grad *grad)
{
    if (!grad->ograd[0])
        return MX_OK;
    if (grad->create_graph)
        return mx_op_fail(grad->op, MX_ERR_AUTOGRAD, "has no second-order gradient");
    return mx_give(grad, 0, mx_g2("_backward_CTCLoss", grad->ograd[0], grad->out[1]));
}

/* _backward_CTCLoss(ograd (N), gradient (T, N, C)) */
static mx_code infer_backward(mx_infer *infer) { return mx_infer_out(infer, 0, &infer->in[1]); }

static void ref_backward(const mx_reference_call *call)
{
    const int64_t batch = call->in_shape[1].dim[1], classes = call->in_shape[1].dim[2];
    for (int64_t i = 0; i < mx_shape_size(&call->in_shape[1]); i++)
        call->out[0][i] = call->in[1][i] * call->in[0][i / classes % batch];
}

/* ---- reference: sums over all paths, in linear probabilities ------------------------------------------------ */

#define LONGEST 64

typedef struct sequence {
    int64_t time, classes, blank, count;
    int64_t label[LONGEST];
    double p[LONGEST][LONGEST]; /* softmax of the data: [time][class] */
} sequence;

/* Probability of everything before (alpha) or after (beta) position s of the labels with blanks between, at time t. */
static double forward_backward(const sequence *q, double alpha[LONGEST][LONGEST], double beta[LONGEST][LONGEST])
{
    const int64_t states = 2 * q->count + 1;
#define CLASS(s) ((s) % 2 ? q->label[(s) / 2] : q->blank)
#define SKIPS(s) ((s) % 2 && (s) > 1 && CLASS(s) != CLASS((s)-2))
    for (int64_t t = 0; t < q->time; t++)
        for (int64_t s = 0; s < states; s++) {
            double sum =
                t == 0 ? s < 2
                       : alpha[t - 1][s] + (s > 0 ? alpha[t - 1][s - 1] : 0) + (SKIPS(s) ? alpha[t - 1][s - 2] : 0);
            alpha[t][s] = sum * q->p[t][CLASS(s)];
        }
    for (int64_t t = q->time - 1; t >= 0; t--)
        for (int64_t s = 0; s < states; s++) {
            if (t == q->time - 1) {
                beta[t][s] = s >= states - 2;
                continue;
            }
            beta[t][s] = beta[t + 1][s] * q->p[t + 1][CLASS(s)];
            if (s + 1 < states)
                beta[t][s] += beta[t + 1][s + 1] * q->p[t + 1][CLASS(s + 1)];
            if (s + 2 < states && SKIPS(s + 2))
                beta[t][s] += beta[t + 1][s + 2] * q->p[t + 1][CLASS(s + 2)];
        }
    double total = 0;
    for (int64_t s = 0; s < states; s++)
        total += alpha[0][s] * beta[0][s];
    return total;
}

static void read_sequence(const mx_reference_call *call, int64_t n, sequence *q)
{
    const mx_ctc_attrs *attrs = call->attrs;
    const int64_t batch = call->in_shape[0].dim[1], longest = call->in_shape[1].dim[1];
    q->classes = call->in_shape[0].dim[2];
    q->time = attrs->use_data_lengths ? (int64_t)call->in[2][n] : call->in_shape[0].dim[0];
    q->blank = attrs->blank_label == FIRST ? 0 : q->classes - 1;
    q->count = 0;
    const int64_t limit = attrs->use_label_lengths ? (int64_t)call->in[3][n] : longest;
    for (int64_t i = 0; i < limit; i++) {
        const int64_t label = (int64_t)call->in[1][n * longest + i];
        if (!attrs->use_label_lengths && (attrs->blank_label == FIRST ? label <= 0 : label < 0))
            break;
        q->label[q->count++] = label;
    }
    for (int64_t t = 0; t < q->time; t++) {
        double sum = 0;
        const double *x = call->in[0] + (t * batch + n) * q->classes;
        for (int64_t c = 0; c < q->classes; c++)
            sum += exp(x[c]);
        for (int64_t c = 0; c < q->classes; c++)
            q->p[t][c] = exp(x[c]) / sum;
    }
}

static void reference(const mx_reference_call *call)
{
    static sequence q;
    static double alpha[LONGEST][LONGEST], beta[LONGEST][LONGEST];
    const int64_t batch = call->in_shape[0].dim[1], classes = call->in_shape[0].dim[2];
    for (int64_t i = 0; i < mx_shape_size(&call->in_shape[0]); i++)
        call->out[1][i] = 0;
    for (int64_t n = 0; n < batch; n++) {
        read_sequence(call, n, &q);
        const double total = forward_backward(&q, alpha, beta);
        call->out[0][n] = -log(total);
        for (int64_t t = 0; t < q.time; t++) {
            double *g = call->out[1] + (t * batch + n) * classes;
            for (int64_t c = 0; c < classes; c++)
                g[c] = q.p[t][c];
            for (int64_t s = 0; s < 2 * q.count + 1; s++)
                g[s % 2 ? q.label[s / 2] : q.blank] -= alpha[t][s] * beta[t][s] / total;
        }
    }
}

/* ---- as C text (op/emit.h) ---------------------------------------------------------------------------------------- */

static int64_t emit_scratch(const mx_emit_call *n) { return 2 * (2 * n->in[1].shape->dim[1] + 1); }

static mx_code emit_ctc(const mx_emit_call *n)
{
    const mx_ctc_attrs *attrs = n->attrs;
    mx_emit_open(n, "ctc", 2);
    mx_emit_print(n, "%s, %s, arena + %lld, %lld, %lld, %lld, %lld, %d",
                  attrs->use_data_lengths ? mx_emit_or_null(n, 2) : "NULL",
                  attrs->use_label_lengths ? mx_emit_or_null(n, 3) : "NULL", (long long)n->scratch,
                  (long long)n->x->dim[0], (long long)n->x->dim[1], (long long)n->x->dim[2],
                  (long long)n->in[1].shape->dim[1], attrs->blank_label == LAST);
    return mx_emit_close(n);
}

mx_op mx_family_ctc[] = {
    {.name = "CTCLoss", MX_EMIT(emit_ctc, .scratch = emit_scratch), .flags = MX_OP_LOSS,
     .precision = MX_PRECISION_FLOAT32,
     .aliases = "ctc_loss _contrib_CTCLoss _contrib_ctc_loss", .c_name = "op_ctc_loss",
     .inputs = "data label data_lengths? label_lengths?", .outputs_numbered = true, .outputs = "output gradient", .schema = &ctc_schema,
     .doc = "connectionist temporal classification loss of unnormalised data (time, batch, classes) and labels (batch, labels)",
     .n_out = 2, .n_visible = 1, .count_in = count_in, .infer_shape = infer_shape, .infer_type = infer_type, .gradient = gradient,
     .audit = audit, .grad_out = 2, .no_grad_inputs = 14, .reference = reference,
     .samples = (const mx_sample[]){{"5,2,4;2,2", "", 1, 4, "int:1"}, {"6,2,4;2,2", "blank_label=last", 0, 3, "int:1"},
                                    {"6,3,7;3,2;3", "use_data_lengths=True", 5, 6, "int:1 int:2 nograd"}, {0}}},
    {.name = "_backward_CTCLoss", .inputs = "ograd gradient", .doc = "gradient of CTCLoss: the gradient of each sample times its ograd",
     .flags = MX_OP_HIDDEN | MX_OP_NO_GRADIENT, .infer_shape = infer_backward, .reference = ref_backward,
     .samples = (const mx_sample[]){{"3;2,3,4", "", 0, 0, "floatonly"}, {0}}},
    {0},
};
