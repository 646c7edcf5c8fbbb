/* From one storage to another: tostype, cast_storage, and a csr from triples.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "base/alloc.h"
#include "base/error.h"
#include "exec/sparse/sparse.h"
#include "exec/tape.h"
#include "gluon/op.gen.h"
#include "ndarray/dtype.h"

/* ---- sparse to dense: zeros, and the parts written into them ---------------------------------------------------- */

static mx_array *zeros_of(const mx_array *x, const mx_shape_t *shape)
{
    mx_array *zero = mx_scope_add(mx_array_new(shape, (mx_dtype)x->dtype, x->context));
    return zero && !mx_array_fill(zero, 0) ? zero : NULL;
}

mx_array *mx_flat_keys(const mx_array *csr)
{
    const mx_sparse *x = mx_sparse_of(csr);
    const int64_t n = x->indices->size, rows = csr->shape[0], columns = csr->shape[1];
    mx_numbers64 column = mx_numbers64_of(x->indices), start = mx_numbers64_of(x->indptr);
    const size_t bytes = (size_t)n * sizeof(int64_t);
    int64_t *key = column.v && start.v ? mx_alloc(bytes) : NULL;
    for (int64_t i = 0; key && i < rows; i++)
        for (int64_t k = start.v[i]; k < start.v[i + 1]; k++)
            key[k] = i * columns + column.v[k];
    mx_array *keys = key ? mx_numbers64_array(key, n, csr->context) : NULL;
    mx_free(key, bytes);
    mx_numbers64_free(&column);
    mx_numbers64_free(&start);
    return keys;
}

static mx_array *to_dense(const mx_array *x)
{
    const mx_sparse *s = mx_sparse_of(x);
    const bool csr = s->stype == MX_CSR;
    mx_shape_t shape = mx_array_shape(x), flat = {.ndim = 1, .dim = {x->size}};
    mx_array *dense = zeros_of(x, csr ? &flat : &shape), *places = csr ? mx_flat_keys(x) : s->indices;
    if (!dense || !places || (s->data->size && mx_assign(dense, s->data, MX_PICK(places))))
        return NULL;
    return csr ? mx_scope_add(mx_array_view(dense, 0, &shape, (mx_dtype)x->dtype)) : dense;
}

mx_array *mx_sparse_dense(mx_array *x) { return x && mx_is_sparse(x) ? to_dense(x) : x; }

/* ---- dense to sparse: non-zero elements -------------------------------------------------------------------------- */

typedef struct found {
    int64_t *place; /* (capacity) non-zero rows, or columns of non-zero elements */
    int64_t *start; /* (rows + 1) how many were found before each row */
    int64_t count;
} found;

/* An element is zero if none of the bits in `mask` is set: all but the sign of floats.  One function per item size:
 * finds the non-zero rows (whole), or all non-zero elements. */
#define SCAN(type)                                                                                               \
    static void scan_##type(const void *elements, int64_t rows, int64_t columns, type mask, bool whole, found *f) \
    {                                                                                                            \
        const type *x = elements;                                                                                \
        for (int64_t i = 0; i < rows; i++, x += columns) {                                                       \
            f->start[i] = f->count;                                                                              \
            for (int64_t k = 0; k < columns; k++)                                                                \
                if (x[k] & mask) {                                                                               \
                    f->place[f->count++] = whole ? i : k;                                                        \
                    if (whole)                                                                                   \
                        break;                                                                                   \
                }                                                                                                \
        }                                                                                                        \
        f->start[rows] = f->count;                                                                               \
    }
SCAN(uint8_t)
SCAN(uint16_t)
SCAN(uint32_t)
SCAN(uint64_t)

static void scan(const mx_array *x, const void *elements, bool whole, found *f)
{
    const int64_t rows = x->shape[0], columns = mx_row_size(x), size = mx_dtype_size((mx_dtype)x->dtype);
    const uint64_t sign = mx_dtype_is_float(x->dtype) ? (uint64_t)1 << (8 * size - 1) : 0;
    if (size == 1)
        scan_uint8_t(elements, rows, columns, (uint8_t)~sign, whole, f);
    else if (size == 2)
        scan_uint16_t(elements, rows, columns, (uint16_t)~sign, whole, f);
    else if (size == 4)
        scan_uint32_t(elements, rows, columns, (uint32_t)~sign, whole, f);
    else
        scan_uint64_t(elements, rows, columns, ~sign, whole, f);
}

static mx_array *flat_places(const found *f, int64_t rows, int64_t columns, mx_context context)
{
    const size_t bytes = (size_t)f->count * sizeof(int64_t);
    int64_t *key = mx_alloc(bytes);
    for (int64_t i = 0; key && i < rows; i++)
        for (int64_t k = f->start[i]; k < f->start[i + 1]; k++)
            key[k] = i * columns + f->place[k];
    mx_array *keys = key ? mx_numbers64_array(key, f->count, context) : NULL;
    mx_free(key, bytes);
    return keys;
}

