/* The dtype table: one entry per element type.  SPDX-License-Identifier: Apache-2.0 */
#ifndef MX_NDARRAY_DTYPE_H
#define MX_NDARRAY_DTYPE_H

#include <string.h>

#include "gluon/array.h"

typedef struct { uint16_t bits; } mx_half;     /* IEEE binary16 */
typedef struct { uint16_t bits; } mx_bfloat;   /* the upper half of a float */

/*      C type     dtype        name       class (f float, i signed, u unsigned, b bool)  npy descriptor */
#define MX_DTYPES(X) \
    X(float,     MX_FLOAT32,  "float32",  'f', "<f4") \
    X(double,    MX_FLOAT64,  "float64",  'f', "<f8") \
    X(mx_half,   MX_FLOAT16,  "float16",  'f', "<f2") \
    X(uint8_t,   MX_UINT8,    "uint8",    'u', "|u1") \
    X(int32_t,   MX_INT32,    "int32",    'i', "<i4") \
    X(int8_t,    MX_INT8,     "int8",     'i', "|i1") \
    X(int64_t,   MX_INT64,    "int64",    'i', "<i8") \
    X(bool,      MX_BOOL,     "bool",     'b', "|b1") \
    X(mx_bfloat, MX_BFLOAT16, "bfloat16", 'f', "<V2")

typedef struct mx_dtype_row {
    const char *name, *npy;
    int8_t size; /* bytes; 0: not supported */
    char kind;   /* 'f' 'i' 'u' 'b' */
} mx_dtype_row;
extern const mx_dtype_row mx_dtype_table[MX_DTYPE_END];

static inline bool mx_dtype_valid(int dtype)
{
    return dtype >= 0 && dtype < MX_DTYPE_END && mx_dtype_table[dtype].size > 0;
}
static inline bool mx_dtype_is_float(int dtype) { return mx_dtype_valid(dtype) && mx_dtype_table[dtype].kind == 'f'; }
/* Floating point of 16 bits: sums and statistics of such numbers are kept in float32. */
static inline bool mx_dtype_is_narrow(int dtype) { return dtype == MX_FLOAT16 || dtype == MX_BFLOAT16; }

static inline float mx_bfloat_to_float(mx_bfloat b)
{
    uint32_t bits = (uint32_t)b.bits << 16;
    float f;
    memcpy(&f, &bits, 4);
    return f;
}
static inline mx_bfloat mx_bfloat_from_float(float f) /* round to nearest even; NaN stays NaN */
{
    uint32_t bits;
    memcpy(&bits, &f, 4);
    if ((bits & 0x7fffffffu) > 0x7f800000u)
        return (mx_bfloat){(uint16_t)((bits >> 16) | 0x40)};
    return (mx_bfloat){(uint16_t)((bits + 0x7fffu + ((bits >> 16) & 1)) >> 16)};
}
float mx_half_to_float(mx_half h);
mx_half mx_half_from_float(float f); /* round to nearest even, overflow to infinity */

#endif
