/* Random words for kernels: Philox 4x32-10 as in base/rng.h, many counters at once.
 *
 * Words come in groups of 64 from 16 consecutive counters: word w of counter lane l of group j is number
 *     64 j + 16 w + l
 * so that the 16 lanes are computed side by side and stored without shuffling.  A group is a function of the seed and
 * of its first counter only: results depend neither on threads nor on the instruction level.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef MX_CPU_PHILOX_H
#define MX_CPU_PHILOX_H

#include <stdint.h>
#include <string.h>

#if defined(__SSE2__)
#include <immintrin.h>
#elif defined(MX_NEON)
#include <arm_neon.h>
#endif

#include "base/rng.h"
#include "cpu/kernels/level.h"

#define PHILOX_GROUP 64 /* words from 16 counters */
#define PHILOX_LANES 16

/* Counters as vectors of 64-bit lanes; only the lower halves are used, as in a 32 x 32 -> 64 product. */
typedef uint64_t philox_vector __attribute__((vector_size(MX_VECTOR_BYTES), may_alias));
typedef uint32_t philox_words __attribute__((vector_size(MX_VECTOR_BYTES / 2), aligned(4), may_alias));
#define PHILOX_WIDTH ((int)(MX_VECTOR_BYTES / 8))
#define PHILOX_VECTORS (PHILOX_LANES / PHILOX_WIDTH)

static inline philox_vector philox_product(philox_vector a, uint32_t factor)
{
#if defined(__AVX512F__)
    return (philox_vector)_mm512_mul_epu32((__m512i)a, _mm512_set1_epi64((long long)factor));
#elif defined(__AVX2__)
    return (philox_vector)_mm256_mul_epu32((__m256i)a, _mm256_set1_epi64x((long long)factor));
#elif defined(__SSE2__)
    return (philox_vector)_mm_mul_epu32((__m128i)a, _mm_set1_epi64x((long long)factor));
#elif defined(MX_NEON)
    return (philox_vector)vmull_n_u32(vmovn_u64((uint64x2_t)a), factor);
#else
    return (a & 0xffffffffu) * (uint64_t)factor;
#endif
}

/* The keys of the ten rounds, ready for all lanes. */
typedef struct philox_keys { philox_vector k0[10], k1[10]; } philox_keys;

static inline philox_keys philox_schedule(uint64_t seed)
{
    philox_keys keys;
    uint32_t k0 = (uint32_t)seed, k1 = (uint32_t)(seed >> 32);
    for (int round = 0; round < 10; round++) {
        keys.k0[round] = (philox_vector){0} + (uint64_t)k0, keys.k1[round] = (philox_vector){0} + (uint64_t)k1;
        k0 += 0x9E3779B9u, k1 += 0xBB67AE85u;
    }
    return keys;
}

/* Two vectors of lanes at a time, because they and their products fit into the registers. */
typedef struct philox_two { philox_vector c0[2], c1[2], c2[2], c3[2]; } philox_two;

static inline philox_two philox_rounds(const philox_keys *keys, uint64_t counter, int first)
{
    static const _Alignas(64) uint64_t lanes[PHILOX_LANES] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};
    philox_two s = {.c2 = {{0}}, .c3 = {{0}}};
    for (int v = 0; v < 2; v++) {
        s.c0[v] = *(const philox_vector *)(lanes + (first + v) * PHILOX_WIDTH) + counter;
        s.c1[v] = s.c0[v] >> 32;
    }
#pragma GCC unroll 10
    for (int round = 0; round < 10; round++)
        for (int v = 0; v < 2; v++) {
            const philox_vector p0 = philox_product(s.c0[v], 0xD2511F53u), p1 = philox_product(s.c2[v], 0xCD9E8D57u);
            s.c0[v] = (p1 >> 32) ^ (s.c1[v] ^ keys->k0[round]);
            s.c2[v] = (p0 >> 32) ^ (s.c3[v] ^ keys->k1[round]);
            s.c1[v] = p1, s.c3[v] = p0;
        }
    return s;
}

static inline void philox_group(const philox_keys *keys, uint64_t counter, uint32_t out[PHILOX_GROUP])
{
    for (int first = 0; first < PHILOX_VECTORS; first += 2) {
        const philox_two s = philox_rounds(keys, counter, first);
        for (int v = 0; v < 2; v++) {
            uint32_t *to = out + (first + v) * PHILOX_WIDTH;
            *(philox_words *)to = __builtin_convertvector(s.c0[v], philox_words);
            *(philox_words *)(to + 16) = __builtin_convertvector(s.c1[v], philox_words);
            *(philox_words *)(to + 32) = __builtin_convertvector(s.c2[v], philox_words);
            *(philox_words *)(to + 48) = __builtin_convertvector(s.c3[v], philox_words);
        }
    }
}

/* The same group as 32 pairs of words in full vectors, which is faster if the order of the words does not matter:
 * words 0 and 1 of lane l are pair l, words 2 and 3 pair 16 + l. */
static inline void philox_pairs(const philox_keys *keys, uint64_t counter, uint64_t out[PHILOX_GROUP / 2])
{
    for (int first = 0; first < PHILOX_VECTORS; first += 2) {
        const philox_two s = philox_rounds(keys, counter, first);
        for (int v = 0; v < 2; v++) {
            const philox_vector low = (s.c0[v] & 0xffffffffu) | s.c1[v] << 32;
            const philox_vector high = (s.c2[v] & 0xffffffffu) | s.c3[v] << 32;
            memcpy(out + (first + v) * PHILOX_WIDTH, &low, sizeof low);
            memcpy(out + 16 + (first + v) * PHILOX_WIDTH, &high, sizeof high);
        }
    }
}

/* Counters that n words of such groups take. */
static inline uint64_t philox_counters(int64_t words)
{
    return (uint64_t)((words + PHILOX_GROUP - 1) / PHILOX_GROUP) * PHILOX_LANES;
}

#endif
