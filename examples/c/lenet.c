/* LeNet on Fashion-MNIST: trains, prints loss and accuracy, saves lenet.params.
 *
 *     lenet [--epochs 3] [--batch 64] [--lr 0.03] [--seed 1] [--examples 60000] [--gpu]
 *     lenet --gpu         trains on the first GPU
 *     lenet --show        loads lenet.params and shows test images with the network's predictions
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <gluon.h>

#include "terminal.h"

static mx_block *lenet(void)
{
    return mx_hybrid_sequential(mx_conv2d(6, MX_DIMS(5, 5), .padding = MX_DIMS(2, 2), .activation = "relu"),
                                mx_max_pool2d(MX_DIMS(2, 2)), mx_conv2d(16, MX_DIMS(5, 5), .activation = "relu"),
                                mx_max_pool2d(MX_DIMS(2, 2)), mx_dense(120, .activation = "relu"),
                                mx_dense(84, .activation = "relu"), mx_dense(10));
}

static double test_accuracy(mx_block *net, mx_loader *test)
{
    mx_metric *accuracy = mx_accuracy();
    mx_for_each_batch(batch, test)
        mx_metric_update(accuracy, MX_ARRAYS(batch.label), MX_ARRAYS(mx_call(net, batch.data)));
    return mx_metric_get(accuracy);
}

static void train_epoch(int epoch, mx_block *net, mx_trainer *trainer, mx_loader *train, mx_loader *test)
{
    mx_block *criterion = mx_softmax_cross_entropy_loss();
    mx_metric *accuracy = mx_accuracy(), *mean_loss = mx_loss_metric();
    const double start = seconds_now();
    mx_for_each_batch(batch, train) {
        mx_array *output, *loss;
        mx_record() {
            output = mx_call(net, batch.data);
            loss = mx_call(criterion, output, batch.label);
        }
        mx_backward(loss);
        mx_trainer_step(trainer, batch.size);
        mx_metric_update(accuracy, MX_ARRAYS(batch.label), MX_ARRAYS(output));
        mx_metric_update(mean_loss, MX_ARRAYS(batch.label), MX_ARRAYS(loss));
        progress(epoch, batch.index + 1, mx_loader_batches(train));
    }
    const double speed = (double)mx_loader_examples(train) / (seconds_now() - start);
    printf("epoch %d: loss %.4f, accuracy %.2f %%, test %.2f %%, %.0f samples/s\n", epoch, mx_metric_get(mean_loss),
           100 * mx_metric_get(accuracy), 100 * test_accuracy(net, test), speed);
    fflush(stdout);
}

static void show(mx_block *net, mx_dataset *dataset)
{
    enum { COUNT = 4 };
    mx_load_parameters(net, "lenet.params");
    mx_for_each_batch(batch, mx_data_loader(mx_dataset_take(dataset, 3 * COUNT), COUNT)) {
        const float *images[COUNT], *pixels = mx_array_data(batch.data);
        double said[COUNT], truth[COUNT];
        if (!pixels || mx_array_read_doubles(mx_argmax(mx_call(net, batch.data), .axis = 1), said, COUNT) ||
            mx_array_read_doubles(batch.label, truth, COUNT))
            return;
        for (int i = 0; i < COUNT; i++)
            images[i] = pixels + i * 28 * 28;
        draw_images(images, COUNT, 28, 28);
        for (int i = 0; i < COUNT; i++)
            printf("%-10s %-2s %-16s", mx_fashion_mnist_class((int)said[i]),
                   said[i] == truth[i] ? "=" : "!=", mx_fashion_mnist_class((int)truth[i]));
        printf("\n");
    }
    printf("Above: the prediction and the label.\n");
}

int main(int argc, char **argv)
{
    mx_random_seed((uint64_t)option(argc, argv, "--seed", 1));
    mx_block *net = lenet();
    mx_dataset *test_set = mx_fashion_mnist(.train = false);
    if (has_option(argc, argv, "--show")) {
        show(net, test_set);
        return mx_check("lenet");
    }
    mx_dataset *train_set = mx_dataset_take(mx_fashion_mnist(), (int64_t)option(argc, argv, "--examples", 60000));
    const mx_context device = has_option(argc, argv, "--gpu") ? mx_gpu(0) : mx_cpu(0);
    mx_loader *train =
        mx_data_loader(train_set, (int64_t)option(argc, argv, "--batch", 64), .shuffle = true, .context = device);
    mx_loader *test = mx_data_loader(test_set, 250, .context = device);
    mx_initialize(net, mx_xavier(), device);
    mx_hybridize(net);
    const int epochs = (int)option(argc, argv, "--epochs", 3);
    mx_lr_scheduler *falling =
        mx_cosine_scheduler(epochs * mx_loader_batches(train), .base_lr = option(argc, argv, "--lr", 0.03));
    mx_trainer *trainer = mx_trainer_with(mx_collect_params(net), mx_sgd(.momentum = 0.9, .lr_scheduler = falling));

    for (int epoch = 1; epoch <= epochs && !mx_error_code(); epoch++)
        train_epoch(epoch, net, trainer, train, test);
    mx_save_parameters(net, "lenet.params");
    return mx_check("lenet");
}
