/* Record files of the images in lists (see gluon/recordio.h).
 *
 *     PREFIX*.lst --> for each: blocks of images --> threads: read, crop, resize, encode --> records, in list order
 *
 * An image that cannot be read or encoded is left out and reported; a list of which nothing is left is an error, and an
 * existing record file stays as it was.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE
#include "gluon/data/im2rec.h"

#include <dirent.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/threads.h"
#include "gluon/data.h"
#include "gluon/image.h"

#define BLOCK 64                    /* images per thread before they are written */
#define LARGEST ((int64_t)1 << 30)  /* bytes of an image file */
#define REPORT_EVERY 1000           /* images */

typedef struct packed {
    mx_array *record; /* retained; NULL: left out */
    char *problem;    /* owned; why */
} packed;

typedef struct job {
    const struct mx_im2rec_args *args;
    const mx_dataset *list;
    int64_t first, count; /* images of this block */
    packed *results;      /* (count) */
} job;

/* ---- one image -------------------------------------------------------------------------------------------------- */

/* The largest square in the centre. */
static mx_array *square(mx_array *image)
{
    const int64_t height = image->shape[0], width = image->shape[1], side = height < width ? height : width;
    return mx_image_fixed_crop(image, (mx_region){(width - side) / 2, (height - side) / 2, side, side}, 0, 0, 1);
}

/* The bytes of the image file for a record. */
static mx_array *encoded(const struct mx_im2rec_args *args, const char *path)
{
    if (args->pass_through) {
        int64_t size;
        void *bytes = mx_file_read(path, LARGEST, &size);
        mx_array *x = bytes ? mx_array_from(MX_DIMS(size), MX_UINT8, bytes) : NULL;
        mx_free(bytes, bytes ? (size_t)size + 1 : 0);
        return x;
    }
    mx_array *image = mx_imread(path, .flag = args->color);
    if (image && args->center_crop)
        image = square(image);
    if (image && args->resize > 0)
        image = mx_image_resize_short(image, args->resize, 1);
    return image ? mx_imencode(image, args->encoding, .quality = args->quality) : NULL;
}

static mx_array *record_of(const job *j, int64_t i)
{
    int64_t n = 0;
    const float *labels = mx_image_labels(j->list, i, &n);
    mx_array *bytes = encoded(j->args, mx_image_path(j->list, i));
    if (!bytes || !labels)
        return NULL;
    const bool all = j->args->pack_label && n > 1;
    return mx_record_pack((mx_record_header){.label = labels[0], .id = (uint64_t)mx_image_key(j->list, i)}, labels,
                          all ? n : 0, mx_data(bytes), bytes->size);
}

static void pack_one(const job *j, int64_t k)
{
    mx_scoped() {
        mx_array *record = record_of(j, j->first + k);
        if (record)
            j->results[k].record = mx_retain(record);
        else
            j->results[k].problem = mx_strdup(mx_error_message());
    }
    mx_error_clear(); /* of this thread */
}

static void pack_part(void *user, int part, int parts)
{
    const job *j = user;
    for (int64_t k = part; k < j->count; k += parts)
        pack_one(j, k);
}

/* ---- one list --------------------------------------------------------------------------------------------------- */

/* Writes the results of a block, in order, and frees them. */
static mx_code write_block(const job *j, mx_record_writer *writer, int64_t *written)
{
    mx_code code = MX_OK;
    for (int64_t k = 0; k < j->count; k++) {
        packed *p = &j->results[k];
        char key[32];
        snprintf(key, sizeof key, "%lld", (long long)mx_image_key(j->list, j->first + k));
        if (p->record && !code)
            code = mx_record_write(writer, key, mx_data(p->record), p->record->size);
        if (p->record && !code && ++*written % REPORT_EVERY == 0)
            mx_im2rec_say(j->args, "%lld images", (long long)*written);
        if (!p->record)
            mx_im2rec_say(j->args, "left out: %s", p->problem ? p->problem : "out of memory");
        mx_release(p->record);
        mx_strfree(p->problem);
        *p = (packed){0};
    }
    return code;
}

static mx_code pack_all(const struct mx_im2rec_args *args, const mx_dataset *list, mx_record_writer *writer,
                        int64_t *written)
{
    const int64_t n = mx_dataset_length(list), block = (int64_t)BLOCK * args->num_thread;
    packed *results = mx_alloc_zero((size_t)block * sizeof *results);
    mx_code code = results ? MX_OK : mx_error_code();
    for (int64_t first = 0; !code && first < n; first += block) {
        job j = {args, list, first, n - first < block ? n - first : block, results};
        mx_parallel_parts(args->num_thread, pack_part, &j);
        code = write_block(&j, writer, written);
    }
    mx_free(results, results ? (size_t)block * sizeof *results : 0);
    return code;
}

