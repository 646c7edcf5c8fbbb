/* Small HDF5 files, byte by byte: for the tests of the reader and as seeds of its fuzzer.
 *
 *     hdf5_bytes b = {0};
 *     hdf5_old(&b);        // in the form that h5py and Keras write: vars/0 (2, 3), vars/1 (3), named "first"
 *     hdf5_new(&b);        // in the form of libver='v108': a/x (2, 3) in packed chunks, a/y (3) in the header
 *
 * Elements are 0, 1, 2 ... as float32.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TESTS_HDF5_FILES_H
#define TESTS_HDF5_FILES_H

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

typedef struct hdf5_bytes {
    unsigned char bytes[4096];
    int64_t size;
    int64_t header, message; /* where the ones that are being written begin */
    int count;               /* messages of the header */
} hdf5_bytes;

static inline void hdf5_put(hdf5_bytes *b, uint64_t value, int bytes)
{
    for (int i = 0; i < bytes; i++)
        b->bytes[b->size++] = i < 8 ? (unsigned char)(value >> 8 * i) : 0;
}

static inline void hdf5_set(hdf5_bytes *b, int64_t at, uint64_t value, int bytes)
{
    const int64_t size = b->size;
    b->size = at;
    hdf5_put(b, value, bytes);
    b->size = size;
}

static inline void hdf5_text(hdf5_bytes *b, const char *text, int bytes)
{
    for (int i = 0, ended = 0; i < bytes; i++) {
        ended = ended || !text[i];
        b->bytes[b->size++] = ended ? 0 : (unsigned char)text[i];
    }
}

static inline void hdf5_align(hdf5_bytes *b) { hdf5_put(b, 0, (int)((8 - b->size % 8) % 8)); }

/* ---- headers: version 1 has room for { type, size, flags, 0 0 0 }, version 2 for { type, size, flags } ------------------ */

static inline int64_t hdf5_header(hdf5_bytes *b, int version)
{
    hdf5_align(b);
    b->header = b->size, b->count = 0;
    if (version == 1)
        hdf5_put(b, 1, 4), hdf5_put(b, 1, 4), hdf5_put(b, 0, 8);
    else
        hdf5_text(b, "OHDR", 4), hdf5_put(b, 2, 1), hdf5_put(b, 2, 1), hdf5_put(b, 0, 4);
    return b->header;
}

static inline void hdf5_message(hdf5_bytes *b, int version, int type)
{
    b->message = b->size, b->count++;
    hdf5_put(b, (uint64_t)type, version == 1 ? 8 : 4);
}

static inline void hdf5_end_message(hdf5_bytes *b, int version)
{
    const int head = version == 1 ? 8 : 4;
    while (version == 1 && (b->size - b->message) % 8)
        hdf5_put(b, 0, 1);
    hdf5_set(b, b->message + (version == 1 ? 2 : 1), (uint64_t)(b->size - b->message - head), 2);
}

static inline void hdf5_end_header(hdf5_bytes *b, int version)
{
    if (version == 1) {
        hdf5_set(b, b->header + 2, (uint64_t)b->count, 2);
        hdf5_set(b, b->header + 8, (uint64_t)(b->size - b->header - 16), 4);
        return;
    }
    hdf5_set(b, b->header + 6, (uint64_t)(b->size - b->header - 10), 4);
    hdf5_put(b, 0, 4); /* where the checksum is */
}

/* ---- messages ------------------------------------------------------------------------------------------------------- */

static inline void hdf5_shape(hdf5_bytes *b, int version, int rank, const int *sizes)
{
    hdf5_message(b, version, 1);
    hdf5_put(b, (uint64_t)version, 1), hdf5_put(b, (uint64_t)rank, 1), hdf5_put(b, 0, 1);
    hdf5_put(b, version == 2, version == 1 ? 5 : 1);
    for (int i = 0; i < rank; i++)
        hdf5_put(b, (uint64_t)sizes[i], 8);
    hdf5_end_message(b, version);
}

static inline void hdf5_float32(hdf5_bytes *b, int version)
{
    static const unsigned char type[20] = {0x11, 0x20, 31, 0, 4, 0, 0, 0, 0, 0, 32, 0, 23, 8, 0, 23, 127, 0, 0, 0};
    hdf5_message(b, version, 3);
    for (int i = 0; i < 20; i++)
        hdf5_put(b, type[i], 1);
    hdf5_end_message(b, version);
}

static inline void hdf5_elements(hdf5_bytes *b, int from, int count)
{
    for (int i = from; i < from + count; i++) {
        const float value = (float)i;
        uint32_t bits;
        memcpy(&bits, &value, 4);
        hdf5_put(b, bits, 4);
    }
}

