/* Loss scaling: keeps the gradients of networks in 16 bits from vanishing.
 *
 *     mx_loss_scaler *scaler = mx_loss_scaler_new();
 *     mx_trainer_set_loss_scaler(trainer, scaler);
 *     ...
 *     mx_record() loss = mx_scale_loss(scaler, mx_call(criterion, mx_call(net, batch.data), batch.label));
 *     mx_backward(loss);
 *     mx_trainer_step(trainer, batch.size);         divides by the scale; skips the update after an overflow
 *
 * The scale is halved when a gradient is not finite, and doubled after `window` steps without one.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef GLUON_LOSS_SCALER_H
#define GLUON_LOSS_SCALER_H

#include "gluon/optimizer.h"

typedef struct mx_loss_scaler mx_loss_scaler;

struct mx_loss_scaler_options {
    double scale;   /* the initial scale */
    double factor;  /* by which it grows and shrinks: more than 1 */
    double most;    /* it does not grow beyond this */
    int64_t window; /* steps without an overflow after which it grows */
    char positional_;
};
/* Owned by the scope; mx_loss_scaler_new(.scale = 1024). */
#define mx_loss_scaler_new(...) \
    mx_loss_scaler_make(&(struct mx_loss_scaler_options){ \
        .scale = 65536, .factor = 2, .most = 16777216, .window = 2000, .positional_ = 0, __VA_ARGS__})
MX_API mx_loss_scaler *mx_loss_scaler_make(const struct mx_loss_scaler_options *options);
MX_API double mx_loss_scaler_scale(const mx_loss_scaler *scaler); /* now; NaN on failure */

/* loss * scale; marks the gradients as scaled. */
MX_API mx_array *mx_scale_loss(mx_loss_scaler *scaler, mx_array *loss);
/* Whether an element of these arrays is not finite; adjusts the scale. */
MX_API bool mx_loss_scaler_overflow(mx_loss_scaler *scaler, mx_arrays gradients);

/* Steps of the trainer look for overflows and divide by the scale; NULL: no more. */
MX_API mx_code mx_trainer_set_loss_scaler(mx_trainer *trainer, mx_loss_scaler *scaler);
/* Divides the gradients by the scale now, to inspect or clip them between backward and step. */
MX_API mx_code mx_trainer_unscale(mx_trainer *trainer);

#endif
