/* The table of conversions: one loop per pair of types, composed of a "widen" per source and a "narrow" per target.
 *
 *     element --FROM_VALUE--> float, double, int32 or int64 (exact) --TO_dtype--> element
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "ndarray/convert.h"

#include <string.h>

#include "ndarray/dtype.h"
#include "ndarray/half.h"

#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC optimize("O3") /* the loops below are worth vectorising at any level of the build */
#endif

/* ---- to integers: fractions are truncated ----------------------------------------------------------------- */
/* Values that do not fit behave everywhere as on x86 (in NumPy and MXNet they depend on the machine): numbers beyond
 * int32 or int64 (and NaN) become the lowest one, and the small types are the low byte of an int32.  `beyond` is exact
 * in both float types. */
#define WHOLE(name, type, wide, lowest, beyond) \
    static inline type name(wide v) { return v >= -(wide)beyond && v < (wide)beyond ? (type)v : lowest; }
WHOLE(float_to_int32, int32_t, float, INT32_MIN, 0x1p31)
WHOLE(double_to_int32, int32_t, double, INT32_MIN, 0x1p31)
WHOLE(float_to_int64, int64_t, float, INT64_MIN, 0x1p63)
WHOLE(double_to_int64, int64_t, double, INT64_MIN, 0x1p63)

static inline int32_t int32_same(int32_t v) { return v; }
static inline int64_t int64_same(int64_t v) { return v; }

/* ---- to 16-bit floats: rounding only once ----------------------------------------------------------------- */
/* A float between v's neighbours whose last bit is set if v is strictly between them ("round to odd"): rounding it
 * again to a shorter type gives what rounding v directly would. */
static inline float double_to_odd(double v)
{
    float f = (float)v;
    uint32_t bits;
    memcpy(&bits, &f, 4);
    if ((double)f != v && v == v && !(bits & 1)) {
        bool away = (f < 0 ? -(double)f : (double)f) > (v < 0 ? -v : v); /* |f| > |v|: step back towards zero */
        bits += away ? -1 : 1;
    }
    memcpy(&f, &bits, 4);
    return f;
}
static inline float int32_to_odd(int32_t v) { return double_to_odd((double)v); }
static inline float int64_to_odd(int64_t v)
{
    int64_t magnitude = v < 0 ? -(v + 1) : v;
    if (magnitude >> 53) /* too long for a double: keep 52 bits and whether any other was set */
        v = (v & ~(int64_t)0x7ff) | ((v & 0x7ff) ? 0x400 : 0);
    return double_to_odd((double)v);
}
static inline float float_same(float v) { return v; }

#define NARROW(v) \
    _Generic((v), float: float_same, double: double_to_odd, int32_t: int32_to_odd, int64_t: int64_to_odd)(v)
#define INTEGER(name, v) \
    _Generic((v), float: float_to_##name, double: double_to_##name, int32_t: int32_same, int64_t: int64_same)(v)

static inline float bfloat_value(uint16_t bits) { return mx_bfloat_to_float((mx_bfloat){bits}); }

/* What an element of each type is stored as.  Bools are read as bytes: a foreign byte may be neither 0 nor 1. */
#define STORED_MX_FLOAT32 float
#define STORED_MX_FLOAT64 double
#define STORED_MX_FLOAT16 uint16_t
#define STORED_MX_UINT8 uint8_t
#define STORED_MX_INT32 int32_t
#define STORED_MX_INT8 int8_t
#define STORED_MX_INT64 int64_t
#define STORED_MX_BOOL uint8_t
#define STORED_MX_BFLOAT16 uint16_t

#define TO_MX_FLOAT32(v) ((float)(v))
#define TO_MX_FLOAT64(v) ((double)(v))
#define TO_MX_FLOAT16(v) mx_half_bits(NARROW(v))
#define TO_MX_UINT8(v) ((uint8_t)INTEGER(int32, v))
#define TO_MX_INT32(v) ((int32_t)INTEGER(int32, v))
#define TO_MX_INT8(v) ((int8_t)INTEGER(int32, v))
#define TO_MX_INT64(v) ((int64_t)INTEGER(int64, v))
#define TO_MX_BOOL(v) ((uint8_t)((v) != 0))
#define TO_MX_BFLOAT16(v) (mx_bfloat_from_float(NARROW(v)).bits)

typedef void (*mx_convert_fn)(void *to, const void *from, int64_t n);

#define FROM f32
#define FROM_ELEMENT float
#define FROM_VALUE(x) (x)
#include "ndarray/convert_row.h"
#define FROM f64
#define FROM_ELEMENT double
#define FROM_VALUE(x) (x)
#include "ndarray/convert_row.h"
#define FROM f16
#define FROM_ELEMENT uint16_t
#define FROM_VALUE(x) mx_half_value(x)
#include "ndarray/convert_row.h"
#define FROM u8
#define FROM_ELEMENT uint8_t
#define FROM_VALUE(x) ((int32_t)(x))
#include "ndarray/convert_row.h"
#define FROM i32
#define FROM_ELEMENT int32_t
#define FROM_VALUE(x) (x)
#include "ndarray/convert_row.h"
#define FROM i8
#define FROM_ELEMENT int8_t
#define FROM_VALUE(x) ((int32_t)(x))
#include "ndarray/convert_row.h"
#define FROM i64
#define FROM_ELEMENT int64_t
#define FROM_VALUE(x) (x)
#include "ndarray/convert_row.h"
#define FROM b8
#define FROM_ELEMENT uint8_t
#define FROM_VALUE(x) ((int32_t)((x) != 0))
#include "ndarray/convert_row.h"
#define FROM bf16
#define FROM_ELEMENT uint16_t
#define FROM_VALUE(x) bfloat_value(x)
#include "ndarray/convert_row.h"

static const mx_convert_fn *const table[MX_DTYPE_END] = {
    [MX_FLOAT32] = f32_row, [MX_FLOAT64] = f64_row, [MX_FLOAT16] = f16_row, [MX_UINT8] = u8_row, [MX_INT32] = i32_row,
    [MX_INT8] = i8_row,     [MX_INT64] = i64_row,   [MX_BOOL] = b8_row,     [MX_BFLOAT16] = bf16_row,
};

void mx_convert(void *to, mx_dtype to_type, const void *from, mx_dtype from_type, int64_t n)
{
    if (n <= 0)
        return;
    if (to_type != from_type)
        table[from_type][to_type](to, from, n);
    else if (to != from)
        memcpy(to, from, (size_t)(n * mx_dtype_size(to_type)));
}
