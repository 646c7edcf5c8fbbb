/* gluon completion: what a shell needs to complete the command's words, written from the tables of commands and options.
 *
 * Commands, options and whether an option takes a file come from the tables; a word that is no option completes to
 * files, or to models: the prefixes of *-symbol.json, and the networks of the zoo.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "cli.h"

static bool takes_file(const cli_option *option)
{
    return option->argument && (strstr(option->argument, "FILE") || strstr(option->argument, "FOLDER"));
}
/* Commands whose arguments are files of any kind, not models. */
static bool takes_files(const cli_command *command) { return strncmp(command->usage, "MODEL", 5) != 0; }

/* The first sentence of a text, without the quotes and brackets that shells read. */
static void print_plain(const char *text)
{
    for (; *text && *text != '\n' && strncmp(text, ". ", 2) && strcmp(text, "."); text++)
        if (!strchr("'\"`[]:$\\", *text))
            putchar(*text);
}

static void print_networks(const char *between)
{
    const char *name;
    for (int i = 0; (name = mx_model_name(i)); i++)
        printf("%s%s", i ? between : "", name);
}

static void print_options(const cli_command *command, bool (*only)(const cli_option *))
{
    for (const cli_option *o = command->options; o->name; o++)
        if (!only || only(o))
            printf("%s ", o->name);
}
static bool takes_text(const cli_option *option) { return option->argument && !takes_file(option); }

/* ---- bash ---------------------------------------------------------------------------------------------------- */

static void bash(void)
{
    printf("# Completion of the gluon command for bash, written by 'gluon completion bash'.\n"
           "_gluon_models() {\n"
           "    compgen -d -S / -- \"$1\"\n"
           "    compgen -f -X '!*-symbol.json' -- \"$1\" | sed 's/-symbol\\.json$//'\n"
           "    compgen -W \"");
    print_networks(" ");
    printf("\" -- \"$1\"\n}\n"
           "_gluon() {\n"
           "    local word=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD-1]} options= files= texts= any=\n"
           "    COMPREPLY=()\n"
           "    if [ \"$COMP_CWORD\" -eq 1 ]; then\n"
           "        COMPREPLY=($(compgen -W \"");
    for (int i = 0; cli_commands[i]; i++)
        printf("%s ", cli_commands[i]->name);
    printf("--help --version\" -- \"$word\"))\n        return\n    fi\n    case ${COMP_WORDS[1]} in\n");
    for (int i = 0; cli_commands[i]; i++) {
        printf("        %s) any=%s options='", cli_commands[i]->name,
               takes_files(cli_commands[i]) ? "files" : "models");
        print_options(cli_commands[i], NULL);
        printf("--help' files='");
        print_options(cli_commands[i], takes_file);
        printf("-o' texts='");
        print_options(cli_commands[i], takes_text);
        printf("' ;;\n");
    }
    printf("    esac\n"
           "    case \" $texts \" in *\" $before \"*) return ;; esac\n"
           "    case \" $files \" in *\" $before \"*) COMPREPLY=($(compgen -f -- \"$word\")); return ;; esac\n"
           "    case $word in\n"
           "        -*) COMPREPLY=($(compgen -W \"$options\" -- \"$word\")) ;;\n"
           "        *) if [ \"$any\" = models ]; then COMPREPLY=($(_gluon_models \"$word\"));\n"
           "           else COMPREPLY=($(compgen -f -- \"$word\")); fi ;;\n"
           "    esac\n"
           "}\n"
           "complete -o filenames -F _gluon gluon\n");
}

/* ---- zsh ----------------------------------------------------------------------------------------------------- */

static void zsh_command(const cli_command *command)
{
    printf("        %s) _arguments ", command->name);
    for (const cli_option *o = command->options; o->name; o++) {
        printf("'*%s[", o->name);
        print_plain(o->help);
        printf("]%s%s' ", o->argument ? ":value:" : "", takes_file(o) ? "_files" : "");
    }
    printf("'--help[this text]' '*:%s' ;;\n", takes_files(command) ? "file:_files" : "model:_gluon_models");
}

static void zsh(void)
{
    printf("#compdef gluon\n"
           "# Completion of the gluon command for zsh, written by 'gluon completion zsh'.\n"
           "_gluon_models() {\n"
           "    local -a models\n"
           "    models=(*-symbol.json(N)); models=(${models%%-symbol.json})\n"
           "    compadd -a models\n"
           "    compadd ");
    print_networks(" ");
    printf("\n    _files -g '*-symbol.json'\n}\n"
           "_gluon() {\n"
           "    local -a commands\n"
           "    commands=(");
    for (int i = 0; cli_commands[i]; i++) {
        printf("'%s:", cli_commands[i]->name);
        print_plain(cli_commands[i]->help);
        printf("' ");
    }
    printf(")\n"
           "    if (( CURRENT == 2 )); then\n"
           "        _describe command commands\n"
           "        compadd -- --help --version\n"
           "        return\n"
           "    fi\n"
           "    local command=$words[2]\n"
           "    shift words; (( CURRENT-- ))\n"
           "    case $command in\n");
    for (int i = 0; cli_commands[i]; i++)
        zsh_command(cli_commands[i]);
    printf("    esac\n}\n"
           "if [ \"$funcstack[1]\" = _gluon ]; then _gluon \"$@\"; else compdef _gluon gluon; fi\n");
}

/* ---- fish ---------------------------------------------------------------------------------------------------- */

static void fish(void)
{
    printf("# Completion of the gluon command for fish, written by 'gluon completion fish'.\n"
           "function __gluon_models\n"
           "    for file in *-symbol.json; string replace -- '-symbol.json' '' $file; end\n"
           "    printf '%%s\\n' ");
    print_networks(" ");
    printf("\nend\ncomplete -c gluon -f\ncomplete -c gluon -n __fish_use_subcommand -l help\n"
           "complete -c gluon -n __fish_use_subcommand -l version\n");
    for (int i = 0; cli_commands[i]; i++) {
        const cli_command *command = cli_commands[i];
        printf("complete -c gluon -n __fish_use_subcommand -a %s -d '", command->name);
        print_plain(command->help);
        printf("'\n");
        if (takes_files(command))
            printf("complete -c gluon -n '__fish_seen_subcommand_from %s' -F\n", command->name);
        else
            printf("complete -c gluon -n '__fish_seen_subcommand_from %s' -a '(__gluon_models)'\n", command->name);
        for (const cli_option *o = command->options; o->name; o++) {
            printf("complete -c gluon -n '__fish_seen_subcommand_from %s' -l %s %s-d '", command->name, o->name + 2,
                   takes_file(o) ? "-r -F "
                   : o->argument ? "-x "
                                 : "");
            print_plain(o->help);
            printf("'\n");
        }
    }
}

/* -------------------------------------------------------------------------------------------------------------- */

static const struct {
    const char *name;
    void (*write)(void);
} shells[] = {{"bash", bash}, {"zsh", zsh}, {"fish", fish}};

static int run(const cli_args *args)
{
    for (size_t i = 0; i < sizeof shells / sizeof *shells; i++)
        if (!strcmp(shells[i].name, args->values[0]))
            return shells[i].write(), CLI_OK;
    return cli_usage(args, "there is no completion for '%s'; there is for bash, zsh and fish", args->values[0]);
}

static const cli_option options[] = {{NULL, NULL, NULL}};

const cli_command cli_completion = {"completion",
                                    "bash|zsh|fish",
                                    "Writes the completion of this command for a shell:\n"
                                    "source <(gluon completion bash), or the same for zsh; gluon completion fish | source.",
                                    1,
                                    1,
                                    options,
                                    run};
