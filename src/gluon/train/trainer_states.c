/* Saving and loading the state of a trainer: a .params file.
 *
 *     "optimizer:SGD"   int64 (1,)      the number of updates
 *     "memory"          float64 (2,)    numbers that the optimizer shares between all weights
 *     "updates"         int64 (count,)  per parameter, -1 for those that were never updated
 *     "3.0", "3.1"      arrays          state arrays of parameter 3, a float32 master last
 *
 * A file is checked completely before anything changes.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "gluon/train/trainer.h"

static bool ok(const mx_trainer *self, const char *function)
{
    return mx_is_kind(self, &mx_trainer_kind, function, "trainer");
}

/* States that are a user's objects cannot be written as arrays. */
static bool kept_by_user(const mx_trainer *self)
{
    if (self->optimizer->hooks.update)
        mx_fail(MX_ERR_UNSUPPORTED,
                "trainer: the states of optimizer %s are custom objects, which cannot be saved as arrays",
                mx_optimizer_name(self->optimizer));
    return self->optimizer->hooks.update != NULL;
}

/* ---- saving ------------------------------------------------------------------------------------------------------ */

typedef struct listing {
    MX_VEC(mx_array *) arrays; /* owned by the scope, or by states */
    MX_VEC(char *) names;      /* owned */
} listing;

static bool put(listing *list, mx_array *array, const char *name)
{
    char *copy = array ? mx_strdup(name) : NULL;
    if (!copy)
        return false;
    if (mx_vec_push(&list->names, copy))
        return mx_vec_push(&list->arrays, array);
    mx_strfree(copy);
    return false;
}

static bool put_numbers(listing *list, const char *name, mx_dtype dtype, const void *numbers, int64_t count)
{
    const mx_shape_t shape = {.ndim = 1, .dim = {count}};
    mx_array *array = mx_scope_add(mx_array_new(&shape, dtype, mx_cpu(0)));
    return array && !mx_array_write(array, numbers, (size_t)count * 8) && put(list, array, name);
}

static bool put_updates(const mx_trainer *self, listing *list)
{
    const size_t bytes = (size_t)self->count * sizeof(int64_t);
    int64_t *updates = mx_alloc(bytes);
    if (!updates)
        return false;
    for (int64_t i = 0; i < self->count; i++)
        updates[i] = self->slots[i].state ? self->slots[i].state->updates : -1;
    bool done = put_numbers(list, "updates", MX_INT64, updates, self->count);
    mx_free(updates, bytes);
    return done;
}

static bool put_states(const mx_trainer *self, listing *list)
{
    for (int64_t i = 0; i < self->count; i++) {
        const mx_optimizer_state *state = self->slots[i].state;
        const int n = state ? mx_optimizer_state_count(state) : 0;
        for (int k = 0; k < n; k++) {
            char name[48];
            snprintf(name, sizeof name, "%lld.%d", (long long)i, k);
            if (!put(list, mx_optimizer_state_at(state, k), name))
                return false;
        }
    }
    return true;
}

mx_code mx_trainer_save_states(mx_trainer *self, const char *path)
{
    MX_SCOPE;
    listing list = {0};
    char name[160];
    if (!ok(self, "mx_trainer_save_states") || kept_by_user(self) || mx_trainer_collect_states(self))
        return mx_error_code();
    snprintf(name, sizeof name, "optimizer:%s", mx_optimizer_name(self->optimizer));
    mx_code code = MX_OK;
    if (!mx_trainer_writes_files(self))
        code = MX_OK;
    else if (put_numbers(&list, name, MX_INT64, &self->optimizer->num_update, 1) &&
             put_numbers(&list, "memory", MX_FLOAT64, self->optimizer->memory, 2) && put_updates(self, &list) &&
             put_states(self, &list))
        code = mx_save(path, (mx_arrays){list.arrays.items, list.arrays.length}, (const char *const *)list.names.items);
    else
        code = mx_error_code();
    for (int64_t i = 0; i < list.names.length; i++)
        mx_strfree(list.names.items[i]);
    mx_vec_free(&list.names);
    mx_vec_free(&list.arrays);
    mx_trainer_drop_others(self);
    return code;
}

/* ---- loading ----------------------------------------------------------------------------------------------------- */

typedef struct loading {
    const mx_trainer *trainer;
    const char *path;
    mx_array_dict *file; /* owned by the scope */
    int64_t num_update;
    double memory[2];
    int64_t *updates;            /* (count) */
    mx_optimizer_state **states; /* (count) owned by the scope; NULL: none */
} loading;

static mx_code get_numbers(const loading *l, const char *name, mx_dtype dtype, void *numbers, int64_t count)
{
    const mx_array *array = mx_array_dict_get(l->file, name);
    if (!array)
        return mx_fail(MX_ERR_FILE, "%s: the file has no '%s'; was it written by a trainer with this optimizer?",
                       l->path, name);
    if (array->ndim != 1 || array->size != count || array->dtype != dtype)
        return mx_fail(MX_ERR_FILE, "%s: '%s' has %lld elements of %s, wanted %lld of %s; is it from another network?",
                       l->path, name, (long long)array->size, mx_dtype_name((mx_dtype)array->dtype), (long long)count,
                       mx_dtype_name(dtype));
    return mx_array_read(array, numbers, (size_t)count * 8);
}

