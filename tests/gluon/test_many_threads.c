/* One network in 16 threads: imperatively and hybridized, with shapes of their own, recording or not; copies that predict while
 * the original is trained.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <pthread.h>
#include <string.h>

#include "block_check.h"

#define THREADS 16

typedef struct worker {
    mx_block *net;
    int number;        /* batch size and mode depend on it */
    float wanted[128]; /* what the network gives for this worker's input */
    int64_t size;      /* elements of it */
    int wrong;         /* calls that gave something else */
} worker;

static mx_block *network(void)
{
    mx_block *net = mx_hybrid_sequential(mx_dense(16, .in_units = 6, .activation = "relu"),
                                         mx_batch_norm(.in_channels = 16), mx_dense(3, .in_units = 16));
    mx_initialize(net, mx_xavier(), mx_cpu(0));
    return net;
}

static mx_array *input_of(const worker *w) { return check_array(MX_DIMS(1 + w->number % 5, 6), w->number); }

static bool same(const worker *w, mx_array *y)
{
    if (!y || mx_size(y) != w->size)
        return false;
    const float *values = mx_array_data(y);
    for (int64_t i = 0; values && i < w->size; i++)
        if (values[i] - w->wanted[i] > 1e-5f || w->wanted[i] - values[i] > 1e-5f)
            return false;
    return values != NULL;
}

static void *predict(void *arg)
{
    worker *w = arg;
    for (int i = 0; i < 20; i++) {
        MX_SCOPE;
        mx_array *y = NULL;
        if (w->number % 2)
            mx_record_predict() y = mx_call(w->net, input_of(w));
        else
            y = mx_call(w->net, input_of(w));
        w->wrong += !same(w, y);
        mx_error_clear();
    }
    return NULL;
}

static void *train(void *arg)
{
    worker *w = arg;
    MX_SCOPE;
    mx_trainer *trainer = mx_trainer_with(mx_collect_params(w->net), mx_optimizer_new("sgd", "learning_rate=0.1"));
    for (int i = 0; i < 20; i++) {
        MX_SCOPE;
        mx_array *loss = NULL;
        mx_record()
            loss = mx_sum(mx_square(mx_call(w->net, input_of(w))));
        if (!loss || mx_backward(loss) || mx_trainer_step(trainer, 4))
            w->wrong++;
        mx_error_clear();
    }
    return NULL;
}

static void prepare(worker *w, mx_block *net, int number)
{
    *w = (worker){.net = net, .number = number};
    mx_array *y = mx_call(net, input_of(w));
    check_no_error();
    w->size = mx_size(y);
    assert_true(w->size <= 128);
    memcpy(w->wanted, mx_array_data(y), (size_t)w->size * sizeof(float));
}

/* `first` is what thread 0 does; the others predict. */
static void run(worker *workers, void *(*first)(void *))
{
    pthread_t threads[THREADS];
    for (int i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, i ? predict : first, &workers[i]), 0);
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    for (int i = 0; i < THREADS; i++)
        assert_int_equal(workers[i].wrong, 0);
}

static void one_network(void **state)
{
    (void)state;
    for (int hybrid = 0; hybrid < 2; hybrid++) {
        MX_SCOPE;
        worker workers[THREADS];
        mx_block *net = network();
        for (int i = 0; i < THREADS; i++)
            prepare(&workers[i], net, i);
        if (hybrid)
            mx_hybridize(net); /* plans for five batch sizes are made by whoever comes first */
        run(workers, predict);
    }
}

static void copies_beside_a_training(void **state)
{
    (void)state;
    for (int hybrid = 0; hybrid < 2; hybrid++) {
        MX_SCOPE;
        worker workers[THREADS];
        mx_block *net = network();
        for (int i = 0; i < THREADS; i++) {
            mx_block *copy = i ? mx_block_copy(net) : net;
            prepare(&workers[i], copy, i);
            if (hybrid)
                mx_hybridize(copy);
        }
        run(workers, train);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(one_network), cmocka_unit_test(copies_beside_a_training)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
