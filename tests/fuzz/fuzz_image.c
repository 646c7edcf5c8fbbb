/* Images: JPEG with its EXIF orientation, PNG, PGM, PPM.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
    MX_SCOPE;
    mx_array *image = mx_imdecode(bytes, (int64_t)size, .flag = size % 2 ? 1 : 0);
    fuzz_expect_report(image);
    return 0;
}
