/* Images listed in a file of lines "number TAB label [TAB label ...] TAB path" (see gluon/data.h).
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "gluon/data/image_files.h"

#define LARGEST ((int64_t)4 << 30) /* bytes of a list */
#define MOST_LABELS 4096

static bool list_fail(const char *path, int64_t line)
{
    mx_fail(MX_ERR_FILE, "%s: line %lld is not 'number TAB label [TAB label ...] TAB path'", path, (long long)line);
    return false;
}

/* Whether a field is a number, perhaps between blanks. */
static bool read_number(const char *field, double *number)
{
    char *end;
    *number = mx_text_to_number(field, &end);
    return end != field && !end[strspn(end, " ")];
}

static bool read_key(const char *field, int64_t *key)
{
    char *end;
    errno = 0;
    *key = strtoll(field, &end, 10);
    return end != field && !errno && !end[strspn(end, " ")];
}

/* Parses one zero-terminated line; splits its fields in place. */
static bool add_line(mx_image_files *f, const char *folder, char *line, float *labels)
{
    char *tab = strchr(line, '\t'), *field = tab ? tab + 1 : line;
    int64_t key;
    int n = 0;
    if (!tab)
        return false;
    *tab = 0;
    if (!read_key(line, &key))
        return false;
    for (char *next; (next = strchr(field, '\t')); field = next + 1) {
        double number;
        *next = 0;
        if (n == MOST_LABELS || !read_number(field, &number))
            return false;
        labels[n++] = (float)number;
    }
    return n > 0 && *field && mx_image_files_add(f, mx_image_files_join(folder, field), key, labels, n);
}

static bool add_lines(mx_image_files *f, const char *path, const char *folder, char *text)
{
    float *labels = mx_alloc(MOST_LABELS * sizeof *labels);
    bool good = labels;
    int64_t number = 1;
    for (char *line = text; good && *line; number++) {
        char *end = line + strcspn(line, "\n"), *next = *end ? end + 1 : end;
        *end = 0;
        line += strspn(line, " \t");
        while (end > line && strchr(" \t\r", end[-1]))
            *--end = 0;
        if (*line && !add_line(f, folder, line, labels))
            good = mx_error_code() ? false : list_fail(path, number);
        line = next;
    }
    mx_free(labels, MOST_LABELS * sizeof *labels);
    return good;
}

/* The folder that paths are relative to: root, else the list's own.  For mx_strfree. */
static char *folder_of(const struct mx_images_args *args)
{
    const char *slash = strrchr(args->path, '/');
    mx_text folder = {0};
    if (args->root || !slash)
        return mx_strdup(args->root ? args->root : "");
    mx_text_print(&folder, "%.*s", (int)(slash + 1 - args->path), args->path);
    return mx_text_take(&folder);
}

mx_dataset *mx_image_list_make(const struct mx_images_args *args)
{
    if (!args || !args->path)
        return mx_fail_null(MX_ERR_ARGUMENT, "mx_image_list: path is NULL, wanted a list file");
    int64_t size;
    char *text = mx_file_read(args->path, LARGEST, &size), *folder = text ? folder_of(args) : NULL;
    mx_image_files *f = folder ? mx_image_files_new(args->flag) : NULL;
    mx_dataset *d = f ? mx_image_files_dataset(f, add_lines(f, args->path, folder, text)) : NULL;
    mx_strfree(folder);
    mx_free(text, text ? (size_t)size + 1 : 0);
    return d;
}
