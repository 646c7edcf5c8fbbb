/* The one entry point of all computation.
 *
 *     check arguments -> infer -> allocate outputs -> run the first kernel that accepts -> append to the tape
 *
 * On abstract arrays (no storage) only inference happens: outputs are abstract too, and what inference learned
 * about inputs of unknown shape is written back to them.  On symbolic arrays (abstract ones that represent a node of a
 * graph) a node is created instead (graph/call.h).
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <string.h>
#include <time.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/interrupt.h"
#include "exec/amp.h"
#include "exec/call.h"
#include "exec/check.h"
#include "exec/plan/gather.h"
#include "exec/profile.h"
#include "exec/control/region.h"
#include "exec/sparse/sparse.h"
#include "exec/tape.h"
#include "graph/call.h"
#include "op/expand.h"

#define FEW 8 /* inputs or outputs that fit on the stack */

typedef struct invocation {
    mx_op *op;
    const void *attrs;
    int n_in, n_out, n_visible;
    mx_array *const *in;
    mx_array **out;                  /* (n_out) new references, or the caller's arrays */
    mx_array *given[MX_MAX_OUTPUTS]; /* the caller's destinations where they cannot be written directly */
    mx_infer infer;
    mx_context context;
    bool abstract;
    bool all; /* the caller wants hidden outputs, too */
} invocation;

/* ---- arguments -------------------------------------------------------------------------------------------- */

static mx_code check_input(const invocation *v, int i)
{
    char name[64];
    const mx_array *x = v->in[i];
    if (x == MX_NONE) {
        if (mx_op_input_optional(v->op, i))
            return MX_OK;
        return mx_op_fail(v->op, MX_ERR_ARGUMENT, "input %s is required", mx_op_input_name(v->op, i, name));
    }
    if (x && x->object.guard == MX_OBJECT_ALIVE && x->object.kind == &mx_array_kind && x != MX_END)
        return MX_OK;
    if (!x && mx_has_error())
        return mx_error_code(); /* an earlier failure propagates */
    if (x && x->object.guard == MX_OBJECT_ALIVE && mx_is_sparse(x))
        return MX_SPARSE_CALL;
    return mx_op_fail(v->op, MX_ERR_ARGUMENT, "input %s is %s, wanted an array", mx_op_input_name(v->op, i, name),
                      x ? "not an array" : "NULL");
}

/* Attributes may require an optional input: a bias without no_bias. */
static mx_code check_count(const invocation *v)
{
    char name[64];
    for (int i = 0; v->op->lacks && i < v->op->declared_inputs; i++)
        if ((i >= v->n_in || v->in[i] == MX_NONE) && !v->op->lacks(v->attrs, i))
            return mx_op_fail(v->op, MX_ERR_ARGUMENT, "input %s is required with these attributes",
                              mx_op_input_name(v->op, i, name));
    int given = v->n_in; /* up to the last; places between may be empty */
    while (given > 0 && v->in[given - 1] == MX_NONE)
        given--;
    if (given >= v->op->declared_inputs || given >= v->op->count_in(v->attrs))
        return MX_OK;
    return mx_op_fail(v->op, MX_ERR_ARGUMENT, "input %s is required with these attributes",
                      mx_op_input_name(v->op, given, name));
}

static mx_code check_arguments(invocation *v, int n_out)
{
    mx_code attrs_code = v->op->schema ? mx_schema_check(v->op->schema, v->attrs, v->op->name) : MX_OK;
    if (!attrs_code && v->op->check)
        attrs_code = v->op->check(v->attrs);
    if (attrs_code)
        return attrs_code;
    for (int i = 0; i < v->n_in; i++) {
        mx_code code = check_input(v, i);
        if (code)
            return code;
    }
    if (v->op->count_in && check_count(v))
        return mx_error_code();
    v->n_out = mx_op_count_out(v->op, v->attrs);
    v->n_visible = mx_op_count_visible(v->op, v->attrs);
    if (v->n_out > MX_MAX_OUTPUTS || v->n_out < 0)
        return mx_op_fail(v->op, MX_ERR_ARGUMENT, "has %d outputs, at most %d are possible", v->n_out, MX_MAX_OUTPUTS);
    if (n_out < v->n_visible)
        return mx_op_fail(v->op, MX_ERR_ARGUMENT, "there is room for %d outputs, wanted %d", n_out, v->n_visible);
    return MX_OK;
}

static bool is_symbolic_call(const invocation *v)
{
    if (!v->n_in)
        return mx_thread.modes.tracing;
    for (int i = 0; i < v->n_in; i++)
        if (mx_is_symbolic(v->in[i]))
            return true;
    return false;
}

