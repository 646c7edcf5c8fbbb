/* Losses.  SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "gluon/onnx/onnx.h"
#include "ndarray/array.h"

static mx_array *total(mx_array *x)
{
    mx_dims axes = {.n = x ? x->ndim : 0};
    for (int i = 0; i < axes.n; i++)
        axes.d[i] = i;
    return mx_onnx_as_scalar(axes.n ? mx_sum(x, .axis = axes) : x);
}

/* log_p (N, C, ...), target (N, ...): minus the value at the target, weighted, reduced. */
static mx_array *likelihood(mx_onnx_in *n, mx_array *log_p)
{
    char how[64];
    const mx_dtype type = (mx_dtype)n->in[0]->dtype;
    const int64_t ignored = mx_onnx_int(n, "ignore_index", INT64_MIN);
    const bool ignores = mx_onnx_has(n, "ignore_index");
    mx_array *target = mx_onnx_cast(n->in[1], MX_INT64), *weight = NULL;
    mx_array *keep = ignores ? mx_onnx_cast(mx_not_equal_scalar(target, .scalar = (double)ignored), type) : NULL;
    mx_array *loss = mx_negative(mx_pick(log_p, mx_onnx_cast(target, MX_FLOAT32), .axis = 1, .mode = MX_PICK_CLIP));
    if (mx_onnx_given(n, 2))
        weight = mx_take(n->in[2], target, .mode = MX_TAKE_CLIP);
    weight = keep ? (weight ? mx_mul(weight, keep) : keep) : weight;
    loss = weight ? mx_mul(loss, weight) : loss;
    mx_onnx_text(n, "reduction", how, "mean");
    if (!strcmp(how, "none"))
        return loss;
    mx_array *sum = total(loss);
    if (!strcmp(how, "sum"))
        return sum;
    return mx_div(sum, weight ? total(weight) : total(mx_ones_like(loss)));
}

static mx_code read_nll(mx_onnx_in *n) { return n->out[0] = likelihood(n, n->in[0]), MX_OK; }

static mx_code read_cross_entropy(mx_onnx_in *n)
{
    mx_array *log_p = mx_log_softmax(n->in[0], .axis = 1);
    n->out[0] = likelihood(n, log_p);
    if (n->n_out > 1)
        n->out[1] = log_p;
    return MX_OK;
}

/* Minus the sum of the logarithms at the labels. */
static mx_code write_cross_entropy(mx_onnx_out *o)
{
    const char *logs = mx_onnx_put(o, NULL, "LogSoftmax", o->in[0]);
    mx_onnx_set_int(o, "axis", 1);
    const char *labels = mx_onnx_put_cast(o, NULL, o->in[1], MX_INT64);
    labels = mx_onnx_put(o, NULL, "Unsqueeze", labels, mx_onnx_put_ints(o, MX_ONNX_LIST(1)));
    const char *chosen = mx_onnx_put(o, NULL, "GatherElements", logs, labels);
    mx_onnx_set_int(o, "axis", 1);
    const char *sum = mx_onnx_put_reduce(o, NULL, "ReduceSum", chosen, 0, NULL, false);
    mx_onnx_put_shaped(o, o->out[0], mx_onnx_put(o, NULL, "Neg", sum), MX_ONNX_LIST(1));
    return mx_onnx_done(o);
}

const mx_onnx_row mx_onnx_loss[] = {
    WRITE(NULL, "softmax_cross_entropy", write_cross_entropy),
    READ("NegativeLogLikelihoodLoss", read_nll),
    READ("SoftmaxCrossEntropyLoss", read_cross_entropy),
    {0}};
