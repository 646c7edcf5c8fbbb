/* Small convolutions in float32, as products of matrices that are never written down.
 *
 * cuDNN's kernels want many channels; with few of them, or a small image, most of the time goes into changing layouts.
 * Here a block of threads makes a tile of the result, straight from plain NCHW arrays:
 *
 *     forward   y  (pixels, O) = patches of x  (pixels, C kh kw)  x  w  (C kh kw, O)     + bias, relu
 *     data      dx (pixels, C) = patches of dy (pixels, O kh kw)  x  w  (O kh kw, C)     stride 1
 *     weight    dw (O, C kh kw) = dy (O, pixels) x patches of x (pixels, C kh kw)        pixels cut into parts, then added
 *
 * Where element k of a patch stands relative to its pixel is a table in shared memory, made once per block.  Everything
 * is computed in float32, whatever the flag for TF32 says: at this size that costs nothing.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "cuda/kernels/small_convolution.h"

namespace
{

enum { THREADS = 128, DEPTH = 16, MOST_PATCH = 1536, LEAST_PART = 96, BUSY = 8 /* blocks of a multiprocessor */ };
const double MOST_WORK = 6e8; /* multiplications and additions */

struct plane {
    int height, width;
    __host__ __device__ int size() const { return height * width; }
};

/* What forward and data have in common: a result pixel looks at places of the source around it. */
struct patches {
    const float *source, *weight, *bias;
    float *out;
    plane from, to, kernel;
    int channels, results;               /* of the source, of the result */
    int stride[2], dilate[2], offset[2]; /* a place: pixel * stride + offset + sign * tap * dilate */
    int sign, weight_step;               /* weight of (k, result): weight[where k says + result * weight_step] */
    bool relu;
    int64_t pixels;
    int part; /* elements of a patch that a block looks at; all of them, or the results are parts (parts, N, results, pixels) */
    __host__ __device__ int patch() const { return channels * kernel.size(); }
};

struct tap {
    int source, weight; /* offsets */
    short y, x;
};

__device__ tap make_tap(const patches &p, int k)
{
    const int channel = k / p.kernel.size(), at = k % p.kernel.size();
    const int y = at / p.kernel.width * p.dilate[0] * p.sign, x = at % p.kernel.width * p.dilate[1] * p.sign;
    const int weight = p.sign > 0 ? k : channel * p.results * p.kernel.size() + at;
    return {channel * p.from.size() + y * p.from.width + x, weight, (short)y, (short)x};
}

__device__ inline bool inside(const plane &p, int y, int x)
{
    return (unsigned)y < (unsigned)p.height && (unsigned)x < (unsigned)p.width;
}

/* acc += a' b for a tile in shared memory; a thread makes 4 x 4. */
template <int TM, int TN> __device__ void multiply(const float (*a)[TM + 4], const float (*b)[TN + 4], int m, int n, float (*acc)[4])
{
#pragma unroll
    for (int k = 0; k < DEPTH; k++) {
        const float4 x = *(const float4 *)&a[k][m], y = *(const float4 *)&b[k][n];
        const float left[4] = {x.x, x.y, x.z, x.w}, right[4] = {y.x, y.y, y.z, y.w};
        for (int i = 0; i < 4; i++)
            for (int j = 0; j < 4; j++)
                acc[i][j] += left[i] * right[j];
    }
}

