/* Running blocks: hooks, deferred parameters, forward.
 *
 * The first forward of a hybrid block with parameters of unknown shape runs twice: first on abstract arrays, to infer
 * the shapes, then on the data.  A hybridized block infers them from its trace (gluon/compile/compile.c).
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "exec/list.h"
#include "gluon/block/blame.h"
#include "gluon/block/core.h"
#include "gluon/compile/hybrid.h"
#include "gluon/compile/trace.h"
#include "gluon/rnn/cell.h"
#include "graph/node.h"

static mx_code run_hooks(mx_block *block, bool before, mx_arrays in, mx_arrays out)
{
    for (int64_t i = 0; i < block->hooks.length; i++) {
        const mx_hook *hook = &block->hooks.items[i];
        if (hook->before == before && hook->run(block, in, out, hook->user))
            return mx_fail(MX_ERR_CALLBACK, "%s: a hook failed", block->name);
    }
    return MX_OK;
}

const char *mx_block_inputs(const mx_block *block)
{
    return block->layer && block->layer->inputs ? block->layer->inputs : block->cell ? "inputs states" : "x";
}

int mx_block_input_number(const mx_block *block, const char *name)
{
    const size_t length = strlen(name);
    int number = 0;
    for (const char *p = mx_block_inputs(block); *p; p += strspn(p, " "), number++) {
        const size_t word = strcspn(p, " ");
        if (word == length && !memcmp(p, name, length))
            return number;
        p += word;
    }
    return -1;
}

/* The names again, for errors: "pred". */
static const char *input_name(const mx_block *block, int64_t number, char buffer[32])
{
    const char *p = mx_block_inputs(block);
    for (; number && *p; number--)
        p += strcspn(p, " "), p += strspn(p, " ");
    snprintf(buffer, 32, "%.*s", (int)strcspn(p, " "), p);
    return buffer;
}

mx_code mx_block_check_inputs(const mx_block *block, mx_arrays *in)
{
    char name[32];
    if (mx_list_check_inputs(in, block->name, "input"))
        return mx_error_code();
    if (!block->layer)
        return MX_OK;
    const int least = block->layer->min_inputs ? block->layer->min_inputs : 1;
    const int most = block->layer->max_inputs ? block->layer->max_inputs : least;
    if (in->n < least || in->n > most)
        return mx_fail(MX_ERR_ARGUMENT, "%s (%s): got %lld inputs, wanted %s%d", block->name, block->class_name,
                       (long long)in->n,
                       in->n < least  ? most > least ? "at least " : ""
                       : most > least ? "at most "
                                      : "",
                       in->n < least ? least : most);
    for (int64_t i = 0; i < least; i++)
        if (in->v[i] == MX_NONE)
            return mx_fail(MX_ERR_ARGUMENT, "%s (%s): the input '%s' is missing", block->name, block->class_name,
                           input_name(block, i, name));
    return MX_OK;
}

static mx_arrays one(mx_array *x)
{
    mx_array **list = x ? mx_list_new(1) : NULL;
    if (!list)
        return mx_list_failed();
    list[0] = x;
    return (mx_arrays){list, 1};
}

mx_arrays mx_layer_run(mx_block *self, mx_arrays in)
{
    return self->layer->forward_many ? self->layer->forward_many(self, in) : one(self->layer->forward(self, in));
}

bool mx_block_is_unchanged(const mx_block *block)
{
    return block->layer && !block->forward_many && !block->around && !block->hooks.length;
}

static mx_arrays forward(mx_block *block, mx_arrays in)
{
    const char *outer = mx_error_context(block->name);
    const bool spoke = mx_context_is_operator(block->layer && block->layer->single && !block->forward_many);
    mx_arrays out;
    if (!in.n)
        in.v = mx_list_failed().v;            /* a forward may look at its first input */
    if (block->layer && !block->forward_many) /* a front end's subclass has its own forward */
        out = mx_layer_run(block, in);
    else
        out = block->forward_many ? block->forward_many(block, in)
                                  : one(block->forward ? block->forward(block, in) : NULL);
    mx_context_is_operator(spoke);
    mx_error_context(outer);
    if (!out.n && !mx_has_error())
        mx_fail(MX_ERR_CALLBACK, "%s (%s): forward returned NULL without saying why", block->name, block->class_name);
    return out;
}

