/* The same elements in another shape: Reshape, Flatten, expand_dims, squeeze, reshape_like.
 *
 * There is no kernel: in plans, and where the caller asks for a view (mx_array_reshape), the result shares the input's
 * storage; else the elements are copied.  The gradient is the inverse reshape.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "op/formula/movement.h"

#define RESHAPE_ATTRS(X) \
    X(DIMS, shape, "()", "", "sizes; 0: copy, -1: infer, -2: copy all remaining, -3: merge two axes, -4: split an axis into the next two sizes") \
    X(BOOL, reverse, "False", "", "match axes from the right") \
    X(DIMS, target_shape, "()", "", "older form of shape, where 0 means infer") \
    X(BOOL, keep_highest, "False", "", "with target_shape: keep the first axis")
MX_ATTRS(reshape, RESHAPE_ATTRS)

#define TO_ATTRS(X) X(DIMS, shape, REQUIRED, "", "shape of the result")
MX_ATTRS(reshape_to, TO_ATTRS)

#define EXPAND_ATTRS(X) X(INT, axis, REQUIRED, "", "position of the new axis of size 1")
MX_ATTRS(expand_dims, EXPAND_ATTRS)

#define SQUEEZE_ATTRS(X) X(DIMS, axis, "None", "", "axes of size 1 to remove; None: all of them")
MX_ATTRS(squeeze, SQUEEZE_ATTRS)

#define LIKE_ATTRS(X) \
    X(INT, lhs_begin, "None", "", "first axis of lhs that is replaced") \
    X(INT, lhs_end, "None", "", "end of the replaced axes of lhs") \
    X(INT, rhs_begin, "None", "", "first axis of rhs that is used") \
    X(INT, rhs_end, "None", "", "end of the used axes of rhs")
MX_ATTRS(reshape_like, LIKE_ATTRS)

/* ---- the special codes ------------------------------------------------------------------------------------ */

/* One group of codes: a size or a code, with the two sizes that follow -4. */
typedef struct group {
    int64_t code, first, second;
} group;

/* Read from the right, -4 comes after its two sizes: (16, 4, -4). */
static mx_dims reversed_codes(const mx_dims *codes)
{
    mx_dims reversed = {.n = codes->n};
    for (int i = 0; i < codes->n; i++)
        reversed.d[i] = codes->d[codes->n - 1 - i];
    return reversed;
}

static int read_groups(const mx_op *op, const mx_dims *codes, bool reverse, group *groups)
{
    int n = 0;
    const mx_dims turned = reverse ? reversed_codes(codes) : *codes;
    codes = &turned;
    for (int i = 0; i < codes->n; i++, n++) {
        groups[n] = (group){codes->d[i], 0, 0};
        if (codes->d[i] == -4) {
            if (i + 2 >= codes->n)
                return mx_op_fail(op, MX_ERR_ATTRIBUTE, "shape: -4 must %s two sizes",
                                  reverse ? "come after (reverse=True)" : "be followed by"),
                       -1;
            groups[n].first = codes->d[++i];
            groups[n].second = codes->d[++i];
        } else if (codes->d[i] < -4) {
            return mx_op_fail(op, MX_ERR_ATTRIBUTE, "shape: %lld is neither a size nor a special code",
                              (long long)codes->d[i]),
                   -1;
        }
    }
    return n;
}

typedef struct reshaping {
    const mx_op *op;
    const mx_shape_t *in;
    int taken; /* axes of `in` used so far */
    int infer; /* axis of the result that follows from the others; -1: none */
    mx_shape_t out;
} reshaping;

static mx_code emit(reshaping *r, int64_t size)
{
    if (r->out.ndim == MX_MAX_NDIM)
        return mx_op_fail(r->op, MX_ERR_SHAPE, "the result has more than %d axes", MX_MAX_NDIM);
    r->out.dim[r->out.ndim++] = size;
    return MX_OK;
}

static mx_code out_of_axes(const reshaping *r, int64_t code)
{
    char text[MX_SHAPE_TEXT];
    return mx_op_fail(r->op, MX_ERR_SHAPE, "code %lld needs an axis, but none is left in shape %s", (long long)code,
                      mx_shape_text(r->in, text));
}

