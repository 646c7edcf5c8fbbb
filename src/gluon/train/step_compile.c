/* Plans of fused training steps: traces network and loss, adds the gradient, then one update operator per parameter.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "gluon/train/step_plan.h"

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
                  grad = number < 0 ? -1 : program->results.items[program->forward_results + made->key.n_in + number];
    if ((a->uncaught = weight < 0 || grad < 0))
        return mx_fail(MX_ERR_UNSUPPORTED, "parameter %s gets no gradient", slot->parameter->name);
    _Alignas(16) char room[ATTR_ROOM];
    mx_caught c = {.attrs = room, .bytes = sizeof room};
    const double memory[2] = {o->memory[0], o->memory[1]}; /* the trial run must have no side effects */
    if (mx_stand_in_make(&self->stands[i], slot))
        return mx_error_code();
    mx_code code = mx_catch_update(o, slot, &self->stands[i], slot->state->updates + 1, o->learning_rate, &c);
    memcpy(o->memory, memory, sizeof memory);
    if (code) {
        a->uncaught = code != MX_ERR_MEMORY;
        return code;
    }
    int32_t in[2 + MX_STEP_STATES];
    for (int k = 0; k < c.n_in; k++) {
        const int w = c.in[k];
        in[k] = w == 0   ? weight
                : w == 1 ? grad
                         : mx_program_state(program, mx_step_state(slot->state, w - 2), i * MX_STEP_STATES + w - 2);
        if (in[k] < 0)
            return MX_ERR_MEMORY;
    }
    mx_step step = {
        .op = c.op, .attrs = room, .in = in, .n_in = c.n_in, .training = true, .name = slot->parameter->name};
    return mx_program_update(program, &step, weight);
}

static mx_code add_updates(mx_program *program, const mx_compiled *made, void *user)
{
    adding *a = user;
    for (int64_t i = 0; i < a->self->slots; i++)
        if (mx_slot_learns(&a->self->trainer->slots[i])) {
            mx_code code = add_update(a, program, made, i);
            if (code)
                return code;
        }
    return MX_OK;
}

/* The passes renumber steps: updates are identified by what they write. */
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

/* The call that completes the gradient of a parameter; -1: not known. */
static int32_t finishing_call(const mx_compiled *c, const mx_parameter *p)
{
    const mx_plan *plan = c->plan;
    const int32_t i = (int32_t)(c->key.n_in + parameter_number(c, p));
    for (int64_t k = 0; k < plan->finished.length; k++)
        if (plan->finished.items[k].from == i)
            return plan->finished.items[k].value;
    return -1;
}

/* Whether the gradient that the update of a slot reads is an array of its own, complete before call `first`. */
static bool complete_before(const mx_compiled *c, const mx_parameter *p, int32_t update, int32_t first)
{
    const mx_plan *plan = c->plan;
    const mx_step *step = &plan->program.steps.items[update];
    const int32_t i = (int32_t)(c->key.n_in + parameter_number(c, p));
    const int32_t finished = finishing_call(c, p);
    bool reads = false;
    for (int64_t k = 0; k < plan->to_results.length; k++)
        if (plan->to_results.items[k].from == plan->program.forward_results + i)
            for (int n = 0; n < step->n_in; n++)
                reads |= step->in[n] == plan->to_results.items[k].value;
    return reads && finished >= 0 && finished < first;
}

/* Where the exchange between processes fits in: after the last gradient, before the first update. */
static int32_t find_first_update(const mx_train_step *self, const mx_compiled *c, const int32_t *update)
{
    int32_t first = 0;
    for (bool found = false; !found && first < c->plan->n_calls; first += !found)
        for (int64_t i = 0; i < self->slots; i++)
            found |= update[i] >= 0 && update[i] == c->plan->calls[first];
    for (int64_t i = 0; i < self->slots; i++)
        if (update[i] >= 0 && !complete_before(c, self->trainer->slots[i].parameter, update[i], first))
            return -1;
    return first;
}

