/* Files of arrays, recognised by their content: .params (all versions), NPY, NPZ, safetensors.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
    MX_SCOPE;
    fuzz_limit_memory(size);
    mx_array_dict *dict = mx_load_buffer(bytes, size);
    fuzz_expect_report(dict);
    return 0;
}
