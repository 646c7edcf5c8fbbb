/* One parameter: its copies, its deferred initialisation, its gradient request.
 *
 *     new  --initialize--> deferred (shape unknown) --first forward--> ready
 *                     \--> ready (shape known)
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "base/alloc.h"
#include "exec/call.h"
#include "exec/sparse/sparse.h"
#include "gluon/block/core.h"
#include "gluon/block/initialize.h"
#include "gluon/compile/trace.h"

static void forget_data(mx_parameter *p)
{
    for (int i = 0; i < p->count; i++) {
        mx_release(p->data[i]);
        p->data[i] = NULL;
    }
    p->count = 0;
}

static void destroy_parameter(mx_object *object)
{
    mx_parameter *p = (mx_parameter *)object;
    forget_data(p);
    mx_release(p->init);
    mx_release(p->deferred_init);
    mx_release(p->deferred_value);
    mx_release(p->abstract);
    mx_parameter_forget_variable(p);
    if (p->front_state)
        p->front_release(p->front_state);
    mx_strfree(p->name);
    mx_free(p, sizeof *p);
}
const mx_kind mx_parameter_kind = {"parameter", destroy_parameter};

static bool ok(const mx_parameter *p, const char *function)
{
    return mx_is_kind(p, &mx_parameter_kind, function, "parameter");
}

/* Users write 0 for an unknown size. */
static mx_shape_t from_classic(const mx_dims *dims)
{
    if (dims->n < 0)
        return MX_UNKNOWN_SHAPE;
    mx_shape_t shape = mx_shape_of_dims(dims);
    for (int i = 0; i < shape.ndim; i++)
        if (shape.dim[i] <= 0)
            shape.dim[i] = -1;
    return shape;
}

mx_parameter *mx_parameter_make(const struct mx_parameter_options *options)
{
    if (!options || !options->name)
        return mx_fail_null(MX_ERR_ARGUMENT, "mx_parameter_new: name is NULL, wanted a text");
    if (options->init && !mx_is_kind(options->init, &mx_initializer_kind, "mx_parameter_new", "init"))
        return NULL;
    if (options->grad_req != MX_GRAD_NULL && options->grad_req != MX_GRAD_WRITE && options->grad_req != MX_GRAD_ADD)
        return mx_fail_null(MX_ERR_ARGUMENT, "parameter %s: unknown gradient request %d", options->name,
                            (int)options->grad_req);
    if (options->shape.n > MX_MAX_NDIM)
        return mx_fail_null(MX_ERR_SHAPE, "parameter %s: %d axes, at most %d are possible", options->name,
                            options->shape.n, MX_MAX_NDIM);
    if (!mx_dtype_size(options->dtype))
        return mx_fail_null(MX_ERR_DTYPE, "parameter %s: %d is not an element type", options->name, options->dtype);
    if (options->stype < 0 || options->stype > MX_CSR || options->grad_stype < 0 || options->grad_stype > MX_CSR)
        return mx_fail_null(MX_ERR_ARGUMENT, "parameter %s: unknown storage type", options->name);
    mx_parameter *p = mx_alloc_zero(sizeof *p);
    if (!p)
        return NULL;
    mx_object_init(&p->object, &mx_parameter_kind);
    p->stype = options->stype, p->grad_stype = options->grad_stype;
    p->name = mx_strdup(options->name);
    p->shape = from_classic(&options->shape);
    p->dtype = options->dtype;
    p->req = options->differentiable ? options->grad_req : MX_GRAD_NULL;
    p->lr_mult = options->lr_mult, p->wd_mult = options->wd_mult;
    p->init = mx_retain(options->init);
    p->allow_deferred = options->allow_deferred_init;
    p->differentiable = options->differentiable;
    if (!p->name) {
        mx_release(p);
        return NULL;
    }
    return mx_scope_add(p);
}

