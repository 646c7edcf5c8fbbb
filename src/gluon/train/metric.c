/* Metrics as objects: updating, merging tallies, groups, users' functions.
 *
 *     update:  pairs (label, prediction) --class--> a fresh tally --merge--> local, global
 *
 * A failed update leaves both tallies as they were.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "exec/list.h"
#include "gluon/autograd.h"
#include "gluon/train/learning.h"
#include "gluon/op.gen.h"

/* ---- tallies ----------------------------------------------------------------------------------------------------- */

static size_t table_bytes(int64_t side) { return (size_t)(side * side) * sizeof(double); }

void mx_tally_clear(mx_tally *tally)
{
    mx_free(tally->table, table_bytes(tally->side));
    *tally = (mx_tally){0};
}

mx_code mx_tally_grow(mx_tally *tally, int64_t side)
{
    if (side <= tally->side)
        return MX_OK;
    double *table = mx_alloc_zero(table_bytes(side));
    if (!table)
        return mx_error_code();
    for (int64_t i = 0; i < tally->side; i++)
        memcpy(table + i * side, tally->table + i * tally->side, (size_t)tally->side * sizeof *table);
    mx_free(tally->table, table_bytes(tally->side));
    tally->table = table, tally->side = side;
    return MX_OK;
}

static const mx_metric_methods *methods_of(const mx_metric *self) { return self->cls ? self->cls->methods : NULL; }

void mx_tally_merge(const mx_metric *self, mx_tally *into, const mx_tally *more)
{
    const mx_metric_methods *methods = methods_of(self);
    if (methods && methods->merge)
        methods->merge(self, into, more);
    for (int i = 0; i < MX_METRIC_STATE && !(methods && methods->merge); i++)
        into->state[i] += more->state[i];
    into->sum += more->sum, into->count += more->count;
    for (int64_t i = 0; i < more->side; i++)
        for (int64_t j = 0; j < more->side; j++)
            into->table[i * into->side + j] += more->table[i * more->side + j];
}

static double value_of(const mx_metric *self, const mx_tally *tally)
{
    const mx_metric_methods *methods = methods_of(self);
    if (tally->count == 0)
        return MX_NONE_FLOAT;
    return methods && methods->value ? methods->value(self, tally) : tally->sum / tally->count;
}

/* ---- making ------------------------------------------------------------------------------------------------------ */

static void destroy(mx_object *object)
{
    mx_metric *self = (mx_metric *)object;
    mx_tally_clear(&self->local);
    mx_tally_clear(&self->global);
    for (int i = 0; i < self->n_children; i++)
        mx_release(self->children[i]);
    mx_free(self->children, (size_t)self->n_children * sizeof *self->children);
    if (self->cls)
        mx_options_forget(self->cls, self->options);
    mx_strfree(self->name);
    mx_free(self, sizeof *self);
}
const mx_kind mx_metric_kind = {"metric", destroy};

static bool ok(const mx_metric *self, const char *function)
{
    return mx_is_kind(self, &mx_metric_kind, function, "metric");
}

static mx_metric *new_metric(const char *name)
{
    mx_metric *self = mx_alloc_zero(sizeof *self);
    if (!self)
        return NULL;
    mx_object_init(&self->object, &mx_metric_kind);
    if (!(self->name = mx_strdup(name))) {
        mx_release(self);
        return NULL;
    }
    return self;
}

/* Every metric class has the option `name`. */
mx_metric *mx_metric_make(mx_class *cls, const void *options)
{
    const mx_field *field = mx_schema_find(cls->schema, "name");
    const char *name = *(const char *const *)((const char *)options + field->offset);
    const mx_metric_methods *methods = cls->methods;
    mx_metric *self = new_metric(name ? name : cls->name);
    if (!self)
        return NULL;
    self->cls = cls;
    if (mx_options_keep(cls, options, &self->options) || (methods->start && methods->start(self))) {
        mx_release(self);
        return NULL;
    }
    return mx_scope_add(self);
}

mx_metric *mx_metric_new(const char *name, const char *options)
{
    mx_class *cls = mx_class_find(MX_METRIC, name);
    return cls ? mx_class_create(cls, options) : NULL;
}

mx_metric *mx_metric_custom(const char *name, mx_metric_fn fn, void *user)
{
    if (!name || !fn)
        return mx_fail_null(MX_ERR_ARGUMENT, "mx_metric_custom: %s is NULL", name ? "fn" : "name");
    mx_metric *self = new_metric(name);
    if (!self)
        return NULL;
    self->user_update = fn, self->user = user;
    return mx_scope_add(self);
}

/* ---- groups ------------------------------------------------------------------------------------------------------ */

static bool is_group(const mx_metric *self) { return self->cls && !methods_of(self)->update; }

mx_code mx_metric_add(mx_metric *group, mx_metric *metric)
{
    if (!ok(group, "mx_metric_add") || !mx_is_kind(metric, &mx_metric_kind, "mx_metric_add", "metric"))
        return mx_error_code();
    if (!is_group(group) || group == metric)
        return mx_fail(MX_ERR_ARGUMENT, "mx_metric_add: %s is not a CompositeEvalMetric, or its own member",
                       group->name);
    const size_t bytes = (size_t)group->n_children * sizeof *group->children;
    mx_metric **children = mx_realloc(group->children, bytes, bytes + sizeof *children);
    if (!children)
        return mx_error_code();
    children[group->n_children++] = mx_retain(metric);
    group->children = children;
    return MX_OK;
}

