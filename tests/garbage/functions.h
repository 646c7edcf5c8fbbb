/* Calls of every public C function with generated arguments (functions.py writes them; arguments.h makes the arguments).
 *
 * Objects are good ones in every state, NULL, of another kind, or memory that holds no object; numbers are out of range, texts are
 * of other kinds.  Whatever comes: no signal, no hang, no leak; an object of another kind is an error.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TESTS_GARBAGE_FUNCTIONS_H
#define TESTS_GARBAGE_FUNCTIONS_H

#include "garbage.h"

typedef struct garbage_function {
    const char *name;
    void (*call)(garbage_dice *d);
} garbage_function;
extern const garbage_function garbage_functions[]; /* ends with name NULL */

/* One call; returns what is wrong, or NULL.  The text lives until the next call. */
const char *garbage_function_run(const garbage_function *f, garbage_dice *d);
/* Makes the files that texts name, in a new folder that becomes the current one; removes it. */
bool garbage_folder_enter(void);
void garbage_folder_leave(void);

#endif
