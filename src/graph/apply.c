/* Operators by name on symbols, for language bindings: inputs by position or by name, attributes as text, missing
 * inputs become variables.
 *
 *     FullyConnected(data=x, num_hidden=10, name="fc")   ->   variables fc_weight and fc_bias are created
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/suggest.h"
#include "graph/apply.h"
#include "graph/call.h"
#include "graph/names.h"
#include "graph/symbol.h"
#include "op/expand.h"

typedef struct application {
    mx_op *op;
    void *attrs;        /* typed; owned */
    uint64_t given;     /* fields that were named */
    mx_gentry *entries; /* (room) owned references */
    int n_in, room;
    char *name;    /* owned */
    mx_dict notes; /* texts not owned */
} application;

/* ---- attributes ------------------------------------------------------------------------------------------------ */

static int field_number(const mx_op *op, const char *name)
{
    const mx_field *f = mx_schema_find(op->schema, name);
    return f ? (int)(f - op->schema->fields) : -1;
}

mx_code mx_apply_attribute(mx_op *op, void *attrs, uint64_t *given, const char *who, const char *name, const char *text)
{
    const int field = field_number(op, name);
    if (field < 0) {
        mx_suggestion s = {.word = name};
        for (int i = 0; op->schema && i < op->schema->count; i++)
            mx_suggest(&s, op->schema->fields[i].name);
        return mx_fail(MX_ERR_ATTRIBUTE, "%s (%s): unknown attribute '%s'%s", who, op->name, name, mx_suggest_text(&s));
    }
    if (mx_schema_set(op->schema, attrs, who, name, text))
        return mx_error_code();
    if (field < 64)
        *given |= (uint64_t)1 << field;
    return MX_OK;
}

bool mx_apply_spelled(const mx_op *op, const void *attrs, const char *name, const char *text)
{
    char usual[MX_VALUE_TEXT];
    const mx_field *f = mx_schema_find(op->schema, name);
    return (f->type == MX_FIELD_FLOAT || f->type == MX_FIELD_DIMS) && strcmp(mx_field_text(f, attrs, usual), text);
}

static mx_code read_attributes(application *a, const struct mx_symbol_args *args)
{
    const size_t bytes = a->op->schema ? a->op->schema->size : 0;
    a->attrs = mx_alloc(bytes);
    if (!a->attrs)
        return MX_ERR_MEMORY;
    if (bytes)
        memcpy(a->attrs, a->op->defaults, bytes);
    for (int i = 0; i < args->n_attrs; i++) {
        const char *key = args->attr_names[i], *text = args->attr_values[i];
        if (!key || !text)
            return mx_op_fail(a->op, MX_ERR_ARGUMENT, "%s of an attribute is NULL", key ? "the value" : "the name");
        const char *stored = mx_notes_key(key);
        if (!strncmp(stored, "__", 2) && field_number(a->op, key) < 0) {
            if (!mx_dict_set(&a->notes, stored, (void *)(uintptr_t)text))
                return mx_error_code();
        } else if (mx_apply_attribute(a->op, a->attrs, &a->given, a->op->name, key, text)) {
            return mx_error_code();
        } else if (mx_apply_spelled(a->op, a->attrs, key, text) &&
                   !mx_dict_set(&a->notes, key, (void *)(uintptr_t)text)) {
            return mx_error_code();
        }
    }
    return MX_OK;
}

/* ---- inputs ---------------------------------------------------------------------------------------------------- */

bool mx_input_switched_off(const mx_op *op, const void *attrs, int i)
{
    char input[64], name[80];
    if (!mx_op_input_optional(op, i))
        return false;
    if (op->lacks)
        return op->lacks(attrs, i);
    mx_op_input_name(op, i, input);
    snprintf(name, sizeof name, "use_%s", input);
    const mx_field *f = mx_schema_find(op->schema, name);
    if (f && f->type == MX_FIELD_BOOL)
        return !*(const bool *)((const char *)attrs + f->offset);
    snprintf(name, sizeof name, "no_%s", input);
    f = mx_schema_find(op->schema, name);
    return f && f->type == MX_FIELD_BOOL && *(const bool *)((const char *)attrs + f->offset);
}

int mx_op_needed_inputs(const mx_op *op, const void *attrs)
{
    if (op->count_in)
        return op->count_in(attrs);
    int needed = 0;
    for (int i = 0; i < op->declared_inputs; i++)
        if (!mx_op_input_optional(op, i) && !(op->flags & MX_OP_LIST && i == op->declared_inputs - 1))
            needed = i + 1;
    return needed;
}

