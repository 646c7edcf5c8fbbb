/* Joining and splitting arrays: Concat, stack, SliceChannel (split), _split_v2.
 *
 * Every part is one strided copy; joining and splitting are each other's gradient.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "base/alloc.h"
#include "op/formula/movement.h"
#include "op/walk.h"

#define CONCAT_ATTRS(X) \
    X(INT, num_args, "None", "1..", "number of inputs; None: as many as are given") \
    X(INT, dim, "1", "", "axis along which the inputs are joined")
MX_ATTRS(concat, CONCAT_ATTRS)

#define STACK_ATTRS(X) \
    X(INT, axis, "0", "", "position of the new axis") \
    X(INT, num_args, "None", "1..", "number of inputs; None: as many as are given")
MX_ATTRS(stack, STACK_ATTRS)

#define SPLIT_ATTRS(X) \
    X(INT, num_outputs, REQUIRED, "1..64", "number of equal parts") \
    X(INT, axis, "1", "", "axis to split") \
    X(BOOL, squeeze_axis, "False", "", "remove the axis; parts must have size 1")
MX_ATTRS(split, SPLIT_ATTRS)

#define SPLIT_V2_ATTRS(X) \
    X(DIMS, indices, "()", "", "where the parts begin; the first one begins at 0") \
    X(INT, axis, "1", "", "axis to split") \
    X(BOOL, squeeze_axis, "False", "", "remove the axis; parts must have size 1") \
    X(INT, sections, "0", "0..64", "number of equal parts; 0: use indices")
MX_ATTRS(split_v2, SPLIT_V2_ATTRS)

static mx_code check_count(mx_infer *infer, int64_t wanted)
{
    if (infer->n_in < 1 || (wanted != MX_NONE_INT && wanted != infer->n_in))
        return mx_op_fail(infer->op, MX_ERR_ARGUMENT, "got %d inputs, num_args says %lld", infer->n_in,
                          (long long)(wanted == MX_NONE_INT ? 1 : wanted));
    return MX_OK;
}

static mx_code no_axis(const mx_infer *infer, const char *what, int64_t axis, int ndim)
{
    return mx_op_fail(infer->op, MX_ERR_ATTRIBUTE, "%s %lld does not exist, the inputs have %d axes", what,
                      (long long)axis, ndim);
}

/* ---- Concat ------------------------------------------------------------------------------------------------- */

/* The shape that all inputs share, with -1 for the joined axis. */
static mx_code common_shape(mx_infer *infer, int64_t dim, mx_shape_t *common, int *axis)
{
    *common = MX_UNKNOWN_SHAPE;
    for (int i = -1; i < infer->n_in; i++) {
        mx_shape_t shape = i < 0 ? infer->out[0] : infer->in[i];
        char a[MX_SHAPE_TEXT], b[MX_SHAPE_TEXT], name[64];
        if (shape.ndim < 0)
            continue;
        *axis = mx_axis(dim, shape.ndim);
        if (*axis < 0)
            return no_axis(infer, "dim", dim, shape.ndim);
        shape.dim[*axis] = -1;
        if (!mx_shape_merge(common, &shape, NULL))
            return mx_op_fail(infer->op, MX_ERR_SHAPE,
                              "input %s has shape %s, which cannot be joined with shape %s along axis %d",
                              mx_op_input_name(infer->op, i < 0 ? 0 : i, name),
                              mx_shape_text(&infer->in[i < 0 ? 0 : i], a), mx_shape_text(common, b), *axis);
    }
    return MX_OK;
}

/* All share the common sizes; along the axis the output is the sum, and one unknown input is the rest. */
/* Parameters of a recurrent layer: those of unknown size are the input weights of both directions, which are alike. */
static mx_code infer_alike(mx_infer *infer, int axis, int64_t rest, int unknown)
{
    if (strcmp(infer->op->name, "_rnn_param_concat") || rest % unknown)
        return MX_OK;
    for (int i = 0; i < infer->n_in; i++) {
        mx_shape_t shape = infer->in[i];
        if (shape.dim[axis] >= 0)
            continue;
        shape.dim[axis] = rest / unknown;
        if (mx_infer_in(infer, i, &shape))
            return mx_error_code();
    }
    return MX_OK;
}

