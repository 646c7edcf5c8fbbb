/* What can be fused with a batch normalisation (model in norm_found.h).  SPDX-License-Identifier: Apache-2.0 */
#include "pass/norm_found.h"

#include <math.h>
#include <string.h>

#include "gluon/op.gen.h"
#include "pass/passes.h"

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

bool mx_norm_alike(const mx_program *program, int32_t a, int32_t b)
{
    const mx_value *x = &program->values.items[a], *y = &program->values.items[b];
    return x->dtype == y->dtype && mx_shape_equal(&x->shape, &y->shape);
}

static void find_forward(const mx_program *program, mx_norm_found *f)
{
    const mx_step *steps = program->steps.items;
    int32_t v = steps[f->norm].out[0], next = only_reader(program, v, f->norm);
    if (next >= 0 && (mx_step_is(&steps[next], "elemwise_add") || mx_step_is(&steps[next], "broadcast_add")) &&
        steps[next].in[0] != steps[next].in[1] && mx_norm_alike(program, steps[next].in[0], steps[next].in[1])) {
        f->add = next;
        v = steps[next].out[0], next = only_reader(program, v, next);
    }
    if (next >= 0 && mx_step_is_relu(&steps[next]))
        f->relu = next;
}

/* clip(y, 0, high), whose gradient reads y, too: only if that becomes part of the normalisation's gradient. */
static void find_clip(const mx_program *program, mx_norm_found *f)
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

static void find_backward(const mx_program *program, mx_norm_found *f)
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
static void find_convolution(const mx_program *program, mx_norm_found *f)
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
static bool inside(const mx_program *program, const mx_step *norm, const mx_norm_found *f)
{
    for (int k = 1; k < 3; k++)
        if (program->values.items[norm->out[k]].uses > (f->gradient >= 0))
            return false;
    return true;
}

/* ---- all together ------------------------------------------------------------------------------------------------ */

bool mx_norm_find(const mx_program *program, int32_t i, mx_norm_found *f)
{
    const mx_step *norm = &program->steps.items[i];
    const mx_batch_norm_attrs *a = norm->attrs;
    *f = (mx_norm_found){.norm = i,
                         .add = -1,
                         .relu = -1,
                         .relu_gradient = -1,
                         .gradient = -1,
                         .convolution = -1,
                         .weight_gradient = -1,
                         .high = NAN};
    if (norm->dead || !mx_step_is(norm, "BatchNorm") || !norm->training || a->use_global_stats ||
        i >= program->forward || !mx_shape_size(&program->values.items[norm->in[0]].shape))
        return false;
    find_forward(program, f);
    if (f->add < 0 && f->relu < 0)
        find_clip(program, f);
    find_backward(program, f);
    if (!inside(program, norm, f))
        return false;
    find_convolution(program, f);
    return true;
}

mx_code mx_step_become(mx_program *program, mx_step *step, mx_op *op, const void *attrs, size_t bytes, int n_in,
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
