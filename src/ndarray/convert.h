/* Converting elements between types in host memory.
 *
 * Rounding is to nearest even and happens once (int64 -> float16 does not go through a rounded float).  To integers:
 * fractions are truncated; overflow is the same on all machines (see convert.c); integers wrap as in C.  To bool: != 0.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef MX_NDARRAY_CONVERT_H
#define MX_NDARRAY_CONVERT_H

#include "gluon/array.h"

/* `n` elements; both types valid; `to` and `from` do not overlap, or are the same address and of the same item size. */
void mx_convert(void *to, mx_dtype to_type, const void *from, mx_dtype from_type, int64_t n);

#endif
