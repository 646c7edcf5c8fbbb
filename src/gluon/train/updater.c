/* Updaters: an optimizer with the states of weights by id.
 *
 *     update(id, grad, weight): the state of the id, created at its first update --> mx_optimizer_update_id
 *
 * The state of an updater is saved as a .params file:
 *
 *     "optimizer:SGD"   int64 (1,)      the number of updates
 *     "memory"          float64 (2,)    numbers that the optimizer shares between all weights
 *     "#3:updates"      int64 (1,)      how often weight 3 was updated; "=w:updates" that of the weight named w
 *     "#3:0", "#3:1"    arrays          its state, with a float32 master in the class's position
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "gluon/train/updater.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/text.h"
#include "base/vec.h"
#include "ndarray/dtype.h"
#include "ndarray/sparse.h"

static void destroy(mx_object *object)
{
    mx_updater *self = (mx_updater *)object;
    mx_id_table_drop_objects(&self->states);
    mx_release(self->optimizer);
    mx_free(self, sizeof *self);
}
const mx_kind mx_updater_kind = {"updater", destroy};

static bool ok(const mx_updater *self, const char *function)
{
    return mx_is_kind(self, &mx_updater_kind, function, "updater");
}

mx_updater *mx_updater_new(mx_optimizer *optimizer)
{
    if (!mx_is_kind(optimizer, &mx_optimizer_kind, "mx_updater_new", "optimizer"))
        return NULL;
    mx_updater *self = mx_alloc_zero(sizeof *self);
    if (!self)
        return NULL;
    mx_object_init(&self->object, &mx_updater_kind);
    self->optimizer = mx_retain(optimizer);
    return mx_scope_add(self);
}

mx_optimizer *mx_updater_optimizer(mx_updater *self)
{
    return ok(self, "mx_updater_optimizer") ? self->optimizer : NULL;
}

mx_code mx_updater_set_optimizer(mx_updater *self, mx_optimizer *optimizer)
{
    mx_retain(optimizer);
    mx_release(self->optimizer);
    self->optimizer = optimizer;
    return MX_OK;
}

/* ---- states ------------------------------------------------------------------------------------------------------ */

mx_optimizer_state *mx_updater_state(const mx_updater *self, mx_id id)
{
    const mx_dict_entry *entry = ok(self, "mx_updater_state") ? mx_id_find(&self->states, id) : NULL;
    return entry ? entry->pointer : NULL;
}

mx_code mx_updater_set_state(mx_updater *self, mx_id id, mx_optimizer_state *state)
{
    mx_dict_entry *entry = mx_id_place(&self->states, id);
    if (!entry)
        return mx_error_code();
    mx_retain(state);
    mx_release(entry->pointer);
    entry->pointer = state;
    return MX_OK;
}

mx_code mx_updater_drop_state(mx_updater *self, mx_id id)
{
    mx_optimizer_state *state = mx_updater_state(self, id);
    if (state)
        mx_id_remove(&self->states, id);
    mx_release(state);
    return MX_OK;
}

static mx_optimizer_state *state_for(mx_updater *self, mx_id id, mx_array *weight)
{
    mx_optimizer_state *state = mx_updater_state(self, id);
    if (!state) {
        state = mx_optimizer_state_of(self->optimizer, id, weight);
        return state && !mx_updater_set_state(self, id, state) ? state : NULL;
    }
    if (state->loose && !self->optimizer->hooks.update && mx_optimizer_state_settle(self->optimizer, state, weight))
        return NULL;
    return state;
}

mx_code mx_updater_update(mx_updater *self, mx_id id, mx_array *grad, mx_array *weight)
{
    if (!ok(self, "mx_updater_update") || !mx_array_any_ok(grad, "mx_updater_update", "grad") ||
        !mx_array_any_ok(weight, "mx_updater_update", "weight"))
        return mx_error_code();
    MX_SCOPE;
    if (!self->optimizer->hooks.update) /* those count by themselves */
        self->optimizer->rates.device = weight->context.id;
    mx_optimizer_state *state = state_for(self, id, weight);
    return state ? mx_optimizer_update_id(self->optimizer, state, id, weight, grad) : mx_error_code();
}

/* ---- saving ------------------------------------------------------------------------------------------------------ */

