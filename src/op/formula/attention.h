/* Attention: where its operands lie, which keys a query sees, which weights dropout keeps.  For every device.
 *
 *     out[i] = sum over j of dropout(softmax over seen keys j of scale q[i] . k[j]) v[j]      per batch entry n and head h
 *
 * Query head h uses head h / (heads / kv_heads) of keys and values.  Inputs are query, key, value (numbers 0, 1, 2); their
 * `roles` say which of them hold what, in columns of the last axis:
 *
 *     apart            three inputs: q of all heads; k of all kv_heads; v of all kv_heads
 *     packed           one input:    q of all heads, then k of all kv_heads, then v of all kv_heads
 *     interleaved      one input:    q, k, v of head after head
 *     kv_interleaved   two inputs:   q of all heads; k, v of head after head
 *
 * Element d of a role at batch entry n, time t and head h is element first + n batch + t time + h head + d of its input.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef MX_OP_ATTENTION_H
#define MX_OP_ATTENTION_H

#include <math.h>

#include "base/rng.h"

enum { MX_ROLES_APART, MX_ROLES_PACKED, MX_ROLES_INTERLEAVED, MX_ROLES_KV_INTERLEAVED }; /* as attribute `roles` */
enum {
    MX_ATTENTION_QUERY,
    MX_ATTENTION_KEY,
    MX_ATTENTION_VALUE,
    MX_ATTENTION_MASK,
    MX_ATTENTION_LENGTH,
    MX_ATTENTION_INPUTS
};
/* Inputs of _backward_attention: the gradient, the inputs, the outputs. */
enum { MX_ATTENTION_BACK_GRAD, MX_ATTENTION_BACK_IN, MX_ATTENTION_BACK_OUT = MX_ATTENTION_BACK_IN + MX_ATTENTION_INPUTS,
       MX_ATTENTION_BACK_LSE, MX_ATTENTION_BACK_SEED, MX_ATTENTION_BACK_INPUTS };

typedef struct mx_attention_place {
    int input;                        /* that holds the role, 0 to 2; of the result: 0 */
    int64_t first, batch, time, head; /* elements before the role, and from one to the next */
} mx_attention_place;

typedef struct mx_attention_shape {
    int64_t batch, heads, kv_heads, queries, keys; /* queries and keys: their numbers */
    int64_t size;                                  /* elements of a head */
    mx_attention_place query, key, value, out;
    double scale;                  /* of the products */
    double dropout;                /* probability; 0 where nothing is dropped */
    bool causal;                   /* query i sees keys j <= i + keys - queries */
    int64_t mask_batch, mask_head; /* elements from one mask (queries, keys) to the next; 0: the same one */
} mx_attention_shape;

/* (N, T, columns), or (T, N, columns) if time_first */
static inline mx_attention_place mx_attention_place_of(int input, const int64_t *dim, bool time_first, int64_t first,
                                                       int64_t head)
{
    const mx_attention_place place = {input, first, time_first ? dim[2] : dim[1] * dim[2],
                                      time_first ? dim[1] * dim[2] : dim[2], head};
    return place;
}

/* Columns of input 0 per element of a head. */
static inline int64_t mx_attention_columns(int roles, int64_t heads, int64_t kv_heads)
{
    return roles == MX_ROLES_PACKED ? heads + 2 * kv_heads : roles == MX_ROLES_INTERLEAVED ? 3 * heads : heads;
}

