/* Normalising the keys of x[...], with NumPy's semantics (see index.h).
 *
 *     x[1, ..., None, 2:9:3, [4, 0]]
 *
 * Integers drop their axis, slices keep it, None adds a new one, ... expands to as many full axes as are left.
 * Index arrays are broadcast together; integers beside them count as index arrays.  Their common axes take the place of
 * the first of them if all are adjacent, else they come first.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "exec/index.h"
#include "ndarray/convert.h"

static bool takes_axis(const mx_key *key)
{
    return key->kind == MX_KEY_INT || key->kind == MX_KEY_SLICE || key->kind == MX_KEY_ARRAY;
}

/* ---- keys --------------------------------------------------------------------------------------------------- */

static mx_code set_integer(mx_selection *s, int axis, int64_t size, int64_t i, const char *who)
{
    if (i < -size || i >= size)
        return mx_fail(MX_ERR_INDEX, "%s: index %lld is out of bounds for axis %d with size %lld", who, (long long)i,
                       axis, (long long)size);
    s->axis[axis] = (mx_source_axis){.span = {i < 0 ? i + size : i, 1, 1}, .integer = true};
    s->integers++;
    return MX_OK;
}

static mx_code set_slice(mx_selection *s, int axis, int64_t size, const mx_key *key, const char *who)
{
    if (key->step == 0)
        return mx_fail(MX_ERR_INDEX, "%s: the step of the slice of axis %d is 0", who, axis);
    mx_span span = mx_span_of(size, key->start, key->stop, key->step);
    s->axis[axis] =
        (mx_source_axis){.span = span, .full = span.n == size && span.begin == 0 && (span.step == 1 || size <= 1)};
    return MX_OK;
}

static mx_code set_array(mx_selection *s, int axis, mx_array *index, const char *who)
{
    char a[MX_SHAPE_TEXT], b[MX_SHAPE_TEXT];
    if (!mx_array_ok(index, who, "an index array"))
        return mx_error_code();
    if (index->dtype == MX_BOOL)
        return mx_fail(MX_ERR_ARGUMENT,
                       "%s: the index of axis %d is a boolean array, wanted integers; use mx_boolean_mask()", who,
                       axis);
    mx_shape_t shape = {.ndim = index->ndim}, joint;
    memcpy(shape.dim, index->shape, sizeof shape.dim);
    if (!mx_shape_broadcast(&s->broadcast, &shape, &joint))
        return mx_fail(MX_ERR_INDEX, "%s: index arrays of shapes %s and %s do not broadcast together", who,
                       mx_shape_text(&s->broadcast, a), mx_shape_text(&shape, b));
    s->broadcast = joint;
    s->axis[axis] = (mx_source_axis){.index = index};
    s->arrays++;
    return MX_OK;
}

static mx_code set_key(mx_selection *s, int axis, const mx_array *x, const mx_key *key, const char *who)
{
    switch (key->kind) {
    case MX_KEY_INT: return set_integer(s, axis, x->shape[axis], key->start, who);
    case MX_KEY_SLICE: return set_slice(s, axis, x->shape[axis], key, who);
    case MX_KEY_ARRAY: return set_array(s, axis, key->index, who);
    default: return mx_fail(MX_ERR_ARGUMENT, "%s: a key has kind %d, which does not exist", who, (int)key->kind);
    }
}

static mx_code check_keys(const mx_array *x, const mx_key *keys, int count, const char *who, int *whole)
{
    int taken = 0, ellipses = 0;
    if (count < 0 || (count && !keys))
        return mx_fail(MX_ERR_ARGUMENT, "%s: keys is NULL or count is negative", who);
    for (int i = 0; i < count; i++) {
        taken += takes_axis(&keys[i]);
        ellipses += keys[i].kind == MX_KEY_ELLIPSIS;
    }
    if (ellipses > 1)
        return mx_fail(MX_ERR_INDEX, "%s: an index can have only one ellipsis", who);
    if (taken > x->ndim)
        return mx_fail(MX_ERR_INDEX, "%s: too many indices: the array has %d axes, but %d were indexed", who, x->ndim,
                       taken);
    *whole = x->ndim - taken;
    return MX_OK;
}

/* ---- the result's axes ------------------------------------------------------------------------------------------ */

static mx_code add_result(mx_selection *s, mx_result_axis axis, const char *who)
{
    if (s->n_result == 2 * MX_MAX_NDIM)
        return mx_fail(MX_ERR_INDEX, "%s: the result has too many axes", who);
    s->result[s->n_result++] = axis;
    return MX_OK;
}