typedef struct listing {
    MX_VEC(mx_array *) arrays;  /* owned by the scope, or by states */
    MX_VEC(const char *) names; /* owned by the scope */
} listing;

static bool put(listing *list, mx_array *array, const char *name)
{
    return array && name && mx_vec_push(&list->arrays, array) && mx_vec_push(&list->names, name);
}

static bool put_numbers(listing *list, const char *name, mx_dtype dtype, const void *numbers, int64_t count)
{
    mx_array *array = mx_empty((mx_dims){.n = 1, .d = {count}}, dtype, mx_cpu(0));
    return array && !mx_array_write(array, numbers, (size_t)count * 8) && put(list, array, name);
}

/* "#3:0", "=w:updates"; scope-owned. */
static const char *part_name(mx_id id, const char *part)
{
    mx_text text = {0};
    if (id.name)
        mx_text_print(&text, "=%s:%s", id.name, part);
    else
        mx_text_print(&text, "#%lld:%s", (long long)id.number, part);
    return mx_text_to_scope(&text);
}

/* The arrays of a state in the order of its class. */
static int arrays_of(const mx_optimizer *o, const mx_optimizer_state *state, mx_array *out[MX_MAX_STATES + 1])
{
    int n = 0;
    const bool last = o->cls && ((const mx_optimizer_methods *)o->cls->methods)->master_last;
    if (state->loose) {
        memcpy(out, state->given, (size_t)state->n_given * sizeof *out);
        return state->n_given;
    }
    if (state->master && !last)
        out[n++] = state->master;
    for (int i = 0; i < MX_MAX_STATES && state->array[i]; i++)
        out[n++] = state->array[i];
    if (state->master && last)
        out[n++] = state->master;
    return n;
}

static bool put_state(listing *list, const mx_optimizer *o, mx_id id, const mx_optimizer_state *state)
{
    char number[16];
    mx_array *arrays[MX_MAX_STATES + 1];
    const int64_t updates = mx_optimizer_count(o, id);
    const int n = arrays_of(o, state, arrays);
    bool done = put_numbers(list, part_name(id, "updates"), MX_INT64, &updates, 1);
    for (int i = 0; done && i < n; i++) {
        snprintf(number, sizeof number, "%d", i);
        done = !arrays[i] || put(list, arrays[i], part_name(id, number));
    }
    return done;
}

/* States that are a user's objects cannot be written as arrays. */
static bool kept_by_user(const mx_updater *self)
{
    if (self->optimizer->hooks.update)
        mx_fail(MX_ERR_UNSUPPORTED,
                "updater: the states of optimizer %s are custom objects, which cannot be saved as arrays",
                mx_optimizer_name(self->optimizer));
    return self->optimizer->hooks.update != NULL;
}

mx_code mx_updater_save(mx_updater *self, const char *path)
{
    MX_SCOPE;
    listing list = {0};
    char name[160];
    if (!ok(self, "mx_updater_save") || kept_by_user(self))
        return mx_error_code();
    const mx_optimizer *o = self->optimizer;
    snprintf(name, sizeof name, "optimizer:%s", mx_optimizer_name(o));
    bool done =
        put_numbers(&list, name, MX_INT64, &o->num_update, 1) && put_numbers(&list, "memory", MX_FLOAT64, o->memory, 2);
    for (int64_t i = 0; done && i < mx_id_table_length(&self->states); i++)
        done = put_state(&list, o, mx_id_at(&self->states, i), mx_id_table_at(&self->states, i)->pointer);
    const mx_code code =
        done ? mx_save(path, (mx_arrays){list.arrays.items, list.arrays.length}, list.names.items) : mx_error_code();
    mx_vec_free(&list.names);
    mx_vec_free(&list.arrays);
    return code;
}

/* ---- loading ----------------------------------------------------------------------------------------------------- */

