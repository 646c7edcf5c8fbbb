/* The parts of transformers: their structure and forward.
 *
 *     attention:  softmax(Q K' / sqrt(d)) V per head, d = units / heads
 *     encoder cell:  x = norm(x + attention(x)),  x = norm(x + dense(act(dense(x))))
 *     pre_norm:      x = x + attention(norm(x)),  x = x + dense(act(dense(norm(x))))
 *
 * Heads are merged into the batch axis: (N, T, C) <-> (N * heads, T, d).  Both masks keep a prefix of the keys, those
 * before valid_length and (causal) those up to the query's position, so a mask is one number per query, which softmax
 * takes as a length.  Any other mask is an array.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "gluon/zoo/transformer.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "exec/list.h"
#include "gluon/nn.gen.h"
#include "gluon/op.gen.h"
#include "gluon/zoo/zoo.h"

#define HALF_PI 1.57079632679489662

static mx_block *part(const mx_block *self, const char *name) { return mx_zoo_part(self, name); }

/* ---- attention ------------------------------------------------------------------------------------------------- */

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

/* (N, T, C) -> (N * heads, T, C / heads) */
static mx_array *split_heads(mx_array *x, int64_t heads)
{
    x = mx_transpose(mx_reshape(x, .shape = MX_DIMS(0, 0, heads, -1)), .axes = MX_DIMS(0, 2, 1, 3));
    return mx_reshape(x, .shape = MX_DIMS(-1, 0, 0), .reverse = true);
}

/* and back */
static mx_array *join_heads(mx_array *x, int64_t heads)
{
    x = mx_transpose(mx_reshape(x, .shape = MX_DIMS(-1, heads, 0, 0), .reverse = true), .axes = MX_DIMS(0, 2, 1, 3));
    return mx_reshape(x, .shape = MX_DIMS(0, 0, -1));
}

/* How many keys every query attends to, (N * heads, Tq), or MX_NONE: all.  scores (N * heads, Tq, Tk) */
static mx_array *seen_keys(mx_array *scores, mx_array *valid_length, int64_t heads, bool causal)
{
    mx_array *of_batch = MX_NONE, *of_place = MX_NONE;
    if (valid_length != MX_NONE) /* (N * heads, 1) */
        of_batch = mx_reshape(mx_repeat(valid_length, .repeats = heads, .axis = 0), .shape = MX_DIMS(-1, 1));
    if (causal) /* (1, Tq) */
        of_place = mx_reshape(mx_arange_like(scores, .start = 1, .axis = 1), .shape = MX_DIMS(1, -1));
    if (of_batch != MX_NONE && causal)
        return mx_minimum(mx_cast(of_batch, .dtype = MX_FLOAT32), mx_cast(of_place, .dtype = MX_FLOAT32));
    if (of_batch == MX_NONE && !causal)
        return MX_NONE;
    const int64_t missing = causal ? 0 : 1;
    return mx_broadcast_like(causal ? of_place : of_batch, scores, .lhs_axes = MX_DIMS(missing),
                             .rhs_axes = MX_DIMS(missing));
}

/* Scores where the mask (N, Tq, Tk) is 0 become very small. */
static mx_array *masked(mx_array *scores, mx_array *mask)
{
    return mx_where(mask, scores, mx_mul_scalar(mx_ones_like(scores), .scalar = -1e9));
}

static mx_array *weigh(mx_array *query, mx_array *key, mx_array *valid_length, mx_array *mask, int64_t size,
                       int64_t heads, bool causal)
{
    mx_array *scores = mx_batch_dot(query, key, .transpose_b = true); /* (N * heads, Tq, Tk) */
    mx_array *seen = seen_keys(scores, valid_length, heads, causal);
    if (mask != MX_NONE)
        scores = masked(scores, mx_repeat(mask, .repeats = heads, .axis = 0));
    return mx_softmax(scores, .temperature = sqrt((double)size), .length = seen, .use_length = seen != MX_NONE);
}

static mx_array *input(mx_arrays in, int64_t i) { return i < in.n ? in.v[i] : MX_NONE; }

