/* What a caller knows of inputs, as far as it can be checked.  SPDX-License-Identifier: Apache-2.0 */
#ifndef MX_GRAPH_KNOWN_H
#define MX_GRAPH_KNOWN_H

#include "base/error.h"
#include "gluon/symbol.h"

/* An error if the list is not one: a negative number of entries, a name that is NULL.  known may be NULL. */
static inline mx_code mx_known_check(const struct mx_known *known, const char *function)
{
    if (known && known->count < 0)
        return mx_fail(MX_ERR_ARGUMENT, "%s: the number of known inputs is %d", function, known->count);
    for (int i = 0; known && known->names && i < known->count; i++)
        if (!known->names[i])
            return mx_fail(MX_ERR_ARGUMENT, "%s: the name of known input %d is NULL", function, i);
    return MX_OK;
}

#endif
