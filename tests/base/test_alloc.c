/* The cache of the allocator: blocks are reused, and those that nobody asks for again do not fill the machine.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/sysinfo.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "base/error.h"

/* Memory of the machine, or of the container. */
static size_t machine_bytes(void)
{
    struct sysinfo info;
    unsigned long long group;
    assert_int_equal(sysinfo(&info), 0);
    size_t bytes = (info.totalram + info.totalswap) * info.mem_unit;
    FILE *file = fopen("/sys/fs/cgroup/memory.max", "r");
    if (file && fscanf(file, "%llu", &group) == 1 && group < bytes)
        bytes = (size_t)group;
    if (file)
        fclose(file);
    return bytes;
}

static void test_reuse(void **state)
{
    (void)state;
    const size_t bytes = (size_t)5 << 20;
    void *first = mx_alloc(bytes);
    mx_free(first, bytes);
    if (mx_alloc_get_stats().cached_bytes == 0)
        skip(); /* a sanitizer build caches nothing */
    void *second = mx_alloc(bytes);
    assert_ptr_equal(first, second);
    mx_free(second, bytes);
}

/* Blocks of many sizes, one after the other: nothing of them is touched, so they cost no real memory. */
static void test_cache_is_bounded(void **state)
{
    (void)state;
    const size_t machine = machine_bytes();
    for (int i = 0; i < 24; i++) {
        const size_t bytes = machine / 64 + (size_t)i * (machine / 64);
        void *memory = mx_alloc(bytes);
        if (!memory) { /* the system does not overcommit */
            mx_error_clear();
            break;
        }
        mx_free(memory, bytes);
        const int64_t cached = mx_alloc_get_stats().cached_bytes, room = (int64_t)(bytes + bytes / 4 + (1 << 21));
        assert_true(cached <= (int64_t)(machine / 2) + room);
    }
    mx_alloc_release_cache();
    assert_int_equal(mx_alloc_get_stats().cached_bytes, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_reuse), cmocka_unit_test(test_cache_is_bounded)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
