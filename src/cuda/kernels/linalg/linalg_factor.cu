/* Factorisations: Cholesky, L U with row exchanges, and the operators based on them.
 *
 * A matrix without factors sets the device error flag: the host does not wait, the error is raised when values are next
 * copied to the host.  The result of such a matrix is NaN; that of potrf from the first pivot that is not positive on.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <cmath>
#include <cstring>

#include "cuda/kernels/linalg/linalg.h"

#define SMALL 32 /* rows of a block that one block of threads works on */

static int64_t half_of(int64_t n) { return (n / 2 + SMALL - 1) / SMALL * SMALL; }

/* ---- Cholesky: the lower triangle of A becomes L ----------------------------------------------------------------- */

/* A warp per matrix, a lane per row. */
template <class T>
static __global__ void cholesky_kernel(int64_t batch, mx_cuda_matrices<T> a, int n, mx_cuda_error_flag flag)
{
    __shared__ T l[SMALL][SMALL + 1];
    const int i = threadIdx.x;
    for (int64_t b = blockIdx.x; b < batch; b += gridDim.x) {
        T *matrix = a.p + b * a.stride;
        for (int k = 0; k < n; k++)
            l[k][i] = i < n ? matrix[k * a.ld + i] : (T)0;
        __syncwarp();
        for (int k = 0; k < n; k++) {
            const T square = l[k][k], head = square > 0 ? sqrt(square) : (T)NAN;
            if (i == k && !(square > 0))
                flag.set(b);
            __syncwarp();
            if (i >= k && i < n)
                l[i][k] = i == k ? head : l[i][k] / head;
            __syncwarp();
            for (int j = k + 1; j <= i && i < n; j++)
                l[i][j] -= l[i][k] * l[j][k];
            __syncwarp();
        }
        for (int k = 0; k < n; k++)
            if (i <= k)
                matrix[k * a.ld + i] = l[k][i];
        __syncwarp();
    }
}

template <class T> static mx_code cholesky(const mx_kernel_call *call, int64_t batch, mx_cuda_matrices<T> a, int64_t n)
{
    if (n <= SMALL) {
        mx_cuda_device *d = mx_cuda_of(call);
        if (!d)
            return mx_error_code();
        cholesky_kernel<T><<<mx_cuda_blocks(d, batch), SMALL, 0, d->stream>>>(
            batch, a, (int)n, mx_cuda_error_flag(call, MX_ERR_ARGUMENT, "matrix %lld is not positive definite"));
        return mx_cuda_launched(call);
    }
    const int64_t h = half_of(n), r = n - h;
    const mx_cuda_matrices<T> below = a.at(h, 0), rest = a.at(h, h);
    mx_code code = cholesky(call, batch, a, h);
    code = code ? code : mx_cuda_solve(call, batch, {true, true, true, false}, a, h, below, r);
    code = code ? code : mx_cuda_multiply(call, batch, false, true, r, r, h, -1, below, below, 1, rest);
    return code ? code : cholesky(call, batch, rest, r);
}

/* Copies a triangle, transposed if `turn`; zeros elsewhere. */
template <class T>
static mx_code copy_triangle(const mx_kernel_call *call, T *to, const T *from, int64_t all, int64_t n, bool lower,
                             bool turn)
{
    return mx_cuda_each(call, all, [=] __device__(int64_t e) {
        const int64_t b = e / (n * n), i = e / n % n, j = e % n, source_row = turn ? j : i,
                      source_column = turn ? i : j;
        const bool inside = lower ? source_column <= source_row : source_column >= source_row;
        to[e] = inside ? from[(b * n + source_row) * n + source_column] : 0;
    });
}

/* Zeros the upper triangle, or transposes the matrix and zeros the lower one. */
template <class T> static mx_code finish_triangle(const mx_kernel_call *call, T *l, int64_t all, int64_t n, bool lower)
{
    return mx_cuda_each(call, all, [=] __device__(int64_t e) {
        const int64_t i = e / n % n, j = e % n;
        if (j >= i)
            return;
        T *other = l + e - i * n - j + j * n + i;
        *other = lower ? 0 : l[e];
        l[e] = lower ? l[e] : 0;
    });
}

