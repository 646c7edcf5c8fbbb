/* Shuffling rows.  SPDX-License-Identifier: Apache-2.0 */
#include "base/interrupt.h"
#include "base/rng.h"
#include "cpu/kernel.h"
#include "cpu/kernels/index/indices.h"
#include "gluon/op.gen.h"

/* A random order of n rows, by the Fisher-Yates shuffle. */
static void random_order(int64_t *order, int64_t n)
{
    const mx_rng rng = mx_rng_reserve((uint64_t)n);
    for (int64_t i = 0; i < n; i++)
        order[i] = i;
    for (int64_t i = n - 1; i > 0 && (i % (1 << 16) || !mx_stop_wanted()); i--) {
        uint32_t word[4];
        mx_philox(rng.seed, rng.counter + (uint64_t)i, word);
        const uint64_t draw = (uint64_t)word[0] << 32 | word[1];
        const int64_t k = (int64_t)(draw % (uint64_t)(i + 1)), swap = order[i]; /* the bias is below i / 2^64 */
        order[i] = order[k], order[k] = swap;
    }
}

static mx_code run_shuffle(const mx_kernel_call *call)
{
    const mx_array *x = call->in[0];
    const int64_t n = x->ndim ? x->shape[0] : 1;
    int64_t *order = mx_alloc((size_t)n * sizeof *order);
    if (!order)
        return MX_ERR_MEMORY;
    random_order(order, n);
    if (mx_stop_wanted())
        return mx_free(order, (size_t)n * sizeof *order), MX_OK;
    mx_rows rows = {1, n, n, n ? x->size / n : 0, order, (mx_dtype)x->dtype};
    mx_cpu_take_rows(&rows, mx_data(call->out[0]), mx_data(x));
    mx_free(order, (size_t)n * sizeof *order);
    return MX_OK;
}

MX_CPU_KERNELS(shuffle) = {{"_shuffle", run_shuffle, NULL}, {NULL, NULL, NULL}};
