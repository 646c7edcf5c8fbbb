/* A block that computes a symbol.
 *
 * Its variables are inputs (those that were named) or parameters; auxiliary states are parameters without a gradient.
 * Called on arrays, it runs the graph node by node; called on symbolic arrays, it is composed with them, so names stay.
 * The block has its own variable nodes, copies of the symbol's, which point to their parameters.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "base/alloc.h"
#include "base/json.h"
#include "exec/interpret.h"
#include "exec/list.h"
#include "gluon/block/core.h"
#include "gluon/deploy.h"
#include "graph/call.h"
#include "graph/infer.h"
#include "graph/rewrite.h"
#include "graph/symbol.h"

typedef struct symbol_block {
    mx_graph graph;
    int *input;               /* (graph.n) input number of a variable; -1: not an input */
    mx_parameter **parameter; /* (graph.n) parameter of a variable (held by the block); NULL: not a parameter */
    mx_names names;           /* of the inputs */
    char *list;               /* owned: the characters of `names`, each ended by a zero */
    size_t list_bytes;
} symbol_block;

static void release(void *user)
{
    symbol_block *s = user;
    const size_t n = (size_t)s->graph.n;
    for (size_t i = 0; i < n; i++)
        if (!s->graph.nodes[i]->op)
            s->graph.nodes[i]->owner = NULL; /* graphs traced from this block may outlive it */
    mx_free(s->input, n * sizeof *s->input);
    mx_free(s->parameter, n * sizeof *s->parameter);
    mx_free((void *)(uintptr_t)s->names.v, (size_t)s->names.n * sizeof(char *));
    mx_free(s->list, s->list_bytes);
    mx_graph_free(&s->graph);
    mx_free(s, sizeof *s);
}

/* ---- running --------------------------------------------------------------------------------------------------- */

static mx_arrays hand_out(mx_code code, int64_t n, mx_array **results)
{
    mx_array **list = code ? NULL : mx_list_new(n);
    bool ok = list != NULL;
    for (int64_t i = 0; i < n; i++) {
        if (list)
            ok &= (list[i] = mx_scope_add(results[i])) != NULL;
        else
            mx_release(results[i]);
    }
    return ok ? (mx_arrays){list, n} : mx_list_failed();
}

static mx_arrays run(mx_block *self, symbol_block *s, mx_arrays in)
{
    const mx_graph *g = &s->graph;
    const size_t bytes = (size_t)(g->n + g->n_results) * sizeof(mx_array *);
    mx_array **values = mx_alloc_zero(bytes), **results = values + g->n;
    mx_context context = in.n ? in.v[0]->context : mx_current_context();
    if (!values)
        return mx_list_failed();
    mx_code code = MX_OK;
    for (int64_t i = 0; !code && i < g->n; i++) {
        if (s->input[i] >= 0)
            values[i] = in.v[s->input[i]];
        else if (s->parameter[i] && !(values[i] = mx_parameter_use(s->parameter[i], context)))
            code = mx_error_code();
    }
    mx_interpretation what = {.graph = g, .values = values};
    code = code ? code : mx_interpret(&what, results);
    mx_arrays out = hand_out(code, g->n_results, results);
    mx_free(values, bytes);
    (void)self;
    return out;
}

/* ---- composing ------------------------------------------------------------------------------------------------- */

typedef struct substitution {
    symbol_block *block;
    mx_gentry *entries; /* per input */
} substitution;

static bool replace(const mx_graph *graph, int64_t i, void *user, mx_gentry *other)
{
    substitution *sub = user;
    const int input = sub->block->input[i];
    if (graph->nodes[i]->op || input < 0)
        return false;
    *other = sub->entries[input];
    return true;
}

static mx_arrays compose(symbol_block *s, mx_arrays in)
{
    const int64_t n = s->graph.n_results;
    mx_gentry *results = mx_alloc_zero((size_t)n * sizeof *results);
    mx_gentry *entries = mx_alloc_zero((size_t)in.n * sizeof *entries);
    mx_array **arrays = mx_alloc_zero((size_t)n * sizeof *arrays);
    substitution sub = {s, entries};
    mx_code code = results && arrays && entries ? MX_OK : MX_ERR_MEMORY;
    for (int64_t i = 0; !code && i < in.n; i++)
        code = mx_entry_for(in.v[i], &entries[i]);
    code = code ? code : mx_graph_rebuild(&s->graph, replace, &sub, results);
    for (int64_t i = 0; !code && i < n; i++)
        code = (arrays[i] = mx_array_symbolic(results[i].node, results[i].output)) ? MX_OK : mx_error_code();
    mx_arrays out = arrays ? hand_out(code, n, arrays) : mx_list_failed();
    for (int64_t i = 0; results && i < n; i++)
        mx_release(results[i].node);
    for (int64_t i = 0; entries && i < in.n; i++)
        mx_release(entries[i].node);
    mx_free(entries, (size_t)in.n * sizeof *entries);
    mx_free(results, (size_t)n * sizeof *results);
    mx_free(arrays, (size_t)n * sizeof *arrays);
    return out;
}

