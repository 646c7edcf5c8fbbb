/* Arithmetic of sparse arrays: functions of the stored elements, sums and products of two.
 *
 * Every stored row or element has a key (the row, or the index in the flat matrix).  The stored items of all operands
 * are concatenated and grouped by key; a sum adds each group, a product keeps groups that all operands are in.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "exec/sparse/sparse.h"
#include "gluon/op.gen.h"

/* ---- f(0) = 0 ---------------------------------------------------------------------------------------------------- */

static mx_array *with_data(const mx_array *like, mx_array *data)
{
    const mx_sparse *x = mx_sparse_of(like);
    mx_shape_t shape = mx_array_shape(like);
    return mx_sparse_made(x->stype, &shape, data, x->indices, x->indptr);
}

/* Whether f(0) = 0, for functions where that depends on their numbers: clip, comparisons with a number. */
static bool keeps_zeros(const mx_sparse_call *call)
{
    const mx_shape_t one = {.ndim = 1, .dim = {1}};
    mx_array *zero = mx_scope_add(mx_array_new(&one, (mx_dtype)call->in[0]->dtype, mx_cpu(0)));
    if (!zero || mx_array_fill(zero, 0))
        return false;
    mx_array *image = mx_g_call(call->op, call->attrs, 1, &zero);
    return image && mx_item(image) == 0;
}

mx_array *mx_sparse_map(const mx_sparse_call *call)
{
    mx_array *x = call->in[0];
    if (!strcmp(call->op->name, "zeros_like")) {
        mx_shape_t shape = mx_array_shape(x);
        return mx_sparse_zeros(mx_sparse_of(x)->stype, mx_dims_of_shape(&shape), (mx_dtype)x->dtype, x->context);
    }
    if (!strcmp(call->op->name, "_contrib_dgl_adjacency")) {
        const mx_sparse *s = mx_sparse_of(x);
        mx_array *ones =
            mx_scope_add(mx_array_new(&(mx_shape_t){.ndim = 1, .dim = {s->data->size}}, MX_FLOAT32, x->context));
        return with_data(x, ones && !mx_array_fill(ones, 1) ? ones : NULL);
    }
    if (call->op->schema && !keeps_zeros(call))
        return mx_has_error() ? NULL : mx_sparse_refuse(call, "zeros would not stay zero");
    return with_data(x, mx_g_call(call->op, call->attrs, 1, (mx_array *const[]){mx_sparse_of(x)->data}));
}

/* ---- concatenated operands --------------------------------------------------------------------------------------- */

typedef struct operands {
    mx_array *data;   /* of all of them, concatenated */
    mx_groups groups; /* by key */
} operands;

/* All of one storage type; false with an error.  Then the groups are to be freed. */
static bool put_together(mx_array *const *x, int n, operands *o)
{
    mx_array **data = mx_alloc((size_t)n * 2 * sizeof *data); /* (2, n): data, keys */
    bool ok = data != NULL;
    for (int i = 0; ok && i < n; i++) {
        const mx_sparse *s = mx_sparse_of(x[i]);
        data[i] = s->data, data[n + i] = s->stype == MX_CSR ? mx_flat_keys(x[i]) : s->indices;
        ok = data[n + i] != NULL;
    }
    mx_array *key = ok ? mx_sparse_joined(data + n, n) : NULL;
    o->data = ok ? mx_sparse_joined(data, n) : NULL;
    mx_free(data, (size_t)n * 2 * sizeof *data);
    if (!key || !o->data)
        return false;
    mx_numbers64 numbers = mx_numbers64_of(key);
    const int64_t limit = mx_sparse_of(x[0])->stype == MX_CSR ? x[0]->size : x[0]->shape[0];
    ok = numbers.v && !mx_groups_make(&o->groups, numbers.v, numbers.n, limit);
    mx_numbers64_free(&numbers);
    return ok;
}

/* A sparse array like x with the given data at keys[0 .. n). */
static mx_array *made_of(const mx_array *x, mx_array *data, int64_t *key, int64_t n)
{
    mx_shape_t shape = mx_array_shape(x);
    if (mx_sparse_of(x)->stype == MX_ROW_SPARSE)
        return mx_sparse_made(MX_ROW_SPARSE, &shape, data, mx_numbers64_array(key, n, x->context), NULL);
    const size_t bytes = (size_t)(shape.dim[0] + 1) * sizeof(int64_t);
    int64_t *start = mx_alloc_zero(bytes);
    for (int64_t i = 0; start && i < n; i++) {
        start[key[i] / shape.dim[1] + 1]++;
        key[i] %= shape.dim[1];
    }
    for (int64_t i = 0; start && i < shape.dim[0]; i++)
        start[i + 1] += start[i];
    mx_array *indptr = start ? mx_numbers64_array(start, shape.dim[0] + 1, x->context) : NULL;
    mx_free(start, bytes);
    return mx_sparse_made(MX_CSR, &shape, data, mx_numbers64_array(key, n, x->context), indptr);
}

