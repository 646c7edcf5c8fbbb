/* GPT-2 on a small text: training, a checkpoint, generated text.
 *
 *     gpt2 [FILE] [--steps 400] [--layers 4] [--units 128] [--heads 4] [--length 128] [--batch 8] [--lr 0.002] [--seed 1]
 *     gpt2 --quick               a smaller network, some seconds
 *     gpt2 --resume              goes on from the last checkpoint in this folder, as if it had never stopped
 *     gpt2 --gpu                 on the first GPU
 *     gpt2 --weights model.safetensors --tokenizer FOLDER [--network gpt2_124m]      no training: published parameters, and
 *                                the folder of the vocab.json and merges.txt that were published with them
 *     ... --prompt "The harbour" --tokens 200 --temperature 0.7     what is generated at the end
 *
 * Tokens are bytes, with --tokenizer pieces of words.
 *
 * A training step (forward, loss, backward, update) is one compiled plan.  Generating is two more: one that reads the
 * prompt, and one for every token after it, which looks only at the newest token and at the keys and values of the others.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <gluon.h>
#include <math.h>

#include "terminal.h"

#ifndef EXAMPLE_TEXT
#define EXAMPLE_TEXT "examples/data/harbour.txt"
#endif
enum { BYTES = 256, MOST_TEXT = 1 << 28, SAVE_EVERY = 100 };

static const char *text_option(int argc, char **argv, const char *name, const char *fallback)
{
    for (int i = 1; i + 1 < argc; i++)
        if (!strcmp(argv[i], name))
            return argv[i + 1];
    return fallback;
}

/* ---- texts ----------------------------------------------------------------------------------------------------- */

typedef struct text {
    unsigned char *bytes;
    int64_t count;
} text;

static text read_text(const char *path)
{
    text t = {0};
    FILE *file = fopen(path, "rb");
    if (file && !fseek(file, 0, SEEK_END)) {
        const long size = ftell(file);
        rewind(file);
        t.bytes = size > 0 && size < MOST_TEXT ? malloc((size_t)size) : NULL;
        t.count = t.bytes ? (int64_t)fread(t.bytes, 1, (size_t)size, file) : 0;
    }
    if (file)
        fclose(file);
    return t;
}

/* Tokens of `batch` windows of the text, and those that follow each: (batch, length).  Which windows depends on the step
 * alone, so a resumed training sees what an uninterrupted one would see. */
static void windows(const text *t, int64_t step, int64_t batch, int64_t length, mx_context device, mx_array **in,
                    mx_array **next)
{
    float *values = malloc((size_t)(2 * batch * length) * sizeof *values);
    if (!values)
        return;
    for (int64_t i = 0; i < batch; i++) {
        uint64_t at = (uint64_t)(step * batch + i + 1) * 0x9e3779b97f4a7c15u;
        at = (at ^ at >> 29) % (uint64_t)(t->count - length);
        for (int64_t k = 0; k < length; k++) {
            values[i * length + k] = (float)t->bytes[at + (uint64_t)k];
            values[(batch + i) * length + k] = (float)t->bytes[at + (uint64_t)k + 1];
        }
    }
    *in = mx_array_to(mx_array_from(MX_DIMS(batch, length), MX_FLOAT32, values), device);
    *next = mx_array_to(mx_array_from(MX_DIMS(batch, length), MX_FLOAT32, values + batch * length), device);
    free(values);
}

/* ---- checkpoints ----------------------------------------------------------------------------------------------- */

/* Parameters and the optimizer's states under the number of the step, then gpt2.step, which names it: whenever the
 * program is killed, gpt2.step names a complete pair. */
