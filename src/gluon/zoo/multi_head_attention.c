/* Attention with several heads between projections:
 *
 *     out = dense(softmax(Q K' / sqrt(d)) V per head),   Q, K, V = dense(query), dense(key), dense(value),   d = units / heads
 *
 * It is one operator (op/def/gemm/attention_fused.c) with dropout inside: the child that stands for it has the rate, and
 * is not called.  If that child has hooks, or is not the library's Dropout, it is called between the steps.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <stdio.h>

#include "exec/list.h"
#include "gluon/nn.gen.h"
#include "gluon/op.gen.h"
#include "gluon/zoo/transformer.h"
#include "gluon/zoo/zoo.h"

#define HIDDEN (-6e4) /* a score whose exponential is 0, finite in every type */

/* What the operator gets; the last two may be MX_NONE. */
typedef struct attention_inputs {
    mx_array *query, *key, *value, *mask, *valid_length;
} attention_inputs;

static mx_block *part(const mx_block *self, const char *name) { return mx_zoo_part(self, name); }
static mx_array *input(mx_arrays in, int64_t i) { return i < in.n ? in.v[i] : MX_NONE; }

mx_code mx_build_attention(mx_block *self, int64_t units, int64_t heads, double dropout, bool bias)
{
    static const char *const names[] = {"query", "key", "value", "out"};
    MX_SCOPE;
    char attribute[16], prefix[16];
    if (units % heads)
        return mx_fail(MX_ERR_ATTRIBUTE, "%s: units=%lld, wanted a multiple of num_heads=%lld", self->class_name,
                       (long long)units, (long long)heads);
    mx_name_scope(self)
    {
        for (int i = 0; i < 4; i++) {
            snprintf(attribute, sizeof attribute, "proj_%s", names[i]);
            snprintf(prefix, sizeof prefix, "%s_", names[i]);
            if (!mx_block_child(self, attribute, mx_dense(units, .flatten = false, .use_bias = bias, .prefix = prefix)))
                return mx_error_code();
        }
        if (dropout > 0 && !mx_block_child(self, "dropout", mx_dropout(dropout)))
            return mx_error_code();
    }
    return MX_OK;
}

/* ---- heads as batch entries --------------------------------------------------------------------------------------- */

mx_array *mx_split_heads(mx_array *x, int64_t heads)
{
    x = mx_transpose(mx_reshape(x, .shape = MX_DIMS(0, 0, heads, -1)), .axes = MX_DIMS(0, 2, 1, 3));
    return mx_reshape(x, .shape = MX_DIMS(-1, 0, 0), .reverse = true);
}

mx_array *mx_join_heads(mx_array *x, int64_t heads)
{
    x = mx_transpose(mx_reshape(x, .shape = MX_DIMS(-1, heads, 0, 0), .reverse = true), .axes = MX_DIMS(0, 2, 1, 3));
    return mx_reshape(x, .shape = MX_DIMS(0, 0, -1));
}

/* ---- steps: for a child that has to run between them ---------------------------------------------------------------- */

/* How many keys every query may see in a causal call, (1, queries); scores (N * heads, queries, keys). */
static mx_array *causal_counts(mx_array *scores)
{
    mx_array *like = mx_cast(scores, .dtype = MX_FLOAT32); /* 16-bit floats would round the numbers */
    mx_array *query = mx_arange_like(like, .axis = 1), *key = mx_arange_like(like, .axis = 2);
    mx_array *first = mx_plus_scalar(mx_sub(mx_max(key), mx_max(query)), .scalar = 1);
    return mx_reshape(mx_add(query, first), .shape = MX_DIMS(1, -1));
}

