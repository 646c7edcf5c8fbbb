/* Copies of networks (mx_block_copy).
 *
 *     block --build--> a block of the same class, options and prefix --fill--> copies of its parameters and children
 *
 * What the original shares, a parameter of two layers or a block in two places, its copy shares as well: `done` maps what
 * was copied to its copy.  Plans, hooks and wrappers of other languages stay with the original.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/text.h"
#include "base/thread.h"
#include "exec/list.h"
#include "gluon/block/core.h"
#include "gluon/rnn/cell.h"

typedef struct copied {
    const void *from;
    void *to; /* belongs to the scope of mx_block_copy */
} copied;

typedef struct copying {
    MX_VEC(copied) done;
} copying;

static void *find(const copying *c, const void *from)
{
    for (int64_t i = 0; i < c->done.length; i++)
        if (c->done.items[i].from == from)
            return c->done.items[i].to;
    return NULL;
}

static void *note(copying *c, const void *from, void *to)
{
    return to && mx_vec_push(&c->done, ((copied){from, to})) ? to : NULL;
}

/* ---- parameters ---------------------------------------------------------------------------------------------------- */

static mx_code copy_values(const mx_parameter *from, mx_parameter *to)
{
    mx_array *copies[MX_MAX_CONTEXTS];
    for (int i = 0; i < from->count; i++)
        if (!(copies[i] = mx_array_copy(from->data[i])))
            return mx_error_code();
    return mx_parameter_take(to, (mx_arrays){copies, from->count});
}

static mx_code copy_waiting(const mx_parameter *from, mx_parameter *to)
{
    if (mx_parameter_initialize(to, from->deferred_init, from->contexts, from->count, true))
        return mx_error_code();
    return from->deferred_value ? mx_parameter_set_data(to, from->deferred_value) : MX_OK;
}

static mx_parameter *copy_parameter(copying *c, mx_parameter *p)
{
    mx_parameter *made = find(c, p);
    if (made)
        return made;
    made = mx_parameter_new(p->name, .dtype = p->dtype, .grad_req = p->req, .lr_mult = p->lr_mult,
                            .wd_mult = p->wd_mult, .init = p->init, .allow_deferred_init = p->allow_deferred,
                            .differentiable = p->differentiable, .stype = p->stype, .grad_stype = p->grad_stype);
    if (!made)
        return NULL;
    made->shape = p->shape;
    made->constant = p->constant, made->ones = p->ones, made->dtype_named = p->dtype_named;
    if (p->count && (p->deferred ? copy_waiting(p, made) : copy_values(p, made)))
        return NULL;
    return note(c, p, made);
}

static mx_params *copy_params(copying *c, mx_params *params)
{
    mx_params *made = find(c, params), *shared = NULL;
    if (made)
        return made;
    if (params->shared && !(shared = copy_params(c, params->shared)))
        return NULL;
    made = mx_params_new(params->prefix, shared);
    for (int64_t i = 0; made && i < params->entries.length; i++) {
        mx_parameter *p = copy_parameter(c, params->entries.entries[i].pointer);
        if (!p || mx_params_add(made, p))
            return NULL;
    }
    return note(c, params, made);
}

/* ---- building ------------------------------------------------------------------------------------------------------ */

static mx_block *copy_block(copying *c, mx_block *block);

/* Options of a modifier hold the cell inside it: the copy's are those of the copied cell, which must be free to take. */
static mx_code copy_cells(copying *c, const mx_class *cls, char *options)
{
    for (int i = 0; cls->schema && i < cls->schema->count; i++) {
        const mx_field *field = &cls->schema->fields[i];
        mx_block **inside = (mx_block **)(void *)(options + field->offset);
        if (field->type != MX_FIELD_PTR || strcmp(field->rule, "mx_block") || !*inside)
            continue;
        if (!(*inside = copy_block(c, *inside)))
            return mx_error_code();
        if ((*inside)->cell)
            (*inside)->cell->modified = false;
    }
    return MX_OK;
}

static mx_block *build_layer(copying *c, mx_block *block, const mx_block_naming *naming)
{
    const size_t bytes = block->cls->schema ? block->cls->schema->size : 0;
    char *options = mx_alloc(bytes + 1);
    if (!options)
        return NULL;
    if (bytes)
        memcpy(options, block->options, bytes);
    mx_block *made =
        copy_cells(c, block->cls, options) ? NULL : mx_layer_make((mx_class *)(uintptr_t)block->cls, options, naming);
    mx_free(options, bytes + 1);
    return made;
}

static mx_block *build_of_symbol(copying *c, mx_block *block, mx_names names)
{
    mx_text inputs = {0};
    for (int64_t i = 0; i < names.n; i++)
        mx_text_print(&inputs, "%s%s", i ? " " : "", names.v[i]);
    mx_params *params = copy_params(c, block->params);
    mx_symbol *outputs = params ? mx_symbol_block_outputs(block) : NULL;
    const char *text = mx_text_get(&inputs);
    mx_block *made = outputs && text ? mx_symbol_block_with(outputs, text, params, true) : NULL;
    mx_text_free(&inputs);
    return made;
}