mx_parameter *mx_constant_new(const char *name, mx_array *value)
{
    if (!mx_array_ok(value, "mx_constant_new", "value"))
        return NULL;
    mx_parameter *p =
        mx_parameter_new(name, .shape = mx_shape(value), .dtype = mx_dtype_of(value), .differentiable = false,
                         .grad_req = MX_GRAD_NULL, .init = mx_initializer_of_value(value));
    if (p) {
        p->constant = true;
        p->shape = mx_array_shape(value);
    }
    return p;
}

/* ---- looking ---------------------------------------------------------------------------------------------- */

const char *mx_parameter_name(const mx_parameter *p) { return ok(p, "mx_parameter_name") ? p->name : NULL; }
mx_dtype mx_parameter_dtype(const mx_parameter *p) { return ok(p, "mx_parameter_dtype") ? p->dtype : MX_DTYPE_NONE; }
mx_grad_req mx_parameter_grad_req(const mx_parameter *p)
{
    return ok(p, "mx_parameter_grad_req") ? p->req : MX_GRAD_NULL;
}
double mx_parameter_lr_mult(const mx_parameter *p) { return ok(p, "mx_parameter_lr_mult") ? p->lr_mult : 0; }
double mx_parameter_wd_mult(const mx_parameter *p) { return ok(p, "mx_parameter_wd_mult") ? p->wd_mult : 0; }
bool mx_parameter_ready(const mx_parameter *p) { return ok(p, "mx_parameter_ready") && p->count && !p->deferred; }

mx_dims mx_parameter_shape(const mx_parameter *p)
{
    mx_dims dims = {.n = -1};
    if (!ok(p, "mx_parameter_shape") || p->shape.ndim < 0)
        return dims;
    dims.n = p->shape.ndim;
    for (int i = 0; i < dims.n; i++)
        dims.d[i] = p->shape.dim[i] < 0 && !mx_is_np_shape() ? 0 : p->shape.dim[i];
    return dims;
}

int mx_parameter_contexts(const mx_parameter *p, mx_context *contexts, int capacity)
{
    if (!ok(p, "mx_parameter_contexts"))
        return 0;
    if (!contexts)
        return p->count;
    for (int i = 0; i < p->count && i < capacity; i++)
        contexts[i] = p->contexts[i];
    return p->count;
}

static mx_code merge_shape(mx_parameter *p, const mx_shape_t *shape)
{
    char a[MX_SHAPE_TEXT], b[MX_SHAPE_TEXT];
    mx_shape_t merged = p->shape;
    if (mx_shape_merge(&merged, shape, NULL)) {
        p->shape = merged;
        return MX_OK;
    }
    return mx_fail(MX_ERR_SHAPE,
                   "parameter %s has shape %s, wanted %s; was the input size changed after the first forward?", p->name,
                   mx_shape_text(&p->shape, a), mx_shape_text(shape, b));
}

mx_code mx_parameter_set_shape(mx_parameter *p, mx_dims shape)
{
    if (!ok(p, "mx_parameter_set_shape"))
        return mx_error_code();
    if (shape.n > MX_MAX_NDIM)
        return mx_fail(MX_ERR_SHAPE, "parameter %s: %d axes, at most %d are possible", p->name, shape.n, MX_MAX_NDIM);
    mx_shape_t known = from_classic(&shape);
    return merge_shape(p, &known);
}

mx_code mx_parameter_replace_shape(mx_parameter *p, mx_dims shape)
{
    if (shape.n > MX_MAX_NDIM)
        return mx_fail(MX_ERR_SHAPE, "parameter %s: %d axes, at most %d are possible", p->name, shape.n, MX_MAX_NDIM);
    p->shape = from_classic(&shape);
    mx_release(p->abstract);
    p->abstract = NULL;
    mx_parameter_forget_variable(p);
    return MX_OK;
}

mx_code mx_parameter_set_mults(mx_parameter *p, double lr_mult, double wd_mult)
{
    if (!ok(p, "mx_parameter_set_mults"))
        return mx_error_code();
    p->lr_mult = lr_mult, p->wd_mult = wd_mult;
    mx_parameter_forget_variable(p);
    return MX_OK;
}

