/* The parts of transformers: their structure and forward.
 *
 *     encoder cell:  x = norm(x + attention(x)),  x = norm(x + dense(act(dense(x))))
 *     pre_norm:      x = x + attention(norm(x)),  x = x + dense(act(dense(norm(x))))
 *
 * Attention itself is in multi_head_attention.c.
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

static mx_array *input(mx_arrays in, int64_t i) { return i < in.n ? in.v[i] : MX_NONE; }

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
