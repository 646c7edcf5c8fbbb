/* NPZ files: a zip archive of NPY files, one per array.  Written entries are stored, and smaller than 4 GiB in total.
 *
 * A .keras file is such an archive, too: that of a model's description and its weights, an HDF5 file, which is read.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <inttypes.h>
#include <string.h>

#include "base/alloc.h"
#include "base/dict.h"
#include "base/error.h"
#include "base/vec.h"
#include "ndarray/npy.h"
#include "ndarray/params.h"
#include "ndarray/zip.h"

/* ---- reading --------------------------------------------------------------------------------------------------- */

static bool read_npy(mx_array_dict *dict, mx_reader *inner, const char *name)
{
    return mx_array_dict_add(dict, name, mx_npy_read(inner));
}

/* The arrays of one entry. */
static bool read_entry(mx_array_dict *dict, mx_reader *reader, const mx_zip_entry *e, mx_read_arrays_fn read)
{
    void *bytes = mx_zip_contents(reader, e);
    mx_reader inner;
    if (!bytes)
        return false;
    bool fine = mx_reader_open_memory(&inner, bytes, (int64_t)e->size, e->name);
    if (fine) {
        const char *context = mx_error_context(reader->name);
        fine = read ? read(dict, &inner) : read_npy(dict, &inner, e->name);
        mx_error_context(context);
        mx_reader_close(&inner);
    }
    mx_free(bytes, (size_t)e->size + 1);
    return fine;
}

/* The weights of a .keras file; *found says whether there are any. */
static bool read_keras(mx_array_dict *dict, mx_reader *reader, mx_read_arrays_fn read, bool *found)
{
    mx_zip zip;
    bool fine = mx_zip_open(&zip, reader);
    while (fine && zip.left && !*found) {
        mx_zip_entry e;
        fine = mx_zip_next(&zip, &e);
        *found = fine && !strcmp(e.name, "model.weights.h5");
        if (*found)
            fine = read_entry(dict, reader, &e, read);
        mx_zip_entry_free(&e);
    }
    return fine;
}

/* The entry's name becomes that of its array; false: out of memory. */
static bool drop_suffix(mx_zip_entry *e)
{
    const size_t length = strlen(e->name);
    if (length <= 4 || strcmp(e->name + length - 4, ".npy"))
        return true;
    char *name = mx_alloc(length - 3);
    if (!name)
        return false;
    memcpy(name, e->name, length - 4);
    name[length - 4] = 0;
    mx_zip_entry_free(e);
    e->name = name;
    return true;
}

bool mx_npz_read(mx_array_dict *dict, mx_reader *reader)
{
    mx_zip zip;
    mx_dict seen = {0};
    bool keras = false, fine = read_keras(dict, reader, mx_hdf5_read, &keras);
    if (!fine || keras)
        return fine;
    fine = mx_zip_open(&zip, reader);
    while (fine && zip.left) {
        mx_zip_entry e;
        if ((fine = mx_zip_next(&zip, &e) && drop_suffix(&e))) {
            if (mx_dict_find(&seen, e.name))
                fine = mx_reader_fail(reader, "the name '%.64s' occurs twice", e.name);
            fine = fine && mx_dict_set_number(&seen, e.name, 1) && read_entry(dict, reader, &e, NULL);
        }
        mx_zip_entry_free(&e);
    }
    mx_dict_free(&seen);
    return fine;
}

bool mx_keras_read_layers(mx_array_dict *dict, mx_reader *reader)
{
    bool found = false;
    const bool fine = read_keras(dict, reader, mx_hdf5_read_layers, &found);
    return fine && (found || mx_reader_fail(reader, "the archive has no model.weights.h5: this is not a .keras file"));
}

mx_array_dict *mx_load_npz(const char *path) { return mx_load_with(path, "mx_load_npz", mx_npz_read); }

/* ---- writing --------------------------------------------------------------------------------------------------- */

#define LOCAL 0x04034b50u /* first words of the parts */
#define ENTRY 0x02014b50u
#define END 0x06054b50u
enum { STORED = 0 };

static void put16(mx_text *text, uint32_t v)
{
    mx_text_add_char(text, (char)v);
    mx_text_add_char(text, (char)(v >> 8));
}
static void put32(mx_text *text, uint32_t v)
{
    put16(text, v & 0xffff);
    put16(text, v >> 16);
}

