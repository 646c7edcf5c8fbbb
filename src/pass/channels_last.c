/* Channels last (MX_CAN_CHANNELS_LAST): convolutions and what is between them work on (N, H, W, C), gradients included.
 *
 *     x (N, C, H, W) -> transpose -> Convolution [NHWC] -> BatchNorm [axis 3] -> ... -> transpose -> the rest
 *
 * That is the order in which tensor cores read.  Steps are converted in order: convolutions and their gradients always,
 * others if all their inputs exist with channels last.  A value computed with channels last is transposed back when a
 * step first needs it in (N, C, H, W); if H and W are 1 both orders are the same, so only its shape changes.  Weights
 * (O, C, H, W) are treated alike.
 *
 * Few channels, as in an image, are padded with zeros to 16 bytes, the least that tensor cores read.  If the stride
 * is 2, too, squares of 2 x 2 pixels become channels, and the convolution one with stride 1 (op/def/movement/pixel_blocks.c).
 *
 * Dropout is not converted: its random numbers depend on the order in memory.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "base/alloc.h"
#include "base/flags.h"
#include "gluon/op.gen.h"
#include "ndarray/device.h"
#include "ndarray/dtype.h"
#include "op/formula/pointwise.h"
#include "pass/passes.h"

typedef enum kind {
    NONE,    /* not converted */
    CONV,    /* data, weight */
    NORM,    /* data */
    BACK,    /* of a normalisation: gradient, data */
    POOL,    /* data; of the gradient: gradient, data */
    CHANNEL, /* Concat, slice_axis: data along the channels */
    SAME,    /* elementwise */
} kind;

typedef struct rewriter {
    mx_program *program;
    MX_VEC(mx_step) steps;
    int64_t values;  /* when the pass started: new values follow */
    int32_t *nhwc;   /* (values) the value with channels last; -1: none yet */
    int32_t *padded; /* (values) the same, padded with channels of zeros; -1: none yet */
    bool *moved;     /* (values) is computed with channels last */
    bool *restored;  /* (values) moved, and transposed back */
} rewriter;

static const mx_value *value_of(const rewriter *r, int32_t v) { return &r->program->values.items[v]; }
static int64_t at(const mx_dims *dims, int i, int64_t fallback) { return dims->n > i ? dims->d[i] : fallback; }

/* ---- which steps are converted ----------------------------------------------------------------------------------- */

static bool image(const rewriter *r, int32_t v)
{
    return v >= 0 && value_of(r, v)->shape.ndim == 4 && mx_dtype_is_float(value_of(r, v)->dtype) &&
           mx_shape_size(&value_of(r, v)->shape) > 0;
}

/* Both orders are the same in memory. */
static bool same_in_memory(const rewriter *r, int32_t v)
{
    const int64_t *dim = value_of(r, v)->shape.dim;
    return dim[1] == 1 || dim[2] * dim[3] == 1;
}

/* Every channel by itself, in a form for which there are kernels with channels last. */
static bool depthwise(const mx_convolution_attrs *a)
{
    return a->num_group > 1 && a->num_group == a->num_filter && a->kernel.n == 2 && a->kernel.d[0] == a->kernel.d[1] &&
           (a->kernel.d[0] == 3 || a->kernel.d[0] == 5) && at(&a->stride, 0, 1) == at(&a->stride, 1, 1) &&
           at(&a->stride, 0, 1) <= 2 && at(&a->dilate, 0, 1) == 1 && at(&a->dilate, 1, 1) == 1 &&
           at(&a->pad, 0, 0) < a->kernel.d[0] && at(&a->pad, 1, 0) < a->kernel.d[0];
}

static bool worth(const mx_convolution_attrs *a, int dtype)
{
    const bool narrow = mx_dtype_is_narrow(dtype);
    return a->kernel.n == 2 && (a->num_group == 1 || depthwise(a)) && a->num_filter % 8 == 0 &&
           (a->layout < 0 || a->layout == MX_CONVOLUTION_NCHW) &&
           (narrow || (dtype == MX_FLOAT32 && mx_flags_get()->cuda_tf32));
}

