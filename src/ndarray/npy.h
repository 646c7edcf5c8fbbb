/* NPY files inside other files.  SPDX-License-Identifier: Apache-2.0 */
#ifndef MX_NDARRAY_NPY_H
#define MX_NDARRAY_NPY_H

#include "base/file.h"
#include "base/text.h"
#include "ndarray/array.h"

/* New reference; reads from the reader's position. */
mx_array *mx_npy_read(mx_reader *reader);
/* The header of version 1 without the ten bytes before it, padded so that the elements start at a multiple of 64. */
void mx_npy_header(mx_text *text, const mx_array *x);

#endif
