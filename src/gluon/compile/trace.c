/* Tracing: turns a block into a symbol.
 *
 * The block's forward runs on symbolic arrays.  Each block's nodes are named after it (its prefix, then a name or the
 * operator and a number); a layer with a single operator names it "fwd": lenet0_conv0_fwd.  Parameters become variables
 * with their full names.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "gluon/compile/trace.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/json.h"
#include "exec/list.h"
#include "gluon/deploy.h"
#include "gluon/block/initialize.h"
#include "gluon/rnn/cell.h"
#include "graph/names.h"

/* ---- names ----------------------------------------------------------------------------------------------------- */

mx_code mx_trace_enter(mx_trace_scope *scope, const mx_block *block)
{
    *scope = (mx_trace_scope){.tracing = mx_thread.modes.tracing};
    if (mx_thread.waiting && mx_block_waits(block) && !mx_vec_push(mx_thread.waiting, (void *)(uintptr_t)block))
        return MX_ERR_MEMORY;
    if (!block->plain_scope) {
        if (mx_names_push(block->prefix))
            return mx_error_code();
        scope->named = true;
    }
    mx_thread.modes.tracing = true;
    scope->next = mx_names_next(block->cls && block->cls->kind == MX_LAYER ? block->cls->node : NULL);
    return MX_OK;
}

void mx_trace_leave(mx_trace_scope *scope)
{
    mx_names_next(scope->next);
    mx_thread.modes.tracing = scope->tracing;
    if (scope->named)
        mx_names_pop();
}

/* ---- parameters ------------------------------------------------------------------------------------------------ */

static void write_value(mx_text *text, const mx_field *f, const void *options)
{
    char value[MX_VALUE_TEXT];
    mx_field_text(f, options, value);
    if (!strcmp(value, "None"))
        mx_text_add(text, "null");
    else if (f->type == MX_FIELD_BOOL)
        mx_text_add(text, *value == 'T' ? "true" : "false");
    else if (f->type == MX_FIELD_INT || f->type == MX_FIELD_FLOAT)
        mx_text_add(text, value);
    else
        mx_json_write_text(text, value);
}

/* "zeros", or ["xavier", {"rnd_type": "gaussian", ...}]; nothing for initializers that are functions. */
static void write_initializer(mx_text *text, const mx_initializer *init)
{
    char name[64];
    if (!init || !init->cls || strlen(init->cls->name) >= sizeof name)
        return;
    for (size_t i = 0; i <= strlen(init->cls->name); i++)
        name[i] = (char)(init->cls->name[i] >= 'A' && init->cls->name[i] <= 'Z' ? init->cls->name[i] + 32
                                                                                : init->cls->name[i]);
    const char *plural = !strcmp(name, "zero") ? "zeros" : !strcmp(name, "one") ? "ones" : name;
    const mx_schema *schema = init->cls->schema;
    if (!schema || !schema->count) {
        mx_text_add(text, plural);
        return;
    }
    mx_text_print(text, "[\"%s\", {", plural);
    for (int i = 0, written = 0; i < schema->count; i++) {
        if (schema->fields[i].type == MX_FIELD_PTR)
            continue;
        mx_text_print(text, "%s\"%s\": ", written++ ? ", " : "", schema->fields[i].name);
        write_value(text, &schema->fields[i], init->options);
    }
    mx_text_add(text, "}]");
}

static mx_code note(mx_gnode *node, const char *key, mx_text *text)
{
    const char *value = mx_text_get(text);
    mx_code code = !value ? mx_error_code() : *value ? mx_note_set(node, key, value) : MX_OK;
    mx_text_free(text);
    return code;
}

static mx_code note_number(mx_gnode *node, const char *key, double value)
{
    mx_text text = {0};
    mx_text_add_number(&text, value);
    return note(node, key, &text);
}

