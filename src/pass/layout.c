/* The layout pass: while predicting, convolutions and what is between them work on blocked channels.
 *
 *     x (N, C, H, W)  ->  first convolution reads NCHW, writes blocked  ->  ...  ->  _from_blocked  ->  the rest
 *
 * Blocked values (N, C / b, H, W, b) store the channels of a block contiguously, so that they are the lanes of a vector
 * in every kernel; the device sets b.  Weights are blocked by steps that depend on parameters alone, which
 * the plan runs once (prepare.c).
 *
 * Steps are selected in order: convolutions always, others if all their data is blocked.  Steps that pass each other
 * blocked values form a region.  A region is converted if it saves more than the conversions at its edges cost; partly
 * empty vectors (odd channel counts) count against it.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "pass/layout.h"

#include <string.h>

#include "base/alloc.h"
#include "gluon/op.gen.h"
#include "op/formula/pointwise.h"
#include "pass/passes.h"

static const mx_value *value_of(const mx_layout *l, int32_t v) { return &l->program->values.items[v]; }
static int64_t up(int64_t a, int64_t b) { return (a + b - 1) / b; }

/* ---- which steps can be blocked ---------------------------------------------------------------------------------- */

static bool image(const mx_layout *l, int32_t v)
{
    return v >= 0 && value_of(l, v)->shape.ndim == 4 && value_of(l, v)->dtype == MX_FLOAT32 &&
           mx_shape_size(&value_of(l, v)->shape) > 0;
}

static bool from_parameters(const mx_layout *l, int32_t v)
{
    const mx_value *value = value_of(l, v);
    if (value->dtype != MX_FLOAT32)
        return false;
    return value->maker >= 0 ? mx_step_is(&l->program->steps.items[value->maker], "_fold_norm")
                             : mx_value_lasts(l->program, v);
}

#define WINOGRAD_GAIN 0.8 /* of the time of the direct method: a smaller gain is not worth the memory */

/* Winograd's method: 16 products per tile of 2x2 results instead of 36, and transforms of data and results.
 * Its weights are nearly twice as large; few pixels do not pay for reading them, the less the faster they are computed. */
static bool by_winograd(const mx_layout *l, const mx_step *step)
{
    const mx_convolution_attrs *a = step->attrs;
    const mx_shape_t *y = &value_of(l, step->out[0])->shape, *w = &value_of(l, step->in[1])->shape;
    for (int i = 0; i < 2; i++)
        if (a->kernel.d[i] != 3 || (a->stride.n > i && a->stride.d[i] != 1) || (a->dilate.n > i && a->dilate.d[i] != 1))
            return false;
    const double tiles = (double)(y->dim[0] * up(y->dim[2], 2) * up(y->dim[3], 2));
    const double pixels = (double)(y->dim[0] * y->dim[2] * y->dim[3]), in = (double)w->dim[1], out = (double)w->dim[0];
    return tiles >= 2. * l->block && tiles * (16 + 128 / out + 96 / in) < WINOGRAD_GAIN * 9 * pixels;
}

static mx_layout_kind convolution_kind(const mx_layout *l, const mx_step *step)
{
    const mx_convolution_attrs *a = step->attrs;
    if (!image(l, step->in[0]) || (a->layout >= 0 && a->layout != MX_CONVOLUTION_NCHW) ||
        !from_parameters(l, step->in[1]))
        return MX_LAYOUT_NONE;
    const int64_t channels = value_of(l, step->in[0])->shape.dim[1];
    if (a->num_group == 1)
        return !l->blocked[step->in[0]] && (2 * channels <= l->block || channels <= 3) ? MX_LAYOUT_FIRST
               : by_winograd(l, step)                                                  ? MX_LAYOUT_WINOGRAD
                                                                                       : MX_LAYOUT_CONV;
    return a->num_group == channels && a->num_filter == channels ? MX_LAYOUT_DEPTHWISE : MX_LAYOUT_NONE;
}

static mx_layout_kind norm_kind(const mx_layout *l, const mx_step *step)
{
    const mx_batch_norm_attrs *a = step->attrs;
    if (!image(l, step->in[0]) || mx_axis(a->axis, 4) != 1 || (step->training && !a->use_global_stats))
        return MX_LAYOUT_NONE;
    for (int k = 1; k < step->n_out; k++)
        if (value_of(l, step->out[k])->uses)
            return MX_LAYOUT_NONE;
    for (int k = 1; k < 5; k++)
        if (step->in[k] < 0 || !from_parameters(l, step->in[k]))
            return MX_LAYOUT_NONE;
    return MX_LAYOUT_NORM;
}

