/* The model zoo: networks for images by name.
 *
 *     mx_block *net = mx_model("resnet18_v1", .classes = 10);
 *     mx_block *trained = mx_model("mobilenetv2_1.0", .pretrained = true, .root = "models");
 *
 * They take images (N, 3, H, W); pretrained networks expect values from 0 to 1, normalised with mean 0.485, 0.456, 0.406
 * and deviation 0.229, 0.224, 0.225.  The classes behind the names (mx_resnet_v1, mx_vgg ...) can be created
 * with other sizes.  Children are "features" and "output"; either can be replaced with mx_block_child.
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
MX_API const char *mx_model_name(int i); /* NULL past the end */
/* The file of a network's trained parameters: NAME-HASH.params as published, or with another hash (the newest), or
 * NAME.params.  HASH is the beginning of the file's SHA-1 sum and is checked.  If the file is missing, the error says
 * which file is expected where.  root as above; the path belongs to the scope. */
MX_API const char *mx_model_file(const char *name, const char *root);

#endif
