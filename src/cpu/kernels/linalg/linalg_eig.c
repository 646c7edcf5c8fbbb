/* Eigenvalues of general matrices on the CPU, computed in double (op/formula/linalg_eig.h).  SPDX-License-Identifier: Apache-2.0 */
#include "base/alloc.h"
#include "base/interrupt.h"
#include "cpu/kernels/linalg/linalg.h"
#include "ndarray/convert.h"
#define MX_EIG_STOP() mx_stop_wanted()
#include "op/formula/linalg_eig.h"

static mx_code eig_matrix(const linalg_job *job, int64_t which)
{
    const int64_t n = job->n;
    const mx_dtype type = (mx_dtype)job->dtype;
    const size_t item = (size_t)mx_dtype_size(type), bytes = (size_t)mx_eig_doubles(n) * sizeof(double);
    double *room = mx_alloc(bytes), *values, *vectors;
    if (!room)
        return MX_ERR_MEMORY;
    mx_eig e = mx_eig_in(room, n, &values, &vectors);
    mx_convert(vectors, MX_FLOAT64, (const char *)job->in[0] + (size_t)(which * n * n) * item, type, n * n);
    for (int64_t i = 0; i < n * n; i++)
        e.t[i] = (mx_complex){vectors[i], 0};
    const bool real = mx_eig_solve(&e, values, job->out[1] ? vectors : NULL);
    mx_convert((char *)job->out[0] + (size_t)(which * n) * item, type, values, MX_FLOAT64, n);
    if (job->out[1])
        mx_convert((char *)job->out[1] + (size_t)(which * n * n) * item, type, vectors, MX_FLOAT64, n * n);
    mx_free(room, bytes);
    return real ? MX_OK : MX_ERR_ARGUMENT;
}

static mx_code run_eig(const mx_kernel_call *call)
{
    const mx_array *a = call->in[0];
    const int64_t n = a->shape[a->ndim - 1];
    if (!mx_dtype_is_float(a->dtype))
        return MX_DECLINED;
    linalg_job job = {.in = {mx_data(a)}, .out = {mx_data(call->out[0]), call->n_out > 1 ? mx_data(call->out[1]) : NULL}, .n = n,
                      .dtype = a->dtype, .run = eig_matrix};
    return a->size ? mx_linalg_each(call, &job, a->size / (n * n), 40 * (double)n * (double)n * (double)n,
                                    "has eigenvalues that are not real numbers")
                   : MX_OK;
}

MX_CPU_KERNELS(linalg_eig) = {{"_npi_eig", run_eig, NULL}, {"_npi_eigvals", run_eig, NULL}, {NULL, NULL, NULL}};
