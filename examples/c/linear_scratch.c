/* Linear regression from scratch: arrays, autograd and a gradient step written by hand.
 *
 * The data follow y = 2 x0 - 3.4 x1 + 4.2 + noise; the program recovers the three numbers.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <gluon.h>

#include "terminal.h"

enum { EXAMPLES = 1000, BATCH = 20 };

static mx_array *line(mx_array *x, mx_array *w, mx_array *b) { return mx_add(mx_dot(x, w), b); } /* (n, 1) */

/* w -= rate * gradient: written in place, outside of the tape. */
static void descend(mx_array *w, double rate) { mx_sub(w, mx_mul_scalar(mx_gradient(w), rate), .out = w); }

int main(int argc, char **argv)
{
    mx_random_seed((uint64_t)option(argc, argv, "--seed", 1));
    mx_array *true_w = mx_array_from(MX_DIMS(2, 1), MX_FLOAT32, (float[]){2, -3.4f}), *true_b = mx_array_scalar(4.2);
    mx_array *x = mx_random_normal(.shape = MX_DIMS(EXAMPLES, 2));
    mx_array *y = mx_add(line(x, true_w, true_b), mx_random_normal(.scale = 0.01, .shape = MX_DIMS(EXAMPLES, 1)));
    mx_loader *loader = mx_data_loader(mx_array_dataset(MX_ARRAYS(x, y)), BATCH, .shuffle = true);

    mx_array *w = mx_random_normal(.scale = 0.01, .shape = MX_DIMS(2, 1)), *b = mx_zeros(.shape = MX_DIMS(1));
    mx_attach_grad(w, MX_GRAD_WRITE);
    mx_attach_grad(b, MX_GRAD_WRITE);

    const int epochs = (int)option(argc, argv, "--epochs", 5);
    for (int epoch = 1; epoch <= epochs; epoch++) {
        mx_for_each_batch(batch, loader) {
            mx_array *loss;
            mx_record()
                loss = mx_mean(mx_square(mx_sub(line(batch.data, w, b), batch.label)));
            mx_backward(loss);
            descend(w, 0.03);
            descend(b, 0.03);
        }
        mx_scoped()
            printf("epoch %d: loss %.6f\n", epoch, mx_item(mx_mean(mx_square(mx_sub(line(x, w, b), y)))));
    }
    double learned[2] = {0};
    mx_array_read_doubles(w, learned, 2);
    printf("true    w = (2, -3.4), b = 4.2\nlearned w = (%.3f, %.3f), b = %.3f\n", learned[0], learned[1], mx_item(b));
    return mx_check("linear_scratch");
}
