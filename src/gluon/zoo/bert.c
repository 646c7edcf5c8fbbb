/* BERT (Devlin et al. 2018, "BERT: Pre-training of Deep Bidirectional Transformers for Language Understanding").
 *
 *     x = norm(word[tokens] + position[0..T) + segment[segments])
 *     y = encoder(x, valid_length)                  (N, T, units)
 *     pooled = tanh(dense(y[:, 0]))                 (N, units), from the first token
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "gluon/zoo/bert.h"

#include "exec/list.h"
#include "gluon/nn.gen.h"
#include "gluon/op.gen.h"
#include "gluon/zoo/zoo.h"

static mx_block *part(const mx_block *self, const char *name) { return mx_zoo_part(self, name); }

mx_code mx_build_bert(mx_block *self, const mx_bert_sizes *s)
{
    MX_SCOPE;
    mx_name_scope(self)
    {
        mx_block_child(self, "word", mx_embedding(s->vocabulary, s->units, .prefix = "word_"));
        mx_block_child(self, "position", mx_embedding(s->length, s->units, .prefix = "position_"));
        mx_block_child(self, "segment", mx_embedding(s->segments, s->units, .prefix = "segment_"));
        mx_block_child(self, "norm", mx_layer_norm(.in_channels = s->units, .epsilon = s->epsilon, .prefix = "norm_"));
        if (s->dropout > 0)
            mx_block_child(self, "dropout", mx_dropout(s->dropout));
        mx_block_child(self, "encoder",
                       mx_transformer_encoder(.num_layers = s->layers, .units = s->units, .hidden_size = s->hidden,
                                              .num_heads = s->heads, .dropout = s->dropout, .activation = "gelu",
                                              .layer_norm_eps = s->epsilon, .prefix = "encoder_"));
        mx_block_child(self, "pooler",
                       mx_dense(s->units, .in_units = s->units, .activation = "tanh", .prefix = "pooler_"));
    }
    return mx_error_code();
}

mx_arrays mx_bert_forward(mx_block *self, mx_arrays in)
{
    mx_array *tokens = in.v[0], *segments = in.n > 1 ? in.v[1] : MX_NONE, *valid = in.n > 2 ? in.v[2] : MX_NONE;
    segments = segments == MX_NONE ? mx_zeros_like(tokens) : segments;
    mx_array *place = mx_expand_dims(mx_cast(mx_arange_like(tokens, .axis = 1), .dtype = MX_INT32), .axis = 0);
    mx_array *x = mx_elemwise_add(mx_call(part(self, "word"), tokens), mx_call(part(self, "segment"), segments));
    x = mx_call(part(self, "norm"), mx_add(x, mx_call(part(self, "position"), place)));
    mx_block *dropout = part(self, "dropout");
    x = mx_call(part(self, "encoder"), dropout ? mx_call(dropout, x) : x, valid, MX_NONE);
    mx_array **out = mx_list_new(2);
    mx_array *first = mx_slice_axis(x, .axis = 1, .begin = 0, .end = 1);
    mx_array *pooled = mx_call(part(self, "pooler"), mx_reshape(first, .shape = MX_DIMS(0, -1)));
    if (!out || !pooled)
        return mx_list_failed();
    out[0] = x, out[1] = pooled;
    return (mx_arrays){out, 2};
}