/* A data set whose elements are where they are written now. */
static inline int64_t hdf5_contiguous(hdf5_bytes *b, int rank, const int *sizes, int count)
{
    hdf5_align(b);
    const int64_t at = b->size;
    hdf5_elements(b, 0, count);
    const int64_t header = hdf5_header(b, 1);
    hdf5_shape(b, 1, rank, sizes);
    hdf5_float32(b, 1);
    hdf5_message(b, 1, 8);
    hdf5_put(b, 3, 1), hdf5_put(b, 1, 1), hdf5_put(b, (uint64_t)at, 8), hdf5_put(b, 4 * (uint64_t)count, 8);
    hdf5_end_message(b, 1);
    hdf5_end_header(b, 1);
    return header;
}

/* A key of four to seven letters, a value of at most eight. */
static inline void hdf5_attribute(hdf5_bytes *b, const char *key, const char *value)
{
    hdf5_message(b, 1, 12);
    hdf5_put(b, 1, 2), hdf5_put(b, strlen(key) + 1, 2), hdf5_put(b, 8, 2), hdf5_put(b, 8, 2);
    hdf5_text(b, key, 8);
    hdf5_put(b, 0x13, 4), hdf5_put(b, 8, 4); /* eight characters */
    hdf5_put(b, 1, 8);                       /* no axes */
    hdf5_text(b, value, 8);
    hdf5_end_message(b, 1);
}

/* ---- the old form --------------------------------------------------------------------------------------------------- */

/* A symbol table: names, leaf, tree, then the header with an attribute `name`, NULL: without. */
static inline int64_t hdf5_table(hdf5_bytes *b, int count, const char *const *names, const int64_t *objects,
                                 const char *name)
{
    hdf5_align(b);
    const int64_t texts = b->size;
    for (int i = 0; i <= count; i++)
        hdf5_text(b, i ? names[i - 1] : "", 8);
    const int64_t heap = b->size;
    hdf5_text(b, "HEAP", 8), hdf5_put(b, 8 * (uint64_t)(count + 1), 8), hdf5_put(b, 1, 8),
        hdf5_put(b, (uint64_t)texts, 8);
    const int64_t leaf = b->size;
    hdf5_text(b, "SNOD", 4), hdf5_put(b, 1, 2), hdf5_put(b, (uint64_t)count, 2);
    for (int i = 0; i < count; i++)
        hdf5_put(b, 8 * (uint64_t)(i + 1), 8), hdf5_put(b, (uint64_t)objects[i], 8), hdf5_put(b, 0, 24);
    const int64_t tree = b->size;
    hdf5_text(b, "TREE", 6), hdf5_put(b, 1, 2), hdf5_put(b, UINT64_MAX, 8), hdf5_put(b, UINT64_MAX, 8);
    hdf5_put(b, 0, 8), hdf5_put(b, (uint64_t)leaf, 8), hdf5_put(b, 8 * (uint64_t)count, 8);
    const int64_t header = hdf5_header(b, 1);
    hdf5_message(b, 1, 17);
    hdf5_put(b, (uint64_t)tree, 8), hdf5_put(b, (uint64_t)heap, 8);
    hdf5_end_message(b, 1);
    if (name)
        hdf5_attribute(b, "name", name);
    hdf5_attribute(b, "note", "no name"), hdf5_attribute(b, "class", "no type");
    hdf5_end_header(b, 1);
    return header;
}

static inline void hdf5_old(hdf5_bytes *b)
{
    static const int two[] = {2, 3}, one[] = {3};
    static const char *const arrays[] = {"0", "1"}, *const groups[] = {"vars"};
    *b = (hdf5_bytes){0};
    hdf5_text(b, "\x89HDF\r\n\x1a\n", 13);
    hdf5_put(b, 8, 1), hdf5_put(b, 8, 2), hdf5_put(b, 4, 2), hdf5_put(b, 16, 2), hdf5_put(b, 0, 12);
    hdf5_put(b, UINT64_MAX, 8), hdf5_put(b, 0, 8), hdf5_put(b, UINT64_MAX, 8), hdf5_put(b, 0, 40);
    int64_t objects[2];
    objects[0] = hdf5_contiguous(b, 2, two, 6), objects[1] = hdf5_contiguous(b, 1, one, 3);
    objects[0] = hdf5_table(b, 2, arrays, objects, "first");
    const int64_t root = hdf5_table(b, 1, groups, objects, NULL);
    hdf5_set(b, 40, (uint64_t)b->size, 8);
    hdf5_set(b, 64, (uint64_t)root, 8);
}

/* ---- the new form --------------------------------------------------------------------------------------------------- */

static inline void hdf5_link_to(hdf5_bytes *b, const char *name, int64_t object)
{
    hdf5_message(b, 2, 6);
    hdf5_put(b, 1, 2), hdf5_put(b, strlen(name), 1), hdf5_text(b, name, (int)strlen(name)),
        hdf5_put(b, (uint64_t)object, 8);
    hdf5_end_message(b, 2);
}