static int input_number(const application *a, const char *name)
{
    char buffer[64];
    const int last = a->op->flags & MX_OP_LIST ? a->room : a->op->declared_inputs;
    for (int i = 0; i < last; i++)
        if (!strcmp(mx_op_input_name(a->op, i, buffer), name))
            return i;
    return -1;
}

static mx_code place_input(application *a, const struct mx_symbol_args *args, int i, int *position)
{
    const char *name = args->in_names ? args->in_names[i] : NULL;
    mx_array *x = args->in[i];
    if ((!x && mx_has_error()) || (x != MX_NONE && !mx_array_ok(x, a->op->name, name ? name : "an input")))
        return mx_error_code();
    int at = name ? input_number(a, name) : (*position)++;
    if (at < 0)
        return mx_op_fail(a->op, MX_ERR_ARGUMENT, "has no input named '%s'", name);
    if (at >= a->room)
        return mx_op_fail(a->op, MX_ERR_ARGUMENT, "got %d inputs, wanted at most %d (%s)", args->n_in, a->room,
                          a->op->inputs ? a->op->inputs : "none");
    if (a->entries[at].node)
        return mx_op_fail(a->op, MX_ERR_ARGUMENT, "input %s was given twice", name ? name : "by position");
    a->n_in = at + 1 > a->n_in ? at + 1 : a->n_in;
    return mx_entry_for(x, &a->entries[at]);
}

static mx_code place_inputs(application *a, const struct mx_symbol_args *args)
{
    const bool list = a->op->flags & MX_OP_LIST;
    const int needed = list ? mx_op_needed_inputs(a->op, a->attrs) : 0;
    a->room = list && args->n_in > a->op->declared_inputs ? args->n_in : a->op->declared_inputs;
    a->room = needed == 2 && a->op->starts[1] && a->room < 2 ? 2 : a->room; /* data and a weight of its own */
    a->entries = mx_alloc_zero((size_t)a->room * sizeof *a->entries);
    if (!a->entries)
        return MX_ERR_MEMORY;
    int position = 0;
    for (int i = 0; i < args->n_in; i++)
        if (place_input(a, args, i, &position))
            return mx_error_code();
    return MX_OK;
}

/* A missing input is a variable that inherits the notes and, as in classic files, the attributes of its operator. */
static mx_code make_missing(application *a, int i)
{
    char input[64];
    mx_text text = {0};
    const bool list = a->op->flags & MX_OP_LIST; /* what such an operator adds to its list is its weight */
    mx_text_print(&text, "%s_%s", a->name, list ? "weight" : mx_op_input_name(a->op, i, input));
    a->entries[i].node = mx_text_get(&text) ? mx_gnode_variable(mx_text_get(&text), NULL, MX_DTYPE_NONE) : NULL;
    mx_text_free(&text);
    mx_gnode *made = a->entries[i].node;
    if (!made)
        return mx_error_code();
    char value[MX_VALUE_TEXT];
    for (int k = 0; a->op->schema && k < a->op->schema->count && k < 64; k++)
        if (a->given >> k & 1 &&
            mx_note_set(made, a->op->schema->fields[k].name, mx_field_text(&a->op->schema->fields[k], a->attrs, value)))
            return mx_error_code();
    for (int64_t k = 0; k < a->notes.length; k++)
        if (mx_note_set(made, a->notes.entries[k].key, a->notes.entries[k].pointer))
            return mx_error_code();
    return mx_notes_apply(made);
}

/* The weight of UpSampling(sample_type=bilinear), behind its list of data. */
static mx_code make_weight(application *a)
{
    if (make_missing(a, 1))
        return mx_error_code();
    a->n_in = 2;
    return mx_note_set(a->entries[1].node, "__init__", a->op->starts[1]);
}

static mx_code fill_missing(application *a)
{
    const int needed = mx_op_needed_inputs(a->op, a->attrs);
    if (a->op->flags & MX_OP_LIST) {
        for (int i = 0; i < a->n_in; i++)
            if (!a->entries[i].node)
                return mx_op_fail(a->op, MX_ERR_ARGUMENT, "input %d is missing", i);
        return a->n_in == 1 && needed == 2 && a->op->starts[1] ? make_weight(a) : MX_OK;
    }
    for (int i = 0, present = 0; i < a->room && present < needed; i++) {
        if (!a->entries[i].node && mx_input_switched_off(a->op, a->attrs, i))
            continue;
        present++;
        if (!a->entries[i].node && make_missing(a, i))
            return mx_error_code();
        a->n_in = i + 1 > a->n_in ? i + 1 : a->n_in;
    }
    return MX_OK;
}

