/* Operator calls, structure-aware: the bytes are the decisions of tests/garbage (see garbage.h).
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "../garbage/garbage.h"
#include "fuzz.h"

#include "base/alloc.h"

static int count_operators(void)
{
    int n = 0;
    while (mx_op_at(n))
        n++;
    return n;
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
    static int operators;
    garbage_dice dice = {.bytes = bytes, .size = size};
    garbage_call call;
    if (!operators)
        operators = count_operators();
    mx_alloc_set_limit((size_t)16 << 20);
    if (!garbage_make(&call, mx_op_at((int)garbage_roll(&dice, (uint64_t)operators)), &dice))
        return 0;
    const char *finding = garbage_run(&call);
    if (finding) {
        fprintf(stderr, "%s\n    %s\n", call.story, finding);
        abort();
    }
    garbage_free(&call);
    mx_error_clear();
    return 0;
}
