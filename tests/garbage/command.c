/* Making command lines from the tables of options (see command.h).  SPDX-License-Identifier: Apache-2.0 */
#include "command.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli.h"

#define COUNT(list) (sizeof(list) / sizeof *(list))
#define PICK(d, list) (list)[garbage_roll(d, COUNT(list))]

int cli_main(int argc, char **argv); /* main() of cli/main.c */

int garbage_command_count(void)
{
    int n = 0;
    while (cli_commands[n])
        n++;
    return n;
}

static const char *value(garbage_dice *d)
{
    static const char *const values[] = {
        "0", "1", "2", "3", "-1", "64", "2147483648", "99999999999999999999", "-9223372036854775808", "0.5", "1e300", "nan", "x", "",
        "1,2", "2,3", "data=2,3", "data=", "=", "1,2,3,4,5,6,7,8,9", "0,0,0", "0.5,0.5,0.5", "a.png", "a.npy", "data=a.npy",
        "a.params", "a.rec", "a.idx", "a.lst", "a-symbol.json", "net", "net-symbol.json", "net-0000.params", "net.onnx", "missing",
        "missing/out", ".", "/dev/null", "out.npy", "out.params", "out.npz", "out.c", "out.svg", "out.dot", "out.onnx", "bash", "zsh",
        "fish", ".png", ".jpg", "mpirun", "localhost:2,x:y", "%n%s%s", "\xff\xfe", "--", "--help", "resnet18_v1", "mlp", "-"};
    return PICK(d, values);
}

static const char *model(garbage_dice *d)
{
    static const char *const models[] = {"net",   "net-symbol.json", "a-symbol.json", "a.params",
                                         "a.npy", "net.onnx",        "a.png",         "missing"};
    return garbage_roll(d, 100) < 70 ? PICK(d, models) : value(d);
}

/* Measuring for long and starting other programs are what these are for. */
static const char *argument(garbage_dice *d, const cli_option *option)
{
    static const char *const seconds[] = {"0", "-1", "x", "", "1.5", "99999999999999999999"};
    return !strcmp(option->name, "--seconds") ? PICK(d, seconds) : value(d);
}

static int add_options(garbage_dice *d, const cli_command *command, char *words[], int n)
{
    int known = 0;
    while (command->options && command->options[known].name)
        known++;
    for (int i = (int)garbage_roll(d, 6); known && i > 0; i--) {
        const cli_option *option = &command->options[garbage_roll(d, (uint64_t)known)];
        words[n++] = (char *)option->name;
        if (option->argument && garbage_roll(d, 100) < 95)
            words[n++] = (char *)argument(d, option);
    }
    if (garbage_roll(d, 100) < 10)
        words[n++] = (char *)(garbage_roll(d, 2) ? "--bogus" : "-z");
    return n;
}

void garbage_command_make(garbage_dice *d, int number, char *words[], char *text, size_t size)
{
    const cli_command *command = cli_commands[number];
    int n = 0;
    words[n++] = (char *)"gluon";
    words[n++] = (char *)command->name;
    if (command->most == CLI_REST)
        words[n++] = (char *)"--show";
    if (!strcmp(command->name, "bench"))
        words[n++] = (char *)"--seconds", words[n++] = (char *)"0";
    const int more = garbage_roll(d, 100) < 80 ? 0 : (int)garbage_roll(d, 3) - 1;
    for (int i = command->least + more; i > 0; i--)
        words[n++] = (char *)model(d);
    n = add_options(d, command, words, n);
    if (command->most == CLI_REST)
        words[n++] = (char *)"--", words[n++] = (char *)"true";
    words[n] = NULL;
    size_t used = 0;
    for (int i = 0; i < n && used < size; i++)
        used += (size_t)snprintf(text + used, size - used, "%s'%s'", i ? " " : "", words[i]);
}

int garbage_command_run(char **words)
{
    int count = 0, nowhere = open("/dev/null", O_RDWR);
    while (words[count])
        count++;
    for (int i = 0; nowhere >= 0 && i < 3; i++)
        if (i < 2 || !getenv("GARBAGE_SHOW"))
            dup2(nowhere, i);
    return cli_main(count, words);
}
