/* Running an operator by its plain rule (see plain.h).  SPDX-License-Identifier: Apache-2.0 */
#include "cpu/kernels/plain.h"

#include "base/alloc.h"
#include "base/error.h"
#include "ndarray/convert.h"

#define MOST_ARRAYS 16 /* inputs or outputs of such an operator */

/* One block of doubles for all arrays of the list; the places of absent ones are NULL. */
static int64_t places(mx_array *const *arrays, int n, int64_t at, double *block, const double **place,
                      mx_shape_t *shape)
{
    for (int i = 0; i < n; i++) {
        const bool absent = mx_is_none(arrays[i]);
        shape[i] = absent ? MX_UNKNOWN_SHAPE : mx_array_shape(arrays[i]);
        place[i] = absent || !block ? NULL : block + at;
        at += absent ? 0 : arrays[i]->size;
    }
    return at;
}

mx_code mx_run_plain(const mx_kernel_call *call)
{
    const double *in[MOST_ARRAYS] = {NULL}, *out[MOST_ARRAYS] = {NULL};
    mx_shape_t in_shape[MOST_ARRAYS], out_shape[MOST_ARRAYS];
    if (call->n_in > MOST_ARRAYS || call->n_out > MOST_ARRAYS || !call->op->reference)
        return MX_DECLINED;
    const int64_t inputs = places(call->in, call->n_in, 0, NULL, in, in_shape);
    const int64_t all = places(call->out, call->n_out, inputs, NULL, out, out_shape);
    const size_t bytes = (size_t)all * sizeof(double);
    double *block = mx_alloc(bytes);
    if (!block)
        return mx_error_code();
    places(call->in, call->n_in, 0, block, in, in_shape);
    places(call->out, call->n_out, inputs, block, out, out_shape);
    for (int i = 0; i < call->n_in; i++)
        if (in[i])
            mx_convert((double *)in[i], MX_FLOAT64, mx_data(call->in[i]), (mx_dtype)call->in[i]->dtype,
                       call->in[i]->size);
    const bool had_error = mx_has_error();
    mx_reference_call rule = {.attrs = call->attrs, .n_in = call->n_in, .n_out = call->n_out, .in_shape = in_shape,
                              .out_shape = out_shape, .in = in, .out = (double *const *)out, .training = call->training};
    call->op->reference(&rule);
    for (int i = 0; i < call->n_out; i++)
        mx_convert(mx_data(call->out[i]), (mx_dtype)call->out[i]->dtype, out[i], MX_FLOAT64, call->out[i]->size);
    mx_free(block, bytes);
    return !had_error && mx_has_error() ? mx_error_code() : MX_OK; /* a rule fails only for want of memory */
}
