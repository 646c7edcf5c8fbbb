/* Symbols as lists: creating, splitting, listing (see symbol.h).  SPDX-License-Identifier: Apache-2.0 */
#include "graph/symbol.h"

#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/vec.h"
#include "graph/call.h"

typedef MX_VEC(mx_gentry) entries; /* nodes not retained */

static void destroy(mx_object *self)
{
    mx_symbol *symbol = (mx_symbol *)self;
    for (int64_t i = 0; i < symbol->n; i++)
        mx_release(symbol->outputs[i].node);
    mx_free(symbol, sizeof *symbol + (size_t)symbol->n * sizeof(mx_gentry));
}
const mx_kind mx_symbol_kind = {"symbol", destroy};

bool mx_symbol_ok(const mx_symbol *symbol, const char *function)
{
    if (!symbol && mx_has_error())
        return false; /* an earlier failure propagates */
    return mx_is_kind(symbol, &mx_symbol_kind, function, "symbol");
}

/* ---- creating -------------------------------------------------------------------------------------------------- */

mx_symbol *mx_symbol_new(int64_t n, const mx_gentry *outputs)
{
    mx_symbol *symbol = mx_alloc(sizeof *symbol + (size_t)n * sizeof(mx_gentry));
    if (!symbol)
        return NULL;
    mx_object_init(&symbol->object, &mx_symbol_kind);
    symbol->n = n;
    for (int64_t i = 0; i < n; i++)
        symbol->outputs[i] = (mx_gentry){mx_retain(outputs[i].node), outputs[i].output};
    return symbol;
}

mx_symbol *mx_symbol_of_node(mx_gnode *node)
{
    mx_gentry outputs[MX_MAX_OUTPUTS];
    for (int i = 0; i < node->n_visible; i++)
        outputs[i] = (mx_gentry){node, (uint32_t)i};
    return mx_symbol_new(node->n_visible, outputs);
}

/* Counts up to MX_END and checks that all are arrays. */
static mx_code check_list(mx_arrays *arrays)
{
    if (!arrays->v)
        return mx_fail(MX_ERR_ARGUMENT, "mx_symbol_of: the list of arrays is NULL");
    if (arrays->n < 0)
        for (arrays->n = 0; arrays->v[arrays->n] != MX_END; arrays->n++)
            ;
    for (int64_t i = 0; i < arrays->n; i++)
        if ((!arrays->v[i] && mx_has_error()) || !mx_array_ok(arrays->v[i], "mx_symbol_of", "an array"))
            return mx_error_code();
    return arrays->n ? MX_OK : mx_fail(MX_ERR_ARGUMENT, "mx_symbol_of: the list of arrays is empty");
}

mx_symbol *mx_symbol_of(mx_arrays arrays)
{
    if (check_list(&arrays))
        return NULL;
    entries list = {0};
    bool ok = true;
    for (int64_t i = 0; ok && i < arrays.n; i++) {
        mx_gentry entry = {0};
        ok = !mx_entry_for(arrays.v[i], &entry);
        if (ok && !mx_vec_push(&list, entry)) {
            mx_release(entry.node);
            ok = false;
        }
    }
    mx_symbol *symbol = ok ? mx_symbol_new(list.length, list.items) : NULL;
    for (int64_t i = 0; i < list.length; i++)
        mx_release(list.items[i].node);
    mx_vec_free(&list);
    return mx_scope_add(symbol);
}

static mx_symbol *take(entries *list, bool ok)
{
    mx_symbol *symbol = ok ? mx_symbol_new(list->length, list->items) : NULL;
    mx_vec_free(list);
    return mx_scope_add(symbol);
}

mx_symbol *mx_symbol_group(mx_symbol *const *symbols, int count)
{
    entries list = {0};
    bool ok = true;
    if (count <= 0 || !symbols)
        return mx_fail_null(MX_ERR_ARGUMENT, "mx_symbol_group: the list of symbols is empty");
    for (int k = 0; ok && k < count; k++) {
        ok = mx_symbol_ok(symbols[k], "mx_symbol_group");
        for (int64_t i = 0; ok && i < symbols[k]->n; i++)
            ok = mx_vec_push(&list, symbols[k]->outputs[i]);
    }
    return take(&list, ok);
}

