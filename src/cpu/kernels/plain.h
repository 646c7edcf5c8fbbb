/* Operators whose plain rule is their kernel.
 *
 * Rules over boxes and the like are short, full of branches and run on few numbers.  They are written once, as the
 * operator's reference; this kernel feeds it doubles of any element type and stores what comes out.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef MX_CPU_PLAIN_H
#define MX_CPU_PLAIN_H

#include "cpu/kernel.h"
#include "cpu/kernels/level.h"

#define mx_run_plain MX_LEVEL_NAME(mx_run_plain)
mx_code mx_run_plain(const mx_kernel_call *call);

#endif
