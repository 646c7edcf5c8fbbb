/* ONNX files, read into a symbol.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
    MX_SCOPE;
    fuzz_limit_memory(size);
    fuzz_expect_report(mx_load_onnx(fuzz_file(bytes, size, ".onnx"), NULL));
    return 0;
}
