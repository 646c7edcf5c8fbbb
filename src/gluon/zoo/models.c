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
#include "gluon/zoo.h"
#include "gluon/zoo/zoo.h"

/* Name, class, options, beginning of the SHA-1 sum of the published parameters. */
const mx_model_row mx_models[] = {
    {"resnet18_v1", "ResNetV1", "block=basic_block, layers=(2, 2, 2, 2), channels=(64, 64, 128, 256, 512)", "a0666292"},
    {"resnet34_v1", "ResNetV1", "block=basic_block, layers=(3, 4, 6, 3), channels=(64, 64, 128, 256, 512)", "48216ba9"},
    {"resnet50_v1", "ResNetV1", "block=bottle_neck, layers=(3, 4, 6, 3), channels=(64, 256, 512, 1024, 2048)", "0aee57f9"},
    {"resnet101_v1", "ResNetV1", "block=bottle_neck, layers=(3, 4, 23, 3), channels=(64, 256, 512, 1024, 2048)", "d988c13d"},
    {"resnet152_v1", "ResNetV1", "block=bottle_neck, layers=(3, 8, 36, 3), channels=(64, 256, 512, 1024, 2048)", "671c637a"},
    {"resnet18_v2", "ResNetV2", "block=basic_block, layers=(2, 2, 2, 2), channels=(64, 64, 128, 256, 512)", "a81db45f"},
    {"resnet34_v2", "ResNetV2", "block=basic_block, layers=(3, 4, 6, 3), channels=(64, 64, 128, 256, 512)", "9d6b80bb"},
    {"resnet50_v2", "ResNetV2", "block=bottle_neck, layers=(3, 4, 6, 3), channels=(64, 256, 512, 1024, 2048)", "ecdde353"},
    {"resnet101_v2", "ResNetV2", "block=bottle_neck, layers=(3, 4, 23, 3), channels=(64, 256, 512, 1024, 2048)", "18e93e4f"},
    {"resnet152_v2", "ResNetV2", "block=bottle_neck, layers=(3, 8, 36, 3), channels=(64, 256, 512, 1024, 2048)", "f2695542"},
    {"vgg11", "VGG", "layers=(1, 1, 2, 2, 2), filters=(64, 128, 256, 512, 512)", "dd221b16"},
    {"vgg13", "VGG", "layers=(2, 2, 2, 2, 2), filters=(64, 128, 256, 512, 512)", "6bc5de58"},
    {"vgg16", "VGG", "layers=(2, 2, 3, 3, 3), filters=(64, 128, 256, 512, 512)", "e660d456"},
    {"vgg19", "VGG", "layers=(2, 2, 4, 4, 4), filters=(64, 128, 256, 512, 512)", "ad2f660d"},
    {"vgg11_bn", "VGG", "layers=(1, 1, 2, 2, 2), filters=(64, 128, 256, 512, 512), batch_norm=True", "ee79a809"},
    {"vgg13_bn", "VGG", "layers=(2, 2, 2, 2, 2), filters=(64, 128, 256, 512, 512), batch_norm=True", "7d97a06c"},
    {"vgg16_bn", "VGG", "layers=(2, 2, 3, 3, 3), filters=(64, 128, 256, 512, 512), batch_norm=True", "7f01cf05"},
    {"vgg19_bn", "VGG", "layers=(2, 2, 4, 4, 4), filters=(64, 128, 256, 512, 512), batch_norm=True", "f360b758"},
    {"alexnet", "AlexNet", "", "44335d1f"},
    {"densenet121", "DenseNet", "num_init_features=64, growth_rate=32, block_config=(6, 12, 24, 16)", "f27dbf2d"},
    {"densenet161", "DenseNet", "num_init_features=96, growth_rate=48, block_config=(6, 12, 36, 24)", "b6c8a957"},
    {"densenet169", "DenseNet", "num_init_features=64, growth_rate=32, block_config=(6, 12, 32, 32)", "2603f878"},
    {"densenet201", "DenseNet", "num_init_features=64, growth_rate=32, block_config=(6, 12, 48, 32)", "1cdbc116"},
    {"squeezenet1.0", "SqueezeNet", "version=1.0", "264ba497"},
    {"squeezenet1.1", "SqueezeNet", "version=1.1", "33ba0f93"},
    {"inceptionv3", "Inception3", "", "ed47ec45"},
    {"mobilenet1.0", "MobileNet", "multiplier=1.0", "6b8c5106"},
    {"mobilenet0.75", "MobileNet", "multiplier=0.75", "529b2c7f"},
    {"mobilenet0.5", "MobileNet", "multiplier=0.5", "8e9d539c"},
    {"mobilenet0.25", "MobileNet", "multiplier=0.25", "9f83e440"},
    {"mobilenetv2_1.0", "MobileNetV2", "multiplier=1.0", "36da4ff1"},
    {"mobilenetv2_0.75", "MobileNetV2", "multiplier=0.75", "e2be7b72"},
    {"mobilenetv2_0.5", "MobileNetV2", "multiplier=0.5", "aabd26cd"},
    {"mobilenetv2_0.25", "MobileNetV2", "multiplier=0.25", "ae8f9392"},
    {"mobilenetv3_large", "MobileNetV3", "kind=large", NULL},
    {"mobilenetv3_small", "MobileNetV3", "kind=small", NULL},
    {"nasnet_4_1056", "NASNet", "repeat=4, penultimate_filters=1056, stem_filters=32, skip_reduction=False", NULL},
    {"nasnet_5_1538", "NASNet", "repeat=5, penultimate_filters=1538", NULL},
    {"nasnet_7_1920", "NASNet", "repeat=7, penultimate_filters=1920", NULL},
    {"nasnet_6_4032", "NASNet", "", NULL},
    {0},
};

const char *mx_model_name(int i)
{
    const int count = (int)(sizeof mx_models / sizeof *mx_models) - 1;
    return i >= 0 && i < count ? mx_models[i].name : NULL;
}

const mx_model_row *mx_model_find(const char *name)
{
    for (const mx_model_row *row = mx_models; name && row->name; row++)
        if (!strcasecmp(row->name, name))
            return row;
    mx_text names = {0};
    for (const mx_model_row *row = mx_models; row->name; row++)
        mx_text_print(&names, "%s%s", row == mx_models ? "" : ", ", row->name);
    mx_fail(MX_ERR_ARGUMENT, "mx_model: there is no network '%s'; the networks are %s", name ? name : "NULL",
            names.data ? names.data : "others");
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
