/* The end of a process whose invariants are broken (see assert.h).  SPDX-License-Identifier: Apache-2.0 */
#include "base/assert.h"

#if MX_CHECKED
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

void mx_assert_failed(const char *file, int line, const char *condition, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    fprintf(stderr, "%s:%d: broken invariant: ", file, line);
    vfprintf(stderr, format, arguments);
    fprintf(stderr, " (%s)\n", condition);
    va_end(arguments);
    abort();
}
#endif