static mx_code get_array(const loading *l, int64_t i, int k, mx_array *destination)
{
    char name[48], want[MX_SHAPE_TEXT], have[MX_SHAPE_TEXT];
    snprintf(name, sizeof name, "%lld.%d", (long long)i, k);
    mx_array *array = mx_array_dict_get(l->file, name);
    if (!array)
        return mx_fail(MX_ERR_FILE, "%s: the file has no state '%s' of parameter %s", l->path, name,
                       l->trainer->slots[i].parameter->name);
    mx_shape_t a = mx_array_shape(destination), b = mx_array_shape(array);
    if (!mx_shape_equal(&a, &b) || array->dtype != destination->dtype)
        return mx_fail(MX_ERR_FILE, "%s: state '%s' of parameter %s is %s %s, wanted %s %s", l->path, name,
                       l->trainer->slots[i].parameter->name, mx_dtype_name((mx_dtype)array->dtype),
                       mx_shape_text(&b, have), mx_dtype_name((mx_dtype)destination->dtype), mx_shape_text(&a, want));
    return mx_array_set(destination, array);
}

static mx_code get_state(loading *l, int64_t i)
{
    const mx_parameter *p = l->trainer->slots[i].parameter;
    if (l->updates[i] < 0)
        return MX_OK;
    if (!p->count || p->deferred)
        return mx_fail(MX_ERR_PARAMETER, "%s: parameter %s must be initialised before its optimizer state is loaded",
                       l->path, p->name);
    mx_optimizer_state *state = mx_optimizer_state_of(l->trainer->optimizer, mx_id_number(i), p->data[0]);
    if (!state)
        return mx_error_code();
    const int n = mx_optimizer_state_count(state);
    for (int k = 0; k < n; k++)
        if (get_array(l, i, k, mx_optimizer_state_at(state, k)))
            return mx_error_code();
    state->updates = l->updates[i];
    l->states[i] = state;
    return MX_OK;
}

static mx_code read_file(loading *l)
{
    char name[160];
    snprintf(name, sizeof name, "optimizer:%s", mx_optimizer_name(l->trainer->optimizer));
    l->file = mx_load(l->path);
    if (!l->file || get_numbers(l, name, MX_INT64, &l->num_update, 1) ||
        get_numbers(l, "memory", MX_FLOAT64, l->memory, 2) ||
        get_numbers(l, "updates", MX_INT64, l->updates, l->trainer->count))
        return mx_error_code();
    if (l->num_update < 0)
        return mx_fail(MX_ERR_FILE, "%s: the number of updates is %lld, wanted 0 or more", l->path,
                       (long long)l->num_update);
    for (int64_t i = 0; i < l->trainer->count; i++)
        if (get_state(l, i))
            return mx_error_code();
    return MX_OK;
}

/* Copies that exchange nothing go on from the same state. */
static mx_code copy_state(mx_trainer *self, int64_t i)
{
    mx_trainer_slot *slot = &self->slots[i];
    const mx_optimizer_state *from = slot->state;
    for (int k = 1; from && self->sync == MX_SYNC_NOTHING && k < slot->parameter->count; k++) {
        mx_optimizer_state *to = mx_trainer_state(self, i, k);
        const int n = to ? mx_optimizer_state_count(to) : 0;
        for (int j = 0; j < n; j++)
            if (mx_array_set(mx_optimizer_state_at(to, j), mx_optimizer_state_at(from, j)))
                return mx_error_code();
        if (!to || (to->updates = from->updates, mx_optimizer_set_count(self->optimizer, to, slot->parameter->data[k])))
            return mx_error_code();
    }
    return MX_OK;
}

static mx_code take_over(mx_trainer *self, const loading *l)
{
    self->optimizer->num_update = l->num_update;
    memcpy(self->optimizer->memory, l->memory, sizeof l->memory);
    for (int64_t i = 0; i < self->count; i++)
        if (mx_trainer_put_state(self, i, l->states[i]) || copy_state(self, i))
            return mx_error_code();
    return MX_OK;
}

mx_code mx_trainer_load_states(mx_trainer *self, const char *path)
{
    MX_SCOPE;
    if (!ok(self, "mx_trainer_load_states") || kept_by_user(self))
        return mx_error_code();
    const size_t bytes = (size_t)self->count * 8;
    loading l = {.trainer = self, .path = path, .updates = mx_alloc_zero(bytes), .states = mx_alloc_zero(bytes)};
    mx_code code = l.updates && l.states ? read_file(&l) : mx_error_code();
    code = code ? code : take_over(self, &l);
    mx_free(l.updates, bytes);
    mx_free(l.states, bytes);
    mx_trainer_drop_others(self);
    return code;
}
