/* Matrix products: by cuBLASLt with bias and relu in the same kernel, by cuBLAS, or by our own kernel for small ones
 * (gemm_small.cu), whichever was measured as fastest.
 *
 * Our matrices are stored by rows; the libraries read them by columns, as their transposes: C = A B is C' = B' A'.
 *
 *     shape, types, flags --table--> choice: cuBLAS, an algorithm of cuBLASLt, or a tiling of ours
 *
 * The first product of a kind is computed by several algorithms in turn and timed, which waits for the device.  It runs in
 * a separate stream, short products as graphs of many, so that launch overhead is not counted.  While launches are captured
 * nothing can be timed: then the library's heuristic choice is used, and the kind is measured at its next use.
 *
 * cuBLASLt's relu turns NaN into 0.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <cublasLt.h>
#include <cublas_v2.h>
#include <algorithm>
#include <cstring>
#include <mutex>
#include <unordered_map>
#include <vector>

#include "cuda/device.h"
#include "cuda/kernels/gemm/gemm.h"
#include "cuda/kernels/lanes.h"

#define WORKSPACE (32u << 20) /* bytes that an algorithm may use */
#define TRIED 8               /* algorithms that are timed */
#define REPEATED 10           /* runs of each that are short */
#define MOST_MEASURED 512     /* kinds; later ones use the library's heuristic */
#define NOISE 0.98f           /* a gain that counts */
#define LONG 0.1f             /* milliseconds from which on a product is not short */
#define MANY_OPERATIONS 8e9   /* from which on algorithms beside the heuristic choices are timed, the best for longer */
#define FINALISTS 4           /* algorithms that are timed for longer */
#define SUSTAINED 4.f         /* milliseconds of each: as long as it takes until the device's power is limited */

/* ---- kinds of products ------------------------------------------------------------------------------------------- */

struct kind {
    int64_t m, n, k, lda, ldb, ldc, batch, stride_a, stride_b, stride_c;
    int32_t device, dtype;
    int8_t trans_a, trans_b, tf32, adds, bias, relu, sums, mask;
    int8_t align_a, align_b, align_c, addend, unused[4]; /* in bytes, 16 at most */
    bool operator==(const kind &other) const { return !memcmp(this, &other, sizeof *this); }
};

struct kind_hash {
    size_t operator()(const kind &x) const
    {
        uint64_t words[sizeof x / 8], hash = 0;
        memcpy(words, &x, sizeof words);
        for (uint64_t word : words)
            hash = (hash ^ word) * 0x9e3779b97f4a7c15u, hash ^= hash >> 29;
        return (size_t)hash;
    }
};

enum maker { BY_CUBLAS, BY_CUBLASLT, BY_US }; /* after cuBLAS, bias and relu are a kernel of their own */

struct choice {
    maker by = BY_CUBLAS;
    bool settled = false; /* measured */
    bool apart = false;   /* cuBLASLt: the sums by a kernel of ours, which leaves it faster algorithms */
    int tiling = 0;       /* of ours */
    cublasLtMatmulDescOpaque_t product;
    cublasLtMatrixLayoutOpaque_t a, b, c;
    cublasLtMatmulAlgo_t algorithm;
    size_t workspace = 0;
};

static std::mutex lock; /* of the table */
static std::unordered_map<kind, choice, kind_hash> table;

static int8_t alignment(const void *x)
{
    const uintptr_t bits = (uintptr_t)x | 16;
    return (int8_t)(bits & -bits);
}