/* blockIdx: tiles of pixels, tiles of results, parts of the patch */
template <int TM, int TN> __global__ void __launch_bounds__(THREADS) patches_kernel(patches p)
{
    constexpr int STEP_A = THREADS / TM, STEP_B = THREADS / DEPTH, A = DEPTH / STEP_A, B = TN / STEP_B;
    extern __shared__ tap taps[];
    __shared__ __align__(16) float a[DEPTH][TM + 4], b[DEPTH][TN + 4];
    const int begin = blockIdx.z * p.part, patch = min(p.patch() - begin, p.part), t = threadIdx.x; /* k counts from begin */
    for (int k = t; k < patch; k += THREADS)
        taps[k] = make_tap(p, begin + k);
    /* This thread brings pixel t % TM of every fourth (second) row of a, and column t % DEPTH of b. */
    const int64_t pixel = (int64_t)blockIdx.x * TM + t % TM;
    const int image = (int)(pixel / p.to.size()), at = (int)(pixel % p.to.size());
    const int y = at / p.to.width * p.stride[0] + p.offset[0], x = at % p.to.width * p.stride[1] + p.offset[1];
    const float *source = p.source + (int64_t)image * p.channels * p.from.size() + y * p.from.width + x;
    const int result = blockIdx.y * TN + t / DEPTH, m = t % (TM / 4) * 4, n = t / (TM / 4) * 4;
    float acc[4][4] = {}, next_a[A], next_b[B];
    const auto fetch = [&](int first) {
        for (int i = 0; i < A; i++) {
            const int k = first + t / TM + i * STEP_A;
            const bool there = k < patch && pixel < p.pixels && inside(p.from, y + taps[k].y, x + taps[k].x);
            next_a[i] = there ? source[taps[k].source] : 0;
        }
        for (int i = 0; i < B; i++) {
            const int k = first + t % DEPTH, r = result + i * STEP_B;
            next_b[i] = k < patch && r < p.results ? p.weight[taps[k].weight + r * p.weight_step] : 0;
        }
    };
    __syncthreads();
    fetch(0);
    for (int first = 0; first < patch; first += DEPTH) {
        for (int i = 0; i < A; i++)
            a[t / TM + i * STEP_A][t % TM] = next_a[i];
        for (int i = 0; i < B; i++)
            b[t % DEPTH][t / DEPTH + i * STEP_B] = next_b[i];
        __syncthreads();
        if (first + DEPTH < patch)
            fetch(first + DEPTH);
        multiply<TM, TN>(a, b, m, n, acc);
        __syncthreads();
    }
    for (int i = 0; i < 4; i++) {
        const int64_t to = (int64_t)blockIdx.x * TM + m + i;
        float *out = p.out + blockIdx.z * p.pixels * p.results + to / p.to.size() * p.results * p.to.size() + to % p.to.size();
        for (int j = 0; j < 4; j++) {
            const int r = blockIdx.y * TN + n + j;
            if (to >= p.pixels || r >= p.results)
                continue;
            const float v = acc[i][j] + (p.bias ? p.bias[r] : 0);
            out[(int64_t)r * p.to.size()] = p.relu && v < 0 ? 0 : v;
        }
    }
}

/* Adds the parts, then the bias. */
mx_code join_patches(const mx_kernel_call *call, const patches &p, const float *parts, int count, float *out)
{
    const int64_t size = p.pixels * p.results;
    const int inner = p.to.size(), channels = p.results;
    const float *bias = p.bias;
    const bool relu = p.relu;
    return mx_cuda_each(call, size, [=] __device__(int64_t i) {
        float sum = bias ? bias[i / inner % channels] : 0;
#pragma unroll 4
        for (int k = 0; k < count; k++)
            sum += parts[k * size + i];
        out[i] = relu && sum < 0 ? 0 : sum;
    });
}

/* Long patches are cut, because few tiles would leave the device idle. */
template <int TM, int TN> mx_code launch(const mx_kernel_call *call, mx_cuda_device *d, patches p)
{
    const int64_t columns = (p.pixels + TM - 1) / TM, rows = (p.results + TN - 1) / TN;
    int64_t parts = d->multiprocessors * BUSY / (columns * rows);
    parts = parts > p.patch() / LEAST_PART ? p.patch() / LEAST_PART : parts;
    parts = parts < 1 ? 1 : parts;
    p.part = (int)((p.patch() + parts * DEPTH - 1) / (parts * DEPTH) * DEPTH);
    parts = (p.patch() + p.part - 1) / p.part;
    mx_cuda_scratch room(d, parts > 1 ? (size_t)(parts * p.pixels * p.results) * sizeof(float) : 0);
    if (parts > 1 && !room.memory)
        return mx_error_code();
    patches cut = p;
    if (parts > 1)
        cut.out = room.as<float>(), cut.bias = nullptr, cut.relu = false;
    const dim3 grid((unsigned)columns, (unsigned)rows, (unsigned)parts);
    patches_kernel<TM, TN><<<grid, THREADS, (size_t)p.part * sizeof(tap), d->stream>>>(cut);
    const mx_code code = mx_cuda_launched(call);
    return code || parts == 1 ? code : join_patches(call, p, room.as<float>(), (int)parts, p.out);
}

mx_code run_patches(const mx_kernel_call *call, mx_cuda_device *d, const patches &p)
{
    return p.results > 32 ? launch<32, 64>(call, d, p) : launch<64, 32>(call, d, p);
}

