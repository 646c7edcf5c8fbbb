/* allclose, by tiles of doubles.  SPDX-License-Identifier: Apache-2.0 */
#include "op/formula/allclose.h"

#include "cpu/kernel.h"
#include "cpu/kernels/convert_level.h"
#include "gluon/op.gen.h"

#define TILE 512 /* elements converted at a time */

static mx_code run_allclose(const mx_kernel_call *call)
{
    const mx_allclose_attrs *attrs = call->attrs;
    const mx_array *in = call->in[0];
    const mx_dtype type = (mx_dtype)in->dtype;
    double a[TILE], b[TILE];
    bool all = true;
    for (int64_t at = 0; all && at < in->size; at += TILE) {
        const int64_t n = in->size - at < TILE ? in->size - at : TILE, offset = at * mx_dtype_size(type);
        mx_convert_fast(a, MX_FLOAT64, (const char *)mx_data(in) + offset, type, n);
        mx_convert_fast(b, MX_FLOAT64, (const char *)mx_data(call->in[1]) + offset, type, n);
        for (int64_t i = 0; i < n; i++)
            all &= mx_close(a[i], b[i], attrs->rtol, attrs->atol, attrs->equal_nan);
    }
    *(uint8_t *)mx_data(call->out[0]) = all;
    return MX_OK;
}

MX_CPU_KERNELS(allclose) = {{"_contrib_allclose", run_allclose, NULL}, {NULL, NULL, NULL}};
