/* Sparse arrays as objects: creation, checks, accessors, copies (the model is in gluon/sparse.h).
 *
 * What is created from a user's parts is fully checked here; other code relies on the invariants.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "ndarray/sparse.h"

#include <inttypes.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "ndarray/convert.h"
#include "ndarray/dtype.h"

static void destroy(mx_object *self)
{
    mx_sparse *x = (mx_sparse *)self;
    mx_release(x->data);
    mx_release(x->indices);
    mx_release(x->indptr);
    mx_release(x->array.node);
    mx_free(x, sizeof *x);
}
const mx_kind mx_sparse_kind = {"sparse array (convert it to dense first: tostype('default'))", destroy};

bool mx_array_any_ok(const mx_array *x, const char *function, const char *argument)
{
    const bool alive = x && x->object.guard == MX_OBJECT_ALIVE;
    return (alive && (x->object.kind == &mx_array_kind || mx_is_sparse(x))) || mx_array_ok(x, function, argument);
}

/* ---- names ------------------------------------------------------------------------------------------------------ */

static const char *const names[] = {"default", "row_sparse", "csr"};

const char *mx_stype_name(mx_stype stype)
{
    return stype >= MX_STYPE_DEFAULT && stype <= MX_CSR ? names[stype] : "unknown";
}

mx_stype mx_stype_from_name(const char *name)
{
    for (int i = 0; name && i <= MX_CSR; i++)
        if (!strcmp(name, names[i]))
            return (mx_stype)i;
    mx_fail(MX_ERR_ARGUMENT, "'%s' is not a storage type, wanted 'default', 'row_sparse' or 'csr'",
            name ? name : "NULL");
    return (mx_stype)-1;
}

mx_stype mx_stype_of(const mx_array *x)
{
    return x && x->object.guard == MX_OBJECT_ALIVE && mx_is_sparse(x) ? mx_sparse_of(x)->stype : MX_STYPE_DEFAULT;
}

/* ---- numbers ---------------------------------------------------------------------------------------------------- */

mx_numbers64 mx_numbers64_of(const mx_array *x)
{
    static const int64_t nothing[1];
    mx_numbers64 numbers = {nothing, x->size, NULL};
    if (!x->size)
        return numbers;
    if (mx_context_is_host(x->context)) {
        mx_array_wait(x);
        numbers.v = mx_data(x);
        return numbers;
    }
    numbers.stage = mx_alloc(mx_bytes(x));
    if (numbers.stage && mx_array_read(x, numbers.stage, mx_bytes(x))) {
        mx_free(numbers.stage, mx_bytes(x));
        numbers.stage = NULL;
    }
    numbers.v = numbers.stage;
    return numbers;
}

void mx_numbers64_free(mx_numbers64 *numbers)
{
    mx_free(numbers->stage, (size_t)numbers->n * sizeof *numbers->v);
    numbers->stage = NULL;
}

mx_array *mx_numbers64_array(const int64_t *numbers, int64_t n, mx_context context)
{
    mx_shape_t shape = {.ndim = 1, .dim = {n}};
    mx_array *x = numbers || !n ? mx_scope_add(mx_array_new(&shape, MX_INT64, context)) : NULL;
    return x && n && mx_array_write(x, numbers, mx_bytes(x)) ? NULL : x;
}

int64_t mx_row_size(const mx_array *x)
{
    int64_t size = 1;
    for (int i = 1; i < x->ndim; i++)
        size *= x->shape[i];
    return size;
}

/* ---- new references ---------------------------------------------------------------------------------------------- */

mx_array *mx_sparse_new(mx_stype stype, const mx_shape_t *shape, mx_array *data, mx_array *indices, mx_array *indptr)
{
    if (!data || !indices || (stype == MX_CSR && !indptr))
        return NULL;
    mx_array *model = mx_array_abstract(shape, (mx_dtype)data->dtype, data->context); /* checks the size, too */
    mx_sparse *x = model ? mx_alloc_zero(sizeof *x) : NULL;
    if (x) {
        x->array = *model;
        mx_object_init(&x->array.object, &mx_sparse_kind);
        x->stype = stype;
        x->data = mx_retain(data), x->indices = mx_retain(indices);
        x->indptr = stype == MX_CSR ? mx_retain(indptr) : NULL;
    }
    mx_release(model);
    return (mx_array *)x;
}

mx_array *mx_sparse_made(mx_stype stype, const mx_shape_t *shape, mx_array *data, mx_array *indices, mx_array *indptr)
{
    return mx_scope_add(mx_sparse_new(stype, shape, data, indices, indptr));
}