/* ---- the gradient of the weight ----------------------------------------------------------------------------------- */

struct weights {
    patches p; /* of the forward direction; out: parts (splits, O, C kh kw) */
    const float *dy;
    int64_t part; /* pixels of each */
};

struct place {
    int64_t dy, source; /* where the pixel's gradient (of result 0) and its patch begin; dy -1: no pixel */
    int y, x;
};

__device__ place find_place(const weights &w, int64_t pixel, int64_t end)
{
    const patches &p = w.p;
    if (pixel >= end)
        return {-1, 0, 0, 0};
    const int64_t image = pixel / p.to.size();
    const int at = (int)(pixel % p.to.size());
    const int y = at / p.to.width * p.stride[0] + p.offset[0], x = at % p.to.width * p.stride[1] + p.offset[1];
    return {image * p.results * p.to.size() + at, image * p.channels * p.from.size() + y * p.from.width + x, y, x};
}

/* blockIdx: tiles of (C kh kw), tiles of O, parts */
template <int TM, int TN> __global__ void __launch_bounds__(THREADS) weights_kernel(weights w)
{
    constexpr int STEP_A = THREADS / DEPTH, STEP_B = THREADS / TN, A = TM / STEP_A, B = DEPTH / STEP_B;
    __shared__ __align__(16) float a[DEPTH][TM + 4], b[DEPTH][TN + 4];
    __shared__ place places[2][DEPTH];
    const patches &p = w.p;
    const int patch = p.patch(), t = threadIdx.x, k_of_b = blockIdx.x * TN + t % TN;
    const tap mine = make_tap(p, k_of_b < patch ? k_of_b : 0);
    const int m = t % (TM / 4) * 4, n = t / (TM / 4) * 4;
    const int64_t begin = blockIdx.z * w.part, end = begin + w.part < p.pixels ? begin + w.part : p.pixels;
    float acc[4][4] = {}, next_a[A], next_b[B];
    const auto look = [&](int which, int64_t first) {
        if (t < DEPTH)
            places[which][t] = find_place(w, first + t, end);
    };
    const auto fetch = [&](int which) {
        for (int i = 0; i < A; i++) {
            const int r = blockIdx.y * TM + t / DEPTH + i * STEP_A;
            const int64_t at = places[which][t % DEPTH].dy;
            next_a[i] = at >= 0 && r < p.results ? w.dy[at + (int64_t)r * p.to.size()] : 0;
        }
        for (int i = 0; i < B; i++) {
            const place &q = places[which][t / TN + i * STEP_B];
            const bool there = q.dy >= 0 && k_of_b < patch && inside(p.from, q.y + mine.y, q.x + mine.x);
            next_b[i] = there ? p.source[q.source + mine.source] : 0;
        }
    };
    look(0, begin);
    __syncthreads();
    fetch(0);
    look(1, begin + DEPTH);
    int which = 1;
    for (int64_t first = begin; first < end; first += DEPTH, which ^= 1) {
        for (int i = 0; i < A; i++)
            a[t % DEPTH][t / DEPTH + i * STEP_A] = next_a[i];
        for (int i = 0; i < B; i++)
            b[t / TN + i * STEP_B][t % TN] = next_b[i];
        __syncthreads();
        if (first + DEPTH < end)
            fetch(which);
        look(which ^ 1, first + 2 * DEPTH);
        multiply<TM, TN>(a, b, m, n, acc);
        __syncthreads();
    }
    float *out = p.out + (int64_t)blockIdx.z * p.results * patch;
    for (int i = 0; i < 4; i++)
        for (int j = 0; j < 4; j++) {
            const int r = blockIdx.y * TM + m + i, k = blockIdx.x * TN + n + j;
            if (r < p.results && k < patch)
                out[(int64_t)r * patch + k] = acc[i][j];
        }
}

/* dw = sum of the parts, eight threads to an element. */
__global__ void join_parts(const float *parts, int splits, int64_t size, float *dw)
{
    const int64_t i = ((int64_t)blockIdx.x * blockDim.x + threadIdx.x) / 8;
    const int lane = threadIdx.x % 8;
    float sum = 0;
    for (int s = lane; i < size && s < splits; s += 8)
        sum += parts[s * size + i];
    for (int step = 4; step; step /= 2)
        sum += __shfl_xor_sync(0xffffffffu, sum, step);
    if (i < size && !lane)
        dw[i] = sum;
}

