/* Random numbers: Philox 4x32-10, a function of (seed, counter) and nothing else.
 *
 * A sampler that needs n numbers reserves n counters with mx_rng_reserve() and computes number i from counter
 * base + i: the result does not depend on threads, and a GPU computes the same numbers.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef MX_BASE_RNG_H
#define MX_BASE_RNG_H

#include "base/any_device.h"
#include "gluon/base.h"

typedef struct mx_rng {
    uint64_t seed;    /* the key */
    uint64_t counter; /* the first counter reserved for this use */
} mx_rng;

/* Reserves `blocks` counters of the process-wide generator (each gives four 32-bit words). Thread-safe. */
mx_rng mx_rng_reserve(uint64_t blocks);
/* The current position, to be restored in order to rerun a random operator with the same numbers. */
mx_rng mx_rng_state(void);
void mx_rng_restore(mx_rng state);
/* Makes the thread reserve from *own (NULL: from the process-wide generator) and returns what it used before: to repeat
 * a part of a computation while other threads continue. */
mx_rng *mx_rng_follow(mx_rng *own);

MX_ANY_DEVICE static inline void mx_philox(uint64_t seed, uint64_t counter, uint32_t out[4])
{
    uint32_t c0 = (uint32_t)counter, c1 = (uint32_t)(counter >> 32), c2 = 0, c3 = 0;
    uint32_t k0 = (uint32_t)seed, k1 = (uint32_t)(seed >> 32);
    for (int round = 0; round < 10; round++) {
        uint64_t p0 = (uint64_t)0xD2511F53u * c0, p1 = (uint64_t)0xCD9E8D57u * c2;
        uint32_t n0 = (uint32_t)(p1 >> 32) ^ c1 ^ k0, n2 = (uint32_t)(p0 >> 32) ^ c3 ^ k1;
        c1 = (uint32_t)p1, c3 = (uint32_t)p0, c0 = n0, c2 = n2;
        k0 += 0x9E3779B9u, k1 += 0xBB67AE85u;
    }
    out[0] = c0, out[1] = c1, out[2] = c2, out[3] = c3;
}

/* [0, 1) with 24 bits; (0, 1] for logarithms. */
MX_ANY_DEVICE static inline float mx_uniform24(uint32_t word) { return (float)(word >> 8) * 0x1p-24f; }
MX_ANY_DEVICE static inline double mx_uniform53(uint32_t high, uint32_t low)
{
    return (double)(((uint64_t)high << 21) ^ (low >> 11)) * 0x1p-53;
}

#endif
