/* Arguments of the gluon command: the first byte chooses a subcommand, the rest are its words, separated by newlines.  Words are
 * parsed, options that take numbers and shapes are read; the subcommand itself does not run.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "cli.h"
#include "fuzz.h"

#define MOST_WORDS 64

/* The messages are not of interest; libFuzzer has its own copy of the descriptor. */
int LLVMFuzzerInitialize(int *argc, char ***argv);
int LLVMFuzzerInitialize(int *argc, char ***argv)
{
    (void)argc, (void)argv;
    FILE *nowhere = fopen("/dev/null", "w");
    if (nowhere)
        stdout = stderr = nowhere;
    return 0;
}

static void read_values(const cli_args *args)
{
    for (int i = 0; i < args->given; i++) {
        int64_t number;
        mx_dims dims;
        mx_floats floats;
        const char *text = cli_option_at(args, args->option[i]->name, 0), *equals = text ? strchr(text, '=') : NULL;
        if (!text)
            abort(); /* it was given */
        cli_number(args, args->option[i]->name, 0, -1, &number);
        cli_dims("shape", equals ? equals + 1 : text, &dims);
        cli_floats("mean", text, &floats);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
    char text[1024], *words[MOST_WORDS + 1] = {NULL}, *at;
    int count = 0, commands = 0;
    cli_args args;
    if (size < 1 || size > sizeof text)
        return 0;
    while (cli_commands[commands])
        commands++;
    memcpy(text, bytes + 1, size - 1);
    text[size - 1] = 0;
    for (char *word = strtok_r(text, "\n", &at); word && count < MOST_WORDS; word = strtok_r(NULL, "\n", &at))
        words[count++] = word;
    if (cli_parse(cli_commands[bytes[0] % commands], count, words, &args) == CLI_OK)
        read_values(&args);
    mx_error_clear();
    return 0;
}
