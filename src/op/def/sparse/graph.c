/* Graphs as csr matrices, element (u, v) being the number of the edge from u to v: how many edges, which, whether.
 *
 * exec/sparse computes with the stored elements, so an edge with number 0 counts; on dense arrays 0 means no edge.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "base/error.h"
#include "op/op.h"

#define GETNNZ_ATTRS(X) X(INT, axis, "None", "", "0: per column, 1: per row; None: of the entire matrix")
MX_ATTRS(getnnz, GETNNZ_ATTRS)

static mx_code want_matrix(const mx_infer *infer)
{
    char text[MX_SHAPE_TEXT];
    if (infer->in[0].ndim < 0 || infer->in[0].ndim == 2)
        return MX_OK;
    return mx_op_fail(infer->op, MX_ERR_SHAPE, "data has shape %s, wanted a matrix",
                      mx_shape_text(&infer->in[0], text));
}

/* ---- getnnz ------------------------------------------------------------------------------------------------------ */

static mx_code check_getnnz(const void *attrs)
{
    const int64_t axis = ((const mx_getnnz_attrs *)attrs)->axis;
    if (axis == MX_NONE_INT || axis == 0 || axis == 1)
        return MX_OK;
    return mx_fail(MX_ERR_ARGUMENT, "_contrib_getnnz: axis is %lld, wanted None, 0 or 1", (long long)axis);
}

static mx_code infer_getnnz(mx_infer *infer)
{
    const int64_t axis = ((const mx_getnnz_attrs *)infer->attrs)->axis;
    if (want_matrix(infer) || infer->in[0].ndim < 0)
        return mx_error_code();
    const mx_shape_t out = {.ndim = 1, .dim = {axis == MX_NONE_INT ? 1 : infer->in[0].dim[1 - axis]}};
    return mx_infer_out(infer, 0, &out);
}

static mx_code infer_getnnz_type(mx_infer *infer) { return mx_infer_out_type(infer, 0, MX_INT64); }

static void ref_getnnz(const mx_reference_call *call)
{
    const int64_t axis = ((const mx_getnnz_attrs *)call->attrs)->axis;
    const int64_t rows = call->in_shape[0].dim[0], columns = call->in_shape[0].dim[1];
    for (int64_t i = 0; i < mx_shape_size(&call->out_shape[0]); i++)
        call->out[0][i] = 0;
    for (int64_t i = 0; i < rows * columns; i++)
        if (call->in[0][i] != 0)
            call->out[0][axis == MX_NONE_INT ? 0 : axis ? i / columns : i % columns]++;
}

/* ---- edge_id ----------------------------------------------------------------------------------------------------- */

static mx_code infer_edge_id(mx_infer *infer)
{
    char text[MX_SHAPE_TEXT];
    for (int i = 1; i < 3; i++)
        if (infer->in[i].ndim >= 0 && infer->in[i].ndim != 1)
            return mx_op_fail(infer->op, MX_ERR_SHAPE, "%s has shape %s, wanted one axis", i == 1 ? "u" : "v",
                              mx_shape_text(&infer->in[i], text));
    if (want_matrix(infer) || mx_infer_in(infer, 1, &infer->in[2]) || mx_infer_in(infer, 2, &infer->in[1]))
        return mx_error_code();
    return mx_infer_out(infer, 0, &infer->in[1]);
}

static mx_code infer_edge_id_type(mx_infer *infer) { return mx_infer_out_type(infer, 0, infer->in_type[0]); }

static void ref_edge_id(const mx_reference_call *call)
{
    const int64_t columns = call->in_shape[0].dim[1];
    for (int64_t i = 0; i < mx_shape_size(&call->out_shape[0]); i++) {
        const double edge = call->in[0][(int64_t)call->in[1][i] * columns + (int64_t)call->in[2][i]];
        call->out[0][i] = edge != 0 ? edge : -1;
    }
}

/* ---- dgl_adjacency ----------------------------------------------------------------------------------------------- */

static mx_code infer_float32(mx_infer *infer) { return mx_infer_out_type(infer, 0, MX_FLOAT32); }

static void ref_adjacency(const mx_reference_call *call)
{
    for (int64_t i = 0; i < mx_shape_size(&call->out_shape[0]); i++)
        call->out[0][i] = call->in[0][i] != 0;
}

// clang-format off
#define SAMPLES(...) (const mx_sample[]){__VA_ARGS__, {0}}
mx_op mx_family_graph[] = {
    {.name = "_contrib_getnnz", .c_name = "getnnz", .sparse = MX_SPARSE_FOLD, .inputs = "data",
     .doc = "number of stored elements of a csr matrix, zeros among them included; of a dense one: elements that are not 0",
     .schema = &getnnz_schema, .check = check_getnnz, .flags = MX_OP_NO_GRADIENT,
     .infer_shape = infer_getnnz, .infer_type = infer_getnnz_type, .reference = ref_getnnz,
     .samples = SAMPLES({"3,4", "", -1, 3, "int:0"}, {"3,4", "axis=0", -1, 3, "int:0"}, {"5,2", "axis=1", -1, 3, "int:0"})},
    {.name = "_contrib_edge_id", .c_name = "edge_id", .sparse = MX_SPARSE_TAKE, .inputs = "data u v",
     .doc = "data[u[i], v[i]] for every i, the number of an edge in a graph; -1 where there is none",
     .flags = MX_OP_NO_GRADIENT,
     .infer_shape = infer_edge_id, .infer_type = infer_edge_id_type, .reference = ref_edge_id,
     .samples = SAMPLES({"4,4;5;5", "", 0, 4, "int:0 int:1 int:2"}, {"3,5;2;2", "", 0, 3, "int:0 int:1 int:2"})},
    {.name = "_contrib_dgl_adjacency", .c_name = "dgl_adjacency", .sparse = MX_SPARSE_ZEROS, .inputs = "data",
     .doc = "1 for every edge of a graph: the adjacency matrix, in float32", .flags = MX_OP_NO_GRADIENT,
     .infer_type = infer_float32, .reference = ref_adjacency, .samples = SAMPLES({"3,4", "", -1, 3, "int:0"})},
    {0},
};
// clang-format on
