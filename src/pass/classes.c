/* On devices with MX_CAN_ALIGN_ROWS: scores of many classes get rows that tensor cores can read.
 *
 *     y = FullyConnected(x, w, b) (rows, 50257); loss, dy = _softmax_ce_gradient(y, label, g); dx = dot(dy, w); dw = dot(dy', x)
 *         ->  w' = w and 47 rows of 0; b' = b and 47 times a very small number; y' (rows, 50304) ...; dw = the first rows of dw'
 *
 * The probability of the additional classes is 0, and so is their gradient.  Labels are limited to the true classes, as the
 * loss does that with all of them.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "gluon/op.gen.h"
#include "pass/passes.h"

#define LEAST_CLASSES 1024 /* that pay for the copies */
#define WHOLE 64           /* the new number of classes is a multiple of it */
#define MOST_READERS 16

enum { DATA, WEIGHT, BIAS };

typedef struct rewriter {
    mx_program *program;
    MX_VEC(mx_step) steps;
    int64_t dense, loss;          /* numbers of steps */
    int64_t classes, all;         /* before and after */
    int32_t y, dy;                /* values */
    int32_t weight;               /* the new one */
    int64_t reader[MOST_READERS]; /* steps that read dy, or a view of it */
    int readers;
} rewriter;

static mx_value *value_of(const rewriter *r, int32_t v) { return &r->program->values.items[v]; }
static const mx_step *step_of(const rewriter *r, int64_t i) { return &r->program->steps.items[i]; }

/* ---- finding ----------------------------------------------------------------------------------------------------- */

static bool misaligned(const mx_value *y)
{
    const int64_t classes = y->shape.dim[y->shape.ndim - 1];
    return classes >= LEAST_CLASSES && classes * mx_dtype_size((mx_dtype)y->dtype) % 16 && y->dtype != MX_FLOAT64;
}

static bool plain_dot(const mx_step *step, bool transpose_a)
{
    const mx_dot_attrs *a = step->attrs;
    return mx_step_is(step, "dot") && a->transpose_a == transpose_a && !a->transpose_b;
}

/* A step that can read gradients with more columns: its result has none of them, or they are cut off. */
static bool reads_columns(const rewriter *r, const mx_step *step, int32_t dy)
{
    if (step->in[0] != dy || value_of(r, dy)->shape.ndim != 2)
        return false;
    if (plain_dot(step, false))
        return step->in[1] == step_of(r, r->dense)->in[WEIGHT];
    return plain_dot(step, true) || mx_step_is(step, "_dense_gradients") ||
           (mx_step_is(step, "_sum_to") && value_of(r, step->out[0])->shape.ndim == 1);
}

/* Finds the steps that read v, a gradient with the classes as its last axis; false: one of them needs its true shape. */
static bool find_readers(rewriter *r, int32_t v)
{
    int found = 0;
    for (int64_t i = r->loss + 1; i < r->program->steps.length; i++) {
        const mx_step *step = step_of(r, i);
        int reads = 0;
        for (int k = 0; k < step->n_in && !step->dead; k++)
            reads += step->in[k] == v;
        if (!reads)
            continue;
        const bool view = mx_step_is(step, "_reshape_to");
        const mx_shape_t *shape = &value_of(r, step->out[0])->shape;
        if (reads > 1 || r->readers == MOST_READERS || (!view && !reads_columns(r, step, v)) ||
            (view && (shape->ndim < 1 || shape->dim[shape->ndim - 1] != r->classes)))
            return false;
        r->reader[r->readers++] = i, found++;
        if (view && !find_readers(r, step->out[0]))
            return false;
    }
    return found == value_of(r, v)->uses; /* none is a result of the program */
}

static bool find(rewriter *r, int64_t i)
{
    const mx_step *loss = step_of(r, i);
    if (loss->dead || !mx_step_is(loss, "_softmax_ce_gradient"))
        return false;
    const mx_softmax_ce_attrs *a = loss->attrs;
    const mx_step *dense = mx_step_only_maker(r->program, loss->in[0], "FullyConnected");
    r->loss = i, r->y = loss->in[0], r->dy = loss->out[1], r->readers = 0;
    const mx_shape_t *shape = &value_of(r, r->y)->shape;
    if (!dense || !a->sparse_label || !misaligned(value_of(r, r->y)) ||
        mx_axis(a->axis, shape->ndim) != shape->ndim - 1)
        return false;
    r->dense = dense - r->program->steps.items;
    r->classes = shape->dim[shape->ndim - 1], r->all = (r->classes + WHOLE - 1) / WHOLE * WHOLE;
    return find_readers(r, r->dy);
}