static kind kind_of(const mx_cuda_device *d, int dtype, const mx_cuda_gemm &g, bool tf32)
{
    kind x;
    memset(&x, 0, sizeof x);
    x.m = g.m, x.n = g.n, x.k = g.k, x.lda = g.lda, x.ldb = g.ldb, x.ldc = g.ldc;
    x.batch = g.batch, x.stride_a = g.stride_a, x.stride_b = g.stride_b, x.stride_c = g.stride_c;
    x.device = d->id, x.dtype = dtype, x.trans_a = g.trans_a, x.trans_b = g.trans_b, x.tf32 = tf32;
    x.adds = g.beta != 0, x.bias = g.bias != nullptr, x.relu = g.relu;
    x.sums = g.sums != nullptr, x.mask = g.mask != nullptr;
    x.align_a = alignment(g.a), x.align_b = alignment(g.b), x.align_c = alignment(g.c), x.addend = g.addend != nullptr;
    if (g.addend && alignment(g.addend) < x.align_c)
        x.align_c = alignment(g.addend);
    return x;
}

/* ---- cuBLAS ------------------------------------------------------------------------------------------------------ */

static mx_code blas_fail(const mx_kernel_call *call, cublasStatus_t status)
{
    if (status == CUBLAS_STATUS_SUCCESS)
        return MX_OK;
    return mx_op_fail(call->op, status == CUBLAS_STATUS_ALLOC_FAILED ? MX_ERR_MEMORY : MX_ERR_DEVICE, "cuBLAS: %s",
                      cublasGetStatusString(status));
}

static cudaDataType data_type(int dtype)
{
    return dtype == MX_FLOAT64    ? CUDA_R_64F
           : dtype == MX_FLOAT16  ? CUDA_R_16F
           : dtype == MX_BFLOAT16 ? CUDA_R_16BF
                                  : CUDA_R_32F;
}

static cublasComputeType_t compute_type(int dtype, bool tf32)
{
    return dtype == MX_FLOAT64 ? CUBLAS_COMPUTE_64F : tf32 ? CUBLAS_COMPUTE_32F_FAST_TF32 : CUBLAS_COMPUTE_32F;
}

/* out (rows, channels, inner) += bias (channels), then relu. */
static mx_code add_bias(const mx_kernel_call *call, mx_cuda_device *d, int type, void *y, int64_t size, const void *b,
                        int64_t channels, int64_t inner, bool relu)
{
    if ((!b && !relu) || !size)
        return MX_OK;
    const unsigned blocks = mx_cuda_blocks(d, (size + MX_CUDA_BLOCK - 1) / MX_CUDA_BLOCK);
    if (type == MX_FLOAT64)
        mx_cuda_each_kernel<<<blocks, MX_CUDA_BLOCK, 0, d->stream>>>(size, [=] __device__(int64_t i) {
            const double x = ((double *)y)[i] + (b ? ((const double *)b)[i / inner % channels] : 0);
            ((double *)y)[i] = relu && x < 0 ? 0 : x;
        });
    else
        mx_cuda_each_kernel<<<blocks, MX_CUDA_BLOCK, 0, d->stream>>>(size, [=] __device__(int64_t i) {
            const float x =
                mx_cuda_load<float>(y, type, i) + (b ? mx_cuda_load<float>(b, type, i / inner % channels) : 0);
            mx_cuda_store<float>(y, type, i, relu && x < 0 ? 0 : x);
        });
    return mx_cuda_launched(call);
}

mx_code mx_cuda_bias_relu(const mx_kernel_call *call, mx_array *out, const mx_array *bias, int64_t channels,
                          int64_t inner, bool relu)
{
    mx_cuda_device *d = mx_cuda_of(call);
    if (!d)
        return mx_error_code();
    return add_bias(call, d, out->dtype, mx_data(out), out->size, bias ? mx_data(bias) : nullptr, channels, inner,
                    relu);
}

