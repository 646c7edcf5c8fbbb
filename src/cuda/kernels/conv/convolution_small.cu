/* Small convolutions in float32, as products of matrices that are never stored.
 *
 * cuDNN's kernels need many channels; with few of them, or a small image, they spend most of the time on changing
 * layouts and leave the device idle.  convolution_small_tiles.cu works directly on NCHW arrays.  This file chooses its
 * tiles: the way to cut the work with the least estimated time.  Choices are cached.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "cuda/kernels/conv/convolution_small.h"

#include <cstring>
#include <map>
#include <mutex>

#include "cuda/kernels/conv/convolution_small_tiles.h"
#include "cuda/kernels/gemm/tensor_cores.h"

namespace
{

typedef mx_cuda_tiles job;

const double MOST_WORK = 6e8;  /* multiplications and additions */
const int MOST_PLACES = 65536; /* of a slab: they are numbers of 16 bits */

int parts(int count, int size) { return (count + size - 1) / size; }
int up(int count, int to) { return parts(count, to) * to; }
/* The largest size of at most `most` that cuts count into pieces of about the same size. */
int even(int count, int most) { return parts(count, parts(count, most)); }

/* ---- one way to cut ---------------------------------------------------------------------------------------------- */

enum { CLUSTERS = 5 };

/* How many blocks run at the same time, one on a multiprocessor, in clusters of 1, 2, 4, 8, 16; 0: none. */
struct machine {
    int blocks[CLUSTERS];
};

void set_box(job *j, int images, int rows, int columns)
{
    j->images = images, j->rows = rows, j->columns = columns;
    j->image_boxes = parts(j->batch, images), j->row_boxes = parts(j->to[0], rows),
    j->column_boxes = parts(j->to[1], columns);
    j->slab_rows = (rows - 1) * j->stride[0] + (j->kernel[0] - 1) * j->dilate[0] + 1;
    j->slab_columns = (columns - 1) * j->stride[1] + (j->kernel[1] - 1) * j->dilate[1] + 1;
}

/* A box of at most `most` pixels: whole images, whole rows, or pieces of a row. */
void set_pixels(job *j, int most)
{
    if (j->to_size <= most)
        set_box(j, even(j->batch, most / j->to_size), j->to[0], j->to[1]);
    else if (j->to[1] <= most)
        set_box(j, 1, even(j->to[0], most / j->to[1]), j->to[1]);
    else
        set_box(j, 1, 1, even(j->to[1], most));
}

void set_chunk(job *j, int count, int all)
{
    j->chunk = up(count, 8), j->line = j->chunk % 16 ? j->chunk : j->chunk + 8; /* 8 mod 16: no bank conflicts */
    j->all_chunks = all, j->chunks = parts(all, j->ranks);
    j->seal();
}

/* There is enough memory, and numbers stay below the limits of an int and of mx_cuda_divisor. */
bool fits(const job &j)
{
    const double stage = (double)j.slab_channels * j.images * j.slab_rows * j.slab_columns + (double)j.width * j.line;
    const double boxes = (double)j.image_boxes * j.row_boxes * j.column_boxes, many = 2e9;
    if (stage * sizeof(float) > j.most_shared || j.shared_bytes() > (size_t)j.most_shared || j.slab > MOST_PLACES)
        return false;
    if (boxes * j.row_boxes > many || boxes * j.column_boxes > many || ((double)j.depth + j.height) * j.taps > many)
        return false;
    return (double)j.m_tiles() * j.ranks * j.ranks < many && j.n_groups < 65536 && j.threads() >= j.width;
}

/* Pixels are rows of the tile, a block's channels are split into so many chunks. */
bool cut_channels(job *j, int chunks)
{
    set_pixels(j, j->height);
    j->slab_channels = parts(parts(j->channels, j->ranks), chunks);
    j->vector = j->direction == MX_CUDA_FORWARD && j->slab_channels * j->taps % 4 == 0 && j->depth % 4 == 0 ? 4 : 1;
    set_chunk(j, j->slab_channels * j->taps, parts(j->channels, j->slab_channels));
    return fits(*j);
}

