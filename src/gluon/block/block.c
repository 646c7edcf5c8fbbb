/* Blocks: making them, their children and parameters, running them.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "exec/list.h"
#include "gluon/block/core.h"
#include "gluon/compile/hybrid.h"
#include "gluon/rnn/cell.h"
#include "op/op.h"

static void destroy_block(mx_object *object)
{
    mx_block *block = (mx_block *)object;
    for (int64_t i = 0; i < block->children.length; i++)
        mx_release(block->children.entries[i].pointer);
    mx_dict_free(&block->children);
    mx_dict_free(&block->attributes);
    mx_dict_free(&block->counters);
    for (int64_t i = 0; i < block->own.length; i++)
        mx_release(block->own.items[i]);
    mx_vec_free(&block->own);
    mx_hybrid_free(block->plans);
    mx_vec_free(&block->hooks);
    mx_cell_free(block->cell);
    mx_release(block->params);
    if (block->release)
        block->release(block->user);
    mx_options_forget(block->cls, block->options);
    mx_free(block->prepared, block->prepared_bytes);
    mx_strfree(block->class_name);
    mx_strfree(block->prefix);
    mx_strfree(block->name);
    mx_free(block, sizeof *block);
}
const mx_kind mx_block_kind = {"block", destroy_block};

static mx_block last_block = {.object = {.kind = &mx_block_kind, .count = 1, .guard = 0}};
mx_block *const MX_LAST_BLOCK = &last_block;

static bool ok(const mx_block *block, const char *function)
{
    return mx_is_kind(block, &mx_block_kind, function, "block");
}

/* ---- making ------------------------------------------------------------------------------------------------ */

static const char *lower(const char *text, char *buffer, size_t bytes)
{
    size_t n = 0;
    for (; text[n] && n < bytes - 1; n++)
        buffer[n] = (char)tolower((unsigned char)text[n]);
    buffer[n] = 0;
    return buffer;
}

mx_block *mx_block_named(const mx_block_naming *naming)
{
    char buffer[128];
    mx_block *block = mx_alloc_zero(sizeof *block);
    if (!block)
        return NULL;
    mx_object_init(&block->object, &mx_block_kind);
    block->class_name = mx_strdup(naming->class_name);
    const char *hint = naming->hint ? naming->hint : lower(naming->class_name, buffer, sizeof buffer);
    if (!block->class_name || mx_name_block(block, hint, naming->prefix, naming->params)) {
        mx_release(block);
        return NULL;
    }
    return block;
}

mx_block *mx_block_make(const struct mx_block_options *o)
{
    if (!o || !o->class_name || (!o->forward && !o->forward_many))
        return mx_fail_null(MX_ERR_ARGUMENT, "mx_block_new: the class name or the forward function is NULL");
    mx_block *block = mx_block_named(&(mx_block_naming){o->class_name, NULL, o->prefix, o->params});
    if (!block)
        return NULL;
    block->forward = o->forward, block->forward_many = o->forward_many;
    block->hybrid = o->hybrid;
    block->user = o->user, block->release = o->release;
    return mx_scope_add(block);
}

/* Activation("relu") is named after its function: a hint "@act_type" names the option that holds it. */
static const char *stem_of(const mx_class *cls, const void *options, char buffer[64])
{
    if (!cls->hint || *cls->hint != '@')
        return cls->hint;
    const mx_field *field = mx_schema_find(cls->schema, cls->hint + 1);
    const char *value = *(const char *const *)((const char *)options + field->offset);
    return lower(value ? value : cls->name, buffer, 64);
}

mx_block *mx_layer_make(mx_class *cls, const void *options, const mx_block_naming *naming)
{
    char stem[64];
    const mx_layer *layer = cls->methods;
    const bool clean = !mx_has_error();
    mx_block_naming full = *naming;
    full.class_name = full.class_name ? full.class_name : cls->name;
    full.hint = full.hint ? full.hint : stem_of(cls, options, stem);
    mx_text prefix = {0};
    if (!full.prefix && layer->prefix) {
        if (layer->prefix(options, &prefix) || !(full.prefix = mx_text_to_scope(&prefix)))
            return NULL;
    }
    mx_block *block = mx_block_named(&full);
    if (!block)
        return NULL;
    block->cls = cls, block->layer = layer;
    block->hybrid = !layer->plain;
    if (mx_options_keep(cls, options, &block->options) || (layer->cell && mx_cell_attach(block, layer->cell)) ||
        (layer->build && layer->build(block)) || (clean && mx_has_error())) { /* out of memory for an initializer */
        mx_release(block);
        return NULL;
    }
    return mx_scope_add(block);
}

