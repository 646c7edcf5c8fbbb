/* Zip archives: what NPZ and .keras files are.
 *
 *     mx_zip zip;
 *     mx_zip_entry e;
 *     bool fine = mx_zip_open(&zip, reader);
 *     for (; fine && zip.left; mx_zip_entry_free(&e))
 *         fine = mx_zip_next(&zip, &e) && use(mx_zip_contents(reader, &e));
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef MX_NDARRAY_ZIP_H
#define MX_NDARRAY_ZIP_H

#include "base/file.h"

typedef struct mx_zip_entry {
    int method; /* 0 stored, 8 compressed */
    uint32_t crc;
    uint64_t packed, size, at; /* bytes, bytes, offset of the local header */
    char *name;                /* owned; NULL: reading it failed */
} mx_zip_entry;

typedef struct mx_zip {
    mx_reader *reader; /* not owned */
    uint64_t left;     /* entries that follow */
    int64_t place;     /* of the next one in the directory */
} mx_zip;

bool mx_zip_open(mx_zip *zip, mx_reader *reader);
bool mx_zip_next(mx_zip *zip, mx_zip_entry *e); /* to be freed in any case */
void mx_zip_entry_free(mx_zip_entry *e);
/* The contents, unpacked and compared with the checksum; NULL with an error.  Free with mx_free(bytes, e->size + 1). */
void *mx_zip_contents(mx_reader *reader, const mx_zip_entry *e);
uint32_t mx_zip_checksum(uint32_t crc, const void *bytes,
                         size_t count); /* of bytes that follow those of crc; first: 0 */

#endif
