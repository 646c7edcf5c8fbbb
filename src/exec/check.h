/* Checking mode around the calls of operators (gluon/base.h: mx_set_check).
 *
 *     bool finite;
 *     code = mx_check_before(&call, &finite);      are the values of the inputs sensible?
 *     ... run ...
 *     code = mx_check_after(&call, n_visible, finite);   did NaN or infinity arise?
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef MX_EXEC_CHECK_H
#define MX_EXEC_CHECK_H

#include "base/checking.h"
#include "base/thread.h"
#include "op/op.h"

static inline bool mx_checks_calls(void)
{
    return __builtin_expect(mx_checking(), 0) && !mx_thread.unchecked && !mx_thread.gathering;
}
mx_code mx_check_before(const mx_kernel_call *call, bool *finite); /* *finite: so are all inputs */
mx_code mx_check_after(const mx_kernel_call *call, int n_visible, bool finite);

/* A copy, for good, of the name of the block that is running: of tape nodes; NULL: none, or not checking. */
const char *mx_check_place(void);

#endif