/* A union stores the function in the block's user pointer: the two kinds of pointer may differ. */
typedef union { mx_array *(*function)(mx_array *x); void *pointer; } lambda;
_Static_assert(sizeof(lambda) == sizeof(void *), "function and object pointers must have the same size");

static mx_array *run_lambda(mx_block *self, mx_arrays in)
{
    return ((lambda){.pointer = self->user}).function(in.v[0]);
}

static mx_block *make_lambda(const char *class_name, bool hybrid, mx_array *(*function)(mx_array *x))
{
    if (!function)
        return mx_fail_null(MX_ERR_ARGUMENT, "%s: the function is NULL", class_name);
    return mx_block_new(class_name, run_lambda, .hybrid = hybrid, .user = ((lambda){.function = function}).pointer);
}
mx_block *mx_lambda(mx_array *(*function)(mx_array *x)) { return make_lambda("Lambda", false, function); }
mx_block *mx_hybrid_lambda(mx_array *(*function)(mx_array *x)) { return make_lambda("HybridLambda", true, function); }

mx_arrays mx_results_make(mx_arrays arrays)
{
    if (mx_list_check_optional(&arrays, "mx_results", "arrays"))
        return mx_list_failed();
    mx_array **list = mx_list_new(arrays.n);
    if (!list)
        return mx_list_failed();
    if (arrays.n)
        memcpy(list, arrays.v, (size_t)arrays.n * sizeof *list);
    return (mx_arrays){list, arrays.n};
}

void *mx_block_user(mx_block *block) { return ok(block, "mx_block_user") ? block->user : NULL; }

static bool contains(const mx_block *block, const mx_block *wanted)
{
    if (block == wanted)
        return true;
    for (int64_t i = 0; i < block->children.length; i++)
        if (contains(block->children.entries[i].pointer, wanted))
            return true;
    return false;
}

mx_block *mx_block_child(mx_block *block, const char *name, mx_block *child)
{
    char number[24];
    if (!child && mx_has_error())
        return NULL;
    if (!ok(block, "mx_block_child") || !mx_is_kind(child, &mx_block_kind, "mx_block_child", "child"))
        return NULL;
    if (contains(child, block))
        return mx_fail_null(MX_ERR_ARGUMENT, "mx_block_child: %s contains %s, which cannot be its parent too",
                            child->name, block->name);
    if (block->hybrid && !child->hybrid)
        return mx_fail_null(MX_ERR_ARGUMENT, "%s: children of a hybrid block must be hybrid, %s (%s) is not",
                            block->name, child->name, child->class_name);
    if (!name) {
        snprintf(number, sizeof number, "%lld", (long long)block->children.length);
        name = number;
    }
    mx_block *before = mx_dict_get(&block->children, name);
    mx_hybrid_changed(block);
    if (!mx_dict_set(&block->children, name, child))
        return NULL;
    mx_retain(child);
    mx_release(before);
    return child;
}

mx_parameter *mx_block_parameter_with(mx_block *block, const struct mx_parameter_options *options)
{
    if (!ok(block, "mx_block_parameter"))
        return NULL;
    mx_parameter *p = mx_params_get_with(block->params, options);
    if (!p || mx_dict_find(&block->attributes, options->name)) /* requested again: the same one */
        return p;
    return mx_block_attribute(block, options->name, p) ? NULL : p;
}

mx_code mx_block_attribute(mx_block *block, const char *name, mx_parameter *p)
{
    if (!mx_dict_set(&block->attributes, name, p) || !mx_vec_push(&block->own, p))
        return mx_error_code();
    mx_retain(p);
    return MX_OK;
}

/* ---- replacing all children or parameters: for front ends whose users change these lists ------------------------------ */

static void release_all(mx_dict *dict)
{
    for (int64_t i = 0; i < dict->length; i++)
        mx_release(dict->entries[i].pointer);
    mx_dict_free(dict);
}

mx_code mx_block_set_children(mx_block *block, int64_t n, const char *const *names, mx_block *const *children)
{
    mx_dict fresh = {0};
    for (int64_t i = 0; i < n; i++)
        if (contains(children[i], block)) {
            release_all(&fresh);
            return mx_fail(MX_ERR_ARGUMENT, "%s contains %s, which cannot be its parent too", children[i]->name,
                           block->name);
        } else if (!mx_dict_set(&fresh, names[i], children[i])) {
            release_all(&fresh);
            return mx_error_code();
        } else
            mx_retain(children[i]);
    mx_dict before = block->children;
    block->children = fresh;
    mx_hybrid_changed(block);
    release_all(&before);
    return MX_OK;
}

