/* Reading and writing by index: x[keys] and x[keys] = value (see index.h for what keys mean).
 *
 *     reading   a contiguous region of an array without history     a view
 *               another basic region                                slice, then reshape
 *               one index array                                     take
 *               several, or integers beside them                    gather_nd at computed indices
 *     writing   a contiguous region                                 copied into the view
 *               another basic region                                _slice_assign, in place
 *               index arrays                                        _scatter_set_nd, in place
 *
 * While recording, everything that has a history goes through operators, so all of it is differentiable; writing into an
 * array that has a history is then an error.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "exec/index.h"

#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "exec/index_symbol.h"
#include "exec/tape.h"
#include "graph/node.h"

static bool is_recorded(const mx_array *x) { return mx_thread.modes.recording && mx_has_history(x); }

static void spans_of(const mx_selection *s, mx_span *span)
{
    for (int i = 0; i < s->ndim; i++)
        span[i] = s->axis[i].span;
}

/* ---- reading ------------------------------------------------------------------------------------------------ */

static mx_array *read_basic(mx_array *x, const mx_selection *s)
{
    mx_span span[MX_MAX_NDIM];
    bool whole = true;
    spans_of(s, span);
    for (int i = 0; i < s->ndim; i++)
        whole = whole && s->axis[i].full;
    return mx_g_reshape(whole ? x : mx_g_slice(x, span), &s->shape);
}

/* One index array: slices first, then take; the axes of the index replace the axis in the result. */
static mx_array *read_by_take(mx_array *x, const mx_selection *s)
{
    struct { int64_t axis; int mode; } attrs = {0, 0}; /* mode: raise */
    mx_span span[MX_MAX_NDIM];
    bool whole = true;
    spans_of(s, span);
    for (int i = 0; i < s->ndim; i++) {
        if (s->axis[i].index) {
            attrs.axis = i;
            span[i] = (mx_span){0, 1, x->shape[i]};
        } else {
            whole = whole && s->axis[i].full;
        }
    }
    mx_array *index = s->axis[attrs.axis].index;
    x = whole ? x : mx_g_slice(x, span);
    return mx_g_reshape(mx_g_call(MX_OP("take"), &attrs, 2, (mx_array *const[]){x, index}), &s->shape);
}

static mx_array *read_by_places(mx_array *x, const mx_selection *s)
{
    return mx_g_reshape(mx_g2("gather_nd", x, mx_selection_places(x, s)), &s->shape);
}

static bool any_symbolic(const mx_key *keys, int count)
{
    for (int i = 0; keys && i < count; i++)
        if (keys[i].kind == MX_KEY_ARRAY && keys[i].index && mx_is_symbolic(keys[i].index))
            return true;
    return false;
}

mx_array *mx_index_keys(mx_array *x, const mx_key *keys, int count)
{
    mx_selection s;
    int64_t offset;
    if (!mx_array_ok(x, "mx_index", "x"))
        return NULL;
    if (mx_is_symbolic(x) || any_symbolic(keys, count))
        return mx_index_symbolic(x, keys, count);
    if (mx_keys_have_mask(keys, count)) {
        mx_key wide[MX_MOST_KEYS];
        const int n = mx_keys_without_masks(x, keys, count, "mx_index", wide);
        return n < 0 ? NULL : mx_index_keys(x, wide, n);
    }
    if (mx_select(x, keys, count, "mx_index", &s))
        return NULL;
    if (s.arrays == 1 && !s.integers)
        return read_by_take(x, &s);
    if (s.arrays)
        return read_by_places(x, &s);
    if (mx_selection_is_all(x, &s))
        return mx_scope_add(mx_retain(x));
    if (x->storage && !is_recorded(x) && mx_selection_is_window(x, &s, &offset)) {
        const int64_t item = mx_dtype_size((mx_dtype)x->dtype);
        mx_array *view = mx_array_view(x, offset * item, &s.shape, (mx_dtype)x->dtype);
        if (view)
            view->readonly = x->readonly;
        return mx_scope_add(view);
    }
    return read_basic(x, &s);
}

/* ---- writing ------------------------------------------------------------------------------------------------ */

static mx_array *cast_to(mx_array *value, const mx_array *x)
{
    if (is_recorded(value)) {
        char attrs[64];
        snprintf(attrs, sizeof attrs, "dtype=%s", mx_dtype_name((mx_dtype)x->dtype));
        return value->dtype == x->dtype ? value : mx_g_text(mx_op_find("Cast"), attrs, 1, &value);
    }
    if (value->dtype == x->dtype && mx_context_equal(value->context, x->context))
        return value;
    mx_shape_t shape = {.ndim = value->ndim};
    memcpy(shape.dim, value->shape, sizeof shape.dim);
    mx_array *copy = mx_scope_add(mx_array_new(&shape, (mx_dtype)x->dtype, x->context));
    return copy && !mx_array_set(copy, value) ? copy : NULL;
}

