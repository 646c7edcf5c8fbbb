/* Convolutions over 12 or 16 channels, which is what blocks of pixels of an image have (op/def/movement/pixel_blocks.c).
 *
 * Libraries pad such channels to the size of their tiles and so compute several times as much.  But with channels last, the
 * input of one row of the window at a pixel is one run of memory, `window columns * channels` long, and the runs of neighbours
 * overlap.  So rows of the image are copied to shared memory as they are, and tensor cores read their fragments from there:
 *
 *     forward   y  (pixels, O)  = runs (pixels, K) x w (K, O)        K = window rows * run
 *     weight    dw (O, run)     = dy (O, pixels) x runs (pixels, run)    for each row of the window; parts, then added
 *
 * A block of threads makes tile after tile of a row of pixels, and copies the next one while it computes.  float32 as TF32 with
 * 12 channels (then there are no bank conflicts), 16-bit types with 16.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "cuda/kernels/conv/convolution_stem.h"

#include "cuda/kernels/conv/convolution_cores.h"
#include "cuda/kernels/early.h"

namespace
{

enum {
    PIXELS = 112,        /* of a tile, in one row */
    ROWS = 2,            /* forward: rows of a tile */
    WARPS = PIXELS / 16, /* forward */
    LINE = 8,            /* pieces of 16 bytes that all banks hold */
};

struct shape {
    int rows, columns, height, width; /* of the image, of the result */
    int filters, segments;            /* segments: tiles side by side */
    int tiles, bands;                 /* in all; above each other in one image */
};

/* What depends on the type: the channels, and how much of the sum one instruction adds up. */
template <class T> struct kind {
    enum { CHANNELS = 16, STEP = 16, PIECE = 8 /* elements of 16 bytes */, PAD = 8 };
};
template <> struct kind<float> {
    enum { CHANNELS = 12, STEP = 8, PIECE = 4, PAD = 4 };
};

/* ---- pieces of 16 bytes ------------------------------------------------------------------------------------------- */

__device__ inline void copy_piece(void *to, const void *from, bool there)
{
    copy_piece(shared_address(to), from, there);
}
__device__ inline void wait_but_one() { NEW_ASM("cp.async.wait_group 1;"); }

/* Where piece q of a row is stored: 16-bit pixels are two pieces long, and eight neighbours must be in different banks. */
template <class T> __host__ __device__ inline int place(int q) { return sizeof(T) == 2 ? q ^ (q >> 3 & 1) : q; }

/* Pieces of a row of a tile, under windows of W x W. */
template <class T, int W> __host__ __device__ constexpr int row_pieces()
{
    return ((PIXELS + W - 1) * kind<T>::CHANNELS / kind<T>::PIECE + LINE - 1) / LINE * LINE;
}
template <class T, int W> __host__ __device__ constexpr int run_length() { return W * kind<T>::CHANNELS; }
template <class T, int W> __host__ __device__ constexpr int sum_length() { return W * run_length<T, W>(); }

struct place_of_tile {
    int64_t n;
    int i, j;
    __device__ place_of_tile(const shape &s, int tile, int rows)
        : n(tile / s.segments / s.bands), i(tile / s.segments % s.bands * rows), j(tile % s.segments * PIXELS)
    {
    }
};

/* Rows i.. of the image, from pixel j on. */
template <class T, int W>
__device__ void copy_image(T *to, const T *x, const shape &s, const place_of_tile &at, int rows)
{
    constexpr int PIECE = kind<T>::PIECE, C = kind<T>::CHANNELS, pieces = row_pieces<T, W>();
    const int end = (s.columns - at.j) * C / PIECE;
    for (int k = threadIdx.x; k < rows * pieces; k += blockDim.x) {
        const int r = k / pieces, q = k - r * pieces;
        const bool there = at.i + r < s.rows && q < end;
        const T *from = x + ((at.n * s.rows + at.i + r) * s.columns + at.j) * C + q * PIECE;
        copy_piece(to + (r * pieces + place<T>(q)) * PIECE, there ? from : x, there);
    }
}

