/* Pointers that must be given: structs of options, places for results.  SPDX-License-Identifier: Apache-2.0 */
#ifndef MX_BASE_GIVEN_H
#define MX_BASE_GIVEN_H

#include "base/error.h"

/* False with an error that names function and argument if the pointer is NULL. */
static inline bool mx_given(const void *pointer, const char *function, const char *argument)
{
    if (!pointer)
        mx_fail(MX_ERR_ARGUMENT, "%s: %s is NULL", function, argument);
    return pointer != NULL;
}

#endif
