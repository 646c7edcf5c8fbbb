/* The arrays of a call as doubles, and back (see doubles.h).  SPDX-License-Identifier: Apache-2.0 */
#include "cpu/kernels/linalg/doubles.h"

#include "base/alloc.h"
#include "base/interrupt.h"
#include "ndarray/convert.h"

static bool is_read(const mx_kernel_call *call, uint32_t unread, int i)
{
    return !mx_is_none(call->in[i]) && !(unread >> i & 1);
}

#define AT_ONCE (1 << 20) /* elements converted between two questions whether to stop */

static void convert(void *to, mx_dtype to_type, const void *from, mx_dtype from_type, int64_t n)
{
    for (int64_t at = 0; at < n && !mx_stop_wanted(); at += AT_ONCE)
        mx_convert((char *)to + at * mx_dtype_size(to_type), to_type,
                   (const char *)from + at * mx_dtype_size(from_type), from_type, n - at < AT_ONCE ? n - at : AT_ONCE);
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
            convert(next, MX_FLOAT64, mx_data(call->in[i]), (mx_dtype)call->in[i]->dtype, call->in[i]->size);
            d.in[i] = next, next += call->in[i]->size;
        }
    for (int i = 0; i < call->n_out; i++)
        d.out[i] = next, next += call->out[i]->size;
    const mx_code code = mx_stop_wanted() ? MX_OK : run(&d); /* what was not converted may be any number */
    for (int i = 0; i < call->n_out && !code; i++)
        convert(mx_data(call->out[i]), (mx_dtype)call->out[i]->dtype, d.out[i], MX_FLOAT64, call->out[i]->size);
    mx_free(block, bytes);
    return code;
}
