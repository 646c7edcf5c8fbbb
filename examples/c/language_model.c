/* A word-level language model: an LSTM learns to predict the next word, then generates text.
 *
 *     language_model [FILE] [--epochs 30] [--size 96] [--layers 1] [--seed 1] [--quick]
 *     gluon run -n 2 -- language_model                 two processes, each with half of the strands
 *
 * The text is split into BATCH parallel strands; a step reads STEPS words of each.  A training step (forward, loss,
 * backward, update) is one compiled plan.  Perplexity is the effective number of equally likely next words.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <ctype.h>
#include <gluon.h>
#include <math.h>

#include "terminal.h"

#ifndef EXAMPLE_TEXT
#define EXAMPLE_TEXT "examples/data/harbour.txt"
#endif
enum { BATCH = 8, STEPS = 20, WORD = 32 };

/* ---- the text -------------------------------------------------------------------------------------------------- */

typedef struct text {
    int64_t count, different;
    float *numbers;      /* (count): the index of every word in the vocabulary */
    char (*names)[WORD]; /* (different) */
} text;

/* The next word in lower case, or a mark; false at the end. */
static bool next_word(FILE *file, char word[WORD])
{
    int c, n = 0;
    while ((c = fgetc(file)) != EOF && isspace(c))
        ;
    if (c == EOF)
        return false;
    do
        if (n < WORD - 1)
            word[n++] = (char)tolower(c);
    while (isalnum(c) && (c = fgetc(file)) != EOF && isalnum(c));
    if (n > 1 || isalnum((unsigned char)word[0]))
        ungetc(c, file); /* what ended the word */
    word[n] = 0;
    return true;
}

static int64_t number_of(text *t, const char *word)
{
    for (int64_t i = 0; i < t->different; i++)
        if (!strcmp(t->names[i], word))
            return i;
    void *more = realloc(t->names, (size_t)(t->different + 1) * WORD);
    if (!more)
        return 0;
    t->names = more;
    memcpy(t->names[t->different], word, WORD);
    return t->different++;
}

static text read_text(const char *path)
{
    text t = {0};
    char word[WORD];
    FILE *file = fopen(path, "r");
    while (file && next_word(file, word)) {
        const float number = (float)number_of(&t, word);
        void *more = realloc(t.numbers, (size_t)(t.count + 1) * sizeof(float));
        if (!more)
            break;
        t.numbers = more;
        t.numbers[t.count++] = number;
    }
    if (file)
        fclose(file);
    return t;
}

/* (STEPS, own) words from position `at` of the strands of this process: own = BATCH / processes. */
static mx_array *window(const text *t, int64_t at)
{
    float words[STEPS * BATCH];
    const int64_t strand = t->count / BATCH, own = BATCH / mx_world_size(), first = own * mx_rank();
    for (int64_t i = 0; i < STEPS * own; i++)
        words[i] = t->numbers[(first + i % own) * strand + at + i / own];
    return mx_array_from(MX_DIMS(STEPS, own), MX_FLOAT32, words);
}

/* ---- the network ----------------------------------------------------------------------------------------------- */

typedef struct model {
    mx_block *embed, *lstm, *scores;
} model;

static mx_array *forward(mx_block *self, mx_arrays in) /* (T, N) -> (T, N, words) */
{
    const model *m = mx_block_user(self);
    return mx_call(m->scores, mx_call(m->lstm, mx_call(m->embed, in.v[0])));
}

static mx_block *model_new(model *m, int64_t words, int64_t size, int64_t layers)
{
    mx_block *block = mx_block_new("LanguageModel", forward, .hybrid = true, .user = m);
    mx_name_scope(block)
    {
        m->embed = mx_block_child(block, "embed", mx_embedding(words, size));
        m->lstm = mx_block_child(block, "lstm", mx_lstm(size, .num_layers = layers, .input_size = size));
        m->scores = mx_block_child(block, "scores", mx_dense(words, .flatten = false, .in_units = size));
    }
    return block;
}