static bool is_convolution(const mx_step *step)
{
    return mx_step_is(step, "Convolution") || mx_step_is(step, "_convolution_relu") ||
           mx_step_is(step, "_conv_data_grad") || mx_step_is(step, "_conv_weight_grad") ||
           mx_step_is(step, "_conv_weight_bias_grad");
}

static bool is_elementwise(const mx_step *step)
{
    return (step->op->flags & MX_OP_ELEMENTWISE) || mx_pointwise_of(step->op);
}

/* What the step could become; its inputs are checked later. */
static kind kind_of(const rewriter *r, const mx_step *step)
{
    if (!step->n_in || !step->n_out || !image(r, step->out[0]) || value_of(r, step->out[0])->external >= 0)
        return NONE;
    if (is_convolution(step))
        return worth(step->attrs, value_of(r, step->in[0])->dtype) ? CONV : NONE;
    if (mx_step_is(step, "BatchNorm"))
        return mx_axis(((const mx_batch_norm_attrs *)step->attrs)->axis, 4) == 1 ? NORM : NONE;
    if (mx_step_is(step, "_backward_BatchNorm"))
        return mx_axis(((const mx_batch_norm_backward_attrs *)step->attrs)->axis, 4) == 1 ? BACK : NONE;
    if (mx_step_is(step, "Pooling") || mx_step_is(step, "_backward_Pooling")) {
        const int layout = ((const mx_pooling_attrs *)step->attrs)->layout;
        return step->n_out == 1 && (layout < 0 || layout == MX_POOLING_NCHW) ? POOL : NONE;
    }
    if (mx_step_is(step, "Concat"))
        return mx_axis(((const mx_concat_attrs *)step->attrs)->dim, 4) == 1 ? CHANNEL : NONE;
    if (mx_step_is(step, "slice_axis"))
        return mx_axis(((const mx_slice_axis_attrs *)step->attrs)->axis, 4) == 1 ? CHANNEL : NONE;
    return step->n_out == 1 && is_elementwise(step) ? SAME : NONE;
}

/* The number of leading inputs that change their order. */
static int images_read(const mx_step *step, kind k)
{
    switch (k) {
    case CONV:
    case BACK: return 2;
    case NORM: return 1;
    default: return step->n_in;
    }
}

/* All its inputs exist with channels last, or are the same in both orders. */
static bool inputs_moved(const rewriter *r, const mx_step *step, kind k)
{
    bool any = false;
    for (int i = 0; i < images_read(step, k); i++) {
        if (!image(r, step->in[i]) || step->in[i] >= r->values ||
            (!r->moved[step->in[i]] && !same_in_memory(r, step->in[i])))
            return false;
        any |= r->moved[step->in[i]];
    }
    return any;
}

/* ---- building steps ---------------------------------------------------------------------------------------------- */

static const int to_last[4] = {0, 2, 3, 1}, to_first[4] = {0, 3, 1, 2};

static mx_shape_t permuted(const mx_shape_t *s, const int *order)
{
    return (mx_shape_t){.ndim = 4, .dim = {s->dim[order[0]], s->dim[order[1]], s->dim[order[2]], s->dim[order[3]]}};
}

static void *copied(rewriter *r, const void *attrs, size_t bytes)
{
    void *copy = mx_program_alloc(r->program, bytes);
    return copy ? memcpy(copy, attrs, bytes) : NULL;
}

/* to = op(from) */
static mx_code push_made(rewriter *r, int32_t from, int32_t to, mx_op *op, const void *attrs, size_t bytes,
                         const char *name)
{
    mx_step step = {.op = op, .n_in = 1, .n_out = 1, .name = name, .training = true, .attrs = copied(r, attrs, bytes)};
    int32_t *lists = mx_program_alloc(r->program, 2 * sizeof *lists);
    if (!lists || !step.attrs)
        return MX_ERR_MEMORY;
    lists[0] = from, lists[1] = to;
    step.in = lists, step.out = lists + 1;
    return mx_vec_push(&r->steps, step) ? MX_OK : MX_ERR_MEMORY;
}