mx_metric *mx_metric_group(mx_metric *const *metrics, int count)
{
    mx_metric *group = mx_metric_new("composite", NULL);
    for (int i = 0; group && metrics && i < count; i++)
        if (mx_metric_add(group, metrics[i]))
            return NULL;
    return group;
}

int mx_metric_children(const mx_metric *self) { return ok(self, "mx_metric_children") ? self->n_children : 0; }

mx_metric *mx_metric_child(const mx_metric *self, int i)
{
    if (!ok(self, "mx_metric_child"))
        return NULL;
    if (i < 0 || i >= self->n_children)
        return mx_fail_null(MX_ERR_INDEX, "mx_metric_child: %s has %d members, member %d does not exist", self->name,
                            self->n_children, i);
    return self->children[i];
}

/* ---- updating ---------------------------------------------------------------------------------------------------- */

static mx_code count_pair(mx_metric *self, mx_tally *tally, mx_array *label, mx_array *pred)
{
    if (!self->user_update)
        return methods_of(self)->update(self, tally, label, pred);
    const double value = self->user_update(self->user, label, pred);
    if (isnan(value) && mx_has_error())
        return mx_error_code();
    tally->sum += value, tally->count++;
    return MX_OK;
}

static mx_code count_pairs(mx_metric *self, mx_tally *tally, mx_arrays labels, mx_arrays preds)
{
    const mx_metric_methods *methods = methods_of(self);
    const bool alone = methods && methods->ignores_labels;
    if (!alone && labels.n != preds.n)
        return mx_fail(MX_ERR_ARGUMENT, "%s: got %lld labels but %lld predictions", self->name, (long long)labels.n,
                       (long long)preds.n);
    for (int64_t i = 0; i < preds.n; i++)
        if (count_pair(self, tally, alone ? NULL : labels.v[i], preds.v[i]))
            return mx_error_code();
    if (methods && methods->finish)
        methods->finish(self, tally);
    return MX_OK;
}

static mx_code update_one(mx_metric *self, mx_arrays labels, mx_arrays preds)
{
    MX_SCOPE;
    mx_tally tally = {0};
    mx_mode mode = mx_mode_enter(0, -1);
    mx_code code = count_pairs(self, &tally, labels, preds);
    mx_mode_leave(&mode);
    if (!code && (mx_tally_grow(&self->local, tally.side) || mx_tally_grow(&self->global, tally.side)))
        code = mx_error_code();
    if (!code) {
        mx_tally_merge(self, &self->local, &tally);
        mx_tally_merge(self, &self->global, &tally);
    }
    mx_tally_clear(&tally);
    return code;
}

mx_code mx_metric_update(mx_metric *self, mx_arrays labels, mx_arrays preds)
{
    if (!ok(self, "mx_metric_update"))
        return mx_error_code();
    if (!labels.v)
        labels.n = 0;
    if ((labels.n && mx_list_check(&labels, self->name, "label")) || mx_list_check(&preds, self->name, "prediction"))
        return mx_error_code();
    if (!is_group(self))
        return update_one(self, labels, preds);
    for (int i = 0; i < self->n_children; i++)
        if (mx_metric_update(self->children[i], labels, preds))
            return mx_error_code();
    return MX_OK;
}

/* ---- looking ----------------------------------------------------------------------------------------------------- */

const char *mx_metric_name(const mx_metric *self) { return ok(self, "mx_metric_name") ? self->name : NULL; }
double mx_metric_get(const mx_metric *self)
{
    return ok(self, "mx_metric_get") ? value_of(self, &self->local) : MX_NONE_FLOAT;
}

double mx_metric_get_global(const mx_metric *self)
{
    return ok(self, "mx_metric_get_global") ? value_of(self, &self->global) : MX_NONE_FLOAT;
}

void mx_metric_reset_local(mx_metric *self)
{
    if (!ok(self, "mx_metric_reset_local"))
        return;
    mx_tally_clear(&self->local);
    for (int i = 0; i < self->n_children; i++)
        mx_metric_reset_local(self->children[i]);
}

void mx_metric_reset(mx_metric *self)
{
    if (!ok(self, "mx_metric_reset"))
        return;
    mx_tally_clear(&self->local);
    mx_tally_clear(&self->global);
    for (int i = 0; i < self->n_children; i++)
        mx_metric_reset(self->children[i]);
}

/* ---- what metrics use -------------------------------------------------------------------------------------------- */

mx_numbers mx_numbers_of(const mx_array *x)
{
    mx_numbers numbers = {NULL, x ? x->size : 0};
    if (!x)
        return numbers;
    numbers.v = mx_alloc((size_t)numbers.n * sizeof *numbers.v);
    if (numbers.v && mx_array_read_doubles(x, numbers.v, numbers.n))
        mx_numbers_free(&numbers);
    return numbers;
}

mx_numbers mx_numbers_of_argmax(mx_array *x, int64_t axis)
{
    MX_SCOPE;
    return mx_numbers_of(mx_argmax(x, .axis = axis));
}

void mx_numbers_free(mx_numbers *numbers)
{
    mx_free(numbers->v, (size_t)numbers->n * sizeof *numbers->v);
    numbers->v = NULL;
}

mx_code mx_metric_fail_sizes(const mx_metric *self, const mx_array *label, const mx_array *pred)
{
    char a[MX_SHAPE_TEXT], b[MX_SHAPE_TEXT];
    mx_shape_t label_shape = mx_array_shape(label), pred_shape = mx_array_shape(pred);
    return mx_fail(MX_ERR_SHAPE, "%s: labels have shape %s and predictions %s, which do not match", self->name,
                   mx_shape_text(&label_shape, a), mx_shape_text(&pred_shape, b));
}
