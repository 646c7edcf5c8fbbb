/* The dtype table: names, sizes, and the half conversions as functions.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "ndarray/dtype.h"

#include "base/error.h"
#include "ndarray/half.h"

const mx_dtype_row mx_dtype_table[MX_DTYPE_END] = {
#define ROW(ctype, dtype, text, letter, descriptor) \
    [dtype] = {.name = text, .npy = descriptor, .size = sizeof(ctype), .kind = letter},
    MX_DTYPES(ROW)
#undef ROW
};

const char *mx_dtype_name(mx_dtype dtype)
{
    if (dtype == MX_DTYPE_NONE)
        return "none";
    return mx_dtype_valid((int)dtype) ? mx_dtype_table[dtype].name : "unknown";
}

mx_dtype mx_dtype_from_name(const char *name)
{
    if (!name) {
        mx_fail(MX_ERR_ARGUMENT, "mx_dtype_from_name: name is NULL, wanted a name such as \"float32\"");
        return MX_DTYPE_NONE;
    }
    for (int i = 0; i < MX_DTYPE_END; i++)
        if (mx_dtype_valid(i) && strcmp(mx_dtype_table[i].name, name) == 0)
            return (mx_dtype)i;
    mx_fail(MX_ERR_DTYPE,
            "\"%s\" is not an element type; element types are float16, bfloat16, float32, float64, "
            "uint8, int8, int32, int64 and bool",
            name);
    return MX_DTYPE_NONE;
}

int64_t mx_dtype_size(mx_dtype dtype) { return mx_dtype_valid((int)dtype) ? mx_dtype_table[dtype].size : 0; }

float mx_half_to_float(mx_half h) { return mx_half_value(h.bits); }
mx_half mx_half_from_float(float f) { return (mx_half){mx_half_bits(f)}; }