/* out (columns) = sums over the rows of x (rows, columns); 32 columns per block. */
static __global__ void sum_columns(mx_cuda_values x, int64_t rows, int64_t columns, mx_cuda_values out)
{
    __shared__ float parts[8][33];
    const int64_t column = (int64_t)blockIdx.x * 32 + threadIdx.x;
    float sum = 0;
    for (int64_t row = threadIdx.y; column < columns && row < rows; row += 8)
        sum += x.get<float>(row * columns + column);
    parts[threadIdx.y][threadIdx.x] = sum;
    __syncthreads();
    for (int part = 1; !threadIdx.y && part < 8; part++)
        sum += parts[part][threadIdx.x];
    if (!threadIdx.y && column < columns)
        out.set<float>(column, sum);
}

static mx_code add_up(const mx_kernel_call *call, mx_cuda_device *d, int dtype, const mx_cuda_gemm &g)
{
    mx_cuda_values x, out;
    x.data = (void *)g.a, out.data = g.sums, x.type = out.type = dtype;
    if (!g.sums)
        return MX_OK;
    sum_columns<<<(unsigned)((g.m + 31) / 32), dim3(32, 8), 0, d->stream>>>(x, g.k, g.m, out);
    return mx_cuda_launched(call);
}

/* C = 0 where the mask is not positive */
static mx_code put_mask(const mx_kernel_call *call, mx_cuda_device *d, int dtype, const mx_cuda_gemm &g)
{
    const void *mask = g.mask;
    void *c = g.c;
    const int64_t size = g.batch * g.m * g.n;
    if (!mask)
        return MX_OK;
    const unsigned blocks = mx_cuda_blocks(d, (size + MX_CUDA_BLOCK - 1) / MX_CUDA_BLOCK);
    mx_cuda_each_kernel<<<blocks, MX_CUDA_BLOCK, 0, d->stream>>>(size, [=] __device__(int64_t i) {
        if (!(mx_cuda_load<double>(mask, dtype, i) > 0))
            mx_cuda_store<float>(c, dtype, i, 0);
    });
    return mx_cuda_launched(call);
}

static mx_code run_classic(const mx_kernel_call *call, mx_cuda_device *d, int dtype, const mx_cuda_gemm &g, bool tf32)
{
    d->blas_used = true;
    const double beta_d = g.addend ? 1 : g.beta;
    const float alpha_f = (float)g.alpha, beta_f = (float)beta_d;
    const bool wide = dtype == MX_FLOAT64;
    const cudaDataType type = data_type(dtype);
    const void *alpha = wide ? (const void *)&g.alpha : &alpha_f, *beta = wide ? (const void *)&beta_d : &beta_f;
    mx_code code = MX_OK;
    if (g.addend)
        code =
            mx_cuda_fail(cudaMemcpyAsync(g.c, g.addend, (size_t)(g.batch * g.m * g.n) * mx_dtype_size((mx_dtype)dtype),
                                         cudaMemcpyDeviceToDevice, d->stream),
                         call->op->name);
    code = code ? code
                : blas_fail(call,
                            cublasGemmStridedBatchedEx(d->blas, g.trans_b ? CUBLAS_OP_T : CUBLAS_OP_N,
                                                       g.trans_a ? CUBLAS_OP_T : CUBLAS_OP_N, (int)g.n, (int)g.m,
                                                       (int)g.k, alpha, g.b, type, (int)g.ldb, g.stride_b, g.a, type,
                                                       (int)g.lda, g.stride_a, beta, g.c, type, (int)g.ldc, g.stride_c,
                                                       (int)g.batch, compute_type(dtype, tf32), CUBLAS_GEMM_DEFAULT));
    code = code ? code : add_up(call, d, dtype, g);
    code = code ? code : put_mask(call, d, dtype, g);
    return code ? code : add_bias(call, d, dtype, g.c, g.batch * g.m * g.n, g.bias, g.n, 1, g.relu);
}

/* ---- cuBLASLt ---------------------------------------------------------------------------------------------------- */

