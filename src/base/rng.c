/* The process-wide random number generator: one seed and one counter.
 *
 * Seed and counter change together, under a lock: no caller gets the old seed with the new counter.  A reservation
 * serves a whole array of numbers, so the lock (about 20 ns) does not matter.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "base/thread.h"
#include "base/rng.h"

#include <pthread.h>

#include "base/flags.h"

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static mx_rng state; /* the next free counter; guarded by the lock */
static bool seeded;  /* false: the seed of the flags table has not been applied yet; guarded by the lock */

static void lock_state(void)
{
    pthread_mutex_lock(&lock);
    if (!seeded) {
        state = (mx_rng){.seed = (uint64_t)mx_flags_get()->seed};
        seeded = true;
    }
}

static void unlock_state(void) { pthread_mutex_unlock(&lock); }

/* A child of fork must not inherit a lock that another thread holds. */
__attribute__((constructor)) static void watch_forks(void) { pthread_atfork(lock_state, unlock_state, unlock_state); }

mx_rng *mx_rng_follow(mx_rng *own)
{
    mx_rng *previous = mx_thread.rng;
    mx_thread.rng = own;
    return previous;
}

mx_rng mx_rng_reserve(uint64_t blocks)
{
    if (mx_thread.rng) {
        mx_thread.rng->counter += blocks;
        return (mx_rng){mx_thread.rng->seed, mx_thread.rng->counter - blocks};
    }
    lock_state();
    mx_rng reserved = state;
    state.counter += blocks;
    unlock_state();
    return reserved;
}

mx_rng mx_rng_state(void) { return mx_rng_reserve(0); }

void mx_rng_restore(mx_rng saved)
{
    lock_state();
    state = saved;
    unlock_state();
}

void mx_random_seed(uint64_t seed) { mx_rng_restore((mx_rng){.seed = seed}); }