/* ---- rewriting --------------------------------------------------------------------------------------------------- */

static mx_code push(rewriter *r, mx_step step) { return mx_vec_push(&r->steps, step) ? MX_OK : MX_ERR_MEMORY; }

/* A new value computed by a step with at most one input; -1: out of memory. */
static int32_t push_new(rewriter *r, const char *op, const void *attrs, size_t bytes, int32_t from, mx_shape_t shape,
                        int dtype)
{
    const mx_step *dense = step_of(r, r->dense);
    const int32_t to = mx_program_value(r->program, &shape, dtype);
    int32_t *lists = mx_program_alloc(r->program, 2 * sizeof *lists);
    mx_step step = {.op = mx_op_find(op), .n_in = from >= 0, .n_out = 1, .training = true, .name = dense->name};
    step.attrs = mx_program_alloc(r->program, bytes);
    if (to < 0 || !lists || !step.attrs)
        return -1;
    memcpy(step.attrs, attrs, bytes);
    lists[0] = from, lists[1] = to;
    step.in = lists, step.out = lists + 1;
    return push(r, step) ? -1 : to;
}

static int32_t push_view(rewriter *r, int32_t v, mx_shape_t shape)
{
    const mx_reshape_to_attrs attrs = {.shape = mx_dims_of_shape(&shape)};
    return v < 0 ? -1 : push_new(r, "_reshape_to", &attrs, sizeof attrs, v, shape, value_of(r, v)->dtype);
}

/* v (classes) or (classes, n), and rows of `fill` after it */
static int32_t push_padded(rewriter *r, int32_t v, double fill)
{
    const mx_shape_t from = value_of(r, v)->shape;
    mx_shape_t to = from, image = {4, {1, 1, from.dim[0], from.ndim > 1 ? from.dim[1] : 1}};
    const mx_pad_attrs attrs = {.mode = MX_PAD_CONSTANT,
                                .pad_width = MX_DIMS(0, 0, 0, 0, 0, r->all - r->classes, 0, 0),
                                .constant_value = fill};
    const int32_t view = push_view(r, v, image);
    to.dim[0] = image.dim[2] = r->all;
    const int32_t padded = view < 0 ? -1 : push_new(r, "Pad", &attrs, sizeof attrs, view, image, value_of(r, v)->dtype);
    return push_view(r, padded, to);
}

static int32_t push_bias(rewriter *r, const mx_step *dense)
{
    const int dtype = value_of(r, r->y)->dtype;
    const double never = dtype == MX_FLOAT16 ? -60000 : -1e30; /* a score whose exponential is 0 beside any other */
    const mx_shape_t shape = {1, {r->classes}};
    const mx_fill_attrs attrs = {
        .shape = mx_dims_of_shape(&shape), .ctx = r->program->context, .dtype = (mx_dtype)dtype};
    const bool given = dense->n_in > BIAS && dense->in[BIAS] >= 0;
    const int32_t bias = given ? dense->in[BIAS] : push_new(r, "_zeros", &attrs, sizeof attrs, -1, shape, dtype);
    return bias < 0 ? -1 : push_padded(r, bias, never);
}

/* A copy of the step with its own attributes, inputs and outputs. */
static mx_code copy_step(rewriter *r, const mx_step *from, mx_step *to, int32_t n_in)
{
    int32_t *lists = mx_program_alloc(r->program, (size_t)(n_in + from->n_out) * sizeof *lists);
    *to = *from;
    if (!lists || (from->op->schema && !(to->attrs = mx_program_alloc(r->program, from->op->schema->size))))
        return MX_ERR_MEMORY;
    if (from->op->schema)
        memcpy(to->attrs, from->attrs, from->op->schema->size);
    memcpy(lists, from->in, (size_t)(n_in < from->n_in ? n_in : from->n_in) * sizeof *lists);
    memcpy(lists + n_in, from->out, (size_t)from->n_out * sizeof *lists);
    to->in = lists, to->out = lists + n_in, to->n_in = n_in;
    return MX_OK;
}