static void save_checkpoint(mx_block *net, mx_trainer *trainer, int64_t step)
{
    char params[64], states[64];
    snprintf(params, sizeof params, "gpt2-%06lld.params", (long long)step);
    snprintf(states, sizeof states, "gpt2-%06lld.states", (long long)step);
    if (mx_save_parameters(net, params) || mx_trainer_save_states(trainer, states))
        return;
    FILE *file = fopen("gpt2.step.new", "w");
    const bool written = file && fprintf(file, "%lld\n", (long long)step) > 0;
    if (!file || fclose(file) || !written || rename("gpt2.step.new", "gpt2.step"))
        fprintf(stderr, "gpt2: gpt2.step cannot be written\n");
    if (step > SAVE_EVERY) { /* the one before */
        snprintf(params, sizeof params, "gpt2-%06lld.params", (long long)step - SAVE_EVERY);
        snprintf(states, sizeof states, "gpt2-%06lld.states", (long long)step - SAVE_EVERY);
        remove(params), remove(states);
    }
}

/* The step of the checkpoint; 0: there is none. */
static int64_t load_checkpoint(mx_block *net, mx_trainer *trainer)
{
    char params[64], states[64];
    long long step = 0;
    FILE *file = fopen("gpt2.step", "r");
    if (!file || fscanf(file, "%lld", &step) != 1)
        step = 0;
    if (file)
        fclose(file);
    snprintf(params, sizeof params, "gpt2-%06lld.params", step);
    snprintf(states, sizeof states, "gpt2-%06lld.states", step);
    if (step && !mx_load_parameters(net, params) && !mx_trainer_load_states(trainer, states))
        printf("resumed after step %lld\n", step);
    return step;
}

/* ---- training -------------------------------------------------------------------------------------------------- */

static void train(mx_block *net, const text *t, int argc, char **argv, int64_t steps, int64_t batch, int64_t length,
                  mx_context device)
{
    const double rate = option(argc, argv, "--lr", 0.002);
    const uint64_t seed = (uint64_t)option(argc, argv, "--seed", 1) * 1000003;
    mx_lr_scheduler *falling = mx_cosine_scheduler(steps, .base_lr = rate, .final_lr = rate / 10, .warmup_steps = 20);
    mx_trainer *trainer =
        mx_trainer_with(mx_collect_params(net), mx_adamw(.beta2 = 0.99, .wd = 0.1, .lr_scheduler = falling));
    mx_train_step *step = mx_train_step_new(net, mx_softmax_cross_entropy_loss(), trainer);
    const int64_t first = has_option(argc, argv, "--resume") ? load_checkpoint(net, trainer) : 0;
    double start = seconds_now(), total = 0;
    int64_t done = 0; /* steps since the last line */
    const int64_t every = steps > 10 ? steps / 10 : 1;
    for (int64_t i = first; i < steps && !mx_error_code(); i++) {
        MX_SCOPE;
        mx_array *in = NULL, *next = NULL;
        mx_random_seed(seed + (uint64_t)i); /* of dropout */
        windows(t, i, batch, length, device, &in, &next);
        total += mx_item(mx_mean(mx_train_step_run(step, in, next)));
        done++;
        if ((i + 1) % every == 0 || i == first) {
            printf("step %4lld: loss %.3f, %.0f tokens/s\n", (long long)i + 1, total / (double)done,
                   (double)(done * batch * length) / (seconds_now() - start));
            fflush(stdout);
            total = 0, done = 0, start = seconds_now();
        }
        if ((i + 1) % SAVE_EVERY == 0 || i + 1 == steps)
            save_checkpoint(net, trainer, i + 1);
    }
}

/* ---- generating ------------------------------------------------------------------------------------------------ */

/* A token drawn from the scores (1, vocabulary). */
static float draw(mx_array *scores, double temperature)
{
    mx_array *chances = mx_softmax(mx_cast(scores, .dtype = MX_FLOAT32), .temperature = temperature);
    return (float)mx_item(mx_sample_multinomial(mx_reshape(chances, .shape = MX_DIMS(-1))));
}

/* The tokens of the prompt (1, n); words NULL: its bytes. */
static mx_array *tokens_of(mx_tokenizer *words, const char *prompt)
{
    const int64_t bytes = (int64_t)strlen(prompt);
    mx_array *tokens =
        words ? mx_tokenizer_encode(words, prompt, bytes) : mx_array_from(MX_DIMS(bytes), MX_UINT8, prompt);
    return mx_cast(mx_reshape(tokens, .shape = MX_DIMS(1, -1)), .dtype = MX_FLOAT32);
}

