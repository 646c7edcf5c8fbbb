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
#endif

#include "base/rng.h"
#include "cpu/kernels/level.h"

#define PHILOX_GROUP 64 /* words from 16 counters */
#define PHILOX_LANES 16

/* Counters as vectors of 64-bit lanes, of which only the lower halves count: what a 32 x 32 -> 64 product reads. */
typedef uint64_t philox_vector __attribute__((vector_size(MX_VECTOR_BYTES)));
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
#else
    return (a & 0xffffffffu) * (uint64_t)factor;
#endif
}

/* Two vectors of lanes at a time, because they and their products fit into the registers. */
typedef struct philox_two { philox_vector c0[2], c1[2], c2[2], c3[2]; } philox_two;

static inline philox_two philox_rounds(uint64_t seed, uint64_t counter, int first)
{
    static const uint64_t lanes[PHILOX_LANES] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};
    philox_two s = {.c2 = {{0}}, .c3 = {{0}}};
    for (int v = 0; v < 2; v++) {
        memcpy(&s.c0[v], lanes + (first + v) * PHILOX_WIDTH, sizeof s.c0[v]);
        s.c0[v] += counter;
        s.c1[v] = s.c0[v] >> 32;
    }
    uint32_t k0 = (uint32_t)seed, k1 = (uint32_t)(seed >> 32);
    for (int round = 0; round < 10; round++) {
        for (int v = 0; v < 2; v++) {
            const philox_vector p0 = philox_product(s.c0[v], 0xD2511F53u), p1 = philox_product(s.c2[v], 0xCD9E8D57u);
            s.c0[v] = (p1 >> 32) ^ s.c1[v] ^ (uint64_t)k0;
            s.c2[v] = (p0 >> 32) ^ s.c3[v] ^ (uint64_t)k1;
            s.c1[v] = p1, s.c3[v] = p0;
        }
        k0 += 0x9E3779B9u, k1 += 0xBB67AE85u;
    }
    return s;
}

static inline void philox_group(uint64_t seed, uint64_t counter, uint32_t out[PHILOX_GROUP])
{
    for (int first = 0; first < PHILOX_VECTORS; first += 2) {
        const philox_two s = philox_rounds(seed, counter, first);
        for (int v = 0; v < 2; v++) {
            uint32_t *to = out + (first + v) * PHILOX_WIDTH;
            *(philox_words *)to = __builtin_convertvector(s.c0[v], philox_words);
            *(philox_words *)(to + 16) = __builtin_convertvector(s.c1[v], philox_words);
            *(philox_words *)(to + 32) = __builtin_convertvector(s.c2[v], philox_words);
            *(philox_words *)(to + 48) = __builtin_convertvector(s.c3[v], philox_words);
        }
    }
}

/* The same group as 32 pairs of words in whole vectors, which is faster where the order of the words does not matter:
 * words 0 and 1 of lane l are pair l, words 2 and 3 pair 16 + l. */
static inline void philox_pairs(uint64_t seed, uint64_t counter, uint64_t out[PHILOX_GROUP / 2])
{
    for (int first = 0; first < PHILOX_VECTORS; first += 2) {
        const philox_two s = philox_rounds(seed, counter, first);
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

/* An endless stream of words that belongs to one counter: for samplers that reject.  The upper half of Philox's
 * 128-bit counter numbers the blocks of the stream, so streams of different counters never meet. */
typedef struct philox_stream {
    uint64_t seed, counter;
    uint32_t block; /* the next one */
    int left;       /* words that are still unused */
    uint32_t words[4];
} philox_stream;

static inline uint32_t philox_next(philox_stream *s)
{
    if (!s->left) {
        uint32_t c0 = (uint32_t)s->counter, c1 = (uint32_t)(s->counter >> 32), c2 = s->block++, c3 = 0x5bd1e995u;
        uint32_t k0 = (uint32_t)s->seed, k1 = (uint32_t)(s->seed >> 32);
        for (int round = 0; round < 10; round++) {
            const uint64_t p0 = (uint64_t)0xD2511F53u * c0, p1 = (uint64_t)0xCD9E8D57u * c2;
            const uint32_t n0 = (uint32_t)(p1 >> 32) ^ c1 ^ k0, n2 = (uint32_t)(p0 >> 32) ^ c3 ^ k1;
            c1 = (uint32_t)p1, c3 = (uint32_t)p0, c0 = n0, c2 = n2;
            k0 += 0x9E3779B9u, k1 += 0xBB67AE85u;
        }
        s->words[0] = c0, s->words[1] = c1, s->words[2] = c2, s->words[3] = c3;
        s->left = 4;
    }
    return s->words[--s->left];
}

/* [0, 1) with 53 bits. */
static inline double philox_uniform(philox_stream *s)
{
    const uint32_t high = philox_next(s);
    return mx_uniform53(high, philox_next(s));
}

#endif