/* On symbolic inputs forward creates graph nodes, named after the block. */
static bool any_symbolic(mx_arrays in)
{
    for (int64_t i = 0; i < in.n; i++)
        if (mx_is_symbolic(in.v[i]))
            return true;
    return false;
}

static mx_arrays forward_symbolic(mx_block *block, mx_arrays in)
{
    mx_trace_scope scope;
    if (mx_trace_enter(&scope, block))
        return mx_list_failed();
    mx_arrays out = forward(block, in);
    mx_trace_leave(&scope);
    return out;
}

/* ---- deferred shapes ----------------------------------------------------------------------------------------- */

bool mx_block_waits(const mx_block *block)
{
    for (int64_t i = 0; i < block->own.length; i++)
        if (block->own.items[i]->deferred)
            return true;
    return false;
}

static mx_array *abstract_of(mx_array *x)
{
    if (x == MX_NONE)
        return x;
    mx_shape_t shape = mx_array_shape(x);
    return mx_scope_add(mx_array_abstract(&shape, (mx_dtype)x->dtype, x->context));
}

/* Sets the shapes of the parameters that the abstract run used. */
static mx_code finish(mx_block *block)
{
    for (int64_t i = 0; i < block->own.length; i++) {
        mx_parameter *p = block->own.items[i];
        if (!p->deferred)
            continue;
        if (p->abstract && p->abstract->ndim >= 0) {
            mx_shape_t shape = mx_array_shape(p->abstract);
            mx_shape_merge(&p->shape, &shape, NULL); /* inference started from p->shape: they agree */
        }
        mx_release(p->abstract);
        p->abstract = NULL;
        if (mx_parameter_finish(p))
            return mx_error_code();
    }
    return MX_OK;
}

/* Forgets the shapes that a failed run inferred in part, so that the next run starts afresh. */
static void forget_abstract(mx_block *block)
{
    for (int64_t i = 0; i < block->own.length; i++) {
        mx_release(block->own.items[i]->abstract);
        block->own.items[i]->abstract = NULL;
    }
    for (int64_t i = 0; i < block->children.length; i++)
        forget_abstract(block->children.entries[i].pointer);
}

mx_code mx_block_finish_shapes(mx_block *block, bool learned)
{
    if (learned)
        return finish(block);
    forget_abstract(block);
    return MX_OK;
}

static mx_code infer(mx_block *block, mx_arrays in)
{
    MX_SCOPE;
    mx_array **abstract = mx_list_new(in.n);
    for (int64_t i = 0; abstract && i < in.n; i++)
        if (!(abstract[i] = abstract_of(in.v[i])))
            return mx_error_code();
    if (!abstract)
        return mx_error_code();
    bool previous = mx_set_inferring(true);
    mx_mode mode = mx_mode_enter(0, -1);
    mx_arrays out = forward(block, (mx_arrays){abstract, in.n});
    mx_mode_leave(&mode);
    mx_set_inferring(previous);
    if (!out.n)
        return forget_abstract(block), mx_error_code();
    return finish(block);
}

/* ---- the call ------------------------------------------------------------------------------------------------ */

