/* What all sources of the CUDA part share: the devices and their streams, launching, element types.
 *
 * Every call goes to the one stream of its device, so calls are ordered as they are made and the host does not wait.
 * Memory is allocated and freed in the order of the stream, too: scratch may be freed right after the launch that uses it.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef MX_CUDA_H
#define MX_CUDA_H

#include <atomic>
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>

/* The headers of the library are C: they get C++'s atomics, as C++17 has no <stdatomic.h>. */
#define _STDATOMIC_H
#define _Atomic(T) std::atomic<T>
using std::atomic_fetch_add_explicit;
using std::atomic_load_explicit;
using std::atomic_store_explicit;
using std::memory_order_acquire;
using std::memory_order_relaxed;
using std::memory_order_release;
extern "C" {
#include "base/error.h"
#include "cuda/plugin.h"
#include "gluon/op.gen.h"
#include "ndarray/convert.h"
#include "op/op.h"
}

#define MX_CUDA_KERNELS(file) extern "C" const mx_kernel mx_cuda_kernels_##file[]

/* ---- devices ------------------------------------------------------------------------------------------------- */

typedef struct cublasContext *cublasHandle_t;
typedef struct cudnnContext *cudnnHandle_t;

/* The device error flag: what a kernel found wrong with values that the host has not seen.  Host memory that the device
 * can write. */
struct mx_cuda_error {
    const mx_op *op;         /* NULL: no error since the last one was raised */
    mx_code code;            /* of the error */
    const char *text;        /* the message, with up to two %lld */
    long long first, second; /* for the text */
};

struct mx_cuda_device {
    int id, multiprocessors;
    int code; /* PTX architecture that our code was compiled for, 90 for Hopper; may be older than the device */
    mx_cuda_error *error; /* raised when elements are next copied to the host (copy.cu) */
    cudaStream_t stream;
    cublasHandle_t blas;       /* NULL until mx_cuda_blas() */
    bool blas_used;            /* set by callers that use it and its workspace (capture.cu) */
    cudnnHandle_t dnn;         /* NULL until mx_cuda_dnn() */
    struct mx_cuda_pool *pool; /* provides memory while launches are captured (capture.cu); else NULL */
};

/* The device's handle of a library, created at the first call; NULL with an error. */
cublasHandle_t mx_cuda_blas(mx_cuda_device *d);
cudnnHandle_t mx_cuda_dnn(mx_cuda_device *d);

bool mx_cuda_meet(const mx_cuda_library *given);           /* false: built from another source */
mx_cuda_device *mx_cuda_of(mx_context context);            /* makes it the thread's device; NULL with an error */
mx_code mx_cuda_fail(cudaError_t status, const char *who); /* MX_OK for cudaSuccess, else our error */
void *mx_cuda_alloc(mx_cuda_device *d, size_t bytes);      /* in the order of the stream; NULL with an error */
void mx_cuda_free(mx_cuda_device *d, void *memory, size_t bytes) noexcept;

static inline mx_cuda_device *mx_cuda_of(const mx_kernel_call *call)
{
    return mx_cuda_of(call->n_out ? call->out[0]->context : call->in[0]->context);
}

/* For kernels: flag.set(first, second) sets the device error flag for this call; nothing waits for it. */
struct mx_cuda_error_flag {
    mx_cuda_error *error;
    const mx_op *op;
    mx_code code;
    const char *text;
    mx_cuda_error_flag() : error(nullptr), op(nullptr), code(MX_OK), text(nullptr) {}
    mx_cuda_error_flag(const mx_kernel_call *call, mx_code raised, const char *format)
        : error(nullptr), op(call->op), code(raised), text(format)
    {
        if (const mx_cuda_device *d = mx_cuda_of(call))
            error = d->error;
    }
    __device__ void set(int64_t first, int64_t second = 0) const
    {
        if (error && !atomicCAS((unsigned long long *)&error->op, 0ull, (unsigned long long)op))
            error->code = code, error->text = text, error->first = first, error->second = second;
    }
};

/* Scratch that lives until the end of the block. */
struct mx_cuda_scratch {
    mx_cuda_device *device;
    size_t bytes;
    void *memory;
    mx_cuda_scratch(mx_cuda_device *d, size_t size)
        : device(d), bytes(size), memory(size ? mx_cuda_alloc(d, size) : nullptr)
    {
    }
    ~mx_cuda_scratch() { mx_cuda_free(device, memory, bytes); }
    template <class T> T *as() const { return (T *)memory; }
};

