/* Names of NumPy's functions in MXNet's files (see np_names.h).  SPDX-License-Identifier: Apache-2.0 */
#include "graph/np_names.h"

#include <stdio.h>
#include <string.h>

#include "base/error.h"

static mx_op *find(const char *place, const char *name)
{
    char full[128];
    snprintf(full, sizeof full, "%s.%s", place, name);
    for (int i = 0; mx_op_at(i); i++)
        if (mx_op_expands(mx_op_at(i)) && !strcmp(mx_op_at(i)->name, full))
            return mx_op_at(i);
    return NULL;
}

mx_op *mx_np_of_file(const char *name, mx_np_number *number)
{
    char base[128];
    static const char ending[] = "_scalar";
    *number = MX_NP_NO_NUMBER;
    if (!strncmp(name, "_npx_", 5))
        return find("npx", name + 5);
    if (strncmp(name, "_npi_", 5) && strncmp(name, "_np_", 4))
        return NULL;
    for (int i = 0; mx_op_at(i); i++) /* an operator of the library under that name */
        if (!strcmp(mx_op_at(i)->name, name))
            return NULL;
    snprintf(base, sizeof base, "%s", name + (name[3] == 'i' ? 5 : 4));
    const size_t length = strlen(base), end = strlen(ending);
    if (length <= end || strcmp(base + length - end, ending)) {
        mx_op *op = find("np", base);
        return op ? op : find("np.linalg", base);
    }
    base[length - end] = 0;
    mx_op *op = find("np", base);
    *number = op ? MX_NP_SECOND : MX_NP_FIRST;
    return op ? op : base[0] == 'r' ? find("np", base + 1) : NULL;
}
