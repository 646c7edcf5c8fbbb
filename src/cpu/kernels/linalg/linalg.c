/* Linear algebra on the CPU: products, triangular solves, factorisations by halves (linalg_body.h).
 *
 * Many matrices are distributed over the threads; for a single one, its matrix products are.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "cpu/kernels/linalg/linalg.h"

#include <math.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/threads.h"
#include "cpu/kernels/gemm/gemm.h"
#include "cpu/kernels/widen.h"
#include "gluon/op.gen.h"
#include "op/formula/linalg.h"

#define SMALL 24 /* rows of a block that is processed directly */

#define T float
#define NAME(x) x##_f
#define GEMM mx_gemm_f32
#define GEMM_RUN mx_gemm_f32_run
#include "cpu/kernels/linalg/linalg_body.h"
#undef T
#undef NAME
#undef GEMM
#undef GEMM_RUN
#define T double
#define NAME(x) x##_d
#define GEMM mx_gemm_f64
#define GEMM_RUN mx_gemm_f64_run
#include "cpu/kernels/linalg/linalg_body.h"
#undef T
#undef NAME
#undef GEMM
#undef GEMM_RUN

/* ---- over many matrices ---------------------------------------------------------------------------------------- */

static void each_range(void *arg, int64_t begin, int64_t end)
{
    linalg_job *job = arg;
    for (int64_t i = begin; i < end && !mx_stop_wanted(); i++) {
        mx_code code = job->run(job, i);
        if (code) { /* errors are recorded per thread: the caller's thread reports */
            mx_error_clear();
            __atomic_store_n(&job->where, i, __ATOMIC_RELAXED);
            __atomic_store_n(&job->failed, code, __ATOMIC_RELAXED);
            return;
        }
    }
}

mx_code mx_linalg_each(const mx_kernel_call *call, linalg_job *job, int64_t batch, double cost, const char *complaint)
{
    const int64_t grain = cost >= MX_GRAIN ? 1 : 1 + (int64_t)(MX_GRAIN / (cost + 1));
    mx_parallel(batch, grain, each_range, job);
    if (mx_stop_wanted()) /* half of a matrix may look like a singular one */
        return MX_OK;
    if (job->failed == MX_ERR_MEMORY)
        return mx_fail(MX_ERR_MEMORY, "%s: out of memory for a matrix of %lld rows", call->op->name, (long long)job->n);
    if (job->failed)
        return mx_fail(MX_ERR_ARGUMENT, "%s: matrix %lld %s", call->op->name, (long long)job->where, complaint);
    return MX_OK;
}

/* Every kernel below begins with this. */
#define ACCEPT()                                       \
    const mx_dtype compute = mx_compute_type(call);        \
    if (!mx_inputs_are(call, compute, 0))                  \
        return MX_DECLINED;                                \
    const bool single = compute == MX_FLOAT32;             \
    (void)single

static linalg_job square_job(const mx_kernel_call *call)
{
    const mx_array *a = call->in[0];
    linalg_job job = {.in = {mx_data(a)}, .out = {mx_data(call->out[0])}, .n = a->shape[a->ndim - 1], .alpha = 1};
    if (call->n_in > 1)
        job.in[1] = mx_data(call->in[1]);
    if (call->n_out > 1)
        job.out[1] = mx_data(call->out[1]);
    return job;
}

static int64_t leading(const mx_array *a)
{
    int64_t batch = 1;
    for (int i = 0; i < a->ndim - 2; i++)
        batch *= a->shape[i];
    return batch;
}

static double cube(int64_t n) { return (double)n * (double)n * (double)n; }

/* ---- products ------------------------------------------------------------------------------------------------------ */

#define PRODUCTS(GEMM, GEMM_RUN, T)                                                                                  \
    for (int64_t i = 0; i < c.runs && !code; i++) {                                                                  \
        GEMM g = {.trans_a = ta, .trans_b = tb, .m = c.rows, .n = c.columns, .k = ta ? a.rows : a.columns,           \
                  .alpha = (T)alpha, .beta = (T)beta, .batch = c.count,                                              \
                  .a = (const T *)mx_data(call->in[0]) + i * a.jump, .lda = a.row, .stride_a = a.step,               \
                  .b = (const T *)mx_data(call->in[1]) + i * b.jump, .ldb = b.row, .stride_b = b.step,               \
                  .c = (T *)mx_data(call->out[0]) + i * c.jump, .ldc = c.row, .stride_c = c.step};                   \
        code = GEMM_RUN(&g);                                                                                         \
    }

static mx_code products(const mx_kernel_call *call, bool ta, bool tb, double alpha, double beta, int64_t axis)
{
    const mx_strided a = mx_stride_by(call->in[0], axis), b = mx_stride_by(call->in[1], axis),
                     c = mx_stride_by(call->out[0], axis);
    mx_code code = MX_OK;
    if (!call->out[0]->size)
        return MX_OK;
    if (call->out[0]->dtype == MX_FLOAT32)
        PRODUCTS(mx_gemm_f32, mx_gemm_f32_run, float)
    else
        PRODUCTS(mx_gemm_f64, mx_gemm_f64_run, double)
    return code;
}

