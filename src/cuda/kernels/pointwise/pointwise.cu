/* Pointwise operators: choosing the kernel and the walk.  The table is op/formula/pointwise.h, as on every device.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "cuda/kernels/pointwise/numbers.h"

#include "cuda/device.h"
#include "cuda/kernels/pointwise/pointwise.h"

static const mx_cuda_row *rows_for(const mx_kernel_call *call, const mx_pointwise *use, mx_dtype *compute)
{
    const int dtype = call->in[0]->dtype;
    if (dtype == MX_FLOAT64 || (!mx_dtype_is_float(dtype) && use->form < MX_FORM_BINARY))
        return *compute = MX_FLOAT64, mx_cuda_rows_f64;
    if (mx_dtype_is_float(dtype))
        return *compute = MX_FLOAT32, mx_cuda_rows_f32;
    return *compute = MX_INT64, mx_cuda_rows_i64;
}

static mx_code run_pointwise(const mx_kernel_call *call)
{
    const mx_pointwise *use = (const mx_pointwise *)call->op->user;
    mx_array *out = call->out[0];
    mx_dtype compute;
    const mx_cuda_row *row = rows_for(call, use, &compute) + use->row;
    mx_cuda_device *d = mx_cuda_peek(out->context);
    if (!d || !out->size)
        return d ? MX_OK : mx_error_code();
    mx_cuda_pointwise job = {};
    bool same = true, alike = out->dtype == (int)compute || (compute != MX_INT64 && mx_dtype_is_float(out->dtype));
    job.aligned = mx_cuda_aligned(mx_data(out), out->dtype);
    for (int k = 0; k < call->n_in; k++) {
        const mx_array *x = call->in[k];
        const int place = k + (use->form == MX_FORM_REVERSED);
        job.in[place] = mx_data(x), job.in_type[place] = x->dtype;
        same &= x->size == out->size;
        alike &= x->dtype == (int)compute || (compute != MX_INT64 && mx_dtype_is_float(x->dtype));
        job.aligned &= mx_cuda_aligned(mx_data(x), x->dtype);
    }
    job.aligned &= alike; /* types that are moved four at a time */
    job.out = mx_data(out), job.out_type = out->dtype, job.n = out->size;
    if (use->form >= MX_FORM_SCALAR)
        job.scalar = *(const double *)call->attrs; /* the attributes begin with the number */
    if (same && compute == MX_FLOAT32 && mx_cuda_may_wait(d, job))
        return mx_cuda_wait_in_queue(d, job, use);
    if (!(d = mx_cuda_of(call)))
        return mx_error_code();
    mx_pair_walk walk;
    if (!same)
        mx_pair_walk_set(&walk, call->in[0], call->in[1], out);
    const cudaError_t status =
        (use->form == MX_FORM_BACKWARD ? row->backward : row->forward)(job, same ? nullptr : &walk, d);
    return status == cudaSuccess ? MX_OK : mx_cuda_fail(status, call->op->name);
}

#define UNARY_KERNEL(name, ...) {#name, run_pointwise, NULL},
#define BACKWARD_KERNEL(name, ...) {"_backward_" #name, run_pointwise, NULL},
#define BINARY_KERNEL(id, en, ea, bn, ba, sn, ...) \
    {en, run_pointwise, NULL}, {bn, run_pointwise, NULL}, {sn, run_pointwise, NULL},
#define REVERSED_KERNEL(id, name, ...) {name, run_pointwise, NULL},

MX_CUDA_KERNELS(pointwise) = {
    MX_UNARY_ROWS(UNARY_KERNEL) MX_UNARY_ROWS(BACKWARD_KERNEL) MX_LINEAR_ROWS(UNARY_KERNEL) MX_STEP_ROWS(UNARY_KERNEL)
    MX_BINARY_ROWS(BINARY_KERNEL) MX_REVERSED_ROWS(REVERSED_KERNEL) MX_COMPARE_ROWS(BINARY_KERNEL)
    {"_contrib_round_ste", run_pointwise, NULL}, {"_contrib_sign_ste", run_pointwise, NULL},
    {"clip", mx_cuda_run_numbers, NULL}, {"_backward_clip", mx_cuda_run_numbers, NULL},
    {"smooth_l1", mx_cuda_run_numbers, NULL}, {"hard_sigmoid", mx_cuda_run_numbers, NULL},
    {"_contrib_quadratic", mx_cuda_run_numbers, NULL}, {"_contrib_div_sqrt_dim", mx_cuda_run_numbers, NULL},
    {"_contrib_gradientmultiplier", mx_cuda_run_numbers, NULL},
    {NULL, NULL, NULL}};