template <class T> static mx_code potrf(const mx_kernel_call *call)
{
    const mx_array *x = call->in[0];
    const int64_t n = x->shape[x->ndim - 1];
    const bool lower = ((const mx_linalg_potrf_attrs *)call->attrs)->lower;
    T *l = (T *)mx_data(call->out[0]);
    if (!x->size)
        return MX_OK;
    mx_code code = copy_triangle(call, l, (const T *)mx_data(x), x->size, n, lower, !lower);
    code = code ? code : cholesky<T>(call, x->size / (n * n), {l, n, n * n}, n);
    return code ? code : finish_triangle(call, l, x->size, n, lower);
}

template <class T> static mx_code identity(const mx_kernel_call *call, T *to, int64_t all, int64_t n)
{
    return mx_cuda_each(call, all, [=] __device__(int64_t e) { to[e] = e / n % n == e % n; });
}

/* (L L')^-1 = W' W with W = L^-1 */
template <class T> static mx_code potri(const mx_kernel_call *call)
{
    const mx_array *x = call->in[0];
    const int64_t n = x->shape[x->ndim - 1], all = x->size;
    const bool lower = ((const mx_linalg_potrf_attrs *)call->attrs)->lower;
    mx_cuda_device *d = mx_cuda_of(call);
    if (!d || !all)
        return d ? MX_OK : mx_error_code();
    mx_cuda_scratch room(d, 2 * mx_bytes(x));
    T *l = room.as<T>(), *w = l + all;
    if (!l)
        return mx_error_code();
    const int64_t batch = all / (n * n);
    const mx_cuda_matrices<T> inverse = {w, n, n * n}, out = {(T *)mx_data(call->out[0]), n, n * n};
    mx_code code = copy_triangle(call, l, (const T *)mx_data(x), all, n, lower, !lower);
    code = code ? code : identity(call, w, all, n);
    code = code ? code : mx_cuda_solve<T>(call, batch, {true, false, false, false}, {l, n, n * n}, n, inverse, n);
    return code ? code : mx_cuda_multiply(call, batch, true, false, n, n, n, 1, inverse, inverse, 0, out);
}

/* ---- L U with row exchanges: P A = L U in place, pivot[i] is the row that row i was exchanged with --------------- */

#define PANEL_THREADS 512
#define ABREAST 8 /* rows that a warp reads before it writes them */

/* Columns [from, from + n) of square matrices of `rows` rows, n <= SMALL; all rows above `from` are done.
 * A block per matrix; a warp updates a row, its lanes the columns. */
template <class T>
static __global__ void panel_kernel(int64_t batch, mx_cuda_matrices<T> a, int64_t rows, int64_t from, int n,
                                    int64_t *pivots)
{
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, warps = PANEL_THREADS / 32;
    for (int64_t b = blockIdx.x; b < batch; b += gridDim.x) {
        T *matrix = a.p + b * a.stride;
        for (int64_t k = from; k < from + n; k++) {
            double size = -1;
            int64_t where = rows;
            for (int64_t i = k + threadIdx.x; i < rows; i += PANEL_THREADS) {
                const double here = fabs((double)matrix[i * a.ld + k]);
                if (here > size)
                    size = here, where = i;
            }
            const double most = mx_cuda_block_max(size);
            const int64_t first = -mx_cuda_block_max(size == most ? -where : -rows), best = first < rows ? first : k;
            if (!threadIdx.x)
                pivots[b * rows + k] = best;
            if (best != k && threadIdx.x < n) {
                T *one = matrix + k * a.ld + from + threadIdx.x, *two = matrix + best * a.ld + from + threadIdx.x,
                  swap = *one;
                *one = *two, *two = swap;
            }
            __syncthreads();
            const T head = matrix[k * a.ld + k];
            const int64_t column = from + lane;
            const T above = lane < n ? matrix[k * a.ld + column] : (T)0;
            for (int64_t i = k + 1 + warp * ABREAST; i < rows && head != 0; i += warps * ABREAST) {
                T factor[ABREAST], here[ABREAST];
#pragma unroll
                for (int r = 0; r < ABREAST; r++) {
                    const bool there = i + r < rows;
                    factor[r] = there ? matrix[(i + r) * a.ld + k] / head : (T)0;
                    here[r] = there && lane < n ? matrix[(i + r) * a.ld + column] : (T)0;
                }
                __syncwarp();
#pragma unroll
                for (int r = 0; r < ABREAST; r++)
                    if (i + r < rows && lane < n && column >= k)
                        matrix[(i + r) * a.ld + column] = column == k ? factor[r] : here[r] - factor[r] * above;
            }
            __syncthreads();
        }
    }
}

