/* Calls on symbols (see call.h), and variables.  SPDX-License-Identifier: Apache-2.0 */
#include "graph/call.h"

#include <math.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "gluon/symbol.h"
#include "graph/names.h"

/* ---- calls ----------------------------------------------------------------------------------------------------- */

mx_code mx_entry_for(mx_array *x, mx_gentry *entry)
{
    if (x == MX_NONE) {
        *entry = (mx_gentry){NULL, 0};
        return MX_OK;
    }
    if (mx_is_symbolic(x)) {
        *entry = mx_entry_of(x);
        mx_retain(entry->node);
        return MX_OK;
    }
    if (!x->storage)
        return mx_fail(MX_ERR_STATE,
                       "an abstract array (a shape without elements) cannot be combined with a symbolic one");
    const char *waiting = mx_names_next(NULL); /* that name is meant for the operator */
    char *name = mx_names_make(NULL, "_constant");
    mx_names_next(waiting);
    *entry = (mx_gentry){name ? mx_gnode_constant(name, x) : NULL, 0};
    mx_strfree(name);
    return entry->node ? MX_OK : mx_error_code();
}

static mx_code entries_of(int n_in, mx_array *const *in, mx_gentry *entries)
{
    for (int i = 0; i < n_in; i++)
        if (mx_entry_for(in[i], &entries[i]))
            return mx_error_code();
    return MX_OK;
}

mx_code mx_graph_note_starts(const mx_op *op, int n_in, const mx_gentry *entries)
{
    mx_code code = MX_OK;
    if (op->flags & MX_OP_LIST) /* any element may be data */
        return code;
    for (int i = 0; !code && i < n_in && i < (int)(sizeof op->starts / sizeof *op->starts); i++) {
        mx_gnode *node = op->starts[i] ? entries[i].node : NULL;
        if (node && mx_gnode_is_variable(node) && !mx_thread.modes.tracing && !mx_note_get(node, "__init__"))
            code = mx_note_set(node, "__init__", op->starts[i]);
    }
    return code;
}

static mx_gnode *node_of_call(mx_op *op, const void *attrs, int n_in, const mx_gentry *entries)
{
    char hint[64];
    char *name = mx_names_make(NULL, mx_names_usual_hint(op, hint));
    struct mx_gnode_args args = {op, attrs, NULL, name, n_in, entries};
    mx_gnode *node = name ? mx_gnode_make(&args) : NULL;
    mx_strfree(name);
    if (!node || (!mx_notes_apply(node) && !mx_graph_note_starts(op, n_in, entries)))
        return node;
    mx_release(node);
    return NULL;
}

static mx_code hand_out(mx_gnode *node, int n_out, mx_array **out)
{
    for (int i = 0; i < node->n_visible && i < n_out; i++) {
        out[i] = mx_scope_add(mx_array_symbolic(node, (uint32_t)i));
        if (!out[i])
            return mx_error_code();
    }
    return MX_OK;
}

mx_code mx_graph_note_draw(mx_gnode *node)
{
    if (!mx_thread.draws || !mx_op_draws(node->op, node->attrs))
        return MX_OK;
    if (!mx_vec_push(mx_thread.draws, node))
        return MX_ERR_MEMORY;
    mx_retain(node);
    return MX_OK;
}

mx_code mx_graph_call(mx_op *op, const void *attrs, int n_in, mx_array *const *in, int n_out, mx_array **out)
{
    if (mx_thread.catching.run)
        return mx_thread.catching.run(mx_thread.catching.user, op, attrs, n_in, in, n_out, out);
    for (int i = 0; i < n_out; i++)
        if (out[i] && i < mx_op_count_visible(op, attrs))
            return mx_op_fail(op, MX_ERR_ARGUMENT, "a symbolic result cannot be written into an array (out)");
    const size_t bytes = (size_t)n_in * sizeof(mx_gentry);
    mx_gentry *entries = mx_alloc_zero(bytes);
    if (!entries)
        return MX_ERR_MEMORY;
    mx_gnode *node = entries_of(n_in, in, entries) ? NULL : node_of_call(op, attrs, n_in, entries);
    for (int i = 0; i < n_in; i++)
        mx_release(entries[i].node);
    mx_free(entries, bytes);
    mx_code code = !node || mx_graph_note_draw(node) ? mx_error_code() : hand_out(node, n_out, out);
    mx_release(node);
    return code;
}

/* ---- variables ------------------------------------------------------------------------------------------------- */

bool mx_symbolic(const mx_array *x) { return mx_array_ok(x, "mx_symbolic", "x") && mx_is_symbolic(x); }

/* Users write 0 for an unknown size. */
static mx_shape_t classic_shape(const mx_dims *dims)
{
    mx_shape_t shape = mx_shape_of_dims(dims);
    for (int i = 0; i < shape.ndim; i++)
        if (shape.dim[i] == 0)
            shape.dim[i] = -1;
    return shape;
}

static mx_code note_number(mx_gnode *node, const char *key, double value)
{
    if (isnan(value))
        return MX_OK;
    mx_text text = {0};
    mx_text_add_number(&text, value);
    mx_code code = mx_text_get(&text) ? mx_note_set(node, key, mx_text_get(&text)) : mx_error_code();
    mx_text_free(&text);
    return code;
}

static mx_code note_options(mx_gnode *node, const struct mx_variable_options *o)
{
    char text[MX_SHAPE_TEXT + 32];
    mx_code code = MX_OK;
    if (o->shape.n >= 0)
        code = mx_note_set(node, "__shape__", mx_dims_text(&o->shape, text));
    if (!code && o->dtype != MX_DTYPE_NONE) {
        mx_text number = {0};
        mx_text_print(&number, "%d", (int)o->dtype);
        code = mx_text_get(&number) ? mx_note_set(node, "__dtype__", mx_text_get(&number)) : mx_error_code();
        mx_text_free(&number);
    }
    if (!code && o->init)
        code = mx_note_set(node, "__init__", o->init);
    if (!code)
        code = note_number(node, "__lr_mult__", o->lr_mult);
    if (!code)
        code = note_number(node, "__wd_mult__", o->wd_mult);
    return code ? code : mx_notes_apply(node);
}

mx_array *mx_variable_make(const struct mx_variable_options *options)
{
    if (!options || !options->name)
        return mx_fail_null(MX_ERR_ARGUMENT, "mx_variable: name is NULL");
    if (options->dtype != MX_DTYPE_NONE && !mx_dtype_valid((int)options->dtype))
        return mx_fail_null(MX_ERR_DTYPE, "mx_variable: '%s': %d is not an element type", options->name,
                            (int)options->dtype);
    const bool clean = !mx_has_error();
    mx_shape_t shape = classic_shape(&options->shape);
    if (clean && mx_has_error())
        return NULL;
    for (int i = 0; i < shape.ndim; i++)
        if (shape.dim[i] < -1)
            return mx_fail_null(MX_ERR_SHAPE, "mx_variable: '%s': size %lld of axis %d is negative", options->name,
                                (long long)shape.dim[i], i);
    mx_gnode *node = mx_gnode_variable(options->name, &shape, options->dtype);
    mx_array *x = node && !note_options(node, options) ? mx_array_symbolic(node, 0) : NULL;
    mx_release(node);
    return mx_scope_add(x);
}