/* All inputs must be on one device; outputs are on the context of the first. */
static mx_code find_context(invocation *v)
{
    v->context = (mx_context){0};
    for (int i = 0; i < v->n_in; i++) {
        const mx_array *x = v->in[i];
        if (x == MX_NONE)
            continue;
        v->abstract |= !x->storage;
        if (!v->context.type)
            v->context = x->context;
        else if (!mx_context_fits(v->context, x->context) && !is_symbolic_call(v)) {
            char a[32], b[32], name[64];
            return mx_op_fail(
                v->op, MX_ERR_DEVICE, "input %s is on %s, the ones before it on %s; use mx_array_to() first",
                mx_op_input_name(v->op, i, name), mx_context_text(x->context, a), mx_context_text(v->context, b));
        }
    }
    if (!v->context.type && (v->op->flags & MX_OP_CREATE)) {
        const mx_field *ctx = mx_schema_find(v->op->schema, "ctx");
        if (ctx)
            v->context = *(const mx_context *)((const char *)v->attrs + ctx->offset);
    }
    v->context = mx_context_resolve(v->context);
    return MX_OK;
}

/* ---- inference -------------------------------------------------------------------------------------------- */

static void read_shape(const mx_array *x, mx_shape_t *shape, int *type)
{
    if (!x || x == MX_NONE) {
        shape->ndim = -1;
        *type = MX_DTYPE_NONE;
        return;
    }
    shape->ndim = x->ndim;
    for (int i = 0; i < x->ndim; i++)
        shape->dim[i] = x->shape[i];
    *type = x->dtype;
}

static void write_back(mx_array *x, const mx_shape_t *shape, int type)
{
    if (x == MX_NONE || x->storage || !mx_shape_known(shape))
        return;
    x->ndim = (int8_t)shape->ndim;
    memcpy(x->shape, shape->dim, sizeof x->shape);
    x->size = mx_shape_size(shape);
    x->dtype = (int8_t)type;
}

static mx_code run_inference(invocation *v)
{
    for (int i = 0; i < v->n_in; i++)
        read_shape(v->in[i], &v->infer.in[i], &v->infer.in_type[i]);
    for (int i = 0; i < v->n_out; i++) {
        v->infer.out[i].ndim = -1;
        v->infer.out_type[i] = MX_DTYPE_NONE;
    }
    static mx_array *const nothing[1]; /* not NULL: all values are known, as there are none */
    v->infer.values = v->abstract ? NULL : v->in ? v->in : nothing;
    mx_code code = mx_op_infer(&v->infer);
    for (int i = 0; !code && i < v->n_in; i++)
        if (v->abstract)
            write_back(v->in[i], &v->infer.in[i], v->infer.in_type[i]);
    for (int i = 0; !code && i < v->n_out; i++)
        if (!mx_shape_known(&v->infer.out[i]) || !mx_dtype_valid(v->infer.out_type[i])) {
            if (v->abstract)
                continue;
            char text[MX_SHAPE_TEXT];
            for (int k = 0; !v->n_in && k < v->infer.out[i].ndim; k++)
                if (v->infer.out[i].dim[k] < 0)
                    return mx_op_fail(v->op, MX_ERR_SHAPE, "axis %d of the shape has the negative size %lld", k,
                                      (long long)v->infer.out[i].dim[k]);
            return mx_op_fail(v->op, MX_ERR_SHAPE,
                              "the shape or type of output %d cannot be inferred from the inputs (%s, %s)", i,
                              mx_shape_text(&v->infer.out[i], text), mx_dtype_name((mx_dtype)v->infer.out_type[i]));
        }
    return code;
}

/* ---- outputs ---------------------------------------------------------------------------------------------- */

