/* For NumPy's functions whose results depend on elements or places: values that are known, vectors of places, parts.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef MX_OP_NP_VALUES_H
#define MX_OP_NP_VALUES_H

#include "base/error.h"
#include "base/interrupt.h"
#include "ndarray/convert.h"
#include "op/expand.h"

/* Whether the elements exist: not while tracing and inferring. */
static inline bool mx_values_known(const mx_array *x) { return x && x->storage; }
/* The smallest and the largest element, which exist: read on the host, so that nothing is recorded or traced.  NaN: an error,
 * or no elements. */
typedef struct mx_range {
    double low, high;
} mx_range;
static inline mx_range mx_range_of(mx_array *x)
{
    MX_SCOPE;
    mx_range range = {MX_NONE_FLOAT, MX_NONE_FLOAT};
    mx_array *host = mx_array_to(x, mx_cpu(0));
    const char *elements = host ? mx_array_data(host) : NULL;
    for (int64_t i = 0; elements && i < x->size; i++) {
        double value;
        if (i % 65536 == 0 && mx_interrupt_check())
            return (mx_range){MX_NONE_FLOAT, MX_NONE_FLOAT};
        mx_convert(&value, MX_FLOAT64, elements + i * mx_dtype_size((mx_dtype)x->dtype), (mx_dtype)x->dtype, 1);
        range.low = range.low <= value ? range.low : value;
        range.high = range.high >= value ? range.high : value;
    }
    return range;
}
/* The elements decide the size of the result: an error if there are none yet. */
static inline mx_code mx_want_values(const mx_expand *call, const mx_array *x)
{
    if (!x || mx_values_known(x))
        return x ? MX_OK : mx_error_code();
    return mx_op_fail(call->op, MX_ERR_UNSUPPORTED,
                      "the size of the result depends on the elements, so it cannot be traced or hybridized");
}

/* 0, 1, ... n - 1 beside another array. */
static inline mx_array *mx_places(int64_t n, const mx_array *like, mx_dtype dtype)
{
    char ctx[32];
    mx_context_text(like->context, ctx);
    return n ? mx_expand_text(MX_OP("_arange"), 0, NULL, "start=0, stop=%lld, dtype=%s, ctx=%s", (long long)n,
                              mx_dtype_name(dtype), ctx)
             : mx_expand_text(MX_OP("_zeros"), 0, NULL, "shape=(0,), dtype=%s, ctx=%s", mx_dtype_name(dtype), ctx);
}
static inline mx_array *mx_flattened(mx_array *x) { return x ? mx_expand1("Reshape", x, "shape=(-1,)") : NULL; }
static inline mx_array *mx_part(mx_array *x, int64_t axis, int64_t begin, int64_t end)
{
    struct { int64_t axis, begin, end; } range = {axis, begin, end};
    return mx_g_call(MX_OP("slice_axis"), &range, 1, &x);
}
/* Arrays of one type, joined along an axis. */
static inline mx_array *mx_joined(int n, mx_array *const *x, int64_t axis)
{
    struct { int64_t num_args, dim; } attrs = {n, axis};
    return mx_g_call(MX_OP("Concat"), &attrs, n, x);
}
static inline mx_array *mx_joined2(mx_array *a, mx_array *b, int64_t axis)
{
    return mx_joined(2, (mx_array *const[]){a, b}, axis);
}
static inline mx_array *mx_chosen(mx_array *x, mx_array *mask) { return mx_g2("_contrib_boolean_mask", x, mask); }
/* condition ? x : y with NumPy's broadcasting; x and y may be numbers */
static inline mx_array *mx_choose(mx_array *condition, mx_array *x, mx_array *y)
{
    return condition && x && y ? mx_g_call(MX_OP("np.where"), NULL, 3, (mx_array *const[]){condition, x, y}) : NULL;
}

#endif
