/* where: elements of one array or another, chosen by a condition.  SPDX-License-Identifier: Apache-2.0 */
#include "op/emit.h"
#include "op/op.h"

/* The condition has the shape of x, or one axis: then it selects rows. */
static mx_code infer_where(mx_infer *infer)
{
    mx_shape_t *condition = &infer->in[0];
    char a[MX_SHAPE_TEXT], b[MX_SHAPE_TEXT];
    if (mx_infer_in(infer, 2, &infer->in[1]) || mx_infer_in(infer, 1, &infer->in[2]) ||
        mx_infer_out(infer, 0, &infer->in[1]) || mx_infer_in(infer, 1, &infer->out[0]) ||
        mx_infer_in(infer, 2, &infer->out[0]))
        return mx_error_code();
    const mx_shape_t *x = &infer->in[1];
    if (!mx_shape_known(x) || !mx_shape_known(condition))
        return MX_OK;
    if (mx_shape_equal(x, condition) || (condition->ndim == 1 && x->ndim >= 1 && condition->dim[0] == x->dim[0]))
        return MX_OK;
    return mx_op_fail(infer->op, MX_ERR_SHAPE, "condition has shape %s, wanted that of x, %s, or only its first axis",
                      mx_shape_text(condition, a), mx_shape_text(x, b));
}

static mx_code infer_where_type(mx_infer *infer)
{
    if (mx_infer_in_type(infer, 1, infer->in_type[2]) || mx_infer_in_type(infer, 2, infer->in_type[1]))
        return mx_error_code();
    return mx_infer_out_type(infer, 0, infer->in_type[1]);
}

/* dx = g where the condition holds, dy = g where it does not */
static mx_code grad_where(mx_grad *grad)
{
    mx_array *g = grad->ograd[0], *zero = mx_g1("zeros_like", g);
    mx_code code = grad->wanted[1] ? mx_give(grad, 1, mx_g3("where", grad->in[0], g, zero)) : MX_OK;
    return code || !grad->wanted[2] ? code : mx_give(grad, 2, mx_g3("where", grad->in[0], zero, g));
}

static void ref_where(const mx_reference_call *call)
{
    const int64_t size = mx_shape_size(&call->out_shape[0]), conditions = mx_shape_size(&call->in_shape[0]);
    for (int64_t i = 0; i < size; i++)
        call->out[0][i] = call->in[0][i / (size / conditions)] != 0 ? call->in[1][i] : call->in[2][i];
}

/* ---- as C text (op/emit.h) ---------------------------------------------------------------------------------------- */

static mx_code emit_where(const mx_emit_call *n)
{
    const int64_t rows = mx_shape_size(n->x), all = mx_shape_size(n->y);
    mx_emit_open(n, "choose", 3);
    mx_emit_print(n, "%lld, %lld", (long long)all, (long long)mx_emit_over(all, rows));
    return mx_emit_close(n);
}

mx_op mx_family_where[] = {
    {.name = "where", MX_EMIT(emit_where), .methods = "where", .precision = MX_PRECISION_WIDEST, .aliases = "_sparse_where _npi_where",
     .doc = "elements of x where the condition is not 0, of y elsewhere",
     .inputs = "condition x y", .infer_shape = infer_where, .infer_type = infer_where_type, .gradient = grad_where,
     .grad_in = 1, .no_grad_inputs = 1, .reference = ref_where,
     .samples = (const mx_sample[]){{"2,3;2,3;2,3", "", 0, 2, "int:0"}, {"3;3,2;3,2", "", 0, 2, "int:0"},
                                    {"40;40;40", "", -1, 2, "int:0"}, {0}}},
    {0},
};
