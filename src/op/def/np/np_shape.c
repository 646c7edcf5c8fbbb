/* NumPy's functions that change shapes and the order of axes.  SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "op/def/np/axes.h"

static mx_array *permuted(mx_array *x, const mx_dims *axes) { return mx_g_call(MX_OP("transpose"), axes, 1, &x); }

#define RESHAPE_ATTRS(X) \
    X(DIMS, newshape, REQUIRED, "", "the sizes; one may be -1: what is left") \
    X(STR, order, "C", "", "only 'C': the last axis changes fastest")
MX_ATTRS(np_reshape, RESHAPE_ATTRS)
/* Fills in the size that is -1; false: the elements do not fit. */
static bool complete(mx_shape_t *shape, int64_t size)
{
    int64_t known = 1;
    int open = -1;
    for (int i = 0; i < shape->ndim; i++)
        if (shape->dim[i] == -1 && open < 0)
            open = i;
        else if (shape->dim[i] < 0 || __builtin_mul_overflow(known, shape->dim[i], &known))
            return false;
    if (open < 0)
        return known == size;
    if (!known || size % known)
        return false;
    shape->dim[open] = size / known;
    return true;
}
static mx_code reshape(const mx_expand *call)
{
    const mx_np_reshape_attrs *attrs = call->attrs;
    mx_array *x = mx_expand_by_rules(call, call->in[0]);
    char have[MX_SHAPE_TEXT], want[MX_SHAPE_TEXT];
    if (!x)
        return mx_error_code();
    mx_shape_t shape = mx_shape_of_dims(&attrs->newshape), old = mx_array_shape(x);
    if (x->ndim < 0 || !mx_shape_known(&old)) { /* the classic operator infers later */
        struct { mx_dims shape; bool reverse; mx_dims target; bool keep; } classic = {attrs->newshape, false, {.n = 0}, false};
        return mx_expand_give(call, mx_g_call(MX_OP("Reshape"), &classic, 1, &x));
    }
    const mx_shape_t wanted = shape;
    if (!complete(&shape, x->size))
        return mx_op_fail(call->op, MX_ERR_SHAPE, "the elements of shape %s do not fit shape %s",
                          mx_shape_text(&old, have), mx_shape_text(&wanted, want));
    return mx_expand_give(call, mx_g_reshape(x, &shape));
}

/* npx.reshape: -1 is what is left, -2 copies a size, -3 skips a size of 1, -4 copies all that remain, -5 merges two
 * axes, -6 splits one into the next two sizes. */
static bool by_codes(const mx_dims *codes, const mx_shape_t *old, mx_shape_t *shape)
{
    int at = 0;
    shape->ndim = 0;
    for (int i = 0; i < codes->n; i++) {
        const int64_t code = codes->d[i];
        const int taken = code == -5 ? 2 : 1, given = code == -6 ? 2 : code == -4 ? old->ndim - at : code != -3;
        if (code < -6 || shape->ndim + given > MX_MAX_NDIM || (code < -1 && code != -4 && at + taken > old->ndim))
            return false;
        if (code == -3 && old->dim[at] != 1)
            return false;
        if (code == -6) {
            if (i + 2 >= codes->n)
                return false;
            int64_t first = codes->d[i + 1], second = codes->d[i + 2];
            if ((first < 0 && second <= 0) || (second < 0 && first <= 0))
                return false;
            shape->dim[shape->ndim++] = first < 0 ? old->dim[at] / second : first;
            shape->dim[shape->ndim++] = second < 0 ? old->dim[at] / first : second;
            i += 2;
        } else if (code == -4) {
            while (at < old->ndim)
                shape->dim[shape->ndim++] = old->dim[at++];
            continue;
        } else if (code != -3)
            shape->dim[shape->ndim++] = code == -5 ? old->dim[at] * old->dim[at + 1] : code == -2 ? old->dim[at] : code;
        at += taken;
    }
    return true;
}
#define NPX_RESHAPE_ATTRS(X) \
    X(DIMS, newshape, REQUIRED, "", "sizes and codes: -1 what is left, -2 copy, -3 skip a 1, -4 copy the rest, -5 merge two, -6 split into the next two") \
    X(BOOL, reverse, "False", "", "match axes from the right") \
    X(STR, order, "C", "", "only 'C': the last axis changes fastest")