/* Puts the axes of the index arrays before result axis `at`. */
static mx_code insert_index_axes(mx_selection *s, int at, const char *who)
{
    const int n = s->broadcast.ndim;
    if (s->n_result + n > 2 * MX_MAX_NDIM)
        return mx_fail(MX_ERR_INDEX, "%s: the result has too many axes", who);
    memmove(s->result + at + n, s->result + at, (size_t)(s->n_result - at) * sizeof *s->result);
    for (int i = 0; i < n; i++)
        s->result[at + i] = (mx_result_axis){MX_AXIS_INDEX, i, s->broadcast.dim[i]};
    s->n_result += n;
    return MX_OK;
}

static mx_code finish_shape(mx_selection *s, const char *who)
{
    s->shape.ndim = 0;
    if (s->n_result > MX_MAX_NDIM)
        return mx_fail(MX_ERR_INDEX, "%s: the result has %d axes, at most %d are possible", who, s->n_result,
                       MX_MAX_NDIM);
    for (int i = 0; i < s->n_result; i++)
        s->shape.dim[s->shape.ndim++] = s->result[i].size;
    if (!s->shape.ndim && s->ndim && !mx_is_np_shape())
        s->shape = (mx_shape_t){1, {1}}; /* classic arrays keep one axis */
    return MX_OK;
}

/* Adjacency: 0 before the first advanced key, 1 among them, 2 after them, 3 if there is another one. */
typedef struct placing {
    int state, at; /* at: result axis before which their axes go */
} placing;

static void see_key(placing *p, const mx_selection *s, const mx_key *key)
{
    const bool advanced = key->kind == MX_KEY_ARRAY || key->kind == MX_KEY_INT;
    if (advanced && p->state == 0)
        p->state = 1, p->at = s->n_result;
    else if (!advanced && p->state == 1)
        p->state = 2;
    else if (advanced && p->state == 2)
        p->state = 3;
}

mx_code mx_select(const mx_array *x, const mx_key *keys, int count, const char *who, mx_selection *s)
{
    static const mx_key all = MX_ALL;
    placing place = {0, 0};
    int axis = 0, whole = 0;
    mx_code code = check_keys(x, keys, count, who, &whole);
    s->ndim = x->ndim, s->arrays = s->integers = s->n_result = 0, s->broadcast.ndim = 0;
    bool ellipsis = false;
    for (int i = 0; !code && i <= count; i++) {
        const bool end = i == count;
        if (!end)
            see_key(&place, s, &keys[i]);
        if (end || keys[i].kind == MX_KEY_ELLIPSIS) {
            for (int k = 0; !code && !ellipsis && k < whole; k++, axis++) {
                code = set_key(s, axis, x, &all, who);
                code = code ? code : add_result(s, (mx_result_axis){MX_AXIS_SPAN, axis, x->shape[axis]}, who);
            }
            ellipsis = true;
        } else if (keys[i].kind == MX_KEY_NEWAXIS) {
            code = add_result(s, (mx_result_axis){MX_AXIS_NEW, 0, 1}, who);
        } else {
            code = set_key(s, axis, x, &keys[i], who);
            if (!code && keys[i].kind == MX_KEY_SLICE)
                code = add_result(s, (mx_result_axis){MX_AXIS_SPAN, axis, s->axis[axis].span.n}, who);
            axis++;
        }
    }
    if (!code && s->arrays)
        code = insert_index_axes(s, place.state == 3 ? 0 : place.at, who);
    return code ? code : finish_shape(s, who);
}

/* ---- contiguous regions ----------------------------------------------------------------------------------------- */

bool mx_selection_is_window(const mx_array *x, const mx_selection *s, int64_t *offset)
{
    int64_t stride = 1;
    bool inside = true; /* so far, from the right, all axes are fully selected */
    *offset = 0;
    if (s->arrays)
        return false;
    for (int i = x->ndim - 1; i >= 0; i--) {
        const mx_source_axis *axis = &s->axis[i];
        if (axis->span.n == 0 || (!inside && axis->span.n != 1) || (axis->span.n > 1 && axis->span.step != 1))
            return false;
        inside = inside && (axis->full || x->shape[i] == 1);
        *offset += axis->span.begin * stride;
        stride *= x->shape[i];
    }
    return true;
}

bool mx_selection_is_all(const mx_array *x, const mx_selection *s)
{
    bool all = !s->arrays && s->shape.ndim == x->ndim;
    for (int i = 0; all && i < x->ndim; i++)
        all = s->axis[i].full && s->shape.dim[i] == x->shape[i];
    return all;
}

