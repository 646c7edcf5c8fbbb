/* What a plan computes from parameters alone (pass/prepare.c) and caches between runs.
 *
 *     plan: prepared array, and for each parameter that it depends on (stamp, offset) of the contents it was computed from
 *     run:  unchanged?  use it  :  run the prepared calls again, into new memory if another run still reads the old
 *
 * A parameter may get new memory or new elements at any time: then it has a different stamp (ndarray/array.h).  If code
 * outside of the library can write to its memory it has no stamp, so everything is recomputed in every run.  Nothing
 * stale is ever read.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "exec/plan/plan.h"

#include <stdatomic.h>

#include "base/alloc.h"
#include "base/error.h"

#define MOST_CACHED (512LL << 20) /* bytes that plans which are currently not run may hold in total */

static _Atomic(int64_t) cached_bytes; /* bytes of prepared values of all plans */

static void let_go(mx_plan *plan)
{
    if (plan->prepared)
        atomic_fetch_sub(&cached_bytes, plan->memory.prepared);
    mx_release(plan->prepared);
    plan->prepared = NULL;
}

/* Updates the origins from the bound arrays; true: all of them have stamps and are unchanged. */
static bool same_origins(mx_plan *plan, const mx_frame *frame)
{
    bool same = plan->prepared != NULL;
    for (int64_t i = 0; i < plan->origins.length; i++) {
        mx_origin *o = &plan->origins.items[i];
        const mx_array *x = frame->externals[o->slot];
        const uint64_t stamp = mx_array_stamp(x);
        same &= stamp && stamp == o->stamp && x->offset == o->offset;
        o->stamp = stamp, o->offset = x->offset;
    }
    return same;
}

/* Memory that no run is reading; the plan's current block if possible. */
static mx_code fresh_memory(mx_plan *plan)
{
    if (plan->prepared && plan->prepared->object.count == 1)
        return MX_OK;
    mx_shape_t room = {.ndim = 1, .dim = {plan->memory.prepared}};
    let_go(plan);
    plan->prepared = mx_array_new(&room, MX_UINT8, plan->program.context);
    if (plan->prepared)
        atomic_fetch_add(&cached_bytes, plan->memory.prepared);
    return plan->prepared ? MX_OK : mx_error_code();
}

static void point_headers(mx_frame *frame, const mx_array *prepared)
{
    const mx_plan *plan = frame->plan;
    for (int64_t i = 0; i < plan->from_prepared.length; i++) {
        const int32_t v = plan->from_prepared.items[i];
        frame->headers[v].storage = prepared->storage;
        frame->headers[v].offset = plan->memory.place[v].at;
    }
}

mx_code mx_frame_prepare(mx_frame *frame)
{
    mx_plan *plan = frame->plan;
    if (!plan->n_prepared)
        return MX_OK;
    pthread_mutex_lock(&plan->preparing);
    const bool ready = same_origins(plan, frame);
    mx_code code = ready ? MX_OK : fresh_memory(plan);
    if (!code) {
        frame->prepared = mx_retain(plan->prepared);
        point_headers(frame, plan->prepared);
    }
    if (!code && !ready)
        code = mx_frame_run_calls(frame, 0, plan->n_prepared);
    if (code)
        let_go(plan);
    pthread_mutex_unlock(&plan->preparing);
    return code;
}

void mx_plan_forget_prepared(mx_plan *plan, bool ends)
{
    pthread_mutex_lock(&plan->preparing);
    if (ends || atomic_load(&cached_bytes) > MOST_CACHED)
        let_go(plan);
    pthread_mutex_unlock(&plan->preparing);
}

/* ---- creating ---------------------------------------------------------------------------------------------------- */

static mx_code add_origin(mx_plan *plan, int32_t value)
{
    const int32_t slot = value < 0 ? -1 : plan->program.values.items[value].external;
    if (slot < 0 || plan->program.externals.items[slot].kind == MX_EXTERNAL_CONSTANT)
        return MX_OK;
    for (int64_t i = 0; i < plan->origins.length; i++)
        if (plan->origins.items[i].slot == slot)
            return MX_OK;
    return mx_vec_push(&plan->origins, ((mx_origin){.slot = slot})) ? MX_OK : MX_ERR_MEMORY;
}

mx_code mx_plan_find_prepared(mx_plan *plan)
{
    const mx_program *program = &plan->program;
    for (int32_t v = 0; v < plan->memory.values; v++)
        if (plan->memory.place[v].kind == MX_PLACE_PREPARED && !mx_vec_push(&plan->from_prepared, v))
            return MX_ERR_MEMORY;
    for (int64_t s = 0; s < program->prepared; s++)
        for (int k = 0; k < program->steps.items[s].n_in; k++)
            if (add_origin(plan, program->steps.items[s].in[k]))
                return MX_ERR_MEMORY;
    return MX_OK;
}
