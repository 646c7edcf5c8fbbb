/* Data sets of image files: paths and labels; images are read on access (see gluon/data.h).
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "gluon/data/image_files.h"

#include <string.h>

#include "gluon/image.h"

bool mx_owned_names_push(mx_owned_names *names, char *text)
{
    const bool good = text && mx_vec_push(names, text);
    if (!good)
        mx_strfree(text);
    return good;
}

void mx_owned_names_free(mx_owned_names *n)
{
    for (int64_t i = 0; i < n->length; i++)
        mx_strfree(n->items[i]);
    mx_vec_free(n);
}

static void release(void *user)
{
    mx_image_files *f = user;
    for (int64_t i = 0; i < f->items.length; i++)
        mx_strfree(f->items.items[i].path);
    mx_vec_free(&f->items);
    mx_vec_free(&f->labels);
    mx_owned_names_free(&f->classes);
    mx_owned_names_free(&f->skipped);
    mx_free(f, sizeof *f);
}

mx_image_files *mx_image_files_new(int flag)
{
    mx_image_files *f = mx_alloc_zero(sizeof *f);
    if (f)
        f->flag = flag;
    return f;
}

static mx_arrays example(void *user, int64_t i)
{
    const mx_image_files *f = user;
    const mx_image_item *it = &f->items.items[i];
    const float *labels = f->labels.items + it->first_label;
    mx_array *image = mx_imread(it->path, .flag = f->flag);
    if (!image)
        return (mx_arrays){0};
    return mx_results(image,
                      mx_array_from(it->n_labels == 1 ? MX_SCALAR_DIMS : MX_DIMS(it->n_labels), MX_FLOAT32, labels));
}

mx_dataset *mx_image_files_dataset(mx_image_files *f, bool good)
{
    mx_dataset *d = good ? mx_function_dataset(f->items.length, example, f, release) : NULL;
    if (!d)
        release(f);
    return d;
}

char *mx_image_files_join(const char *folder, const char *name)
{
    const size_t length = strlen(folder);
    mx_text path = {0};
    if (*name != '/' && length)
        mx_text_print(&path, folder[length - 1] == '/' ? "%s" : "%s/", folder);
    mx_text_add(&path, name);
    return mx_text_take(&path);
}

bool mx_image_files_add(mx_image_files *f, char *path, int64_t key, const float *labels, int n)
{
    const mx_image_item it = {path, f->labels.length, n, key};
    bool good = path && mx_vec_push(&f->items, it);
    if (!good)
        mx_strfree(path);
    for (int i = 0; good && i < n; i++)
        good = mx_vec_push(&f->labels, labels[i]);
    return good;
}

/* ---- looking ------------------------------------------------------------------------------------------------------------ */

static const mx_image_files *files_of(const mx_dataset *dataset, const char *function)
{
    if (!mx_is_kind(dataset, &mx_dataset_kind, function, "dataset"))
        return NULL;
    if (dataset->example != example)
        return mx_fail_null(MX_ERR_ARGUMENT, "%s: the data set is not one of image files", function);
    return dataset->user;
}

static const mx_image_item *item_of(const mx_dataset *dataset, int64_t i, const char *function)
{
    const mx_image_files *f = files_of(dataset, function);
    if (f && (i < 0 || i >= f->items.length))
        return mx_fail_null(MX_ERR_INDEX, "%s: example %lld of %lld does not exist", function, (long long)i,
                            (long long)f->items.length);
    return f ? &f->items.items[i] : NULL;
}

const char *mx_image_path(const mx_dataset *dataset, int64_t i)
{
    const mx_image_item *it = item_of(dataset, i, "mx_image_path");
    return it ? it->path : NULL;
}

int64_t mx_image_key(const mx_dataset *dataset, int64_t i)
{
    const mx_image_item *it = item_of(dataset, i, "mx_image_key");
    return it ? it->key : -1;
}

const float *mx_image_labels(const mx_dataset *dataset, int64_t i, int64_t *count)
{
    const mx_image_item *it = item_of(dataset, i, "mx_image_labels");
    if (count)
        *count = it ? it->n_labels : 0;
    return it ? ((const mx_image_files *)dataset->user)->labels.items + it->first_label : NULL;
}

static const char *name_at(const mx_owned_names *n, int64_t i) { return i >= 0 && i < n->length ? n->items[i] : NULL; }

const char *mx_image_folder_class(const mx_dataset *dataset, int label)
{
    const mx_image_files *f = files_of(dataset, "mx_image_folder_class");
    return f ? name_at(&f->classes, label) : NULL;
}

const char *mx_image_folder_skipped(const mx_dataset *dataset, int64_t i)
{
    const mx_image_files *f = files_of(dataset, "mx_image_folder_skipped");
    return f ? name_at(&f->skipped, i) : NULL;
}