/* ---- launching ----------------------------------------------------------------------------------------------- */

#define MX_CUDA_BLOCK 256

template <class F> __global__ void mx_cuda_each_kernel(int64_t n, F f)
{
    for (int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x; i < n; i += (int64_t)gridDim.x * blockDim.x)
        f(i);
}

static inline unsigned mx_cuda_blocks(const mx_cuda_device *d, int64_t blocks)
{
    const int64_t most = (int64_t)d->multiprocessors * 32;
    return (unsigned)(blocks < most ? blocks : most);
}

static inline mx_code mx_cuda_launched(const mx_kernel_call *call)
{
    const cudaError_t status = cudaGetLastError();
    return status == cudaSuccess ? MX_OK : mx_cuda_fail(status, call->op->name);
}

/* f(i) for i in [0, n), in any order. */
template <class F> mx_code mx_cuda_each(const mx_kernel_call *call, int64_t n, F f)
{
    mx_cuda_device *d = mx_cuda_of(call);
    if (!d)
        return mx_error_code();
    if (!n)
        return MX_OK;
    mx_cuda_each_kernel<<<mx_cuda_blocks(d, (n + MX_CUDA_BLOCK - 1) / MX_CUDA_BLOCK), MX_CUDA_BLOCK, 0, d->stream>>>(n,
                                                                                                                     f);
    return mx_cuda_launched(call);
}

/* f(row), run by all threads of a block, for each row in [0, rows); f uses mx_cuda_block_sum and the like. */
template <class F> __global__ void mx_cuda_rows_kernel(int64_t rows, F f)
{
    for (int64_t row = blockIdx.x; row < rows; row += gridDim.x)
        f(row);
}

template <class F> mx_code mx_cuda_rows(const mx_kernel_call *call, int64_t rows, int64_t work, F f)
{
    mx_cuda_device *d = mx_cuda_of(call);
    if (!d)
        return mx_error_code();
    if (!rows)
        return MX_OK;
    const int threads = work <= 32 ? 32 : work <= 128 ? 64 : work <= 1024 ? 256 : 512;
    mx_cuda_rows_kernel<<<mx_cuda_blocks(d, rows), threads, 0, d->stream>>>(rows, f);
    return mx_cuda_launched(call);
}

/* Reduces one value per thread over a block; every thread gets the result. */
template <class T, class F> __device__ T mx_cuda_block_join(T x, F join)
{
    __shared__ T parts[32], result;
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, warps = (blockDim.x + 31) / 32;
    for (int step = 16; step; step /= 2)
        x = join(x, __shfl_xor_sync(0xffffffffu, x, step));
    __syncthreads();
    if (!lane)
        parts[warp] = x;
    __syncthreads();
    if (!threadIdx.x) {
        for (int w = 1; w < warps; w++)
            x = join(x, parts[w]);
        result = x;
    }
    __syncthreads();
    return result;
}

template <class T> struct mx_cuda_plus {
    __device__ T operator()(T a, T b) const { return a + b; }
};
template <class T> struct mx_cuda_most {
    __device__ T operator()(T a, T b) const { return a > b ? a : b; }
};
template <class T> __device__ T mx_cuda_block_sum(T x) { return mx_cuda_block_join(x, mx_cuda_plus<T>()); }
template <class T> __device__ T mx_cuda_block_max(T x) { return mx_cuda_block_join(x, mx_cuda_most<T>()); }

/* ---- element types ------------------------------------------------------------------------------------------- */

/* Element i of an array of any type as C (float, double or int64_t), and back. */
template <class C> __device__ inline C mx_cuda_load(const void *x, int type, int64_t i)
{
    switch (type) {
    case MX_FLOAT32: return (C)((const float *)x)[i];
    case MX_FLOAT64: return (C)((const double *)x)[i];
    case MX_FLOAT16: return (C)__half2float(((const __half *)x)[i]);
    case MX_BFLOAT16: return (C)__bfloat162float(((const __nv_bfloat16 *)x)[i]);
    case MX_UINT8: return (C)((const uint8_t *)x)[i];
    case MX_INT8: return (C)((const int8_t *)x)[i];
    case MX_INT32: return (C)((const int32_t *)x)[i];
    case MX_INT64: return (C)((const int64_t *)x)[i];
    default: return (C)((const uint8_t *)x)[i]; /* bool */
    }
}

