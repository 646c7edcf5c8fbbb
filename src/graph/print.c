/* Symbols as readable text: a short name, every node, a drawing.  SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "base/error.h"
#include "graph/attrs.h"
#include "graph/symbol.h"

const char *mx_symbol_text(const mx_symbol *symbol)
{
    if (!mx_symbol_ok(symbol, "mx_symbol_text"))
        return NULL;
    mx_text text = {0};
    const char *name = mx_symbol_name(symbol);
    if (name) {
        mx_text_print(&text, "<Symbol %s>", name);
        return mx_text_to_scope(&text);
    }
    mx_text_add(&text, "<Symbol group [");
    for (int64_t i = 0; i < symbol->n; i++)
        mx_text_print(&text, "%s%s", i ? ", " : "", symbol->outputs[i].node->name);
    mx_text_add(&text, "]>");
    return mx_text_to_scope(&text);
}

/* ---- every node ------------------------------------------------------------------------------------------------ */

static void print_attrs(mx_text *text, const mx_gnode *node)
{
    mx_attr_list attrs = {0};
    const bool ok = mx_node_attrs(node, &attrs);
    if (ok && attrs.length)
        mx_text_add(text, "Attrs:\n");
    for (int64_t i = 0; ok && i < attrs.length; i++)
        mx_text_print(text, "\t%s=%s\n", attrs.items[i].key, attrs.items[i].text);
    text->failed |= !ok;
    mx_node_attrs_free(&attrs);
}

static void print_node(mx_text *text, const mx_gnode *node)
{
    if (!node->op) {
        mx_text_print(text, "Variable:%s\n", node->name);
        return;
    }
    mx_text_print(text, "--------------------\nOp:%s, Name=%s\nInputs:\n", node->op->name, node->name);
    for (int k = 0; k < node->n_in; k++) {
        const mx_gnode *from = node->in[k].node;
        if (!from)
            continue;
        mx_text_print(text, "\targ[%d]=%s(%u)", k, from->name, node->in[k].output);
        mx_text_add(text, from->op ? "\n" : mx_gnode_mutates(node, k) ? " version=1\n" : " version=0\n");
    }
    print_attrs(text, node);
}

const char *mx_symbol_debug(const mx_symbol *symbol)
{
    mx_graph graph = {0};
    if (!mx_symbol_ok(symbol, "mx_symbol_debug") || mx_graph_of(&graph, symbol->n, symbol->outputs))
        return NULL;
    mx_text text = {0};
    const bool variable = symbol->n == 1 && !symbol->outputs[0].node->op;
    if (!variable)
        mx_text_add(&text, "Symbol Outputs:\n");
    for (int64_t i = 0; i < symbol->n && !variable; i++)
        mx_text_print(&text, "\toutput[%lld]=%s(%u)\n", (long long)i, symbol->outputs[i].node->name,
                      symbol->outputs[i].output);
    for (int64_t i = 0; i < graph.n; i++)
        print_node(&text, graph.nodes[i]);
    mx_graph_free(&graph);
    if (!text.failed)
        return mx_text_to_scope(&text);
    mx_text_free(&text);
    return NULL;
}
