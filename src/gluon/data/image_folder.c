/* Data sets of image files: folders by class, and lists (see gluon/data.h).  SPDX-License-Identifier: Apache-2.0 */
#include <dirent.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>

#include "base/file.h"
#include "base/vec.h"
#include "gluon/data/data.h"
#include "gluon/image.h"

#define LARGEST ((int64_t)4 << 30) /* bytes of a list */
#define MOST_LABELS 4096

typedef struct item {
    char *path;
    int64_t first_label; /* in `labels` */
    int n_labels;
} item;

typedef MX_VEC(char *) names;

typedef struct image_files {
    int flag;
    MX_VEC(item) items;
    MX_VEC(float) labels;
    names classes; /* names of the folders */
} image_files;

static void free_names(names *n)
{
    for (int64_t i = 0; i < n->length; i++)
        mx_strfree(n->items[i]);
    mx_vec_free(n);
}

static void release(void *user)
{
    image_files *f = user;
    for (int64_t i = 0; i < f->items.length; i++)
        mx_strfree(f->items.items[i].path);
    mx_vec_free(&f->items);
    mx_vec_free(&f->labels);
    free_names(&f->classes);
    mx_free(f, sizeof *f);
}

static mx_arrays example(void *user, int64_t i)
{
    const image_files *f = user;
    const item *it = &f->items.items[i];
    const float *labels = f->labels.items + it->first_label;
    mx_array *image = mx_imread(it->path, .flag = f->flag);
    if (!image)
        return (mx_arrays){0};
    return mx_results(image,
                      mx_array_from(it->n_labels == 1 ? MX_SCALAR_DIMS : MX_DIMS(it->n_labels), MX_FLOAT32, labels));
}

/* Hands the files to a data set; on failure they are freed. */
static mx_dataset *finish(image_files *f, bool good)
{
    mx_dataset *d = good ? mx_function_dataset(f->items.length, example, f, release) : NULL;
    if (!d)
        release(f);
    return d;
}

/* A copy of folder/name; takes back what it cannot keep. */
static bool add_item(image_files *f, const char *folder, const char *name, const float *labels, int n)
{
    mx_text path = {0};
    mx_text_print(&path, "%s/%s", folder, name);
    item it = {mx_text_take(&path), f->labels.length, n};
    bool good = it.path && mx_vec_push(&f->items, it);
    if (!good)
        mx_strfree(it.path);
    for (int i = 0; good && i < n; i++)
        good = mx_vec_push(&f->labels, labels[i]);
    return good;
}

/* ---- folders -------------------------------------------------------------------------------------------------------- */

static int by_name(const void *a, const void *b) { return strcmp(*(char *const *)a, *(char *const *)b); }

/* What stands in a folder, sorted; names that begin with a point are left out. */
static bool list_folder(const char *path, names *out)
{
    DIR *folder = opendir(path);
    if (!folder) {
        mx_fail(
            MX_ERR_FILE,
            "mx_image_folder: %s cannot be read as a folder; wanted one folder per class, with .jpg and .png files in it",
            path);
        return false;
    }
    bool good = true;
    for (struct dirent *entry; good && (entry = readdir(folder));) {
        char *name = entry->d_name[0] == '.' ? NULL : mx_strdup(entry->d_name);
        good = entry->d_name[0] == '.' || (name && mx_vec_push(out, name));
        if (!good)
            mx_strfree(name);
    }
    closedir(folder);
    if (out->length)
        qsort(out->items, (size_t)out->length, sizeof *out->items, by_name);
    return good;
}

static bool is_image(const char *name)
{
    static const char *const suffixes[] = {".jpg", ".jpeg", ".png"};
    const char *suffix = strrchr(name, '.');
    for (size_t i = 0; suffix && i < sizeof suffixes / sizeof *suffixes; i++)
        if (!strcasecmp(suffix, suffixes[i]))
            return true;
    return false;
}

static bool add_class(image_files *f, const char *root, const char *name)
{
    mx_text text = {0};
    mx_text_print(&text, "%s/%s", root, name);
    char *folder = mx_text_take(&text), *kept = NULL;
    struct stat info;
    names files = {0};
    bool good = folder;
    if (good && stat(folder, &info) == 0 && S_ISDIR(info.st_mode)) {
        const float label = (float)f->classes.length;
        kept = mx_strdup(name);
        good = kept && mx_vec_push(&f->classes, kept);
        if (!good)
            mx_strfree(kept);
        good = good && list_folder(folder, &files);
        for (int64_t i = 0; good && i < files.length; i++)
            if (is_image(files.items[i]))
                good = add_item(f, folder, files.items[i], &label, 1);
    }
    free_names(&files);
    mx_strfree(folder);
    return good;
}

