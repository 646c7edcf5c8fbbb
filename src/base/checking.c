/* The switch of checking mode: one number, which every call of an operator reads.  SPDX-License-Identifier: Apache-2.0 */
#include "base/checking.h"

#include "base/flags.h"

_Atomic int mx_checking_state = -1;

bool mx_checking_by_flag(void)
{
    int unread = -1;
    atomic_compare_exchange_strong(&mx_checking_state, &unread, mx_flags_get()->check != 0);
    return atomic_load(&mx_checking_state) > 0;
}

void mx_set_check(bool on) { atomic_store(&mx_checking_state, on); }
bool mx_get_check(void) { return mx_checking(); }