static mx_arrays forward(mx_block *self, mx_arrays in)
{
    symbol_block *s = mx_block_user(self);
    if (in.n != s->names.n)
        return mx_fail(MX_ERR_ARGUMENT, "%s: got %lld inputs, wanted %lld", *self->name ? self->name : self->class_name,
                       (long long)in.n, (long long)s->names.n),
               mx_list_failed();
    bool symbolic = false;
    for (int64_t i = 0; i < in.n; i++) {
        if (in.v[i] == MX_NONE)
            return mx_fail(MX_ERR_ARGUMENT, "%s: input %s is missing", self->name, s->names.v[i]), mx_list_failed();
        symbolic |= mx_is_symbolic(in.v[i]);
    }
    return symbolic ? compose(s, in) : run(self, s, in);
}

/* ---- making ---------------------------------------------------------------------------------------------------- */

/* Splits "a b, c" in place. */
static mx_code split_names(symbol_block *s, const char *inputs)
{
    s->list = mx_strdup(inputs);
    s->list_bytes = strlen(inputs) + 1;
    if (!s->list)
        return MX_ERR_MEMORY;
    int64_t n = 0;
    for (const char *p = s->list; *(p += strspn(p, " ,")); p += strcspn(p, " ,"))
        n++;
    const char **names = mx_alloc_zero((size_t)n * sizeof *names);
    if (!names)
        return MX_ERR_MEMORY;
    s->names = (mx_names){names, n};
    char *p = s->list;
    for (int64_t i = 0; i < n; i++) {
        p += strspn(p, " ,");
        names[i] = p;
        p += strcspn(p, " ,");
        if (*p)
            *p++ = 0;
    }
    return MX_OK;
}

static mx_code find_inputs(symbol_block *s, bool unused)
{
    for (int64_t i = 0; i < s->graph.n; i++)
        s->input[i] = -1;
    for (int64_t k = 0; k < s->names.n; k++) {
        bool found = false;
        for (int64_t i = 0; i < s->graph.n; i++)
            if (!s->graph.nodes[i]->op && !strcmp(s->graph.nodes[i]->name, s->names.v[k])) {
                s->input[i] = (int)k;
                found = true;
            }
        if (!found && !unused)
            return mx_fail(MX_ERR_ARGUMENT, "mx_symbol_block: the symbol has no variable named '%s'", s->names.v[k]);
    }
    return MX_OK;
}

/* Reads the options of a parameter from the notes of its variable. */
static double noted_number(const mx_gnode *node, const char *key, double fallback)
{
    const char *text = mx_note_get(node, key);
    char *end = NULL;
    const double value = text ? mx_text_to_number(text, &end) : fallback;
    return text && (end == text || *end) ? fallback : value;
}

/* "sigma=0.1, ..." of {"sigma": 0.1, ...} */
static void add_options(mx_text *text, const mx_json *options)
{
    for (int64_t i = 0; i < mx_json_count(options); i++) {
        const mx_json *value = mx_json_at(options, i);
        bool truth = false;
        mx_text_print(text, "%s%s=", i ? ", " : "", mx_json_key(value));
        switch (mx_json_kind_of(value)) {
        case MX_JSON_NULL: mx_text_add(text, "None"); break;
        case MX_JSON_BOOL: mx_text_add(text, mx_json_bool(value, &truth) && truth ? "True" : "False"); break;
        case MX_JSON_TEXT: mx_text_add(text, mx_json_text(value)); break;
        default: mx_json_write(text, value);
        }
    }
}

/* zeros, "zeros" or ["xavier", {"magnitude": 3}], as in files; NULL, perhaps with an error: unknown */
static mx_initializer *initializer_of_text(const char *text)
{
    if (*text != '[' && *text != '"')
        return mx_initializer_named(text);
    mx_json *root = mx_json_parse(text, strlen(text));
    const mx_json *name = mx_json_kind_of(root) == MX_JSON_ARRAY ? mx_json_at(root, 0) : root;
    mx_text options = {0};
    if (name != root)
        add_options(&options, mx_json_at(root, 1));
    mx_class *cls = mx_json_kind_of(name) == MX_JSON_TEXT ? mx_class_find(MX_INITIALIZER, mx_json_text(name)) : NULL;
    mx_initializer *made = cls ? mx_class_create(cls, mx_text_get(&options)) : NULL;
    mx_text_free(&options);
    mx_json_free(root);
    return made;
}

