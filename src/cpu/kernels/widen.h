/* Running a kernel that computes in float or double on arrays of other floating types.
 *
 * A kernel that knows float32 and float64 begins with
 *     const mx_dtype compute = mx_compute_type(call);
 *     if (!mx_all_of_type(call, compute))
 *         return mx_run_widened(call, compute, run_this);
 *     if (!mx_inputs_are(call, compute, 0))
 *         return MX_DECLINED;
 * and is then called again with converted copies; results (and inputs that the operator writes) are converted back.
 * Integer arrays (labels, lengths, indices) are passed through.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef MX_CPU_WIDEN_H
#define MX_CPU_WIDEN_H

#include "cpu/kernel.h"
#include "cpu/kernels/level.h"

/* float64 if a floating input or output is, else float32. */
static inline mx_dtype mx_compute_type(const mx_kernel_call *call)
{
    for (int i = 0; i < call->n_in; i++)
        if (!mx_is_none(call->in[i]) && call->in[i]->dtype == MX_FLOAT64)
            return MX_FLOAT64;
    for (int i = 0; i < call->n_out; i++)
        if (call->out[i]->dtype == MX_FLOAT64)
            return MX_FLOAT64;
    return MX_FLOAT32;
}

static inline bool mx_must_widen(const mx_array *x, mx_dtype compute)
{
    return !mx_is_none(x) && x->dtype != (int)compute && mx_dtype_is_float(x->dtype);
}

static inline bool mx_all_of_type(const mx_kernel_call *call, mx_dtype compute)
{
    for (int i = 0; i < call->n_in; i++)
        if (mx_must_widen(call->in[i], compute))
            return false;
    for (int i = 0; i < call->n_out; i++)
        if (mx_must_widen(call->out[i], compute))
            return false;
    return true;
}

/* True if all inputs are of the compute type, except absent ones and those in the mask (labels, lengths, masks). */
static inline bool mx_inputs_are(const mx_kernel_call *call, mx_dtype compute, uint32_t except)
{
    for (int i = 0; i < call->n_in; i++)
        if (!(i < 32 && (except >> i & 1)) && !mx_is_none(call->in[i]) && call->in[i]->dtype != (int)compute)
            return false;
    return true;
}

#define mx_run_widened MX_LEVEL_NAME(mx_run_widened)
mx_code mx_run_widened(const mx_kernel_call *call, mx_dtype compute, mx_kernel_fn run);

#endif
