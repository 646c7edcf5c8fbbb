/* Eigenvalues and eigenvectors of square matrices in the last two axes, which need not be symmetric.
 *
 * Real ones only: a matrix with others is an error.  There is no gradient, as in MXNet; symmetric matrices have one (syevd).
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "base/error.h"
#include "op/formula/linalg.h"
#include "op/formula/linalg_eig.h"

static mx_code infer_eig(mx_infer *infer)
{
    if (infer->in[0].ndim < 0)
        return MX_OK;
    if (mx_linalg_check(infer, 0, 2, true))
        return mx_error_code();
    mx_shape_t values = infer->in[0];
    values.ndim--;
    if (infer->n_out > 1 && mx_infer_out(infer, 1, &infer->in[0]))
        return mx_error_code();
    return mx_infer_out(infer, 0, &values);
}

#define LARGEST 32 /* rows of a matrix in a sample */

static void ref_eig(const mx_reference_call *call)
{
    static double room[5 * LARGEST * LARGEST + 4 * LARGEST];
    const mx_matrices m = mx_matrices_of(&call->in_shape[0]);
    const int64_t n = m.rows;
    for (int64_t b = 0; b < m.batch; b++) {
        double *values, *vectors;
        mx_eig e = mx_eig_in(room, n, &values, &vectors);
        for (int64_t i = 0; i < n * n; i++)
            e.t[i] = (mx_complex){call->in[0][b * n * n + i], 0};
        mx_eig_solve(&e, call->out[0] + b * n, call->n_out > 1 ? call->out[1] + b * n * n : NULL);
    }
}

#define SAMPLES(...) (const mx_sample[]){__VA_ARGS__, {0}}
#define REAL "floatonly symmetric" /* so are the eigenvalues then */
#define EIG_SAMPLES SAMPLES({"3,3", "", 0, 0, REAL}, {"2,4,4", "", 0, 0, REAL}, {"1,1", "", 0, 0, REAL})

mx_op mx_family_linalg_eig[] = {
    {.name = "_npi_eig", .precision = MX_PRECISION_FLOAT32, .c_name = "linalg_eig", .inputs = "A", .outputs = "W V", .outputs_numbered = true, .n_out = 2,
     .doc = "real eigenvalues, ascending, and eigenvectors, the columns of V, of square matrices; the largest component of each eigenvector is positive",
     .flags = MX_OP_NO_GRADIENT, .infer_shape = infer_eig, .reference = ref_eig, .samples = EIG_SAMPLES},
    {.name = "_npi_eigvals", .precision = MX_PRECISION_FLOAT32, .c_name = "linalg_eigvals", .inputs = "A",
     .doc = "real eigenvalues, ascending, of square matrices", .flags = MX_OP_NO_GRADIENT, .infer_shape = infer_eig, .reference = ref_eig,
     .samples = EIG_SAMPLES},
    {0},
};
