/* The thread pool: parts, nesting, several callers, fork, changing sizes, errors.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/error.h"
#include "base/flags.h"
#include "base/threads.h"

#if defined(__SANITIZE_THREAD__)
#define THREAD_SANITIZER 1
#endif
#if defined(__SANITIZE_ADDRESS__)
#define ADDRESS_SANITIZER 1
#endif
#if defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define THREAD_SANITIZER 1
#endif
#if __has_feature(address_sanitizer)
#define ADDRESS_SANITIZER 1
#endif
#endif

enum { ITEMS = 100000 };

typedef struct marks {
    uint8_t seen[ITEMS]; /* how often each item was processed */
    _Atomic int parts;
    _Atomic int64_t least; /* size of the smallest part */
    int64_t align;         /* every part begins at a multiple */
    _Atomic bool misaligned;
} marks;

static void mark(void *arg, int64_t begin, int64_t end)
{
    marks *m = arg;
    atomic_fetch_add(&m->parts, 1);
    int64_t least = atomic_load(&m->least);
    while (end - begin < least && !atomic_compare_exchange_weak(&m->least, &least, end - begin))
        ;
    if (begin % m->align)
        atomic_store(&m->misaligned, true);
    for (int64_t i = begin; i < end; i++)
        m->seen[i]++;
}

static void check_cover(int threads, int64_t n, int64_t grain)
{
    static marks m;
    memset(&m, 0, sizeof m);
    m.least = INT64_MAX;
    m.align = grain >= 1024 ? 64 : 1;
    mx_set_num_threads(threads);
    mx_parallel(n, grain, mark, &m);
    for (int64_t i = 0; i < ITEMS; i++)
        assert_int_equal(m.seen[i], i < n);
    assert_true(m.parts <= threads);
    assert_false(m.misaligned);
    if (n > 0 && grain > 0 && m.parts > 1)
        assert_true(m.least >= grain);
}

static void test_parts_cover_everything_once(void **state)
{
    (void)state;
    const int64_t sizes[] = {-5, 0, 1, 2, 3, 7, 63, 64, 65, 1000, 2048, 2049, 4097, 16384, 99999, ITEMS};
    const int64_t grains[] = {-1, 0, 1, 3, 64, 1000, 1024, 1025, 16384, INT64_MAX};
    for (int threads = 1; threads <= 5; threads++)
        for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++)
            for (size_t g = 0; g < sizeof grains / sizeof *grains; g++)
                check_cover(threads, sizes[s], grains[g]);
}

static void count_parts(void *arg, int64_t begin, int64_t end)
{
    (void)begin, (void)end;
    atomic_fetch_add((_Atomic int *)arg, 1);
}

static void test_number_of_parts(void **state)
{
    (void)state;
    mx_set_num_threads(4);
    const struct { int64_t n, grain; int parts; } cases[] = {
        {100, 1, 4}, {3, 1, 3}, {100, 50, 2}, {100, 51, 1}, {65536, 16384, 4}, {65535, 16384, 3}, {1, 1, 1},
        {INT64_MAX, 1, 4}, {INT64_MAX, INT64_MAX, 1}, {INT64_MAX, MX_GRAIN, 4},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        _Atomic int parts = 0;
        mx_parallel(cases[i].n, cases[i].grain, count_parts, &parts);
        assert_int_equal(parts, cases[i].parts);
    }
}

typedef struct board {
    _Atomic int seen[16];
    _Atomic int parts;
} board;

static void sign(void *arg, int part, int parts)
{
    board *b = arg;
    atomic_store(&b->parts, parts);
    atomic_fetch_add(&b->seen[part], 1);
}

static void test_parts_by_number(void **state)
{
    (void)state;
    mx_set_num_threads(3);
    for (int wanted = 0; wanted < 6; wanted++) {
        board b = {0};
        mx_parallel_parts(wanted, sign, &b);
        int parts = wanted < 3 ? wanted : 3;
        assert_int_equal(b.parts, parts);
        for (int i = 0; i < 16; i++)
            assert_int_equal(b.seen[i], i < parts);
    }
}

typedef struct nest {
    pthread_t outer[8]; /* which thread ran the outer part */
    _Atomic int64_t sum;
    _Atomic int strangers; /* inner parts that ran on another thread than their outer part */
} nest;
typedef struct nest_part { nest *all; pthread_t self; } nest_part;