/* -4: one axis becomes two; one of their sizes may be -1. */
static mx_code split_axis(reshaping *r, const group *g)
{
    int64_t size = r->in->dim[r->taken], first = g->first, second = g->second, known;
    if (first == -1 && second == -1)
        return mx_op_fail(r->op, MX_ERR_ATTRIBUTE, "shape: only one of the two sizes after -4 can be -1");
    if (first < -1 || second < -1)
        return mx_op_fail(r->op, MX_ERR_ATTRIBUTE, "shape: sizes after -4 are %lld and %lld", (long long)first,
                          (long long)second);
    known = first == -1 ? second : first;
    if (first == -1)
        first = size < 0 ? -1 : known ? size / known : 0;
    if (second == -1)
        second = size < 0 ? -1 : known ? size / known : 0;
    if (size >= 0 && (__builtin_mul_overflow(first, second, &known) || known != size))
        return mx_op_fail(r->op, MX_ERR_SHAPE, "an axis of size %lld cannot be split into %lld and %lld",
                          (long long)size, (long long)g->first, (long long)g->second);
    r->taken++;
    return emit(r, first) ? mx_error_code() : emit(r, second);
}

/* -1 stands for a size that is not known. */
static int64_t product_of(int64_t a, int64_t b) { return a < 0 || b < 0 ? -1 : a * b; }

static mx_code apply(reshaping *r, const group *g)
{
    const int left = r->in->ndim - r->taken;
    switch (g->code) {
    case 0: return left < 1 ? out_of_axes(r, 0) : emit(r, r->in->dim[r->taken++]);
    case -1:
        if (r->infer >= 0)
            return mx_op_fail(r->op, MX_ERR_ATTRIBUTE, "shape: only one size can be -1");
        r->infer = r->out.ndim;
        r->taken++;
        return emit(r, 1);
    case -2:
        for (mx_code code; r->taken < r->in->ndim; r->taken++)
            if ((code = emit(r, r->in->dim[r->taken])))
                return code;
        return MX_OK;
    case -3:
        if (left < 2)
            return out_of_axes(r, -3);
        r->taken += 2;
        return emit(r, product_of(r->in->dim[r->taken - 2], r->in->dim[r->taken - 1]));
    case -4: return left < 1 ? out_of_axes(r, -4) : split_axis(r, g);
    default: r->taken++; return emit(r, g->code);
    }
}

static void reverse_shape(mx_shape_t *shape)
{
    for (int i = 0, k = shape->ndim - 1; i < k; i++, k--) {
        int64_t size = shape->dim[i];
        shape->dim[i] = shape->dim[k];
        shape->dim[k] = size;
    }
}

/* Infers the open size and checks that the number of elements is unchanged; with unknown sizes it stays open. */
static mx_code settle(reshaping *r)
{
    char from[MX_SHAPE_TEXT], to[MX_SHAPE_TEXT];
    if (!mx_shape_known(r->in)) {
        if (r->infer >= 0)
            r->out.dim[r->infer] = -1;
        return MX_OK;
    }
    const int64_t size = mx_shape_size(r->in), rest = mx_shape_size(&r->out);
    if (rest < 0)
        return mx_error_code();
    if (r->infer >= 0)
        r->out.dim[r->infer] = rest ? size / rest : 0;
    if (mx_shape_size(&r->out) == size)
        return MX_OK;
    if (r->infer >= 0)
        r->out.dim[r->infer] = -1;
    return mx_op_fail(r->op, MX_ERR_SHAPE, "%lld elements of shape %s do not fit shape %s", (long long)size,
                      mx_shape_text(r->in, from), mx_shape_text(&r->out, to));
}

static mx_code reshape_by_codes(const mx_op *op, const mx_shape_t *in, const mx_dims *codes, bool reverse,
                                mx_shape_t *out)
{
    group groups[MX_MAX_TUPLE];
    int n = read_groups(op, codes, reverse, groups);
    if (n < 0)
        return mx_error_code();
    mx_shape_t source = *in;
    if (reverse)
        reverse_shape(&source);
    reshaping r = {.op = op, .in = &source, .infer = -1};
    for (int i = 0; i < n; i++) {
        mx_code code = apply(&r, &groups[i]);
        if (code)
            return code;
    }
    if (reverse) {
        reverse_shape(&r.out);
        reverse_shape(&source);
        r.infer = r.infer < 0 ? -1 : r.out.ndim - 1 - r.infer;
    }
    *out = r.out;
    mx_code code = settle(&r);
    *out = r.out;
    return code;
}

