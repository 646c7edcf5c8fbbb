/* Names of parameters in PyTorch's files.
 *
 *     torch_tables.c     which of our layers is which of theirs: patterns, one table per class of networks
 *     torch_names.c      from a parameter of ours to the name and layout of theirs
 *     torch.c            reading and writing files with these names
 *
 * Keras' files (keras.h) use the same notation.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef MX_GLUON_TORCH_H
#define MX_GLUON_TORCH_H

#include "gluon/block/listing.h"

/* How an array of theirs holds one of ours. */
typedef enum mx_torch_layout {
    MX_TORCH_SAME,
    MX_TORCH_FLAT,   /* a dense layer where ours is a 1x1 convolution: without the last two axes */
    MX_TORCH_TRANSPOSED, /* (in, out) where ours is (out, in) */
    MX_TORCH_QUERY,  /* the first, second or last third of (in, 3 out), turned */
    MX_TORCH_KEY,
    MX_TORCH_VALUE
} mx_torch_layout;

/* Layers of ours and theirs.  # stands for a number in a path of ours; in theirs {a}, {b}, {c} are these numbers, {k} is
 * how many layers the entry has matched before, and arithmetic (+ - * / %) is done from left to
 * right: {b+2/3} is (b + 2) / 3. */
typedef struct mx_torch_row {
    const char *ours, *theirs;
    bool norm; /* gamma, beta and running statistics; otherwise weight and bias */
    int rank;  /* only weights of this many axes, and their biases; 0: any */
    int most;  /* so many layers; then the next entry that matches; 0: any number */
    mx_torch_layout layout;
} mx_torch_row;

/* An option of the class that is the length of an axis in the file: {"classes", "fc.weight", 0}. */
typedef struct mx_torch_size {
    const char *option, *tensor;
    int axis;
} mx_torch_size;

typedef struct mx_torch_table {
    const char *class;           /* of the networks */
    const char *options;         /* that a network needs to compute what theirs does; "": none */
    const mx_torch_row *rows;    /* the first that matches counts; ended by an entry without ours */
    const char *const *prefixes; /* names may begin with one of these; ended by NULL */
    const char *const *unused;   /* patterns of theirs that are no parameters; ended by NULL */
    mx_torch_size sizes[3];
} mx_torch_table;
extern const mx_torch_table mx_torch_tables[]; /* ended by an entry without class */

const mx_torch_table *mx_torch_table_of(const char *class_name); /* NULL with an error that lists the classes */
bool mx_torch_is_unused(const mx_torch_table *table, const char *name);
const char *mx_torch_strip(const mx_torch_table *table, const char *name); /* without a prefix */

/* A parameter of ours in their file. */
typedef struct mx_torch_place {
    char *name; /* owned */
    mx_torch_layout layout;
} mx_torch_place;
/* One for each parameter of the listing; NULL with an error if one has no counterpart.  Freed by mx_torch_places_free. */
mx_torch_place *mx_torch_places(const mx_torch_table *table, const mx_listing *l);
void mx_torch_places_free(mx_torch_place *places, int64_t count);

#endif