/* A matrix as it is stored, by columns: `rows` contiguous numbers. */
static void lay_out(cublasLtMatrixLayoutOpaque_t *x, cudaDataType type, int64_t rows, int64_t columns, int64_t step,
                    const mx_cuda_gemm &g, int64_t stride)
{
    const int32_t batch = (int32_t)g.batch;
    cublasLtMatrixLayoutInit(x, type, (uint64_t)rows, (uint64_t)columns, step);
    cublasLtMatrixLayoutSetAttribute(x, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, &batch, sizeof batch);
    cublasLtMatrixLayoutSetAttribute(x, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, &stride, sizeof stride);
}

/* The vector beside the matrices: the bias, or the destination of sums. */
static void set_vector(choice *c, const mx_cuda_gemm &g)
{
    const void *vector = g.bias ? g.bias : c->apart ? nullptr : g.sums;
    if (vector)
        cublasLtMatmulDescSetAttribute(&c->product, CUBLASLT_MATMUL_DESC_BIAS_POINTER, &vector, sizeof vector);
}

static void describe(choice *c, int dtype, const mx_cuda_gemm &g, bool tf32)
{
    const cudaDataType type = data_type(dtype);
    const cublasOperation_t first = g.trans_b ? CUBLAS_OP_T : CUBLAS_OP_N,
                            second = g.trans_a ? CUBLAS_OP_T : CUBLAS_OP_N;
    const cublasLtEpilogue_t after = g.bias && g.relu      ? CUBLASLT_EPILOGUE_RELU_BIAS
                                     : g.bias              ? CUBLASLT_EPILOGUE_BIAS
                                     : g.relu              ? CUBLASLT_EPILOGUE_RELU
                                     : g.sums && !c->apart ? CUBLASLT_EPILOGUE_BGRADB
                                                           : CUBLASLT_EPILOGUE_DEFAULT;
    cublasLtMatmulDescInit(&c->product, compute_type(dtype, tf32), CUDA_R_32F);
    cublasLtMatmulDescSetAttribute(&c->product, CUBLASLT_MATMUL_DESC_TRANSA, &first, sizeof first);
    cublasLtMatmulDescSetAttribute(&c->product, CUBLASLT_MATMUL_DESC_TRANSB, &second, sizeof second);
    cublasLtMatmulDescSetAttribute(&c->product, CUBLASLT_MATMUL_DESC_EPILOGUE, &after, sizeof after);
    set_vector(c, g);
    lay_out(&c->b, type, g.trans_b ? g.k : g.n, g.trans_b ? g.n : g.k, g.ldb, g, g.stride_b);
    lay_out(&c->a, type, g.trans_a ? g.m : g.k, g.trans_a ? g.k : g.m, g.lda, g, g.stride_a);
    lay_out(&c->c, type, g.n, g.m, g.ldc, g, g.stride_c);
}

/* The choice is the caller's own copy: the vector is written into it.  After the product its workspace serves the sums. */
static cublasStatus_t run_lt(mx_cuda_device *d, int dtype, choice &c, const mx_cuda_gemm &g, void *workspace)
{
    const float alpha = (float)g.alpha, beta = g.addend ? 1 : (float)g.beta;
    set_vector(&c, g);
    const cublasStatus_t status =
        cublasLtMatmul((cublasLtHandle_t)d->blas, &c.product, &alpha, g.b, &c.b, g.a, &c.a, &beta,
                       g.addend ? g.addend : g.c, &c.c, g.c, &c.c, &c.algorithm, workspace, c.workspace, d->stream);
    if (status || !c.apart)
        return status;
    return mx_cuda_column_sums(d, dtype, g.a, g.k, g.m, g.sums, workspace) ? CUBLAS_STATUS_EXECUTION_FAILED
                                                                           : CUBLAS_STATUS_SUCCESS;
}

/* Bytes that a run needs beside the matrices. */
static size_t room_of(const mx_cuda_device *d, const choice &c, const mx_cuda_gemm &g)
{
    const size_t sums = c.apart ? mx_cuda_column_sums_bytes(d, g.k, g.m) : 0;
    return sums > c.workspace ? sums : c.workspace;
}

