/* Networks for texts as classes: options; gluon/zoo/gpt2.c and bert.c build and run them.
 *
 *     mx_block *net = mx_gpt2(.num_layers = 4, .units = 128, .num_heads = 4, .vocab_size = 256, .max_length = 128);
 *     mx_block *same_sizes_as_published = mx_model("gpt2_124m");
 *     mx_array *scores = mx_call(net, tokens);      tokens (N, T), scores of the next ones (N, T, vocab_size)
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "gluon/block/layers.h"
#include "gluon/zoo/bert.h"
#include "gluon/zoo/gpt2.h"

#define MOST_CELLS 1000

#define UNITS(X, fallback) X(INT, units, fallback, "1..10000000", "size of a position's vector")
#define HEADS(X, fallback) X(INT, num_heads, fallback, "1..100000", "number of attention heads; divides units")
#define COMMON(X) \
    X(INT, hidden_size, "0", "0..100000000", "hidden size between the two dense layers; 0: four times units") \
    X(FLOAT, dropout, "0", "0..1", "fraction of elements that are dropped in training") \
    X(FLOAT, layer_norm_eps, "1e-05", "", "added to the variance")
#define GPT2_OPTIONS(X) \
    X(INT, num_layers, "12", "1..1000", "number of cells") UNITS(X, "768") HEADS(X, "12") \
    X(INT, vocab_size, "50257", "1..100000000", "number of different tokens") \
    X(INT, max_length, "1024", "1..100000000", "most tokens of a text") COMMON(X)
MX_ATTRS(gpt2, GPT2_OPTIONS)
#define CELL_OPTIONS(X) UNITS(X, REQUIRED) HEADS(X, REQUIRED) COMMON(X)
MX_ATTRS(gpt2_cell, CELL_OPTIONS)
#define BERT_OPTIONS(X) \
    X(INT, num_layers, "12", "1..1000", "number of cells") UNITS(X, "768") HEADS(X, "12") \
    X(INT, vocab_size, "30522", "1..100000000", "number of different tokens") \
    X(INT, max_length, "512", "1..100000000", "most tokens of a text") \
    X(INT, num_segments, "2", "1..1000000", "number of different segments") \
    X(INT, hidden_size, "0", "0..100000000", "hidden size between the two dense layers; 0: four times units") \
    X(FLOAT, dropout, "0.1", "0..1", "fraction of elements that are dropped in training") \
    X(FLOAT, layer_norm_eps, "1e-12", "", "added to the variance")
MX_ATTRS(bert, BERT_OPTIONS)

#define CELL(o) \
    .units = (o)->units, .heads = (o)->num_heads, .hidden = (o)->hidden_size ? (o)->hidden_size : 4 * (o)->units, \
    .dropout = (o)->dropout, .epsilon = (o)->layer_norm_eps

mx_gpt2_sizes mx_gpt2_sizes_of(const mx_block *self)
{
    const mx_gpt2_attrs *o = mx_options(self);
    return (mx_gpt2_sizes){.vocabulary = o->vocab_size, .length = o->max_length, .layers = o->num_layers, CELL(o)};
}
static mx_gpt2_sizes cell_sizes(const mx_block *self)
{
    const mx_gpt2_cell_attrs *o = mx_options(self);
    return (mx_gpt2_sizes){CELL(o)};
}
static mx_code build_gpt2(mx_block *self)
{
    const mx_gpt2_sizes sizes = mx_gpt2_sizes_of(self);
    return mx_build_gpt2(self, &sizes);
}
static mx_arrays forward_gpt2(mx_block *self, mx_arrays in)
{
    const mx_gpt2_sizes sizes = mx_gpt2_sizes_of(self);
    return mx_gpt2_forward(self, in, &sizes);
}
static mx_code build_cell(mx_block *self)
{
    const mx_gpt2_sizes sizes = cell_sizes(self);
    return mx_build_gpt2_cell(self, &sizes);
}
static mx_arrays forward_cell(mx_block *self, mx_arrays in)
{
    const mx_gpt2_sizes sizes = cell_sizes(self);
    return mx_gpt2_cell_forward(self, in, &sizes);
}

static mx_code build_bert(mx_block *self)
{
    const mx_bert_attrs *o = mx_options(self);
    const mx_bert_sizes sizes = {.vocabulary = o->vocab_size,
                                 .length = o->max_length,
                                 .segments = o->num_segments,
                                 .layers = o->num_layers,
                                 CELL(o)};
    return mx_build_bert(self, &sizes);
}

static const mx_layer bert = {.build = build_bert,
                              .forward_many = mx_bert_forward,
                              .min_inputs = 1,
                              .max_inputs = 3,
                              .inputs = "tokens segments valid_length"},
    gpt2 = {.build = build_gpt2,
                              .forward_many = forward_gpt2,
                              .min_inputs = 1,
                              .max_inputs = 2 + 2 * MOST_CELLS,
                              .inputs = "tokens start"},
                      gpt2_cell = {.build = build_cell,
                                   .forward_many = forward_cell,
                                   .min_inputs = 1,
                                   .max_inputs = 5,
                                   .inputs = "x rows seen keys values"};

#define ROW(text, constructor, what, options, first, table) \
    {.kind = MX_LAYER, .group = "text", .name = text, .c_name = constructor, .doc = what, .schema = options, .positional = first, .methods = table}
mx_class mx_classes_text[] = {
    ROW("BERT", "bert", "BERT: net(tokens (N, T), segments (N, T) = 0, valid_length (N)) are the vectors (N, T, units) of the tokens and that of the text, (N, units)",
        &bert_schema, 0, &bert),
    ROW("GPT2", "gpt2", "GPT-2: net(tokens (N, T)) are the scores (N, T, vocab_size) of the tokens that follow; net(tokens, start (N), keys, values, ...) continues texts: the scores (N, vocab_size) after the last token, and the new keys and values",
        &gpt2_schema, 0, &gpt2),
    ROW("GPT2Cell", "gpt2_cell", "a cell of GPT-2: attention to earlier positions, then dense layers at every position", &gpt2_cell_schema, 2, &gpt2_cell),
    {0},
};