/* PATH.lst to PATH.rec and PATH.idx */
static mx_code pack_list(const struct mx_im2rec_args *args, const char *path)
{
    MX_SCOPE;
    mx_text record = {0}, index = {0};
    const int stem = (int)strlen(path) - 4;
    mx_text_print(&record, "%.*s.rec", stem, path);
    mx_text_print(&index, "%.*s.idx", stem, path);
    const char *to = mx_text_to_scope(&record), *beside = mx_text_to_scope(&index);
    const mx_dataset *list = to && beside ? mx_image_list(path, .root = args->root) : NULL;
    mx_record_writer *writer = list ? mx_record_writer_open(to, beside) : NULL;
    int64_t written = 0;
    if (!writer || pack_all(args, list, writer, &written))
        return mx_error_code();
    if (!written)
        return mx_fail(MX_ERR_FILE, "im2rec: none of the %lld images of %s could be packed",
                       (long long)mx_dataset_length(list), path);
    if (mx_record_writer_close(writer))
        return mx_error_code();
    mx_im2rec_say(args, "%s: %lld images", to, (long long)written);
    return MX_OK;
}

/* ---- all lists -------------------------------------------------------------------------------------------------- */

static int by_name(const void *a, const void *b) { return strcmp(*(char *const *)a, *(char *const *)b); }

/* The files PREFIX*.lst, sorted. */
static bool find_lists(const char *prefix, mx_owned_names *lists)
{
    const char *slash = strrchr(prefix, '/'), *base = slash ? slash + 1 : prefix;
    mx_text folder = {0};
    mx_text_print(&folder, "%.*s", slash ? (int)(slash + 1 - prefix) : 1, slash ? prefix : ".");
    DIR *open = mx_text_get(&folder) ? opendir(folder.data) : NULL;
    bool good = open != NULL;
    if (!open && !folder.failed)
        mx_fail(MX_ERR_FILE, "im2rec: the folder %s of the lists cannot be read", folder.data);
    for (struct dirent *entry; good && (entry = readdir(open));) {
        const size_t n = strlen(entry->d_name);
        if (!strncmp(entry->d_name, base, strlen(base)) && n > 4 && !strcmp(entry->d_name + n - 4, ".lst"))
            good = mx_owned_names_push(lists, mx_image_files_join(slash ? folder.data : "", entry->d_name));
    }
    if (open)
        closedir(open);
    mx_text_free(&folder);
    if (lists->length)
        qsort(lists->items, (size_t)lists->length, sizeof *lists->items, by_name);
    return good;
}

static mx_code check_options(const struct mx_im2rec_args *args)
{
    if (mx_im2rec_check(args))
        return mx_error_code();
    const bool png = args->encoding && !strcmp(args->encoding, ".png"),
               jpeg = args->encoding && (!strcmp(args->encoding, ".jpg") || !strcmp(args->encoding, ".jpeg"));
    if (!png && !jpeg)
        return mx_fail(MX_ERR_ARGUMENT, "im2rec: encoding is '%s', wanted .jpg or .png",
                       args->encoding ? args->encoding : "NULL");
    if (args->color < -1 || args->color > 1 || args->resize < 0 || args->num_thread < 1 || args->num_thread > 1024)
        return mx_fail(MX_ERR_ARGUMENT,
                       "im2rec: color is %d, resize %lld, num_thread %d; wanted -1, 0 or 1, at least 0, 1 to 1024",
                       args->color, (long long)args->resize, args->num_thread);
    return MX_OK;
}

mx_code mx_im2rec_make_records(const struct mx_im2rec_args *args)
{
    mx_owned_names lists = {0};
    if (check_options(args))
        return mx_error_code();
    mx_code code = find_lists(args->prefix, &lists) ? MX_OK : mx_error_code();
    if (!code && !lists.length)
        code = mx_fail(MX_ERR_FILE, "im2rec: there is no list %s*.lst; make one first (mx_im2rec_list, or --list)",
                       args->prefix);
    for (int64_t i = 0; !code && i < lists.length; i++)
        code = pack_list(args, lists.items[i]);
    mx_owned_names_free(&lists);
    return code;
}
