/* Exporting a block: its graph and its parameters as two files that classic MXNet reads.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "base/alloc.h"
#include "exec/list.h"
#include "gluon/block/core.h"
#include "gluon/deploy.h"
#include "gluon/compile/trace.h"
#include "graph/symbol.h"

/* ---- parameters ------------------------------------------------------------------------------------------------ */

typedef struct table {
    MX_VEC(char *) names;      /* owned: "arg:..." and "aux:..." */
    MX_VEC(mx_array *) arrays; /* owned by the scope */
} table;

static void free_table(table *t)
{
    for (int64_t i = 0; i < t->names.length; i++)
        mx_strfree(t->names.items[i]);
    mx_vec_free(&t->names);
    mx_vec_free(&t->arrays);
}

mx_array *mx_variable_value(const mx_gnode *node)
{
    mx_parameter *p = node->owner;
    if (node->value)
        return node->value;
    if (!p)
        return MX_NONE;
    mx_array *data = mx_parameter_data(p, p->count ? p->contexts[0] : (mx_context){0});
    return data ? mx_array_to(data, mx_cpu(0)) : NULL;
}

static mx_code add(table *t, const mx_gnode *node, bool aux)
{
    mx_array *value = mx_variable_value(node);
    if (value == MX_NONE) /* data inputs are not stored */
        return MX_OK;
    if (!value)
        return mx_error_code();
    mx_text text = {0};
    mx_text_print(&text, "%s:%s", aux ? "aux" : "arg", node->name);
    char *name = mx_text_take(&text);
    if (!name || !mx_vec_push(&t->names, name))
        return mx_strfree(name), mx_error_code();
    return mx_vec_push(&t->arrays, value) ? MX_OK : mx_error_code();
}

static mx_code save_values(const mx_symbol *symbol, const char *path)
{
    MX_SCOPE;
    mx_graph graph = {0};
    table t = {0};
    if (mx_graph_of(&graph, symbol->n, symbol->outputs))
        return mx_error_code();
    bool *is_aux = mx_alloc((size_t)graph.n);
    mx_code code = is_aux ? MX_OK : MX_ERR_MEMORY;
    if (!code)
        mx_graph_auxiliary(&graph, is_aux);
    for (int64_t i = 0; !code && i < graph.n; i++)
        if (!graph.nodes[i]->op)
            code = add(&t, graph.nodes[i], is_aux[i]);
    if (!code)
        code = mx_save(path, (mx_arrays){t.arrays.items, t.arrays.length}, (const char *const *)(void *)t.names.items);
    free_table(&t);
    mx_free(is_aux, (size_t)graph.n);
    mx_graph_free(&graph);
    return code;
}

/* ---- both files ------------------------------------------------------------------------------------------------ */

static mx_code save_both(const mx_symbol *symbol, const char *path, int epoch)
{
    mx_text graph = {0}, values = {0};
    mx_text_print(&graph, "%s-symbol.json", path);
    mx_text_print(&values, "%s-%04d.params", path, epoch);
    mx_code code = mx_text_get(&graph) && mx_text_get(&values) ? MX_OK : mx_error_code();
    code = code ? code : save_values(symbol, mx_text_get(&values));
    code = code ? code : mx_symbol_save(symbol, mx_text_get(&graph));
    mx_text_free(&graph);
    mx_text_free(&values);
    return code;
}

mx_code mx_export_like(mx_block *block, const char *path, int epoch, mx_arrays examples)
{
    MX_SCOPE;
    if (!mx_is_kind(block, &mx_block_kind, "mx_export", "block"))
        return mx_error_code();
    if (!path || epoch < 0)
        return mx_fail(MX_ERR_ARGUMENT, "mx_export: %s", path ? "epoch is negative" : "path is NULL");
    mx_symbol *symbol = mx_trace_arrays(block, examples);
    return symbol ? save_both(symbol, path, epoch) : mx_error_code();
}

mx_code mx_export(mx_block *block, const char *path, int epoch)
{
    MX_SCOPE;
    if (!mx_is_kind(block, &mx_block_kind, "mx_export", "block"))
        return mx_error_code();
    const int n = block->seen_inputs ? block->seen_inputs : 1;
    mx_array **inputs = mx_list_new(n);
    for (int i = 0; inputs && i < n; i++)
        if (!(inputs[i] = mx_scope_add(mx_array_abstract(&MX_UNKNOWN_SHAPE, MX_FLOAT32, (mx_context){0}))))
            return mx_error_code();
    for (int i = 0; inputs && i < n; i++)
        inputs[i]->dtype = MX_DTYPE_NONE;
    return inputs ? mx_export_like(block, path, epoch, (mx_arrays){inputs, n}) : mx_error_code();
}
