/* Options of the gluon command.  SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "base/suggest.h"
#include "cli.h"

int cli_usage(const cli_args *args, const char *format, ...)
{
    va_list list;
    fprintf(stderr, "gluon %s: ", args->command->name);
    va_start(list, format);
    vfprintf(stderr, format, list);
    va_end(list);
    fprintf(stderr, "\nTry 'gluon %s --help'.\n", args->command->name);
    return CLI_USAGE;
}

void cli_help(const cli_command *command)
{
    printf("usage: gluon %s %s\n\n%s\n\n", command->name, command->usage, command->help);
    for (const cli_option *o = command->options; o->name; o++) {
        char left[64];
        snprintf(left, sizeof left, "%s %s", o->name, o->argument ? o->argument : "");
        printf("  %-26s %s\n", left, o->help);
    }
    printf("  %-26s %s\n", "--help", "this text");
}

static const cli_option *find_option(const cli_command *command, const char *word, size_t length)
{
    for (const cli_option *o = command->options; o->name; o++)
        if (strlen(o->name) == length && !memcmp(o->name, word, length))
            return o;
    return NULL;
}

/* "-o" is short for "--output", "-n" for "--processes". */
static const char *whole_name(const char *word)
{
    return !strcmp(word, "-o") ? "--output" : !strcmp(word, "-n") ? "--processes" : word;
}

/* Takes the option at argv[*i] and its argument. */
static int take_option(cli_args *args, int argc, char **argv, int *i)
{
    const char *word = whole_name(argv[*i]), *equals = strchr(word, '=');
    const cli_option *o = find_option(args->command, word, equals ? (size_t)(equals - word) : strlen(word));
    if (!o) {
        mx_suggestion s = {.word = word};
        for (const cli_option *known = args->command->options; known->name; known++)
            mx_suggest(&s, known->name);
        return cli_usage(args, "there is no option %s%s", word, mx_suggest_text(&s));
    }
    if (args->given == CLI_MOST)
        return cli_usage(args, "more than %d options", CLI_MOST);
    if (!o->argument && equals)
        return cli_usage(args, "%s takes no argument", o->name);
    if (o->argument && !equals && ++*i == argc)
        return cli_usage(args, "%s needs an argument: %s", o->name, o->argument);
    args->option[args->given] = o;
    args->text[args->given++] = !o->argument ? "" : equals ? equals + 1 : argv[*i];
    return CLI_OK;
}

int cli_parse(const cli_command *command, int argc, char **argv, cli_args *args)
{
    bool only_arguments = false;
    *args = (cli_args){.command = command};
    for (int i = 0; i < argc; i++) {
        if (!only_arguments && (!strcmp(argv[i], "--help") || !strcmp(argv[i], "-h"))) {
            cli_help(command);
            return -1;
        }
        if (!only_arguments && !strcmp(argv[i], "--")) {
            if (command->most == CLI_REST) {
                args->rest = argv + i + 1; /* main's argv ends with NULL */
                break;
            }
            only_arguments = true;
        } else if (!only_arguments && argv[i][0] == '-' && argv[i][1]) {
            if (take_option(args, argc, argv, &i))
                return CLI_USAGE;
        } else if (args->count >= command->most)
            return cli_usage(args, "'%s' is one argument too many", argv[i]);
        else
            args->values[args->count++] = argv[i];
    }
    if (args->count < command->least)
        return cli_usage(args, "usage: gluon %s %s", command->name, command->usage);
    return CLI_OK;
}

const char *cli_option_at(const cli_args *args, const char *name, int i)
{
    for (int k = 0; k < args->given; k++)
        if (!strcmp(args->option[k]->name, name) && i-- == 0)
            return args->text[k];
    return NULL;
}

bool cli_number(const cli_args *args, const char *name, int64_t fallback, int64_t least, int64_t *number)
{
    const char *text = cli_option_of(args, name);
    char *end = NULL;
    *number = fallback;
    if (!text)
        return true;
    errno = 0;
    *number = strtoll(text, &end, 10);
    if (errno || end == text || *end || *number < least || *number > 1 << 30) {
        cli_usage(args, "%s is '%s', expected a whole number of at least %lld", name, text, (long long)least);
        return false;
    }
    return true;
}

bool cli_floats(const char *what, const char *text, mx_floats *floats)
{
    floats->n = 0;
    for (char *end; floats->n < MX_MAX_TUPLE; text = end + 1) {
        errno = 0;
        floats->d[floats->n++] = strtod(text, &end);
        if (errno || end == text || (*end && *end != ','))
            break;
        if (!*end)
            return true;
    }
    mx_error_set(MX_ERR_ARGUMENT, "%s: '%s' is not a list of numbers such as 1,3,224,224", what, text);
    return false;
}

bool cli_dims(const char *what, const char *text, mx_dims *dims)
{
    mx_floats numbers;
    if (!cli_floats(what, text, &numbers))
        return false;
    dims->n = numbers.n;
    for (int i = 0; i < numbers.n; i++) {
        if (!(numbers.d[i] >= 0 && numbers.d[i] < 1e9) || numbers.d[i] != (double)(int64_t)numbers.d[i] ||
            numbers.n > MX_MAX_NDIM) {
            mx_error_set(MX_ERR_ARGUMENT, "%s: '%s' is not a shape; expected up to %d integers (0: any size)", what,
                         text, MX_MAX_NDIM);
            return false;
        }
        dims->d[i] = (int64_t)numbers.d[i];
    }
    return true;
}

bool cli_ends_with(const char *text, const char *suffix)
{
    const size_t a = strlen(text), b = strlen(suffix);
    return a >= b && !strcmp(text + a - b, suffix);
}
