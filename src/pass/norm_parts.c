/* While training, on devices with MX_CAN_NORM_PARTS: batch normalisation in parts, fused with the addition and relu (or clip) after it.
 *
 *     y = BatchNorm(x); t = y + shortcut; r = relu(t)     ->     mean, inverse = _norm_statistics(x)
 *                                                                r = _norm_apply(x, mean, inverse, shortcut)  [relu]
 *     gt = relu'(gr, r); gx = BatchNorm'(gt, x)           ->     gx, gt = _backward_norm_apply(gr, x, ..., r)
 *
 * Without an addition the sign of the result is recomputed from x, so that r need not be saved for that.  A convolution's
 * bias before the normalisation is dropped: it only shifts the running mean, and its gradient is zero.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <string.h>

#include "gluon/op.gen.h"
#include "ndarray/device.h"
#include "pass/passes.h"

/* One normalisation and the steps fused with it: numbers of steps, -1: none. */
typedef struct found {
    int32_t norm, add, relu;              /* of the forward part */
    int32_t relu_gradient, gradient;      /* of the backward part; relu_gradient only if both become one */
    int32_t convolution, weight_gradient; /* before it, with a bias */
    double high;                          /* relu is a clip from 0 to this; NaN: relu */
} found;

/* ---- finding ----------------------------------------------------------------------------------------------------- */

/* The first live step from `begin` on that reads v as input k (-1: any); -1: none. */
static int32_t reader(const mx_program *program, int32_t v, int64_t begin, int k)
{
    for (int64_t i = begin; i < program->steps.length; i++) {
        const mx_step *step = &program->steps.items[i];
        for (int n = k < 0 ? 0 : k; n < step->n_in && (k < 0 || n == k); n++)
            if (!step->dead && step->in[n] == v)
                return (int32_t)i;
    }
    return -1;
}

/* The only step that reads v, if it is in the forward part; -1: none. */
static int32_t only_reader(const mx_program *program, int32_t v, int32_t after)
{
    const int32_t i = program->values.items[v].uses == 1 ? reader(program, v, after + 1, -1) : -1;
    return i >= 0 && i < program->forward ? i : -1;
}

static bool alike(const mx_program *program, int32_t a, int32_t b)
{
    const mx_value *x = &program->values.items[a], *y = &program->values.items[b];
    return x->dtype == y->dtype && mx_shape_equal(&x->shape, &y->shape);
}

static void find_forward(const mx_program *program, found *f)
{
    const mx_step *steps = program->steps.items;
    int32_t v = steps[f->norm].out[0], next = only_reader(program, v, f->norm);
    if (next >= 0 && (mx_step_is(&steps[next], "elemwise_add") || mx_step_is(&steps[next], "broadcast_add")) &&
        steps[next].in[0] != steps[next].in[1] && alike(program, steps[next].in[0], steps[next].in[1])) {
        f->add = next;
        v = steps[next].out[0], next = only_reader(program, v, next);
    }
    if (next >= 0 && mx_step_is_relu(&steps[next]))
        f->relu = next;
}

/* clip(y, 0, high), whose gradient reads y, too: only if that becomes part of the normalisation's gradient. */
static void find_clip(const mx_program *program, found *f)
{
    const mx_step *steps = program->steps.items, *norm = &steps[f->norm];
    const int32_t y = norm->out[0], uses = program->values.items[y].uses, clip = reader(program, y, f->norm + 1, 0);
    const mx_clip_attrs *a =
        clip >= 0 && clip < program->forward && mx_step_is(&steps[clip], "clip") ? steps[clip].attrs : NULL;
    if (!a || a->a_min != 0 || !(a->a_max > 0) || uses > 2)
        return;
    const int32_t back = uses == 2 ? reader(program, y, program->forward, 1) : -1;
    const int32_t gradient = uses == 2 ? reader(program, norm->out[1], f->norm + 1, 3) : -1;
    if (uses == 2 &&
        (back < 0 || gradient < 0 || !mx_step_is(&steps[back], "_backward_clip") ||
         !mx_schema_equal(steps[back].op->schema, steps[back].attrs, a) ||
         !mx_step_is(&steps[gradient], "_backward_BatchNorm") || steps[gradient].in[0] != steps[back].out[0] ||
         program->values.items[steps[back].out[0]].uses != 1))
        return;
    f->relu = clip, f->relu_gradient = back, f->high = a->a_max;
}