MX_ATTRS(npx_reshape, NPX_RESHAPE_ATTRS)
static void turn_round(int64_t *list, int n)
{
    for (int i = 0; i < n / 2; i++) {
        const int64_t swap = list[i];
        list[i] = list[n - 1 - i], list[n - 1 - i] = swap;
    }
}
/* The codes from the right: the two sizes after a -6 go before it. */
static mx_dims turned_codes(const mx_dims *codes)
{
    mx_dims turned = *codes;
    turn_round(turned.d, turned.n);
    for (int i = 2; i < turned.n; i++)
        if (turned.d[i] == -6) {
            const int64_t second = turned.d[i - 2], first = turned.d[i - 1];
            turned.d[i - 2] = -6, turned.d[i - 1] = second, turned.d[i] = first;
        }
    return turned;
}
static mx_code npx_reshape(const mx_expand *call)
{
    const mx_npx_reshape_attrs *attrs = call->attrs;
    static const int64_t classic_code[] = {[2] = 0, [4] = -2, [5] = -3, [6] = -4};
    mx_array *x = mx_expand_by_rules(call, call->in[0]);
    mx_dims codes = attrs->reverse ? turned_codes(&attrs->newshape) : attrs->newshape;
    if (!x)
        return mx_error_code();
    mx_shape_t old = mx_array_shape(x), shape;
    if (x->ndim < 0 || !mx_shape_known(&old)) { /* inferred later, by the classic operator with its own codes */
        struct { mx_dims shape; bool reverse; mx_dims target; bool keep; } classic = {attrs->newshape, attrs->reverse, {.n = 0}, false};
        for (int i = 0; i < classic.shape.n; i++)
            if (classic.shape.d[i] == -3 || classic.shape.d[i] < -6)
                return mx_op_fail(call->op, MX_ERR_SHAPE, "the shape must be known for code %lld",
                                  (long long)classic.shape.d[i]);
            else if (classic.shape.d[i] < -1)
                classic.shape.d[i] = classic_code[-classic.shape.d[i]];
        return mx_expand_give(call, mx_g_call(MX_OP("Reshape"), &classic, 1, &x));
    }
    if (attrs->reverse)
        turn_round(old.dim, old.ndim);
    if (!by_codes(&codes, &old, &shape) || !complete(&shape, x->size))
        return mx_op_fail(call->op, MX_ERR_SHAPE, "newshape does not fit the elements");
    if (attrs->reverse)
        turn_round(shape.dim, shape.ndim);
    return mx_expand_give(call, mx_g_reshape(x, &shape));
}

#define RAVEL_ATTRS(X) X(STR, order, "C", "", "only 'C': the last axis changes fastest")
MX_ATTRS(np_ravel, RAVEL_ATTRS)
static mx_code ravel(const mx_expand *call)
{
    mx_array *x = mx_expand_by_rules(call, call->in[0]);
    return mx_expand_give(call, x ? mx_expand1("Reshape", x, "shape=(-1,)") : NULL);
}

#define TRANSPOSE_ATTRS(X) X(DIMS, axes, "None", "", "axis i of the result is axis axes[i]; None: the axes in reverse order")
MX_ATTRS(np_transpose, TRANSPOSE_ATTRS)
static mx_code transpose(const mx_expand *call)
{
    mx_dims axes = ((const mx_np_transpose_attrs *)call->attrs)->axes;
    mx_array *x = mx_expand_by_rules(call, call->in[0]);
    if (!x || (x->ndim >= 0 && x->ndim < 2 && axes.n <= 0))
        return mx_expand_give(call, x ? mx_g1("_copy", x) : NULL);
    if (axes.n < 0)
        axes.n = 0;
    for (int i = 0; i < axes.n; i++)
        if (x->ndim >= 0 && (axes.d[i] = axis_in(call, axes.d[i], x->ndim)) < 0)
            return mx_error_code();
    return mx_expand_give(call, permuted(x, &axes));
}