/* The optimizer's update can be intercepted, and every parameter has one copy and a gradient that is written. */
static bool suits(const mx_train_step *self)
{
    const mx_optimizer *o = self->trainer->optimizer;
    if (self->trainer->count != self->slots || !o->cls || o->hooks.update || !self->net->hybrid || !self->loss->hybrid)
        return false;
    for (int64_t i = 0; i < self->slots; i++) {
        const mx_trainer_slot *slot = &self->trainer->slots[i];
        if (!mx_slot_learns(slot))
            continue;
        if (slot->parameter->req != MX_GRAD_WRITE || slot->parameter->count != 1 ||
            (slot->state && (slot->state->grad32 || slot->state->own)))
            return false;
    }
    return true;
}

/* Every parameter to update has a value. */
static bool ready(const mx_train_step *self)
{
    for (int64_t i = 0; i < self->slots; i++) {
        const mx_parameter *p = self->trainer->slots[i].parameter;
        if (mx_slot_learns(&self->trainer->slots[i]) && (p->deferred || !p->count))
            return false;
    }
    return true;
}

static mx_code make_states(mx_train_step *self)
{
    MX_SCOPE;
    for (int64_t i = 0; i < self->slots; i++) {
        mx_trainer_slot *slot = &self->trainer->slots[i];
        if (!mx_slot_learns(slot) || slot->state)
            continue;
        slot->state =
            mx_retain(mx_optimizer_state_of(self->trainer->optimizer, mx_id_number(i), slot->parameter->data[0]));
        if (!slot->state)
            return mx_error_code();
    }
    return MX_OK;
}

/* ---- plans -------------------------------------------------------------------------------------------------------- */

static void drop_plan(mx_train_step *self, mx_step_plan *plan)
{
    mx_release(plan->compiled);
    mx_free(plan->update, 2 * (size_t)self->slots * sizeof *plan->update);
    *plan = (mx_step_plan){0};
}

void mx_step_plans_drop(mx_train_step *self)
{
    while (self->count)
        drop_plan(self, &self->plans[--self->count]);
}

static mx_step_plan *compile(mx_train_step *self, const mx_plan_key *key)
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
    mx_step_plan made = {.update = mx_alloc(2 * (size_t)self->slots * sizeof *made.update)};
    if (made.update)
        made.compiled = mx_compile(&request);
    if (!made.compiled) {
        mx_free(made.update, 2 * (size_t)self->slots * sizeof *made.update);
        if (a.uncaught || unplanned || waits) /* the imperative loop runs it */
            mx_error_clear();
        self->refused |= a.uncaught || unplanned;
        return NULL;
    }
    find_updates(self, made.compiled, made.update);
    made.updates = find_first_update(self, made.compiled, made.update);
    made.finished = made.update + self->slots;
    for (int64_t i = 0; i < self->slots; i++)
        made.finished[i] = made.update[i] < 0 ? -1 : finishing_call(made.compiled, self->trainer->slots[i].parameter);
    if (self->count == MX_MOST_STEP_PLANS)
        drop_plan(self, &self->plans[--self->count]);
    memmove(self->plans + 1, self->plans, (size_t)self->count * sizeof made);
    self->plans[0] = made;
    self->count++;
    return &self->plans[0];
}

mx_step_plan *mx_step_plan_for(mx_train_step *self, const mx_plan_key *key)
{
    for (int i = 0; i < self->count; i++) {
        if (!mx_plan_key_equal(&self->plans[i].compiled->key, key))
            continue;
        if (!mx_compiled_valid(self->plans[i].compiled)) {
            mx_step_plans_drop(self);
            break;
        }
        mx_step_plan found = self->plans[i];
        memmove(self->plans + 1, self->plans, (size_t)i * sizeof found);
        self->plans[0] = found;
        return &self->plans[0];
    }
    return compile(self, key);
}
