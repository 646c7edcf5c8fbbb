/* Whole training steps as one plan (see gluon/step.h).
 *
 *     net, loss --trace--> forward --gradient--> backward (gradients into the parameters' arrays)
 *     optimizer --on symbolic arrays, calls caught--> one update operator per parameter, appended to the program
 *
 * An update's attributes (rate, decay, bias corrections ...) change with every step.  So in every step the optimizer's
 * own code runs once per parameter on symbolic arrays; its calls are caught and their attributes written into the plan,
 * which then runs as a whole.
 *
 * Invariant: a compiled step leaves behind what the plain loop would: weights, states, counts, gradients.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "gluon/step.h"

#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "gluon/hybrid.h"
#include "gluon/trainer.h"
#include "graph/call.h"

#define MOST_PLANS 8

/* What stands for one parameter while calls are caught. */
typedef struct stand_in {
    mx_array *weight, *grad, *state[MX_MAX_STATES + 1]; /* symbolic; retained; the last one for the master */
} stand_in;

#define MOST_STATES (MX_MAX_STATES + 1)
static mx_array *state_array(const mx_optimizer_state *state, int64_t k)
{
    return k == MX_MAX_STATES ? state->master : state->array[k];
}

typedef struct step_plan {
    mx_compiled *compiled; /* retained */
    int32_t *update;       /* (slots) step of the plan's program that updates slot i; -1: none */
} step_plan;

struct mx_train_step {
    mx_object object;
    mx_block *net, *loss;
    mx_trainer *trainer;
    pthread_mutex_t lock;        /* one step at a time; knows its owner */
    int64_t slots;               /* of the trainer when the step was made */
    stand_in *stands;            /* (slots) */
    step_plan plans[MOST_PLANS]; /* most recently used first */
    int count;
    mx_tree_state net_state, loss_state; /* when the plans were made */
    bool compiled;                       /* the last run was; read without the lock */
    bool refused;                        /* the optimizer cannot be caught: not tried again */
};

/* ---- making and ending ------------------------------------------------------------------------------------------- */

static void drop_plan(mx_train_step *self, step_plan *plan)
{
    mx_release(plan->compiled);
    mx_free(plan->update, (size_t)self->slots * sizeof *plan->update);
    *plan = (step_plan){0};
}

static void drop_plans(mx_train_step *self)
{
    while (self->count)
        drop_plan(self, &self->plans[--self->count]);
}

static void destroy(mx_object *object)
{
    mx_train_step *self = (mx_train_step *)object;
    drop_plans(self);
    for (int64_t i = 0; self->stands && i < self->slots; i++) {
        mx_release(self->stands[i].weight);
        mx_release(self->stands[i].grad);
        for (int k = 0; k < MOST_STATES; k++)
            mx_release(self->stands[i].state[k]);
    }
    mx_free(self->stands, (size_t)self->slots * sizeof *self->stands);
    mx_release(self->net);
    mx_release(self->loss);
    mx_release(self->trainer);
    pthread_mutex_destroy(&self->lock);
    mx_free(self, sizeof *self);
}
static const mx_kind step_kind = {"training step", destroy};

/* A forward that calls the step it is part of gets an error instead of waiting for itself. */
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

/* ---- catching an update ------------------------------------------------------------------------------------------ */

static mx_array *symbol_like(const mx_array *x, const char *name)
{
    mx_shape_t shape = mx_array_shape(x);
    mx_gnode *node = mx_gnode_variable(name, &shape, x->dtype);
    mx_array *symbol = node ? mx_array_symbolic(node, 0) : NULL;
    mx_release(node);
    return symbol;
}

