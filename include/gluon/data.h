/* Data sets, samplers and the loader that makes batches.
 *
 *     mx_loader *train = mx_data_loader(mx_fashion_mnist(.train = true), 64, .shuffle = true);
 *     mx_for_each_batch(batch, train)
 *         use(batch.data, batch.label, batch.size);
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef GLUON_DATA_H
#define GLUON_DATA_H

#include "gluon/block.h"

typedef struct mx_dataset mx_dataset;
typedef struct mx_sampler mx_sampler;
typedef struct mx_loader mx_loader;

/* ---- data sets: numbered examples, each a list of arrays --------------------------------------------------------- */
/* Example i is row i of every array. */
MX_API mx_dataset *mx_array_dataset(mx_arrays arrays);
/* Examples from a function, which returns mx_results(...); it may be called from several threads at once. */
typedef mx_arrays (*mx_example_fn)(void *user, int64_t i);
MX_API mx_dataset *mx_function_dataset(int64_t length, mx_example_fn example, void *user, void (*release)(void *user));
/* Applies a block, such as mx_to_tensor(), to the first array of every example. */
MX_API mx_dataset *mx_dataset_transform_first(mx_dataset *dataset, mx_block *transform);
MX_API mx_dataset *mx_dataset_take(mx_dataset *dataset, int64_t count);                  /* the first `count` */
MX_API mx_dataset *mx_dataset_shard(mx_dataset *dataset, int64_t shards, int64_t index); /* part `index` of `shards` */
/* Where such a part of `length` examples begins; *count of them, the first parts may have one more.  -1: failed. */
MX_API int64_t mx_shard_start(int64_t length, int64_t shards, int64_t index, int64_t *count);
MX_API int64_t mx_dataset_length(const mx_dataset *dataset);
MX_API mx_arrays mx_dataset_at(mx_dataset *dataset, int64_t i); /* belongs to the scope */

/* Images and labels in idx files (gzip or not).  Images are float32 (1, 28, 28) in [0, 1], labels float32; with
 * `raw`, uint8 (28, 28, 1) and int32.  root NULL: where Debian's dataset-fashion-mnist puts them, then
 * $MXNET_HOME/datasets. */
struct mx_mnist_args {
    bool train;
    bool raw;
    const char *root;
    char positional_;
};
#define mx_fashion_mnist(...) mx_fashion_mnist_make(&(struct mx_mnist_args){.train = true, .positional_ = 0, __VA_ARGS__})
#define mx_mnist(...) mx_mnist_make(&(struct mx_mnist_args){.train = true, .positional_ = 0, __VA_ARGS__})
MX_API mx_dataset *mx_fashion_mnist_make(const struct mx_mnist_args *args);
MX_API mx_dataset *mx_mnist_make(const struct mx_mnist_args *args);
MX_API const char *mx_fashion_mnist_class(int label); /* "trouser"; NULL if there is none */
MX_API mx_array *mx_load_idx(const char *path);       /* any idx file, as an array */
/* Numbers in a text file, separated by commas, as many in every line: an array (lines, columns).  Lines may be empty;
 * anything else that is not a number is an error that names the line. */
MX_API mx_array *mx_load_csv(const char *path, mx_dtype dtype);
/* Lines "label column:value column:value ...", columns from 0: a csr array (lines, columns) and the labels (lines), or
 * (lines, n) if every line begins with n of them, separated by commas. */
MX_API mx_code mx_load_libsvm(const char *path, int64_t columns, mx_dtype dtype, mx_array **data, mx_array **label);

/* CIFAR-10 and CIFAR-100 from their binary files.  Images are float32 (3, 32, 32) in [0, 1], labels float32; with `raw`,
 * uint8 (32, 32, 3) and int32.  root NULL: $MXNET_HOME/datasets. */
