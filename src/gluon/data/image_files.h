/* Internals of image file data sets: what folders (image_folder.c) and lists (image_list.c) share.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef MX_GLUON_DATA_IMAGE_FILES_H
#define MX_GLUON_DATA_IMAGE_FILES_H

#include "base/vec.h"
#include "gluon/data/data.h"

typedef struct mx_image_item {
    char *path;          /* owned */
    int64_t first_label; /* in `labels` */
    int n_labels;
    int64_t key; /* the number in a list; in folders the example's index */
} mx_image_item;

typedef MX_VEC(char *) mx_owned_names;

typedef struct mx_image_files {
    int flag; /* of mx_imread */
    MX_VEC(mx_image_item) items;
    MX_VEC(float) labels;
    mx_owned_names classes; /* names of the folders */
    mx_owned_names skipped; /* ignored files: "PATH is not a folder ..." */
} mx_image_files;

mx_image_files *mx_image_files_new(int flag);
/* Moves the files to a data set; if they are invalid or that fails, they are freed. */
mx_dataset *mx_image_files_dataset(mx_image_files *files, bool good);
/* Takes ownership of the path; fails if it is NULL. */
bool mx_image_files_add(mx_image_files *files, char *path, int64_t key, const float *labels, int n);
/* folder/name, for mx_strfree; just the name if it begins with a slash or the folder is "". */
char *mx_image_files_join(const char *folder, const char *name);
bool mx_owned_names_push(mx_owned_names *names, char *text); /* takes ownership of the text, which may be NULL */
void mx_owned_names_free(mx_owned_names *names);

#endif
