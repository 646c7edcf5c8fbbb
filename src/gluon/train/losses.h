/* What the losses share.  SPDX-License-Identifier: Apache-2.0 */
#ifndef MX_GLUON_LOSSES_H
#define MX_GLUON_LOSSES_H

#include <string.h>

#include "gluon/block/layers.h"
#include "gluon/op.gen.h"

#define MX_LOSS_OPTIONS(X, weight_default) \
    X(FLOAT, weight, weight_default, "", "multiplies the loss; None: 1") \
    X(INT, batch_axis, "0", "0..", "axis of the examples")

/* The label in the shape of the prediction. */
mx_array *mx_loss_label(mx_arrays in);
/* loss * sample_weight * weight; either may be absent. */
mx_array *mx_loss_weigh(mx_array *loss, double weight, mx_array *sample_weight);
/* Applies the weights, then takes the mean over all axes but the batch axis. */
mx_array *mx_loss_finish(mx_array *loss, double weight, mx_array *sample_weight, int64_t batch_axis);
void mx_loss_print(mx_block *self, mx_text *text); /* "L2Loss(batch_axis=0, w=1.0)" */

#endif
