/* Elements by several indices at once: gather_nd, scatter_nd, index_copy, boolean_mask, and indices as numbers.
 *
 * indices (M, K...) name K positions in the first M axes; each holds an element, or a block of the remaining
 * axes. Negative indices count from the end; an index outside its axis is an error.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "op/formula/movement.h"
#include "op/walk.h"

#define SHAPE_ATTRS(X) X(DIMS, shape, REQUIRED, "", "shape of the result")
MX_ATTRS(scatter_nd, SHAPE_ATTRS)

#define MASK_ATTRS(X) X(INT, axis, "0", "0..0", "the axis that index selects along")
MX_ATTRS(boolean_mask, MASK_ATTRS)

static mx_code infer_data_type(mx_infer *infer)
{
    return mx_infer_out_type(infer, 0, infer->in_type[0]) ? mx_error_code()
                                                          : mx_infer_in_type(infer, 0, infer->out_type[0]);
}

/* ---- gather_nd and its adjoint ------------------------------------------------------------------------------- */

/* Shape of data[indices]: (K..., axes of data after the first M). */
static mx_code gathered_shape(const mx_infer *infer, const mx_shape_t *data, const mx_shape_t *indices, mx_shape_t *out)
{
    char a[MX_SHAPE_TEXT], b[MX_SHAPE_TEXT];
    const int64_t m = indices->ndim > 0 ? indices->dim[0] : 0;
    if (indices->ndim < 1 || m > data->ndim || indices->ndim - 1 + data->ndim - m > MX_MAX_NDIM)
        return mx_op_fail(
            infer->op, MX_ERR_SHAPE,
            "indices of shape %s do not fit data of shape %s: the first axis of indices counts indexed axes",
            mx_shape_text(indices, a), mx_shape_text(data, b));
    out->ndim = 0;
    for (int i = 1; i < indices->ndim; i++)
        out->dim[out->ndim++] = indices->dim[i];
    for (int i = (int)m; i < data->ndim; i++)
        out->dim[out->ndim++] = data->dim[i];
    return MX_OK;
}

static mx_code infer_gather(mx_infer *infer)
{
    mx_shape_t out;
    if (!mx_shape_known(&infer->in[0]) || !mx_shape_known(&infer->in[1]))
        return MX_OK;
    return gathered_shape(infer, &infer->in[0], &infer->in[1], &out) ? mx_error_code() : mx_infer_out(infer, 0, &out);
}

/* For scatter_nd(data, indices) and _scatter_set_nd(lhs, rhs, indices): the result has the shape of the attribute. */
static mx_code infer_scatter(mx_infer *infer)
{
    const mx_scatter_nd_attrs *attrs = infer->attrs;
    const int data = infer->n_in - 2, indices = infer->n_in - 1;
    mx_shape_t shape = mx_shape_of_dims(&attrs->shape), back;
    if (shape.ndim < 0)
        return mx_error_code();
    if (mx_shape_known(&infer->in[indices]) &&
        (gathered_shape(infer, &shape, &infer->in[indices], &back) || mx_infer_in(infer, data, &back)))
        return mx_error_code();
    if (infer->n_in == 3 && mx_infer_in(infer, 0, &shape))
        return mx_error_code();
    return mx_infer_out(infer, 0, &shape);
}

static mx_code infer_set_type(mx_infer *infer)
{
    return infer_data_type(infer) ? mx_error_code() : mx_infer_in_type(infer, 1, infer->out_type[0]);
}

static mx_array *scatter(mx_op *op, mx_array *g, mx_array *indices, const mx_shape_t *shape)
{
    mx_scatter_nd_attrs attrs = {mx_dims_of_shape(shape)};
    return mx_g_call(op, &attrs, 2, (mx_array *const[]){g, indices});
}

static mx_code grad_gather(mx_grad *grad)
{
    if (!grad->wanted[0])
        return MX_OK;
    return mx_give(grad, 0, scatter(MX_OP("_backward_gather_nd"), grad->ograd[0], grad->in[1], &grad->in_shape[0]));
}

static mx_code grad_scatter(mx_grad *grad)
{
    return grad->wanted[0] ? mx_give(grad, 0, mx_g2("gather_nd", grad->ograd[0], grad->in[1])) : MX_OK;
}

