/* mx_convert with the instructions of the level, for kernels.  SPDX-License-Identifier: Apache-2.0 */
#ifndef MX_CPU_CONVERT_LEVEL_H
#define MX_CPU_CONVERT_LEVEL_H

#include "cpu/kernels/level.h"
#include "ndarray/convert.h"

/* The contract of mx_convert. */
#define mx_convert_fast MX_LEVEL_NAME(mx_convert_fast)
void mx_convert_fast(void *to, mx_dtype to_type, const void *from, mx_dtype from_type, int64_t n);

#endif
