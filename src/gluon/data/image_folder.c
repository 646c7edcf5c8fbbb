/* Images in folders, one per class (see gluon/data.h).
 *
 *     pets/cat/1.jpg  pets/cat/notes.txt  pets/dog/2.png  pets/readme
 *     classes: cat, dog    items: (pets/cat/1.jpg, 0), (pets/dog/2.png, 1)    skipped: notes.txt, readme, with reasons
 *
 * Everything is sorted by name, so labels do not depend on the machine that scans the folder.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <dirent.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>

#include "gluon/data/image_files.h"

static int by_name(const void *a, const void *b) { return strcmp(*(char *const *)a, *(char *const *)b); }

/* The sorted entries of a folder. */
static bool list_folder(const char *path, mx_owned_names *out)
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
        if (!strcmp(entry->d_name, ".") || !strcmp(entry->d_name, ".."))
            continue;
        good = mx_owned_names_push(out, mx_strdup(entry->d_name));
    }
    closedir(folder);
    if (out->length)
        qsort(out->items, (size_t)out->length, sizeof *out->items, by_name);
    return good;
}

/* The suffix of a name, from its last dot; leading dots do not count. */
static const char *suffix_of(const char *name)
{
    name += strspn(name, ".");
    const char *suffix = strrchr(name, '.');
    return suffix ? suffix : "";
}

static bool is_image(const char *name)
{
    static const char *const suffixes[] = {".jpg", ".jpeg", ".png"};
    for (size_t i = 0; i < sizeof suffixes / sizeof *suffixes; i++)
        if (!strcasecmp(suffix_of(name), suffixes[i]))
            return true;
    return false;
}

static bool add_image(mx_image_files *f, const char *folder, const char *name)
{
    const float label = (float)(f->classes.length - 1);
    char *path = mx_image_files_join(folder, name);
    if (!path || is_image(name))
        return mx_image_files_add(f, path, f->items.length, &label, 1);
    mx_text why = {0};
    mx_text_print(&why, "%s is left out: '%s' is not one of .jpg, .jpeg, .png", path, suffix_of(name));
    mx_strfree(path);
    return mx_owned_names_push(&f->skipped, mx_text_take(&why));
}

static bool add_class(mx_image_files *f, const char *folder, const char *name)
{
    mx_owned_names files = {0};
    bool good = mx_owned_names_push(&f->classes, mx_strdup(name)) && list_folder(folder, &files);
    for (int64_t i = 0; good && i < files.length; i++)
        good = add_image(f, folder, files.items[i]);
    mx_owned_names_free(&files);
    return good;
}

static bool add_entry(mx_image_files *f, const char *root, const char *name)
{
    struct stat info;
    mx_text why = {0};
    char *path = mx_image_files_join(root, name);
    bool good = path;
    if (good && !stat(path, &info) && S_ISDIR(info.st_mode)) {
        good = add_class(f, path, name);
    } else if (good) {
        mx_text_print(&why, "%s is not a folder and is left out", path);
        good = mx_owned_names_push(&f->skipped, mx_text_take(&why));
    }
    mx_strfree(path);
    return good;
}

mx_dataset *mx_image_folder_make(const struct mx_images_args *args)
{
    if (!args || !args->path)
        return mx_fail_null(MX_ERR_ARGUMENT, "mx_image_folder: path is NULL, wanted a folder");
    mx_image_files *f = mx_image_files_new(args->flag);
    mx_owned_names folders = {0};
    if (!f)
        return NULL;
    bool good = list_folder(args->path, &folders);
    for (int64_t i = 0; good && i < folders.length; i++)
        good = add_entry(f, args->path, folders.items[i]);
    mx_owned_names_free(&folders);
    return mx_image_files_dataset(f, good);
}