/* target_shape: 0 has the meaning of -1. */
static mx_dims older_codes(const mx_reshape_attrs *attrs)
{
    mx_dims codes = attrs->target_shape;
    for (int i = 0; i < codes.n; i++)
        codes.d[i] = codes.d[i] == 0 ? -1 : codes.d[i];
    if (attrs->keep_highest && codes.n > 0)
        codes.d[0] = 0;
    return codes;
}

/* ---- inference -------------------------------------------------------------------------------------------- */

/* A single unknown size of data follows from the number of elements of a known output. */
static mx_code infer_size(mx_infer *infer)
{
    mx_shape_t in = infer->in[0];
    int unknown = 0, which = 0;
    int64_t known = 1;
    for (int i = 0; i < in.ndim; i++) {
        if (in.dim[i] < 0)
            unknown++, which = i;
        else if (__builtin_mul_overflow(known, in.dim[i], &known))
            return MX_OK;
    }
    const int64_t size = mx_shape_known(&infer->out[0]) ? mx_shape_size(&infer->out[0]) : -1;
    if (unknown != 1 || size < 0 || !known || size % known)
        return MX_OK;
    in.dim[which] = size / known;
    return mx_infer_in(infer, 0, &in);
}

static mx_code infer_reshape(mx_infer *infer)
{
    const mx_reshape_attrs *attrs = infer->attrs;
    mx_shape_t out;
    if (!mx_shape_known(&infer->in[0]) && infer_size(infer))
        return mx_error_code();
    if (infer->in[0].ndim < 0)
        return MX_OK;
    const bool older = attrs->shape.n <= 0 && attrs->target_shape.n > 0;
    mx_dims codes = older ? older_codes(attrs) : attrs->shape;
    mx_code code = reshape_by_codes(infer->op, &infer->in[0], &codes, attrs->reverse && !older, &out);
    return code ? code : mx_infer_out(infer, 0, &out);
}

static mx_code infer_to(mx_infer *infer)
{
    const mx_reshape_to_attrs *attrs = infer->attrs;
    char from[MX_SHAPE_TEXT], to[MX_SHAPE_TEXT];
    mx_shape_t out = mx_shape_of_dims(&attrs->shape);
    if (out.ndim < 0)
        return mx_error_code();
    const int64_t have = mx_shape_size(&infer->in[0]), wanted = mx_shape_size(&out);
    if (mx_shape_known(&infer->in[0]) && have != wanted)
        return mx_op_fail(infer->op, MX_ERR_SHAPE, "shape %s does not fit shape %s", mx_shape_text(&infer->in[0], from),
                          mx_shape_text(&out, to));
    return mx_infer_out(infer, 0, &out);
}

static mx_code infer_flatten(mx_infer *infer)
{
    const mx_shape_t *in = &infer->in[0];
    mx_shape_t out = {2, {in->ndim > 0 ? in->dim[0] : 1, 1}};
    if (in->ndim < 0)
        return MX_OK;
    for (int i = 1; i < in->ndim; i++)
        out.dim[1] = in->dim[i] < 0 || out.dim[1] < 0 ? -1 : out.dim[1] * in->dim[i];
    return mx_infer_out(infer, 0, &out);
}

static mx_code infer_expand(mx_infer *infer)
{
    const mx_shape_t *in = &infer->in[0];
    const int64_t wanted = ((const mx_expand_dims_attrs *)infer->attrs)->axis;
    if (in->ndim < 0)
        return MX_OK;
    const int axis = mx_axis(wanted, in->ndim + 1);
    if (axis < 0 || in->ndim == MX_MAX_NDIM)
        return mx_op_fail(infer->op, MX_ERR_ATTRIBUTE, "axis %lld does not fit data with %d axes", (long long)wanted,
                          in->ndim);
    mx_shape_t out = {.ndim = in->ndim + 1};
    for (int i = 0, k = 0; i < out.ndim; i++)
        out.dim[i] = i == axis ? 1 : in->dim[k++];
    return mx_infer_out(infer, 0, &out);
}

