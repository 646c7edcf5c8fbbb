/* Whether checking mode is on (gluon/base.h: mx_set_check).  SPDX-License-Identifier: Apache-2.0 */
#ifndef MX_BASE_CHECKING_H
#define MX_BASE_CHECKING_H

#include <stdatomic.h>
#include <stdbool.h>

extern _Atomic int mx_checking_state; /* 0: off, 1: on, -1: as the flag says, which was not read yet */
bool mx_checking_by_flag(void);       /* reads the flag */

static inline bool mx_checking(void)
{
    const int state = atomic_load_explicit(&mx_checking_state, memory_order_relaxed);
    return __builtin_expect(state != 0, 0) && (state > 0 || mx_checking_by_flag());
}

#endif