void mx_sparse_take(mx_array *to, const mx_array *from)
{
    mx_sparse *x = (mx_sparse *)to;
    const mx_sparse *y = mx_sparse_of(from);
    mx_array *old[3] = {x->data, x->indices, x->indptr};
    x->data = mx_retain(y->data), x->indices = mx_retain(y->indices), x->indptr = mx_retain(y->indptr);
    for (int i = 0; i < 3; i++)
        mx_release(old[i]);
}

static mx_array *part_copy(mx_array *part, mx_context context)
{
    mx_array *there = part ? mx_array_to(part, context) : NULL;
    return there == part && there ? mx_array_copy(there) : there;
}

mx_array *mx_sparse_copy(const mx_array *from, mx_context context)
{
    const mx_sparse *x = mx_sparse_of(from);
    mx_shape_t shape = mx_array_shape(from);
    context = mx_context_resolve(context);
    return mx_sparse_made(x->stype, &shape, part_copy(x->data, context), part_copy(x->indices, context),
                          part_copy(x->indptr, context));
}

/* ---- checking a user's parts ------------------------------------------------------------------------------------- */

/* Indices as int64 without history where `data` is; NULL with an error. */
static mx_array *as_indices(mx_array *x, const mx_array *data, const char *who, const char *argument)
{
    char text[MX_SHAPE_TEXT];
    if (!mx_array_ok(x, who, argument))
        return NULL;
    mx_shape_t shape = mx_array_shape(x);
    if (!x->storage || shape.ndim != 1)
        return mx_fail_null(MX_ERR_SHAPE, "%s: %s has shape %s, wanted one axis with elements", who, argument,
                            mx_shape_text(&shape, text));
    if (x->dtype != MX_INT64 && x->dtype != MX_INT32 && x->dtype != MX_UINT8 && x->dtype != MX_INT8)
        return mx_fail_null(MX_ERR_DTYPE, "%s: %s is %s, wanted integers (int64)", who, argument,
                            mx_dtype_name((mx_dtype)x->dtype));
    mx_array *there = mx_array_to(mx_detach(x), data->context);
    if (!there || there->dtype == MX_INT64)
        return there;
    mx_array *wide = mx_scope_add(mx_array_new(&shape, MX_INT64, data->context));
    return wide && !mx_array_set(wide, there) ? wide : NULL;
}

/* Checks that numbers ascend, are distinct and in [0, limit). */
static mx_code check_ascending(const int64_t *v, int64_t n, int64_t limit, const char *who, const char *what)
{
    for (int64_t i = 0; i < n; i++) {
        if (v[i] < 0 || v[i] >= limit)
            return mx_fail(MX_ERR_INDEX, "%s: indices hold the %s %" PRId64 ", wanted 0 to %" PRId64, who, what, v[i],
                           limit - 1);
        if (i && v[i] <= v[i - 1])
            return mx_fail(MX_ERR_ARGUMENT,
                           "%s: indices must ascend%s, but the %s %" PRId64 " comes after %" PRId64 "; sort them first",
                           who, *what == 'c' ? " within every row" : "", what, v[i], v[i - 1]);
    }
    return MX_OK;
}

static mx_code check_rows(const mx_array *indices, int64_t limit)
{
    mx_numbers64 rows = mx_numbers64_of(indices);
    mx_code code = rows.v ? check_ascending(rows.v, rows.n, limit, "row_sparse", "row") : mx_error_code();
    mx_numbers64_free(&rows);
    return code;
}

static mx_code check_starts(const mx_numbers64 *starts, const mx_numbers64 *columns, int64_t limit)
{
    const int64_t *s = starts->v;
    if (!s || !columns->v)
        return mx_error_code();
    if (!starts->n || s[0] != 0 || s[starts->n - 1] != columns->n)
        return mx_fail(MX_ERR_ARGUMENT, "csr: indptr must begin with 0 and end with the number of elements, %" PRId64,
                       columns->n);
    for (int64_t i = 0; i + 1 < starts->n; i++) {
        if (s[i + 1] < s[i] || s[i + 1] > columns->n)
            return mx_fail(MX_ERR_ARGUMENT,
                           "csr: indptr goes from %" PRId64 " to %" PRId64 " at row %" PRId64 "; it must not descend",
                           s[i], s[i + 1], i);
        if (check_ascending(columns->v + s[i], s[i + 1] - s[i], limit, "csr", "column"))
            return mx_error_code();
    }
    return MX_OK;
}

static mx_code check_columns(const mx_array *indptr, const mx_array *indices, int64_t limit)
{
    mx_numbers64 starts = mx_numbers64_of(indptr), columns = mx_numbers64_of(indices);
    mx_code code = check_starts(&starts, &columns, limit);
    mx_numbers64_free(&starts);
    mx_numbers64_free(&columns);
    return code;
}

