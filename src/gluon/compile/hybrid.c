/* Calls of hybridized blocks: finding or making the plan, binding, running, recording (see hybrid.h).
 *
 * A block runs imperatively instead while a block inside it has hooks; if shapes of results depend on values, so that
 * there can be no plan; and once if random numbers are drawn between the initialisations of parameters whose shapes are
 * inferred from the first call.
 *
 * Children and hooks may be added or removed after a plan was made.  Every block has a stamp of its last change, taken
 * from a global counter of changes; a plan stores the counter and the stamps of its tree.  While the counter is
 * unchanged, nothing needs checking; otherwise the stamps show whether a block of this tree changed.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "gluon/compile/hybrid.h"

#include "base/alloc.h"
#include "base/checking.h"
#include "base/error.h"
#include "exec/amp.h"
#include "exec/list.h"
#include "gluon/compile/trace.h"

struct mx_hybrid {
    pthread_mutex_t lock;
    mx_compiled *plans[MX_MAX_PLANS]; /* retained; most recently used first; guarded by the lock, as all below */
    int count;
    mx_tree_state tree; /* of the block, when these were made */
    bool imperative;    /* in this state the block cannot be compiled */
    bool unrecorded;    /* the same, while recording only: a parameter has a sparse gradient */
};

static pthread_mutex_t making = PTHREAD_MUTEX_INITIALIZER; /* of the caches themselves */

/* ---- changes of trees -------------------------------------------------------------------------------------------- */

static _Atomic(uint64_t) changes = 1; /* counts the changes of all blocks of the process */

void mx_hybrid_changed(mx_block *block)
{
    __atomic_store_n(&block->changed, atomic_fetch_add(&changes, 1) + 1, __ATOMIC_RELAXED);
}

/* Folds the stamps of a tree into one number; *hooks: a block below the root has some. */
static uint64_t fold(const mx_block *block, uint64_t sum, bool *hooks)
{
    sum = (sum ^ __atomic_load_n(&block->changed, __ATOMIC_RELAXED)) * 0x9e3779b97f4a7c15u + 1;
    for (int64_t i = 0; i < block->children.length; i++) {
        const mx_block *child = block->children.entries[i].pointer;
        *hooks |= child->hooks.length > 0;
        sum = fold(child, sum, hooks);
    }
    return sum;
}

bool mx_tree_changed(mx_tree_state *state, const mx_block *block)
{
    const uint64_t precision = mx_amp_version(); /* other casts need another plan */
    const uint64_t now = atomic_load_explicit(&changes, memory_order_relaxed) + (precision << 48);
    if (state->seen == now)
        return false;
    bool hooks = false;
    const uint64_t stamps = fold(block, precision, &hooks);
    const bool same = state->seen && stamps == state->stamps;
    *state = (mx_tree_state){now, stamps, hooks};
    return !same;
}

/* ---- the cache --------------------------------------------------------------------------------------------------- */

/* Plans removed from a cache under its lock.  They are released after unlocking: freeing a parameter may run code of a
 * front end, which has its own locks. */
typedef struct dropped {
    mx_compiled *plans[MX_MAX_PLANS + 1];
    int count;
} dropped;

static void drop_plans(struct mx_hybrid *h, dropped *out)
{
    while (h->count)
        out->plans[out->count++] = h->plans[--h->count];
    h->imperative = h->unrecorded = false;
}

static void release_dropped(dropped *out)
{
    while (out->count)
        mx_release(out->plans[--out->count]);
}

void mx_hybrid_free(struct mx_hybrid *h)
{
    if (!h)
        return;
    dropped out = {.count = 0};
    drop_plans(h, &out);
    release_dropped(&out);
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
    dropped out = {.count = 0};
    pthread_mutex_lock(&h->lock);
    drop_plans(h, &out);
    pthread_mutex_unlock(&h->lock);
    release_dropped(&out);
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
    key->training = mx_thread.modes.training;
    key->recording = mx_thread.modes.recording;
    key->context = (mx_context){0};
    for (int64_t i = 0; i < in.n; i++) {
        const mx_array *x = in.v[i];
        key->shape[i].ndim = x->ndim;
        for (int k = 0; k < x->ndim; k++)
            key->shape[i].dim[k] = x->shape[k];
        key->type[i] = x->dtype;
        key->wanted[i] = x != MX_NONE && key->recording && mx_has_history(x);
        if (x == MX_NONE)
            continue;
        if (!x->storage || (key->context.type && !mx_context_equal(key->context, x->context)))
            return false; /* the imperative run reports the error */
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

/* Parameters may have been frozen, unfrozen, cast or moved since. */
bool mx_compiled_valid(const mx_compiled *c)
{
    for (int64_t i = 0; i < c->n_parameters && c->key.recording; i++)
        if (mx_parameter_learns(c->parameters[i], c->key.context) != c->wanted[i])
            return false;
    return true;
}

static mx_compiled *look_up(struct mx_hybrid *h, const mx_plan_key *key, dropped *out)
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
        drop_plans(h, out);
        return NULL;
    }
    return NULL;
}

