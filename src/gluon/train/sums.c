/* Sums over contexts (see sums.h).  SPDX-License-Identifier: Apache-2.0 */
#include "gluon/train/sums.h"

#include "base/error.h"
#include "base/object.h"
#include "exec/call.h"
#include "exec/device_sum.h"
#include "ndarray/sparse.h"

static bool any_sparse(int n, mx_array *const *parts)
{
    for (int i = 0; i < n; i++)
        if (mx_is_sparse(parts[i]))
            return true;
    return false;
}

/* Few rows: the sum is a new array every time. */
static mx_code sum_sparse(mx_array **sum, int n, mx_array *const *parts)
{
    mx_array *total = parts[0];
    for (int i = 1; total && i < n; i++) {
        mx_array *there = mx_array_to(parts[i], parts[0]->context);
        total = there ? mx_call_one(MX_OP("elemwise_add"), NULL, 2, (mx_array *const[]){total, there}, NULL) : NULL;
    }
    if (!total)
        return mx_error_code();
    mx_retain(total);
    mx_release(*sum);
    *sum = total;
    return MX_OK;
}

static bool fits(const mx_array *sum, const mx_array *part)
{
    const mx_shape_t a = mx_array_shape(sum), b = mx_array_shape(part);
    return !mx_is_sparse(sum) && mx_shape_equal(&a, &b) && sum->dtype == part->dtype &&
           mx_context_equal(sum->context, part->context);
}

mx_code mx_sum_parts(mx_array **sum, int n, mx_array *const *parts)
{
    MX_SCOPE;
    if (any_sparse(n, parts))
        return sum_sparse(sum, n, parts);
    if (!*sum || !fits(*sum, parts[0])) {
        mx_array *made = mx_retain(mx_empty(mx_shape(parts[0]), (mx_dtype)parts[0]->dtype, parts[0]->context));
        if (!made)
            return mx_error_code();
        mx_release(*sum);
        *sum = made;
    }
    return mx_reduce_arrays(*sum, n, parts);
}

mx_code mx_sum_everywhere(mx_array **sum, int n, mx_array *const *arrays)
{
    if (!any_sparse(n, arrays))
        return mx_all_reduce_arrays(n, arrays);
    MX_SCOPE;
    mx_code code = sum_sparse(sum, n, arrays);
    for (int i = 0; !code && i < n; i++)
        code = mx_array_set(arrays[i], *sum);
    return code;
}