/* An unknown initializer, from another program, is ignored: the network's own is used. */
static mx_initializer *noted_init(const mx_gnode *node)
{
    const char *text = mx_note_get(node, "__init__");
    if (node->value)
        return mx_initializer_of_value(node->value);
    const bool clean = !mx_has_error();
    mx_initializer *made = text ? initializer_of_text(text) : NULL;
    if (!made && clean && mx_error_code() != MX_ERR_MEMORY)
        mx_error_clear();
    return made;
}

/* Infers the options of a parameter from its notes and the rest of the graph. */
static mx_code make_parameter(mx_block *block, symbol_block *s, int64_t i, bool aux, const mx_shape_t *shape, int type,
                              mx_params *shared)
{
    mx_gnode *node = s->graph.nodes[i];
    mx_dims dims = {.n = shape->ndim};
    for (int k = 0; k < shape->ndim; k++)
        dims.d[k] = shape->dim[k] < 0 ? 0 : shape->dim[k];
    mx_parameter *p = mx_params_find(block->params, node->name);
    const char *stype = mx_note_get(node, "__storage_type__");
    const char *request = mx_note_get(node, "__grad_req__"); /* constants of networks from other frameworks */
    const bool fixed = aux || (request && !strcmp(request, "null"));
    if (stype && *stype != '0')
        return mx_fail(MX_ERR_ARGUMENT, "SymbolBlock: the variable '%s' is sparse, parameters must be dense",
                       node->name);
    if (!p && shared && (p = mx_params_find(shared, node->name))) {
        if (mx_params_add(block->params, p) || mx_block_attribute(block, node->name, p))
            return mx_error_code();
    } else if (!p) {
        p = mx_params_get(
            block->params, node->name, .shape = dims, .dtype = type == MX_DTYPE_NONE ? MX_FLOAT32 : (mx_dtype)type,
            .grad_req = fixed ? MX_GRAD_NULL : MX_GRAD_WRITE, .differentiable = !fixed, .allow_deferred_init = true,
            .init = noted_init(node), .lr_mult = noted_number(node, "__lr_mult__", 1),
            .wd_mult = noted_number(node, "__wd_mult__", 1));
        if (!p || mx_block_attribute(block, node->name, p))
            return mx_error_code();
        if (node->value && mx_parameter_load(p, node->value))
            return mx_error_code();
    }
    s->parameter[i] = p;
    node->owner = p;
    if (!fixed || aux) { /* it changes: plans must not take it for a constant */
        mx_release(node->value);
        node->value = NULL;
    }
    return MX_OK;
}

/* What the graph alone says.  Inputs have no types yet: if types seem to contradict each other, nothing is known, and the
 * first call decides. */
static mx_code infer_alone(const mx_graph *graph, mx_shape_t *shape, int *type)
{
    mx_graph_infer_start(graph, shape, type);
    const mx_code code = mx_graph_infer(graph, shape, type);
    if (code != MX_ERR_DTYPE)
        return code;
    mx_error_clear();
    mx_graph_infer_start(graph, shape, type);
    return MX_OK;
}

/* Arguments in the order of the graph, then auxiliary states. */
static mx_code make_parameters(mx_block *block, symbol_block *s, mx_params *shared)
{
    const mx_graph *g = &s->graph;
    const size_t entries = (size_t)g->row[g->n];
    mx_shape_t *shape = mx_alloc(entries * sizeof *shape);
    int *type = mx_alloc(entries * sizeof *type);
    bool *is_aux = mx_alloc((size_t)g->n);
    mx_code code = shape && type && is_aux ? MX_OK : MX_ERR_MEMORY;
    if (!code) {
        mx_graph_auxiliary(g, is_aux);
        code = infer_alone(g, shape, type);
    }
    for (int aux = 0; aux < 2; aux++)
        for (int64_t i = 0; !code && i < g->n; i++)
            if (!g->nodes[i]->op && s->input[i] < 0 && is_aux[i] == aux)
                code = make_parameter(block, s, i, aux, &shape[g->row[i]], type[g->row[i]], shared);
    mx_free(shape, entries * sizeof *shape);
    mx_free(type, entries * sizeof *type);
    mx_free(is_aux, (size_t)g->n);
    return code;
}

/* The symbol's graph with copies of its variables. */
typedef struct copying {
    mx_pointers made; /* retained */
    bool failed;
} copying;

