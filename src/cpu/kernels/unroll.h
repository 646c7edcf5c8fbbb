/* Unrolled loops.  SPDX-License-Identifier: Apache-2.0 */
#ifndef MX_CPU_UNROLL_H
#define MX_CPU_UNROLL_H

/* Before a loop of constant length over arrays that should stay in registers. */
#if defined(__clang__)
#define UNROLL _Pragma("clang loop unroll(full)")
#else
#define UNROLL _Pragma("GCC unroll 16")
#endif

#endif