static mx_code run_gemm2(const mx_kernel_call *call)
{
    const mx_linalg_gemm2_attrs *p = call->attrs;
    ACCEPT();
    return products(call, p->transpose_a, p->transpose_b, p->alpha, 0, p->axis);
}

static mx_code run_gemm(const mx_kernel_call *call)
{
    const mx_linalg_gemm_attrs *p = call->attrs;
    ACCEPT();
    if (p->beta != 0)
        memcpy(mx_data(call->out[0]), mx_data(call->in[2]), mx_bytes(call->out[0]));
    return products(call, p->transpose_a, p->transpose_b, p->alpha, p->beta, p->axis);
}

static mx_code run_syrk(const mx_kernel_call *call)
{
    const mx_linalg_syrk_attrs *p = call->attrs;
    ACCEPT();
    mx_array *const twice[2] = {call->in[0], call->in[0]};
    mx_kernel_call product = *call;
    product.in = twice;
    return products(&product, p->transpose, !p->transpose, p->alpha, 0, -2);
}

/* ---- triangular ------------------------------------------------------------------------------------------------------ */

static mx_code triangular(const mx_kernel_call *call, linalg_fn run)
{
    const mx_linalg_triangular_attrs *p = call->attrs;
    const mx_array *b = call->in[1];
    linalg_job job = square_job(call);
    job.others = b->shape[b->ndim - (p->rightside ? 2 : 1)];
    job.triangle = (triangle){p->lower, p->transpose, p->rightside, false};
    job.alpha = p->alpha, job.run = run;
    return mx_linalg_each(call, &job, leading(b), (double)job.n * (double)job.n * (double)job.others, "");
}

static mx_code run_trmm(const mx_kernel_call *call)
{
    ACCEPT();
    return triangular(call, single ? trmm_f : trmm_d);
}

static mx_code run_trsm(const mx_kernel_call *call)
{
    ACCEPT();
    return triangular(call, single ? trsm_f : trsm_d);
}

/* ---- factorisations ---------------------------------------------------------------------------------------------------- */

static mx_code run_potrf(const mx_kernel_call *call)
{
    ACCEPT();
    linalg_job job = square_job(call);
    job.triangle.lower = ((const mx_linalg_potrf_attrs *)call->attrs)->lower, job.run = single ? potrf_f : potrf_d;
    return mx_linalg_each(call, &job, leading(call->in[0]), cube(job.n), "is not positive definite");
}

static mx_code run_potri(const mx_kernel_call *call)
{
    ACCEPT();
    linalg_job job = square_job(call);
    job.triangle.lower = ((const mx_linalg_potrf_attrs *)call->attrs)->lower, job.run = single ? potri_f : potri_d;
    return mx_linalg_each(call, &job, leading(call->in[0]), cube(job.n), "");
}

/* inverse and solve */
static mx_code run_solve(const mx_kernel_call *call)
{
    ACCEPT();
    linalg_job job = square_job(call);
    job.others = call->out[0]->ndim < call->in[0]->ndim ? 1 : call->out[0]->shape[call->out[0]->ndim - 1];
    job.zero_if_singular = !strcmp(call->op->name, "_linalg_inverse_or_zero"),
    job.run = single ? solve_with_f : solve_with_d;
    return mx_linalg_each(call, &job, leading(call->in[0]), 2 * cube(job.n), "is singular");
}

static mx_code run_determinant(const mx_kernel_call *call)
{
    ACCEPT();
    linalg_job job = square_job(call);
    job.run = single ? determinant_f : determinant_d;
    return mx_linalg_each(call, &job, leading(call->in[0]), cube(job.n), "");
}

static mx_code run_sumlogdiag(const mx_kernel_call *call)
{
    ACCEPT();
    linalg_job job = square_job(call);
    job.run = single ? sumlogdiag_f : sumlogdiag_d;
    return mx_linalg_each(call, &job, leading(call->in[0]), 20 * (double)job.n, "");
}

MX_CPU_KERNELS(linalg) = {{"_linalg_gemm", run_gemm, NULL, MX_KERNEL_WIDEN},
                          {"_linalg_gemm2", run_gemm2, NULL, MX_KERNEL_WIDEN},
                          {"_linalg_syrk", run_syrk, NULL, MX_KERNEL_WIDEN},
                          {"_linalg_trmm", run_trmm, NULL, MX_KERNEL_WIDEN},
                          {"_linalg_trsm", run_trsm, NULL, MX_KERNEL_WIDEN},
                          {"_linalg_potrf", run_potrf, NULL, MX_KERNEL_WIDEN},
                          {"_linalg_potri", run_potri, NULL, MX_KERNEL_WIDEN},
                          {"_linalg_inverse", run_solve, NULL, MX_KERNEL_WIDEN},
                          {"_npi_solve", run_solve, NULL, MX_KERNEL_WIDEN},
                          {"_linalg_inverse_or_zero", run_solve, NULL, MX_KERNEL_WIDEN},
                          {"_linalg_det", run_determinant, NULL, MX_KERNEL_WIDEN},
                          {"_linalg_slogdet", run_determinant, NULL, MX_KERNEL_WIDEN},
                          {"_linalg_sumlogdiag", run_sumlogdiag, NULL, MX_KERNEL_WIDEN},
                          {NULL, NULL, NULL}};
