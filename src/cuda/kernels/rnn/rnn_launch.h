/* Which kernel of rnn_fused.h runs a layer, and in how many launches: from a table for each cell (rnn_fused_*.cu).
 *
 *     a layer = directions * groups of rows: parts, each computed by some blocks that run at the same time
 *     a launch = as many parts as the device has room for, one block to a multiprocessor
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef MX_CUDA_RNN_LAUNCH_H
#define MX_CUDA_RNN_LAUNCH_H

#include "cuda/kernels/rnn/rnn_fused.h"

namespace
{

/* A kernel for up to `deep` columns of the exchange. */
struct fused_variant {
    int units, deep, rows, shared; /* of a block: hidden units, columns, rows of the batch, bytes of shared memory */
    void (*kernel)(fused_launch);
};
/* u units, ks * 64 columns, nt * 8 rows: as many as the registers have room for (255 per thread; the weights take 4 *
 * ks for every 16 rows of weights). */
#define MX_RNN_FORWARD(cell, u, ks, nt) \
    {u, ks * 8 * MX_RNN_WARPS, nt * 8, 2 * 4 * joining<(cell::GATES * u + 15) / 16, nt>::SIZE, \
     fused_forward<cell, u, ks, nt>}
#define MX_RNN_BACKWARD(cell, u, ks, nt) \
    {u, ks * 8 * MX_RNN_WARPS, nt * 8, 2 * 4 * joining<(u + 15) / 16, nt>::SIZE, fused_backward<cell, u, ks, nt>}

inline int64_t ceiling(int64_t a, int64_t b) { return (a + b - 1) / b; }

/* How a layer is run by a variant. */
struct fused_plan {
    int64_t blocks, groups, parts; /* blocks of a part, parts of a direction, all parts */
    int64_t at_once, launches;     /* parts that fit; 0: too large */
    int64_t columns;
    fused_plan(const mx_cuda_device *d, const fused_variant &v, const mx_rnn_ways<float> &layer, int64_t gates)
    {
        const mx_rnn_shape &s = layer.way[0].s;
        blocks = ceiling(s.hidden, v.units), groups = ceiling(s.batch, v.rows), parts = groups * layer.count;
        columns = blocks * v.units * gates;
        at_once = columns <= v.deep ? d->multiprocessors / blocks : 0;
        at_once = at_once < parts ? at_once : parts;
        launches = at_once ? ceiling(parts, at_once) : INT64_MAX;
    }
};

inline bool suits(const mx_cuda_device *d, const mx_rnn_ways<float> &layer)
{
    const mx_rnn_shape &s = layer.way[0].s;
    int cooperative = 0;
    if (!mx_flags_get()->cuda_tf32 || s.projection || s.batch < 1 || s.steps < 2 || s.hidden < 1 ||
        s.steps > INT32_MAX / 2 || s.batch > 4096 || s.hidden > 4096)
        return false;
    cudaDeviceGetAttribute(&cooperative, cudaDevAttrCooperativeLaunch, d->id);
    return cooperative && mx_cuda_has_tf32(d);
}

inline mx_code launch(const mx_kernel_call *call, mx_cuda_device *d, const fused_variant &v, fused_launch &s,
                      const fused_plan &plan)
{
    cudaLaunchConfig_t config = {};
    cudaLaunchAttribute together;
    together.id = cudaLaunchAttributeCooperative, together.val.cooperative = 1;
    config.blockDim = dim3(MX_RNN_THREADS), config.dynamicSmemBytes = (size_t)v.shared;
    config.stream = d->stream, config.attrs = &together, config.numAttrs = 1;
    mx_code code = mx_cuda_fail(cudaFuncSetAttribute(v.kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, v.shared),
                                call->op->name);
    for (int64_t first = 0; first < plan.parts && !code; first += plan.at_once) {
        const int64_t left = plan.parts - first;
        config.gridDim = dim3((unsigned)plan.blocks, (unsigned)(left < plan.at_once ? left : plan.at_once));
        s.first_part = (int)first;
        code = mx_cuda_fail(cudaLaunchKernelEx(&config, v.kernel, s), call->op->name);
    }
    return code;
}

/* The variant that needs the fewest launches, the first of those; many launches are slower than the loop. */
template <int COUNT>
mx_code run_fused(const mx_kernel_call *call, const mx_rnn_ways<float> &layer, const fused_variant (&variants)[COUNT],
                  int64_t gates)
{
    mx_cuda_device *d = mx_cuda_of(call);
    if (!d)
        return mx_error_code();
    const fused_variant *best = nullptr;
    int64_t fewest = 2 * layer.count + 1;
    for (const fused_variant &v : variants) {
        const int64_t launches = fused_plan(d, v, layer, gates).launches;
        if (launches < fewest)
            best = &v, fewest = launches;
    }
    if (!best || !suits(d, layer))
        return MX_DECLINED;
    const fused_plan plan(d, *best, layer, gates);
    mx_cuda_scratch room(d, (size_t)(plan.parts * 2 * best->rows * plan.columns) * sizeof(uint32_t));
    if (!room.memory || mx_cuda_fail(cudaMemsetAsync(room.memory, 0, room.bytes, d->stream), call->op->name))
        return mx_error_code();
    fused_launch s = {layer, room.as<uint32_t>(), (int)plan.groups, 0};
    return launch(call, d, *best, s, plan);
}

} // namespace

#endif
