/* Calls of the gluon command with generated arguments: every subcommand, its options with values of any kind, files of other kinds.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TESTS_GARBAGE_COMMAND_H
#define TESTS_GARBAGE_COMMAND_H

#include "garbage.h"

int garbage_command_count(void);
/* Writes the command line of a call of subcommand `number` as words, ended by NULL, and as text. */
void garbage_command_make(garbage_dice *d, int number, char *words[], char *text, size_t size);
#define GARBAGE_WORDS 40
/* Runs it in this process, without output; the exit status. */
int garbage_command_run(char **words);

#endif
