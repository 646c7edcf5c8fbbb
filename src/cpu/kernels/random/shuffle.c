/* shuffle and histogram on the CPU.  SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <string.h>

#include "base/rng.h"
#include "cpu/kernel.h"
#include "cpu/kernels/index/indices.h"
#include "gluon/op.gen.h"

/* A random order of n rows: each place changes with one of those not yet settled. */
static void random_order(int64_t *order, int64_t n)
{
    const mx_rng rng = mx_rng_reserve((uint64_t)n);
    for (int64_t i = 0; i < n; i++)
        order[i] = i;
    for (int64_t i = n - 1; i > 0; i--) {
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
    mx_rows rows = {1, n, n, n ? x->size / n : 0, order, (mx_dtype)x->dtype};
    mx_cpu_take_rows(&rows, mx_data(call->out[0]), mx_data(x));
    mx_free(order, (size_t)n * sizeof *order);
    return MX_OK;
}

/* ---- histogram ---------------------------------------------------------------------------------------------- */

static void data_range(const double *x, int64_t n, double *low, double *high)
{
    *low = INFINITY, *high = -INFINITY;
    for (int64_t i = 0; i < n; i++) {
        *low = x[i] < *low ? x[i] : *low;
        *high = x[i] > *high ? x[i] : *high;
    }
    if (!(*low <= *high))
        *low = 0, *high = 1;
}

/* Edges of equal bins; a range of no width gets one. */
static void equal_edges(const mx_histogram_attrs *attrs, const double *x, int64_t n, double *edge)
{
    double low, high;
    if (attrs->range.n == 2)
        low = attrs->range.d[0], high = attrs->range.d[1];
    else
        data_range(x, n, &low, &high);
    if (low == high)
        low -= 0.5, high += 0.5;
    for (int64_t i = 0; i <= attrs->bin_cnt; i++)
        edge[i] = low + (high - low) * (double)i / (double)attrs->bin_cnt;
}

/* The bin whose edges surround x; the last one includes its upper edge; -1: none. */
static int64_t find_bin(const double *edge, int64_t bins, double x)
{
    if (!(x >= edge[0] && x <= edge[bins]))
        return -1;
    int64_t low = 0, high = bins;
    while (high - low > 1) {
        const int64_t middle = (low + high) / 2;
        *(x < edge[middle] ? &high : &low) = middle;
    }
    return low;
}

static mx_code run_histogram(const mx_kernel_call *call)
{
    const mx_histogram_attrs *attrs = call->attrs;
    const mx_array *x = call->in[0], *edges = call->out[1];
    const size_t n = (size_t)x->size, count = (size_t)edges->size, bytes = (n + count) * sizeof(double);
    double *value = mx_alloc(bytes), *edge = value ? value + n : NULL;
    int64_t *bin = mx_data(call->out[0]);
    if (!value)
        return MX_ERR_MEMORY;
    mx_convert(value, MX_FLOAT64, mx_data(x), (mx_dtype)x->dtype, x->size);
    if (attrs->bin_cnt != MX_NONE_INT)
        equal_edges(attrs, value, x->size, edge);
    else
        mx_convert(edge, MX_FLOAT64, mx_data(call->in[1]), (mx_dtype)call->in[1]->dtype, edges->size);
    memset(bin, 0, mx_bytes(call->out[0]));
    for (size_t i = 0; i < n; i++) {
        const int64_t k = find_bin(edge, edges->size - 1, value[i]);
        if (k >= 0)
            bin[k]++;
    }
    mx_convert(mx_data(edges), (mx_dtype)edges->dtype, edge, MX_FLOAT64, edges->size);
    mx_free(value, bytes);
    return MX_OK;
}

MX_CPU_KERNELS(shuffle) = {{"_shuffle", run_shuffle, NULL}, {"_histogram", run_histogram, NULL}, {NULL, NULL, NULL}};