/* ---- tensor cores ------------------------------------------------------------------------------------------------- */

__device__ inline unsigned rounded(float x) { return mx_cuda_tf32(x); }

/* Four matrices of 8 x 8 16-bit elements; each lane names a row of one. */
__device__ inline void load_matrices(unsigned *to, const void *row)
{
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
                 : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
                 : "r"(shared_address(row)));
}
__device__ inline void load_turned(unsigned *to, const void *row)
{
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];"
                 : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
                 : "r"(shared_address(row)));
}

/* ---- forward ------------------------------------------------------------------------------------------------------ */

/* The filter in column c of tile n: so that a lane's results of 16-bit types are four neighbours. */
template <class T> __device__ inline int filter_of(int n, int c)
{
    return sizeof(T) == 4 ? n * 8 + c : n / 2 * 16 + c / 2 * 4 + n % 2 * 2 + c % 2;
}

template <class T, int W, int NT> __device__ void load_weights(T *to, const T *w)
{
    constexpr int length = sum_length<T, W>();
    for (int k = threadIdx.x; k < 8 * NT * length; k += blockDim.x) {
        const int row = k / length, at = k - row * length;
        const T value = w[filter_of<T>(row / 8, row % 8) * length + at];
        if constexpr (sizeof(T) == 4)
            to[row * (length + kind<T>::PAD) + at] = __uint_as_float(rounded(value));
        else
            to[row * (length + kind<T>::PAD) + at] = value;
    }
}

/* Runs of 16 pixels from `pixel` on, elements [STEP k, STEP k + STEP). */
__device__ inline void load_runs(unsigned *a, const float *row, int pixel, int k)
{
    const int lane = threadIdx.x % 32, at = (pixel + lane / 4) * 12 + 8 * k + lane % 4;
    a[0] = rounded(row[at]), a[1] = rounded(row[at + 96]);
    a[2] = rounded(row[at + 4]), a[3] = rounded(row[at + 100]);
}
template <class T> __device__ inline void load_runs(unsigned *a, const T *row, int pixel, int k)
{
    const int lane = threadIdx.x % 32;
    load_matrices(a, row + 8 * place<T>(2 * (pixel + lane % 16 + k) + lane / 16));
}

/* Columns n and n + 1 of the weights, elements [at, at + STEP). */
__device__ inline void load_columns(unsigned *b, const float *weights, int length, int n, int at)
{
    const int lane = threadIdx.x % 32;
    for (int i = 0; i < 2; i++) {
        const float *from = weights + ((n + i) * 8 + lane / 4) * length + at + lane % 4;
        b[2 * i] = __float_as_uint(from[0]), b[2 * i + 1] = __float_as_uint(from[4]);
    }
}
template <class T> __device__ inline void load_columns(unsigned *b, const T *weights, int length, int n, int at)
{
    const int lane = threadIdx.x % 32;
    load_matrices(b, weights + (n * 8 + lane / 16 * 8 + lane % 8) * length + at + lane / 8 % 2 * 8);
}

/* y: the pixel's filters; c: what a lane has of it, two neighbours per tile */
template <int NT> __device__ inline void store_pixel(float *y, const float (*c)[4], int half)
{
    const int t = threadIdx.x % 4;
#pragma unroll
    for (int n = 0; n < NT; n++)
        *(float2 *)(y + n * 8 + 2 * t) = make_float2(c[n][half], c[n][half + 1]);
}
template <int NT, class T> __device__ inline void store_pixel(T *y, const float (*c)[4], int half)
{
    struct alignas(8) four {
        T of[4];
    };
    const int t = threadIdx.x % 4;
#pragma unroll
    for (int n = 0; n < NT; n += 2)
        *(four *)(y + n * 8 + 4 * t) = {{(T)c[n][half], (T)c[n][half + 1], (T)c[n + 1][half], (T)c[n + 1][half + 1]}};
}

template <class T> struct ending {
    const T *bias; /* NULL: none */
    float low, high;
    bool steady; /* weight and bias are read before earlier kernels have ended */
};

