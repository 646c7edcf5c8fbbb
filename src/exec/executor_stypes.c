/* Storage of the gradients that simple_bind makes: row_sparse where every use of a variable gives rows of it.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "exec/executor.h"
#include "gluon/op.gen.h"
#include "graph/node.h"

static bool is_csr(const mx_gnode *node)
{
    const char *noted = node->op ? NULL : mx_note_get(node, "__storage_type__");
    return noted && !strcmp(noted, "2");
}

/* Whether the gradient of input number i of the node holds only the rows that were used. */
static bool gives_rows(const mx_gnode *node, int i)
{
    if (i != 1 || !node->attrs)
        return false;
    if (node->op->sparse == MX_SPARSE_EMBEDDING)
        return ((const mx_embedding_attrs *)node->attrs)->sparse_grad;
    const mx_dot_attrs *dot = node->attrs;
    return node->op->sparse == MX_SPARSE_DOT && is_csr(node->in[0].node) && !dot->transpose_a && !dot->transpose_b;
}

mx_stype mx_gradient_stype(const mx_symbol *symbol, const char *name)
{
    mx_graph graph = {0};
    int64_t uses = 0, rows = 0;
    if (!mx_symbol_ok(symbol, "mx_gradient_stype") || mx_graph_of(&graph, symbol->n, symbol->outputs))
        return MX_STYPE_DEFAULT;
    for (int64_t k = 0; k < graph.n; k++)
        for (int i = 0; i < graph.nodes[k]->n_in; i++) {
            const mx_gnode *from = graph.nodes[k]->in[i].node;
            if (from->op || strcmp(from->name, name))
                continue;
            uses++;
            rows += gives_rows(graph.nodes[k], i);
        }
    mx_graph_free(&graph);
    return (uses && rows == uses) || mx_symbol_stype(symbol, name) == MX_ROW_SPARSE ? MX_ROW_SPARSE : MX_STYPE_DEFAULT;
}
