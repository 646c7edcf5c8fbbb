/* The cache of the allocator: blocks are reused, and those that nobody asks for again do not fill the machine.  Small things
 * beside the cache are counted, too.
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

static void test_packed(void **state)
{
    (void)state;
    const mx_alloc_stats before = mx_alloc_get_stats();
    void *none = mx_alloc_packed(0);
    char *name = mx_strdup_packed("a name");
    assert_non_null(none);
    assert_string_equal(name, "a name");
    mx_alloc_stats now = mx_alloc_get_stats();
    assert_int_equal(now.live_bytes - before.live_bytes, 7);
    assert_int_equal(now.live_blocks - before.live_blocks, 2);
    assert_int_equal(now.calls - before.calls, 2);
    mx_strfree_packed(name);
    mx_strfree_packed(NULL);
    mx_free_packed(none, 0);
    now = mx_alloc_get_stats();
    assert_int_equal(now.live_bytes, before.live_bytes);
    assert_int_equal(now.live_blocks, before.live_blocks);
    mx_alloc_fail_at(1);
    assert_null(mx_alloc_packed(8));
    assert_int_equal(mx_error_code(), MX_ERR_MEMORY);
    mx_error_clear();
    assert_null(mx_alloc_packed(SIZE_MAX / 2)); /* above the memory of the machine */
    assert_int_equal(mx_error_code(), MX_ERR_MEMORY);
    mx_error_clear();
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_reuse), cmocka_unit_test(test_cache_is_bounded),
                                       cmocka_unit_test(test_packed)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