mx_dataset *mx_image_folder_make(const struct mx_images_args *args)
{
    if (!args->path)
        return mx_fail_null(MX_ERR_ARGUMENT, "mx_image_folder: path is NULL, wanted a folder");
    image_files *f = mx_alloc_zero(sizeof *f);
    if (!f)
        return NULL;
    names folders = {0};
    f->flag = args->flag;
    bool good = list_folder(args->path, &folders);
    for (int64_t i = 0; good && i < folders.length; i++)
        good = add_class(f, args->path, folders.items[i]);
    free_names(&folders);
    return finish(f, good);
}

/* ---- lists ------------------------------------------------------------------------------------------------------------ */

static bool list_fail(const char *path, int64_t line)
{
    mx_fail(MX_ERR_FILE, "%s: line %lld is not 'number TAB label [TAB label ...] TAB path'", path, (long long)line);
    return false;
}

/* One line, ended by a zero; its fields are cut apart in place. */
static bool add_line(image_files *f, const char *folder, char *line, float *labels)
{
    char *tab = strchr(line, '\t'), *field = tab ? tab + 1 : line;
    int n = 0;
    for (char *next; tab && (next = strchr(field, '\t')); field = next + 1) {
        char *end;
        *next = 0;
        if (n == MOST_LABELS)
            return false;
        labels[n++] = (float)mx_text_to_number(field, &end);
        if (end == field || *end)
            return false;
    }
    return n > 0 && *field && add_item(f, *field == '/' ? "" : folder, field, labels, n);
}

static bool add_lines(image_files *f, const char *path, const char *folder, char *text)
{
    float *labels = mx_alloc(MOST_LABELS * sizeof *labels);
    bool good = labels;
    int64_t number = 1;
    for (char *line = text; good && *line; number++) {
        char *end = line + strcspn(line, "\n"), *next = *end ? end + 1 : end;
        *end = 0;
        if (end > line && end[-1] == '\r')
            end[-1] = 0;
        if (*line && !add_line(f, folder, line, labels))
            good = mx_error_code() ? false : list_fail(path, number);
        line = next;
    }
    mx_free(labels, MOST_LABELS * sizeof *labels);
    return good;
}

mx_dataset *mx_image_list_make(const struct mx_images_args *args)
{
    if (!args->path)
        return mx_fail_null(MX_ERR_ARGUMENT, "mx_image_list: path is NULL, wanted a list file");
    int64_t size;
    char *text = mx_file_read(args->path, LARGEST, &size), *folder = mx_strdup(args->root ? args->root : args->path);
    image_files *f = text && folder ? mx_alloc_zero(sizeof *f) : NULL;
    mx_dataset *d = NULL;
    if (f) {
        char *slash = args->root ? NULL : strrchr(folder, '/');
        if (slash)
            *slash = 0;
        f->flag = args->flag;
        d = finish(f, add_lines(f, args->path, args->root || slash ? folder : ".", text));
        if (slash)
            *slash = '/'; /* so that the length is right when it is freed */
    }
    mx_strfree(folder);
    mx_free(text, (size_t)size + 1);
    return d;
}

/* ---- looking ------------------------------------------------------------------------------------------------------------ */

static const image_files *files_of(const mx_dataset *dataset, const char *function)
{
    if (!mx_is_kind(dataset, &mx_dataset_kind, function, "dataset"))
        return NULL;
    if (dataset->example != example)
        return mx_fail_null(MX_ERR_ARGUMENT, "%s: the data set is not one of image files", function);
    return dataset->user;
}

const char *mx_image_path(const mx_dataset *dataset, int64_t i)
{
    const image_files *f = files_of(dataset, "mx_image_path");
    if (f && (i < 0 || i >= f->items.length))
        return mx_fail_null(MX_ERR_INDEX, "mx_image_path: example %lld of %lld does not exist", (long long)i,
                            (long long)f->items.length);
    return f ? f->items.items[i].path : NULL;
}

const char *mx_image_folder_class(const mx_dataset *dataset, int label)
{
    const image_files *f = files_of(dataset, "mx_image_folder_class");
    return f && label >= 0 && label < f->classes.length ? f->classes.items[label] : NULL;
}
