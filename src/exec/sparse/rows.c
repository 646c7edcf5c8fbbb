/* Rows of sparse arrays: lists of rows, concatenation, retain, Embedding.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "exec/sparse/sparse.h"
#include "gluon/op.gen.h"

mx_array *mx_sparse_int64(mx_array *x)
{
    const mx_cast_attrs attrs = {.dtype = MX_INT64};
    mx_shape_t flat = {.ndim = 1, .dim = {x->size}};
    x = mx_g_reshape(x, &flat);
    return x && x->dtype != MX_INT64 ? mx_g_call(MX_OP("Cast"), &attrs, 1, &x) : x;
}

/* ---- concatenation, lists of rows of a csr ------------------------------------------------------------------------- */

mx_array *mx_sparse_joined(mx_array *const *parts, int n)
{
    const mx_concat_attrs attrs = {.num_args = n, .dim = 0};
    return mx_g_call(MX_OP("Concat"), &attrs, n, parts);
}

mx_array *mx_sparse_concat(const mx_sparse_call *call)
{
    const mx_concat_attrs *a = call->attrs;
    mx_array *data[64], *indices[64];
    mx_shape_t shape = mx_array_shape(call->in[0]);
    if (call->n_in > 64 || (a->dim != 0 && a->dim != -2))
        return mx_sparse_refuse(call, "at most 64 csr arrays can be joined, along axis 0");
    shape.dim[0] = 0;
    for (int i = 0; i < call->n_in; i++) {
        const mx_sparse *x = mx_sparse_of(call->in[i]);
        if (mx_stype_of(call->in[i]) != MX_CSR || call->in[i]->shape[1] != shape.dim[1])
            return mx_sparse_refuse(call, "all inputs must be csr arrays with as many columns");
        data[i] = x->data, indices[i] = x->indices, shape.dim[0] += call->in[i]->shape[0];
    }
    const size_t bytes = (size_t)(shape.dim[0] + 1) * sizeof(int64_t);
    int64_t *first = mx_alloc(bytes), at = 0, before = 0;
    for (int i = 0; first && i < call->n_in; i++) {
        mx_numbers64 start = mx_numbers64_of(mx_sparse_of(call->in[i])->indptr);
        for (int64_t k = 0; start.v && k + 1 < start.n; k++)
            first[at++] = before + start.v[k];
        before += indices[i]->size;
        mx_numbers64_free(&start);
    }
    if (first)
        first[shape.dim[0]] = before;
    mx_array *indptr = first ? mx_numbers64_array(first, shape.dim[0] + 1, call->in[0]->context) : NULL;
    mx_free(first, bytes);
    return indptr ? mx_sparse_made(MX_CSR, &shape, mx_sparse_joined(data, call->n_in),
                                   mx_sparse_joined(indices, call->n_in), indptr)
                  : NULL;
}

/* Rows of a csr by number, clipped to the existing ones. */
static mx_array *listed_rows(const mx_array *x, const mx_numbers64 *wanted)
{
    const mx_sparse *s = mx_sparse_of(x);
    mx_numbers64 start = mx_numbers64_of(s->indptr);
    mx_shape_t shape = {.ndim = 2, .dim = {wanted->n, x->shape[1]}};
    const size_t bytes = (size_t)(wanted->n + 1) * sizeof(int64_t);
    int64_t *first = start.v ? mx_alloc_zero(bytes) : NULL, *row = first ? mx_alloc(bytes) : NULL;
    for (int64_t i = 0; row && i < wanted->n; i++) {
        const int64_t k = wanted->v[i];
        row[i] = k < 0 ? 0 : k >= x->shape[0] ? x->shape[0] - 1 : k;
        first[i + 1] = first[i] + start.v[row[i] + 1] - start.v[row[i]];
    }
    const int64_t n = row ? first[wanted->n] : 0;
    int64_t *element = row ? mx_alloc((size_t)n * sizeof(int64_t)) : NULL;
    for (int64_t i = 0; element && i < wanted->n; i++)
        for (int64_t k = first[i]; k < first[i + 1]; k++)
            element[k] = start.v[row[i]] + k - first[i];
    mx_array *elements = element ? mx_numbers64_array(element, n, x->context) : NULL, *made = NULL;
    if (elements)
        made = mx_sparse_made(MX_CSR, &shape, mx_sparse_rows_of(s->data, elements),
                              mx_sparse_rows_of(s->indices, elements),
                              mx_numbers64_array(first, wanted->n + 1, x->context));
    mx_free(element, (size_t)n * sizeof(int64_t));
    mx_free(row, bytes);
    mx_free(first, bytes);
    mx_numbers64_free(&start);
    return made;
}

mx_array *mx_sparse_take_rows(const mx_sparse_call *call)
{
    const mx_take_attrs *a = call->attrs;
    mx_array *x = call->in[0], *indices = call->in[1];
    if (!strcmp(call->op->name, "_contrib_edge_id"))
        return mx_sparse_edges(call);
    if (mx_stype_of(x) != MX_CSR || indices == MX_NONE || mx_is_sparse(indices) || indices->ndim != 1 ||
        (a->axis != 0 && a->axis != -2) || a->mode != MX_TAKE_CLIP || (!x->shape[0] && indices->size))
        return mx_sparse_refuse(call, "only rows of a csr array can be taken, by a list of numbers, with mode 'clip'");
    if (!(indices = mx_sparse_int64(indices)))
        return NULL;
    mx_numbers64 wanted = mx_numbers64_of(indices);
    mx_array *made = wanted.v ? listed_rows(x, &wanted) : NULL;
    mx_numbers64_free(&wanted);
    return made;
}

