/* gelqf and syevd: orthogonal factorisations, computed in double; a block of threads per matrix.
 *
 * The same steps as on the CPU (op/formula/linalg_eigen.h).  Reflections of rows: a warp per row.  Eigenvalues:
 * reflections make the matrix tridiagonal, then rotations with implicit shifts make it diagonal; one thread finds the
 * rotations of a sweep, then every thread applies all of them to its own columns.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "cuda/cuda.h"
extern "C" {
#include "op/formula/linalg_eigen.h"
}

#define MOST_THREADS 1024
#define SHARED_NUMBERS 6000 /* doubles that a block keeps at hand */

/* A warp per 8 rows or so. */
static int threads_for(int64_t rows) { return rows <= 32 ? 128 : rows <= 64 ? 256 : rows <= 128 ? 512 : MOST_THREADS; }

static __device__ double warp_dot(const double *x, const double *y, int64_t n)
{
    double sum = 0;
    for (int64_t i = threadIdx.x % 32; i < n; i += 32)
        sum += x[i] * y[i];
    for (int step = 16; step; step /= 2)
        sum += __shfl_xor_sync(0xffffffffu, sum, step);
    return sum;
}

static __device__ double block_dot(const double *x, const double *y, int64_t n)
{
    double sum = 0;
    for (int64_t i = threadIdx.x; i < n; i += blockDim.x)
        sum += x[i] * y[i];
    return mx_cuda_block_sum(sum);
}

/* The reflection that maps x to (beta, 0, ...): its vector replaces x.  Returns its c. */
static __device__ double reflection(double *x, int64_t n, double *beta)
{
    const double first = x[0],
                 tail = block_dot(x + 1, x + 1, n - 1); /* the sum is a barrier: all threads have read x[0] */
    const mx_reflection r = mx_reflection_of(first, tail);
    *beta = r.beta;
    if (!threadIdx.x)
        x[0] = r.head;
    __syncthreads();
    return r.c;
}

static __device__ void reflect_rows(double *rows, int64_t count, int64_t stride, int64_t n, const double *v, double c)
{
    for (int64_t i = threadIdx.x / 32; i < count && c != 0; i += blockDim.x / 32) {
        const double share = mx_reflection_factor(warp_dot(rows + i * stride, v, n), c);
        for (int64_t k = threadIdx.x % 32; k < n; k += 32)
            rows[i * stride + k] += share * v[k];
    }
    __syncthreads();
}

/* ---- gelqf ------------------------------------------------------------------------------------------------------- */

struct lq_job {
    const void *in;
    void *q, *l;
    int type;
    int64_t m, n;
    double *room; /* for each matrix: a (m, n), q (m, n), c (m) */
};

static __global__ void __launch_bounds__(MOST_THREADS) lq_kernel(int64_t batch, lq_job job)
{
    const int64_t m = job.m, n = job.n;
    for (int64_t b = blockIdx.x; b < batch; b += gridDim.x) {
        double *a = job.room + b * (2 * m * n + m), *q = a + m * n, *c = q + m * n;
        for (int64_t e = threadIdx.x; e < m * n; e += blockDim.x)
            a[e] = mx_cuda_load<double>(job.in, job.type, b * m * n + e), q[e] = e / n == e % n;
        __syncthreads();
        for (int64_t k = 0; k < m; k++) {
            double *v = a + k * n + k, beta;
            const double scale = reflection(v, n - k, &beta);
            for (int64_t j = threadIdx.x; j < m; j += blockDim.x)
                mx_cuda_store<double>(job.l, job.type, (b * m + k) * m + j, j < k ? a[k * n + j] : j == k ? beta : 0);
            if (!threadIdx.x)
                c[k] = scale;
            reflect_rows(v + n, m - 1 - k, n, n - k, v, scale);
        }
        for (int64_t k = m - 1; k >= 0; k--)
            reflect_rows(q + k * n + k, m - k, n, n - k, a + k * n + k, c[k]);
        for (int64_t e = threadIdx.x; e < m * n; e += blockDim.x)
            mx_cuda_store<double>(job.q, job.type, b * m * n + e, q[e]);
        __syncthreads();
    }
}

/* ---- syevd ------------------------------------------------------------------------------------------------------- */

