/* Headers of the objects of an HDF5 file, and their messages (see hdf5.h).
 *
 * A header is a block of messages, continued in others: { type, size, flags, contents }.  Version 1 aligns them to eight
 * bytes; version 2 has signatures and checksums, which are not compared: what the messages say is checked in any case.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "ndarray/hdf5/hdf5.h"

#include <inttypes.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"

enum {
    SPACE = 1,
    LINK_INFO = 2,
    TYPE = 3,
    LINK = 6,
    LAYOUT = 8,
    GROUP_INFO = 10,
    PIPELINE = 11,
    ATTRIBUTE = 12,
    CONTINUED = 16,
    SYMBOLS = 17
};
enum { MOST_BLOCKS = 1000 }; /* of one header */

/* ---- messages of data sets ------------------------------------------------------------------------------------------ */

static bool read_space(mx_hdf5 *file, mx_hdf5_block *m, mx_hdf5_object *o)
{
    const int version = (int)mx_hdf5_number(m, 1), rank = (int)mx_hdf5_number(m, 1);
    const int flags = (int)mx_hdf5_number(m, 1), kind = (int)mx_hdf5_number(m, 1);
    if (version != 1 && version != 2)
        return mx_hdf5_fail(file, "a shape of version %d is not known", version);
    if (rank > MX_MAX_NDIM)
        return mx_hdf5_fail(file, "the array has %d axes, wanted at most %d", rank, MX_MAX_NDIM);
    (void)flags; /* the largest sizes, which follow, are of no interest */
    mx_hdf5_skip(m, version == 1 ? 4 : 0);
    o->has_shape = version == 1 || kind != 2; /* 2: no elements at all */
    o->shape.ndim = rank;
    for (int i = 0; i < rank; i++)
        o->shape.dim[i] = mx_hdf5_length(file, m);
    return true;
}

/* Numbers of the formats that machines have; the fields of other numbers are elsewhere. */
static bool is_usual(mx_hdf5_block *m, int class, int size)
{
    static const struct {
        int size, exponent_at, exponent, mantissa;
    } floats[] = {{2, 10, 5, 10}, {4, 23, 8, 23}, {8, 52, 11, 52}};
    const int first = (int)mx_hdf5_number(m, 2), bits = (int)mx_hdf5_number(m, 2);
    if (first || size > 8 || bits != 8 * size)
        return false;
    if (class == 0)
        return true;
    const int exponent_at = (int)mx_hdf5_number(m, 1), exponent = (int)mx_hdf5_number(m, 1);
    const int mantissa_at = (int)mx_hdf5_number(m, 1), mantissa = (int)mx_hdf5_number(m, 1);
    for (int i = 0; i < 3; i++)
        if (floats[i].size == size)
            return floats[i].exponent_at == exponent_at && floats[i].exponent == exponent && !mantissa_at &&
                   floats[i].mantissa == mantissa;
    return size == 2;
}

/* Classes: 0 integers, 1 floating point, 3 characters, 5 bytes, 8 enumerations (h5py's bools), 9 sequences (texts). */
static void read_type(mx_hdf5_block *m, mx_hdf5_object *o)
{
    const int first = (int)mx_hdf5_number(m, 1), bits = (int)mx_hdf5_number(m, 3);
    o->type_class = first & 15, o->type_size = (int)(mx_hdf5_number(m, 4) & INT32_MAX);
    o->has_type = true;
    o->text = o->type_class == 3 || (o->type_class == 9 && (bits & 15) == 1);
    o->swap = bits & 1;
    if (o->type_class == 0 && is_usual(m, 0, o->type_size))
        o->wire = mx_wire_find(bits & 8 ? 'i' : 'u', o->type_size);
    if (o->type_class == 1 && !(bits & 64) && is_usual(m, 1, o->type_size))
        o->wire = mx_wire_find('f', o->type_size);
    if (o->type_class == 8 && o->type_size == 1)
        o->wire = mx_wire_of(MX_INT8), o->swap = false;
}

static bool read_chunking(mx_hdf5 *file, mx_hdf5_block *m, mx_hdf5_object *o, int width)
{
    if (o->chunk_rank < 2 || o->chunk_rank > MX_MAX_NDIM + 1)
        return mx_hdf5_fail(file, "chunks have %d axes, wanted 1 to %d", o->chunk_rank - 1, MX_MAX_NDIM);
    for (int i = 0; i < o->chunk_rank; i++) {
        const uint64_t size = mx_hdf5_number(m, width);
        if (!size || size > UINT32_MAX)
            return mx_hdf5_fail(file, "axis %d of the chunks has the size %" PRIu64, i, size);
        o->chunk[i] = (int64_t)size;
    }
    return true;
}

