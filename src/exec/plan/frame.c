/* Frames: creating, binding and running them (see plan.h).  SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/interrupt.h"
#include "exec/call.h"
#include "exec/plan/plan.h"
#include "exec/profile.h"
#include "exec/control/region.h"

/* ---- destroying -------------------------------------------------------------------------------------------------- */

void mx_frame_free(mx_frame *frame, const mx_program *program)
{
    const int64_t externals = program->externals.length, results = program->results.length;
    for (int64_t i = 0; i < frame->plan->regions.length; i++)
        mx_history_free(&frame->headers[frame->plan->regions.items[i]]);
    for (int64_t i = 0; i < externals; i++)
        mx_release(frame->externals[i]);
    for (int64_t i = 0; i < results; i++)
        mx_release(frame->results[i]);
    mx_release(frame->arena);
    mx_captured_free(frame->captured);
    mx_scratch_free(&frame->scratch);
    mx_free(frame, frame->bytes);
}

static void forget_gradients(mx_frame *frame)
{
    const mx_program *program = &frame->plan->program;
    for (int64_t i = program->forward_results; i < program->results.length; i++) {
        mx_release(frame->results[i]);
        frame->results[i] = NULL;
    }
}

void mx_frame_forget(mx_frame *frame)
{
    const mx_program *program = &frame->plan->program;
    for (int64_t i = 0; i < frame->plan->regions.length; i++)
        mx_history_forget(&frame->headers[frame->plan->regions.items[i]]);
    for (int64_t i = 0; i < program->externals.length; i++)
        if (program->externals.items[i].kind == MX_EXTERNAL_INPUT) {
            mx_release(frame->externals[i]);
            frame->externals[i] = NULL;
        }
    forget_gradients(frame);
}

/* A released frame goes back to its plan; if there are too many it is freed. */
static void destroy_frame(mx_object *object)
{
    mx_frame *frame = (mx_frame *)object;
    mx_plan *plan = frame->plan;
    mx_frame_forget(frame);
    pthread_mutex_lock(&plan->lock);
    const bool kept = plan->free_count < plan->most_free;
    if (kept) {
        frame->next = plan->free;
        plan->free = frame;
        plan->free_count++;
    }
    pthread_mutex_unlock(&plan->lock);
    if (!kept)
        mx_frame_free(frame, &plan->program);
    mx_release(plan);
}
const mx_kind mx_frame_kind = {"frame of a plan", destroy_frame};

/* ---- creating ---------------------------------------------------------------------------------------------------- */

static void make_header(mx_frame *frame, int64_t v)
{
    const mx_value *value = &frame->plan->program.values.items[v];
    const mx_place *place = &frame->plan->memory.place[v];
    mx_array *x = &frame->headers[v];
    mx_object_init(&x->object, &mx_array_kind);
    x->context = frame->plan->program.context;
    x->dtype = (int8_t)value->dtype;
    x->ndim = (int8_t)value->shape.ndim;
    x->size = mx_shape_size(&value->shape);
    memcpy(x->shape, value->shape.dim, sizeof x->shape);
    if (place->kind == MX_PLACE_ARENA && frame->arena)
        x->storage = frame->arena->storage, x->offset = place->at;
}

/* A region's recording is an output that only its backward reads; without a backward it need not record. */
static bool records(const mx_plan *plan, const mx_step *step, int k)
{
    return !mx_is_history(step->op, k, step->n_out) || plan->program.values.items[step->out[k]].uses;
}

static void make_calls(mx_frame *frame)
{
    const mx_plan *plan = frame->plan;
    const int device = mx_kernel_device(plan->program.context);
    mx_array **list = frame->lists;
    for (int32_t c = 0; c < plan->n_calls; c++) {
        const mx_step *step = &plan->program.steps.items[plan->calls[c]];
        const int64_t workspace = plan->memory.workspace[plan->calls[c]];
        mx_array **in = list, **out = list + step->n_in;
        for (int k = 0; k < step->n_in; k++)
            in[k] = step->in[k] < 0 ? MX_NONE : &frame->headers[step->in[k]];
        for (int k = 0; k < step->n_out; k++)
            out[k] = records(plan, step, k) ? &frame->headers[step->out[k]] : MX_NONE;
        list = out + step->n_out;
        void *room = workspace < 0 ? NULL : (char *)mx_data(frame->arena) + workspace;
        frame->calls[c].kernels = step->op->kernels[device];
        frame->calls[c].call =
            (mx_kernel_call){step->op, step->attrs, step->n_in, step->n_out, in, out, step->training, room};
    }
}

