/* Positions as numbers: index_array, ravel_multi_index, unravel_index.  All have gradient zero.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "op/op.h"
#include "op/walk.h"

#define ARRAY_ATTRS(X) X(DIMS, axes, "None", "", "axes whose indices are returned; None: all")
MX_ATTRS(index_array, ARRAY_ATTRS)

#define SHAPE_ATTRS(X) \
    X(DIMS, shape, "None", "", "shape of the indexed array; the size of its first axis is not used")
MX_ATTRS(unravel, SHAPE_ATTRS)

/* ---- index_array: the index of every element ---------------------------------------------------------------------- */

static mx_code infer_index_array(mx_infer *infer)
{
    const mx_dims *axes = &((const mx_index_array_attrs *)infer->attrs)->axes;
    mx_shape_t out = infer->in[0];
    if (out.ndim < 0)
        return MX_OK;
    bool fits = out.ndim < MX_MAX_NDIM;
    for (int i = 0; i < axes->n; i++)
        fits = fits && mx_axis(axes->d[i], out.ndim) >= 0;
    if (!fits)
        return mx_op_fail(infer->op, MX_ERR_ATTRIBUTE,
                          "axes must be axes of data, which has %d (at most %d are possible)", out.ndim,
                          MX_MAX_NDIM - 1);
    out.dim[out.ndim] = axes->n < 0 ? out.ndim : axes->n;
    out.ndim++;
    return mx_infer_out(infer, 0, &out);
}

static mx_code infer_int64(mx_infer *infer) { return mx_infer_out_type(infer, 0, MX_INT64); }

static void ref_index_array(const mx_reference_call *call)
{
    const mx_dims *axes = &((const mx_index_array_attrs *)call->attrs)->axes;
    const mx_shape_t *in = &call->in_shape[0];
    const int64_t n = call->out_shape[0].dim[in->ndim];
    int64_t at[MX_MAX_NDIM];
    for (int64_t i = 0; i < mx_shape_size(in); i++) {
        mx_position(in, i, at);
        for (int64_t k = 0; k < n; k++)
            call->out[0][i * n + k] = (double)at[axes->n < 0 ? k : mx_axis(axes->d[k], in->ndim)];
    }
}

/* ---- ravel, unravel ------------------------------------------------------------------------------------------- */
/* ravel: (M, K...) positions -> (K...) element numbers; unravel: the inverse */

static mx_code check_shape(const mx_infer *infer, const mx_dims *shape)
{
    char text[MX_SHAPE_TEXT];
    if (shape->n < 1 || shape->n > MX_MAX_NDIM)
        return mx_op_fail(infer->op, MX_ERR_ATTRIBUTE, "shape is %s, wanted 1 to %d sizes", mx_dims_text(shape, text),
                          MX_MAX_NDIM);
    return MX_OK;
}

static mx_code infer_ravel(mx_infer *infer)
{
    const mx_dims *shape = &((const mx_unravel_attrs *)infer->attrs)->shape;
    const mx_shape_t *in = &infer->in[0];
    char text[MX_SHAPE_TEXT];
    if (check_shape(infer, shape))
        return mx_error_code();
    if (in->ndim < 0)
        return MX_OK;
    if (in->ndim < 1 || (in->dim[0] >= 0 && in->dim[0] != shape->n))
        return mx_op_fail(infer->op, MX_ERR_SHAPE, "data has shape %s, wanted %d rows, one per axis",
                          mx_shape_text(in, text), shape->n);
    mx_shape_t out = {.ndim = in->ndim - 1};
    for (int i = 0; i < out.ndim; i++)
        out.dim[i] = in->dim[i + 1];
    return mx_infer_out(infer, 0, &out);
}

static mx_code infer_unravel(mx_infer *infer)
{
    const mx_dims *shape = &((const mx_unravel_attrs *)infer->attrs)->shape;
    const mx_shape_t *in = &infer->in[0];
    if (check_shape(infer, shape))
        return mx_error_code();
    for (int i = 1; i < shape->n; i++)
        if (shape->d[i] < 1)
            return mx_op_fail(infer->op, MX_ERR_ATTRIBUTE, "size %lld of axis %d is not positive",
                              (long long)shape->d[i], i);
    if (in->ndim < 0)
        return MX_OK;
    if (in->ndim == MX_MAX_NDIM)
        return mx_op_fail(infer->op, MX_ERR_SHAPE, "data has %d axes, at most %d are supported", in->ndim,
                          MX_MAX_NDIM - 1);
    mx_shape_t out = {.ndim = in->ndim + 1, .dim = {shape->n}};
    for (int i = 0; i < in->ndim; i++)
        out.dim[i + 1] = in->dim[i];
    return mx_infer_out(infer, 0, &out);
}

static void ref_ravel(const mx_reference_call *call)
{
    const mx_dims *shape = &((const mx_unravel_attrs *)call->attrs)->shape;
    const int64_t n = mx_shape_size(&call->out_shape[0]);
    for (int64_t k = 0; k < n; k++) {
        double number = 0;
        for (int i = 0; i < shape->n; i++)
            number = number * (double)shape->d[i] + call->in[0][i * n + k];
        call->out[0][k] = number;
    }
}

static void ref_unravel(const mx_reference_call *call)
{
    const mx_dims *shape = &((const mx_unravel_attrs *)call->attrs)->shape;
    const int64_t n = mx_shape_size(&call->in_shape[0]);
    for (int64_t k = 0; k < n; k++) {
        int64_t rest = (int64_t)call->in[0][k];
        for (int i = shape->n - 1; i > 0; i--) {
            call->out[0][i * n + k] = (double)(rest % shape->d[i]);
            rest /= shape->d[i];
        }
        call->out[0][k] = (double)rest;
    }
}

// clang-format off
mx_op mx_family_numbering[] = {
    {.name = "_contrib_index_array", .input_named = true, .c_name = "index_array", .doc = "the index of every element", .inputs = "data",
     .schema = &index_array_schema,
     .flags = MX_OP_ZERO_GRADIENT, .infer_shape = infer_index_array, .infer_type = infer_int64,
     .reference = ref_index_array,
     .samples = (const mx_sample[]){{"2,3", "", 0, 0, NULL}, {"2,3,2", "axes=(2, 0)", 0, 0, NULL}, {0}}},
    {.name = "_ravel_multi_index", .input_named = true, .aliases = "ravel_multi_index",
     .doc = "converts multi-indices, one per column, to flat indices", .inputs = "data", .schema = &unravel_schema,
     .flags = MX_OP_ZERO_GRADIENT, .infer_shape = infer_ravel, .reference = ref_ravel,
     .samples = (const mx_sample[]){{"2,4", "shape=(4, 3)", 0, 3, "int:0"}, {"3,2", "shape=(2, 3, 4)", 0, 2, "int:0"},
     {0}}},
    {.name = "_unravel_index", .input_named = true, .aliases = "unravel_index", .doc = "converts flat indices to multi-indices, one per column",
     .inputs = "data", .schema = &unravel_schema,
     .flags = MX_OP_ZERO_GRADIENT, .infer_shape = infer_unravel, .reference = ref_unravel,
     .samples = (const mx_sample[]){{"5", "shape=(4, 3)", 0, 12, "int:0"}, {"2,2", "shape=(2, 3, 4)", 0, 24, "int:0"},
     {0}}},
    {0},
};
// clang-format on