static mx_code make_stand_in(stand_in *s, const mx_trainer_slot *slot)
{
    const mx_array *weight = slot->parameter->data[0];
    if (!s->weight && (!(s->weight = symbol_like(weight, "weight")) || !(s->grad = symbol_like(weight, "grad"))))
        return mx_error_code();
    for (int k = 0; k < MOST_STATES; k++) {
        const mx_array *array = state_array(slot->state, k);
        if (!s->state[k] && array && !(s->state[k] = symbol_like(array, "state")))
            return mx_error_code();
    }
    return MX_OK;
}

/* The one call that an update makes. */
typedef struct caught {
    mx_op *op;
    const stand_in *stand;
    void *attrs; /* room for `bytes`; receives the attributes */
    size_t bytes;
    int n_in;
    int8_t in[2 + MOST_STATES]; /* 0: weight, 1: gradient, 2...: states */
    int calls;
} caught;

static int which(const stand_in *s, const mx_array *x)
{
    if (x == s->weight || x == s->grad)
        return x == s->grad;
    for (int k = 0; k < MOST_STATES; k++)
        if (x == s->state[k] && x)
            return 2 + k;
    return -1;
}

static mx_code catch_call(void *user, mx_op *op, const void *attrs, int n_in, mx_array *const *in, int n_out,
                          mx_array **out)
{
    caught *c = user;
    const size_t bytes = op->schema ? op->schema->size : 0;
    if (c->calls++ || n_out < 1 || out[0] != c->stand->weight || n_in > 2 + MOST_STATES ||
        mx_op_count_out(op, attrs) != 1 || (c->op && op != c->op) || bytes > c->bytes)
        return mx_fail(MX_ERR_UNSUPPORTED, "%s: the update is more than one operator", op->name);
    c->op = op, c->n_in = n_in;
    memcpy(c->attrs, attrs, bytes);
    for (int i = 0; i < n_in; i++) {
        const int w = which(c->stand, in[i]);
        if (w < 0)
            return mx_fail(MX_ERR_UNSUPPORTED, "%s: the update reads an array of its own", op->name);
        c->in[i] = (int8_t)w;
    }
    return MX_OK;
}

/* Runs the optimizer on the stand-ins; t is the number of this update, rates as mx_optimizer_update_named has them. */
static mx_code catch_update(mx_optimizer *o, const mx_trainer_slot *slot, stand_in *s, int64_t t, double lr, caught *c)
{
    MX_SCOPE;
    const mx_parameter *p = slot->parameter;
    mx_update update = {s->weight, s->grad, s->state, lr * p->lr_mult,        o->wd * p->wd_mult,
                        t,         lr,      p->name,  s->state[MX_MAX_STATES]};
    c->stand = s, c->calls = 0;
    const mx_catch outer = mx_catcher;
    mx_catcher = (mx_catch){catch_call, c};
    mx_code code = mx_optimizer_apply(o, &update);
    mx_catcher = outer;
    if (!code && c->calls != 1)
        return mx_fail(MX_ERR_UNSUPPORTED, "the update is no single operator");
    return code;
}

/* ---- compiling --------------------------------------------------------------------------------------------------- */

#define ATTR_ROOM 512

typedef struct adding {
    mx_train_step *self;
    bool uncaught; /* an update is more than one call of an operator on these arrays */
} adding;

static int64_t parameter_number(const mx_compiled *c, const mx_parameter *p)
{
    for (int64_t i = 0; i < c->n_parameters; i++)
        if (c->parameters[i] == p)
            return i;
    return -1;
}

static int32_t parameter_value(const mx_program *program, int64_t number)
{
    for (int64_t e = 0; e < program->externals.length; e++)
        if (program->externals.items[e].kind == MX_EXTERNAL_PARAMETER && program->externals.items[e].index == number)
            return program->externals.items[e].value;
    return -1;
}