static void insert(struct mx_hybrid *h, mx_compiled *c, dropped *out)
{
    if (h->count)
        mx_plan_trim(h->plans[0]->plan);
    if (h->count == MX_MAX_PLANS)
        out->plans[out->count++] = h->plans[--h->count];
    for (int k = h->count; k > 0; k--)
        h->plans[k] = h->plans[k - 1];
    h->plans[0] = mx_retain(c);
    h->count++;
}

/* ---- finding and making ------------------------------------------------------------------------------------------ */

bool mx_tree_waits(const mx_block *block)
{
    for (int64_t i = 0; i < block->own.length; i++)
        if (block->own.items[i]->deferred)
            return true;
    for (int64_t i = 0; i < block->children.length; i++)
        if (mx_tree_waits(block->children.entries[i].pointer))
            return true;
    return false;
}

mx_code mx_learn_shapes(const struct mx_compile_request *request)
{
    const bool waits = mx_tree_waits(request->block) || (request->loss && mx_tree_waits(request->loss));
    return waits ? mx_compile_learn(request) : MX_OK;
}

/* The plan for this call if there is one, retained; *compile: it may be compiled. */
static mx_compiled *find(mx_block *block, struct mx_hybrid *h, const mx_plan_key *key, bool *compile)
{
    dropped out = {.count = 0};
    pthread_mutex_lock(&h->lock);
    if (mx_tree_changed(&h->tree, block)) {
        drop_plans(h, &out);
        h->imperative = h->tree.hooks;
    }
    const bool plain = h->imperative || (key->recording && h->unrecorded);
    mx_compiled *c = plain ? NULL : mx_retain(look_up(h, key, &out));
    *compile = !c && !plain;
    pthread_mutex_unlock(&h->lock);
    release_dropped(&out);
    return c;
}

/* Compiling runs the block's forward, which may be user code that waits for other threads: no lock is held here.  Two
 * threads may compile the same plan; the later one becomes the most recently used. */
static mx_compiled *make(mx_block *block, struct mx_hybrid *h, const mx_plan_key *key, bool *waits)
{
    const bool clean = !mx_has_error();
    bool unplanned = false;
    const struct mx_compile_request request = {.block = block, .key = key, .unplanned = &unplanned, .waits = waits};
    mx_compiled *c = mx_learn_shapes(&request) || *waits ? NULL : mx_compile(&request);
    dropped out = {.count = 0};
    pthread_mutex_lock(&h->lock);
    if (c)
        insert(h, c, &out);
    else if (clean && unplanned)
        *(key->recording ? &h->unrecorded : &h->imperative) = true;
    pthread_mutex_unlock(&h->lock);
    release_dropped(&out);
    if (!c && clean && (unplanned || *waits))
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
        else if ((array = mx_parameter_use(c->parameters[x->index], c->key.context)) && !mx_frame_fits(frame, e, array))
            return MX_DECLINED;
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

/* A recorded result is a separate view: the frame holds the array, the array's history holds the frame. */
static mx_array *result(mx_frame *frame, int64_t h, bool recorded)
{
    mx_array *x = frame->results[h];
    if (!recorded)
        return mx_scope_add(mx_retain(x));
    mx_shape_t shape = mx_array_shape(x);
    return mx_scope_add(mx_array_view(x, 0, &shape, (mx_dtype)x->dtype));
}

/* *stale: parameters have other shapes or types than the plan was made for. */
static mx_arrays run(const mx_compiled *c, mx_arrays in, bool *stale)
{
    mx_frame *frame = mx_plan_frame(c->plan);
    if (!frame)
        return mx_list_failed();
    const int64_t n = c->plan->program.forward_results;
    const bool recorded = any_wanted(c);
    mx_array **list = mx_list_new(n);
    mx_code code = list ? mx_compiled_bind(c, frame, in) : mx_error_code();
    *stale = code == MX_DECLINED;
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

bool mx_hybrid_call(mx_block *block, mx_arrays in, mx_arrays *out, bool *waits)
{
    *waits = false;
    if (mx_thread.hybrid_paused || mx_checking()) /* checking mode looks at every operator */
        return false;
    mx_plan_key key;
    struct mx_hybrid *h = cache_of(block);
    *out = mx_list_failed();
    if (!h)
        return true;
    if (!mx_plan_key_make(&key, in))
        return false;
    const bool clean = !mx_has_error();
    for (int attempt = 0; attempt < 2; attempt++) {
        bool compile, stale = false;
        mx_compiled *c = find(block, h, &key, &compile);
        if (!c && compile)
            c = make(block, h, &key, waits);
        if (!c)
            return clean && mx_has_error();
        const char *outer = mx_error_context(block->name);
        *out = run(c, in, &stale);
        mx_error_context(outer);
        mx_release(c);
        if (!stale)
            return true;
        mx_hybrid_forget(block); /* parameters were cast: compile another plan */
    }
    return false;
}
