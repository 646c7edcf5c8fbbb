/* Reading gzip files and deflate data in other files.  SPDX-License-Identifier: Apache-2.0 */
#ifndef MX_BASE_GZIP_H
#define MX_BASE_GZIP_H

#include "gluon/base.h"

bool mx_gzip_available(void); /* whether this build has zlib */
/* The decompressed contents of a .gz file and a terminating zero byte; NULL with an error if the file is missing, not
 * gzip, damaged, truncated or larger than `limit` bytes.  Free with mx_free(bytes, *size + 1). */
void *mx_gzip_read(const char *path, int64_t limit, int64_t *size);
/* Decompresses raw deflate data, as in zip archives, into exactly `size` bytes; false with an error that names `who`. */
bool mx_inflate(const char *who, const void *packed, int64_t packed_size, void *bytes, int64_t size);

#endif
