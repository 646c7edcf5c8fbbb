/* Data sets of image files from the inside: what folders (image_folder.c) and lists (image_list.c) share.
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
    int64_t key; /* the number in a list; in folders that of the example */
} mx_image_item;

typedef MX_VEC(char *) mx_owned_names;

typedef struct mx_image_files {
    int flag; /* of mx_imread */
    MX_VEC(mx_image_item) items;
    MX_VEC(float) labels;
    mx_owned_names classes; /* names of the folders */
    mx_owned_names skipped; /* what is in the folders and no example: "PATH is not a folder ..." */
} mx_image_files;

mx_image_files *mx_image_files_new(int flag);
/* Hands the files to a data set; if they are not good or that fails, they are freed. */
mx_dataset *mx_image_files_dataset(mx_image_files *files, bool good);
/* Takes the path over, which may be NULL: then it fails. */
bool mx_image_files_add(mx_image_files *files, char *path, int64_t key, const float *labels, int n);
/* folder/name, for mx_strfree; a name that begins with a slash, and one in the folder "", stand for themselves. */
char *mx_image_files_join(const char *folder, const char *name);
bool mx_owned_names_push(mx_owned_names *names, char *text); /* takes the text, which may be NULL */
void mx_owned_names_free(mx_owned_names *names);

#endif