/* To integers as on the CPU (ndarray/convert.c): fractions are truncated, out-of-range values become the lowest number. */
template <class C> __device__ inline int32_t mx_cuda_int32(C v)
{
    return v >= (C)-0x1p31 && v < (C)0x1p31 ? (int32_t)v : INT32_MIN;
}
template <class C> __device__ inline int64_t mx_cuda_int64(C v)
{
    return v >= (C)-0x1p63 && v < (C)0x1p63 ? (int64_t)v : INT64_MIN;
}
template <> __device__ inline int32_t mx_cuda_int32(int64_t v) { return (int32_t)v; } /* integers wrap */
template <> __device__ inline int64_t mx_cuda_int64(int64_t v) { return v; }

template <class C> __device__ inline void mx_cuda_store(void *x, int type, int64_t i, C v)
{
    switch (type) {
    case MX_FLOAT32: ((float *)x)[i] = (float)v; break;
    case MX_FLOAT64: ((double *)x)[i] = (double)v; break;
    case MX_FLOAT16: ((__half *)x)[i] = __float2half_rn((float)v); break;
    case MX_BFLOAT16: ((__nv_bfloat16 *)x)[i] = __float2bfloat16_rn((float)v); break;
    case MX_UINT8: ((uint8_t *)x)[i] = (uint8_t)mx_cuda_int32(v); break;
    case MX_INT8: ((int8_t *)x)[i] = (int8_t)mx_cuda_int32(v); break;
    case MX_INT32: ((int32_t *)x)[i] = mx_cuda_int32(v); break;
    case MX_INT64: ((int64_t *)x)[i] = mx_cuda_int64(v); break;
    default: ((bool *)x)[i] = v != (C)0; break;
    }
}

/* The type that a kernel computes in: float64 if a floating-point array of the call is, else float32. */
static inline mx_dtype mx_cuda_compute_type(const mx_kernel_call *call)
{
    for (int i = 0; i < call->n_in; i++)
        if (!mx_is_none(call->in[i]) && call->in[i]->dtype == MX_FLOAT64)
            return MX_FLOAT64;
    return call->n_out && call->out[0]->dtype == MX_FLOAT64 ? MX_FLOAT64 : MX_FLOAT32;
}

/* True if the floating-point arrays of the call are of this type; else run the kernel through mx_cuda_widened(). */
bool mx_cuda_all_of_type(const mx_kernel_call *call, mx_dtype compute);
mx_code mx_cuda_widened(const mx_kernel_call *call, mx_dtype compute, mx_kernel_fn run);
mx_code mx_cuda_cast(const mx_kernel_call *call, const mx_array *from, mx_array *to);

/* True if the first input or the first result is floating-point: elements of other types must not be read as floats. */
static inline bool mx_cuda_has_floats(const mx_kernel_call *call)
{
    return (call->n_out && mx_dtype_is_float(call->out[0]->dtype)) ||
           (call->n_in && !mx_is_none(call->in[0]) && mx_dtype_is_float(call->in[0]->dtype));
}

/* A kernel written as template <class T> mx_code body<T>(call) becomes one for all floating types. */
#define MX_CUDA_FLOATS(name, body) \
    static mx_code name(const mx_kernel_call *call) \
    { \
        const mx_dtype compute = mx_cuda_compute_type(call); \
        if (!mx_cuda_has_floats(call)) \
            return MX_DECLINED; \
        if (!mx_cuda_all_of_type(call, compute)) \
            return mx_cuda_widened(call, compute, name); \
        return compute == MX_FLOAT64 ? body<double>(call) : body<float>(call); \
    }

/* x viewed as (outer, n, inner) around an axis. */
struct mx_cuda_split {
    int64_t outer, n, inner;
    mx_cuda_split(const mx_array *x, int axis) : outer(1), n(x->ndim ? x->shape[axis] : 1), inner(1)
    {
        for (int i = 0; i < axis; i++)
            outer *= x->shape[i];
        for (int i = axis + 1; i < x->ndim; i++)
            inner *= x->shape[i];
    }
};

#endif
