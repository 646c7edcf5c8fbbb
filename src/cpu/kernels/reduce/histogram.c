/* Histograms.  SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <string.h>

#include "base/alloc.h"
#include "base/interrupt.h"
#include "cpu/kernel.h"
#include "cpu/kernels/level.h"
#include "gluon/op.gen.h"
#include "ndarray/convert.h"
#include "op/formula/histogram.h"

static void data_range(const double *x, int64_t n, double *low, double *high)
{
    *low = INFINITY, *high = -INFINITY;
    for (int64_t i = 0; i < n; i++) {
        *low = x[i] < *low ? x[i] : *low;
        *high = x[i] > *high ? x[i] : *high;
    }
}

/* Edges of equal bins. */
static void equal_edges(const mx_histogram_attrs *attrs, const double *x, int64_t n, double *edge)
{
    double low, high;
    if (attrs->range.n == 2)
        low = attrs->range.d[0], high = attrs->range.d[1];
    else
        data_range(x, n, &low, &high);
    const mx_histogram_range range = mx_histogram_range_of(low, high);
    for (int64_t i = 0; i <= attrs->bin_cnt; i++)
        edge[i] = mx_histogram_edge(range, i, attrs->bin_cnt);
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
    for (size_t i = 0; i < n && !mx_stop_wanted_at((int64_t)i); i++) {
        const int64_t k = mx_histogram_bin(edge, edges->size - 1, value[i]);
        if (k >= 0)
            bin[k]++;
    }
    mx_convert(mx_data(edges), (mx_dtype)edges->dtype, edge, MX_FLOAT64, edges->size);
    mx_free(value, bytes);
    return MX_OK;
}

MX_CPU_KERNELS(histogram) = {{"_histogram", run_histogram, NULL}, {NULL, NULL, NULL}};
