/* Files of arrays by what they are: mx_load() looks at the contents of a file, mx_save() at the suffix of its name.
 *
 * The formats are the entries of one table; each has a file of its own (params.c, safetensors.c, npz.c, npy.c, hdf5/), and
 * HDF5 is only read.  Only .params can hold arrays without names: elsewhere they are called arr_0, arr_1 ..., as NumPy calls them, and a file
 * with exactly these names is read as a list.  An NPY file is a list of one array.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE /* strcasecmp */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/vec.h"
#include "ndarray/npy.h"
#include "ndarray/params.h"

#define HEAD_BYTES 9 /* enough to tell the formats apart */

typedef mx_code (*save_fn)(const char *path, mx_arrays arrays, const char *const *names);

typedef struct format {
    const char *name; /* also the suffix, if it can be written */
    bool (*matches)(const unsigned char *head, int64_t count);
    mx_read_arrays_fn read;
    save_fn save; /* NULL: it is only read */
} format;

/* ---- recognising ------------------------------------------------------------------------------------------------ */

static uint64_t word(const unsigned char *head)
{
    uint64_t value = 0;
    for (int i = 0; i < 8; i++)
        value |= (uint64_t)head[i] << 8 * i;
    return value;
}

/* A shorter file can only be a damaged one; the reader of .params says so. */
static bool is_params(const unsigned char *head, int64_t count) { return count < 8 || word(head) == MX_PARAMS_LIST; }
static bool is_npy(const unsigned char *head, int64_t count) { return count >= 6 && !memcmp(head, "\x93NUMPY", 6); }

/* The first entry of a zip archive, or the end of an empty one. */
static bool is_npz(const unsigned char *head, int64_t count)
{
    return count >= 4 && (!memcmp(head, "PK\3\4", 4) || !memcmp(head, "PK\5\6", 4));
}

static bool is_hdf5(const unsigned char *head, int64_t count)
{
    return count >= 8 && !memcmp(head, "\x89HDF\r\n\x1a\n", 8);
}

static bool is_safetensors(const unsigned char *head, int64_t count)
{
    return count >= 9 && head[8] == '{' && word(head) <= UINT32_MAX;
}

/* ---- NPY: a list of one ----------------------------------------------------------------------------------------- */

static bool read_npy(mx_array_dict *dict, mx_reader *reader)
{
    return mx_array_dict_add(dict, NULL, mx_npy_read(reader));
}

static mx_code save_npy(const char *path, mx_arrays arrays, const char *const *names)
{
    const int64_t count = mx_save_check("mx_save", arrays, NULL);
    if (count < 0)
        return mx_error_code();
    if (count != 1 || names)
        return mx_fail(MX_ERR_ARGUMENT,
                       "%s: an .npy file holds one array without a name, got %" PRId64 " array%s%s; "
                       "save them as .npz, .safetensors or .params",
                       path, count, count == 1 ? "" : "s", names ? " with names" : "");
    return mx_save_npy(path, arrays.v[0]);
}

static const format formats[] = {
    {"npz", is_npz, mx_npz_read, mx_save_npz},
    {"npy", is_npy, read_npy, save_npy},
    {"hdf5", is_hdf5, mx_hdf5_read, NULL},
    {"safetensors", is_safetensors, mx_safetensors_read, mx_save_safetensors},
    {"params", is_params, mx_params_read, mx_save_params},
};
enum { FORMATS = sizeof formats / sizeof *formats };

/* ---- reading ---------------------------------------------------------------------------------------------------- */

/* Leaves the reader where it was.  NULL: unknown, or reading failed. */
static const format *recognise(mx_reader *reader)
{
    unsigned char head[HEAD_BYTES] = {0};
    const int64_t count = mx_reader_left(reader) < HEAD_BYTES ? mx_reader_left(reader) : HEAD_BYTES;
    if (!mx_reader_get(reader, head, count, "the start of the file") ||
        !mx_reader_seek(reader, reader->position - count, "the start of the file"))
        return NULL;
    for (int i = 0; i < FORMATS; i++)
        if (formats[i].matches(head, count))
            return &formats[i];
    return NULL;
}

