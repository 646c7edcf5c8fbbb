/* Calling operators with attributes as text: for language bindings and file readers.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "exec/call.h"
#include "exec/list.h"

/* Names such as __ctx_group__ belong to graphs, not to operators. */
static bool is_graph_note(const char *name) { return !strncmp(name, "__", 2); }

static mx_code set_attribute(const mx_op *op, void *attrs, const char *name, const char *value)
{
    if (!name || !value)
        return mx_op_fail(op, MX_ERR_ARGUMENT, "%s of an attribute is NULL", name ? "the value" : "the name");
    if (is_graph_note(name))
        return MX_OK;
    if (!op->schema)
        return mx_op_fail(op, MX_ERR_ATTRIBUTE, "has no attribute '%s': it has none at all", name);
    return mx_schema_set(op->schema, attrs, op->name, name, value);
}

mx_arrays mx_invoke_text(mx_op *op, mx_arrays in, int n_attrs, const char *const *names, const char *const *values,
                         mx_arrays out)
{
    if (!op || n_attrs < 0 || (n_attrs && (!names || !values)))
        return mx_fail(MX_ERR_ARGUMENT, "mx_invoke_text: %s",
                       !op           ? "op is NULL"
                       : n_attrs < 0 ? "n_attrs is negative"
                                     : "names or values is NULL"),
               mx_list_failed();
    if (mx_list_check_inputs(&in, op->name, "the list of inputs"))
        return mx_list_failed();
    if (in.n > INT32_MAX)
        return mx_op_fail(op, MX_ERR_ARGUMENT, "got %lld inputs", (long long)in.n), mx_list_failed();
    const size_t bytes = op->schema ? op->schema->size : 0;
    void *attrs = mx_alloc(bytes);
    if (!attrs)
        return mx_list_failed();
    if (bytes)
        memcpy(attrs, op->defaults, bytes);
    mx_code code = MX_OK;
    for (int i = 0; !code && i < n_attrs; i++)
        code = set_attribute(op, attrs, names[i], values[i]);
    mx_arrays result = code ? mx_list_failed() : mx_call_many(op, bytes ? attrs : NULL, (int)in.n, in.v, out);
    mx_free(attrs, bytes);
    return result;
}
