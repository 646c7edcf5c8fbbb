/* cast_storage and _sparse_retain on dense arrays; exec/sparse/sparse.c runs them on sparse ones.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "base/error.h"
#include "op/op.h"

#define STORAGE_ATTRS(X) X(ENUM, stype, REQUIRED, "default|row_sparse|csr", "storage of the result if data is sparse; dense data stays dense")
MX_ATTRS(cast_storage, STORAGE_ATTRS)

static mx_code grad_cast(mx_grad *grad) { return mx_give(grad, 0, grad->ograd[0]); }

static void ref_cast(const mx_reference_call *call)
{
    for (int64_t i = 0; i < mx_shape_size(&call->in_shape[0]); i++)
        call->out[0][i] = call->in[0][i];
}

/* ---- retain: rows whose number is in the list; zeros elsewhere ------------------------------------------------------ */

static mx_code infer_retain(mx_infer *infer)
{
    const mx_shape_t *data = &infer->in[0], *indices = &infer->in[1];
    char text[MX_SHAPE_TEXT];
    if (data->ndim == 0)
        return mx_op_fail(infer->op, MX_ERR_SHAPE, "data has shape (), wanted rows");
    if (indices->ndim >= 0 && indices->ndim != 1)
        return mx_op_fail(infer->op, MX_ERR_SHAPE, "indices has shape %s, wanted one axis",
                          mx_shape_text(indices, text));
    return mx_infer_out(infer, 0, data) ? mx_error_code() : mx_infer_in(infer, 0, &infer->out[0]);
}

static mx_code infer_retain_type(mx_infer *infer)
{
    return mx_infer_out_type(infer, 0, infer->in_type[0]) ? mx_error_code()
                                                          : mx_infer_in_type(infer, 0, infer->out_type[0]);
}

static mx_code grad_retain(mx_grad *grad) /* a mask: its own transpose */
{
    return grad->wanted[0] ? mx_give(grad, 0, mx_g2("_sparse_retain", grad->ograd[0], grad->in[1])) : MX_OK;
}

static void ref_retain(const mx_reference_call *call)
{
    const int64_t rows = call->in_shape[0].dim[0], run = rows ? mx_shape_size(&call->in_shape[0]) / rows : 0;
    for (int64_t row = 0; row < rows; row++) {
        bool kept = false;
        for (int64_t i = 0; i < mx_shape_size(&call->in_shape[1]); i++)
            kept |= call->in[1][i] == (double)row;
        for (int64_t i = 0; i < run; i++)
            call->out[0][row * run + i] = kept ? call->in[0][row * run + i] : 0;
    }
}

#define SAMPLES(...) (const mx_sample[]){__VA_ARGS__, {0}}
mx_op mx_family_storage[] = {
    {.name = "cast_storage", .flags = MX_OP_IDENTITY, .sparse = MX_SPARSE_STORAGE, .sparse_gradient = true,
     .aliases = "_sparse_cast_storage",
     .inputs = "data",
     .doc = "converts an array to another storage type; dense arrays stay dense (mx_tostype creates sparse ones)",
     .schema = &cast_storage_schema,
     .gradient = grad_cast, .reference = ref_cast, .samples = SAMPLES({"2,3", "stype=default", 0, 0, NULL}, {"4", "stype=row_sparse", 0, 0, NULL})},
    {.name = "_sparse_retain", .sparse = MX_SPARSE_RETAIN, .c_name = "sparse_retain", .inputs = "data indices",
     .doc = "keeps the rows in indices and sets all others to zero",
     .infer_shape = infer_retain, .infer_type = infer_retain_type, .gradient = grad_retain, .grad_in = 2, .no_grad_inputs = 2, .reference = ref_retain,
     .samples = SAMPLES({"5,3;2", "", 0, 5, "int:1"}, {"4;3", "", 0, 4, "int:1"}, {"6,2,2;4", "", 0, 6, "int:1"})},
    {0},
};
