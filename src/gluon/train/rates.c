/* Rates and counts of single weights: multipliers by id, name, symbol and parameter.
 *
 *     multiplier of a weight = its parameter's, else that of its id, else that of its name, else 1
 *     rate = learning rate (or schedule) x multiplier        decay = wd x multiplier
 *     count of a weight, per device; num_update = the largest of them
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "gluon/block/core.h"
#include "gluon/train/learning.h"
#include "graph/symbol.h"

static bool ok(const mx_optimizer *self, const char *function)
{
    return mx_is_kind(self, &mx_optimizer_kind, function, "optimizer");
}

void mx_id_table_drop_objects(mx_id_table *table)
{
    for (int64_t i = 0; i < mx_id_table_length(table); i++)
        mx_release(mx_id_table_at(table, i)->pointer);
    mx_id_table_free(table);
}

void mx_rates_free(mx_rates *rates)
{
    mx_id_table *const plain[] = {&rates->lr_mult, &rates->wd_mult, &rates->noted_lr, &rates->noted_wd, &rates->names};
    for (size_t i = 0; i < sizeof plain / sizeof *plain; i++)
        mx_id_table_free(plain[i]);
    mx_id_table_drop_objects(&rates->parameters);
    for (int64_t i = 0; i < mx_id_table_length(&rates->counts); i++) {
        mx_id_table *counts = mx_id_table_at(&rates->counts, i)->pointer;
        mx_id_table_free(counts);
        mx_free(counts, sizeof *counts);
    }
    mx_id_table_free(&rates->counts);
}

/* ---- multipliers ------------------------------------------------------------------------------------------------- */

const char *mx_optimizer_name_of(const mx_optimizer *self, mx_id id)
{
    const mx_dict_entry *entry = mx_id_find(&self->rates.names, id);
    return entry ? entry->pointer : "";
}

static const mx_parameter *parameter_of(const mx_optimizer *self, mx_id id)
{
    const mx_dict_entry *entry = mx_id_find(&self->rates.parameters, id);
    return entry ? entry->pointer : NULL;
}

const char *mx_optimizer_label_of(const mx_optimizer *self, mx_id id)
{
    const char *name = mx_optimizer_name_of(self, id);
    const mx_parameter *p = *name ? NULL : parameter_of(self, id);
    return p ? p->name : name;
}

bool mx_optimizer_sparse_weight(const mx_optimizer *self, mx_id id)
{
    const mx_parameter *p = parameter_of(self, id);
    return p && p->stype == MX_ROW_SPARSE;
}

static double in_table(const mx_optimizer *self, const mx_id_table *table, mx_id id)
{
    const mx_dict_entry *entry = mx_id_find(table, id);
    if (!entry && mx_id_table_length(table)) {
        const char *name = mx_optimizer_name_of(self, id);
        entry = *name ? mx_id_find(table, mx_id_name(name)) : NULL;
    }
    return entry ? mx_entry_double(entry) : 1;
}

double mx_optimizer_lr_mult(const mx_optimizer *self, mx_id id)
{
    const mx_parameter *p = parameter_of(self, id);
    return p ? p->lr_mult : in_table(self, &self->rates.lr_mult, id);
}

double mx_optimizer_wd_mult(const mx_optimizer *self, mx_id id)
{
    const mx_parameter *p = parameter_of(self, id);
    return p ? p->wd_mult : in_table(self, &self->rates.wd_mult, id);
}

double mx_optimizer_rate(mx_optimizer *self, mx_id id)
{
    if (!ok(self, "mx_optimizer_rate"))
        return MX_NONE_FLOAT;
    return mx_optimizer_learning_rate(self) * mx_optimizer_lr_mult(self, id);
}

double mx_optimizer_decay(const mx_optimizer *self, mx_id id)
{
    return ok(self, "mx_optimizer_decay") ? self->wd * mx_optimizer_wd_mult(self, id) : MX_NONE_FLOAT;
}

