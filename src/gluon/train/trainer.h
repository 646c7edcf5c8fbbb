/* Internals of trainers (see trainer.c).  SPDX-License-Identifier: Apache-2.0 */
#ifndef MX_GLUON_TRAINER_H
#define MX_GLUON_TRAINER_H

#include "gluon/block/core.h"
#include "gluon/train/compression.h"
#include "gluon/train/learning.h"
#include "gluon/loss_scaler.h"

typedef struct mx_trainer_slot {
    mx_parameter *parameter;   /* retained */
    mx_optimizer_state *state; /* retained; NULL before the first update */
    mx_array *sum;             /* retained; of the gradients of several contexts; NULL before it is needed */
} mx_trainer_slot;

struct mx_trainer {
    mx_object object;
    mx_optimizer *optimizer; /* retained */
    double scale;            /* the optimizer's rescale_grad at the start; divided by the batch size in each step */
    mx_trainer_slot *slots;  /* (count), sorted by parameter name */
    int64_t count, capacity;
    mx_loss_scaler *scaler;     /* retained; NULL: losses are not scaled */
    mx_compression compression; /* of gradients of several contexts */
};

extern const mx_kind mx_trainer_kind;

/* Before an update: whether to skip it, because a gradient is not finite.  *scale is divided by the scale of the loss.
 * It is also skipped after an error: check mx_has_error(). */
bool mx_loss_scaler_skips(mx_trainer *trainer, double *scale);

#endif