static bool copy_variable(const mx_graph *graph, int64_t i, void *user, mx_gentry *other)
{
    copying *c = user;
    if (graph->nodes[i]->op || c->failed)
        return false;
    mx_gnode *copy = mx_gnode_with_inputs(graph->nodes[i], NULL);
    if (copy)
        copy->owner = NULL; /* its parameter is set later */
    if (!copy || !mx_vec_push(&c->made, (void *)copy)) {
        mx_release(copy);
        c->failed = true;
        return false;
    }
    *other = (mx_gentry){copy, 0};
    return true;
}

static mx_code copy_graph(symbol_block *s, const mx_symbol *outputs)
{
    mx_graph graph = {0};
    copying c = {0};
    mx_gentry *results = mx_alloc_zero((size_t)outputs->n * sizeof *results);
    mx_code code = results ? mx_graph_of(&graph, outputs->n, outputs->outputs) : MX_ERR_MEMORY;
    code = code ? code : mx_graph_rebuild(&graph, copy_variable, &c, results);
    code = code ? code : c.failed ? mx_error_code() : mx_graph_of(&s->graph, outputs->n, results);
    for (int64_t i = 0; results && i < outputs->n; i++)
        mx_release(results[i].node);
    for (int64_t i = 0; i < c.made.length; i++)
        mx_release(c.made.items[i]);
    mx_vec_free(&c.made);
    mx_free(results, (size_t)outputs->n * sizeof *results);
    mx_graph_free(&graph);
    return code;
}

static symbol_block *new_state(const mx_symbol *outputs, const char *inputs, bool unused)
{
    symbol_block *s = mx_alloc_zero(sizeof *s);
    if (!s)
        return NULL;
    mx_code code = copy_graph(s, outputs);
    if (!code) {
        s->input = mx_alloc_zero((size_t)s->graph.n * sizeof *s->input);
        s->parameter = mx_alloc_zero((size_t)s->graph.n * sizeof *s->parameter);
        code = s->input && s->parameter ? split_names(s, inputs) : MX_ERR_MEMORY;
    }
    code = code ? code : find_inputs(s, unused);
    if (!code)
        return s;
    release(s);
    return NULL;
}

/* Its parameters keep the names of the variables: enclosing name scopes do not count. */
static mx_block *new_block(symbol_block *s)
{
    mx_block *outer = mx_thread.name_scope;
    mx_thread.name_scope = NULL;
    mx_block *block = mx_block_new("SymbolBlock", NULL, .forward_many = forward, .hybrid = true, .prefix = "",
                                   .user = s, .release = release);
    mx_thread.name_scope = outer;
    if (!block)
        release(s);
    return block;
}

mx_block *mx_symbol_block_with(mx_symbol *outputs, const char *inputs, mx_params *shared, bool unused)
{
    if (!mx_symbol_ok(outputs, "mx_symbol_block"))
        return NULL;
    if (!inputs)
        return mx_fail_null(MX_ERR_ARGUMENT, "mx_symbol_block: inputs is NULL, wanted names of variables");
    symbol_block *s = new_state(outputs, inputs, unused);
    if (!s)
        return NULL;
    mx_scope scope = mx_scope_open();
    mx_block *block = new_block(s);
    if (block && make_parameters(block, s, shared))
        block = NULL;
    return mx_scope_return(&scope, block);
}

mx_block *mx_symbol_block(mx_symbol *outputs, const char *inputs)
{
    return mx_symbol_block_with(outputs, inputs, NULL, false);
}

mx_names mx_symbol_block_inputs(const mx_block *block)
{
    return block->release == release ? ((const symbol_block *)block->user)->names : (mx_names){NULL, -1};
}

mx_symbol *mx_symbol_block_outputs(const mx_block *block)
{
    const mx_graph *g = &((const symbol_block *)block->user)->graph;
    mx_gentry *entries = mx_alloc((size_t)g->n_results * sizeof *entries);
    for (int64_t i = 0; entries && i < g->n_results; i++) {
        const int64_t node = mx_graph_node_of(g, g->results[i]);
        entries[i] = (mx_gentry){g->nodes[node], (uint32_t)(g->results[i] - g->row[node])};
    }
    mx_symbol *outputs = entries ? mx_scope_add(mx_symbol_new(g->n_results, entries)) : NULL;
    mx_free(entries, (size_t)g->n_results * sizeof *entries);
    return outputs;
}

mx_block *mx_import(const char *symbol_path, const char *inputs, const char *params_path)
{
    mx_scope scope = mx_scope_open();
    mx_symbol *symbol = mx_symbol_load(symbol_path);
    mx_block *block = symbol ? mx_symbol_block(symbol, inputs) : NULL;
    if (block && params_path) {
        const struct mx_load_options options = {.cast_dtype = true};
        if (mx_params_load(block->params, params_path, &options))
            block = NULL;
    }
    return mx_scope_return(&scope, block);
}