/* ---- splitting ------------------------------------------------------------------------------------------------- */

int64_t mx_symbol_count(const mx_symbol *symbol) { return mx_symbol_ok(symbol, "mx_symbol_count") ? symbol->n : -1; }

static bool in_range(const mx_symbol *symbol, int64_t i, const char *function)
{
    if (!mx_symbol_ok(symbol, function))
        return false;
    if (i >= 0 && i < symbol->n)
        return true;
    mx_fail(MX_ERR_INDEX, "%s: output %lld was requested, but the symbol has %lld", function, (long long)i,
            (long long)symbol->n);
    return false;
}

mx_array *mx_symbol_at(const mx_symbol *symbol, int64_t i)
{
    if (!in_range(symbol, i, "mx_symbol_at"))
        return NULL;
    return mx_scope_add(mx_array_symbolic(symbol->outputs[i].node, symbol->outputs[i].output));
}

/* Memory for a list of arrays that belongs to the scope. */
typedef struct array_list {
    mx_object object;
    int64_t n;
    mx_array *items[];
} array_list;

static void destroy_arrays(mx_object *self)
{
    array_list *list = (array_list *)self;
    for (int64_t i = 0; i < list->n; i++)
        mx_release(list->items[i]);
    mx_free(list, sizeof *list + (size_t)list->n * sizeof(mx_array *));
}
static const mx_kind array_list_kind = {"list", destroy_arrays};

mx_arrays mx_symbol_arrays(const mx_symbol *symbol)
{
    static mx_array *const nothing[1];
    const mx_arrays failed = {nothing, 0};
    if (!mx_symbol_ok(symbol, "mx_symbol_arrays"))
        return failed;
    array_list *list = mx_alloc_zero(sizeof *list + (size_t)symbol->n * sizeof(mx_array *));
    if (!list)
        return failed;
    mx_object_init(&list->object, &array_list_kind);
    list->n = symbol->n;
    bool ok = true;
    for (int64_t i = 0; ok && i < symbol->n; i++)
        ok = (list->items[i] = mx_array_symbolic(symbol->outputs[i].node, symbol->outputs[i].output)) != NULL;
    list = mx_scope_add(list);
    return ok && list ? (mx_arrays){list->items, symbol->n} : failed;
}

mx_symbol *mx_symbol_output(const mx_symbol *symbol, int64_t i)
{
    return in_range(symbol, i, "mx_symbol_output") ? mx_scope_add(mx_symbol_new(1, &symbol->outputs[i])) : NULL;
}

mx_symbol *mx_symbol_find(const mx_symbol *symbol, const char *output_name)
{
    if (!mx_symbol_ok(symbol, "mx_symbol_find"))
        return NULL;
    mx_text text = {0};
    int64_t found = -1, count = 0;
    for (int64_t i = 0; output_name && i < symbol->n; i++) {
        mx_text_clear(&text);
        mx_gentry_name(&symbol->outputs[i], &text);
        const char *name = mx_text_get(&text);
        if (name && !strcmp(name, output_name))
            found = i, count++;
    }
    const bool failed = text.failed;
    mx_text_free(&text);
    if (failed)
        return NULL;
    if (count == 1)
        return mx_scope_add(mx_symbol_new(1, &symbol->outputs[found]));
    return mx_fail_null(MX_ERR_ARGUMENT, "mx_symbol_find: the symbol has %s output named '%s'",
                        count ? "more than one" : "no", output_name ? output_name : "NULL");
}

mx_symbol *mx_symbol_internals(const mx_symbol *symbol)
{
    mx_graph graph = {0};
    entries list = {0};
    bool ok = mx_symbol_ok(symbol, "mx_symbol_internals") && !mx_graph_of(&graph, symbol->n, symbol->outputs);
    for (int64_t i = 0; ok && i < graph.n; i++)
        for (int k = 0; ok && k < graph.nodes[i]->n_visible; k++)
            ok = mx_vec_push(&list, ((mx_gentry){graph.nodes[i], (uint32_t)k}));
    symbol = take(&list, ok);
    mx_graph_free(&graph);
    return (mx_symbol *)symbol;
}

