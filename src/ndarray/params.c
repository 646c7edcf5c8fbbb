/* .params files: a list of arrays, with or without names.
 *
 *     u64 0x112, u64 0, u64 count, records, u64 names (0 or count), { u64 length, bytes }
 *
 * Arrays are written as records that MXNet 1.9 reads, zero-size ones too; 0-d arrays, which its classic mode does not
 * support, as records of its NumPy mode.  A reader of untrusted bytes validates before it allocates.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "ndarray/params.h"

#include <inttypes.h>
#include <string.h>

#include "base/alloc.h"
#include "base/dict.h"
#include "base/error.h"
#include "base/given.h"
#include "base/vec.h"
#include "ndarray/dtype.h"
#include "ndarray/sparse.h"

struct mx_array_dict {
    mx_object object;
    MX_VEC(mx_array *) arrays; /* retained */
    MX_VEC(char *) names;      /* owned; as many as arrays, or none */
    mx_dict places;            /* name -> its last index + 1 */
    mx_array *none;            /* retained: represents missing arrays, shape (0,); NULL before the first */
};

static void dict_destroy(mx_object *self)
{
    mx_array_dict *dict = (mx_array_dict *)self;
    for (int64_t i = 0; i < dict->arrays.length; i++)
        mx_release(dict->arrays.items[i]);
    for (int64_t i = 0; i < dict->names.length; i++)
        mx_strfree(dict->names.items[i]);
    mx_release(dict->none);
    mx_vec_free(&dict->arrays);
    mx_vec_free(&dict->names);
    mx_dict_free(&dict->places);
    mx_free(dict, sizeof *dict);
}

static const mx_kind dict_kind = {"array dict", dict_destroy};

/* ---- reading ----------------------------------------------------------------------------------------------- */
/* All missing arrays of a file share one object: a record of four bytes must not cost hundreds. */
static mx_array *absent(mx_array_dict *dict)
{
    mx_shape_t empty = {.ndim = 1};
    if (!dict->none)
        dict->none = mx_array_new(&empty, MX_FLOAT32, mx_cpu(0));
    return mx_retain(dict->none);
}

static bool read_arrays(mx_array_dict *dict, mx_reader *reader, uint64_t count)
{
    for (uint64_t i = 0; i < count; i++) {
        bool none;
        mx_array *x = mx_params_read_record(reader, &none);
        if (none)
            x = absent(dict);
        if (!x || !mx_vec_push(&dict->arrays, x)) {
            mx_release(x);
            return false;
        }
    }
    return true;
}

static bool read_name(mx_array_dict *dict, mx_reader *reader)
{
    uint64_t length = 0;
    if (!mx_reader_u64(reader, &length, "the length of a name") || !mx_reader_need_items(reader, length, 1, "a name"))
        return false;
    char *bytes = mx_alloc_zero((size_t)length + 1), *name = NULL;
    bool fine = bytes && mx_reader_get(reader, bytes, (int64_t)length, "a name");
    if (fine && strlen(bytes) != length)
        fine = mx_reader_fail(reader, "a name has a zero byte in it");
    fine = fine && (name = mx_strdup(bytes));
    mx_free(bytes, (size_t)length + 1);
    if (!fine || !mx_vec_push(&dict->names, name)) {
        mx_strfree(name);
        return false;
    }
    return mx_dict_set_number(&dict->places, name, dict->names.length);
}

bool mx_params_read(mx_array_dict *dict, mx_reader *reader)
{
    uint64_t magic = 0, reserved, count = 0, names = 0;
    if (!mx_reader_u64(reader, &magic, "the file's first word"))
        return false;
    if (magic != MX_PARAMS_LIST)
        return mx_reader_fail(reader,
                              "the file starts with 0x%" PRIx64 ", wanted 0x%x: this is not a list of arrays "
                              "(Invalid NDArray file format)",
                              magic, MX_PARAMS_LIST);
    mx_reader_u64(reader, &reserved, "the file's second word");
    mx_reader_u64(reader, &count, "the number of arrays");
    if (!mx_reader_need_items(reader, count, 4, "the list of arrays") || !read_arrays(dict, reader, count))
        return false;
    if (!mx_reader_u64(reader, &names, "the number of names"))
        return false;
    if (names && names != count)
        return mx_reader_fail(reader, "there are %" PRIu64 " names for %" PRIu64 " arrays, wanted as many or none",
                              names, count);
    for (uint64_t i = 0; i < names; i++)
        if (!read_name(dict, reader))
            return false;
    if (mx_reader_left(reader))
        return mx_reader_fail(reader, "%" PRId64 " bytes follow the end of the list", mx_reader_left(reader));
    return true;
}

static mx_array_dict *new_dict(void)
{
    mx_array_dict *dict = mx_alloc_zero(sizeof *dict);
    if (dict)
        mx_object_init(&dict->object, &dict_kind);
    return dict;
}