struct mx_cifar_args {
    bool train;
    bool raw;
    bool fine_label; /* CIFAR-100: one of 100 classes instead of one of 20 */
    const char *root;
    char positional_;
};
#define mx_cifar10(...) mx_cifar10_make(&(struct mx_cifar_args){.train = true, .positional_ = 0, __VA_ARGS__})
#define mx_cifar100(...) mx_cifar100_make(&(struct mx_cifar_args){.train = true, .positional_ = 0, __VA_ARGS__})
MX_API mx_dataset *mx_cifar10_make(const struct mx_cifar_args *args);
MX_API mx_dataset *mx_cifar100_make(const struct mx_cifar_args *args);

/* Images in files: an example is the image, uint8 (H, W, C), and its label, float32.  Images are read on access, by
 * several threads at once if need be. */
struct mx_images_args {
    int flag;         /* 1: three channels, 0: gray, -1: what the file has */
    const char *root; /* of a list: the folder that its paths are relative to; NULL: that of the list */
    char positional_;
    const char *path;
};
#define MX_IMAGES_ARGS_(...) (&(struct mx_images_args){.flag = 1, .positional_ = 0, __VA_ARGS__})
/* mx_image_folder("pets"): pets/cat/1.jpg, pets/dog/2.png ...; folders in order of their names are the classes. */
#define mx_image_folder(...) mx_image_folder_make(MX_IMAGES_ARGS_(__VA_ARGS__))
MX_API mx_dataset *mx_image_folder_make(const struct mx_images_args *args);
/* mx_image_list("train.lst"): lines "number TAB label [TAB label ...] TAB path". */
#define mx_image_list(...) mx_image_list_make(MX_IMAGES_ARGS_(__VA_ARGS__))
MX_API mx_dataset *mx_image_list_make(const struct mx_images_args *args);
MX_API const char *mx_image_path(const mx_dataset *dataset, int64_t i); /* of example i of these two */
MX_API int64_t mx_image_key(const mx_dataset *dataset, int64_t i);      /* its number in the list */
MX_API const float *mx_image_labels(const mx_dataset *dataset, int64_t i,
                                    int64_t *count);                            /* (count) without the image */
MX_API const char *mx_image_folder_class(const mx_dataset *dataset, int label); /* NULL if there is none */
/* What was skipped in the folders, as sentences: "pets/readme is not a folder ..."; NULL past the end. */
MX_API const char *mx_image_folder_skipped(const mx_dataset *dataset, int64_t i);
/* Records of x.rec in the order of x.idx: arrays of bytes, or images and their labels. */
MX_API mx_dataset *mx_record_dataset(const char *path);
#define mx_image_record_dataset(...) mx_image_record_dataset_make(MX_IMAGES_ARGS_(__VA_ARGS__))
MX_API mx_dataset *mx_image_record_dataset_make(const struct mx_images_args *args);

/* ---- samplers: in which order ------------------------------------------------------------------------------------- */
MX_API mx_sampler *mx_sequential_sampler(int64_t length);
MX_API mx_sampler *mx_random_sampler(int64_t length, uint64_t seed); /* a new order in every epoch */
MX_API mx_sampler *mx_interval_sampler(int64_t length, int64_t interval, bool rollover);
/* Part `part` of `parts` of another order, for programs that run as several processes: every parts-th number.  What does
 * not divide: parts repeat numbers from the start of the order, drop the rest, or differ by one example. */
typedef enum mx_split_rest { MX_SPLIT_PAD, MX_SPLIT_DISCARD, MX_SPLIT_KEEP } mx_split_rest;
MX_API mx_sampler *mx_split_sampler(mx_sampler *sampler, int64_t parts, int64_t part, mx_split_rest rest);
MX_API int64_t mx_sampler_length(const mx_sampler *sampler);
/* The order of an epoch, `length` numbers; belongs to the scope. */
MX_API const int64_t *mx_sampler_order(mx_sampler *sampler, int64_t epoch);

/* ---- loader ---------------------------------------------------------------------------------------------------------- */
typedef enum mx_last_batch {
    MX_KEEP,     /* the last batch may be smaller */
    MX_DISCARD,  /* it is dropped */
    MX_ROLLOVER, /* its examples start the next epoch */
} mx_last_batch;