/* The library's heuristic choices, best first. */
static int guesses(mx_cuda_device *d, choice &c, const kind &x, cublasLtMatmulHeuristicResult_t *found)
{
    cublasLtMatmulPreferenceOpaque_t wish;
    const uint64_t bytes = WORKSPACE;
    const uint32_t a = (uint32_t)x.align_b, b = (uint32_t)x.align_a, out = (uint32_t)x.align_c;
    int n = 0;
    cublasLtMatmulPreferenceInit(&wish);
    cublasLtMatmulPreferenceSetAttribute(&wish, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &bytes, sizeof bytes);
    cublasLtMatmulPreferenceSetAttribute(&wish, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, &a, sizeof a);
    cublasLtMatmulPreferenceSetAttribute(&wish, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, &b, sizeof b);
    cublasLtMatmulPreferenceSetAttribute(&wish, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, &out, sizeof out);
    cublasLtMatmulPreferenceSetAttribute(&wish, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, &out, sizeof out);
    const cublasStatus_t status = cublasLtMatmulAlgoGetHeuristic((cublasLtHandle_t)d->blas, &c.product, &c.b, &c.a,
                                                                 &c.c, &c.c, &wish, TRIED, found, &n);
    return status == CUBLAS_STATUS_SUCCESS ? n : 0;
}

/* ---- choosing ---------------------------------------------------------------------------------------------------- */

/* A separate stream and handle, for one thread at a time.  It fails silently: then the library's heuristic is used. */
struct bench {
    mx_cuda_device device; /* the measured device, with the separate stream and handle */
    cudaEvent_t begin, end;
    void *workspace;
};

static bool make_bench(const mx_cuda_device *d, bench *b)
{
    mx_cuda_device *side = &b->device;
    side->id = d->id, side->multiprocessors = d->multiprocessors;
    return cudaMalloc(&b->workspace, WORKSPACE) == cudaSuccess && cudaEventCreate(&b->begin) == cudaSuccess &&
           cudaEventCreate(&b->end) == cudaSuccess &&
           cudaStreamCreateWithFlags(&side->stream, cudaStreamNonBlocking) == cudaSuccess &&
           cublasCreate(&side->blas) == CUBLAS_STATUS_SUCCESS &&
           cublasSetStream(side->blas, side->stream) == CUBLAS_STATUS_SUCCESS &&
           cublasSetWorkspace(side->blas, b->workspace, WORKSPACE) == CUBLAS_STATUS_SUCCESS;
}

static bench *bench_of(const mx_cuda_device *d)
{
    static bench benches[MX_CUDA_MOST];
    static bool tried[MX_CUDA_MOST], made[MX_CUDA_MOST];
    if (!tried[d->id])
        tried[d->id] = true, made[d->id] = make_bench(d, &benches[d->id]);
    cudaGetLastError();
    return made[d->id] ? &benches[d->id] : nullptr;
}

/* Milliseconds; infinite if it fails. */
template <class F> static float clocked(const bench *b, F run)
{
    float time = INFINITY;
    cudaEventRecord(b->begin, b->device.stream);
    const bool failed = run();
    cudaEventRecord(b->end, b->device.stream);
    if (cudaEventSynchronize(b->end) != cudaSuccess || failed ||
        cudaEventElapsedTime(&time, b->begin, b->end) != cudaSuccess)
        return INFINITY;
    return time;
}

/* REPEATED runs as a graph; NULL if that fails. */
template <class F> static cudaGraphExec_t graph_of(const bench *b, F run)
{
    cudaGraph_t graph = nullptr;
    cudaGraphExec_t ready = nullptr;
    bool failed = cudaStreamBeginCapture(b->device.stream, cudaStreamCaptureModeRelaxed) != cudaSuccess;
    for (int i = 0; !failed && i < REPEATED; i++)
        failed = run();
    if (cudaStreamEndCapture(b->device.stream, &graph) == cudaSuccess && !failed)
        cudaGraphInstantiate(&ready, graph, 0);
    if (graph)
        cudaGraphDestroy(graph);
    cudaGetLastError();
    return ready;
}

