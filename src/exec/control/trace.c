/* Loops and conditions on symbols: the caller's functions run once, on variables; the nodes that they create are cut out of the
 * graph as subgraphs of one node (see graph/subgraph.h).
 *
 * Nodes created meanwhile note the subgraph's name (__subgraph_name__), and variables are named after the values that
 * they represent ("data-0": output 0 of data), as in classic files.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "exec/control/trace.h"
#include "exec/list.h"
#include "exec/control/region.h"
#include "exec/tape.h"
#include "gluon/symbol.h"
#include "graph/call.h"
#include "graph/names.h"

/* ---- names ------------------------------------------------------------------------------------------------------- */

const char *mx_control_name(const char *name)
{
    const char *waiting = mx_thread.names.next_control;
    mx_thread.names.next_control = name;
    return waiting;
}

static void name_subgraph(mx_traced *t, const char *name, const char *part)
{
    static _Atomic int64_t count;
    snprintf(t->name, sizeof t->name, "%.60s%s%lld", name, part, (long long)atomic_fetch_add(&count, 1));
}

/* "data-0"; a name that is taken gets another number. */
static mx_code name_variable(const mx_traced *t, int i, const mx_gentry *entry, mx_text *text)
{
    mx_text_print(text, "%s-%u", entry->node->name, entry->output);
    const size_t length = text->length;
    int again = 0;
    for (int k = 0; k < i && mx_text_get(text); k++)
        if (!strcmp(t->given[k]->name, mx_text_get(text))) {
            text->length = length;
            mx_text_print(text, "-%d", ++again);
            k = -1;
        }
    return mx_text_get(text) ? MX_OK : mx_error_code();
}

/* ---- the caller's function --------------------------------------------------------------------------------------- */

mx_code mx_traced_variable(mx_traced *t, int i, const mx_gentry *entry, const mx_shape_t *shape, const mx_array *x)
{
    mx_text name = {0};
    mx_code code = name_variable(t, i, entry, &name);
    t->given[i] = code ? NULL : mx_gnode_variable(mx_text_get(&name), shape, x->dtype);
    mx_text_free(&name);
    if (!t->given[i])
        return mx_error_code();
    t->n = i + 1;
    t->given[i]->context = x->context;
    if (mx_notes_apply(t->given[i]))
        return mx_error_code();
    t->symbolic[i] = mx_scope_add(mx_array_symbolic(t->given[i], 0));
    return t->symbolic[i] ? MX_OK : mx_error_code();
}

void mx_traced_leave(const mx_traced *t)
{
    mx_thread.draws = t->draws;
    mx_thread.modes.unroll = t->unroll;
    mx_symbol_attrs_leave();
}

mx_code mx_traced_open(mx_traced *t, int64_t n, const char *name, const char *part)
{
    const char *keys[1] = {"__subgraph_name__"}, *values[1];
    name_subgraph(t, name, part);
    values[0] = t->name;
    if (mx_symbol_attrs_enter(1, keys, values))
        return mx_error_code();
    t->draws = mx_thread.draws;
    mx_thread.draws = NULL;
    t->unroll = mx_thread.modes.unroll;
    mx_thread.modes.unroll = 0;
    mx_gnode *mark = mx_gnode_variable("mark", NULL, MX_DTYPE_NONE);
    t->cutting.mark = mark ? mark->sequence : 0;
    mx_release(mark);
    t->given = (mx_gnode **)(void *)mx_list_new(n);
    t->symbolic = mx_list_new(n);
    if (mark && t->given && t->symbolic)
        return MX_OK;
    mx_traced_leave(t);
    return MX_ERR_MEMORY;
}

mx_code mx_traced_results(mx_traced *t, mx_arrays *results, const char *what)
{
    if (mx_list_check(results, t->who, what))
        return mx_error_code();
    for (int64_t i = 0; i < results->n; i++) {
        mx_gentry entry;
        if (mx_entry_for(results->v[i], &entry))
            return mx_error_code();
        if (!mx_vec_push(&t->results, entry))
            return mx_release(entry.node), MX_ERR_MEMORY;
    }
    return MX_OK;
}

mx_code mx_traced_cut(mx_traced *t)
{
    t->cutting.n_placeholders = t->n, t->cutting.placeholders = t->given;
    t->cutting.n_results = t->results.length, t->cutting.results = t->results.items;
    return mx_cut(&t->cutting);
}

void mx_traced_close(mx_traced *t)
{
    mx_cutting_free(&t->cutting);
    for (int i = 0; i < t->n; i++)
        mx_release(t->given[i]);
    for (int64_t i = 0; i < t->results.length; i++)
        mx_release(t->results.items[i].node);
    mx_vec_free(&t->results);
}

mx_code mx_traced_failed(const mx_traced *t, mx_code code)
{
    return code && !mx_has_error() ? mx_fail(code == MX_ERR_MEMORY ? code : MX_ERR_CALLBACK, "%s: it failed", t->who)
                                   : code;
}

/* ---- the node ---------------------------------------------------------------------------------------------------- */

mx_code mx_building_input(mx_building *b, const mx_gentry *entry)
{
    if (!mx_vec_push(&b->in, *entry))
        return MX_ERR_MEMORY;
    mx_retain(entry->node);
    return MX_OK;
}

