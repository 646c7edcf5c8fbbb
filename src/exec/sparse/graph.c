/* Graphs as csr matrices: the elements are the numbers of the edges (op/def/sparse/graph.c).
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "base/alloc.h"
#include "base/error.h"
#include "exec/sparse/sparse.h"
#include "gluon/op.gen.h"

/* ---- how many edges ---------------------------------------------------------------------------------------------- */

static void count_along(int64_t *count, const mx_numbers64 *start, const mx_numbers64 *column, int64_t axis)
{
    for (int64_t i = 0; i + 1 < start->n && axis == 1; i++)
        count[i] = start->v[i + 1] - start->v[i];
    for (int64_t k = 0; k < column->n && axis == 0; k++)
        count[column->v[k]]++;
}

mx_array *mx_sparse_count_stored(const mx_sparse_call *call)
{
    const int64_t axis = ((const mx_getnnz_attrs *)call->attrs)->axis;
    mx_array *x = call->in[0];
    const mx_sparse *s = mx_sparse_of(x);
    if (s->stype != MX_CSR)
        return mx_sparse_refuse(call, "only the elements of a csr array can be counted");
    if (axis == MX_NONE_INT)
        return mx_numbers64_array(&s->indices->size, 1, x->context);
    const size_t bytes = (size_t)x->shape[1 - axis] * sizeof(int64_t);
    mx_numbers64 start = mx_numbers64_of(s->indptr), column = mx_numbers64_of(s->indices);
    int64_t *count = start.v && column.v ? mx_alloc_zero(bytes) : NULL;
    if (count)
        count_along(count, &start, &column, axis);
    mx_array *made = count ? mx_numbers64_array(count, x->shape[1 - axis], x->context) : NULL;
    mx_free(count, bytes);
    mx_numbers64_free(&start);
    mx_numbers64_free(&column);
    return made;
}

/* ---- which edge -------------------------------------------------------------------------------------------------- */

typedef struct edge_lists {
    mx_numbers64 start, column; /* of the graph */
    mx_numbers64 u, v;          /* which edges */
    int64_t *place;             /* (u.n) where they are stored; where there is none, the place after the last */
} edge_lists;

static mx_code find_edges(const mx_sparse_call *call, edge_lists *e)
{
    const mx_array *x = call->in[0];
    for (int64_t i = 0; i < e->u.n; i++) {
        const int64_t u = e->u.v[i], v = e->v.v[i];
        if (u < 0 || u >= x->shape[0] || v < 0 || v >= x->shape[1])
            return mx_op_fail(call->op, MX_ERR_INDEX, "(u, v) is (%lld, %lld) outside of a matrix of %lld by %lld",
                              (long long)u, (long long)v, (long long)x->shape[0], (long long)x->shape[1]);
        e->place[i] = e->column.n;
        for (int64_t k = e->start.v[u]; k < e->start.v[u + 1]; k++)
            if (e->column.v[k] == v)
                e->place[i] = k;
    }
    return MX_OK;
}

/* The stored elements and -1 after them. */
static mx_array *with_none(mx_array *data)
{
    const mx_shape_t one = {.ndim = 1, .dim = {1}};
    mx_array *none = mx_scope_add(mx_array_new(&one, (mx_dtype)data->dtype, data->context));
    return none && !mx_array_fill(none, -1) ? mx_sparse_joined((mx_array *const[]){data, none}, 2) : NULL;
}

mx_array *mx_sparse_edges(const mx_sparse_call *call)
{
    mx_array *x = call->in[0], *u = call->in[1], *v = call->in[2];
    const mx_sparse *s = mx_sparse_of(x);
    if (mx_stype_of(x) != MX_CSR || mx_is_sparse(u) || mx_is_sparse(v) || u->ndim != 1 || v->ndim != 1 ||
        u->size != v->size)
        return mx_sparse_refuse(call, "a csr array and two lists of vertices are expected");
    if (!(u = mx_sparse_int64(u)) || !(v = mx_sparse_int64(v)))
        return NULL;
    edge_lists e = {mx_numbers64_of(s->indptr), mx_numbers64_of(s->indices), mx_numbers64_of(u), mx_numbers64_of(v), 0};
    const size_t bytes = (size_t)u->size * sizeof(int64_t);
    e.place = e.start.v && e.column.v && e.u.v && e.v.v ? mx_alloc(bytes) : NULL;
    mx_array *places = e.place && !find_edges(call, &e) ? mx_numbers64_array(e.place, u->size, x->context) : NULL;
    mx_free(e.place, bytes);
    mx_numbers64_free(&e.start), mx_numbers64_free(&e.column);
    mx_numbers64_free(&e.u), mx_numbers64_free(&e.v);
    return places ? mx_sparse_rows_of(with_none(s->data), places) : NULL;
}
