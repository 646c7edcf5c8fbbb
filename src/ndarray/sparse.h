/* The representation of a sparse array (see gluon/sparse.h for the model).  SPDX-License-Identifier: Apache-2.0 */
#ifndef MX_NDARRAY_SPARSE_H
#define MX_NDARRAY_SPARSE_H

#include "gluon/sparse.h"
#include "ndarray/array.h"

typedef struct mx_sparse {
    mx_array array; /* kind mx_sparse_kind; storage NULL; shape, type and context of the dense equivalent; node: its
                       tape node, as for dense arrays */
    mx_stype stype;
    mx_array *data, *indices, *indptr; /* retained; indptr NULL for row_sparse */
} mx_sparse;

extern const mx_kind mx_sparse_kind;

static inline bool mx_is_sparse(const mx_array *x) /* x: a live array or MX_NONE */
{
    return x->object.kind == &mx_sparse_kind;
}
static inline const mx_sparse *mx_sparse_of(const mx_array *x) { return (const mx_sparse *)x; }
/* Like mx_array_ok, but also accepts sparse arrays. */
bool mx_array_any_ok(const mx_array *x, const char *function, const char *argument);

/* A new reference; the parts satisfy the invariants.  NULL with an error. */
mx_array *mx_sparse_new(mx_stype stype, const mx_shape_t *shape, mx_array *data, mx_array *indices, mx_array *indptr);
/* The same, owned by the scope; NULL parts give NULL. */
mx_array *mx_sparse_made(mx_stype stype, const mx_shape_t *shape, mx_array *data, mx_array *indices, mx_array *indptr);
/* x takes the parts of `from`, which has its storage type, shape and type. */
void mx_sparse_take(mx_array *x, const mx_array *from);
mx_array *mx_sparse_copy(const mx_array *x, mx_context context); /* a deep copy; owned by the scope */
void mx_sparse_clear(mx_array *x);                               /* x becomes zero; records an error if out of memory */

/* mx_array_set where one of the two is sparse. */
mx_code mx_sparse_assign(mx_array *x, mx_array *value);

/* Numbers of an int64 array in host memory; *stage, if not NULL, is freed by mx_sparse_done(). */
typedef struct mx_numbers64 {
    const int64_t *v; /* NULL with an error */
    int64_t n;
    int64_t *stage;
} mx_numbers64;
mx_numbers64 mx_numbers64_of(const mx_array *x);
void mx_numbers64_free(mx_numbers64 *numbers);
/* An int64 array of n numbers on a context, owned by the scope. */
mx_array *mx_numbers64_array(const int64_t *numbers, int64_t n, mx_context context);
int64_t mx_row_size(const mx_array *x); /* elements per row: the product of shape[1:] */

#endif