/* Versions 4 and 5 have five kinds of indices; only that of a single chunk is read. */
static bool read_new_chunking(mx_hdf5 *file, mx_hdf5_block *m, mx_hdf5_object *o)
{
    const int flags = (int)mx_hdf5_number(m, 1);
    o->chunk_rank = (int)mx_hdf5_number(m, 1);
    const int width = (int)mx_hdf5_number(m, 1);
    if (!read_chunking(file, m, o, width))
        return false;
    if (mx_hdf5_number(m, 1) != 1)
        return mx_hdf5_fail(file, "the chunks are indexed as in files for new versions only; write the file without "
                                  "libver='latest', or the array in one piece");
    o->layout = MX_HDF5_ONE_CHUNK;
    if (flags & 2) { /* with filters */
        o->data_size = mx_hdf5_length(file, m);
        mx_hdf5_skip(m, 4);
    }
    o->data = mx_hdf5_address(file, m);
    return true;
}

static bool read_layout(mx_hdf5 *file, mx_hdf5_block *m, mx_hdf5_object *o)
{
    const int version = (int)mx_hdf5_number(m, 1), class = (int)mx_hdf5_number(m, 1);
    if (version < 3 || version > 5)
        return mx_hdf5_fail(file, "a layout of version %d is not known", version);
    if (class > 2)
        return mx_hdf5_fail(file, "the elements are in other files, which are not read");
    o->layout = class == 0 ? MX_HDF5_COMPACT : class == 1 ? MX_HDF5_CONTIGUOUS : MX_HDF5_CHUNKED;
    o->data_size = -1;
    if (class == 0) {
        o->data_size = (int64_t)mx_hdf5_number(m, 2);
        o->data = m->at + m->position;
    } else if (class == 1) {
        o->data = mx_hdf5_address(file, m);
        o->data_size = mx_hdf5_length(file, m);
    } else if (version > 3)
        return read_new_chunking(file, m, o);
    else {
        o->chunk_rank = (int)mx_hdf5_number(m, 1);
        o->data = mx_hdf5_address(file, m);
        return read_chunking(file, m, o, 4);
    }
    return true;
}

static bool read_pipeline(mx_hdf5 *file, mx_hdf5_block *m, mx_hdf5_object *o)
{
    const int version = (int)mx_hdf5_number(m, 1), count = (int)mx_hdf5_number(m, 1);
    if ((version != 1 && version != 2) || count > MX_HDF5_FILTERS)
        return mx_hdf5_fail(file, "a list of %d filters of version %d is not known", count, version);
    mx_hdf5_skip(m, version == 1 ? 6 : 0);
    for (int i = 0; i < count; i++) {
        o->filter[i] = (int)mx_hdf5_number(m, 2);
        const int64_t name = version == 1 || o->filter[i] >= 256 ? (int64_t)mx_hdf5_number(m, 2) : 0;
        mx_hdf5_skip(m, 2);
        const int64_t values = (int64_t)mx_hdf5_number(m, 2);
        mx_hdf5_skip(m, version == 1 ? (name + 7) / 8 * 8 : name);
        mx_hdf5_skip(m, 4 * values + (version == 1 && values % 2 ? 4 : 0));
    }
    o->filters = count;
    return true;
}

/* ---- one attribute ------------------------------------------------------------------------------------------------- */