/* Sequences of calls that a device runs as one: the updates of all parameters. */
static void find_alike(mx_frame *frame)
{
    const mx_plan *plan = frame->plan;
    const int device = mx_kernel_device(plan->program.context);
    for (int32_t c = plan->n_calls - 1; c >= 0; c--) {
        const mx_op *op = frame->calls[c].call.op;
        const bool joins = op->many[device] && c + 1 < plan->n_calls && frame->calls[c + 1].call.op == op;
        frame->calls[c].alike = joins ? frame->calls[c + 1].alike + 1 : 1;
    }
}

static mx_frame *new_frame(mx_plan *plan)
{
    const mx_program *program = &plan->program;
    const size_t values = (size_t)program->values.length, calls = (size_t)plan->n_calls;
    const size_t pointers =
        (size_t)plan->list_length + (size_t)program->externals.length + (size_t)program->results.length;
    const size_t bytes =
        sizeof(mx_frame) + values * sizeof(mx_array) + calls * sizeof(mx_bound_call) + pointers * sizeof(mx_array *);
    mx_frame *frame = mx_alloc_zero(bytes);
    if (!frame)
        return NULL;
    mx_object_init(&frame->object, &mx_frame_kind);
    frame->bytes = bytes;
    frame->plan = plan;
    frame->headers = (mx_array *)(frame + 1);
    frame->calls = (mx_bound_call *)(frame->headers + values);
    frame->lists = (mx_array **)(frame->calls + calls);
    frame->externals = frame->lists + plan->list_length;
    frame->results = frame->externals + program->externals.length;
    mx_shape_t room = {.ndim = 1, .dim = {plan->memory.arena}};
    frame->arena = mx_array_new(&room, MX_UINT8, program->context);
    if (!frame->arena) {
        mx_free(frame, bytes);
        return NULL;
    }
    for (int64_t v = 0; v < program->values.length; v++)
        make_header(frame, v);
    make_calls(frame);
    find_alike(frame);
    for (int64_t e = 0; e < program->externals.length; e++)
        frame->externals[e] = mx_retain(program->externals.items[e].array);
    return frame;
}

mx_frame *mx_plan_frame(mx_plan *plan)
{
    pthread_mutex_lock(&plan->lock);
    mx_frame *frame = plan->free;
    if (frame) {
        plan->free = frame->next;
        plan->free_count--;
    }
    pthread_mutex_unlock(&plan->lock);
    if (frame)
        mx_object_init(&frame->object, &mx_frame_kind);
    else if (!(frame = new_frame(plan)))
        return NULL;
    frame->plan = mx_retain(plan);
    frame->next = NULL;
    return frame;
}

#define LITTLE (4 << 20) /* bytes of an arena that are not worth freeing */

void mx_plan_trim(mx_plan *plan)
{
    mx_plan_forget_prepared(plan, false);
    if (plan->memory.arena < LITTLE)
        return;
    pthread_mutex_lock(&plan->lock);
    mx_frame *unused = plan->free;
    plan->free = NULL;
    plan->free_count = 0;
    pthread_mutex_unlock(&plan->lock);
    for (mx_frame *next; unused; unused = next) {
        next = unused->next;
        mx_frame_free(unused, &plan->program);
    }
}

/* ---- binding ----------------------------------------------------------------------------------------------------- */

static mx_code check_fit(const mx_frame *frame, int64_t slot, const mx_array *x)
{
    const mx_array *header = &frame->headers[frame->plan->program.externals.items[slot].value];
    char have[MX_SHAPE_TEXT], want[MX_SHAPE_TEXT];
    mx_shape_t shape = mx_array_shape(x), wanted = mx_array_shape(header);
    if (!x->storage)
        return mx_fail(MX_ERR_STATE, "%s: an array without elements cannot be run", frame->plan->name);
    if (!mx_shape_equal(&shape, &wanted) || x->dtype != header->dtype)
        return mx_fail(MX_ERR_SHAPE, "%s: the plan expects %s of %s, got %s of %s", frame->plan->name,
                       mx_shape_text(&wanted, want), mx_dtype_name((mx_dtype)header->dtype),
                       mx_shape_text(&shape, have), mx_dtype_name((mx_dtype)x->dtype));
    if (!mx_context_fits(x->context, header->context))
        return mx_fail(MX_ERR_DEVICE, "%s: an input is on another device than the plan", frame->plan->name);
    return MX_OK;
}

