/* Conversion of a block to mixed precision (see gluon/deploy.h).
 *
 *     block --trace--> graph --mx_amp_convert--> graph with casts --> symbol block <--copies of the parameters
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "base/given.h"
#include "gluon/compile/trace.h"
#include "gluon/deploy.h"
#include "gluon/op.gen.h"
#include "graph/symbol.h"
#include "base/thread.h"

static bool contains(mx_names names, const char *name)
{
    for (int64_t i = 0; i < names.n; i++)
        if (!strcmp(names.v[i], name))
            return true;
    return false;
}

/* Variables without a value, separated by spaces. */
static void write_inputs(const mx_graph *graph, mx_text *text)
{
    for (int64_t i = 0; i < graph->n; i++) {
        const mx_gnode *node = graph->nodes[i];
        if (!node->op && !node->owner && !node->value)
            mx_text_print(text, "%s ", node->name);
    }
}

/* Sets a parameter of the new block to a value, with the type of that value. */
static mx_code copy_value(mx_block *made, const mx_gnode *node, mx_names narrow, mx_dtype target)
{
    MX_SCOPE;
    mx_parameter *p = mx_params_find(made->params, node->name);
    mx_array *value = p ? mx_variable_value(node) : MX_NONE;
    if (value == MX_NONE)
        return MX_OK;
    if (value && contains(narrow, node->name))
        value = mx_cast(value, .dtype = target);
    if (!value || (p->dtype != value->dtype && mx_parameter_cast(p, (mx_dtype)value->dtype)))
        return mx_error_code();
    return mx_parameter_load(p, value);
}

static mx_block *make_block(const mx_graph *graph, mx_symbol *converted, mx_dtype target, bool cast_params)
{
    mx_text inputs = {0};
    write_inputs(graph, &inputs);
    const char *text = mx_text_get(&inputs);
    mx_block *made = text ? mx_symbol_block(converted, text) : NULL;
    const mx_names narrow = cast_params ? mx_amp_cast_variables(converted, target) : (mx_names){NULL, 0};
    mx_code code = made && narrow.n >= 0 ? MX_OK : mx_error_code();
    for (int64_t i = 0; !code && i < graph->n; i++)
        if (!graph->nodes[i]->op)
            code = copy_value(made, graph->nodes[i], narrow, target);
    mx_text_free(&inputs);
    return code || mx_hybridize(made) ? NULL : made;
}

mx_block *mx_amp_convert_block(mx_block *block, mx_arrays examples, const struct mx_amp_convert_args *args,
                               bool cast_params)
{
    if (!mx_is_kind(block, &mx_block_kind, "mx_amp_convert_block", "block") ||
        !mx_given(args, "mx_amp_convert_block", "args"))
        return NULL;
    mx_graph graph = {0};
    struct mx_amp_convert_args how = *args;
    mx_thread.precision_settled++; /* no casts beyond those of the conversion */
    mx_symbol *symbol = mx_trace_arrays(block, examples);
    mx_thread.precision_settled--;
    how.symbol = symbol;
    mx_symbol *converted = symbol ? mx_amp_convert_make(&how) : NULL;
    mx_block *made = NULL;
    if (converted && !mx_graph_of(&graph, symbol->n, symbol->outputs))
        made = make_block(&graph, converted, args->target, cast_params);
    mx_graph_free(&graph);
    return made;
}
