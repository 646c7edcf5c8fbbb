/* Random numbers: known answers of Philox 4x32-10, the process-wide counter, uniformity.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/rng.h"

static void test_known_answers(void **state)
{
    (void)state;
    uint32_t out[4];
    mx_philox(0, 0, out);
    const uint32_t wanted[4] = {0x6627e8d5u, 0xe169c58du, 0xbc57ac4cu, 0x9b00dbd8u};
    for (int i = 0; i < 4; i++)
        assert_int_equal(out[i], wanted[i]);
}

static void test_every_bit_of_seed_and_counter_counts(void **state)
{
    (void)state;
    uint32_t base[4], other[4];
    mx_philox(0x123456789abcdef0u, 42, base);
    for (int bit = 0; bit < 128; bit++) {
        uint64_t seed = 0x123456789abcdef0u ^ (bit < 64 ? 1ull << bit : 0);
        mx_philox(seed, 42 ^ (bit < 64 ? 0 : 1ull << (bit - 64)), other);
        int changed = 0;
        for (int i = 0; i < 4; i++)
            changed += __builtin_popcount(base[i] ^ other[i]);
        assert_in_range(changed, 35, 93); /* of 128: half of them, give or take five deviations */
    }
}

static void test_seed_and_counter(void **state)
{
    (void)state;
    mx_random_seed(5);
    mx_rng a = mx_rng_reserve(10), b = mx_rng_reserve(1), c = mx_rng_state();
    assert_true(a.seed == 5 && a.counter == 0);
    assert_true(b.seed == 5 && b.counter == 10);
    assert_true(c.seed == 5 && c.counter == 11);
    mx_rng_restore(a);
    assert_true(mx_rng_reserve(3).counter == 0);
    mx_random_seed(6);
    c = mx_rng_state();
    assert_true(c.seed == 6 && c.counter == 0);
}

/* The initial seed comes from the environment: checked in a new process. */
static void test_seed_at_start(void **state)
{
    (void)state;
    const char *self = "/proc/self/exe";
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        setenv("MXNET_SEED", "77", 1);
        execl(self, self, "print-seed", (char *)NULL);
        _exit(1);
    }
    int status = -1;
    waitpid(child, &status, 0);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 77);
}

enum { THREADS = 4, ROUNDS = 2000 };

static void *reserve_many(void *arg)
{
    uint64_t *starts = arg;
    for (int i = 0; i < ROUNDS; i++)
        starts[i] = mx_rng_reserve(3).counter;
    return NULL;
}

static void test_threads_never_share_a_counter(void **state)
{
    (void)state;
    static uint64_t starts[THREADS][ROUNDS];
    static uint8_t seen[THREADS * ROUNDS];
    mx_random_seed(1);
    pthread_t threads[THREADS];
    for (int i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, reserve_many, starts[i]), 0);
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    for (int i = 0; i < THREADS; i++)
        for (int k = 0; k < ROUNDS; k++) {
            assert_int_equal(starts[i][k] % 3, 0);
            assert_int_equal(seen[starts[i][k] / 3]++, 0);
        }
    assert_int_equal(mx_rng_state().counter, 3 * THREADS * ROUNDS);
}

/* Chi-square over 64 bins, for each of the four words; mean and variance of the floats. */
static void test_uniformity(void **state)
{
    (void)state;
    enum { BINS = 64, BLOCKS = 65536 };
    for (int word = 0; word < 4; word++) {
        int64_t bins[BINS] = {0};
        double sum = 0, squares = 0;
        for (uint64_t i = 0; i < BLOCKS; i++) {
            uint32_t out[4];
            mx_philox(2024, i, out);
            double x = mx_uniform24(out[word]);
            assert_true(x >= 0 && x < 1);
            bins[(int)(x * BINS)]++;
            sum += x;
            squares += x * x;
        }
        double expected = (double)BLOCKS / BINS, chi = 0;
        for (int i = 0; i < BINS; i++)
            chi += ((double)bins[i] - expected) * ((double)bins[i] - expected) / expected;
        assert_true(chi > 63 - 5 * sqrt(126) && chi < 63 + 5 * sqrt(126));
        assert_true(fabs(sum / BLOCKS - 0.5) < 5 * sqrt(1.0 / 12 / BLOCKS));
        assert_true(fabs(squares / BLOCKS - 1.0 / 3) < 5 * sqrt(4.0 / 45 / BLOCKS));
    }
}

static void test_limits_of_the_floats(void **state)
{
    (void)state;
    assert_true(mx_uniform24(0) == 0 && mx_uniform24(UINT32_MAX) < 1);
    assert_true(mx_uniform53(0, 0) == 0 && mx_uniform53(UINT32_MAX, UINT32_MAX) < 1);
    assert_true(mx_uniform53(UINT32_MAX, UINT32_MAX) == 1 - 0x1p-53);
    assert_true(mx_uniform53(0x80000000u, 0) == 0.5);
}

int main(int argc, char **argv)
{
    if (argc == 2 && strcmp(argv[1], "print-seed") == 0)
        return (int)mx_rng_state().seed;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_known_answers),
        cmocka_unit_test(test_every_bit_of_seed_and_counter_counts),
        cmocka_unit_test(test_seed_and_counter),
        cmocka_unit_test(test_seed_at_start),
        cmocka_unit_test(test_threads_never_share_a_counter),
        cmocka_unit_test(test_uniformity),
        cmocka_unit_test(test_limits_of_the_floats),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