bool mx_frame_fits(const mx_frame *frame, int64_t slot, const mx_array *x)
{
    const mx_value *value = &frame->plan->program.values.items[frame->plan->program.externals.items[slot].value];
    if (frame->externals[slot] == x)
        return true;
    mx_shape_t shape = mx_array_shape(x);
    return mx_shape_equal(&shape, &value->shape) && x->dtype == value->dtype;
}

mx_code mx_frame_bind(mx_frame *frame, int64_t slot, mx_array *array)
{
    if (frame->externals[slot] == array)
        return MX_OK;
    mx_code code = check_fit(frame, slot, array);
    if (code)
        return code;
    mx_retain(array);
    mx_release(frame->externals[slot]);
    frame->externals[slot] = array;
    return MX_OK;
}

static mx_code patch(mx_frame *frame, int64_t count, const mx_patch *patches, mx_array *const *arrays)
{
    for (int64_t i = 0; i < count; i++) {
        const mx_array *from = arrays[patches[i].from];
        mx_array *x = &frame->headers[patches[i].value];
        if (!from)
            return mx_fail(MX_ERR_STATE, "%s: external %d is not bound", frame->plan->name, patches[i].from);
        MX_ASSERT(mx_bytes(from) >= mx_bytes(x), "%s: value %d has %zu bytes, what is bound to it %zu",
                  frame->plan->name, patches[i].value, mx_bytes(x), mx_bytes(from));
        x->storage = from->storage;
        x->offset = from->offset;
    }
    return MX_OK;
}

/* An output array is reused if nobody else holds it or its memory: what a caller holds never changes. */
static bool reusable(const mx_array *x) { return x && x->object.count == 1 && x->storage->object.count == 1; }

static mx_code fresh_result(mx_frame *frame, int64_t h)
{
    mx_array *x = frame->results[h];
    if (reusable(x)) {
        if (x->node)
            mx_array_set_node(x, NULL, 0);
        return MX_OK;
    }
    const mx_value *value = &frame->plan->program.values.items[frame->plan->program.results.items[h]];
    mx_release(x);
    frame->results[h] = mx_array_new(&value->shape, (mx_dtype)value->dtype, frame->plan->program.context);
    return frame->results[h] ? MX_OK : mx_error_code();
}

/* ---- running ----------------------------------------------------------------------------------------------------- */

static mx_code run_watched(mx_bound_call *c)
{
    const double start = mx_profiler_now();
    const mx_code code = mx_kernel_run(c->kernels[0], &c->call);
    if (mx_kernel_seconds)
        *mx_kernel_seconds += 1e-6 * (mx_profiler_now() - start);
    if (mx_profile_watches(MX_PROFILE_NODES))
        mx_profile_end(start, c->call.op->name, c->call.n_in, c->call.in);
    return code;
}

static mx_code run_one(mx_bound_call *c)
{
    const bool watched = __builtin_expect(mx_kernel_seconds != NULL, 0) || mx_profile_watches(MX_PROFILE_NODES);
    const mx_code code = watched ? run_watched(c) : mx_kernel_run(c->kernels[0], &c->call);
    return code ? code : mx_interrupt_check();
}

/* The kernel declined, permanently since shapes, types and attributes are fixed; or it failed. */
static mx_code handle(mx_frame *frame, int32_t c, mx_code code)
{
    mx_bound_call *bound = &frame->calls[c];
    const mx_step *step = &frame->plan->program.steps.items[frame->plan->calls[c]];
    const bool clean = !mx_has_error();
    while (code == MX_DECLINED && bound->kernels[1]) {
        bound->kernels++;
        code = run_one(bound);
    }
    if (code == MX_DECLINED)
        return mx_fail(MX_ERR_UNSUPPORTED, "%s (%s): there is no kernel for these types and attributes", step->name,
                       step->op->name);
    if (code && clean)
        mx_error_mention(step->op->name);
    return code;
}

