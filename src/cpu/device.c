/* The CPU as a device: host memory, immediate execution, and the choice of the instruction level.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <pthread.h>
#include <string.h>
#ifdef __aarch64__
#include <sys/auxv.h>
#endif

#include "base/alloc.h"
#include "base/flags.h"
#include "base/threads.h"
#include "cpu/kernel.h"
#include "ndarray/device.h"

#define LARGE_COPY (2 << 20) /* bytes */

/* ---- instruction levels ---------------------------------------------------------------------------------- */

typedef struct level {
    const char *name;
    int block; /* channels of a block of data: the lanes of a vector; 0: layouts are not blocked */
    const mx_cpu_kernel *const *families;
    bool (*usable)(void);
} level;

static bool always(void) { return true; }
#ifdef __x86_64__
static inline bool has_avx2(void)
{
    return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __builtin_cpu_supports("bmi2");
}
static inline bool has_avx512(void)
{
    return has_avx2() && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
           __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
}
#endif
#ifdef __aarch64__
/* Bits of the kernel's interface, which older C libraries do not name. */
enum {
    HAS_ATOMICS = 1 << 8,  /* of ARMv8.1, which compilers take for granted in what follows it */
    HAS_HALF = 1 << 10,    /* arithmetic of 16-bit floats in vectors */
    HAS_DOT = 1 << 20,     /* dot products of bytes */
    HAS_HALF_FMA = 1 << 23 /* products of 16-bit floats added to 32-bit ones */
};
enum { HAS_BYTE_MATRIX = 1 << 13, HAS_BFLOAT = 1 << 14 }; /* of the second word */
static bool has(unsigned long word, unsigned long bits) { return (getauxval(word) & bits) == bits; }
static inline bool has_armv82(void) { return has(AT_HWCAP, HAS_ATOMICS | HAS_HALF | HAS_DOT); }
static inline bool has_armv86(void)
{
    return has(AT_HWCAP, HAS_HALF_FMA) && has(AT_HWCAP2, HAS_BYTE_MATRIX | HAS_BFLOAT);
}
#endif

static const level levels[] = {
    /* lowest first */
    {"generic", 0, mx_cpu_families_generic, always},
#ifdef MX_LEVEL_NEON
    {"neon", 4, mx_cpu_families_neon, always}, /* part of every 64-bit ARM */
#endif
#ifdef MX_LEVEL_ARMV82
    {"armv82", 4, mx_cpu_families_armv82, has_armv82},
#endif
#ifdef MX_LEVEL_ARMV86
    {"armv86", 4, mx_cpu_families_armv86, has_armv86},
#endif
#ifdef MX_LEVEL_AVX2
    {"avx2", 8, mx_cpu_families_avx2, has_avx2},
#endif
#ifdef MX_LEVEL_AVX512
    {"avx512", 16, mx_cpu_families_avx512, has_avx512},
#endif
};

static const level *choose(void)
{
    const level *best = &levels[0];
    for (size_t i = 0; i < sizeof levels / sizeof *levels && levels[i].usable(); i++) {
        best = &levels[i];
        if (!strcmp(best->name, mx_flags_get()->cpu_level))
            break; /* the flag names the highest level wanted */
    }
    return best;
}

static const level *chosen;
static pthread_once_t started = PTHREAD_ONCE_INIT;

static void start(void)
{
    chosen = choose();
    for (const mx_cpu_kernel *const *family = chosen->families; *family; family++)
        for (const mx_cpu_kernel *k = *family; k->op; k++)
            mx_op_attach(MX_CPU, k);
}

static void attach_kernels(void) { pthread_once(&started, start); }

const char *mx_cpu_level(void)
{
    attach_kernels();
    return chosen->name;
}

static int channel_block(void)
{
    attach_kernels();
    return chosen->block;
}

/* ---- memory and copies ----------------------------------------------------------------------------------- */

static int count(void) { return 1; }
static mx_device *pinning(mx_context context)
{
    const char *why;
    return context.type == MX_CPU_PINNED ? mx_gpu_device(&why) : NULL;
}
/* The GPU allocates pinned memory; without a GPU, or when it has no more, pageable memory is used. */
static void *allocate(mx_context context, size_t bytes)
{
    const mx_device *gpu = pinning(context);
    void *memory = gpu && gpu->pinned_alloc ? gpu->pinned_alloc(bytes) : NULL;
    return memory ? memory : mx_alloc(bytes);
}
static void release(mx_context context, void *memory, size_t bytes)
{
    const mx_device *gpu = pinning(context);
    if (!gpu || !gpu->pinned_free || !gpu->pinned_free(memory))
        mx_free(memory, bytes);
}
/* Large copies use several threads: one alone does not reach the full memory bandwidth. */
typedef struct copy_job {
    char *to;
    const char *from;
} copy_job;
static void copy_part(void *arg, int64_t begin, int64_t end)
{
    const copy_job *job = arg;
    memcpy(job->to + begin, job->from + begin, (size_t)(end - begin));
}
static mx_code copy(mx_context context, void *to, const void *from, size_t bytes)
{
    (void)context;
    copy_job job = {to, from};
    const bool apart = job.to + bytes <= job.from || job.from + bytes <= job.to;
    if (apart && bytes >= LARGE_COPY)
        mx_parallel_all((int64_t)bytes, LARGE_COPY / 2, copy_part, &job);
    else
        memmove(to, from, bytes);
    return MX_OK;
}
static void wait_for(mx_context context) { (void)context; /* kernels have finished when they return */ }

static mx_device cpu = {
    .name = "cpu",
    .type = MX_CPU,
    .can = MX_CAN_LIMIT_NORM,
    .channel_block = channel_block,
    .count = count,
    .alloc = allocate,
    .free = release,
    .copy = copy,
    .to_host = copy,
    .from_host = copy,
    .wait = wait_for,
    .attach_kernels = attach_kernels,
};
mx_device *const mx_cpu_device = &cpu;