bool mx_array_dict_add(mx_array_dict *dict, const char *name, mx_array *x)
{
    char *copy = x && name ? mx_strdup(name) : NULL;
    if (!x || (name && !copy) || !mx_vec_push(&dict->arrays, x)) {
        mx_release(x);
        mx_strfree(copy);
        return false;
    }
    if (!name)
        return true;
    if (!mx_vec_push(&dict->names, copy))
        return mx_strfree(copy), false;
    return mx_dict_set_number(&dict->places, name, dict->names.length);
}

mx_array_dict *mx_array_dict_of(mx_arrays arrays, const char *const *names)
{
    mx_array_dict *dict = mx_alloc_zero(sizeof *dict);
    if (!dict)
        return NULL;
    mx_object_init(&dict->object, &dict_kind);
    bool ok = true;
    for (int64_t i = 0; ok && i < arrays.n; i++)
        ok = mx_array_dict_add(dict, names[i], mx_retain(arrays.v[i]));
    if (!ok)
        mx_release(dict);
    return ok ? mx_scope_add(dict) : NULL;
}

void mx_array_dict_unname(mx_array_dict *dict)
{
    for (int64_t i = 0; i < dict->names.length; i++)
        mx_strfree(dict->names.items[i]);
    dict->names.length = 0;
    mx_dict_free(&dict->places);
}

/* Reads and closes. */
static mx_array_dict *read_dict(mx_reader *reader, mx_read_arrays_fn read)
{
    mx_array_dict *dict = new_dict();
    if (dict && !read(dict, reader)) {
        mx_release(dict);
        dict = NULL;
    }
    mx_reader_close(reader);
    return mx_scope_add(dict);
}

mx_array_dict *mx_load_with(const char *path, const char *who, mx_read_arrays_fn read)
{
    mx_reader reader;
    if (!path)
        return mx_fail_null(MX_ERR_ARGUMENT, "%s: path is NULL", who);
    return mx_reader_open(&reader, path) ? read_dict(&reader, read) : NULL;
}

mx_array_dict *mx_load_bytes(const void *bytes, size_t count, const char *who, mx_read_arrays_fn read)
{
    mx_reader reader;
    return mx_reader_open_memory(&reader, bytes, (int64_t)count, who) ? read_dict(&reader, read) : NULL;
}

/* ---- accessors --------------------------------------------------------------------------------------------- */
static bool dict_ok(const mx_array_dict *dict, const char *function)
{
    return mx_is_kind(dict, &dict_kind, function, "dict");
}

static bool place_ok(const mx_array_dict *dict, int64_t i, const char *function)
{
    if (!dict_ok(dict, function))
        return false;
    if (i < 0 || i >= dict->arrays.length)
        mx_fail(MX_ERR_INDEX, "%s: i is %" PRId64 ", the file has %" PRId64 " arrays", function, i,
                dict->arrays.length);
    return i >= 0 && i < dict->arrays.length;
}

int64_t mx_array_dict_count(const mx_array_dict *dict)
{
    return dict_ok(dict, "mx_array_dict_count") ? dict->arrays.length : 0;
}

const char *mx_array_dict_name(const mx_array_dict *dict, int64_t i)
{
    return place_ok(dict, i, "mx_array_dict_name") && i < dict->names.length ? dict->names.items[i] : NULL;
}

mx_array *mx_array_dict_at(const mx_array_dict *dict, int64_t i)
{
    return place_ok(dict, i, "mx_array_dict_at") ? mx_scope_add(mx_retain(dict->arrays.items[i])) : NULL;
}

mx_array *mx_array_dict_get(const mx_array_dict *dict, const char *name)
{
    if (!dict_ok(dict, "mx_array_dict_get"))
        return NULL;
    if (!name)
        return mx_fail_null(MX_ERR_ARGUMENT, "mx_array_dict_get: name is NULL");
    int64_t place = mx_dict_get_number(&dict->places, name, 0);
    return place ? mx_scope_add(mx_retain(dict->arrays.items[place - 1])) : NULL;
}

/* ---- writing ----------------------------------------------------------------------------------------------- */
void mx_save_elements(mx_writer *writer, mx_array *x)
{
    size_t bytes = mx_bytes(x);
    if (mx_context_is_host(x->storage->context)) {
        mx_array_wait(x);
        if (bytes)
            mx_writer_put(writer, mx_data(x), bytes);
        return;
    }
    void *stage = mx_alloc(bytes);
    if (!stage || mx_array_read(x, stage, bytes))
        writer->failed = true;
    else
        mx_writer_put(writer, stage, bytes);
    mx_free(stage, bytes);
}

static void put_shape(mx_writer *writer, const mx_array *x)
{
    mx_writer_u32(writer, (uint32_t)x->ndim);
    for (int i = 0; i < x->ndim; i++)
        mx_writer_u64(writer, (uint64_t)x->shape[i]);
}

