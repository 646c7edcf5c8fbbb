/* The machine's own limits, measured.
 *
 * A probe runs on all its threads at once, between two barriers, several times; the fastest round counts.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "machine.h"

#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

double machine_seconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

const char *machine_level(void)
{
    const char *cap = getenv("GLUON_CPU_LEVEL");
    if (!cap)
        cap = "";
#if defined(__x86_64__)
    const bool avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
    const bool avx512 = avx2 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                        __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
    if (avx512 && strcmp(cap, "avx2") && strcmp(cap, "generic"))
        return "avx512";
    if (avx2 && strcmp(cap, "generic"))
        return "avx2";
#endif
    return "generic";
}

/* ---- probes ------------------------------------------------------------------------------------------------ */

typedef struct probe {
    double (*round)(struct probe *p); /* returns operations or bytes */
    char *from, *to;                  /* memory of the copy probe */
    volatile float sink;              /* keeps results alive */
} probe;

enum { FMA_STEPS = 200000, FMA_CHAINS = 12, COPY_BYTES = 64 << 20 };

/* Independent chains of multiply-add, enough to hide their latency; the loop holds no memory access. */
#define FMA_PROBE(name, bytes, attribute) \
    attribute static double name(probe *p) \
    { \
        typedef float vector __attribute__((vector_size(bytes))); \
        vector acc[FMA_CHAINS], x = {0}, y = {0}; \
        x += 0.999f, y += 1e-3f; \
        __asm__("" : "+m"(x), "+m"(y)); \
        const vector scale = x, shift = y; \
        _Pragma("GCC unroll 12") for (int i = 0; i < FMA_CHAINS; i++) \
            acc[i] = shift * (float)i; \
        for (int step = 0; step < FMA_STEPS; step++) \
            _Pragma("GCC unroll 12") for (int i = 0; i < FMA_CHAINS; i++) \
                acc[i] = acc[i] * scale + shift; \
        float sum = 0; \
        for (int i = 0; i < FMA_CHAINS; i++) \
            sum += acc[i][0] + acc[i][(int)(bytes / sizeof(float)) - 1]; \
        p->sink = sum; \
        return 2.0 * FMA_STEPS * FMA_CHAINS * (bytes / (double)sizeof(float)); \
    }

#if defined(__x86_64__)
FMA_PROBE(fma_avx512, 64, __attribute__((target("avx512f,fma"))))
FMA_PROBE(fma_avx2, 32, __attribute__((target("avx2,fma"))))
#endif
FMA_PROBE(fma_generic, 16, )

static double copy_round(probe *p)
{
    memcpy(p->to, p->from, COPY_BYTES);
    return 2.0 * COPY_BYTES;
}

/* ---- running a probe on several threads -------------------------------------------------------------------- */

enum { ROUNDS = 12, MOST_THREADS = 1024 };

typedef struct team {
    pthread_barrier_t barrier;
    double best; /* work per second of all threads, as the first of them sees it */
    int threads;
} team;

typedef struct member {
    team *team;
    probe probe;
    int index;
} member;

static void *member_run(void *arg)
{
    member *me = arg;
    team *t = me->team;
    for (int round = 0; round < ROUNDS; round++) {
        pthread_barrier_wait(&t->barrier);
        const double begin = machine_seconds();
        const double work = me->probe.round(&me->probe);
        pthread_barrier_wait(&t->barrier);
        const double rate = work * t->threads / (machine_seconds() - begin);
        if (me->index == 0 && rate > t->best)
            t->best = rate;
    }
    return NULL;
}

static double team_run(probe model, int threads, size_t bytes)
{
    threads = threads < 1 ? 1 : threads > MOST_THREADS ? MOST_THREADS : threads;
    team t = {.threads = threads};
    member *members = calloc((size_t)threads, sizeof *members);
    pthread_t *handles = calloc((size_t)threads, sizeof *handles);
    char *memory = bytes ? malloc(bytes * (size_t)threads) : NULL;
    if (!members || !handles || (bytes && !memory)) {
        free(members), free(handles), free(memory);
        return 0;
    }
    if (memory)
        memset(memory, 1, bytes * (size_t)threads);
    pthread_barrier_init(&t.barrier, NULL, (unsigned)threads);
    for (int i = 0; i < threads; i++) {
        members[i] = (member){.team = &t, .probe = model, .index = i};
        members[i].probe.from = memory + (memory ? bytes * (size_t)i : 0);
        members[i].probe.to = members[i].probe.from + bytes / 2;
        if (i > 0 && pthread_create(&handles[i], NULL, member_run, &members[i]))
            return 0; /* the started threads wait forever: nothing may be freed */
    }
    member_run(&members[0]);
    for (int i = 1; i < threads; i++)
        pthread_join(handles[i], NULL);
    pthread_barrier_destroy(&t.barrier);
    free(members), free(handles), free(memory);
    return t.best;
}

double machine_fma_gflops(int threads)
{
    probe p = {.round = fma_generic};
#if defined(__x86_64__)
    if (!strcmp(machine_level(), "avx512"))
        p.round = fma_avx512;
    else if (!strcmp(machine_level(), "avx2"))
        p.round = fma_avx2;
#endif
    return team_run(p, threads, 0) * 1e-9;
}

double machine_copy_gbs(int threads)
{
    return team_run((probe){.round = copy_round}, threads, 2 * (size_t)COPY_BYTES) * 1e-9;
}

/* ---- timing ------------------------------------------------------------------------------------------------ */

static double time_calls(void (*body)(void *arg), void *arg, int64_t calls)
{
    const double begin = machine_seconds();
    for (int64_t i = 0; i < calls; i++)
        body(arg);
    return machine_seconds() - begin;
}

double machine_time(void (*body)(void *arg), void *arg, double seconds)
{
    int64_t calls = 1;
    double best = time_calls(body, arg, 1);
    while (calls < (int64_t)1 << 30) {
        const double once = time_calls(body, arg, calls) / (double)calls;
        best = once < best ? once : best;
        if (once * (double)calls > 5e-4)
            break;
        calls *= 2;
    }
    const double end = machine_seconds() + seconds;
    do {
        const double once = time_calls(body, arg, calls) / (double)calls;
        best = once < best ? once : best;
    } while (machine_seconds() < end);
    return best;
}
