/* Preloaded into a cmocka program: runs only the test that CMOCKA_ONLY names.  SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>

/* Programs that the test starts have none. */
__attribute__((weak)) void cmocka_set_test_filter(const char *pattern);

__attribute__((constructor)) static void choose_test(void)
{
    const char *only = getenv("CMOCKA_ONLY");
    if (only && cmocka_set_test_filter)
        cmocka_set_test_filter(only);
}