static void write_sparse(mx_writer *writer, const mx_sparse *x)
{
    mx_array *aux[2] = {x->stype == MX_CSR ? x->indptr : x->indices, x->stype == MX_CSR ? x->indices : NULL};
    mx_writer_u32(writer, MX_PARAMS_V2);
    mx_writer_u32(writer, (uint32_t)x->stype);
    put_shape(writer, x->data);
    put_shape(writer, &x->array);
    mx_writer_u32(writer, MX_CPU);
    mx_writer_u32(writer, 0);
    mx_writer_u32(writer, (uint32_t)x->array.dtype);
    for (int i = 0; i < (int)x->stype; i++) {
        mx_writer_u32(writer, MX_INT64);
        put_shape(writer, aux[i]);
    }
    mx_save_elements(writer, x->data);
    for (int i = 0; i < (int)x->stype; i++)
        mx_save_elements(writer, aux[i]);
}

void mx_params_write_record(mx_writer *writer, mx_array *x)
{
    if (mx_is_sparse(x)) {
        write_sparse(writer, mx_sparse_of(x));
        return;
    }
    const bool classic = x->ndim > 0 && !mx_is_np_shape();
    mx_writer_u32(writer, classic ? MX_PARAMS_V2 : MX_PARAMS_V3);
    mx_writer_u32(writer, 0); /* dense */
    put_shape(writer, x);
    mx_writer_u32(writer, MX_CPU); /* elements are saved from host memory, wherever the array is */
    mx_writer_u32(writer, 0);
    mx_writer_u32(writer, (uint32_t)x->dtype);
    mx_save_elements(writer, x);
}

mx_code mx_array_pack(mx_array *x, void *bytes, size_t room, size_t *size)
{
    mx_writer writer;
    if (!mx_given(size, "mx_array_pack", "size") || !mx_array_any_ok(x, "mx_array_pack", "x"))
        return mx_error_code();
    if (!x->storage && !mx_is_sparse(x))
        return mx_fail(MX_ERR_STATE, "mx_array_pack: x has a shape but no elements: it was made while tracing");
    if (room && !mx_given(bytes, "mx_array_pack", "bytes"))
        return mx_error_code();
    mx_writer_open_memory(&writer, bytes, room);
    mx_params_write_record(&writer, x);
    *size = (size_t)writer.position;
    const bool failed = writer.failed;
    mx_writer_abandon(&writer);
    return failed ? mx_error_code() : MX_OK;
}

mx_array *mx_array_unpack(const void *bytes, size_t count)
{
    mx_reader reader;
    bool none = false;
    if (!bytes)
        return mx_fail_null(MX_ERR_ARGUMENT, "mx_array_unpack: bytes is NULL");
    if (!mx_reader_open_memory(&reader, bytes, (int64_t)count, "mx_array_unpack"))
        return NULL;
    mx_array *x = mx_params_read_record(&reader, &none);
    if (!x && none)
        mx_reader_fail(&reader, "the record has no array");
    if (x && mx_reader_left(&reader)) {
        mx_reader_fail(&reader, "%" PRId64 " bytes follow the record", mx_reader_left(&reader));
        mx_release(x);
        x = NULL;
    }
    mx_reader_close(&reader);
    return mx_scope_add(x);
}

static int64_t check_list(const char *who, mx_arrays arrays, const char *const *names, bool sparse)
{
    if (!arrays.v && arrays.n)
        return mx_fail(MX_ERR_ARGUMENT, "%s: arrays.v is NULL", who), -1;
    int64_t i = 0;
    for (; arrays.n < 0 ? arrays.v[i] != MX_END : i < arrays.n; i++) {
        char argument[48];
        snprintf(argument, sizeof argument, "array %" PRId64, i);
        if (!(sparse ? mx_array_any_ok : mx_array_ok)(arrays.v[i], who, argument))
            return -1;
        if (!arrays.v[i]->storage && !mx_is_sparse(arrays.v[i]))
            return mx_fail(MX_ERR_STATE, "%s: %s has no elements: it was made while tracing", who, argument), -1;
        if (names && !names[i])
            return mx_fail(MX_ERR_ARGUMENT, "%s: the name of %s is NULL", who, argument), -1;
    }
    return i;
}

int64_t mx_save_check(const char *who, mx_arrays arrays, const char *const *names)
{
    return check_list(who, arrays, names, false);
}

mx_code mx_save_params(const char *path, mx_arrays arrays, const char *const *names)
{
    mx_writer writer;
    if (!path)
        return mx_fail(MX_ERR_ARGUMENT, "mx_save: path is NULL");
    int64_t count = check_list("mx_save", arrays, names, true);
    if (count < 0 || !mx_writer_open(&writer, path))
        return mx_error_code();
    mx_writer_u64(&writer, MX_PARAMS_LIST);
    mx_writer_u64(&writer, 0);
    mx_writer_u64(&writer, (uint64_t)count);
    for (int64_t i = 0; i < count; i++)
        mx_params_write_record(&writer, arrays.v[i]);
    mx_writer_u64(&writer, names ? (uint64_t)count : 0);
    for (int64_t i = 0; names && i < count; i++) {
        mx_writer_u64(&writer, strlen(names[i]));
        mx_writer_put(&writer, names[i], strlen(names[i]));
    }
    return mx_writer_commit(&writer) ? MX_OK : mx_error_code();
}