/* d lhs = g with zeros at the indices, d rhs = g[indices] */
static mx_code grad_set(mx_grad *grad)
{
    mx_array *g = grad->ograd[0], *indices = grad->in[2];
    if (grad->wanted[1] && mx_give(grad, 1, mx_g2("gather_nd", g, indices)))
        return mx_error_code();
    if (!grad->wanted[0])
        return MX_OK;
    mx_array *zeros = mx_g_zeros(&grad->in_shape[1], grad->in_type[1], g->context);
    return mx_give(grad, 0,
                   mx_g_call(MX_OP("_scatter_set_nd"), grad->attrs, 3, (mx_array *const[]){g, zeros, indices}));
}

/* Offset of position k, and the size of the block there. */
static int64_t reference_place(const mx_shape_t *data, const mx_shape_t *indices, const double *index, int64_t k,
                               int64_t *block)
{
    const int64_t m = indices->dim[0], places = m ? mx_shape_size(indices) / m : 1;
    int64_t offset = 0;
    *block = 1;
    for (int i = 0; i < data->ndim; i++) {
        int64_t at = i < m ? (int64_t)index[i * places + k] : 0;
        offset = offset * data->dim[i] + (at < 0 ? at + data->dim[i] : at);
        *block *= i < m ? 1 : data->dim[i];
    }
    return offset;
}

static int64_t reference_places(const mx_shape_t *indices)
{
    int64_t places = 1;
    for (int i = 1; i < indices->ndim; i++)
        places *= indices->dim[i];
    return places;
}

static void ref_gather(const mx_reference_call *call)
{
    for (int64_t k = 0; k < reference_places(&call->in_shape[1]); k++) {
        int64_t block, at = reference_place(&call->in_shape[0], &call->in_shape[1], call->in[1], k, &block);
        for (int64_t i = 0; i < block; i++)
            call->out[0][k * block + i] = call->in[0][at + i];
    }
}

static void reference_scatter(const mx_reference_call *call, const double *start, const double *data, int indices,
                              bool add)
{
    for (int64_t i = 0; i < mx_shape_size(&call->out_shape[0]); i++)
        call->out[0][i] = start ? start[i] : 0;
    for (int64_t k = 0; k < reference_places(&call->in_shape[indices]); k++) {
        int64_t block,
            at = reference_place(&call->out_shape[0], &call->in_shape[indices], call->in[indices], k, &block);
        for (int64_t i = 0; i < block; i++)
            call->out[0][at + i] = data[k * block + i] + (add ? call->out[0][at + i] : 0);
    }
}
static void ref_scatter(const mx_reference_call *call) { reference_scatter(call, NULL, call->in[0], 1, false); }
static void ref_scatter_add(const mx_reference_call *call) { reference_scatter(call, NULL, call->in[0], 1, true); }
static void ref_set(const mx_reference_call *call) { reference_scatter(call, call->in[0], call->in[1], 2, false); }

/* ---- index_copy ----------------------------------------------------------------------------------------------- */
/* old (N, ...), index (K), new (K, ...): out = old, out[index[k]] = new[k] */

static mx_code infer_index_copy(mx_infer *infer)
{
    mx_shape_t rows = infer->in[0];
    if (rows.ndim < 0)
        return MX_OK;
    if (rows.ndim == 0)
        return mx_op_fail(infer->op, MX_ERR_SHAPE, "old_tensor must have an axis");
    rows.dim[0] = infer->in[1].ndim == 1 ? infer->in[1].dim[0] : -1;
    mx_shape_t vector = {1, {infer->in[2].ndim > 0 ? infer->in[2].dim[0] : -1}};
    if (mx_infer_in(infer, 1, &vector) || mx_infer_in(infer, 2, &rows))
        return mx_error_code();
    return mx_infer_out(infer, 0, &infer->in[0]);
}

static mx_code infer_index_copy_type(mx_infer *infer)
{
    return infer_data_type(infer) ? mx_error_code() : mx_infer_in_type(infer, 2, infer->out_type[0]);
}

static mx_code grad_index_copy(mx_grad *grad)
{
    mx_array *g = grad->ograd[0], *index = grad->in[1];
    if (grad->wanted[2] && mx_give(grad, 2, mx_g2("take", g, index)))
        return mx_error_code();
    if (!grad->wanted[0])
        return MX_OK;
    mx_array *zeros = mx_g_zeros(&grad->in_shape[2], grad->in_type[2], g->context);
    return mx_give(grad, 0, mx_g3("_contrib_index_copy", g, index, zeros));
}

