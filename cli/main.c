/* gluon: inspect, run and convert exported networks, start programs as several processes.  SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "base/suggest.h"
#include "cli.h"

const cli_command *const cli_commands[] = {&cli_predict, &cli_summary, &cli_plot,   &cli_compile,    &cli_convert,
                                           &cli_im2rec,  &cli_bench,   &cli_run,    &cli_doctor,     &cli_completion,
                                           NULL};

static void help(FILE *stream)
{
    fprintf(stream, "usage: gluon COMMAND ...\n\n");
    for (const cli_command *const *c = cli_commands; *c; c++)
        fprintf(stream, "  %-10s %.*s\n", (*c)->name, (int)strcspn((*c)->help, "\n"), (*c)->help);
    fprintf(stream, "\n'gluon COMMAND --help' says more.  MODEL is a prefix as passed to export (lenet stands for\n"
                    "lenet-symbol.json and the newest lenet-NNNN.params), or the path of a -symbol.json.\n");
}

/* What was printed is of use only if it has arrived. */
static int flushed(const char *who, int result)
{
    if (fflush(stdout) == 0 && !ferror(stdout))
        return result;
    fprintf(stderr, "%s: cannot write the output\n", who);
    return CLI_FAILED;
}

static int run(const cli_command *command, int argc, char **argv)
{
    cli_args args;
    char who[64];
    snprintf(who, sizeof who, "gluon %s", command->name);
    const int parsed = cli_parse(command, argc, argv, &args);
    if (parsed)
        return parsed < 0 ? flushed(who, CLI_OK) : parsed;
    MX_SCOPE;
    const int result = command->run(&args);
    const int failed = mx_check(who);
    return flushed(who, result ? result : failed ? CLI_FAILED : CLI_OK);
}

int main(int argc, char **argv)
{
    const char *word = argc > 1 ? argv[1] : "";
    if (!strcmp(word, "--help") || !strcmp(word, "-h") || !strcmp(word, "help")) {
        help(stdout);
        return flushed("gluon", CLI_OK);
    }
    if (!strcmp(word, "--version")) {
        printf("gluon %s\n", mx_version());
        return flushed("gluon", CLI_OK);
    }
    for (const cli_command *const *c = cli_commands; *c; c++)
        if (!strcmp((*c)->name, word))
            return run(*c, argc - 2, argv + 2);
    mx_suggestion s = {.word = word};
    for (const cli_command *const *c = cli_commands; *c; c++)
        mx_suggest(&s, (*c)->name);
    if (*word)
        fprintf(stderr, "gluon: there is no command '%s'%s\n\n", word, mx_suggest_text(&s));
    help(stderr);
    return CLI_USAGE;
}
