/* The arrays of a call as doubles, and back (see doubles.h).  SPDX-License-Identifier: Apache-2.0 */
#include "cpu/kernels/linalg/doubles.h"

#include "base/alloc.h"
#include "ndarray/convert.h"

static bool is_read(const mx_kernel_call *call, uint32_t unread, int i)
{
    return !mx_is_none(call->in[i]) && !(unread >> i & 1);
}

mx_code mx_run_doubles(const mx_kernel_call *call, uint32_t unread, mx_code (*run)(const mx_doubles *d))
{
    mx_doubles d = {.call = call};
    int64_t all = 0;
    if (call->n_in > MX_MOST_DOUBLES || call->n_out > MX_MOST_DOUBLES || !mx_dtype_is_float(call->in[0]->dtype))
        return MX_DECLINED;
    for (int i = 0; i < call->n_in; i++)
        all += is_read(call, unread, i) ? call->in[i]->size : 0;
    for (int i = 0; i < call->n_out; i++)
        all += call->out[i]->size;
    const size_t bytes = (size_t)all * sizeof(double);
    double *block = mx_alloc(bytes), *next = block;
    if (!block)
        return mx_error_code();
    for (int i = 0; i < call->n_in; i++)
        if (is_read(call, unread, i)) {
            mx_convert(next, MX_FLOAT64, mx_data(call->in[i]), (mx_dtype)call->in[i]->dtype, call->in[i]->size);
            d.in[i] = next, next += call->in[i]->size;
        }
    for (int i = 0; i < call->n_out; i++)
        d.out[i] = next, next += call->out[i]->size;
    const mx_code code = run(&d);
    for (int i = 0; i < call->n_out && !code; i++)
        mx_convert(mx_data(call->out[i]), (mx_dtype)call->out[i]->dtype, d.out[i], MX_FLOAT64, call->out[i]->size);
    mx_free(block, bytes);
    return code;
}