/* Taps are rows of the tile, pixels are split into chunks. */
bool cut_pixels(job *j, int pixels)
{
    const int taps = j->taps, spanned = j->height % taps ? (j->height - 1) / taps + 2 : j->height / taps;
    j->slab_channels = spanned < j->channels ? spanned : j->channels;
    set_pixels(j, pixels);
    if (j->columns != j->to[1])
        return false;
    j->vector = j->rows * j->columns % 4 == 0 && j->to_size % 4 == 0 ? 4 : 1;
    set_chunk(j, j->images * j->rows * j->columns, j->image_boxes * j->row_boxes);
    return fits(*j);
}

/* ---- the best way ------------------------------------------------------------------------------------------------ */

/* How many iterations of a shared loop a thread runs. */
int turns_of(const mx_cuda_sharing &s, int outer, int threads)
{
    return s.groups > 1 ? parts(outer, s.groups) : outer * parts((int)s.inner.by, threads);
}

/* Nanoseconds, roughly.  The numbers are a fit to the times of some thousand tiles on an H200: most of the time
 * instructions wait for each other; what depends on how many warps a multiprocessor has (`work`) is less. */
double cost_of(const job &j, const machine &on, int cluster)
{
    const int m = mx_cuda_tile_shapes[j.shape].m, n = mx_cuda_tile_shapes[j.shape].n, warps = j.warps_m * j.warps_k;
    const int turns = parts(j.m_tiles() * j.n_groups * j.ranks, on.blocks[cluster]);
    const int by_memory = (int)(j.most_shared / (j.shared_bytes() + 1024)), by_threads = (m * n > 6 ? 16 : 36) / warps;
    const int most = by_memory < by_threads ? by_memory : by_threads, waves = parts(turns, most < 1 ? 1 : most);
    const int outer = j.direction == MX_CUDA_DATA ? j.slab_channels : j.width;
    const double fetched = (double)j.chunks * (turns_of(j.at_source, j.slab_channels, j.threads()) * j.images +
                                               turns_of(j.at_other, outer, j.threads()));
    const double steps = (double)j.chunks * parts(j.chunk / 8, j.warps_k), size = (double)j.height * j.width;
    const double meeting = j.ranks > 8 ? 1500 : j.ranks > 1 ? 920 : 0, first = j.chunks == 1 ? 500 : 0;
    const double wait = 1240 + 720 * j.chunks + 19.3 * fetched + meeting + first +
                        steps * (j.exact ? 50 + 13.6 * m * n : 54 + 4.7 * m * n);
    const double work = 1.8 * fetched * warps + steps * warps * (4 * m + 2 * n) * (j.exact ? 2.4 : 1.1) +
                        size * (0.12 + (j.ranks * j.warps_k > 1 ? 0.053 * j.warps_k : 0));
    return waves * wait + turns * work;
}

/* Calls try_it(job, cluster) for all ways to put warps and blocks to work. */
template <class F> void each_way(job j, const machine &on, F try_it)
{
    static const int warps[] = {1, 2, 3, 4, 6, 8};
    for (j.shape = 0; j.shape < (int)(sizeof mx_cuda_tile_shapes / sizeof mx_cuda_tile_shapes[0]); j.shape++) {
        const mx_cuda_tile_shape shape = mx_cuda_tile_shapes[j.shape];
        j.width = shape.n * 8, j.n_groups = parts(j.results, j.width);
        for (int i = 0; i < 6; i++)
            for (j.warps_m = warps[i], j.warps_k = 1; j.warps_m * j.warps_k <= MX_CUDA_TILE_WARPS; j.warps_k++)
                for (int cluster = 0; cluster < CLUSTERS && on.blocks[cluster]; cluster++) {
                    j.ranks = 1 << cluster, j.height = j.warps_m * shape.m * 16;
                    try_it(j, cluster);
                }
    }
}

/* False: none is possible. */
bool choose(job *best, const job &from, const machine &on)
{
    double least = 0;
    bool found = false;
    each_way(from, on, [&](job j, int cluster) {
        const bool weight = j.direction == MX_CUDA_WEIGHT;
        for (int i = 0; i < (weight ? 5 : 4); i++) {
            if (!(weight ? cut_pixels(&j, 64 << i) : cut_channels(&j, i + 1)))
                continue;
            const double cost = cost_of(j, on, cluster);
            if (!found || cost < least)
                least = cost, *best = j, found = true;
        }
    });
    return found;
}