mx_code mx_entries_add(mx_entries *to, mx_arrays list)
{
    for (int64_t i = 0; i < list.n; i++) {
        mx_gentry entry;
        if (mx_entry_for(list.v[i], &entry))
            return mx_error_code();
        if (!mx_vec_push(to, entry))
            return mx_release(entry.node), MX_ERR_MEMORY;
    }
    return MX_OK;
}

static bool is_variable(const mx_building *b, int64_t input)
{
    for (int64_t i = 0; i < b->given.length; i++)
        if (b->number[i] == input)
            return true;
    return false;
}

mx_code mx_building_input_for(mx_building *b, const mx_gentry *entry, int *number)
{
    for (int64_t i = 0; i < b->in.length && !entry->node->op; i++)
        if (b->in.items[i].node == entry->node && !is_variable(b, i)) {
            *number = (int)i;
            return MX_OK;
        }
    *number = (int)b->in.length;
    return mx_building_input(b, entry);
}

mx_code mx_building_variable(mx_building *b, int i, int *number)
{
    if (b->number[i] < 0) {
        b->number[i] = (int)b->in.length;
        if (mx_building_input(b, &b->given.items[i]))
            return MX_ERR_MEMORY;
    }
    *number = b->number[i];
    return MX_OK;
}

void mx_building_loc(mx_building *b, int list, int number)
{
    mx_text_print(&b->locs[list], "%s%d", b->n_locs[list]++ ? ", " : "", number);
}

const char *mx_building_locs(mx_building *b, int list)
{
    mx_text text = {0};
    mx_text_print(&text, "[%s]", b->n_locs[list] ? mx_text_get(&b->locs[list]) : "");
    const char *lasting = mx_text_get(&text) ? mx_intern(mx_text_get(&text)) : NULL;
    mx_text_free(&text);
    return lasting;
}

static bool draws(const mx_control *control)
{
    for (int i = 0; i < control->n_parts; i++)
        for (int64_t k = 0; k < control->parts[i].graph.n; k++) {
            const mx_op *op = control->parts[i].graph.nodes[k]->op;
            if (op && op->flags & MX_OP_RANDOM)
                return true;
        }
    return false;
}

/* Notes of the scopes; a node that draws random numbers is added to the list of such nodes. */
static mx_code announce(mx_gnode *node)
{
    if (mx_notes_apply(node))
        return mx_error_code();
    if (!mx_thread.draws || !draws(mx_control_of(node->op, node->attrs)))
        return MX_OK;
    if (!mx_vec_push(mx_thread.draws, (void *)node))
        return MX_ERR_MEMORY;
    mx_retain(node);
    return MX_OK;
}

mx_gnode *mx_building_node(mx_building *b, mx_op *op, void *attrs, void **callee)
{
    mx_control *control = mx_control_new(op, attrs, op->name, (int)b->in.length, b->n_parts, b->parts);
    if (!control)
        return NULL;
    *callee = control;
    char *name = mx_names_make(NULL, op->name);
    struct mx_gnode_args args = {op, attrs, NULL, name, (int)b->in.length, b->in.items};
    mx_gnode *node = name ? mx_gnode_make(&args) : NULL;
    mx_strfree(name);
    mx_release(control);
    return node;
}

/* Symbolic arrays of the node's inputs, for the scope. */
static mx_array **inputs_of(const mx_gnode *node)
{
    mx_array **in = mx_list_new(node->n_in);
    for (int i = 0; in && i < node->n_in; i++)
        if (!(in[i] = mx_scope_add(mx_array_symbolic(node->in[i].node, node->in[i].output))))
            return NULL;
    return in;
}

mx_array **mx_node_outputs(mx_gnode *node)
{
    mx_array **out = mx_list_new(node->n_visible), **in = inputs_of(node);
    if (!out || !in)
        return NULL;
    if (mx_control_unrolls(node->op, node->attrs, in))
        return mx_region_call(node->op, node->attrs, node->n_in, in, node->n_visible, out) ? NULL : out;
    if (announce(node))
        return NULL;
    for (int i = 0; i < node->n_visible; i++)
        if (!(out[i] = mx_scope_add(mx_array_symbolic(node, (uint32_t)i))))
            return NULL;
    return out;
}

mx_loop mx_node_loop(mx_gnode *node, int64_t n_out_data, int64_t n_states)
{
    mx_array **out = node ? mx_node_outputs(node) : NULL;
    mx_release(node);
    return out ? (mx_loop){{out, n_out_data}, {out + n_out_data, n_states}, false} : mx_loop_failed();
}

void mx_building_close(mx_building *b)
{
    for (int64_t i = 0; i < b->in.length; i++)
        mx_release(b->in.items[i].node);
    for (int64_t i = 0; i < b->given.length; i++)
        mx_release(b->given.items[i].node);
    mx_vec_free(&b->in);
    mx_vec_free(&b->given);
    for (int i = 0; i < 3; i++)
        mx_text_free(&b->locs[i]);
}

const char *mx_control_name_or(const char *usual)
{
    const char *name = mx_control_name(NULL);
    return name ? name : usual;
}
