/* What type a kernel with MX_KERNEL_WIDEN computes in.
 *
 * The floating arrays of the call are already converted to one type (op/op.h), so it begins with
 *     const mx_dtype compute = mx_compute_type(call);
 *     if (!mx_inputs_are(call, compute, 0))
 *         return MX_DECLINED;
 * to decline integer inputs, which are not converted; labels, lengths and the like are excluded by a mask.
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

/* True if all inputs are of the compute type, except absent ones and those in the mask (labels, lengths, masks). */
static inline bool mx_inputs_are(const mx_kernel_call *call, mx_dtype compute, uint32_t except)
{
    for (int i = 0; i < call->n_in; i++)
        if (!(i < 32 && (except >> i & 1)) && !mx_is_none(call->in[i]) && call->in[i]->dtype != (int)compute)
            return false;
    return true;
}

#endif