/* Sizes and places; query and key: the three sizes of inputs 0 and 1, key is read only if the roles use it. */
static inline mx_attention_shape mx_attention_sizes(int roles, bool time_first, int64_t heads, int64_t kv_heads,
                                                    const int64_t *query, const int64_t *key)
{
    mx_attention_shape s;
    s.batch = query[time_first], s.queries = query[!time_first];
    s.heads = heads, s.kv_heads = kv_heads ? kv_heads : heads;
    s.scale = 1, s.dropout = 0, s.causal = false, s.mask_batch = s.mask_head = 0;
    const bool two = roles == MX_ROLES_APART || roles == MX_ROLES_KV_INTERLEAVED;
    const int64_t d = query[2] / mx_attention_columns(roles, heads, s.kv_heads);
    const int64_t out[3] = {query[0], query[1], heads * d}, *const keys = two ? key : query;
    const int64_t step = roles == MX_ROLES_INTERLEAVED ? 3 * d : roles == MX_ROLES_KV_INTERLEAVED ? 2 * d : d;
    const int64_t first_key = roles == MX_ROLES_PACKED ? heads * d : roles == MX_ROLES_INTERLEAVED ? d : 0;
    const int64_t first_value = roles == MX_ROLES_PACKED ? (heads + s.kv_heads) * d : first_key + d;
    s.keys = keys[!time_first], s.size = d;
    s.query = mx_attention_place_of(0, query, time_first, 0, roles == MX_ROLES_INTERLEAVED ? 3 * d : d);
    s.key = mx_attention_place_of(two, keys, time_first, first_key, step);
    s.value = roles == MX_ROLES_APART ? mx_attention_place_of(2, keys, time_first, 0, step)
                                      : mx_attention_place_of(two, keys, time_first, first_value, step);
    s.out = mx_attention_place_of(0, out, time_first, 0, d);
    return s;
}

/* Everything but the mask, from the attributes of the operator or of its gradient. */
#define MX_ATTENTION_SHAPE(attrs, query, key) \
    mx_attention_complete(mx_attention_sizes((attrs)->roles, (attrs)->layout == 1, (attrs)->heads, (attrs)->kv_heads, query, key), \
                          (attrs)->scale, (attrs)->causal, (attrs)->dropout)
static inline mx_attention_shape mx_attention_complete(mx_attention_shape s, double scale, bool causal, double dropout)
{
    s.scale = isnan(scale) ? 1 / sqrt((double)(s.size ? s.size : 1)) : scale;
    s.causal = causal, s.dropout = dropout;
    return s;
}

/* A mask (N or 1, heads or 1, queries, keys) or (N or 1, queries, keys). */
static inline void mx_attention_use_mask(mx_attention_shape *s, int ndim, const int64_t *dim)
{
    const int64_t one = s->queries * s->keys, per_entry = ndim == 4 ? dim[1] : 1;
    s->mask_head = per_entry > 1 ? one : 0;
    s->mask_batch = dim[0] > 1 ? per_entry * one : 0;
}

/* How many keys, from the first on, query i sees; a mask may hide some of them.  length: of the keys of its batch entry. */
MX_ANY_DEVICE static inline int64_t mx_attention_seen(const mx_attention_shape *s, int64_t length, int64_t i)
{
    int64_t seen = length < s->keys ? length : s->keys;
    const int64_t before = i + s->keys - s->queries + 1;
    if (s->causal && before < seen)
        seen = before;
    return seen > 0 ? seen : 0;
}

/* ---- dropout ------------------------------------------------------------------------------------------------------
 * A weight is kept if its 16 random bits reach the threshold p 65536.  Row r = (n heads + h) queries + i has 4 counters
 * per 32 keys.  Those of a block of 32 keys: counter c gives keys 8 w + 2 c (lower half of word w) and 8 w + 2 c + 1 (upper
 * half), w = 0 to 3, which is how tensor cores spread a row over threads.  So the mask is a function of the seed that
 * nobody stores. */

MX_ANY_DEVICE static inline uint32_t mx_attention_threshold(double p) { return (uint32_t)(p * 65536 + 0.5); }
MX_ANY_DEVICE static inline uint64_t mx_attention_row_counters(int64_t keys)
{
    return 4 * (uint64_t)((keys + 31) / 32);
}

/* Reserved by a call that drops weights. */
static inline uint64_t mx_attention_counters(const mx_attention_shape *s)
{
    return (uint64_t)(s->batch * s->heads * s->queries) * mx_attention_row_counters(s->keys);
}

/* Whether the weight of key j in row r is kept; rng: what the call reserved. */
MX_ANY_DEVICE static inline bool mx_attention_keeps(mx_rng rng, int64_t r, int64_t keys, int64_t j, uint32_t threshold)
{
    uint32_t words[4];
    mx_philox(rng.seed,
              rng.counter + (uint64_t)r * mx_attention_row_counters(keys) + (uint64_t)(4 * (j / 32) + j % 8 / 2),
              words);
    return (words[j % 32 / 8] >> 16 * (j % 2) & 0xffff) >= threshold && threshold < 65536;
}

#endif