/* Marks the axes that squeeze drops. */
static mx_code find_dropped(mx_infer *infer, bool *drop)
{
    const mx_dims *axes = &((const mx_squeeze_attrs *)infer->attrs)->axis;
    const mx_shape_t *in = &infer->in[0];
    char text[MX_SHAPE_TEXT];
    for (int i = 0; axes->n < 0 && i < in->ndim; i++)
        drop[i] = in->dim[i] == 1;
    for (int i = 0; i < axes->n; i++) {
        const int axis = mx_axis(axes->d[i], in->ndim);
        if (axis < 0 || in->dim[axis] != 1 || drop[axis])
            return mx_op_fail(infer->op, MX_ERR_ATTRIBUTE, "axis %lld %s in shape %s", (long long)axes->d[i],
                              axis < 0     ? "does not exist"
                              : drop[axis] ? "is given twice"
                                           : "does not have size 1",
                              mx_shape_text(in, text));
        drop[axis] = true;
    }
    return MX_OK;
}

static mx_code infer_squeeze(mx_infer *infer)
{
    const mx_shape_t *in = &infer->in[0];
    bool drop[MX_MAX_NDIM] = {false};
    if (!mx_shape_known(in))
        return MX_OK;
    mx_code code = find_dropped(infer, drop);
    if (code)
        return code;
    mx_shape_t out = {.ndim = 0};
    for (int i = 0; i < in->ndim; i++)
        if (!drop[i])
            out.dim[out.ndim++] = in->dim[i];
    if (!out.ndim && in->ndim)
        out.dim[out.ndim++] = 1; /* classic arrays keep one axis */
    return mx_infer_out(infer, 0, &out);
}

/* Axes [begin, end) as in Python; false if they do not exist. */
static bool find_range(int64_t begin, int64_t end, int ndim, int *from, int *to)
{
    begin = begin == MX_NONE_INT ? 0 : begin < 0 ? begin + ndim : begin;
    end = end == MX_NONE_INT ? ndim : end < 0 ? end + ndim : end;
    *from = (int)begin, *to = (int)end;
    return begin >= 0 && begin <= end && end <= ndim;
}

static mx_code infer_like(mx_infer *infer)
{
    const mx_reshape_like_attrs *attrs = infer->attrs;
    const mx_shape_t *lhs = &infer->in[0], *rhs = &infer->in[1];
    char a[MX_SHAPE_TEXT], b[MX_SHAPE_TEXT];
    int lb, le, rb, re;
    if (!mx_shape_known(lhs) || !mx_shape_known(rhs))
        return MX_OK;
    if (!find_range(attrs->lhs_begin, attrs->lhs_end, lhs->ndim, &lb, &le) ||
        !find_range(attrs->rhs_begin, attrs->rhs_end, rhs->ndim, &rb, &re) ||
        lhs->ndim - (le - lb) + re - rb > MX_MAX_NDIM)
        return mx_op_fail(infer->op, MX_ERR_ATTRIBUTE, "the ranges of axes do not fit shapes %s and %s",
                          mx_shape_text(lhs, a), mx_shape_text(rhs, b));
    mx_shape_t out = {.ndim = 0};
    for (int i = 0; i < lb; i++)
        out.dim[out.ndim++] = lhs->dim[i];
    for (int i = rb; i < re; i++)
        out.dim[out.ndim++] = rhs->dim[i];
    for (int i = le; i < lhs->ndim; i++)
        out.dim[out.ndim++] = lhs->dim[i];
    if (mx_shape_size(&out) != mx_shape_size(lhs))
        return mx_op_fail(infer->op, MX_ERR_SHAPE, "lhs of shape %s cannot be reshaped to %s", mx_shape_text(lhs, a),
                          mx_shape_text(&out, b));
    return mx_infer_out(infer, 0, &out);
}

static mx_code infer_like_type(mx_infer *infer)
{
    return mx_infer_out_type(infer, 0, infer->in_type[0]) ? mx_error_code()
                                                          : mx_infer_in_type(infer, 0, infer->out_type[0]);
}

/* ---- gradient, reference ------------------------------------------------------------------------------------ */

static mx_code gradient(mx_grad *grad) { return mx_give(grad, 0, mx_g_reshape(grad->ograd[0], &grad->in_shape[0])); }

static void reference(const mx_reference_call *call)
{
    for (int64_t i = 0; i < mx_shape_size(&call->out_shape[0]); i++)
        call->out[0][i] = call->in[0][i];
}

#define VIEW .flags = MX_OP_VIEW, .gradient = gradient, .reference = reference

