/* Linear algebra: products, triangular products and solves.  SPDX-License-Identifier: Apache-2.0 */
#include "cuda/kernels/linalg/linalg.h"
extern "C" {
#include "op/formula/linalg.h"
}

/* ---- products ---------------------------------------------------------------------------------------------------- */

/* out = beta out, where there is nothing to multiply */
static mx_code scale(const mx_kernel_call *call, double beta)
{
    void *y = mx_data(call->out[0]);
    const int type = call->out[0]->dtype;
    return mx_cuda_each(call, call->out[0]->size, [=] __device__(int64_t i) {
        mx_cuda_store<double>(y, type, i, beta == 0 ? 0 : beta * mx_cuda_load<double>(y, type, i));
    });
}

static mx_code products(const mx_kernel_call *call, const mx_array *left, const mx_array *right, bool ta, bool tb,
                        double alpha, double beta, int64_t axis)
{
    mx_array *out = call->out[0];
    if (!mx_dtype_is_float(out->dtype) || left->dtype != out->dtype || right->dtype != out->dtype)
        return MX_DECLINED;
    const mx_strided a = mx_stride_by(left, axis), b = mx_stride_by(right, axis), c = mx_stride_by(out, axis);
    const int64_t item = mx_dtype_size((mx_dtype)out->dtype), k = ta ? a.rows : a.columns;
    if (!out->size || !k)
        return out->size ? scale(call, beta) : MX_OK;
    mx_code code = MX_OK;
    for (int64_t i = 0; i < c.runs && !code; i++)
        code = mx_cuda_gemm_run(call, out->dtype,
                                {ta, tb, c.rows, c.columns, k, (const char *)mx_data(left) + i * a.jump * item, a.row,
                                 (const char *)mx_data(right) + i * b.jump * item, b.row,
                                 (char *)mx_data(out) + i * c.jump * item, c.row, alpha, beta, c.count, a.step, b.step,
                                 c.step});
    return code;
}

static mx_code run_gemm2(const mx_kernel_call *call)
{
    const mx_linalg_gemm2_attrs *a = (const mx_linalg_gemm2_attrs *)call->attrs;
    return products(call, call->in[0], call->in[1], a->transpose_a, a->transpose_b, a->alpha, 0, a->axis);
}

static mx_code run_gemm(const mx_kernel_call *call)
{
    const mx_linalg_gemm_attrs *a = (const mx_linalg_gemm_attrs *)call->attrs;
    mx_cuda_device *d = mx_cuda_of(call);
    if (!d)
        return mx_error_code();
    if (a->beta != 0 && call->out[0]->size && mx_data(call->out[0]) != mx_data(call->in[2]) &&
        mx_cuda_fail(cudaMemcpyAsync(mx_data(call->out[0]), mx_data(call->in[2]), mx_bytes(call->out[0]),
                                     cudaMemcpyDeviceToDevice, d->stream),
                     call->op->name))
        return mx_error_code();
    return products(call, call->in[0], call->in[1], a->transpose_a, a->transpose_b, a->alpha, a->beta, a->axis);
}

static mx_code run_syrk(const mx_kernel_call *call)
{
    const mx_linalg_syrk_attrs *a = (const mx_linalg_syrk_attrs *)call->attrs;
    return products(call, call->in[0], call->in[0], a->transpose, !a->transpose, a->alpha, 0, -2);
}

/* ---- triangular solves ------------------------------------------------------------------------------------------- */

#define SMALL 32
#define SOLVERS 128 /* threads of a block, each with a column of its own (a row when A is on the right) */

/* M y = x with M = op(A), or its transpose when right.  The block is read so that M is always lower: from the last row
 * backwards if it is upper; missing rows are those of the identity. */
template <class T>
static __global__ void solve_kernel(int64_t batch, mx_cuda_triangle t, mx_cuda_matrices<T> a, int n,
                                    mx_cuda_matrices<T> x, int64_t others)
{
    __shared__ T m[SMALL][SMALL + 1];
    const bool turn = t.transpose != t.right, forward = t.lower != turn;
    const int64_t chunks = (others + SOLVERS - 1) / SOLVERS, step = t.right ? 1 : x.ld, across = t.right ? x.ld : 1;
    for (int64_t unit = blockIdx.x; unit < batch * chunks; unit += gridDim.x) {
        const T *from = a.p + unit / chunks * a.stride;
        __syncthreads();
        for (int e = threadIdx.x; e < SMALL * SMALL; e += SOLVERS) {
            const int i = e / SMALL, k = e % SMALL, row = forward ? i : n - 1 - i, column = forward ? k : n - 1 - k;
            const bool inside = i < n && k < n && k <= i && !(t.unit && i == k);
            m[i][k] = inside ? from[turn ? column * a.ld + row : row * a.ld + column] : (T)(i == k);
        }
        __syncthreads();
        const int64_t other = unit % chunks * SOLVERS + threadIdx.x;
        if (other >= others)
            continue;
        T *to = x.p + unit / chunks * x.stride + other * across, v[SMALL];
#pragma unroll
        for (int i = 0; i < SMALL; i++) {
            v[i] = i < n ? to[(forward ? i : n - 1 - i) * step] : (T)0;
#pragma unroll
            for (int k = 0; k < i; k++)
                v[i] -= m[i][k] * v[k];
            v[i] /= m[i][i];
        }
#pragma unroll
        for (int i = 0; i < SMALL; i++)
            if (i < n)
                to[(forward ? i : n - 1 - i) * step] = v[i];
    }
}

