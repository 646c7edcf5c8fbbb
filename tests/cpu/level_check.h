/* What tests of kernels share: the instruction levels that this machine has, and numbers that look random.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef MX_TESTS_LEVEL_CHECK_H
#define MX_TESTS_LEVEL_CHECK_H

#include <stdint.h>

/* Levels are listed lowest first; those that this machine lacks are at the end. */
static inline int levels_here(int listed)
{
#if defined(MX_LEVEL_AVX512)
    listed -= !__builtin_cpu_supports("avx512f") || !__builtin_cpu_supports("avx512bw") ||
              !__builtin_cpu_supports("avx512dq") || !__builtin_cpu_supports("avx512vl");
#endif
#if defined(MX_LEVEL_AVX2)
    listed -= !__builtin_cpu_supports("avx2") || !__builtin_cpu_supports("fma");
#endif
    return listed;
}

/* In [low, high]; the same numbers in every run. */
static inline int64_t pick(int64_t low, int64_t high)
{
    static uint64_t state = 88172645463325252u;
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return low + (int64_t)(state % (uint64_t)(high - low + 1));
}

#endif
