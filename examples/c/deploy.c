/* Running an exported network: load it, set the input, run, read the result; then the same from several threads.
 *
 *     deploy [--gpu] lenet-symbol.json lenet-0000.params input.npy [threads]
 *
 * input.npy holds a batch in the network's input shape, for example float32 (1, 1, 28, 28).  With --gpu the network runs on
 * the first GPU: parameters are loaded to the current context.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include <gluon.h>

/* All that deploying needs. */
static int predict(const char *symbol, const char *params, const char *input)
{
    MX_SCOPE;
    mx_block *net = mx_import(symbol, "data", params);
    mx_array *x = mx_array_to(mx_load_npy(input), mx_current_context());
    mx_array *y = mx_call(net, x); /* NULL after an error above */
    const int64_t count = mx_size(y);
    const float *values = mx_array_data(mx_array_to(y, mx_cpu(0)));
    for (int64_t i = 0; values && i < count; i++)
        printf("%.9g\n", values[i]);
    return mx_check("deploy");
}

/* One model serves any number of threads; each has its own input and its own errors. */
struct job {
    mx_block *net;
    mx_array *x;
    double sum; /* of the result, NaN if it failed */
};

static void *serve(void *argument)
{
    struct job *job = argument;
    for (int i = 0; i < 100; i++)
        mx_scoped()
            job->sum = mx_item(mx_sum(mx_call(job->net, job->x)));
    return (void *)(intptr_t)mx_check("deploy thread");
}

static int predict_from_threads(const char *symbol, const char *params, const char *input, int count)
{
    enum { MOST = 64 };
    MX_SCOPE;
    pthread_t threads[MOST];
    struct job jobs[MOST];
    mx_block *net = mx_import(symbol, "data", params);
    mx_array *x = mx_array_to(mx_load_npy(input), mx_current_context());
    int failed = 0, started = 0;
    for (; net && x && started < count && started < MOST; started++) {
        jobs[started] = (struct job){net, x, 0};
        if (pthread_create(&threads[started], NULL, serve, &jobs[started]))
            break;
    }
    for (int i = 0; i < started; i++) {
        void *result;
        pthread_join(threads[i], &result);
        failed |= result != NULL || jobs[i].sum != jobs[0].sum;
    }
    printf("%d threads, 100 runs each: %s\n", started, failed ? "answers differ" : "one answer");
    return mx_check("deploy") | failed;
}

int main(int argc, char **argv)
{
    if (argc > 1 && !strcmp(argv[1], "--gpu")) {
        mx_set_current_context(mx_gpu(0));
        argc--, argv++;
    }
    if (argc < 4) {
        fprintf(stderr, "usage: deploy [--gpu] SYMBOL.json PARAMS INPUT.npy [THREADS]\n");
        return 2;
    }
    const int threads = argc > 4 ? atoi(argv[4]) : 0;
    return threads > 0 ? predict_from_threads(argv[1], argv[2], argv[3], threads) : predict(argv[1], argv[2], argv[3]);
}