/* ---- entry ------------------------------------------------------------------------------------------------------- */

double work_of(const mx_cuda_convolution &s)
{
    return 2.0 * s.batch * s.out[0] * s.out[1] * s.out_channels * s.in_channels * s.kernel[0] * s.kernel[1];
}

bool suits(const mx_cuda_convolution &s)
{
    const double most = (double)s.batch * (s.in_channels > s.out_channels ? s.in_channels : s.out_channels) *
                        ((double)s.in[0] * s.in[1] + (double)s.out[0] * s.out[1]);
    if (s.dtype != MX_FLOAT32 || s.axes != 2 || s.last || s.groups != 1 || work_of(s) > MOST_WORK || most > 1e9)
        return false;
    return s.direction != MX_CUDA_DATA || (s.stride[0] == 1 && s.stride[1] == 1);
}

job make_job(const mx_cuda_convolution &s)
{
    const bool data = s.direction == MX_CUDA_DATA;
    job j = {};
    j.direction = s.direction, j.exact = s.exact, j.batch = s.batch;
    j.channels = data ? s.out_channels : s.in_channels, j.results = data ? s.in_channels : s.out_channels;
    for (int i = 0; i < 2; i++) {
        j.from[i] = data ? s.out[i] : s.in[i], j.to[i] = data ? s.in[i] : s.out[i];
        j.kernel[i] = s.kernel[i], j.stride[i] = s.stride[i], j.dilate[i] = s.dilate[i];
        j.offset[i] = data ? s.pad[i] - (s.kernel[i] - 1) * s.dilate[i] : -s.pad[i];
    }
    j.taps = j.kernel[0] * j.kernel[1], j.to_size = j.to[0] * j.to[1], j.depth = j.channels * j.taps;
    return j;
}

struct before {
    bool operator()(const mx_cuda_convolution &a, const mx_cuda_convolution &b) const
    {
        return memcmp(&a, &b, sizeof a) < 0;
    }
};

/* The tiles for s, cached; shape -1: none. */
job tiles_for(const mx_cuda_device *d, const mx_cuda_convolution &s)
{
    static std::mutex lock;
    static std::map<mx_cuda_convolution, job, before> known;
    std::lock_guard<std::mutex> guard(lock);
    const auto found = known.find(s);
    if (found != known.end())
        return found->second;
    int major = 0;
    job best = {}, from = make_job(s);
    machine on = {{d->multiprocessors}};
    cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, d->id);
    cudaDeviceGetAttribute(&from.most_shared, cudaDevAttrMaxSharedMemoryPerBlockOptin, d->id);
    for (int i = 1; i < CLUSTERS && major >= 9; i++)
        on.blocks[i] = mx_cuda_tile_clusters(1 << i, from.most_shared) << i;
    if (!choose(&best, from, on))
        best.shape = -1;
    return known[s] = best;
}

} // namespace

mx_code mx_cuda_convolve_small(const mx_kernel_call *call, const mx_cuda_convolution &given, const mx_cuda_convolved &t,
                               const mx_array *bias, bool relu, mx_array *sums)
{
    if (!suits(given))
        return MX_DECLINED;
    mx_cuda_device *d = mx_cuda_of(call);
    if (!d)
        return mx_error_code();
    if (!mx_cuda_has_tf32(d))
        return MX_DECLINED;
    mx_cuda_convolution s = given;
    s.device = d->id, s.exact = !mx_flags_get()->cuda_tf32;
    job j = tiles_for(d, s);
    if (j.shape < 0)
        return MX_DECLINED;
    const bool data = s.direction == MX_CUDA_DATA, weight = s.direction == MX_CUDA_WEIGHT;
    j.source = (const float *)(data ? t.y : t.x), j.other = (const float *)(weight ? t.y : t.w);
    j.out = (float *)(data ? t.x : weight ? t.w : t.y);
    j.bias = bias ? (const float *)mx_data(bias) : nullptr, j.sums = sums ? (float *)mx_data(sums) : nullptr;
    j.relu = relu;
    if ((uintptr_t)j.other % 16)
        j.vector = 1, j.seal();
    return mx_cuda_run_tiles(call, d, j);
}
