/* The names of the zoo: the class and options of each network.
 *
 *     mx_block *net = mx_model("resnet50_v1", .classes = 10);
 *     mx_block *trained = mx_model("mobilenetv2_1.0", .pretrained = true);
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "base/alloc.h"
#include "base/suggest.h"
#include "gluon/zoo.h"
#include "gluon/zoo/zoo.h"

/* Name, class, options, beginning of the SHA-1 sum of the published parameters. */
const mx_model_row mx_models[] = {
    {"resnet18_v1", "ResNetV1", "block=basic_block, layers=(2, 2, 2, 2), channels=(64, 64, 128, 256, 512)", "a0666292f0a30ff61f857b0b66efc0228eb6a54b"},
    {"resnet34_v1", "ResNetV1", "block=basic_block, layers=(3, 4, 6, 3), channels=(64, 64, 128, 256, 512)", "48216ba99a8b1005d75c0f3a0c422301a0473233"},
    {"resnet50_v1", "ResNetV1", "block=bottle_neck, layers=(3, 4, 6, 3), channels=(64, 256, 512, 1024, 2048)", "0aee57f96768c0a2d5b23a6ec91eb08dfb0a45ce"},
    {"resnet101_v1", "ResNetV1", "block=bottle_neck, layers=(3, 4, 23, 3), channels=(64, 256, 512, 1024, 2048)", "d988c13d6159779e907140a638c56f229634cb02"},
    {"resnet152_v1", "ResNetV1", "block=bottle_neck, layers=(3, 8, 36, 3), channels=(64, 256, 512, 1024, 2048)", "671c637a14387ab9e2654eafd0d493d86b1c8579"},
    {"resnet18_v2", "ResNetV2", "block=basic_block, layers=(2, 2, 2, 2), channels=(64, 64, 128, 256, 512)", "a81db45fd7b7a2d12ab97cd88ef0a5ac48b8f657"},
    {"resnet34_v2", "ResNetV2", "block=basic_block, layers=(3, 4, 6, 3), channels=(64, 64, 128, 256, 512)", "9d6b80bbc35169de6b6edecffdd6047c56fdd322"},
    {"resnet50_v2", "ResNetV2", "block=bottle_neck, layers=(3, 4, 6, 3), channels=(64, 256, 512, 1024, 2048)", "ecdde35339c1aadbec4f547857078e734a76fb49"},
    {"resnet101_v2", "ResNetV2", "block=bottle_neck, layers=(3, 4, 23, 3), channels=(64, 256, 512, 1024, 2048)", "18e93e4f48947e002547f50eabbcc9c83e516aa6"},
    {"resnet152_v2", "ResNetV2", "block=bottle_neck, layers=(3, 8, 36, 3), channels=(64, 256, 512, 1024, 2048)", "f2695542de38cf7e71ed58f02893d82bb409415e"},
    {"resnet18_v1b", "ResNetV1", "block=basic_block, layers=(2, 2, 2, 2), channels=(64, 64, 128, 256, 512)", NULL},
    {"resnet34_v1b", "ResNetV1", "block=basic_block, layers=(3, 4, 6, 3), channels=(64, 64, 128, 256, 512)", NULL},
    {"resnet50_v1b", "ResNetV1", "block=bottle_neck_b, layers=(3, 4, 6, 3), channels=(64, 256, 512, 1024, 2048)", NULL},
    {"resnet101_v1b", "ResNetV1", "block=bottle_neck_b, layers=(3, 4, 23, 3), channels=(64, 256, 512, 1024, 2048)", NULL},
    {"resnet152_v1b", "ResNetV1", "block=bottle_neck_b, layers=(3, 8, 36, 3), channels=(64, 256, 512, 1024, 2048)", NULL},
    {"vgg11", "VGG", "layers=(1, 1, 2, 2, 2), filters=(64, 128, 256, 512, 512)", "dd221b160977f36a53f464cb54648d227c707a05"},
    {"vgg13", "VGG", "layers=(2, 2, 2, 2, 2), filters=(64, 128, 256, 512, 512)", "6bc5de58a05a5e2e7f493e2d75a580d83efde38c"},
    {"vgg16", "VGG", "layers=(2, 2, 3, 3, 3), filters=(64, 128, 256, 512, 512)", "e660d4569ccb679ec68f1fd3cce07a387252a90a"},
    {"vgg19", "VGG", "layers=(2, 2, 4, 4, 4), filters=(64, 128, 256, 512, 512)", "ad2f660d101905472b83590b59708b71ea22b2e5"},
    {"vgg11_bn", "VGG", "layers=(1, 1, 2, 2, 2), filters=(64, 128, 256, 512, 512), batch_norm=True", "ee79a8098a91fbe05b7a973fed2017a6117723a8"},
    {"vgg13_bn", "VGG", "layers=(2, 2, 2, 2, 2), filters=(64, 128, 256, 512, 512), batch_norm=True", "7d97a06c3c7a1aecc88b6e7385c2b373a249e95e"},
    {"vgg16_bn", "VGG", "layers=(2, 2, 3, 3, 3), filters=(64, 128, 256, 512, 512), batch_norm=True", "7f01cf050d357127a73826045c245041b0df7363"},
    {"vgg19_bn", "VGG", "layers=(2, 2, 4, 4, 4), filters=(64, 128, 256, 512, 512), batch_norm=True", "f360b758e856f1074a85abd5fd873ed1d98297c3"},
    {"alexnet", "AlexNet", "", "44335d1f0046b328243b32a26a4fbd62d9057b45"},
    {"densenet121", "DenseNet", "num_init_features=64, growth_rate=32, block_config=(6, 12, 24, 16)", "f27dbf2dbd5ce9a80b102d89c7483342cd33cb31"},
    {"densenet161", "DenseNet", "num_init_features=96, growth_rate=48, block_config=(6, 12, 36, 24)", "b6c8a95717e3e761bd88d145f4d0a214aaa515dc"},
    {"densenet169", "DenseNet", "num_init_features=64, growth_rate=32, block_config=(6, 12, 32, 32)", "2603f878403c6aa5a71a124c4a3307143d6820e9"},
    {"densenet201", "DenseNet", "num_init_features=64, growth_rate=32, block_config=(6, 12, 48, 32)", "1cdbc116bc3a1b65832b18cf53e1cb8e7da017eb"},
    {"squeezenet1.0", "SqueezeNet", "version=1.0", "264ba4970a0cc87a4f15c96e25246a1307caf523"},
    {"squeezenet1.1", "SqueezeNet", "version=1.1", "33ba0f93753c83d86e1eb397f38a667eaf2e9376"},
    {"inceptionv3", "Inception3", "", "ed47ec45a937b656fcc94dabde85495bbef5ba1f"},
    {"mobilenet1.0", "MobileNet", "multiplier=1.0", "6b8c5106c730e8750bcd82ceb75220a3351157cd"},
    {"mobilenet0.75", "MobileNet", "multiplier=0.75", "529b2c7f4934e6cb851155b22c96c9ab0a7c4dc2"},
    {"mobilenet0.5", "MobileNet", "multiplier=0.5", "8e9d539cc66aa5efa71c4b6af983b936ab8701c3"},
    {"mobilenet0.25", "MobileNet", "multiplier=0.25", "9f83e440996887baf91a6aff1cccc1c903a64274"},
    {"mobilenetv2_1.0", "MobileNetV2", "multiplier=1.0", "36da4ff1867abccd32b29592d79fc753bca5a215"},
    {"mobilenetv2_0.75", "MobileNetV2", "multiplier=0.75", "e2be7b72a79fe4a750d1dd415afedf01c3ea818d"},
    {"mobilenetv2_0.5", "MobileNetV2", "multiplier=0.5", "aabd26cd335379fcb72ae6c8fac45a70eab11785"},
    {"mobilenetv2_0.25", "MobileNetV2", "multiplier=0.25", "ae8f9392789b04822cbb1d98c27283fc5f8aa0a7"},
    {"mobilenetv3_large", "MobileNetV3", "kind=large", NULL},
    {"mobilenetv3_small", "MobileNetV3", "kind=small", NULL},
    {"nasnet_4_1056", "NASNet", "repeat=4, penultimate_filters=1056, stem_filters=32, skip_reduction=False", NULL},
    {"nasnet_5_1538", "NASNet", "repeat=5, penultimate_filters=1538", NULL},
    {"nasnet_7_1920", "NASNet", "repeat=7, penultimate_filters=1920", NULL},
    {"nasnet_6_4032", "NASNet", "", NULL},
    {0},
};

