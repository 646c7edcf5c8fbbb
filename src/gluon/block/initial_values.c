/* Initial values, random or computed, written into a CPU array of any type.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "base/error.h"
#include "exec/call.h"
#include "gluon/block/initialize.h"
#include "gluon/op.gen.h"
#include "ndarray/dtype.h"

/* Calls a random operator that writes `array`; integers get truncated float32 numbers. */
static mx_code draw(mx_op *op, mx_dtype dtype, const void *attrs, mx_array *array)
{
    if (dtype == (mx_dtype)array->dtype)
        return mx_call_one(op, attrs, 0, NULL, array) ? MX_OK : mx_error_code();
    MX_SCOPE;
    mx_array *numbers = mx_call_one(op, attrs, 0, NULL, NULL);
    return numbers ? mx_array_set(array, numbers) : mx_error_code();
}

static mx_dtype drawn_type(const mx_array *array)
{
    return mx_dtype_is_float(array->dtype) ? (mx_dtype)array->dtype : MX_FLOAT32;
}

mx_code mx_draw_uniform(mx_array *array, double low, double high)
{
    const mx_dtype dtype = drawn_type(array);
    mx_random_uniform_attrs attrs = {
        .low = low, .high = high, .shape = mx_shape(array), .ctx = array->context, .dtype = dtype};
    return draw(MX_OP("_random_uniform"), dtype, &attrs, array);
}

mx_code mx_draw_normal(mx_array *array, double mean, double deviation)
{
    const mx_dtype dtype = drawn_type(array);
    mx_random_normal_attrs attrs = {
        .loc = mean, .scale = deviation, .shape = mx_shape(array), .ctx = array->context, .dtype = dtype};
    return draw(MX_OP("_random_normal"), dtype, &attrs, array);
}

mx_code mx_array_write_doubles(mx_array *array, const double *values, int64_t count)
{
    MX_SCOPE;
    mx_shape_t shape = mx_array_shape(array);
    if (count != array->size)
        return mx_fail(MX_ERR_ARGUMENT, "mx_array_write_doubles: %lld values for %lld elements", (long long)count,
                       (long long)array->size);
    mx_array *wide = mx_scope_add(mx_array_new(&shape, MX_FLOAT64, mx_cpu(0)));
    if (!wide || mx_array_write(wide, values, (size_t)count * sizeof *values))
        return mx_error_code();
    return mx_array_set(array, wide);
}
