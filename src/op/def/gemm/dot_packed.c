/* Dense layers with a weight packed in panels: used inside plans (pass/dense.c).
 *
 *     weight (N, K)  ->  panels (ceil(N / columns), K, columns)
 *     output n is column n % columns of panel n / columns; columns past the last output hold zeros.
 *
 * The matrix product reads a panel from beginning to end; packed once, it need not be packed in every run.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "base/error.h"
#include "op/op.h"

#define PACK_DENSE_ATTRS(X) X(INT, columns, "32", "1..1024", "outputs per panel")
MX_ATTRS(pack_dense, PACK_DENSE_ATTRS)
#define PACKED_DENSE_ATTRS(X) \
    X(INT, num_hidden, REQUIRED, "1..", "number of outputs") \
    X(BOOL, flatten, "True", "", "all axes but the first are features; else only the last one") \
    X(BOOL, relu, "False", "", "negative results become 0")
MX_ATTRS(packed_dense, PACKED_DENSE_ATTRS)

static int64_t up(int64_t a, int64_t b) { return a / b + (a % b != 0); }

static mx_code infer_pack(mx_infer *infer)
{
    const mx_pack_dense_attrs *a = infer->attrs;
    const mx_shape_t *w = &infer->in[0];
    if (!mx_shape_known(w))
        return MX_OK;
    char text[MX_SHAPE_TEXT];
    if (w->ndim != 2)
        return mx_op_fail(infer->op, MX_ERR_SHAPE, "weight has shape %s, wanted two axes", mx_shape_text(w, text));
    const mx_shape_t panels = {.ndim = 3, .dim = {up(w->dim[0], a->columns), w->dim[1], a->columns}};
    return mx_infer_out(infer, 0, &panels);
}

static void reference_pack(const mx_reference_call *call)
{
    const mx_shape_t *w = &call->in_shape[0], *panels = &call->out_shape[0];
    const int64_t features = w->dim[1], columns = panels->dim[2];
    for (int64_t i = 0; i < mx_shape_size(panels); i++) {
        const int64_t n = i / columns / (features ? features : 1) * columns + i % columns, k = i / columns % features;
        call->out[0][i] = n < w->dim[0] ? call->in[0][n * features + k] : 0;
    }
}

static mx_code infer_dense(mx_infer *infer)
{
    const mx_packed_dense_attrs *a = infer->attrs;
    const mx_shape_t *x = &infer->in[0], *w = &infer->in[1];
    const mx_shape_t bias = {.ndim = 1, .dim = {a->num_hidden}};
    if (infer->n_in > 2 && infer->in[2].ndim >= 0 && mx_infer_in(infer, 2, &bias))
        return mx_error_code();
    if (!mx_shape_known(x) || !mx_shape_known(w))
        return MX_OK;
    char text[MX_SHAPE_TEXT];
    if (x->ndim < 1)
        return mx_op_fail(infer->op, MX_ERR_SHAPE, "data has shape (), wanted at least one axis");
    int64_t features = a->flatten ? 1 : x->dim[x->ndim - 1];
    for (int i = 1; a->flatten && i < x->ndim; i++)
        features *= x->dim[i];
    if (w->ndim != 3 || w->dim[2] < 1 || w->dim[1] != features || w->dim[0] != up(a->num_hidden, w->dim[2]))
        return mx_op_fail(infer->op, MX_ERR_SHAPE,
                          "weight has shape %s, wanted panels of %lld outputs and %lld features",
                          mx_shape_text(w, text), (long long)a->num_hidden, (long long)features);
    mx_shape_t out = *x;
    out.ndim = a->flatten ? 2 : x->ndim;
    out.dim[out.ndim - 1] = a->num_hidden;
    return mx_infer_out(infer, 0, &out);
}

static void reference_dense(const mx_reference_call *call)
{
    const mx_packed_dense_attrs *a = call->attrs;
    const int64_t hidden = a->num_hidden, features = call->in_shape[1].dim[1], columns = call->in_shape[1].dim[2];
    for (int64_t i = 0; i < mx_shape_size(&call->out_shape[0]); i++) {
        const int64_t n = i % hidden;
        double sum = call->in[2] ? call->in[2][n] : 0;
        for (int64_t k = 0; k < features; k++)
            sum += call->in[0][i / hidden * features + k] *
                   call->in[1][(n / columns * features + k) * columns + n % columns];
        call->out[0][i] = a->relu && sum < 0 ? 0 : sum;
    }
}

#define SAMPLES(...) (const mx_sample[]){__VA_ARGS__, {0}}
#define FLAGS (MX_OP_HIDDEN | MX_OP_NO_GRADIENT)
#define F32 0, 0, "f32only"
mx_op mx_family_dot_packed[] = {
    {.name = "_pack_dense", .doc = "packs the weight of a dense layer into panels", .inputs = "weight", .schema = &pack_dense_schema,
     .flags = FLAGS, .infer_shape = infer_pack, .reference = reference_pack,
     .samples = SAMPLES({"5,3", "columns=4", F32}, {"40,17", "", F32}, {"33,9", "columns=16", F32}, {"8,5", "columns=8", F32})},
    {.name = "_packed_dense", .doc = "data times the transpose of a packed weight, plus bias", .inputs = "data weight bias?",
     .schema = &packed_dense_schema, .flags = FLAGS, .infer_shape = infer_dense, .reference = reference_dense,
     .samples = SAMPLES({"2,3;2,3,4;5", "num_hidden=5", F32}, {"3,2,5;2,10,32;40", "num_hidden=40, relu=True", F32},
                        {"3,2,5;3,5,16", "num_hidden=41, flatten=False", 0, 0, "f32only absent:2"},
                        {"19,9;3,9,32;70", "num_hidden=70", F32}, {"19,9;5,9,16;70", "num_hidden=70", F32},
                        {"7,9;9,9,8;70", "num_hidden=70, relu=True", F32})},
    {0},
};
