/* Pointwise operators: which kernel, over which walk.  The rows are those of op/pointwise.h, as on every device.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "cuda/kernels/pointwise.h"

static const mx_cuda_row *rows_for(const mx_kernel_call *call, const mx_pointwise *use, mx_dtype *compute)
{
    const int dtype = call->in[0]->dtype;
    if (dtype == MX_FLOAT64 || (!mx_dtype_is_float(dtype) && use->form < MX_FORM_BINARY))
        return *compute = MX_FLOAT64, mx_cuda_rows_f64;
    if (mx_dtype_is_float(dtype))
        return *compute = MX_FLOAT32, mx_cuda_rows_f32;
    return *compute = MX_INT64, mx_cuda_rows_i64;
}

static bool aligned(const mx_array *x) { return (uintptr_t)mx_data(x) % 16 == 0; }

static mx_code run_pointwise(const mx_kernel_call *call)
{
    const mx_pointwise *use = (const mx_pointwise *)call->op->user;
    mx_array *out = call->out[0];
    mx_dtype compute;
    const mx_cuda_row *row = rows_for(call, use, &compute) + use->row;
    mx_cuda_pointwise job = {};
    mx_cuda_device *d = mx_cuda_of(call);
    if (!d)
        return mx_error_code();
    bool same = true;
    job.plain = out->dtype == (int)compute && aligned(out);
    for (int k = 0; k < call->n_in; k++) {
        const mx_array *x = call->in[k];
        job.in[k + (use->form == MX_FORM_REVERSED)] = {mx_data(x), x->dtype};
        same &= x->size == out->size;
        job.plain &= x->dtype == (int)compute && aligned(x);
    }
    job.plain &= same;
    job.out = mx_data(out), job.out_type = out->dtype, job.n = out->size;
    if (use->form >= MX_FORM_SCALAR)
        job.scalar = *(const double *)call->attrs; /* the attributes begin with the number */
    if (!same)
        mx_pair_walk_set(&job.walk, call->in[0], call->in[1], out);
    const int64_t threads = job.plain ? job.n / 2 + 4 : job.n;
    (use->form == MX_FORM_BACKWARD ? row->backward : row->forward)(
        job, mx_cuda_blocks(d, (threads + MX_CUDA_BLOCK - 1) / MX_CUDA_BLOCK), d->stream);
    return mx_cuda_launched(call);
}

#define UNARY_KERNEL(name, ...) {#name, run_pointwise, NULL},
#define BACKWARD_KERNEL(name, ...) {"_backward_" #name, run_pointwise, NULL},
#define BINARY_KERNEL(id, en, ea, bn, ba, sn, ...) \
    {en, run_pointwise, NULL}, {bn, run_pointwise, NULL}, {sn, run_pointwise, NULL},
#define REVERSED_KERNEL(id, name, ...) {name, run_pointwise, NULL},

MX_CUDA_KERNELS(pointwise) = {
    MX_UNARY_ROWS(UNARY_KERNEL) MX_UNARY_ROWS(BACKWARD_KERNEL) MX_LINEAR_ROWS(UNARY_KERNEL) MX_STEP_ROWS(UNARY_KERNEL)
    MX_BINARY_ROWS(BINARY_KERNEL) MX_REVERSED_ROWS(REVERSED_KERNEL) MX_COMPARE_ROWS(BINARY_KERNEL)
    {NULL, NULL, NULL}};
