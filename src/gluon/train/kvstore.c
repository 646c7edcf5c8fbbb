/* Key-value stores (see gluon/kvstore.h).
 *
 *     push: values of all contexts --(compression)--> sum, on the first context --> (sum over processes)
 *           --> context of the value --> updater or value
 *     pull: value --> all contexts
 *
 * sums.h hides how sums over contexts are computed, dist.h those over processes.  There are no servers: every process
 * has all values, and as all of them make the same updates with the same sums, these stay equal.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE /* environ */
#include "gluon/train/kvstore.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/suggest.h"
#include "base/text.h"
#include "comm/comm.h"
#include "exec/call.h"
#include "exec/sparse/sparse.h"
#include "gluon/op.gen.h"
#include "gluon/autograd.h"
#include "gluon/sparse.h"
#include "gluon/train/dist.h"
#include "gluon/train/sums.h"
#include "ndarray/sparse.h"

/* ---- kinds ------------------------------------------------------------------------------------------------------- */

typedef struct mx_kvstore_kind {
    const char *name;
    bool on_devices; /* sums are computed on devices: gradients may be compressed */
    bool processes;  /* values are summed over processes */
} mx_kvstore_kind;
/* Without servers, asynchronous stores are synchronous, and the order of messages is that of backward (p3). */
static const mx_kvstore_kind kinds[] = {{"local", false, false},
                                        {"device", true, false},
                                        {"nccl", true, false},
                                        {"local_update_cpu", false, false},
                                        {"local_allreduce_cpu", false, false},
                                        {"local_allreduce_device", true, false},
                                        {"dist_sync", true, true},
                                        {"dist_device_sync", true, true},
                                        {"dist_sync_device", true, true},
                                        {"dist_async", true, true},
                                        {"dist_device_async", true, true},
                                        {"dist_async_device", true, true},
                                        {"dist", true, true},
                                        {"p3", true, true},
                                        {"p3store_dist", true, true},
                                        {"horovod", true, true}};
#define KINDS (sizeof kinds / sizeof *kinds)

static const mx_kvstore_kind *refuse(const char *type)
{
    if (!strcasecmp(type, "byteps"))
        return mx_fail_null(MX_ERR_UNSUPPORTED, "kvstore 'byteps': there are no servers; use 'dist_sync'");
    mx_text known = {0};
    mx_suggestion s = {.word = type};
    for (size_t i = 0; i < KINDS; i++) {
        mx_text_print(&known, "%s%s", i ? ", " : "", kinds[i].name);
        mx_suggest(&s, kinds[i].name);
    }
    mx_fail(MX_ERR_ARGUMENT, "kvstore '%.80s': unknown type, wanted %s%s", type, mx_text_get(&known),
            mx_suggest_text(&s));
    mx_text_free(&known);
    return NULL;
}

static const mx_kvstore_kind *find_kind(const char *type)
{
    if (!type)
        return mx_fail_null(MX_ERR_ARGUMENT, "mx_kvstore_new: type is NULL");
    for (size_t i = 0; i < KINDS; i++)
        if (!strcasecmp(type, kinds[i].name))
            return &kinds[i];
    return refuse(type);
}

/* ---- making ------------------------------------------------------------------------------------------------------ */

static void drop_updater(mx_kvstore *self)
{
    mx_release(self->updater);
    if (self->release)
        self->release(self->user);
    self->updater = NULL, self->function = NULL, self->user = NULL, self->release = NULL;
}

static void destroy(mx_object *object)
{
    mx_kvstore *self = (mx_kvstore *)object;
    drop_updater(self);
    mx_id_table_drop_objects(&self->values);
    mx_compression_free(&self->compression);
    mx_release(self->comm);
    mx_free(self, sizeof *self);
}
static const mx_kind kvstore_kind = {"key-value store", destroy};

static bool ok(const mx_kvstore *self, const char *function)
{
    return mx_is_kind(self, &kvstore_kind, function, "store");
}

/* Variables of MXNet that tuned its servers and trees of devices. */
static void name_ignored(void)
{
    static const char prefix[] = "MXNET_KVSTORE_";
    mx_text names = {0};
    for (char **at = environ; at && *at; at++)
        if (!strncmp(*at, prefix, sizeof prefix - 1))
            mx_text_print(&names, "%s%.*s", names.length ? ", " : "", (int)strcspn(*at, "="), *at);
    if (names.length && mx_rank() == 0)
        fprintf(stderr,
                "gluon: ignored: %s; there are no servers, and GLUON_BUCKET_KB sets the size of messages between "
                "processes\n",
                mx_text_get(&names));
    mx_text_free(&names);
}

