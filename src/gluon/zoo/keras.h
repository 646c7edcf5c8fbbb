/* Names of layers in Keras' files of weights.
 *
 *     keras_tables.c     which of our layers is which of theirs, in the notation of torch.h
 *     keras.c            reading files with these names
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef MX_GLUON_KERAS_H
#define MX_GLUON_KERAS_H

#include "gluon/zoo/torch.h"

typedef struct mx_keras_table {
    mx_torch_table names; /* layers; an option's size is that of the bias of a layer */
    const char *needs;    /* a parameter that only the network in the form that fits has; NULL: none */
    const char *reason;   /* what is wrong without it, or, if there are no entries, with all networks of the class */
    double epsilon;       /* how much larger that of their normalisations is: it is added to the variances */
    const char *flat;     /* their layer whose inputs are the pixels of all channels; NULL: none */
} mx_keras_table;
/* The tables of a class follow one another, the first has the reason; ended by an entry without class. */
extern const mx_keras_table mx_keras_tables[];

#endif
