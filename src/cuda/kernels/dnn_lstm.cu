/* All steps of an LSTM layer in one launch: the weights of the recurrence stay in registers.
 *
 * A block owns some hidden units: 8 of them, with the four rows of weights of each, forward; 16 backward.  In every step
 * it multiplies its weights with the state of all units (forward: h; backward: the gradients of the gates) by tensor cores
 * (TF32), its 8 warps having an eighth of the sum each; adds up the warps' parts; does the arithmetic of its own units; and
 * hands the result to the others through a buffer in the second-level cache.  Then all blocks wait for each other.
 *
 *     exchange (2, rows of NT * 8, K)   what step i wrote stands in half i % 2; padded with zeros, rounded to TF32
 *
 * The launch is cooperative: all blocks run at the same time, or none.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "cuda/kernels/dnn_lstm.h"

namespace
{

#define WARPS 8
#define THREADS (WARPS * 32)
#define FORWARD_UNITS 8
#define BACKWARD_UNITS 16

/* ---- tensor cores ---------------------------------------------------------------------------------------------- */

#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ < 800
#define HAS_TF32 0 /* mx_cuda_lstm_suits() keeps such devices away */
#else
#define HAS_TF32 1
#endif

__device__ float rounded(float x) /* to TF32 */
{
#if HAS_TF32
    uint32_t bits;
    asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(bits) : "f"(x));
    x = __uint_as_float(bits);
#endif
    return x;
}

/* c (16, 8) += a (16, 8) b (8, 8), each spread over a warp */
__device__ void multiply(float *c, const float *a, float b0, float b1)
{
#if HAS_TF32
    asm volatile(
        "mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
        : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
        : "r"(__float_as_uint(a[0])), "r"(__float_as_uint(a[1])), "r"(__float_as_uint(a[2])),
          "r"(__float_as_uint(a[3])), "r"(__float_as_uint(b0)), "r"(__float_as_uint(b1)));
#endif
}

/* The part of a block's weights that a warp holds: MT * 16 rows, KS * 8 columns.  The sum runs over columns in an order that
 * lets a thread read four neighbouring elements of the other operand: of 16 columns thread t of a group has 4 t ... 4 t + 3. */
template <int MT, int KS> struct weights {
    float a[KS][MT][4];
    /* at(row, column) gives a weight */
    template <class F> __device__ void load(F at)
    {
        const int lane = threadIdx.x % 32, row = lane / 4, column = (threadIdx.x / 32 * KS) * 8 + lane % 4 * 4;
#pragma unroll
        for (int k = 0; k < KS; k++)
#pragma unroll
            for (int m = 0; m < MT; m++)
#pragma unroll
                for (int i = 0; i < 4; i++)
                    a[k][m][i] = rounded(at(m * 16 + row + i % 2 * 8, column + k / 2 * 16 + k % 2 * 2 + i / 2));
    }
    /* sum[m][n] += weights x' for x (NT * 8 rows, `columns`) */
    template <int NT> __device__ void times(const float *x, int columns, float (&sum)[MT][NT][4]) const
    {
        const int lane = threadIdx.x % 32;
        const float *from = x + (lane / 4) * columns + (threadIdx.x / 32 * KS) * 8 + lane % 4 * 4;
#pragma unroll
        for (int k = 0; k < KS; k += 2) {
            float4 b[NT];
#pragma unroll
            for (int n = 0; n < NT; n++)
                b[n] = __ldcg((const float4 *)(from + n * 8 * columns + k * 8));
#pragma unroll
            for (int n = 0; n < NT; n++)
#pragma unroll
                for (int m = 0; m < MT; m++) {
                    multiply(sum[m][n], a[k][m], b[n].x, b[n].y);
                    multiply(sum[m][n], a[k + 1][m], b[n].z, b[n].w);
                }
        }
    }
};

/* The warps' sums added up: element e of lane l in tile (m, n) is result[((m * NT + n) * 32 + l) * 4 + e]. */
template <int MT, int NT> __device__ void join(const float (&sum)[MT][NT][4], float4 *parts)
{
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
#pragma unroll
    for (int m = 0; m < MT; m++)
#pragma unroll
        for (int n = 0; n < NT; n++)
            parts[(warp * MT * NT + m * NT + n) * 32 + lane] =
                make_float4(sum[m][n][0], sum[m][n][1], sum[m][n][2], sum[m][n][3]);
    __syncthreads();
}

template <int MT, int NT> __device__ float joined(const float4 *parts, int m, int n, int lane, int e)
{
    float sum = 0;
#pragma unroll
    for (int w = 0; w < WARPS; w++)
        sum += ((const float *)&parts[(w * MT * NT + m * NT + n) * 32 + lane])[e];
    return sum;
}

