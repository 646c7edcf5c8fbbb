/* The gradient of relu fused into the step beside it (MX_CAN_JOIN_RELU_GRADIENT), which saves a launch.
 *
 *     gx = relu'(dot(gy, w), y)                        ->  gx = _dot_relu_grad(gy, w, y)
 *     z = pool(y); gx = relu'(pool'(gz, y), y)         ->  gx = _backward_pool_relu(gz, y)
 *     z = relu(pool(x)); gx = pool'(relu'(gz, z), x)   ->  gx = _backward_pool_relu(gz, x)
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "gluon/op.gen.h"
#include "pass/passes.h"

static bool is_max_pool(const mx_step *step)
{
    return ((const mx_pooling_attrs *)step->attrs)->pool_type == MX_POOLING_MAX;
}

static bool alike(const mx_program *program, int32_t a, int32_t b)
{
    const mx_value *x = &program->values.items[a], *y = &program->values.items[b];
    return x->dtype == y->dtype && mx_shape_equal(&x->shape, &y->shape);
}

/* The product whose result only this relu's gradient reads; NULL: there is none. */
static mx_step *product_before(const mx_program *program, const mx_step *relu)
{
    mx_step *dot = mx_step_only_maker(program, relu->in[0], "dot");
    const int32_t made = program->values.items[relu->in[1]].maker;
    if (!dot || made >= dot - program->steps.items || !alike(program, relu->in[0], relu->in[1]) ||
        !alike(program, relu->in[0], relu->out[0]) || !mx_dtype_is_float(program->values.items[relu->in[0]].dtype))
        return NULL;
    for (int k = 0; k < 2; k++)
        if (program->values.items[dot->in[k]].dtype != program->values.items[relu->in[0]].dtype)
            return NULL;
    return dot;
}

static mx_code join_product(mx_program *program, mx_step *dot, mx_step *relu)
{
    int32_t *in = mx_program_alloc(program, 3 * sizeof *in);
    if (!in)
        return MX_ERR_MEMORY;
    in[0] = dot->in[0], in[1] = dot->in[1], in[2] = relu->in[1];
    dot->op = MX_OP("_dot_relu_grad"), dot->in = in, dot->n_in = 3, dot->out[0] = relu->out[0];
    relu->dead = true;
    return MX_OK;
}

static mx_code join_before(mx_program *program, mx_step *relu)
{
    mx_step *dot = product_before(program, relu), *pool = mx_step_only_maker(program, relu->in[0], "_backward_Pooling");
    if (dot)
        return join_product(program, dot, relu);
    if (pool && is_max_pool(pool) && pool->in[1] == relu->in[1]) {
        pool->op = MX_OP("_backward_pool_relu"), pool->out[0] = relu->out[0];
        relu->dead = true;
    }
    return MX_OK;
}

/* The relu gradient that feeds this pooling gradient, if the relu's input was that pooling; else NULL. */
static mx_step *relu_before(const mx_program *program, const mx_step *pool)
{
    const mx_value *g = &program->values.items[pool->in[0]];
    mx_step *gradient = g->uses == 1 && g->maker >= 0 ? &program->steps.items[g->maker] : NULL;
    if (!gradient || gradient->dead || !mx_step_is_relu_gradient(gradient))
        return NULL;
    const int32_t made = program->values.items[gradient->in[1]].maker;
    const mx_step *relu = made >= 0 ? &program->steps.items[made] : NULL,
                  *first = relu && mx_step_is_relu(relu) ? mx_step_maker(program, relu->in[0], "Pooling") : NULL;
    return first && first->in[0] == pool->in[1] && mx_schema_equal(first->op->schema, first->attrs, pool->attrs)
               ? gradient
               : NULL;
}

mx_code mx_pass_activation_gradient(mx_program *program)
{
    for (int64_t i = 0; i < program->steps.length; i++) {
        mx_step *step = &program->steps.items[i];
        if (mx_step_is_relu_gradient(step) && join_before(program, step))
            return MX_ERR_MEMORY;
        mx_step *relu = mx_step_is(step, "_backward_Pooling") && is_max_pool(step) ? relu_before(program, step) : NULL;
        if (relu) {
            step->op = MX_OP("_backward_pool_relu"), step->in[0] = relu->in[0];
            relu->dead = true;
        }
    }
    mx_program_sweep(program);
    return MX_OK;
}
