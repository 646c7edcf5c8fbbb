/* Calls delayed to run as one (see gather.h).  SPDX-License-Identifier: Apache-2.0 */
#include "exec/plan/gather.h"

#include "base/interrupt.h"

static int device_of(const mx_kernel_call *call) { return mx_kernel_device(call->out[0]->context); }

static void let_go(mx_gather *gather)
{
    for (int64_t c = 0; c < gather->calls.length; c++) {
        mx_held *held = &gather->calls.items[c];
        for (int i = 0; i < held->call.n_in; i++)
            mx_release(held->in[i]);
        mx_release(held->out[0]);
    }
    gather->calls.length = 0;
}

static mx_code run_alone(const mx_kernel_call *call)
{
    const mx_kernel *const *kernels = call->op->kernels[device_of(call)];
    mx_code code = MX_DECLINED;
    for (int i = 0; code == MX_DECLINED && kernels[i]; i++)
        code = mx_kernel_run(kernels[i], call);
    return code == MX_DECLINED ? mx_op_fail(call->op, MX_ERR_UNSUPPORTED, "there is no kernel for these types") : code;
}

static mx_code run_held(mx_gather *gather)
{
    mx_held *held = gather->calls.items;
    const int64_t n = gather->calls.length;
    if (!n)
        return MX_OK;
    for (int64_t c = 0; c < n; c++) /* the vector may have moved since they were added */
        held[c].call.in = held[c].in, held[c].call.out = held[c].out, held[c].call.attrs = held[c].attrs;
    mx_code code = held->call.op->many[device_of(&held->call)]((int)n, &held->call, sizeof *held);
    if (code == MX_DECLINED) {
        code = MX_OK;
        for (int64_t c = 0; !code && c < n; c++)
            code = run_alone(&held[c].call);
    }
    let_go(gather);
    return code ? code : mx_interrupt_check();
}

void mx_gather_begin(mx_gather *gather)
{
    *gather = (mx_gather){.outer = mx_thread.gathering};
    mx_thread.gathering = gather;
}

mx_code mx_gather_end(mx_gather *gather, mx_code code)
{
    mx_thread.gathering = gather->outer;
    if (!code)
        code = run_held(gather);
    let_go(gather);
    mx_vec_free(&gather->calls);
    return code;
}

mx_code mx_gather_flush(void) { return mx_thread.gathering ? run_held(mx_thread.gathering) : MX_OK; }

static bool can_wait(const mx_kernel_call *call)
{
    const size_t bytes = call->op->schema ? call->op->schema->size : 0;
    return call->n_out == 1 && call->n_in <= MX_HELD_INPUTS && bytes <= MX_HELD_ATTRS &&
           call->op->many[device_of(call)];
}

static bool joins(const mx_kernel_call *call, const mx_gather *gather)
{
    const mx_kernel_call *first = gather->calls.length ? &gather->calls.items[0].call : NULL;
    return !first ||
           (first->op == call->op && mx_context_equal(gather->calls.items[0].out[0]->context, call->out[0]->context));
}

mx_code mx_gather_call(const mx_kernel_call *call)
{
    mx_gather *gather = mx_thread.gathering;
    const bool waits = can_wait(call);
    if (!waits || !joins(call, gather)) {
        mx_code code = run_held(gather);
        if (code || !waits)
            return code ? code : MX_DECLINED;
    }
    if (!mx_vec_reserve(&gather->calls, gather->calls.length + 1))
        return MX_ERR_MEMORY;
    mx_held *held = &gather->calls.items[gather->calls.length++];
    held->call = *call;
    for (int i = 0; i < call->n_in; i++)
        held->in[i] = mx_retain(call->in[i]);
    held->out[0] = mx_retain(call->out[0]);
    memcpy(held->attrs, call->attrs, call->op->schema ? call->op->schema->size : 0);
    return MX_OK;
}
