/* Internals of data sets and samplers.  SPDX-License-Identifier: Apache-2.0 */
#ifndef MX_GLUON_DATA_DATA_H
#define MX_GLUON_DATA_DATA_H

#include "base/object.h"
#include "gluon/block/core.h"
#include "gluon/data.h"

typedef struct mx_dataset_methods {
    mx_arrays (*at)(mx_dataset *self, int64_t i);
    /* Stacked examples as arrays of the scope; NULL: they are built from `at` one by one. */
    mx_arrays (*gather)(mx_dataset *self, const int64_t *index, int64_t n);
} mx_dataset_methods;

struct mx_dataset {
    mx_object object;
    const mx_dataset_methods *methods;
    int64_t length;
    mx_array **arrays; /* of an array data set; retained */
    int64_t n_arrays;
    mx_dataset *base;      /* of a transform, part or shard; retained */
    mx_block *transform;   /* retained */
    int64_t offset;        /* of a part in its base */
    mx_example_fn example; /* of a function data set */
    void *user;
    void (*release)(void *user);
};

extern const mx_kind mx_dataset_kind, mx_sampler_kind;
mx_dataset *mx_dataset_make(const mx_dataset_methods *methods, int64_t length); /* new reference */
int64_t mx_sampler_bound(const mx_sampler *sampler); /* every index of an order is below it */
/* Whether a transform takes a batch as well as one example. */
bool mx_takes_batches(const mx_block *transform);
/* A batch of examples as stacked arrays of the scope; pad: fills up smaller ones; NULL: all must have the same shape. */
mx_arrays mx_dataset_gather(mx_dataset *dataset, const int64_t *index, int64_t n, const double *pad);

/* The folder of a data set's files, $MXNET_HOME/datasets/name or ~/.mxnet/datasets/name; of the scope. */
const char *mx_dataset_folder(const char *name);

#endif