static void print_token(mx_tokenizer *words, int token)
{
    int64_t n = 0;
    const char *bytes = words ? mx_tokenizer_bytes(words, token, &n) : NULL;
    if (words && bytes)
        fwrite(bytes, 1, (size_t)n, stdout);
    else if (!words)
        putchar(token);
    fflush(stdout);
}

static void generate(mx_block *net, mx_tokenizer *words, const char *prompt, int64_t count, int64_t length,
                     double temperature, mx_context device)
{
    MX_SCOPE;
    mx_array *fresh = tokens_of(words, prompt);
    int64_t known = 0, made = 0;
    if (!net || !fresh || mx_error_code())
        return;
    mx_arrays cache = mx_text_cache(net, 1, length);
    printf("%s", prompt);
    double begin = 0;
    for (; made < count && known + mx_size(fresh) < length && !mx_error_code(); made++) {
        const float start = (float)known; /* the prompt at once, then token by token */
        known += mx_size(fresh);
        mx_arrays out = mx_text_step(net, mx_array_to(fresh, device),
                                     mx_array_to(mx_array_from(MX_DIMS(1), MX_FLOAT32, &start), device), cache);
        if (out.n < 2)
            return;
        cache = (mx_arrays){out.v + 1, out.n - 1};
        const float token = draw(out.v[0], temperature);
        print_token(words, (int)token);
        fresh = mx_array_from(MX_DIMS(1, 1), MX_FLOAT32, &token);
        begin = made == 1 ? seconds_now() : begin; /* both plans are compiled */
    }
    printf("\n%lld tokens, %.0f tokens/s\n", (long long)made,
           made > 2 ? (double)(made - 2) / (seconds_now() - begin) : 0.0);
}

int main(int argc, char **argv)
{
    const bool quick = has_option(argc, argv, "--quick");
    const char *weights = text_option(argc, argv, "--weights", NULL),
               *folder = text_option(argc, argv, "--tokenizer", NULL);
    const char *path = argc > 1 && argv[1][0] != '-' ? argv[1] : EXAMPLE_TEXT;
    const mx_context device = has_option(argc, argv, "--gpu") ? mx_gpu(0) : mx_cpu(0);
    const int64_t length = (int64_t)option(argc, argv, "--length", weights ? 256 : quick ? 32 : 128);
    mx_set_current_context(device);
    mx_random_seed((uint64_t)option(argc, argv, "--seed", 1));
    mx_tokenizer *words = folder ? mx_tokenizer_open(folder) : NULL;
    if (weights && !folder) {
        fprintf(stderr, "gpt2: --weights also wants --tokenizer, the folder of vocab.json and merges.txt\n");
        return 2;
    }
    mx_block *net = weights ? mx_model_from_torch(text_option(argc, argv, "--network", "gpt2_124m"), weights)
                            : mx_gpt2(.num_layers = (int64_t)option(argc, argv, "--layers", quick ? 2 : 4),
                                      .units = (int64_t)option(argc, argv, "--units", quick ? 64 : 128),
                                      .num_heads = (int64_t)option(argc, argv, "--heads", 4), .vocab_size = BYTES,
                                      .max_length = length, .dropout = 0.1);
    if (!weights && net) {
        text t = read_text(path);
        if (t.count <= length) {
            fprintf(stderr, "gpt2: '%s' has %lld bytes, expected more than %lld\n", path, (long long)t.count,
                    (long long)length);
            return 1;
        }
        mx_initialize(net, mx_normal(0.02), device);
        train(net, &t, argc, argv, (int64_t)option(argc, argv, "--steps", quick ? 60 : 400),
              (int64_t)option(argc, argv, "--batch", 8), length, device);
        free(t.bytes);
    }
    if (net)
        mx_hybridize(net);
    generate(net, words, text_option(argc, argv, "--prompt", "The "), (int64_t)option(argc, argv, "--tokens", length),
             length, option(argc, argv, "--temperature", 0.7), device);
    return mx_check("gpt2");
}