static void ref_index_copy(const mx_reference_call *call)
{
    const mx_split s = mx_split_at(&call->in_shape[0], 0);
    for (int64_t i = 0; i < s.size * s.after; i++)
        call->out[0][i] = call->in[0][i];
    for (int64_t k = 0; k < call->in_shape[1].dim[0]; k++)
        for (int64_t i = 0; i < s.after; i++)
            call->out[0][(int64_t)call->in[1][k] * s.after + i] = call->in[2][k * s.after + i];
}

/* ---- boolean_mask --------------------------------------------------------------------------------------------- */
/* The rows of data whose index is not zero.  Their number depends on the values, so this operator
 * cannot be traced without values. */

#define COUNT_SET(T)                                                            \
    for (int64_t i = 0; i < n; i++)                                             \
        count += (T)(((const T *)value)[i] << real) != 0

/* Elements that are not zero; the highest bit of a floating zero may be set. */
static int64_t count_set(const void *value, int64_t n, mx_dtype dtype)
{
    const int real = mx_dtype_is_float(dtype);
    int64_t count = 0;
    switch (mx_dtype_size(dtype)) {
    case 1: COUNT_SET(uint8_t); break;
    case 2: COUNT_SET(uint16_t); break;
    case 4: COUNT_SET(uint32_t); break;
    default: COUNT_SET(uint64_t); break;
    }
    return count;
}

static mx_code infer_mask(mx_infer *infer)
{
    mx_shape_t out = infer->in[0], index = {1, {out.ndim > 0 ? out.dim[0] : -1}};
    if (out.ndim < 0)
        return MX_OK;
    if (out.ndim == 0)
        return mx_op_fail(infer->op, MX_ERR_SHAPE, "data must have an axis");
    if (mx_infer_in(infer, 1, &index))
        return mx_error_code();
    out.dim[0] = out.dim[0] == 0 ? 0 : -1;
    if (infer->values && out.dim[0]) {
        MX_SCOPE;
        mx_array *mask = infer->values[1];
        mx_array *host = mx_array_to(mask, mx_cpu(0));
        const void *value = host ? mx_array_data(host) : NULL;
        if (!value)
            return mx_error_code();
        out.dim[0] = count_set(value, mask->size, (mx_dtype)mask->dtype);
    }
    return mx_infer_out(infer, 0, &out);
}

static mx_code grad_mask(mx_grad *grad)
{
    if (!grad->wanted[0])
        return MX_OK;
    return mx_give(grad, 0, scatter(MX_OP("_backward_boolean_mask"), grad->ograd[0], grad->in[1], &grad->in_shape[0]));
}

static mx_code grad_unmask(mx_grad *grad)
{
    return grad->wanted[0] ? mx_give(grad, 0, mx_g2("_contrib_boolean_mask", grad->ograd[0], grad->in[1])) : MX_OK;
}

static mx_code infer_unmask(mx_infer *infer)
{
    const mx_scatter_nd_attrs *attrs = infer->attrs;
    mx_shape_t shape = mx_shape_of_dims(&attrs->shape);
    if (shape.ndim < 1)
        return mx_op_fail(infer->op, MX_ERR_ATTRIBUTE, "shape must have an axis");
    mx_shape_t index = {1, {shape.dim[0]}}, rows = infer->in[0];
    if (rows.ndim >= 1) { /* as many rows as the index selects, each of the result's size */
        const int64_t count = rows.dim[0];
        rows = shape, rows.dim[0] = count;
        if (mx_infer_in(infer, 0, &rows))
            return mx_error_code();
    } else if (rows.ndim == 0)
        return mx_op_fail(infer->op, MX_ERR_SHAPE, "data must have an axis");
    return mx_infer_in(infer, 1, &index) ? mx_error_code() : mx_infer_out(infer, 0, &shape);
}

static void reference_mask(const mx_reference_call *call, const mx_shape_t *whole, const double *mask, bool back)
{
    const mx_split s = mx_split_at(whole, 0);
    int64_t n = 0;
    for (int64_t i = 0; i < s.size; i++)
        for (int64_t k = 0; k < s.after; k++) {
            const bool set = mask[i] != 0;
            if (back)
                call->out[0][i * s.after + k] = set ? call->in[0][n++] : 0;
            else if (set)
                call->out[0][n++] = call->in[0][i * s.after + k];
        }
}
static void ref_mask(const mx_reference_call *call) { reference_mask(call, &call->in_shape[0], call->in[1], false); }
static void ref_unmask(const mx_reference_call *call) { reference_mask(call, &call->out_shape[0], call->in[1], true); }