static void find_backward(const mx_program *program, found *f)
{
    const mx_step *steps = program->steps.items;
    const int32_t i = reader(program, steps[f->norm].out[1], f->norm + 1, 3);
    if (i < 0 || !mx_step_is(&steps[i], "_backward_BatchNorm"))
        return;
    f->gradient = i;
    const int32_t g = steps[i].in[0], maker = program->values.items[g].maker;
    if (f->relu >= 0 && maker >= program->forward && mx_step_is_relu_gradient(&steps[maker]) &&
        steps[maker].in[1] == steps[f->relu].out[0] && (f->add >= 0 || program->values.items[g].uses == 1))
        f->relu_gradient = maker;
}

/* A convolution with a bias whose result only the normalisation reads. */
static void find_convolution(const mx_program *program, found *f)
{
    const mx_step *norm = &program->steps.items[f->norm];
    const mx_value *x = &program->values.items[norm->in[0]];
    const mx_step *conv = x->maker < 0 ? NULL : &program->steps.items[x->maker];
    if (!conv || conv->dead || !mx_step_is(conv, "Convolution") || conv->n_in < 3 || conv->in[2] < 0 ||
        ((const mx_convolution_attrs *)conv->attrs)->no_bias || x->uses != 1 + (f->gradient >= 0))
        return;
    f->convolution = x->maker;
    const int32_t i =
        f->gradient < 0 ? -1 : reader(program, program->steps.items[f->gradient].out[0], f->gradient + 1, 1);
    if (i >= 0 && mx_step_is(&program->steps.items[i], "_conv_weight_bias_grad"))
        f->weight_gradient = i;
}

/* The statistics are read by the gradient only, if at all. */
static bool inside(const mx_program *program, const mx_step *norm, const found *f)
{
    for (int k = 1; k < 3; k++)
        if (program->values.items[norm->out[k]].uses > (f->gradient >= 0))
            return false;
    return true;
}

/* ---- rewriting --------------------------------------------------------------------------------------------------- */

/* Replaces the step at `at` by an operator with these attributes and lists. */
static mx_code become(mx_program *program, mx_step *step, mx_op *op, const void *attrs, size_t bytes, int n_in,
                      const int32_t *in, int n_out, const int32_t *out)
{
    int32_t *lists = mx_program_alloc(program, (size_t)(n_in + n_out) * sizeof *lists);
    void *copy = mx_program_alloc(program, bytes);
    if (!lists || !copy)
        return MX_ERR_MEMORY;
    memcpy(lists, in, (size_t)n_in * sizeof *lists);
    memcpy(lists + n_in, out, (size_t)n_out * sizeof *lists);
    step->op = op, step->attrs = memcpy(copy, attrs, bytes);
    step->in = lists, step->n_in = n_in, step->out = lists + n_in, step->n_out = n_out;
    return MX_OK;
}

/* A gradient that is the sum of two and is not read elsewhere. */
static void split_gradient(mx_program *program, int32_t *g, int32_t *more)
{
    const mx_value *sum = &program->values.items[*g];
    mx_step *add = sum->maker < program->forward ? NULL : &program->steps.items[sum->maker];
    if (!add || sum->uses != 1 || add->dead ||
        (!mx_step_is(add, "elemwise_add") && !mx_step_is(add, "broadcast_add")) || !alike(program, add->in[0], *g) ||
        !alike(program, add->in[1], *g))
        return;
    *g = add->in[0], *more = add->in[1];
    add->dead = true;
}

static mx_code write_gradient(mx_program *program, const found *f)
{
    mx_step *steps = program->steps.items, *back = &steps[f->gradient];
    const mx_step *norm = &steps[f->norm], *relu = f->relu_gradient < 0 ? NULL : &steps[f->relu_gradient];
    const mx_batch_norm_attrs *a = norm->attrs;
    const int32_t g = back->in[0];
    mx_norm_gradient_attrs attrs = {
        .axis = a->axis, .fix_gamma = a->fix_gamma, .relu = relu != NULL, .high = f->high, .bias = f->weight_gradient >= 0};
    attrs.addend = relu && f->add >= 0 && program->values.items[g].uses > 1;
    int32_t in[8] = {relu ? relu->in[0] : g, norm->in[0], norm->in[1], norm->in[2], norm->out[1], norm->out[2],
                     relu && f->add >= 0 ? steps[f->relu].out[0] : -1, -1};
    if (relu)
        split_gradient(program, &in[0], &in[7]);
    int32_t out[5] = {back->out[0], back->out[1], back->out[2]};
    if (attrs.addend)
        out[3] = g;
    if (attrs.bias) {
        mx_step *weight = &steps[f->weight_gradient];
        out[3 + attrs.addend] = weight->out[1];
        weight->op = MX_OP("_conv_weight_grad"), weight->n_out = 1;
    }
    const mx_step old = *back;
    back->dead = relu != NULL; /* the step takes the place of the relu's gradient, as later steps may read its result */
    mx_step *at = relu ? &steps[f->relu_gradient] : back;
    at->name = old.name;
    return become(program, at, MX_OP("_backward_norm_apply"), &attrs, sizeof attrs, 8, in,
                  3 + attrs.addend + attrs.bias, out);
}