/* Exchanges [begin, end) of rows, in columns [0, n) of x. */
template <class T>
static mx_code exchange(const mx_kernel_call *call, int64_t batch, mx_cuda_matrices<T> x, int64_t n,
                        const int64_t *pivots, int64_t rows, int64_t begin, int64_t end)
{
    return mx_cuda_each(call, batch * n, [=] __device__(int64_t e) {
        T *column = x.p + e / n * x.stride + e % n;
        for (int64_t i = begin; i < end; i++) {
            const int64_t other = pivots[e / n * rows + i];
            const T swap = column[i * x.ld];
            column[i * x.ld] = column[other * x.ld], column[other * x.ld] = swap;
        }
    });
}

template <class T>
static mx_code lu(const mx_kernel_call *call, int64_t batch, mx_cuda_matrices<T> a, int64_t rows, int64_t from,
                  int64_t n, int64_t *pivots)
{
    if (n <= SMALL) {
        mx_cuda_device *d = mx_cuda_of(call);
        if (!d)
            return mx_error_code();
        panel_kernel<T>
            <<<mx_cuda_blocks(d, batch), PANEL_THREADS, 0, d->stream>>>(batch, a, rows, from, (int)n, pivots);
        return mx_cuda_launched(call);
    }
    const int64_t h = half_of(n), next = from + h, right = n - h;
    const mx_cuda_matrices<T> above = a.at(from, next);
    mx_code code = lu(call, batch, a, rows, from, h, pivots);
    code = code ? code : exchange(call, batch, a.at(0, next), right, pivots, rows, from, next);
    code = code ? code : mx_cuda_solve(call, batch, {true, false, false, true}, a.at(from, from), h, above, right);
    code = code ? code
                : mx_cuda_multiply(call, batch, false, false, rows - next, right, h, -1, a.at(next, from), above, 1,
                                   a.at(next, next));
    code = code ? code : lu(call, batch, a, rows, next, right, pivots);
    return code ? code : exchange(call, batch, a.at(0, from), h, pivots, rows, next, from + n);
}

/* A copy of the input as L U, in scratch that lives as long as this. */
namespace /* the name is also used elsewhere */
{
template <class T> struct factors {
    int64_t n, batch;
    mx_cuda_scratch room, places;
    mx_cuda_matrices<T> a;
    int64_t *pivots;
    factors(mx_cuda_device *d, const mx_array *x)
        : n(x->shape[x->ndim - 1]), batch(n ? x->size / (n * n) : 0), room(d, mx_bytes(x)),
          places(d, (size_t)(batch * n) * sizeof(int64_t)), a{room.as<T>(), n, n * n}, pivots(places.as<int64_t>())
    {
    }
    mx_code make(const mx_kernel_call *call)
    {
        if (!a.p || !pivots)
            return mx_error_code();
        const mx_array *x = call->in[0];
        const mx_code code =
            mx_cuda_fail(cudaMemcpyAsync(a.p, mx_data(x), mx_bytes(x), cudaMemcpyDeviceToDevice, room.device->stream),
                         call->op->name);
        return code ? code : lu(call, batch, a, n, 0, n, pivots);
    }
};
} // namespace

/* Where a matrix is singular its inverse is filled with zeros, or with NaN, which is an error. */
template <class T>
static mx_code mend(const mx_kernel_call *call, const factors<T> &f, T *out, int64_t columns, bool zero)
{
    const T *a = f.a.p, filling = zero ? (T)0 : (T)NAN;
    const int64_t n = f.n;
    const mx_cuda_error_flag flag(call, MX_ERR_ARGUMENT, "matrix %lld is singular");
    return mx_cuda_rows(call, f.batch, n * columns, [=] __device__(int64_t b) {
        int singular = 0;
        for (int64_t i = threadIdx.x; i < n; i += blockDim.x)
            singular |= a[(b * n + i) * n + i] == 0;
        if (!mx_cuda_block_max(singular))
            return;
        if (!threadIdx.x && !zero)
            flag.set(b);
        for (int64_t e = threadIdx.x; e < n * columns; e += blockDim.x)
            out[b * n * columns + e] = filling;
    });
}

