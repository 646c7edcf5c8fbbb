/* Eigenvalues of general matrices, computed in double; a thread per matrix, the same steps as on the CPU (op/formula/linalg_eig.h).
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "cuda/cuda.h"
extern "C" {
#include "op/formula/linalg_eig.h"
}

static mx_code run_eig(const mx_kernel_call *call)
{
    const mx_array *x = call->in[0];
    mx_cuda_device *d = mx_cuda_of(call);
    if (!mx_dtype_is_float(x->dtype))
        return MX_DECLINED;
    if (!d || !x->size)
        return d ? MX_OK : mx_error_code();
    const int64_t n = x->shape[x->ndim - 1], batch = x->size / (n * n);
    mx_cuda_scratch scratch(d, (size_t)(batch * mx_eig_doubles(n)) * sizeof(double));
    if (!scratch.memory)
        return mx_error_code();
    const void *in = mx_data(x);
    void *out = mx_data(call->out[0]), *columns = call->n_out > 1 ? mx_data(call->out[1]) : nullptr;
    const int type = x->dtype;
    double *room = scratch.as<double>();
    const mx_cuda_error_flag flag(call, MX_ERR_ARGUMENT, "matrix %lld has eigenvalues that are not real numbers");
    return mx_cuda_each(call, batch, [=] __device__(int64_t b) {
        double *values, *vectors;
        mx_eig e = mx_eig_in(room + b * mx_eig_doubles(n), n, &values, &vectors);
        for (int64_t i = 0; i < n * n; i++)
            e.t[i] = (mx_complex){mx_cuda_load<double>(in, type, b * n * n + i), 0};
        if (!mx_eig_solve(&e, values, columns ? vectors : nullptr))
            flag.set(b);
        for (int64_t i = 0; i < n; i++)
            mx_cuda_store<double>(out, type, b * n + i, values[i]);
        for (int64_t i = 0; i < n * n && columns; i++)
            mx_cuda_store<double>(columns, type, b * n * n + i, vectors[i]);
    });
}

MX_CUDA_KERNELS(linalg_eig) = {{"_npi_eig", run_eig, NULL}, {"_npi_eigvals", run_eig, NULL}, {NULL, NULL, NULL}};
