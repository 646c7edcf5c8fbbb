/* Symbol files: parsed, written again, inferred, bound to small inputs and run once, with gradients.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "fuzz.h"

#include <string.h>

#include "base/alloc.h"

/* A graph from a stranger may ask for any size: one allocation gets 4 MiB, one bind 64 arguments. */
static const size_t memory = (size_t)4 << 20;
static const int64_t most_arguments = 64;

static void run(mx_symbol *symbol)
{
    const char *const names[] = {"data"};
    const mx_dims shapes[] = {MX_DIMS(2, 3, 8, 8)};
    mx_executor *executor = mx_simple_bind(
        symbol, mx_cpu(0), &(struct mx_known){.count = 1, .names = names, .shapes = shapes}, MX_GRAD_WRITE);
    fuzz_expect_report(executor);
    if (!executor)
        return;
    mx_arrays outputs = mx_executor_forward(executor, true);
    bool ran = mx_error_code() == MX_OK;
    if (ran && outputs.n > 0)
        mx_executor_backward(executor, (mx_arrays){0});
    mx_error_clear();
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
    MX_SCOPE;
    mx_alloc_set_limit(memory);
    mx_symbol *symbol = mx_symbol_from_json((const char *)bytes, size);
    fuzz_expect_report(symbol);
    if (!symbol || mx_symbol_arguments(symbol).n > most_arguments)
        return 0;
    const char *text = mx_symbol_json(symbol);
    fuzz_expect_report(text);
    if (!text)
        return 0;
    mx_symbol *again = mx_symbol_from_json(text, strlen(text));
    if (!again) {
        fprintf(stderr, "cannot read what was written: %s\n", mx_error_message());
        abort();
    }
    run(symbol);
    return 0;
}