static mx_code run_checked(mx_frame *frame, int32_t c)
{
    const mx_code code = run_one(&frame->calls[c]);
    return __builtin_expect(code != MX_OK, 0) ? handle(frame, c, code) : MX_OK;
}

mx_code mx_frame_run_alike(mx_frame *frame, int32_t c, int32_t end, int32_t *next)
{
    mx_bound_call *first = &frame->calls[c];
    const int device = mx_kernel_device(frame->plan->program.context);
    const int32_t n = first->alike < end - c ? first->alike : end - c;
    mx_code code = n > 1 ? first->call.op->many[device](n, &first->call, sizeof *first) : MX_DECLINED;
    *next = c + n;
    for (int32_t i = c; code == MX_DECLINED && i < c + n; i++) {
        const mx_code each = run_checked(frame, i);
        if (each || i + 1 == c + n)
            code = each;
    }
    return code;
}

mx_code mx_frame_run_each(mx_frame *frame, int32_t begin, int32_t end)
{
    const mx_stops *stops = frame->stops;
    mx_code code = MX_OK;
    int32_t stop = 0;
    for (int32_t c = begin; !code && c < end;) {
        for (; !code && stops && stop < stops->n && stops->before[stop] <= c; stop++)
            code = stops->run(stops->user, stop);
        const int32_t until = stops && stop < stops->n && stops->before[stop] < end ? stops->before[stop] : end;
        if (!code)
            code = mx_frame_run_alike(frame, c, until, &c);
    }
    return code;
}

mx_code mx_frame_run_calls(mx_frame *frame, int32_t begin, int32_t end)
{
    mx_scratch *outer = mx_scratch_enter(&frame->scratch);
    const mx_code code = mx_frame_captures(frame, begin, end) ? mx_frame_run_captured(frame, begin, end)
                                                              : mx_frame_run_each(frame, begin, end);
    mx_scratch_leave(&frame->scratch, outer);
    return code;
}

/* Results and written externals have new elements. */
static void tell_changes(const mx_frame *frame, int64_t result, int64_t end)
{
    const mx_program *program = &frame->plan->program;
    for (; result < end; result++)
        if (frame->results[result])
            mx_array_changed(frame->results[result]);
    for (int64_t e = 0; frame->plan->writes && e < program->externals.length; e++)
        if (program->externals.items[e].written && frame->externals[e])
            mx_array_changed(frame->externals[e]);
}

static mx_code prepare_forward(mx_frame *frame)
{
    const mx_plan *plan = frame->plan;
    for (int64_t h = 0; h < plan->program.forward_results; h++)
        if (fresh_result(frame, h))
            return mx_error_code();
    if (patch(frame, plan->from_results.length, plan->from_results.items, frame->results))
        return mx_error_code();
    return MX_OK;
}

mx_code mx_frame_forward(mx_frame *frame)
{
    const mx_plan *plan = frame->plan;
    mx_code code = prepare_forward(frame);
    for (int64_t i = 0; !code && i < plan->from_externals.length; i++) {
        /* Externals of the second part (gradients of the results) are bound later. */
        const mx_patch *p = &plan->from_externals.items[i];
        if (frame->externals[p->from])
            code = patch(frame, 1, p, frame->externals);
    }
    if (plan->replay)
        frame->rng = mx_rng_state();
    if (!code)
        code = mx_frame_prepare(frame);
    if (!code)
        code = mx_frame_run_calls(frame, plan->n_prepared, plan->n_forward);
    mx_release(frame->prepared);
    frame->prepared = NULL;
    tell_changes(frame, 0, plan->program.forward_results);
    return code;
}

/* Calls [at, end), announcing each result as soon as it is complete. */
static mx_code run_announcing(mx_frame *frame, int32_t at, int32_t end)
{
    const mx_plan *plan = frame->plan;
    mx_code code = MX_OK;
    for (int64_t i = 0; !code && i < plan->finished.length && plan->finished.items[i].value < end; i++) {
        const mx_patch *f = &plan->finished.items[i];
        if (f->value >= at) {
            code = mx_frame_run_calls(frame, at, f->value + 1);
            at = f->value + 1;
        }
        if (!code) {
            mx_array_changed(frame->results[plan->program.forward_results + f->from]);
            frame->ready(frame->ready_user, f->from);
        }
    }
    return code ? code : mx_frame_run_calls(frame, at, end);
}