mx_array *mx_sparse_rows_of(mx_array *x, mx_array *rows)
{
    const mx_take_attrs attrs = {.axis = 0, .mode = MX_TAKE_CLIP};
    if (rows && x && !rows->size) { /* no rows, also if x has none */
        mx_shape_t none = mx_array_shape(x);
        none.dim[0] = 0;
        return mx_scope_add(mx_array_new(&none, (mx_dtype)x->dtype, x->context));
    }
    return mx_g_call(MX_OP("take"), &attrs, 2, (mx_array *const[]){x, rows});
}

static mx_array *collect(mx_array *x, mx_stype stype, const mx_shape_t *shape, const found *f)
{
    mx_array *indices = mx_numbers64_array(f->place, f->count, x->context);
    if (stype == MX_ROW_SPARSE)
        return mx_sparse_made(stype, shape, mx_sparse_rows_of(x, indices), indices, NULL);
    mx_shape_t flat = {.ndim = 1, .dim = {x->size}};
    mx_array *keys = flat_places(f, shape->dim[0], shape->dim[1], x->context);
    mx_array *all = mx_scope_add(mx_array_view(x, 0, &flat, (mx_dtype)x->dtype));
    return mx_sparse_made(stype, shape, mx_sparse_rows_of(all, keys), indices,
                          mx_numbers64_array(f->start, shape->dim[0] + 1, x->context));
}

static mx_array *from_dense(mx_array *x, mx_stype stype)
{
    char text[MX_SHAPE_TEXT];
    mx_shape_t shape = mx_array_shape(x);
    if (stype == MX_CSR ? shape.ndim != 2 : shape.ndim < 1)
        return mx_fail_null(MX_ERR_SHAPE, "tostype('%s'): the array has shape %s, wanted %s", mx_stype_name(stype),
                            mx_shape_text(&shape, text), stype == MX_CSR ? "two axes" : "at least one axis");
    const int64_t rows = shape.dim[0], columns = mx_row_size(x);
    const int64_t blocks = stype == MX_CSR ? rows * columns : rows;
    const size_t bytes = mx_bytes(x), place = (size_t)blocks * 8, start = (size_t)(rows + 1) * 8;
    const bool host = mx_context_is_host(x->context);
    char *elements = host ? mx_array_data(x) : mx_alloc(bytes);
    found f = {mx_alloc(place), mx_alloc_zero(start), 0};
    mx_array *made = NULL;
    if ((elements || !bytes) && f.place && f.start && (host || !mx_array_read(x, elements, bytes))) {
        scan(x, elements, stype == MX_ROW_SPARSE, &f);
        made = collect(x, stype, &shape, &f);
    }
    if (!host)
        mx_free(elements, bytes);
    mx_free(f.place, place);
    mx_free(f.start, start);
    return made;
}

mx_array *mx_tostype(mx_array *x, mx_stype stype)
{
    if (!mx_array_any_ok(x, "mx_tostype", "x"))
        return NULL;
    if (stype < MX_STYPE_DEFAULT || stype > MX_CSR)
        return mx_fail_null(MX_ERR_ARGUMENT, "mx_tostype: %d is not a storage type", (int)stype);
    const mx_stype now = mx_stype_of(x);
    if (now == stype)
        return x;
    if (now == MX_STYPE_DEFAULT && !x->storage)
        return mx_fail_null(MX_ERR_STATE, "mx_tostype: x has a shape but no elements: it was made while tracing");
    mx_array *result = NULL;
    { /* temporaries are released at once */
        MX_SCOPE;
        mx_mode mode = mx_mode_enter(0, -1);
        mx_array *dense = now == MX_STYPE_DEFAULT ? mx_detach(x) : to_dense(x);
        result = mx_retain(stype == MX_STYPE_DEFAULT ? dense : dense ? from_dense(dense, stype) : NULL);
        mx_mode_leave(&mode);
    }
    const mx_cast_storage_attrs attrs = {.stype = (int)stype};
    if (result && mx_thread.modes.recording && mx_tape_append(MX_OP("cast_storage"), &attrs, 1, &x, 1, &result)) {
        mx_release(result);
        return NULL;
    }
    return mx_scope_add(result);
}

/* ---- triples ----------------------------------------------------------------------------------------------------- */

