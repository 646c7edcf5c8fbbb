/* The fastest way to a convolution and its ending, measured once for each geometry.
 *
 *     TILES     our kernel, a tiling and a size of clusters (convolution_fused_tiles.h): best for few images
 *     JOINED    cuDNN's graph of convolution and ending: best for many
 *     APART     cuDNN's convolution, then the ending in a pass of its own: always possible
 *
 * Ways are measured as a plan runs them, as captured launches that follow one another: launched one by one, small kernels would
 * all take the time of a launch.  While launches are captured nothing can be measured; then APART is used, and the choice is made
 * later.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "cuda/kernels/conv/convolution_fused.h"

#include <cstring>
#include <map>
#include <mutex>
#include <vector>

#include "cuda/device.h"
#include "cuda/kernels/conv/convolution_finish.h"
#include "cuda/kernels/conv/convolution_fused_tiles.h"
#include "cuda/kernels/gemm/tensor_cores.h"

#define REPEATS 8 /* launches of a capture */

namespace
{

enum kind { TILES, JOINED, APART };
struct way {
    kind of;
    int tiling, ranks; /* of TILES */
};

/* A call, as the ways need it. */
struct work {
    const mx_kernel_call *call;
    mx_cuda_convolution s; /* without ending */
    mx_cuda_convolved t;
    mx_cuda_ending e;
};

/* ---- running ------------------------------------------------------------------------------------------------------- */

static mx_cuda_fused_tiles tiles_of(const work &w)
{
    mx_cuda_fused_tiles g = {};
    const mx_cuda_convolution &s = w.s;
    g.x = w.t.x, g.w = w.t.w, g.y = (void *)w.t.y, g.bias = w.t.bias, g.addend = w.t.addend;
    g.batch = s.batch, g.height = s.in[0], g.width = s.in[1], g.channels = s.in_channels;
    g.filters = s.out_channels, g.rows = s.out[0], g.columns = s.out[1];
    for (int i = 0; i < 2; i++)
        g.kernel[i] = s.kernel[i], g.stride[i] = s.stride[i], g.pad[i] = s.pad[i], g.dilate[i] = s.dilate[i];
    g.low = w.e.low, g.high = w.e.high, g.steady = w.e.steady;
    return g;
}

/* The geometry with the ending; cuDNN's relu begins at 0. */
static mx_cuda_convolution with_ending(const work &w)
{
    mx_cuda_convolution s = w.s;
    s.bias = w.e.bias != nullptr, s.addend = w.e.addend != nullptr, s.relu = w.e.relu();
    if (w.e.high < INFINITY)
        memcpy(&s.high, &w.e.high, sizeof s.high);
    return s;
}
static bool joins(const work &w) { return w.s.dtype != MX_FLOAT64 && (!w.e.limited() || (w.e.relu() && w.e.high > 0)); }

/* Declined: the way does not exist. */
static mx_code run(const work &w, const way &by)
{
    mx_cuda_device *d = mx_cuda_of(w.call);
    if (!d)
        return mx_error_code();
    if (by.of == TILES) {
        const bool early = d->pool && d->code >= 90;
        const cudaError_t status =
            mx_cuda_run_fused_tiles(d->stream, w.s.dtype, tiles_of(w), by.tiling, by.ranks, early);
        return status ? cudaGetLastError(), MX_DECLINED : MX_OK;
    }
    if (by.of == JOINED)
        return mx_cuda_convolve(w.call, with_ending(w), w.t);
    const mx_cuda_convolved plain = {w.t.x, w.t.w, w.t.y};
    const mx_code code = mx_cuda_convolve(w.call, w.s, plain);
    return code ? code : mx_cuda_finish_convolution(w.call, w.call->out[0], w.e, w.s.last);
}

/* ---- measuring ----------------------------------------------------------------------------------------------------- */

static float time_of(mx_cuda_device *d, mx_capture *captured)
{
    cudaEvent_t start, end;
    float milliseconds = -1;
    mx_code code = mx_cuda_capturer.run(captured);
    cudaEventCreate(&start), cudaEventCreate(&end);
    cudaEventRecord(start, d->stream);
    for (int i = 0; i < 2 && !code; i++)
        code = mx_cuda_capturer.run(captured);
    cudaEventRecord(end, d->stream);
    if (cudaEventSynchronize(end) != cudaSuccess || cudaEventElapsedTime(&milliseconds, start, end) != cudaSuccess ||
        code)
        milliseconds = -1;
    cudaEventDestroy(start), cudaEventDestroy(end);
    return milliseconds;
}

/* Milliseconds; negative: it does not run. */
static float measured(mx_cuda_device *d, const work &w, const way &by)
{
    if (run(w, by))
        return mx_error_clear(), -1;
    mx_capture *captured = mx_cuda_capturer.begin(w.call->out[0]->context);
    if (!captured)
        return mx_error_clear(), -1;
    const mx_touch touched = {w.t.y, mx_bytes(w.call->out[0]), true};
    mx_code code = MX_OK;
    for (int i = 0; i < REPEATS && !code; i++) {
        code = run(w, by);
        code = code ? code : mx_cuda_capturer.mark(captured, 1, &touched);
    }
    const mx_code ended = mx_cuda_capturer.end(captured);
    const float time = code || ended ? -1 : time_of(d, captured);
    mx_cuda_capturer.free(captured);
    if (time < 0)
        mx_error_clear();
    return time;
}

static std::vector<way> ways_of(const mx_cuda_device *d, const work &w)
{
    std::vector<way> ways = {{APART, 0, 0}};
    const mx_cuda_fused_tiles g = tiles_of(w);
    if (joins(w))
        ways.push_back({JOINED, 0, 0});
    if (w.s.dtype == MX_FLOAT64 || w.s.exact || w.s.groups != 1 || !mx_cuda_has_tf32(d) ||
        !mx_cuda_fused_tiles_suit(w.s.dtype, g))
        return ways;
    for (int tiling = 0; tiling < MX_CUDA_FUSED_COUNT; tiling++)
        for (int ranks = 1; ranks < 1 << MX_CUDA_FUSED_RANKS; ranks *= 2)
            if ((ranks == 1 || d->code >= 90) &&
                mx_cuda_fused_tiling_suits(w.s.dtype, g, tiling, ranks, d->multiprocessors))
                ways.push_back({TILES, tiling, ranks});
    return ways;
}

static way fastest(mx_cuda_device *d, const work &w)
{
    way best = {APART, 0, 0};
    float least = -1;
    for (const way &by : ways_of(d, w)) {
        const float time = measured(d, w, by);
        if (time >= 0 && (least < 0 || time < least))
            least = time, best = by;
    }
    return best;
}

/* ---- choosing ------------------------------------------------------------------------------------------------------- */

struct by_bytes {
    bool operator()(const mx_cuda_convolution &a, const mx_cuda_convolution &b) const
    {
        return memcmp(&a, &b, sizeof a) < 0;
    }
};

/* The lock is not held while ways are measured: another thread may capture and wait for it.  Two threads may measure the same. */
static way way_for(mx_cuda_device *d, const work &w)
{
    static std::mutex lock;
    static std::map<mx_cuda_convolution, way, by_bytes> &known = *new std::map<mx_cuda_convolution, way, by_bytes>;
    const mx_cuda_convolution key = with_ending(w);
    {
        std::lock_guard<std::mutex> guard(lock);
        const auto found = known.find(key);
        if (found != known.end())
            return found->second;
    }
    if (mx_cuda_capturing_device)
        return {APART, 0, 0};
    const way best = fastest(d, w);
    std::lock_guard<std::mutex> guard(lock);
    return known.emplace(key, best).first->second; /* captured plans rely on it: the first choice stays */
}

static int alignment(const mx_cuda_convolved &t)
{
    const uintptr_t ending = (uintptr_t)t.bias | (uintptr_t)t.addend;
    const uintptr_t all = (uintptr_t)t.x | (uintptr_t)t.w | (uintptr_t)t.y | ending | 16;
    return (int)(all & (~all + 1));
}

} // namespace

mx_code mx_cuda_convolve_fused(const mx_kernel_call *call, const mx_cuda_convolution &s, const mx_cuda_convolved &t,
                               const mx_cuda_ending &e)
{
    mx_cuda_device *d = mx_cuda_of(call);
    if (!d)
        return mx_error_code();
    if (s.direction != MX_CUDA_FORWARD || !s.last || s.axes != 2 || e.empty())
        return MX_DECLINED;
    work w = {call, s, t, e};
    w.t.bias = e.bias ? mx_data(e.bias) : nullptr, w.t.addend = e.addend ? mx_data(e.addend) : nullptr;
    w.s.device = d->id, w.s.aligned = alignment(w.t);
    w.s.exact = s.dtype == MX_FLOAT32 && !mx_flags_get()->cuda_tf32;
    const way by = way_for(d, w);
    const mx_code code = run(w, by);
    return code == MX_DECLINED ? run(w, {APART, 0, 0}) : code;
}
