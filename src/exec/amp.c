/* Mixed precision (see gluon/amp.h): casts before calls of operators that need another precision.
 *
 *     mx_invoke(op, inputs) --> amp_cast of some inputs --> mx_invoke(op, cast inputs)
 *
 * An operator's description gives its precision (mx_op.precision, float32_where); mx_amp_set overrides it.  The
 * rules depend only on the operator and the types of its inputs, so calls on arrays, on shapes and on symbols
 * get the same casts.  A call with a float64 or a sparse input is left alone.
 *
 * Invariant: while mx_amp_on is set, `rules` has an entry for every operator; entries change only under `lock`, one word at
 * a time.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "exec/amp.h"

#include <pthread.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "gluon/op.gen.h"
#include "graph/apply.h"
#include "graph/call.h"
#include "graph/names.h"
#include "ndarray/array.h"
#include "ndarray/dtype.h"

#define MOST_INPUTS 64
#define MOST_CONDITIONS 64

typedef struct condition {
    const mx_op *op;
    const mx_field *field;
    char *value;
} condition;

_Atomic(bool) mx_amp_on;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static _Atomic(uint64_t) version;
static mx_dtype target = MX_FLOAT32;
static _Atomic(uint8_t) *rules; /* by operator number; never freed */
static condition conditions[MOST_CONDITIONS];
static int n_conditions;

uint64_t mx_amp_version(void) { return atomic_load_explicit(&version, memory_order_relaxed); }
mx_dtype mx_amp_target(void) { return target; }

static mx_code cast_entries(mx_op *op, const void *attrs, int n_in, mx_gentry *entries);

/* ---- settings -------------------------------------------------------------------------------------------------- */

/* Entry i of one operator: its precision first, if it has one, then one per attribute value that needs float32. */
static bool row_of(const mx_op *op, int i, mx_amp_row *row)
{
    const bool loss = op->flags & MX_OP_LOSS;
    const char *const *where = op->float32_where;
    if (op->precision != MX_PRECISION_ANY && !i--) {
        *row = (mx_amp_row){op->name, op->precision, loss, NULL, NULL};
        return true;
    }
    for (int k = 1; where && where[k]; k++)
        if (!i--) {
            *row = (mx_amp_row){op->name, MX_PRECISION_FLOAT32, loss, where[0], where[k]};
            return true;
        }
    return false;
}

bool mx_amp_row_at(int i, mx_amp_row *row)
{
    if (!row || i < 0)
        return false;
    for (int n = 0; mx_op_at(n); n++)
        for (int k = 0; row_of(mx_op_at(n), k, row); k++)
            if (!i--)
                return true;
    return false;
}

static int count_operators(void)
{
    int n = 0;
    while (mx_op_at(n))
        n++;
    return n;
}

static mx_code add_condition(const mx_op *op, const char *attribute, const char *value)
{
    const mx_field *field = op->schema ? mx_schema_find(op->schema, attribute) : NULL;
    if (!field)
        return mx_fail(MX_ERR_ARGUMENT, "mx_amp_set_where: %s has no attribute %s", op->name, attribute);
    if (n_conditions == MOST_CONDITIONS)
        return mx_fail(MX_ERR_UNSUPPORTED, "mx_amp_set_where: at most %d conditions are possible", MOST_CONDITIONS);
    char *copy = mx_strdup(value);
    if (!copy)
        return mx_error_code();
    conditions[n_conditions++] = (condition){op, field, copy};
    return MX_OK;
}

static void forget_conditions(void)
{
    while (n_conditions)
        mx_strfree(conditions[--n_conditions].value);
}

static mx_code use_descriptions(void)
{
    const int n = count_operators();
    if (!rules && !(rules = mx_alloc_zero((size_t)n * sizeof *rules)))
        return MX_ERR_MEMORY;
    forget_conditions();
    for (int i = 0; i < n; i++) {
        const mx_op *op = mx_op_at(i);
        const char *const *where = op->float32_where;
        atomic_store(&rules[i], (uint8_t)op->precision);
        for (int k = 1; where && where[k]; k++)
            if (add_condition(op, where[0], where[k]))
                return mx_error_code();
    }
    return MX_OK;
}

mx_code mx_amp_init(mx_dtype wanted)
{
    if (wanted != MX_FLOAT16 && wanted != MX_BFLOAT16 && wanted != MX_FLOAT32)
        return mx_fail(MX_ERR_DTYPE, "mx_amp_init: target is %s, wanted float16 or bfloat16, or float32 to turn it off",
                       mx_dtype_name(wanted));
    pthread_mutex_lock(&lock);
    mx_code code = wanted == MX_FLOAT32 ? MX_OK : use_descriptions();
    if (!code)
        target = wanted;
    atomic_fetch_add(&version, 1);
    atomic_store(&mx_amp_on, !code && wanted != MX_FLOAT32);
    atomic_store(&mx_apply_precision, atomic_load(&mx_amp_on) ? cast_entries : NULL);
    pthread_mutex_unlock(&lock);
    return code;
}

