/* Singular values, computed in double; a block of threads per matrix.
 *
 * The same rotations as on the CPU (op/formula/linalg_svd.h): a warp per pair of rows, the pairs of a round at the same time.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "cuda/cuda.h"
extern "C" {
#include "op/formula/linalg_svd.h"
}

#define MOST_THREADS 1024

static __device__ double warp_dot(const double *x, const double *y, int64_t n)
{
    double sum = 0;
    for (int64_t i = threadIdx.x % 32; i < n; i += 32)
        sum += x[i] * y[i];
    for (int step = 16; step; step /= 2)
        sum += __shfl_xor_sync(0xffffffffu, sum, step);
    return sum;
}

static __device__ void rotate_rows(double *x, double *y, double cosine, double sine, int64_t n)
{
    for (int64_t k = threadIdx.x % 32; k < n; k += 32)
        mx_rotate(cosine, sine, &x[k], &y[k]);
}

namespace /* the names are also used elsewhere */
{
struct svd {
    int64_t m, n;
    double *a, *w, *values, *v; /* (m, n) and (m, m): rotated; (m); (m, n): the result in order */
};
struct svd_job {
    const void *in;
    void *u, *values, *v;
    int type;
    int64_t m, n;
    double *room; /* for each matrix: what svd points at */
};
} // namespace

/* Rotates every pair of rows once; false: all were orthogonal. */
static __device__ bool sweep(const svd &z)
{
    int any = 0;
    const int64_t pairs = mx_svd_pairs(z.m);
    for (int64_t round = 0; round < mx_svd_rounds(z.m); round++) {
        for (int64_t pair = threadIdx.x / 32; pair < pairs; pair += blockDim.x / 32) {
            int64_t p, q;
            double cosine, sine;
            if (!mx_svd_pair(z.m, round, pair, &p, &q))
                continue;
            double *x = z.a + p * z.n, *y = z.a + q * z.n;
            const double xx = warp_dot(x, x, z.n), yy = warp_dot(y, y, z.n), xy = warp_dot(x, y, z.n);
            if (!mx_svd_rotation(xx, yy, xy, &cosine, &sine))
                continue;
            any = 1;
            rotate_rows(x, y, cosine, sine, z.n);
            rotate_rows(z.w + p * z.m, z.w + q * z.m, cosine, sine, z.m);
        }
        __syncthreads();
    }
    return __syncthreads_or(any);
}

/* Descending; rows that are 0 become orthogonal to the others. */
static __device__ void arrange(const svd &z, const svd_job &job, int64_t b)
{
    __shared__ int64_t zeros;
    const int64_t m = z.m, n = z.n;
    for (int64_t i = threadIdx.x / 32; i < m; i += blockDim.x / 32) {
        const double square = warp_dot(z.a + i * n, z.a + i * n, n);
        if (threadIdx.x % 32 == 0)
            z.values[i] = sqrt(square);
    }
    if (!threadIdx.x)
        zeros = 0;
    __syncthreads();
    double largest = 0;
    for (int64_t i = 0; i < m; i++)
        largest = z.values[i] > largest ? z.values[i] : largest;
    for (int64_t i = threadIdx.x; i < m; i += blockDim.x) {
        const int64_t rank = mx_svd_rank(z.values, m, i);
        const bool zero = mx_svd_is_zero(z.values[i], largest, n);
        const double sign = zero ? 1 : mx_eigen_sign(z.a + i * n, n);
        mx_cuda_store<double>(job.values, job.type, b * m + rank, z.values[i]);
        for (int64_t k = 0; k < m; k++)
            mx_cuda_store<double>(job.u, job.type, (b * m + k) * m + rank, sign * z.w[i * m + k]);
        for (int64_t k = 0; k < n; k++)
            z.v[rank * n + k] = zero ? 0 : sign * z.a[i * n + k] / z.values[i];
        if (zero)
            atomicAdd((unsigned long long *)&zeros, 1ull);
    }
    __syncthreads();
    for (int64_t rank = m - zeros; rank < m && !threadIdx.x; rank++)
        mx_svd_complete(z.v, rank, n);
    __syncthreads();
    for (int64_t e = threadIdx.x; e < m * n; e += blockDim.x)
        mx_cuda_store<double>(job.v, job.type, b * m * n + e, z.v[e]);
    __syncthreads();
}

static __global__ void __launch_bounds__(MOST_THREADS) svd_kernel(int64_t batch, svd_job job)
{
    const int64_t m = job.m, n = job.n;
    for (int64_t b = blockIdx.x; b < batch; b += gridDim.x) {
        double *a = job.room + b * (2 * m * n + m * m + m);
        const svd z = {m, n, a, a + m * n, a + m * n + m * m, a + m * n + m * m + m};
        for (int64_t e = threadIdx.x; e < m * n; e += blockDim.x)
            a[e] = mx_cuda_load<double>(job.in, job.type, b * m * n + e);
        for (int64_t e = threadIdx.x; e < m * m; e += blockDim.x)
            z.w[e] = e / m == e % m;
        __syncthreads();
        for (int count = 0; count < MX_SVD_SWEEPS && sweep(z); count++)
            continue;
        arrange(z, job, b);
    }
}

static mx_code run_svd(const mx_kernel_call *call)
{
    const mx_array *x = call->in[0];
    mx_cuda_device *d = mx_cuda_of(call);
    if (!mx_dtype_is_float(x->dtype))
        return MX_DECLINED;
    if (!d || !x->size)
        return d ? MX_OK : mx_error_code();
    const int64_t m = x->shape[x->ndim - 2], n = x->shape[x->ndim - 1], batch = x->size / (m * n);
    mx_cuda_scratch room(d, (size_t)(batch * (2 * m * n + m * m + m)) * sizeof(double));
    if (!room.memory)
        return mx_error_code();
    const svd_job job = {mx_data(x), mx_data(call->out[0]), mx_data(call->out[1]), mx_data(call->out[2]), x->dtype, m, n,
                         room.as<double>()};
    const int threads = m <= 8 ? 128 : m <= 16 ? 256 : m <= 32 ? 512 : MOST_THREADS;
    svd_kernel<<<mx_cuda_blocks(d, batch), threads, 0, d->stream>>>(batch, job);
    return mx_cuda_launched(call);
}

MX_CUDA_KERNELS(linalg_svd) = {{"_npi_svd", run_svd, NULL}, {NULL, NULL, NULL}};