struct eigen {
    int64_t n;
    double *a;     /* (n, n) symmetric; destroyed */
    double *u;     /* (n, n): rows become eigenvectors */
    double *d, *e; /* (n) diagonal and what stands below it: e[i] beside d[i] and d[i + 1] */
    double *c, *w; /* (n) scales of the reflections and vectors; later cosines and sines */
};                 /* the four of (n) are in shared memory if they are short */

/* A - v w' - w v' for the trailing block, with w = p - (v'p / 2c) v and p = A v / c */
static __device__ void update_block(const eigen &z, double *block, const double *v, double c, int64_t n)
{
    for (int64_t i = threadIdx.x / 32; i < n; i += blockDim.x / 32) {
        const double product = warp_dot(block + i * z.n, v, n);
        if (threadIdx.x % 32 == 0)
            z.w[i] = product / c;
    }
    __syncthreads();
    const double share = mx_reflection_factor(block_dot(z.w, v, n), 2 * c);
    for (int64_t i = threadIdx.x; i < n; i += blockDim.x)
        z.w[i] += share * v[i];
    __syncthreads();
    for (int64_t e = threadIdx.x; e < n * n; e += blockDim.x) {
        const int64_t i = e / n, k = e % n;
        block[i * z.n + k] = mx_rank2_update(block[i * z.n + k], v[i], z.w[k], z.w[i], v[k]);
    }
    __syncthreads();
}

/* A = U' T U with T tridiagonal.  Row k of A keeps the reflection that cleared it. */
static __device__ void tridiagonal(const eigen &z)
{
    const int64_t n = z.n;
    for (int64_t k = 0; k + 1 < n; k++) {
        double *v = z.a + k * n + k + 1, beta;
        const double c = reflection(v, n - 1 - k, &beta);
        if (!threadIdx.x)
            z.d[k] = z.a[k * n + k], z.e[k] = beta, z.c[k] = c;
        if (c != 0)
            update_block(z, z.a + (k + 1) * (n + 1), v, c, n - 1 - k);
    }
    if (!threadIdx.x)
        z.d[n - 1] = z.a[n * n - 1], z.e[n - 1] = 0;
    for (int64_t e = threadIdx.x; e < n * n; e += blockDim.x)
        z.u[e] = e / n == e % n;
    __syncthreads();
    for (int64_t k = n - 2; k >= 0; k--)
        reflect_rows(z.u + (k + 1) * (n + 1), n - 1 - k, n, n - 1 - k, z.a + k * n + k + 1, z.c[k]);
}

/* The rotations of one sweep over the block [first, last], from the bottom up.  Returns the row of the last one. */
static __device__ int64_t find_rotations(const eigen &z, int64_t first, int64_t last)
{
    mx_sweep s = mx_sweep_begin(z.d, z.e, first, last);
    for (int64_t i = last - 1; i >= first; i--) {
        if (!mx_sweep_row(&s, i))
            return i + 1;
        z.c[i] = s.cosine, z.w[i] = s.sine;
    }
    mx_sweep_end(&s);
    return first;
}

#define AHEAD 8 /* rows that are read before they turn */

static __device__ void diagonalize(const eigen &z)
{
    __shared__ int64_t top, bottom; /* rotations [top, bottom) of a sweep, from the bottom up */
    for (int64_t first = 0; first < z.n; first++)
        for (int count = 0; count < MX_EIGEN_SWEEPS; count++) {
            if (!threadIdx.x) {
                bottom = mx_eigen_block(z.d, z.e, z.n, first);
                top = bottom == first ? -1 : find_rotations(z, first, bottom);
            }
            __syncthreads();
            const int64_t begin = top, end = bottom;
            for (int64_t k = threadIdx.x; k < z.n && begin >= 0 && begin < end; k += blockDim.x) {
                double *u = z.u + k, lower = u[end * z.n]; /* of the two rows that turn; the upper one turns again */
                for (int64_t i = end - 1; i >= begin; i -= AHEAD) {
                    double upper[AHEAD];
#pragma unroll
                    for (int r = 0; r < AHEAD; r++)
                        upper[r] = i - r >= begin ? u[(i - r) * z.n] : 0;
#pragma unroll
                    for (int r = 0; r < AHEAD; r++)
                        if (i - r >= begin) {
                            mx_rotate(z.c[i - r], z.w[i - r], &upper[r], &lower);
                            u[(i - r + 1) * z.n] = lower, lower = upper[r];
                        }
                }
                u[begin * z.n] = lower;
            }
            __syncthreads();
            if (begin < 0)
                break;
        }
}