static mx_code add_update(adding *a, mx_program *program, const mx_compiled *made, int64_t i)
{
    mx_train_step *self = a->self;
    mx_optimizer *o = self->trainer->optimizer;
    mx_trainer_slot *slot = &self->trainer->slots[i];
    const int64_t number = parameter_number(made, slot->parameter);
    const int32_t weight = number < 0 ? -1 : parameter_value(program, number),
                  grad = number < 0 ? -1 : program->heads.items[program->forward_heads + made->key.n_in + number];
    if ((a->uncaught = weight < 0 || grad < 0))
        return mx_fail(MX_ERR_UNSUPPORTED, "parameter %s gets no gradient", slot->parameter->name);
    _Alignas(16) char room[ATTR_ROOM];
    caught c = {.attrs = room, .bytes = sizeof room};
    const double memory[2] = {o->memory[0], o->memory[1]}; /* a trial must leave no trace */
    if (make_stand_in(&self->stands[i], slot))
        return mx_error_code();
    mx_code code = catch_update(o, slot, &self->stands[i], slot->state->updates + 1, o->learning_rate, &c);
    memcpy(o->memory, memory, sizeof memory);
    if (code) {
        a->uncaught = code != MX_ERR_MEMORY;
        return code;
    }
    int32_t in[2 + MOST_STATES];
    for (int k = 0; k < c.n_in; k++) {
        const int w = c.in[k];
        in[k] = w == 0   ? weight
                : w == 1 ? grad
                         : mx_program_state(program, state_array(slot->state, w - 2), i * MOST_STATES + w - 2);
        if (in[k] < 0)
            return MX_ERR_MEMORY;
    }
    mx_step step = {
        .op = c.op, .attrs = room, .in = in, .n_in = c.n_in, .training = true, .name = slot->parameter->name};
    return mx_program_update(program, &step, weight);
}

static bool learns(const mx_trainer_slot *slot) { return slot->parameter->req != MX_GRAD_NULL; }

static mx_code add_updates(mx_program *program, const mx_compiled *made, void *user)
{
    adding *a = user;
    for (int64_t i = 0; i < a->self->slots; i++)
        if (learns(&a->self->trainer->slots[i])) {
            mx_code code = add_update(a, program, made, i);
            if (code)
                return code;
        }
    return MX_OK;
}

/* Steps were renumbered by the passes: updates are found again by what they write. */
static void find_updates(const mx_train_step *self, const mx_compiled *c, int32_t *update)
{
    const mx_program *program = &c->plan->program;
    for (int64_t i = 0; i < self->slots; i++) {
        const int64_t number = parameter_number(c, self->trainer->slots[i].parameter);
        const int32_t weight = number < 0 ? -1 : parameter_value(program, number);
        update[i] = -1;
        for (int64_t s = 0; s < program->steps.length; s++)
            if (weight >= 0 && program->steps.items[s].n_out == 1 && program->steps.items[s].out[0] == weight)
                update[i] = (int32_t)s;
    }
}

/* The optimizer's update can be caught, and every parameter is one array with a gradient that is written. */
static bool suits(const mx_train_step *self)
{
    const mx_optimizer *o = self->trainer->optimizer;
    if (self->trainer->count != self->slots || !o->cls || !self->net->hybrid || !self->loss->hybrid)
        return false;
    for (int64_t i = 0; i < self->slots; i++) {
        const mx_trainer_slot *slot = &self->trainer->slots[i];
        if (!learns(slot))
            continue;
        if (slot->parameter->req != MX_GRAD_WRITE || slot->parameter->count != 1 ||
            (slot->state && (slot->state->grad32 || slot->state->own)))
            return false;
    }
    return true;
}

/* Every parameter that is to be updated has a value. */
static bool ready(const mx_train_step *self)
{
    for (int64_t i = 0; i < self->slots; i++) {
        const mx_parameter *p = self->trainer->slots[i].parameter;
        if (learns(&self->trainer->slots[i]) && (p->deferred || !p->count))
            return false;
    }
    return true;
}

