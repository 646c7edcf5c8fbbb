/* RecordIO files: records one after the other, their image headers, then seeks to where the first bytes say.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "fuzz.h"

#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
    MX_SCOPE;
    fuzz_limit_memory(size);
    mx_record_reader *reader = mx_record_reader_open(fuzz_file(bytes, size, ".rec"));
    fuzz_expect_report(reader);
    if (!reader)
        return 0;
    for (mx_array *record; (record = mx_record_read(reader));) {
        mx_record_header header;
        mx_array *labels, *payload;
        fuzz_expect_report(mx_record_unpack(record, &header, &labels, &payload) == MX_OK);
    }
    mx_error_clear(); /* the end of the file, or a broken record */
    int64_t position = 0;
    memcpy(&position, bytes, size < 3 ? size : 3);
    mx_array *record = mx_record_read_at(reader, position);
    if (!record)
        mx_error_clear();
    mx_record_reader_close(reader);
    return 0;
}
