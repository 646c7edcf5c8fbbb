/* Element types of ONNX, and the table of rows.  SPDX-License-Identifier: Apache-2.0 */
#include "gluon/onnx/onnx.h"

#include <math.h>

static const mx_onnx_type types[] = {
    {1, "float32", 32, MX_FLOAT32, MX_FLOAT32},
    {2, "uint8", 8, MX_UINT8, MX_UINT8},
    {3, "int8", 8, MX_INT8, MX_INT8},
    {4, "uint16", 16, MX_DTYPE_NONE, MX_INT64},
    {5, "int16", 16, MX_DTYPE_NONE, MX_INT64},
    {6, "int32", 32, MX_INT32, MX_INT32},
    {7, "int64", 64, MX_INT64, MX_INT64},
    {8, "string", 0, MX_DTYPE_NONE, MX_DTYPE_NONE},
    {9, "bool", 8, MX_BOOL, MX_BOOL},
    {10, "float16", 16, MX_FLOAT16, MX_FLOAT16},
    {11, "float64", 64, MX_FLOAT64, MX_FLOAT64},
    {12, "uint32", 32, MX_DTYPE_NONE, MX_INT64},
    {13, "uint64", 64, MX_DTYPE_NONE, MX_INT64},
    {14, "complex64", 64, MX_DTYPE_NONE, MX_DTYPE_NONE},
    {15, "complex128", 128, MX_DTYPE_NONE, MX_DTYPE_NONE},
    {16, "bfloat16", 16, MX_BFLOAT16, MX_BFLOAT16},
    {17, "float8e4m3fn", 8, MX_DTYPE_NONE, MX_FLOAT32},
    {18, "float8e4m3fnuz", 8, MX_DTYPE_NONE, MX_FLOAT32},
    {19, "float8e5m2", 8, MX_DTYPE_NONE, MX_FLOAT32},
    {20, "float8e5m2fnuz", 8, MX_DTYPE_NONE, MX_FLOAT32},
    {21, "uint4", 4, MX_DTYPE_NONE, MX_UINT8},
    {22, "int4", 4, MX_DTYPE_NONE, MX_INT8},
    {23, "float4e2m1", 4, MX_DTYPE_NONE, MX_FLOAT32},
    {24, "float8e8m0", 8, MX_DTYPE_NONE, MX_FLOAT32},
    {25, "uint2", 2, MX_DTYPE_NONE, MX_UINT8},
    {26, "int2", 2, MX_DTYPE_NONE, MX_INT8},
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

bool mx_onnx_range(const mx_onnx_type *type, double *low, double *high)
{
    const bool integer = type && (type->name[0] == 'i' || type->name[0] == 'u');
    if (!integer)
        return false;
    *low = type->name[0] == 'u' ? 0 : -ldexp(1, type->bits - 1);
    *high = ldexp(1, type->name[0] == 'u' ? type->bits : type->bits - 1) - 1;
    return true;
}

/* def/<family>.c: mx_onnx_<family> */
#define FAMILIES(X) \
    X(pointwise) X(compare) X(conv) X(norm) X(gemm) X(movement) X(index_rows) X(scatter) X(reduce) X(activation) \
    X(rnn) X(shape_rows) X(image) X(quantize) X(control) X(loss) X(attention) X(attention_fused) \
    X(slice_rows) X(repeat_rows) X(control_write) X(detection) X(proposal) X(bits) X(signal) \
    X(deformable) X(linalg) X(sampling) X(image_pipeline) X(random) X(quantize_write) X(numbering) X(sequence) \
    X(sort) X(ml) X(trees) X(list_rows)

#define DECLARED(family) extern const mx_onnx_row mx_onnx_##family[];
#define LISTED(family) mx_onnx_##family,
FAMILIES(DECLARED)
const mx_onnx_row *const mx_onnx_families[] = {FAMILIES(LISTED) NULL};

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