/* The largest index + 1; -1 with an error. */
static int64_t extent(const mx_array *indices)
{
    mx_numbers64 numbers = mx_numbers64_of(indices);
    int64_t most = numbers.v ? 0 : -1;
    for (int64_t i = 0; numbers.v && i < numbers.n; i++)
        most = numbers.v[i] >= most && numbers.v[i] < INT64_MAX ? numbers.v[i] + 1 : most;
    mx_numbers64_free(&numbers);
    return most;
}

static mx_code bad_parts(const char *who, const mx_shape_t *shape, const mx_array *data, const mx_array *indices)
{
    char a[MX_SHAPE_TEXT], b[MX_SHAPE_TEXT], c[MX_SHAPE_TEXT];
    mx_shape_t stored = mx_array_shape(data), index = mx_array_shape(indices);
    return mx_fail(MX_ERR_SHAPE, "%s: data of shape %s and indices of shape %s do not make an array of shape %s", who,
                   mx_shape_text(&stored, a), mx_shape_text(&index, b), mx_shape_text(shape, c));
}

static mx_code complete_row_sparse(mx_shape_t *shape, mx_array *data, mx_array *indices)
{
    if (shape->ndim < 0 && data->ndim > 0) {
        *shape = mx_array_shape(data);
        shape->dim[0] = extent(indices);
    }
    bool fits = shape->ndim == data->ndim && data->ndim > 0 && indices->size == data->shape[0];
    for (int i = 1; fits && i < data->ndim; i++)
        fits = shape->dim[i] == data->shape[i];
    return fits ? check_rows(indices, shape->dim[0]) : bad_parts("row_sparse", shape, data, indices);
}

static mx_code complete_csr(mx_shape_t *shape, mx_array *data, mx_array *indices, mx_array *indptr)
{
    if (shape->ndim < 0)
        *shape = (mx_shape_t){.ndim = 2, .dim = {indptr->size - 1, extent(indices)}};
    if (shape->ndim != 2 || data->ndim != 1 || indices->size != data->size || indptr->size - 1 != shape->dim[0])
        return mx_has_error() ? mx_error_code() : bad_parts("csr", shape, data, indices);
    return check_columns(indptr, indices, shape->dim[1]);
}

/* Elements without history. */
static mx_array *as_data(mx_array *x, const char *who)
{
    if (!mx_array_ok(x, who, "data"))
        return NULL;
    if (!x->storage)
        return mx_fail_null(MX_ERR_STATE, "%s: data has a shape but no elements: it was made while tracing", who);
    return x->node ? mx_detach(x) : x;
}

static mx_array *from_parts(mx_stype stype, mx_shape_t *shape, mx_array *data, mx_array *indices, mx_array *indptr)
{
    const char *who = mx_stype_name(stype);
    const bool csr = stype == MX_CSR;
    if (!(data = as_data(data, who)) || !(indices = as_indices(indices, data, who, "indices")) ||
        (csr && !(indptr = as_indices(indptr, data, who, "indptr"))))
        return NULL;
    mx_code code = csr ? complete_csr(shape, data, indices, indptr) : complete_row_sparse(shape, data, indices);
    return code ? NULL : mx_sparse_made(stype, shape, data, indices, indptr);
}

/* ---- public ------------------------------------------------------------------------------------------------------ */

static mx_code shape_from(const mx_dims *dims, mx_shape_t *shape)
{
    char text[MX_SHAPE_TEXT];
    *shape = MX_UNKNOWN_SHAPE;
    if (dims->n < 0)
        return MX_OK;
    *shape = mx_shape_of_dims(dims);
    if (shape->ndim < 0)
        return mx_error_code();
    if (!mx_shape_known(shape))
        return mx_fail(MX_ERR_SHAPE, "cannot create a sparse array of shape %s", mx_shape_text(shape, text));
    return MX_OK;
}

mx_array *mx_row_sparse(mx_dims dims, mx_array *data, mx_array *indices)
{
    mx_shape_t shape;
    return shape_from(&dims, &shape) ? NULL : from_parts(MX_ROW_SPARSE, &shape, data, indices, NULL);
}

mx_array *mx_csr(mx_dims dims, mx_array *data, mx_array *indices, mx_array *indptr)
{
    mx_shape_t shape;
    return shape_from(&dims, &shape) ? NULL : from_parts(MX_CSR, &shape, data, indices, indptr);
}