static mx_code check_given(const invocation *v, int i, mx_array *x)
{
    char have[MX_SHAPE_TEXT], want[MX_SHAPE_TEXT];
    if (!mx_array_any_ok(x, v->op->name, "out"))
        return mx_error_code();
    if (!x->storage && !mx_is_sparse(x) && !v->abstract)
        return mx_op_fail(v->op, MX_ERR_STATE, "out has no elements: it is symbolic or was made while tracing");
    mx_shape_t shape;
    int type;
    read_shape(x, &shape, &type);
    if (!mx_shape_equal(&shape, &v->infer.out[i]))
        return mx_op_fail(v->op, MX_ERR_SHAPE, "out has shape %s, the result has %s", mx_shape_text(&shape, have),
                          mx_shape_text(&v->infer.out[i], want));
    if (type != v->infer.out_type[i])
        return mx_op_fail(v->op, MX_ERR_DTYPE, "out is %s, the result is %s", mx_dtype_name((mx_dtype)type),
                          mx_dtype_name((mx_dtype)v->infer.out_type[i]));
    if (!mx_context_fits(x->context, v->context))
        return mx_op_fail(v->op, MX_ERR_DEVICE, "out is on another device than the inputs");
    if (x->readonly)
        return mx_op_fail(v->op, MX_ERR_STATE, "out is read-only");
    if (mx_thread.modes.recording && mx_is_on_tape(x))
        return mx_op_fail(
            v->op, MX_ERR_AUTOGRAD,
            "out is a variable, a recorded result or an input of one: writing into it while recording would corrupt the gradient");
    return MX_OK;
}

/* A destination may be written directly unless it overlaps an input in a way that the kernels do not allow. */
static bool can_write_directly(const invocation *v, const mx_array *x)
{
    for (int k = 0; k < v->n_in; k++) {
        const mx_array *in = v->in[k];
        if (in == MX_NONE || !mx_array_overlap(x, in))
            continue;
        bool exact = mx_data(in) == mx_data(x) && in->size == x->size && in->dtype == x->dtype;
        if (!(v->op->flags & MX_OP_INPLACE) || !exact)
            return false;
    }
    return true;
}

/* View operators return the same elements in another shape.  The result shares the input's storage only where that was
 * asked for (mx_call_view) and in the library's own compositions: what a caller holds must not change when the input is
 * overwritten.  Plans decide for themselves. */
static bool is_view(const invocation *v)
{
    return (v->op->flags & MX_OP_VIEW) && ((v->op->flags & MX_OP_HIDDEN) || mx_thread.sharing);
}

static mx_code make_output(invocation *v, int i, mx_array *given)
{
    const mx_shape_t *shape = &v->infer.out[i];
    const mx_dtype type = (mx_dtype)v->infer.out_type[i];
    v->given[i] = NULL;
    if (given) {
        mx_code code = check_given(v, i, given);
        if (code)
            return code;
        if (!mx_is_sparse(given) && can_write_directly(v, given) && !is_view(v)) {
            v->out[i] = mx_retain(given);
            return MX_OK;
        }
        v->given[i] = given;
    }
    if (v->abstract)
        v->out[i] = mx_array_abstract(shape, type, v->context);
    else if (is_view(v))
        v->out[i] = mx_array_view(v->in[0], 0, shape, type);
    else
        v->out[i] = mx_array_new(shape, type, v->context);
    return v->out[i] ? MX_OK : mx_error_code();
}

static mx_code make_outputs(invocation *v, mx_array *const *given)
{
    for (int i = 0; i < v->n_out; i++)
        v->out[i] = NULL;
    for (int i = 0; i < v->n_out; i++) {
        mx_code code = make_output(v, i, i < v->n_visible ? given[i] : NULL);
        if (code)
            return code;
    }
    return MX_OK;
}

/* ---- running ---------------------------------------------------------------------------------------------- */

double *mx_kernel_seconds;

static mx_code run_timed(const mx_kernel *kernel, mx_kernel_call *call)
{
    struct timespec start, end;
    clock_gettime(CLOCK_MONOTONIC, &start);
    mx_code code = mx_kernel_run(kernel, call);
    clock_gettime(CLOCK_MONOTONIC, &end);
    *mx_kernel_seconds += (double)(end.tv_sec - start.tv_sec) + 1e-9 * (double)(end.tv_nsec - start.tv_nsec);
    return code;
}

static mx_code run_kernel(const mx_kernel *kernel, mx_kernel_call *call)
{
    size_t bytes = kernel->workspace ? kernel->workspace(call) : 0;
    if (bytes && !(call->workspace = mx_alloc(bytes)))
        return MX_ERR_MEMORY;
    mx_code code =
        __builtin_expect(mx_kernel_seconds != NULL, 0) ? run_timed(kernel, call) : mx_kernel_run(kernel, call);
    mx_free(call->workspace, bytes);
    call->workspace = NULL;
    return code ? code : mx_interrupt_check();
}

static mx_code no_kernel(const invocation *v)
{
    char text[32];
    const mx_dtype type = v->n_in && v->in[0] != MX_NONE ? (mx_dtype)v->in[0]->dtype : (mx_dtype)v->infer.out_type[0];
    return mx_op_fail(v->op, MX_ERR_UNSUPPORTED, "there is no kernel for %s on %s with these attributes",
                      mx_dtype_name(type), mx_context_text(v->context, text));
}