/* to = from, transposed to the given order */
static mx_code push_move(rewriter *r, int32_t from, int32_t to, const int *order, const char *name)
{
    if (same_in_memory(r, order == to_last ? from : to)) {
        const mx_reshape_to_attrs attrs = {.shape = mx_dims_of_shape(&value_of(r, to)->shape)};
        return push_made(r, from, to, MX_OP("_reshape_to"), &attrs, sizeof attrs, name);
    }
    const mx_transpose_attrs attrs = {.axes = MX_DIMS(order[0], order[1], order[2], order[3])};
    return push_made(r, from, to, MX_OP("transpose"), &attrs, sizeof attrs, name);
}

static int32_t new_nhwc(rewriter *r, int32_t v)
{
    const mx_shape_t shape = permuted(&value_of(r, v)->shape, to_last);
    return r->nhwc[v] = mx_program_value(r->program, &shape, value_of(r, v)->dtype);
}

/* The value with channels last; -1: out of memory. */
static int32_t last(rewriter *r, int32_t v, const char *name)
{
    if (r->nhwc[v] < 0 && (new_nhwc(r, v) < 0 || push_move(r, v, r->nhwc[v], to_last, name)))
        return -1;
    return r->nhwc[v];
}

/* Transposes back a value that was computed with channels last. */
static mx_code restore(rewriter *r, int32_t v, const char *name)
{
    if (v < 0 || v >= r->values || !r->moved[v] || r->restored[v])
        return MX_OK;
    r->restored[v] = true;
    return push_move(r, r->nhwc[v], v, to_first, name);
}

/* A convolution whose data and weight have all channels; the weight of a depthwise one has 1. */
static bool pads(const mx_step *step) { return ((const mx_convolution_attrs *)step->attrs)->num_group == 1; }

/* The number of channels after padding. */
static int64_t padded_channels(int64_t channels, int dtype)
{
    const int64_t least = 16 / mx_dtype_size((mx_dtype)dtype);
    return channels < least ? least : channels;
}

/* A step with one input and one new output of this many channels; -1: out of memory. */
static int32_t push_channels(rewriter *r, int32_t from, int64_t channels, mx_op *op, const void *attrs, size_t bytes,
                             const char *name)
{
    mx_shape_t shape = value_of(r, from)->shape;
    shape.dim[3] = channels;
    const int32_t to = mx_program_value(r->program, &shape, value_of(r, from)->dtype);
    return to < 0 || push_made(r, from, to, op, attrs, bytes, name) ? -1 : to;
}

/* The value with channels last, padded; -1: out of memory. */
static int32_t padded(rewriter *r, int32_t v, const char *name)
{
    const int64_t channels = value_of(r, v)->shape.dim[1], all = padded_channels(channels, value_of(r, v)->dtype);
    const int32_t from = last(r, v, name);
    if (from < 0 || all == channels)
        return from;
    const mx_pad_attrs attrs = {.mode = MX_PAD_CONSTANT, .pad_width = MX_DIMS(0, 0, 0, 0, 0, 0, 0, all - channels)};
    if (r->padded[v] < 0)
        r->padded[v] = push_channels(r, from, all, MX_OP("Pad"), &attrs, sizeof attrs, name);
    return r->padded[v];
}