static mx_code make_states(mx_train_step *self)
{
    MX_SCOPE;
    for (int64_t i = 0; i < self->slots; i++) {
        mx_trainer_slot *slot = &self->trainer->slots[i];
        if (!learns(slot) || slot->state)
            continue;
        slot->state = mx_retain(mx_optimizer_state_of(self->trainer->optimizer, i, slot->parameter->data[0]));
        if (!slot->state)
            return mx_error_code();
    }
    return MX_OK;
}

static step_plan *compile(mx_train_step *self, const mx_plan_key *key)
{
    bool unplanned = false, waits = false;
    adding a = {self, false};
    const struct mx_compile_request request = {.block = self->net,
                                               .loss = self->loss,
                                               .key = key,
                                               .unplanned = &unplanned,
                                               .waits = &waits,
                                               .whole = true,
                                               .finish = add_updates,
                                               .user = &a};
    if (mx_learn_shapes(&request) || waits || !ready(self) || make_states(self) || !suits(self))
        return NULL;
    step_plan made = {.update = mx_alloc((size_t)self->slots * sizeof *made.update)};
    if (made.update)
        made.compiled = mx_compile(&request);
    if (!made.compiled) {
        mx_free(made.update, (size_t)self->slots * sizeof *made.update);
        if (a.uncaught || unplanned || waits) /* the plain loop does it */
            mx_error_clear();
        self->refused |= a.uncaught || unplanned;
        return NULL;
    }
    find_updates(self, made.compiled, made.update);
    if (self->count == MOST_PLANS)
        drop_plan(self, &self->plans[--self->count]);
    memmove(self->plans + 1, self->plans, (size_t)self->count * sizeof made);
    self->plans[0] = made;
    self->count++;
    return &self->plans[0];
}

static step_plan *find_plan(mx_train_step *self, const mx_plan_key *key)
{
    for (int i = 0; i < self->count; i++) {
        if (!mx_plan_key_equal(&self->plans[i].compiled->key, key))
            continue;
        if (!mx_compiled_valid(self->plans[i].compiled)) {
            drop_plans(self);
            break;
        }
        step_plan found = self->plans[i];
        memmove(self->plans + 1, self->plans, (size_t)i * sizeof found);
        self->plans[0] = found;
        return &self->plans[0];
    }
    return compile(self, key);
}

/* ---- running ----------------------------------------------------------------------------------------------------- */

/* Counts the update as mx_optimizer_update_named does and writes its attributes into the plan. */
static mx_code refresh(mx_train_step *self, const step_plan *plan, int64_t i)
{
    mx_optimizer *o = self->trainer->optimizer;
    mx_trainer_slot *slot = &self->trainer->slots[i];
    const mx_step *step = &plan->compiled->plan->program.steps.items[plan->update[i]];
    mx_optimizer_state *state = slot->state;
    state->updates++;
    if (state->updates > o->num_update)
        o->num_update = state->updates;
    const double lr = o->scheduler ? mx_lr_scheduler_rate(o->scheduler, o->num_update) : o->learning_rate;
    caught c = {.op = step->op, .attrs = step->attrs, .bytes = step->op->schema ? step->op->schema->size : 0};
    return catch_update(o, slot, &self->stands[i], state->updates, lr, &c);
}

static mx_code bind_states(mx_train_step *self, mx_frame *frame)
{
    const mx_program *program = &frame->plan->program;
    for (int64_t e = 0; e < program->externals.length; e++) {
        const mx_external *x = &program->externals.items[e];
        if (x->kind != MX_EXTERNAL_STATE)
            continue;
        const mx_trainer_slot *slot = &self->trainer->slots[x->index / MOST_STATES];
        if (mx_frame_bind(frame, e, state_array(slot->state, x->index % MOST_STATES)))
            return mx_error_code();
    }
    return MX_OK;
}