template <class T, int NT> __device__ inline void end_pixels(float (*c)[4], const ending<T> &e)
{
#pragma unroll
    for (int n = 0; n < NT; n++)
#pragma unroll
        for (int i = 0; i < 4; i++) {
            const float x = c[n][i] + (e.bias ? (float)e.bias[filter_of<T>(n, threadIdx.x % 4 * 2 + i % 2)] : 0);
            c[n][i] = x < e.low ? e.low : x > e.high ? e.high : x; /* keeps NaN */
        }
}

/* One tile: the warp's 16 pixels of each of the rows. */
template <class T, int W, int NT>
__device__ void make_tile(T *y, const T *image, const T *weights, const shape &s, const place_of_tile &at,
                          const ending<T> &e)
{
    constexpr int row = row_pieces<T, W>() * kind<T>::PIECE, length = sum_length<T, W>() + kind<T>::PAD;
    constexpr int steps = run_length<T, W>() / kind<T>::STEP;
    const int pixel = threadIdx.x / 32 * 16;
    float c[ROWS][NT][4] = {};
    for (int a = 0; a < W; a++)
#pragma unroll
        for (int k = 0; k < steps; k++) {
            unsigned left[ROWS][4], right[4];
#pragma unroll
            for (int r = 0; r < ROWS; r++)
                load_runs(left[r], image + (a + r) * row, pixel, k);
#pragma unroll
            for (int n = 0; n < NT; n += 2) {
                load_columns(right, weights, length, n, (a * steps + k) * kind<T>::STEP);
#pragma unroll
                for (int r = 0; r < ROWS; r++) {
                    multiply<T>(c[r][n], left[r], right);
                    multiply<T>(c[r][n + 1], left[r], right + 2);
                }
            }
        }
    const int lane = threadIdx.x % 32, j = at.j + pixel + lane / 4;
#pragma unroll
    for (int r = 0; r < ROWS; r++)
        if (at.i + r < s.height) {
            T *to = y + ((at.n * s.height + at.i + r) * s.width + j) * s.filters;
            end_pixels<T, NT>(c[r], e);
            if (j < s.width)
                store_pixel<NT>(to, c[r], 0);
            if (j + 8 < s.width)
                store_pixel<NT>(to + 8 * s.filters, c[r], 2);
        }
}

template <class T, int W, int NT>
__global__ void __launch_bounds__(32 * WARPS, 2) forward_kernel(shape s, const T *x, const T *w, T *y, ending<T> e)
{
    extern __shared__ __align__(128) char memory[];
    constexpr int rows = ROWS + W - 1, size = rows * row_pieces<T, W>() * kind<T>::PIECE;
    T *image = (T *)memory, *weights = image + 2 * size;
    if (!e.steady)
        mx_cuda_wait_for_earlier();
    load_weights<T, W, NT>(weights, w);
    if (e.steady)
        mx_cuda_wait_for_earlier();
    copy_image<T, W>(image, x, s, place_of_tile(s, blockIdx.x, ROWS), rows);
    end_copies();
    for (int tile = blockIdx.x, turn = 0; tile < s.tiles; tile += gridDim.x, turn ^= 1) {
        const int next = tile + gridDim.x;
        if (next < s.tiles)
            copy_image<T, W>(image + (turn ^ 1) * size, x, s, place_of_tile(s, next, ROWS), rows);
        end_copies();
        wait_but_one();
        __syncthreads();
        make_tile<T, W, NT>(y, image + turn * size, weights, s, place_of_tile(s, tile, ROWS), e);
        __syncthreads();
    }
}

/* ---- the gradient of the weight ------------------------------------------------------------------------------------ */

/* Warps for each row of the window: float32 shares the pixels among two, 16-bit types the run in parts of 32 elements. */
template <class T, int W> __host__ __device__ constexpr int groups()
{
    return sizeof(T) == 4 ? 2 : run_length<T, W>() / 32;
}