static mx_code insert_step(mx_program *program, int64_t at)
{
    if (!mx_vec_reserve(&program->steps, program->steps.length + 1))
        return MX_ERR_MEMORY;
    mx_step *steps = program->steps.items;
    memmove(&steps[at + 1], &steps[at], (size_t)(program->steps.length - at) * sizeof *steps);
    program->steps.length++;
    program->forward++;
    return MX_OK;
}

static mx_code write_forward(mx_program *program, const found *f)
{
    const mx_step norm = program->steps.items[f->norm];
    const mx_batch_norm_attrs *a = norm.attrs;
    mx_step *conv = f->convolution < 0 ? NULL : &program->steps.items[f->convolution];
    const int32_t bias = conv ? conv->in[2] : -1;
    if (conv) {
        conv->in[2] = -1;
        ((mx_convolution_attrs *)conv->attrs)->no_bias = true;
    }
    const mx_norm_statistics_attrs statistics = {.eps = a->eps, .momentum = a->momentum, .axis = a->axis};
    const int32_t seen[4] = {norm.in[0], norm.in[3], norm.in[4], bias};
    const int32_t last = f->relu >= 0 ? f->relu : f->add;
    if (become(program, &program->steps.items[f->norm], MX_OP("_norm_statistics"), &statistics, sizeof statistics, 4,
               seen, 2, norm.out + 1) ||
        (last < 0 && insert_step(program, f->norm + 1)))
        return MX_ERR_MEMORY;
    mx_step *at = &program->steps.items[last < 0 ? f->norm + 1 : last];
    const mx_step *add = f->add < 0 ? NULL : &program->steps.items[f->add];
    const int32_t addend = !add ? -1 : add->in[add->in[0] == norm.out[0]], out = last < 0 ? norm.out[0] : at->out[0];
    const mx_norm_apply_attrs apply = {
        .axis = a->axis, .fix_gamma = a->fix_gamma, .relu = f->relu >= 0, .high = f->high};
    const int32_t in[6] = {norm.in[0], norm.in[1], norm.in[2], norm.out[1], norm.out[2], addend};
    if (f->add >= 0 && f->relu >= 0)
        program->steps.items[f->add].dead = true;
    *at = (mx_step){.training = true, .name = norm.name};
    return become(program, at, MX_OP("_norm_apply"), &apply, sizeof apply, 6, in, 1, &out);
}

static mx_code rewrite(mx_program *program, int32_t i)
{
    const mx_step *norm = &program->steps.items[i];
    const mx_batch_norm_attrs *a = norm->attrs;
    found f = {.norm = i,
               .add = -1,
               .relu = -1,
               .relu_gradient = -1,
               .gradient = -1,
               .convolution = -1,
               .weight_gradient = -1,
               .high = NAN};
    if (norm->dead || !mx_step_is(norm, "BatchNorm") || !norm->training || a->use_global_stats ||
        i >= program->forward || !mx_shape_size(&program->values.items[norm->in[0]].shape))
        return MX_OK;
    find_forward(program, &f);
    if (f.add < 0 && f.relu < 0)
        find_clip(program, &f);
    find_backward(program, &f);
    if (!inside(program, norm, &f))
        return MX_OK;
    find_convolution(program, &f);
    if ((f.relu_gradient >= 0 || f.weight_gradient >= 0) && write_gradient(program, &f))
        return MX_ERR_MEMORY;
    if (write_forward(program, &f))
        return MX_ERR_MEMORY;
    mx_program_count(program);
    return MX_OK;
}

mx_code mx_pass_norm_parts(mx_program *program)
{
    for (int32_t i = 0; i < program->steps.length; i++)
        if (rewrite(program, i))
            return MX_ERR_MEMORY;
    mx_program_sweep(program);
    return MX_OK;
}
