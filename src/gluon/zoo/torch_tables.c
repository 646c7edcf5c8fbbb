/* Which layer of the zoo is which layer of PyTorch's published networks: torchvision's ResNet, VGG, DenseNet, MobileNet,
 * and the transformers that are published as GPT-2 and BERT.  torch.h explains the notation.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "gluon/zoo/torch.h"

/* ROW and NORM: a layer with weight and bias, and a normalisation. */
#define ROW(mine, other, ...) {.ours = mine, .theirs = other, __VA_ARGS__}
#define NORM(mine, other) {.ours = mine, .theirs = other, .norm = true}
static const char *const module[] = {"module.", NULL};
static const char *const counters[] = {"*.num_batches_tracked", NULL};

/* 0 convolution, 1 norm, 2 relu, 3 pool, 4.. stages of blocks: body 0 convolution, 1 norm, 2 relu, 3 convolution ... */
static const mx_torch_row resnet[] = {
    ROW("features.0", "conv1"),
    NORM("features.1", "bn1"),
    NORM("features.#.#.body.#", "layer{a-3}.{b}.bn{c/3+1}"),
    ROW("features.#.#.body.#", "layer{a-3}.{b}.conv{c/3+1}"),
    NORM("features.#.#.downsample.#", "layer{a-3}.{b}.downsample.{c}"),
    ROW("features.#.#.downsample.#", "layer{a-3}.{b}.downsample.{c}"),
    ROW("output", "fc"),
    {0},
};

static const mx_torch_row vgg[] = {
    NORM("features.#", "features.{a}"),
    ROW("features.#", "features.{a}", .rank = 4),
    ROW("features.#", "classifier.{k*3}"),
    ROW("output", "classifier.6"),
    {0},
};

/* 4, 6, 8, 10: blocks of layers, each the input beside (1) norm, relu, convolution, norm, relu, convolution; 5, 7, 9:
 * transitions */
static const mx_torch_row densenet[] = {
    ROW("features.0", "features.conv0"),
    NORM("features.1", "features.norm0"),
    NORM("features.#.#.1.#", "features.denseblock{a/2-1}.denselayer{b+1}.norm{c/3+1}"),
    ROW("features.#.#.1.#", "features.denseblock{a/2-1}.denselayer{b+1}.conv{c/3+1}"),
    NORM("features.#.0", "features.transition{a-3/2}.norm"),
    ROW("features.#.2", "features.transition{a-3/2}.conv"),
    NORM("features.#", "features.norm5"),
    ROW("output", "classifier"),
    {0},
};

/* The first bottleneck (3) has no expansion, so its last convolution is the second one. */
static const mx_torch_row mobilenet2[] = {
    ROW("features.0", "features.0.0"),
    NORM("features.1", "features.0.1"),
    ROW("features.3.out.3", "features.1.conv.1"),
    NORM("features.3.out.4", "features.1.conv.2"),
    ROW("features.#.out.6", "features.{a-2}.conv.2"),
    NORM("features.#.out.7", "features.{a-2}.conv.3"),
    NORM("features.#.out.#", "features.{a-2}.conv.{b/3}.1"),
    ROW("features.#.out.#", "features.{a-2}.conv.{b/3}.0"),
    ROW("features.#", "features.{a-2}.0"),
    NORM("features.#", "features.{a-3}.1"),
    ROW("output.0", "classifier.1", .layout = MX_TORCH_FLAT),
    {0},
};

/* Bottlenecks of stride 1 are sums of the input and their body.  Numbers of layers depend on whether there is an
 * expansion and a squeeze, but rounding leads to theirs: a convolution at 0, 3, 6 or, after a squeeze, 4 or 7. */
static const mx_torch_row mobilenet3[] = {
    ROW("features.0", "features.0.0"),
    NORM("features.1", "features.0.1"),
    ROW("features.#.#.squeeze", "features.{a-2}.block.{b/3}.fc1"),
    ROW("features.#.#.excite", "features.{a-2}.block.{b/3}.fc2"),
    ROW("features.#.body.#.squeeze", "features.{a-2}.block.{b/3}.fc1"),
    ROW("features.#.body.#.excite", "features.{a-2}.block.{b/3}.fc2"),
    NORM("features.#.#", "features.{a-2}.block.{b+1/3}.1"),
    ROW("features.#.#", "features.{a-2}.block.{b+2/3}.0"),
    NORM("features.#.body.#", "features.{a-2}.block.{b+1/3}.1"),
    ROW("features.#.body.#", "features.{a-2}.block.{b+2/3}.0"),
    NORM("features.#", "features.{a-3}.1"),
    ROW("features.#", "features.{a-2}.0", .most = 1),
    ROW("features.#", "classifier.0", .layout = MX_TORCH_FLAT),
    ROW("output.0", "classifier.3", .layout = MX_TORCH_FLAT),
    {0},
};