mx_arrays mx_attention_forward(mx_block *self, mx_arrays in, int64_t units, int64_t heads, bool causal)
{
    mx_array *query = in.v[0], *key = input(in, 1), *value = input(in, 2);
    key = key == MX_NONE ? query : key;
    value = value == MX_NONE ? key : value;
    mx_block *dropout = part(self, "dropout");
    mx_array *weights = weigh(split_heads(mx_call(part(self, "proj_query"), query), heads),
                              split_heads(mx_call(part(self, "proj_key"), key), heads), input(in, 3), input(in, 4),
                              units / heads, heads, causal);
    if (dropout)
        weights = mx_call(dropout, weights);
    mx_array *means = mx_batch_dot(weights, split_heads(mx_call(part(self, "proj_value"), value), heads));
    mx_array *out = mx_call(part(self, "proj_out"), join_heads(means, heads));
    mx_array **list = out ? mx_list_new(1) : NULL;
    if (!list)
        return mx_list_failed();
    list[0] = out;
    return (mx_arrays){list, 1};
}

/* ---- dense layers at every position ----------------------------------------------------------------------------- */

mx_code mx_build_ffn(mx_block *self, int64_t units, int64_t hidden, double dropout, const char *activation,
                     double epsilon)
{
    MX_SCOPE;
    const bool gelu = activation && !strcmp(activation, "gelu");
    mx_name_scope(self)
    {
        if (!mx_block_child(
                self, "ffn_1",
                mx_dense(hidden, .flatten = false, .activation = gelu ? NULL : activation, .prefix = "ffn_1_")) ||
            (gelu && !mx_block_child(self, "act", mx_gelu())) ||
            !mx_block_child(self, "ffn_2", mx_dense(units, .flatten = false, .prefix = "ffn_2_")) ||
            (dropout > 0 && !mx_block_child(self, "dropout_layer", mx_dropout(dropout))) ||
            !mx_block_child(self, "layer_norm", mx_layer_norm(.in_channels = units, .epsilon = epsilon)))
            return mx_error_code();
    }
    return MX_OK;
}

mx_array *mx_ffn_forward(mx_block *self, mx_array *x, bool residual, bool pre_norm)
{
    mx_block *norm = part(self, "layer_norm"), *act = part(self, "act"), *dropout = part(self, "dropout_layer");
    mx_array *y = mx_call(part(self, "ffn_1"), pre_norm ? mx_call(norm, x) : x);
    y = mx_call(part(self, "ffn_2"), act ? mx_call(act, y) : y);
    y = dropout ? mx_call(dropout, y) : y;
    y = residual ? mx_elemwise_add(y, x) : y;
    return pre_norm ? y : mx_call(norm, y);
}

/* ---- cells ------------------------------------------------------------------------------------------------------- */

/* Attention and its normalisation, under two attribute names. */
static bool add_attention(mx_block *self, const char *attribute, const char *norm, const mx_transformer_cell_sizes *s,
                          bool causal)
{
    return mx_block_child(self, attribute,
                          mx_multi_head_attention(s->units, s->heads, .dropout = s->dropout, .causal = causal)) &&
           mx_block_child(self, norm, mx_layer_norm(.in_channels = s->units, .epsilon = s->epsilon));
}

mx_code mx_build_transformer_cell(mx_block *self, const mx_transformer_cell_sizes *s, bool decoder)
{
    MX_SCOPE;
    mx_name_scope(self)
    {
        const bool made = decoder ? add_attention(self, "attention_in", "layer_norm_in", s, true) &&
                                        add_attention(self, "attention_inter", "layer_norm_inter", s, false)
                                  : add_attention(self, "attention", "layer_norm", s, false);
        if (!made || (s->dropout > 0 && !mx_block_child(self, "dropout_layer", mx_dropout(s->dropout))) ||
            !mx_block_child(self, "ffn",
                            mx_positionwise_ffn(.units = s->units, .hidden_size = s->hidden, .dropout = s->dropout,
                                                .activation = s->activation, .pre_norm = s->pre_norm,
                                                .layer_norm_eps = s->epsilon)))
            return mx_error_code();
    }
    return MX_OK;
}