template <class T>
mx_code mx_cuda_solve(const mx_kernel_call *call, int64_t batch, mx_cuda_triangle t, mx_cuda_matrices<T> a, int64_t n,
                      mx_cuda_matrices<T> x, int64_t others)
{
    if (!n || !others || !batch)
        return MX_OK;
    if (n <= SMALL) {
        mx_cuda_device *d = mx_cuda_of(call);
        if (!d)
            return mx_error_code();
        const int64_t blocks = batch * ((others + SOLVERS - 1) / SOLVERS);
        solve_kernel<T><<<mx_cuda_blocks(d, blocks), SOLVERS, 0, d->stream>>>(batch, t, a, (int)n, x, others);
        return mx_cuda_launched(call);
    }
    const bool forward = (t.lower != t.transpose) != t.right;
    const int64_t h = (n / 2 + SMALL - 1) / SMALL * SMALL, begin[2] = {0, h}, size[2] = {h, n - h};
    const int one = forward ? 0 : 1, two = 1 - one;
    const mx_cuda_matrices<T> off = t.lower ? a.at(h, 0) : a.at(0, h);
    const mx_cuda_matrices<T> first = t.right ? x.at(0, begin[one]) : x.at(begin[one], 0);
    const mx_cuda_matrices<T> second = t.right ? x.at(0, begin[two]) : x.at(begin[two], 0);
    mx_code code = mx_cuda_solve(call, batch, t, a.at(begin[one], begin[one]), size[one], first, others);
    if (!code && t.right)
        code =
            mx_cuda_multiply(call, batch, false, t.transpose, others, size[two], size[one], -1, first, off, 1, second);
    else if (!code)
        code =
            mx_cuda_multiply(call, batch, t.transpose, false, size[two], others, size[one], -1, off, first, 1, second);
    return code ? code : mx_cuda_solve(call, batch, t, a.at(begin[two], begin[two]), size[two], second, others);
}
template mx_code mx_cuda_solve(const mx_kernel_call *, int64_t, mx_cuda_triangle, mx_cuda_matrices<float>, int64_t,
                               mx_cuda_matrices<float>, int64_t);
template mx_code mx_cuda_solve(const mx_kernel_call *, int64_t, mx_cuda_triangle, mx_cuda_matrices<double>, int64_t,
                               mx_cuda_matrices<double>, int64_t);

/* ---- trsm, trmm -------------------------------------------------------------------------------------------------- */

/* What both read: A (batch, n, n), B and the result (batch, rows, columns). */
template <class T> struct triangular {
    mx_cuda_triangle t;
    int64_t batch, n, others, columns;
    mx_cuda_matrices<T> a, b, out;
    triangular(const mx_kernel_call *call)
    {
        const mx_linalg_triangular_attrs *p = (const mx_linalg_triangular_attrs *)call->attrs;
        const mx_array *x = call->in[1];
        t = {p->lower, p->transpose, p->rightside, false};
        batch = mx_cuda_leading(x), n = call->in[0]->shape[call->in[0]->ndim - 1];
        others = x->shape[x->ndim - (p->rightside ? 2 : 1)], columns = x->shape[x->ndim - 1];
        a = {(T *)mx_data(call->in[0]), n, n * n};
        b = {(T *)mx_data(x), columns, n * others}, out = {(T *)mx_data(call->out[0]), columns, n * others};
    }
};

template <class T> static mx_code trsm(const mx_kernel_call *call)
{
    const triangular<T> s(call);
    const T alpha = (T)((const mx_linalg_triangular_attrs *)call->attrs)->alpha, *b = s.b.p;
    T *x = s.out.p;
    const mx_code code = mx_cuda_each(call, call->out[0]->size, [=] __device__(int64_t i) { x[i] = alpha * b[i]; });
    return code ? code : mx_cuda_solve(call, s.batch, s.t, s.a, s.n, s.out, s.others);
}

template <class T> static mx_code trmm(const mx_kernel_call *call)
{
    const triangular<T> s(call);
    const double alpha = ((const mx_linalg_triangular_attrs *)call->attrs)->alpha;
    mx_cuda_device *d = mx_cuda_of(call);
    if (!d || !call->out[0]->size)
        return d ? MX_OK : mx_error_code();
    mx_cuda_scratch room(d, mx_bytes(call->in[0]));
    T *one = room.as<T>();
    if (!one)
        return mx_error_code();
    const T *from = s.a.p;
    const int64_t n = s.n;
    const bool lower = s.t.lower;
    const mx_code code = mx_cuda_each(call, s.batch * n * n, [=] __device__(int64_t e) {
        const int64_t i = e / n % n, j = e % n;
        one[e] = (lower ? j <= i : j >= i) ? from[e] : 0;
    });
    const mx_cuda_matrices<T> a = {one, n, n * n};
    if (code)
        return code;
    return s.t.right ? mx_cuda_multiply(call, s.batch, false, s.t.transpose, s.others, n, n, alpha, s.b, a, 0, s.out)
                     : mx_cuda_multiply(call, s.batch, s.t.transpose, false, n, s.others, n, alpha, a, s.b, 0, s.out);
}
MX_CUDA_FLOATS(run_trsm, trsm)
MX_CUDA_FLOATS(run_trmm, trmm)

MX_CUDA_KERNELS(linalg) = {{"_linalg_gemm", run_gemm, NULL}, {"_linalg_gemm2", run_gemm2, NULL},
                           {"_linalg_syrk", run_syrk, NULL}, {"_linalg_trmm", run_trmm, NULL},
                           {"_linalg_trsm", run_trsm, NULL}, {NULL, NULL, NULL}};
