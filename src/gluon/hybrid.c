/* Calls of hybridized blocks: finding or making the plan, binding, running, recording (see hybrid.h).
 *
 * A block runs imperatively instead while a parameter's shape is unknown (its first forward), while a block inside it
 * has
 * hooks, and where the results' shapes depend on values, so that no plan can be made.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "gluon/hybrid.h"

#include "base/alloc.h"
#include "base/error.h"
#include "exec/list.h"
#include "gluon/trace.h"

struct mx_hybrid {
    pthread_mutex_t lock;
    mx_compiled *plans[MX_MAX_PLANS]; /* retained; most recently used first; guarded by the lock, as all below */
    int count;
    uint64_t changes; /* state of the block's tree that these were made for */
    bool imperative;  /* in this state the block cannot be compiled */
};

static _Atomic uint64_t changes = 1;
static pthread_mutex_t making = PTHREAD_MUTEX_INITIALIZER; /* of the caches themselves */

void mx_hybrid_changed(void) { atomic_fetch_add(&changes, 1); }

/* ---- the cache --------------------------------------------------------------------------------------------------- */

static void drop_plans(struct mx_hybrid *h)
{
    while (h->count)
        mx_release(h->plans[--h->count]);
    h->imperative = false;
}

void mx_hybrid_free(struct mx_hybrid *h)
{
    if (!h)
        return;
    drop_plans(h);
    pthread_mutex_destroy(&h->lock);
    mx_free(h, sizeof *h);
}

static struct mx_hybrid *cache_of(mx_block *block)
{
    struct mx_hybrid *h = __atomic_load_n(&block->plans, __ATOMIC_ACQUIRE);
    if (h)
        return h;
    pthread_mutex_lock(&making);
    if (!(h = block->plans) && (h = mx_alloc_zero(sizeof *h))) {
        pthread_mutex_init(&h->lock, NULL);
        __atomic_store_n(&block->plans, h, __ATOMIC_RELEASE);
    }
    pthread_mutex_unlock(&making);
    return h;
}

void mx_hybrid_forget(mx_block *block)
{
    struct mx_hybrid *h = __atomic_load_n(&block->plans, __ATOMIC_ACQUIRE);
    if (!h)
        return;
    pthread_mutex_lock(&h->lock);
    drop_plans(h);
    pthread_mutex_unlock(&h->lock);
}

int mx_hybrid_count(const mx_block *block) { return block->plans ? block->plans->count : 0; }

mx_plan *mx_hybrid_last(const mx_block *block)
{
    return block->plans && block->plans->count ? block->plans->plans[0]->plan : NULL;
}

/* ---- keys -------------------------------------------------------------------------------------------------------- */

bool mx_plan_key_make(mx_plan_key *key, mx_arrays in)
{
    if (in.n > MX_MAX_PLAN_INPUTS)
        return false;
    key->n_in = (int)in.n;
    key->training = mx_thread_modes.training;
    key->recording = mx_thread_modes.recording;
    key->context = (mx_context){0};
    for (int64_t i = 0; i < in.n; i++) {
        const mx_array *x = in.v[i];
        key->shape[i].ndim = x->ndim;
        for (int k = 0; k < x->ndim; k++)
            key->shape[i].dim[k] = x->shape[k];
        key->type[i] = x->dtype;
        key->wanted[i] = x != MX_NONE && key->recording && x->node;
        if (x == MX_NONE)
            continue;
        if (!x->storage || (key->context.type && !mx_context_equal(key->context, x->context)))
            return false; /* the imperative run says what is wrong */
        key->context = x->context;
    }
    return key->context.type != 0;
}

bool mx_plan_key_equal(const mx_plan_key *a, const mx_plan_key *b)
{
    if (a->n_in != b->n_in || a->training != b->training || a->recording != b->recording ||
        !mx_context_equal(a->context, b->context))
        return false;
    for (int i = 0; i < a->n_in; i++) {
        bool same = a->shape[i].ndim == b->shape[i].ndim && a->type[i] == b->type[i] && a->wanted[i] == b->wanted[i];
        for (int k = 0; k < a->shape[i].ndim && same; k++)
            same = a->shape[i].dim[k] == b->shape[i].dim[k];
        if (!same)
            return false;
    }
    return true;
}

