/* add_n: tiles of the sum, in float, double or int64.  SPDX-License-Identifier: Apache-2.0 */
#include "base/threads.h"
#include "cpu/kernel.h"
#include "cpu/kernels/convert_level.h"

#define TILE 512 /* elements */

typedef struct add_job {
    int n;
    mx_array *const *in;
    mx_array *out;
    int64_t item;
} add_job;

#define ACCUMULATE(type)                                                                  \
    static void accumulate_##type(type *restrict sum, const type *restrict x, int64_t n)  \
    {                                                                                     \
        for (int64_t i = 0; i < n; i++)                                                   \
            sum[i] += x[i];                                                               \
    }
ACCUMULATE(float)
ACCUMULATE(double)
ACCUMULATE(uint64_t)

/* A tile of the sum stays in the first-level cache while all arrays are added; the last step writes it. */
static void add_part(void *arg, int64_t begin, int64_t end)
{
    const add_job *j = arg;
    const mx_dtype type = (mx_dtype)j->out->dtype;
    const mx_dtype compute = type == MX_FLOAT64 ? MX_FLOAT64 : mx_dtype_is_float(type) ? MX_FLOAT32 : MX_INT64;
    double sum[TILE], converted[TILE];
    for (; begin < end; begin += TILE) {
        const int64_t n = end - begin < TILE ? end - begin : TILE;
        mx_convert_fast(sum, compute, (const char *)mx_data(j->in[0]) + begin * j->item, type, n);
        for (int k = 1; k < j->n; k++) {
            const void *x = (const char *)mx_data(j->in[k]) + begin * j->item;
            if (type != compute) {
                mx_convert_fast(converted, compute, x, type, n);
                x = converted;
            }
            if (compute == MX_FLOAT32)
                accumulate_float((float *)(void *)sum, x, n);
            else if (compute == MX_FLOAT64)
                accumulate_double(sum, x, n);
            else
                accumulate_uint64_t((uint64_t *)(void *)sum, x, n);
        }
        mx_convert_fast((char *)mx_data(j->out) + begin * j->item, type, sum, compute, n);
    }
}

static mx_code run_add_n(const mx_kernel_call *call)
{
    add_job j = {call->n_in, call->in, call->out[0], mx_dtype_size((mx_dtype)call->out[0]->dtype)};
    mx_parallel(call->out[0]->size, MX_GRAIN, add_part, &j);
    return MX_OK;
}

MX_CPU_KERNELS(add_n) = {{"add_n", run_add_n, NULL}, {NULL, NULL, NULL}};
