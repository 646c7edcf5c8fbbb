/* GPT-2 (Radford et al. 2019, "Language Models are Unsupervised Multitask Learners"): a stack of cells that predicts the
 * token after every position.
 *
 *     x = word[tokens] + position[0..T)
 *     cell:    x = x + attention(norm(x)),  x = x + dense(gelu(dense(norm(x))))       attention to earlier positions
 *     scores = norm(x) word'                                                          the same weight as the first line
 *
 * With a cache the network continues texts: it gets the next T tokens of every text, how many came before them, and the
 * keys and values of the earlier tokens.  These arrays have the size of the longest text, (N * heads, M, units / heads),
 * so every call with the same T runs the same plan: one for a beginning, one for single tokens.
 *
 *     keys:    k0 k1 k2  .  .  .        M places, 3 of them in use: start = 3
 *     call:    k0 k1 k2 k3 k4  .        T = 2 new ones are written; token 3 sees 4 keys, token 4 sees 5
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "gluon/zoo/gpt2.h"

#include <math.h>
#include <stdio.h>

#include "exec/list.h"
#include "gluon/nn.gen.h"
#include "gluon/op.gen.h"
#include "gluon/zoo/transformer.h"
#include "gluon/zoo/zoo.h"

static mx_block *part(const mx_block *self, const char *name) { return mx_zoo_part(self, name); }

static mx_block *norm(const mx_gpt2_sizes *s, const char *prefix)
{
    return mx_layer_norm(.in_channels = s->units, .epsilon = s->epsilon, .prefix = prefix);
}

static mx_array *drop(const mx_block *self, mx_array *x)
{
    mx_block *dropout = part(self, "dropout");
    return dropout ? mx_call(dropout, x) : x;
}

/* ---- cells ------------------------------------------------------------------------------------------------------- */

/* Attention in general learns the sizes of its inputs from the first forward; here all are `units`. */
static mx_code fix_inputs(mx_block *attention, int64_t units)
{
    static const char *const names[] = {"proj_query", "proj_key", "proj_value", "proj_out"};
    for (int i = 0; attention && i < 4; i++)
        if (mx_parameter_set_shape(part(attention, names[i])->own.items[0], MX_DIMS(units, units)))
            return mx_error_code();
    return attention ? MX_OK : mx_error_code();
}

mx_code mx_build_gpt2_cell(mx_block *self, const mx_gpt2_sizes *s)
{
    MX_SCOPE;
    mx_name_scope(self)
    {
        mx_block *attention =
            mx_multi_head_attention(s->units, s->heads, .dropout = s->dropout, .causal = true, .prefix = "attention_");
        mx_block_child(self, "norm_1", norm(s, "norm_1_"));
        mx_block_child(self, "attention", attention);
        mx_block_child(self, "norm_2", norm(s, "norm_2_"));
        mx_block_child(self, "ffn_1", mx_dense(s->hidden, .flatten = false, .in_units = s->units, .prefix = "ffn_1_"));
        mx_block_child(self, "ffn_2", mx_dense(s->units, .flatten = false, .in_units = s->hidden, .prefix = "ffn_2_"));
        if (s->dropout > 0)
            mx_block_child(self, "dropout", mx_dropout(s->dropout));
        if (mx_has_error() || fix_inputs(attention, s->units))
            return mx_error_code();
    }
    return MX_OK;
}

/* The cache (N * heads, M, d) with new rows (N * heads, T, d) at places of (N * heads * M). */
static mx_array *write_rows(mx_array *cache, mx_array *rows, mx_array *fresh)
{
    mx_array *flat = mx_reshape(cache, .shape = MX_DIMS(-3, 0)), *new = mx_reshape(fresh, .shape = MX_DIMS(-3, 0));
    return mx_reshape_like(mx_index_copy(flat, rows, new), cache);
}

/* Attention of x (N, T, C) to the cached keys and its own; in and out as of the cell. */
static mx_array *attend_cached(mx_block *attention, mx_array *x, mx_arrays in, int64_t heads, mx_array **out)
{
    const double size = sqrt((double)mx_array_shape(in.v[3]).dim[2]);
    mx_array *query = mx_split_heads(mx_call(part(attention, "proj_query"), x), heads);
    out[1] = write_rows(in.v[3], in.v[1], mx_split_heads(mx_call(part(attention, "proj_key"), x), heads));
    out[2] = write_rows(in.v[4], in.v[1], mx_split_heads(mx_call(part(attention, "proj_value"), x), heads));
    mx_array *scores = mx_batch_dot(query, out[1], .transpose_b = true); /* (N * heads, T, M) */
    mx_array *weights = mx_softmax(scores, .temperature = size, .length = in.v[2], .use_length = true);
    return mx_call(part(attention, "proj_out"), mx_join_heads(mx_batch_dot(weights, out[2]), heads));
}

