/* The model zoo: networks for images and for texts by name.
 *
 *     mx_block *net = mx_model("resnet18_v1", .classes = 10);
 *     mx_block *trained = mx_model("mobilenetv2_1.0", .pretrained = true, .root = "models");
 *
 * They take images (N, 3, H, W); pretrained networks expect values from 0 to 1, normalised with mean 0.485, 0.456, 0.406
 * and deviation 0.229, 0.224, 0.225.  The classes behind the names (mx_resnet_v1, mx_vgg ...) can be created
 * with other sizes.  Children are "features" and "output"; either can be replaced with mx_block_child.
 *
 *     mx_block *gpt2 = mx_model("gpt2_124m");                         gpt2_355m, gpt2_774m, gpt2_1558m
 *     mx_array *scores = mx_call(gpt2, tokens);                       tokens (N, T), scores (N, T, 50257)
 *
 *     mx_arrays cache = mx_text_cache(gpt2, N, 256);                  texts of at most 256 tokens
 *     mx_arrays out = mx_text_step(gpt2, tokens, start, cache);       tokens (N, T), start (N): how many came before
 *     out.v[0]: scores (N, 50257) after the last token; the others are the next cache
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef GLUON_ZOO_H
#define GLUON_ZOO_H

#include "gluon/block.h"

struct mx_model_options {
    int64_t classes;     /* number of scores; 0: 1000 */
    const char *options; /* further options of the network's class, "thumbnail=True"; NULL: none */
    bool pretrained;     /* load trained parameters from the folder root */
    const char *root;    /* NULL: $MXNET_HOME/models, or ~/.mxnet/models */
    const char *prefix;  /* of its name; NULL: derived from the class name */
    mx_params *params;   /* parameters to share; NULL: own ones */
    char positional_;
    const char *name;
};
#define mx_model(...) mx_model_make(&(struct mx_model_options){.positional_ = 0, __VA_ARGS__})
MX_API mx_block *mx_model_make(const struct mx_model_options *options);
MX_API const char *mx_model_name(int i); /* of the networks for images; NULL past the end */
/* The file of a network's trained parameters: NAME-HASH.params as published, or with another hash (the newest), or
 * NAME.params.  HASH is the beginning of the file's SHA-1 sum and is checked.  If the file is missing, the error says
 * which file is expected where.  root as above; the path belongs to the scope. */
MX_API const char *mx_model_file(const char *name, const char *root);

/* ---- PyTorch's names ---------------------------------------------------------------------------------------------- */
/* Reads a state_dict (safetensors) of a network of the same architecture: torchvision's ResNet (resnet50_v1b ...), VGG,
 * DenseNet, MobileNet 2 (form=torch) and 3 (epsilon=0.001), GPT-2 and BERT as published.  Every parameter of the network is
 * filled and every array of the file is used, or the error names it.  mx_save_torch writes such a file. */
MX_API mx_code mx_load_torch(mx_block *net, const char *path);
MX_API mx_code mx_save_torch(mx_block *net, const char *path);
/* The network of a name with such parameters: options and sizes (classes) follow from the file. */
MX_API mx_block *mx_model_from_torch(const char *name, const char *path);

/* ---- Keras' names ------------------------------------------------------------------------------------------------- */
/* Reads weights of keras.applications (.weights.h5, .h5 or .keras): ResNet50, 101, 152 (resnet50_v1 ...), VGG16, 19,
 * DenseNet121, 169, 201, MobileNet, MobileNetV2 and V3 (with form=keras).  Biases that ours lacks move into the running means of
 * the normalisations that follow.  Every parameter is filled and every array of the file is used, or the error names it. */
MX_API mx_code mx_load_keras(mx_block *net, const char *path);
/* The network of a name with such parameters: options and the number of classes follow from the file. */
MX_API mx_block *mx_model_from_keras(const char *name, const char *path);

/* ---- networks that continue texts (mx_gpt2) --------------------------------------------------------------------- */
/* Empty keys and values of `texts` texts of at most `length` tokens, where the network's parameters are. */
MX_API mx_arrays mx_text_cache(mx_block *net, int64_t texts, int64_t length);
/* The scores after the last of `tokens` (N, T), then the cache with their keys and values.  start (N): how many tokens of
 * each text are in the cache.  A hybridized network compiles one plan for every T. */
MX_API mx_arrays mx_text_step(mx_block *net, mx_array *tokens, mx_array *start, mx_arrays cache);

#endif
