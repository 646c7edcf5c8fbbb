/* The Khatri-Rao product, by tiles of doubles.  SPDX-License-Identifier: Apache-2.0 */
#include "base/threads.h"
#include "cpu/kernel.h"
#include "cpu/kernels/convert_level.h"

#define TILE 512 /* elements converted at a time */

/* Rows [begin, end) of the product: each is the product of one row of every matrix. */
static void khatri_rao_part(void *arg, int64_t begin, int64_t end)
{
    const mx_kernel_call *call = arg;
    const mx_array *out = call->out[0];
    const mx_dtype type = (mx_dtype)out->dtype;
    const int64_t columns = out->shape[1], item = mx_dtype_size(type);
    double product[TILE], factor[TILE];
    for (int64_t row = begin; row < end; row++)
        for (int64_t at = 0; at < columns; at += TILE) {
            const int64_t n = columns - at < TILE ? columns - at : TILE;
            for (int64_t i = 0; i < n; i++)
                product[i] = 1;
            int64_t rest = row;
            for (int k = call->n_in - 1; k >= 0; rest /= call->in[k]->shape[0], k--) {
                const int64_t from = rest % call->in[k]->shape[0] * columns + at;
                mx_convert_fast(factor, MX_FLOAT64, (const char *)mx_data(call->in[k]) + from * item, type, n);
                for (int64_t i = 0; i < n; i++)
                    product[i] *= factor[i];
            }
            mx_convert_fast((char *)mx_data(out) + (row * columns + at) * item, type, product, MX_FLOAT64, n);
        }
}

static mx_code run_khatri_rao(const mx_kernel_call *call)
{
    const int64_t columns = call->out[0]->shape[1];
    if (call->out[0]->size)
        mx_parallel(call->out[0]->shape[0], columns < MX_GRAIN ? MX_GRAIN / columns : 1, khatri_rao_part,
                    (void *)(uintptr_t)call);
    return MX_OK;
}

MX_CPU_KERNELS(khatri_rao) = {{"khatri_rao", run_khatri_rao, NULL}, {NULL, NULL, NULL}};