/* Rows of O elements, one for each pixel. */
template <class T, int O> __device__ void copy_slopes(T *to, const T *dy, const shape &s, const place_of_tile &at)
{
    constexpr int PIECE = kind<T>::PIECE, pieces = O / PIECE;
    for (int k = threadIdx.x; k < PIXELS * pieces; k += blockDim.x) {
        const int p = k / pieces, q = k % pieces;
        const bool there = at.j + p < s.width;
        const T *from = dy + ((at.n * s.height + at.i) * s.width + at.j + p) * O + q * PIECE;
        copy_piece(to + p * (O + kind<T>::PAD) + q * PIECE, there ? from : dy, there);
    }
}

/* c (16 MT, 8 NT) += dy' x runs; one row of the window.  Lanes take pixels 2 t and 2 t + 1, so that there are no bank
 * conflicts. */
template <int MT, int NT> __device__ void add_tile(float (*c)[NT][4], const float *dy, const float *row, int group)
{
    constexpr int length = 16 * MT + kind<float>::PAD;
    const int lane = threadIdx.x % 32, g = lane / 4, t = lane % 4;
#pragma unroll 1
    for (int step = 0; step < PIXELS / 16; step++) {
        const int pixel = group * (PIXELS / 2) + 8 * step + 2 * t;
        const float *slopes = dy + pixel * length + g, *run = row + pixel * 12 + g;
        unsigned left[MT][4];
#pragma unroll
        for (int m = 0; m < MT; m++) {
            left[m][0] = rounded(slopes[m * 16]), left[m][1] = rounded(slopes[m * 16 + 8]);
            left[m][2] = rounded(slopes[length + m * 16]), left[m][3] = rounded(slopes[length + m * 16 + 8]);
        }
#pragma unroll
        for (int n = 0; n < NT; n++) {
            const unsigned right[2] = {rounded(run[n * 8]), rounded(run[n * 8 + 12])};
#pragma unroll
            for (int m = 0; m < MT; m++)
                multiply<float>(c[m][n], left[m], right);
        }
    }
}
template <int MT, int NT, class T> __device__ void add_tile(float (*c)[NT][4], const T *dy, const T *row, int group)
{
    constexpr int length = 16 * MT + kind<T>::PAD;
    const int lane = threadIdx.x % 32;
#pragma unroll
    for (int step = 0; step < PIXELS / 16; step++) {
        unsigned left[MT][4], right[2 * NT];
        const T *slopes = dy + (16 * step + lane % 8 + lane / 16 * 8) * length + lane / 8 % 2 * 8;
        const int piece = 2 * (16 * step + lane % 16) + group * NT + lane / 16;
#pragma unroll
        for (int m = 0; m < MT; m++)
            load_turned(left[m], slopes + m * 16);
#pragma unroll
        for (int n = 0; n < NT; n += 2)
            load_turned(right + 2 * n, row + 8 * place<T>(piece + n));
#pragma unroll
        for (int n = 0; n < NT; n++)
#pragma unroll
            for (int m = 0; m < MT; m++)
                multiply<T>(c[m][n], left[m], right + 2 * n);
    }
}

/* parts (blocks, groups of pixels, O, K) */
template <class T, int W, int MT, int NT>
__global__ void __launch_bounds__(256, 2) weight_kernel(shape s, const T *x, const T *dy, float *parts)
{
    extern __shared__ __align__(128) char memory[];
    constexpr int row = row_pieces<T, W>() * kind<T>::PIECE, slopes = 16 * MT + kind<T>::PAD;
    constexpr int size = W * row + PIXELS * slopes, length = sum_length<T, W>();
    const int warp = threadIdx.x / 32, a = warp % W, group = warp / W;
    T *buffer = (T *)memory; /* the image, then dy; twice */
    float c[MT][NT][4] = {};
    const auto copy = [&](T *to, int tile) {
        const place_of_tile at(s, tile, 1);
        copy_image<T, W>(to, x, s, at, W);
        copy_slopes<T, 16 * MT>(to + W * row, dy, s, at);
    };
    copy(buffer, blockIdx.x);
    end_copies();
    for (int tile = blockIdx.x, turn = 0; tile < s.tiles; tile += gridDim.x, turn ^= 1) {
        if (tile + gridDim.x < s.tiles)
            copy(buffer + (turn ^ 1) * size, tile + gridDim.x);
        end_copies();
        wait_but_one();
        __syncthreads();
        const T *now = buffer + turn * size;
        add_tile<MT, NT>(c, now + W * row, now + a * row, group);
        __syncthreads();
    }
    const int lane = threadIdx.x % 32, g = lane / 4, t = lane % 4;
    const bool apart = sizeof(T) == 4; /* groups have pixels of their own */
    float *to = parts + (int64_t)(apart ? blockIdx.x * 2 + group : blockIdx.x) * s.filters * length;
    to += a * run_length<T, W>() + (apart ? 0 : group * 8 * NT) + 2 * t;
#pragma unroll
    for (int m = 0; m < MT; m++)
#pragma unroll
        for (int n = 0; n < NT; n++) {
            *(float2 *)(to + (m * 16 + g) * length + n * 8) = make_float2(c[m][n][0], c[m][n][1]);
            *(float2 *)(to + (m * 16 + g + 8) * length + n * 8) = make_float2(c[m][n][2], c[m][n][3]);
        }
}

