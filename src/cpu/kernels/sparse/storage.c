/* cast_storage and _sparse_retain on the CPU: bytes are copied, for any type.  SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "base/interrupt.h"
#include "cpu/kernel.h"
#include "cpu/kernels/index/indices.h"

static mx_code run_cast(const mx_kernel_call *call)
{
    memcpy(mx_data(call->out[0]), mx_data(call->in[0]), mx_bytes(call->out[0]));
    return MX_OK;
}

#define BYTES_AT_ONCE (1 << 22) /* copied between two questions whether to stop */

static mx_code run_retain(const mx_kernel_call *call)
{
    const mx_array *data = call->in[0], *indices = call->in[1];
    const int64_t rows = data->shape[0];
    const size_t run = rows ? mx_bytes(data) / (size_t)rows : 0;
    const int64_t rows_at_once = 1 + BYTES_AT_ONCE / (int64_t)(run + 64); /* 64: the access */
    int64_t *index = mx_load_indices(indices);
    if (!index)
        return mx_error_code();
    memset(mx_data(call->out[0]), 0, mx_bytes(call->out[0]));
    for (int64_t i = 0; i < indices->size && (i % rows_at_once || !mx_stop_wanted()); i++)
        if (index[i] >= 0 && index[i] < rows)
            memcpy((char *)mx_data(call->out[0]) + (size_t)index[i] * run,
                   (const char *)mx_data(data) + (size_t)index[i] * run, run);
    mx_free_indices(index, indices);
    return MX_OK;
}

MX_CPU_KERNELS(storage) = {{"cast_storage", run_cast, NULL}, {"_sparse_retain", run_retain, NULL}, {NULL, NULL, NULL}};