/* ---- initialisation ---------------------------------------------------------------------------------------- */

static mx_code attach(mx_parameter *p, mx_array *data)
{
    return p->req == MX_GRAD_NULL ? MX_OK : mx_attach_grad_as(data, p->req, p->grad_stype);
}

/* Values are computed once on the CPU and copied, so that all contexts start with the same values.  All copies are made
 * before the first is installed: a failure leaves the parameter unchanged. */
static mx_code place(mx_parameter *p, mx_array *value)
{
    MX_SCOPE;
    mx_array *copies[MX_MAX_CONTEXTS];
    mx_mode mode = mx_mode_enter(0, -1);
    mx_code code = MX_OK;
    for (int i = 0; !code && i < p->count; i++) {
        copies[i] = mx_scope_add(mx_array_new(&p->shape, p->dtype, p->contexts[i]));
        if (!copies[i] || mx_array_set(copies[i], value) || attach(p, copies[i]))
            code = mx_error_code();
    }
    mx_mode_leave(&mode);
    for (int i = 0; !code && i < p->count; i++) {
        mx_release(p->data[i]);
        p->data[i] = mx_retain(copies[i]);
    }
    return code;
}

static mx_code make_value(mx_parameter *p, mx_initializer *init)
{
    MX_SCOPE;
    mx_array *value = mx_scope_add(mx_array_new(&p->shape, p->dtype, mx_cpu(0)));
    mx_mode mode = mx_mode_enter(0, 0);
    mx_code code = value ? mx_initializer_fill(init, p->name, value) : mx_error_code();
    mx_mode_leave(&mode);
    return code ? code : place(p, value);
}

mx_code (*mx_parameter_settled)(mx_parameter *p);

mx_code mx_parameter_finish(mx_parameter *p)
{
    if (!p->deferred)
        return MX_OK;
    if (!mx_shape_known(&p->shape)) {
        char text[MX_SHAPE_TEXT];
        return mx_fail(MX_ERR_DEFERRED, "parameter %s: its shape %s is still unknown", p->name,
                       mx_shape_text(&p->shape, text));
    }
    mx_code code = p->deferred_value ? place(p, p->deferred_value) : make_value(p, p->deferred_init);
    if (code)
        return code;
    p->deferred = false;
    mx_release(p->deferred_init);
    mx_release(p->deferred_value);
    p->deferred_init = NULL, p->deferred_value = NULL;
    return (p->front || p->front_state) && mx_parameter_settled ? mx_parameter_settled(p) : MX_OK;
}

/* Drops the data and sets the contexts of the new data; an invalid list leaves the parameter unchanged. */
static mx_code take_contexts(mx_parameter *p, const mx_context *contexts, int count)
{
    mx_context current = mx_current_context();
    if (count <= 0)
        contexts = &current, count = 1;
    if (!contexts)
        return mx_fail(MX_ERR_ARGUMENT, "parameter %s: contexts is NULL, wanted %d of them", p->name, count);
    if (count > MX_MAX_CONTEXTS)
        return mx_fail(MX_ERR_ARGUMENT, "parameter %s: %d contexts, at most %d are possible", p->name, count,
                       MX_MAX_CONTEXTS);
    for (int i = 0; i < count; i++)
        if (!mx_device_of(contexts[i], p->name))
            return mx_error_code();
    forget_data(p);
    for (int i = 0; i < count; i++)
        p->contexts[i] = mx_context_resolve(contexts[i]);
    p->count = count;
    return MX_OK;
}

static void wait_for_shape(mx_parameter *p, mx_initializer *init)
{
    p->deferred = true;
    mx_release(p->deferred_init);
    mx_release(p->deferred_value);
    p->deferred_init = mx_retain(init);
    p->deferred_value = NULL;
}

static mx_code finish_or_forget(mx_parameter *p)
{
    mx_code code = mx_parameter_finish(p);
    if (code) {
        forget_data(p);
        p->deferred = false;
    }
    return code;
}

