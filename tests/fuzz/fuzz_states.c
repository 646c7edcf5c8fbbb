/* Optimizer states: ours and the pickles that MXNet wrote.  The first byte chooses the optimizer that reads them; the states
 * are then used for one update.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "fuzz.h"

static const char *const optimizers[] = {"sgd", "adam", "ftrl", "rmsprop", "nag", "lamb"};

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
    MX_SCOPE;
    if (size == 0)
        return 0;
    const char *name = optimizers[bytes[0] % (sizeof optimizers / sizeof *optimizers)];
    mx_updater *updater = mx_updater_new(mx_optimizer_new(name, bytes[0] % 2 ? "momentum=0.9" : NULL));
    if (!updater) { /* an optimizer without momentum */
        mx_error_clear();
        updater = mx_updater_new(mx_optimizer_new(name, NULL));
    }
    fuzz_limit_memory(size);
    bool loaded = mx_updater_load(updater, fuzz_file(bytes + 1, size - 1, ".states")) == MX_OK;
    fuzz_expect_report(loaded);
    mx_array *weight = mx_ones(.shape = MX_DIMS(2, 3)), *grad = mx_ones(.shape = MX_DIMS(2, 3));
    fuzz_expect_report(mx_updater_update(updater, mx_id_number(0), grad, weight) == MX_OK);
    return 0;
}
