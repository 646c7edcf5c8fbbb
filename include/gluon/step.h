/* A training step as one compiled plan: forward, loss, backward and the optimizer's update.
 *
 *     mx_train_step *step = mx_train_step_new(net, criterion, trainer);
 *     mx_for_each_batch(batch, train)
 *         mx_array *loss = mx_train_step_run(step, batch.data, batch.label);
 *
 * The numbers are those of the imperative loop (record, backward, mx_trainer_step with the size of the batch): rates,
 * schedules, multipliers, clipping and update counts included; gradients and running statistics end up the same.  What
 * cannot be compiled into one plan (a first step that still has to infer shapes, hooks, optimizers whose update is not a
 * single operator, gradients that add up) runs as the imperative loop.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef GLUON_STEP_H
#define GLUON_STEP_H

#include "gluon/block.h"
#include "gluon/optimizer.h"

typedef struct mx_train_step mx_train_step;

MX_API mx_train_step *mx_train_step_new(mx_block *net, mx_block *loss, mx_trainer *trainer);
/* One step; the batch size is the first axis of data, times the number of processes that the trainer's store spans.  Returns
 * the loss of every example. */
MX_API mx_array *mx_train_step_run(mx_train_step *step, mx_array *data, mx_array *label);
/* False: the last run was the imperative loop. */
MX_API bool mx_train_step_compiled(const mx_train_step *step);

#endif
