/* The elementary functions once more, as they are compiled where the processor has fused multiply-adds.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__)
#pragma GCC target("avx2,fma")
#endif
#define main vmath_main
int vmath_main(void);
#include "test_vmath.c"
#undef main

int main(void)
{
#if defined(__x86_64__)
    if (!__builtin_cpu_supports("fma"))
        return 0;
#endif
    return vmath_main();
}
