/* Internals of updaters (see updater.c).  SPDX-License-Identifier: Apache-2.0 */
#ifndef MX_GLUON_UPDATER_H
#define MX_GLUON_UPDATER_H

#include "gluon/train/learning.h"

struct mx_updater {
    mx_object object;
    mx_optimizer *optimizer; /* retained */
    mx_id_table states;      /* mx_optimizer_state, retained */
};

mx_code mx_updater_set_optimizer(mx_updater *updater, mx_optimizer *optimizer);
/* Replaces the state of an id. */
mx_code mx_updater_set_state(mx_updater *updater, mx_id id, mx_optimizer_state *state);
mx_code mx_updater_drop_state(mx_updater *updater, mx_id id);

#endif
