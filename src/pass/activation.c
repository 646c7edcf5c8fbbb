/* relu fused into the step that computes its input.
 *
 *     y = relu(Convolution(x, w))  ->  y = _convolution_relu(x, w), likewise dense layers
 *
 * The relu is applied while the result is still in registers.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "gluon/op.gen.h"
#include "pass/passes.h"

static bool is_activation(const mx_step *step, const char *name, const char *general)
{
    return mx_step_is(step, name) ||
           (mx_step_is(step, general) && ((const mx_activation_attrs *)step->attrs)->act_type == MX_ACTIVATION_RELU);
}
bool mx_step_is_relu(const mx_step *step) { return is_activation(step, "relu", "Activation"); }
bool mx_step_is_relu_gradient(const mx_step *step)
{
    return is_activation(step, "_backward_relu", "_backward_Activation");
}

static const struct {
    const char *separate, *joined;
} rows[] = {{"Convolution", "_convolution_relu"}, {"FullyConnected", "_dense_relu"}};

mx_code mx_pass_activation(mx_program *program)
{
    for (int64_t i = 0; i < program->steps.length; i++) {
        mx_step *relu = &program->steps.items[i];
        const mx_value *x = relu->n_in && relu->in[0] >= 0 ? &program->values.items[relu->in[0]] : NULL;
        if (!x || x->uses != 1 || x->maker < 0 || !mx_step_is_relu(relu) ||
            (x->maker < program->forward) != (i < program->forward))
            continue;
        mx_step *maker = &program->steps.items[x->maker];
        for (size_t k = 0; k < sizeof rows / sizeof *rows; k++) {
            if (maker->dead || strcmp(maker->op->name, rows[k].separate))
                continue;
            maker->op = mx_op_find(rows[k].joined);
            maker->out[0] = relu->out[0];
            relu->dead = true;
            break;
        }
    }
    mx_program_sweep(program);
    return MX_OK;
}
