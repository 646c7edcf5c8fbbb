/* infer_shape and infer_type of a symbol: known shapes by name, results as lists.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "graph/infer.h"
#include "graph/symbol.h"

typedef struct asking {
    mx_graph graph;
    bool *is_aux;      /* (graph.n) */
    mx_shape_t *shape; /* per entry */
    int *type;
    int64_t entries;
} asking;

/* Owned by the scope: the public struct and everything it points to in one block. */
typedef struct result {
    mx_object object;
    size_t bytes;
    mx_inferred inferred;
} result;

static void destroy(mx_object *self) { mx_free(self, ((result *)self)->bytes); }
static const mx_kind result_kind = {"result of inference", destroy};

/* ---- what is known --------------------------------------------------------------------------------------------- */

static bool is_meant(const asking *a, int64_t i, const char *name)
{
    const mx_gnode *node = a->graph.nodes[i];
    return !node->op && (name ? !strcmp(node->name, name) : !a->is_aux[i]);
}

/* Which of the variables that entry i of what is known may mean is the first that it does mean: the second entry of a
 * name is for the second variable of that name. */
static int first_meant(const struct mx_known *known, int i)
{
    int before = 0;
    for (int k = 0; k < i; k++)
        before += !known->names || !known->names[i] || (known->names[k] && !strcmp(known->names[k], known->names[i]));
    return before;
}

static mx_code set_entry(asking *a, int64_t entry, const struct mx_known *known, int i)
{
    if (known->types)
        a->type[entry] = known->types[i];
    if (!known->shapes || known->shapes[i].n < 0)
        return MX_OK;
    const bool clean = !mx_has_error();
    mx_shape_t shape = mx_shape_of_dims(&known->shapes[i]);
    if (clean && mx_has_error())
        return mx_error_code();
    for (int k = 0; k < shape.ndim; k++)
        shape.dim[k] = shape.dim[k] > 0 || (shape.dim[k] == 0 && mx_is_np_shape()) ? shape.dim[k] : -1;
    a->shape[entry] = shape;
    return MX_OK;
}

static mx_code set_known(asking *a, const struct mx_known *known, int i)
{
    const char *name = known->names ? known->names[i] : NULL;
    int skip = first_meant(known, i);
    bool found = false;
    for (int64_t k = 0; k < a->graph.n && (name || !found); k++) {
        if (!is_meant(a, k, name) || skip-- > 0)
            continue;
        found = true;
        if (set_entry(a, a->graph.row[k], known, i))
            return mx_error_code();
    }
    if (!found && name)
        return mx_fail(MX_ERR_ARGUMENT, "mx_symbol_infer: the symbol has no argument named '%s'", name);
    if (!found)
        return mx_fail(MX_ERR_ARGUMENT, "mx_symbol_infer: %d shapes were given, the symbol has fewer arguments",
                       known->count);
    return MX_OK;
}

static mx_code set_all_known(asking *a, const struct mx_known *known)
{
    for (int i = 0; known && i < known->count; i++)
        if (set_known(a, known, i))
            return mx_error_code();
    return MX_OK;
}

/* ---- results --------------------------------------------------------------------------------------------------- */

static void put(const asking *a, int64_t entry, mx_dims *shape, mx_dtype *type, mx_inferred *all)
{
    mx_shape_t known = a->shape[entry];
    all->complete = all->complete && mx_shape_known(&known);
    all->typed = all->typed && a->type[entry] != MX_DTYPE_NONE;
    for (int k = 0; k < known.ndim; k++)
        known.dim[k] = known.dim[k] < 0 && !mx_is_np_shape() ? 0 : known.dim[k];
    *shape = known.ndim < 0 ? MX_NO_DIMS : mx_dims_of_shape(&known);
    *type = (mx_dtype)a->type[entry];
}

