/* Fits a line through points: the smallest training program, for a project with its own CMakeLists.txt.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <gluon.h>
#include <math.h>
#include <stdio.h>

int main(void)
{
    mx_random_seed(1);
    mx_array *x = mx_random_normal(.shape = MX_DIMS(100, 1));
    mx_array *y = mx_plus_scalar(mx_mul_scalar(x, 3), -1);
    mx_block *net = mx_dense(1), *square_loss = mx_l2_loss();
    mx_initialize(net, mx_normal(.sigma = 0.01), mx_cpu(0));
    mx_trainer *trainer = mx_trainer_new(mx_collect_params(net), "sgd", "learning_rate=0.5");
    double last = 0;
    for (int step = 0; step < 100; step++) {
        mx_scoped() {
            mx_array *loss;
            mx_record()
                loss = mx_call(square_loss, mx_call(net, x), y);
            mx_backward(loss);
            mx_trainer_step(trainer, 100);
            last = mx_item(mx_mean(loss));
        }
    }
    printf("loss after 100 steps: %.6f\n", last);
    return mx_check("line") || !(last < 1e-3);
}
