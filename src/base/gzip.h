/* Reading gzip files and packed parts of others.  SPDX-License-Identifier: Apache-2.0 */
#ifndef MX_BASE_GZIP_H
#define MX_BASE_GZIP_H

#include "gluon/base.h"

bool mx_gzip_available(void); /* whether this build has zlib */
/* The unpacked contents of a .gz file and a zero byte behind them; NULL with an error if the file is absent, not
 * gzip, damaged, truncated or larger than `limit` bytes when unpacked.  Free with mx_free(bytes, *size + 1). */
void *mx_gzip_read(const char *path, int64_t limit, int64_t *size);
/* Unpacks bare deflate data, as zip archives hold it, into exactly `size` bytes; false with an error that names `who`. */
bool mx_inflate(const char *who, const void *packed, int64_t packed_size, void *bytes, int64_t size);

#endif
