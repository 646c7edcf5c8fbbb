/* Hides AVX-512, AVX-VNNI and AMX from a program, so that libraries which choose kernels by CPUID run as on a CPU with AVX2 only.
 *
 *     cc -O2 -shared -fPIC -o hide_avx512.so hide_avx512.c && LD_PRELOAD=./hide_avx512.so program
 *
 * The kernel lets CPUID fault (ARCH_SET_CPUID, inherited by threads and forked processes); the handler of the fault
 * executes the instruction itself and clears the bits.  CPUs without CPUID faulting ("cpuid_fault" in /proc/cpuinfo) need
 * libraries in which CPUID is an invalid instruction (trap_cpuid.py) and HIDE_TRAPPED=1, which says so: otherwise the
 * program ends at its start, with a message, instead of measuring something else.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE
#include <asm/prctl.h>
#include <cpuid.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <ucontext.h>
#include <unistd.h>

static bool faults; /* this CPU can make CPUID fault */

static long answer_cpuid(unsigned long allowed) { return syscall(SYS_arch_prctl, ARCH_SET_CPUID, allowed); }

static void execute(unsigned leaf, unsigned subleaf, unsigned *a, unsigned *b, unsigned *c, unsigned *d)
{
    if (faults)
        answer_cpuid(1);
    __cpuid_count(leaf, subleaf, *a, *b, *c, *d);
    if (faults)
        answer_cpuid(0);
}

/* Extended features: leaf 7, subleaf 0 (ebx, ecx, edx) and subleaf 1 (eax). */
static void hide(unsigned leaf, unsigned subleaf, unsigned *a, unsigned *b, unsigned *c, unsigned *d)
{
    if (leaf != 7)
        return;
    if (subleaf == 0) {
        *b &= ~(1u << 16 | 1u << 17 | 1u << 21 | 1u << 26 | 1u << 27 | 1u << 28 | 1u << 30 | 1u << 31); /* AVX-512 */
        *c &= ~(1u << 1 | 1u << 6 | 1u << 8 | 1u << 9 | 1u << 10 | 1u << 11 | 1u << 12 |
                1u << 14);                                                                /* its byte, GFNI, VAES */
        *d &= ~(1u << 2 | 1u << 3 | 1u << 8 | 1u << 22 | 1u << 23 | 1u << 24 | 1u << 25); /* float16, AMX */
    } else if (subleaf == 1) {
        *a &= ~(1u << 4 | 1u << 5 | 1u << 23); /* AVX-VNNI, AVX512-BF16, AVX-IFMA */
        *d &= ~(1u << 4 | 1u << 5 | 1u << 10); /* AVX-VNNI-INT8, AVX-NE-CONVERT, AVX-VNNI-INT16 */
    }
}

static void on_fault(int number, siginfo_t *info, void *context)
{
    (void)info;
    greg_t *r = ((ucontext_t *)context)->uc_mcontext.gregs;
    const unsigned char *at = (const unsigned char *)r[REG_RIP];
    if (at[0] != 0x0f || at[1] != (faults ? 0xa2 : 0x0b)) { /* any other fault ends the program as usual */
        signal(number, SIG_DFL);
        return;
    }
    const unsigned leaf = (unsigned)r[REG_RAX], subleaf = (unsigned)r[REG_RCX];
    unsigned a, b, c, d;
    execute(leaf, subleaf, &a, &b, &c, &d);
    hide(leaf, subleaf, &a, &b, &c, &d);
    r[REG_RAX] = a, r[REG_RBX] = b, r[REG_RCX] = c, r[REG_RDX] = d;
    r[REG_RIP] += 2;
}

__attribute__((constructor)) static void begin(void)
{
    const struct sigaction action = {.sa_sigaction = on_fault, .sa_flags = SA_SIGINFO | SA_NODEFER};
    faults = !answer_cpuid(0);
    if (sigaction(faults ? SIGSEGV : SIGILL, &action, NULL) || (!faults && !getenv("HIDE_TRAPPED"))) {
        fprintf(stderr, "hide_avx512: this CPU or kernel cannot make CPUID fault\n");
        _exit(1);
    }
}