/* What local header and directory entry have in common: version to "length of the extra field". */
static void put_facts(mx_text *text, const char *name, uint32_t crc, uint32_t size)
{
    put16(text, 20);     /* version that can read it */
    put16(text, 0x0800); /* the name is UTF-8 */
    put16(text, STORED);
    put16(text, 0);
    put16(text, 0x21); /* 1 January 1980: the same arrays give the same file */
    put32(text, crc);
    put32(text, size);
    put32(text, size);
    put16(text, (uint32_t)strlen(name) + 4);
    put16(text, 0);
}

/* Writes one array and adds its entry to the directory. */
static mx_code put_array(mx_writer *writer, mx_text *rows, mx_array *x, const char *name)
{
    mx_text head = {0}, npy = {0};
    const size_t bytes = mx_bytes(x);
    const int64_t at = writer->position;
    void *stage = mx_alloc(bytes + 1);
    mx_text_add_bytes(&npy, "\x93NUMPY\x01\x00", 8);
    mx_text header = {0};
    mx_npy_header(&header, x);
    put16(&npy, (uint32_t)header.length);
    mx_text_add_bytes(&npy, header.data, header.length);
    mx_code code = stage && !header.failed && !npy.failed ? mx_array_read(x, stage, bytes) : MX_ERR_MEMORY;
    if (!code && (uint64_t)at + npy.length + bytes + 65536 > UINT32_MAX)
        code = mx_fail(MX_ERR_UNSUPPORTED, "mx_save_npz: the file would be larger than 4 GiB; save it as .safetensors");
    if (!code) {
        const uint32_t crc = mx_zip_checksum(mx_zip_checksum(0, npy.data, npy.length), stage, bytes);
        put32(&head, LOCAL);
        put_facts(&head, name, crc, (uint32_t)(npy.length + bytes));
        mx_text_print(&head, "%s.npy", name);
        put32(rows, ENTRY);
        put16(rows, 20);
        put_facts(rows, name, crc, (uint32_t)(npy.length + bytes));
        for (int i = 0; i < 5; i++) /* comment, disk, attributes */
            put16(rows, 0);
        put32(rows, (uint32_t)at);
        mx_text_print(rows, "%s.npy", name);
        mx_writer_put(writer, head.data, head.length);
        mx_writer_put(writer, npy.data, npy.length);
        mx_writer_put(writer, stage, bytes);
        code = head.failed || rows->failed ? MX_ERR_MEMORY : MX_OK;
    }
    mx_text_free(&head);
    mx_text_free(&npy);
    mx_text_free(&header);
    mx_free(stage, bytes + 1);
    return code;
}

static mx_code check_names(int64_t count, const char *const *names)
{
    mx_dict seen = {0};
    mx_code code = MX_OK;
    for (int64_t i = 0; !code && i < count; i++) {
        if (mx_dict_find(&seen, names[i]) || strlen(names[i]) > 4096)
            code = mx_fail(MX_ERR_ARGUMENT, "mx_save_npz: the name '%.64s' occurs twice or is too long", names[i]);
        else if (!mx_dict_set_number(&seen, names[i], 1))
            code = MX_ERR_MEMORY;
    }
    mx_dict_free(&seen);
    return code || count <= 65534 ? code : mx_fail(MX_ERR_UNSUPPORTED, "mx_save_npz: more than 65534 arrays");
}

static void put_end(mx_writer *writer, mx_text *rows, int64_t count)
{
    const uint32_t at = (uint32_t)writer->position, size = (uint32_t)rows->length;
    put32(rows, END);
    put32(rows, 0); /* disks */
    put16(rows, (uint32_t)count);
    put16(rows, (uint32_t)count);
    put32(rows, size);
    put32(rows, at);
    put16(rows, 0); /* comment */
    mx_writer_put(writer, rows->data, rows->length);
}

mx_code mx_save_npz(const char *path, mx_arrays arrays, const char *const *names)
{
    mx_writer writer;
    mx_text rows = {0};
    if (!path || !names)
        return mx_fail(MX_ERR_ARGUMENT, "mx_save_npz: %s is NULL", path ? "names" : "path");
    const int64_t count = mx_save_check("mx_save_npz", arrays, names);
    if (count < 0 || check_names(count, names) || !mx_writer_open(&writer, path))
        return mx_error_code();
    mx_code code = MX_OK;
    for (int64_t i = 0; !code && i < count; i++)
        code = put_array(&writer, &rows, arrays.v[i], names[i]);
    if (!code)
        put_end(&writer, &rows, count);
    if (code || rows.failed)
        mx_writer_abandon(&writer);
    else
        code = mx_writer_commit(&writer) ? MX_OK : mx_error_code();
    code = rows.failed ? MX_ERR_MEMORY : code;
    mx_text_free(&rows);
    return code;
}
