/* The optimizer states of single weights, and float32 masters of 16-bit weights.
 *
 *     state --- array[]: of the method      master: the weight in float32      own: an object of a user's optimizer
 *
 * A state from outside (a file, another program) is a list of arrays in the class's order; which of them is the master
 * is determined at the next update, when the weight is known.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "base/alloc.h"
#include "base/error.h"
#include "gluon/autograd.h"
#include "gluon/train/learning.h"
#include "ndarray/dtype.h"
#include "ndarray/sparse.h"

static void release_own(mx_optimizer_state *state)
{
    if (state->own && state->release_own)
        state->release_own(state->own);
    state->own = NULL;
}

static void destroy_state(mx_object *object)
{
    mx_optimizer_state *state = (mx_optimizer_state *)object;
    for (int i = 0; i < MX_MAX_STATES; i++)
        mx_release(state->array[i]);
    mx_release(state->master);
    mx_release(state->grad32);
    for (int i = 0; i < MX_MAX_STATES + 1; i++)
        mx_release(state->given[i]);
    release_own(state);
    mx_free(state, sizeof *state);
}
const mx_kind mx_optimizer_state_kind = {"optimizer state", destroy_state};

static mx_array *new_like(const mx_array *weight, mx_dtype dtype)
{
    mx_shape_t shape = mx_array_shape(weight);
    return mx_array_new(&shape, dtype, weight->context);
}

mx_code mx_optimizer_zeros(mx_array *weight, int count, mx_array **state)
{
    for (int i = 0; i < count; i++) {
        state[i] = new_like(weight, (mx_dtype)weight->dtype);
        if (!state[i] || mx_array_fill(state[i], 0))
            return mx_error_code();
    }
    return MX_OK;
}

bool mx_optimizer_keeps_master(const mx_optimizer *self, const mx_array *weight)
{
    return self->multi_precision && mx_dtype_is_narrow(weight->dtype);
}

static const mx_optimizer_methods *methods_of(const mx_optimizer *self)
{
    return self->cls ? self->cls->methods : NULL;
}

static bool is_fused(const mx_optimizer *self)
{
    return self->cls && !self->user_update && !self->hooks.update && methods_of(self)->fused;
}

static mx_code make_grad32(const mx_optimizer *self, mx_optimizer_state *state, const mx_array *weight)
{
    if (!is_fused(self) && !(state->grad32 = new_like(weight, MX_FLOAT32)))
        return mx_error_code();
    return MX_OK;
}

static mx_code make_master(const mx_optimizer *self, mx_optimizer_state *state, mx_array *weight)
{
    state->master = new_like(weight, MX_FLOAT32);
    if (!state->master || make_grad32(self, state, weight))
        return mx_error_code();
    return mx_array_set(state->master, weight);
}

static mx_code make_own(mx_optimizer *self, mx_optimizer_state *state, mx_array *weight)
{
    state->release_own = self->hooks.release_state;
    char text[MX_ID_TEXT];
    if (self->hooks.make_state && self->hooks.make_state(self->user, state->id, weight, &state->own))
        return mx_fail(MX_ERR_CALLBACK, "optimizer %s: creating the state of weight %s failed", self->name,
                       mx_id_text(state->id, text));
    return MX_OK;
}

/* Whether states have the kind of storage of the weight: those of rows that were never updated take no memory. */
static bool states_like_weight(const mx_optimizer *self, const mx_array *weight)
{
    const mx_optimizer_methods *methods = methods_of(self);
    return mx_is_sparse(weight) && methods && methods->lazy && mx_optimizer_float(self, "lazy_update") != 0;
}

static mx_code make_sparse(const mx_array *weight, mx_array **state)
{
    const mx_shape_t shape = mx_array_shape(weight), made = mx_array_shape(*state);
    if (!mx_shape_equal(&shape, &made))
        return MX_OK;
    mx_array *sparse =
        mx_retain(mx_sparse_zeros(mx_stype_of(weight), mx_shape(weight), (mx_dtype)weight->dtype, weight->context));
    if (!sparse)
        return mx_error_code();
    mx_release(*state);
    *state = sparse;
    return MX_OK;
}

mx_code mx_optimizer_make_arrays(mx_optimizer *self, mx_array *weight, mx_array *array[MX_MAX_STATES])
{
    MX_SCOPE;
    const mx_optimizer_methods *methods = methods_of(self);
    if (methods && methods->make_states
            ? methods->make_states(self, weight, array)
            : mx_optimizer_zeros(weight, methods ? methods->states : self->user_states, array))
        return mx_error_code();
    for (int i = 0; i < MX_MAX_STATES && array[i] && states_like_weight(self, weight); i++)
        if (make_sparse(weight, &array[i]))
            return mx_error_code();
    return MX_OK;
}

static mx_code fill_state(mx_optimizer *self, mx_optimizer_state *state, mx_array *weight)
{
    if (self->hooks.update)
        return make_own(self, state, weight);
    if (mx_optimizer_keeps_master(self, weight) && make_master(self, state, weight))
        return mx_error_code();
    return mx_optimizer_make_arrays(self, state->master ? state->master : weight, state->array);
}

static mx_optimizer_state *new_state(mx_id id)
{
    mx_optimizer_state *state = mx_alloc_zero(sizeof *state);
    if (!state)
        return NULL;
    mx_object_init(&state->object, &mx_optimizer_state_kind);
    state->id = id;
    if (id.name && !(state->id.name = mx_intern(id.name))) {
        mx_release(state);
        return NULL;
    }
    return state;
}

