/* How many elements fall into each bin.  SPDX-License-Identifier: Apache-2.0 */
#include <cmath>

#include "cuda/kernels/items.h"
extern "C" {
#include "op/formula/histogram.h"
}

#define PARTS 256 /* blocks that look for the range of the data */

/* part (PARTS, 2): the least and the largest element that each block has seen */
static mx_code data_range(const mx_kernel_call *call, double *part)
{
    const void *x = mx_data(call->in[0]);
    const int type = call->in[0]->dtype;
    const int64_t n = call->in[0]->size;
    return mx_cuda_rows(call, PARTS, 256, [=] __device__(int64_t row) {
        double low = INFINITY, high = -INFINITY;
        for (int64_t i = row * blockDim.x + threadIdx.x; i < n; i += PARTS * blockDim.x) {
            const double v = mx_cuda_load<double>(x, type, i);
            low = v < low ? v : low, high = v > high ? v : high;
        }
        low = -mx_cuda_block_max(-low), high = mx_cuda_block_max(high);
        if (!threadIdx.x)
            part[2 * row] = low, part[2 * row + 1] = high;
    });
}

/* edge (bins + 1): of equal bins over the range that is given, or over the parts' (NULL: it is given). */
static mx_code equal_edges(const mx_kernel_call *call, const mx_histogram_attrs *a, const double *part, double *edge)
{
    const int64_t bins = a->bin_cnt;
    const double first = part ? 0 : a->range.d[0], last = part ? 0 : a->range.d[1];
    return mx_cuda_rows(call, 1, bins + 1, [=] __device__(int64_t) {
        double low = INFINITY, high = -INFINITY;
        for (int64_t i = threadIdx.x; i < PARTS && part; i += blockDim.x)
            low = fmin(low, part[2 * i]), high = fmax(high, part[2 * i + 1]);
        low = -mx_cuda_block_max(-low), high = mx_cuda_block_max(high);
        const mx_histogram_range range = mx_histogram_range_of(part ? low : first, part ? high : last);
        for (int64_t i = threadIdx.x; i <= bins; i += blockDim.x)
            edge[i] = mx_histogram_edge(range, i, bins);
    });
}

static mx_code count(const mx_kernel_call *call, const double *edge)
{
    const void *x = mx_data(call->in[0]);
    unsigned long long *bin = (unsigned long long *)mx_data(call->out[0]);
    const int type = call->in[0]->dtype;
    const int64_t bins = call->out[1]->size - 1;
    return mx_cuda_each(call, call->in[0]->size, [=] __device__(int64_t i) {
        const int64_t k = mx_histogram_bin(edge, bins, mx_cuda_load<double>(x, type, i));
        if (k >= 0)
            atomicAdd(&bin[k], 1ull);
    });
}

static mx_code run_histogram(const mx_kernel_call *call)
{
    const mx_histogram_attrs *a = (const mx_histogram_attrs *)call->attrs;
    const mx_array *edges = call->out[1];
    mx_cuda_device *d = mx_cuda_of(call);
    if (!d)
        return mx_error_code();
    mx_cuda_scratch room(d, (size_t)(edges->size + 2 * PARTS) * sizeof(double));
    double *part = room.as<double>(), *edge = part + 2 * PARTS;
    if (!part)
        return mx_error_code();
    const bool equal = a->bin_cnt != MX_NONE_INT, given = equal && a->range.n == 2;
    mx_code code =
        mx_cuda_fail(cudaMemsetAsync(mx_data(call->out[0]), 0, mx_bytes(call->out[0]), d->stream), call->op->name);
    if (!code && equal && !given)
        code = data_range(call, part);
    if (!code)
        code = equal ? equal_edges(call, a, given ? nullptr : part, edge) : mx_cuda_to_doubles(call, call->in[1], edge);
    code = code ? code : count(call, edge);
    void *to = mx_data(edges);
    const int type = edges->dtype;
    return code ? code : mx_cuda_each(call, edges->size, [=] __device__(int64_t i) {
        mx_cuda_store<double>(to, type, i, edge[i]);
    });
}

MX_CUDA_KERNELS(histogram) = {{"_histogram", run_histogram, NULL}, {NULL, NULL, NULL}};
