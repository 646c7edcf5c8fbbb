/* Executors that make their arrays: simple_bind, and reshape, which shares the arrays of another executor.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "exec/executor.h"
#include "exec/list.h"

/* ---- simple_bind ----------------------------------------------------------------------------------------------- */

static mx_array *zeros(const mx_dims *dims, mx_dtype type, mx_context context, mx_stype stype)
{
    type = type == MX_DTYPE_NONE ? MX_FLOAT32 : type;
    if (stype != MX_STYPE_DEFAULT)
        return mx_sparse_zeros(stype, *dims, type, context);
    mx_array *x = mx_empty(*dims, type, context);
    return x && !mx_array_fill(x, 0) ? x : NULL;
}

/* Constants of the graph are arguments that have their array already. */
static mx_code make_arrays(const mx_symbol *symbol, const mx_inferred *r, mx_context context, mx_grad_req req,
                           mx_array **args, mx_array **grads, mx_array **aux)
{
    const mx_names names = mx_symbol_arguments(symbol);
    for (int64_t i = 0; i < r->n_arguments; i++) {
        mx_array *constant = i < names.n ? mx_symbol_constant(symbol, names.v[i]) : NULL;
        const mx_stype stype = i < names.n ? mx_symbol_stype(symbol, names.v[i]) : MX_STYPE_DEFAULT;
        const mx_stype of_grad = i < names.n ? mx_gradient_stype(symbol, names.v[i]) : MX_STYPE_DEFAULT;
        args[i] = constant ? constant : zeros(&r->arguments[i], r->argument_types[i], context, stype);
        grads[i] = req == MX_GRAD_NULL ? MX_NONE : zeros(&r->arguments[i], r->argument_types[i], context, of_grad);
        if (!args[i] || !grads[i])
            return mx_error_code();
    }
    for (int64_t i = 0; i < r->n_auxiliary; i++)
        if (!(aux[i] = zeros(&r->auxiliary[i], r->auxiliary_types[i], context, MX_STYPE_DEFAULT)))
            return mx_error_code();
    return MX_OK;
}

mx_executor *mx_simple_bind(const mx_symbol *symbol, mx_context context, const struct mx_known *known, mx_grad_req req)
{
    if (!mx_symbol_ok(symbol, "mx_simple_bind"))
        return NULL;
    mx_scope scope = mx_scope_open();
    mx_executor *e = NULL;
    const mx_inferred *r = mx_symbol_infer(symbol, known);
    const int64_t n = r ? r->n_arguments : 0;
    mx_array **lists = r ? mx_list_new(2 * n + r->n_auxiliary) : NULL;
    mx_grad_req *reqs = lists ? mx_alloc((size_t)n * sizeof *reqs) : NULL;
    if (reqs && !make_arrays(symbol, r, context, req, lists, lists + n, lists + 2 * n)) {
        for (int64_t i = 0; i < n; i++)
            reqs[i] = req;
        struct mx_bindings b = {{lists, n}, {lists + n, n}, reqs, {lists + 2 * n, r->n_auxiliary}};
        e = mx_bind(symbol, context, &b);
    }
    mx_free(reqs, (size_t)n * sizeof *reqs);
    return mx_scope_return(&scope, e);
}

/* ---- reshape --------------------------------------------------------------------------------------------------- */

typedef struct reshaping {
    const mx_executor *before;
    const struct mx_known *known;
    const struct mx_resizing *how;
} reshaping;

/* Name of argument (auxiliary state) number i. */
static const char *name_of(const mx_executor *e, int64_t i, bool aux)
{
    for (int64_t k = 0; k < e->graph.n; k++)
        if (!e->graph.nodes[k]->op && e->place[k] == (aux ? -1 - i : i))
            return e->graph.nodes[k]->name;
    return "";
}

static bool was_given(const struct mx_known *known, const char *name, int64_t position)
{
    if (!known->names)
        return position < known->count;
    for (int k = 0; k < known->count; k++)
        if (known->names[k] && !strcmp(known->names[k], name))
            return true;
    return false;
}

static mx_code refuse(const char *name, const mx_shape_t *old, const mx_shape_t *new, const char *option)
{
    char a[MX_SHAPE_TEXT], b[MX_SHAPE_TEXT];
    return mx_fail(MX_ERR_ARGUMENT, "reshape: the shape of %s would change from %s to %s; set %s to allow that", name,
                   mx_shape_text(old, a), mx_shape_text(new, b), option);
}

static mx_code check_resize(const reshaping *r, int64_t i, bool aux, const mx_array *old, const mx_shape_t *shape)
{
    const mx_shape_t have = mx_array_shape(old);
    const char *name = name_of(r->before, i, aux);
    if (mx_shape_equal(&have, shape))
        return MX_OK;
    if (!r->how->partial_shaping && (aux || !was_given(r->known, name, i)))
        return refuse(name, &have, shape, "partial_shaping");
    if (!r->how->allow_up_sizing && mx_shape_size(shape) > old->size)
        return refuse(name, &have, shape, "allow_up_sizing");
    return MX_OK;
}

/* `old` itself if the shape is the same, its leading part if that is smaller, else a new array. */
static mx_array *resize(mx_array *old, const mx_shape_t *shape)
{
    const mx_shape_t have = mx_array_shape(old);
    if (mx_shape_equal(&have, shape))
        return old;
    mx_array *part = mx_leading_part(old, shape);
    const mx_dims dims = mx_dims_of_shape(shape);
    return part ? mx_scope_add(part) : zeros(&dims, (mx_dtype)old->dtype, old->context, mx_stype_of(old));
}

static mx_code resize_all(const reshaping *r, const mx_inferred *found, mx_array **args, mx_array **grads,
                          mx_array **aux)
{
    const mx_executor *e = r->before;
    for (int64_t i = 0; i < e->n_args; i++) {
        const mx_shape_t shape = mx_shape_of_dims(&found->arguments[i]);
        if (check_resize(r, i, false, e->args[i], &shape))
            return mx_error_code();
        args[i] = resize(e->args[i], &shape);
        grads[i] = e->grads[i] == MX_NONE ? MX_NONE : resize(e->grads[i], &shape);
        if (!args[i] || !grads[i])
            return mx_error_code();
    }
    for (int64_t i = 0; i < e->n_aux; i++) {
        const mx_shape_t shape = mx_shape_of_dims(&found->auxiliary[i]);
        if (check_resize(r, i, true, e->aux[i], &shape) || !(aux[i] = resize(e->aux[i], &shape)))
            return mx_error_code();
    }
    return MX_OK;
}

mx_executor *mx_executor_reshape(const mx_executor *e, const struct mx_known *known, const struct mx_resizing *how)
{
    if (!mx_executor_ok(e, "mx_executor_reshape"))
        return NULL;
    const reshaping r = {e, known ? known : &(struct mx_known){0}, how ? how : &(struct mx_resizing){0}};
    mx_scope scope = mx_scope_open();
    mx_executor *made = NULL;
    const mx_inferred *found = mx_symbol_infer(e->symbol, known);
    const int64_t n = e->n_args;
    mx_array **lists = found ? mx_list_new(2 * n + e->n_aux) : NULL;
    if (lists && !resize_all(&r, found, lists, lists + n, lists + 2 * n)) {
        struct mx_bindings b = {{lists, n}, {lists + n, n}, e->reqs, {lists + 2 * n, e->n_aux}};
        made = mx_bind_sharing(e->symbol, e->context, &b, e);
    }
    return mx_scope_return(&scope, made);
}