/* Milliseconds of a run; run() says whether it failed. */
template <class F> static float timed(const bench *b, F run)
{
    if (run()) /* the first one loads kernels */
        return INFINITY;
    const float once = clocked(b, run);
    if (once > LONG)
        return clocked(b, [&] { return run() || run() || run(); }) / 3;
    cudaGraphExec_t graph = graph_of(b, run);
    if (!graph)
        return once;
    cudaGraphLaunch(graph, b->device.stream);
    const float many = clocked(b, [&] { return cudaGraphLaunch(graph, b->device.stream) != cudaSuccess; });
    cudaGraphExecDestroy(graph);
    return many / REPEATED;
}

/* Milliseconds of a run among many, when the device is as warm as in a program that computes such products only. */
template <class F> static float sustained(const bench *b, float once, F run)
{
    const int runs = (int)(SUSTAINED / once) + 1;
    const auto all = [&] {
        for (int i = 0; i < runs; i++)
            if (run())
                return true;
        return false;
    };
    return clocked(b, all) / (float)runs;
}

/* What was timed, the fastest first. */
struct timing {
    float time;
    choice made;
    bool operator<(const timing &other) const { return time < other.time; }
};

static bool many_operations(const kind &x)
{
    const bool aligned = x.align_a == 16 && x.align_b == 16 && x.align_c == 16;
    return (x.dtype == MX_FLOAT16 || x.dtype == MX_BFLOAT16) && aligned && x.batch == 1 &&
           2. * (double)x.m * (double)x.n * (double)x.k > MANY_OPERATIONS;
}

/* Times cuBLAS, algorithms of cuBLASLt and ours; the product is repeated, so one with beta writes to other memory. */
static void measure(const mx_kernel_call *call, mx_cuda_device *d, const kind &x, mx_cuda_gemm g, choice *best,
                    const std::vector<choice> &found)
{
    static std::mutex measuring;
    std::lock_guard<std::mutex> guard(measuring);
    const size_t bytes =
        x.adds ? (size_t)((g.batch - 1) * g.stride_c + g.m * g.ldc) * (size_t)mx_dtype_size((mx_dtype)x.dtype) : 0;
    void *target = nullptr;
    bench *b = bench_of(d);
    if (!b || cudaStreamSynchronize(d->stream) != cudaSuccess)
        return;
    if (bytes && cudaMalloc(&target, bytes) != cudaSuccess) {
        cudaGetLastError();
        return;
    }
    g.c = target ? target : g.c;
    const auto run = [&](choice &c) -> bool {
        if (c.by == BY_CUBLAS)
            return run_classic(call, &b->device, x.dtype, g, x.tf32) != MX_OK;
        if (c.by == BY_US)
            return mx_cuda_small_gemm(&b->device, g, c.tiling) != cudaSuccess;
        return run_lt(&b->device, x.dtype, c, g, b->workspace) != CUBLAS_STATUS_SUCCESS ||
               put_mask(call, &b->device, x.dtype, g);
    };
    std::vector<timing> all(1); /* cuBLAS first: others must be faster by more than noise */
    for (const choice &next : found)
        if (room_of(d, next, g) <= WORKSPACE)
            all.push_back({0, next});
    for (int i = 0; i < MX_CUDA_SMALL_TILINGS && mx_cuda_small_gemm_suits(d, x.dtype, g, x.tf32); i++) {
        all.push_back({});
        all.back().made.by = BY_US, all.back().made.tiling = i;
    }
    for (timing &t : all)
        t.time = timed(b, [&] { return run(t.made); });
    if (many_operations(x)) {
        std::stable_sort(all.begin(), all.end());
        all.resize(all.size() < FINALISTS ? all.size() : FINALISTS);
        for (int round = 0; round < 2; round++) /* the first one warms up */
            for (timing &t : all)
                t.time = t.time < INFINITY ? sustained(b, t.time, [&] { return run(t.made); }) : t.time;
    }
    float least = INFINITY;
    for (const timing &t : all)
        if (t.time < least * NOISE)
            least = t.time, *best = t.made;
    best->settled = true;
    cudaStreamSynchronize(b->device.stream);
    cudaFree(target);
}

