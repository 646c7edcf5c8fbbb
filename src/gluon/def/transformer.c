/* Transformers (Vaswani et al. 2017, "Attention Is All You Need") as classes: options; gluon/zoo/transformer.c builds
 * and runs them.
 *
 *     mx_block *encoder = mx_transformer_encoder(.num_layers = 6, .units = 512, .num_heads = 8);
 *     mx_array *y = mx_call(encoder, x, valid_length);      x (N, T, units), valid_length (N)
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "gluon/block/layers.h"
#include "gluon/zoo/transformer.h"

#define UNITS(X, fallback) X(INT, units, fallback, "1..10000000", "size of a position's vector")
#define HIDDEN(X) X(INT, hidden_size, "2048", "1..10000000", "hidden size between the two dense layers")
#define HEADS(X, fallback) X(INT, num_heads, fallback, "1..100000", "number of attention heads; divides units")
#define DROPOUT(X, fallback) X(FLOAT, dropout, fallback, "0..1", "fraction of elements that are dropped in training")
#define COMMON(X) \
    X(STR, activation, "relu", "", "between the two dense layers: relu, gelu, tanh, sigmoid ...") \
    X(BOOL, pre_norm, "False", "", "normalise the inputs of the sublayers instead of their sums") \
    X(FLOAT, layer_norm_eps, "1e-05", "", "added to the variance")

#define ATTENTION_OPTIONS(X) \
    UNITS(X, REQUIRED) HEADS(X, REQUIRED) DROPOUT(X, "0") \
    X(BOOL, use_bias, "True", "", "add biases to the projections") \
    X(BOOL, causal, "False", "", "a position only attends to itself and earlier ones; the last query is at the place of the last key")
MX_ATTRS(multi_head_attention, ATTENTION_OPTIONS)
#define FFN_OPTIONS(X) \
    UNITS(X, "512") HIDDEN(X) DROPOUT(X, "0") X(BOOL, use_residual, "True", "", "add the input") COMMON(X)
MX_ATTRS(positionwise_ffn, FFN_OPTIONS)
#define CELL_OPTIONS(X) UNITS(X, "512") HIDDEN(X) HEADS(X, "8") DROPOUT(X, "0") COMMON(X)
MX_ATTRS(transformer_cell, CELL_OPTIONS)
#define STACK_OPTIONS(X) \
    X(INT, num_layers, "6", "1..10000", "number of cells") UNITS(X, "512") HIDDEN(X) HEADS(X, "8") DROPOUT(X, "0.1") COMMON(X)
MX_ATTRS(transformer_stack, STACK_OPTIONS)
#define POSITION_OPTIONS(X) \
    UNITS(X, REQUIRED) X(FLOAT, base, "10000", "1..", "longest wave is about this many positions times 2 pi long")
MX_ATTRS(sinusoidal_position, POSITION_OPTIONS)

#define CELL(o) \
    (mx_transformer_cell_sizes) \
    { \
        .units = (o)->units, .hidden = (o)->hidden_size, .heads = (o)->num_heads, .dropout = (o)->dropout, \
        .activation = (o)->activation, .pre_norm = (o)->pre_norm, .epsilon = (o)->layer_norm_eps \
    }

static mx_code build_attention(mx_block *self)
{
    const mx_multi_head_attention_attrs *o = mx_options(self);
    return mx_build_attention(self, o->units, o->num_heads, o->dropout, o->use_bias);
}
static mx_arrays attend(mx_block *self, mx_arrays in)
{
    const mx_multi_head_attention_attrs *o = mx_options(self);
    return mx_attention_forward(self, in, o->num_heads, o->causal);
}
static mx_code build_ffn(mx_block *self)
{
    const mx_positionwise_ffn_attrs *o = mx_options(self);
    return mx_build_ffn(self, o->units, o->hidden_size, o->dropout, o->activation, o->layer_norm_eps);
}
static mx_array *feed_forward(mx_block *self, mx_arrays in)
{
    const mx_positionwise_ffn_attrs *o = mx_options(self);
    return mx_ffn_forward(self, in.v[0], o->use_residual, o->pre_norm);
}
static mx_code build_encoder_cell(mx_block *self)
{
    const mx_transformer_cell_attrs *o = mx_options(self);
    return mx_build_transformer_cell(self, &CELL(o), false);
}
static mx_code build_decoder_cell(mx_block *self)
{
    const mx_transformer_cell_attrs *o = mx_options(self);
    return mx_build_transformer_cell(self, &CELL(o), true);
}
static mx_array *encode_once(mx_block *self, mx_arrays in)
{
    return mx_encoder_cell_forward(self, in, ((const mx_transformer_cell_attrs *)mx_options(self))->pre_norm);
}
static mx_array *decode_once(mx_block *self, mx_arrays in)
{
    return mx_decoder_cell_forward(self, in, ((const mx_transformer_cell_attrs *)mx_options(self))->pre_norm);
}
static mx_code build_encoder(mx_block *self)
{
    const mx_transformer_stack_attrs *o = mx_options(self);
    return mx_build_transformer(self, o->num_layers, &CELL(o), false);
}
static mx_code build_decoder(mx_block *self)
{
    const mx_transformer_stack_attrs *o = mx_options(self);
    return mx_build_transformer(self, o->num_layers, &CELL(o), true);
}
static mx_array *add_positions(mx_block *self, mx_arrays in)
{
    const mx_sinusoidal_position_attrs *o = mx_options(self);
    return mx_positions_forward(in.v[0], o->units, o->base);
}

static const mx_layer attention = {.build = build_attention,
                                   .forward_many = attend,
                                   .min_inputs = 1,
                                   .max_inputs = 5,
                                   .inputs = "query key value valid_length mask"},
    ffn = {.build = build_ffn, .forward = feed_forward},
                      encoder_cell = {.build = build_encoder_cell,
                                      .forward = encode_once,
                                      .min_inputs = 1,
                                      .max_inputs = 3,
                                      .inputs = "x valid_length mask"},
                      decoder_cell = {.build = build_decoder_cell,
                                      .forward = decode_once,
                                      .min_inputs = 2,
                                      .max_inputs = 4,
                                      .inputs = "x memory valid_length memory_valid_length"},
                      encoder = {.build = build_encoder,
                                 .forward = mx_transformer_forward,
                                 .min_inputs = 1,
                                 .max_inputs = 3,
                                 .inputs = "x valid_length mask"},
                      decoder = {.build = build_decoder,
                                 .forward = mx_transformer_forward,
                                 .min_inputs = 2,
                                 .max_inputs = 4,
                                 .inputs = "x memory valid_length memory_valid_length"},
    positions = {.forward = add_positions};

#define ROW(text, what, options, first, table) \
    {.kind = MX_LAYER, .group = "transformer", .name = text, .doc = what, .schema = options, .positional = first, .methods = table}
mx_class mx_classes_transformer[] = {
    ROW("MultiHeadAttention", "attention(query (N, Tq, C), key (N, Tk, C) = query, value = key, valid_length (N) of the keys, mask (N, Tq, Tk) or (N, heads, Tq, Tk)): weighted means of values, (N, Tq, C)",
        &multi_head_attention_schema, 2, &attention),
    ROW("PositionwiseFFN", "two dense layers at every position, with dropout, sum and normalisation", &positionwise_ffn_schema, 0, &ffn),
    ROW("TransformerEncoderCell", "cell(x (N, T, C), valid_length (N), mask (N, T, T)): self-attention, then dense layers at every position",
        &transformer_cell_schema, 0, &encoder_cell),
    ROW("TransformerDecoderCell", "cell(x (N, T, C), memory (N, S, C), valid_length (N) of x, memory_valid_length (N)): attention to earlier positions, to a memory, then dense layers",
        &transformer_cell_schema, 0, &decoder_cell),
    ROW("TransformerEncoder", "a stack of encoder cells; called like a cell", &transformer_stack_schema, 0, &encoder),
    ROW("TransformerDecoder", "a stack of decoder cells; called like a cell", &transformer_stack_schema, 0, &decoder),
    ROW("SinusoidalPositionalEmbedding", "adds sin and cos of the position at wavelengths that grow along the vector", &sinusoidal_position_schema, 1, &positions),
    {0},
};