/* 32 elements by a block: eight warps add up every eighth part. */
template <class T> __global__ void add_parts(const float *parts, int count, int size, T *dw)
{
    __shared__ float sums[8][32];
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, at = blockIdx.x * 32 + lane;
    float sum = 0;
#pragma unroll 4
    for (int k = warp; k < count; k += 8)
        sum += at < size ? parts[(int64_t)k * size + at] : 0;
    sums[warp][lane] = sum;
    __syncthreads();
    if (warp || at >= size)
        return;
    for (int k = 1; k < 8; k++)
        sum += sums[k][lane];
    dw[at] = (T)sum;
}

/* ---- launching ----------------------------------------------------------------------------------------------------- */

template <class T> static bool suits(const mx_cuda_convolution &s, const mx_cuda_convolved &t)
{
    bool fits = s.axes == 2 && s.last && s.groups == 1 && s.in_channels == kind<T>::CHANNELS &&
                (s.out_channels == 32 || s.out_channels == 64) && s.direction != MX_CUDA_DATA &&
                ((uintptr_t)t.x | (uintptr_t)t.w | (uintptr_t)t.y) % 16 == 0;
    for (int i = 0; i < 2; i++)
        fits = fits && s.stride[i] == 1 && s.dilate[i] == 1 && !s.pad[i] && s.kernel[i] == s.kernel[0];
    return fits && (s.kernel[0] == 2 || s.kernel[0] == 4) &&
           (int64_t)s.batch * s.out[0] * ((s.out[1] + PIXELS - 1) / PIXELS) < (int64_t)1 << 30;
}

static shape shape_of(const mx_cuda_convolution &s, int rows)
{
    shape r = {s.in[0], s.in[1], s.out[0], s.out[1], s.out_channels, 0, 0, 0};
    r.segments = (r.width + PIXELS - 1) / PIXELS, r.bands = (r.height + rows - 1) / rows;
    r.tiles = s.batch * r.bands * r.segments;
    return r;
}

/* The kernel may use that much shared memory. */
static bool allow(const void *kernel, size_t bytes)
{
    const cudaFuncAttribute most = cudaFuncAttributeMaxDynamicSharedMemorySize;
    const bool allowed = cudaFuncSetAttribute(kernel, most, (int)bytes) == cudaSuccess;
    cudaGetLastError();
    return allowed;
}

static int blocks_for(const mx_cuda_device *d, const shape &s)
{
    return s.tiles < 2 * d->multiprocessors ? s.tiles : 2 * d->multiprocessors;
}

