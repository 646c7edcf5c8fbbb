/* Key-value stores: values by key, sums over contexts, an optimizer that runs where the values are.
 *
 *     mx_kvstore *store = mx_kvstore_new("device");
 *     mx_kvstore_init(store, mx_id_name("w"), weight);
 *     mx_kvstore_set_optimizer(store, mx_sgd(.learning_rate = 0.1));
 *     mx_kvstore_push(store, mx_id_name("w"), MX_ARRAYS(gradient_on_0, gradient_on_1));
 *     mx_kvstore_pull(store, mx_id_name("w"), MX_ARRAYS(weight_on_0, weight_on_1));
 *
 * The keys of one store are all numbers or all names.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef GLUON_KVSTORE_H
#define GLUON_KVSTORE_H

#include "gluon/array.h"
#include "gluon/id.h"
#include "gluon/optimizer.h"

typedef struct mx_kvstore mx_kvstore;

/* "local", "device", "nccl", "local_update_cpu", "local_allreduce_cpu", "local_allreduce_device": the contexts of this
 * process, under any of these names.  "dist_sync", "dist_device_sync", "dist_async", "p3", "horovod" ...: also all
 * processes that were started together (gluon/comm.h); each has all values, and updates are the same everywhere. */
MX_API mx_kvstore *mx_kvstore_new(const char *type);
MX_API const char *mx_kvstore_type(const mx_kvstore *store); /* the name it was created with */
MX_API int mx_kvstore_rank(const mx_kvstore *store);         /* number of this process */
MX_API int mx_kvstore_num_workers(const mx_kvstore *store);  /* how many processes there are */
MX_API mx_code mx_kvstore_barrier(mx_kvstore *store);        /* returns when all processes have called it */

MX_API mx_code mx_kvstore_init(mx_kvstore *store, mx_id key, mx_array *value); /* each key once; a copy, of rank 0 */
/* The value of a key is the array itself from now on: an updater changes it. */
MX_API mx_code mx_kvstore_share(mx_kvstore *store, mx_id key, mx_array *value);
/* Sums the values of all contexts; the sum replaces what is stored, or is passed to the updater. */
MX_API mx_code mx_kvstore_push(mx_kvstore *store, mx_id key, mx_arrays values);
MX_API mx_code mx_kvstore_pull(mx_kvstore *store, mx_id key, mx_arrays outs); /* copies what is stored into all */
MX_API mx_code mx_kvstore_pushpull(mx_kvstore *store, mx_id key, mx_arrays values, mx_arrays outs);
MX_API mx_code mx_kvstore_broadcast(mx_kvstore *store, mx_id key, mx_array *value,
                                    mx_arrays outs); /* init, then pull */
/* Copies rows of what is stored, row_ids in any order, into a row_sparse array. */
MX_API mx_code mx_kvstore_row_sparse_pull(mx_kvstore *store, mx_id key, mx_array *out, mx_array *row_ids);

/* From now on gradients are pushed: the optimizer updates the stored values with them. */
MX_API mx_code mx_kvstore_set_optimizer(mx_kvstore *store, mx_optimizer *optimizer);
MX_API mx_code mx_kvstore_set_updater(mx_kvstore *store, mx_updater *updater); /* NULL: none */
MX_API mx_updater *mx_kvstore_updater(mx_kvstore *store);                      /* NULL without error: none */
/* A user's function in place of an updater: it gets the sum, which it may keep, and the stored value, which it may
 * change.  Nonzero: failed.  release(user), which may be NULL, is called when the store drops it. */
typedef mx_code (*mx_updater_fn)(void *user, mx_id key, mx_array *pushed, mx_array *stored);
MX_API mx_code mx_kvstore_set_updater_fn(mx_kvstore *store, mx_updater_fn function, void *user,
                                         void (*release)(void *user));
MX_API mx_code mx_kvstore_save_optimizer_states(mx_kvstore *store, const char *path);
MX_API mx_code mx_kvstore_load_optimizer_states(mx_kvstore *store, const char *path);

/* type "2bit": values of several contexts are summed as -threshold, 0 or threshold per element; the quantization error
 * is added to the next value.  "1bit": likewise, as 1 above the threshold and -1 below.  "none": no compression.  Only
 * stores that sum on devices do it.  Those of several processes compress what processes send; "fp16" halves it. */
MX_API mx_code mx_kvstore_set_gradient_compression(mx_kvstore *store, const char *type, double threshold);

#endif