static mx_code infer_concat(mx_infer *infer)
{
    const mx_concat_attrs *attrs = infer->attrs;
    mx_shape_t common;
    int axis = 0, unknown = 0, which = 0;
    if (check_count(infer, attrs->num_args) || common_shape(infer, attrs->dim, &common, &axis))
        return mx_error_code();
    if (common.ndim < 0)
        return MX_OK;
    int64_t sum = 0;
    for (int i = 0; i < infer->n_in; i++) {
        if (mx_infer_in(infer, i, &common))
            return mx_error_code();
        if (infer->in[i].dim[axis] < 0)
            unknown++, which = i;
        else if (__builtin_add_overflow(sum, infer->in[i].dim[axis], &sum))
            return mx_op_fail(infer->op, MX_ERR_SHAPE, "the sizes along axis %d overflow", axis);
    }
    mx_shape_t out = common;
    out.dim[axis] = unknown ? -1 : sum;
    if (mx_infer_out(infer, 0, &out))
        return mx_error_code();
    if (unknown == 1 && infer->out[0].dim[axis] >= sum) {
        mx_shape_t rest = common;
        rest.dim[axis] = infer->out[0].dim[axis] - sum;
        return mx_infer_in(infer, which, &rest);
    }
    if (unknown > 1 && infer->out[0].dim[axis] >= sum)
        return infer_alike(infer, axis, infer->out[0].dim[axis] - sum, unknown);
    return MX_OK;
}

static bool plan_concat(const mx_kernel_call *call, int i, mx_move *move)
{
    const int axis = mx_axis(((const mx_concat_attrs *)call->attrs)->dim, call->out[0]->ndim);
    int64_t start = 0;
    if (i >= call->n_in)
        return false;
    for (int k = 0; k < i; k++)
        start += call->in[k]->shape[axis];
    move->input = i;
    mx_move_from(move, call->in[i]);
    mx_strides(call->out[0], move->to);
    move->to_offset = start * move->to[axis];
    return true;
}

static mx_code grad_concat(mx_grad *grad)
{
    const int axis = mx_axis(((const mx_concat_attrs *)grad->attrs)->dim, grad->in_shape[0].ndim);
    int64_t begin = 0;
    for (int i = 0; i < grad->n_in; i++) {
        const int64_t end = begin + grad->in_shape[i].dim[axis];
        if (grad->wanted[i] && mx_give(grad, i, mx_g_slice_axis(grad->ograd[0], axis, begin, end)))
            return mx_error_code();
        begin = end;
    }
    return MX_OK;
}

static void ref_concat(const mx_reference_call *call)
{
    const int axis = mx_axis(((const mx_concat_attrs *)call->attrs)->dim, call->out_shape[0].ndim);
    int64_t start = 0, at[MX_MAX_NDIM];
    for (int n = 0; n < call->n_in; n++) {
        for (int64_t i = 0; i < mx_shape_size(&call->in_shape[n]); i++) {
            mx_position(&call->in_shape[n], i, at);
            at[axis] += start;
            call->out[0][mx_element(&call->out_shape[0], at)] = call->in[n][i];
        }
        start += call->in_shape[n].dim[axis];
    }
}

static int count_concat(const void *attrs)
{
    const int64_t n = ((const mx_concat_attrs *)attrs)->num_args;
    return n == MX_NONE_INT || n > INT32_MAX ? 1 : (int)n;
}

/* ---- stack -------------------------------------------------------------------------------------------------- */

static mx_code infer_stack(mx_infer *infer)
{
    const mx_stack_attrs *attrs = infer->attrs;
    mx_shape_t all = MX_UNKNOWN_SHAPE;
    if (check_count(infer, attrs->num_args))
        return mx_error_code();
    for (int i = 0; i < 2 * infer->n_in; i++)
        if (mx_infer_in(infer, i % infer->n_in, &all) || !mx_shape_merge(&all, &infer->in[i % infer->n_in], NULL))
            return mx_error_code();
    if (all.ndim < 0)
        return MX_OK;
    const int axis = mx_axis(attrs->axis, all.ndim + 1);
    if (axis < 0 || all.ndim == MX_MAX_NDIM)
        return no_axis(infer, "axis", attrs->axis, all.ndim);
    mx_shape_t out = {.ndim = all.ndim + 1};
    for (int i = 0, k = 0; i < out.ndim; i++)
        out.dim[i] = i == axis ? infer->n_in : all.dim[k++];
    return mx_infer_out(infer, 0, &out);
}

static bool plan_stack(const mx_kernel_call *call, int i, mx_move *move)
{
    const mx_array *out = call->out[0];
    const int axis = mx_axis(((const mx_stack_attrs *)call->attrs)->axis, out->ndim);
    int64_t stride[MX_MAX_NDIM];
    if (i >= call->n_in)
        return false;
    move->input = i;
    mx_move_from(move, call->in[i]);
    mx_strides(out, stride);
    for (int k = 0, n = 0; k < out->ndim; k++)
        if (k != axis)
            move->to[n++] = stride[k];
    move->to_offset = i * stride[axis];
    return true;
}

