/* Regions: steps of a plan that are run operator by operator, recorded if a gradient is needed (see op/control.h).
 *
 *     forward    variables = views of the inputs -> recording -> callee -> results copied to the plan's values
 *     backward   the pass from the results to the variables -> gradients copied to the plan's values
 *
 * The recording hangs on the frame's header of the hidden output.  Inputs of the call are inputs of its backward
 * step, too, so the plan retains them until then.  A region remembers which inputs needed gradients: from the
 * second run on only those are variables.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "exec/control/region.h"

#include <pthread.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "exec/backward.h"
#include "exec/list.h"
#include "exec/sparse/sparse.h"
#include "exec/tape.h"

typedef struct history {
    mx_object object;
    int n_in, n_out;
    bool known;           /* `wanted` was set by a backward */
    bool *wanted;         /* (n_in) */
    mx_array **variables; /* (n_in) retained; NULL: none is wanted */
    mx_array **out;       /* (n_out) results with their history; retained */
    mx_array **gradients; /* (n_in) of the last backward, for nodes with several of them; retained */
    size_t bytes;         /* of this allocation */
} history;

/* ---- recordings -------------------------------------------------------------------------------------------------- */

static void release_all(int n, mx_array **list)
{
    for (int i = 0; i < n; i++) {
        mx_release(list[i]);
        list[i] = NULL;
    }
}

static void clear(history *h)
{
    release_all(h->n_in, h->variables);
    release_all(h->n_in, h->gradients);
    release_all(h->n_out, h->out);
}

static void destroy_history(mx_object *object)
{
    history *h = (history *)object;
    clear(h);
    mx_free(h, h->bytes);
}
static const mx_kind history_kind = {"recorded region", destroy_history};

static history *history_of(const mx_array *header)
{
    history *h = (history *)(void *)header->node;
    return h && h->object.kind == &history_kind ? h : NULL;
}

void mx_history_forget(mx_array *header)
{
    if (history_of(header))
        clear(history_of(header));
}

void mx_history_free(mx_array *header)
{
    mx_release(history_of(header));
    header->node = NULL;
}

static history *new_history(int n_in, int n_out)
{
    const size_t pointers = 2 * (size_t)n_in + (size_t)n_out;
    const size_t bytes = sizeof(history) + pointers * sizeof(mx_array *) + (size_t)n_in;
    history *h = mx_alloc_zero(bytes);
    if (!h)
        return NULL;
    mx_object_init(&h->object, &history_kind);
    h->n_in = n_in, h->n_out = n_out, h->bytes = bytes;
    h->variables = (mx_array **)(h + 1);
    h->gradients = h->variables + n_in;
    h->out = h->gradients + n_in;
    h->wanted = (bool *)(h->out + n_out);
    return h;
}

/* ---- on arrays --------------------------------------------------------------------------------------------------- */

static mx_callee *callee_for(const mx_op *op, const void *attrs)
{
    mx_callee *callee = mx_callee_of(op, attrs);
    if (callee && callee->methods && callee->methods->run)
        return callee;
    mx_op_fail(op, MX_ERR_ARGUMENT, "there is nothing to call");
    return NULL;
}

mx_code mx_region_call(mx_op *op, const void *attrs, int n_in, mx_array *const *in, int n_out, mx_array **out)
{
    mx_callee *callee = callee_for(op, attrs);
    const int n = mx_op_count_visible(op, attrs);
    mx_array *results[MX_MAX_OUTPUTS] = {NULL};
    if (!callee)
        return mx_error_code();
    if (n > n_out || n > MX_MAX_OUTPUTS)
        return mx_op_fail(op, MX_ERR_ARGUMENT, "has %d outputs, but there is room for %d", n, n_out);
    const bool clean = !mx_has_error();
    mx_code code = callee->methods->run(callee, n_in, in, n, results);
    if (code && clean && mx_has_error())
        mx_error_mention(op->name);
    for (int k = 0; !code && k < n; k++) {
        if (out[k])
            code = mx_array_set(out[k], results[k]);
        else
            out[k] = results[k];
    }
    return code && !mx_has_error() ? mx_fail(code, "%s: it failed", op->name) : code;
}

/* ---- in plans: forward ------------------------------------------------------------------------------------------- */

/* A view of a value of the plan, as an array of the scope: the headers of frames must not be retained. */
static mx_array *window(const mx_array *x)
{
    const mx_shape_t shape = mx_array_shape(x);
    return mx_scope_add(mx_array_view(x, 0, &shape, (mx_dtype)x->dtype));
}

static mx_code make_variables(history *h, mx_array *const *in)
{
    for (int i = 0; i < h->n_in; i++) {
        if (h->known && !h->wanted[i])
            continue;
        mx_node *node = mx_node_new(0, 1, 0);
        if (!node)
            return mx_error_code();
        node->context = in[i]->context;
        mx_array_set_node(in[i], node, 0);
        mx_release(node);
        h->variables[i] = mx_retain(in[i]);
    }
    return MX_OK;
}

static mx_code copy_results(const mx_kernel_call *call, int n, mx_array *const *results)
{
    for (int k = 0; k < n; k++) {
        const mx_shape_t have = mx_array_shape(results[k]), want = mx_array_shape(call->out[k]);
        char a[MX_SHAPE_TEXT], b[MX_SHAPE_TEXT];
        if (!mx_shape_equal(&have, &want) || results[k]->dtype != call->out[k]->dtype)
            return mx_op_fail(call->op, MX_ERR_SHAPE, "output %d is %s of %s, the plan was compiled for %s of %s", k,
                              mx_shape_text(&have, a), mx_dtype_name((mx_dtype)results[k]->dtype),
                              mx_shape_text(&want, b), mx_dtype_name((mx_dtype)call->out[k]->dtype));
        if (mx_array_copy_data(call->out[k], results[k]))
            return mx_error_code();
    }
    return MX_OK;
}