/* arr_0, arr_1, ... are the names of arrays without names. */
static bool is_numbered(const mx_array_dict *dict)
{
    for (int64_t i = 0; i < mx_array_dict_count(dict); i++) {
        char number[32];
        const char *name = mx_array_dict_name(dict, i);
        snprintf(number, sizeof number, "arr_%" PRId64, i);
        if (!name || strcmp(name, number))
            return false;
    }
    return true;
}

static bool read_any(mx_array_dict *dict, mx_reader *reader)
{
    const format *f = recognise(reader);
    uint64_t first = 0;
    if (!f) {
        mx_reader_u64(reader, &first, "the file's first word");
        return mx_reader_fail(
            reader,
            "this is not a file of arrays (.params, .safetensors, .npz, .npy or HDF5): it starts with "
            "0x%" PRIx64 " (Invalid NDArray file format)",
            first);
    }
    if (!f->read(dict, reader))
        return false;
    if (f->read != mx_params_read && is_numbered(dict))
        mx_array_dict_unname(dict);
    return true;
}

/* As the formats say, and with the names of Keras' layers. */
static bool read_layers(mx_array_dict *dict, mx_reader *reader)
{
    const format *f = recognise(reader);
    const bool keras = f && f->read == mx_npz_read, hdf5 = f && f->read == mx_hdf5_read;
    if (!keras && !hdf5)
        return !reader->failed &&
               mx_reader_fail(
                   reader,
                   "this is no HDF5 file and no .keras file: weights of Keras end in .weights.h5, .h5 or .keras");
    return (keras ? mx_keras_read_layers : mx_hdf5_read_layers)(dict, reader);
}

mx_array_dict *mx_load_layers(const char *path) { return mx_load_with(path, "mx_load_keras", read_layers); }
mx_array_dict *mx_load(const char *path) { return mx_load_with(path, "mx_load", read_any); }

mx_array_dict *mx_load_buffer(const void *bytes, size_t count)
{
    if (!bytes)
        return mx_fail_null(MX_ERR_ARGUMENT, "mx_load_buffer: bytes is NULL");
    return mx_load_bytes(bytes, count, "mx_load_buffer", read_any);
}

const char *mx_load_format(const char *path)
{
    mx_reader reader;
    if (!path)
        return mx_fail_null(MX_ERR_ARGUMENT, "mx_load_format: path is NULL");
    if (!mx_reader_open(&reader, path))
        return NULL;
    const format *f = reader.size < 8 ? NULL : recognise(&reader);
    mx_reader_close(&reader);
    return f ? f->name : NULL;
}

/* ---- writing ---------------------------------------------------------------------------------------------------- */

static const format *of_suffix(const char *path)
{
    const char *slash = strrchr(path, '/'), *dot = strrchr(slash ? slash : path, '.');
    for (int i = 0; dot && i < FORMATS; i++)
        if (formats[i].save && !strcasecmp(dot + 1, formats[i].name))
            return &formats[i];
    return NULL;
}

const char *mx_save_format(const char *path)
{
    const format *f = path ? of_suffix(path) : NULL;
    return f ? f->name : NULL;
}

static mx_code save_numbered(save_fn save, const char *path, mx_arrays arrays)
{
    const int64_t count = mx_save_check("mx_save", arrays, NULL);
    if (count < 0)
        return mx_error_code();
    const size_t room = ((size_t)count + 1) * 32, names_room = ((size_t)count + 1) * sizeof(char *);
    char *texts = mx_alloc(room);
    const char **names = mx_alloc(names_room);
    for (int64_t i = 0; texts && names && i < count; i++) {
        names[i] = texts + i * 32;
        snprintf(texts + i * 32, 32, "arr_%" PRId64, i);
    }
    const mx_code code = texts && names ? save(path, (mx_arrays){arrays.v, count}, names) : mx_error_code();
    mx_free(texts, room);
    mx_free(names, names_room);
    return code;
}

mx_code mx_save(const char *path, mx_arrays arrays, const char *const *names)
{
    if (!path)
        return mx_fail(MX_ERR_ARGUMENT, "mx_save: path is NULL");
    const format *f = of_suffix(path);
    const save_fn save = f ? f->save : mx_save_params;
    const bool list = !names && (save == mx_save_npz || save == mx_save_safetensors);
    return list ? save_numbered(save, path, arrays) : save(path, arrays, names);
}
