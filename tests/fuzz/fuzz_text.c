/* Files of numbers: idx (plain and gzip), CSV, libsvm, the index of a record file; a tokenizer.  The first byte chooses.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "fuzz.h"

static bool read_idx(const char *path) { return mx_load_idx(path); }

static bool read_csv(const char *path) { return mx_load_csv(path, MX_FLOAT32); }

static bool read_libsvm(const char *path)
{
    mx_array *data, *label;
    return mx_load_libsvm(path, 64, MX_FLOAT32, &data, &label) == MX_OK;
}

static bool read_index(const char *path) { return mx_record_index_load(path); }

static bool read_tokenizer(const char *path)
{
    mx_tokenizer *tokenizer = mx_tokenizer_open(path);
    return tokenizer && mx_tokenizer_encode(tokenizer, "", 0);
}

static const struct {
    const char *suffix;
    bool (*read)(const char *path);
} readers[] = {
    {".idx", read_idx}, {".csv", read_csv}, {".libsvm", read_libsvm}, {".idx", read_index}, {".json", read_tokenizer}};

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
    MX_SCOPE;
    if (size == 0)
        return 0;
    size_t which = bytes[0] % (sizeof readers / sizeof *readers);
    fuzz_limit_memory(size);
    fuzz_expect_report(readers[which].read(fuzz_file(bytes + 1, size - 1, readers[which].suffix)));
    return 0;
}
