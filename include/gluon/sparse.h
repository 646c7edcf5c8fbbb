/* Sparse arrays: few rows of many (row_sparse), and matrices with few elements (csr).
 *
 *     row_sparse   shape (1000, 4)   data (2, 4)  indices (2)              rows 7 and 512; all others are zero
 *     csr          shape (3, 1000)   data (5)     indices (5)  indptr (4)  row i: elements indptr[i] to indptr[i + 1]
 *
 * A sparse array is an mx_array of another kind: a header with the shape, type and context of the array it represents,
 * and dense arrays as its parts.  It can be passed wherever an mx_array * can (files, gradients, optimizers, blocks).
 * Every operator takes sparse arrays.  Dense arrays pay nothing for sparse ones: only after mx_invoke has refused an
 * input by the check of the kind that it has anyway does it test whether that is sparse, and passes the call to
 * exec/sparse/sparse.c.  The operators below work on the parts; all others, and other combinations of inputs, compute with
 * dense copies and give a dense result:
 *
 *     dot                    csr with dense or row_sparse, either transposed; a transposed csr gives row_sparse
 *     functions with f(0)=0  on the stored elements (abs, square, sqrt, relu, clip, Cast, times a number, x > 0 ...)
 *     + - * /                of two of one kind: on the union (or intersection) of rows or elements; with a dense one, for * and /
 *                            of a csr also with a row, a column or a number
 *     sum, mean, norm        over everything; csr also by rows and by columns
 *     Embedding              of a row_sparse weight
 *     slice, take, Concat    rows of csr arrays, slice also columns; _sparse_retain: rows of row_sparse ones
 *     getnnz, edge_id, dgl_adjacency    of a csr that holds the numbers of a graph's edges
 *     cast_storage, add_n, zeros_like, _copy
 *     sgd_update ...         weight and states dense, gradient row_sparse: the same operator on the rows that the
 *                            gradient has, fetched and put back (lazy_update); else the gradient is made dense
 *
 * Gradients.  A variable may request a row_sparse gradient.  Embedding with sparse_grad and dot with a csr produce
 * row_sparse gradients; sums of them stay sparse, a dense one among them makes the sum dense, and storing converts to
 * what the variable requested.  Nothing on that path is as large as the weight.  Between two operators gradients are
 * dense.
 *
 * Almost all of it is one kernel, `_rows_sum`:
 *     out[i] = sum of factor[k] * data[row[k]] for k from start[i] to start[i + 1]
 *
 * Invariants: indices and indptr are int64 on the context of data; rows ascend and are distinct, columns do so within
 * their row; all are in range.  They are checked when an array is made, so that all code may rely on them.  The parts
 * of an array are never written in place by the library: an array that changes gets new parts.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef GLUON_SPARSE_H
#define GLUON_SPARSE_H

#include "gluon/array.h"

/* The numbers are those of the .params format. */
typedef enum mx_stype { MX_STYPE_DEFAULT = 0, MX_ROW_SPARSE = 1, MX_CSR = 2 } mx_stype;
MX_API const char *mx_stype_name(mx_stype stype);     /* "default", "row_sparse", "csr" */
MX_API mx_stype mx_stype_from_name(const char *name); /* (mx_stype)-1 with an error if unknown */
MX_API mx_stype mx_stype_of(const mx_array *x);       /* MX_STYPE_DEFAULT for all that is not sparse */

/* ---- making; index arrays may be of any integer type ------------------------------------------------------ */
/* data (rows, shape[1:]), indices (rows).  shape.n == -1: as few rows as hold the last index. */
MX_API mx_array *mx_row_sparse(mx_dims shape, mx_array *data, mx_array *indices);
/* data (n), indices (n), indptr (rows + 1).  shape.n == -1: as few columns as hold the largest index. */
MX_API mx_array *mx_csr(mx_dims shape, mx_array *data, mx_array *indices, mx_array *indptr);
/* From triples in any order: element (rows[k], columns[k]) is data[k]; duplicates are added. */
MX_API mx_array *mx_csr_triples(mx_dims shape, mx_array *data, mx_array *rows, mx_array *columns);
MX_API mx_array *mx_sparse_zeros(mx_stype stype, mx_dims shape, mx_dtype dtype, mx_context context);
/* x in another storage: a dense copy, or the non-zero parts of x.  x itself if it has that storage already. */
MX_API mx_array *mx_tostype(mx_array *x, mx_stype stype);

/* ---- looking: the parts themselves, not copies ------------------------------------------------------------- */
MX_API mx_array *mx_sparse_data(const mx_array *x);
MX_API mx_array *mx_sparse_indices(const mx_array *x);
MX_API mx_array *mx_sparse_indptr(const mx_array *x); /* of a csr */
MX_API int64_t mx_sparse_count(const mx_array *x);    /* stored rows or elements */
/* New parts for x, checked as at creation; indptr is NULL for row_sparse. */
MX_API mx_code mx_sparse_set(mx_array *x, mx_array *data, mx_array *indices, mx_array *indptr);
/* Rows begin <= i < end of a csr (negative ones count from the end). */
MX_API mx_array *mx_csr_rows(mx_array *x, int64_t begin, int64_t end);

#endif
