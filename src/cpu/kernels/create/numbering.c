/* index_array, ravel_multi_index, unravel_index on the CPU: computed as int64 or double, then converted.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "cpu/kernel.h"
#include "cpu/kernels/index/indices.h"
#include "gluon/op.gen.h"

static mx_code run_index_array(const mx_kernel_call *call)
{
    const mx_dims *axes = &((const mx_index_array_attrs *)call->attrs)->axes;
    const mx_array *in = call->in[0];
    int64_t *to = mx_data(call->out[0]), at[MX_MAX_NDIM] = {0};
    const int n = axes->n < 0 ? in->ndim : axes->n;
    for (int64_t i = 0; i < in->size; i++) {
        for (int k = 0; k < n; k++)
            *to++ = at[axes->n < 0 ? k : mx_axis(axes->d[k], in->ndim)];
        for (int axis = in->ndim - 1; axis >= 0 && ++at[axis] == in->shape[axis]; axis--)
            at[axis] = 0;
    }
    return MX_OK;
}

static mx_code run_ravel(const mx_kernel_call *call)
{
    const mx_dims *shape = &((const mx_unravel_attrs *)call->attrs)->shape;
    const mx_array *in = call->in[0];
    mx_array *out = call->out[0];
    int64_t *number = mx_load_indices(in);
    if (!number)
        return MX_ERR_MEMORY;
    for (int i = 1; i < shape->n; i++) /* Horner's rule in the first row; unsigned, so it wraps */
        for (int64_t k = 0; k < out->size; k++)
            number[k] = (int64_t)((uint64_t)number[k] * (uint64_t)shape->d[i] + (uint64_t)number[i * out->size + k]);
    mx_convert(mx_data(out), (mx_dtype)out->dtype, number, MX_INT64, out->size);
    mx_free_indices(number, in);
    return MX_OK;
}

static mx_code run_unravel(const mx_kernel_call *call)
{
    const mx_dims *shape = &((const mx_unravel_attrs *)call->attrs)->shape;
    const mx_array *in = call->in[0];
    mx_array *out = call->out[0];
    const int64_t n = in->size;
    int64_t *number = mx_load_indices(in), *at = mx_alloc((size_t)out->size * sizeof *at);
    if (number && at) {
        for (int i = shape->n - 1; i >= 0; i--)
            for (int64_t k = 0; k < n; k++) {
                at[i * n + k] = i ? number[k] % shape->d[i] : number[k];
                number[k] = i ? number[k] / shape->d[i] : 0;
            }
        mx_convert(mx_data(out), (mx_dtype)out->dtype, at, MX_INT64, out->size);
    }
    mx_free_indices(number, in);
    mx_free(at, (size_t)out->size * sizeof *at);
    return number && at ? MX_OK : MX_ERR_MEMORY;
}

MX_CPU_KERNELS(numbering) = {
    {"_contrib_index_array", run_index_array, NULL},
    {"_ravel_multi_index", run_ravel, NULL},
    {"_unravel_index", run_unravel, NULL},
    {NULL, NULL, NULL},
};
