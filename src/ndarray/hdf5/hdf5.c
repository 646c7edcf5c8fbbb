/* HDF5 files: the superblock and the walk over the groups (see hdf5.h).
 *
 * The result is a list of arrays under their paths, "model_weights/dense/kernel".  Data sets of texts are left out; other
 * elements that are not numbers are errors.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "ndarray/hdf5/hdf5.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/dict.h"
#include "base/error.h"

#define SUPERBLOCK 96 /* at most so many bytes are of interest */

typedef struct walk {
    mx_hdf5 file;
    mx_array_dict *dict; /* the result; not owned */
    mx_dict seen;        /* names in it */
    bool layers;         /* name groups "vars" as Keras' attribute says */
} walk;

/* ---- the superblock --------------------------------------------------------------------------------------------------- */

static bool is_width(int bytes) { return bytes == 2 || bytes == 4 || bytes == 8; }

/* Versions 0 and 1 end with the entry of the root group, versions 2 and 3 with its address. */
static bool read_superblock(mx_hdf5 *file, int64_t *root)
{
    mx_hdf5_block b;
    const int64_t size = file->reader->size < SUPERBLOCK ? file->reader->size : SUPERBLOCK;
    if (!mx_hdf5_load(file, &b, 0, size, "the superblock"))
        return false;
    b.position = 8;
    const int version = (int)mx_hdf5_number(&b, 1);
    mx_hdf5_skip(&b, version < 2 ? 4 : 0);
    file->offset_bytes = (int)mx_hdf5_number(&b, 1), file->length_bytes = (int)mx_hdf5_number(&b, 1);
    mx_hdf5_skip(&b, version == 0 ? 9 : version == 1 ? 13 : 1);
    bool fine = version <= 3 && is_width(file->offset_bytes) && is_width(file->length_bytes);
    const int64_t base = fine ? mx_hdf5_address(file, &b) : 0;
    if (fine && version < 2) {
        mx_hdf5_skip(&b, 4 * file->offset_bytes); /* free space, end, driver; the name of the root */
        *root = mx_hdf5_address(file, &b);
    } else if (fine) {
        mx_hdf5_skip(&b, 2 * file->offset_bytes); /* extension, end */
        *root = mx_hdf5_address(file, &b);
    }
    fine = fine && !b.failed && base == 0;
    mx_hdf5_unload(&b);
    return fine || mx_hdf5_fail(file, "the superblock (version %d) is damaged, or of a kind that is not read", version);
}

/* ---- objects ---------------------------------------------------------------------------------------------------------- */

/* The path, or, for Keras' layers, with the name of the layer in place of "vars". */
static bool add_array(walk *w, mx_array *x)
{
    char name[2 * MX_HDF5_LONGEST];
    const char *last = strrchr(w->file.path, '/');
    const size_t length = last ? (size_t)(last - w->file.path) : 0;
    snprintf(name, sizeof name, "%s", w->file.path);
    if (w->layers && *w->file.layer && length >= 4 && !memcmp(last - 4, "vars", 4))
        snprintf(name, sizeof name, "%.*s%s%s", (int)(length - 4), w->file.path, w->file.layer, last);
    if (mx_dict_find(&w->seen, name)) {
        mx_release(x);
        return mx_hdf5_fail(&w->file, "the name '%.128s' occurs twice", name);
    }
    if (!mx_dict_set_number(&w->seen, name, 1)) {
        mx_release(x);
        return false;
    }
    return mx_array_dict_add(w->dict, name, x);
}

static bool read_data_set(walk *w, mx_hdf5_object *o)
{
    mx_hdf5 *file = &w->file;
    if (o->text || !o->has_shape)
        return true;
    if (o->type_class == 5 && o->type_size == 2 && !strcmp(o->name, "bfloat16"))
        o->wire = mx_wire_of(MX_BFLOAT16), o->swap = false;
    if (!o->wire)
        return mx_hdf5_fail(file, "elements of class %d with %d bytes are no numbers that can be read", o->type_class,
                            o->type_size);
    mx_array *x = mx_hdf5_array(file, o);
    return x && add_array(w, x);
}

static bool read_object(walk *w, int64_t address, int depth);

static bool read_group(walk *w, mx_hdf5_object *o, int depth)
{
    char above[MX_HDF5_LONGEST];
    mx_hdf5 *file = &w->file;
    if (depth >= MX_HDF5_DEEPEST)
        return mx_hdf5_fail(file, "groups are nested more than %d deep, or contain themselves", MX_HDF5_DEEPEST);
    if (!mx_hdf5_group_links(file, o))
        return false;
    memcpy(above, file->layer, sizeof above);
    snprintf(file->layer, sizeof file->layer, "%s", o->name);
    const size_t end = strlen(file->path);
    bool fine = true;
    for (int64_t i = 0; fine && i < o->links.length; i++) {
        snprintf(file->path + end, sizeof file->path - end, "%s%s", end ? "/" : "", o->links.items[i].name);
        fine = read_object(w, o->links.items[i].address, depth + 1);
        file->path[end] = 0;
    }
    memcpy(file->layer, above, sizeof above);
    return fine;
}

static bool read_object(walk *w, int64_t address, int depth)
{
    mx_hdf5_object o;
    if (!mx_hdf5_object_read(&w->file, address, &o))
        return false;
    bool fine = true;
    if (o.layout && o.has_type)
        fine = read_data_set(w, &o);
    else if (o.is_group)
        fine = read_group(w, &o, depth);
    mx_hdf5_object_free(&o);
    return fine;
}

static bool read_file(mx_array_dict *dict, mx_reader *reader, bool layers)
{
    int64_t root = 0;
    walk w = {.file = {.reader = reader, .offset_bytes = 8, .length_bytes = 8}, .dict = dict, .layers = layers};
    w.file.budget = 8 * (reader->size < INT64_MAX / 16 ? reader->size : INT64_MAX / 16) + 65536;
    const bool fine = read_superblock(&w.file, &root) && read_object(&w, root, 0);
    mx_dict_free(&w.seen);
    return fine;
}

bool mx_hdf5_read(mx_array_dict *dict, mx_reader *reader) { return read_file(dict, reader, false); }
bool mx_hdf5_read_layers(mx_array_dict *dict, mx_reader *reader) { return read_file(dict, reader, true); }
