/* Drawing class indices: from given probabilities, and without repetition from a log-uniform distribution.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "base/error.h"
#include "op/op.h"

#define MULTINOMIAL_ATTRS(X) \
    X(DIMS, shape, "()", "", "shape of the draws per distribution") \
    X(BOOL, get_prob, "False", "", "also return the log probabilities of the draws") \
    X(DTYPE, dtype, "int32", "", "type of the class indices")
MX_ATTRS(multinomial, MULTINOMIAL_ATTRS)

#define ZIPFIAN_ATTRS(X) \
    X(INT, range_max, REQUIRED, "1..", "number of classes") \
    X(DIMS, shape, "None", "", "(batch, number of classes to draw)")
MX_ATTRS(zipfian, ZIPFIAN_ATTRS)

static int count_visible(const void *a) { return ((const mx_multinomial_attrs *)a)->get_prob ? 2 : 1; }

/* data (..., k) and shape s -> (..., s); at least one axis */
static mx_code infer_shape(mx_infer *infer)
{
    const mx_multinomial_attrs *attrs = infer->attrs;
    mx_shape_t out = infer->in[0];
    if (out.ndim < 0)
        return MX_OK;
    if (out.ndim < 1)
        return mx_op_fail(infer->op, MX_ERR_SHAPE, "data is 0-d, wanted probabilities along the last axis");
    if (out.dim[out.ndim - 1] == 0)
        return mx_op_fail(infer->op, MX_ERR_SHAPE, "data has no classes: its last axis has size 0");
    out.ndim--;
    for (int i = 0; i < attrs->shape.n; i++) {
        if (out.ndim == MX_MAX_NDIM || attrs->shape.d[i] < 0)
            return mx_op_fail(infer->op, MX_ERR_ATTRIBUTE,
                              "shape has a negative size, or the result would have more than %d axes", MX_MAX_NDIM);
        out.dim[out.ndim++] = attrs->shape.d[i];
    }
    if (!out.ndim)
        out.dim[out.ndim++] = 1;
    const mx_shape_t empty = {.ndim = 1, .dim = {0}};
    return mx_infer_out(infer, 0, &out) || mx_infer_out(infer, 1, attrs->get_prob ? &out : &empty) ? mx_error_code()
                                                                                                   : MX_OK;
}

static mx_code infer_type(mx_infer *infer)
{
    const mx_multinomial_attrs *attrs = infer->attrs;
    if (mx_infer_out_type(infer, 0, attrs->dtype == MX_DTYPE_NONE ? MX_INT32 : attrs->dtype))
        return mx_error_code();
    return mx_infer_out_type(infer, 1, infer->in_type[0]);
}

/* d log p[drawn] / dp = 1 / p[drawn] there, 0 elsewhere */
static mx_code gradient(mx_grad *grad)
{
    if (!grad->ograd[1])
        return MX_OK;
    if (grad->create_graph)
        return mx_op_fail(grad->op, MX_ERR_AUTOGRAD, "has no second-order gradient");
    return mx_give(grad, 0, mx_g3("_backward__sample_multinomial", grad->ograd[1], grad->in[0], grad->out[0]));
}

/* _backward__sample_multinomial(ograd, data, drawn) */
static mx_code infer_backward(mx_infer *infer)
{
    const mx_shape_t *data = &infer->in[1];
    if (mx_infer_in(infer, 2, &infer->in[0]) || mx_infer_in(infer, 0, &infer->in[2]))
        return mx_error_code();
    if (!mx_shape_known(data) || !mx_shape_known(&infer->in[0]))
        return MX_OK;
    int64_t rows = data->ndim > 0 ? 1 : 0; /* each has equally many drawn numbers */
    for (int i = 0; i < data->ndim - 1; i++)
        rows *= data->dim[i];
    if (rows < 1 || mx_shape_size(&infer->in[0]) % rows || data->dim[data->ndim - 1] < 1)
        return mx_op_fail(infer->op, MX_ERR_SHAPE, "the shapes of ograd, data and drawn do not match");
    return mx_infer_out(infer, 0, data);
}
static mx_code infer_backward_type(mx_infer *infer) { return mx_infer_out_type(infer, 0, infer->in_type[1]); }