static mx_layout_kind pooling_kind(const mx_layout *l, const mx_step *step)
{
    const mx_pooling_attrs *a = step->attrs;
    return image(l, step->in[0]) && step->n_out == 1 && a->pool_type != MX_POOLING_LP &&
                   (a->layout < 0 || a->layout == MX_POOLING_NCHW)
               ? MX_LAYOUT_POOL
               : MX_LAYOUT_NONE;
}

/* Lanes past the last channel hold zeros, which must never become infinite or NaN. */
static bool pointwise(const mx_step *step, bool whole)
{
    return step->op->finite_at_zero || (whole && mx_pointwise_of(step->op));
}

/* Pointwise steps whose inputs all have the result's shape; concatenations of full blocks. */
static mx_layout_kind same_kind(const mx_layout *l, const mx_step *step)
{
    const bool joins = mx_step_is(step, "Concat");
    if (!step->n_in || step->n_out != 1 || !image(l, step->out[0]) ||
        (joins && ((const mx_concat_attrs *)step->attrs)->dim != 1))
        return MX_LAYOUT_NONE;
    const mx_shape_t *out = &value_of(l, step->out[0])->shape;
    if (!joins && !pointwise(step, out->dim[1] % l->block == 0))
        return MX_LAYOUT_NONE;
    for (int k = 0; k < step->n_in; k++) {
        if (!image(l, step->in[k]))
            return MX_LAYOUT_NONE;
        const mx_shape_t *in = &value_of(l, step->in[k])->shape;
        if (joins ? in->dim[1] % l->block != 0 : !mx_shape_equal(in, out))
            return MX_LAYOUT_NONE;
    }
    return MX_LAYOUT_SAME;
}

static mx_layout_kind kind_of(const mx_layout *l, const mx_step *step)
{
    if (mx_step_mutates(step) && !mx_step_is(step, "BatchNorm"))
        return MX_LAYOUT_NONE;
    if (mx_step_is(step, "Convolution") || mx_step_is(step, "_convolution_relu"))
        return convolution_kind(l, step);
    if (mx_step_is(step, "BatchNorm"))
        return norm_kind(l, step);
    return mx_step_is(step, "Pooling") ? pooling_kind(l, step) : same_kind(l, step);
}

/* ---- costs and gains --------------------------------------------------------------------------------------------- */

#define UNBLOCKED_OVERHEAD 0.3 /* of a convolution's products: converting results between layouts, unfavourable sizes */
#define PACK_COST 0.5      /* vector operations per vector of weights that unblocked kernels pack in every run */
#define EDGE_COST 2.       /* vector operations per vector that is transposed at an edge */

/* Vector operations that a blocked convolution saves. */
static double gain_of(const mx_layout *l, const mx_step *step, mx_layout_kind kind)
{
    if (kind == MX_LAYOUT_NONE || kind > MX_LAYOUT_DEPTHWISE)
        return 0;
    const mx_shape_t *y = &value_of(l, step->out[0])->shape, *w = &value_of(l, step->in[1])->shape;
    const double lanes = (double)l->block, weights = (double)mx_shape_size(w);
    const double pixels = (double)(y->dim[0] * y->dim[2] * y->dim[3]), products = pixels * weights / lanes;
    const double full =
        (double)(up(w->dim[0], l->block) * l->block) / (double)w->dim[0] *
        (kind <= MX_LAYOUT_WINOGRAD ? (double)(up(w->dim[1], l->block) * l->block) / (double)w->dim[1] : 1);
    return products * (1 + UNBLOCKED_OVERHEAD - full) + PACK_COST * weights / lanes;
}

static double edge_cost(const mx_layout *l, int32_t v)
{
    const mx_shape_t *s = &value_of(l, v)->shape;
    return EDGE_COST * (double)(s->dim[0] * up(s->dim[1], l->block) * s->dim[2] * s->dim[3]);
}

/* ---- regions ----------------------------------------------------------------------------------------------------- */