static mx_code grad_stack(mx_grad *grad)
{
    const int axis = mx_axis(((const mx_stack_attrs *)grad->attrs)->axis, grad->in_shape[0].ndim + 1);
    for (int i = 0; i < grad->n_in; i++)
        if (grad->wanted[i] &&
            mx_give(grad, i, mx_g_reshape(mx_g_slice_axis(grad->ograd[0], axis, i, i + 1), &grad->in_shape[i])))
            return mx_error_code();
    return MX_OK;
}

static void ref_stack(const mx_reference_call *call)
{
    const int axis = mx_axis(((const mx_stack_attrs *)call->attrs)->axis, call->out_shape[0].ndim);
    const mx_split split = mx_split_at(&call->out_shape[0], axis);
    for (int n = 0; n < call->n_in; n++)
        for (int64_t b = 0; b < split.before; b++)
            for (int64_t a = 0; a < split.after; a++)
                call->out[0][(b * split.size + n) * split.after + a] = call->in[n][b * split.after + a];
}

static int count_stack(const void *attrs)
{
    const int64_t n = ((const mx_stack_attrs *)attrs)->num_args;
    return n == MX_NONE_INT || n > INT32_MAX ? 1 : (int)n;
}

mx_array *mx_g_join(int n, mx_array *const *parts, int axis, bool stacked)
{
    mx_concat_attrs concat = {n, axis};
    mx_stack_attrs stack = {axis, n};
    return stacked ? mx_g_call(MX_OP("stack"), &stack, n, parts) : mx_g_call(MX_OP("Concat"), &concat, n, parts);
}

/* ---- splitting ---------------------------------------------------------------------------------------------- */

/* Where the parts begin and end along the axis, for both operators. */
typedef struct cuts {
    int n, axis;
    bool squeeze;
    int64_t begin[MX_MAX_OUTPUTS], end[MX_MAX_OUTPUTS];
} cuts;

static bool equal_cuts(cuts *c, int64_t size)
{
    for (int i = 0; i < c->n; i++) {
        c->begin[i] = i * (size / c->n);
        c->end[i] = (i + 1) * (size / c->n);
    }
    return size % c->n == 0;
}

static bool find_split(const void *attrs, const mx_shape_t *in, cuts *c)
{
    const mx_split_attrs *a = attrs;
    c->n = (int)a->num_outputs, c->axis = mx_axis(a->axis, in->ndim), c->squeeze = a->squeeze_axis;
    return c->axis >= 0 && equal_cuts(c, in->dim[c->axis]);
}

/* Stored indices name the beginning of every part ("0, 2, 5"); without the leading 0 they are NumPy's. */
static int count_v2(const void *attrs)
{
    const mx_split_v2_attrs *a = attrs;
    if (a->sections > 0)
        return (int)a->sections;
    return a->indices.n <= 0 ? 1 : a->indices.d[0] == 0 ? a->indices.n : a->indices.n + 1;
}

static bool find_split_v2(const void *attrs, const mx_shape_t *in, cuts *c)
{
    const mx_split_v2_attrs *a = attrs;
    c->n = count_v2(attrs), c->axis = mx_axis(a->axis, in->ndim), c->squeeze = a->squeeze_axis;
    if (c->axis < 0)
        return false;
    const int64_t size = in->dim[c->axis];
    if (a->sections > 0)
        return equal_cuts(c, size);
    const int given = a->indices.n < 0 ? 0 : a->indices.n;
    for (int i = 0; i < c->n; i++) {
        const int k = i - (c->n - given); /* the index that begins part i; -1: the part before the first */
        c->begin[i] = k < 0 ? 0 : a->indices.d[k];
        c->end[i] = k + 1 < given ? a->indices.d[k + 1] : size;
        if (c->begin[i] < 0 || c->begin[i] > c->end[i] || c->end[i] > size)
            return false;
    }
    return true;
}

/* op->user: where the cuts are. */
typedef struct split_rule {
    bool (*find)(const void *attrs, const mx_shape_t *in, cuts *c);
} split_rule;

static bool find_cuts(const mx_op *op, const void *attrs, const mx_shape_t *in, cuts *c)
{
    return ((const split_rule *)op->user)->find(attrs, in, c);
}

static mx_shape_t part_shape(const mx_shape_t *in, const cuts *c, int i)
{
    mx_shape_t out = *in;
    out.dim[c->axis] = c->end[i] - c->begin[i];
    if (c->squeeze) {
        out.ndim--;
        memmove(out.dim + c->axis, out.dim + c->axis + 1, (size_t)(out.ndim - c->axis) * sizeof *out.dim);
    }
    return out;
}