static void widen(rewriter *r, int32_t v)
{
    mx_shape_t *shape = &value_of(r, v)->shape;
    shape->dim[shape->ndim - 1] = r->all;
}

static mx_code take_dense(rewriter *r)
{
    mx_step dense;
    if (copy_step(r, step_of(r, r->dense), &dense, 3))
        return MX_ERR_MEMORY;
    const int32_t bias = push_bias(r, step_of(r, r->dense)), weight = push_padded(r, dense.in[WEIGHT], 0);
    mx_dense_attrs *a = dense.attrs;
    a->num_hidden = r->all, a->no_bias = false;
    dense.in[WEIGHT] = r->weight = weight, dense.in[BIAS] = bias;
    widen(r, r->y);
    return bias < 0 || weight < 0 ? MX_ERR_MEMORY : push(r, dense);
}

static mx_code take_loss(rewriter *r)
{
    mx_step loss;
    const mx_clip_attrs limits = {.a_min = 0, .a_max = (double)(r->classes - 1)};
    if (copy_step(r, step_of(r, r->loss), &loss, 3))
        return MX_ERR_MEMORY;
    const mx_value label = *value_of(r, loss.in[1]);
    loss.in[1] = push_new(r, "clip", &limits, sizeof limits, loss.in[1], label.shape, label.dtype);
    widen(r, r->dy);
    return loss.in[1] < 0 ? MX_ERR_MEMORY : push(r, loss);
}

/* The step, and after it steps that cut off what its results have more than before. */
static mx_code take_reader(rewriter *r, const mx_step *given)
{
    mx_step step;
    int32_t whole[2];
    if (copy_step(r, given, &step, given->n_in))
        return MX_ERR_MEMORY;
    if (mx_step_is(&step, "_reshape_to")) {
        widen(r, step.out[0]);
        ((mx_reshape_to_attrs *)step.attrs)->shape = mx_dims_of_shape(&value_of(r, step.out[0])->shape);
        return push(r, step);
    }
    if (plain_dot(&step, false)) {
        step.in[1] = r->weight;
        return push(r, step);
    }
    for (int i = 0; i < step.n_out; i++) {
        const mx_value old = *value_of(r, step.out[i]);
        mx_shape_t shape = old.shape;
        shape.dim[0] = r->all;
        if ((whole[i] = step.out[i] = mx_program_value(r->program, &shape, old.dtype)) < 0)
            return MX_ERR_MEMORY;
    }
    if (push(r, step))
        return MX_ERR_MEMORY;
    const mx_slice_axis_attrs attrs = {.axis = 0, .begin = 0, .end = r->classes};
    for (int i = 0; i < step.n_out; i++) {
        const mx_value old = *value_of(r, given->out[i]);
        if (push_new(r, "slice_axis", &attrs, sizeof attrs, whole[i], old.shape, old.dtype) < 0)
            return MX_ERR_MEMORY;
        r->steps.items[r->steps.length - 1].out[0] = given->out[i];
    }
    return MX_OK;
}

static bool is_reader(const rewriter *r, int64_t i)
{
    for (int k = 0; k < r->readers; k++)
        if (r->reader[k] == i)
            return true;
    return false;
}

static mx_code rewrite(rewriter *r)
{
    mx_program *program = r->program;
    const int64_t forward = program->forward, count = program->steps.length;
    for (int64_t i = 0; i < count; i++) {
        if (i == forward)
            program->forward = r->steps.length;
        const mx_step step = program->steps.items[i];
        if (i == r->dense     ? take_dense(r)
            : i == r->loss    ? take_loss(r)
            : is_reader(r, i) ? take_reader(r, &step)
                              : push(r, step))
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

mx_code mx_pass_classes(mx_program *program)
{
    for (int64_t i = 0; i < program->steps.length; i++) {
        rewriter r = {.program = program};
        if (!find(&r, i))
            continue;
        if (rewrite(&r)) {
            mx_vec_free(&r.steps);
            return MX_ERR_MEMORY;
        }
        i = -1; /* the list is new; a rewritten loss is aligned, so this ends */
    }
    return MX_OK;
}
