/* Graphs: the nodes that some outputs need, in order (see node.h).
 *
 * The walk is depth first with an explicit stack; a node is emitted after all its inputs.  Visited nodes are
 * in a hash table beside the nodes, not marked in them, so that several threads can walk one graph at the same time.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/sort.h"
#include "base/vec.h"
#include "graph/node.h"

/* ---- node -> number -------------------------------------------------------------------------------------------- */

typedef struct place {
    const mx_gnode *node; /* NULL: free */
    int64_t number;       /* in the order; -1: on the stack */
} place;

typedef struct node_table {
    place *places; /* (size), size a power of two, at most half full */
    size_t size, used;
} node_table;

static place *find(const node_table *table, const mx_gnode *node)
{
    uint64_t hash = node->sequence * 0x9e3779b97f4a7c15u;
    for (size_t i = (size_t)(hash >> 20) & (table->size - 1);; i = (i + 1) & (table->size - 1))
        if (!table->places[i].node || table->places[i].node == node)
            return &table->places[i];
}

static bool grow(node_table *table)
{
    node_table larger = {NULL, table->size ? 4 * table->size : 256, table->used};
    larger.places = mx_alloc_zero(larger.size * sizeof(place));
    if (!larger.places)
        return false;
    for (size_t i = 0; i < table->size; i++)
        if (table->places[i].node)
            *find(&larger, table->places[i].node) = table->places[i];
    mx_free(table->places, table->size * sizeof(place));
    *table = larger;
    return true;
}

/* The place of a node, added if it is new (then *fresh); NULL: out of memory. */
static place *enter(node_table *table, const mx_gnode *node, bool *fresh)
{
    if (2 * (table->used + 1) > table->size && !grow(table))
        return NULL;
    place *p = find(table, node);
    *fresh = !p->node;
    if (*fresh) {
        *p = (place){node, -1};
        table->used++;
    }
    return p;
}

/* ---- the walk -------------------------------------------------------------------------------------------------- */

typedef struct step {
    mx_gnode *node;
    int next; /* next input to visit */
} step;

typedef struct walk {
    node_table table;
    MX_VEC(step) stack;
    MX_VEC(mx_gnode *) order;
} walk;

static bool visit(walk *w, mx_gnode *node)
{
    bool fresh;
    if (!enter(&w->table, node, &fresh))
        return false;
    return !fresh || mx_vec_push(&w->stack, ((step){node, 0}));
}

static bool walk_from(walk *w, mx_gnode *result)
{
    if (!visit(w, result))
        return false;
    while (w->stack.length) {
        step *top = &w->stack.items[w->stack.length - 1];
        if (top->next < top->node->n_in) {
            mx_gnode *input = top->node->in[top->next++].node;
            if (input && !visit(w, input))
                return false;
            continue;
        }
        find(&w->table, top->node)->number = w->order.length;
        if (!mx_vec_push(&w->order, top->node))
            return false;
        w->stack.length--;
    }
    return true;
}

static void free_walk(walk *w)
{
    mx_free(w->table.places, w->table.size * sizeof(place));
    mx_vec_free(&w->stack);
    mx_vec_free(&w->order);
}

/* ---- the graph ------------------------------------------------------------------------------------------------- */

static bool reserve(mx_graph *graph, const walk *w, int64_t n_results)
{
    int64_t inputs = 0;
    for (int64_t i = 0; i < w->order.length; i++)
        inputs += w->order.items[i]->n_in;
    const size_t n = (size_t)w->order.length;
    const size_t words = n + 2 * (n + 1) + (size_t)inputs + (size_t)n_results;
    graph->bytes = words * 8;
    int64_t *p = mx_alloc(graph->bytes);
    if (!p)
        return false;
    graph->n = w->order.length, graph->n_results = n_results;
    graph->nodes = (mx_gnode **)(void *)p, p += n;
    graph->row = p, p += n + 1;
    graph->in_row = p, p += n + 1;
    graph->in_entry = p, p += inputs;
    graph->results = p;
    return true;
}

static void fill(mx_graph *graph, const walk *w, const mx_gentry *results)
{
    graph->row[0] = graph->in_row[0] = 0;
    for (int64_t i = 0; i < graph->n; i++) {
        mx_gnode *node = mx_retain(w->order.items[i]);
        graph->nodes[i] = node;
        graph->row[i + 1] = graph->row[i] + node->n_out;
        graph->in_row[i + 1] = graph->in_row[i] + node->n_in;
        for (int k = 0; k < node->n_in; k++) {
            const mx_gentry *e = &node->in[k];
            graph->in_entry[graph->in_row[i] + k] =
                e->node ? graph->row[find(&w->table, e->node)->number] + (int64_t)e->output : -1;
        }
    }
    for (int64_t i = 0; i < graph->n_results; i++)
        graph->results[i] = graph->row[find(&w->table, results[i].node)->number] + (int64_t)results[i].output;
}

mx_code mx_graph_of(mx_graph *graph, int64_t n_results, const mx_gentry *results)
{
    walk w = {0};
    *graph = (mx_graph){0};
    bool ok = true;
    for (int64_t i = 0; ok && i < n_results; i++)
        ok = walk_from(&w, results[i].node);
    ok = ok && reserve(graph, &w, n_results);
    if (ok)
        fill(graph, &w, results);
    free_walk(&w);
    return ok ? MX_OK : mx_error_code();
}

void mx_graph_free(mx_graph *graph)
{
    for (int64_t i = graph->n - 1; i >= 0; i--)
        mx_release(graph->nodes[i]);
    mx_free(graph->nodes, graph->bytes);
    *graph = (mx_graph){0};
}

static int older(const void *a, const void *b, const void *graph)
{
    mx_gnode *const *nodes = ((const mx_graph *)graph)->nodes;
    const uint64_t x = nodes[*(const int64_t *)a]->sequence, y = nodes[*(const int64_t *)b]->sequence;
    return x < y ? -1 : x > y;
}

void mx_graph_by_creation(const mx_graph *graph, int64_t *order)
{
    for (int64_t i = 0; i < graph->n; i++)
        order[i] = i;
    mx_sort(order, graph->n, sizeof *order, older, graph);
}

int64_t mx_graph_node_of(const mx_graph *graph, int64_t entry)
{
    int64_t low = 0, high = graph->n; /* row[low] <= entry < row[high] */
    while (high - low > 1) {
        const int64_t middle = low + (high - low) / 2;
        if (graph->row[middle] <= entry)
            low = middle;
        else
            high = middle;
    }
    return low;
}

void mx_graph_auxiliary(const mx_graph *graph, bool *is_aux)
{
    memset(is_aux, 0, (size_t)graph->n * sizeof *is_aux);
    for (int64_t i = 0; i < graph->n; i++)
        for (int k = 0; k < graph->nodes[i]->n_in; k++) {
            const int64_t entry = graph->in_entry[graph->in_row[i] + k];
            if (entry < 0 || !mx_gnode_mutates(graph->nodes[i], k))
                continue;
            const int64_t made_by = mx_graph_node_of(graph, entry);
            is_aux[made_by] |= mx_gnode_is_variable(graph->nodes[made_by]);
        }
}
