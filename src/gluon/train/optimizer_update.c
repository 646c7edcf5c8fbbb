/* Updates: one step of an optimizer on one weight.
 *
 *     check -> count -> rates -> gradient converted -> the class's update, on the master if there is one
 *
 * Invariant: the rate of an update is the schedule's rate after the update is counted.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <math.h>

#include "base/error.h"
#include "exec/call.h"
#include "exec/plan/gather.h"
#include "exec/sparse/sparse.h"
#include "gluon/autograd.h"
#include "gluon/train/learning.h"
#include "gluon/op.gen.h"
#include "base/thread.h"

static const mx_optimizer_methods *methods_of(const mx_optimizer *self) { return self->cls->methods; }

static mx_code check_arrays(const mx_optimizer *self, const mx_array *weight, const mx_array *grad, const char *name)
{
    char a[MX_SHAPE_TEXT], b[MX_SHAPE_TEXT];
    mx_shape_t shape = mx_array_shape(weight), given = mx_array_shape(grad);
    if (!mx_shape_equal(&shape, &given))
        return mx_fail(MX_ERR_SHAPE, "%s: weight %s has shape %s, its gradient %s", mx_optimizer_name(self), name,
                       mx_shape_text(&shape, a), mx_shape_text(&given, b));
    if (weight->dtype != grad->dtype)
        return mx_fail(MX_ERR_DTYPE, "%s: weight %s is %s, its gradient %s", mx_optimizer_name(self), name,
                       mx_dtype_name((mx_dtype)weight->dtype), mx_dtype_name((mx_dtype)grad->dtype));
    return MX_OK;
}

static mx_code update_by_user(mx_optimizer *self, mx_update *u)
{
    mx_array *grad = self->rescale_grad == 1 ? u->grad : mx_g_scale(u->grad, self->rescale_grad);
    if (!grad)
        return mx_error_code();
    if (self->user_update(self->user, u->weight, grad, u->state, u->lr, u->wd, u->t))
        return mx_fail(MX_ERR_CALLBACK, "optimizer %s: the update of weight %s failed", self->name, u->label);
    return MX_OK;
}

static bool takes_rows(const mx_optimizer *self, const mx_update *u, mx_id id)
{
    const mx_optimizer_methods *methods = self->user_update ? NULL : methods_of(self);
    return methods && methods->lazy &&
           (!methods->lazy_if_sparse || mx_is_sparse(u->weight) || mx_optimizer_sparse_weight(self, id));
}

/* A sparse gradient is made dense for optimizers that do not support it. */
static mx_code fit_gradient(const mx_optimizer *self, mx_update *u, bool master, mx_id id)
{
    if (!u->grad->storage && (master || !takes_rows(self, u, id)))
        u->grad = mx_sparse_dense(u->grad);
    return u->grad ? MX_OK : mx_error_code();
}

static mx_code run_class(mx_optimizer *self, mx_update *u)
{
    if (self->user_update)
        return update_by_user(self, u);
    if (!mx_is_sparse(u->weight) || methods_of(self)->lazy)
        return methods_of(self)->update(self, u);
    mx_array *weight = u->weight; /* an update that knows only dense arrays */
    u->weight = mx_sparse_dense(weight);
    if (!u->weight || methods_of(self)->update(self, u) || mx_gather_flush())
        return mx_error_code();
    return mx_array_set(weight, u->weight);
}

mx_code mx_optimizer_apply(mx_optimizer *self, mx_update *u)
{
    mx_code code = check_arrays(self, u->weight, u->grad, u->label);
    if (code)
        return code;
    MX_SCOPE;
    mx_mode mode = mx_mode_enter(0, -1);
    code = fit_gradient(self, u, false, u->id);
    if (!code)
        code = run_class(self, u);
    mx_mode_leave(&mode);
    return code;
}

static mx_code run_hooks(mx_optimizer *self, mx_optimizer_state *state, const mx_update *u)
{
    if (self->hooks.update(self->user, state->id, u->weight, u->grad, state->own))
        return mx_fail(MX_ERR_CALLBACK, "optimizer %s: the update of weight %s failed", self->name, u->label);
    return MX_OK;
}

mx_code mx_update_master(mx_array *weight, mx_array *master, mx_array *grad32, mx_array *grad,
                         mx_code (*update)(void *user, mx_array *weight, mx_array *grad), void *user)
{
    if (mx_array_set(grad32, grad) || update(user, master, grad32) || mx_gather_flush())
        return mx_error_code();
    return mx_array_set(weight, master);
}

typedef struct mastered {
    mx_optimizer *self;
    mx_update *u;
} mastered;
static mx_code run_on_master(void *user, mx_array *weight, mx_array *grad)
{
    const mastered *m = user;
    m->u->weight = weight, m->u->grad = grad;
    return run_class(m->self, m->u);
}

