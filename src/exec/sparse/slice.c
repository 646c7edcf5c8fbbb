/* Ranges of rows and columns of a csr array.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "base/alloc.h"
#include "base/error.h"
#include "exec/sparse/sparse.h"
#include "gluon/op.gen.h"

/* ---- rows: windows on the parts ---------------------------------------------------------------------------------- */

/* A view of part of a vector. */
static mx_array *window(const mx_array *x, int64_t begin, int64_t n)
{
    mx_shape_t shape = {.ndim = 1, .dim = {n}};
    return mx_scope_add(mx_array_view(x, begin * mx_dtype_size((mx_dtype)x->dtype), &shape, (mx_dtype)x->dtype));
}

/* indptr[begin..end] shifted to start with 0 */
static mx_array *moved_starts(const int64_t *start, int64_t begin, int64_t end, mx_context context)
{
    const size_t bytes = (size_t)(end - begin + 1) * sizeof(int64_t);
    int64_t *moved = mx_alloc(bytes);
    for (int64_t i = begin; moved && i <= end; i++)
        moved[i - begin] = start[i] - start[begin];
    mx_array *made = moved ? mx_numbers64_array(moved, end - begin + 1, context) : NULL;
    mx_free(moved, bytes);
    return made;
}

mx_array *mx_csr_rows(mx_array *x, int64_t begin, int64_t end)
{
    if (!mx_is_kind(x, &mx_sparse_kind, "mx_csr_rows", "x"))
        return NULL;
    const mx_sparse *s = mx_sparse_of(x);
    const int64_t rows = x->shape[0];
    begin = begin < 0 ? begin + rows : begin, end = end < 0 ? end + rows : end;
    if (s->stype != MX_CSR || begin < 0 || begin > end || end > rows)
        return mx_fail_null(MX_ERR_INDEX, "mx_csr_rows: rows %lld to %lld of a %s array with %lld rows",
                            (long long)begin, (long long)end, mx_stype_name(s->stype), (long long)rows);
    mx_shape_t shape = {.ndim = 2, .dim = {end - begin, x->shape[1]}};
    mx_numbers64 start = mx_numbers64_of(s->indptr);
    mx_array *made = NULL;
    if (start.v) {
        const int64_t first = start.v[begin], n = start.v[end] - first;
        made = mx_sparse_made(MX_CSR, &shape, window(s->data, first, n), window(s->indices, first, n),
                              moved_starts(start.v, begin, end, x->context));
    }
    mx_numbers64_free(&start);
    return made;
}

/* ---- columns: the elements in the range -------------------------------------------------------------------------- */

typedef struct chosen {
    int64_t *element; /* (n) places of the elements in the data of the old array */
    int64_t *column;  /* (n) their new columns */
    int64_t *start;   /* (rows + 1) the new indptr */
    int64_t n;
} chosen;

static void choose(chosen *c, const mx_numbers64 *start, const mx_numbers64 *column, int64_t begin, int64_t end)
{
    for (int64_t i = 0; i + 1 < start->n; i++) {
        c->start[i] = c->n;
        for (int64_t k = start->v[i]; k < start->v[i + 1]; k++)
            if (column->v[k] >= begin && column->v[k] < end)
                c->element[c->n] = k, c->column[c->n++] = column->v[k] - begin;
    }
    c->start[start->n - 1] = c->n;
}

static mx_array *columns_of(mx_array *x, int64_t begin, int64_t end)
{
    const mx_sparse *s = mx_sparse_of(x);
    const mx_shape_t shape = {.ndim = 2, .dim = {x->shape[0], end - begin}};
    const size_t most = (size_t)s->indices->size * sizeof(int64_t),
                 starts = (size_t)(x->shape[0] + 1) * sizeof(int64_t);
    mx_numbers64 start = mx_numbers64_of(s->indptr), column = mx_numbers64_of(s->indices);
    chosen c = {mx_alloc(most), mx_alloc(most), mx_alloc(starts), 0};
    mx_array *made = NULL;
    if (start.v && column.v && c.element && c.column && c.start) {
        choose(&c, &start, &column, begin, end);
        made = mx_sparse_made(
            MX_CSR, &shape, mx_sparse_rows_of(s->data, mx_numbers64_array(c.element, c.n, x->context)),
            mx_numbers64_array(c.column, c.n, x->context), mx_numbers64_array(c.start, x->shape[0] + 1, x->context));
    }
    mx_free(c.element, most), mx_free(c.column, most), mx_free(c.start, starts);
    mx_numbers64_free(&start);
    mx_numbers64_free(&column);
    return made;
}

/* ---- slice ------------------------------------------------------------------------------------------------------- */

typedef struct range {
    int64_t begin, end;
} range;

/* What `slice` takes of an axis, within its size. */
static range range_of(const mx_slice_attrs *a, int axis, int64_t size)
{
    range r = {axis < a->begin.n ? a->begin.d[axis] : MX_NONE_INT, axis < a->end.n ? a->end.d[axis] : MX_NONE_INT};
    r.begin = r.begin == MX_NONE_INT ? 0 : r.begin < 0 ? r.begin + size : r.begin;
    r.end = r.end == MX_NONE_INT ? size : r.end < 0 ? r.end + size : r.end;
    r.begin = r.begin < 0 ? 0 : r.begin > size ? size : r.begin;
    r.end = r.end < r.begin ? r.begin : r.end > size ? size : r.end;
    return r;
}

static bool has_steps(const mx_dims *step)
{
    for (int i = 0; i < step->n; i++)
        if (step->d[i] != 1 && step->d[i] != MX_NONE_INT)
            return true;
    return false;
}

mx_array *mx_sparse_slice(const mx_sparse_call *call)
{
    const mx_slice_attrs *a = call->attrs;
    mx_array *x = call->in[0];
    if (mx_sparse_of(x)->stype != MX_CSR || a->begin.n < 1 || a->begin.n > 2 || a->end.n != a->begin.n ||
        has_steps(&a->step))
        return mx_sparse_refuse(call, "only rows and columns of a csr array, in steps of 1, can be sliced");
    const range rows = range_of(a, 0, x->shape[0]), columns = range_of(a, 1, x->shape[1]);
    x = mx_csr_rows(x, rows.begin, rows.end);
    return x && columns.end - columns.begin < x->shape[1] ? columns_of(x, columns.begin, columns.end) : x;
}
