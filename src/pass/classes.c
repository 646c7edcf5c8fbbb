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
#include "pass/rebuild.h"

#define LEAST_CLASSES 1024 /* that pay for the copies */
#define WHOLE 64           /* the new number of classes is a multiple of it */
#define MOST_READERS 16

enum { DATA, WEIGHT, BIAS };

typedef struct rewriter {
    mx_rebuild to;
    mx_program *program;
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

/* v (classes) or (classes, n), and rows of `fill` after it */
static int32_t push_padded(rewriter *r, int32_t v, double fill)
{
    const mx_shape_t from = value_of(r, v)->shape;
    mx_shape_t to = from, image = {4, {1, 1, from.dim[0], from.ndim > 1 ? from.dim[1] : 1}};
    const mx_pad_attrs attrs = {.mode = MX_PAD_CONSTANT,
                                .pad_width = MX_DIMS(0, 0, 0, 0, 0, r->all - r->classes, 0, 0),
                                .constant_value = fill};
    const int32_t view = mx_rebuild_view(&r->to, v, image);
    to.dim[0] = image.dim[2] = r->all;
    const int32_t padded =
        view < 0 ? -1
                 : mx_rebuild_new(&r->to, MX_OP("Pad"), &attrs, sizeof attrs, 1, &view, image, value_of(r, v)->dtype);
    return mx_rebuild_view(&r->to, padded, to);
}

static int32_t push_bias(rewriter *r, const mx_step *dense)
{
    const int dtype = value_of(r, r->y)->dtype;
    const double never = dtype == MX_FLOAT16 ? -60000 : -1e30; /* a score whose exponential is 0 beside any other */
    const mx_shape_t shape = {1, {r->classes}};
    const mx_fill_attrs attrs = {
        .shape = mx_dims_of_shape(&shape), .ctx = r->program->context, .dtype = (mx_dtype)dtype};
    const bool given = dense->n_in > BIAS && dense->in[BIAS] >= 0;
    const int32_t bias =
        given ? dense->in[BIAS] : mx_rebuild_new(&r->to, MX_OP("_zeros"), &attrs, sizeof attrs, 0, NULL, shape, dtype);
    return bias < 0 ? -1 : push_padded(r, bias, never);
}

static void widen(rewriter *r, int32_t v)
{
    mx_shape_t *shape = &value_of(r, v)->shape;
    shape->dim[shape->ndim - 1] = r->all;
}

static mx_code take_dense(rewriter *r)
{
    mx_step dense;
    if (mx_rebuild_copy(&r->to, step_of(r, r->dense), &dense, 3))
        return MX_ERR_MEMORY;
    const int32_t bias = push_bias(r, step_of(r, r->dense)), weight = push_padded(r, dense.in[WEIGHT], 0);
    mx_dense_attrs *a = dense.attrs;
    a->num_hidden = r->all, a->no_bias = false;
    dense.in[WEIGHT] = r->weight = weight, dense.in[BIAS] = bias;
    widen(r, r->y);
    return bias < 0 || weight < 0 ? MX_ERR_MEMORY : mx_rebuild_push(&r->to, dense);
}

static mx_code take_loss(rewriter *r)
{
    mx_step loss;
    const mx_clip_attrs limits = {.a_min = 0, .a_max = (double)(r->classes - 1)};
    if (mx_rebuild_copy(&r->to, step_of(r, r->loss), &loss, 3))
        return MX_ERR_MEMORY;
    const mx_value label = *value_of(r, loss.in[1]);
    loss.in[1] =
        mx_rebuild_new(&r->to, MX_OP("clip"), &limits, sizeof limits, 1, &loss.in[1], label.shape, label.dtype);
    widen(r, r->dy);
    return loss.in[1] < 0 ? MX_ERR_MEMORY : mx_rebuild_push(&r->to, loss);
}

/* The step, and after it steps that cut off what its results have more than before. */
static mx_code take_reader(rewriter *r, const mx_step *given)
{
    mx_step step;
    int32_t whole[2];
    if (mx_rebuild_copy(&r->to, given, &step, given->n_in))
        return MX_ERR_MEMORY;
    if (mx_step_is(&step, "_reshape_to")) {
        widen(r, step.out[0]);
        ((mx_reshape_to_attrs *)step.attrs)->shape = mx_dims_of_shape(&value_of(r, step.out[0])->shape);
        return mx_rebuild_push(&r->to, step);
    }
    if (plain_dot(&step, false)) {
        step.in[1] = r->weight;
        return mx_rebuild_push(&r->to, step);
    }
    for (int i = 0; i < step.n_out; i++) {
        const mx_value old = *value_of(r, step.out[i]);
        mx_shape_t shape = old.shape;
        shape.dim[0] = r->all;
        if ((whole[i] = step.out[i] = mx_program_value(r->program, &shape, old.dtype)) < 0)
            return MX_ERR_MEMORY;
    }
    if (mx_rebuild_push(&r->to, step))
        return MX_ERR_MEMORY;
    for (int i = 0; i < step.n_out; i++)
        if (mx_rebuild_rows(&r->to, whole[i], 0, r->classes, given->out[i]))
            return MX_ERR_MEMORY;
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
    r->to.name = step_of(r, r->dense)->name;
    for (int64_t i = 0; i < r->program->steps.length; i++) {
        const mx_step step = *step_of(r, i);
        mx_rebuild_at(&r->to, i);
        if (i == r->dense     ? take_dense(r)
            : i == r->loss    ? take_loss(r)
            : is_reader(r, i) ? take_reader(r, &step)
                              : mx_rebuild_push(&r->to, step))
            return MX_ERR_MEMORY;
    }
    mx_rebuild_finish(&r->to);
    return MX_OK;
}

mx_code mx_pass_classes(mx_program *program)
{
    for (int64_t i = 0; i < program->steps.length; i++) {
        rewriter r = {.to = {.program = program}, .program = program};
        if (!find(&r, i))
            continue;
        if (rewrite(&r)) {
            mx_rebuild_drop(&r.to);
            return MX_ERR_MEMORY;
        }
        i = -1; /* the list is new; a rewritten loss is aligned, so this ends */
    }
    return MX_OK;
}
