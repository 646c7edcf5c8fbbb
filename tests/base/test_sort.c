/* mx_sort: every length, items of several sizes, equal ones, and the context that the comparison gets.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/sort.h"

static int by_key(const void *a, const void *b, const void *keys)
{
    const int64_t x = ((const int64_t *)keys)[*(const int32_t *)a], y = ((const int64_t *)keys)[*(const int32_t *)b];
    return x < y ? -1 : x > y;
}

/* Indices by distinct keys: only one order is right. */
static void test_indices(void **state)
{
    (void)state;
    int64_t keys[97];
    int32_t order[97];
    for (int n = 0; n <= 97; n++) {
        for (int i = 0; i < n; i++)
            keys[i] = (int64_t)i * 31 % 97 - 40, order[i] = i;
        mx_sort(order, n, sizeof *order, by_key, keys);
        for (int i = 1; i < n; i++)
            assert_true(keys[order[i - 1]] < keys[order[i]]);
    }
}

typedef struct entry {
    char name[11];
    short weight;
} entry;

static int by_weight(const void *a, const void *b, const void *sign)
{
    return *(const int *)sign * (((const entry *)a)->weight - ((const entry *)b)->weight);
}

/* Structs of an odd size, both directions, with equal weights: none is lost, names stay with their weights. */
static void test_structs(void **state)
{
    (void)state;
    for (int sign = -1; sign <= 1; sign += 2) {
        entry list[50];
        int seen[50] = {0};
        for (int i = 0; i < 50; i++)
            list[i] = (entry){{(char)i, 'x'}, (short)(i * 7 % 10)};
        mx_sort(list, 50, sizeof *list, by_weight, &sign);
        for (int i = 0; i < 50; i++) {
            const int was = list[i].name[0];
            assert_int_equal(list[i].weight, was * 7 % 10);
            assert_int_equal(seen[was]++, 0);
            assert_true(i == 0 || sign * (list[i].weight - list[i - 1].weight) >= 0);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_indices), cmocka_unit_test(test_structs)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
