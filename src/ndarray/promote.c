/* NumPy's rules of types (gluon/np.h), and the switches of its interface.
 *
 * A number is a read-only 0-d array of the host: bool, int64 or float64.  Its storage shows what it is: the memory is
 * released by forget_number.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "base/alloc.h"
#include "base/thread.h"
#include "gluon/np.h"
#include "ndarray/array.h"

/* ---- switches --------------------------------------------------------------------------------------------------- */

bool mx_set_np_array(bool on)
{
    const bool before = mx_thread.np_array;
    mx_thread.np_array = on;
    return before;
}
bool mx_is_np_array(void) { return mx_thread.np_array; }

bool mx_set_np_default_dtype(bool on)
{
    const bool before = mx_thread.np_float64;
    mx_thread.np_float64 = on;
    return before;
}
mx_dtype mx_default_float(void) { return mx_thread.np_float64 ? MX_FLOAT64 : MX_FLOAT32; }

/* ---- promotion -------------------------------------------------------------------------------------------------- */

/* Kinds in the order in which they win. */
enum { BOOLEAN, INTEGER, FLOATING };
typedef struct type_rank {
    int kind, width;
} type_rank;

static type_rank rank_of(mx_dtype type)
{
    static const type_rank ranks[MX_DTYPE_END] = {
        [MX_BOOL] = {BOOLEAN, 1},   [MX_UINT8] = {INTEGER, 1},   [MX_INT8] = {INTEGER, 1},
        [MX_INT32] = {INTEGER, 4},  [MX_INT64] = {INTEGER, 8},   [MX_FLOAT16] = {FLOATING, 2},
        [MX_BFLOAT16] = {FLOATING, 2}, [MX_FLOAT32] = {FLOATING, 4}, [MX_FLOAT64] = {FLOATING, 8}};
    return (unsigned)type < MX_DTYPE_END ? ranks[type] : (type_rank){BOOLEAN, 0};
}

mx_dtype mx_promote(mx_dtype a, mx_dtype b)
{
    if (a == b || b == MX_DTYPE_NONE)
        return a;
    if (a == MX_DTYPE_NONE)
        return b;
    const type_rank x = rank_of(a), y = rank_of(b);
    if (!x.width || !y.width) {
        mx_fail(MX_ERR_DTYPE, "mx_promote: there are no element types %d and %d", (int)a, (int)b);
        return MX_DTYPE_NONE;
    }
    if (x.kind != y.kind)
        return x.kind > y.kind ? a : b;
    if (x.width != y.width)
        return x.width > y.width ? a : b;
    return x.kind == FLOATING ? MX_FLOAT32 : MX_INT32; /* two forms of 16-bit floats, or of bytes */
}

/* A number beside arrays of `type`. */
static mx_dtype give_way(mx_dtype type, const mx_array *number)
{
    if (type == MX_DTYPE_NONE)
        return type;
    const int kind = rank_of((mx_dtype)number->dtype).kind;
    if (kind <= rank_of(type).kind)
        return type;
    return kind == FLOATING ? mx_default_float() : MX_INT64;
}

mx_dtype mx_result_type(mx_arrays arrays)
{
    mx_dtype type = MX_DTYPE_NONE, of_numbers = MX_DTYPE_NONE;
    for (int64_t i = 0; i < arrays.n; i++) {
        const mx_array *x = arrays.v[i];
        if (x && x != MX_NONE && !mx_is_number(x))
            type = mx_promote(type, (mx_dtype)x->dtype);
        else if (x && x != MX_NONE)
            of_numbers = mx_promote(of_numbers, (mx_dtype)x->dtype);
    }
    if (type == MX_DTYPE_NONE) /* numbers alone: floats have the default type */
        return of_numbers == MX_FLOAT64 ? mx_default_float() : of_numbers;
    for (int64_t i = 0; i < arrays.n; i++)
        if (arrays.v[i] && arrays.v[i] != MX_NONE && mx_is_number(arrays.v[i]))
            type = give_way(type, arrays.v[i]);
    return type;
}

/* ---- numbers ---------------------------------------------------------------------------------------------------- */

static void forget_number(void *memory) { mx_free(memory, sizeof(double)); }

static mx_array *number_of(mx_dtype type, const void *value)
{
    const mx_shape_t shape = {.ndim = 0};
    void *memory = mx_alloc(sizeof(double));
    if (!memory)
        return NULL;
    memcpy(memory, value, (size_t)mx_dtype_size(type));
    mx_array *x = mx_array_adopt(&shape, type, memory, forget_number, memory);
    if (!x) {
        forget_number(memory);
        return NULL;
    }
    x->readonly = true;
    return mx_scope_add(x);
}

mx_array *mx_number_float(double value) { return number_of(MX_FLOAT64, &value); }
mx_array *mx_number_int(int64_t value) { return number_of(MX_INT64, &value); }
mx_array *mx_number_bool(bool value) { return number_of(MX_BOOL, &value); }

bool mx_is_number(const mx_array *x)
{
    return x && x->object.kind == &mx_array_kind && x->storage && x->storage->release == forget_number;
}
