/* Loss scaling (see gluon/loss_scaler.h).
 *
 * Invariant: `applied` is the factor by which the current gradients are too large: the scale after mx_scale_loss, 1
 * after a step or mx_trainer_unscale.  The scale itself changes only in steps, so both agree in between.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <math.h>

#include "base/alloc.h"
#include "base/error.h"
#include "exec/list.h"
#include "gluon/op.gen.h"
#include "gluon/sparse.h"
#include "gluon/train/trainer.h"

struct mx_loss_scaler {
    mx_object object;
    double scale, factor, most;
    int64_t window;
    int64_t quiet;  /* steps since the last overflow or growth */
    double applied; /* see above */
};

static void destroy(mx_object *object) { mx_free(object, sizeof(mx_loss_scaler)); }
static const mx_kind scaler_kind = {"loss scaler", destroy};

static bool ok(const mx_loss_scaler *self, const char *function)
{
    return mx_is_kind(self, &scaler_kind, function, "scaler");
}

mx_loss_scaler *mx_loss_scaler_make(const struct mx_loss_scaler_options *o)
{
    if (!o || !(o->scale > 0) || !isfinite(o->scale) || !(o->factor > 1) || !(o->most >= o->scale) || o->window < 1)
        return mx_fail_null(MX_ERR_ARGUMENT,
                            "mx_loss_scaler_new: scale=%g, factor=%g, most=%g, window=%lld; wanted a "
                            "positive scale up to most, a factor above 1, a window of 1 or more",
                            o ? o->scale : 0, o ? o->factor : 0, o ? o->most : 0, o ? (long long)o->window : 0LL);
    mx_loss_scaler *self = mx_alloc_zero(sizeof *self);
    if (!self)
        return NULL;
    mx_object_init(&self->object, &scaler_kind);
    self->scale = o->scale, self->factor = o->factor, self->most = o->most, self->window = o->window;
    self->applied = 1;
    return mx_scope_add(self);
}

double mx_loss_scaler_scale(const mx_loss_scaler *self)
{
    return ok(self, "mx_loss_scaler_scale") ? self->scale : MX_NONE_FLOAT;
}

mx_array *mx_scale_loss(mx_loss_scaler *self, mx_array *loss)
{
    if (!ok(self, "mx_scale_loss"))
        return NULL;
    self->applied = self->scale;
    return mx_mul_scalar(loss, .scalar = self->scale);
}

/* ---- overflows --------------------------------------------------------------------------------------------------- */

/* The stored elements of a sparse array, or all of a dense one. */
static mx_array *elements_of(mx_array *x) { return mx_stype_of(x) == MX_STYPE_DEFAULT ? x : mx_sparse_data(x); }

/* Whether the gradients on one context, that of number `first`, are finite; waits once for all of them.  done[i] is set
 * for those that were checked. */
static bool finite_on_context(mx_arrays gradients, int64_t first, bool *done)
{
    MX_SCOPE;
    const mx_context context = mx_context_of(gradients.v[first]);
    mx_array *answer = NULL;
    for (int64_t i = first; i < gradients.n; i++) {
        if (done[i] || !mx_context_equal(mx_context_of(gradients.v[i]), context))
            continue;
        answer = mx_all_finite(elements_of(gradients.v[i]), .init_output = !answer, .out = answer);
        done[i] = true;
        if (!answer)
            return false;
    }
    return mx_item(answer) != 0;
}

static bool all_finite(mx_arrays gradients)
{
    bool finite = true;
    bool *done = mx_alloc_zero((size_t)gradients.n * sizeof *done);
    for (int64_t i = 0; done && finite && i < gradients.n; i++)
        if (!done[i])
            finite = finite_on_context(gradients, i, done);
    mx_free(done, (size_t)gradients.n * sizeof *done);
    return done && finite;
}

bool mx_loss_scaler_overflow(mx_loss_scaler *self, mx_arrays gradients)
{
    if (!ok(self, "mx_loss_scaler_overflow") || mx_list_check_any(&gradients, "mx_loss_scaler_overflow", "gradients"))
        return true;
    const bool finite = !gradients.n || all_finite(gradients);
    if (mx_has_error())
        return true;
    if (!finite) {
        self->scale = fmax(self->scale / self->factor, 1);
        self->quiet = 0;
    } else if (++self->quiet >= self->window) {
        self->scale = fmin(self->scale * self->factor, self->most);
        self->quiet = 0;
    }
    return !finite;
}

/* Gradients of all copies of all trainable parameters; n 0 after an error, or if there are none. */
static mx_arrays gradients_of(const mx_trainer *trainer)
{
    int64_t n = 0;
    for (int64_t i = 0; i < trainer->count; i++)
        n += trainer->slots[i].parameter->req != MX_GRAD_NULL ? trainer->slots[i].parameter->count : 0;
    mx_array **list = n ? mx_list_new(n) : NULL;
    n = 0;
    for (int64_t i = 0; list && i < trainer->count; i++) {
        const mx_parameter *p = trainer->slots[i].parameter;
        for (int k = 0; p->req != MX_GRAD_NULL && k < p->count; k++)
            if (p->data[k] && !(list[n++] = mx_gradient(p->data[k])))
                return (mx_arrays){0};
    }
    return (mx_arrays){list, n};
}

bool mx_loss_scaler_skips(mx_trainer *trainer, double *scale)
{
    MX_SCOPE;
    mx_loss_scaler *self = trainer->scaler;
    *scale /= self->applied;
    self->applied = 1;
    mx_arrays gradients = gradients_of(trainer);
    return gradients.n ? mx_loss_scaler_overflow(self, gradients) : mx_has_error();
}

mx_code mx_trainer_set_loss_scaler(mx_trainer *trainer, mx_loss_scaler *scaler)
{
    if (!mx_is_kind(trainer, &mx_trainer_kind, "mx_trainer_set_loss_scaler", "trainer") ||
        (scaler && !ok(scaler, "mx_trainer_set_loss_scaler")))
        return mx_error_code();
    mx_retain(scaler);
    mx_release(trainer->scaler);
    trainer->scaler = scaler;
    return MX_OK;
}

static mx_code divide(mx_array *gradient, double divisor)
{
    const uint8_t written = gradient->written; /* a stale gradient stays stale */
    if (mx_stype_of(gradient) == MX_STYPE_DEFAULT) {
        if (!mx_mul_scalar(gradient, .scalar = 1 / divisor, .out = gradient))
            return mx_error_code();
    } else {
        mx_array *data = mx_mul_scalar(mx_sparse_data(gradient), .scalar = 1 / divisor);
        if (!data || mx_sparse_set(gradient, data, mx_sparse_indices(gradient), NULL))
            return mx_error_code();
    }
    gradient->written = written;
    return MX_OK;
}

mx_code mx_trainer_unscale(mx_trainer *trainer)
{
    MX_SCOPE;
    if (!mx_is_kind(trainer, &mx_trainer_kind, "mx_trainer_unscale", "trainer"))
        return mx_error_code();
    mx_loss_scaler *self = trainer->scaler;
    if (!self)
        return mx_fail(MX_ERR_STATE, "mx_trainer_unscale: the trainer has no loss scaler; set one first");
    mx_arrays gradients = gradients_of(trainer);
    mx_mode mode = mx_mode_enter(0, -1);
    for (int64_t i = 0; i < gradients.n && self->applied != 1; i++)
        if (divide(gradients.v[i], self->applied))
            break;
    mx_mode_leave(&mode);
    if (mx_has_error())
        return mx_error_code();
    self->applied = 1;
    return MX_OK;
}