/* The region's recording for this run: that of the header, emptied, or a new one. */
static history *open_history(const mx_kernel_call *call, mx_array *header)
{
    history *h = history_of(header);
    if (h && h->n_in == call->n_in) {
        clear(h);
        return h;
    }
    mx_history_free(header);
    h = new_history(call->n_in, call->n_out - 1);
    header->node = (struct mx_node *)(void *)h;
    return h;
}

static mx_code run_callee(const mx_kernel_call *call, history *h, mx_array *const *in)
{
    mx_callee *callee = callee_for(call->op, call->attrs);
    mx_array *results[MX_MAX_OUTPUTS] = {NULL};
    const int n = call->n_out - 1;
    if (!callee || (h && make_variables(h, in)))
        return mx_error_code();
    const mx_modes modes = mx_thread.modes;
    mx_thread.modes = (mx_modes){.recording = h != NULL, .training = call->training, .plans = true};
    mx_code code = callee->methods->run(callee, call->n_in, in, n, results);
    mx_thread.modes = modes;
    for (int k = 0; h && !code && k < n; k++)
        h->out[k] = mx_retain(results[k]);
    return code ? code : copy_results(call, n, results);
}

static mx_code run_region(const mx_kernel_call *call)
{
    MX_SCOPE;
    mx_array *header = call->out[call->n_out - 1]; /* MX_NONE: no gradient is needed */
    mx_array **in = mx_list_new(call->n_in);
    history *h = header == MX_NONE ? NULL : open_history(call, header);
    if (!in || (header != MX_NONE && !h))
        return mx_error_code();
    for (int i = 0; i < call->n_in; i++)
        if (!(in[i] = window(call->in[i])))
            return mx_error_code();
    mx_code code = run_callee(call, h, in);
    return code && !mx_has_error() ? mx_fail(code, "%s: it failed", call->op->name) : code;
}

/* ---- in plans: backward ------------------------------------------------------------------------------------------ */

/* Heads with a history and a gradient, and their gradients. */
static int64_t find_heads(const mx_kernel_call *call, const history *h, const mx_pullback *p, mx_array **heads,
                          mx_array **grads)
{
    int64_t n = 0;
    int next = 1 + p->n_in;
    for (int k = 0; k < h->n_out; k++) {
        if (!(p->given >> k & 1))
            continue;
        mx_array *g = window(call->in[next++]);
        if (!g)
            return -1;
        if (!h->out[k] || !mx_tape_node(h->out[k]))
            continue;
        heads[n] = h->out[k], grads[n++] = g;
    }
    return n;
}

/* Values of plans are dense. */
static mx_array *dense(mx_array *x) { return x && !x->storage ? mx_sparse_dense(x) : x; }

static mx_code run_pass(history *h, mx_arrays heads, mx_arrays grads)
{
    mx_pass pass = {.retain = mx_thread.modes.retain, .keep_results = true};
    mx_code code = heads.n ? mx_pass_run(&pass, heads, grads) : MX_OK;
    for (int i = 0; heads.n && !code && i < h->n_in; i++) {
        const mx_node *node = h->variables[i] ? mx_tape_node(h->variables[i]) : NULL;
        if (node && node->visit == pass.number)
            h->gradients[i] = mx_retain(dense(pass.slots[node->slot].sum));
        if (mx_has_error())
            code = mx_error_code();
    }
    mx_pass_free(&pass);
    return code;
}

static mx_code compute(const mx_kernel_call *call, history *h, const mx_pullback *p)
{
    mx_array *heads[MX_MAX_OUTPUTS], *grads[MX_MAX_OUTPUTS];
    release_all(h->n_in, h->gradients);
    h->known = true;
    memset(h->wanted, 0, (size_t)h->n_in);
    for (int k = 0; k < p->n_wanted; k++)
        h->wanted[p->wanted[k]] = true;
    const int64_t n = find_heads(call, h, p, heads, grads);
    return n < 0 ? mx_error_code() : run_pass(h, (mx_arrays){heads, n}, (mx_arrays){grads, n});
}

static mx_code run_backward(const mx_kernel_call *call)
{
    MX_SCOPE;
    const mx_pullback *p = (const mx_pullback *)(const void *)mx_callee_of(call->op, call->attrs);
    history *h = call->n_in ? history_of(call->in[0]) : NULL;
    if (!p || !h || h->n_in != p->n_in)
        return mx_op_fail(call->op, MX_ERR_STATE, "the forward part did not run");
    if (!p->first && compute(call, h, p))
        return mx_error_code();
    for (int k = 0; k < p->count; k++) {
        mx_array *g = h->gradients[p->wanted[p->first + k]];
        if (g ? mx_array_copy_data(call->out[k], g) : mx_array_fill(call->out[k], 0))
            return mx_error_code();
    }
    return MX_OK;
}

/* ---- kernels ----------------------------------------------------------------------------------------------------- */

static void attach(void)
{
    static const mx_kernel kernels[] = {{"_foreach", run_region, NULL, 0},
                                        {"_while_loop", run_region, NULL, 0},
                                        {"_cond", run_region, NULL, 0},
                                        {"Custom", run_region, NULL, 0},
                                        {"_backward_call", run_backward, NULL, 0}};
    for (size_t i = 0; i < sizeof kernels / sizeof *kernels; i++) {
        mx_op_attach(MX_CPU, &kernels[i]);
        mx_op_attach(MX_GPU, &kernels[i]);
    }
}

void mx_region_attach(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, attach);
}