/* Vectors are moved in pieces of 16 bytes. */
static bool suits_lt(int dtype, const mx_cuda_gemm &g)
{
    const void *vector = g.bias ? g.bias : g.sums;
    return dtype != MX_FLOAT64 && (!vector || (g.batch == 1 && alignment(vector) == 16));
}

/* Tiles (of C', as the library sees it), clusters of blocks and schedules (cuBLASLt numbers them) that its heuristic misses:
 * measured on Hopper, products of transformers with them take up to a third less time. */
static const struct {
    cublasLtMatmulTile_t tile;
    cublasLtClusterShape_t cluster;
    uint32_t schedule;
} shapes[] = {{CUBLASLT_MATMUL_TILE_128x160, CUBLASLT_CLUSTER_SHAPE_2x1x1, 1},
              {CUBLASLT_MATMUL_TILE_128x160, CUBLASLT_CLUSTER_SHAPE_1x1x1, 3},
              {CUBLASLT_MATMUL_TILE_128x160, CUBLASLT_CLUSTER_SHAPE_2x4x1, 3},
              {CUBLASLT_MATMUL_TILE_128x128, CUBLASLT_CLUSTER_SHAPE_1x2x1, 2},
              {CUBLASLT_MATMUL_TILE_128x128, CUBLASLT_CLUSTER_SHAPE_1x2x1, 3},
              {CUBLASLT_MATMUL_TILE_128x128, CUBLASLT_CLUSTER_SHAPE_2x1x1, 1},
              {CUBLASLT_MATMUL_TILE_256x128, CUBLASLT_CLUSTER_SHAPE_1x2x1, 7},
              {CUBLASLT_MATMUL_TILE_256x96, CUBLASLT_CLUSTER_SHAPE_1x2x1, 7},
              {CUBLASLT_MATMUL_TILE_176x128, CUBLASLT_CLUSTER_SHAPE_1x2x1, 2}};

/* Variants of an algorithm, those that the library has, without a division of k. */
static void add_variants(mx_cuda_device *d, choice like, std::vector<choice> *all)
{
    const int32_t one = 1;
    const uint32_t none = CUBLASLT_REDUCTION_SCHEME_NONE;
    cublasLtMatmulAlgo_t *a = &like.algorithm;
    cublasLtMatmulAlgoConfigSetAttribute(a, CUBLASLT_ALGO_CONFIG_SPLITK_NUM, &one, sizeof one);
    cublasLtMatmulAlgoConfigSetAttribute(a, CUBLASLT_ALGO_CONFIG_REDUCTION_SCHEME, &none, sizeof none);
    for (const auto &shape : shapes) {
        const uint32_t tile = shape.tile;
        const uint16_t cluster = shape.cluster;
        cublasLtMatmulHeuristicResult_t found;
        cublasLtMatmulAlgoConfigSetAttribute(a, CUBLASLT_ALGO_CONFIG_TILE_ID, &tile, sizeof tile);
        cublasLtMatmulAlgoConfigSetAttribute(a, CUBLASLT_ALGO_CONFIG_CLUSTER_SHAPE_ID, &cluster, sizeof cluster);
        cublasLtMatmulAlgoConfigSetAttribute(a, CUBLASLT_ALGO_CONFIG_CUSTOM_OPTION, &shape.schedule,
                                             sizeof shape.schedule);
        if (cublasLtMatmulAlgoCheck((cublasLtHandle_t)d->blas, &like.product, &like.b, &like.a, &like.c, &like.c, a,
                                    &found) != CUBLAS_STATUS_SUCCESS ||
            found.workspaceSize > WORKSPACE)
            continue;
        like.workspace = found.workspaceSize;
        all->push_back(like);
    }
}