mx_code mx_optimizer_set_lr_mult(mx_optimizer *self, mx_id id, double factor)
{
    return ok(self, "mx_optimizer_set_lr_mult") ? mx_id_set_double(&self->rates.lr_mult, id, factor) : mx_error_code();
}

mx_code mx_optimizer_set_wd_mult(mx_optimizer *self, mx_id id, double factor)
{
    return ok(self, "mx_optimizer_set_wd_mult") ? mx_id_set_double(&self->rates.wd_mult, id, factor) : mx_error_code();
}

static mx_code add_all(mx_id_table *to, const mx_id_table *from)
{
    mx_code code = MX_OK;
    for (int64_t i = 0; !code && i < mx_id_table_length(from); i++)
        code = mx_id_set_double(to, mx_id_at(from, i), mx_entry_double(mx_id_table_at(from, i)));
    return code;
}

mx_code mx_optimizer_reset_lr_mult(mx_optimizer *self)
{
    if (!ok(self, "mx_optimizer_reset_lr_mult"))
        return mx_error_code();
    mx_id_table_free(&self->rates.lr_mult);
    return add_all(&self->rates.lr_mult, &self->rates.noted_lr);
}

static bool ends_with(const char *name, const char *end)
{
    const size_t a = strlen(name), b = strlen(end);
    return a >= b && !strcmp(name + a - b, end);
}

mx_code mx_optimizer_reset_wd_mult(mx_optimizer *self)
{
    if (!ok(self, "mx_optimizer_reset_wd_mult"))
        return mx_error_code();
    mx_rates *rates = &self->rates;
    mx_code code = MX_OK;
    mx_id_table_free(&rates->wd_mult);
    for (int64_t i = 0; !code && i < mx_id_table_length(&rates->names); i++) {
        const char *name = mx_id_table_at(&rates->names, i)->pointer;
        if (!ends_with(name, "_weight") && !ends_with(name, "_gamma"))
            code = mx_id_set_double(&rates->wd_mult, mx_id_name(name), 0);
    }
    return code ? code : add_all(&rates->wd_mult, &rates->noted_wd);
}

/* ---- names, parameters, symbols ---------------------------------------------------------------------------------- */

mx_code mx_optimizer_set_name(mx_optimizer *self, mx_id id, const char *name)
{
    if (!ok(self, "mx_optimizer_set_name"))
        return mx_error_code();
    if (!name)
        return mx_fail(MX_ERR_ARGUMENT, "mx_optimizer_set_name: name is NULL");
    const char *kept = mx_intern(name);
    mx_dict_entry *entry = kept ? mx_id_place(&self->rates.names, id) : NULL;
    if (!entry)
        return mx_error_code();
    entry->pointer = (void *)(uintptr_t)kept;
    return MX_OK;
}

mx_code mx_optimizer_set_parameter(mx_optimizer *self, mx_id id, mx_parameter *parameter)
{
    if (!ok(self, "mx_optimizer_set_parameter") ||
        !mx_is_kind(parameter, &mx_parameter_kind, "mx_optimizer_set_parameter", "parameter"))
        return mx_error_code();
    mx_dict_entry *entry = mx_id_place(&self->rates.parameters, id);
    if (!entry)
        return mx_error_code();
    mx_retain(parameter);
    mx_release(entry->pointer);
    entry->pointer = parameter;
    return MX_OK;
}

static bool is_argument(const mx_names *arguments, const char *name)
{
    for (int64_t i = 0; i < arguments->n; i++)
        if (!strcmp(arguments->v[i], name))
            return true;
    return false;
}

