/* x[keys] on a symbolic array: the keys become operators that do not depend on the shape.
 *
 *     slices and integers    slice (an integer is a slice of one)
 *     an index array         take
 *     integers               squeeze
 *     None                   expand_dims
 *
 * So the graph works for inputs of any size, even if the sizes are known now.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "exec/index_symbol.h"

#include "base/error.h"
#include "gluon/op.gen.h"

typedef struct plan {
    mx_dims begin, end, step; /* of the slice, one per axis so far */
    bool cuts;                /* the slice does something */
    int axis;                 /* of x: where the next key applies */
    int result;               /* axes of the result so far, integers not counted */
    mx_dims dropped;          /* axes of x that integers drop */
    mx_dims fresh;            /* axes of the result that are new, in order */
    mx_array *index;          /* of take; NULL: none */
    int index_axis;
} plan;

static mx_code add_span(plan *p, int64_t begin, int64_t end, int64_t step)
{
    if (p->axis == MX_MAX_NDIM)
        return mx_fail(MX_ERR_INDEX, "mx_index: more than %d axes were indexed", MX_MAX_NDIM);
    p->begin.d[p->axis] = begin, p->end.d[p->axis] = end, p->step.d[p->axis] = step;
    p->begin.n = p->end.n = p->step.n = ++p->axis;
    p->cuts |= begin != MX_NONE_INT || end != MX_NONE_INT || (step != MX_NONE_INT && step != 1);
    return MX_OK;
}

static mx_code add_integer(plan *p, const mx_array *x, int64_t i)
{
    const int64_t size = p->axis < x->ndim ? x->shape[p->axis] : -1;
    if (size >= 0 && (i < -size || i >= size))
        return mx_fail(MX_ERR_INDEX, "mx_index: index %lld is out of bounds for axis %d with size %lld", (long long)i,
                       p->axis, (long long)size);
    p->dropped.d[p->dropped.n++] = p->axis;
    return add_span(p, i, i == -1 || i == INT64_MAX ? MX_NONE_INT : i + 1, MX_NONE_INT);
}

static mx_code add_array(plan *p, const mx_key *key)
{
    if (!mx_array_ok(key->index, "mx_index", "an index array"))
        return mx_error_code();
    if (p->index)
        return mx_fail(MX_ERR_UNSUPPORTED, "mx_index: a symbolic array takes one index array, two were given");
    p->index = key->index;
    p->index_axis = p->axis;
    p->result += key->index->ndim < 0 ? 1 : key->index->ndim;
    return add_span(p, MX_NONE_INT, MX_NONE_INT, MX_NONE_INT);
}

/* "..." expands to the axes that no other key uses: with an unknown rank it can only be the last key. */
static mx_code add_ellipsis(plan *p, const mx_array *x, const mx_key *keys, int i, int count)
{
    int later = 0;
    for (int k = i + 1; k < count; k++)
        later += keys[k].kind == MX_KEY_INT || keys[k].kind == MX_KEY_SLICE || keys[k].kind == MX_KEY_ARRAY;
    if (x->ndim < 0)
        return i + 1 == count ? MX_OK
                              : mx_fail(MX_ERR_INDEX, "mx_index: keys after an ellipsis need an array of known "
                                                      "rank; give the variable a shape");
    for (int k = x->ndim - p->axis - later; k > 0; k--, p->result++)
        if (add_span(p, MX_NONE_INT, MX_NONE_INT, MX_NONE_INT))
            return mx_error_code();
    return MX_OK;
}

static mx_code add_key(plan *p, const mx_array *x, const mx_key *keys, int i, int count)
{
    const mx_key *key = &keys[i];
    if (key->kind != MX_KEY_ELLIPSIS && key->kind != MX_KEY_NEWAXIS && x->ndim >= 0 && p->axis >= x->ndim)
        return mx_fail(MX_ERR_INDEX, "mx_index: too many indices: the array has %d axes", x->ndim);
    switch (key->kind) {
    case MX_KEY_INT: return add_integer(p, x, key->start);
    case MX_KEY_ARRAY: return add_array(p, key);
    case MX_KEY_ELLIPSIS: return add_ellipsis(p, x, keys, i, count);
    case MX_KEY_SLICE:
        if (key->step == 0)
            return mx_fail(MX_ERR_INDEX, "mx_index: the step of the slice of axis %d is 0", p->axis);
        p->result++;
        return add_span(p, key->start, key->stop, key->step);
    case MX_KEY_NEWAXIS:
        if (p->fresh.n == MX_MAX_NDIM)
            return mx_fail(MX_ERR_INDEX, "mx_index: more than %d new axes", MX_MAX_NDIM);
        p->fresh.d[p->fresh.n++] = p->result++;
        return MX_OK;
    default: return mx_fail(MX_ERR_ARGUMENT, "mx_index: a key has kind %d, which does not exist", (int)key->kind);
    }
}

static mx_array *carry_out(plan *p, mx_array *x)
{
    const int rank = x->ndim;
    if (p->cuts)
        x = mx_slice(x, .begin = p->begin, .end = p->end, .step = p->step);
    if (p->index)
        x = mx_take(x, p->index, .axis = p->index_axis);
    if (p->dropped.n && p->dropped.n == rank && !p->fresh.n && !p->index)
        p->dropped.n--; /* classic arrays keep one axis */
    for (int i = 0; p->index && p->index->ndim > 0 && i < p->dropped.n; i++)
        if (p->dropped.d[i] > p->index_axis)
            p->dropped.d[i] += p->index->ndim - 1;
    if (p->dropped.n)
        x = mx_squeeze(x, .axis = p->dropped);
    for (int i = 0; i < p->fresh.n; i++)
        x = mx_expand_dims(x, .axis = p->fresh.d[i]);
    return x;
}

mx_array *mx_index_symbolic(mx_array *x, const mx_key *keys, int count)
{
    plan p = {0};
    if (count < 0 || (count && !keys))
        return mx_fail_null(MX_ERR_ARGUMENT, "mx_index: keys is NULL or count is negative");
    for (int i = 0; i < count; i++)
        if (add_key(&p, x, keys, i, count))
            return NULL;
    mx_array *out = carry_out(&p, x);
    return out == x ? mx_scope_add(mx_retain(x)) : out;
}