static void ref_backward(const mx_reference_call *call)
{
    const mx_shape_t *data = &call->in_shape[1];
    const int64_t classes = data->dim[data->ndim - 1], rows = mx_shape_size(data) / classes;
    const int64_t draws = rows ? mx_shape_size(&call->in_shape[0]) / rows : 0;
    for (int64_t i = 0; i < rows * classes; i++)
        call->out[0][i] = 0;
    for (int64_t i = 0; i < rows * draws; i++) {
        const int64_t at = i / draws * classes + (int64_t)call->in[2][i];
        call->out[0][at] += call->in[0][i] / call->in[1][at];
    }
}

static mx_code infer_zipfian(mx_infer *infer)
{
    const mx_zipfian_attrs *attrs = infer->attrs;
    if (attrs->shape.n != 2 || attrs->shape.d[0] < 0 || attrs->shape.d[1] < 0 || attrs->shape.d[1] > attrs->range_max) {
        char text[MX_SHAPE_TEXT];
        return mx_op_fail(infer->op, MX_ERR_ATTRIBUTE,
                          "shape is %s, wanted (batch, classes to draw) with at most range_max = %lld classes",
                          mx_dims_text(&attrs->shape, text), (long long)attrs->range_max);
    }
    const mx_shape_t shape = mx_shape_of_dims(&attrs->shape), tries = {.ndim = 1, .dim = {attrs->shape.d[0]}};
    return mx_infer_out(infer, 0, &shape) || mx_infer_out(infer, 1, &tries) ? mx_error_code() : MX_OK;
}
static mx_code infer_zipfian_type(mx_infer *infer)
{
    return mx_infer_out_type(infer, 0, MX_INT64) || mx_infer_out_type(infer, 1, MX_INT64) ? mx_error_code() : MX_OK;
}

mx_op mx_family_multinomial[] = {
    {.name = "_sample_multinomial", .aliases = "sample_multinomial", .inputs = "data", .outputs_numbered = true, .outputs = "output prob", .schema = &multinomial_schema,
     .doc = "draws class indices with the probabilities along the last axis of data", .flags = MX_OP_RANDOM, .n_out = 2, .n_visible = 1,
     .count_visible = count_visible, .infer_shape = infer_shape, .infer_type = infer_type, .gradient = gradient, .grad_in = 1, .grad_out = 1,
     .samples = (const mx_sample[]){{"2,3", "", 0.1, 0.3, "random floatonly"}, {"4", "shape=(2, 3), get_prob=True", 0.1, 0.3, "random floatonly"},
                                    {"2,2,5", "shape=(3,), dtype=float32", 0.1, 0.3, "random floatonly"}, {0}}},
    {.name = "_backward__sample_multinomial", .inputs = "ograd data drawn", .doc = "gradient of the log probabilities",
     .flags = MX_OP_HIDDEN | MX_OP_NO_GRADIENT, .infer_shape = infer_backward, .infer_type = infer_backward_type, .reference = ref_backward,
     .samples = (const mx_sample[]){{"2,2;2,4;2,2", "", 1, 4, "int:2 floatonly"}, {0}}},
    {.name = "_sample_unique_zipfian", .outputs_numbered = true, .outputs = "samples num_tries", .schema = &zipfian_schema,
     .doc = "draws distinct class indices per row, class c with probability log((c + 2) / (c + 1)) / log(range_max + 1); also returns the number of draws",
     .flags = MX_OP_RANDOM | MX_OP_CREATE | MX_OP_NO_GRADIENT, .n_out = 2, .infer_shape = infer_zipfian, .infer_type = infer_zipfian_type,
     .samples = (const mx_sample[]){{"", "range_max=100, shape=(2, 10)", 0, 0, "random"}, {"", "range_max=5, shape=(1, 5)", 0, 0, "random"}, {0}}},
    {0},
};
