/* Calls of subgraphs and of users' operators on arrays and in plans.  SPDX-License-Identifier: Apache-2.0 */
#ifndef MX_EXEC_REGION_H
#define MX_EXEC_REGION_H

#include "op/control.h"

/* mx_invoke for operators with MX_OP_CALLS: the called operators go through mx_invoke in turn. */
mx_code mx_region_call(mx_op *op, const void *attrs, int n_in, mx_array *const *in, int n_out, mx_array **out);
/* Whether a call on symbolic arrays is a loop to be unrolled into the plan being compiled, which can then optimise all
 * of it.  Long ones, and those with much in a step, are regions of the plan. */
bool mx_control_unrolls(const mx_op *op, const void *attrs, mx_array *const *in);
/* Attaches the kernel to these operators; may be called again. */
void mx_region_attach(void);
/* Whether this output of such an operator represents the recording. */
static inline bool mx_is_history(const mx_op *op, int output, int n_out)
{
    return mx_op_calls(op) && !(op->flags & MX_OP_NO_GRADIENT) && output == n_out - 1;
}
/* A header that represented a recorded region is reused for another call or no longer used. */
void mx_history_forget(mx_array *header);
void mx_history_free(mx_array *header);

#endif