/* All blocks have come here `round` times, and what they wrote before is visible. */
__device__ void meet(unsigned *counter, unsigned round)
{
    __syncthreads();
    if (!threadIdx.x) {
        const unsigned goal = round * gridDim.x;
        unsigned seen;
        asm volatile("red.release.gpu.global.add.u32 [%0], 1;" ::"l"(counter) : "memory");
        do
            asm volatile("ld.acquire.gpu.global.u32 %0, [%1];" : "=r"(seen) : "l"(counter) : "memory");
        while (seen < goal);
    }
    __syncthreads();
}

__device__ float sigmoid(float x) { return 1 / (1 + expf(-x)); }

/* ---- forward --------------------------------------------------------------------------------------------------- */

/* Thread (n, lane, e) has unit lane / 4 and row n * 8 + lane % 4 * 2 + e; tile 0 of the weights: i and f, tile 1: g and o. */
template <int KS, int NT>
__global__ void __launch_bounds__(THREADS, 1) forward(mx_cuda_lstm s, float *exchange, int columns, unsigned *counter)
{
    __shared__ float4 parts[WARPS * 2 * NT * 32];
    const int H = s.hidden, first = blockIdx.x * FORWARD_UNITS;
    weights<2, KS> w;
    w.load([&](int row, int k) {
        const int unit = first + row % 8;
        return unit < H && k < H ? s.wh[((int64_t)(row / 8) * H + unit) * H + k] : 0.f;
    });
    const int e = threadIdx.x % 2, lane = threadIdx.x / 2 % 32, n = threadIdx.x / 64, unit = first + lane / 4,
              row = n * 8 + lane % 4 * 2 + e;
    const bool mine = n < NT && unit < H && row < s.batch;
    float bias[4], c = 0, h = 0;
    if (mine) {
        c = s.c[row * H + unit];
        for (int g = 0; g < 4; g++)
            bias[g] = s.bias[g * H + unit] + s.bias[4 * H + g * H + unit];
    }
    for (int i = 0; i < s.steps; i++) {
        const int64_t t = s.reverse ? s.steps - 1 - i : i, at = t * s.batch + row;
        float x[4], sum[2][NT][4] = {};
        if (mine) /* asked for early */
            for (int g = 0; g < 4; g++)
                x[g] = s.gates[(at * 4 + g) * H + unit] + bias[g];
        w.template times<NT>(exchange + (i + 1) % 2 * NT * 8 * columns, columns, sum);
        join<2, NT>(sum, parts);
        if (mine) {
            const float in = sigmoid(x[0] + joined<2, NT>(parts, 0, n, lane, e)),
                        forget = sigmoid(x[1] + joined<2, NT>(parts, 0, n, lane, 2 + e));
            const float fresh = tanhf(x[2] + joined<2, NT>(parts, 1, n, lane, e)),
                        open = sigmoid(x[3] + joined<2, NT>(parts, 1, n, lane, 2 + e));
            const float act[4] = {in, forget, fresh, open};
            c = forget * c + in * fresh;
            h = open * tanhf(c);
            exchange[(i % 2 * NT * 8 + row) * columns + unit] = rounded(h);
            for (int g = 0; g < 4; g++)
                s.gates[(at * 4 + g) * H + unit] = act[g];
            s.cells[at * H + unit] = c;
            s.out[at * s.width + unit] = h;
        }
        if (i + 1 < s.steps)
            meet(counter, i + 1);
    }
    if (mine)
        s.h[row * H + unit] = h, s.c[row * H + unit] = c;
}

/* ---- backward -------------------------------------------------------------------------------------------------- */

/* Element e of a lane in tile n: unit lane / 4 + e / 2 * 8, row n * 8 + lane % 4 * 2 + e % 2.  Column gate * padded + unit of
 * the exchange holds the gradient of a gate. */