// clang-format off
#define INDEXED .no_grad_inputs = 2, .grad_in = 2, .infer_type = infer_data_type
#define SCATTER INDEXED, .inputs = "data indices", .schema = &scatter_nd_schema, .infer_shape = infer_scatter, \
    .gradient = grad_scatter

mx_op mx_family_gather[] = {
    {.name = "gather_nd", .methods = "gather_nd", .aliases = "_npi_gather_nd _npx_gather_nd",
     .doc = "elements or blocks at the indices given by the columns of indices", .inputs = "data indices", INDEXED,
     .infer_shape = infer_gather, .gradient = grad_gather, .reference = ref_gather,
     .samples = (const mx_sample[]){{"3,4;2,5", "", 0, 3, "int:1"}, {"3,4,2;1,3", "", -3, 3, "int:1"},
         {"2,3,2;2,2,2", "", 0, 2, "int:1"}, {"3,3;2,0", "", 0, 3, "int:1"}, {0}}},
    {.name = "_backward_gather_nd", .doc = "zeros to which data is added at the indices: the adjoint of gather_nd",
     SCATTER, .flags = MX_OP_HIDDEN, .reference = ref_scatter_add,
     .samples = (const mx_sample[]){{"5;2,5", "shape=(2, 3)", 0, 2, "int:1"},
         {"4,2;1,4", "shape=(3, 2)", 0, 3, "int:1"}, {0}}},
    {.name = "scatter_nd", .methods = "scatter_nd",
     .doc = "writes data into zeros at the indices; of equal indices the last one wins", SCATTER,
     .reference = ref_scatter,
     .samples = (const mx_sample[]){{"5;2,5", "shape=(4, 4)", 0, 4, "int:1 nograd"},
         {"2,3;1,2", "shape=(4, 3)", -4, 4, "int:1 nograd"}, {"1;2,1", "shape=(2, 3)", 0, 2, "int:1"}, {0}}},
    {.name = "_scatter_set_nd", .aliases = "_npi_scatter_set_nd", .doc = "lhs with rhs written at the indices",
     .inputs = "lhs rhs indices", .schema = &scatter_nd_schema,
     .flags = MX_OP_INPLACE, .infer_shape = infer_scatter, .infer_type = infer_set_type, .no_grad_inputs = 4,
     .grad_in = 4, .gradient = grad_set, .reference = ref_set,
     .samples = (const mx_sample[]){{"4,3;5;2,5", "shape=(4, 3)", 0, 3, "int:2 nograd"},
         {"4,3;2,3;1,2", "shape=(4, 3)", 0, 4, "int:2 nograd"}, {"3;1;1,1", "shape=(3,)", 0, 3, "int:2"}, {0}}},
    {.name = "_contrib_index_copy", .c_name = "index_copy",
     .doc = "old_tensor with rows replaced by those of new_tensor", .inputs = "old_tensor index_vector new_tensor",
     .infer_shape = infer_index_copy, .infer_type = infer_index_copy_type, .no_grad_inputs = 2, .grad_in = 2,
     .gradient = grad_index_copy, .reference = ref_index_copy,
     .samples = (const mx_sample[]){{"5,3;2;2,3", "", 0, 5, "int:1 nograd"}, {"4;1;1", "", 0, 4, "int:1"}, {0}}},
    {.name = "_contrib_boolean_mask", .aliases = "_npi_boolean_mask", .c_name = "boolean_mask",
     .doc = "the rows of data whose index is not zero", .inputs = "data index",
     .schema = &boolean_mask_schema, INDEXED, .infer_shape = infer_mask, .gradient = grad_mask, .reference = ref_mask,
     .samples = (const mx_sample[]){{"5,3;5", "", 0, 2, "int:1"}, {"4;4", "", 0, 1, "int:1"},
         {"3,2;3", "axis=0", 1, 3, "int:1"}, {0}}},
    {.name = "_backward_boolean_mask",
     .doc = "zeros with the rows of data where the index is not zero: the adjoint of boolean_mask",
     .inputs = "data index",
     .schema = &scatter_nd_schema, .flags = MX_OP_HIDDEN, INDEXED, .infer_shape = infer_unmask, .gradient = grad_unmask,
     .reference = ref_unmask,
     .samples = (const mx_sample[]){{"3,2;3", "shape=(3, 2)", 1, 3, "int:1"}, {0}}},
    {0},
};
// clang-format on
