/* Lists of images for record files (see gluon/recordio.h).
 *
 *     root/cat/1.jpg  root/dog/2.jpg  -->  0 TAB 0.000000 TAB cat/1.jpg
 *                                          1 TAB 1.000000 TAB dog/2.jpg
 *
 * Folders are visited in the order of their names, files before folders; every folder that has images is a class.
 * Numbers are given in this order, then the lines are shuffled and distributed.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE
#include <dirent.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>

#include "base/file.h"
#include "base/given.h"
#include "base/rng.h"
#include "gluon/data/im2rec.h"

#define SEED 100        /* of the order */
#define MOST_DEPTH 64   /* folders in folders: links may go round in circles */

typedef struct found {
    char *path; /* owned; relative to root */
    int64_t id;
    int label;
} found;

typedef struct scan {
    const struct mx_im2rec_args *args;
    MX_VEC(found) items;
    int classes;
} scan;

void mx_im2rec_say(const struct mx_im2rec_args *args, const char *format, ...)
{
    char line[4096];
    va_list list;
    if (!args->report)
        return;
    va_start(list, format);
    vsnprintf(line, sizeof line, format, list);
    va_end(list);
    args->report(args->user, line);
}

/* ---- finding ---------------------------------------------------------------------------------------------------- */

static bool is_wanted(const struct mx_im2rec_args *args, const char *name)
{
    static const char *const usual[] = {".jpeg", ".jpg", ".png", NULL};
    const char *suffix = strrchr(name, '.');
    for (const char *const *e = args->exts ? args->exts : usual; suffix && *e; e++)
        if (!strcasecmp(suffix, *e))
            return true;
    return false;
}

static int by_name(const void *a, const void *b) { return strcmp(*(char *const *)a, *(char *const *)b); }

static bool read_names(const char *path, mx_owned_names *names)
{
    DIR *folder = opendir(path);
    bool good = true;
    if (!folder)
        return mx_fail(MX_ERR_FILE, "im2rec: %s cannot be read as a folder", path), false;
    for (struct dirent *entry; good && (entry = readdir(folder));)
        if (strcmp(entry->d_name, ".") && strcmp(entry->d_name, ".."))
            good = mx_owned_names_push(names, mx_strdup(entry->d_name));
    closedir(folder);
    if (names->length)
        qsort(names->items, (size_t)names->length, sizeof *names->items, by_name);
    return good;
}

static bool add_file(scan *s, const char *folder, const char *name, int *label)
{
    found one = {mx_image_files_join(folder, name), s->items.length, 0};
    if (*label < 0 && s->args->recursive) {
        *label = s->classes++;
        mx_im2rec_say(s->args, "%s %d", *folder ? folder : ".", *label);
    }
    one.label = s->args->recursive ? *label : 0;
    if (one.path && mx_vec_push(&s->items, one))
        return true;
    mx_strfree(one.path);
    return false;
}

static bool visit(scan *s, const char *folder, int depth);

/* A file, in the first of two passes, or a folder, in the second. */
static bool visit_entry(scan *s, const char *folder, const char *name, int depth, bool folders, int *label)
{
    struct stat info;
    char *inner = mx_image_files_join(folder, name), *path = inner ? mx_image_files_join(s->args->root, inner) : NULL;
    bool good = path != NULL;
    if (good && !stat(path, &info)) {
        if (S_ISDIR(info.st_mode) && folders && s->args->recursive)
            good = visit(s, inner, depth + 1);
        else if (S_ISREG(info.st_mode) && !folders && is_wanted(s->args, name))
            good = add_file(s, folder, name, label);
    }
    mx_strfree(path);
    mx_strfree(inner);
    return good;
}

/* folder: relative to root, "" for root itself */
static bool visit(scan *s, const char *folder, int depth)
{
    mx_owned_names names = {0};
    int label = -1;
    if (depth > MOST_DEPTH)
        return mx_fail(MX_ERR_FILE, "im2rec: %s/%s is more than %d folders deep; does a link lead back?", s->args->root,
                       folder, MOST_DEPTH),
               false;
    char *path = mx_image_files_join(s->args->root, folder);
    bool good = path && read_names(*folder ? path : s->args->root, &names);
    for (int folders = 0; folders < 2; folders++)
        for (int64_t i = 0; good && i < names.length; i++)
            good = visit_entry(s, folder, names.items[i], depth, folders, &label);
    mx_owned_names_free(&names);
    mx_strfree(path);
    return good;
}

