/* Products with a csr matrix: all are sums of rows of the dense one.
 *
 *     csr . dense      out[i] = sum of value * dense[column]  over the elements of row i
 *     csr' . dense     out[j] = sum of value * dense[row]     over the elements of column j; only columns that occur
 *     dense . csr      the transpose of  csr' . dense',  dense . csr'  that of  csr . dense'
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "base/alloc.h"
#include "base/error.h"
#include "exec/sparse/sparse.h"
#include "gluon/op.gen.h"

/* csr (m, k) . dense (k, n) -> dense (m, n) */
static mx_array *times(const mx_array *csr, mx_array *dense)
{
    const mx_sparse *a = mx_sparse_of(csr);
    return mx_g_rows_sum(dense, a->indices, a->indptr, a->data);
}

/* Row numbers of all elements in the order of `order`. */
static mx_array *rows_in_order(const mx_array *csr, const int64_t *order)
{
    const mx_sparse *a = mx_sparse_of(csr);
    const size_t bytes = (size_t)a->indices->size * sizeof(int64_t);
    mx_numbers64 start = mx_numbers64_of(a->indptr);
    int64_t *row = start.v ? mx_alloc(2 * bytes) : NULL, *sorted = row ? row + a->indices->size : NULL;
    for (int64_t i = 0; row && i + 1 < start.n; i++)
        for (int64_t k = start.v[i]; k < start.v[i + 1]; k++)
            row[k] = i;
    for (int64_t k = 0; row && k < a->indices->size; k++)
        sorted[k] = row[order[k]];
    mx_array *made = row ? mx_numbers64_array(sorted, a->indices->size, csr->context) : NULL;
    mx_free(row, 2 * bytes);
    mx_numbers64_free(&start);
    return made;
}

/* csr (k, m)' . dense (k, n) -> row_sparse (m, n) */
static mx_array *transposed_times(const mx_array *csr, mx_array *dense)
{
    const mx_sparse *a = mx_sparse_of(csr);
    mx_shape_t shape = {.ndim = 2, .dim = {csr->shape[1], dense->shape[1]}};
    mx_numbers64 column = mx_numbers64_of(a->indices);
    mx_groups g;
    mx_code code = column.v ? mx_groups_make(&g, column.v, column.n, csr->shape[1]) : mx_error_code();
    mx_numbers64_free(&column);
    if (code)
        return NULL;
    mx_array *order = mx_numbers64_array(g.order, g.n, csr->context), *row = rows_in_order(csr, g.order);
    mx_array *start = mx_numbers64_array(g.start, g.count + 1, csr->context);
    mx_array *unique = mx_numbers64_array(g.unique, g.count, csr->context);
    mx_groups_free(&g);
    mx_array *factor = order ? mx_sparse_rows_of(a->data, order) : NULL;
    mx_array *sums = row && start && factor ? mx_g_rows_sum(dense, row, start, factor) : NULL;
    return mx_sparse_made(MX_ROW_SPARSE, &shape, sums, unique, NULL);
}

/* The elements of a csr (m, k) whose column is a stored row of `b` (k, n), with its position among them as the column. */
static mx_array *csr_on_rows(const mx_array *csr, const mx_array *b)
{
    const mx_sparse *a = mx_sparse_of(csr);
    mx_numbers64 column = mx_numbers64_of(a->indices), start = mx_numbers64_of(a->indptr),
                 have = mx_numbers64_of(mx_sparse_of(b)->indices);
    const size_t bytes = (size_t)column.n * sizeof(int64_t), first_bytes = (size_t)start.n * sizeof(int64_t);
    int64_t *place = mx_alloc(bytes), *kept = mx_alloc(bytes), *first = mx_alloc(first_bytes), n = 0;
    mx_array *made = NULL;
    if (place && kept && first && column.v && start.v && have.v) {
        for (int64_t i = 0; i + 1 < start.n; i++) {
            first[i] = n;
            for (int64_t k = start.v[i], at = 0; k < start.v[i + 1]; k++) { /* columns ascend, and so do stored rows */
                while (at < have.n && have.v[at] < column.v[k])
                    at++;
                if (at < have.n && have.v[at] == column.v[k])
                    place[n] = at, kept[n] = k, n++;
            }
        }
        first[start.n - 1] = n;
        mx_shape_t shape = {.ndim = 2, .dim = {csr->shape[0], have.n}};
        made = mx_sparse_made(MX_CSR, &shape, mx_sparse_rows_of(a->data, mx_numbers64_array(kept, n, csr->context)),
                              mx_numbers64_array(place, n, csr->context),
                              mx_numbers64_array(first, start.n, csr->context));
    }
    mx_free(place, bytes);
    mx_free(kept, bytes);
    mx_free(first, first_bytes);
    mx_numbers64_free(&column);
    mx_numbers64_free(&start);
    mx_numbers64_free(&have);
    return made;
}

static mx_array *transpose(mx_array *x) { return x ? mx_g1("transpose", x) : NULL; }

/* The csr is on the left; transposed or not. */
static mx_array *from_left(mx_array *csr, bool transposed, mx_array *b, bool b_transposed)
{
    if (mx_stype_of(b) == MX_ROW_SPARSE && !transposed && !b_transposed) {
        mx_array *rows = mx_sparse_of(b)->data;
        mx_array *few = csr_on_rows(csr, b);
        return few ? times(few, rows) : NULL;
    }
    mx_array *dense = mx_sparse_dense(b);
    if (b_transposed)
        dense = transpose(dense);
    return !dense ? NULL : transposed ? transposed_times(csr, dense) : times(csr, dense);
}

static mx_code check_shapes(const mx_sparse_call *call, const mx_dot_attrs *o)
{
    const mx_array *a = call->in[0], *b = call->in[1];
    if (a->ndim != 2 || b->ndim != 2)
        return mx_sparse_refuse(call, "with sparse arrays both must have two axes"), MX_DECLINED;
    if (a->shape[o->transpose_a ? 0 : 1] != b->shape[o->transpose_b ? 1 : 0])
        return mx_op_fail(call->op, MX_ERR_SHAPE, "shapes (%lld, %lld) and (%lld, %lld) do not fit",
                          (long long)a->shape[0], (long long)a->shape[1], (long long)b->shape[0],
                          (long long)b->shape[1]);
    if (a->dtype != b->dtype)
        return mx_op_fail(call->op, MX_ERR_DTYPE, "lhs is %s, rhs is %s", mx_dtype_name((mx_dtype)a->dtype),
                          mx_dtype_name((mx_dtype)b->dtype));
    return MX_OK;
}

mx_array *mx_sparse_dot(const mx_sparse_call *call)
{
    const mx_dot_attrs *o = call->attrs;
    mx_array *a = call->in[0], *b = call->in[1];
    if (a == MX_NONE || b == MX_NONE || check_shapes(call, o))
        return mx_has_error() ? NULL : mx_sparse_refuse(call, "two arrays are expected");
    mx_array *made = NULL;
    int stype = o->forward_stype;
    if (mx_stype_of(a) == MX_CSR) {
        made = from_left(a, o->transpose_a, b, o->transpose_b);
    } else if (mx_stype_of(b) == MX_CSR && !mx_is_sparse(a)) { /* (b' a')' */
        made = transpose(mx_sparse_dense(from_left(b, !o->transpose_b, a, !o->transpose_a)));
        stype = stype < 0 ? MX_CSR : stype;
    } else {
        return mx_sparse_refuse(call, "one of the two must be csr, the other dense (or row_sparse on the right)");
    }
    return made && stype >= 0 ? mx_tostype(made, (mx_stype)stype) : made;
}