/* Results that were announced may be under way to other processes: their stamps are valid. */
static void tell_other_changes(const mx_frame *frame)
{
    const mx_plan *plan = frame->plan;
    const int64_t first = plan->program.forward_results;
    for (int64_t h = first; h < plan->program.results.length; h++) {
        bool announced = false;
        for (int64_t i = 0; !announced && i < plan->finished.length; i++)
            announced = plan->finished.items[i].from == h - first;
        if (!announced)
            tell_changes(frame, h, h + 1);
    }
}

static mx_code run_second(mx_frame *frame)
{
    const mx_plan *plan = frame->plan;
    mx_code code = patch(frame, plan->from_externals.length, plan->from_externals.items, frame->externals);
    if (!code)
        code = patch(frame, plan->to_results.length, plan->to_results.items, frame->results);
    if (!code)
        code = frame->ready ? run_announcing(frame, plan->n_forward, plan->n_calls)
                            : mx_frame_run_calls(frame, plan->n_forward, plan->n_calls);
    if (frame->ready && !code)
        tell_other_changes(frame);
    else
        tell_changes(frame, plan->program.forward_results, plan->program.results.length);
    return code;
}

/* A backward that may run again works on a copy of the arena's contents. */
static mx_code run_second_twice(mx_frame *frame)
{
    MX_SCOPE;
    const bool retain = mx_thread.modes.retain;
    mx_array *saved = mx_array_copy(frame->arena);
    mx_thread.modes.retain = true;
    mx_code code = saved ? run_second(frame) : mx_error_code();
    mx_thread.modes.retain = retain;
    return code ? code : mx_array_copy_data(frame->arena, saved);
}

mx_code mx_frame_backward(mx_frame *frame, mx_array **destination, bool keep)
{
    const mx_program *program = &frame->plan->program;
    for (int64_t h = program->forward_results; h < program->results.length; h++) {
        const int32_t v = program->results.items[h];
        mx_array **to = &destination[h - program->forward_results];
        if (v < 0)
            continue;
        const mx_value *value = &program->values.items[v];
        if (!*to && !(*to = mx_scope_add(mx_array_new(&value->shape, (mx_dtype)value->dtype, program->context))))
            return mx_error_code();
        mx_release(frame->results[h]);
        frame->results[h] = mx_retain(*to);
    }
    mx_code code = keep ? run_second_twice(frame) : run_second(frame);
    forget_gradients(frame);
    return code;
}

static mx_code prepare_whole(mx_frame *frame)
{
    const mx_plan *plan = frame->plan;
    mx_code code = prepare_forward(frame);
    if (!code)
        code = patch(frame, plan->from_externals.length, plan->from_externals.items, frame->externals);
    if (!code)
        code = patch(frame, plan->to_results.length, plan->to_results.items, frame->results);
    return code ? code : mx_frame_prepare(frame);
}

static mx_code end_whole(mx_frame *frame, mx_code code)
{
    mx_release(frame->prepared);
    frame->prepared = NULL;
    tell_changes(frame, 0, frame->plan->program.results.length);
    return code;
}

mx_code mx_frame_run(mx_frame *frame)
{
    mx_code code = prepare_whole(frame);
    if (!code)
        code = mx_frame_run_calls(frame, frame->plan->n_prepared, frame->plan->n_calls);
    return end_whole(frame, code);
}

mx_code mx_frame_run_stops(mx_frame *frame, const mx_stops *stops)
{
    frame->stops = stops;
    const mx_code code = mx_frame_run(frame);
    frame->stops = NULL;
    return code;
}

mx_code mx_frame_run_around(mx_frame *frame, int32_t until, mx_code (*between)(void *user), void *user)
{
    const mx_plan *plan = frame->plan;
    mx_code code = prepare_whole(frame);
    if (!code)
        code = frame->ready && !plan->capturable ? run_announcing(frame, plan->n_prepared, until)
                                                 : mx_frame_run_calls(frame, plan->n_prepared, until);
    if (!code)
        code = between(user);
    if (!code)
        code = mx_frame_run_calls(frame, until, plan->n_calls);
    return end_whole(frame, code);
}