mx_code mx_optimizer_set_symbol(mx_optimizer *self, const mx_symbol *symbol)
{
    MX_SCOPE;
    if (!ok(self, "mx_optimizer_set_symbol"))
        return mx_error_code();
    const mx_names arguments = mx_symbol_arguments(symbol), notes = mx_symbol_attrs_deep(symbol);
    if (arguments.n < 0 || notes.n < 0)
        return mx_error_code();
    mx_rates *rates = &self->rates;
    mx_id_table_free(&rates->noted_lr);
    mx_id_table_free(&rates->noted_wd);
    for (int64_t i = 0; i + 2 < notes.n; i += 3) { /* node, key, text */
        mx_id_table *table = !strcmp(notes.v[i + 1], "__lr_mult__")   ? &rates->noted_lr
                             : !strcmp(notes.v[i + 1], "__wd_mult__") ? &rates->noted_wd
                                                                      : NULL;
        if (table && is_argument(&arguments, notes.v[i]) &&
            mx_id_set_double(table, mx_id_name(notes.v[i]), strtod(notes.v[i + 2], NULL)))
            return mx_error_code();
    }
    return mx_optimizer_reset_lr_mult(self) || mx_optimizer_reset_wd_mult(self) ? mx_error_code() : MX_OK;
}

/* ---- counts ------------------------------------------------------------------------------------------------------ */

mx_id_table *mx_rates_counts(mx_rates *rates, int64_t device, bool make)
{
    mx_dict_entry *entry = mx_id_find(&rates->counts, mx_id_number(device));
    if (entry || !make)
        return entry ? entry->pointer : NULL;
    mx_id_table *made = mx_alloc_zero(sizeof *made);
    entry = made ? mx_id_place(&rates->counts, mx_id_number(device)) : NULL;
    if (!entry) {
        mx_free(made, sizeof *made);
        return NULL;
    }
    return entry->pointer = made;
}

int64_t mx_optimizer_count(const mx_optimizer *self, mx_id id)
{
    if (!ok(self, "mx_optimizer_count"))
        return 0;
    const mx_dict_entry *entry = mx_id_find(&self->rates.counts, mx_id_number(self->rates.device));
    entry = entry ? mx_id_find(entry->pointer, id) : NULL;
    return entry ? entry->number : self->begin_num_update;
}

/* The entry of a state's weight; a new one has the number that counting starts from. */
static mx_dict_entry *count_of(mx_optimizer *self, mx_optimizer_state *state, const mx_array *weight)
{
    mx_rates *rates = &self->rates;
    rates->device = weight->context.id;
    if (!rates->current || rates->current_of != rates->device)
        rates->current = mx_rates_counts(rates, rates->device, true), rates->current_of = rates->device;
    if (!rates->current)
        return NULL;
    const int64_t before = mx_id_table_length(rates->current);
    mx_dict_entry *entry = mx_id_place_near(rates->current, state->id, &state->count_at);
    if (entry && mx_id_table_length(rates->current) > before)
        entry->number = self->begin_num_update;
    return entry;
}

int64_t mx_optimizer_count_state(mx_optimizer *self, mx_optimizer_state *state, const mx_array *weight)
{
    mx_dict_entry *entry = count_of(self, state, weight);
    if (!entry)
        return -1;
    state->updates = ++entry->number;
    if (state->updates > self->num_update)
        self->num_update = state->updates;
    return state->updates;
}

mx_code mx_optimizer_set_count(mx_optimizer *self, mx_optimizer_state *state, const mx_array *weight)
{
    mx_dict_entry *entry = count_of(self, state, weight);
    if (!entry)
        return mx_error_code();
    entry->number = state->updates;
    return MX_OK;
}

int64_t mx_optimizer_count_up(mx_optimizer *self, mx_id id)
{
    mx_id_table *counts = mx_rates_counts(&self->rates, self->rates.device, true);
    const int64_t count = counts ? mx_optimizer_count(self, id) + 1 : -1;
    mx_dict_entry *entry = counts ? mx_id_place(counts, id) : NULL;
    if (!entry)
        return -1;
    entry->number = count;
    if (count > self->num_update)
        self->num_update = count;
    return count;
}