/* A device attaches its kernels to operators at its first use. */
static mx_code start_device(const invocation *v, int device)
{
    static _Atomic bool started[8]; /* by device type, as mx_op.kernels */
    if (atomic_load_explicit(&started[device], memory_order_acquire))
        return MX_OK;
    mx_device *d = mx_device_of(v->context, v->op->name);
    if (!d)
        return mx_error_code();
    d->attach_kernels();
    atomic_store_explicit(&started[device], true, memory_order_release);
    return MX_OK;
}

/* An open gather (plan/gather.h) may take this call; else it runs now, after those that wait. */
static mx_code offer(const invocation *v, const mx_kernel_call *call)
{
    if (v->n_out == 1 && !v->given[0])
        return mx_gather_call(call);
    const mx_code code = mx_gather_flush();
    return code ? code : MX_DECLINED;
}

static mx_code run(invocation *v)
{
    if (v->op->flags & MX_OP_VIEW)
        return mx_array_copy_data(v->out[0], v->in[0]);
    const int device = mx_kernel_device(v->context);
    const mx_kernel *const *kernels = v->op->kernels[device];
    if (start_device(v, device))
        return mx_error_code();
    mx_kernel_call call = {v->op, v->attrs, v->n_in, v->n_out, v->in, v->out, mx_thread.modes.training, NULL};
    if (__builtin_expect(mx_thread.gathering != NULL, 0)) {
        mx_code code = offer(v, &call);
        if (code != MX_DECLINED)
            return code;
    }
    for (int i = 0; kernels[i]; i++) {
        mx_code code = run_kernel(kernels[i], &call);
        if (code != MX_DECLINED)
            return code;
    }
    return no_kernel(v);
}

/* In checking mode. */
static mx_code run_checked(invocation *v)
{
    const mx_kernel_call call = {v->op, v->attrs, v->n_in, v->n_out, v->in, v->out, mx_thread.modes.training, NULL};
    bool finite;
    mx_code code = mx_check_before(&call, &finite);
    code = code ? code : run(v);
    return code ? code : mx_check_after(&call, v->n_visible, finite);
}

/* The caller's arrays were written, perhaps in part. */
static void tell_changes(const invocation *v)
{
    for (int i = 0; i < v->n_out; i++)
        mx_array_changed(v->out[i]);
    for (int i = 0; v->op->mutates && i < v->n_in; i++)
        if (v->in[i] != MX_NONE)
            mx_array_changed(v->in[i]);
}

static bool nothing_to_do(const invocation *v)
{
    for (int i = 0; i < v->n_out; i++)
        if (v->out[i]->size)
            return false;
    return !v->op->mutates;
}

/* Results that could not be written in place are copied to the caller's arrays. */
static mx_code deliver(invocation *v)
{
    for (int i = 0; i < v->n_visible; i++) {
        if (!v->given[i])
            continue;
        mx_code code = mx_is_sparse(v->given[i]) ? mx_sparse_assign(v->given[i], v->out[i])
                                                 : mx_array_copy_data(v->given[i], v->out[i]);
        if (code)
            return code;
        mx_release(v->out[i]);
        v->out[i] = mx_retain(v->given[i]);
    }
    return MX_OK;
}

static mx_code compute(invocation *v, mx_array **out)
{
    mx_code code = run_inference(v);
    if (!code)
        code = make_outputs(v, out);
    if (!code && !v->abstract && !is_view(v) && !nothing_to_do(v))
        code = mx_checks_calls() ? run_checked(v) : run(v), tell_changes(v);
    if (!code && !v->abstract)
        code = deliver(v);
    if (!code && mx_thread.modes.recording && !v->abstract)
        code = mx_tape_append(v->op, v->attrs, v->n_in, v->in, v->n_out, v->out);
    return code;
}

/* The visible outputs go to the scope; hidden ones are usually needed on the tape only. */
static mx_code hand_out(invocation *v, mx_code code, mx_array **out)
{
    for (int i = 0; i < v->n_out; i++) {
        mx_array *x = v->out[i];
        if (code || (i >= v->n_visible && !v->all))
            mx_release(x);
        else if (x && x == out[i])
            mx_release(x); /* the caller's own array: it is owned already */
        else
            out[i] = mx_scope_add(x);
        if (!code && i < v->n_visible && !out[i])
            code = mx_error_code();
    }
    return code;
}