/* Two columns of (2, 3) from column `first` on, shuffled, in zlib's form without compression: *size bytes. */
static inline int64_t hdf5_piece(hdf5_bytes *b, int first, uint64_t *size)
{
    hdf5_bytes plain = {0};
    unsigned char shuffled[16];
    uint32_t low = 1, high = 0;
    for (int row = 0; row < 2; row++)
        for (int column = first; column < first + 2; column++)
            hdf5_elements(&plain, column < 3 ? 3 * row + column : 99, 1);
    for (int i = 0; i < 16; i++)
        shuffled[i] = plain.bytes[i % 4 * 4 + i / 4];
    const int64_t at = b->size;
    hdf5_put(b, 0x0178, 2), hdf5_put(b, 1, 1), hdf5_put(b, 16, 2), hdf5_put(b, 0xffef, 2);
    for (int i = 0; i < 16; i++) {
        hdf5_put(b, shuffled[i], 1);
        low = (low + shuffled[i]) % 65521, high = (high + low) % 65521;
    }
    for (int i = 0; i < 4; i++)
        hdf5_put(b, (high << 16 | low) >> (24 - 8 * i) & 255, 1);
    *size = (uint64_t)(b->size - at);
    return at;
}

/* Chunks of (2, 2): the second one is half outside. */
static inline int64_t hdf5_chunked(hdf5_bytes *b)
{
    static const int sizes[] = {2, 3};
    uint64_t size[2];
    const int64_t piece[2] = {hdf5_piece(b, 0, &size[0]), hdf5_piece(b, 2, &size[1])}, tree = b->size;
    hdf5_text(b, "TREE", 4), hdf5_put(b, 1, 2), hdf5_put(b, 2, 2), hdf5_put(b, UINT64_MAX, 8),
        hdf5_put(b, UINT64_MAX, 8);
    for (int i = 0; i < 2; i++) {
        hdf5_put(b, size[i], 8), hdf5_put(b, 0, 8), hdf5_put(b, 2 * (uint64_t)i, 8), hdf5_put(b, 0, 8);
        hdf5_put(b, (uint64_t)piece[i], 8);
    }
    hdf5_put(b, 0, 8), hdf5_put(b, 2, 8), hdf5_put(b, 0, 8), hdf5_put(b, 0, 8);
    const int64_t header = hdf5_header(b, 2);
    hdf5_shape(b, 2, 2, sizes);
    hdf5_float32(b, 2);
    hdf5_message(b, 2, 8);
    hdf5_put(b, 3, 1), hdf5_put(b, 2, 1), hdf5_put(b, 3, 1), hdf5_put(b, (uint64_t)tree, 8);
    hdf5_put(b, 2, 4), hdf5_put(b, 2, 4), hdf5_put(b, 4, 4);
    hdf5_end_message(b, 2);
    hdf5_message(b, 2, 11);
    hdf5_put(b, 2, 1), hdf5_put(b, 2, 1);
    for (int filter = 2; filter >= 1; filter--) /* shuffle, then deflate, with one value each */
        hdf5_put(b, (uint64_t)filter, 2), hdf5_put(b, 0, 2), hdf5_put(b, 1, 2), hdf5_put(b, 4, 4);
    hdf5_end_message(b, 2);
    hdf5_end_header(b, 2);
    return header;
}

static inline void hdf5_new(hdf5_bytes *b)
{
    static const int three[] = {3};
    *b = (hdf5_bytes){0};
    hdf5_text(b, "\x89HDF\r\n\x1a\n", 8);
    hdf5_put(b, 2, 1), hdf5_put(b, 8, 1), hdf5_put(b, 8, 2), hdf5_put(b, 0, 8), hdf5_put(b, UINT64_MAX, 8),
        hdf5_put(b, 0, 20);
    const int64_t x = hdf5_chunked(b), y = hdf5_header(b, 2);
    hdf5_shape(b, 2, 1, three);
    hdf5_float32(b, 2);
    hdf5_message(b, 2, 8);
    hdf5_put(b, 3, 1), hdf5_put(b, 0, 1), hdf5_put(b, 12, 2), hdf5_elements(b, 0, 3);
    hdf5_end_message(b, 2);
    hdf5_end_header(b, 2);
    const int64_t group = hdf5_header(b, 2);
    hdf5_link_to(b, "x", x), hdf5_link_to(b, "y", y);
    hdf5_end_header(b, 2);
    const int64_t root = hdf5_header(b, 2);
    hdf5_link_to(b, "a", group);
    hdf5_end_header(b, 2);
    hdf5_set(b, 28, (uint64_t)b->size, 8);
    hdf5_set(b, 36, (uint64_t)root, 8);
}

#endif
