/* Max pooling before relu: max(relu(x)) = relu(max(x)), and the relu then has a fraction of the work.
 *
 *     y = relu(x); z = pool(y)                      z0 = pool(x); z = relu(z0)
 *     gy = pool'(gz, y); gx = relu'(gy, y)    ->    gz0 = relu'(gz, z); gx = pool'(gz0, x)
 *
 * Both give the same numbers, gradients included: where a window's largest element is positive it is the same element,
 * and where it is not, nothing flows back in either order.  Only for windows inside the data.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "base/error.h"
#include "gluon/op.gen.h"
#include "pass/passes.h"

static bool is_max_pool(const mx_step *step)
{
    const mx_pooling_attrs *a = step->attrs;
    if (!mx_step_is(step, "Pooling") || a->pool_type != MX_POOLING_MAX || a->pooling_convention != MX_POOLING_VALID)
        return false;
    for (int i = 0; i < a->pad.n; i++)
        if (a->pad.d[i] && !a->global_pool)
            return false;
    return true;
}

/* The only live steps that read v, up to `most`; -1: there are more, or it is a result. */
static int users(const mx_program *program, int32_t v, int32_t *found, int most)
{
    int n = 0;
    for (int64_t i = 0; i < program->steps.length; i++)
        for (int k = 0; k < program->steps.items[i].n_in; k++) {
            if (program->steps.items[i].in[k] != v || program->steps.items[i].dead)
                continue;
            if (n == most)
                return -1;
            found[n++] = (int32_t)i;
        }
    return n == program->values.items[v].uses ? n : -1;
}

static void exchange(mx_step *a, mx_step *b) /* what they do, not their positions */
{
    const mx_step old = *a;
    *a = *b, *b = old;
}

/* A convolution that absorbs the relu for free (activation.c); while training the relu's gradient counts, too.  If
 * the device can, the pooling's gradient absorbs that if the convolution reads its result for the bias anyway,
 * and normalisations absorb both (norm_parts.c). */
static bool takes_relu(const mx_program *program, int32_t x, bool training)
{
    const mx_step *conv = mx_step_only_maker(program, x, "Convolution");
    if (!training)
        return conv != NULL;
    if (conv)
        return mx_program_can(program, MX_CAN_JOIN_RELU_GRADIENT) && conv->n_in > 2 && conv->in[2] >= 0;
    return mx_program_can(program, MX_CAN_NORM_PARTS) && mx_step_only_maker(program, x, "BatchNorm");
}

/* relu step r whose result y only the pooling step reads, and the two gradients, if any. */
static mx_code rewrite(mx_program *program, int32_t r)
{
    int32_t reads[3], gradient[1];
    mx_step *steps = program->steps.items;
    const int32_t x = steps[r].in[0], y = steps[r].out[0];
    const int n = users(program, y, reads, 3);
    if ((n != 1 && n != 3) || !is_max_pool(&steps[reads[0]]) || steps[reads[0]].n_out != 1 ||
        takes_relu(program, x, n == 3))
        return MX_OK;
    const int32_t p = reads[0], z = steps[p].out[0];
    int32_t pool_gradient = -1, relu_gradient = -1;
    if (n == 3) {
        pool_gradient = reads[1], relu_gradient = reads[2];
        if (!mx_step_is(&steps[pool_gradient], "_backward_Pooling") ||
            !mx_step_is_relu_gradient(&steps[relu_gradient]) ||
            users(program, steps[pool_gradient].out[0], gradient, 1) != 1 || gradient[0] != relu_gradient)
            return MX_OK;
    }
    const mx_value small = program->values.items[z];
    const int32_t z0 = mx_program_value(program, &small.shape, small.dtype);
    const int32_t gz0 = n == 3 ? mx_program_value(program, &small.shape, small.dtype) : 0;
    if (z0 < 0 || gz0 < 0)
        return MX_ERR_MEMORY;
    exchange(&steps[r], &steps[p]); /* r is the pooling now, p the relu */
    steps[r].in[0] = x, steps[r].out[0] = z0;
    steps[p].in[0] = z0, steps[p].out[0] = z;
    if (n == 3) {
        const int32_t gz = steps[pool_gradient].in[0], gx = steps[relu_gradient].out[0];
        exchange(&steps[pool_gradient], &steps[relu_gradient]);
        steps[pool_gradient].in[0] = gz, steps[pool_gradient].in[1] = z, steps[pool_gradient].out[0] = gz0;
        steps[relu_gradient].in[0] = gz0, steps[relu_gradient].in[1] = x, steps[relu_gradient].out[0] = gx;
    }
    mx_program_count(program);
    return MX_OK;
}

mx_code mx_pass_pool(mx_program *program)
{
    for (int32_t i = 0; i < program->steps.length; i++)
        if (mx_step_is_relu(&program->steps.items[i]) && rewrite(program, i))
            return MX_ERR_MEMORY;
    return MX_OK;
}