/* Words that follow the first one of the text, each drawn from the model's scores. */
static void go_on(const model *m, const text *t, int64_t size, int64_t layers, int length)
{
    mx_array *h = mx_zeros(.shape = MX_DIMS(layers, 1, size)), *c = mx_zeros(.shape = MX_DIMS(layers, 1, size));
    float word = t->numbers[0];
    for (int i = 0; i < length && !mx_error_code(); i++) {
        const char *name = t->names[(int64_t)word];
        printf("%s%s", i && isalnum((unsigned char)*name) ? " " : "", name);
        mx_array *x = mx_call(m->embed, mx_array_from(MX_DIMS(1, 1), MX_FLOAT32, &word));
        mx_arrays out = mx_block_call_many(m->lstm, MX_ARRAYS(x, h, c));
        if (out.n != 3)
            break;
        h = out.v[1], c = out.v[2];
        mx_array *chances =
            mx_softmax(mx_reshape(mx_call(m->scores, out.v[0]), .shape = MX_DIMS(-1)), .temperature = 0.7);
        word = (float)mx_item(mx_sample_multinomial(chances));
    }
    printf("\n");
}

/* Over all processes. */
static double mean_of_all(double number)
{
    MX_SCOPE;
    const float own = (float)number;
    mx_array *mean = mx_array_from(MX_DIMS(1), MX_FLOAT32, &own);
    return mx_comm_all_reduce(mx_comm_world(), mean, MX_MEAN) ? number : mx_item(mean);
}

int main(int argc, char **argv)
{
    if (mx_world_size() < 1 || BATCH % mx_world_size()) {
        fprintf(stderr, "language_model: the %d strands cannot be divided among %d processes\n", BATCH,
                mx_world_size());
        return mx_check("language_model") || 1;
    }
    const bool first = mx_rank() == 0; /* prints */
    const bool quick = has_option(argc, argv, "--quick");
    const int64_t size = (int64_t)option(argc, argv, "--size", quick ? 48 : 96);
    const int64_t layers = (int64_t)option(argc, argv, "--layers", 1);
    const int epochs = (int)option(argc, argv, "--epochs", quick ? 6 : 30);
    const char *path = argc > 1 && argv[1][0] != '-' ? argv[1] : EXAMPLE_TEXT;
    text t = read_text(path);
    if (t.count < BATCH * (STEPS + 1)) {
        fprintf(stderr, "language_model: '%s' has %lld words, expected at least %d\n", path, (long long)t.count,
                BATCH * (STEPS + 1));
        return 1;
    }
    mx_random_seed((uint64_t)option(argc, argv, "--seed", 1));
    model m;
    mx_block *net = model_new(&m, t.different, size, layers), *criterion = mx_softmax_cross_entropy_loss();
    mx_initialize(net, mx_xavier(), mx_cpu(0));
    mx_trainer *trainer = mx_trainer_with(mx_collect_params(net), mx_adam(.learning_rate = 0.01));
    if (mx_world_size() > 1)
        mx_trainer_set_store(trainer, mx_kvstore_new("dist_sync"), MX_SYNC_GRADIENTS);
    mx_train_step *step = mx_train_step_new(net, criterion, trainer);
    if (first)
        printf("%lld words, %lld different ones\n", (long long)t.count, (long long)t.different);

    const double start = seconds_now();
    const int64_t last = t.count / BATCH - STEPS - 1;
    for (int epoch = 1; epoch <= epochs && !mx_error_code(); epoch++) {
        double total = 0;
        int64_t steps = 0;
        for (int64_t at = epoch % STEPS; at <= last; at += STEPS, steps++) {
            MX_SCOPE;
            total += mx_item(mx_mean(mx_train_step_run(step, window(&t, at), window(&t, at + 1))));
        }
        const double loss = mean_of_all(total / (double)(steps ? steps : 1));
        if (first && (epoch == 1 || epoch % (epochs > 6 ? epochs / 6 : 1) == 0))
            printf("epoch %2d: loss %.3f, perplexity %.1f, %.0f words/s\n", epoch, loss, exp(loss),
                   (double)(epoch * steps * STEPS * BATCH) / (seconds_now() - start));
    }
    if (first)
        go_on(&m, &t, size, layers, 40);
    free(t.numbers);
    free(t.names);
    return mx_check("language_model");
}
