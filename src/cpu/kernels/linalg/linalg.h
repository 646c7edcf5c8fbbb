/* Shared by the linear algebra kernels: one call over many matrices.  SPDX-License-Identifier: Apache-2.0 */
#ifndef MX_CPU_LINALG_H
#define MX_CPU_LINALG_H

#include "base/interrupt.h"
#include "cpu/kernel.h"
#include "cpu/kernels/level.h"

typedef struct triangle {
    bool lower, transpose; /* which triangle is stored, and whether the matrix is used transposed */
    bool right;            /* it is the right operand */
    bool unit;             /* ones on the diagonal, which is not read */
} triangle;

typedef struct linalg_job linalg_job;
/* Works on one matrix: MX_OK, MX_ERR_MEMORY, or MX_ERR_ARGUMENT for a matrix that cannot be factored. */
typedef mx_code (*linalg_fn)(const linalg_job *job, int64_t which);

struct linalg_job {
    const void *in[2];
    void *out[3];
    int64_t n;      /* rows of the square matrix; gelqf: of A */
    int64_t others; /* trmm, trsm: the other size of B; gelqf: columns of A */
    triangle triangle;
    double alpha;
    bool zero_if_singular;
    int dtype; /* of all arrays, for kernels that compute in double */
    linalg_fn run;
    mx_code failed; /* the worst error */
    int64_t where;  /* the matrix that failed */
};

/* Runs job->run on `batch` matrices, each worth `cost` elements of work, and reports failures. */
#define mx_linalg_each MX_LEVEL_NAME(mx_linalg_each)
mx_code mx_linalg_each(const mx_kernel_call *call, linalg_job *job, int64_t batch, double cost, const char *complaint);

#endif