static const char *const gpt2_prefixes[] = {"transformer.", "module.", NULL};
static const char *const gpt2_unused[] = {"h.#.attn.bias", "h.#.attn.masked_bias", "lm_head.weight", NULL};
static const mx_torch_row gpt2[] = {
    ROW("word", "wte"),
    ROW("position", "wpe"),
    NORM("cell#.norm_1", "h.{a}.ln_1"),
    ROW("cell#.attention.proj_query", "h.{a}.attn.c_attn", .layout = MX_TORCH_QUERY),
    ROW("cell#.attention.proj_key", "h.{a}.attn.c_attn", .layout = MX_TORCH_KEY),
    ROW("cell#.attention.proj_value", "h.{a}.attn.c_attn", .layout = MX_TORCH_VALUE),
    ROW("cell#.attention.proj_out", "h.{a}.attn.c_proj", .layout = MX_TORCH_TRANSPOSED),
    NORM("cell#.norm_2", "h.{a}.ln_2"),
    ROW("cell#.ffn_1", "h.{a}.mlp.c_fc", .layout = MX_TORCH_TRANSPOSED),
    ROW("cell#.ffn_2", "h.{a}.mlp.c_proj", .layout = MX_TORCH_TRANSPOSED),
    NORM("norm", "ln_f"),
    {0},
};

static const char *const bert_prefixes[] = {"bert.", "module.", NULL};
static const char *const bert_unused[] = {"embeddings.position_ids", "cls.*", NULL};
static const mx_torch_row bert[] = {
    ROW("word", "embeddings.word_embeddings"),
    ROW("position", "embeddings.position_embeddings"),
    ROW("segment", "embeddings.token_type_embeddings"),
    NORM("norm", "embeddings.LayerNorm"),
    ROW("encoder.transformer#.attention.proj_query", "encoder.layer.{a}.attention.self.query"),
    ROW("encoder.transformer#.attention.proj_key", "encoder.layer.{a}.attention.self.key"),
    ROW("encoder.transformer#.attention.proj_value", "encoder.layer.{a}.attention.self.value"),
    ROW("encoder.transformer#.attention.proj_out", "encoder.layer.{a}.attention.output.dense"),
    NORM("encoder.transformer#.layer_norm", "encoder.layer.{a}.attention.output.LayerNorm"),
    ROW("encoder.transformer#.ffn.ffn_1", "encoder.layer.{a}.intermediate.dense"),
    ROW("encoder.transformer#.ffn.ffn_2", "encoder.layer.{a}.output.dense"),
    NORM("encoder.transformer#.ffn.layer_norm", "encoder.layer.{a}.output.LayerNorm"),
    ROW("pooler", "pooler.dense"),
    {0},
};

#define TABLE(name, needs, list, before, not_used, ...) \
    {.class = name, .options = needs, .rows = list, .prefixes = before, .unused = not_used, .sizes = {__VA_ARGS__}}
const mx_torch_table mx_torch_tables[] = {
    TABLE("ResNetV1", "", resnet, module, counters, {"classes", "fc.weight", 0}),
    TABLE("VGG", "", vgg, module, counters, {"classes", "classifier.6.weight", 0}),
    TABLE("DenseNet", "", densenet, module, counters, {"classes", "classifier.weight", 0}),
    TABLE("MobileNetV2", "form=torch", mobilenet2, module, counters, {"classes", "classifier.1.weight", 0}),
    TABLE("MobileNetV3", "epsilon=0.001", mobilenet3, module, counters, {"classes", "classifier.3.weight", 0}),
    TABLE("GPT2", "", gpt2, gpt2_prefixes, gpt2_unused, {"vocab_size", "wte.weight", 0}, {"max_length", "wpe.weight", 0}),
    TABLE("BERT", "", bert, bert_prefixes, bert_unused, {"vocab_size", "embeddings.word_embeddings.weight", 0},
          {"max_length", "embeddings.position_embeddings.weight", 0}),
    {0},
};
