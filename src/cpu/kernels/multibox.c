/* MultiBox on the CPU.  SPDX-License-Identifier: Apache-2.0 */
#include "cpu/kernels/plain.h"

static mx_code run_rule(const mx_kernel_call *call)
{
    return mx_dtype_is_float(call->in[0]->dtype) ? mx_run_plain(call) : MX_DECLINED;
}

MX_CPU_KERNELS(multibox) = {{"_contrib_MultiBoxPrior", run_rule, NULL},
                            {"_contrib_MultiBoxTarget", run_rule, NULL},
                            {"_contrib_MultiBoxDetection", run_rule, NULL},
                            {NULL, NULL, NULL}};