/* The input of equal parts of this shape. */
static mx_shape_t whole_of(const mx_split_attrs *attrs, const mx_shape_t *part, int axis)
{
    mx_shape_t whole = *part;
    if (!attrs->squeeze_axis) {
        whole.dim[axis] *= attrs->num_outputs;
        return whole;
    }
    memmove(whole.dim + axis + 1, whole.dim + axis, (size_t)(whole.ndim - axis) * sizeof *whole.dim);
    whole.dim[axis] = attrs->num_outputs;
    whole.ndim++;
    return whole;
}

/* The size of equal parts gives the size of the input. */
static mx_code infer_whole(mx_infer *infer)
{
    const mx_split_attrs *attrs = infer->attrs;
    if (((const split_rule *)infer->op->user)->find != find_split)
        return MX_OK;
    for (int i = 0; i < infer->n_out; i++) {
        const mx_shape_t *part = &infer->out[i];
        const int ndim = part->ndim + (attrs->squeeze_axis ? 1 : 0);
        const int axis = mx_shape_known(part) && ndim <= MX_MAX_NDIM ? mx_axis(attrs->axis, ndim) : -1;
        if (axis < 0)
            continue;
        const mx_shape_t whole = whole_of(attrs, part, axis);
        return mx_infer_in(infer, 0, &whole);
    }
    return MX_OK;
}

static mx_code infer_split(mx_infer *infer)
{
    const mx_shape_t *in = &infer->in[0];
    char text[MX_SHAPE_TEXT];
    cuts c = {0};
    if (!mx_shape_known(in) && infer_whole(infer))
        return mx_error_code();
    if (!mx_shape_known(in))
        return MX_OK;
    bool fits = find_cuts(infer->op, infer->attrs, in, &c);
    for (int i = 0; fits && c.squeeze && i < c.n; i++)
        fits = c.end[i] - c.begin[i] == 1;
    if (!fits)
        return mx_op_fail(infer->op, MX_ERR_SHAPE, "data of shape %s cannot be split %s%d parts%s",
                          mx_shape_text(in, text),
                          c.axis < 0 ? "along an axis that it does not have into " : "into these ", c.n,
                          c.squeeze ? " of size 1" : "");
    for (int i = 0; i < c.n; i++) {
        mx_shape_t out = part_shape(in, &c, i);
        if (mx_infer_out(infer, i, &out))
            return mx_error_code();
    }
    return MX_OK;
}

static bool plan_split(const mx_kernel_call *call, int i, mx_move *move)
{
    mx_shape_t in = {.ndim = call->in[0]->ndim};
    memcpy(in.dim, call->in[0]->shape, sizeof in.dim);
    cuts c;
    if (i >= call->n_out || !find_cuts(call->op, call->attrs, &in, &c))
        return false;
    mx_move_from(move, call->in[0]);
    move->output = i;
    move->dim[c.axis] = c.end[i] - c.begin[i];
    move->from_offset = c.begin[i] * move->from[c.axis];
    int64_t step = 1;
    for (int k = move->ndim - 1; k >= 0; k--) {
        move->to[k] = step;
        step *= move->dim[k];
    }
    return true;
}

/* Unused parts have zero gradients. */
static mx_code grad_split(mx_grad *grad)
{
    mx_array *parts[MX_MAX_OUTPUTS];
    cuts c;
    mx_context context = {0};
    for (int i = 0; i < grad->n_out; i++)
        if (grad->ograd[i])
            context = grad->ograd[i]->context;
    find_cuts(grad->op, grad->attrs, &grad->in_shape[0], &c);
    for (int i = 0; i < grad->n_out; i++) {
        mx_shape_t shape = part_shape(&grad->in_shape[0], &c, i);
        parts[i] = grad->ograd[i] ? grad->ograd[i] : mx_g_zeros(&shape, grad->in_type[0], context);
    }
    return mx_give(grad, 0, mx_g_join(grad->n_out, parts, c.axis, c.squeeze));
}

mx_array *mx_g_zeros(const mx_shape_t *shape, int dtype, mx_context context)
{
    struct { mx_dims shape; mx_context ctx; mx_dtype dtype; } attrs = {mx_dims_of_shape(shape), context, MX_FLOAT32};
    attrs.dtype = (mx_dtype)dtype;
    return mx_g_call(MX_OP("_zeros"), &attrs, 0, NULL);
}