/* The step's attributes for channels last; NULL: out of memory. */
static void *attributes(rewriter *r, const mx_step *step, kind k)
{
    void *attrs = step->op->schema ? copied(r, step->attrs, step->op->schema->size) : NULL;
    if (!attrs)
        return NULL;
    if (k == CONV) {
        ((mx_convolution_attrs *)attrs)->layout = MX_CONVOLUTION_NHWC;
        if (step->op->schema->size == sizeof(mx_conv_gradient_attrs)) {
            mx_conv_gradient_attrs *gradient = attrs;
            const mx_shape_t made = mx_shape_of_dims(&gradient->shape);
            mx_shape_t transposed = permuted(&made, to_last);
            if (pads(step))
                transposed.dim[3] = padded_channels(transposed.dim[3], value_of(r, step->in[0])->dtype);
            gradient->shape = mx_dims_of_shape(&transposed);
        }
    } else if (k == NORM)
        ((mx_batch_norm_attrs *)attrs)->axis = 3;
    else if (k == BACK)
        ((mx_batch_norm_backward_attrs *)attrs)->axis = 3;
    else if (k == POOL)
        ((mx_pooling_attrs *)attrs)->layout = MX_POOLING_NHWC;
    else if (k == CHANNEL && mx_step_is(step, "Concat"))
        ((mx_concat_attrs *)attrs)->dim = 3;
    else if (k == CHANNEL)
        ((mx_slice_axis_attrs *)attrs)->axis = 3;
    return attrs;
}

/* Input i of a converted step; -1 means out of memory if it is an image. */
static int32_t input_of(rewriter *r, const mx_step *step, kind k, int i)
{
    if (i >= images_read(step, k))
        return step->in[i];
    return k == CONV && pads(step) ? padded(r, step->in[i], step->name) : last(r, step->in[i], step->name);
}

/* Removes the padding channels of a gradient. */
static mx_code cut(rewriter *r, mx_step *taken, const mx_step *step)
{
    const mx_value *out = value_of(r, step->out[0]);
    const int64_t channels = out->shape.dim[1], all = padded_channels(channels, out->dtype);
    if (step->op->schema->size != sizeof(mx_conv_gradient_attrs) || all == channels || !pads(step))
        return mx_vec_push(&r->steps, *taken) ? MX_OK : MX_ERR_MEMORY;
    mx_shape_t shape = value_of(r, taken->out[0])->shape;
    shape.dim[3] = all;
    const int32_t whole = mx_program_value(r->program, &shape, value_of(r, step->out[0])->dtype);
    const mx_slice_axis_attrs attrs = {.axis = 3, .begin = 0, .end = channels};
    taken->out[0] = whole;
    if (whole < 0 || !mx_vec_push(&r->steps, *taken))
        return MX_ERR_MEMORY;
    r->nhwc[step->out[0]] = push_channels(r, whole, channels, MX_OP("slice_axis"), &attrs, sizeof attrs, step->name);
    return r->nhwc[step->out[0]] < 0 ? MX_ERR_MEMORY : MX_OK;
}

/* ---- few channels and a stride of 2 ------------------------------------------------------------------------------- */

/* A convolution, or the gradient of its weight, whose data becomes blocks of pixels. */
static bool in_blocks(const rewriter *r, const mx_step *step)
{
    const mx_convolution_attrs *a = step->attrs;
    if (mx_step_is(step, "_conv_data_grad") || value_of(r, step->in[0])->shape.dim[1] > 4)
        return false;
    for (int i = 0; i < 2; i++)
        if (at(&a->stride, i, 1) != 2 || at(&a->dilate, i, 1) != 1 || a->kernel.d[i] < 2)
            return false;
    return true;
}

/* v (N, C, H, W) as blocks of pixels; existing ones are reused if they are the same.  -1: out of memory. */
static int32_t blocks(rewriter *r, int32_t v, const mx_pixel_blocks_attrs *attrs, const char *name)
{
    for (int64_t i = 0; i < r->steps.length; i++) {
        const mx_step *step = &r->steps.items[i];
        if (mx_step_is(step, "_pixel_blocks") && step->in[0] == v &&
            mx_schema_equal(step->op->schema, step->attrs, attrs))
            return step->out[0];
    }
    const mx_shape_t shape = {4, {value_of(r, v)->shape.dim[0], attrs->size.d[0], attrs->size.d[1], attrs->channels}};
    const int32_t to = mx_program_value(r->program, &shape, value_of(r, v)->dtype);
    return to < 0 || push_made(r, v, to, MX_OP("_pixel_blocks"), attrs, sizeof *attrs, name) ? -1 : to;
}