static mx_code note_parameter(mx_gnode *node, const mx_parameter *p)
{
    char shape[MX_SHAPE_TEXT];
    mx_dims dims = mx_parameter_shape(p);
    mx_text type = {0}, init = {0};
    mx_text_print(&type, "%d", (int)p->dtype);
    write_initializer(&init, p->init);
    mx_code code = note(node, "__dtype__", &type);
    mx_code init_code = note(node, "__init__", &init);
    if (code || init_code)
        return mx_error_code();
    if (dims.n >= 0 && mx_note_set(node, "__shape__", mx_dims_text(&dims, shape)))
        return mx_error_code();
    if (note_number(node, "__lr_mult__", p->lr_mult) || note_number(node, "__wd_mult__", p->wd_mult))
        return mx_error_code();
    return mx_note_set(node, "__storage_type__", "0");
}

static mx_gnode *node_of(const mx_parameter *p) { return mx_entry_of(p->variable).node; }

void mx_parameter_forget_variable(mx_parameter *p)
{
    if (!p->variable)
        return;
    node_of(p)->owner = NULL;
    mx_release(p->variable);
    p->variable = NULL;
}

/* Threads may trace networks that share parameters. */
static pthread_mutex_t variables_lock = PTHREAD_MUTEX_INITIALIZER;

static mx_array *find_or_make(mx_parameter *p)
{
    if (p->variable && mx_shape_equal(&node_of(p)->out_shape[0], &p->shape) && p->variable->dtype == (int)p->dtype)
        return p->variable;
    mx_parameter_forget_variable(p);
    mx_gnode *node = mx_gnode_variable(p->name, &p->shape, p->dtype);
    if (node && !note_parameter(node, p) && (p->variable = mx_array_symbolic(node, 0)))
        node->owner = p;
    mx_release(node);
    return p->variable;
}

mx_array *mx_parameter_variable(mx_parameter *p)
{
    pthread_mutex_lock(&variables_lock);
    mx_array *variable = find_or_make(p);
    pthread_mutex_unlock(&variables_lock);
    return variable;
}

/* ---- tracing a block ------------------------------------------------------------------------------------------- */

/* Variables "data", or "data0", "data1" ..., with what is known of the inputs. */
static mx_code make_inputs(mx_arrays in, mx_array **variables)
{
    char name[32];
    int64_t count = 0, at = 0;
    for (int64_t i = 0; i < in.n; i++)
        count += in.v[i] != MX_NONE;
    for (int64_t i = 0; i < in.n; i++) {
        mx_array *x = in.v[i];
        variables[i] = x;
        if (x == MX_NONE || mx_is_symbolic(x))
            continue;
        snprintf(name, sizeof name, count == 1 ? "data" : "data%lld", (long long)at++);
        mx_shape_t shape = mx_array_shape(x);
        mx_gnode *node = mx_gnode_variable(name, &shape, x->dtype);
        if (node)
            node->context = x->context;
        variables[i] = node ? mx_scope_add(mx_array_symbolic(node, 0)) : NULL;
        mx_release(node);
        if (!variables[i])
            return mx_error_code();
    }
    return MX_OK;
}

mx_symbol *mx_trace_arrays(mx_block *block, mx_arrays in)
{
    if (!mx_is_kind(block, &mx_block_kind, "mx_trace", "block") || mx_list_check_optional(&in, block->name, "input"))
        return NULL;
    mx_scope scope = mx_scope_open();
    mx_array **variables = mx_list_new(in.n);
    mx_arrays out = {0};
    mx_cells_before cells = {0};
    if (variables && !make_inputs(in, variables) && !mx_cells_trace_enter(block, &cells))
        out = (block->seen_inputs ? mx_block_call_itself : mx_block_call_many)(block, (mx_arrays){variables, in.n});
    mx_cells_trace_leave(&cells);
    mx_symbol *symbol = out.n ? mx_symbol_of(out) : NULL;
    return mx_scope_return(&scope, symbol);
}
