/* Names and attributes of symbols: the operator's given attributes and the notes, as text.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "graph/attrs.h"

#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "graph/names.h"
#include "graph/symbol.h"

/* ---- all attributes of a node, sorted -------------------------------------------------------------------------- */

static int compare(const void *a, const void *b)
{
    return strcmp(((const mx_attr_text *)a)->key, ((const mx_attr_text *)b)->key);
}

static bool add(mx_attr_list *list, const char *key, const char *text)
{
    char *copy = mx_strdup(text);
    if (copy && mx_vec_push(list, ((mx_attr_text){key, copy})))
        return true;
    mx_strfree(copy);
    return false;
}

/* Texts are never truncated. */
static const char *value_text(const mx_field *field, const void *attrs, char *buffer)
{
    const char *text = field->type == MX_FIELD_STR ? *(char *const *)((const char *)attrs + field->offset) : NULL;
    return text ? text : mx_field_text(field, attrs, buffer);
}

/* As the caller wrote it, if that differs from the library's spelling. */
static const char *given_text(const mx_gnode *node, const mx_field *field, char *buffer)
{
    const char *note = mx_note_get(node, field->name);
    return note ? note : value_text(field, node->attrs, buffer);
}

/* The options of a user's operator. */
static bool add_options(mx_attr_list *list, const mx_gnode *node)
{
    const mx_callee *callee = node->op ? mx_callee_of(node->op, node->attrs) : NULL;
    const char *key, *text;
    bool ok = true;
    for (int i = 0; ok && callee && callee->methods && callee->methods->option; i++) {
        if (!callee->methods->option(callee, i, &key, &text))
            break;
        ok = add(list, key, text);
    }
    return ok;
}

bool mx_node_attrs(const mx_gnode *node, mx_attr_list *list)
{
    char text[MX_VALUE_TEXT];
    const mx_schema *schema = node->op ? node->op->schema : NULL;
    bool ok = add_options(list, node);
    for (int i = 0; ok && schema && i < schema->count && i < 64; i++)
        if (node->given >> i & 1)
            ok = add(list, schema->fields[i].name, given_text(node, &schema->fields[i], text));
    for (int64_t i = 0; ok && i < node->notes.length; i++)
        if (!schema || !mx_schema_find(schema, node->notes.entries[i].key))
            ok = add(list, node->notes.entries[i].key, node->notes.entries[i].pointer);
    if (ok && list->length)
        qsort(list->items, (size_t)list->length, sizeof *list->items, compare);
    return ok;
}

void mx_node_attrs_free(mx_attr_list *list)
{
    for (int64_t i = 0; i < list->length; i++)
        mx_strfree(list->items[i].text);
    mx_vec_free(list);
}

/* ---- the symbol's node ----------------------------------------------------------------------------------------- */

static mx_gnode *only_node(const mx_symbol *symbol)
{
    for (int64_t i = 1; i < symbol->n; i++)
        if (symbol->outputs[i].node != symbol->outputs[0].node)
            return NULL;
    return symbol->outputs[0].node;
}

const char *mx_symbol_name(const mx_symbol *symbol)
{
    if (!mx_symbol_ok(symbol, "mx_symbol_name"))
        return NULL;
    const mx_gnode *node = only_node(symbol);
    return node ? node->name : NULL;
}

static const char *copy_to_scope(const char *text)
{
    mx_text copy = {0};
    mx_text_add(&copy, text);
    return mx_text_to_scope(&copy);
}

const char *mx_symbol_attr(const mx_symbol *symbol, const char *key)
{
    if (!mx_symbol_ok(symbol, "mx_symbol_attr"))
        return NULL;
    if (!key)
        return mx_fail_null(MX_ERR_ARGUMENT, "mx_symbol_attr: key is NULL");
    const mx_gnode *node = only_node(symbol);
    const mx_schema *schema = node && node->op ? node->op->schema : NULL;
    const mx_field *f = mx_schema_find(schema, key);
    if (f) {
        const int64_t i = f - schema->fields;
        char text[MX_VALUE_TEXT];
        return i < 64 && node->given >> i & 1 ? copy_to_scope(given_text(node, f, text)) : NULL;
    }
    const char *text = node ? mx_note_get(node, key) : NULL;
    if (node && !text)
        text = mx_note_get(node, mx_notes_key(key));
    return text ? copy_to_scope(text) : NULL;
}

