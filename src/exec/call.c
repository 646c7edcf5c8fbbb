/* Convenient forms of mx_invoke (see call.h).  SPDX-License-Identifier: Apache-2.0 */
#include "exec/call.h"

#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/thread.h"
#include "exec/list.h"
#include "gluon/op.gen.h"

mx_array *mx_call_one(mx_op *op, const void *attrs, int n_in, mx_array *const *in, mx_array *out)
{
    if (!op)
        return NULL;
    if (op->n_visible == 1 && !op->count_visible) {
        mx_array *result[1] = {out};
        return mx_invoke(op, attrs, n_in, in, 1, result) ? NULL : result[0];
    }
    mx_array *results[MX_MAX_OUTPUTS] = {out};
    return mx_invoke(op, attrs, n_in, in, MX_MAX_OUTPUTS, results) ? NULL : results[0];
}

mx_array *mx_call_view(mx_op *op, const void *attrs, mx_array *x)
{
    const bool before = mx_thread.sharing;
    mx_thread.sharing = true;
    mx_array *result = mx_call_one(op, attrs, 1, &x, NULL);
    mx_thread.sharing = before;
    return result;
}

mx_array *mx_array_reshape(mx_array *x, mx_dims shape)
{
    mx_reshape_attrs attrs;
    memcpy(&attrs, MX_OP("Reshape")->defaults, sizeof attrs);
    attrs.shape = shape;
    return mx_call_view(MX_OP("Reshape"), &attrs, x);
}

mx_arrays mx_call_many(mx_op *op, const void *attrs, int n_in, mx_array *const *in, mx_arrays out)
{
    mx_array *results[MX_MAX_OUTPUTS] = {NULL};
    if (!op || (out.v && mx_list_check_any(&out, op->name, "out")))
        return mx_list_failed();
    if (out.v && out.n > MX_MAX_OUTPUTS)
        return mx_op_fail(op, MX_ERR_ARGUMENT, "out has %lld arrays, at most %d are possible", (long long)out.n,
                          MX_MAX_OUTPUTS),
               mx_list_failed();
    for (int64_t i = 0; out.v && i < out.n; i++)
        results[i] = out.v[i];
    if (mx_invoke(op, attrs, n_in, in, MX_MAX_OUTPUTS, results))
        return mx_list_failed();
    const int n = mx_op_count_visible(op, attrs ? attrs : op->defaults);
    mx_array **list = mx_list_new(n);
    if (!list)
        return mx_list_failed();
    memcpy(list, results, (size_t)n * sizeof *list);
    return (mx_arrays){list, n};
}

mx_arrays mx_call_list(mx_op *op, const void *attrs, int n_before, mx_array *const *before, mx_arrays list,
                       mx_arrays out)
{
    if (!op || mx_list_check_inputs(&list, op->name, "the list of inputs"))
        return mx_list_failed();
    const size_t bytes = ((size_t)n_before + (size_t)list.n) * sizeof(mx_array *);
    mx_array **in = mx_alloc(bytes);
    if (!in)
        return mx_list_failed();
    memcpy(in, before, (size_t)n_before * sizeof *in);
    if (list.n)
        memcpy(in + n_before, list.v, (size_t)list.n * sizeof *in);
    if (out.n == 1 && !out.v[0])
        out = (mx_arrays){0};
    mx_arrays result = mx_call_many(op, attrs, n_before + (int)list.n, in, out);
    mx_free(in, bytes);
    return result;
}