/* How data and weight become blocks; a window of k becomes one of (k + 1) / 2. */
typedef struct blocked {
    mx_pixel_blocks_attrs image, window;
    bool gradient; /* of the weight */
} blocked;

static blocked find_blocks(const rewriter *r, const mx_step *step)
{
    const mx_convolution_attrs *a = step->attrs;
    blocked b = {.gradient = step->op->schema->size == sizeof(mx_conv_gradient_attrs)};
    const mx_value *x = value_of(r, step->in[0]), *y = value_of(r, b.gradient ? step->in[1] : step->out[0]);
    const int64_t whole = 16 / mx_dtype_size((mx_dtype)x->dtype); /* channels that 16 bytes hold */
    b.image.channels = b.window.channels = (4 * x->shape.dim[1] + whole - 1) / whole * whole;
    b.image.size.n = b.image.pad.n = b.window.size.n = b.window.pad.n = 2;
    for (int i = 0; i < 2; i++) {
        b.image.pad.d[i] = at(&a->pad, i, 0), b.window.size.d[i] = (a->kernel.d[i] + 1) / 2;
        b.image.size.d[i] = y->shape.dim[2 + i] + b.window.size.d[i] - 1;
    }
    return b;
}

/* The gradient of the blocked weight, then from it that of the original weight. */
static mx_code push_weight_gradient(rewriter *r, mx_step *taken, const mx_step *step,
                                    const mx_pixel_blocks_attrs *window)
{
    mx_conv_gradient_attrs *a = taken->attrs;
    const mx_from_pixel_blocks_attrs back = {.shape = a->shape, .pad = MX_DIMS(0, 0)};
    const mx_shape_t made = {4, {a->shape.d[0], window->size.d[0], window->size.d[1], window->channels}};
    a->shape = mx_dims_of_shape(&made);
    taken->out[0] = mx_program_value(r->program, &made, value_of(r, step->out[0])->dtype);
    if (taken->out[0] < 0 || !mx_vec_push(&r->steps, *taken))
        return MX_ERR_MEMORY;
    return push_made(r, taken->out[0], step->out[0], MX_OP("_from_pixel_blocks"), &back, sizeof back, step->name);
}

/* y = conv(x, w), or gw = gradient(x, gy) */
static mx_code take_blocks(rewriter *r, const mx_step *step)
{
    const blocked b = find_blocks(r, step);
    mx_step taken = *step;
    mx_convolution_attrs *a = taken.attrs = copied(r, step->attrs, step->op->schema->size);
    int32_t *lists = mx_program_alloc(r->program, (size_t)(step->n_in + step->n_out) * sizeof *lists);
    if (!a || !lists || restore(r, step->in[0], step->name) || (!b.gradient && restore(r, step->in[1], step->name)))
        return MX_ERR_MEMORY;
    a->kernel = b.window.size, a->stride = MX_DIMS(1, 1), a->pad = MX_DIMS(0, 0), a->layout = MX_CONVOLUTION_NHWC;
    taken.in = memcpy(lists, step->in, (size_t)step->n_in * sizeof *lists);
    taken.out = memcpy(lists + step->n_in, step->out, (size_t)step->n_out * sizeof *lists);
    taken.in[0] = blocks(r, step->in[0], &b.image, step->name);
    taken.in[1] = b.gradient ? last(r, step->in[1], step->name) : blocks(r, step->in[1], &b.window, step->name);
    if (taken.in[0] < 0 || taken.in[1] < 0)
        return MX_ERR_MEMORY;
    if (b.gradient)
        return push_weight_gradient(r, &taken, step, &b.window);
    taken.out[0] = new_nhwc(r, step->out[0]);
    r->moved[step->out[0]] = true;
    return taken.out[0] >= 0 && mx_vec_push(&r->steps, taken) ? MX_OK : MX_ERR_MEMORY;
}