template <int KS, int NT>
__global__ void __launch_bounds__(THREADS, 1)
    backward(mx_cuda_lstm s, float *exchange, int columns, int padded, unsigned *counter)
{
    __shared__ float4 parts[WARPS * NT * 32];
    constexpr int ITEMS = (NT * 128 + THREADS - 1) / THREADS; /* per thread */
    const int H = s.hidden, first = blockIdx.x * BACKWARD_UNITS;
    weights<1, KS> w;
    w.load([&](int row, int k) {
        const int unit = first + row, gate = k / padded, other = k % padded;
        return unit < H && gate < 4 && other < H ? s.wh[((int64_t)gate * H + other) * H + unit] : 0.f;
    });
    float dc[ITEMS], dh[ITEMS];
    int unit[ITEMS], row[ITEMS];
    bool mine[ITEMS];
#pragma unroll
    for (int q = 0; q < ITEMS; q++) {
        const int item = threadIdx.x + q * THREADS, e = item % 4, lane = item / 4 % 32, n = item / 128;
        unit[q] = first + lane / 4 + e / 2 * 8, row[q] = n * 8 + lane % 4 * 2 + e % 2;
        mine[q] = n < NT && unit[q] < H && row[q] < s.batch;
        dc[q] = mine[q] ? s.dc[row[q] * H + unit[q]] : 0, dh[q] = mine[q] ? s.dh[row[q] * H + unit[q]] : 0;
    }
    for (int i = 0; i <= s.steps; i++) { /* the last round only takes the gradient to the state before the first step */
        float sum[1][NT][4] = {};
        if (i) {
            w.template times<NT>(exchange + (i + 1) % 2 * NT * 8 * columns, columns, sum);
            join<1, NT>(sum, parts);
        }
        const int64_t t = s.reverse ? i : s.steps - 1 - i, before = s.reverse ? t + 1 : t - 1;
#pragma unroll
        for (int q = 0; q < ITEMS; q++) {
            const int item = threadIdx.x + q * THREADS;
            if (!mine[q])
                continue;
            if (i)
                dh[q] = joined<1, NT>(parts, 0, item / 128, item / 4 % 32, item % 4);
            if (i == s.steps)
                continue;
            const int64_t at = t * s.batch + row[q];
            const float *g = s.gates + at * 4 * H + unit[q];
            const float in = g[0], forget = g[H], fresh = g[2 * H], open = g[3 * H],
                        y = tanhf(s.cells[at * H + unit[q]]);
            const float c =
                i + 1 == s.steps ? s.c0[row[q] * H + unit[q]] : s.cells[(before * s.batch + row[q]) * H + unit[q]];
            const float up = dh[q] + (s.dout ? s.dout[at * s.width + unit[q]] : 0),
                        cell = dc[q] + up * open * (1 - y * y);
            const float d[4] = {cell * fresh * in * (1 - in), cell * c * forget * (1 - forget),
                                cell * in * (1 - fresh * fresh), up * y * open * (1 - open)};
            for (int k = 0; k < 4; k++) {
                s.dgates[(at * 4 + k) * H + unit[q]] = d[k];
                exchange[(i % 2 * NT * 8 + row[q]) * columns + k * padded + unit[q]] = rounded(d[k]);
            }
            dc[q] = cell * forget;
        }
        if (i < s.steps)
            meet(counter, i + 1);
    }
#pragma unroll
    for (int q = 0; q < ITEMS; q++)
        if (mine[q])
            s.dh[row[q] * H + unit[q]] = dh[q], s.dc[row[q] * H + unit[q]] = dc[q];
}

/* ---- launching ------------------------------------------------------------------------------------------------- */

int up(int a, int b) { return (a + b - 1) / b * b; }

/* Zeros, and behind step -1 (the second half) the state before the first step: start NULL means none. */
mx_code fill(const mx_kernel_call *call, const mx_cuda_lstm &s, const float *start, float *exchange, int rows,
             int columns, unsigned *counter)
{
    const int half = rows * columns, N = s.batch, H = s.hidden;
    return mx_cuda_each(call, 2 * half, [=] __device__(int64_t i) {
        const int at = (int)i - half, row = at / columns, k = at % columns;
        exchange[i] = start && at >= 0 && row < N && k < H ? rounded(start[row * H + k]) : 0;
        if (!i)
            *counter = 0;
    });
}

template <class... Args>
mx_code launch(const mx_kernel_call *call, mx_cuda_device *d, int blocks, void (*kernel)(Args...), Args... args)
{
    cudaLaunchConfig_t config = {};
    cudaLaunchAttribute together;
    together.id = cudaLaunchAttributeCooperative;
    together.val.cooperative = 1;
    config.gridDim = dim3((unsigned)blocks), config.blockDim = dim3(THREADS);
    config.stream = d->stream, config.attrs = &together, config.numAttrs = 1;
    return mx_cuda_fail(cudaLaunchKernelEx(&config, kernel, args...), call->op->name);
}

