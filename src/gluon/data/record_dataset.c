/* Data sets of record files: x.rec in the order of x.idx (see gluon/data.h).
 *
 * One reader serves all threads, one record at a time; images are decoded outside the lock.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <pthread.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/file.h"
#include "base/given.h"
#include "gluon/data/data.h"
#include "gluon/image.h"
#include "gluon/recordio.h"

typedef struct record_file {
    mx_record_reader *reader; /* retained */
    mx_record_index *index;   /* retained */
    pthread_mutex_t lock;     /* of the reader */
    int flag;                 /* of the images */
} record_file;

static void release(void *user)
{
    record_file *f = user;
    mx_release(f->reader);
    mx_release(f->index);
    pthread_mutex_destroy(&f->lock);
    mx_free(f, sizeof *f);
}

static mx_array *record_at(record_file *f, int64_t i)
{
    pthread_mutex_lock(&f->lock);
    mx_array *record = mx_record_read_at(f->reader, mx_record_index_position(f->index, i));
    pthread_mutex_unlock(&f->lock);
    return record;
}

static mx_arrays bytes_example(void *user, int64_t i)
{
    mx_array *record = record_at(user, i);
    return record ? mx_results(record) : (mx_arrays){0};
}

static mx_arrays image_example(void *user, int64_t i)
{
    record_file *f = user;
    mx_record_header header;
    mx_array *labels, *payload, *record = record_at(f, i);
    if (!record || mx_record_unpack(record, &header, &labels, &payload))
        return (mx_arrays){0};
    mx_array *image = mx_imdecode(mx_array_data(payload), mx_size(payload), .flag = f->flag);
    if (!image)
        return (mx_arrays){0};
    return mx_results(image, header.flag ? labels : mx_array_from(MX_SCALAR_DIMS, MX_FLOAT32, &header.label));
}

/* "x.idx" for "x.rec"; of the scope. */
static const char *index_path(const char *path)
{
    mx_text text = {0};
    const char *point = strrchr(path, '.'), *slash = strrchr(path, '/');
    const size_t length = point && (!slash || point > slash) ? (size_t)(point - path) : strlen(path);
    mx_text_add_bytes(&text, path, length);
    mx_text_add(&text, ".idx");
    return mx_text_to_scope(&text);
}

static mx_dataset *make(const char *path, int flag, mx_example_fn example, const char *function)
{
    if (!path)
        return mx_fail_null(MX_ERR_ARGUMENT, "%s: path is NULL, wanted a .rec file", function);
    mx_scope scope = mx_scope_open();
    const char *beside = index_path(path);
    mx_dataset *d = NULL;
    record_file *f = NULL;
    if (beside && mx_file_exists(path) && !mx_file_exists(beside))
        mx_fail(MX_ERR_FILE, "%s: %s has no index %s; write the file with an indexed writer", function, path, beside);
    else if (beside && (f = mx_alloc_zero(sizeof *f))) {
        pthread_mutex_init(&f->lock, NULL);
        f->flag = flag;
        f->reader = mx_keep(mx_record_reader_open(path));
        f->index = f->reader ? mx_keep(mx_record_index_load(beside)) : NULL;
        if (f->index)
            d = mx_function_dataset(mx_record_index_count(f->index), example, f, release);
        if (!d)
            release(f);
    }
    return mx_scope_return(&scope, d);
}

mx_dataset *mx_record_dataset(const char *path) { return make(path, 1, bytes_example, "mx_record_dataset"); }

mx_dataset *mx_image_record_dataset_make(const struct mx_images_args *args)
{
    if (!mx_given(args, "mx_image_record_dataset", "args"))
        return NULL;
    return make(args->path, args->flag, image_example, "mx_image_record_dataset");
}