/* A text in a heap of texts: { number, references, reserved, length, bytes to a multiple of 8 } ... */
static bool read_heap_text(mx_hdf5 *file, mx_hdf5_block *value, char *text, size_t room)
{
    mx_hdf5_block head, heap;
    const int64_t wanted = (int64_t)mx_hdf5_number(value, 4), at = mx_hdf5_address(file, value);
    const uint64_t number = mx_hdf5_number(value, 4);
    if (value->failed || at == MX_HDF5_NOWHERE)
        return true; /* an empty text */
    if (!mx_hdf5_load(file, &head, at, 8 + file->length_bytes, "a heap of texts"))
        return false;
    head.position = 8;
    const int64_t size = mx_hdf5_length(file, &head);
    mx_hdf5_unload(&head);
    if (!mx_hdf5_load(file, &heap, at, size, "a heap of texts"))
        return false;
    bool fine = mx_hdf5_signed(file, &heap, "GCOL");
    mx_hdf5_skip(&heap, 4 + file->length_bytes);
    while (fine && !heap.failed && heap.position < heap.size) {
        const uint64_t one = mx_hdf5_number(&heap, 2);
        mx_hdf5_skip(&heap, 6);
        const int64_t length = mx_hdf5_length(file, &heap);
        if (!one || length > heap.size)
            break; /* what is left is free */
        const mx_hdf5_block found = mx_hdf5_part(&heap, (length + 7) / 8 * 8);
        if (one == number && !found.failed && wanted <= length && (size_t)wanted < room) {
            memcpy(text, found.bytes, (size_t)wanted);
            text[wanted] = 0;
        }
    }
    mx_hdf5_unload(&heap);
    return fine;
}

/* The value of an attribute with one of two names, if it is a text; others are of no interest. */
static bool read_attribute(mx_hdf5 *file, mx_hdf5_block *m, mx_hdf5_object *o)
{
    const int version = (int)mx_hdf5_number(m, 1);
    mx_hdf5_skip(m, 1);
    const int64_t name_size = (int64_t)mx_hdf5_number(m, 2), type_size = (int64_t)mx_hdf5_number(m, 2);
    const int64_t space_size = (int64_t)mx_hdf5_number(m, 2), unit = version == 1 ? 8 : 1;
    mx_hdf5_skip(m, version == 3 ? 1 : 0);
    const mx_hdf5_block name = mx_hdf5_part(m, (name_size + unit - 1) / unit * unit);
    mx_hdf5_block type = mx_hdf5_part(m, (type_size + unit - 1) / unit * unit);
    mx_hdf5_skip(m, (space_size + unit - 1) / unit * unit);
    if (m->failed ||
        ((name_size != 5 || memcmp(name.bytes, "name", 5)) && (name_size != 6 || memcmp(name.bytes, "dtype", 6))))
        return true;
    mx_hdf5_object about = {0};
    read_type(&type, &about);
    if (about.text && about.type_class == 9)
        return read_heap_text(file, m, o->name, sizeof o->name);
    const mx_hdf5_block value = mx_hdf5_part(m, about.type_size);
    if (about.text && !value.failed && value.size < (int64_t)sizeof o->name)
        memcpy(o->name, value.bytes, (size_t)value.size), o->name[value.size] = 0;
    return true;
}

/* ---- headers ------------------------------------------------------------------------------------------------------- */

typedef struct range {
    int64_t at, size;
} range;
typedef struct header {
    int version, flags;
    MX_VEC(range) blocks; /* those that follow */
} header;

static bool read_link_info(mx_hdf5 *file, mx_hdf5_block *m, mx_hdf5_object *o)
{
    mx_hdf5_skip(m, 1);
    mx_hdf5_skip(m, mx_hdf5_number(m, 1) & 1 ? 8 : 0);
    o->dense_heap = mx_hdf5_address(file, m);
    o->dense_index = mx_hdf5_address(file, m);
    o->is_group = true;
    return true;
}

static bool take_message(mx_hdf5 *file, header *h, int type, mx_hdf5_block *m, mx_hdf5_object *o)
{
    switch (type) {
    case SPACE: return read_space(file, m, o);
    case TYPE: return read_type(m, o), true;
    case LAYOUT: return read_layout(file, m, o);
    case PIPELINE: return read_pipeline(file, m, o);
    case ATTRIBUTE: return read_attribute(file, m, o);
    case LINK_INFO: return read_link_info(file, m, o);
    case LINK: o->is_group = true; return mx_hdf5_link_message(file, m, &o->links);
    case GROUP_INFO: o->is_group = true; return true;
    case SYMBOLS:
        o->is_group = true;
        o->tree = mx_hdf5_address(file, m), o->heap = mx_hdf5_address(file, m);
        return true;
    case CONTINUED: {
        range r = {.at = mx_hdf5_address(file, m)};
        r.size = mx_hdf5_length(file, m);
        if (h->blocks.length >= MOST_BLOCKS)
            return mx_hdf5_fail(file, "the header has more than %d parts", MOST_BLOCKS);
        return mx_vec_push(&h->blocks, r);
    }
    default: return true;
    }
}