static int32_t region_of(const mx_layout *l, int32_t step)
{
    while (l->region[step] != step)
        step = l->region[step];
    return step;
}

static void join(const mx_layout *l, int32_t a, int32_t b)
{
    a = region_of(l, a), b = region_of(l, b);
    if (a != b)
        l->region[b] = a;
}

/* In order: selects what can be blocked. */
static void take_steps(mx_layout *l)
{
    for (int32_t i = 0; i < l->program->steps.length; i++) {
        const mx_step *step = &l->program->steps.items[i];
        mx_layout_kind kind = kind_of(l, step);
        const bool needs_all = kind > MX_LAYOUT_DEPTHWISE;
        for (int k = 0; needs_all && k < mx_layout_data_inputs(step, kind); k++)
            if (!l->blocked[step->in[k]])
                kind = MX_LAYOUT_NONE;
        l->kind[i] = kind;
        l->region[i] = i;
        if (kind != MX_LAYOUT_NONE)
            l->blocked[step->out[0]] = true;
    }
}

/* Joins steps that pass each other blocked values. */
static void find_regions(mx_layout *l)
{
    for (int32_t i = 0; i < l->program->steps.length; i++) {
        const mx_step *step = &l->program->steps.items[i];
        for (int k = 0; l->kind[i] && k < mx_layout_data_inputs(step, l->kind[i]); k++)
            if (l->blocked[step->in[k]])
                join(l, value_of(l, step->in[k])->maker, i);
    }
}

/* Which blocked values are also read unblocked? */
static void find_plain_readers(mx_layout *l)
{
    for (int64_t i = 0; i < l->program->steps.length; i++) {
        const mx_step *step = &l->program->steps.items[i];
        const int data = l->kind[i] ? mx_layout_data_inputs(step, l->kind[i]) : 0;
        for (int k = data; k < step->n_in; k++)
            if (step->in[k] >= 0 && l->blocked[step->in[k]])
                l->unblocked[step->in[k]] = true;
    }
    for (int64_t h = 0; h < l->program->results.length; h++)
        if (l->program->results.items[h] >= 0)
            l->unblocked[l->program->results.items[h]] = true;
}

static void weigh_regions(mx_layout *l)
{
    for (int32_t i = 0; i < l->program->steps.length; i++) {
        const mx_step *step = &l->program->steps.items[i];
        if (!l->kind[i])
            continue;
        double *gain = &l->gain[region_of(l, i)];
        *gain += gain_of(l, step, l->kind[i]);
        if (l->unblocked[step->out[0]])
            *gain -= edge_cost(l, step->out[0]);
        if (!l->blocked[step->in[0]] && l->kind[i] != MX_LAYOUT_FIRST)
            *gain -= edge_cost(l, step->in[0]);
    }
    for (int32_t i = 0; i < l->program->steps.length; i++)
        if (l->kind[i] && l->gain[region_of(l, i)] <= 0) {
            l->kind[i] = MX_LAYOUT_NONE;
            l->blocked[l->program->steps.items[i].out[0]] = false;
        }
}

static mx_code lay_out(mx_layout *l)
{
    take_steps(l);
    find_regions(l);
    find_plain_readers(l);
    weigh_regions(l);
    for (int64_t i = 0; i < l->program->steps.length; i++)
        if (l->kind[i])
            return mx_layout_rewrite(l);
    return MX_OK;
}

mx_code mx_pass_layout(mx_program *program)
{
    const int block = mx_program_block(program);
    const size_t steps = (size_t)program->steps.length, values = (size_t)program->values.length;
    if (block < 2 || !mx_program_predicts(program) || !steps)
        return MX_OK;
    const size_t bytes = steps * (sizeof(double) + sizeof(mx_layout_kind) + sizeof(int32_t)) +
                         values * (sizeof(int32_t) + 2 * sizeof(bool));
    char *memory = mx_alloc_zero(bytes);
    if (!memory)
        return MX_ERR_MEMORY;
    mx_layout l = {.program = program, .block = block, .gain = (double *)memory};
    l.kind = (mx_layout_kind *)(l.gain + steps);
    l.region = (int32_t *)(l.kind + steps);
    l.form = l.region + steps;
    l.blocked = (bool *)(l.form + values);
    l.unblocked = l.blocked + values;
    mx_code code = lay_out(&l);
    mx_free(memory, bytes);
    return code;
}
