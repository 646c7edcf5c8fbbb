/* Fused training steps: forward, loss, backward and update in one plan (see gluon/step.h).
 *
 *     net, loss --trace--> forward --gradient--> backward (gradients into the parameters' arrays)
 *     optimizer --on symbolic arrays, calls intercepted--> one update operator per parameter, appended to the program
 *
 * An update's attributes (rate, decay, bias corrections ...) change with every step.  So in every step the optimizer's
 * own code runs once per parameter on symbolic arrays; its calls are intercepted and their attributes written into the
 * plan, which then runs.
 *
 * With several processes, gradients are exchanged between the last call of backward and the first update; buckets of
 * them leave while backward goes on (buckets.c).  Exchanges that GPUs make by themselves are part of the plan: its CUDA
 * graph has them beside the rest of backward.
 *
 * Invariant: a compiled step has the same effects as the imperative loop: weights, states, counts, gradients.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "gluon/train/step_plan.h"

#include "base/alloc.h"
#include "base/checking.h"
#include "base/error.h"
#include "exec/ready.h"
#include "gluon/train/buckets.h"

/* ---- making and ending ------------------------------------------------------------------------------------------- */

static void destroy(mx_object *object)
{
    mx_train_step *self = (mx_train_step *)object;
    mx_step_plans_drop(self);
    for (int64_t i = 0; self->stands && i < self->slots; i++)
        mx_stand_in_drop(&self->stands[i]);
    mx_free(self->stands, (size_t)self->slots * sizeof *self->stands);
    mx_release(self->net);
    mx_release(self->loss);
    mx_release(self->trainer);
    pthread_mutex_destroy(&self->lock);
    mx_free(self, sizeof *self);
}
static const mx_kind step_kind = {"training step", destroy};

/* A forward that calls its own step gets an error instead of a deadlock. */
static void make_lock(pthread_mutex_t *lock)
{
    pthread_mutexattr_t kind;
    pthread_mutexattr_init(&kind);
    pthread_mutexattr_settype(&kind, PTHREAD_MUTEX_ERRORCHECK);
    pthread_mutex_init(lock, &kind);
    pthread_mutexattr_destroy(&kind);
}

mx_train_step *mx_train_step_new(mx_block *net, mx_block *loss, mx_trainer *trainer)
{
    if (!mx_is_kind(net, &mx_block_kind, "mx_train_step_new", "net") ||
        !mx_is_kind(loss, &mx_block_kind, "mx_train_step_new", "loss") ||
        !mx_is_kind(trainer, &mx_trainer_kind, "mx_train_step_new", "trainer"))
        return NULL;
    mx_train_step *self = mx_alloc_zero(sizeof *self);
    if (!self)
        return NULL;
    mx_object_init(&self->object, &step_kind);
    make_lock(&self->lock);
    self->net = mx_retain(net), self->loss = mx_retain(loss), self->trainer = mx_retain(trainer);
    self->slots = trainer->count;
    self->stands = mx_alloc_zero((size_t)self->slots * sizeof *self->stands);
    if (!self->stands) {
        mx_release(self);
        return NULL;
    }
    return mx_scope_add(self);
}

bool mx_train_step_compiled(const mx_train_step *self)
{
    return mx_is_kind(self, &step_kind, "mx_train_step_compiled", "step") &&
           __atomic_load_n(&self->compiled, __ATOMIC_RELAXED);
}

/* ---- running ----------------------------------------------------------------------------------------------------- */

/* Counts the update as mx_optimizer_update_slot does and writes its attributes into the plan. */
static mx_code refresh(mx_train_step *self, const mx_step_plan *plan, int64_t i)
{
    mx_optimizer *o = self->trainer->optimizer;
    mx_trainer_slot *slot = &self->trainer->slots[i];
    const mx_step *step = &plan->compiled->plan->program.steps.items[plan->update[i]];
    mx_optimizer_state *state = slot->state;
    if (mx_optimizer_count_state(o, state, slot->parameter->data[0]) < 0)
        return mx_error_code();
    const double lr = o->scheduler ? mx_lr_scheduler_rate(o->scheduler, o->num_update) : o->learning_rate;
    mx_caught c = {.op = step->op, .attrs = step->attrs, .bytes = step->op->schema ? step->op->schema->size : 0};
    return mx_catch_update(o, slot, &self->stands[i], state->updates, lr, &c);
}