mx_code mx_symbol_set_attr(mx_symbol *symbol, const char *key, const char *text)
{
    if (!mx_symbol_ok(symbol, "mx_symbol_set_attr"))
        return mx_error_code();
    if (!key || !text)
        return mx_fail(MX_ERR_ARGUMENT, "mx_symbol_set_attr: %s is NULL", key ? "text" : "key");
    mx_gnode *node = only_node(symbol);
    if (!node)
        return mx_fail(MX_ERR_ARGUMENT, "mx_symbol_set_attr: the symbol is a group; set attributes on its outputs");
    if (node->op && mx_schema_find(node->op->schema, key))
        return mx_fail(MX_ERR_STATE,
                       "mx_symbol_set_attr: %s is an attribute of the operator %s; it is fixed when the "
                       "node %s is created",
                       key, node->op->name, node->name);
    return mx_note_set(node, mx_notes_key(key), text);
}

/* ---- lists ----------------------------------------------------------------------------------------------------- */

typedef MX_VEC(const char *) texts;

/* "ctx_group" is an alias of "__ctx_group__". */
static const char *short_key(const char *key)
{
    static const char *const names[] = {"ctx_group", "lr_mult", "wd_mult", "force_mirroring", "mirror_stage"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (!strcmp(key, mx_notes_key(names[i])))
            return names[i];
    return NULL;
}

static bool add_pair(texts *out, const char *node, const char *key, const char *text)
{
    return (!node || mx_vec_push(out, node)) && mx_vec_push(out, key) && mx_vec_push(out, text);
}

/* key, text, ... (with `deep`: node, key, text ...); the texts belong to `attrs`. */
static bool list_node(const mx_gnode *node, bool deep, mx_attr_list *attrs, texts *out)
{
    const int64_t begin = attrs->length;
    mx_attr_list own = {0};
    bool ok = mx_node_attrs(node, &own);
    for (int64_t i = 0; i < own.length; i++) {
        if (!ok || !mx_vec_push(attrs, own.items[i])) {
            mx_strfree(own.items[i].text);
            ok = false;
        }
    }
    mx_vec_free(&own);
    for (int64_t i = begin; ok && i < attrs->length; i++) {
        const mx_attr_text *a = &attrs->items[i];
        ok = add_pair(out, deep ? node->name : NULL, a->key, a->text);
        if (ok && short_key(a->key))
            ok = add_pair(out, deep ? node->name : NULL, short_key(a->key), a->text);
    }
    return ok;
}

static mx_names hand_over(bool ok, texts *out, mx_attr_list *attrs)
{
    mx_names names = ok ? mx_names_of(out->length, out->items) : mx_names_failed();
    mx_vec_free(out);
    mx_node_attrs_free(attrs);
    return names;
}

mx_names mx_symbol_attrs(const mx_symbol *symbol)
{
    mx_attr_list attrs = {0};
    texts out = {0};
    bool ok = mx_symbol_ok(symbol, "mx_symbol_attrs");
    const mx_gnode *node = ok ? only_node(symbol) : NULL;
    if (node)
        ok = list_node(node, false, &attrs, &out);
    return hand_over(ok, &out, &attrs);
}

mx_names mx_symbol_attrs_deep(const mx_symbol *symbol)
{
    mx_graph graph = {0};
    mx_attr_list attrs = {0};
    texts out = {0};
    bool ok = mx_symbol_ok(symbol, "mx_symbol_attrs_deep") && !mx_graph_of(&graph, symbol->n, symbol->outputs);
    for (int64_t i = 0; ok && i < graph.n; i++)
        ok = list_node(graph.nodes[i], true, &attrs, &out);
    mx_names names = hand_over(ok, &out, &attrs);
    mx_graph_free(&graph);
    return names;
}

mx_stype mx_symbol_stype(const mx_symbol *symbol, const char *name)
{
    mx_graph graph = {0};
    mx_stype stype = MX_STYPE_DEFAULT;
    if (!mx_symbol_ok(symbol, "mx_symbol_stype") || mx_graph_of(&graph, symbol->n, symbol->outputs))
        return stype;
    for (int64_t i = 0; name && i < graph.n; i++) {
        const char *noted = graph.nodes[i]->op || strcmp(graph.nodes[i]->name, name)
                                ? NULL
                                : mx_note_get(graph.nodes[i], "__storage_type__");
        if (noted)
            stype = !strcmp(noted, "1") ? MX_ROW_SPARSE : !strcmp(noted, "2") ? MX_CSR : MX_STYPE_DEFAULT;
    }
    mx_graph_free(&graph);
    return stype;
}

mx_array *mx_symbol_constant(const mx_symbol *symbol, const char *name)
{
    mx_graph graph = {0};
    mx_array *value = NULL;
    if (!mx_symbol_ok(symbol, "mx_symbol_constant") || mx_graph_of(&graph, symbol->n, symbol->outputs))
        return NULL;
    for (int64_t i = 0; name && !value && i < graph.n; i++)
        if (graph.nodes[i]->value && !strcmp(graph.nodes[i]->name, name))
            value = graph.nodes[i]->value;
    mx_retain(value);
    mx_graph_free(&graph);
    return mx_scope_add(value);
}