template <class T> static mx_code copy_in(const mx_kernel_call *call, T *to, const mx_array *from)
{
    const T *elements = (const T *)mx_data(from);
    return mx_cuda_each(call, from->size, [=] __device__(int64_t e) { to[e] = elements[e]; });
}

/* A X = B; inverse: B is the identity. */
template <class T> static mx_code solve(const mx_kernel_call *call)
{
    mx_cuda_device *d = mx_cuda_of(call);
    const mx_array *result = call->out[0];
    if (!d || !result->size)
        return d ? MX_OK : mx_error_code();
    factors<T> f(d, call->in[0]);
    const int64_t n = f.n, columns = result->ndim < call->in[0]->ndim ? 1 : result->shape[result->ndim - 1];
    T *out = (T *)mx_data(result);
    const mx_cuda_matrices<T> x = {out, columns, n * columns};
    mx_code code = f.make(call);
    code = code ? code : call->n_in > 1 ? copy_in(call, out, call->in[1]) : identity(call, out, result->size, n);
    code = code ? code : exchange<T>(call, f.batch, x, columns, f.pivots, n, 0, n);
    code = code ? code : mx_cuda_solve<T>(call, f.batch, {true, false, false, true}, f.a, n, x, columns);
    code = code ? code : mx_cuda_solve<T>(call, f.batch, {false, false, false, false}, f.a, n, x, columns);
    return code ? code : mend<T>(call, f, out, columns, !strcmp(call->op->name, "_linalg_inverse_or_zero"));
}

/* det: out[0]; slogdet: sign in out[0], logarithm in out[1] */
template <class T> static mx_code determinant(const mx_kernel_call *call)
{
    mx_cuda_device *d = mx_cuda_of(call);
    const int64_t batch = call->out[0]->size;
    if (!d || !batch)
        return d ? MX_OK : mx_error_code();
    factors<T> f(d, call->in[0]);
    const mx_code code = f.n ? f.make(call) : MX_OK;
    const T *a = f.a.p;
    const int64_t n = f.n, *pivots = f.pivots;
    T *first = (T *)mx_data(call->out[0]), *second = call->n_out > 1 ? (T *)mx_data(call->out[1]) : nullptr;
    return code ? code : mx_cuda_each(call, batch, [=] __device__(int64_t b) {
        double product = 1, sign = 1, sum = 0;
        for (int64_t i = 0; i < n; i++) {
            const double value = (double)a[(b * n + i) * n + i] * (pivots[b * n + i] == i ? 1 : -1);
            product *= value;
            sign = value != value ? value : sign * ((value > 0) - (value < 0));
            sum += log(fabs(value));
        }
        first[b] = (T)(second ? sign : product);
        if (second)
            second[b] = (T)sum;
    });
}

template <class T> static mx_code sumlogdiag(const mx_kernel_call *call)
{
    const mx_array *x = call->in[0];
    const int64_t n = x->shape[x->ndim - 1];
    const T *a = (const T *)mx_data(x);
    T *out = (T *)mx_data(call->out[0]);
    return mx_cuda_rows(call, call->out[0]->size, n, [=] __device__(int64_t b) {
        double sum = 0;
        for (int64_t i = threadIdx.x; i < n; i += blockDim.x)
            sum += log((double)a[(b * n + i) * n + i]);
        const double all = mx_cuda_block_sum(sum);
        if (!threadIdx.x)
            out[b] = (T)all;
    });
}

MX_CUDA_FLOATS(run_potrf, potrf)
MX_CUDA_FLOATS(run_potri, potri)
MX_CUDA_FLOATS(run_solve, solve)
MX_CUDA_FLOATS(run_determinant, determinant)
MX_CUDA_FLOATS(run_sumlogdiag, sumlogdiag)

MX_CUDA_KERNELS(linalg_factor) = {
    {"_linalg_potrf", run_potrf, NULL},           {"_linalg_potri", run_potri, NULL},
    {"_linalg_inverse", run_solve, NULL},         {"_linalg_inverse_or_zero", run_solve, NULL},
    {"_npi_solve", run_solve, NULL},
    {"_linalg_det", run_determinant, NULL},       {"_linalg_slogdet", run_determinant, NULL},
    {"_linalg_sumlogdiag", run_sumlogdiag, NULL}, {NULL, NULL, NULL}};
