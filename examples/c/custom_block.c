/* A custom block with control flow in its forward, and a function with a custom gradient.
 *
 * The block repeats its hidden layer until the result is small enough: how often depends on the data, and the tape
 * records what ran.  The function clamps to [-1, 1] and passes the gradient through unchanged, which no composition of
 * operators would do.  The task: the sum of four numbers, clamped.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <gluon.h>

#include "terminal.h"

/* ---- a function with its own gradient -------------------------------------------------------------------------------- */

static mx_code clamp_forward(void *user, int n_in, mx_array *const *in, int n_out, mx_array **out)
{
    (void)user, (void)n_in, (void)n_out;
    out[0] = mx_clip(in[0], .a_min = -1, .a_max = 1);
    return out[0] ? MX_OK : mx_error_code();
}

static mx_code clamp_backward(void *user, int n_out, mx_array *const *out_grads, int n_in, mx_array **in_grads)
{
    (void)user, (void)n_out, (void)n_in;
    in_grads[0] = mx_copy(out_grads[0]); /* straight through */
    return in_grads[0] ? MX_OK : mx_error_code();
}

static mx_array *clamp(mx_array *x)
{
    static const mx_function function = {
        .name = "clamp", .forward = clamp_forward, .backward = clamp_backward, .n_out = 1};
    return mx_function_call(&function, NULL, MX_ARRAYS(x)).v[0];
}

/* ---- the block --------------------------------------------------------------------------------------------------------- */

typedef struct net {
    mx_block *first, *again, *last;
    mx_parameter *scale; /* (1,): of the block itself */
    int64_t rounds;      /* total number of runs of `again` */
} net;

static mx_array *forward(mx_block *self, mx_arrays in)
{
    net *n = mx_block_user(self);
    mx_array *h = mx_call(n->first, in.v[0]);
    for (int i = 0; i < 3 && mx_item(mx_mean(mx_abs(h))) > 0.2; i++, n->rounds++) /* control flow is plain C */
        h = mx_tanh(mx_call(n->again, h));
    mx_array *scale = mx_parameter_data(n->scale, mx_context_of(in.v[0]));
    return clamp(mx_mul(mx_call(n->last, h), scale));
}

static mx_block *net_new(net *n)
{
    mx_block *block = mx_block_new("Net", forward, .user = n);
    mx_name_scope(block)
    {
        n->first = mx_block_child(block, "first", mx_dense(16, .activation = "tanh"));
        n->again =
            mx_block_child(block, "again", mx_dense(16, .in_units = 16)); /* it may not run in the first forward */
        n->last = mx_block_child(block, "last", mx_dense(1));
        n->scale = mx_block_parameter(block, "scale", .shape = MX_DIMS(1), .init = mx_one());
    }
    return block;
}

int main(int argc, char **argv)
{
    mx_random_seed((uint64_t)option(argc, argv, "--seed", 1));
    net n = {0};
    mx_block *block = net_new(&n), *criterion = mx_l2_loss();
    mx_initialize(block, mx_xavier(), mx_cpu(0));
    mx_trainer *trainer = mx_trainer_with(mx_collect_params(block), mx_adam(.learning_rate = 0.01));
    const int steps = (int)option(argc, argv, "--steps", 600);
    for (int step = 1; step <= steps; step++) {
        MX_SCOPE;
        mx_array *x = mx_random_normal(.scale = 0.5, .shape = MX_DIMS(32, 4)), *loss;
        mx_array *y = mx_clip(mx_sum(x, .axis = MX_DIMS(1), .keepdims = true), .a_min = -1, .a_max = 1);
        mx_record()
            loss = mx_call(criterion, mx_call(block, x), y);
        mx_backward(loss);
        mx_trainer_step_ignoring_stale(trainer, 32); /* `again` may not have run */
        if (step == 1 || step % (steps > 6 ? steps / 6 : 1) == 0)
            printf("step %4d: loss %.5f, the inner layer ran %.2f times per step\n", step, mx_item(mx_mean(loss)),
                   (double)n.rounds / step);
    }
    printf("%s\n%s\n", mx_block_text(block), mx_params_text(mx_collect_params(block)));
    return mx_check("custom_block");
}
