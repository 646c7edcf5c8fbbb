/* HDF5 files with the names of Keras' layers.  SPDX-License-Identifier: Apache-2.0 */
#include "fuzz.h"
#include "ndarray/params.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
    MX_SCOPE;
    fuzz_limit_memory(size);
    mx_array_dict *dict = mx_load_bytes(bytes, size, "bytes", mx_hdf5_read_layers);
    fuzz_expect_report(dict);
    return 0;
}