/* Parameters may have been frozen, freed for training, cast or moved since. */
bool mx_compiled_valid(const mx_compiled *c)
{
    for (int64_t i = 0; i < c->n_parameters && c->key.recording; i++)
        if (mx_parameter_learns(c->parameters[i], c->key.context) != c->wanted[i])
            return false;
    return true;
}

static mx_compiled *look_up(struct mx_hybrid *h, const mx_plan_key *key)
{
    for (int i = 0; i < h->count; i++) {
        mx_compiled *c = h->plans[i];
        if (!mx_plan_key_equal(&c->key, key))
            continue;
        if (i > 0)
            mx_plan_trim(h->plans[0]->plan);
        for (int k = i; k > 0; k--)
            h->plans[k] = h->plans[k - 1];
        h->plans[0] = c;
        if (mx_compiled_valid(c))
            return c;
        drop_plans(h);
        return NULL;
    }
    return NULL;
}

static void insert(struct mx_hybrid *h, mx_compiled *c)
{
    if (h->count)
        mx_plan_trim(h->plans[0]->plan);
    if (h->count == MX_MAX_PLANS)
        mx_release(h->plans[--h->count]);
    for (int k = h->count; k > 0; k--)
        h->plans[k] = h->plans[k - 1];
    h->plans[0] = mx_retain(c);
    h->count++;
}

/* ---- what cannot be compiled ------------------------------------------------------------------------------------- */

static bool tree_has_hooks(const mx_block *block)
{
    for (int64_t i = 0; i < block->children.length; i++) {
        const mx_block *child = block->children.entries[i].pointer;
        if (child->hooks.length || tree_has_hooks(child))
            return true;
    }
    return false;
}

static bool tree_waits(const mx_block *block)
{
    for (int64_t i = 0; i < block->own.length; i++)
        if (block->own.items[i]->deferred || !block->own.items[i]->count)
            return true;
    for (int64_t i = 0; i < block->children.length; i++)
        if (tree_waits(block->children.entries[i].pointer))
            return true;
    return false;
}

bool mx_hybrid_possible(const mx_block *block) { return !tree_has_hooks(block) && !tree_waits(block); }

/* The plan for this call if there is one, retained; *compile: it may be made. */
static mx_compiled *find(mx_block *block, struct mx_hybrid *h, const mx_plan_key *key, bool *compile, bool *waits)
{
    const uint64_t now = atomic_load_explicit(&changes, memory_order_relaxed);
    pthread_mutex_lock(&h->lock);
    if (h->changes != now) {
        drop_plans(h);
        h->changes = now;
        h->imperative = tree_has_hooks(block);
    }
    mx_compiled *c = h->imperative ? NULL : mx_retain(look_up(h, key));
    *waits = !c && !h->imperative && tree_waits(block);
    *compile = !c && !h->imperative && !*waits;
    pthread_mutex_unlock(&h->lock);
    return c;
}

/* Compiling runs the block's forward, which may be a user's code that waits for other threads: nobody waits for it
 * here.  Two threads may compile the same; the later plan is the one that stays in front. */
static mx_compiled *make(mx_block *block, struct mx_hybrid *h, const mx_plan_key *key)
{
    const bool clean = !mx_has_error();
    bool unplanned = false;
    mx_compiled *c = mx_compile(&(struct mx_compile_request){.block = block, .key = key, .unplanned = &unplanned});
    pthread_mutex_lock(&h->lock);
    if (c)
        insert(h, c);
    else if (clean && unplanned)
        h->imperative = true;
    pthread_mutex_unlock(&h->lock);
    if (clean && unplanned)
        mx_error_clear();
    return c;
}