/* A container, a lambda, or a user's block: the copy has the same functions and the same user pointer. */
static mx_block *build_own(const mx_block *block, const mx_block_naming *naming)
{
    if (block->release || block->around || block->collects || block->cell)
        return mx_fail_null(MX_ERR_UNSUPPORTED,
                            "mx_block_copy: %s (%s) has state of its own that the library cannot copy", block->name,
                            block->class_name);
    mx_block *made = mx_scope_add(mx_block_named(naming));
    if (made)
        made->forward = block->forward, made->forward_many = block->forward_many, made->user = block->user;
    return made;
}

static mx_block *build(copying *c, mx_block *block)
{
    const mx_block_naming naming = {block->class_name, NULL, block->prefix, NULL};
    const mx_names names = mx_symbol_block_inputs(block);
    return names.n >= 0   ? build_of_symbol(c, block, names)
           : block->layer ? build_layer(c, block, &naming)
                          : build_own(block, &naming);
}

/* ---- filling ------------------------------------------------------------------------------------------------------- */

typedef void *(*copier)(copying *c, void *from);
static void *a_block(copying *c, void *from) { return copy_block(c, from); }
static void *a_parameter(copying *c, void *from) { return copy_parameter(c, from); }

typedef struct entries {
    const char **names;
    void **objects;
    int64_t n;
} entries;

/* Copies of what a dictionary holds, in its order; free_entries() in any case. */
static mx_code copy_entries(copying *c, const mx_dict *dict, copier copy, entries *e)
{
    const size_t bytes = (size_t)(dict->length + 1) * sizeof(void *);
    *e = (entries){mx_alloc_zero(bytes), mx_alloc_zero(bytes), dict->length};
    for (int64_t i = 0; e->names && e->objects && i < e->n; i++) {
        e->names[i] = dict->entries[i].key;
        if (!(e->objects[i] = copy(c, dict->entries[i].pointer)))
            return mx_error_code();
    }
    return e->names && e->objects ? MX_OK : MX_ERR_MEMORY;
}

static void free_entries(entries *e)
{
    const size_t bytes = (size_t)(e->n + 1) * sizeof(void *);
    mx_free(e->names, bytes);
    mx_free(e->objects, bytes);
}

static mx_code fill_parts(copying *c, mx_block *from, mx_block *to)
{
    entries e;
    mx_params *params = copy_params(c, from->params), *old = to->params;
    if (!params)
        return mx_error_code();
    to->params = mx_retain(params);
    mx_release(old);
    mx_code code = copy_entries(c, &from->attributes, a_parameter, &e);
    code = code ? code : mx_block_set_attributes(to, e.n, e.names, (mx_parameter *const *)e.objects);
    free_entries(&e);
    if (code)
        return code;
    code = copy_entries(c, &from->children, a_block, &e);
    code = code ? code : mx_block_set_children(to, e.n, e.names, (mx_block *const *)e.objects);
    free_entries(&e);
    return code;
}

static mx_code fill_cell(const mx_cell *from, mx_cell *to)
{
    to->counter = from->counter, to->init_counter = from->init_counter, to->modified = from->modified;
    for (int i = 0; i < MX_CELL_MEMORY; i++) {
        const bool kept = from->memory[i] && from->memory[i]->storage; /* not a symbol of an unrolled graph */
        mx_array *copy = kept ? mx_array_copy(from->memory[i]) : NULL;
        if (kept && !copy)
            return mx_error_code();
        mx_release(to->memory[i]);
        to->memory[i] = mx_retain(copy);
    }
    return MX_OK;
}

static mx_code fill(copying *c, mx_block *from, mx_block *to)
{
    to->plain_scope = from->plain_scope, to->hybrid = from->hybrid, to->sequential = from->sequential;
    to->hybridized = from->hybridized, to->static_alloc = from->static_alloc, to->recompute = from->recompute;
    to->whole = from->whole;
    for (int64_t i = 0; i < from->counters.length; i++)
        if (!mx_dict_set_number(&to->counters, from->counters.entries[i].key, from->counters.entries[i].number))
            return mx_error_code();
    if (from->prepared && to->prepared && from->prepared_bytes == to->prepared_bytes)
        memcpy(to->prepared, from->prepared, from->prepared_bytes); /* keywords of the operator that a user changed */
    if (from->cell && to->cell && fill_cell(from->cell, to->cell))
        return mx_error_code();
    return fill_parts(c, from, to);
}

static mx_block *copy_block(copying *c, mx_block *block)
{
    mx_block *made = find(c, block);
    if (made)
        return made;
    made = note(c, block, build(c, block));
    return made && !fill(c, block, made) ? made : NULL;
}

mx_block *mx_block_copy(mx_block *block)
{
    if (!mx_is_kind(block, &mx_block_kind, "mx_block_copy", "block"))
        return NULL;
    mx_scope scope = mx_scope_open();
    mx_block *outer = mx_thread.name_scope;
    copying c = {0};
    mx_thread.name_scope = NULL; /* names stay as they are, wherever the copy is made */
    mx_block *made = copy_block(&c, block);
    mx_thread.name_scope = outer;
    mx_vec_free(&c.done);
    return mx_scope_return(&scope, made);
}