#define SWAP_ATTRS(X) \
    X(INT, axis1, REQUIRED, "", "one axis") \
    X(INT, axis2, REQUIRED, "", "the other one")
MX_ATTRS(np_swapaxes, SWAP_ATTRS)
static mx_code swapaxes(const mx_expand *call)
{
    const mx_np_swapaxes_attrs *attrs = call->attrs;
    mx_array *x = shaped(call, 0);
    mx_dims axes = {.n = x ? x->ndim : 0};
    const int one = x ? axis_in(call, attrs->axis1, x->ndim) : -1,
              other = one < 0 ? -1 : axis_in(call, attrs->axis2, x->ndim);
    if (other < 0)
        return mx_error_code();
    for (int i = 0; i < axes.n; i++)
        axes.d[i] = i == one ? other : i == other ? one : i;
    return mx_expand_give(call, one == other ? mx_g1("_copy", x) : permuted(x, &axes));
}

#define MOVE_ATTRS(X) \
    X(DIMS, source, REQUIRED, "", "axes to move") \
    X(DIMS, destination, REQUIRED, "", "their places in the result")
MX_ATTRS(np_moveaxis, MOVE_ATTRS)
static mx_code moveaxis(const mx_expand *call)
{
    const mx_np_moveaxis_attrs *attrs = call->attrs;
    mx_array *x = shaped(call, 0);
    if (!x)
        return mx_error_code();
    if (attrs->source.n != attrs->destination.n)
        return mx_op_fail(call->op, MX_ERR_SHAPE, "%d sources but %d destinations", attrs->source.n,
                          attrs->destination.n);
    mx_dims axes = {.n = x->ndim};
    bool moved[MX_MAX_NDIM] = {false}, taken[MX_MAX_NDIM] = {false};
    for (int i = 0; i < attrs->source.n; i++) {
        const int from = axis_in(call, attrs->source.d[i], x->ndim),
                  to = from < 0 ? -1 : axis_in(call, attrs->destination.d[i], x->ndim);
        if (to < 0)
            return mx_error_code();
        if (moved[from] || taken[to])
            return mx_op_fail(call->op, MX_ERR_SHAPE, "axis %d is named twice", moved[from] ? from : to);
        axes.d[to] = from, moved[from] = taken[to] = true;
    }
    for (int from = 0, to = 0; from < x->ndim; from++) {
        if (moved[from])
            continue;
        while (taken[to])
            to++;
        axes.d[to++] = from;
    }
    return mx_expand_give(call, permuted(x, &axes));
}

#define EXPAND_ATTRS(X) X(DIMS, axis, REQUIRED, "", "places of the new axes in the result")
MX_ATTRS(np_expand_dims, EXPAND_ATTRS)
static mx_code expand_dims(const mx_expand *call)
{
    const mx_dims *axis = &((const mx_np_expand_dims_attrs *)call->attrs)->axis;
    if (call->in[0]->ndim < 0 && axis->n == 1)
        return mx_expand_give(call, mx_expand1("expand_dims", call->in[0], "axis=%lld", (long long)axis->d[0]));
    mx_array *x = shaped(call, 0);
    if (!x)
        return mx_error_code();
    mx_shape_t shape = {.ndim = x->ndim + axis->n};
    bool fresh[MX_MAX_NDIM] = {false};
    if (shape.ndim > MX_MAX_NDIM)
        return mx_op_fail(call->op, MX_ERR_SHAPE, "the result would have %d axes, at most %d are possible", shape.ndim,
                          MX_MAX_NDIM);
    for (int i = 0; i < axis->n; i++) {
        const int to = axis_in(call, axis->d[i], shape.ndim);
        if (to < 0 || fresh[to])
            return to < 0 ? mx_error_code() : mx_op_fail(call->op, MX_ERR_SHAPE, "axis %d is named twice", to);
        fresh[to] = true;
    }
    for (int i = 0, k = 0; i < shape.ndim; i++)
        shape.dim[i] = fresh[i] ? 1 : x->shape[k++];
    for (int i = 0; i < shape.ndim; i++)
        if (shape.dim[i] < 0) /* a size that is not known yet */
            return mx_expand_give(call, mx_expand1("expand_dims", x, "axis=%lld", (long long)axis->d[0]));
    return mx_expand_give(call, mx_g_reshape(x, &shape));
}