static bool read_messages(mx_hdf5 *file, header *h, mx_hdf5_block *b, mx_hdf5_object *o)
{
    const int head = h->version == 1 ? 8 : 4 + (h->flags & 4 ? 2 : 0);
    while (b->size - b->position >= head && !b->failed) {
        const int type = (int)mx_hdf5_number(b, h->version == 1 ? 2 : 1);
        const int64_t size = (int64_t)mx_hdf5_number(b, 2);
        const int flags = (int)mx_hdf5_number(b, 1);
        mx_hdf5_skip(b, head - (h->version == 1 ? 5 : 4));
        mx_hdf5_block message = mx_hdf5_part(b, size);
        if (message.failed)
            return mx_hdf5_fail(file, "a message of %" PRId64 " bytes does not fit into its header", size);
        if (flags & 2 && (type == TYPE || type == SPACE || type == PIPELINE))
            return mx_hdf5_fail(file, "the type or shape is shared with other objects, which is not read");
        if (!take_message(file, h, type, &message, o))
            return false;
        if (message.failed && type != ATTRIBUTE)
            return mx_hdf5_fail(file, "message %d of the header is shorter than it must be", type);
    }
    return true;
}

/* Version 1: version, reserved, number of messages, references, size; aligned to eight bytes. */
static bool read_first(mx_hdf5 *file, int64_t address, header *h, range *messages)
{
    mx_hdf5_block b;
    const int64_t left = file->reader->size - address;
    if (address < 0 || left < 16)
        return mx_hdf5_fail(file, "its header at %" PRId64 " is outside the file: damaged or truncated", address);
    if (!mx_hdf5_load(file, &b, address, left < 40 ? left : 40, "the header"))
        return false;
    if (!memcmp(b.bytes, "OHDR", 4)) {
        b.position = 4;
        h->version = (int)mx_hdf5_number(&b, 1), h->flags = (int)mx_hdf5_number(&b, 1);
        mx_hdf5_skip(&b, (h->flags & 32 ? 16 : 0) + (h->flags & 16 ? 4 : 0));
        messages->size = (int64_t)(mx_hdf5_number(&b, 1 << (h->flags & 3)) & INT64_MAX);
    } else {
        h->version = (int)mx_hdf5_number(&b, 1);
        mx_hdf5_skip(&b, 7);
        messages->size = (int64_t)mx_hdf5_number(&b, 4);
        mx_hdf5_skip(&b, 4);
    }
    messages->at = address + b.position;
    const bool known = !b.failed && h->version == (memcmp(b.bytes, "OHDR", 4) ? 1 : 2);
    mx_hdf5_unload(&b);
    return known || mx_hdf5_fail(file, "there is no object header at byte %" PRId64 ": the file is damaged", address);
}

static bool read_block(mx_hdf5 *file, header *h, range r, bool first, mx_hdf5_object *o)
{
    mx_hdf5_block b;
    if (!mx_hdf5_load(file, &b, r.at, r.size, "a part of the header"))
        return false;
    bool fine = true;
    if (h->version == 2 && !first) {
        fine = mx_hdf5_signed(file, &b, "OCHK");
        b.size -= 4; /* the checksum */
    }
    fine = fine && read_messages(file, h, &b, o);
    b.size += h->version == 2 && !first ? 4 : 0;
    mx_hdf5_unload(&b);
    return fine;
}

bool mx_hdf5_object_read(mx_hdf5 *file, int64_t address, mx_hdf5_object *o)
{
    header h = {0};
    range r;
    *o = (mx_hdf5_object){.data = MX_HDF5_NOWHERE, .tree = MX_HDF5_NOWHERE, .heap = MX_HDF5_NOWHERE,
                          .dense_heap = MX_HDF5_NOWHERE, .dense_index = MX_HDF5_NOWHERE};
    bool fine = read_first(file, address, &h, &r) && read_block(file, &h, r, true, o);
    for (int64_t i = 0; fine && i < h.blocks.length; i++)
        fine = read_block(file, &h, h.blocks.items[i], false, o);
    mx_vec_free(&h.blocks);
    if (!fine)
        mx_hdf5_object_free(o);
    return fine;
}

void mx_hdf5_object_free(mx_hdf5_object *o)
{
    for (int64_t i = 0; i < o->links.length; i++)
        mx_strfree(o->links.items[i].name);
    mx_vec_free(&o->links);
}
