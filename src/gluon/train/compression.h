/* Gradients in one or two bits: the rounding error of an element is saved and added to its next gradient.
 *
 *     2bit:  r = residual + gradient;    sent = t where r >= t, -t where r <= -t, else 0;    residual = r - sent
 *     1bit:  likewise, with              sent = 1 where r > t, else -1
 *
 * So sums over many steps are right, whatever the threshold t is.  fp16: gradients travel between processes in 16 bits.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef MX_GLUON_COMPRESSION_H
#define MX_GLUON_COMPRESSION_H

#include "base/vec.h"
#include "gluon/array.h"
#include "gluon/train/id_table.h"

/* A zeroed struct compresses nothing. */
typedef struct mx_compression {
    enum { MX_COMPRESS_NONE, MX_COMPRESS_2BIT, MX_COMPRESS_1BIT, MX_COMPRESS_FP16 } kind;
    double threshold;
    MX_VEC(mx_id_table) residual; /* per copy of a value: mx_array by key, retained */
} mx_compression;

/* type "2bit", "1bit", "fp16" or "none"; an error changes nothing. */
mx_code mx_compression_set(mx_compression *self, const char *type, double threshold);
const char *mx_compression_name(const mx_compression *self);
void mx_compression_free(mx_compression *self);
/* The compressed gradients of n contexts (2bit, 1bit); scope-owned. */
mx_code mx_compress(mx_compression *self, mx_id id, int n, mx_array *const *gradients, mx_array **sent);

#endif