template <int KS>
mx_code launch_forward(const mx_kernel_call *call, mx_cuda_device *d, const mx_cuda_lstm &s, float *exchange,
                       unsigned *counter)
{
    const int blocks = (s.hidden + FORWARD_UNITS - 1) / FORWARD_UNITS, columns = KS * 8 * WARPS;
    const mx_code code = fill(call, s, s.h, exchange, up(s.batch, 8), columns, counter);
    if (code)
        return code;
    switch ((s.batch + 7) / 8) {
    case 1: return launch(call, d, blocks, forward<KS, 1>, s, exchange, columns, counter);
    case 2: return launch(call, d, blocks, forward<KS, 2>, s, exchange, columns, counter);
    case 3: return launch(call, d, blocks, forward<KS, 3>, s, exchange, columns, counter);
    default: return launch(call, d, blocks, forward<KS, 4>, s, exchange, columns, counter);
    }
}

template <int KS>
mx_code launch_backward(const mx_kernel_call *call, mx_cuda_device *d, const mx_cuda_lstm &s, float *exchange,
                        unsigned *counter)
{
    const int blocks = (s.hidden + BACKWARD_UNITS - 1) / BACKWARD_UNITS, columns = KS * 8 * WARPS, padded = columns / 4;
    const mx_code code = fill(call, s, nullptr, exchange, up(s.batch, 8), columns, counter);
    if (code)
        return code;
    switch ((s.batch + 7) / 8) {
    case 1: return launch(call, d, blocks, backward<KS, 1>, s, exchange, columns, padded, counter);
    case 2: return launch(call, d, blocks, backward<KS, 2>, s, exchange, columns, padded, counter);
    case 3: return launch(call, d, blocks, backward<KS, 3>, s, exchange, columns, padded, counter);
    default: return launch(call, d, blocks, backward<KS, 4>, s, exchange, columns, padded, counter);
    }
}

/* Columns that a size of the kernels below has room for: KS * 64 forward, and a quarter of it per gate backward. */
#define SMALL_FORWARD 4
#define MIDDLE_FORWARD 12
#define LARGE_FORWARD 16
#define SMALL_BACKWARD 16
#define LARGE_BACKWARD 42

size_t exchange_bytes(const mx_cuda_lstm &s, int ks)
{
    return (size_t)up(s.batch, 8) * (size_t)(2 * ks * 8 * WARPS) * sizeof(float);
}

} // namespace

bool mx_cuda_lstm_suits(const mx_kernel_call *call, const mx_cuda_lstm &s, bool backward)
{
    const mx_cuda_device *d = mx_cuda_of(call);
    const int units = backward ? BACKWARD_UNITS : FORWARD_UNITS,
              most = backward ? LARGE_BACKWARD * 16 : LARGE_FORWARD * 64;
    int major = 0;
    if (!d || !mx_flags_get()->cuda_tf32 || s.batch < 1 || s.batch > 32 || s.steps < 2 || s.hidden < 1 ||
        s.hidden > most)
        return false;
    cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, d->id);
    return major >= 8 && (s.hidden + units - 1) / units <= d->multiprocessors;
}

mx_code mx_cuda_lstm_forward(const mx_kernel_call *call, const mx_cuda_lstm &s)
{
    const int ks = s.hidden <= SMALL_FORWARD * 64    ? SMALL_FORWARD
                   : s.hidden <= MIDDLE_FORWARD * 64 ? MIDDLE_FORWARD
                                                     : LARGE_FORWARD;
    mx_cuda_device *d = mx_cuda_of(call);
    mx_cuda_scratch room(d, exchange_bytes(s, ks)), count(d, sizeof(unsigned));
    if (!d || !room.memory || !count.memory)
        return mx_error_code();
    return ks == SMALL_FORWARD    ? launch_forward<SMALL_FORWARD>(call, d, s, room.as<float>(), count.as<unsigned>())
           : ks == MIDDLE_FORWARD ? launch_forward<MIDDLE_FORWARD>(call, d, s, room.as<float>(), count.as<unsigned>())
                                  : launch_forward<LARGE_FORWARD>(call, d, s, room.as<float>(), count.as<unsigned>());
}

mx_code mx_cuda_lstm_backward(const mx_kernel_call *call, const mx_cuda_lstm &s)
{
    const int ks = s.hidden <= SMALL_BACKWARD * 16 ? SMALL_BACKWARD : LARGE_BACKWARD;
    mx_cuda_device *d = mx_cuda_of(call);
    mx_cuda_scratch room(d, exchange_bytes(s, ks)), count(d, sizeof(unsigned));
    if (!d || !room.memory || !count.memory)
        return mx_error_code();
    return ks == SMALL_BACKWARD ? launch_backward<SMALL_BACKWARD>(call, d, s, room.as<float>(), count.as<unsigned>())
                                : launch_backward<LARGE_BACKWARD>(call, d, s, room.as<float>(), count.as<unsigned>());
}
