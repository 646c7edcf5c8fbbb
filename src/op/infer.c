/* Shape and type inference: the frame around the operators' own rules.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "base/error.h"
#include "op/expect.h"
#include "op/op.h"

static mx_code conflict(mx_infer *infer, const char *what, const char *name, const mx_shape_t *have,
                        const mx_shape_t *want)
{
    char a[MX_SHAPE_TEXT], b[MX_SHAPE_TEXT];
    return mx_op_fail(infer->op, MX_ERR_SHAPE, "%s %s has shape %s, wanted %s", what, name, mx_shape_text(have, a),
                      mx_shape_text(want, b));
}

mx_code mx_infer_in(mx_infer *infer, int i, const mx_shape_t *shape)
{
    char name[64];
    if (mx_shape_merge(&infer->in[i], shape, NULL))
        return MX_OK;
    return conflict(infer, "input", mx_op_input_name(infer->op, i, name), &infer->in[i], shape);
}

mx_code mx_infer_out(mx_infer *infer, int i, const mx_shape_t *shape)
{
    char name[64];
    if (mx_shape_merge(&infer->out[i], shape, NULL))
        return MX_OK;
    return conflict(infer, "output", mx_op_output_name(infer->op, i, name), &infer->out[i], shape);
}

mx_code mx_infer_expects(mx_infer *infer, int i, int ndim, int axis, int64_t factor, int64_t size, const char *unit)
{
    char name[64];
    const mx_shape_t *shape = &infer->in[i];
    if (shape->ndim != ndim || shape->dim[axis] < 0 || size < 0 || shape->dim[axis] * factor == size)
        return MX_OK;
    return mx_op_fail(infer->op, MX_ERR_SHAPE, "data has %lld %s, %s expects %lld", (long long)size, unit,
                      mx_op_input_name(infer->op, i, name), (long long)(shape->dim[axis] * factor));
}

static mx_code type_conflict(mx_infer *infer, const char *what, const char *name, int have, int want)
{
    return mx_op_fail(infer->op, MX_ERR_DTYPE, "%s %s is %s, wanted %s", what, name, mx_dtype_name((mx_dtype)have),
                      mx_dtype_name((mx_dtype)want));
}

/* False if both are known and differ. */
static inline bool merge_type(int *have, int want)
{
    if (*have == MX_DTYPE_NONE)
        *have = want;
    return want == MX_DTYPE_NONE || *have == want;
}

mx_code mx_infer_in_type(mx_infer *infer, int i, int dtype)
{
    char name[64];
    if (merge_type(&infer->in_type[i], dtype))
        return MX_OK;
    return type_conflict(infer, "input", mx_op_input_name(infer->op, i, name), infer->in_type[i], dtype);
}

mx_code mx_infer_out_type(mx_infer *infer, int i, int dtype)
{
    char name[64];
    if (merge_type(&infer->out_type[i], dtype))
        return MX_OK;
    return type_conflict(infer, "output", mx_op_output_name(infer->op, i, name), infer->out_type[i], dtype);
}

/* Fast path for the usual case: all inputs have one known shape and the outputs are unknown. */
bool mx_infer_equal_shapes(mx_infer *infer)
{
    const mx_shape_t *first = &infer->in[0];
    if (infer->n_in < 1 || first->ndim < 0)
        return false;
    bool equal = true;
    for (int i = 0; i < first->ndim; i++)
        equal &= first->dim[i] >= 0;
    for (int k = 1; k < infer->n_in; k++) {
        equal &= infer->in[k].ndim == first->ndim;
        for (int i = 0; i < first->ndim && equal; i++)
            equal = infer->in[k].dim[i] == first->dim[i];
    }
    for (int k = 0; k < infer->n_out; k++)
        equal &= infer->out[k].ndim == -1;
    for (int k = 0; k < infer->n_out && equal; k++) {
        infer->out[k].ndim = first->ndim;
        for (int i = 0; i < first->ndim; i++)
            infer->out[k].dim[i] = first->dim[i];
    }
    return equal;
}

mx_code mx_infer_same_shape(mx_infer *infer)
{
    if (mx_infer_equal_shapes(infer))
        return MX_OK;
    mx_shape_t all = MX_UNKNOWN_SHAPE;
    for (int pass = 0; pass < 2; pass++) { /* the second pass spreads what the first one found */
        for (int i = 0; i < infer->n_in; i++)
            if (mx_infer_in(infer, i, &all) || !mx_shape_merge(&all, &infer->in[i], NULL))
                return mx_error_code();
        for (int i = 0; i < infer->n_out; i++)
            if (mx_infer_out(infer, i, &all) || !mx_shape_merge(&all, &infer->out[i], NULL))
                return mx_error_code();
        if (mx_shape_known(&all) && (infer->n_in < 1 || (infer->n_in == 1 && mx_shape_known(&infer->in[0]))))
            break;
    }
    return MX_OK;
}

static bool equal_types(mx_infer *infer) /* as mx_infer_equal_shapes */
{
    bool equal = infer->n_in > 0 && infer->in_type[0] != MX_DTYPE_NONE;
    for (int k = 1; k < infer->n_in; k++)
        equal &= infer->in_type[k] == infer->in_type[0];
    for (int k = 0; k < infer->n_out; k++)
        equal &= infer->out_type[k] == MX_DTYPE_NONE;
    for (int k = 0; k < infer->n_out && equal; k++)
        infer->out_type[k] = infer->in_type[0];
    return equal;
}

mx_code mx_infer_same_type(mx_infer *infer)
{
    int all = MX_DTYPE_NONE;
    if (equal_types(infer))
        return MX_OK;
    for (int i = 0; i < infer->n_in && all == MX_DTYPE_NONE; i++)
        all = infer->in_type[i];
    for (int i = 0; i < infer->n_out && all == MX_DTYPE_NONE; i++)
        all = infer->out_type[i];
    for (int i = 0; i < infer->n_in; i++)
        if (mx_infer_in_type(infer, i, all))
            return mx_error_code();
    for (int i = 0; i < infer->n_out; i++)
        if (mx_infer_out_type(infer, i, all))
            return mx_error_code();
    return MX_OK;
}

static int gather_shapes(const mx_infer *infer, const int *from, mx_shape_t *shapes)
{
    int n = 0;
    for (; from[n] != -2; n++)
        shapes[n] = from[n] < 0 ? MX_UNKNOWN_SHAPE : infer->in[from[n]];
    return n;
}

mx_code mx_infer_through(mx_infer *infer, mx_code (*forward)(mx_infer *), const int *in, const int *out)
{
    mx_shape_t in_shapes[MX_MAX_DECLARED], out_shapes[MX_MAX_DECLARED];
    mx_infer f = {.op = infer->op, .attrs = infer->attrs, .in = in_shapes, .out = out_shapes};
    f.n_in = gather_shapes(infer, in, in_shapes);
    f.n_out = gather_shapes(infer, out, out_shapes);
    return forward(&f);
}

mx_code mx_op_infer(mx_infer *infer)
{
    const mx_op *op = infer->op;
    mx_code code = op->infer_shape ? op->infer_shape(infer) : mx_infer_same_shape(infer);
    if (code)
        return code;
    return op->infer_type ? op->infer_type(infer) : mx_infer_same_type(infer);
}
