/* Element types in files: ours, and integers of other widths, which are read into the next wider type.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef MX_NDARRAY_WIRE_H
#define MX_NDARRAY_WIRE_H

#include "base/file.h"
#include "gluon/array.h"

/* Numbers are the codes of the .params format. */
enum { MX_WIRE_INT16 = 8, MX_WIRE_UINT16 = 9, MX_WIRE_UINT32 = 10, MX_WIRE_UINT64 = 11, MX_WIRE_END = 13 };

typedef struct mx_wire {
    const char *name; /* "uint16" */
    int8_t size;      /* bytes of an element in the file */
    int8_t dtype;     /* the type it is read into */
    char class;       /* 'f' 'i' 'u' 'b' 'V' (bfloat16), as in a NPY descriptor */
    bool integer;     /* can be an index */
} mx_wire;

const mx_wire *mx_wire_of(int64_t code);           /* NULL (no error) if there is no such type */
const mx_wire *mx_wire_find(char class, int size); /* by NPY descriptor; NULL (no error) if there is none */
/* Reads n elements into `to` (n of wire->dtype); `swap`: the file has the other byte order. */
bool mx_wire_read(mx_reader *reader, const mx_wire *wire, bool swap, void *to, int64_t n, const char *what);

/* Elements of a shape read from a file, or -1 with a file error if a size is negative or the product too large. */
int64_t mx_wire_elements(mx_reader *reader, const int64_t *dims, int ndim, const char *what);

#endif