/* Temporaries of the forward are freed when it ends; the results move to the caller's scope. */
static mx_arrays forward_scoped(mx_block *block, mx_arrays in)
{
    mx_scope scope = mx_scope_open();
    mx_arrays out = forward(block, in);
    mx_array *few[8];
    const int64_t n = out.n;
    mx_array **kept = n <= 8 ? few : mx_alloc((size_t)n * sizeof *kept);
    if (!kept)
        return mx_scope_close(&scope), mx_list_failed();
    for (int64_t i = 0; i < n; i++)
        kept[i] = mx_retain(out.v[i]);
    mx_scope_close(&scope);
    mx_array **list = n ? mx_list_new(n) : NULL;
    bool ok = list != NULL;
    for (int64_t i = 0; i < n; i++) {
        if (list)
            ok &= (list[i] = mx_scope_add(kept[i])) != NULL;
        else
            mx_release(kept[i]);
    }
    if (kept != few)
        mx_free(kept, (size_t)n * sizeof *kept);
    return ok ? (mx_arrays){list, n} : mx_list_failed();
}

void mx_block_blame(const mx_block *block)
{
    const char *key = NULL;
    if (mx_blamed() == block)
        return;
    for (int64_t i = 0; i < block->children.length; i++)
        if (block->children.entries[i].pointer == mx_blamed())
            key = block->children.entries[i].key;
    mx_blame(block, block->name, key);
}

mx_arrays mx_block_call_itself(mx_block *block, mx_arrays in)
{
    if (mx_block_check_inputs(block, &in))
        return mx_list_failed();
    if (any_symbolic(in))
        return forward_symbolic(block, in);
    __atomic_store_n(&block->seen_inputs, (int)in.n, __ATOMIC_RELAXED); /* threads may share a block */
    if (mx_inferring())
        return forward(block, in); /* only infers shapes: hooks would see arrays without data */
    if (block->hooks.length && run_hooks(block, true, in, (mx_arrays){0}))
        return mx_list_failed();
    mx_arrays out;
    bool waits = false;
    if (!block->hybridized || !mx_hybrid_call(block, in, &out, &waits)) {
        if (block->hybrid && mx_block_waits(block) && infer(block, in))
            return mx_list_failed();
        const bool outer = mx_thread.hybrid_paused;
        mx_thread.hybrid_paused |= waits;
        out = forward_scoped(block, in);
        mx_thread.hybrid_paused = outer;
    } else if (block->cell && !block->around) /* what is around it has counted the step */
        mx_cell_count(block);
    if (out.n && block->hooks.length && run_hooks(block, false, in, out))
        return mx_list_failed();
    return out;
}

/* NULL as an input is an earlier failure, of another block. */
static bool failed_before(mx_arrays in)
{
    for (int64_t i = 0; in.v && i != in.n && in.v[i] != MX_END; i++)
        if (!in.v[i])
            return true;
    return false;
}

mx_arrays mx_block_call_many(mx_block *block, mx_arrays in)
{
    if (!mx_is_kind(block, &mx_block_kind, "mx_call", "block"))
        return mx_list_failed();
    mx_arrays out = !block->around                                    ? mx_block_call_itself(block, in)
                    : mx_list_check_inputs(&in, block->name, "input") ? mx_list_failed()
                                                                      : block->around(block, in);
    if (__builtin_expect(!out.n, 0) && !failed_before(in))
        mx_block_blame(block);
    return out;
}

mx_array *mx_block_call(mx_block *block, mx_arrays in) { return mx_block_call_many(block, in).v[0]; }

mx_code mx_hybridize_with(mx_block *block, const struct mx_hybridize_options *options)
{
    if (!mx_is_kind(block, &mx_block_kind, "mx_hybridize", "block"))
        return mx_error_code();
    if (!options)
        return mx_fail(MX_ERR_ARGUMENT, "mx_hybridize_with: options is NULL");
    block->hybridized = block->hybrid && options->active;
    block->static_alloc = options->static_alloc, block->recompute = options->recompute;
    mx_hybrid_forget(block);
    for (int64_t i = 0; i < block->children.length; i++)
        if (mx_hybridize_with(block->children.entries[i].pointer, options))
            return mx_error_code();
    return MX_OK;
}

mx_code mx_hybridize(mx_block *block)
{
    return mx_hybridize_with(block, &(struct mx_hybridize_options){.active = true});
}
