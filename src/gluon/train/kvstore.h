/* Internals of key-value stores (see kvstore.c).  SPDX-License-Identifier: Apache-2.0 */
#ifndef MX_GLUON_KVSTORE_H
#define MX_GLUON_KVSTORE_H

#include "gluon/kvstore.h"
#include "gluon/train/compression.h"
#include "gluon/train/updater.h"

struct mx_kvstore {
    mx_object object;
    const struct mx_kvstore_kind *kind;
    mx_id_table values;     /* mx_array, retained */
    mx_updater *updater;    /* retained; NULL: none */
    mx_updater_fn function; /* of a user, in place of an updater; NULL: none */
    void *user;
    void (*release)(void *user); /* NULL: nothing to do */
    mx_compression compression;
    struct mx_comm *comm; /* retained; NULL: values are those of this process */
};

mx_array *mx_kvstore_value(const mx_kvstore *store, mx_id key); /* what is stored; NULL without error: nothing */
/* mx_kvstore_push() of values that are sums over all processes already. */
mx_code mx_kvstore_push_sum(mx_kvstore *store, mx_id key, mx_arrays values);
/* The store's values belong to several processes. */
bool mx_kvstore_spans(const mx_kvstore *store);

#endif
