/* Kernels of the CPU: tables per file and level, chosen when the device starts.
 *
 * A file x.c in cpu/kernels ends with
 *     MX_CPU_KERNELS(x) = {{"softmax", run_softmax, NULL, MX_KERNEL_WIDEN}, {NULL}};
 * and thereby attaches its kernels; with MX_CPU_KERNELS_ARM it is also compiled for the levels of ARM above NEON.  Files
 * attach in the order of their names, and within a file in the order of the entries: the first kernel that does not
 * decline wins.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef MX_CPU_KERNEL_H
#define MX_CPU_KERNEL_H

#include "op/op.h"

typedef mx_kernel mx_cpu_kernel;

/* An entry only lists what differs from zero. */
#define MX_CPU_KERNELS(file)                                             \
    _Pragma("GCC diagnostic ignored \"-Wmissing-field-initializers\"") \
    const mx_cpu_kernel MX_LEVEL_TABLE(mx_cpu_kernels_##file)[]
#define MX_CPU_KERNELS_ARM(file) MX_CPU_KERNELS(file)

/* Generated from the file names for the levels of this build (MX_LEVEL_AVX2, ...); NULL-ended. */
extern const mx_cpu_kernel *const mx_cpu_families_generic[];
extern const mx_cpu_kernel *const mx_cpu_families_neon[];
extern const mx_cpu_kernel *const mx_cpu_families_armv82[];
extern const mx_cpu_kernel *const mx_cpu_families_armv86[];
extern const mx_cpu_kernel *const mx_cpu_families_avx2[];
extern const mx_cpu_kernel *const mx_cpu_families_avx512[];

const char *mx_cpu_level(void); /* the level in use: "generic", "neon", "armv82", "armv86", "avx2" or "avx512" */

#endif