static void fill(const asking *a, mx_inferred *all, mx_dims *shapes, mx_dtype *types)
{
    int64_t at = 0;
    all->complete = all->typed = true;
    for (int aux = 0; aux < 2; aux++) {
        *(aux ? &all->auxiliary : &all->arguments) = shapes + at;
        *(aux ? &all->auxiliary_types : &all->argument_types) = types + at;
        const int64_t begin = at;
        for (int64_t i = 0; i < a->graph.n; i++)
            if (!a->graph.nodes[i]->op && a->is_aux[i] == (aux == 1)) {
                put(a, a->graph.row[i], &shapes[at], &types[at], all);
                at++;
            }
        *(aux ? &all->n_auxiliary : &all->n_arguments) = at - begin;
    }
    all->outputs = shapes + at, all->output_types = types + at, all->n_outputs = a->graph.n_results;
    for (int64_t i = 0; i < a->graph.n_results; i++)
        put(a, a->graph.results[i], &shapes[at + i], &types[at + i], all);
}

static result *make_result(const asking *a)
{
    const size_t most = (size_t)(a->graph.n + a->graph.n_results);
    const size_t bytes = sizeof(result) + most * (sizeof(mx_dims) + sizeof(mx_dtype));
    result *r = mx_alloc_zero(bytes);
    if (!r)
        return NULL;
    mx_object_init(&r->object, &result_kind);
    r->bytes = bytes;
    mx_dims *shapes = (mx_dims *)(r + 1);
    fill(a, &r->inferred, shapes, (mx_dtype *)(shapes + most));
    return r;
}

static mx_code say_what_is_missing(const asking *a)
{
    mx_text text = {0};
    char shape[MX_SHAPE_TEXT];
    int count = 0;
    for (int64_t i = 0; i < a->graph.n; i++) {
        const mx_gnode *node = a->graph.nodes[i];
        const mx_shape_t *known = &a->shape[a->graph.row[i]];
        if (node->op || mx_shape_known(known) || count == 8)
            continue;
        mx_text_print(&text, "%s%s %s", count++ ? ", " : "", node->name, mx_shape_text(known, shape));
    }
    const char *list = mx_text_get(&text);
    mx_code code = mx_fail(MX_ERR_SHAPE, "mx_symbol_infer: these shapes do not follow from what was given: %s",
                           list && *list ? list : "those of outputs");
    mx_text_free(&text);
    return code;
}

static mx_code ask(asking *a, const mx_symbol *symbol, const struct mx_known *known)
{
    if (mx_graph_of(&a->graph, symbol->n, symbol->outputs))
        return mx_error_code();
    a->entries = a->graph.row[a->graph.n];
    a->is_aux = mx_alloc((size_t)a->graph.n);
    a->shape = mx_alloc((size_t)a->entries * sizeof *a->shape);
    a->type = mx_alloc((size_t)a->entries * sizeof *a->type);
    if (!a->is_aux || !a->shape || !a->type)
        return MX_ERR_MEMORY;
    mx_graph_auxiliary(&a->graph, a->is_aux);
    mx_graph_infer_start(&a->graph, a->shape, a->type);
    mx_code code = set_all_known(a, known);
    return code ? code : mx_graph_infer(&a->graph, a->shape, a->type);
}

const mx_inferred *mx_symbol_infer(const mx_symbol *symbol, const struct mx_known *known)
{
    if (!mx_symbol_ok(symbol, "mx_symbol_infer"))
        return NULL;
    if (known && (known->count < 0 || (known->count && !known->shapes && !known->types)))
        return mx_fail_null(MX_ERR_ARGUMENT, "mx_symbol_infer: neither shapes nor types were given");
    asking a = {0};
    mx_code code = ask(&a, symbol, known);
    result *r = code ? NULL : make_result(&a);
    if (r && !r->inferred.complete && !(known && known->partial)) {
        say_what_is_missing(&a);
        mx_release(r);
        r = NULL;
    }
    mx_free(a.is_aux, (size_t)a.graph.n);
    mx_free(a.shape, (size_t)a.entries * sizeof *a.shape);
    mx_free(a.type, (size_t)a.entries * sizeof *a.type);
    mx_graph_free(&a.graph);
    r = mx_scope_add(r);
    return r ? &r->inferred : NULL;
}