mx_op mx_family_reshape[] = {
    {.name = "Reshape", .look = MX_LOOK_SHAPE, .aliases = "reshape",
     .doc = "the same elements in another shape; the order of elements, last axis fastest, does not change",
     .inputs = "data",
     .schema = &reshape_schema, .infer_shape = infer_reshape, VIEW,
     .samples = (const mx_sample[]){{"2,6,5", "shape=(0, -1)", 0, 0, NULL}, {"2,6,5", "shape=(3, -1, 5)", 0, 0, NULL},
         {"2,6,5", "shape=(-2, 1)", 0, 0, NULL}, {"2,6,5", "shape=(-3, 5)", 0, 0, NULL},
         {"2,6,5", "shape=(0, -3)", 0, 0, NULL},
         {"2,6,5", "shape=(-4, 2, 1, -2)", 0, 0, NULL}, {"2,6,5", "shape=(0, -4, -1, 3, 0)", 0, 0, NULL},
         {"6,5,4", "shape=(-1, 0), reverse=True", 0, 0, NULL},
         {"2,12", "shape=(-2, 4, -1, -4), reverse=True", 0, 0, NULL}, {"1", "shape=()", 0, 0, NULL},
         {"0,5", "shape=(-1, 5)", 0, 0, NULL},
         {"4,6", "target_shape=(3, 0)", 0, 0, NULL}, {0}}},
    {.name = "_reshape_to", .doc = "reshapes an array to exactly this shape", .inputs = "data",
     .schema = &reshape_to_schema,
     .infer_shape = infer_to, .flags = MX_OP_VIEW | MX_OP_HIDDEN, .gradient = gradient, .reference = reference,
     .samples = (const mx_sample[]){{"2,6", "shape=(3, 4)", 0, 0, NULL}, {"1", "shape=()", 0, 0, NULL},
         {"0,3", "shape=(3, 0)", 0, 0, NULL}, {0}}},
    {.name = "Flatten", .look = MX_LOOK_SHAPE, .aliases = "flatten _npx_batch_flatten", .c_name = "op_flatten",
     .inputs = "data",
     .doc = "merges all axes but the first; (n, c, h, w) becomes (n, c * h * w)", .infer_shape = infer_flatten, VIEW,
     .samples = (const mx_sample[]){{"2,3,4", "", 0, 0, NULL}, {"5", "", 0, 0, NULL}, {"0,3,2", "", 0, 0, NULL}, {0}}},
    {.name = "expand_dims", .look = MX_LOOK_SHAPE, .aliases = "_npi_expand_dims", .doc = "inserts an axis of size 1; (n, c) with axis=1 becomes (n, 1, c)",
     .inputs = "data",
     .schema = &expand_dims_schema, .infer_shape = infer_expand, VIEW,
     .samples = (const mx_sample[]){{"2,3", "axis=0", 0, 0, NULL}, {"2,3", "axis=-1", 0, 0, NULL},
         {"2,3", "axis=1", 0, 0, NULL},
                                    {"()", "axis=0", 0, 0, NULL}, {0}}},
    {.name = "squeeze", .input_named = true, .look = MX_LOOK_SHAPE, .doc = "removes axes of size 1; without axis all of them", .inputs = "data",
     .schema = &squeeze_schema,
     .infer_shape = infer_squeeze, VIEW,
     .samples = (const mx_sample[]){{"1,3,1", "", 0, 0, NULL}, {"1,3,1", "axis=(0,)", 0, 0, NULL},
         {"1,3,1", "axis=-1", 0, 0, NULL},
                                    {"1,1", "", 0, 0, NULL}, {0}}},
    {.name = "reshape_like", .methods = "reshape_like", .aliases = "_npx_reshape_like",
     .doc = "reshapes lhs to the shape of rhs, or some of its axes to axes of rhs",
     .inputs = "lhs rhs", .schema = &reshape_like_schema, .infer_shape = infer_like, .infer_type = infer_like_type,
     .no_grad_inputs = 2, VIEW,
     .samples = (const mx_sample[]){{"2,6;3,4", "", 0, 0, NULL},
         {"30,7;15,2,4", "lhs_begin=0, lhs_end=1, rhs_begin=0, rhs_end=2", 0, 0, NULL},
         {"2,12;9,3,4", "lhs_begin=-1, rhs_begin=1, rhs_end=3", 0, 0, NULL}, {0}}},
    {0},
};