struct eigen_job {
    const void *in;
    void *vectors, *values;
    int type;
    int64_t n;
    double *room; /* for each matrix: what eigen points at */
};

/* Ascending, and the largest component of every vector positive. */
static __device__ void arrange(const eigen &z, const eigen_job &job, int64_t b)
{
    const int64_t n = z.n;
    for (int64_t i = threadIdx.x; i < n; i += blockDim.x) {
        const int64_t rank = mx_eigen_rank(z.d, n, i);
        z.c[i] = (double)rank, z.w[i] = mx_eigen_sign(z.u + i * n, n);
        mx_cuda_store<double>(job.values, job.type, b * n + rank, z.d[i]);
    }
    __syncthreads();
    for (int64_t e = threadIdx.x; e < n * n; e += blockDim.x)
        mx_cuda_store<double>(job.vectors, job.type, (b * n + (int64_t)z.c[e / n]) * n + e % n, z.w[e / n] * z.u[e]);
    __syncthreads();
}

static __global__ void __launch_bounds__(MOST_THREADS) eigen_kernel(int64_t batch, eigen_job job)
{
    __shared__ double at_hand[SHARED_NUMBERS];
    const int64_t n = job.n;
    for (int64_t b = blockIdx.x; b < batch; b += gridDim.x) {
        double *a = job.room + b * (2 * n * n + 4 * n), *more = 4 * n <= SHARED_NUMBERS ? at_hand : a + 2 * n * n;
        const eigen z = {n, a, a + n * n, more, more + n, more + 2 * n, more + 3 * n};
        for (int64_t e = threadIdx.x; e < n * n; e += blockDim.x) { /* the lower triangle counts */
            const int64_t i = e / n, j = e % n;
            a[e] = mx_cuda_load<double>(job.in, job.type, b * n * n + (j > i ? j * n + i : e));
        }
        __syncthreads();
        tridiagonal(z);
        diagonalize(z);
        arrange(z, job, b);
    }
}

/* ---- the kernels ------------------------------------------------------------------------------------------------- */

static mx_code run_gelqf(const mx_kernel_call *call)
{
    const mx_array *x = call->in[0];
    mx_cuda_device *d = mx_cuda_of(call);
    if (!mx_dtype_is_float(x->dtype))
        return MX_DECLINED;
    if (!d || !x->size)
        return d ? MX_OK : mx_error_code();
    const int64_t m = x->shape[x->ndim - 2], n = x->shape[x->ndim - 1], batch = x->size / (m * n);
    mx_cuda_scratch room(d, (size_t)(batch * (2 * m * n + m)) * sizeof(double));
    if (!room.memory)
        return mx_error_code();
    const lq_job job = {mx_data(x), mx_data(call->out[0]), mx_data(call->out[1]), x->dtype, m, n, room.as<double>()};
    lq_kernel<<<mx_cuda_blocks(d, batch), threads_for(m), 0, d->stream>>>(batch, job);
    return mx_cuda_launched(call);
}

static mx_code run_syevd(const mx_kernel_call *call)
{
    const mx_array *x = call->in[0];
    mx_cuda_device *d = mx_cuda_of(call);
    if (!mx_dtype_is_float(x->dtype))
        return MX_DECLINED;
    if (!d || !x->size)
        return d ? MX_OK : mx_error_code();
    const int64_t n = x->shape[x->ndim - 1], batch = x->size / (n * n);
    mx_cuda_scratch room(d, (size_t)(batch * (2 * n * n + 4 * n)) * sizeof(double));
    if (!room.memory)
        return mx_error_code();
    const eigen_job job = {mx_data(x), mx_data(call->out[0]), mx_data(call->out[1]), x->dtype, n, room.as<double>()};
    eigen_kernel<<<mx_cuda_blocks(d, batch), threads_for(n), 0, d->stream>>>(batch, job);
    return mx_cuda_launched(call);
}

MX_CUDA_KERNELS(linalg_eigen) = {
    {"_linalg_gelqf", run_gelqf, NULL}, {"_linalg_syevd", run_syevd, NULL}, {NULL, NULL, NULL}};
