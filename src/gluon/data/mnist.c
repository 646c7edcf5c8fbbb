/* MNIST and FashionMNIST from local files.  SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/flags.h"
#include "base/given.h"
#include "exec/list.h"
#include "gluon/data/data.h"
#include "gluon/op.gen.h"

typedef struct source {
    const char *name;   /* "FashionMNIST" */
    const char *folder; /* under the data folder: "fashion-mnist" */
    const char *system; /* where the system's package puts the files; NULL: none */
    const char *advice; /* how to get the files */
} source;

static const source fashion = {"FashionMNIST", "fashion-mnist", "/usr/share/datasets/fashion-mnist",
                               "on Debian: apt-get install dataset-fashion-mnist"};
static const source digits = {"MNIST", "mnist", NULL, "put the four idx files of MNIST there"};

static const char *const classes[] = {"t-shirt", "trouser", "pullover", "dress", "coat",
                                      "sandal",  "shirt",   "sneaker",  "bag",   "ankle boot"};
const char *mx_fashion_mnist_class(int label) { return label >= 0 && label < 10 ? classes[label] : NULL; }

/* folder/file.gz or folder/file, whichever exists; belongs to the scope; NULL without an error. */
static const char *find_in(const char *folder, const char *file)
{
    for (int packed = 1; packed >= 0; packed--) {
        mx_text path = {0};
        mx_text_print(&path, "%s/%s%s", folder, file, packed ? ".gz" : "");
        const char *found = mx_text_to_scope(&path);
        if (found && mx_file_exists(found))
            return found;
    }
    return NULL;
}

const char *mx_dataset_folder(const char *name)
{
    mx_text path = {0};
    const char *home = getenv("HOME");
    if (*mx_flags_get()->home)
        mx_text_print(&path, "%s/datasets/%s", mx_flags_get()->home, name);
    else
        mx_text_print(&path, "%s/.mxnet/datasets/%s", home ? home : ".", name);
    return mx_text_to_scope(&path);
}

static const char *find(const source *s, const char *root, const char *file)
{
    const char *own = root ? root : mx_dataset_folder(s->folder);
    const char *path = !root && s->system ? find_in(s->system, file) : NULL;
    if (!path && own)
        path = find_in(own, file);
    if (path || mx_has_error())
        return path;
    return mx_fail_null(MX_ERR_FILE, "%s: %s.gz is not in %s%s%s; %s", s->name, file, own,
                        !root && s->system ? " and not in " : "", !root && s->system ? s->system : "", s->advice);
}

static mx_array *load(const source *s, const struct mx_mnist_args *a, const char *what)
{
    mx_text name = {0};
    mx_text_print(&name, "%s-%s", a->train ? "train" : "t10k", what);
    const char *file = mx_text_to_scope(&name);
    const char *path = file ? find(s, a->root, file) : NULL;
    return path ? mx_load_idx(path) : NULL;
}

static mx_dataset *make(const source *s, const struct mx_mnist_args *a)
{
    if (!mx_given(a, s->name, "args"))
        return NULL;
    mx_scope scope = mx_scope_open();
    mx_array *images = load(s, a, "images-idx3-ubyte"), *labels = images ? load(s, a, "labels-idx1-ubyte") : NULL;
    if (images && labels &&
        (images->ndim != 3 || labels->ndim != 1 || images->shape[0] != labels->shape[0] || images->dtype != MX_UINT8)) {
        mx_fail(MX_ERR_FILE, "%s: the image and label files do not belong together", s->name);
        images = NULL;
    }
    mx_dataset *d = NULL;
    if (images && labels) {
        images = mx_array_reshape(images, MX_DIMS(0, 0, 0, 1)); /* (N, 28, 28, 1) */
        labels = mx_cast(labels, .dtype = a->raw ? MX_INT32 : MX_FLOAT32);
        d = mx_array_dataset(MX_ARRAYS(images, labels));
    }
    if (d && !a->raw)
        d = mx_dataset_transform_first(d, mx_class_create(mx_class_find(MX_LAYER, "ToTensor"), NULL));
    return mx_scope_return(&scope, d);
}

mx_dataset *mx_fashion_mnist_make(const struct mx_mnist_args *args) { return make(&fashion, args); }
mx_dataset *mx_mnist_make(const struct mx_mnist_args *args) { return make(&digits, args); }
