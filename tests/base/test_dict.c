/* The insertion-ordered dictionary and the vector.  SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/dict.h"
#include "base/rng.h"
#include "base/vec.h"

static int64_t live_blocks(void) { return mx_alloc_get_stats().live_blocks; }

static void test_empty(void **state)
{
    (void)state;
    mx_dict d = {0};
    assert_null(mx_dict_get(&d, "a"));
    assert_null(mx_dict_find(&d, NULL));
    assert_int_equal(mx_dict_get_number(&d, "a", -7), -7);
    assert_false(mx_dict_remove(&d, "a"));
    mx_dict_free(&d);
    assert_false(mx_dict_set(&d, NULL, &d));
    assert_int_equal(mx_error_code(), MX_ERR_ARGUMENT);
    mx_error_clear();
}

static void test_order_and_growth(void **state)
{
    (void)state;
    int64_t before = live_blocks();
    mx_dict d = {0};
    char key[32];
    for (int i = 0; i < 5000; i++) {
        snprintf(key, sizeof key, "name%d", i * 7919 % 5000);
        assert_true(mx_dict_set_number(&d, key, i));
    }
    assert_int_equal(d.length, 5000);
    for (int i = 0; i < 5000; i++) {
        snprintf(key, sizeof key, "name%d", i * 7919 % 5000);
        assert_string_equal(d.entries[i].key, key);
        assert_int_equal(mx_dict_get_number(&d, key, -1), i);
        assert_true(mx_dict_set_number(&d, key, -i)); /* setting again keeps the place */
    }
    assert_int_equal(d.length, 5000);
    assert_int_equal(d.entries[4999].number, -4999);
    mx_dict_free(&d);
    assert_int_equal(d.length, 0);
    assert_int_equal(live_blocks(), before);
}

static void test_removal_keeps_order(void **state)
{
    (void)state;
    mx_dict d = {0};
    char key[2] = "a";
    for (key[0] = 'a'; key[0] <= 'z'; key[0]++)
        assert_true(mx_dict_set(&d, key, &d));
    for (key[0] = 'a'; key[0] <= 'z'; key[0] = (char)(key[0] + 2))
        assert_true(mx_dict_remove(&d, key));
    assert_false(mx_dict_remove(&d, "a"));
    assert_int_equal(d.length, 13);
    for (int i = 0; i < 13; i++) {
        assert_int_equal(d.entries[i].key[0], 'b' + 2 * i);
        assert_ptr_equal(mx_dict_get(&d, d.entries[i].key), &d);
    }
    mx_dict_free(&d);
}

static void test_counters(void **state)
{
    (void)state;
    mx_dict d = {0};
    assert_int_equal(mx_dict_count(&d, "dense"), 0);
    assert_int_equal(mx_dict_count(&d, "conv"), 0);
    assert_int_equal(mx_dict_count(&d, "dense"), 1);
    assert_int_equal(mx_dict_count(&d, "dense"), 2);
    assert_int_equal(mx_dict_count(&d, ""), 0);
    mx_dict_free(&d);
}

/* Random insertions and removals against an array of flags. */
static void test_against_a_model(void **state)
{
    (void)state;
    mx_dict d = {0};
    bool present[64] = {false};
    for (uint64_t round = 0; round < 20000; round++) {
        uint32_t random[4];
        mx_philox(3, round, random);
        int which = (int)(random[0] % 64);
        char key[16];
        snprintf(key, sizeof key, "%d", which);
        assert_int_equal(mx_dict_find(&d, key) != NULL, present[which]);
        if (random[1] % 3) {
            assert_true(mx_dict_set_number(&d, key, which));
            present[which] = true;
        } else {
            assert_int_equal(mx_dict_remove(&d, key), present[which]);
            present[which] = false;
        }
    }
    for (int i = 0; i < 64; i++) {
        char key[16];
        snprintf(key, sizeof key, "%d", i);
        assert_int_equal(mx_dict_get_number(&d, key, -1), present[i] ? i : -1);
    }
    mx_dict_free(&d);
}

static void test_no_memory(void **state)
{
    (void)state;
    int64_t before = live_blocks();
    for (int64_t n = 1; n < 40; n++) {
        mx_dict d = {0};
        char key[16];
        int done = 0;
        mx_alloc_fail_at(n);
        for (int i = 0; i < 30; i++) {
            snprintf(key, sizeof key, "k%d", i);
            done += mx_dict_set_number(&d, key, i);
        }
        mx_alloc_fail_at(0);
        assert_int_equal(d.length, done);
        for (int64_t i = 0; i < d.length; i++)
            assert_int_equal(mx_dict_get_number(&d, d.entries[i].key, -1), d.entries[i].number);
        mx_dict_free(&d);
        mx_error_clear();
    }
    assert_int_equal(live_blocks(), before);
}

static void test_vector(void **state)
{
    (void)state;
    int64_t before = live_blocks();
    MX_VEC(double) v = {0};
    for (int i = 0; i < 1000; i++)
        assert_true(mx_vec_push(&v, i * 0.5));
    assert_int_equal(v.length, 1000);
    for (int i = 0; i < 1000; i++)
        assert_true(v.items[i] == i * 0.5);
    assert_false(mx_vec_reserve(&v, INT64_MAX / 4));
    assert_int_equal(mx_error_code(), MX_ERR_MEMORY);
    mx_error_clear();
    assert_int_equal(v.length, 1000);
    mx_vec_free(&v);
    mx_pointers p = {0};
    mx_alloc_fail_at(1);
    assert_false(mx_vec_push(&p, &v));
    assert_int_equal(p.length, 0);
    mx_error_clear();
    assert_true(mx_vec_push(&p, &v));
    assert_ptr_equal(p.items[0], &v);
    mx_vec_free(&p);
    assert_int_equal(live_blocks(), before);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_empty),    cmocka_unit_test(test_order_and_growth),
        cmocka_unit_test(test_removal_keeps_order), cmocka_unit_test(test_counters),
        cmocka_unit_test(test_against_a_model),     cmocka_unit_test(test_no_memory),
        cmocka_unit_test(test_vector),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