template <class T, int W, int NT>
static mx_code run_forward(const mx_kernel_call *call, mx_cuda_device *d, const shape &s, const mx_cuda_convolved &t,
                           const mx_cuda_ending &e)
{
    constexpr size_t image = (size_t)(ROWS + W - 1) * row_pieces<T, W>() * 16;
    constexpr size_t bytes = 2 * image + (size_t)(sum_length<T, W>() + kind<T>::PAD) * 8 * NT * sizeof(T);
    const auto kernel = forward_kernel<T, W, NT>;
    if (!allow((const void *)kernel, bytes))
        return MX_DECLINED;
    const ending<T> end = {(const T *)(e.bias ? mx_data(e.bias) : nullptr), e.low, e.high, e.steady};
    cudaLaunchAttribute early;
    cudaLaunchConfig_t launch = {};
    launch.gridDim = dim3((unsigned)blocks_for(d, s)), launch.blockDim = dim3(32 * WARPS);
    launch.dynamicSmemBytes = bytes, launch.stream = d->stream;
    launch.attrs = &early, launch.numAttrs = mx_cuda_early(d, &early);
    return mx_cuda_fail(cudaLaunchKernelEx(&launch, kernel, s, (const T *)t.x, (const T *)t.w, (T *)t.y, end),
                        call->op->name);
}

template <class T, int W, int MT>
static mx_code run_weight(const mx_kernel_call *call, mx_cuda_device *d, const shape &s, const mx_cuda_convolved &t)
{
    constexpr int NT = sizeof(T) == 4 ? run_length<T, W>() / 8 : 4, size = 16 * MT * sum_length<T, W>();
    constexpr size_t slopes = PIXELS * (size_t)(16 * MT + kind<T>::PAD) * sizeof(T);
    constexpr size_t bytes = 2 * ((size_t)W * row_pieces<T, W>() * 16 + slopes);
    const int blocks = blocks_for(d, s), count = sizeof(T) == 4 ? 2 * blocks : blocks;
    const auto kernel = weight_kernel<T, W, MT, NT>;
    if (!allow((const void *)kernel, bytes))
        return MX_DECLINED;
    mx_cuda_scratch parts(d, (size_t)count * size * sizeof(float));
    if (!parts.memory)
        return mx_error_code();
    kernel<<<blocks, 32 * W * groups<T, W>(), bytes, d->stream>>>(s, (const T *)t.x, (const T *)t.y, parts.as<float>());
    add_parts<<<(size + 31) / 32, 256, 0, d->stream>>>(parts.as<float>(), count, size, (T *)t.w);
    return mx_cuda_launched(call);
}

template <class T, int W>
static mx_code run_window(const mx_kernel_call *call, mx_cuda_device *d, const mx_cuda_convolution &s,
                          const mx_cuda_convolved &t, const mx_cuda_ending &e)
{
    const bool forward = s.direction == MX_CUDA_FORWARD, wide = s.out_channels == 64;
    const shape r = shape_of(s, forward ? ROWS : 1);
    if (forward)
        return wide ? run_forward<T, W, 8>(call, d, r, t, e) : run_forward<T, W, 4>(call, d, r, t, e);
    return wide ? run_weight<T, W, 4>(call, d, r, t) : run_weight<T, W, 2>(call, d, r, t);
}

template <class T>
static mx_code run_as(const mx_kernel_call *call, mx_cuda_device *d, const mx_cuda_convolution &s,
                      const mx_cuda_convolved &t, const mx_cuda_ending &e)
{
    if (!suits<T>(s, t))
        return MX_DECLINED;
    return s.kernel[0] == 2 ? run_window<T, 2>(call, d, s, t, e) : run_window<T, 4>(call, d, s, t, e);
}

} // namespace

mx_code mx_cuda_convolve_stem(const mx_kernel_call *call, const mx_cuda_convolution &s, const mx_cuda_convolved &t,
                              const mx_cuda_ending &e)
{
    mx_cuda_device *d = mx_cuda_of(call);
    if (!d)
        return mx_error_code();
    if (!mx_cuda_has_tf32(d) || e.addend)
        return MX_DECLINED;
    switch (s.dtype) {
    case MX_FLOAT32: return mx_flags_get()->cuda_tf32 ? run_as<float>(call, d, s, t, e) : MX_DECLINED;
    case MX_BFLOAT16: return run_as<__nv_bfloat16>(call, d, s, t, e);
    case MX_FLOAT16: return run_as<__half>(call, d, s, t, e);
    default: return MX_DECLINED;
    }
}