const mx_model_row mx_text_models[] = {
    {"bert_12_768_12", "BERT", "num_layers=12, units=768, num_heads=12", NULL},
    {"bert_24_1024_16", "BERT", "num_layers=24, units=1024, num_heads=16", NULL},
    {"gpt2_124m", "GPT2", "num_layers=12, units=768, num_heads=12", NULL},
    {"gpt2_355m", "GPT2", "num_layers=24, units=1024, num_heads=16", NULL},
    {"gpt2_774m", "GPT2", "num_layers=36, units=1280, num_heads=20", NULL},
    {"gpt2_1558m", "GPT2", "num_layers=48, units=1600, num_heads=25", NULL},
    {0},
};

const char *mx_model_name(int i)
{
    const int count = (int)(sizeof mx_models / sizeof *mx_models) - 1;
    return i >= 0 && i < count ? mx_models[i].name : NULL;
}

static const mx_model_row *const tables[] = {mx_models, mx_text_models};

#define EACH_MODEL(row) \
    for (size_t k_ = 0; k_ < sizeof tables / sizeof *tables; k_++) \
        for (const mx_model_row *row = tables[k_]; row->name; row++)

const mx_model_row *mx_model_find(const char *name)
{
    EACH_MODEL(row)
    if (name && !strcasecmp(row->name, name))
        return row;
    mx_text names = {0};
    mx_suggestion s = {.word = name};
    EACH_MODEL(row)
    {
        mx_text_print(&names, "%s%s", row == mx_models ? "" : ", ", row->name);
        mx_suggest(&s, row->name);
    }
    mx_fail(MX_ERR_ARGUMENT, "mx_model: there is no network '%s'%s%s the networks are %s", name ? name : "NULL",
            mx_suggest_text(&s), s.best ? "" : ";", names.data ? names.data : "others");
    mx_text_free(&names);
    return NULL;
}