/* ---- writing ---------------------------------------------------------------------------------------------------- */

static void shuffle(scan *s)
{
    for (int64_t i = s->items.length - 1; i > 0; i--) {
        uint32_t words[4];
        mx_philox(SEED, (uint64_t)i, words);
        const int64_t j = (int64_t)(((uint64_t)words[0] << 32 | words[1]) % (uint64_t)(i + 1));
        const found kept = s->items.items[i];
        s->items.items[i] = s->items.items[j];
        s->items.items[j] = kept;
    }
}

/* Items begin..end of the scan as PREFIX CHUNK KIND.lst */
static mx_code write_list(const scan *s, const char *chunk, const char *kind, int64_t begin, int64_t end)
{
    mx_text text = {0}, path = {0};
    for (int64_t i = begin; i < end; i++)
        mx_text_print(&text, "%lld\t%d.000000\t%s\n", (long long)s->items.items[i].id, s->items.items[i].label,
                      s->items.items[i].path);
    mx_text_print(&path, "%s%s%s.lst", s->args->prefix, chunk, kind);
    mx_code code =
        mx_text_get(&text) && mx_text_get(&path) && mx_file_write(path.data, mx_text_get(&text), (int64_t)text.length)
            ? MX_OK
            : mx_error_code();
    if (!code)
        mx_im2rec_say(s->args, "%s: %lld images", path.data, (long long)(end - begin));
    mx_text_free(&text);
    mx_text_free(&path);
    return code;
}

static mx_code write_chunk(const scan *s, const char *name, int64_t begin, int64_t end, int64_t size)
{
    const double train = s->args->train_ratio, test = s->args->test_ratio;
    if (train == 1)
        return write_list(s, name, "", begin, end);
    int64_t tested = begin + (int64_t)((double)size * test), trained = tested + (int64_t)((double)size * train);
    tested = tested < end ? tested : end, trained = trained < end ? trained : end;
    mx_code code = test > 0 ? write_list(s, name, "_test", begin, tested) : MX_OK;
    if (!code && train + test < 1)
        code = write_list(s, name, "_val", trained, end);
    return code ? code : write_list(s, name, "_train", tested, trained);
}

static mx_code write_chunks(const scan *s)
{
    const int64_t n = s->items.length, chunks = s->args->chunks, size = (n + chunks - 1) / chunks;
    mx_code code = MX_OK;
    for (int64_t i = 0; !code && i < chunks; i++) {
        char name[32] = "";
        if (chunks > 1)
            snprintf(name, sizeof name, "_%lld", (long long)i);
        const int64_t begin = i * size < n ? i * size : n, end = begin + size < n ? begin + size : n;
        code = write_chunk(s, name, begin, end, size);
    }
    return code;
}

mx_code mx_im2rec_check(const struct mx_im2rec_args *args)
{
    if (!mx_given(args, "im2rec", "args"))
        return mx_error_code();
    if (!args->prefix || !*args->prefix || !args->root || !*args->root)
        return mx_fail(MX_ERR_ARGUMENT, "im2rec: %s is missing", args->prefix && *args->prefix ? "root" : "prefix");
    if (args->chunks < 1 || !(args->train_ratio >= 0 && args->test_ratio >= 0) ||
        args->train_ratio + args->test_ratio > 1 + 1e-9)
        return mx_fail(MX_ERR_ARGUMENT,
                       "im2rec: chunks is %d, train_ratio %g, test_ratio %g; wanted at least one chunk and fractions "
                       "whose sum is at most 1",
                       args->chunks, args->train_ratio, args->test_ratio);
    return MX_OK;
}

mx_code mx_im2rec_make_lists(const struct mx_im2rec_args *args)
{
    scan s = {.args = args};
    if (mx_im2rec_check(args))
        return mx_error_code();
    mx_code code = visit(&s, "", 0) ? MX_OK : mx_error_code();
    if (!code && !s.items.length)
        code = mx_fail(MX_ERR_FILE, "im2rec: there are no images in %s%s", args->root,
                       args->recursive ? "" : " itself; look into its folders with recursive");
    if (!code && args->shuffle)
        shuffle(&s);
    code = code ? code : write_chunks(&s);
    for (int64_t i = 0; i < s.items.length; i++)
        mx_strfree(s.items.items[i].path);
    mx_vec_free(&s.items);
    return code;
}