static void inner(void *arg, int64_t begin, int64_t end)
{
    nest_part *p = arg;
    if (!pthread_equal(p->self, pthread_self()))
        atomic_fetch_add(&p->all->strangers, 1);
    atomic_fetch_add(&p->all->sum, end - begin);
}

static void outer(void *arg, int part, int parts)
{
    (void)part, (void)parts;
    nest_part p = {arg, pthread_self()};
    mx_parallel(1000, 1, inner, &p);
}

static void test_nested_calls_stay_on_their_thread(void **state)
{
    (void)state;
    mx_set_num_threads(4);
    nest n = {0};
    mx_parallel_parts(4, outer, &n);
    assert_int_equal(n.sum, 4000);
    assert_int_equal(n.strangers, 0);
}

static void resize_inside(void *arg, int part, int parts)
{
    (void)arg, (void)parts;
    mx_set_num_threads(2 + part % 2);
}

static void test_resizing(void **state)
{
    (void)state;
    for (int round = 0; round < 40; round++) {
        mx_set_num_threads(1 + round * 7 % 6);
        assert_int_equal(mx_num_threads(), 1 + round * 7 % 6);
        _Atomic int parts = 0;
        mx_parallel(1000, 1, count_parts, &parts);
        assert_int_equal(parts, mx_num_threads());
        mx_parallel_parts(mx_num_threads(), resize_inside, NULL);
    }
    mx_set_num_threads(0);
    assert_int_equal(mx_error_code(), MX_ERR_ARGUMENT);
    assert_non_null(strstr(mx_error_message(), "mx_set_num_threads"));
    mx_error_clear();
    mx_set_num_threads(1 << 30);
    assert_true(mx_num_threads() >= 1 && mx_num_threads() <= 4096);
    mx_set_num_threads(2);
}

static void add_range(void *arg, int64_t begin, int64_t end)
{
    int64_t sum = 0;
    for (int64_t i = begin; i < end; i++)
        sum += i;
    atomic_fetch_add((_Atomic int64_t *)arg, sum);
}

static void *many_regions(void *arg)
{
    for (int round = 0; round < 300; round++) {
        _Atomic int64_t sum = 0;
        int64_t n = 1000 + round;
        mx_parallel(n, 1, add_range, &sum);
        if (sum != n * (n - 1) / 2)
            atomic_fetch_add((_Atomic int *)arg, 1);
    }
    return NULL;
}

static void test_several_callers(void **state)
{
    (void)state;
    mx_set_num_threads(3);
    pthread_t threads[4];
    _Atomic int wrong = 0;
    for (int i = 0; i < 4; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, many_regions, &wrong), 0);
    for (int i = 0; i < 20; i++)
        mx_set_num_threads(1 + i % 4);
    for (int i = 0; i < 4; i++)
        pthread_join(threads[i], NULL);
    assert_int_equal(wrong, 0);
}

static void test_wakes_sleepers(void **state)
{
    (void)state;
    mx_set_num_threads(2);
    for (int round = 0; round < 30; round++) {
        _Atomic int64_t sum = 0;
        mx_parallel(1000, 1, add_range, &sum);
        assert_int_equal(sum, 499500);
        usleep(round % 3 * 300); /* now and then long enough for the workers to fall asleep */
    }
}

static void slow_worker(void *arg, int part, int parts)
{
    (void)parts;
    if (part)
        usleep(3000);
    atomic_fetch_add((_Atomic int *)arg, 1);
}

static void test_caller_sleeps_until_done(void **state)
{
    (void)state;
    mx_set_num_threads(3);
    for (int round = 0; round < 5; round++) {
        _Atomic int parts = 0;
        mx_parallel_parts(3, slow_worker, &parts);
        assert_int_equal(parts, 3);
    }
}

static void fail_some(void *arg, int part, int parts)
{
    (void)arg, (void)parts;
    if (part)
        mx_fail(MX_ERR_STATE, "part %d failed", part);
}

static void test_errors_reach_the_caller(void **state)
{
    (void)state;
    mx_set_num_threads(4);
    for (int round = 0; round < 3; round++) {
        mx_parallel_parts(4, fail_some, NULL);
        assert_int_equal(mx_error_code(), MX_ERR_STATE);
        assert_string_equal(mx_error_message(), "part 1 failed");
        mx_error_clear();
        _Atomic int parts = 0;
        mx_parallel(4, 1, count_parts, &parts);
        assert_int_equal(mx_error_code(), MX_OK);
    }
}