/* The operator, if mixed precision is on. */
static mx_op *settable(const char *name, const char *function)
{
    mx_op *op = name ? mx_op_find(name) : mx_fail_null(MX_ERR_ARGUMENT, "%s: op is NULL", function);
    if (op && !atomic_load(&mx_amp_on))
        return mx_fail_null(MX_ERR_STATE, "%s: call mx_amp_init first", function);
    return op;
}

mx_code mx_amp_set(const char *name, mx_precision precision)
{
    mx_op *op = settable(name, "mx_amp_set");
    if (!op)
        return mx_error_code();
    if ((int)precision < MX_PRECISION_ANY || precision > MX_PRECISION_DATA)
        return mx_fail(MX_ERR_ARGUMENT, "mx_amp_set: there is no precision %d", (int)precision);
    pthread_mutex_lock(&lock);
    for (int i = n_conditions - 1; i >= 0; i--)
        if (conditions[i].op == op) {
            mx_strfree(conditions[i].value);
            conditions[i] = conditions[--n_conditions];
        }
    atomic_store(&rules[op->id], (uint8_t)precision);
    atomic_fetch_add(&version, 1);
    pthread_mutex_unlock(&lock);
    return MX_OK;
}

mx_code mx_amp_set_where(const char *name, const char *attribute, const char *value)
{
    mx_op *op = settable(name, "mx_amp_set_where");
    if (!op)
        return mx_error_code();
    if (!attribute || !value)
        return mx_fail(MX_ERR_ARGUMENT, "mx_amp_set_where: %s is NULL", attribute ? "value" : "attribute");
    pthread_mutex_lock(&lock);
    const mx_code code = add_condition(op, attribute, value);
    atomic_fetch_add(&version, 1);
    pthread_mutex_unlock(&lock);
    return code;
}

/* ---- rules ----------------------------------------------------------------------------------------------------- */

static bool holds(const condition *c, const void *attrs)
{
    char text[MX_VALUE_TEXT];
    return !strcmp(mx_field_text(c->field, attrs, text), c->value);
}

static mx_precision rule_of(const mx_op *op, const void *attrs)
{
    for (int i = 0; i < n_conditions; i++)
        if (conditions[i].op == op && holds(&conditions[i], attrs ? attrs : op->defaults))
            return MX_PRECISION_FLOAT32;
    return (mx_precision)atomic_load_explicit(&rules[op->id], memory_order_relaxed);
}

/* Whether casting an array of this type to `to` changes it; the type of a variable in a symbol may still be unknown. */
static bool to_cast(int type, mx_dtype to)
{
    return type != (int)to && (type == MX_FLOAT32 || mx_dtype_is_narrow(type) || type == MX_DTYPE_NONE);
}

typedef struct types {
    bool narrow, single, unknown; /* there are inputs of 16 bits, of float32, of unknown type */
    bool other;                   /* inputs that rule out mixed precision */
} types;

static types look(int n_in, mx_array *const *in)
{
    types t = {false, false, false, false};
    for (int i = 0; i < n_in; i++) {
        const mx_array *x = in[i];
        if (x == MX_NONE)
            continue;
        const bool dense = x && x->object.guard == MX_OBJECT_ALIVE && x->object.kind == &mx_array_kind && x != MX_END;
        t.other |= !dense || x->dtype == MX_FLOAT64;
        if (dense) {
            t.narrow |= mx_dtype_is_narrow(x->dtype);
            t.single |= x->dtype == MX_FLOAT32;
            t.unknown |= x->dtype == MX_DTYPE_NONE;
        }
    }
    return t;
}

/* What input i, of this type, is cast to; MX_DTYPE_NONE: no cast. */
static mx_dtype wanted_type(const mx_op *op, mx_precision precision, types t, int i, int type)
{
    switch (precision) {
    case MX_PRECISION_TARGET: return mx_amp_keeps(op, i) ? MX_DTYPE_NONE : target;
    case MX_PRECISION_FLOAT32: return MX_FLOAT32;
    case MX_PRECISION_WIDEST: return t.narrow && t.single ? MX_FLOAT32 : MX_DTYPE_NONE;
    case MX_PRECISION_DATA: return i && mx_dtype_is_narrow(type) ? MX_FLOAT32 : MX_DTYPE_NONE;
    default: return MX_DTYPE_NONE;
    }
}

/* ---- calls ----------------------------------------------------------------------------------------------------- */

/* Types that are still unknown are inferred by the operator that can do so. */
static mx_code cast_together(int n_in, mx_array *const *in, mx_array **cast, bool *any)
{
    mx_array *out[MX_MAX_OUTPUTS] = {NULL};
    const mx_amp_multicast_attrs attrs = {.num_outputs = n_in};
    for (int i = 0; i < n_in; i++)
        if (in[i] == MX_NONE)
            return MX_OK;
    if (n_in > MX_MAX_OUTPUTS || mx_invoke(MX_OP("amp_multicast"), &attrs, n_in, in, MX_MAX_OUTPUTS, out))
        return mx_error_code();
    memcpy(cast, out, (size_t)n_in * sizeof *cast);
    *any = true;
    return MX_OK;
}