static mx_code take(rewriter *r, const mx_step *step, kind k)
{
    mx_step taken = *step;
    int32_t *lists = mx_program_alloc(r->program, (size_t)(step->n_in + step->n_out) * sizeof *lists);
    taken.attrs = attributes(r, step, k);
    if (!lists || (step->op->schema && !taken.attrs))
        return MX_ERR_MEMORY;
    for (int i = 0; i < step->n_in; i++)
        if ((lists[i] = input_of(r, step, k, i)) < 0 && i < images_read(step, k))
            return MX_ERR_MEMORY;
    taken.in = lists, taken.out = lists + step->n_in;
    memcpy(taken.out, step->out, (size_t)step->n_out * sizeof *lists);
    if ((taken.out[0] = new_nhwc(r, step->out[0])) < 0)
        return MX_ERR_MEMORY;
    r->moved[step->out[0]] = true;
    if (k == CONV)
        return cut(r, &taken, step);
    return mx_vec_push(&r->steps, taken) ? MX_OK : MX_ERR_MEMORY;
}

static bool is_head(const mx_program *program, int32_t v)
{
    for (int64_t h = 0; h < program->results.length; h++)
        if (program->results.items[h] == v)
            return true;
    return false;
}

static mx_code rewrite_step(rewriter *r, const mx_step *step)
{
    kind k = kind_of(r, step);
    if (k != NONE && k != CONV && !inputs_moved(r, step, k))
        k = NONE;
    if (k == CONV && (!image(r, step->in[0]) || !image(r, step->in[1])))
        k = NONE;
    for (int i = k ? images_read(step, k) : 0; i < step->n_in; i++)
        if (restore(r, step->in[i], step->name))
            return MX_ERR_MEMORY;
    if (!k)
        return mx_vec_push(&r->steps, *step) ? MX_OK : MX_ERR_MEMORY;
    if (k == CONV && in_blocks(r, step) ? take_blocks(r, step) : take(r, step, k))
        return MX_ERR_MEMORY;
    return is_head(r->program, step->out[0]) ? restore(r, step->out[0], step->name) : MX_OK;
}

/* ---- the pass ---------------------------------------------------------------------------------------------------- */

static mx_code rewrite(rewriter *r)
{
    mx_program *program = r->program;
    const int64_t forward = program->forward, count = program->steps.length;
    for (int64_t i = 0; i < count; i++) {
        if (i == forward)
            program->forward = r->steps.length;
        const mx_step step = program->steps.items[i];
        if (rewrite_step(r, &step))
            return MX_ERR_MEMORY;
    }
    if (forward == count)
        program->forward = r->steps.length;
    mx_vec_free(&program->steps);
    program->steps.items = r->steps.items, program->steps.length = r->steps.length;
    program->steps.capacity = r->steps.capacity;
    mx_program_count(program);
    return MX_OK;
}

mx_code mx_pass_channels_last(mx_program *program)
{
    bool any = false;
    rewriter r = {.program = program, .values = program->values.length};
    for (int64_t i = 0; i < program->steps.length && !any; i++) /* most programs have no convolution */
        any = is_convolution(&program->steps.items[i]) && kind_of(&r, &program->steps.items[i]) == CONV;
    if (!any)
        return MX_OK;
    const size_t bytes = (size_t)r.values * (2 * sizeof *r.nhwc + 2 * sizeof(bool));
    char *memory = mx_alloc_zero(bytes);
    if (!memory)
        return MX_ERR_MEMORY;
    r.nhwc = (int32_t *)memory, r.padded = r.nhwc + r.values;
    r.moved = (bool *)(r.padded + r.values), r.restored = r.moved + r.values;
    for (int64_t v = 0; v < r.values; v++)
        r.nhwc[v] = r.padded[v] = -1;
    const mx_code code = rewrite(&r);
    if (code)
        mx_vec_free(&r.steps);
    mx_free(memory, bytes);
    return code;
}