/* Algorithms of cuBLASLt, the likeliest first; with sums, those that compute them come first. */
static std::vector<choice> candidates(mx_cuda_device *d, const kind &x, const mx_cuda_gemm &g)
{
    std::vector<choice> all;
    for (int apart = 0; apart < (g.sums && mx_cuda_column_sums_suit(x.dtype, g.m, g.a) ? 2 : 1); apart++) {
        choice next, first;
        cublasLtMatmulHeuristicResult_t found[TRIED];
        next.by = BY_CUBLASLT, next.apart = apart;
        describe(&next, x.dtype, g, x.tf32);
        const int n = guesses(d, next, x, found);
        for (int i = 0; i < n; i++) {
            next.algorithm = found[i].algo, next.workspace = found[i].workspaceSize;
            first = i ? first : next;
            all.push_back(next);
        }
        if (n && many_operations(x))
            add_variants(d, first, &all);
    }
    return all;
}

static choice choose(const mx_kernel_call *call, mx_cuda_device *d, const kind &x, const mx_cuda_gemm &g)
{
    choice made;
    const std::vector<choice> found = suits_lt(x.dtype, g) ? candidates(d, x, g) : std::vector<choice>();
    made.settled = found.empty();
    static std::atomic<int> measured;
    const bool enough = measured >= MOST_MEASURED; /* a program whose shapes keep changing must not wait each time */
    if (!found.empty() && !d->pool && !enough)
        measured++, measure(call, d, x, g, &made, found);
    if (!made.settled)
        made = found[0], made.settled = !d->pool;
    return made;
}

static choice find_choice(const mx_kernel_call *call, mx_cuda_device *d, const kind &x, const mx_cuda_gemm &g)
{
    {
        std::lock_guard<std::mutex> guard(lock);
        const auto found = table.find(x);
        if (found != table.end() && (found->second.settled || d->pool))
            return found->second;
    }
    const choice made = choose(call, d, x, g);
    std::lock_guard<std::mutex> guard(lock);
    return table[x] = made;
}

mx_code mx_cuda_gemm_run(const mx_kernel_call *call, int dtype, const mx_cuda_gemm &g)
{
    mx_cuda_device *d = mx_cuda_of(call);
    if (!d || !mx_cuda_blas(d))
        return mx_error_code();
    if (g.m > INT32_MAX || g.n > INT32_MAX || g.k > INT32_MAX || g.batch > INT32_MAX)
        return mx_op_fail(call->op, MX_ERR_SHAPE, "matrices of %lld x %lld x %lld are too large for gpu(%d)",
                          (long long)g.m, (long long)g.n, (long long)g.k, d->id);
    if (!g.m || !g.n || !g.batch)
        return MX_OK;
    const bool tf32 = dtype == MX_FLOAT32 && !g.exact && mx_flags_get()->cuda_tf32;
    choice c = find_choice(call, d, kind_of(d, dtype, g, tf32), g);
    if (c.by == BY_CUBLAS)
        return run_classic(call, d, dtype, g, tf32);
    if (c.by == BY_US)
        return mx_cuda_fail(mx_cuda_small_gemm(d, g, c.tiling), call->op->name);
    mx_cuda_scratch workspace(d, room_of(d, c, g));
    if (workspace.bytes && !workspace.memory)
        return mx_error_code();
    const mx_code code = blas_fail(call, run_lt(d, dtype, c, g, workspace.memory));
    return code ? code : put_mask(call, d, dtype, g);
}