/* ---- fork ----------------------------------------------------------------------------------------------- */

static int child_works(void)
{
    alarm(30); /* a deadlock must not hang the tests */
    for (int round = 0; round < 20; round++) {
        _Atomic int64_t sum = 0;
        mx_parallel(5000, 1, add_range, &sum);
        if (sum != (int64_t)5000 * 4999 / 2)
            return 1;
    }
    return 0;
}

static void fork_and_check(void)
{
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0)
        _exit(child_works());
    int status = -1;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 0);
}

static void test_fork_of_an_idle_pool(void **state)
{
    (void)state;
    mx_set_num_threads(3);
    assert_int_equal(child_works(), 0);
    fork_and_check();
    assert_int_equal(child_works(), 0);
    alarm(0);
}

static void *regions_until_told(void *stop)
{
    while (!atomic_load((_Atomic bool *)stop)) {
        _Atomic int64_t sum = 0;
        mx_parallel(20000, 1, add_range, &sum);
    }
    return NULL;
}

static void test_fork_during_a_region(void **state)
{
    (void)state;
    mx_set_num_threads(3);
    _Atomic bool stop = false;
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, regions_until_told, &stop), 0);
    for (int round = 0; round < 20; round++)
        fork_and_check();
    atomic_store(&stop, true);
    pthread_join(thread, NULL);
    assert_int_equal(child_works(), 0);
    alarm(0);
}

static void fork_inside(void *arg, int part, int parts)
{
    (void)parts;
    if (part != 0)
        return;
    pid_t child = fork();
    *(pid_t *)arg = child;
}

/* The caller forks in the middle of its own part: both processes leave the region and continue. */
static void test_fork_inside_a_part(void **state)
{
    (void)state;
    mx_set_num_threads(3);
    pid_t child = -1;
    mx_parallel_parts(3, fork_inside, &child);
    if (child == 0)
        _exit(child_works());
    int status = -1;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    assert_int_equal(child_works(), 0);
    alarm(0);
}

/* No memory for a thread's stack: the caller runs every part, without an error. */
static int child_without_threads(void)
{
    board b = {0};
    const struct rlimit none = {0, 0};
    mx_set_num_threads(4);
    if (setrlimit(RLIMIT_AS, &none) != 0)
        return 2;
    mx_parallel_parts(4, sign, &b);
    for (int i = 0; i < 4; i++)
        if (b.seen[i] != 1)
            return 3;
    return mx_error_code() != MX_OK;
}

static void test_threads_that_cannot_start(void **state)
{
    (void)state;
#if defined(THREAD_SANITIZER) || defined(ADDRESS_SANITIZER)
    skip(); /* they need the address space themselves */
#endif
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0)
        _exit(child_without_threads());
    int status = -1;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 0);
}

static void test_flags_describe_themselves(void **state)
{
    (void)state;
    int rows = 0;
    for (; mx_flag_describe(rows); rows++) {
        const mx_flag_row *row = mx_flag_describe(rows);
        assert_true(row->name[0] && row->doc[0] && row->value && row->fallback);
    }
    assert_true(rows >= 5);
    assert_null(mx_flag_describe(-1));
    assert_string_equal(mx_flag_describe(0)->name, "MXNET_CPU_WORKER_NTHREADS");
    assert_string_equal(mx_flag_describe(0)->fallback, "0");
    assert_string_equal(mx_flag_describe(1)->fallback, "");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_fork_of_an_idle_pool),
        cmocka_unit_test(test_parts_cover_everything_once),
        cmocka_unit_test(test_number_of_parts),
        cmocka_unit_test(test_parts_by_number),
        cmocka_unit_test(test_nested_calls_stay_on_their_thread),
        cmocka_unit_test(test_resizing),
        cmocka_unit_test(test_several_callers),
        cmocka_unit_test(test_wakes_sleepers),
        cmocka_unit_test(test_caller_sleeps_until_done),
        cmocka_unit_test(test_errors_reach_the_caller),
        cmocka_unit_test(test_fork_during_a_region),
        cmocka_unit_test(test_fork_inside_a_part),
        cmocka_unit_test(test_threads_that_cannot_start),
        cmocka_unit_test(test_flags_describe_themselves),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