mx_code mx_parameter_initialize(mx_parameter *p, mx_initializer *default_init, const mx_context *contexts, int count,
                                bool force)
{
    MX_SCOPE;
    if (!ok(p, "mx_parameter_initialize"))
        return mx_error_code();
    if (default_init && !mx_is_kind(default_init, &mx_initializer_kind, "mx_parameter_initialize", "default_init"))
        return mx_error_code();
    if (p->count && !p->deferred && !force)
        return MX_OK; /* already initialised: unchanged, as the values may be trained */
    mx_initializer *init = p->init ? p->init : default_init ? default_init : mx_initializer_named("uniform");
    if (!init)
        return mx_error_code();
    const bool known = mx_shape_known(&p->shape);
    if (!known && !p->allow_deferred) {
        char text[MX_SHAPE_TEXT];
        return mx_fail(MX_ERR_PARAMETER,
                       "parameter %s has the unknown shape %s and does not allow deferred initialisation", p->name,
                       mx_shape_text(&p->shape, text));
    }
    if (take_contexts(p, contexts, count))
        return mx_error_code();
    wait_for_shape(p, init);
    return known ? finish_or_forget(p) : MX_OK;
}

mx_code mx_parameter_load(mx_parameter *p, mx_array *value)
{
    if (!p->count) {
        if (take_contexts(p, NULL, 0))
            return mx_error_code();
        wait_for_shape(p, NULL);
    }
    return mx_parameter_set_data(p, value);
}

/* All copies have one shape and type, and each its own context. */
static mx_code check_copies(const mx_parameter *p, mx_arrays copies)
{
    if (copies.n > MX_MAX_CONTEXTS)
        return mx_fail(MX_ERR_ARGUMENT, "parameter %s: %lld copies, at most %d are possible", p->name,
                       (long long)copies.n, MX_MAX_CONTEXTS);
    for (int64_t i = 0; i < copies.n; i++) {
        const mx_array *x = copies.v[i];
        if (!mx_array_ok(x, p->name, "data"))
            return mx_error_code();
        const mx_shape_t first = mx_array_shape(copies.v[0]), own = mx_array_shape(x);
        if (!x->storage || x->dtype != copies.v[0]->dtype || !mx_shape_equal(&first, &own))
            return mx_fail(MX_ERR_ARGUMENT, "parameter %s: copy %lld differs from the first in shape or type", p->name,
                           (long long)i);
        for (int64_t k = 0; k < i; k++)
            if (mx_context_equal(copies.v[k]->context, x->context))
                return mx_fail(MX_ERR_ARGUMENT, "parameter %s: copies %lld and %lld are on one context", p->name,
                               (long long)k, (long long)i);
    }
    return MX_OK;
}

mx_code mx_parameter_take(mx_parameter *p, mx_arrays copies)
{
    if (check_copies(p, copies))
        return mx_error_code();
    for (int64_t i = 0; i < copies.n; i++) {
        if (!copies.v[i]->node && attach(p, copies.v[i]))
            return mx_error_code();
        mx_retain(copies.v[i]);
    }
    forget_data(p);
    for (int64_t i = 0; i < copies.n; i++)
        p->data[i] = copies.v[i], p->contexts[i] = copies.v[i]->context;
    p->count = (int)copies.n;
    mx_release(p->deferred_init);
    mx_release(p->deferred_value);
    mx_release(p->abstract);
    p->deferred = false, p->deferred_init = NULL, p->deferred_value = NULL, p->abstract = NULL;
    if (copies.n)
        p->shape = mx_array_shape(copies.v[0]), p->dtype = copies.v[0]->dtype;
    return MX_OK;
}

/* ---- data -------------------------------------------------------------------------------------------------- */

int mx_parameter_at(const mx_parameter *p, mx_context context)
{
    if (!context.type && p->count == 1)
        return 0;
    context = mx_context_resolve(context);
    for (int i = 0; i < p->count; i++)
        if (mx_context_equal(p->contexts[i], context))
            return i;
    /* Batches of a loader are in shared or pinned memory: the copy on the CPU of that number serves them. */
    for (int i = 0; i < p->count; i++)
        if (p->contexts[i].id == context.id && mx_context_fits(p->contexts[i], context))
            return i;
    return -1;
}