mx_kvstore *mx_kvstore_new(const char *type)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    const mx_kvstore_kind *kind = find_kind(type);
    mx_kvstore *self = kind ? mx_alloc_zero(sizeof *self) : NULL;
    if (!self)
        return NULL;
    mx_object_init(&self->object, &kvstore_kind);
    self->kind = kind;
    if (kind->processes && !(self->comm = mx_comm_new(true))) {
        mx_error_mention(kind->name);
        mx_release(self);
        return NULL;
    }
    if (kind->processes)
        pthread_once(&once, name_ignored);
    return mx_scope_add(self);
}

bool mx_kvstore_spans(const mx_kvstore *self) { return self->comm && !mx_comm_alone(self->comm); }

const char *mx_kvstore_type(const mx_kvstore *self) { return ok(self, "mx_kvstore_type") ? self->kind->name : NULL; }
int mx_kvstore_rank(const mx_kvstore *self)
{
    return !ok(self, "mx_kvstore_rank") ? -1 : self->comm ? mx_comm_rank(self->comm) : 0;
}
int mx_kvstore_num_workers(const mx_kvstore *self)
{
    return !ok(self, "mx_kvstore_num_workers") ? -1 : self->comm ? mx_comm_size(self->comm) : 1;
}
mx_code mx_kvstore_barrier(mx_kvstore *self)
{
    return !ok(self, "mx_kvstore_barrier") ? mx_error_code() : self->comm ? mx_comm_barrier(self->comm) : MX_OK;
}

/* ---- keys -------------------------------------------------------------------------------------------------------- */

/* All keys of a store have the type of the first one. */
static mx_code check_key(const mx_kvstore *self, mx_id key)
{
    const mx_dict *other = key.name ? &self->values.numbers : &self->values.names;
    if (other->length)
        return mx_fail(MX_ERR_ARGUMENT, "kvstore: the keys of a store must be all ints or all strings");
    return MX_OK;
}

mx_array *mx_kvstore_value(const mx_kvstore *self, mx_id key)
{
    const mx_dict_entry *entry = mx_id_find(&self->values, key);
    return entry ? entry->pointer : NULL;
}

/* Borrowed from the store, until the value is replaced. */
static mx_array *known(const mx_kvstore *self, mx_id key)
{
    char text[MX_ID_TEXT];
    if (check_key(self, key))
        return NULL;
    mx_array *value = mx_kvstore_value(self, key);
    return value ? value
                 : mx_fail_null(MX_ERR_STATE, "kvstore: key %s was not initialized; call init() first",
                                mx_id_text(key, text));
}

static mx_code replace(mx_kvstore *self, mx_id key, mx_array *value)
{
    mx_dict_entry *entry = value ? mx_id_place(&self->values, key) : NULL;
    if (!entry)
        return mx_error_code();
    mx_retain(value);
    mx_release(entry->pointer);
    entry->pointer = value;
    return MX_OK;
}

static mx_code check_list(mx_arrays *list, const char *who)
{
    if (list->n < 0 && list->v)
        for (list->n = 0; list->v[list->n] != MX_END;)
            list->n++;
    if (list->n < 1 || list->n > MX_MOST_PARTS || !list->v)
        return mx_fail(MX_ERR_ARGUMENT, "%s: %lld arrays for one key, wanted 1 to %d", who, (long long)list->n,
                       MX_MOST_PARTS);
    for (int64_t i = 0; i < list->n; i++)
        if (!mx_array_any_ok(list->v[i], who, "an array"))
            return mx_error_code();
    return MX_OK;
}

/* ---- values ------------------------------------------------------------------------------------------------------ */

mx_code mx_kvstore_init(mx_kvstore *self, mx_id key, mx_array *value)
{
    char text[MX_ID_TEXT];
    if (!ok(self, "mx_kvstore_init") || !mx_array_any_ok(value, "mx_kvstore_init", "value") || check_key(self, key))
        return mx_error_code();
    if (mx_kvstore_value(self, key))
        return mx_fail(MX_ERR_STATE, "kvstore.init: key %s was initialized before", mx_id_text(key, text));
    MX_SCOPE;
    mx_array *copy = mx_array_copy(value);
    if (!copy || (mx_kvstore_spans(self) && mx_dist_broadcast(self->comm, copy)))
        return mx_error_code();
    return replace(self, key, copy);
}