/* ---- rows of a row_sparse array by number ------------------------------------------------------------------------ */

/* The position of each requested row among the stored ones, -1: none. */
static void find_rows(const mx_numbers64 *wanted, const mx_numbers64 *have, int64_t *place)
{
    for (int64_t i = 0; i < wanted->n; i++) {
        int64_t low = 0, high = have->n;
        while (low < high) {
            const int64_t middle = low + (high - low) / 2;
            if (have->v[middle] < wanted->v[i])
                low = middle + 1;
            else
                high = middle;
        }
        place[i] = low < have->n && have->v[low] == wanted->v[i] ? low : -1;
    }
}

/* Rows of a row_sparse x by number; zeros where it has none. */
static mx_array *rows_by_number(const mx_array *x, const mx_numbers64 *wanted)
{
    const mx_sparse *s = mx_sparse_of(x);
    mx_numbers64 have = mx_numbers64_of(s->indices);
    const size_t bytes = (size_t)(wanted->n + 1) * sizeof(int64_t);
    int64_t *place = mx_alloc(bytes), *start = mx_alloc(bytes), n = 0;
    mx_array *made = NULL;
    if (place && start && have.v) {
        find_rows(wanted, &have, place);
        for (int64_t i = 0; i < wanted->n; i++) {
            start[i] = n;
            if (place[i] >= 0)
                place[n++] = place[i];
        }
        start[wanted->n] = n;
        mx_array *row = mx_numbers64_array(place, n, x->context);
        mx_array *first = mx_numbers64_array(start, wanted->n + 1, x->context);
        made = row && first ? mx_g_rows_sum(s->data, row, first, MX_NONE) : NULL;
    }
    mx_free(place, bytes);
    mx_free(start, bytes);
    mx_numbers64_free(&have);
    return made;
}

/* Row numbers below `limit`, ascending and each once: groups->unique. */
static mx_code wanted_rows(mx_groups *groups, mx_array *indices, int64_t limit, const char *who)
{
    if (!(indices = mx_sparse_int64(indices)))
        return mx_error_code();
    mx_numbers64 wanted = mx_numbers64_of(indices);
    mx_code code = wanted.v ? MX_OK : mx_error_code();
    for (int64_t i = 0; !code && i < wanted.n; i++)
        if (wanted.v[i] < 0 || wanted.v[i] >= limit)
            code = mx_fail(MX_ERR_INDEX, "%s: row %lld was requested, but there are %lld", who, (long long)wanted.v[i],
                           (long long)limit);
    code = code ? code : mx_groups_make(groups, wanted.v, wanted.n, limit);
    mx_numbers64_free(&wanted);
    return code;
}

mx_array *mx_sparse_pick(mx_array *x, mx_array *row_ids, const char *who)
{
    mx_groups groups;
    mx_shape_t shape = mx_array_shape(x);
    if (shape.ndim < 1 || wanted_rows(&groups, row_ids, shape.dim[0], who))
        return mx_has_error() ? NULL : mx_fail_null(MX_ERR_SHAPE, "%s has no rows", who);
    mx_array *rows = mx_numbers64_array(groups.unique, groups.count, x->context);
    mx_groups_free(&groups);
    return mx_sparse_made(MX_ROW_SPARSE, &shape, mx_sparse_rows_of(x, rows), rows, NULL);
}

/* The result has the requested rows, each once. */
mx_array *mx_sparse_keep(const mx_sparse_call *call)
{
    mx_array *x = call->in[0], *indices = call->in[1];
    mx_shape_t shape = mx_array_shape(x);
    if (mx_stype_of(x) != MX_ROW_SPARSE || mx_is_sparse(indices))
        return mx_sparse_refuse(call, "data must be row_sparse, indices a dense array");
    mx_groups groups;
    if (wanted_rows(&groups, indices, shape.dim[0], call->op->name))
        return NULL;
    const mx_numbers64 unique = {groups.unique, groups.count, NULL};
    mx_array *rows = mx_numbers64_array(groups.unique, groups.count, x->context);
    mx_array *made = mx_sparse_made(MX_ROW_SPARSE, &shape, rows_by_number(x, &unique), rows, NULL);
    mx_groups_free(&groups);
    return made;
}

/* Embedding of a row_sparse weight: rows that it does not have are zero. */
mx_array *mx_sparse_embed(const mx_sparse_call *call)
{
    mx_array *data = call->in[0], *weight = call->in[1];
    const mx_embedding_attrs *a = call->attrs;
    if (mx_is_sparse(data) || mx_stype_of(weight) != MX_ROW_SPARSE)
        return mx_sparse_refuse(call, "only the weight may be sparse, and then row_sparse");
    if (weight->ndim != 2 || weight->shape[0] != a->input_dim || weight->shape[1] != a->output_dim ||
        data->ndim == MX_MAX_NDIM)
        return mx_op_fail(call->op, MX_ERR_SHAPE, "weight must have shape (%lld, %lld)", (long long)a->input_dim,
                          (long long)a->output_dim),
               NULL;
    mx_shape_t out = mx_array_shape(data);
    out.dim[out.ndim++] = a->output_dim;
    mx_array *indices = mx_sparse_int64(data);
    const mx_clip_attrs clip = {.a_min = 0, .a_max = (double)(weight->shape[0] - 1)};
    indices = indices ? mx_g_call(MX_OP("clip"), &clip, 1, &indices) : NULL;
    if (!indices)
        return NULL;
    mx_numbers64 wanted = mx_numbers64_of(indices);
    mx_array *rows = wanted.v ? rows_by_number(weight, &wanted) : NULL;
    mx_numbers64_free(&wanted);
    return rows ? mx_g_reshape(rows, &out) : NULL;
}