static void reference_split(const mx_reference_call *call, const cuts *c)
{
    const mx_split split = mx_split_at(&call->in_shape[0], c->axis);
    for (int n = 0; n < c->n; n++) {
        double *to = call->out[n];
        for (int64_t b = 0; b < split.before; b++)
            for (int64_t i = c->begin[n]; i < c->end[n]; i++)
                for (int64_t a = 0; a < split.after; a++)
                    *to++ = call->in[0][(b * split.size + i) * split.after + a];
    }
}
static void ref_split(const mx_reference_call *call)
{
    cuts c;
    if (find_split(call->attrs, &call->in_shape[0], &c))
        reference_split(call, &c);
}
static void ref_split_v2(const mx_reference_call *call)
{
    cuts c;
    if (find_split_v2(call->attrs, &call->in_shape[0], &c))
        reference_split(call, &c);
}

static int count_split(const void *attrs) { return (int)((const mx_split_attrs *)attrs)->num_outputs; }

// clang-format off
#define CONCAT .inputs = "*data", .schema = &concat_schema, .flags = MX_OP_LIST, .count_in = count_concat, \
    .infer_shape = infer_concat, .gradient = grad_concat, .reference = ref_concat, \
    .movement = &(const mx_movement){plan_concat}

mx_op mx_family_join[] = {
    {.name = "Concat", .look = MX_LOOK_SHAPE, .sparse = MX_SPARSE_CONCAT, .precision = MX_PRECISION_WIDEST,
     .aliases = "_sparse_concat concat",
     .doc = "joins arrays along an axis that exists; the other sizes must be equal", CONCAT,
     .samples = (const mx_sample[]){{"2,3;2,4", "num_args=2", 0, 0, NULL},
         {"2,3;1,3;4,3", "num_args=3, dim=0", 0, 0, NULL}, {"2,3,2;2,3,1", "dim=-1", 0, 0, NULL},
         {"5", "dim=0", 0, 0, NULL}, {"2,0;2,3", "", 0, 0, NULL}, {0}}},
    {.name = "_rnn_param_concat", .aliases = "_npi_rnn_param_concat",
     .doc = "joins the parameters of a recurrent layer", CONCAT,
     .samples = (const mx_sample[]){{"6;4", "num_args=2, dim=0", 0, 0, NULL}, {0}}},
    {.name = "stack", .look = MX_LOOK_SHAPE, .precision = MX_PRECISION_WIDEST,
     .doc = "joins arrays of equal shape along a new axis",
     .inputs = "*data", .schema = &stack_schema,
     .flags = MX_OP_LIST,
     .count_in = count_stack, .infer_shape = infer_stack, .gradient = grad_stack, .reference = ref_stack,
     .movement = &(const mx_movement){plan_stack},
     .samples = (const mx_sample[]){{"2,3;2,3", "num_args=2", 0, 0, NULL}, {"2,3;2,3;2,3", "axis=1", 0, 0, NULL},
         {"4;4", "axis=-1", 0, 0, NULL}, {"();()", "", 0, 0, NULL}, {0}}},
    {.name = "SliceChannel", .input_named = true, .look = MX_LOOK_SHAPE, .hint = "split", .methods = "split", .aliases = "split",
     .c_name = "split",
     .doc = "splits an array into equal parts along an axis",
     .inputs = "data", .schema = &split_schema,
     .count_out = count_split, .infer_shape = infer_split, .gradient = grad_split, .reference = ref_split,
     .movement = &(const mx_movement){plan_split}, .user = &(const split_rule){find_split},
     .samples = (const mx_sample[]){{"2,6", "num_outputs=3", 0, 0, NULL}, {"4,3", "num_outputs=2, axis=0", 0, 0, NULL},
         {"2,3,2", "num_outputs=2, axis=-1, squeeze_axis=True", 0, 0, NULL},
         {"2,3", "num_outputs=1", 0, 0, NULL}, {0}}},
    {.name = "_split_v2", .input_named = true, .aliases = "_npi_split", .doc = "splits an array along an axis into equal parts or at given indices",
     .inputs = "data", .schema = &split_v2_schema,
     .count_out = count_v2, .infer_shape = infer_split, .gradient = grad_split, .reference = ref_split_v2,
     .movement = &(const mx_movement){plan_split}, .user = &(const split_rule){find_split_v2},
     .samples = (const mx_sample[]){{"2,6", "indices=(0, 2, 5)", 0, 0, NULL}, {"2,6", "indices=(2,)", 0, 0, NULL},
         {"6,2", "indices=(), sections=3, axis=0", 0, 0, NULL},
         {"3,2", "indices=(), sections=3, axis=0, squeeze_axis=True", 0, 0, NULL}, {0}}},
    {0},
};
// clang-format on