static mx_code run(mx_optimizer *self, mx_optimizer_state *state, mx_update *u)
{
    MX_SCOPE;
    if (fit_gradient(self, u, state->master != NULL, state->id))
        return mx_error_code();
    if (state->grad32)
        return mx_update_master(u->weight, state->master, state->grad32, u->grad, run_on_master, &(mastered){self, u});
    u->master = state->master;
    return run_class(self, u);
}

/* The learning rate now; a class may take it before or after the update is counted. */
static void take_rate(mx_optimizer *self, mx_update *u, bool early)
{
    const mx_optimizer_methods *methods = mx_optimizer_methods_of(self);
    if (early == (methods && methods->early_rate))
        u->base_lr = self->scheduler ? mx_lr_scheduler_rate(self->scheduler, self->num_update) : self->learning_rate;
}

/* u has everything but the multiplied rates; the update is counted already. */
static mx_code run_rated(mx_optimizer *self, mx_optimizer_state *state, mx_update *u, double lr_mult, double wd_mult)
{
    take_rate(self, u, false);
    if (isnan(u->base_lr) && mx_has_error()) /* a user's schedule failed */
        return mx_error_code();
    u->lr = u->base_lr * lr_mult, u->wd = self->wd * wd_mult;
    mx_mode mode = mx_mode_enter(0, -1);
    mx_thread.precision_settled++;
    const mx_code code = run(self, state, u);
    mx_thread.precision_settled--;
    mx_mode_leave(&mode);
    return code;
}

static mx_code call_hooks(mx_optimizer *self, mx_optimizer_state *state, mx_update *u)
{
    mx_mode mode = mx_mode_enter(0, -1);
    mx_thread.precision_settled++;
    const mx_code code = run_hooks(self, state, u);
    mx_thread.precision_settled--;
    mx_mode_leave(&mode);
    return code;
}

static mx_code count_alone(mx_optimizer *self, mx_optimizer_state *state)
{
    if (++state->updates > self->num_update)
        self->num_update = state->updates;
    return MX_OK;
}

/* shared: the count is that of the weight's number in the optimizer's table, else the state's own */
static mx_code update_state(mx_optimizer *self, mx_optimizer_state *state, mx_update *u, double lr_mult, double wd_mult,
                            bool shared)
{
    u->state = state->array;
    if (check_arrays(self, u->weight, u->grad, u->label))
        return mx_error_code();
    if (self->hooks.update) { /* it counts by itself */
        state->updates++;
        return call_hooks(self, state, u);
    }
    u->name = mx_optimizer_name_of(self, state->id);
    take_rate(self, u, true);
    if (shared ? mx_optimizer_count_state(self, state, u->weight) < 0 : count_alone(self, state))
        return mx_error_code();
    u->t = state->updates;
    return run_rated(self, state, u, lr_mult, wd_mult);
}

mx_code mx_optimizer_update_slot(mx_optimizer *self, mx_optimizer_state *state, mx_array *weight, mx_array *grad,
                                 double lr_mult, double wd_mult, const char *name)
{
    mx_update u = {.weight = weight, .grad = grad, .label = name};
    return update_state(self, state, &u, lr_mult, wd_mult, true);
}

mx_code mx_optimizer_update_id(mx_optimizer *self, mx_optimizer_state *state, mx_id id, mx_array *weight,
                               mx_array *grad)
{
    char text[MX_ID_TEXT];
    const char *label = mx_optimizer_label_of(self, id);
    mx_update u = {.weight = weight, .grad = grad, .state = state->array, .name = mx_optimizer_name_of(self, id)};
    u.label = *label ? label : mx_id_text(id, text);
    if (self->hooks.update)
        return call_hooks(self, state, &u);
    mx_code code = check_arrays(self, weight, grad, u.label);
    take_rate(self, &u, true);
    if (code || (u.t = mx_optimizer_count_up(self, id)) < 0)
        return mx_error_code();
    return run_rated(self, state, &u, mx_optimizer_lr_mult(self, id), mx_optimizer_wd_mult(self, id));
}

mx_code mx_optimizer_update(mx_optimizer *self, mx_optimizer_state *state, mx_array *weight, mx_array *grad,
                            double lr_mult, double wd_mult)
{
    if (!mx_is_kind(self, &mx_optimizer_kind, "mx_optimizer_update", "optimizer") ||
        !mx_is_kind(state, &mx_optimizer_state_kind, "mx_optimizer_update", "state") ||
        !mx_array_any_ok(weight, "mx_optimizer_update", "weight") ||
        !mx_array_any_ok(grad, "mx_optimizer_update", "grad"))
        return mx_error_code();
    mx_update u = {.weight = weight, .grad = grad, .label = ""};
    return update_state(self, state, &u, lr_mult, wd_mult, false);
}