static mx_code bind_states(mx_train_step *self, mx_frame *frame)
{
    const mx_program *program = &frame->plan->program;
    for (int64_t e = 0; e < program->externals.length; e++) {
        const mx_external *x = &program->externals.items[e];
        if (x->kind != MX_EXTERNAL_STATE)
            continue;
        const mx_trainer_slot *slot = &self->trainer->slots[x->index / MX_STEP_STATES];
        if (mx_frame_bind(frame, e, mx_step_state(slot->state, x->index % MX_STEP_STATES)))
            return mx_error_code();
    }
    return MX_OK;
}

/* Gradients are stored where the imperative loop would store them. */
static void bind_gradients(const mx_compiled *c, mx_frame *frame)
{
    const mx_program *program = &frame->plan->program;
    for (int64_t i = 0; i < c->n_parameters; i++) {
        const int64_t h = program->forward_results + c->key.n_in + i;
        if (program->results.items[h] < 0)
            continue;
        mx_array *grad = mx_gradient(mx_parameter_use(c->parameters[i], c->key.context));
        mx_retain(grad);
        mx_release(frame->results[h]);
        frame->results[h] = grad;
    }
}

static void mark_used(mx_train_step *self)
{
    for (int64_t i = 0; i < self->slots; i++) {
        mx_parameter *p = self->trainer->slots[i].parameter;
        if (mx_slot_learns(&self->trainer->slots[i]))
            mx_gradient(p->data[0])->written = 0;
    }
}

/* ---- several processes ------------------------------------------------------------------------------------------- */

/* The batch of all processes. */
static int64_t batch_size(const mx_train_step *self, mx_arrays in)
{
    const int processes = mx_trainer_spans(self->trainer) ? mx_kvstore_num_workers(self->trainer->store) : 1;
    return in.v[0]->shape[0] * processes;
}

/* A result of the second part is complete: if it is a gradient, it may leave. */
static void announce(void *user, int64_t i)
{
    const mx_frame *frame = user;
    mx_ready_tell(frame->results[frame->plan->program.forward_results + i]);
}

/* Between backward and the updates: gradients become sums over processes.  They count as fresh, as after a backward. */
static mx_code exchange(void *user)
{
    mx_train_step *self = user;
    for (int64_t i = 0; i < self->slots; i++) {
        const mx_parameter *p = self->trainer->slots[i].parameter;
        if (mx_slot_learns(&self->trainer->slots[i]))
            mx_gradient(p->data[0])->written = 1;
    }
    return mx_trainer_exchange(self->trainer);
}

/* The exchanges as stops of the plan; *did: that was possible. */
static mx_code run_exchanging(mx_train_step *self, const mx_step_plan *plan, mx_frame *frame, bool *did)
{
    mx_buckets *buckets = self->trainer->buckets;
    const int32_t n = plan->compiled->plan->capturable ? mx_buckets_in_plan(buckets) : 0;
    mx_code code = MX_OK;
    *did = false;
    if (!n || (code = mx_buckets_agree(buckets, did)) || !*did)
        return code;
    const int32_t *before = mx_buckets_place(buckets, plan->finished, plan->updates);
    code = mx_frame_run_stops(frame, &(mx_stops){.n = n + 1, .before = before, .run = mx_buckets_stop,
                                                 .touches = mx_buckets_touches, .user = buckets});
    mx_buckets_begin_round(buckets);
    return code;
}

static mx_code run_frame(mx_train_step *self, const mx_step_plan *plan, mx_frame *frame)
{
    bool did;
    if (!mx_trainer_spans(self->trainer))
        return mx_frame_run(frame);
    const mx_code exchanged = run_exchanging(self, plan, frame, &did);
    if (exchanged || did)
        return exchanged;
    frame->ready = mx_ready_wanted() ? announce : NULL;
    frame->ready_user = frame;
    const mx_code code = mx_frame_run_around(frame, plan->updates, exchange, self);
    frame->ready = NULL;
    return code;
}

/* The trainer's own updates of all parameters, with sums of gradients. */
static bool can_exchange(const mx_trainer *trainer)
{
    return !mx_trainer_spans(trainer) || (trainer->sync == MX_SYNC_GRADIENTS && !trainer->shards);
}