#define SQUEEZE_ATTRS(X) X(DIMS, axis, "None", "", "axes of size 1 to remove; None: all of them")
MX_ATTRS(np_squeeze, SQUEEZE_ATTRS)
static mx_code squeeze(const mx_expand *call)
{
    const mx_dims *axis = &((const mx_np_squeeze_attrs *)call->attrs)->axis;
    mx_array *x = shaped(call, 0);
    if (!x)
        return mx_error_code();
    bool gone[MX_MAX_NDIM] = {false};
    if (!x->ndim && axis->n == 1 && (axis->d[0] == 0 || axis->d[0] == -1)) /* numbers have that axis */
        return mx_expand_give(call, mx_g1("_copy", x));
    for (int i = 0; i < x->ndim && axis->n < 0; i++)
        gone[i] = x->shape[i] == 1;
    for (int i = 0; i < axis->n; i++) {
        const int at = axis_in(call, axis->d[i], x->ndim);
        if (at < 0 || x->shape[at] > 1)
            return at < 0
                       ? mx_error_code()
                       : mx_op_fail(call->op, MX_ERR_SHAPE, "axis %d has size %lld, only axes of size 1 can be removed",
                                    at, (long long)x->shape[at]);
        gone[at] = true;
    }
    mx_shape_t shape = {.ndim = 0};
    for (int i = 0; i < x->ndim; i++)
        if (!gone[i])
            shape.dim[shape.ndim++] = x->shape[i];
    return mx_expand_give(call, mx_g_reshape(x, &shape));
}

#define TO_ATTRS(X) X(DIMS, shape, REQUIRED, "", "the shape of the result")
MX_ATTRS(np_broadcast_to, TO_ATTRS)
static mx_code broadcast_to(const mx_expand *call)
{
    const mx_shape_t shape = mx_shape_of_dims(&((const mx_np_broadcast_to_attrs *)call->attrs)->shape);
    mx_array *x = shaped(call, 0);
    mx_shape_t together, have = x ? mx_array_shape(x) : (mx_shape_t){.ndim = 0};
    char a[MX_SHAPE_TEXT], b[MX_SHAPE_TEXT];
    if (x && (!mx_shape_broadcast(&have, &shape, &together) || !mx_shape_equal(&together, &shape)))
        return mx_op_fail(call->op, MX_ERR_SHAPE, "shape %s does not broadcast to %s", mx_shape_text(&have, a),
                          mx_shape_text(&shape, b));
    return mx_expand_give(call, x ? mx_g_broadcast_to(x, &shape) : NULL);
}

// clang-format off
mx_op mx_family_np_shape[] = {
    MOVE(reshape, reshape, NULL, &np_reshape_schema, "the elements in another shape")
    {.name = "npx.reshape", .c_name = "npx_reshape", .doc = "the elements in another shape, given by sizes and codes", .inputs = "a",
     .flags = MX_OP_EXPANDS, .schema = &npx_reshape_schema, .user = &(mx_expansion){npx_reshape, {NULL, NULL, NULL}, 0, {NULL, NULL, NULL}}},
    MOVE_OF(ravel, "x", ravel, NULL, &np_ravel_schema, "the elements in one axis")
    MOVE(transpose, transpose, NULL, &np_transpose_schema, "the axes in another order")
    MOVE(swapaxes, swapaxes, NULL, &np_swapaxes_schema, "two axes exchanged")
    MOVE(moveaxis, moveaxis, NULL, &np_moveaxis_schema, "axes moved to other places; the rest stays in order")
    MOVE(expand_dims, expand_dims, NULL, &np_expand_dims_schema, "new axes of size 1")
    MOVE(squeeze, squeeze, NULL, &np_squeeze_schema, "without axes of size 1")
    MOVE_OF(broadcast_to, "array", broadcast_to, NULL, &np_broadcast_to_schema, "repeated to a shape by broadcasting")
    {0},
};
