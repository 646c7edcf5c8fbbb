/* Rules over boxes on the CPU.  SPDX-License-Identifier: Apache-2.0 */
#include "cpu/kernels/plain.h"

static mx_code run_rule(const mx_kernel_call *call)
{
    return mx_dtype_is_float(call->in[0]->dtype) ? mx_run_plain(call) : MX_DECLINED;
}

MX_CPU_KERNELS(boxes) = {{"_contrib_box_iou", run_rule, NULL},
                         {"_contrib_box_nms", run_rule, NULL},
                         {"_backward__contrib_box_nms", run_rule, NULL},
                         {"_contrib_bipartite_matching", run_rule, NULL},
                         {"_contrib_box_encode", run_rule, NULL},
                         {"_contrib_box_decode", run_rule, NULL},
                         {NULL, NULL, NULL}};
