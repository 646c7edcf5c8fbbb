/* The symbol of a predictor, and where the values of its variables come from.
 *
 * Every variable needs a value: it is an input that the caller names, a parameter of the file, or the label of a loss (an
 * input called label of every node that uses it), which predictions do not read: labels are zeros.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "base/alloc.h"
#include "base/text.h"
#include "gluon/predict/predict.h"

static mx_symbol *pick_output(mx_symbol *all, const mx_predict_request *r, const char *name)
{
    if (!name)
        return mx_fail_null(MX_ERR_ARGUMENT, "%s: an output name is NULL", r->who);
    mx_text with_suffix = {0};
    mx_text_print(&with_suffix, "%s_output", name);
    const char *longer = mx_text_to_scope(&with_suffix);
    const mx_names names = mx_symbol_outputs(all);
    for (int64_t i = 0; longer && i < names.n; i++)
        if (!strcmp(names.v[i], longer) || !strcmp(names.v[i], name))
            return mx_symbol_output(all, i);
    return mx_fail_null(MX_ERR_ARGUMENT, "%s: the symbol has no node named '%s'", r->who, name);
}

mx_symbol *mx_predict_read_symbol(const mx_predict_request *r)
{
    mx_symbol *symbol = mx_symbol_from_json(r->json, strlen(r->json));
    mx_symbol *all = symbol && r->n_outputs ? mx_symbol_internals(symbol) : NULL;
    if (!symbol || !r->n_outputs)
        return symbol;
    const size_t bytes = r->n_outputs * sizeof(mx_symbol *);
    mx_symbol **picked = all ? mx_alloc(bytes) : NULL;
    bool fine = picked != NULL;
    for (uint32_t i = 0; fine && i < r->n_outputs; i++)
        fine = (picked[i] = pick_output(all, r, r->output_names[i])) != NULL;
    symbol = fine ? mx_symbol_group(picked, (int)r->n_outputs) : NULL;
    mx_free(picked, bytes);
    return symbol;
}

mx_array *mx_predict_value(const mx_array_dict *file, const char *name)
{
    static const char *const tags[] = {"arg:", "aux:", ""};
    for (int i = 0; i < 3; i++) {
        mx_text text = {0};
        mx_text_print(&text, "%s%s", tags[i], name);
        const char *key = mx_text_to_scope(&text);
        mx_array *value = key ? mx_array_dict_get(file, key) : NULL;
        if (value)
            return value;
    }
    return NULL;
}

/* Every use of the variable is an input that the operator calls a label. */
static bool is_label(const mx_graph *g, int64_t variable)
{
    bool used = false;
    for (int64_t i = 0; i < g->n; i++)
        for (int k = 0; k < g->nodes[i]->n_in; k++) {
            char buffer[64];
            if (g->nodes[i]->in[k].node != g->nodes[variable])
                continue;
            used = true;
            if (strcmp(mx_op_input_name(g->nodes[i]->op, k, buffer), "label"))
                return false;
        }
    return used;
}

mx_code mx_predict_check_names(const mx_predict_request *r, const mx_symbol *symbol)
{
    const mx_names names = mx_symbol_inputs(symbol);
    for (uint32_t i = 0; i < r->inputs.n; i++) {
        bool found = false;
        for (int64_t k = 0; k < names.n; k++)
            found |= !strcmp(names.v[k], r->inputs.names[i]);
        if (!found)
            return mx_fail(MX_ERR_ARGUMENT, "%s: the symbol has no input named '%s'; its first one is '%s'", r->who,
                           r->inputs.names[i], names.n > 0 ? names.v[0] : "none");
    }
    return MX_OK;
}

mx_code mx_predict_find_labels(const mx_predict_request *r, const mx_array_dict *file, mx_predictor *p)
{
    mx_graph g = {0};
    mx_code code = mx_graph_of(&g, p->symbol->n, p->symbol->outputs);
    for (int64_t i = 0; !code && i < g.n; i++) {
        const mx_gnode *node = g.nodes[i];
        if (node->op || node->value || mx_dict_find(&p->inputs, node->name) || mx_predict_value(file, node->name))
            continue;
        if (!is_label(&g, i))
            code = mx_fail(MX_ERR_PARAMETER, "%s: '%s' has no value: it is neither an input nor in the parameters",
                           r->who, node->name);
        else if (!mx_dict_set(&p->inputs, node->name, NULL))
            code = mx_error_code();
    }
    mx_graph_free(&g);
    return code;
}
