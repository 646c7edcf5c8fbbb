/* Histograms.  SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <string.h>

#include "base/alloc.h"
#include "cpu/kernel.h"
#include "cpu/kernels/level.h"
#include "gluon/op.gen.h"
#include "ndarray/convert.h"

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

/* Edges of equal bins; an empty range is widened. */
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

/* The bin that contains x; the last one includes its upper edge; -1: none. */
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

MX_CPU_KERNELS(histogram) = {{"_histogram", run_histogram, NULL}, {NULL, NULL, NULL}};