static mx_code not_here(const mx_parameter *p, mx_context context)
{
    char text[32];
    if (!p->count)
        return mx_fail(MX_ERR_PARAMETER,
                       "parameter %s has not been initialised; call mx_initialize() on the network first", p->name);
    if (p->deferred)
        return mx_fail(MX_ERR_DEFERRED,
                       "parameter %s has no data yet: its shape follows from the first forward; run data through the "
                       "network, or give the input size to the layer",
                       p->name);
    return mx_fail(MX_ERR_PARAMETER, "parameter %s was not initialised on %s", p->name,
                   mx_context_text(mx_context_resolve(context), text));
}

mx_array *mx_parameter_data(mx_parameter *p, mx_context context)
{
    if (!ok(p, "mx_parameter_data"))
        return NULL;
    if (mx_tracing())
        return mx_parameter_variable(p);
    int i = p->deferred ? -1 : mx_parameter_at(p, context);
    return i < 0 ? (not_here(p, context), NULL) : p->data[i];
}

mx_array *mx_parameter_grad(mx_parameter *p, mx_context context)
{
    mx_array *data = mx_parameter_data(p, context);
    mx_array *grad = data ? mx_gradient(data) : NULL;
    if (data && !grad)
        return mx_fail_null(MX_ERR_PARAMETER, "parameter %s has no gradient: its grad_req is null", p->name);
    return grad;
}

bool mx_inferring(void) { return mx_thread.inferring; }
bool mx_set_inferring(bool on)
{
    bool previous = mx_thread.inferring;
    mx_thread.inferring = on;
    return previous;
}

/* Its elements are 1 whatever was written into it; nothing to do if nothing was. */
static mx_array *use_as_ones(mx_parameter *p, int i)
{
    const uint64_t stamp = mx_array_stamp(p->data[i]);
    if (stamp && stamp == __atomic_load_n(&p->ones_stamp[i], __ATOMIC_RELAXED))
        return p->data[i];
    if (mx_array_fill(p->data[i], 1))
        return NULL;
    __atomic_store_n(&p->ones_stamp[i], mx_array_stamp(p->data[i]), __ATOMIC_RELAXED);
    return p->data[i];
}

mx_array *mx_parameter_use(mx_parameter *p, mx_context context)
{
    if (mx_tracing())
        return mx_parameter_variable(p);
    if (!p->deferred && p->count) {
        int i = mx_parameter_at(p, context);
        return i < 0 ? (not_here(p, context), NULL) : p->ones ? use_as_ones(p, i) : p->data[i];
    }
    if (!mx_thread.inferring)
        return not_here(p, context), NULL;
    if (!p->abstract)
        p->abstract = mx_array_abstract(&p->shape, p->dtype, mx_context_resolve(context));
    return p->abstract;
}

mx_code mx_parameter_set_data(mx_parameter *p, mx_array *value)
{
    MX_SCOPE;
    if (!ok(p, "mx_parameter_set_data") || !mx_array_any_ok(value, "mx_parameter_set_data", "value"))
        return mx_error_code();
    if (!p->count)
        return not_here(p, (mx_context){0});
    mx_shape_t shape = mx_array_shape(value);
    mx_code code = merge_shape(p, &shape);
    if (code || !(value = mx_sparse_dense(value)))
        return mx_error_code();
    if (p->deferred) {
        mx_array *copy = mx_array_copy(value);
        mx_release(p->deferred_value);
        p->deferred_value = mx_retain(copy);
        return copy ? mx_parameter_finish(p) : mx_error_code();
    }
    for (int i = 0; !code && i < p->count; i++)
        code = mx_array_set(p->data[i], value);
    return code;
}

