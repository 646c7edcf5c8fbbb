/* What the fuzz targets share.
 *
 * tests/fuzz/fuzz_NAME.c is one libFuzzer program.  It hands any bytes to one reader of the library: the reader may refuse
 * them, with an error record, or accept them; nothing else may happen.  AddressSanitizer and UBSan watch; the fuzzer's own
 * limits watch time and memory.  seeds.c writes the inputs that the fuzzer starts from; regress/NAME/ holds inputs
 * that once broke a reader.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TESTS_FUZZ_H
#define TESTS_FUZZ_H

#include <gluon.h>
#include <stdio.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size);

/* A refusal leaves an error record with a message; success leaves none.  Ends the process otherwise. */
static inline void fuzz_expect_report(bool accepted)
{
    bool reported = mx_error_code() != MX_OK && *mx_error_message();
    if (accepted == reported) {
        fprintf(stderr, "accepted: %d, error: '%s'\n", accepted, mx_error_message());
        abort();
    }
    mx_error_clear();
}

/* A file with these bytes, for readers that take a path; the same path every time. */
const char *fuzz_file(const uint8_t *bytes, size_t size, const char *suffix);

/* Single allocations are limited to a small multiple of the input: a length field must be checked before it is believed. */
void fuzz_limit_memory(size_t size);

#endif