mx_code mx_kvstore_share(mx_kvstore *self, mx_id key, mx_array *value)
{
    if (!ok(self, "mx_kvstore_share") || !mx_array_any_ok(value, "mx_kvstore_share", "value") || check_key(self, key))
        return mx_error_code();
    return replace(self, key, value);
}

/* A user's function may retain the sum, so it is never the array that was pushed. */
static mx_code call_function(mx_kvstore *self, mx_id key, mx_array *pushed, mx_array *stored)
{
    char text[MX_ID_TEXT];
    mx_code code = self->function(self->user, key, pushed, stored);
    return code ? mx_fail(MX_ERR_CALLBACK, "kvstore: the updater failed for key %s", mx_id_text(key, text)) : MX_OK;
}

static mx_code take_sum(mx_kvstore *self, mx_id key, mx_array *sum, mx_array *stored)
{
    mx_array *here = mx_array_to(sum, stored->context);
    if (!here)
        return mx_error_code();
    if (self->updater)
        return mx_updater_update(self->updater, key, here, stored);
    return self->function ? call_function(self, key, here, stored) : replace(self, key, here);
}

/* The sum over the contexts of this process; what was pushed itself if there is one. */
static mx_array *sum_contexts(mx_kvstore *self, mx_id key, mx_arrays values)
{
    mx_array *sent[MX_MOST_PARTS], *sum = NULL;
    if (values.n == 1)
        return values.v[0];
    if (!self->comm && self->compression.kind != MX_COMPRESS_NONE) {
        if (mx_compress(&self->compression, key, (int)values.n, values.v, sent))
            return NULL;
        values.v = sent;
    }
    const mx_code code = mx_sum_parts(&sum, (int)values.n, values.v);
    sum = mx_scope_add(sum);
    return code ? NULL : sum;
}

static mx_code push(mx_kvstore *self, mx_id key, mx_arrays values, mx_array *stored, bool everywhere)
{
    mx_array *sum = sum_contexts(self, key, values);
    if (sum && !everywhere && mx_kvstore_spans(self))
        sum = mx_dist_sum(self, key, sum);
    else if (sum && values.n == 1 && !self->updater) /* an updater of the library only reads it */
        sum = mx_array_copy(sum);
    return sum ? take_sum(self, key, sum, stored) : mx_error_code();
}

static mx_code push_values(mx_kvstore *self, mx_id key, mx_arrays values, bool everywhere)
{
    if (!ok(self, "mx_kvstore_push") || check_list(&values, "kvstore.push"))
        return mx_error_code();
    MX_SCOPE;
    mx_mode mode = mx_mode_enter(0, -1);
    mx_array *stored = known(self, key);
    const mx_code code = stored ? push(self, key, values, stored, everywhere) : mx_error_code();
    mx_mode_leave(&mode);
    return code;
}

mx_code mx_kvstore_push(mx_kvstore *self, mx_id key, mx_arrays values) { return push_values(self, key, values, false); }
mx_code mx_kvstore_push_sum(mx_kvstore *self, mx_id key, mx_arrays values)
{
    return push_values(self, key, values, true);
}

static mx_code copy_to(mx_array *out, mx_array *value, mx_id key)
{
    char text[MX_ID_TEXT], a[MX_SHAPE_TEXT], b[MX_SHAPE_TEXT];
    const mx_shape_t from = mx_array_shape(value), to = mx_array_shape(out);
    if (!mx_shape_equal(&from, &to))
        return mx_fail(MX_ERR_SHAPE, "kvstore.pull: the value of key %s has shape %s, the array %s",
                       mx_id_text(key, text), mx_shape_text(&from, a), mx_shape_text(&to, b));
    return out == value ? MX_OK : mx_array_set(out, value);
}

mx_code mx_kvstore_pull(mx_kvstore *self, mx_id key, mx_arrays outs)
{
    if (!ok(self, "mx_kvstore_pull") || check_list(&outs, "kvstore.pull"))
        return mx_error_code();
    mx_array *value = known(self, key);
    if (!value)
        return mx_error_code();
    mx_mode mode = mx_mode_enter(0, -1);
    mx_code code = MX_OK;
    for (int64_t i = 0; !code && i < outs.n; i++)
        code = copy_to(outs.v[i], value, key);
    mx_mode_leave(&mode);
    return code;
}

mx_code mx_kvstore_pushpull(mx_kvstore *self, mx_id key, mx_arrays values, mx_arrays outs)
{
    const mx_code code = mx_kvstore_push(self, key, values);
    return code ? code : mx_kvstore_pull(self, key, outs);
}

