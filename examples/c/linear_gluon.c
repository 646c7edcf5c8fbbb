/* Linear regression with Gluon: the same task as linear_scratch.c, with a layer, a loss and a trainer.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <gluon.h>

#include "terminal.h"

enum { EXAMPLES = 1000, BATCH = 20 };

int main(int argc, char **argv)
{
    mx_random_seed((uint64_t)option(argc, argv, "--seed", 1));
    mx_array *true_w = mx_array_from(MX_DIMS(2, 1), MX_FLOAT32, (float[]){2, -3.4f});
    mx_array *x = mx_random_normal(.shape = MX_DIMS(EXAMPLES, 2));
    mx_array *y =
        mx_add(mx_plus_scalar(mx_dot(x, true_w), 4.2), mx_random_normal(.scale = 0.01, .shape = MX_DIMS(EXAMPLES, 1)));
    mx_loader *loader = mx_data_loader(mx_array_dataset(MX_ARRAYS(x, y)), BATCH, .shuffle = true);

    mx_block *net = mx_dense(1);
    mx_initialize(net, mx_normal(.sigma = 0.01), mx_cpu(0));
    mx_block *square_loss = mx_l2_loss();
    mx_trainer *trainer = mx_trainer_new(mx_collect_params(net), "sgd", "learning_rate=0.03");

    const int epochs = (int)option(argc, argv, "--epochs", 5);
    for (int epoch = 1; epoch <= epochs; epoch++) {
        mx_for_each_batch(batch, loader) {
            mx_array *loss;
            mx_record()
                loss = mx_call(square_loss, mx_call(net, batch.data), batch.label);
            mx_backward(loss);
            mx_trainer_step(trainer, batch.size);
        }
        mx_scoped()
            printf("epoch %d: loss %.6f\n", epoch, mx_item(mx_mean(mx_call(square_loss, mx_call(net, x), y))));
    }
    printf("%s\n", mx_block_text(net));
    mx_params *params = mx_collect_params(net);
    for (int64_t i = 0; i < mx_params_count(params); i++) {
        mx_parameter *p = mx_params_at(params, i);
        printf("%s:\n%s\n", mx_parameter_name(p), mx_array_text(mx_parameter_data(p, mx_cpu(0))));
    }
    return mx_check("linear_gluon");
}