/* The numbers of parameters stay as they are for names that stay: layers use them. */
mx_code mx_block_set_attributes(mx_block *block, int64_t n, const char *const *names, mx_parameter *const *parameters)
{
    mx_dict fresh = {0};
    bool ok_ = true;
    for (int64_t i = 0; i < block->attributes.length; i++)
        for (int64_t k = 0; k < n; k++)
            if (!strcmp(block->attributes.entries[i].key, names[k]))
                ok_ &= mx_dict_set(&fresh, names[k], parameters[k]);
    for (int64_t k = 0; k < n; k++)
        ok_ &= mx_dict_set(&fresh, names[k], parameters[k]);
    if (!ok_ || !mx_vec_reserve(&block->own, fresh.length)) {
        mx_dict_free(&fresh);
        return mx_error_code();
    }
    for (int64_t i = 0; i < fresh.length; i++)
        mx_retain(fresh.entries[i].pointer);
    for (int64_t i = 0; i < block->own.length; i++)
        mx_release(block->own.items[i]);
    block->own.length = 0;
    for (int64_t i = 0; i < fresh.length; i++)
        block->own.items[block->own.length++] = fresh.entries[i].pointer;
    mx_dict_free(&block->attributes);
    block->attributes = fresh;
    mx_hybrid_changed(block);
    return MX_OK;
}

int mx_layer_parameter(mx_block *self, const char *name, mx_shape_t shape, mx_initializer *init, mx_dtype dtype,
                       mx_grad_req req, bool differentiable)
{
    mx_dims dims = mx_dims_of_shape(&shape);
    for (int i = 0; i < dims.n; i++)
        dims.d[i] = dims.d[i] < 0 ? 0 : dims.d[i];
    /* A layer without a choice of type takes a shared parameter of any type. */
    const bool chosen = (self->cls->schema && mx_schema_find(self->cls->schema, "dtype")) || dtype != MX_FLOAT32;
    mx_parameter *p = mx_block_parameter(self, name, .shape = dims, .init = init, .grad_req = req,
                                         .dtype = chosen ? dtype : MX_DTYPE_NONE, .allow_deferred_init = true,
                                         .differentiable = differentiable);
    if (p && chosen)
        p->dtype_named = true;
    return p ? (int)self->own.length - 1 : -1;
}

mx_arrays mx_layer_forward_with(mx_block *self, mx_arrays in, mx_arrays parameters)
{
    if (!ok(self, "mx_layer_forward_with") || !self->layer)
        return mx_fail(MX_ERR_ARGUMENT, "mx_layer_forward_with: the block is not a layer of the library"),
               mx_list_failed();
    if (parameters.n != self->own.length) {
        mx_fail(MX_ERR_ARGUMENT, "%s (%s): got %lld parameters, wanted %lld", self->name, self->class_name,
                (long long)parameters.n, (long long)self->own.length);
        return mx_list_failed();
    }
    if (mx_block_check_inputs(self, &in))
        return mx_list_failed();
    const __typeof__(mx_thread.substitutes) outer = mx_thread.substitutes;
    mx_thread.substitutes.block = self, mx_thread.substitutes.arrays = parameters;
    mx_arrays out = self->cell ? mx_cell_step_itself(self, in) : mx_layer_run(self, in);
    mx_thread.substitutes = outer;
    return out;
}

mx_array *mx_own(mx_block *self, int i, const mx_array *x)
{
    if (i < 0 || i >= self->own.length) /* a user may have removed it */
        return MX_NONE;
    if (mx_thread.substitutes.block == self)
        return mx_thread.substitutes.arrays.v[i];
    return x ? mx_parameter_use(self->own.items[i], x->context) : NULL;
}

void *mx_layer_prepare(mx_block *self, size_t bytes)
{
    mx_free(self->prepared, self->prepared_bytes);
    self->prepared = mx_alloc_zero(bytes);
    self->prepared_bytes = self->prepared ? bytes : 0;
    return self->prepared;
}