static mx_code get_numbers(const mx_array_dict *file, const char *path, const char *name, mx_dtype dtype, void *numbers,
                           int64_t count)
{
    const mx_array *array = mx_array_dict_get(file, name);
    if (!array)
        return mx_fail(MX_ERR_FILE, "%s: the file has no '%s'; was it written by an updater with this optimizer?", path,
                       name);
    if (array->ndim != 1 || array->size != count || array->dtype != dtype)
        return mx_fail(MX_ERR_FILE, "%s: '%s' has %lld elements of %s, wanted %lld of %s", path, name,
                       (long long)array->size, mx_dtype_name((mx_dtype)array->dtype), (long long)count,
                       mx_dtype_name(dtype));
    return mx_array_read(array, numbers, (size_t)count * 8);
}

/* "#3:updates", or "=name:updates": there is one for every weight. */
static bool is_count(const char *name)
{
    const char *end = name ? strrchr(name, ':') : NULL;
    return end && !strcmp(end, ":updates") && (name[0] == '#' || name[0] == '=');
}

/* The id in it; a name belongs to the scope. */
static mx_code id_of(const char *name, mx_id *id)
{
    mx_text text = {0};
    mx_text_print(&text, "%.*s", (int)(strrchr(name, ':') - name - 1), name + 1);
    const char *inner = mx_text_to_scope(&text);
    *id = name[0] == '=' ? mx_id_name(inner) : mx_id_number(inner ? strtoll(inner, NULL, 10) : 0);
    return inner ? MX_OK : mx_error_code();
}

static mx_optimizer_state *get_state(const mx_array_dict *file, mx_id id)
{
    char number[16];
    mx_array *arrays[MX_MAX_STATES + 1];
    int n = 0;
    for (int i = 0; i < MX_MAX_STATES + 1; i++) {
        snprintf(number, sizeof number, "%d", i);
        const char *name = part_name(id, number);
        if (!name)
            return NULL;
        arrays[i] = mx_array_dict_get(file, name);
        n = arrays[i] ? i + 1 : n;
    }
    return mx_optimizer_state_given(id, (mx_arrays){arrays, n});
}

/* Reads one weight of the file into new states and counts, not yet the updater's. */
static mx_code read_weight(const mx_array_dict *file, const char *path, const char *count_name, mx_id_table *states,
                           mx_id_table *counts)
{
    mx_id id;
    int64_t updates;
    if (id_of(count_name, &id) || get_numbers(file, path, count_name, MX_INT64, &updates, 1))
        return mx_error_code();
    mx_optimizer_state *state = get_state(file, id);
    if (!state)
        return mx_error_code();
    mx_dict_entry *count = mx_id_place(counts, id), *place = mx_id_place(states, id);
    if (!count || !place)
        return mx_error_code();
    count->number = updates;
    place->pointer = mx_retain(state);
    return MX_OK;
}

static mx_code take_over(mx_updater *self, mx_id_table *states, mx_id_table *counts, int64_t num_update,
                         const double *memory)
{
    mx_optimizer *o = self->optimizer;
    mx_id_table *mine = mx_rates_counts(&o->rates, o->rates.device, true);
    if (!mine)
        return mx_error_code();
    mx_id_table_free(mine);
    *mine = *counts, *counts = (mx_id_table){0};
    mx_id_table_drop_objects(&self->states);
    self->states = *states, *states = (mx_id_table){0};
    o->num_update = num_update;
    memcpy(o->memory, memory, sizeof o->memory);
    return MX_OK;
}

mx_code mx_updater_load(mx_updater *self, const char *path)
{
    MX_SCOPE;
    char name[160];
    int64_t num_update;
    double memory[2];
    mx_id_table states = {0}, counts = {0};
    if (!ok(self, "mx_updater_load") || kept_by_user(self))
        return mx_error_code();
    snprintf(name, sizeof name, "optimizer:%s", mx_optimizer_name(self->optimizer));
    mx_array_dict *file = mx_load(path);
    if (!file || get_numbers(file, path, name, MX_INT64, &num_update, 1) ||
        get_numbers(file, path, "memory", MX_FLOAT64, memory, 2))
        return mx_error_code();
    mx_code code = MX_OK;
    for (int64_t i = 0; !code && i < mx_array_dict_count(file); i++)
        if (is_count(mx_array_dict_name(file, i)))
            code = read_weight(file, path, mx_array_dict_name(file, i), &states, &counts);
    code = code ? code : take_over(self, &states, &counts, num_update, memory);
    mx_id_table_drop_objects(&states);
    mx_id_table_free(&counts);
    return code;
}