/* ---- sums -------------------------------------------------------------------------------------------------------- */

/* sum of x[i], the second one times `sign` */
static mx_array *sum_of(mx_array *const *x, int n, double sign)
{
    operands o;
    mx_array *parts[2] = {x[0], n > 1 ? x[1] : NULL};
    if (sign != 1) { /* of two */
        parts[1] = mx_g_scale(x[1], sign);
        x = parts;
    }
    if (!x[1] || !put_together(x, n, &o))
        return NULL;
    mx_groups *g = &o.groups;
    mx_array *order = mx_numbers64_array(g->order, g->n, o.data->context);
    mx_array *start = mx_numbers64_array(g->start, g->count + 1, o.data->context);
    mx_array *sums = order && start ? mx_g_rows_sum(o.data, order, start, MX_NONE) : NULL;
    mx_array *made = sums ? made_of(x[0], sums, g->unique, g->count) : NULL;
    mx_groups_free(g);
    return made;
}

static bool alike(const mx_sparse_call *call, int n)
{
    const mx_shape_t first = mx_array_shape(call->in[0]);
    for (int i = 1; i < n; i++) {
        const mx_shape_t shape = mx_array_shape(call->in[i]);
        if (!mx_shape_equal(&first, &shape) || call->in[i]->dtype != call->in[0]->dtype)
            return mx_sparse_refuse(call, "the shapes or types differ"), false;
    }
    return true;
}

static bool one_stype(const mx_sparse_call *call)
{
    for (int i = 1; i < call->n_in; i++)
        if (mx_stype_of(call->in[i]) != mx_stype_of(call->in[0]))
            return false;
    return true;
}

/* The same operator on dense arrays. */
static mx_array *as_dense(const mx_sparse_call *call)
{
    mx_array **dense = mx_alloc((size_t)call->n_in * sizeof *dense), *made = NULL;
    bool ok = dense != NULL;
    for (int i = 0; ok && i < call->n_in; i++)
        ok = (dense[i] = mx_sparse_dense(call->in[i])) != NULL;
    if (ok)
        made = mx_g_call(call->op, call->attrs, call->n_in, dense);
    mx_free(dense, (size_t)call->n_in * sizeof *dense);
    return made;
}

mx_array *mx_sparse_add_n(const mx_sparse_call *call)
{
    if (!alike(call, call->n_in))
        return NULL;
    if (!one_stype(call))
        return as_dense(call);
    return call->n_in == 1 ? mx_sparse_copy(call->in[0], call->in[0]->context) : sum_of(call->in, call->n_in, 1);
}

/* ---- products ---------------------------------------------------------------------------------------------------- */

/* Groups of two: keys that both operands have.  The first of a pair is the left one's. */
static mx_array *product_of(mx_array *const *x)
{
    operands o;
    if (!put_together(x, 2, &o))
        return NULL;
    mx_groups *g = &o.groups;
    int64_t n = 0;
    for (int64_t i = 0; i < g->count; i++) {
        const int64_t at = g->start[i];
        if (g->start[i + 1] - at != 2)
            continue;
        g->unique[n] = g->unique[i]; /* n <= i and 2 n <= at: nothing that is still read is overwritten */
        const int64_t a = g->order[at], b = g->order[at + 1];
        g->order[n] = a, g->start[n] = b;
        n++;
    }
    mx_array *left = mx_sparse_rows_of(o.data, mx_numbers64_array(g->order, n, o.data->context));
    mx_array *right = mx_sparse_rows_of(o.data, mx_numbers64_array(g->start, n, o.data->context));
    mx_array *made = left && right ? made_of(x[0], mx_g2("elemwise_mul", left, right), g->unique, n) : NULL;
    mx_groups_free(g);
    return made;
}

/* x with its rows replaced by those of y: takes the last one of each group. */
mx_array *mx_sparse_overlay(mx_array *x, mx_array *y)
{
    operands o;
    if (!x || !y || !put_together((mx_array *const[]){x, y}, 2, &o))
        return NULL;
    mx_groups *g = &o.groups;
    for (int64_t i = 0; i < g->count; i++)
        g->order[i] = g->order[g->start[i + 1] - 1];
    mx_array *data = mx_sparse_rows_of(o.data, mx_numbers64_array(g->order, g->count, o.data->context));
    mx_array *made = data ? made_of(x, data, g->unique, g->count) : NULL;
    mx_groups_free(g);
    return made;
}