/* Gradients go where the plain loop would have put them. */
static void bind_gradients(const mx_compiled *c, mx_frame *frame)
{
    const mx_program *program = &frame->plan->program;
    for (int64_t i = 0; i < c->n_parameters; i++) {
        const int64_t h = program->forward_heads + c->key.n_in + i;
        if (program->heads.items[h] < 0)
            continue;
        mx_array *grad = mx_gradient(mx_parameter_use(c->parameters[i], c->key.context));
        mx_retain(grad);
        mx_release(frame->heads[h]);
        frame->heads[h] = grad;
    }
}

static void mark_used(mx_train_step *self)
{
    for (int64_t i = 0; i < self->slots; i++) {
        mx_parameter *p = self->trainer->slots[i].parameter;
        if (learns(&self->trainer->slots[i]))
            mx_gradient(p->data[0])->written = p->used[0] = 0;
    }
}

/* *stale: parameters were cast since the plan was made; nothing has run. */
static mx_array *run_plan(mx_train_step *self, const step_plan *plan, mx_arrays in, bool *stale)
{
    mx_frame *frame = mx_plan_frame(plan->compiled->plan);
    if (!frame)
        return NULL;
    mx_code code = mx_compiled_bind(plan->compiled, frame, in);
    if ((*stale = code == MX_DECLINED))
        return mx_release(frame), NULL;
    if (!code)
        code = bind_states(self, frame);
    if (!code)
        bind_gradients(plan->compiled, frame);
    self->trainer->optimizer->rescale_grad = self->trainer->scale / (double)in.v[0]->shape[0];
    for (int64_t i = 0; !code && i < self->slots; i++)
        if (plan->update[i] >= 0)
            code = refresh(self, plan, i);
    if (!code)
        code = mx_frame_run(frame);
    if (!code)
        mark_used(self);
    mx_array *loss = code ? NULL : mx_scope_add(mx_retain(frame->heads[0]));
    mx_release(frame);
    return loss;
}

static mx_array *run_plainly(mx_train_step *self, mx_arrays in)
{
    mx_array *loss;
    mx_loss_scaler *scaler = self->trainer->scaler;
    mx_array *head = NULL;
    mx_record() {
        loss = mx_call(self->loss, mx_call(self->net, in.v[0]), in.v[1]);
        head = scaler ? mx_scale_loss(scaler, loss) : loss;
    }
    if (!head || mx_backward(head) || mx_trainer_step(self->trainer, in.v[0]->shape[0]))
        return NULL;
    return mx_detach(loss);
}

static step_plan *plan_for(mx_train_step *self, mx_arrays in)
{
    mx_plan_key key;
    step_plan *plan = NULL;
    const bool net_changed = mx_tree_changed(&self->net_state, self->net);
    if (mx_tree_changed(&self->loss_state, self->loss) || net_changed)
        drop_plans(self);
    if (self->refused || self->trainer->scaler || self->net_state.hooks || self->loss_state.hooks)
        return NULL;
    mx_mode mode = mx_mode_enter(1, 1);
    if (mx_plan_key_make(&key, in) && !key.wanted[0] && !key.wanted[1])
        plan = find_plan(self, &key);
    mx_mode_leave(&mode);
    return plan;
}

static mx_array *run(mx_train_step *self, mx_arrays in)
{
    const bool clean = !mx_has_error();
    for (int attempt = 0; attempt < 2; attempt++) {
        const step_plan *plan = plan_for(self, in);
        bool stale = false;
        if (clean && mx_has_error())
            return NULL;
        __atomic_store_n(&self->compiled, plan != NULL, __ATOMIC_RELAXED);
        mx_array *loss = plan ? run_plan(self, plan, in, &stale) : run_plainly(self, in);
        if (!stale)
            return loss;
        drop_plans(self);
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
                            "mx_train_step_run: the step is under way in this thread: its network or loss "
                            "must not call it");
    mx_array *in[] = {data, label};
    mx_array *loss = run(self, (mx_arrays){in, 2});
    pthread_mutex_unlock(&self->lock);
    return loss;
}