/* ---- the call -------------------------------------------------------------------------------------------------- */

static mx_code choose_name(application *a, const char *called, const struct mx_symbol_args *args)
{
    char hint[64];
    a->name =
        args->name && args->verbatim ? mx_strdup(args->name) : mx_names_make(args->name, mx_names_hint(called, hint));
    return a->name ? MX_OK : mx_error_code();
}

static mx_gnode *finish(application *a)
{
    if (mx_schema_check(a->op->schema, a->attrs, a->name) || (a->op->check && a->op->check(a->attrs)))
        return NULL;
    struct mx_gnode_args args = {a->op, a->op->schema ? a->attrs : NULL, &a->given, a->name, a->n_in, a->entries};
    mx_gnode *node = mx_gnode_make(&args);
    if (!node)
        return NULL;
    mx_code code = MX_OK;
    for (int64_t k = 0; !code && k < a->notes.length; k++)
        code = mx_note_set(node, a->notes.entries[k].key, a->notes.entries[k].pointer);
    if (!code && !mx_notes_apply(node) && !mx_graph_note_starts(a->op, a->n_in, a->entries) &&
        !mx_graph_note_draw(node))
        return node;
    mx_release(node);
    return NULL;
}

/* An operator that expands becomes the nodes of what it calls. */
static mx_symbol *expanded(const application *a)
{
    mx_array *in[MX_MAX_DECLARED], *out[MX_MAX_OUTPUTS] = {NULL};
    if (a->n_in > MX_MAX_DECLARED)
        return mx_op_fail(a->op, MX_ERR_ARGUMENT, "a symbol of it takes at most %d inputs", MX_MAX_DECLARED), NULL;
    for (int i = 0; i < a->n_in; i++)
        if (!(in[i] = a->entries[i].node ? mx_scope_add(mx_array_symbolic(a->entries[i].node, a->entries[i].output))
                                         : MX_NONE))
            return NULL;
    const bool tracing = mx_thread.modes.tracing; /* without inputs it creates nodes only while tracing */
    mx_thread.modes.tracing = true;
    const mx_code code = mx_invoke((mx_op *)(uintptr_t)a->op, a->attrs, a->n_in, in, MX_MAX_OUTPUTS, out);
    mx_thread.modes.tracing = tracing;
    return code ? NULL : mx_retain(mx_symbol_of((mx_arrays){out, mx_op_count_visible(a->op, a->attrs)}));
}

static mx_code check_args(const char *op, const struct mx_symbol_args *args)
{
    const char *wrong =
        !op                                           ? "op"
        : !args                                       ? "args"
        : args->n_in < 0 || (args->n_in && !args->in) ? "args.in"
        : args->n_attrs < 0 || (args->n_attrs && !args->attr_names) || (args->n_attrs && !args->attr_values)
            ? "args.attr_names or attr_values"
            : NULL;
    return wrong ? mx_fail(MX_ERR_ARGUMENT, "mx_symbol_apply: %s is NULL", wrong) : MX_OK;
}

_Atomic(mx_entries_fn) mx_apply_precision;

mx_symbol *mx_symbol_apply(const char *op, const struct mx_symbol_args *args)
{
    application a = {0};
    if (check_args(op, args) || !(a.op = mx_op_find(op)))
        return NULL;
    mx_code code = read_attributes(&a, args);
    code = code ? code : place_inputs(&a, args);
    code = code ? code : choose_name(&a, op, args);
    code = code ? code : fill_missing(&a);
    const mx_entries_fn cast = atomic_load(&mx_apply_precision);
    code = code || !cast ? code : cast(a.op, a.attrs, a.n_in, a.entries);
    const bool expands = !code && mx_op_expands(a.op);
    mx_gnode *node = code || expands ? NULL : finish(&a);
    mx_symbol *symbol = expands ? expanded(&a) : node ? mx_symbol_of_node(node) : NULL;
    mx_release(node);
    for (int i = 0; i < a.room && a.entries; i++)
        mx_release(a.entries[i].node);
    mx_free(a.entries, (size_t)a.room * sizeof *a.entries);
    mx_free(a.attrs, a.op->schema ? a.op->schema->size : 0);
    mx_dict_free(&a.notes);
    mx_strfree(a.name);
    return mx_scope_add(symbol);
}