/* With a cache, attention is not called: only its projections are. */
static mx_code check_cached_call(const mx_block *self, const mx_block *attention, int64_t count)
{
    if (count != 5)
        return mx_fail(MX_ERR_ARGUMENT, "%s (GPT2Cell): got %lld inputs, wanted x, or x, rows, seen, keys, values",
                       self->name, (long long)count);
    if (!mx_block_is_unchanged(attention))
        return mx_fail(MX_ERR_UNSUPPORTED,
                       "%s (GPT2Cell): with a cache, the hooks or the overridden forward of %s would "
                       "not run",
                       self->name, attention->name);
    return MX_OK;
}

mx_arrays mx_gpt2_cell_forward(mx_block *self, mx_arrays in, const mx_gpt2_sizes *s)
{
    const bool cached = in.n > 1;
    mx_block *attention = part(self, "attention");
    if (cached && check_cached_call(self, attention, in.n))
        return mx_list_failed();
    mx_array **out = mx_list_new(3), *x = in.v[0];
    if (!out)
        return mx_list_failed();
    mx_array *y = mx_call(part(self, "norm_1"), x);
    y = cached ? attend_cached(attention, y, in, s->heads, out) : mx_call(attention, y);
    x = mx_elemwise_add(drop(self, y), x);
    y = mx_call(part(self, "ffn_1"), mx_call(part(self, "norm_2"), x));
    y = mx_call(part(self, "ffn_2"), mx_gelu_tanh(y));
    out[0] = mx_elemwise_add(drop(self, y), x);
    return out[0] ? (mx_arrays){out, cached ? 3 : 1} : mx_list_failed();
}

/* ---- the network ------------------------------------------------------------------------------------------------- */

static mx_block *new_cell(const mx_gpt2_sizes *s, const char *prefix)
{
    return mx_gpt2_cell(s->units, s->heads, .hidden_size = s->hidden, .dropout = s->dropout,
                        .layer_norm_eps = s->epsilon, .prefix = prefix);
}

mx_code mx_build_gpt2(mx_block *self, const mx_gpt2_sizes *s)
{
    MX_SCOPE;
    char name[32], prefix[40];
    mx_name_scope(self)
    {
        if (!mx_block_child(self, "word", mx_embedding(s->vocabulary, s->units, .prefix = "word_")) ||
            !mx_block_child(self, "position", mx_embedding(s->length, s->units, .prefix = "position_")) ||
            (s->dropout > 0 && !mx_block_child(self, "dropout", mx_dropout(s->dropout))))
            return mx_error_code();
        for (int64_t i = 0; i < s->layers; i++) {
            snprintf(name, sizeof name, "cell%lld", (long long)i);
            snprintf(prefix, sizeof prefix, "%s_", name);
            if (!mx_block_child(self, name, new_cell(s, prefix)))
                return mx_error_code();
        }
        if (!mx_block_child(self, "norm", norm(s, "norm_")))
            return mx_error_code();
    }
    return MX_OK;
}

static mx_block *cell(const mx_block *self, int64_t i)
{
    char name[32];
    snprintf(name, sizeof name, "cell%lld", (long long)i);
    return part(self, name);
}

/* Errors that name the number; unknown sizes pass. */
static mx_code check_inputs(const mx_block *self, mx_arrays in, const mx_gpt2_sizes *s)
{
    if (in.n != 1 && in.n != 2 + 2 * s->layers)
        return mx_fail(MX_ERR_ARGUMENT,
                       "%s (GPT2): got %lld inputs, wanted tokens, or tokens, start and the %lld arrays of a cache",
                       self->name, (long long)in.n, (long long)(2 * s->layers));
    const mx_shape_t tokens = mx_array_shape(in.v[0]), cache = in.n > 1 ? mx_array_shape(in.v[2]) : tokens;
    char text[MX_SHAPE_TEXT];
    if (tokens.ndim >= 0 && tokens.ndim != 2)
        return mx_fail(MX_ERR_SHAPE, "%s (GPT2): tokens have shape %s, wanted (N, T)", self->name,
                       mx_shape_text(&tokens, text));
    if (tokens.ndim == 2 && tokens.dim[1] > s->length)
        return mx_fail(MX_ERR_SHAPE, "%s (GPT2): %lld tokens, wanted at most max_length=%lld", self->name,
                       (long long)tokens.dim[1], (long long)s->length);
    if (in.n > 1 && (cache.ndim != 3 || cache.dim[1] < 1 || cache.dim[1] > s->length))
        return mx_fail(MX_ERR_SHAPE,
                       "%s (GPT2): arrays of the cache have shape %s, wanted (N * %lld, M, %lld), M at most "
                       "max_length=%lld",
                       self->name, mx_shape_text(&cache, text), (long long)s->heads, (long long)(s->units / s->heads),
                       (long long)s->length);
    return MX_OK;
}

