/* ResNet-18 on Fashion-MNIST, as one process or several:
 *
 *     gluon run -n 4 -- distributed [--epochs 2] [--batch 64] [--lr 0.05] [--examples 60000] [--tests 10000] [--lenet]
 *
 * --batch is that of all processes together: each has its part of the data and of every batch, so the result does not
 * depend on how many there are, but for rounding and the statistics of batch normalisation.  --lenet: a small network
 * without these.  Rank 0 saves distributed.params.
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

static mx_loader *part_of(mx_dataset *dataset, int64_t batch, bool shuffled)
{
    const int64_t n = mx_dataset_length(dataset);
    mx_sampler *all = shuffled ? mx_random_sampler(n, 1) : mx_sequential_sampler(n);
    return mx_data_loader(
        dataset, batch, .last_batch = shuffled ? MX_DISCARD : MX_KEEP,
        .sampler = mx_split_sampler(all, mx_world_size(), mx_rank(), shuffled ? MX_SPLIT_PAD : MX_SPLIT_KEEP));
}

static void train_epoch(int epoch, mx_block *net, mx_trainer *trainer, mx_loader *train, mx_loader *test)
{
    mx_block *criterion = mx_softmax_cross_entropy_loss();
    mx_metric *accuracy = mx_accuracy(), *mean_loss = mx_loss_metric();
    const double start = seconds_now();
    mx_for_each_batch(batch, train) {
        mx_array *loss;
        mx_record()
            loss = mx_call(criterion, mx_call(net, batch.data), batch.label);
        mx_backward(loss);
        mx_trainer_step(trainer, batch.size * mx_world_size());
        mx_metric_update(mean_loss, MX_ARRAYS(batch.label), MX_ARRAYS(loss));
    }
    const double speed = (double)mx_loader_examples(train) * mx_world_size() / (seconds_now() - start);
    mx_for_each_batch(batch, test)
        mx_metric_update(accuracy, MX_ARRAYS(batch.label), MX_ARRAYS(mx_call(net, batch.data)));
    mx_metric_reduce(mean_loss);
    mx_metric_reduce(accuracy);
    if (mx_rank() == 0)
        printf("epoch %d: loss %.4f, test %.2f %%, %.0f samples/s, %d process%s\n", epoch, mx_metric_get(mean_loss),
               100 * mx_metric_get(accuracy), speed, mx_world_size(), mx_world_size() > 1 ? "es" : "");
    fflush(stdout);
}

int main(int argc, char **argv)
{
    const int64_t batch = (int64_t)option(argc, argv, "--batch", 64) / (mx_world_size() > 0 ? mx_world_size() : 1);
    char options[128];
    snprintf(options, sizeof options, "kvstore=dist_sync, momentum=0.9, learning_rate=%g",
             option(argc, argv, "--lr", 0.05));
    mx_random_seed(1); /* the same on all processes: so are the first values of the parameters */
    mx_block *net = has_option(argc, argv, "--lenet") ? lenet() : mx_model("resnet18_v1", .classes = 10);
    mx_dataset *train_set = mx_dataset_take(mx_fashion_mnist(), (int64_t)option(argc, argv, "--examples", 60000));
    mx_loader *train = part_of(train_set, batch, true);
    mx_dataset *test_set =
        mx_dataset_take(mx_fashion_mnist(.train = false), (int64_t)option(argc, argv, "--tests", 10000));
    mx_loader *test = part_of(test_set, 250, false);
    mx_initialize(net, mx_xavier(), mx_cpu(0));
    mx_hybridize(net);
    mx_trainer *trainer = mx_trainer_new(mx_collect_params(net), "sgd", options);
    for (int epoch = 1; epoch <= (int)option(argc, argv, "--epochs", 2) && !mx_error_code(); epoch++)
        train_epoch(epoch, net, trainer, train, test);
    if (mx_rank() == 0)
        mx_save_parameters(net, "distributed.params");
    return mx_check("distributed");
}
