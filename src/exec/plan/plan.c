/* Creating plans (see plan.h).  SPDX-License-Identifier: Apache-2.0 */
#include "exec/plan/plan.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/flags.h"
#include "exec/control/region.h"
#include "ndarray/device.h"
#include "pass/passes.h"

#define MOST_FREE 4 /* unused frames that a plan caches by default */

static void destroy_plan(mx_object *object)
{
    mx_plan *plan = (mx_plan *)object;
    for (mx_frame *frame = plan->free, *next; frame; frame = next) {
        next = frame->next;
        mx_frame_free(frame, &plan->program);
    }
    mx_free(plan->calls, (size_t)plan->program.steps.length * sizeof *plan->calls);
    mx_vec_free(&plan->from_externals);
    mx_vec_free(&plan->from_results);
    mx_vec_free(&plan->to_results);
    mx_vec_free(&plan->finished);
    mx_vec_free(&plan->regions);
    mx_vec_free(&plan->from_prepared);
    mx_vec_free(&plan->origins);
    mx_plan_forget_prepared(plan, true);
    mx_memory_free(&plan->memory);
    mx_replay_free(plan->replay);
    mx_program_free(&plan->program);
    mx_strfree(plan->name);
    pthread_mutex_destroy(&plan->preparing);
    pthread_mutex_destroy(&plan->lock);
    mx_free(plan, sizeof *plan);
}
const mx_kind mx_plan_kind = {"plan", destroy_plan};

/* ---- binding ----------------------------------------------------------------------------------------------------- */

static bool nothing_to_do(const mx_program *program, const mx_step *step)
{
    if (step->op->flags & MX_OP_VIEW)
        return true;
    for (int k = 0; k < step->n_out; k++)
        if (mx_shape_size(&program->values.items[step->out[k]].shape))
            return false;
    return !step->op->mutates;
}

static mx_code no_kernel(const mx_plan *plan, const mx_step *step)
{
    char text[32];
    return mx_fail(MX_ERR_UNSUPPORTED, "%s (%s): there is no kernel on %s", step->name, step->op->name,
                   mx_context_text(plan->program.context, text));
}

/* No step calls a user's code or branches on values. */
static bool is_capturable(const mx_program *program)
{
    if (!program->device->capturer || !mx_flags_get()->cuda_graphs)
        return false;
    for (int64_t i = 0; i < program->steps.length; i++)
        if (program->steps.items[i].op->flags & MX_OP_CALLS)
            return false;
    return true;
}

static mx_code find_calls(mx_plan *plan)
{
    const mx_program *program = &plan->program;
    const int device = mx_kernel_device(program->context);
    plan->calls = mx_alloc((size_t)program->steps.length * sizeof *plan->calls);
    if (!plan->calls)
        return MX_ERR_MEMORY;
    for (int64_t i = 0; i < program->steps.length; i++) {
        const mx_step *step = &program->steps.items[i];
        if (nothing_to_do(program, step))
            continue;
        if (!step->op->kernels[device][0])
            return no_kernel(plan, step);
        if (mx_is_history(step->op, step->n_out - 1, step->n_out) &&
            !mx_vec_push(&plan->regions, step->out[step->n_out - 1]))
            return MX_ERR_MEMORY;
        plan->calls[plan->n_calls++] = (int32_t)i;
        plan->n_forward += i < program->forward;
        plan->n_prepared += i < program->prepared;
        plan->list_length += step->n_in + step->n_out;
    }
    plan->capturable = is_capturable(program);
    return MX_OK;
}

static mx_code find_patches(mx_plan *plan)
{
    for (int64_t e = 0; e < plan->program.externals.length; e++)
        plan->writes |= plan->program.externals.items[e].written;
    for (int64_t v = 0; v < plan->memory.values; v++) {
        const mx_place *place = &plan->memory.place[v];
        const mx_patch patch = {(int32_t)v, (int32_t)place->at};
        bool ok = true;
        if (place->kind == MX_PLACE_EXTERNAL)
            ok = mx_vec_push(&plan->from_externals, patch);
        else if (place->kind == MX_PLACE_RESULT && place->at < plan->program.forward_results)
            ok = mx_vec_push(&plan->from_results, patch);
        else if (place->kind == MX_PLACE_RESULT)
            ok = mx_vec_push(&plan->to_results, patch);
        if (!ok)
            return MX_ERR_MEMORY;
    }
    return MX_OK;
}

/* The last call that writes into the memory of a value; -1: none of the second part. */
static int32_t last_writer(const mx_plan *plan, int32_t value)
{
    for (int32_t c = plan->n_calls - 1; c >= plan->n_forward; c--) {
        const mx_step *step = &plan->program.steps.items[plan->calls[c]];
        for (int k = 0; k < step->n_out; k++)
            if (step->out[k] == value)
                return c;
    }
    return -1;
}

static int by_call(const void *a, const void *b)
{
    const mx_patch *x = a, *y = b;
    return x->value != y->value ? (x->value > y->value) - (x->value < y->value)
                                : (x->from > y->from) - (x->from < y->from);
}

