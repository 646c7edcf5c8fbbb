/* Mixed precision inside the library (see gluon/amp.h, amp.c).  SPDX-License-Identifier: Apache-2.0 */
#ifndef MX_EXEC_AMP_H
#define MX_EXEC_AMP_H

#include "gluon/amp.h"
#include "op/op.h"
#include "base/thread.h"

extern _Atomic(bool) mx_amp_on;

static inline bool mx_amp_active(void)
{
    return __builtin_expect(atomic_load_explicit(&mx_amp_on, memory_order_relaxed), 0) && !mx_thread.precision_settled;
}

/* mx_invoke with inputs cast to the operator's precision. */
mx_code mx_amp_invoke(mx_op *op, const void *attrs, int n_in, mx_array *const *in, int n_out, mx_array **out);
/* Input i keeps its type where the operator computes in 16 bits: lengths and masks would be rounded. */
static inline bool mx_amp_keeps(const mx_op *op, int i) { return i < 32 && (op->no_grad_inputs >> i & 1); }
/* Counts changes of the settings: what was traced under other settings must be traced again. */
uint64_t mx_amp_version(void);

#endif