/* A dense array's elements at the stored positions of x. */
static mx_array *elements_at(mx_array *dense, const mx_array *x)
{
    const mx_sparse *s = mx_sparse_of(x);
    mx_shape_t flat = {.ndim = 1, .dim = {dense->size}};
    return s->stype == MX_CSR ? mx_sparse_rows_of(mx_g_reshape(dense, &flat), mx_flat_keys(x))
                              : mx_sparse_rows_of(dense, s->indices);
}

static mx_array *scaled_by(const mx_sparse_call *call, mx_op *op)
{
    mx_array *a = call->in[0], *b = call->in[1];
    const bool left = mx_is_sparse(a);
    mx_array *sparse = left ? a : b, *dense = left ? b : a;
    return with_data(sparse, mx_g_call(op, NULL, 2, (mx_array *const[]){mx_sparse_of(sparse)->data,
                                                                        elements_at(dense, sparse)}));
}

/* A sparse array times or divided by a dense one that broadcasts to its shape: one number, for a csr also a row, a column. */
static bool is_scaling(const mx_array *a, const mx_array *b, const char *what)
{
    if (!mx_is_sparse(a) || mx_is_sparse(b) || a->dtype != b->dtype || (strcmp(what, "mul") && strcmp(what, "div")))
        return false;
    if (b->size == 1 && b->ndim <= 1)
        return a->size != 1;
    if (mx_sparse_of(a)->stype != MX_CSR || b->ndim < 1 || b->ndim > 2)
        return false;
    const int64_t rows = b->ndim == 2 ? b->shape[0] : 1, columns = b->shape[b->ndim - 1];
    return (rows == 1 || rows == a->shape[0]) && (columns == 1 || columns == a->shape[1]) && b->size != a->size;
}

/* The elements of b, which is one row or one column, that meet the stored elements of a csr. */
static mx_array *elements_along(mx_array *b, const mx_array *csr)
{
    const int64_t columns = csr->shape[1];
    mx_shape_t flat = {.ndim = 1, .dim = {b->size}};
    const bool row = b->shape[b->ndim - 1] != 1;
    if (row)
        return mx_sparse_rows_of(mx_g_reshape(b, &flat), mx_sparse_of(csr)->indices);
    mx_array *keys = mx_flat_keys(csr);
    if (!keys)
        return NULL;
    mx_numbers64 key = mx_numbers64_of(keys);
    const size_t bytes = (size_t)key.n * sizeof(int64_t);
    int64_t *own = key.v ? mx_alloc(bytes) : NULL;
    for (int64_t i = 0; own && i < key.n; i++)
        own[i] = key.v[i] / columns;
    mx_array *rows = own ? mx_numbers64_array(own, key.n, csr->context) : NULL;
    mx_free(own, bytes);
    mx_numbers64_free(&key);
    return rows ? mx_sparse_rows_of(mx_g_reshape(b, &flat), rows) : NULL;
}

static mx_array *scaled(const mx_sparse_call *call)
{
    mx_array *a = call->in[0], *b = call->in[1];
    if (b->size != 1 && !(b = elements_along(b, a)))
        return NULL;
    if (b->ndim > 1) { /* (1, 1) */
        const mx_shape_t one = {.ndim = 1, .dim = {1}};
        b = mx_g_reshape(b, &one);
    }
    return b ? with_data(a, mx_g_call(call->op, call->attrs, 2, (mx_array *const[]){mx_sparse_of(a)->data, b})) : NULL;
}

mx_array *mx_sparse_combine(const mx_sparse_call *call)
{
    const char *what = strrchr(call->op->name, '_') + 1;
    mx_array *a = call->in[0], *b = call->in[1];
    if (a != MX_NONE && b != MX_NONE && is_scaling(a, b, what))
        return scaled(call);
    if (a == MX_NONE || b == MX_NONE || !alike(call, 2))
        return mx_sparse_refuse(call, "two arrays of one shape and type are expected");
    const bool both = mx_is_sparse(a) && mx_is_sparse(b), add = !strcmp(what, "add");
    if (add || !strcmp(what, "sub")) {
        if (both && one_stype(call))
            return sum_of(call->in, 2, add ? 1 : -1);
        return as_dense(call);
    }
    if (!strcmp(what, "mul"))
        return both              ? (one_stype(call) ? product_of(call->in) : as_dense(call))
               : mx_is_sparse(a) ? scaled_by(call, MX_OP("elemwise_mul"))
                                 : as_dense(call);
    if (!both && mx_is_sparse(a))
        return scaled_by(call, MX_OP("elemwise_div"));
    return mx_sparse_refuse(call, "the divisor must be dense");
}