/* When the results of the second part are complete; only those that one value represents. */
static mx_code find_finished(mx_plan *plan)
{
    const int64_t results = plan->program.results.length - plan->program.forward_results;
    for (int64_t i = 0; i < results; i++) {
        int32_t values = 0, call = -1;
        for (int64_t k = 0; k < plan->to_results.length; k++)
            if (plan->to_results.items[k].from == plan->program.forward_results + i) {
                values++;
                call = last_writer(plan, plan->to_results.items[k].value);
            }
        if (values == 1 && call >= 0 && !mx_vec_push(&plan->finished, ((mx_patch){call, (int32_t)i})))
            return MX_ERR_MEMORY;
    }
    if (plan->finished.length)
        qsort(plan->finished.items, (size_t)plan->finished.length, sizeof *plan->finished.items, by_call);
    return MX_OK;
}

/* ---- workspace --------------------------------------------------------------------------------------------------- */

static void describe(mx_array *x, const mx_value *value, mx_context context)
{
    memset(x, 0, sizeof *x);
    mx_object_init(&x->object, &mx_array_kind);
    x->context = context;
    x->dtype = (int8_t)value->dtype;
    x->ndim = (int8_t)value->shape.ndim;
    x->size = mx_shape_size(&value->shape);
    memcpy(x->shape, value->shape.dim, sizeof x->shape);
}

static size_t most_workspace(const mx_program *program, const mx_step *step, mx_array *arrays, mx_array **lists)
{
    const int device = mx_kernel_device(program->context);
    size_t most = 0;
    for (int k = 0; k < step->n_in + step->n_out; k++) {
        const int32_t v = k < step->n_in ? step->in[k] : step->out[k - step->n_in];
        if (v >= 0)
            describe(&arrays[k], &program->values.items[v], program->context);
        lists[k] = v >= 0 ? &arrays[k] : MX_NONE;
    }
    mx_kernel_call call = {step->op, step->attrs,        step->n_in,     step->n_out,
                           lists,    lists + step->n_in, step->training, NULL};
    for (int i = 0; i < MX_MAX_KERNELS && step->op->kernels[device][i]; i++) {
        const mx_kernel *kernel = step->op->kernels[device][i];
        const size_t bytes = kernel->workspace ? kernel->workspace(&call) : 0;
        most = bytes > most ? bytes : most;
    }
    return most;
}

static mx_code plan_memory(mx_plan *plan)
{
    const mx_program *program = &plan->program;
    size_t widest = 1;
    for (int64_t i = 0; i < program->steps.length; i++) {
        const size_t width = (size_t)(program->steps.items[i].n_in + program->steps.items[i].n_out);
        widest = width > widest ? width : widest;
    }
    const size_t bytes = widest * (sizeof(mx_array) + sizeof(mx_array *));
    const size_t sizes_bytes = (size_t)program->steps.length * sizeof(size_t);
    mx_array *arrays = mx_alloc(bytes);
    size_t *sizes = mx_alloc_zero(sizes_bytes);
    mx_code code = arrays && sizes ? MX_OK : MX_ERR_MEMORY;
    for (int64_t i = 0; !code && i < program->steps.length; i++)
        sizes[i] = most_workspace(program, &program->steps.items[i], arrays, (mx_array **)(arrays + widest));
    if (!code)
        code = mx_memory_plan(&plan->memory, program, sizes);
    mx_free(arrays, bytes);
    mx_free(sizes, sizes_bytes);
    return code;
}

/* Memory of the program if every result were a separate array, before any pass. */
static int64_t sum_of_results(const mx_program *program)
{
    int64_t sum = 0;
    for (int64_t i = 0; i < program->steps.length; i++)
        for (int k = 0; k < program->steps.items[i].n_out; k++)
            if (!(program->steps.items[i].op->flags & MX_OP_VIEW))
                sum += mx_value_bytes(&program->values.items[program->steps.items[i].out[k]]);
    return sum;
}

/* ---- creating ---------------------------------------------------------------------------------------------------- */

static mx_code make(mx_plan *plan, const char *name)
{
    mx_device *device = mx_device_of(plan->program.context, "plan");
    if (!device || !(plan->name = mx_strdup(name)))
        return mx_error_code();
    device->attach_kernels();
    mx_region_attach();
    plan->imperative_bytes = sum_of_results(&plan->program);
    mx_code code = mx_pipeline_run(&plan->program, name);
    if (!code)
        code = plan_memory(plan);
    if (!code)
        code = find_calls(plan);
    if (!code)
        code = find_patches(plan);
    if (!code)
        code = find_finished(plan);
    if (!code)
        code = mx_plan_find_prepared(plan);
    return code;
}

mx_plan *mx_plan_new(mx_program *program, const char *name)
{
    mx_plan *plan = mx_alloc_zero(sizeof *plan);
    if (!plan) {
        mx_program_free(program);
        return NULL;
    }
    mx_object_init(&plan->object, &mx_plan_kind);
    pthread_mutex_init(&plan->preparing, NULL);
    pthread_mutex_init(&plan->lock, NULL);
    plan->most_free = MOST_FREE;
    plan->program = *program;
    *program = (mx_program){0};
    if (!make(plan, name))
        return plan;
    mx_release(plan);
    return NULL;
}