mx_optimizer_state *mx_optimizer_state_new(mx_optimizer *self, mx_array *weight)
{
    return mx_optimizer_state_of(self, mx_id_number(0), weight);
}

mx_optimizer_state *mx_optimizer_state_of(mx_optimizer *self, mx_id id, mx_array *weight)
{
    if (!mx_is_kind(self, &mx_optimizer_kind, "mx_optimizer_state_new", "optimizer") ||
        !mx_array_any_ok(weight, "mx_optimizer_state_new", "weight"))
        return NULL;
    if (!mx_dtype_is_float(weight->dtype))
        return mx_fail_null(MX_ERR_DTYPE, "%s: the weight is %s, wanted a floating-point type", mx_optimizer_name(self),
                            mx_dtype_name((mx_dtype)weight->dtype));
    mx_optimizer_state *state = new_state(id);
    if (!state)
        return NULL;
    state->updates = self->begin_num_update;
    mx_mode mode = mx_mode_enter(0, -1);
    mx_code code = fill_state(self, state, weight);
    mx_mode_leave(&mode);
    if (code) {
        mx_release(state);
        return NULL;
    }
    return mx_scope_add(state);
}

static bool state_ok(const mx_optimizer_state *state, const char *function)
{
    return mx_is_kind(state, &mx_optimizer_state_kind, function, "state");
}

int mx_optimizer_state_count(const mx_optimizer_state *state)
{
    int n = 0;
    if (!state_ok(state, "mx_optimizer_state_count"))
        return 0;
    while (n < MX_MAX_STATES && state->array[n])
        n++;
    return n + (state->master != NULL);
}

mx_array *mx_optimizer_state_at(const mx_optimizer_state *state, int i)
{
    const int n = mx_optimizer_state_count(state);
    if (i < 0 || i >= n)
        return NULL;
    return state->master && i == n - 1 ? state->master : state->array[i];
}

int64_t mx_optimizer_state_updates(const mx_optimizer_state *state)
{
    return state_ok(state, "mx_optimizer_state_updates") ? state->updates : 0;
}

mx_code mx_optimizer_state_set_updates(mx_optimizer_state *state, int64_t updates)
{
    if (!state_ok(state, "mx_optimizer_state_set_updates"))
        return mx_error_code();
    if (updates < 0)
        return mx_fail(MX_ERR_ARGUMENT, "mx_optimizer_state_set_updates: %lld updates, wanted 0 or more",
                       (long long)updates);
    state->updates = updates;
    return MX_OK;
}

/* ---- states from outside ----------------------------------------------------------------------------------------- */

mx_optimizer_state *mx_optimizer_state_given(mx_id id, mx_arrays arrays)
{
    if (arrays.n > MX_MAX_STATES + 1)
        return mx_fail_null(MX_ERR_ARGUMENT, "optimizer: the state has %lld arrays, at most %d are possible",
                            (long long)arrays.n, MX_MAX_STATES + 1);
    mx_optimizer_state *state = new_state(id);
    if (!state)
        return NULL;
    state->loose = true;
    for (; state->n_given < arrays.n; state->n_given++)
        state->given[state->n_given] = mx_retain(arrays.v[state->n_given]);
    return mx_scope_add(state);
}

/* A given array, on the weight's context; NULL stays NULL. */
static mx_code move(mx_array **place, mx_array *given, const mx_array *weight)
{
    mx_release(*place);
    *place = given ? mx_retain(mx_array_to(given, weight->context)) : NULL;
    return given && !*place ? mx_error_code() : MX_OK;
}

/* A single None is no state; None among others, which MXNet stores for a momentum of 0, means zeros. */
static mx_code move_all(mx_optimizer_state *state, int n, mx_array *const *given, mx_array *weight)
{
    mx_array *like = state->master ? state->master : weight;
    if (n > MX_MAX_STATES)
        return mx_fail(MX_ERR_ARGUMENT, "optimizer: the state has %d arrays, at most %d are possible", n,
                       MX_MAX_STATES);
    for (int i = 0; i < n; i++)
        if (move(&state->array[i], given[i], weight) ||
            (!given[i] && n > 1 && mx_optimizer_zeros(like, 1, &state->array[i])))
            return mx_error_code();
    return MX_OK;
}

mx_code mx_optimizer_state_settle(const mx_optimizer *self, mx_optimizer_state *state, mx_array *weight)
{
    MX_SCOPE;
    int first = 0, n = state->n_given;
    const bool last = methods_of(self) && methods_of(self)->master_last;
    if (mx_optimizer_keeps_master(self, weight) && n) {
        mx_array *master = last ? state->given[--n] : state->given[first++];
        if (!master || master->dtype != MX_FLOAT32 || master->size != weight->size)
            return mx_fail(MX_ERR_ARGUMENT, "%s: the state that was set has no float32 master of its weight",
                           mx_optimizer_name(self));
        if (move(&state->master, master, weight) || make_grad32(self, state, weight))
            return mx_error_code();
    }
    if (move_all(state, n - first, state->given + first, weight))
        return mx_error_code();
    for (int i = 0; i < state->n_given; i++) {
        mx_release(state->given[i]);
        state->given[i] = NULL;
    }
    release_own(state); /* what front ends have shown so far */
    state->n_given = 0, state->loose = false;
    return MX_OK;
}