template <int TM, int TN> mx_code launch_weights(const mx_kernel_call *call, mx_cuda_device *d, weights w, float *dw)
{
    const int64_t size = (int64_t)w.p.results * w.p.patch();
    const unsigned columns = (unsigned)((w.p.patch() + TN - 1) / TN), rows = (unsigned)((w.p.results + TM - 1) / TM);
    int64_t splits = (int64_t)d->multiprocessors * BUSY / (columns * rows);
    const int64_t most = (w.p.pixels + LEAST_PART - 1) / LEAST_PART;
    splits = splits < 1 ? 1 : splits > most ? most : splits;
    w.part = (w.p.pixels + splits * DEPTH - 1) / (splits * DEPTH) * DEPTH;
    splits = (w.p.pixels + w.part - 1) / w.part;
    mx_cuda_scratch parts(d, splits > 1 ? (size_t)(splits * size) * sizeof(float) : 0);
    if (splits > 1 && !parts.memory)
        return mx_error_code();
    w.p.out = splits > 1 ? parts.as<float>() : dw;
    weights_kernel<TM, TN><<<dim3(columns, rows, (unsigned)splits), THREADS, 0, d->stream>>>(w);
    const mx_code code = mx_cuda_launched(call);
    if (code || splits == 1)
        return code;
    join_parts<<<(unsigned)((size * 8 + 255) / 256), 256, 0, d->stream>>>(parts.as<float>(), (int)splits, size, dw);
    return mx_cuda_launched(call);
}

/* ---- entry ---------------------------------------------------------------------------------------------------------- */

double work_of(const mx_cuda_convolution &s)
{
    return 2.0 * s.batch * s.out[0] * s.out[1] * s.out_channels * s.in_channels * s.kernel[0] * s.kernel[1];
}

bool suits(const mx_cuda_convolution &s)
{
    const int taps = s.kernel[0] * s.kernel[1];
    const bool data = s.direction == MX_CUDA_DATA;
    if (s.dtype != MX_FLOAT32 || s.axes != 2 || s.last || s.groups != 1 || work_of(s) > MOST_WORK)
        return false;
    if (data && (s.stride[0] != 1 || s.stride[1] != 1))
        return false;
    return (data ? s.out_channels : s.in_channels) * taps <= MOST_PATCH && s.in[0] < 30000 && s.in[1] < 30000;
}

patches make_patches(const mx_cuda_convolution &s)
{
    const bool data = s.direction == MX_CUDA_DATA;
    const plane wide = {s.in[0], s.in[1]}, small = {s.out[0], s.out[1]};
    patches p = {};
    p.kernel = {s.kernel[0], s.kernel[1]};
    p.from = data ? small : wide, p.to = data ? wide : small;
    p.channels = data ? s.out_channels : s.in_channels, p.results = data ? s.in_channels : s.out_channels;
    p.sign = data ? -1 : 1;
    p.weight_step = data ? p.kernel.size() : s.in_channels * p.kernel.size();
    for (int i = 0; i < 2; i++)
        p.stride[i] = s.stride[i], p.dilate[i] = s.dilate[i], p.offset[i] = data ? s.pad[i] : -s.pad[i];
    p.pixels = (int64_t)s.batch * p.to.size();
    return p;
}

} // namespace

mx_code mx_cuda_convolve_small(const mx_kernel_call *call, const mx_cuda_convolution &s, const mx_cuda_convolved &t,
                               const mx_array *bias, bool relu)
{
    mx_cuda_device *d = suits(s) ? mx_cuda_of(call) : nullptr;
    if (!suits(s))
        return MX_DECLINED;
    if (!d)
        return mx_error_code();
    patches p = make_patches(s);
    p.weight = (const float *)t.w, p.bias = bias ? (const float *)mx_data(bias) : nullptr, p.relu = relu;
    p.source = (const float *)(s.direction == MX_CUDA_DATA ? t.y : t.x);
    if (s.direction != MX_CUDA_WEIGHT) {
        p.out = (float *)(s.direction == MX_CUDA_DATA ? t.x : t.y);
        return run_patches(call, d, p);
    }
    const weights w = {p, (const float *)t.y, 0};
    return p.results > 32 ? launch_weights<64, 32>(call, d, w, (float *)t.w) : launch_weights<32, 64>(call, d, w, (float *)t.w);
}
