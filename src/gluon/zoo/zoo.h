/* The model zoo: networks for images, built from layers of the library.
 *
 *     gluon/def/zoo.c       the class entries: options, forward, documentation
 *     gluon/zoo/NAME.c      the structure of a family: its tables and the function that assembles the layers
 *     gluon/zoo/models.c    the names: class and options of "resnet18_v1"
 *     gluon/zoo/store.c     the folder of trained parameters
 *
 * Invariant: parameters have the names, shapes and order of those of MXNet's networks, so their files can be read.
 * Layers are numbered by the name scope that is open when they are created; a sequence with prefix "" opens none.
 * A failure gives NULL, which passes through; the build functions report it once, at their end.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef MX_GLUON_ZOO_H
#define MX_GLUON_ZOO_H

#include "gluon/block/core.h"

/* ---- what the families share (build.c) ----------------------------------------------------------------------- */
typedef struct mx_conv_row { /* a convolution; channels 0 means pooling */
    int64_t channels, kernel, stride, pad;
} mx_conv_row;

mx_block *mx_zoo_sequence(const char *prefix); /* an empty HybridSequential; NULL: an automatic prefix */
void mx_zoo_add(mx_block *sequence, mx_block *layer);
/* A square convolution; groups 1: all channels together. */
mx_block *mx_zoo_conv(mx_conv_row row, int64_t groups, bool bias);
mx_block *mx_zoo_conv_from(mx_conv_row row, int64_t in_channels); /* without bias, with in_channels given */
mx_block *mx_zoo_max_pool(int64_t size, int64_t stride, int64_t pad);
mx_block *mx_zoo_avg_pool(int64_t size, int64_t stride, int64_t pad);
mx_block *mx_zoo_norm(double epsilon);
/* Convolution without bias and normalisation; then the activation, NULL: none. */
void mx_zoo_add_conv_norm(mx_block *sequence, mx_conv_row row, int64_t groups, const char *activation);
/* The child of a name; NULL: none. */
mx_block *mx_zoo_part(const mx_block *block, const char *name);
/* The children "features" and "output" of a classifier, taken from the network being built. */
mx_code mx_zoo_classifier(mx_block *self, mx_block *features, mx_block *output);
mx_array *mx_zoo_classify(mx_block *self, mx_arrays in); /* forward: output(features(x)) */

/* ---- the families -------------------------------------------------------------------------------------------- */
mx_code mx_build_alexnet(mx_block *self, int64_t classes);
mx_code mx_build_vgg(mx_block *self, const mx_dims *layers, const mx_dims *filters, int64_t classes, bool norm);
mx_code mx_build_squeezenet(mx_block *self, const char *version, int64_t classes);
mx_code mx_build_densenet(mx_block *self, int64_t first, int64_t growth, const mx_dims *blocks, int64_t bn_size,
                          double dropout, int64_t classes);
mx_code mx_build_inception(mx_block *self, int64_t classes);
mx_code mx_build_mobilenet(mx_block *self, double multiplier, int64_t classes, const char *form);
mx_code mx_build_mobilenet2(mx_block *self, double multiplier, int64_t classes, const char *form);
/* expand 1 and not always: without the first convolution; keras: padding and epsilon are Keras' */
mx_code mx_build_linear_bottleneck(mx_block *self, int64_t in_channels, int64_t channels, int64_t expand,
                                   int64_t stride, bool always, bool keras);
mx_code mx_build_mobilenet3(mx_block *self, const char *kind, double multiplier, int64_t classes, double epsilon,
                            const char *form);
mx_code mx_build_nasnet(mx_block *self, int64_t repeat, int64_t penultimate, int64_t stem, int64_t widening,
                        bool skip_reduction, double dropout, int64_t classes);
mx_code mx_build_nasnet_features(mx_block *self, int64_t repeat, int64_t filters, int64_t stem, int64_t widening);
mx_array *mx_nasnet_features_forward(mx_block *self, mx_array *x, int64_t repeat, bool skip);
/* A cell: previous is "plain", "factor" (the previous map is twice as large) or "none" (used unchanged, with this number
 * of channels). */
mx_code mx_build_nasnet_cell(mx_block *self, bool reduction, int64_t filters, const char *previous,
                             int64_t previous_channels);
mx_array *mx_nasnet_cell_forward(mx_block *self, mx_arrays in, bool reduces);
mx_code mx_build_resnet(mx_block *self, int version, const char *block, const mx_dims *layers, const mx_dims *channels,
                        int64_t classes, bool thumbnail);
/* A block of a residual network: two convolutions of 3x3, or (bottleneck) 1x1, 3x3, 1x1. */
mx_code mx_build_residual(mx_block *self, int version, bool bottleneck, int64_t channels, int64_t stride,
                          bool downsample, int64_t in_channels);
mx_code mx_build_bottleneck_b(mx_block *self, int64_t channels, int64_t stride, bool downsample, int64_t in_channels);
mx_array *mx_residual_forward(mx_block *self, mx_arrays in);     /* version 1 */
mx_array *mx_preactivated_forward(mx_block *self, mx_arrays in); /* version 2 */
mx_code mx_build_squeeze_excite(mx_block *self, int64_t channels, int64_t squeezed);
mx_array *mx_squeeze_excite_forward(mx_block *self, mx_arrays in);

/* Creates the blocks of residual networks in a front end, for networks whose block option is "". */
typedef mx_block *(*mx_residual_maker)(void *user, int64_t channels, int64_t stride, bool downsample,
                                       int64_t in_channels);
void mx_residual_maker_set(mx_residual_maker make, void *user); /* for this thread; NULL: none */

/* ---- names --------------------------------------------------------------------------------------------------- */
typedef struct mx_model_row {
    const char *name;    /* "resnet18_v1" */
    const char *class;   /* "ResNetV1" */
    const char *options; /* of the class: "layers=(2, 2, 2, 2)"; "": the defaults */
    const char *
        hash; /* SHA-1 sum of the published parameters, whose first eight digits are in the file's name; NULL: none were */
} mx_model_row;
extern const mx_model_row mx_models[], mx_text_models[]; /* for images, for texts; ended by an entry without name */
const mx_model_row *mx_model_find(const char *name);     /* any case; NULL with an error that lists the names */

#endif