mx_array *mx_parameter_rows(mx_parameter *p, mx_array *row_ids)
{
    if (!ok(p, "mx_parameter_rows") || !mx_array_ok(row_ids, "mx_parameter_rows", "row_ids"))
        return NULL;
    mx_array *data = mx_parameter_data(p, row_ids->context);
    if (!data || !row_ids->storage || !data->storage)
        return data ? mx_fail_null(MX_ERR_STATE, "parameter %s: its rows cannot be part of a graph", p->name) : NULL;
    mx_mode mode = mx_mode_enter(0, -1);
    mx_array *rows = mx_sparse_pick(data, row_ids, p->name);
    mx_mode_leave(&mode);
    if (rows)
        mx_array_set_node(rows, data->node, data->node_output);
    return rows;
}

mx_code mx_parameter_zero_grad(mx_parameter *p)
{
    if (!ok(p, "mx_parameter_zero_grad"))
        return mx_error_code();
    for (int i = 0; i < p->count && p->req != MX_GRAD_NULL && !p->deferred; i++) {
        mx_array *grad = mx_gradient(p->data[i]);
        const uint8_t written = grad->written; /* for the trainer, zeros are not a new gradient */
        if (!grad->storage)
            mx_sparse_clear(grad);
        else if (mx_array_fill(grad, 0))
            return mx_error_code();
        grad->written = written;
    }
    return MX_OK;
}

mx_code mx_parameter_set_grad_req(mx_parameter *p, mx_grad_req req)
{
    if (!ok(p, "mx_parameter_set_grad_req"))
        return mx_error_code();
    if (req != MX_GRAD_NULL && req != MX_GRAD_WRITE && req != MX_GRAD_ADD)
        return mx_fail(MX_ERR_ARGUMENT, "parameter %s: unknown gradient request %d", p->name, req);
    if (!p->differentiable)
        req = MX_GRAD_NULL;
    if (req == p->req)
        return MX_OK;
    p->req = req;
    for (int i = 0; i < p->count && !p->deferred; i++)
        if (mx_attach_grad_as(p->data[i], req, p->grad_stype))
            return mx_error_code();
    return MX_OK;
}

/* Every copy is replaced; the gradient is reset. */
/* The gradients of another element type, read before the data was replaced. */
static mx_code take_gradients(mx_parameter *p, mx_array *const *grads)
{
    mx_code code = MX_OK;
    for (int i = 0; !code && i < p->count; i++)
        if (grads[i] && mx_gradient(p->data[i]))
            code = mx_array_set(mx_gradient(p->data[i]), grads[i]);
    return code;
}

mx_code mx_parameter_cast(mx_parameter *p, mx_dtype dtype)
{
    MX_SCOPE;
    if (!ok(p, "mx_parameter_cast"))
        return mx_error_code();
    if (!mx_dtype_size(dtype))
        return mx_fail(MX_ERR_DTYPE, "parameter %s: %d is not an element type", p->name, dtype);
    const mx_dtype before = p->dtype;
    p->dtype = dtype;
    mx_release(p->abstract);
    p->abstract = NULL;
    if (!p->count || p->deferred)
        return MX_OK;
    mx_array *grads[MX_MAX_CONTEXTS];
    for (int i = 0; i < p->count; i++)
        grads[i] = mx_scope_add(mx_retain(mx_gradient(p->data[i])));
    mx_array *old = mx_array_copy(p->data[0]);
    mx_code code = old ? place(p, old) : mx_error_code();
    if (code)
        p->dtype = before;
    return code ? code : take_gradients(p, grads);
}

mx_code mx_parameter_reset_ctx(mx_parameter *p, const mx_context *contexts, int count)
{
    MX_SCOPE;
    if (!ok(p, "mx_parameter_reset_ctx"))
        return mx_error_code();
    if (!p->count)
        return not_here(p, (mx_context){0});
    if (p->deferred)
        return take_contexts(p, contexts, count);
    mx_array *old = mx_array_copy(p->data[0]);
    if (!old || take_contexts(p, contexts, count))
        return mx_error_code();
    return place(p, old);
}