/* The entry's options, the number of classes, then the caller's options, as the class's struct. */
static mx_code read_options(const mx_class *cls, const mx_model_row *row, const struct mx_model_options *o, void *typed)
{
    memcpy(typed, cls->defaults, cls->schema->size);
    if (*row->options && mx_schema_parse(cls->schema, typed, row->name, row->options))
        return mx_error_code();
    char classes[24];
    snprintf(classes, sizeof classes, "%lld", (long long)o->classes);
    if (o->classes && mx_schema_set(cls->schema, typed, row->name, "classes", classes))
        return mx_error_code();
    return o->options && *o->options ? mx_schema_parse(cls->schema, typed, row->name, o->options) : MX_OK;
}

mx_block *mx_model_make(const struct mx_model_options *o)
{
    const mx_model_row *row = o ? mx_model_find(o->name) : NULL;
    mx_class *cls = row ? mx_class_find(MX_LAYER, row->class) : NULL;
    void *typed = cls ? mx_alloc(cls->schema->size) : NULL;
    if (!typed)
        return NULL;
    mx_block *net = read_options(cls, row, o, typed) ? NULL : mx_class_make(cls, typed, o->prefix, o->params);
    mx_free(typed, cls->schema->size);
    if (!net || !o->pretrained)
        return net;
    const char *path = mx_model_file(row->name, o->root);
    return path && !mx_load_parameters(net, path) ? net : NULL;
}