/* ---- positions -------------------------------------------------------------------------------------------------- */

/* For one axis of x: index at a position = base + sum over result axes of step * position, or looked up in an array. */
typedef struct reader {
    int64_t base;
    int64_t step[2 * MX_MAX_NDIM]; /* per result axis; for arrays: in elements of the array */
    int64_t *value;                /* elements of the index array; NULL: basic */
    int64_t count;
} reader;

static bool open_reader(const mx_selection *s, int axis, reader *r)
{
    const mx_source_axis *from = &s->axis[axis];
    *r = (reader){.base = from->span.begin};
    for (int k = 0; k < s->n_result && !from->index; k++)
        if (s->result[k].kind == MX_AXIS_SPAN && s->result[k].number == axis)
            r->step[k] = from->span.step;
    if (!from->index)
        return true;
    const mx_array *index = from->index;
    r->base = 0, r->count = index->size;
    r->value = mx_alloc((size_t)index->size * sizeof *r->value);
    if (!r->value)
        return false;
    MX_SCOPE;
    mx_array *host = mx_array_to(from->index, mx_cpu(0));
    const void *data = host ? mx_array_data(host) : NULL;
    if (!data && index->size) /* no elements have no address */
        return false;
    if (data)
        mx_convert(r->value, MX_INT64, data, (mx_dtype)index->dtype, index->size);
    for (int k = 0; k < s->n_result; k++) {
        const int own = s->result[k].number - (s->broadcast.ndim - index->ndim); /* axis of this array */
        if (s->result[k].kind != MX_AXIS_INDEX || own < 0 || index->shape[own] == 1)
            continue;
        r->step[k] = 1;
        for (int i = own + 1; i < index->ndim; i++)
            r->step[k] *= index->shape[i];
    }
    return true;
}

/* Checked here, while the indices are on the host: a check on the device would have to wait. */
static bool indices_fit(const mx_array *x, int axis, const reader *r)
{
    const int64_t size = x->shape[axis];
    for (int64_t i = 0; r->value && i < r->count; i++)
        if (r->value[i] < -size || r->value[i] >= size)
            return mx_fail(MX_ERR_INDEX, "index %lld is outside axis %d of size %lld", (long long)r->value[i], axis,
                           (long long)size),
                   false;
    return true;
}

/* Walks over the first n_walk axes of the result and writes one axis' indices. */
static void write_indices(const mx_selection *s, const reader *r, int n_walk, int64_t places, int64_t *to)
{
    int64_t at[2 * MX_MAX_NDIM] = {0}, offset = r->base;
    for (int64_t p = 0; p < places; p++) {
        to[p] = r->value ? r->value[offset] : offset;
        for (int k = n_walk - 1; k >= 0; k--) {
            offset += r->step[k];
            if (++at[k] < s->result[k].size)
                break;
            offset -= r->step[k] * s->result[k].size;
            at[k] = 0;
        }
    }
}

mx_array *mx_selection_places(const mx_array *x, const mx_selection *s)
{
    int m = x->ndim, n_walk = s->n_result;
    while (m > 0 && s->axis[m - 1].full && !s->axis[m - 1].index)
        m--;
    /* Result axes of fully selected axes of x come last; new axes among them have size 1. */
    while (n_walk > 0 && (s->result[n_walk - 1].kind == MX_AXIS_NEW ||
                          (s->result[n_walk - 1].kind == MX_AXIS_SPAN && s->result[n_walk - 1].number >= m)))
        n_walk--;
    mx_shape_t shape = {2, {m, 1}}, walk = {.ndim = 0};
    for (int k = 0; k < n_walk; k++)
        if (s->result[k].size != 1)
            walk.dim[walk.ndim++] = s->result[k].size;
    shape.dim[1] = mx_shape_size(&walk);
    mx_array *places = shape.dim[1] < 0 ? NULL : mx_scope_add(mx_array_new(&shape, MX_INT64, mx_cpu(0)));
    bool ok = places != NULL;
    for (int i = 0; ok && i < m; i++) {
        reader r;
        ok = open_reader(s, i, &r) && indices_fit(x, i, &r);
        if (ok && shape.dim[1])
            write_indices(s, &r, n_walk, shape.dim[1], (int64_t *)mx_array_data(places) + i * shape.dim[1]);
        mx_free(r.value, (size_t)r.count * sizeof *r.value);
    }
    return ok ? mx_array_to(places, x->context) : NULL;
}