/* *stale: parameters were cast since the plan was made; nothing has run. */
static mx_array *run_plan(mx_train_step *self, const mx_step_plan *plan, mx_arrays in, bool *stale)
{
    mx_frame *frame = mx_plan_frame(plan->compiled->plan);
    if (!frame)
        return NULL;
    mx_code code = mx_trainer_spans(self->trainer) && mx_trainer_prepare(self->trainer)
                       ? mx_error_code()
                       : mx_compiled_bind(plan->compiled, frame, in);
    if ((*stale = code == MX_DECLINED))
        return mx_release(frame), NULL;
    if (!code)
        code = bind_states(self, frame);
    if (!code)
        bind_gradients(plan->compiled, frame);
    self->trainer->optimizer->rescale_grad = self->trainer->scale / (double)batch_size(self, in);
    for (int64_t i = 0; !code && i < self->slots; i++)
        if (plan->update[i] >= 0)
            code = refresh(self, plan, i);
    if (!code)
        code = run_frame(self, plan, frame);
    if (!code)
        mark_used(self);
    mx_array *loss = code ? NULL : mx_scope_add(mx_retain(frame->results[0]));
    mx_release(frame);
    return loss;
}

static mx_array *run_plainly(mx_train_step *self, mx_arrays in)
{
    mx_array *loss;
    mx_loss_scaler *scaler = self->trainer->scaler;
    mx_array *scaled = NULL;
    mx_record() {
        loss = mx_call(self->loss, mx_call(self->net, in.v[0]), in.v[1]);
        scaled = scaler ? mx_scale_loss(scaler, loss) : loss;
    }
    if (!scaled || mx_backward(scaled) || mx_trainer_step(self->trainer, batch_size(self, in)))
        return NULL;
    return mx_detach(loss);
}

static mx_step_plan *plan_for(mx_train_step *self, mx_arrays in)
{
    mx_plan_key key;
    mx_step_plan *plan = NULL;
    const bool net_changed = mx_tree_changed(&self->net_state, self->net);
    if (mx_tree_changed(&self->loss_state, self->loss) || net_changed)
        mx_step_plans_drop(self);
    if (self->refused || self->trainer->scaler || !can_exchange(self->trainer) || self->net_state.hooks ||
        self->loss_state.hooks)
        return NULL;
    mx_mode mode = mx_mode_enter(1, 1);
    if (mx_plan_key_make(&key, in) && !key.wanted[0] && !key.wanted[1])
        plan = mx_step_plan_for(self, &key);
    mx_mode_leave(&mode);
    return plan && mx_trainer_spans(self->trainer) && plan->updates < 0 ? NULL : plan;
}

static mx_array *run(mx_train_step *self, mx_arrays in)
{
    const bool clean = !mx_has_error();
    for (int attempt = 0; attempt < 2; attempt++) {
        const mx_step_plan *plan = mx_checking() ? NULL : plan_for(self, in); /* it looks at every operator */
        bool stale = false;
        if (clean && mx_has_error())
            return NULL;
        __atomic_store_n(&self->compiled, plan != NULL, __ATOMIC_RELAXED);
        mx_array *loss = plan ? run_plan(self, plan, in, &stale) : run_plainly(self, in);
        if (!stale)
            return loss;
        mx_step_plans_drop(self);
    }
    return run_plainly(self, in);
}

mx_array *mx_train_step_run(mx_train_step *self, mx_array *data, mx_array *label)
{
    if (!mx_is_kind(self, &step_kind, "mx_train_step_run", "step") || !mx_array_ok(data, "mx_train_step_run", "data") ||
        !mx_array_ok(label, "mx_train_step_run", "label"))
        return NULL;
    if (data->ndim < 1 || data->shape[0] < 1)
        return mx_fail_null(MX_ERR_SHAPE, "mx_train_step_run: data has no batch: its first axis must be 1 or more");
    if (pthread_mutex_lock(&self->lock))
        return mx_fail_null(MX_ERR_STATE,
                            "mx_train_step_run: the step is already running in this thread: its network or loss "
                            "must not call it");
    mx_array *in[] = {data, label};
    mx_array *loss = run(self, (mx_arrays){in, 2});
    pthread_mutex_unlock(&self->lock);
    return loss;
}
