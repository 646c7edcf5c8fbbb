/* Strided copies on the CPU, for kernels that move elements.  SPDX-License-Identifier: Apache-2.0 */
#ifndef MX_CPU_MOVEMENT_H
#define MX_CPU_MOVEMENT_H

#include "cpu/kernels/level.h"
#include "op/formula/movement.h"

/* Runs one move from `from` to `to` (addresses of element 0 of the arrays), on several threads if it pays.
 * The elements that are read and those that are written must not overlap. */
#define mx_cpu_move MX_LEVEL_NAME(mx_cpu_move)
void mx_cpu_move(const mx_move *move, void *to, const void *from, size_t item);

#endif
