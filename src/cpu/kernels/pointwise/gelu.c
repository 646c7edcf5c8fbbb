/* _gelu_gradients.  Plans use it on devices where one pass computes all; here it is three.  SPDX-License-Identifier: Apache-2.0 */
#include "cpu/kernels/pointwise/pointwise_loops.h"
#include "cpu/kernels/widen.h"
#include "gluon/op.gen.h"

static mx_code run_gelu_gradients(const mx_kernel_call *call)
{
    const mx_array *ograd = call->in[0], *data = call->in[1];
    mx_op *sum = MX_OP("_sum_to");
    const mx_sum_to_attrs attrs = {.shape = {.n = 1, .d = {call->out[2]->size}}};
    const mx_kernel_call rest = {
        .op = sum, .attrs = &attrs, .n_in = 1, .n_out = 1, .in = call->out, .out = call->out + 2};
    if (!mx_inputs_are(call, mx_compute_type(call), 0))
        return MX_DECLINED;
    mx_code code = mx_number_over(MX_NUMBER_gelu_gradient, (double[3]){0}, data, ograd, call->out[0]);
    code = code ? code : mx_number_over(MX_NUMBER_gelu, (double[3]){0}, data, NULL, call->out[1]);
    return code ? code : mx_kernel_run(sum->kernels[MX_CPU][0], &rest);
}

MX_CPU_KERNELS(gelu) = {{"_gelu_gradients", run_gelu_gradients, NULL, MX_KERNEL_WIDEN}, {NULL, NULL, NULL}};