/* 0, 1, ... along an axis of x, as integers: 16-bit floats would round them. */
static mx_array *numbers(mx_array *x, int64_t axis)
{
    return mx_cast(mx_arange_like(x, .axis = axis), .dtype = MX_INT32);
}

/* From the places (N, T) of the tokens: where their keys are written, (N * heads * T), and how many keys every token
 * sees, (N * heads, T).  cache (N * heads, M, d) */
static void find_rows(mx_array *places, mx_array *cache, int64_t heads, mx_array **rows, mx_array **seen)
{
    mx_array *corner = mx_slice(cache, .begin = MX_DIMS(0, 0, 0), .end = MX_DIMS(MX_NONE_INT, 1, 1));
    mx_array *text = mx_reshape(numbers(mx_cast(corner, .dtype = MX_FLOAT32), 0), .shape = MX_DIMS(-1, 1));
    places = mx_repeat(places, .repeats = heads, .axis = 0);
    *rows = mx_add(mx_mul_scalar(text, .scalar = (double)mx_array_shape(cache).dim[1]), places);
    *rows = mx_reshape(*rows, .shape = MX_DIMS(-1));
    *seen = mx_plus_scalar(places, .scalar = 1);
}

static mx_array *score(mx_block *self, mx_array *x, int64_t vocabulary)
{
    x = mx_call(part(self, "norm"), x);
    return mx_fully_connected(x, mx_own(part(self, "word"), 0, x), .num_hidden = vocabulary, .no_bias = true,
                              .flatten = false);
}

static mx_arrays continue_texts(mx_block *self, mx_arrays in, const mx_gpt2_sizes *s)
{
    mx_array *rows, *seen, **out = mx_list_new(1 + 2 * s->layers);
    mx_array *start = mx_reshape(mx_cast(in.v[1], .dtype = MX_INT32), .shape = MX_DIMS(-1, 1));
    mx_array *places = mx_add(start, mx_expand_dims(numbers(in.v[0], 1), .axis = 0)); /* (N, T) */
    mx_array *x = mx_elemwise_add(mx_call(part(self, "word"), in.v[0]), mx_call(part(self, "position"), places));
    find_rows(places, in.v[2], s->heads, &rows, &seen);
    for (int64_t i = 0; out && i < s->layers; i++) {
        mx_arrays got = mx_block_call_many(cell(self, i), MX_ARRAYS(x, rows, seen, in.v[2 + 2 * i], in.v[3 + 2 * i]));
        if (got.n != 3)
            return mx_list_failed();
        x = got.v[0], out[1 + 2 * i] = got.v[1], out[2 + 2 * i] = got.v[2];
    }
    x = mx_slice_axis(x, .axis = 1, .begin = -1, .end = MX_NONE_INT); /* (N, 1, C) */
    x = mx_reshape(score(self, x, s->vocabulary), .shape = MX_DIMS(0, -1));
    if (!out || !x)
        return mx_list_failed();
    out[0] = x;
    return (mx_arrays){out, 1 + 2 * s->layers};
}

mx_arrays mx_gpt2_forward(mx_block *self, mx_arrays in, const mx_gpt2_sizes *s)
{
    if (check_inputs(self, in, s))
        return mx_list_failed();
    if (in.n > 1)
        return continue_texts(self, in, s);
    mx_array *places = mx_expand_dims(numbers(in.v[0], 1), .axis = 0); /* (1, T) */
    mx_array *x = mx_add(mx_call(part(self, "word"), in.v[0]), mx_call(part(self, "position"), places));
    x = drop(self, x);
    for (int64_t i = 0; i < s->layers && x; i++)
        x = mx_call(cell(self, i), x);
    mx_array **out = mx_list_new(1), *scores = score(self, x, s->vocabulary);
    if (!out || !scores)
        return mx_list_failed();
    out[0] = scores;
    return (mx_arrays){out, 1};
}