/* How many keys every query sees, (N * heads, queries), or MX_NONE: all. */
static mx_array *seen_keys(mx_array *scores, mx_array *valid_length, int64_t heads, bool causal)
{
    mx_array *of_entry = valid_length; /* (N * heads, 1) */
    if (valid_length != MX_NONE)
        of_entry = mx_cast(mx_reshape(mx_repeat(valid_length, .repeats = heads, .axis = 0), .shape = MX_DIMS(-1, 1)),
                           .dtype = MX_FLOAT32);
    if (causal && of_entry != MX_NONE)
        return mx_minimum(of_entry, causal_counts(scores));
    if (!causal && of_entry == MX_NONE)
        return MX_NONE;
    const int64_t missing = causal ? 0 : 1;
    return mx_broadcast_like(causal ? causal_counts(scores) : of_entry, scores, .lhs_axes = MX_DIMS(missing),
                             .rhs_axes = MX_DIMS(missing));
}

/* softmax over the keys that are seen; a query that sees none has weights 0, as in the operator. */
static mx_array *weigh(mx_array *query, mx_array *key, mx_array *mask, mx_array *valid_length, int64_t heads,
                       bool causal)
{
    mx_array *scores = mx_batch_dot(query, key, .transpose_b = true);
    mx_array *seen = seen_keys(scores, valid_length, heads, causal), *none = mx_zeros_like(scores);
    const double size = (double)mx_array_shape(query).dim[2];
    if (mask == MX_NONE)
        return mx_softmax(scores, .temperature = sqrt(size), .length = seen, .use_length = seen != MX_NONE);
    mask = mx_repeat(mask, .repeats = heads, .axis = 0);
    scores = mx_where(mask, scores, mx_plus_scalar(none, .scalar = HIDDEN));
    scores = mx_softmax(scores, .temperature = sqrt(size), .length = seen, .use_length = seen != MX_NONE);
    return mx_where(mask, scores, none);
}

static mx_array *attend_stepwise(const attention_inputs *a, mx_block *dropout, int64_t heads, bool causal)
{
    mx_array *weights =
        weigh(mx_split_heads(a->query, heads), mx_split_heads(a->key, heads), a->mask, a->valid_length, heads, causal);
    mx_array *means = mx_batch_dot(mx_call(dropout, weights), mx_split_heads(a->value, heads));
    return mx_join_heads(means, heads);
}

/* ---- forward ------------------------------------------------------------------------------------------------------ */

/* The rate of the child that stands for dropout, which users may change; NAN: the child has to be called. */
static double rate_of(const mx_block *dropout)
{
    if (!dropout)
        return 0;
    const mx_field *rate = dropout->cls ? mx_schema_find(dropout->cls->schema, "rate") : NULL;
    if (!rate || rate->type != MX_FIELD_FLOAT || !mx_block_is_unchanged(dropout))
        return NAN;
    return *(const double *)((const char *)dropout->options + rate->offset);
}

mx_arrays mx_attention_forward(mx_block *self, mx_arrays in, int64_t heads, bool causal)
{
    mx_array *query = in.v[0], *key = input(in, 1), *value = input(in, 2);
    key = key == MX_NONE ? query : key;
    value = value == MX_NONE ? key : value;
    mx_block *child = part(self, "dropout");
    const double dropout = rate_of(child);
    const attention_inputs a = {mx_call(part(self, "proj_query"), query), mx_call(part(self, "proj_key"), key),
                                mx_call(part(self, "proj_value"), value), input(in, 4), input(in, 3)};
    mx_array *means = isnan(dropout)
                          ? attend_stepwise(&a, child, heads, causal)
                          : mx_attention(a.query, a.key, a.value, .mask = a.mask, .valid_length = a.valid_length,
                                         .heads = heads, .causal = causal, .dropout = dropout,
                                         .use_mask = a.mask != MX_NONE, .use_length = a.valid_length != MX_NONE);
    mx_array *out = mx_call(part(self, "proj_out"), means), **list = out ? mx_list_new(1) : NULL;
    if (!list)
        return mx_list_failed();
    list[0] = out;
    return (mx_arrays){list, 1};
}