mx_array *mx_sparse_zeros(mx_stype stype, mx_dims dims, mx_dtype dtype, mx_context context)
{
    mx_shape_t shape, none = {.ndim = 1}, stored;
    if (shape_from(&dims, &shape))
        return NULL;
    if (stype != MX_ROW_SPARSE && stype != MX_CSR)
        return mx_fail_null(MX_ERR_ARGUMENT, "mx_sparse_zeros: stype is %s, wanted row_sparse or csr",
                            mx_stype_name(stype));
    if (stype == MX_CSR ? shape.ndim != 2 : shape.ndim < 1) {
        char text[MX_SHAPE_TEXT];
        return mx_fail_null(MX_ERR_SHAPE, "mx_sparse_zeros: a %s array cannot have the shape %s", mx_stype_name(stype),
                            mx_shape_text(&shape, text));
    }
    stored = stype == MX_CSR ? none : shape;
    stored.dim[0] = 0;
    mx_shape_t starts = {.ndim = 1, .dim = {shape.dim[0] + 1}};
    mx_array *data = mx_scope_add(mx_array_new(&stored, dtype, context));
    mx_array *indices = mx_scope_add(mx_array_new(&none, MX_INT64, context)), *indptr = NULL;
    if (stype == MX_CSR) {
        indptr = mx_scope_add(mx_array_new(&starts, MX_INT64, context));
        if (!indptr || mx_array_fill(indptr, 0))
            return NULL;
    }
    return mx_sparse_made(stype, &shape, data, indices, indptr);
}

void mx_sparse_clear(mx_array *x)
{
    MX_SCOPE;
    mx_shape_t shape = mx_array_shape(x);
    const mx_array *zero =
        mx_sparse_zeros(mx_sparse_of(x)->stype, mx_dims_of_shape(&shape), (mx_dtype)x->dtype, x->context);
    if (zero)
        mx_sparse_take(x, zero);
}

mx_code mx_sparse_assign(mx_array *x, mx_array *value)
{
    MX_SCOPE;
    char a[MX_SHAPE_TEXT], b[MX_SHAPE_TEXT];
    if (!mx_array_any_ok(x, "mx_array_set", "x") || !mx_array_any_ok(value, "mx_array_set", "value"))
        return mx_error_code();
    mx_shape_t to = mx_array_shape(x), from = mx_array_shape(value);
    if (!mx_shape_equal(&to, &from))
        return mx_fail(MX_ERR_SHAPE, "mx_array_set: a sparse array takes values of its shape %s, got %s",
                       mx_shape_text(&to, a), mx_shape_text(&from, b));
    if (!mx_is_sparse(x)) {
        mx_array *dense = mx_tostype(value, MX_STYPE_DEFAULT);
        return dense ? mx_array_set(x, dense) : mx_error_code();
    }
    if (x->dtype != value->dtype)
        return mx_fail(MX_ERR_DTYPE, "mx_array_set: the sparse array is %s, the value %s",
                       mx_dtype_name((mx_dtype)x->dtype), mx_dtype_name((mx_dtype)value->dtype));
    mx_array *fitting = mx_tostype(value, mx_sparse_of(x)->stype);
    fitting = fitting ? mx_sparse_copy(fitting, x->context) : NULL;
    if (fitting)
        mx_sparse_take(x, fitting);
    return fitting ? MX_OK : mx_error_code();
}

/* ---- accessors --------------------------------------------------------------------------------------------------- */

static const mx_sparse *sparse_ok(const mx_array *x, const char *function)
{
    return mx_is_kind(x, &mx_sparse_kind, function, "x") ? mx_sparse_of(x) : NULL;
}

mx_array *mx_sparse_data(const mx_array *x)
{
    const mx_sparse *s = sparse_ok(x, "mx_sparse_data");
    return s ? s->data : NULL;
}
mx_array *mx_sparse_indices(const mx_array *x)
{
    const mx_sparse *s = sparse_ok(x, "mx_sparse_indices");
    return s ? s->indices : NULL;
}
mx_array *mx_sparse_indptr(const mx_array *x)
{
    const mx_sparse *s = sparse_ok(x, "mx_sparse_indptr");
    if (s && !s->indptr)
        return mx_fail_null(MX_ERR_ARGUMENT, "mx_sparse_indptr: x is row_sparse, wanted csr");
    return s ? s->indptr : NULL;
}
int64_t mx_sparse_count(const mx_array *x)
{
    const mx_sparse *s = sparse_ok(x, "mx_sparse_count");
    return s ? s->indices->size : -1;
}

mx_code mx_sparse_set(mx_array *x, mx_array *data, mx_array *indices, mx_array *indptr)
{
    MX_SCOPE;
    const mx_sparse *s = sparse_ok(x, "mx_sparse_set");
    mx_shape_t shape = s ? mx_array_shape(x) : MX_UNKNOWN_SHAPE;
    mx_array *made = s ? from_parts(s->stype, &shape, data, indices, indptr) : NULL;
    if (!made)
        return mx_error_code();
    if (made->dtype != x->dtype)
        return mx_fail(MX_ERR_DTYPE, "mx_sparse_set: data is %s, the array is %s", mx_dtype_name((mx_dtype)made->dtype),
                       mx_dtype_name((mx_dtype)x->dtype));
    mx_sparse_take(x, made);
    return MX_OK;
}