/* Kernels always see all declared inputs: optional ones omitted at the end become MX_NONE. */
static mx_array *const *pad_inputs(const mx_op *op, int *n_in, mx_array *const *in, mx_array **padded)
{
    if (op->flags & MX_OP_LIST || *n_in >= op->declared_inputs)
        return in;
    for (int i = 0; i < op->declared_inputs; i++)
        padded[i] = i < *n_in ? in[i] : MX_NONE;
    *n_in = op->declared_inputs;
    return padded;
}

static mx_code invoke(mx_op *op, const void *attrs, int n_in, mx_array *const *in, int n_out, mx_array **out, bool all)
{
    if (!op || n_in < 0 || (n_in && !in) || !out)
        return mx_fail(MX_ERR_ARGUMENT, "mx_invoke: %s is NULL", !op ? "op" : !out ? "out" : "in");
    MX_ASSERT(mx_thread.precision_settled >= 0, "%s: precision is settled %d times", op->name,
              mx_thread.precision_settled);
    if (__builtin_expect(mx_op_expands(op), 0))
        return mx_expand_call(op, attrs, n_in, in, n_out, out);
    if (mx_amp_active())
        return mx_amp_invoke(op, attrs, n_in, in, n_out, out);
    if (!(op->flags & MX_OP_LIST) && n_in > op->declared_inputs)
        return mx_op_fail(op, MX_ERR_ARGUMENT, "got %d inputs, wanted at most %d (%s)", n_in, op->declared_inputs,
                          op->inputs ? op->inputs : "none");
    const bool clean = !mx_has_error(); /* an error from here on is this operator's */
    mx_array *padded[MX_MAX_DECLARED];
    in = pad_inputs(op, &n_in, in, padded);
    mx_array *few_out[FEW];
    mx_shape_t few_shapes[2 * FEW];
    int few_types[2 * FEW];
    invocation v;
    v.op = op, v.attrs = attrs ? attrs : op->defaults, v.n_in = n_in, v.in = in, v.abstract = false, v.all = all;
    mx_code code = check_arguments(&v, n_out);
    code = code ? code : find_context(&v);
    if (__builtin_expect(code != MX_OK, 0)) {
        if (code == MX_SPARSE_CALL)
            code = mx_sparse_invoke(op, v.attrs, n_in, in, n_out, out);
        if (code && clean)
            mx_error_mention(op->name);
        return code;
    }
    if (__builtin_expect(v.abstract || !n_in, 0) && is_symbolic_call(&v) && !mx_control_unrolls(op, v.attrs, in))
        return mx_graph_call(op, v.attrs, n_in, in, n_out, out);
    if (__builtin_expect(mx_op_calls(op), 0) && (!v.abstract || mx_control_unrolls(op, v.attrs, in)))
        return mx_region_call(op, v.attrs, n_in, in, n_out, out);
    /* Few arguments are on the stack; a long list of them is one allocation. */
    const bool many = n_in > FEW || v.n_out > FEW;
    const size_t total = (size_t)n_in + (size_t)v.n_out;
    const size_t bytes = total * sizeof(mx_shape_t) + (size_t)v.n_out * sizeof(mx_array *) + total * sizeof(int);
    char *memory = many ? mx_alloc(bytes) : NULL;
    if (many && !memory)
        return MX_ERR_MEMORY;
    mx_shape_t *shapes = many ? (mx_shape_t *)memory : few_shapes;
    v.out = many ? (mx_array **)(memory + total * sizeof(mx_shape_t)) : few_out;
    int *types = many ? (int *)(v.out + v.n_out) : few_types;
    v.infer = (mx_infer){op, v.attrs, n_in, v.n_out, shapes, shapes + n_in, types, types + n_in, NULL};
    for (int i = 0; i < v.n_out; i++)
        v.out[i] = NULL;
    const double start = mx_profile_start(MX_PROFILE_CALLS);
    code = compute(&v, out);
    if (!v.abstract)
        mx_profile_end(start, op->name, n_in, in);
    code = hand_out(&v, code, out);
    mx_free(memory, bytes);
    if (code && clean)
        mx_error_mention(op->name);
    return code;
}

mx_code mx_invoke(mx_op *op, const void *attrs, int n_in, mx_array *const *in, int n_out, mx_array **out)
{
    return invoke(op, attrs, n_in, in, n_out, out, false);
}

mx_code mx_invoke_all(mx_op *op, const void *attrs, int n_in, mx_array *const *in, mx_array *out[MX_MAX_OUTPUTS])
{
    return invoke(op, attrs, n_in, in, MX_MAX_OUTPUTS, out, true);
}
