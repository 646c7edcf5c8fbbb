/* Element types of ONNX, and the table of rows.  SPDX-License-Identifier: Apache-2.0 */
#include "gluon/onnx/onnx.h"

static const mx_onnx_type types[] = {
    {1, "float32", 4, MX_FLOAT32},      {2, "uint8", 1, MX_UINT8},          {3, "int8", 1, MX_INT8},
    {4, "uint16", 2, MX_DTYPE_NONE},    {5, "int16", 2, MX_DTYPE_NONE},     {6, "int32", 4, MX_INT32},
    {7, "int64", 8, MX_INT64},          {8, "string", 0, MX_DTYPE_NONE},    {9, "bool", 1, MX_BOOL},
    {10, "float16", 2, MX_FLOAT16},     {11, "float64", 8, MX_FLOAT64},     {12, "uint32", 4, MX_DTYPE_NONE},
    {13, "uint64", 8, MX_DTYPE_NONE},   {14, "complex64", 8, MX_DTYPE_NONE}, {15, "complex128", 16, MX_DTYPE_NONE},
    {16, "bfloat16", 2, MX_BFLOAT16},   {17, "float8e4m3fn", 1, MX_DTYPE_NONE}, {18, "float8e4m3fnuz", 1, MX_DTYPE_NONE},
    {19, "float8e5m2", 1, MX_DTYPE_NONE}, {20, "float8e5m2fnuz", 1, MX_DTYPE_NONE}, {21, "uint4", 0, MX_DTYPE_NONE},
    {22, "int4", 0, MX_DTYPE_NONE},     {23, "float4e2m1", 0, MX_DTYPE_NONE}, {24, "float8e8m0", 1, MX_DTYPE_NONE},
    {25, "uint2", 0, MX_DTYPE_NONE},    {26, "int2", 0, MX_DTYPE_NONE},
};
enum { TYPES = sizeof types / sizeof *types };

const mx_onnx_type *mx_onnx_type_of(int64_t code) { return code >= 1 && code <= TYPES ? &types[code - 1] : NULL; }

const mx_onnx_type *mx_onnx_type_for(mx_dtype dtype)
{
    for (int i = 0; i < TYPES; i++)
        if (dtype != MX_DTYPE_NONE && types[i].dtype == dtype)
            return &types[i];
    return NULL;
}

extern const mx_onnx_row mx_onnx_pointwise[], mx_onnx_compare[], mx_onnx_conv[], mx_onnx_norm[], mx_onnx_gemm[],
    mx_onnx_movement[], mx_onnx_index_rows[], mx_onnx_reduce[], mx_onnx_activation[], mx_onnx_rnn[],
    mx_onnx_shape_rows[], mx_onnx_image[], mx_onnx_quantize[], mx_onnx_control[], mx_onnx_loss[], mx_onnx_attention[],
    mx_onnx_attention_fused[], mx_onnx_slice_rows[], mx_onnx_repeat_rows[], mx_onnx_control_write[],
    mx_onnx_detection[], mx_onnx_proposal[];

const mx_onnx_row *const mx_onnx_families[] = {
    mx_onnx_pointwise, mx_onnx_compare,    mx_onnx_conv,  mx_onnx_norm,     mx_onnx_gemm,    mx_onnx_movement,
    mx_onnx_index_rows, mx_onnx_reduce,    mx_onnx_activation, mx_onnx_rnn, mx_onnx_shape_rows, mx_onnx_image,
    mx_onnx_quantize,  mx_onnx_control,    mx_onnx_loss,  mx_onnx_attention, mx_onnx_attention_fused, mx_onnx_slice_rows, mx_onnx_repeat_rows, mx_onnx_control_write, mx_onnx_detection, mx_onnx_proposal, NULL};

mx_code mx_onnx_index(mx_dict *table, bool ours)
{
    for (int i = 0; mx_onnx_families[i]; i++)
        for (const mx_onnx_row *row = mx_onnx_families[i]; row->onnx || row->ours; row++) {
            const char *name = ours ? row->ours : row->onnx;
            const bool wanted = name && !mx_dict_find(table, name) && (ours || row->read || row->ours);
            if (wanted && !mx_dict_set(table, name, (void *)(uintptr_t)row))
                return mx_error_code();
        }
    return MX_OK;
}