mx_code mx_kvstore_broadcast(mx_kvstore *self, mx_id key, mx_array *value, mx_arrays outs)
{
    const mx_code code = mx_kvstore_init(self, key, value);
    return code ? code : mx_kvstore_pull(self, key, outs);
}

static mx_array *pick(mx_array *value, mx_array *rows)
{
    if (mx_stype_of(value) != MX_ROW_SPARSE)
        return mx_sparse_pick(value, rows, "row_sparse_pull");
    return mx_call_one(MX_OP("_sparse_retain"), NULL, 2, (mx_array *const[]){value, rows}, NULL);
}

mx_code mx_kvstore_row_sparse_pull(mx_kvstore *self, mx_id key, mx_array *out, mx_array *row_ids)
{
    if (!ok(self, "mx_kvstore_row_sparse_pull") || !mx_array_any_ok(out, "kvstore.row_sparse_pull", "out") ||
        !mx_array_ok(row_ids, "kvstore.row_sparse_pull", "row_ids"))
        return mx_error_code();
    if (mx_stype_of(out) != MX_ROW_SPARSE)
        return mx_fail(MX_ERR_ARGUMENT, "kvstore.row_sparse_pull: out must be row_sparse, got '%s'",
                       mx_stype_name(mx_stype_of(out)));
    mx_array *value = known(self, key);
    if (!value)
        return mx_error_code();
    MX_SCOPE;
    mx_mode mode = mx_mode_enter(0, -1);
    mx_array *rows = mx_array_to(mx_array_reshape(row_ids, MX_DIMS(-1)), value->context);
    mx_array *picked = rows ? pick(value, rows) : NULL;
    const mx_code code = picked ? mx_array_set(out, picked) : mx_error_code();
    mx_mode_leave(&mode);
    return code;
}

/* ---- optimizer --------------------------------------------------------------------------------------------------- */

mx_code mx_kvstore_set_updater(mx_kvstore *self, mx_updater *updater)
{
    if (!ok(self, "mx_kvstore_set_updater") ||
        (updater && !mx_is_kind(updater, &mx_updater_kind, "mx_kvstore_set_updater", "updater")))
        return mx_error_code();
    mx_retain(updater);
    drop_updater(self);
    self->updater = updater;
    return MX_OK;
}

mx_code mx_kvstore_set_optimizer(mx_kvstore *self, mx_optimizer *optimizer)
{
    MX_SCOPE;
    mx_updater *updater = mx_updater_new(optimizer);
    return updater ? mx_kvstore_set_updater(self, updater) : mx_error_code();
}

mx_updater *mx_kvstore_updater(mx_kvstore *self) { return ok(self, "mx_kvstore_updater") ? self->updater : NULL; }

mx_code mx_kvstore_set_updater_fn(mx_kvstore *self, mx_updater_fn function, void *user, void (*release)(void *user))
{
    if (!ok(self, "mx_kvstore_set_updater_fn"))
        return mx_error_code();
    drop_updater(self);
    self->function = function, self->user = user, self->release = release;
    return MX_OK;
}

static mx_updater *with_states(mx_kvstore *self, const char *function)
{
    if (!ok(self, function))
        return NULL;
    return self->updater ? self->updater
                         : mx_fail_null(MX_ERR_STATE, "kvstore: the store has no optimizer, and so no states");
}

mx_code mx_kvstore_save_optimizer_states(mx_kvstore *self, const char *path)
{
    mx_updater *updater = with_states(self, "mx_kvstore_save_optimizer_states");
    return updater ? mx_updater_save(updater, path) : mx_error_code();
}

mx_code mx_kvstore_load_optimizer_states(mx_kvstore *self, const char *path)
{
    mx_updater *updater = with_states(self, "mx_kvstore_load_optimizer_states");
    return updater ? mx_updater_load(updater, path) : mx_error_code();
}

mx_code mx_kvstore_set_gradient_compression(mx_kvstore *self, const char *type, double threshold)
{
    if (!ok(self, "mx_kvstore_set_gradient_compression"))
        return mx_error_code();
    mx_compression checked = {0};
    if (mx_compression_set(&checked, type, threshold))
        return mx_error_code();
    if (checked.kind == MX_COMPRESS_FP16 && !self->kind->processes)
        return mx_fail(MX_ERR_UNSUPPORTED, "kvstore '%s': only stores of several processes send gradients as fp16",
                       self->kind->name);
    if (!self->kind->on_devices)
        return mx_fail(MX_ERR_UNSUPPORTED, "kvstore '%s': only 'device' stores support gradient compression",
                       self->kind->name);
    return mx_compression_set(&self->compression, type, threshold);
}
