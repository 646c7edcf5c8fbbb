/* CIFAR-10 and CIFAR-100 from their binary files: records of one or two label bytes and 3 x 32 x 32 pixels.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/file.h"
#include "base/given.h"
#include "exec/list.h"
#include "gluon/data/data.h"
#include "gluon/op.gen.h"

#define PIXELS 3072
#define MOST_FILES 5
#define LARGEST ((int64_t)1 << 30)

typedef struct source {
    const char *name, *folder;
    const char *train[MOST_FILES], *test[MOST_FILES];
    int labels;     /* bytes before the pixels */
    int classes[2]; /* by byte */
} source;

static const source cifar10 = {"CIFAR10", "cifar10",
                               {"data_batch_1.bin", "data_batch_2.bin", "data_batch_3.bin", "data_batch_4.bin", "data_batch_5.bin"},
                               {"test_batch.bin"}, 1, {10, 0}};
static const source cifar100 = {"CIFAR100", "cifar100", {"train.bin"}, {"test.bin"}, 2, {20, 100}};

/* One file as an array (N, labels + 3072) of the scope. */
static mx_array *load_file(const source *s, const char *root, const char *file)
{
    mx_text path = {0};
    mx_text_print(&path, "%s/%s", root, file);
    const char *name = mx_text_to_scope(&path);
    int64_t size, row = s->labels + PIXELS;
    if (!name)
        return NULL;
    if (!mx_file_exists(name))
        return mx_fail_null(
            MX_ERR_FILE,
            "%s: %s is not in %s; get the binary version of the data set (cs.toronto.edu/~kriz/cifar.html) and unpack its .bin files there",
            s->name, file, root);
    unsigned char *bytes = mx_file_read(name, LARGEST, &size);
    mx_array *rows = NULL;
    if (bytes && (size < 1 || size % row))
        mx_fail(MX_ERR_FILE,
                "%s: the file has %lld bytes, wanted a multiple of %lld: it is truncated or has another format", name,
                (long long)size, (long long)row);
    else if (bytes)
        rows = mx_array_from(MX_DIMS(size / row, row), MX_UINT8, bytes);
    mx_free(bytes, (size_t)size + 1);
    return rows;
}

static mx_array *load(const source *s, const struct mx_cifar_args *a)
{
    mx_array *parts[MOST_FILES];
    const char *root = a->root ? a->root : mx_dataset_folder(s->folder), *const *files = a->train ? s->train : s->test;
    int n = 0;
    for (; root && n < MOST_FILES && files[n]; n++)
        if (!(parts[n] = load_file(s, root, files[n])))
            return NULL;
    return n ? mx_concat(((mx_arrays){parts, n}), .num_args = n, .dim = 0) : NULL;
}

static mx_dataset *make(const source *s, const struct mx_cifar_args *a)
{
    if (!mx_given(a, s->name, "args"))
        return NULL;
    mx_scope scope = mx_scope_open();
    mx_dataset *d = NULL;
    mx_array *rows = load(s, a);
    const int byte = s->labels == 2 && a->fine_label;
    if (rows) {
        const int64_t n = mx_dim(rows, 0);
        mx_array *labels = mx_array_reshape(mx_slice_axis(rows, .axis = 1, .begin = byte, .end = byte + 1), MX_DIMS(n));
        mx_array *images = mx_array_reshape(mx_slice_axis(rows, .axis = 1, .begin = s->labels), MX_DIMS(n, 3, 32, 32));
        images = mx_transpose(images, .axes = MX_DIMS(0, 2, 3, 1)); /* (N, 32, 32, 3) */
        const double most = labels ? mx_item(mx_max(labels)) : 0;
        if (most >= s->classes[byte])
            mx_fail(MX_ERR_FILE, "%s: a label is %g, wanted below %d: the files are damaged", s->name, most,
                    s->classes[byte]);
        else
            d = mx_array_dataset(MX_ARRAYS(images, mx_cast(labels, .dtype = a->raw ? MX_INT32 : MX_FLOAT32)));
    }
    if (d && !a->raw)
        d = mx_dataset_transform_first(d, mx_class_create(mx_class_find(MX_LAYER, "ToTensor"), NULL));
    return mx_scope_return(&scope, d);
}

mx_dataset *mx_cifar10_make(const struct mx_cifar_args *args) { return make(&cifar10, args); }
mx_dataset *mx_cifar100_make(const struct mx_cifar_args *args) { return make(&cifar100, args); }