mx_symbol *mx_symbol_children(const mx_symbol *symbol)
{
    entries list = {0};
    bool ok = mx_symbol_ok(symbol, "mx_symbol_children");
    for (int64_t i = 0; ok && i < symbol->n; i++) {
        const mx_gnode *node = symbol->outputs[i].node;
        bool seen = false;
        for (int64_t k = 0; k < i; k++)
            seen |= symbol->outputs[k].node == node;
        for (int k = 0; ok && !seen && k < node->n_in; k++)
            ok = !node->in[k].node || mx_vec_push(&list, node->in[k]);
    }
    return list.length ? take(&list, ok) : NULL;
}

/* ---- lists of names -------------------------------------------------------------------------------------------- */

typedef struct text_list {
    mx_object object;
    size_t bytes; /* of this allocation: pointers, then characters */
    const char *items[];
} text_list;

static void destroy_texts(mx_object *self) { mx_free(self, ((text_list *)self)->bytes); }
static const mx_kind text_list_kind = {"list of texts", destroy_texts};

mx_names mx_names_failed(void)
{
    static const char *const nothing[1];
    return (mx_names){nothing, -1};
}

mx_names mx_names_of(int64_t n, const char *const *texts)
{
    size_t bytes = sizeof(text_list) + (size_t)(n + 1) * sizeof(char *);
    for (int64_t i = 0; i < n; i++)
        bytes += strlen(texts[i]) + 1;
    text_list *list = mx_alloc(bytes);
    if (!list)
        return mx_names_failed();
    mx_object_init(&list->object, &text_list_kind);
    list->bytes = bytes;
    char *p = (char *)&list->items[n + 1];
    for (int64_t i = 0; i < n; i++) {
        const size_t length = strlen(texts[i]) + 1;
        list->items[i] = memcpy(p, texts[i], length);
        p += length;
    }
    list->items[n] = NULL;
    return mx_scope_add(list) ? (mx_names){list->items, n} : mx_names_failed();
}

/* which: 1 arguments, 2 auxiliary states, 3 both. */
static mx_names variables(const mx_symbol *symbol, int which, const char *function)
{
    mx_graph graph = {0};
    MX_VEC(const char *) list = {0};
    if (!mx_symbol_ok(symbol, function) || mx_graph_of(&graph, symbol->n, symbol->outputs))
        return mx_names_failed();
    bool *is_aux = mx_alloc((size_t)graph.n);
    bool ok = is_aux != NULL;
    if (ok)
        mx_graph_auxiliary(&graph, is_aux);
    for (int64_t i = 0; ok && i < graph.n; i++)
        if (!graph.nodes[i]->op && (which & (is_aux[i] ? 2 : 1)))
            ok = mx_vec_push(&list, graph.nodes[i]->name);
    mx_names names = ok ? mx_names_of(list.length, list.items) : mx_names_failed();
    mx_vec_free(&list);
    mx_free(is_aux, (size_t)graph.n);
    mx_graph_free(&graph);
    return names;
}

mx_names mx_symbol_arguments(const mx_symbol *symbol) { return variables(symbol, 1, "mx_symbol_arguments"); }
mx_names mx_symbol_auxiliary(const mx_symbol *symbol) { return variables(symbol, 2, "mx_symbol_auxiliary"); }
mx_names mx_symbol_inputs(const mx_symbol *symbol) { return variables(symbol, 3, "mx_symbol_inputs"); }

mx_names mx_symbol_outputs(const mx_symbol *symbol)
{
    if (!mx_symbol_ok(symbol, "mx_symbol_outputs"))
        return mx_names_failed();
    MX_VEC(char *) list = {0};
    bool ok = true;
    for (int64_t i = 0; ok && i < symbol->n; i++) {
        mx_text text = {0};
        mx_gentry_name(&symbol->outputs[i], &text);
        char *name = mx_text_take(&text);
        ok = name && mx_vec_push(&list, name);
        if (!ok)
            mx_strfree(name);
    }
    mx_names names = ok ? mx_names_of(list.length, (const char *const *)(void *)list.items) : mx_names_failed();
    for (int64_t i = 0; i < list.length; i++)
        mx_strfree(list.items[i]);
    mx_vec_free(&list);
    return names;
}