/* A csr of the elements in the order of their keys (row * columns + column); those of one key are added. */
static mx_array *csr_of_groups(const mx_shape_t *shape, mx_array *data, mx_groups *g)
{
    const int64_t rows = shape->dim[0], columns = shape->dim[1];
    mx_array *order = mx_numbers64_array(g->order, g->n, data->context);
    mx_array *start = mx_numbers64_array(g->start, g->count + 1, data->context);
    mx_array *sums = order && start ? mx_g_rows_sum(data, order, start, MX_NONE) : NULL;
    const size_t bytes = (size_t)(rows + 1) * sizeof(int64_t);
    int64_t *first = mx_alloc_zero(bytes);
    for (int64_t i = 0; first && i < g->count; i++) {
        first[g->unique[i] / columns + 1]++;
        g->unique[i] %= columns;
    }
    for (int64_t i = 0; first && i < rows; i++)
        first[i + 1] += first[i];
    mx_array *indptr = first ? mx_numbers64_array(first, rows + 1, data->context) : NULL;
    mx_free(first, bytes);
    return mx_sparse_made(MX_CSR, shape, sums, mx_numbers64_array(g->unique, g->count, data->context), indptr);
}

static mx_array *csr_of_keys(const mx_shape_t *shape, mx_array *data, const int64_t *key)
{
    mx_groups groups;
    if (mx_groups_make(&groups, key, data->size, mx_shape_size(shape)))
        return NULL;
    mx_array *made = csr_of_groups(shape, data, &groups);
    mx_groups_free(&groups);
    return made;
}

static mx_code keys_of_triples(const mx_shape_t *shape, const mx_numbers64 *row, const mx_numbers64 *column,
                               int64_t *key)
{
    for (int64_t i = 0; i < row->n; i++) {
        if (row->v[i] < 0 || row->v[i] >= shape->dim[0] || column->v[i] < 0 || column->v[i] >= shape->dim[1])
            return mx_fail(MX_ERR_INDEX, "mx_csr_triples: element %lld is at (%lld, %lld), outside of (%lld, %lld)",
                           (long long)i, (long long)row->v[i], (long long)column->v[i], (long long)shape->dim[0],
                           (long long)shape->dim[1]);
        key[i] = row->v[i] * shape->dim[1] + column->v[i];
    }
    return MX_OK;
}

static int64_t extent(const mx_numbers64 *numbers)
{
    int64_t most = 0;
    for (int64_t i = 0; i < numbers->n; i++)
        most = numbers->v[i] >= most && numbers->v[i] < INT64_MAX ? numbers->v[i] + 1 : most;
    return most;
}

mx_array *mx_csr_triples(mx_dims dims, mx_array *data, mx_array *rows, mx_array *columns)
{
    mx_array *parts[3] = {data, rows, columns};
    static const char *const names[] = {"data", "rows", "columns"};
    for (int i = 0; i < 3; i++) {
        if (!mx_array_ok(parts[i], "mx_csr_triples", names[i]))
            return NULL;
        if (!parts[i]->storage || parts[i]->ndim != 1 || parts[i]->size != data->size)
            return mx_fail_null(MX_ERR_SHAPE, "mx_csr_triples: %s must have one axis of %lld elements", names[i],
                                (long long)data->size);
        if (i && parts[i]->dtype != MX_INT64)
            return mx_fail_null(MX_ERR_DTYPE, "mx_csr_triples: %s is %s, wanted int64", names[i],
                                mx_dtype_name((mx_dtype)parts[i]->dtype));
    }
    mx_numbers64 row = mx_numbers64_of(rows), column = mx_numbers64_of(columns);
    const size_t bytes = (size_t)data->size * sizeof(int64_t);
    int64_t *key = row.v && column.v ? mx_alloc(bytes) : NULL;
    mx_shape_t shape = {.ndim = 2};
    if (dims.n < 0)
        shape.dim[0] = extent(&row), shape.dim[1] = extent(&column);
    else
        shape = mx_shape_of_dims(&dims);
    mx_array *made = NULL;
    if (shape.ndim != 2 || !mx_shape_known(&shape))
        mx_fail(MX_ERR_SHAPE, "mx_csr_triples: the shape must have two axes");
    else if (key && mx_shape_size(&shape) >= 0 && !keys_of_triples(&shape, &row, &column, key))
        made = csr_of_keys(&shape, mx_detach(data), key);
    mx_free(key, bytes);
    mx_numbers64_free(&row);
    mx_numbers64_free(&column);
    return made;
}

/* ---- cast_storage ------------------------------------------------------------------------------------------------ */

mx_array *mx_sparse_cast(const mx_sparse_call *call)
{
    const mx_cast_storage_attrs *a = call->attrs;
    mx_array *x = call->in[0];
    mx_array *made = mx_tostype(x, (mx_stype)a->stype);
    return made == x ? mx_sparse_copy(x, x->context) : made;
}