/* x plus attention to memory; MX_NONE: self-attention */
static mx_array *attend(mx_block *self, const char *attribute, const char *norm_name, mx_array *x, mx_array *memory,
                        mx_array *valid_length, mx_array *mask, bool pre_norm)
{
    mx_block *norm = part(self, norm_name), *dropout = part(self, "dropout_layer");
    mx_array *y = mx_call(part(self, attribute), pre_norm ? mx_call(norm, x) : x, memory, memory, valid_length, mask);
    y = mx_elemwise_add(dropout ? mx_call(dropout, y) : y, x);
    return pre_norm ? y : mx_call(norm, y);
}

mx_array *mx_encoder_cell_forward(mx_block *self, mx_arrays in, bool pre_norm)
{
    mx_array *x = attend(self, "attention", "layer_norm", in.v[0], MX_NONE, input(in, 1), input(in, 2), pre_norm);
    return mx_call(part(self, "ffn"), x);
}

mx_array *mx_decoder_cell_forward(mx_block *self, mx_arrays in, bool pre_norm)
{
    mx_array *x = attend(self, "attention_in", "layer_norm_in", in.v[0], MX_NONE, input(in, 2), MX_NONE, pre_norm);
    x = attend(self, "attention_inter", "layer_norm_inter", x, in.v[1], input(in, 3), MX_NONE, pre_norm);
    return mx_call(part(self, "ffn"), x);
}

/* ---- stacks ------------------------------------------------------------------------------------------------------ */

mx_code mx_build_transformer(mx_block *self, int64_t layers, const mx_transformer_cell_sizes *s, bool decoder)
{
    MX_SCOPE;
    char name[32], prefix[40];
    mx_name_scope(self)
    {
        for (int64_t i = 0; i < layers; i++) {
            snprintf(name, sizeof name, "transformer%lld", (long long)i);
            snprintf(prefix, sizeof prefix, "%s_", name);
#define SIZES \
    .units = s->units, .hidden_size = s->hidden, .num_heads = s->heads, .dropout = s->dropout, \
    .activation = s->activation, .pre_norm = s->pre_norm, .layer_norm_eps = s->epsilon, .prefix = prefix
            mx_block *cell = decoder ? mx_transformer_decoder_cell(SIZES) : mx_transformer_encoder_cell(SIZES);
            if (!mx_block_child(self, name, cell))
                return mx_error_code();
        }
        if (s->pre_norm &&
            !mx_block_child(self, "layer_norm", mx_layer_norm(.in_channels = s->units, .epsilon = s->epsilon)))
            return mx_error_code();
    }
    return MX_OK;
}

mx_array *mx_transformer_forward(mx_block *self, mx_arrays in)
{
    mx_block *norm = part(self, "layer_norm");
    mx_array *all[4] = {in.v[0], input(in, 1), input(in, 2), input(in, 3)};
    for (int64_t i = 0; i < self->children.length && all[0]; i++)
        if (self->children.entries[i].pointer != norm)
            all[0] = mx_block_call(self->children.entries[i].pointer, (mx_arrays){all, in.n});
    return norm ? mx_call(norm, all[0]) : all[0];
}

/* ---- positions --------------------------------------------------------------------------------------------------- */

/* x (N, T, C) + p (T, C),  p[t][2i] = sin(t base^(-2i/C)),  p[t][2i+1] = cos(the same) = sin(the same + pi/2) */
mx_array *mx_positions_forward(mx_array *x, int64_t units, double base)
{
    mx_array *place = mx_reshape(mx_arange_like(x, .axis = 1), .shape = MX_DIMS(-1, 1)); /* (T, 1) */
    mx_array *pair = mx_arange_like(x, .axis = 2, .repeat = 2);                          /* (C): 0 0 1 1 ... */
    mx_array *odd = mx_elemwise_sub(mx_arange_like(x, .axis = 2), mx_mul_scalar(pair, .scalar = 2));
    mx_array *frequency = mx_exp(mx_mul_scalar(pair, .scalar = -2 * log(base) / (double)units));
    mx_array *angle = mx_add(mx_mul(place, frequency), mx_mul_scalar(odd, .scalar = HALF_PI));
    return mx_add(x, mx_expand_dims(mx_sin(angle), .axis = 0));
}