/* ---- running ----------------------------------------------------------------------------------------------------- */

mx_code mx_compiled_bind(const mx_compiled *c, mx_frame *frame, mx_arrays in)
{
    const mx_program *program = &c->plan->program;
    for (int64_t e = 0; e < program->externals.length; e++) {
        const mx_external *x = &program->externals.items[e];
        mx_array *array = NULL;
        if (x->kind >= MX_EXTERNAL_CONSTANT || (x->kind == MX_EXTERNAL_INPUT && x->index >= in.n))
            continue;
        if (x->kind == MX_EXTERNAL_INPUT)
            array = in.v[x->index];
        else
            array = mx_parameter_use(c->parameters[x->index], c->key.context);
        if (!array || mx_frame_bind(frame, e, array))
            return mx_error_code();
    }
    return MX_OK;
}

static bool any_wanted(const mx_compiled *c)
{
    bool any = false;
    for (int i = 0; i < c->key.n_in; i++)
        any |= c->key.wanted[i];
    for (int64_t i = 0; i < c->n_parameters; i++)
        any |= c->wanted[i];
    return any && c->key.recording;
}

static mx_code record(mx_frame *frame, const mx_compiled *c, mx_arrays in, mx_arrays out)
{
    const int n = (int)(in.n + c->n_parameters);
    mx_array *few[64];
    mx_array **all = n <= 64 ? few : mx_alloc((size_t)n * sizeof *all);
    if (!all)
        return MX_ERR_MEMORY;
    for (int64_t i = 0; i < n; i++)
        all[i] = i < in.n ? in.v[i] : mx_parameter_use(c->parameters[i - in.n], c->key.context);
    mx_code code = mx_tape_append_frame(frame, n, all, (int)out.n, out.v);
    if (all != few)
        mx_free(all, (size_t)n * sizeof *all);
    return code;
}

/* A recorded result is a window of its own: the frame holds the array, the array's history holds the frame. */
static mx_array *result(mx_frame *frame, int64_t h, bool recorded)
{
    mx_array *x = frame->heads[h];
    if (!recorded)
        return mx_scope_add(mx_retain(x));
    mx_shape_t shape = mx_array_shape(x);
    return mx_scope_add(mx_array_view(x, 0, &shape, (mx_dtype)x->dtype));
}

static mx_arrays run(const mx_compiled *c, mx_arrays in)
{
    mx_frame *frame = mx_plan_frame(c->plan);
    if (!frame)
        return mx_list_failed();
    const int64_t n = c->plan->program.forward_heads;
    const bool recorded = any_wanted(c);
    mx_array **list = mx_list_new(n);
    mx_code code = list ? mx_compiled_bind(c, frame, in) : mx_error_code();
    if (!code)
        code = mx_frame_forward(frame);
    for (int64_t i = 0; !code && i < n; i++)
        if (!(list[i] = result(frame, i, recorded)))
            code = mx_error_code();
    if (!code && recorded)
        code = record(frame, c, in, (mx_arrays){list, n});
    mx_release(frame);
    return code ? mx_list_failed() : (mx_arrays){list, n};
}

_Thread_local bool mx_hybrid_paused;

bool mx_hybrid_call(mx_block *block, mx_arrays in, mx_arrays *out, bool *waits)
{
    *waits = false;
    if (mx_hybrid_paused)
        return false;
    mx_plan_key key;
    struct mx_hybrid *h = cache_of(block);
    *out = mx_list_failed();
    if (!h)
        return true;
    if (!mx_plan_key_make(&key, in))
        return false;
    const bool clean = !mx_has_error();
    bool compile;
    mx_compiled *c = find(block, h, &key, &compile, waits);
    if (!c && compile)
        c = make(block, h, &key);
    if (!c)
        return clean && mx_has_error();
    const char *outer = mx_error_context(block->name);
    *out = run(c, in);
    mx_error_context(outer);
    mx_release(c);
    return true;
}