static mx_code cast_inputs(mx_op *op, const void *attrs, int n_in, mx_array *const *in, mx_array **cast, bool *any)
{
    const mx_precision precision = rule_of(op, attrs);
    const types t = precision == MX_PRECISION_ANY || n_in > MOST_INPUTS ? (types){.other = true} : look(n_in, in);
    if (t.other)
        return MX_OK;
    memcpy(cast, in, (size_t)n_in * sizeof *cast);
    if (precision == MX_PRECISION_WIDEST && t.unknown && n_in > 1)
        return cast_together(n_in, in, cast, any);
    for (int i = 0; i < n_in; i++) {
        const mx_dtype to = in[i] == MX_NONE ? MX_DTYPE_NONE : wanted_type(op, precision, t, i, in[i]->dtype);
        if (to == MX_DTYPE_NONE || !to_cast(in[i]->dtype, to) || mx_op_writes(op, attrs ? attrs : op->defaults, i))
            continue;
        if (!(cast[i] = mx_amp_cast(in[i], .dtype = to)))
            return mx_error_code();
        *any = true;
    }
    return MX_OK;
}

/* What inference learned about a cast input applies to the input itself. */
static void learn(mx_array *x, const mx_array *cast)
{
    if (x == cast || x == MX_NONE || x->storage || x->node)
        return;
    memcpy(x->shape, cast->shape, sizeof x->shape);
    x->ndim = cast->ndim;
    x->size = cast->size;
}

/* Results that go into the caller's arrays have the types of those. */
static mx_code run_into(mx_op *op, const void *attrs, int n_in, mx_array *const *in, int n_out, mx_array **out)
{
    mx_array *made[MX_MAX_OUTPUTS] = {NULL};
    mx_code code = mx_invoke(op, attrs, n_in, in, MX_MAX_OUTPUTS, made);
    for (int i = 0; !code && i < n_out && i < MX_MAX_OUTPUTS && made[i]; i++) {
        if (!out[i])
            out[i] = made[i];
        else if (out[i]->dtype == made[i]->dtype ? !mx_copy(made[i], .out = out[i])
                                                 : !mx_cast(made[i], .dtype = (mx_dtype)out[i]->dtype, .out = out[i]))
            code = mx_error_code();
    }
    return code;
}

static mx_code invoke_cast(mx_op *op, const void *attrs, int n_in, mx_array *const *in, mx_array *const *cast,
                           int n_out, mx_array **out)
{
    bool given = false;
    for (int i = 0; i < n_out && i < mx_op_count_visible(op, attrs ? attrs : op->defaults); i++)
        given |= out[i] != NULL;
    const mx_code code =
        given ? run_into(op, attrs, n_in, cast, n_out, out) : mx_invoke(op, attrs, n_in, cast, n_out, out);
    for (int i = 0; !code && i < n_in; i++)
        learn(in[i], cast[i]);
    return code;
}

mx_code mx_amp_invoke(mx_op *op, const void *attrs, int n_in, mx_array *const *in, int n_out, mx_array **out)
{
    mx_array *cast[MOST_INPUTS];
    bool any = false;
    const char *waiting = mx_names_next(NULL); /* that name is meant for the operator */
    mx_thread.precision_settled++;
    mx_code code = cast_inputs(op, attrs, n_in, in, cast, &any);
    mx_names_next(waiting);
    if (!code)
        code = any ? invoke_cast(op, attrs, n_in, in, cast, n_out, out) : mx_invoke(op, attrs, n_in, in, n_out, out);
    mx_thread.precision_settled--;
    return code;
}

/* The same for a node whose inputs are known as entries. */
static mx_code cast_entries(mx_op *op, const void *attrs, int n_in, mx_gentry *entries)
{
    MX_SCOPE;
    mx_array *in[MOST_INPUTS], *cast[MOST_INPUTS];
    bool any = false;
    if (!mx_amp_active() || n_in > MOST_INPUTS)
        return MX_OK;
    for (int i = 0; i < n_in; i++) {
        in[i] = entries[i].node ? mx_scope_add(mx_array_symbolic(entries[i].node, entries[i].output)) : MX_NONE;
        if (!in[i])
            return mx_error_code();
    }
    const char *waiting = mx_names_next(NULL);
    mx_thread.precision_settled++;
    mx_code code = cast_inputs(op, attrs, n_in, in, cast, &any);
    mx_thread.precision_settled--;
    mx_names_next(waiting);
    for (int i = 0; !code && any && i < n_in; i++) {
        if (cast[i] == in[i])
            continue;
        mx_release(entries[i].node);
        entries[i] = mx_entry_of(cast[i]);
        mx_retain(entries[i].node);
    }
    return code;
}
