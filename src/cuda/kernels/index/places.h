/* Places given by several indices, as in gather_nd and scatter_nd: indices (k, n) address the first k axes.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef MX_CUDA_PLACES_H
#define MX_CUDA_PLACES_H

#include "cuda/cuda.h"

struct mx_cuda_places {
    const void *data;
    int type, k;
    int64_t n, after, dim[MX_MAX_NDIM];
    mx_cuda_error_flag outside;
    __device__ int64_t at(int64_t i) const /* negative ones count from the end; invalid ones are reported and clamped */
    {
        int64_t place = 0;
        for (int a = 0; a < k; a++) {
            const int64_t index = mx_cuda_load<int64_t>(data, type, a * n + i), x = index < 0 ? index + dim[a] : index;
            if (x < 0 || x >= dim[a])
                outside.set(index, dim[a]);
            place = place * dim[a] + (x < 0 ? 0 : x >= dim[a] ? dim[a] - 1 : x);
        }
        return place * after;
    }
};

static inline mx_cuda_error_flag mx_cuda_index_flag(const mx_kernel_call *call)
{
    return mx_cuda_error_flag(call, MX_ERR_INDEX, "index %lld is outside an axis of size %lld");
}

/* False with an error if there are no elements to index. */
static inline bool mx_cuda_places_of(const mx_kernel_call *call, const mx_array *list, const mx_array *whole,
                                     mx_cuda_places *made)
{
    mx_cuda_places p = {mx_data(list), list->dtype, (int)list->shape[0], 1, 1, {}, mx_cuda_index_flag(call)};
    for (int a = 0; a < whole->ndim; a++)
        if (a < p.k)
            p.dim[a] = whole->shape[a];
        else
            p.after *= whole->shape[a];
    p.n = p.k ? list->size / p.k : 0;
    for (int a = 0; a < p.k; a++)
        if (!p.dim[a] && p.n)
            return mx_op_fail(call->op, MX_ERR_INDEX, "axis %d has size 0: it has no elements to index", a), false;
    *made = p;
    return true;
}

#endif