void *mx_layer_prepare_op(mx_block *self)
{
    const mx_op *op = mx_op_find(self->layer->op);
    void *attrs = op ? mx_layer_prepare(self, op->schema->size) : NULL;
    return attrs ? memcpy(attrs, op->defaults, op->schema->size) : NULL;
}

bool mx_layer_activation(mx_block *self, const char *act_type)
{
    if (!act_type)
        return true;
    MX_SCOPE;
    char prefix[64];
    snprintf(prefix, sizeof prefix, "%s_", act_type);
    bool made = false;
    mx_name_scope(self) made =
        mx_block_child(self, "act", mx_class_make_named(MX_LAYER, "Activation", &act_type, prefix, NULL)) != NULL;
    return made;
}

mx_array *mx_activate(mx_block *self, mx_array *x)
{
    mx_block *act = self->children.length ? mx_dict_get(&self->children, "act") : NULL; /* a user may add others */
    return act ? mx_call(act, x) : x;
}

/* ---- containers --------------------------------------------------------------------------------------------- */

mx_arrays mx_run_sequential(mx_block *self, mx_arrays in)
{
    for (int64_t i = 0; i < self->children.length; i++) {
        in = mx_block_call_many(self->children.entries[i].pointer, in);
        if (!in.n)
            return mx_list_failed();
    }
    return in;
}

mx_block *mx_sequential_make(bool hybrid, mx_block *const *blocks)
{
    mx_block *block = mx_block_named(&(mx_block_naming){.class_name = hybrid ? "HybridSequential" : "Sequential"});
    if (!block)
        return NULL;
    block->hybrid = hybrid;
    block->sequential = true;
    block->forward_many = mx_run_sequential;
    for (int i = 0; blocks && blocks[i] != MX_LAST_BLOCK; i++)
        if (mx_sequential_add(block, blocks[i])) {
            mx_release(block);
            return NULL;
        }
    return mx_scope_add(block);
}

mx_code mx_sequential_add(mx_block *sequential, mx_block *block)
{
    if (!mx_is_kind(sequential, &mx_block_kind, "mx_sequential_add", "sequential"))
        return mx_error_code();
    if (!sequential->sequential)
        return mx_fail(MX_ERR_ARGUMENT, "mx_sequential_add: %s is a %s, wanted a container", sequential->name,
                       sequential->class_name);
    return mx_block_child(sequential, NULL, block) ? MX_OK : mx_error_code();
}

/* ---- looking ------------------------------------------------------------------------------------------------ */

const char *mx_block_name(const mx_block *block) { return ok(block, "mx_block_name") ? block->name : NULL; }
const char *mx_block_prefix(const mx_block *block) { return ok(block, "mx_block_prefix") ? block->prefix : NULL; }
const char *mx_block_class_name(const mx_block *block)
{
    return ok(block, "mx_block_class_name") ? block->class_name : NULL;
}
mx_params *mx_block_params(mx_block *block) { return ok(block, "mx_block_params") ? block->params : NULL; }
int64_t mx_block_children(const mx_block *block) { return ok(block, "mx_block_children") ? block->children.length : 0; }

mx_block *mx_block_child_at(const mx_block *block, int64_t i)
{
    return ok(block, "mx_block_child_at") && i >= 0 && i < block->children.length ? block->children.entries[i].pointer
                                                                                  : NULL;
}
const char *mx_block_child_name(const mx_block *block, int64_t i)
{
    return ok(block, "mx_block_child_name") && i >= 0 && i < block->children.length ? block->children.entries[i].key
                                                                                    : NULL;
}

uint64_t mx_block_hook(mx_block *block, bool before, mx_hook_fn hook, void *user)
{
    static _Atomic uint64_t next = 1;
    if (!ok(block, "mx_block_hook"))
        return 0;
    if (!hook)
        return mx_fail(MX_ERR_ARGUMENT, "mx_block_hook: hook is NULL, wanted a function"), 0;
    mx_hook row = {next++, before, hook, user};
    mx_hybrid_changed(block);
    return mx_vec_push(&block->hooks, row) ? row.handle : 0;
}

void mx_block_unhook(mx_block *block, uint64_t handle)
{
    if (!ok(block, "mx_block_unhook"))
        return;
    for (int64_t i = 0; i < block->hooks.length; i++)
        if (block->hooks.items[i].handle == handle) {
            memmove(&block->hooks.items[i], &block->hooks.items[i + 1],
                    (size_t)(block->hooks.length - i - 1) * sizeof(mx_hook));
            block->hooks.length--;
            mx_hybrid_changed(block);
            return;
        }
}