/* value, with leading axes of size 1 dropped that the target does not have; checks that it broadcasts. */
static mx_array *fit_value(mx_array *value, const mx_shape_t *target)
{
    char a[MX_SHAPE_TEXT], b[MX_SHAPE_TEXT];
    mx_shape_t shape = {.ndim = value->ndim}, trimmed = {.ndim = 0}, joint;
    memcpy(shape.dim, value->shape, sizeof shape.dim);
    int extra = 0;
    while (shape.ndim - extra > target->ndim && shape.dim[extra] == 1)
        extra++;
    for (int i = extra; i < shape.ndim; i++)
        trimmed.dim[trimmed.ndim++] = shape.dim[i];
    if (!mx_shape_broadcast(&trimmed, target, &joint) || !mx_shape_equal(&joint, target))
        return mx_fail_null(MX_ERR_SHAPE, "mx_assign: value has shape %s, which does not broadcast to %s",
                            mx_shape_text(&shape, a), mx_shape_text(target, b));
    return mx_g_reshape(value, &trimmed);
}

/* Value in the layout of the region of x: integer axes become size 1, new axes are removed. */
static mx_array *lay_out(mx_array *value, const mx_selection *s)
{
    mx_shape_t region = {.ndim = s->ndim};
    int from = value->ndim - 1, axis = s->ndim - 1;
    for (int k = s->n_result - 1; k >= 0; k--) {
        const int64_t size = from >= 0 ? value->shape[from--] : 1;
        if (s->result[k].kind == MX_AXIS_NEW)
            continue;
        for (; axis > s->result[k].number; axis--)
            region.dim[axis] = 1;
        region.dim[axis--] = size;
    }
    for (; axis >= 0; axis--)
        region.dim[axis] = 1;
    return mx_g_reshape(value, &region);
}

static mx_code write_into(mx_op *op, const void *attrs, int n_in, mx_array *const *in)
{
    mx_array *out[1] = {in[0]};
    for (int i = 0; i < n_in; i++)
        if (!in[i])
            return mx_error_code();
    return op ? mx_invoke(op, attrs, n_in, in, 1, out) : mx_error_code();
}

static mx_code write_slice(mx_array *x, const mx_selection *s, mx_array *value)
{
    struct { mx_dims begin, end, step; } attrs = {{.n = s->ndim}, {.n = s->ndim}, {.n = s->ndim}};
    for (int i = 0; i < s->ndim; i++) {
        const mx_span *span = &s->axis[i].span;
        const int64_t end = span->begin + span->n * span->step;
        attrs.begin.d[i] = span->begin, attrs.step.d[i] = span->step, attrs.end.d[i] = end < 0 ? MX_NONE_INT : end;
    }
    return write_into(MX_OP("_slice_assign"), &attrs, 2, (mx_array *const[]){x, lay_out(value, s)});
}

static mx_code write_places(mx_array *x, const mx_selection *s, mx_array *value)
{
    mx_dims shape = mx_shape(x);
    mx_array *places = mx_selection_places(x, s);
    value = mx_g_broadcast_to(value, &s->shape);
    if (!places || !value)
        return mx_error_code();
    mx_shape_t blocks = {.ndim = 1, .dim = {places->shape[1]}}; /* (places, fully selected axes of x) */
    for (int i = (int)places->shape[0]; i < x->ndim; i++)
        blocks.dim[blocks.ndim++] = x->shape[i];
    return write_into(MX_OP("_scatter_set_nd"), &shape, 3,
                      (mx_array *const[]){x, mx_g_reshape(value, &blocks), places});
}

static mx_code write_window(mx_array *x, const mx_selection *s, int64_t offset, mx_array *value)
{
    const int64_t item = mx_dtype_size((mx_dtype)x->dtype);
    mx_array *view = mx_array_view(x, offset * item, &s->shape, (mx_dtype)x->dtype);
    mx_code code = view ? mx_array_set(view, value) : mx_error_code();
    mx_release(view);
    return code;
}

static mx_code check_target(const mx_array *x)
{
    if (!mx_array_ok(x, "mx_assign", "x"))
        return mx_error_code();
    if (!x->storage)
        return mx_fail(MX_ERR_STATE, "mx_assign: x has a shape but no elements: it was made while tracing");
    if (x->readonly)
        return mx_fail(MX_ERR_STATE, "mx_assign: x is read-only");
    if (mx_thread.modes.recording && mx_is_on_tape(x))
        return mx_fail(
            MX_ERR_AUTOGRAD,
            "mx_assign: x is a variable, a recorded result or an input of one: writing into it while recording would corrupt "
            "gradients");
    return MX_OK;
}

mx_code mx_assign_keys(mx_array *x, const mx_key *keys, int count, mx_array *value)
{
    MX_SCOPE;
    mx_selection s;
    int64_t offset;
    mx_key wide[MX_MOST_KEYS];
    if (x && mx_keys_have_mask(keys, count)) {
        if ((count = mx_keys_without_masks(x, keys, count, "mx_assign", wide)) < 0)
            return mx_error_code();
        keys = wide;
    }
    if (check_target(x) || !mx_array_ok(value, "mx_assign", "value") || mx_select(x, keys, count, "mx_assign", &s))
        return mx_error_code();
    value = fit_value(value, &s.shape);
    if (!value)
        return mx_error_code();
    if (mx_shape_size(&s.shape) == 0)
        return MX_OK;
    if (!is_recorded(value) && mx_selection_is_window(x, &s, &offset))
        return write_window(x, &s, offset, value);
    value = cast_to(value, x);
    if (!value)
        return mx_error_code();
    return s.arrays ? write_places(x, &s, value) : write_slice(x, &s, value);
}
