/* Identifiers of weights and stored values: a number or a name.
 *
 *     mx_updater_update(updater, mx_id_number(3), grad, weight);
 *     mx_kvstore_init(store, mx_id_name("fc1_weight"), value);
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef GLUON_ID_H
#define GLUON_ID_H

#include "gluon/base.h"

typedef struct mx_id {
    const char *name; /* NULL: the number is used */
    int64_t number;
} mx_id;
static inline mx_id mx_id_number(int64_t number) { return (mx_id){NULL, number}; }
static inline mx_id mx_id_name(const char *name) { return (mx_id){name, 0}; }

#endif
