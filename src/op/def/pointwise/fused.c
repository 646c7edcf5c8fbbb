/* Used only by plans: several operators as one step.  (Convolution and dense with relu are in their families' files.)
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "op/formula/fused.h"

#include <math.h>

#include "base/error.h"
#include "op/op.h"

/* ---- _pointwise ------------------------------------------------------------------------------------------------------ */

static void reference_pointwise(const mx_reference_call *call)
{
    for (int64_t i = 0; i < mx_shape_size(&call->out_shape[0]); i++)
        call->out[0][i] = call->in[0][i];
}

/* ---- _fold_norm: folds a batch normalisation into the convolution before it -------------------------------------------- */

#define FOLD_NORM_ATTRS(X) \
    X(FLOAT, eps, "1e-3", "", "added to the variance") \
    X(BOOL, fix_gamma, "True", "", "treat gamma as 1")
MX_ATTRS(fold_norm, FOLD_NORM_ATTRS)

static mx_code infer_fold(mx_infer *infer)
{
    mx_shape_t channels = {.ndim = 1, .dim = {infer->in[0].ndim > 0 ? infer->in[0].dim[0] : -1}};
    for (int i = 1; i < infer->n_in; i++)
        if ((i < 5 || infer->in[i].ndim >= 0) && mx_infer_in(infer, i, &channels))
            return mx_error_code();
    return mx_infer_out(infer, 0, &infer->in[0]) || mx_infer_out(infer, 1, &channels) ? mx_error_code() : MX_OK;
}

/* Statistics may be of a wider type than a 16-bit weight. */
static mx_code infer_fold_type(mx_infer *infer)
{
    for (int i = 1; i < infer->n_in; i++)
        if (i < 5 && infer->in_type[i] == MX_DTYPE_NONE)
            infer->in_type[i] = infer->in_type[0];
        else if (infer->in_type[i] != MX_DTYPE_NONE && !mx_dtype_is_float(infer->in_type[i]))
            return mx_op_fail(infer->op, MX_ERR_DTYPE, "input %d is not floating-point", i);
    return mx_infer_out_type(infer, 0, infer->in_type[0]) || mx_infer_out_type(infer, 1, infer->in_type[0])
               ? mx_error_code()
               : MX_OK;
}

/* s = gamma / sqrt(var + eps);  weight' = weight s per output channel;  bias' = (bias - mean) s + beta */
static void reference_fold(const mx_reference_call *call)
{
    const mx_fold_norm_attrs *a = call->attrs;
    const int64_t channels = call->in_shape[0].dim[0], each = mx_shape_size(&call->in_shape[0]) / channels;
    for (int64_t c = 0; c < channels; c++) {
        const double s = (a->fix_gamma ? 1 : call->in[1][c]) / sqrt(call->in[4][c] + a->eps);
        const double bias = call->n_in > 5 && call->in[5] ? call->in[5][c] : 0;
        for (int64_t i = 0; i < each; i++)
            call->out[0][c * each + i] = call->in[0][c * each + i] * s;
        call->out[1][c] = (bias - call->in[3][c]) * s + call->in[2][c];
    }
}

#define SIX "3,2,2;3;3;3;3;3"
mx_op mx_family_fused[] = {
    {.name = "_pointwise", .doc = "a chain of pointwise functions in one loop over tiles; without a program, the first input",
     .inputs = "*data", .flags = MX_OP_LIST | MX_OP_INPLACE | MX_OP_HIDDEN | MX_OP_NO_GRADIENT, .reference = reference_pointwise,
     .samples = (const mx_sample[]){{"2,3", "", 0, 0, NULL}, {0}}},
    {.name = "_fold_norm", .doc = "folds a batch normalisation into the weight and bias of the convolution before it",
     .inputs = "weight gamma beta mean var bias?", .outputs = "weight bias", .schema = &fold_norm_schema, .n_out = 2,
     .flags = MX_OP_HIDDEN | MX_OP_NO_GRADIENT, .infer_shape = infer_fold, .infer_type = infer_fold_type,
     .reference = reference_fold,
     .samples = (const mx_sample[]){{SIX, "fix_gamma=False", 0.2, 2, "floatonly"}, {SIX, "", 0.2, 2, "floatonly"},
                                    {"3,2,2;3;3;3;3", "fix_gamma=False, eps=0.1", 0.2, 2, "floatonly absent:5"}, {0}}},
    {0},
};