/* How many batches `examples` make; with MX_ROLLOVER, examples left over from the last epoch count. */
MX_API int64_t mx_batch_count(int64_t examples, int64_t batch_size, mx_last_batch last_batch);

/* One array (examples, ...) of arrays of different shapes, each padded to the largest: mx_pad_batch(rows).  The result
 * is on the CPU. */
struct mx_pad_batch_args {
    double value;       /* the padding value */
    int64_t axis;       /* of round_to and lengths; MX_NONE_INT: all axes, and the first */
    int64_t round_to;   /* sizes become multiples of it; 0: no rounding */
    mx_dtype dtype;     /* MX_DTYPE_NONE: that of the first */
    mx_array **lengths; /* receives the sizes before padding, int32 (examples); may be NULL */
    char positional_;
    mx_arrays examples;
};
#define mx_pad_batch(...)                                                                                \
    mx_pad_batch_make(&(struct mx_pad_batch_args){.value = 0, .axis = MX_NONE_INT, .round_to = 0,        \
                                                  .dtype = MX_DTYPE_NONE, .lengths = NULL, .positional_ = 0, \
                                                  __VA_ARGS__})
MX_API mx_array *mx_pad_batch_make(const struct mx_pad_batch_args *args);

struct mx_loader_args {
    bool shuffle;
    mx_sampler *sampler; /* instead of shuffle */
    mx_last_batch last_batch;
    int num_workers; /* threads that prepare batches ahead; 0: the caller prepares them */
    int prefetch;    /* batches ahead, at least one per worker; 0: two per worker */
    uint64_t seed;   /* of the shuffling; 0: from the random number generator */
    bool pad;        /* examples of different shapes are padded with pad_value: mx_pad_batch */
    double pad_value;
    mx_context context; /* where batches are put; default: the current one */
    char positional_;
    mx_dataset *dataset;
    int64_t batch_size;
};
#define mx_data_loader(...) mx_data_loader_make(&(struct mx_loader_args){.positional_ = 0, __VA_ARGS__})
MX_API mx_loader *mx_data_loader_make(const struct mx_loader_args *args);
MX_API int64_t mx_loader_batches(const mx_loader *loader); /* in the coming epoch */
MX_API int64_t mx_loader_examples(const mx_loader *loader);

typedef struct mx_batch {
    mx_array *data, *label; /* arrays 0 and 1 of the examples, stacked; label NULL if there is none */
    mx_arrays arrays;       /* all of them */
    int64_t size;           /* examples */
    int64_t index;          /* of the batch in its epoch */
} mx_batch;

/* The next batch of the running epoch into *batch, owned by the scope; false at its end or on an error.  After the
 * end the next call starts the next epoch. */
MX_API bool mx_loader_next(mx_loader *loader, mx_batch *batch);
MX_API void mx_loader_restart(mx_loader *loader); /* drops the rest of the running epoch */
/* One scope per batch: what the body computes is released before the next batch. */
typedef struct mx_epoch {
    mx_loader *loader;
    mx_scope scope;
} mx_epoch;
MX_API mx_epoch mx_epoch_begin(mx_loader *loader);
MX_API bool mx_epoch_next(mx_epoch *epoch, mx_batch *batch);
MX_API void mx_epoch_end(mx_epoch *epoch);
#define mx_for_each_batch(batch, loader) \
    MX_EPOCH_AS_(MX_CONCAT(mx_epoch_, __COUNTER__), MX_CONCAT(mx_once_, __COUNTER__), batch, loader)
#define MX_EPOCH_AS_(epoch, once, batch, loader)                                                                  \
    for (mx_epoch epoch __attribute__((cleanup(mx_epoch_end))) = mx_epoch_begin(loader), *once = &epoch; once;     \
         once = NULL)                                                                                              \
        for (mx_batch batch = {.size = 0}; mx_epoch_next(&epoch, &batch);)

#endif
